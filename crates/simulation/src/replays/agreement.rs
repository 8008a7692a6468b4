//! What was replayed set beside what was simulated: by how much they differ, and whether they agree.

use super::{Kernel, ReplayPlan};
use crate::metrics::{MISSES, SLICES, WORK};
use crate::results::{Estimated, TimeBin, bin_edges, bins, mean, mean_log_ratio, metrics_of, samples, times};
use replay::Policy;
use serde::{Serialize, Serializer};
use stats::{Metric, Unit};
use std::collections::{BTreeMap, BTreeSet};
use study::Record;
use study::sample::Sample;

/// Two worlds agree on a figure when neither has more than this many times the other's: within 25 %.
pub const AGREE_FACTOR: f64 = 1.25;

/// What both worlds are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// The metric.
    pub metric: Metric,
    /// In words, with its unit.
    pub words: &'static str,
    /// Whether it decides if the two worlds agree.
    pub is_judged: bool,
}

/// Moves of processes from one CPU to another.
pub const MIGRATIONS_PER_S: Metric = Metric::lower("migrations", Unit::PerSecond);
/// Median of the effective time slices.
pub use crate::metrics::SLICE_MEDIAN;
/// The misses of a run for each ms of its work: what runs of different lengths have in common.
const MISSES_PER_MS: Metric = Metric::lower("misses", Unit::PerMs);
/// References to the workload's data that missed the modelled L2.
pub const L2_MISSES: Metric = Metric::lower("l2_misses", Unit::PerThousand);
/// References to the workload's data that missed the modelled L3.
pub const L3_MISSES: Metric = Metric::lower("l3_misses", Unit::PerThousand);
/// The least CPU time of equal processes over the most.
pub const CPU_TIME_RATIO: Metric = Metric::higher("cpu_time_least_over_most", Unit::Index);

const fn quantity(metric: Metric, words: &'static str, is_judged: bool) -> Quantity {
    Quantity { metric, words, is_judged }
}

/// What both worlds are asked for, in the order of reports.
pub const QUANTITIES: [Quantity; 12] = [
    quantity(MIGRATIONS_PER_S, "migrations, a second", true),
    quantity(SLICE_MEDIAN, "median effective slices, ms", true),
    quantity(Metric::neutral("effective_slice_mean", Unit::Ms), "mean effective slices, ms", false),
    quantity(Metric::lower("switches", Unit::PerSecond), "switches, a second", false),
    quantity(Metric::lower("longest_wait", Unit::Ms), "longest wait, ms", false),
    quantity(Metric::lower("wake_late_median", Unit::Ms), "median lateness, ms", false),
    quantity(Metric::lower("wake_late_p999", Unit::Ms), "99.9 % quantile of lateness, ms", false),
    quantity(CPU_TIME_RATIO, "CPU time, least over most", false),
    quantity(Metric::neutral("idle", Unit::Fraction), "idle CPU time, share", false),
    quantity(MISSES_PER_MS, "misses a ms of work", false),
    quantity(L2_MISSES, "L2 misses of 1,000 references, modelled", false),
    quantity(L3_MISSES, "L3 misses of 1,000 references, modelled", false),
];

/// One figure in both worlds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beside {
    /// Its mean in the kernel.
    pub kernel: Option<Estimated>,
    /// Its mean in the simulator.
    pub simulator: Option<Estimated>,
    /// The kernel's over the simulator's: the geometric mean of the replicates' ratios, or where a replicate has 0, the ratio of
    /// the means, without an interval.
    pub ratio: Option<Estimated>,
}

/// What was seen under one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayedPolicy {
    /// The policy.
    pub policy: String,
    /// What stands in for it in the simulator; none where it has nothing of the kind, or wasn't asked.
    pub simulated_by: Option<String>,
    /// Whether both worlds follow the same rule, so that they should agree; else one only stands in for the other.
    pub is_same_rule: bool,
    /// Replays that went well.
    pub replays: u32,
    /// Replays that failed.
    pub failed: u32,
    /// Every metric that all replays have, or all simulated replicates.
    pub metrics: BTreeMap<Metric, Beside>,
    /// Effective time slices in the kernel.
    pub slices: Vec<TimeBin>,
    /// The same in the simulator, in the same bins.
    pub simulated_slices: Vec<TimeBin>,
}

/// Whether the two worlds agree on a quantity, under policies by which both follow the same rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// The metric; serialised by its name.
    #[serde(serialize_with = "name_of")]
    pub metric: Metric,
    /// Policies under which they differ by no more than [`AGREE_FACTOR`].
    pub within: Vec<String>,
    /// The others, and by how much.
    pub beyond: Vec<Disagreement>,
    /// Pairs of policies that the simulator sets apart by more than [`AGREE_FACTOR`].
    pub pairs: u32,
    /// Those of them that the kernel has in the same order.
    pub same_order: u32,
}

/// By how much kernel and simulator differ under a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disagreement {
    /// The policy.
    pub policy: String,
    /// The kernel's figure over the simulator's; none where the simulator has 0.
    pub ratio: Option<Estimated>,
    /// The kernel's figure.
    pub kernel: f64,
}

fn name_of<S: Serializer>(metric: &Metric, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(metric)
}

/// What a study of replays came to.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayResult {
    /// The workload's name.
    pub workload: String,
    /// Where it was replayed.
    pub kernel: Kernel,
    /// Whether it was simulated, too.
    pub is_simulated: bool,
    /// The policies, in the plan's order.
    pub policies: Vec<ReplayedPolicy>,
    /// What the worlds agree on; empty where nothing was simulated.
    pub agreements: Vec<Agreement>,
}

