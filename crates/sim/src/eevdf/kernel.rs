//! The numbers of a kernel's fair scheduler, by the names that the kernel has for them.
//!
//! Most stand in `/sys/kernel/debug/sched` of a running kernel; its documentation tells what they are for
//! (`Documentation/scheduler/sched-eevdf.rst`, `sched-domains.rst`, `sched-debug.rst`). [`KernelParameters::of`] has those of
//! kernels as Debian builds them.

use crate::parameters::{ParameterError, check_ranges};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};
use toml::Table;

/// A kernel whose scheduler is modelled.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(parse_err_ty = ParseReleaseError, parse_err_fn = unknown)]
pub enum Release {
    /// The first with EEVDF: who sleeps leaves its queue at once, and slices are the same for all.
    #[serde(rename = "6.6")]
    #[strum(serialize = "6.6")]
    Linux6_6,
    /// Who sleeps with negative lag stays in its queue until it is eligible, and a process can ask for a slice of its own.
    #[serde(rename = "6.12")]
    #[strum(serialize = "6.12")]
    Linux6_12,
    /// The base slice is shorter, slices end to the moment and not with a tick, who runs is protected for the shortest slice in its queue,
    /// processes of control groups are in one queue with all others, and cache-aware balancing (`SCHED_CACHE`) can be switched on.
    #[default]
    #[serde(rename = "7.3")]
    #[strum(serialize = "7.3")]
    Linux7_3,
}

/// A text that names no kernel whose scheduler is modelled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the fair scheduler of kernel `{0}` is not modelled: name 6.6, 6.12 or 7.3, the newest of them that is no newer than it"
)]
pub struct ParseReleaseError(String);

fn unknown(text: &str) -> ParseReleaseError {
    ParseReleaseError(text.into())
}

impl Release {
    /// Its number.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The newest modelled one that is no newer than a kernel's release, such as `6.12.41+deb13-amd64`; none for kernels
    /// before EEVDF and for texts that name no release.
    pub fn modelling(release: &str) -> Option<Self> {
        let number = |release: &str| {
            let mut parts = release.split(|c: char| !c.is_ascii_digit());
            Some((parts.next()?.parse::<u32>().ok()?, parts.next()?.parse::<u32>().ok()?))
        };
        let asked = number(release)?;
        Self::VARIANTS.iter().rev().copied().find(|known| number(known.name()).is_some_and(|known| known <= asked))
    }
}

/// How the base slice grows with the number of CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TunableScaling {
    /// Not at all.
    None,
    /// By 1 + log2 of up to eight CPUs.
    #[default]
    Logarithmic,
    /// In proportion to up to eight CPUs.
    Linear,
}

/// What a control group weighs on a CPU, of its `cpu.weight` and of what competes in it there and anywhere: `cgroup_mode` of Linux 7.3
/// (Zijlstra, "sched/fair: Add cgroup_mode switch" and the changes after it). The fifth, `tasks`, is not modelled.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, VariantArray, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CgroupMode {
    /// All of its weight.
    Up,
    /// Of its weight the fraction that competes there: the only way before 7.3.
    Smp,
    /// That, times its runnable processes, but no more than there are CPUs.
    #[default]
    Concur,
    /// That fraction, times the CPUs, but no more than nice -20 has.
    Max,
}

