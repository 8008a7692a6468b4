//! What the replicates of a simulation say of its policies.

use super::metrics::{INTERVALS, SLICES};
use super::{RESPONSE, Sharing, SweepPoint, answers};
use crate::plan::{Plan, Subject};
use crate::record::Record;
use crate::trial::Trial;
use replay::CPU_TIME_RATIO;
use serde::{Deserialize, Serialize};
use sim::space::Policy;
use std::collections::{BTreeMap, BTreeSet};

/// The mean of a quantity over the replicates, and its 95 % interval; no interval of a single replicate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimated {
    /// The mean.
    pub value: f64,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
}

/// Effective time slices, or dispatch intervals, from one length to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeBin {
    /// The shortest that falls into it, in ms.
    pub from_ms: f64,
    /// The first length beyond it, in ms; none of the last bin, which holds all longer ones.
    pub to_ms: Option<f64>,
    /// How many a replicate has, on average.
    pub count: f64,
    /// The same in percent: of slices, of all of the reference, or of the policy itself where there is no reference, as the
    /// report normalises its Figure 2; of intervals, of the policy's own, as in its Table II.
    pub percent: f64,
}

/// What was seen under one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyResult {
    /// The policy.
    pub policy: String,
    /// How many replicates there are.
    pub replicates: u32,
    /// Every metric that all replicates have.
    pub estimates: BTreeMap<String, Estimated>,
    /// By which percentage each metric that is above 0 differs from the reference's, from replicates with the same draws: the
    /// geometric mean of their ratios; of misses, for the same work. Empty for the reference, and without one.
    pub changes: BTreeMap<String, Estimated>,
    /// The same against `dynamic`, of policies that add affinity to it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub affinity_changes: BTreeMap<String, Estimated>,
    /// The histogram of effective time slices.
    pub slices: Vec<TimeBin>,
    /// The histogram of dispatch intervals.
    pub intervals: Vec<TimeBin>,
}

/// What was seen at one point of a sweep, or of the only one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// Name of the subject.
    pub subject: String,
    /// Where in the sweep it is.
    pub point: Option<SweepPoint>,
    /// The policy that the others are compared with, where it was simulated: `standard`, or `equipartition`.
    pub reference: Option<String>,
    /// The policies, the reference first.
    pub policies: Vec<PolicyResult>,
}

impl Estimated {
    /// The estimate of what these are replicates of; none without any.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let (value, interval) = stats::mean_interval(values)?;
        Some(Self { value, low: interval.map(|(low, _)| low), high: interval.map(|(_, high)| high) })
    }

    /// The interval without what lies outside of what is possible.
    pub(crate) fn within(self, (least, most): (f64, f64)) -> Self {
        Self { low: self.low.map(|low| low.max(least)), high: self.high.map(|high| high.min(most)), ..self }
    }

    pub(crate) fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self { value: change(self.value), low: self.low.map(&change), high: self.high.map(&change) }
    }
}

impl PointResult {
    /// What was seen under the policy of that name, where it was simulated.
    pub fn policy(&self, name: &str) -> Option<&PolicyResult> {
        self.policies.iter().find(|result| result.policy == name)
    }

    /// Of space sharing, the kinds of job that are told apart, by name.
    pub fn kinds(&self) -> Vec<&str> {
        let metrics = self.policies.iter().flat_map(|result| result.estimates.keys());
        let kinds: BTreeSet<&str> =
            metrics.filter_map(|metric| metric.strip_prefix(RESPONSE)?.strip_prefix(':')).collect();
        kinds.into_iter().collect()
    }
}

impl PolicyResult {
    /// The mean of a metric, where there is one.
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.estimates.get(metric).map(|estimate| estimate.value)
    }
}

/// Summarises a simulation's trials; empty for studies of other kinds.
pub(crate) fn analyse(record: &Record) -> Vec<PointResult> {
    let plan = &record.plan;
    // What is played is analysed as such.
    let simulated = plan.subjects.iter().filter(|subject| subject.simulation.is_some() && !plan.is_play());
    simulated.map(|subject| point(record, subject)).collect()
}

/// The name of the policy that others are compared with.
fn reference(plan: &Plan) -> Option<&str> {
    let reference = plan.subjects.iter().find_map(|subject| Some(subject.simulation.as_ref()?.sharing.reference()))?;
    simulated(plan, reference)
}

/// The policy of that name, where it is simulated.
fn simulated<'a>(plan: &'a Plan, policy: &str) -> Option<&'a str> {
    plan.treatments.iter().map(|treatment| treatment.name.as_str()).find(|name| *name == policy)
}

