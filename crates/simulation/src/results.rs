//! What the replicates of a simulation say of its policies.

use crate::metrics::{INTERVALS, MISSES, RESPONSE, SLICES, WORK};
use crate::plan::{Point, SimulationPlan, SweepPoint};
use serde::Serialize;
use sim::space::Policy;
use stats::Metric;
use std::collections::{BTreeMap, BTreeSet};
use study::Record;
use study::kind::Kind;
use study::sample::Sample;

/// The mean of a quantity over the replicates, and its 95 % interval; no interval of a single replicate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimated {
    /// The mean.
    pub value: f64,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
}

/// Effective time slices, or dispatch intervals, from one length to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyResult {
    /// The policy.
    pub policy: String,
    /// How many replicates there are.
    pub replicates: u32,
    /// Every metric that all replicates have.
    pub estimates: BTreeMap<Metric, Estimated>,
    /// By which percentage each metric that is above 0 differs from the reference's, from replicates with the same draws: the
    /// geometric mean of their ratios; of misses, for the same work. Empty for the reference, and without one.
    pub changes: BTreeMap<Metric, Estimated>,
    /// The same against `dynamic`, of policies that add affinity to it.
    pub affinity_changes: BTreeMap<Metric, Estimated>,
    /// The histogram of effective time slices.
    pub slices: Vec<TimeBin>,
    /// The histogram of dispatch intervals.
    pub intervals: Vec<TimeBin>,
}

/// What was seen at one point of a sweep, or of the only one.
#[derive(Clone, Debug, PartialEq)]
pub struct PointResult {
    /// Name of the subject.
    pub subject: String,
    /// Where in the sweep it is.
    pub point: Option<SweepPoint>,
    /// The policy that the others are compared with, where it was simulated.
    pub reference: Option<String>,
    /// The policies, the reference first.
    pub policies: Vec<PolicyResult>,
}

impl Estimated {
    /// The mean of replicates and its interval; none without any.
    pub fn from_values(values: &[f64]) -> Option<Self> {
        let (value, interval) = stats::mean_interval(values)?;
        Some(Self { value, low: interval.map(|(low, _)| low), high: interval.map(|(_, high)| high) })
    }

    /// The interval without what lies outside of what is possible.
    pub fn within(self, (least, most): (f64, f64)) -> Self {
        Self { low: self.low.map(|low| low.max(least)), high: self.high.map(|high| high.min(most)), ..self }
    }

    /// The same on another scale, by a rising function.
    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self { value: change(self.value), low: self.low.map(&change), high: self.high.map(&change) }
    }
}

impl PointResult {
    /// The name of what runs: the subject's without the point of the sweep.
    pub fn workload(&self) -> &str {
        let point = self.point.as_ref().map(|SweepPoint { parameter, value }| format!(", {parameter} {value}"));
        point.and_then(|point| self.subject.strip_suffix(&point)).unwrap_or(&self.subject)
    }

    /// What was seen under the policy of that name, where it was simulated.
    pub fn policy(&self, name: &str) -> Option<&PolicyResult> {
        self.policies.iter().find(|result| result.policy == name)
    }

    /// Of space sharing, the kinds of job that are told apart, by name.
    pub fn kinds(&self) -> Vec<&str> {
        let metrics = self.policies.iter().flat_map(|result| result.estimates.keys());
        let kinds: BTreeSet<&str> = metrics
            .filter(|metric| metric.name == RESPONSE.name && metric.unit == RESPONSE.unit)
            .filter_map(|metric| metric.job.as_deref())
            .collect();
        kinds.into_iter().collect()
    }
}

impl PolicyResult {
    /// The mean of a metric, where there is one.
    pub fn value(&self, metric: &Metric) -> Option<f64> {
        self.estimates.get(metric).map(|estimate| estimate.value)
    }
}

/// Summarises a simulation's samples, point by point.
pub(crate) fn point_results(record: &Record<SimulationPlan>) -> Vec<PointResult> {
    record.plan.points.iter().map(|point| point_result(record, point)).collect()
}

/// The name of the policy that others are compared with, where it is simulated.
pub(crate) fn reference(plan: &SimulationPlan) -> Option<&str> {
    simulated(plan, plan.reference()?)
}

/// The policy of that name, where it is simulated.
fn simulated<'a>(plan: &'a SimulationPlan, policy: &str) -> Option<&'a str> {
    plan.policies.iter().map(String::as_str).find(|name| *name == policy)
}

fn point_result(record: &Record<SimulationPlan>, point: &Point) -> PointResult {
    let plan = &record.plan;
    let reference = reference(plan);
    let samples_of = |policy: &str| samples(record, &point.name, policy);
    let compared = reference.map(samples_of).unwrap_or_default();
    let without = simulated(plan, Policy::Dynamic.name()).map(samples_of).unwrap_or_default();
    let adds_affinity = |policy: &str| policy.starts_with(Policy::DynamicAffinity.name());
    let all: Vec<(&String, Vec<&Sample>)> = plan.policies.iter().map(|policy| (policy, samples_of(policy))).collect();
    let edges_ms = |histogram| bin_edges(all.iter().map(|(_, samples)| times(samples, histogram)));
    let (slice_edges_ms, interval_edges_ms) = (edges_ms(&SLICES), edges_ms(&INTERVALS));
    let policies = all
        .iter()
        .map(|(policy, samples)| {
            let norm = if reference.is_some() { &compared } else { samples };
            PolicyResult {
                policy: (*policy).clone(),
                replicates: samples.len() as u32,
                estimates: estimates(samples),
                changes: if reference == Some(policy) { BTreeMap::new() } else { changes(&compared, samples) },
                affinity_changes: if adds_affinity(policy) { changes(&without, samples) } else { BTreeMap::new() },
                slices: bins(&slice_edges_ms, &SLICES, samples, norm),
                intervals: bins(&interval_edges_ms, &INTERVALS, samples, samples),
            }
        })
        .collect();
    let sweep_point = point.simulation.point.clone();
    PointResult { subject: point.name.clone(), point: sweep_point, reference: reference.map(str::to_owned), policies }
}

