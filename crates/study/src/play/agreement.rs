//! What was played set beside what was simulated: by how much they differ, and whether they agree.

use super::{Kernel, played, simulated};
use crate::record::Record;
use crate::simulation::{self, Estimated, SLICES, TimeBin};
use crate::trial::Trial;
use kernel::play::Policy;
use kernel::play::account::CPU_TIME_RATIO;
use kernel::play::modelled::{L2_MISSES, L3_MISSES};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Two worlds agree on a figure when neither has more than this many times the other's: within 25 %.
pub const AGREE_FACTOR: f64 = 1.25;

/// What both worlds are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// The metric's name.
    pub metric: &'static str,
    /// In words, with its unit.
    pub words: &'static str,
    /// Whether it decides if the two worlds agree.
    pub is_judged: bool,
}

/// The misses of a run for each ms of its work: what runs of different lengths have in common.
const MISSES: &str = "misses_per_ms";

const fn quantity(metric: &'static str, words: &'static str, is_judged: bool) -> Quantity {
    Quantity { metric, words, is_judged }
}

/// What both worlds are asked for, in the order of reports.
pub const QUANTITIES: [Quantity; 12] = [
    quantity("migrations_per_s", "migrations, a second", true),
    quantity("effective_slice_median_ms", "median effective slices, ms", true),
    quantity("effective_slice_mean_ms", "mean effective slices, ms", false),
    quantity("switches_per_s", "switches, a second", false),
    quantity("longest_wait_ms", "longest wait, ms", false),
    quantity("wake_late_median_ms", "median lateness, ms", false),
    quantity("wake_late_p999_ms", "99.9 % quantile of lateness, ms", false),
    quantity(CPU_TIME_RATIO, "CPU time, least over most", false),
    quantity("idle_fraction", "idle CPU time, share", false),
    quantity(MISSES, "misses a ms of work", false),
    quantity(L2_MISSES, "L2 misses of 1,000 references, modelled", false),
    quantity(L3_MISSES, "L3 misses of 1,000 references, modelled", false),
];

/// One figure in both worlds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlayedPolicy {
    /// The policy.
    pub policy: String,
    /// What stands in for it in the simulator; none where it has nothing of the kind, or wasn't asked.
    pub simulated_by: Option<String>,
    /// Whether both worlds follow the same rule, so that they should agree; else one only stands in for the other.
    pub is_same_rule: bool,
    /// Plays that went well.
    pub plays: u32,
    /// Plays that failed.
    pub failed: u32,
    /// Every metric that all plays have, or all simulated replicates.
    pub metrics: BTreeMap<String, Beside>,
    /// Effective time slices in the kernel.
    pub slices: Vec<TimeBin>,
    /// The same in the simulator, in the same bins.
    pub simulated_slices: Vec<TimeBin>,
}

/// Whether the two worlds agree on a quantity, under policies by which both follow the same rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// The metric.
    pub metric: String,
    /// Policies under which they differ by no more than [`AGREE_FACTOR`].
    pub within: Vec<String>,
    /// The others.
    pub beyond: Vec<String>,
    /// Pairs of policies that the simulator sets apart by more than [`AGREE_FACTOR`].
    pub pairs: u32,
    /// Those of them that the kernel has in the same order.
    pub same_order: u32,
}

/// What a study of plays came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlayResult {
    /// The workload's name.
    pub workload: String,
    /// Where it was played.
    pub kernel: Kernel,
    /// Whether it was simulated, too.
    pub is_simulated: bool,
    /// The policies, in the plan's order.
    pub policies: Vec<PlayedPolicy>,
    /// What the worlds agree on; empty where nothing was simulated.
    pub agreements: Vec<Agreement>,
}