fn point(record: &Record, subject: &Subject) -> PointResult {
    let reference = reference(&record.plan);
    let of = |policy: &str| -> Vec<&Trial> {
        let ours =
            |trial: &&Trial| trial.subject == subject.name && trial.placement == policy && trial.time_s.is_some();
        record.trials.iter().filter(ours).collect()
    };
    let compared = reference.map(of).unwrap_or_default();
    let without = simulated(&record.plan, Policy::Dynamic.name()).map(of).unwrap_or_default();
    let adds_affinity = |policy: &str| policy.starts_with(Policy::DynamicAffinity.name());
    let all: Vec<(&str, Vec<&Trial>)> =
        record.plan.treatments.iter().map(|treatment| (treatment.name.as_str(), of(&treatment.name))).collect();
    let edges_ms = |histogram| bin_edges(all.iter().map(|(_, trials)| times(trials, histogram)));
    let (slice_edges_ms, interval_edges_ms) = (edges_ms(SLICES), edges_ms(INTERVALS));
    let policies = all
        .iter()
        .map(|(policy, trials)| {
            let norm = if reference.is_some() { &compared } else { trials };
            PolicyResult {
                policy: (*policy).to_owned(),
                replicates: trials.len() as u32,
                estimates: estimates(trials),
                changes: if reference == Some(policy) { BTreeMap::new() } else { changes(&compared, trials) },
                affinity_changes: if adds_affinity(policy) { changes(&without, trials) } else { BTreeMap::new() },
                slices: bins(&slice_edges_ms, SLICES, trials, norm),
                intervals: bins(&interval_edges_ms, INTERVALS, trials, trials),
            }
        })
        .collect();
    let point = subject.simulation.as_ref().and_then(|simulation| simulation.point.clone());
    PointResult { subject: subject.name.clone(), point, reference: reference.map(str::to_owned), policies }
}

pub(crate) fn metric(trial: &Trial, name: &str) -> Option<f64> {
    trial.observation.as_ref()?.metrics.get(name).copied()
}

pub(crate) fn names<'a>(trials: &[&'a Trial]) -> BTreeSet<&'a String> {
    trials.iter().filter_map(|trial| trial.observation.as_ref()).flat_map(|seen| seen.metrics.keys()).collect()
}

fn estimates(trials: &[&Trial]) -> BTreeMap<String, Estimated> {
    let estimate = |name: &String| {
        let values: Option<Vec<f64>> = trials.iter().map(|trial| metric(trial, name)).collect();
        Some((name.clone(), Estimated::of(&values?)?.within(range_of(name))))
    };
    names(trials).into_iter().filter_map(estimate).collect()
}

/// What a metric can be at all: none is negative, and shares are 1 at most. Means of few replicates have intervals beyond it.
pub(crate) fn range_of(metric: &str) -> (f64, f64) {
    let name = metric.split_once(':').map_or(metric, |(name, _)| name);
    let is_share = name.ends_with("_fraction") || ["jain_index", CPU_TIME_RATIO].contains(&name);
    (0.0, if is_share { 1.0 } else { f64::INFINITY })
}

/// What of a metric is compared: misses for each ms of work. Where both ended their work was the same, so that this is the change of
/// the misses; where one had not at the horizon, its misses are fewer for that alone.
fn comparable(trial: &Trial, name: &str) -> Option<f64> {
    let value = metric(trial, name)?;
    let (kind, whose) = name.split_at(name.find(':').unwrap_or(name.len()));
    if kind.starts_with("misses") { Some(value / metric(trial, &format!("work_ms{whose}"))?) } else { Some(value) }
}

fn changes(reference: &[&Trial], trials: &[&Trial]) -> BTreeMap<String, Estimated> {
    let twin = |trial: &Trial| reference.iter().find(|other| other.block == trial.block);
    let pairs: Vec<(&Trial, &Trial)> = trials.iter().filter_map(|trial| Some((*twin(trial)?, *trial))).collect();
    let change = |name: &String| {
        let logs = pairs.iter().map(|(reference, trial)| {
            let ratio = comparable(trial, name)? / comparable(reference, name)?;
            Some(ratio.ln()).filter(|log| log.is_finite())
        });
        let percent = |log: f64| 100.0 * log.exp_m1();
        Some((name.clone(), Estimated::of(&logs.collect::<Option<Vec<f64>>>()?)?.map(percent)))
    };
    names(trials).into_iter().filter_map(change).collect()
}

