//! The numbers of the running kernel's fair scheduler, as `/sys/kernel/debug/sched` tells them to root
//! (`Documentation/scheduler/sched-debug.rst`).

use super::read_word;
use std::path::Path;

/// Where debugfs keeps what the scheduler says of itself.
const FOLDER: &str = "/sys/kernel/debug/sched";

/// What the fair scheduler runs with. What the kernel doesn't tell, or not to us, is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FairScheduler {
    /// The slice of a process that asks for none, in ns, on this machine.
    pub base_slice_ns: Option<u64>,
    /// How long what a process has cached is taken to last, in ns.
    pub migration_cost_ns: Option<u64>,
    /// Most processes that one balancing pass looks at.
    pub nr_migrate: Option<u32>,
    /// What control groups weigh on a CPU (`cgroup_mode`, since Linux 7.3).
    pub cgroup_mode: Option<String>,
    /// Its features by name; one that is off has `NO_` before it.
    pub features: Vec<String>,
}

/// The running kernel's.
pub fn fair() -> FairScheduler {
    fair_in(Path::new(FOLDER))
}

fn fair_in(folder: &Path) -> FairScheduler {
    let number = |name: &str| read_word(folder.join(name))?.parse().ok();
    let features = read_word(folder.join("features")).unwrap_or_default();
    // All modes, the one that it is in between brackets.
    let modes = read_word(folder.join("cgroup_mode")).unwrap_or_default();
    let cgroup_mode = modes.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(mode, _)| mode.to_owned());
    FairScheduler {
        cgroup_mode,
        base_slice_ns: number("base_slice_ns"),
        migration_cost_ns: number("migration_cost_ns"),
        nr_migrate: number("nr_migrate").and_then(|number| number.try_into().ok()),
        features: features.split_whitespace().map(str::to_owned).collect(),
    }
}

impl FairScheduler {
    /// Whether a feature is on; none where the kernel has none of that name.
    pub fn feature(&self, name: &str) -> Option<bool> {
        self.features.iter().find_map(|feature| match feature.strip_prefix("NO_").unwrap_or(feature) {
            known if known == name => Some(known == feature),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_the_kernel_tells_is_read_and_what_it_does_not_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(fair_in(folder.path()), FairScheduler::default());
        write("base_slice_ns", "2100000\n");
        write("nr_migrate", "32\n");
        write("cgroup_mode", "up smp (concur) max tasks \n");
        write("features", "PLACE_LAG RUN_TO_PARITY NO_HRTICK \n");
        let fair = fair_in(folder.path());
        assert_eq!((fair.base_slice_ns, fair.migration_cost_ns, fair.nr_migrate), (Some(2_100_000), None, Some(32)));
        assert_eq!(fair.cgroup_mode.as_deref(), Some("concur"));
        let features = ["PLACE_LAG", "HRTICK", "DELAY_DEQUEUE"].map(|name| fair.feature(name));
        assert_eq!(features, [Some(true), Some(false), None]);
    }
}
