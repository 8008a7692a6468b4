//! Whether this kernel can run the scheduler, and what is missing when it can't.

use anyhow::{bail, ensure};
use machine::linux::{process, system};
use std::fs;
use std::path::Path;

const SCHED_EXT: &str = "/sys/kernel/sched_ext";

/// Whether it can be used, now, by this user; else what is missing.
pub fn check() -> anyhow::Result<()> {
    let release = system::kernel_release().unwrap_or_default();
    ensure!(
        Path::new(SCHED_EXT).exists(),
        "this kernel (Linux {release}) has no sched_ext, since {SCHED_EXT} isn't there: it takes Linux 6.13 or later, built \
         with CONFIG_SCHED_CLASS_EXT"
    );
    ensure!(
        Path::new("/sys/kernel/btf/vmlinux").exists(),
        "this kernel has no description of its types, /sys/kernel/btf/vmlinux: it must be built with CONFIG_DEBUG_INFO_BTF"
    );
    ensure!(
        process::has_capability(CAP_SYS_ADMIN),
        "loading a scheduler takes root (CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN): try again with sudo"
    );
    let state = fs::read_to_string(format!("{SCHED_EXT}/state")).unwrap_or_default();
    if ["enabled", "enabling"].contains(&state.trim()) {
        let name = fs::read_to_string(format!("{SCHED_EXT}/root/ops")).unwrap_or_default();
        bail!("another scheduler is loaded already, `{}` in {SCHED_EXT}/root/ops: end it first", name.trim());
    }
    Ok(())
}

/// CAP_SYS_ADMIN: scheduling classes of others can't be changed without it, whatever else BPF takes.
const CAP_SYS_ADMIN: u32 = 21;
