//! Control groups: the cpuset that we live in, and how much CPU time our groups may use (cgroups(7)).

use super::{Pid, read_word};
use crate::cpu::CpuSet;
use procfs::ProcessCGroups;
use procfs::prelude::*;
use procfs::process::MountInfos;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Which of the two interfaces a hierarchy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// One hierarchy for each set of controllers.
    V1,
    /// One for all.
    V2,
}

/// The file that lists the CPUs of our cpuset, and those CPUs; none without a cpuset.
pub fn cpuset() -> Option<(PathBuf, CpuSet)> {
    let (groups, mounts) = read()?;
    cpuset_files(&groups, &mounts).into_iter().find_map(|file| {
        let cpus = read_word(&file)?.parse().ok()?;
        Some((file, cpus))
    })
}

/// The CPU time that our groups may use, in CPUs (1.5 = one and a half); none when unlimited.
pub fn cpu_limit() -> Option<f64> {
    let (groups, mounts) = read()?;
    let number = |folder: &Path, name: &str| read_word(folder.join(name))?.parse::<f64>().ok();
    let limits_v2 = folders(&groups, &mounts, "cpu", Version::V2).into_iter().filter_map(|folder| {
        let text = read_word(folder.join("cpu.max"))?;
        let (quota, period) = text.split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    });
    let limits_v1 = folders(&groups, &mounts, "cpu", Version::V1).into_iter().filter_map(|folder| {
        let quota = number(&folder, "cpu.cfs_quota_us").filter(|quota| *quota > 0.0)?;
        Some(quota / number(&folder, "cpu.cfs_period_us")?)
    });
    // A limit on any group around ours limits us too.
    limits_v2.chain(limits_v1).reduce(f64::min)
}

/// A control group of our own making, whose processes run on the CPUs of its cpuset and on no others.
#[derive(Debug)]
pub struct Cpuset {
    folder: PathBuf,
}

/// Where groups with a cpuset can be made: below our own, or below the innermost around it that hands cpusets down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpusetParent {
    folder: PathBuf,
    /// Memory nodes that a group has to be given, where the interface doesn't hand them down.
    memory: Option<String>,
}

impl CpusetParent {
    /// The place of this process; none where no hierarchy has the controller, or nobody hands it down.
    pub fn here() -> Option<Self> {
        let (groups, mounts) = read()?;
        if let Some(folder) = folders(&groups, &mounts, "cpuset", Version::V1).into_iter().next() {
            let memory = read_word(folder.join("cpuset.mems"))?;
            return Some(Self { folder, memory: Some(memory) });
        }
        let hands_down = |folder: &PathBuf| {
            let controllers = read_word(folder.join("cgroup.subtree_control")).unwrap_or_default();
            controllers.split_whitespace().any(|name| name == "cpuset")
        };
        let folder = folders(&groups, &mounts, "cpuset", Version::V2).into_iter().find(hands_down)?;
        Some(Self { folder, memory: None })
    }

    /// Makes a group with these CPUs. One of that name that is there and empty becomes it.
    ///
    /// # Errors
    /// What the kernel says: `PermissionDenied` to who may not, mostly.
    pub fn make(&self, name: &str, cpus: &CpuSet) -> io::Result<Cpuset> {
        let folder = self.folder.join(name);
        let _ = fs::remove_dir(&folder);
        fs::create_dir(&folder)?;
        let group = Cpuset { folder };
        if let Some(memory) = &self.memory {
            fs::write(group.folder.join("cpuset.mems"), memory)?;
        }
        group.set(cpus)?;
        Ok(group)
    }

    /// Removes groups whose names begin so and that have no process, such as those of a process that was killed.
    pub fn remove_empty(&self, prefix: &str) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

impl Cpuset {
    /// Its processes run on these CPUs from now on.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set(&self, cpus: &CpuSet) -> io::Result<()> {
        fs::write(self.folder.join("cpuset.cpus"), cpus.to_string())
    }

    /// A process becomes one of it, and so do all that it starts.
    ///
    /// # Errors
    /// What the kernel says: that it is gone, mostly.
    pub fn adopt(&self, pid: Pid) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), pid.0.to_string())
    }

    /// Its processes.
    pub fn processes(&self) -> Vec<Pid> {
        let list = read_word(self.folder.join("cgroup.procs")).unwrap_or_default();
        list.lines().filter_map(|line| line.parse().ok().map(Pid)).collect()
    }
}

impl Drop for Cpuset {
    /// It is removed, if none of its processes is left.
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Our groups and the file systems that show them, as text.
fn read() -> Option<(String, String)> {
    Some((fs::read_to_string("/proc/self/cgroup").ok()?, fs::read_to_string("/proc/self/mountinfo").ok()?))
}

/// The files that may list the CPUs of our cpuset, best first.
///
/// A v1 hierarchy that carries the controller goes before v2, which then can't have it. In v2 a group without the
/// controller has no such file and lives in its parent's cpuset.
fn cpuset_files(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let files = |version, names: [&'static str; 2]| {
        let folders = folders(groups, mounts, "cpuset", version).into_iter();
        folders.flat_map(move |folder| names.map(|name| folder.join(name)))
    };
    files(Version::V1, ["cpuset.effective_cpus", "cpuset.cpus"])
        .chain(files(Version::V2, ["cpuset.cpus.effective", "cpuset.cpus"]))
        .collect()
}

/// The folders of our group and of those around it, innermost first, in the hierarchy of `version` that carries
/// `controller`; empty where there is none.
///
/// In a container the path may lead outside of what is mounted; the mount itself is then our group.
fn folders(groups: &str, mounts: &str, controller: &str, version: Version) -> Vec<PathBuf> {
    let find = || {
        let groups = ProcessCGroups::from_read(groups.as_bytes()).ok()?;
        let group = groups.into_iter().find(|group| match version {
            Version::V1 => group.controllers.iter().any(|name| name == controller),
            Version::V2 => group.hierarchy == 0 && group.controllers.is_empty(),
        })?;
        let mounts = MountInfos::from_read(mounts.as_bytes()).ok()?;
        let mount = mounts.into_iter().find(|mount| match version {
            Version::V1 => mount.fs_type == "cgroup" && mount.super_options.contains_key(controller),
            Version::V2 => mount.fs_type == "cgroup2",
        })?;
        let path = Path::new(&group.pathname);
        let inside = path.strip_prefix(&mount.root).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
        let innermost = mount.mount_point.join(inside);
        Some(innermost.ancestors().take_while(|f| f.starts_with(&mount.mount_point)).map(Path::to_owned).collect())
    };
    find().unwrap_or_default()
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
}