/// The numbers of a kernel's fair scheduler. Read from a table, what it leaves out is that of its `release`, or of the newest
/// kernel that is modelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct KernelParameters {
    /// The kernel that is modelled, which every report names.
    pub release: Release,
    /// Clock ticks a second on each CPU (`CONFIG_HZ`).
    pub hz: u32,
    /// `HRTICK`: a timer ends slices to the moment, and not the first tick after it.
    pub hrtick: bool,
    /// The base slice of one CPU, in ns, which `tunable_scaling` makes that of the machine.
    pub normalized_base_slice_ns: u64,
    /// The base slice of the machine, in ns, where it is known: what `base_slice_ns` says in a running kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_slice_ns: Option<u64>,
    /// How the base slice grows with the CPUs.
    pub tunable_scaling: TunableScaling,
    /// A process that ran within so many ns is taken to have its data cached still, and is not moved by balancing.
    pub migration_cost_ns: u64,
    /// Most processes that one balancing pass looks at.
    pub nr_migrate: u32,
    /// How long a newly idle CPU's search takes among the threads of a core, under one last-level cache, and beyond, in ns: it isn't
    /// begun by CPUs that are idle for less. No time passes for it.
    pub max_newidle_lb_cost_ns: [u64; 3],
    /// A busy CPU balances a level so many times less often than an idle one.
    pub busy_factor: u32,
    /// By how many percent a group must be busier than one's own before load is moved: among the threads of a core, under one
    /// last-level cache, and beyond.
    pub imbalance_pct: [u32; 3],
    /// How often balancing must have failed before hot processes are moved, at the same levels.
    pub cache_nice_tries: [u32; 3],
    /// `RUN_TO_PARITY`: who runs is not preempted at a wake-up while it is eligible and its slice lasts.
    pub run_to_parity: bool,
    /// `PREEMPT_SHORT`: but by who has asked for a shorter slice it is.
    pub preempt_short: bool,
    /// Whether `RUN_TO_PARITY` protects for no longer than the shortest slice of who is in the queue.
    pub protect_shortest: bool,
    /// `PLACE_LAG`: who wakes has the lag that it had when it went to sleep.
    pub place_lag: bool,
    /// `PLACE_DEADLINE_INITIAL`: the first request of a new process is half a slice.
    pub place_deadline_initial: bool,
    /// `DELAY_DEQUEUE`: who sleeps with negative lag competes on until it is eligible.
    pub delay_dequeue: bool,
    /// Whether a process can ask for a slice of its own (`sched_setattr`, 0.1 to 100 ms).
    pub own_slices: bool,
    /// Whether a yield ends the request as if all of it had been used.
    pub yield_forfeits: bool,
    /// Whether the processes of all control groups are in one queue, each with the weight that its groups leave it; else each group has a
    /// queue on each CPU, and is in the one around it.
    pub single_queue: bool,
    /// What a control group weighs on a CPU.
    pub cgroup_mode: CgroupMode,
    /// `llc_balancing/overaggr_pct`: how full, in percent of its CPUs, cache-aware balancing makes a last-level cache at most.
    pub overaggr_pct: u32,
}

impl Default for KernelParameters {
    fn default() -> Self {
        Self::of(Release::default())
    }
}

impl Serialize for KernelParameters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for KernelParameters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = Table::deserialize(deserializer)?;
        let release = given.get("release").map(|release| Release::deserialize(release.clone()));
        let release = release.transpose().map_err(D::Error::custom)?.unwrap_or_default();
        let mut whole = Table::try_from(Self::of(release)).map_err(D::Error::custom)?;
        whole.extend(given);
        Self::deserialize(whole).map_err(D::Error::custom)
    }
}

/// The longest and the shortest slice that a process can ask for, in ms (`sched_setattr(2)`).
pub const OWN_SLICE_MS: [f64; 2] = [0.1, 100.0];

impl KernelParameters {
    /// Those of a kernel as Debian builds it. Read in a guest of 7.3.4: base slice, features, `migration_cost_ns`, `nr_migrate`,
    /// `busy_factor`, `imbalance_pct`, `cache_nice_tries` (between nodes that guest had 2). Of 6.6 and 6.12 no guest was
    /// looked at: what differs is from memory, the rest is taken to be the same. So is, for 7.3, what a yield and a protected slice do.
    pub fn of(release: Release) -> Self {
        let since = |first: Release| release >= first;
        Self {
            release,
            hz: 250,
            hrtick: since(Release::Linux7_3),
            normalized_base_slice_ns: if since(Release::Linux7_3) { 700_000 } else { 750_000 },
            base_slice_ns: None,
            tunable_scaling: TunableScaling::Logarithmic,
            migration_cost_ns: 500_000,
            nr_migrate: 32,
            max_newidle_lb_cost_ns: [0; 3],
            busy_factor: 16,
            imbalance_pct: [110, 117, 117],
            cache_nice_tries: [0, 1, 1],
            run_to_parity: true,
            preempt_short: since(Release::Linux6_12),
            protect_shortest: since(Release::Linux7_3),
            place_lag: true,
            place_deadline_initial: true,
            delay_dequeue: since(Release::Linux6_12),
            own_slices: since(Release::Linux6_12),
            yield_forfeits: since(Release::Linux7_3),
            single_queue: since(Release::Linux7_3),
            cgroup_mode: if since(Release::Linux7_3) { CgroupMode::Concur } else { CgroupMode::Smp },
            overaggr_pct: 50,
        }
    }