impl PlayedPolicy {
    /// A figure in both worlds.
    pub fn beside(&self, metric: &str) -> Option<&Beside> {
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

/// Sets what was played beside what was simulated; nothing for studies of other kinds.
pub fn analyse(record: &Record) -> Option<PlayResult> {
    let plan = &record.plan;
    let ((subject, simulation), kernel) = played(plan)?;
    let beside = simulated(plan).map(|(subject, _, _)| subject.name.as_str());
    let of = |subject: &str, policy: &str| -> Vec<&Trial> {
        record.trials.iter().filter(|trial| trial.subject == subject && trial.placement == policy).collect()
    };
    let well = |subject: &str, policy: &str| -> Vec<&Trial> {
        of(subject, policy).into_iter().filter(|trial| trial.time_s.is_some()).collect()
    };
    let policies: Vec<&str> = plan.treatments.iter().map(|treatment| treatment.name.as_str()).collect();
    let both: Vec<(&str, Vec<&Trial>, Vec<&Trial>)> = policies
        .iter()
        .map(|&policy| {
            let other = beside.map(|beside| well(beside, policy)).unwrap_or_default();
            (policy, well(&subject.name, policy), other)
        })
        .collect();
    let all_slices = both.iter().flat_map(|(_, kernel, simulator)| [kernel, simulator]);
    let edges_ms = simulation::bin_edges(all_slices.map(|trials| simulation::times(trials, SLICES)));
    let policy = |(policy, kernel, simulator): &(&str, Vec<&Trial>, Vec<&Trial>)| {
        let known = policy.parse::<Policy>().ok();
        let stand_in = known.and_then(Policy::simulated_by);
        PlayedPolicy {
            policy: (*policy).to_owned(),
            is_same_rule: known.is_some_and(Policy::needs_scheduler),
            simulated_by: stand_in.filter(|_| beside.is_some()).map(|policy| policy.name().to_owned()),
            plays: kernel.len() as u32,
            failed: (of(&subject.name, policy).len() - kernel.len()) as u32,
            metrics: metrics(kernel, simulator),
            slices: simulation::bins(&edges_ms, SLICES, kernel, kernel),
            simulated_slices: simulation::bins(&edges_ms, SLICES, simulator, simulator),
        }
    };
    let policies: Vec<PlayedPolicy> = both.iter().map(policy).collect();
    let judged = QUANTITIES.iter().filter(|quantity| quantity.is_judged && beside.is_some());
    let agreements = judged.map(|quantity| agreement(&policies, quantity.metric)).collect();
    let workload = simulation.sharing.name().to_owned();
    Some(PlayResult { workload, kernel: kernel.clone(), is_simulated: beside.is_some(), policies, agreements })
}

fn value(trial: &Trial, name: &str) -> Option<f64> {
    match name {
        MISSES => Some(simulation::metric(trial, "misses")? / simulation::metric(trial, "work_ms")?),
        _ => simulation::metric(trial, name),
    }
}

/// The mean of a figure that all trials have.
fn mean(trials: &[&Trial], name: &str) -> Option<Estimated> {
    let values: Vec<f64> = trials.iter().map(|trial| value(trial, name)).collect::<Option<_>>()?;
    Some(Estimated::of(&values)?.within(simulation::range_of(name)))
}

fn metrics(kernel: &[&Trial], simulator: &[&Trial]) -> BTreeMap<String, Beside> {
    let all = [kernel, simulator];
    let names: BTreeSet<&str> =
        all.into_iter().flat_map(simulation::names).map(String::as_str).chain([MISSES]).collect();
    let beside = |name: &str| {
        let [of_kernel, of_simulator] = all.map(|trials| mean(trials, name));
        let of_means = of_kernel.zip(of_simulator).filter(|(_, simulator)| simulator.value > 0.0);
        let ratio = of_ratios(kernel, simulator, name).or_else(|| {
            let ratio = of_means.map(|(kernel, simulator)| kernel.value / simulator.value)?;
            Some(Estimated { value: ratio, low: None, high: None })
        });
        let beside = Beside { kernel: of_kernel, simulator: of_simulator, ratio };
        (of_kernel.is_some() || of_simulator.is_some()).then_some(beside)
    };
    names.into_iter().filter_map(|name| Some((name.to_owned(), beside(name)?))).collect()
}

/// The geometric mean of the ratios of replicates with the same draws; none where one of them has no logarithm.
fn of_ratios(kernel: &[&Trial], simulator: &[&Trial], name: &str) -> Option<Estimated> {
    let twin = |trial: &Trial| simulator.iter().find(|other| other.block == trial.block);
    let pairs = kernel.iter().filter_map(|trial| Some((*trial, *twin(trial)?)));
    let logs = pairs.map(|(kernel, simulator)| {
        let log = (value(kernel, name)? / value(simulator, name)?).ln();
        log.is_finite().then_some(log)
    });
    Some(Estimated::of(&logs.collect::<Option<Vec<f64>>>()?)?.map(f64::exp))
}

fn agreement(policies: &[PlayedPolicy], metric: &str) -> Agreement {
    let policies: Vec<&PlayedPolicy> = policies.iter().filter(|policy| policy.is_same_rule).collect();
    let told = |agrees: bool| -> Vec<String> {
        let those = policies.iter().filter(|policy| policy.beside(metric).and_then(Beside::agrees) == Some(agrees));
        those.map(|policy| policy.policy.clone()).collect()
    };
    let values: Vec<(f64, f64)> = policies
        .iter()
        .filter_map(|policy| policy.beside(metric))
        .filter_map(|beside| Some((beside.kernel?.value, beside.simulator?.value)))
        .collect();
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
    Agreement { metric: metric.to_owned(), within: told(true), beyond: told(false), pairs, same_order }
}
