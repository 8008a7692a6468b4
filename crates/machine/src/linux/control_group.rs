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
pub(super) enum Version {
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
    /// Memory nodes that a group is given: version 1 hands none down, and version 2 those of the place, which may be more than ours.
    memory: Option<String>,
}

/// Why no group with a cpuset can be made for this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// No hierarchy has the controller, or no group around ours hands it down.
    NoController,
    /// Nearest to ours is a group beyond one with this file, a limit that whoever left our group would escape.
    Limited(PathBuf),
}

/// What a group of version 2 may be held to, which holds for whatever is below it and for nothing else; `max` is no limit.
const LIMITS: [&str; 5] = ["memory.max", "memory.high", "memory.swap.max", "pids.max", "cpu.max"];

impl CpusetParent {
    /// The place of this process.
    ///
    /// In version 1 that is its own group. In version 2 a group has processes or hands controllers down, but not both, unless it is the
    /// root (Documentation/admin-guide/cgroup-v2.rst, "No Internal Process Constraint"): ours has us, so that it is a group around it. What is made
    /// there is outside of ours and of what lies between, whose limits it would escape. Hence there must be none.
    ///
    /// # Errors
    /// [`NoPlace`] where there is none.
    pub fn here() -> Result<Self, NoPlace> {
        let (groups, mounts) = read().ok_or(NoPlace::NoController)?;
        Self::among(&groups, &mounts)
    }

