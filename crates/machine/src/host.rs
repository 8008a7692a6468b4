//! Which CPUs of this host we may use, and who keeps us off the others.
//!
//! The kernel's answer to `sched_getaffinity` already is what the inherited mask, the cpuset and the online CPUs have in
//! common, so one system call says what is usable. Files are read only to name the reason for a CPU that is not.

use crate::cpu::{CpuId, CpuSet, MAX_CPU_ID};
use crate::tree::{CpuState, ForbiddenBy};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The CPUs that the kernel lets the calling thread run on.
///
/// # Errors
/// The failure of `sched_getaffinity`; in practice only a seccomp filter causes one.
pub fn allowed_cpus() -> io::Result<CpuSet> {
    const WORD_BITS: usize = libc::c_ulong::BITS as usize;
    // The kernel rejects a buffer smaller than its own masks, whose size it does not tell.
    let mut words: Vec<libc::c_ulong> = vec![0; 1024 / WORD_BITS];
    loop {
        // SAFETY: the pointer and the length in bytes describe one live buffer, which the kernel only writes to; any
        // bit pattern is a valid c_ulong.
        let result = unsafe { libc::sched_getaffinity(0, size_of_val(words.as_slice()), words.as_mut_ptr().cast()) };
        if result == 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) || words.len() * WORD_BITS > MAX_CPU_ID as usize {
            return Err(error);
        }
        words.resize(words.len() * 2, 0);
    }
    let set_bits = words.iter().enumerate().flat_map(|(i, &word)| {
        (0..WORD_BITS).filter(move |bit| word >> bit & 1 == 1).map(move |bit| CpuId((i * WORD_BITS + bit) as u32))
    });
    Ok(set_bits.collect())
}

/// CPUs that are plugged in but switched off, as far as sysfs tells.
pub fn offline_cpus() -> CpuSet {
    let list = |file: &str| -> Option<CpuSet> {
        let path = Path::new("/sys/devices/system/cpu").join(file);
        fs::read_to_string(path).ok()?.parse().ok()
    };
    match (list("present"), list("online")) {
        (Some(present), Some(online)) => present.difference(&online),
        _ => CpuSet::new(),
    }
}

/// Whether `cpu` is usable, given what [`allowed_cpus`] said, and else why not.
pub fn state(cpu: CpuId, allowed: &CpuSet) -> CpuState {
    if allowed.contains(cpu) {
        CpuState::Usable
    } else if offline_cpus().contains(cpu) {
        CpuState::Offline
    } else if Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}")).exists() {
        CpuState::Forbidden(forbidden_by(cpu, cpuset().as_ref()))
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

/// The file that lists the CPUs of our cpuset (cgroup v1 or v2), and those CPUs; none without a cpuset.
pub(crate) fn cpuset() -> Option<(PathBuf, CpuSet)> {
    let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    cpuset_files(&cgroups, &mounts).into_iter().find_map(|file| {
        let cpus = fs::read_to_string(&file).ok()?.parse().ok()?;
        Some((file, cpus))
    })
}

/// The files that may list the CPUs of our cpuset, best first.
///
/// A v1 hierarchy that carries the controller goes before v2, which then can't have it. In v2 a group without the
/// controller has no such file and lives in its parent's cpuset. In a container the path may lead outside of what is
/// mounted; the mount itself is then our group.
fn cpuset_files(cgroups: &str, mounts: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (is_v2, names) in
        [(false, ["cpuset.effective_cpus", "cpuset.cpus"]), (true, ["cpuset.cpus.effective", "cpuset.cpus"])]
    {
        // hierarchy:controllers:path, for v2 `0::path`
        let path = cgroups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let is_ours = if is_v2 {
                id == "0" && controllers.is_empty()
            } else {
                controllers.split(',').any(|name| name == "cpuset")
            };
            is_ours.then_some(path)
        });
        // id parent major:minor root mount-point options ... - type source super-options
        let mount = mounts.lines().find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut after = after.split(' ');
            let (kind, options) = (after.next()?, after.nth(1)?);
            let is_ours = if is_v2 {
                kind == "cgroup2"
            } else {
                kind == "cgroup" && options.split(',').any(|option| option == "cpuset")
            };
            let mut before = before.split(' ').skip(3);
            is_ours.then_some((before.next()?, before.next()?))
        });
        let (Some(path), Some((root, mount))) = (path, mount) else {
            continue;
        };
        let inside = Path::new(path)
            .strip_prefix(root)
            .unwrap_or(Path::new(path))
            .to_string_lossy()
            .trim_start_matches('/')
            .to_owned();
        for group in Path::new(mount).join(&inside).ancestors() {
            files.extend(names.iter().map(|name| group.join(name)));
            if group == Path::new(mount) {
                break;
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(files: &[PathBuf]) -> Vec<&str> {
        files.iter().map(|file| file.to_str().unwrap()).collect()
    }

    #[test]
    fn a_v1_cpuset_is_found_by_its_controller() {
        let cgroups = "9:name=systemd:/\n3:cpu,cpuset:/batch/job7\n0::/ignored\n";
        let mounts = "31 25 0:28 / /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuset\n";
        assert_eq!(
            texts(&cpuset_files(cgroups, mounts))[..3],
            [
                "/sys/fs/cgroup/cpuset/batch/job7/cpuset.effective_cpus",
                "/sys/fs/cgroup/cpuset/batch/job7/cpuset.cpus",
                "/sys/fs/cgroup/cpuset/batch/cpuset.effective_cpus",
            ]
        );
    }

    #[test]
    fn a_v2_group_without_the_controller_falls_back_to_its_parents() {
        let cgroups = "0::/user.slice/session-2.scope\n";
        let mounts = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        let files = cpuset_files(cgroups, mounts);
        assert_eq!(texts(&files)[0], "/sys/fs/cgroup/user.slice/session-2.scope/cpuset.cpus.effective");
        assert_eq!(texts(&files).last(), Some(&"/sys/fs/cgroup/cpuset.cpus"));
    }

    #[test]
    fn in_a_container_the_mount_is_our_group() {
        let cgroups = "0::/docker/abc\n";
        let mounts = "29 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(texts(&cpuset_files(cgroups, mounts))[0], "/sys/fs/cgroup/cpuset.cpus.effective");
    }

    #[test]
    fn no_cgroups_are_no_cpuset() {
        assert!(cpuset_files("", "").is_empty());
        assert!(cpuset_files("garbage\n::::\n", "x - y\n - cgroup2\n").is_empty());
    }

    #[test]
    fn the_kernel_says_on_which_cpus_we_may_run() {
        let allowed = allowed_cpus().unwrap();
        let cpu = allowed.first().expect("a running thread may run somewhere");
        assert_eq!(state(cpu, &allowed), CpuState::Usable);
        assert_eq!(state(CpuId(MAX_CPU_ID), &allowed), CpuState::Absent);
    }
}
