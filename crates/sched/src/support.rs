//! Whether this kernel can run the scheduler, and what is missing when it can't.

use machine::linux::{process, system};
use std::fs;
use std::path::Path;

/// Why the scheduler can't be used here.
#[derive(Debug, thiserror::Error)]
pub enum Unsupported {
    /// The kernel was built without it.
    #[error(
        "this kernel ({0}) has no sched_ext, since /sys/kernel/sched_ext isn't there: it takes Linux 6.13 or later, built \
         with CONFIG_SCHED_CLASS_EXT"
    )]
    NoSchedExt(String),
    /// The kernel doesn't describe its own types.
    #[error(
        "this kernel has no description of its types, /sys/kernel/btf/vmlinux: it must be built with CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf,
    /// The user may not load BPF programs.
    #[error("loading a scheduler takes root (CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN): try again with sudo")]
    NoPrivilege,
    /// Somebody else was first.
    #[error("another scheduler is loaded already, `{0}` in /sys/kernel/sched_ext/root/ops: end it first")]
    Occupied(String),
}

const SCHED_EXT: &str = "/sys/kernel/sched_ext";

/// Whether it can be used, now, by this user.
pub fn check() -> Result<(), Unsupported> {
    if !Path::new(SCHED_EXT).exists() {
        return Err(Unsupported::NoSchedExt(format!("Linux {}", system::kernel_release().unwrap_or_default())));
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(Unsupported::NoBtf);
    }
    if !process::has_capability(CAP_SYS_ADMIN) {
        return Err(Unsupported::NoPrivilege);
    }
    match fs::read_to_string(format!("{SCHED_EXT}/state")) {
        Ok(state) if state.trim() == "enabled" || state.trim() == "enabling" => {
            let name = fs::read_to_string(format!("{SCHED_EXT}/root/ops")).unwrap_or_default();
            Err(Unsupported::Occupied(name.trim().to_owned()))
        }
        _ => Ok(()),
    }
}

/// CAP_SYS_ADMIN: scheduling classes of others can't be changed without it, whatever else BPF takes.
const CAP_SYS_ADMIN: u32 = 21;