impl ReplayedPolicy {
    /// A figure in both worlds.
    pub fn beside(&self, metric: &Metric) -> Option<&Beside> {
        self.metrics.get(metric)
    }
}

impl Beside {
    /// Whether the worlds agree; none where one has no such figure.
    pub fn agrees(&self) -> Option<bool> {
        let (kernel, simulator) = (self.kernel?.value, self.simulator?.value);
        let ratio = self.ratio.map_or(if kernel == simulator { 1.0 } else { f64::INFINITY }, |ratio| ratio.value);
        Some((1.0 / AGREE_FACTOR..=AGREE_FACTOR).contains(&ratio))
    }
}

/// Sets what was replayed beside what was simulated.
pub(crate) fn replay_result(record: &Record<ReplayPlan>) -> ReplayResult {
    let plan = &record.plan;
    let is_simulated = plan.simulated.is_some();
    let (kernel_subject, simulator_subject) = (plan.kernel_subject(), plan.simulator_subject());
    let measured = |subject: &str, policy: &str| {
        let mut samples = samples(record, subject, policy);
        samples.retain(|sample| sample.result.is_ok());
        samples
    };
    let both: Vec<(&str, Vec<&Sample>, Vec<&Sample>)> = plan
        .policies
        .iter()
        .map(|policy| (policy.as_str(), measured(&kernel_subject, policy), measured(&simulator_subject, policy)))
        .collect();
    let all_slices = both.iter().flat_map(|(_, kernel, simulator)| [kernel, simulator]);
    let edges_ms = bin_edges(all_slices.map(|samples| times(samples, &SLICES)));
    let policy = |(policy, kernel, simulator): &(&str, Vec<&Sample>, Vec<&Sample>)| {
        let known = policy.parse::<Policy>().ok();
        let simulated_by = known.and_then(|policy| plan.simulated_by(policy));
        ReplayedPolicy {
            policy: (*policy).to_owned(),
            is_same_rule: known.is_some_and(Policy::needs_scheduler)
                || simulated_by.is_some_and(sim::Policy::is_kernels),
            simulated_by: simulated_by.map(|policy| policy.name().to_owned()),
            replays: kernel.len() as u32,
            failed: (samples(record, &kernel_subject, policy).len() - kernel.len()) as u32,
            metrics: metrics(kernel, simulator),
            slices: bins(&edges_ms, &SLICES, kernel, kernel),
            simulated_slices: bins(&edges_ms, &SLICES, simulator, simulator),
        }
    };
    let policies: Vec<ReplayedPolicy> = both.iter().map(policy).collect();
    let judged = QUANTITIES.into_iter().filter(|quantity| quantity.is_judged && is_simulated);
    let agreements = judged.map(|quantity| agreement(&policies, quantity.metric)).collect();
    ReplayResult {
        workload: plan.workload.name.clone(),
        kernel: plan.kernel.clone(),
        is_simulated,
        policies,
        agreements,
    }
}

fn value(sample: &Sample, metric: &Metric) -> Option<f64> {
    if *metric == MISSES_PER_MS {
        return Some(sample.value(&MISSES)? / sample.value(&WORK)?);
    }
    sample.value(metric)
}

fn metrics(kernel: &[&Sample], simulator: &[&Sample]) -> BTreeMap<Metric, Beside> {
    let all = [kernel, simulator];
    let misses_per_ms = MISSES_PER_MS;
    let metrics: BTreeSet<&Metric> = all.into_iter().flat_map(metrics_of).chain([&misses_per_ms]).collect();
    let beside = |metric: &Metric| {
        let [of_kernel, of_simulator] = all.map(|samples| mean(samples, metric, value));
        let of_means = of_kernel.zip(of_simulator).filter(|(_, simulator)| simulator.value > 0.0);
        let ratio = mean_log_ratio(kernel, simulator, metric, value).map(|log| log.map(f64::exp)).or_else(|| {
            let ratio = of_means.map(|(kernel, simulator)| kernel.value / simulator.value)?;
            Some(Estimated { value: ratio, low: None, high: None })
        });
        let beside = Beside { kernel: of_kernel, simulator: of_simulator, ratio };
        (of_kernel.is_some() || of_simulator.is_some()).then_some(beside)
    };
    metrics.into_iter().filter_map(|metric| Some((metric.clone(), beside(metric)?))).collect()
}

fn agreement(policies: &[ReplayedPolicy], metric: Metric) -> Agreement {
    let (mut within, mut beyond, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for ReplayedPolicy { policy, metrics, .. } in policies.iter().filter(|policy| policy.is_same_rule) {
        let Some(beside) = metrics.get(&metric) else { continue };
        let Some((kernel, simulator)) = beside.kernel.zip(beside.simulator) else { continue };
        let (policy, ratio, kernel) = (policy.clone(), beside.ratio, kernel.value);
        values.push((kernel, simulator.value));
        match beside.agrees() {
            Some(true) => within.push(policy),
            _ => beyond.push(Disagreement { policy, ratio, kernel }),
        }
    }
    let (mut pairs, mut same_order) = (0, 0);
    for (at, a) in values.iter().enumerate() {
        for b in &values[at + 1..] {
            let (less, more) = if a.1 <= b.1 { (a, b) } else { (b, a) };
            if more.1 > less.1 * AGREE_FACTOR {
                pairs += 1;
                same_order += u32::from(less.0 < more.0);
            }
        }
    }
    Agreement { metric, within, beyond, pairs, same_order }
}