    /// Whether one can simulate with them.
    pub(crate) fn check(&self) -> Result<(), ParameterError> {
        let second_ns = 1e9;
        check_ranges(&[
            ("kernel.hz", f64::from(self.hz), 1.0, 100_000.0),
            ("kernel.normalized_base_slice_ns", self.normalized_base_slice_ns as f64, 1e3, second_ns),
            ("kernel.base_slice_ns", self.base_slice_ns.unwrap_or(1_000_000) as f64, 1e3, second_ns),
            ("kernel.migration_cost_ns", self.migration_cost_ns as f64, 0.0, second_ns),
            ("kernel.max_newidle_lb_cost_ns", self.max_newidle_lb_cost_ns.iter().sum::<u64>() as f64, 0.0, second_ns),
            ("kernel.nr_migrate", f64::from(self.nr_migrate), 1.0, 1e6),
            ("kernel.busy_factor", f64::from(self.busy_factor), 1.0, 1e6),
            ("kernel.imbalance_pct", f64::from(self.imbalance_pct.into_iter().min().unwrap_or_default()), 100.0, 1e6),
            (
                "kernel.cache_nice_tries",
                f64::from(self.cache_nice_tries.into_iter().max().unwrap_or_default()),
                0.0,
                1e6,
            ),
            ("kernel.overaggr_pct", f64::from(self.overaggr_pct), 1.0, 1e6),
        ])
    }

    /// From one clock tick of a CPU to the next, in ns.
    pub fn tick_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.hz)
    }

    /// The same in an emulated machine. 7.3.4 under qemu (2 x 4 cores of 2 threads, one boot on a busy host) told of 1.4 ms among
    /// threads and 3.5 ms under a last-level cache. Beyond it had hardly searched yet: the same is assumed there.
    pub fn emulated(self) -> Self {
        Self { max_newidle_lb_cost_ns: [1_400_000, 3_500_000, 3_500_000], ..self }
    }

    /// The longest that an average of idle times gets, in ns: what is worth any search is not told apart.
    pub(crate) fn most_idle_ns(&self) -> u64 {
        2 * self.max_newidle_lb_cost_ns.iter().sum::<u64>().max(self.migration_cost_ns)
    }

    /// The slice on a machine with so many CPUs of a process that asks for none, in ns.
    pub fn base_slice_on_ns(&self, cpus: usize) -> u64 {
        let cpus = cpus.clamp(1, 8) as u64;
        let factor = match self.tunable_scaling {
            TunableScaling::None => 1,
            TunableScaling::Logarithmic => 1 + u64::from(cpus.ilog2()),
            TunableScaling::Linear => cpus,
        };
        self.base_slice_ns.unwrap_or(self.normalized_base_slice_ns * factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_slice_grows_as_kernels_say() {
        let kernel = KernelParameters::default();
        // Seen in 7.3.4: 2,100,000 with 4 CPUs.
        let slices = [1, 2, 4, 6, 8, 128].map(|cpus| kernel.base_slice_on_ns(cpus));
        assert_eq!(slices, [700_000, 1_400_000, 2_100_000, 2_100_000, 2_800_000, 2_800_000]);
        assert_eq!(KernelParameters::of(Release::Linux6_12).base_slice_on_ns(8), 3_000_000);
    }

    #[test]
    fn what_a_table_leaves_out_is_that_of_its_release() {
        let read = |text: &str| toml::from_str::<KernelParameters>(text).map_err(|error| error.message().to_owned());
        assert_eq!(read(""), Ok(KernelParameters::default()));
        let of_6_6 = KernelParameters::of(Release::Linux6_6);
        assert_eq!(read("release = \"6.6\"\nhz = 1000"), Ok(KernelParameters { hz: 1_000, ..of_6_6.clone() }));
        assert_eq!(read(&toml::to_string(&of_6_6).unwrap()), Ok(of_6_6));
        assert!(read("nr_migrates = 3").unwrap_err().contains("unknown field `nr_migrates`"));
    }

    #[test]
    fn a_release_is_modelled_by_the_newest_that_is_no_newer() {
        let modelled = |release| Release::modelling(release).map(Release::name);
        assert_eq!(modelled("7.3.4+deb13-cloud-amd64"), Some("7.3"));
        assert_eq!(modelled("6.18.5"), Some("6.12"));
        assert_eq!(modelled("6.8.0-generic"), Some("6.6"));
        assert_eq!((modelled("6.1.0"), modelled("plan 9")), (None, None));
    }
}