/// All times of a histogram of `trials`: lengths in ms, rising, and how many of each.
pub(crate) fn times(trials: &[&Trial], histogram: &str) -> Vec<(f64, u64)> {
    let all = trials.iter().filter_map(|trial| trial.observation.as_ref()?.histograms.get(histogram)).flatten();
    let mut all: Vec<(f64, u64)> = all.copied().filter(|(ms, _)| ms.is_finite() && *ms >= 0.0).collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// Lower edges of bins of one round width, so that those of every policy can be compared; of no policy more than one time in a
/// hundred is beyond the last.
pub(crate) fn bin_edges(policies: impl Iterator<Item = Vec<(f64, u64)>>) -> Vec<f64> {
    const MOST_BINS: f64 = 80.0;
    const WIDTHS_MS: [f64; 16] =
        [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 1e4, 1e5, 1e6];
    let nearly_all = |times: Vec<(f64, u64)>| {
        let total: u64 = times.iter().map(|(_, count)| count).sum();
        let mut below = 0;
        let reaches = |count: &u64| {
            below += count;
            below as f64 >= 0.99 * total as f64
        };
        times.iter().map(|(_, count)| count).position(reaches).map_or(0.0, |at| times[at].0)
    };
    let longest_ms = policies.map(nearly_all).fold(0.0, f64::max);
    let width = WIDTHS_MS.into_iter().find(|width| longest_ms / width < MOST_BINS).unwrap_or(longest_ms / MOST_BINS);
    (0..=(longest_ms / width).floor() as u32).map(|bin| f64::from(bin) * width).collect()
}

/// The times of `trials` in bins that begin at `edges_ms`, normalised to the number of those of `norm`.
pub(crate) fn bins(edges_ms: &[f64], histogram: &str, trials: &[&Trial], norm: &[&Trial]) -> Vec<TimeBin> {
    let a_replicate = |trials: &[&Trial]| 1.0 / trials.len().max(1) as f64;
    let all = times(norm, histogram).iter().map(|(_, count)| count).sum::<u64>() as f64 * a_replicate(norm);
    let mut counts = vec![0; edges_ms.len()];
    for (ms, count) in times(trials, histogram) {
        // Decimal fractions are not exact: a time at an edge belongs above it.
        let bin = edges_ms.partition_point(|&edge| edge <= ms + 1e-9);
        counts[bin.saturating_sub(1)] += count;
    }
    let bin = |(at, &count): (usize, &u64)| {
        let count = count as f64 * a_replicate(trials);
        let percent = if all > 0.0 { 100.0 * count / all } else { 0.0 };
        TimeBin { from_ms: edges_ms[at], to_ms: edges_ms.get(at + 1).copied(), count, percent }
    };
    counts.iter().enumerate().map(bin).collect()
}

/// The answer in sentences, each with its doubt.
pub(crate) fn verdicts(record: &Record, points: &[PointResult]) -> Vec<String> {
    let simulations = record.plan.subjects.iter().filter_map(|subject| subject.simulation.as_deref());
    if simulations.map(|simulation| &simulation.sharing).any(|sharing| matches!(sharing, Sharing::Space { .. })) {
        return answers::space_sharing(points);
    }
    match points {
        [] => Vec::new(),
        [point] => one_point(point),
        [first, ..] => {
            let policies = first.policies.iter().filter(|result| Some(&result.policy) != first.reference.as_ref());
            policies.map(|result| over_points(points, &result.policy)).collect()
        }
    }
}

fn one_point(point: &PointResult) -> Vec<String> {
    let subject = &point.subject;
    let told = point.policies.iter().filter(|result| result.replicates > 0);
    let (reference, rivals): (Vec<_>, Vec<_>) =
        told.partition(|result| Some(&result.policy) == point.reference.as_ref());
    if rivals.is_empty() || reference.is_empty() {
        let times: Vec<String> = reference.iter().chain(&rivals).map(|result| time(result)).collect();
        let times = if times.is_empty() { "no replicate has ended yet".into() } else { times.join("; ") };
        return vec![format!("{subject}: {times}.")];
    }
    let doubt = match rivals[0].replicates {
        1 => "one replicate, so without intervals".into(),
        replicates => format!("95 % intervals, {replicates} replicates"),
    };
    let sentence = |(at, result): (usize, &&PolicyResult)| {
        let effects = effects(result);
        match at {
            0 => format!("{subject}: {} {effects}; {doubt}.", result.policy),
            _ => format!("{subject}, {} {effects}.", result.policy),
        }
    };
    rivals.iter().enumerate().map(sentence).collect()
}

/// How long it took, where nothing is compared.
fn time(result: &PolicyResult) -> String {
    match result.value("makespan_ms") {
        Some(ms) => {
            let decimals = (3.0 - (ms / 1e3).log10().floor()).clamp(0.0, 9.0) as usize;
            format!("{} takes {:.decimals$} s", result.policy, ms / 1e3)
        }
        None => format!("{} had not ended at the horizon", result.policy),
    }
}

/// What a policy does to misses and time: `removes 36 % of the misses (34 to 38) and saves 6.0 % of the time (5.1 to 6.9)`.
fn effects(result: &PolicyResult) -> String {
    let misses = result.changes.get("misses").map(|change| match direction(change) {
        Direction::Down => format!("removes {} of the misses", fewer(change)),
        Direction::Up => format!("adds {} to the misses", more(change)),
        Direction::NoneShown => format!("shows no difference in misses {}", range(change)),
    });
    let time = result.changes.get("makespan_ms").map(|change| match direction(change) {
        Direction::Down => format!("saves {} of the time", fewer(change)),
        Direction::Up => format!("takes {} more time", more(change)),
        Direction::NoneShown => format!("shows no difference in time {}", range(change)),
    });
    match (misses, time) {
        (Some(misses), Some(time)) => format!("{misses} and {time}"),
        (Some(misses), None) => format!("{misses} for the same work, up to the horizon"),
        (None, Some(time)) => format!("{time}, and there are no misses"),
        (None, None) => "shows nothing that could be compared".into(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Down,
    Up,
    NoneShown,
}

/// Less than this isn't told of, in percent: it would be written as 0.0.
const LEAST_TOLD_PERCENT: f64 = 0.05;

/// Where a change goes, if its interval leaves no doubt. Of a single replicate, which has none, where it went.
pub(super) fn direction(change: &Estimated) -> Direction {
    let (low, high) = (change.low.unwrap_or(change.value), change.high.unwrap_or(change.value));
    if change.value.abs() < LEAST_TOLD_PERCENT {
        Direction::NoneShown
    } else if high < 0.0 {
        Direction::Down
    } else if low > 0.0 {
        Direction::Up
    } else {
        Direction::NoneShown
    }
}

/// A percentage with the digits that its interval's width calls for, and the interval.
fn percent(change: &Estimated) -> String {
    let decimals = usize::from(change.high.zip(change.low).is_none_or(|(high, low)| high - low < 2.0));
    let interval = change.low.zip(change.high).map(|(low, high)| format!(" ({low:.decimals$} to {high:.decimals$})"));
    format!("{:.decimals$} %{}", change.value, interval.unwrap_or_default())
}

pub(super) fn fewer(change: &Estimated) -> String {
    percent(&Estimated { value: -change.value, low: change.high.map(|high| -high), high: change.low.map(|low| -low) })
}

pub(super) fn more(change: &Estimated) -> String {
    percent(change)
}

pub(super) fn range(change: &Estimated) -> String {
    match change.low.zip(change.high) {
        Some((low, high)) if low.abs().max(high.abs()) >= LEAST_TOLD_PERCENT => format!("({low:+.1} to {high:+.1} %)"),
        None if change.value.abs() >= LEAST_TOLD_PERCENT => format!("({:+.1} %)", change.value),
        _ => "(0.0 %)".into(),
    }
}

/// What one policy does over a sweep.
fn over_points(points: &[PointResult], policy: &str) -> String {
    let (first, last) = (&points[0], &points[points.len() - 1]);
    let value = |point: &PointResult| point.point.as_ref().map_or(0.0, |point| point.value);
    let parameter = first.point.as_ref().map_or("", |point| point.parameter.as_str());
    let workload = first.subject.strip_suffix(&format!(", {parameter} {}", value(first))).unwrap_or(&first.subject);
    let least = |metric: &str| {
        let changes = points.iter().filter_map(|point| {
            let result = point.policies.iter().find(|result| result.policy == policy)?;
            Some((value(point), *result.changes.get(metric)?))
        });
        changes.min_by(|a, b| a.1.value.total_cmp(&b.1.value))
    };
    let best = |metric: &str, verb: &str, what: &str| match least(metric) {
        None => format!("has no {what} to compare"),
        Some((at, change)) if direction(&change) == Direction::Down => {
            format!("{verb}s most {what} at {at}: {}", fewer(&change))
        }
        Some((at, change)) => format!("is not shown to {verb} {what} anywhere, at best {} at {at}", range(&change)),
    };
    format!(
        "{workload}: over {parameter} from {} to {}, {policy} {}, and {}.",
        value(first),
        value(last),
        best("misses", "remove", "misses"),
        best("makespan_ms", "save", "time")
    )
}

/// What limits the results, in sentences.
pub(crate) fn warnings(record: &Record, points: &[PointResult]) -> Vec<String> {
    let mut sentences = record.plan.departures.clone();
    if record.ending.is_none() {
        sentences.push("The simulation is unfinished; the same command goes on with it.".into());
    }
    if reference(&record.plan).is_none() {
        let simulation = record.plan.subjects.iter().find_map(|subject| subject.simulation.as_ref());
        let wanted = simulation.map_or("standard", |simulation| simulation.sharing.reference());
        sentences.push(format!("Nothing is compared: {wanted} was not among the policies."));
    }
    for result in points.iter().flat_map(|point| &point.policies) {
        if result.replicates > 0 && result.value("makespan_ms").is_none() {
            sentences.push(format!(
                "Under {} not every process had ended at the horizon, so its execution time isn't known; misses are compared for the same work.",
                result.policy
            ));
        }
    }
    sentences
}