    fn among(groups: &str, mounts: &str) -> Result<Self, NoPlace> {
        if let Some(folder) = folders(groups, mounts, "cpuset", Version::V1).into_iter().next() {
            let memory = read_word(folder.join("cpuset.mems")).ok_or(NoPlace::NoController)?;
            return Ok(Self { folder, memory: Some(memory) });
        }
        let around = folders(groups, mounts, "cpuset", Version::V2);
        let place = place(&around, "cpuset")?;
        let limits = around[..place].iter().flat_map(|folder| LIMITS.map(|name| folder.join(name)));
        let is_limit = |file: &PathBuf| read_word(file).is_some_and(|text| !text.starts_with("max"));
        if let Some(limit) = limits.into_iter().find(is_limit) {
            return Err(NoPlace::Limited(limit));
        }
        // Of a group that isn't told, what a group around it may use; ours may be held to fewer nodes than the place is.
        let memory = around.iter().find_map(|folder| read_word(folder.join("cpuset.mems.effective")));
        Ok(Self { folder: around[place].clone(), memory: memory.filter(|nodes| !nodes.is_empty()) })
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
    /// What the kernel says. Also when it gives others, as version 2 does without a word where a group around this one lacks some: with
    /// none of them, all that the group around it has.
    pub fn set(&self, cpus: &CpuSet) -> io::Result<()> {
        fs::write(self.folder.join("cpuset.cpus"), cpus.to_string())?;
        match read_word(self.folder.join("cpuset.cpus.effective")).map(|given| (given.parse::<CpuSet>(), given)) {
            Some((parsed, given)) if parsed.as_ref().ok() != Some(cpus) => {
                Err(io::Error::other(format!("of CPUs {cpus} the kernel gives {given}")))
            }
            _ => Ok(()),
        }
    }

    /// A process becomes one of it, and so do all that it starts.
    ///
    /// # Errors
    /// What the kernel says: that it is gone, mostly.
    pub fn adopt(&self, pid: Pid) -> io::Result<()> {
        adopt(&self.folder, pid)
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

/// A process becomes one of the group with this folder.
pub(super) fn adopt(folder: &Path, pid: Pid) -> io::Result<()> {
    fs::write(folder.join("cgroup.procs"), pid.0.to_string())
}

/// The position among groups of version 2 of the first one that hands a controller down.
pub(super) fn place(groups: &[PathBuf], controller: &str) -> Result<usize, NoPlace> {
    let hands_down = |folder: &PathBuf| {
        let controllers = read_word(folder.join("cgroup.subtree_control")).unwrap_or_default();
        controllers.split_whitespace().any(|name| name == controller)
    };
    groups.iter().position(hands_down).ok_or(NoPlace::NoController)
}

/// Our groups and the file systems that show them, as text.
pub(super) fn read() -> Option<(String, String)> {
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
pub(super) fn folders(groups: &str, mounts: &str, controller: &str, version: Version) -> Vec<PathBuf> {
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

    /// A hierarchy of version 2 in a folder, with these files in groups from its root on, and our group being the last one.
    fn v2(groups: &[(&str, &[(&str, &str)])]) -> (tempfile::TempDir, String, String) {
        let root = tempfile::tempdir().unwrap();
        for (group, files) in groups {
            let folder = root.path().join(group);
            fs::create_dir_all(&folder).unwrap();
            files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
        }
        let mounts = format!("29 23 0:26 / {} rw,nosuid - cgroup2 cgroup2 rw\n", root.path().display());
        let own = format!("0::/{}\n", groups.last().unwrap().0);
        (root, own, mounts)
    }

    const HANDED_DOWN: (&str, &str) = ("cgroup.subtree_control", "cpuset cpu memory\n");
    const NOTHING: (&str, &str) = ("cgroup.subtree_control", "\n");

    #[test]
    fn in_v2_groups_are_made_below_the_innermost_that_hands_cpusets_down() {
        let (root, own, mounts) = v2(&[
            ("", &[HANDED_DOWN, ("cpuset.mems.effective", "0-3\n")]),
            ("user.slice", &[HANDED_DOWN, ("cpuset.mems.effective", "0-1\n")]),
            ("user.slice/s.scope", &[NOTHING, ("memory.max", "max\n"), ("cpu.max", "max 100000\n")]),
        ]);
        let place = CpusetParent::among(&own, &mounts).unwrap();
        assert_eq!((&place.folder, place.memory.as_deref()), (&root.path().join("user.slice"), Some("0-1")));
        let two: CpuSet = "0,2".parse().unwrap();
        let group = place.make("jobs-1", &two).unwrap();
        let told = |name: &str| fs::read_to_string(root.path().join("user.slice/jobs-1").join(name)).unwrap();
        assert_eq!((told("cpuset.cpus"), told("cpuset.mems")), (two.to_string(), "0-1".into()));
        group.adopt(Pid(4711)).unwrap();
        assert_eq!(group.processes(), [Pid(4711)]);
    }

    #[test]
    fn in_v2_nothing_is_made_where_no_group_hands_cpusets_down() {
        let (_root, own, mounts) = v2(&[("", &[("cgroup.subtree_control", "cpu memory")]), ("a", &[NOTHING])]);
        assert_eq!(CpusetParent::among(&own, &mounts), Err(NoPlace::NoController));
        assert_eq!(CpusetParent::among("", ""), Err(NoPlace::NoController));
    }

    #[test]
    fn in_v2_no_limit_is_escaped() {
        for (name, text) in [
            ("memory.max", "1073741824\n"),
            ("pids.max", "100\n"),
            ("cpu.max", "50000 100000\n"),
            ("memory.high", "0\n"),
        ] {
            let (root, own, mounts) = v2(&[
                ("", &[HANDED_DOWN, (name, text)]),
                ("batch", &[NOTHING, (name, text)]),
                ("batch/job", &[NOTHING]),
            ]);
            let limit = root.path().join("batch").join(name);
            assert_eq!(CpusetParent::among(&own, &mounts), Err(NoPlace::Limited(limit)), "{name}");
        }
        // One of the place itself holds for what is made there.
        let (_root, own, mounts) = v2(&[("batch", &[HANDED_DOWN, ("memory.max", "1073741824")]), ("batch/job", &[])]);
        assert!(CpusetParent::among(&own, &mounts).is_ok());
    }

    #[test]
    fn in_v2_cpus_that_the_kernel_does_not_give_are_told() {
        let (root, ..) = v2(&[("jobs", &[("cpuset.cpus.effective", "0-3\n")])]);
        let group = Cpuset { folder: root.path().join("jobs") };
        group.set(&"0-3".parse().unwrap()).unwrap();
        let said = group.set(&"4-5".parse().unwrap()).unwrap_err().to_string();
        assert_eq!(said, "of CPUs 4-5 the kernel gives 0-3");
        // What the kernel shows stays in the folder.
        fs::remove_dir_all(root.path().join("jobs")).unwrap();
    }

    #[test]
    fn no_cgroups_are_no_cpuset() {
        assert!(cpuset_files("", "").is_empty());
        assert!(cpuset_files("garbage\n::::\n", "x - y\n - cgroup2\n").is_empty());
    }
}
