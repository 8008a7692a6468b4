//! Which CPUs of this host we may use, and who keeps us off the others.
//!
//! The kernel's answer to `sched_getaffinity` already is what the inherited mask, the cpuset and the online CPUs have in
//! common, so one system call says what is usable. Files are read only to name the reason for a CPU that is not.

use crate::cpu::{CpuId, CpuSet};
use crate::linux::{control_group, system};
use crate::tree::{CpuState, ForbiddenBy};
use std::path::PathBuf;

pub use crate::linux::allowed_cpus;

/// Whether `cpu` is usable, given what [`allowed_cpus`] said, and else why not.
pub fn state(cpu: CpuId, allowed: &CpuSet) -> CpuState {
    if allowed.contains(cpu) {
        CpuState::Usable
    } else if system::offline_cpus().contains(cpu) {
        CpuState::Offline
    } else if system::has_cpu(cpu) {
        CpuState::Forbidden(forbidden_by(cpu, control_group::cpuset().as_ref()))
    } else {
        CpuState::Absent
    }
}

/// Who keeps us off an online CPU that `sched_getaffinity` left out, given the cpuset that we live in.
pub(crate) fn forbidden_by(cpu: CpuId, cpuset: Option<&(PathBuf, CpuSet)>) -> ForbiddenBy {
    match cpuset {
        Some((file, cpus)) if !cpus.contains(cpu) => ForbiddenBy::Cpuset(file.clone()),
        _ => ForbiddenBy::AffinityMask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::MAX_CPU_ID;

    #[test]
    fn the_kernel_says_on_which_cpus_we_may_run() {
        let allowed = allowed_cpus().unwrap();
        let cpu = allowed.first().expect("a running thread may run somewhere");
        assert_eq!(state(cpu, &allowed), CpuState::Usable);
        assert_eq!(state(CpuId(MAX_CPU_ID), &allowed), CpuState::Absent);
    }
}