/// Every metric that one of the samples has.
pub(crate) fn metrics_of<'a>(samples: &[&'a Sample]) -> BTreeSet<&'a Metric> {
    samples.iter().filter_map(|sample| sample.measurements()).flat_map(|measured| measured.metrics.keys()).collect()
}

/// The samples of a subject under a policy, in the order in which they were taken.
pub(crate) fn samples<'a, K: Kind<Trial = Sample>>(
    record: &'a Record<K>,
    subject: &str,
    policy: &str,
) -> Vec<&'a Sample> {
    record.trials.iter().filter(|sample| sample.subject == subject && sample.policy == policy).collect()
}

/// The mean of `value`, a number of `metric` that all samples have.
pub(crate) fn mean(
    samples: &[&Sample],
    metric: &Metric,
    value: impl Fn(&Sample, &Metric) -> Option<f64>,
) -> Option<Estimated> {
    let values: Vec<f64> = samples.iter().map(|sample| value(sample, metric)).collect::<Option<_>>()?;
    Some(Estimated::from_values(&values)?.within(metric.unit.range()))
}

/// Each of `samples` with the replicate of the same draws among `reference`, where there is one.
pub(crate) fn twins<'a>(
    samples: &[&'a Sample],
    reference: &[&'a Sample],
) -> impl Iterator<Item = (&'a Sample, &'a Sample)> {
    let twin = |sample: &Sample| reference.iter().find(|other| other.replicate == sample.replicate).copied();
    samples.iter().filter_map(move |&sample| Some((sample, twin(sample)?)))
}

/// The mean of the logarithms by how many times `value` is that of the replicate with the same draws among `reference`; none where
/// one of them has no logarithm.
pub(crate) fn mean_log_ratio(
    samples: &[&Sample],
    reference: &[&Sample],
    metric: &Metric,
    value: impl Fn(&Sample, &Metric) -> Option<f64>,
) -> Option<Estimated> {
    let logs = twins(samples, reference).map(|(sample, twin)| {
        let log = (value(sample, metric)? / value(twin, metric)?).ln();
        log.is_finite().then_some(log)
    });
    Estimated::from_values(&logs.collect::<Option<Vec<f64>>>()?)
}

fn estimates(samples: &[&Sample]) -> BTreeMap<Metric, Estimated> {
    let estimate = |metric: &Metric| Some((metric.clone(), mean(samples, metric, Sample::value)?));
    metrics_of(samples).into_iter().filter_map(estimate).collect()
}

/// What of a metric is compared: misses for each ms of work. Where both ended their work was the same, so that this is the change of
/// the misses; where one had not at the horizon, its misses are fewer for that alone.
fn comparable(sample: &Sample, metric: &Metric) -> Option<f64> {
    let value = sample.value(metric)?;
    if metric.name != MISSES.name {
        return Some(value);
    }
    Some(value / sample.value(&Metric { job: metric.job.clone(), ..WORK })?)
}

fn changes(reference: &[&Sample], samples: &[&Sample]) -> BTreeMap<Metric, Estimated> {
    let percent = |log: f64| 100.0 * log.exp_m1();
    let change =
        |metric: &Metric| Some((metric.clone(), mean_log_ratio(samples, reference, metric, comparable)?.map(percent)));
    metrics_of(samples).into_iter().filter_map(change).collect()
}

/// All times of a histogram of `samples`: lengths in ms, rising, and how many of each.
pub(crate) fn times(samples: &[&Sample], histogram: &Metric) -> Vec<(f64, u64)> {
    let all = samples.iter().filter_map(|sample| sample.measurements()?.histograms.get(histogram)).flatten();
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
pub(crate) fn bins(edges_ms: &[f64], histogram: &Metric, samples: &[&Sample], norm: &[&Sample]) -> Vec<TimeBin> {
    let a_replicate = |samples: &[&Sample]| 1.0 / samples.len().max(1) as f64;
    let all = times(norm, histogram).iter().map(|(_, count)| count).sum::<u64>() as f64 * a_replicate(norm);
    let mut counts = vec![0; edges_ms.len()];
    for (ms, count) in times(samples, histogram) {
        // Decimal fractions are not exact: a time at an edge belongs above it.
        let bin = edges_ms.partition_point(|&edge| edge <= ms + 1e-9);
        counts[bin.saturating_sub(1)] += count;
    }
    let bin = |(at, &count): (usize, &u64)| {
        let count = count as f64 * a_replicate(samples);
        let percent = if all > 0.0 { 100.0 * count / all } else { 0.0 };
        TimeBin { from_ms: edges_ms[at], to_ms: edges_ms.get(at + 1).copied(), count, percent }
    };
    counts.iter().enumerate().map(bin).collect()
}
