//! Cpusets around jobs, so that no thread of theirs can leave its CPUs, not even by binding itself.

use machine::CpuSet;
use machine::linux::control_group::{Cpuset, CpusetParent, NoPlace};
use std::io;
use std::path::PathBuf;

/// What the names of our groups begin with.
const PREFIX: &str = "stayput-share-";

/// Where jobs' cpusets are made.
#[derive(Debug)]
pub struct Cpusets(CpusetParent);

/// Why there can be none.
#[derive(Debug, thiserror::Error)]
pub enum NoCpusets {
    /// Nobody hands the controller down to us.
    #[error(
        "no control group that this process could make one below hands the cpuset controller down (as root: echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control): leave out --cpusets, and threads are bound one by one"
    )]
    NoController,
    /// Jobs would escape a limit.
    #[error(
        "jobs in cpusets would be outside of this process's control group and escape the limit of {}: leave out --cpusets, and threads are bound one by one", .0.display()
    )]
    Limited(PathBuf),
    /// The kernel doesn't let us make one.
    #[error("no cpuset can be made here ({0}): be root, or leave out --cpusets, and threads are bound one by one")]
    Refused(#[source] io::Error),
}

impl Cpusets {
    /// The place for cpusets of jobs on these CPUs, where one has been made and removed to see that it can be.
    ///
    /// # Errors
    /// [`NoCpusets`] says why none can be made.
    pub fn here(cpus: &CpuSet) -> Result<Self, NoCpusets> {
        let parent = CpusetParent::here().map_err(|none| match none {
            NoPlace::NoController => NoCpusets::NoController,
            NoPlace::Limited(limit) => NoCpusets::Limited(limit),
        })?;
        let cpusets = Self(parent);
        // Of allocators that were killed while their jobs ran on, which are done by now.
        cpusets.0.remove_empty(PREFIX);
        cpusets.make("check", cpus).map_err(NoCpusets::Refused)?;
        Ok(cpusets)
    }

    /// One with these CPUs; the name is unique to this process.
    pub(crate) fn make(&self, name: &str, cpus: &CpuSet) -> io::Result<Cpuset> {
        self.0.make(&format!("{PREFIX}{}-{name}", std::process::id()), cpus)
    }
}
