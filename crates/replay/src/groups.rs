//! The control groups in which a replay's processes are, of the kernel.

use crate::ReplayError;
use machine::linux::Pid;
use machine::linux::control_group::NoPlace;
use machine::linux::cpu_group::{CpuGroup, CpuGroupParent};
use sim::Workload;
use std::io;

/// What names of groups begin with; the number of the process that makes them follows, so that those of one that was killed are known.
const PREFIX: &str = "stayput-replay-";

/// The groups of a workload. They are removed when this is dropped, behind their processes' ends.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// In the order of [`Workload::control_groups`].
    groups: Vec<CpuGroup>,
    /// By process, the position of its group.
    of: Vec<Option<usize>>,
}

impl Groups {
    /// Makes the groups of a workload; none where it has none.
    pub(crate) fn make(workload: &Workload) -> Result<Self, ReplayError> {
        let described = workload.control_groups();
        let mut made = Self { groups: Vec::new(), of: workload.group_of_processes() };
        if described.is_empty() {
            return Ok(made);
        }
        let place = CpuGroupParent::here().map_err(|none| {
            ReplayError::ControlGroups(match none {
                NoPlace::NoController => "no control group around this process hands the cpu controller down".into(),
                NoPlace::Limited(limit) => format!("they would escape the limit of {}", limit.display()),
            })
        })?;
        if !place.is_ours() && made.of.contains(&None) {
            let sentence = "beside them there are jobs without a `group`, which this process's own control group can't have beside other groups: give all jobs one";
            return Err(ReplayError::ControlGroups(sentence.into()));
        }
        place.remove_left(PREFIX);
        for group in described {
            let name = group.path.rsplit('/').next().unwrap_or(group.path);
            let group = match group.parent {
                // Unique to this replay.
                None => place.make(&format!("{PREFIX}{}-{name}", std::process::id()), group.cpu_weight),
                Some(parent) => made.groups[parent].make(name, group.cpu_weight),
            };
            made.groups.push(group.map_err(|error| ReplayError::ControlGroups(format!("the kernel says: {error}")))?);
        }
        Ok(made)
    }

    /// The calling process becomes one of the group of the process with this number.
    pub(crate) fn enter(&self, process: usize) -> io::Result<()> {
        match self.of.get(process).copied().flatten() {
            Some(group) => self.groups[group].adopt(Pid(std::process::id().cast_signed())),
            None => Ok(()),
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // Those within others go first.
        while self.groups.pop().is_some() {}
    }
}
