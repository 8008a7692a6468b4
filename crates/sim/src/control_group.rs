//! The control groups of a workload: processes that share their CPU time among them, whatever their number.

use crate::fault::{Checked, Fault, range};
use crate::workload::Workload;
use std::collections::BTreeSet;

/// The `cpu.weight` of a control group that is given none (Documentation/admin-guide/cgroup-v2.rst, "Weights").
pub const DEFAULT_WEIGHT: u32 = 100;

/// The least and the most `cpu.weight`.
const WEIGHTS: [f64; 2] = [1.0, 10_000.0];

/// Most control groups of a workload: each has a queue on each CPU.
const MOST_GROUPS: f64 = 100.0;

/// A control group of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup<'a> {
    /// Its path below the group in which the workload runs, as in `tenants/web`.
    pub path: &'a str,
    /// The position of the group that it is in; none where that is the group in which the workload runs.
    pub parent: Option<usize>,
    /// Its `cpu.weight`, against that of others in the same group. A process in that group counts as one of
    /// [`DEFAULT_WEIGHT`] there, if its nice value is 0.
    pub cpu_weight: u32,
}

/// The path of the group that a group is in.
fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent)
}

impl Workload {
    /// The groups that its jobs are in and those around these, each behind the one that it is in.
    pub fn control_groups(&self) -> Vec<ControlGroup<'_>> {
        let named = self.jobs.iter().filter_map(|job| job.group.as_deref());
        // In their order, a path comes behind what it begins with.
        let paths: BTreeSet<&str> =
            named.flat_map(|path| std::iter::successors(Some(path), |path| parent(path))).collect();
        let mut groups: Vec<ControlGroup<'_>> = Vec::new();
        for path in paths {
            let around = parent(path).and_then(|parent| groups.iter().position(|group| group.path == parent));
            let cpu_weight = self.cpu_weight.get(path).copied().unwrap_or(DEFAULT_WEIGHT);
            groups.push(ControlGroup { path, parent: around, cpu_weight });
        }
        groups
    }

    /// For each process, by its number, the position of its control group; none in the group in which the workload runs.
    pub fn group_of_processes(&self) -> Vec<Option<usize>> {
        let groups = self.control_groups();
        let position = |path: &str| groups.iter().position(|group| group.path == path);
        let of_jobs: Vec<_> = self.jobs.iter().map(|job| job.group.as_deref().and_then(position)).collect();
        self.job_of_processes().map(|job| of_jobs[job]).collect()
    }

    /// Whether such control groups can be.
    pub(crate) fn check_groups(&self) -> Checked {
        for (number, job) in self.jobs.iter().enumerate() {
            let Some(path) = &job.group else { continue };
            let at = format!("jobs[{number}].group");
            let is_name =
                |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
            if !path.split('/').all(is_name) {
                return Err(Fault::GroupPath(path.clone()).at(at));
            }
            // Of control groups that have a weight only those without groups in them have processes.
            let inside = |other: &str| other.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'));
            if let Some(other) = self.jobs.iter().filter_map(|job| job.group.as_ref()).find(|other| inside(other)) {
                return Err(Fault::GroupWithin(path.clone(), other.clone()).at(at));
            }
        }
        let groups = self.control_groups();
        range(groups.len() as f64, 0.0, MOST_GROUPS, "jobs.group")?;
        for (path, &weight) in &self.cpu_weight {
            if !groups.iter().any(|group| group.path == path) {
                return Err(Fault::EmptyGroup(path.clone()).at("cpu_weight"));
            }
            let [least, most] = WEIGHTS;
            range(f64::from(weight), least, most, &format!("cpu_weight.{path}"))?;
        }
        Ok(())
    }
}
