//! Control groups of our own making whose processes share CPU time by weight (cgroups(7), the `cpu` controller).

use super::Pid;
use super::control_group::{NoPlace, Version, adopt, folders, place, read};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a v1 group has where it is given nothing, and a v2 group: both weigh as a process of nice 0 does.
const DEFAULT_SHARES: u64 = 1_024;
const DEFAULT_WEIGHT: u64 = 100;

/// Where groups with a weight can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuGroupParent {
    folder: PathBuf,
    version: Version,
    is_ours: bool,
}

/// A group of our own making. It is removed when it is dropped, if it has no processes and no groups then.
#[derive(Debug)]
pub struct CpuGroup {
    folder: PathBuf,
    version: Version,
}

impl CpuGroupParent {
    /// The place of this process: its own group in version 1, as in version 2 if that is the root, which may have processes beside groups;
    /// else, in version 2, the nearest group around it that hands the controller down.
    ///
    /// # Errors
    /// [`NoPlace`] where there is none.
    pub fn here() -> Result<Self, NoPlace> {
        let (groups, mounts) = read().ok_or(NoPlace::NoController)?;
        Self::among(&groups, &mounts)
    }

    fn among(groups: &str, mounts: &str) -> Result<Self, NoPlace> {
        if let Some(folder) = folders(groups, mounts, "cpu", Version::V1).into_iter().next() {
            return Ok(Self { folder, version: Version::V1, is_ours: true });
        }
        let around = folders(groups, mounts, "cpu", Version::V2);
        if let [root] = &around[..] {
            // Nobody else may have wanted the controller yet. If it isn't to be had, making a group says so.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+cpu");
        }
        let place = place(&around, "cpu")?;
        Ok(Self { folder: around[place].clone(), version: Version::V2, is_ours: place == 0 })
    }

    /// Whether it is the group of this process itself, so that groups that are made there compete with its processes.
    pub fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// Removes the groups, and all within them, that were named by `prefix` and the ID of a process that is gone, and `-` behind that.
    pub fn remove_left(&self, prefix: &str) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let process = name.to_str().and_then(|name| name.strip_prefix(prefix)?.split_once('-'));
            if process.is_some_and(|(process, _)| !Path::new("/proc").join(process).exists()) {
                remove_all(&entry.path());
            }
        }
    }

    /// Makes a group with this weight, where 100 is that of a process of nice 0.
    ///
    /// # Errors
    /// What the kernel says: `PermissionDenied` to who may not, mostly.
    pub fn make(&self, name: &str, weight: u32) -> io::Result<CpuGroup> {
        CpuGroup::new(self.folder.join(name), self.version, weight)
    }
}

/// Removes a group and those within it, unless they have processes.
fn remove_all(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_all(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

impl CpuGroup {
    fn new(folder: PathBuf, version: Version, weight: u32) -> io::Result<Self> {
        fs::create_dir(&folder)?;
        let group = Self { folder, version };
        let weight = u64::from(weight);
        match version {
            Version::V1 => {
                let shares = (weight * DEFAULT_SHARES).div_ceil(DEFAULT_WEIGHT);
                fs::write(group.folder.join("cpu.shares"), shares.to_string())?;
            }
            Version::V2 => fs::write(group.folder.join("cpu.weight"), weight.to_string())?,
        }
        Ok(group)
    }

    /// Makes a group within it, which has no processes of its own from then on (version 2 wants it so).
    ///
    /// # Errors
    /// As [`CpuGroupParent::make`].
    pub fn make(&self, name: &str, weight: u32) -> io::Result<Self> {
        if self.version == Version::V2 {
            fs::write(self.folder.join("cgroup.subtree_control"), "+cpu")?;
        }
        Self::new(self.folder.join(name), self.version, weight)
    }

    /// A process becomes one of it, and so do all that it starts.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn adopt(&self, pid: Pid) -> io::Result<()> {
        adopt(&self.folder, pid)
    }
}

impl Drop for CpuGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_made_where_the_controller_is_handed_down() {
        let root = tempfile::tempdir().unwrap();
        let mounts = format!("29 23 0:26 / {} rw - cgroup2 cgroup2 rw\n", root.path().display());
        let inner = root.path().join("user/app");
        fs::create_dir_all(&inner).unwrap();
        let none = CpuGroupParent::among("0::/user/app\n", &mounts);
        assert_eq!(none, Err(NoPlace::NoController));
        fs::write(root.path().join("user/cgroup.subtree_control"), "memory cpu\n").unwrap();
        let place = CpuGroupParent::among("0::/user/app\n", &mounts).unwrap();
        assert!(!place.is_ours());
        let outer = place.make("a", 50).unwrap();
        let within = outer.make("b", 300).unwrap();
        let text = |path: &str| fs::read_to_string(root.path().join("user").join(path)).unwrap();
        assert_eq!((text("a/cpu.weight"), text("a/b/cpu.weight")), ("50".into(), "300".into()));
        assert_eq!(text("a/cgroup.subtree_control"), "+cpu");
        within.adopt(Pid(7)).unwrap();
        assert_eq!(text("a/b/cgroup.procs"), "7");
    }

    #[test]
    fn in_the_root_groups_are_made_beside_our_processes_and_the_controller_is_asked_for() {
        let root = tempfile::tempdir().unwrap();
        let mounts = format!("29 23 0:26 / {} rw - cgroup2 cgroup2 rw\n", root.path().display());
        // The kernel would list it in its own words.
        let none = CpuGroupParent::among("0::/\n", &mounts);
        assert_eq!(none, Err(NoPlace::NoController));
        assert_eq!(fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap(), "+cpu");
    }

    #[test]
    fn what_a_process_that_is_gone_has_left_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let place = CpuGroupParent { folder: root.path().into(), version: Version::V1, is_ours: true };
        let own = format!("x-{}-a", std::process::id());
        for group in ["x-4194999-a/b", "x-4194999-c", &own, "x-no", "y-4194999-a"] {
            fs::create_dir_all(root.path().join(group)).unwrap();
        }
        place.remove_left("x-");
        let left = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut left: Vec<String> = left.collect();
        left.sort();
        assert_eq!(left, [own.as_str(), "x-no", "y-4194999-a"]);
    }

    #[test]
    fn a_v1_group_has_shares_of_which_1024_are_a_process() {
        let root = tempfile::tempdir().unwrap();
        let mounts = format!("31 25 0:28 / {} rw - cgroup cgroup rw,cpu\n", root.path().display());
        let place = CpuGroupParent::among("3:cpu:/\n", &mounts).unwrap();
        assert!(place.is_ours());
        let _group = place.make("a", 50).unwrap();
        assert_eq!(fs::read_to_string(root.path().join("a/cpu.shares")).unwrap(), "512");
    }
}
