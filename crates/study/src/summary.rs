//! What the trials of one cell come to, and which cell of a subject is the best.

use crate::metric::Metric;
use crate::metric_summary::MetricSummary;
use crate::mix::{Job, JobRun};
use crate::plan::{Cell, Plan, Subject};
use crate::race::RaceResult;
use crate::shape::Shape;
use crate::slowdown::Slowdowns;
use crate::times::{counted, pairs};
use crate::trial::{Status, Trial};
use crate::verdict::RaceVerdict;
use serde::{Deserialize, Serialize};
use stats::{Disturbance, Mark};
use std::collections::BTreeMap;

/// What is claimed of a placement against the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// It is the reference itself.
    Reference,
    /// It is faster than the reference.
    Faster,
    /// It is slower than the reference.
    Slower,
    /// No difference is shown.
    NoneShown,
    /// There are too few pairs to say anything.
    TooFew,
    /// Nothing is claimed, since times of an emulated machine mean nothing.
    Emulated,
    /// Nothing is claimed, since what the program reports as its time can't be that.
    Refused,
}

impl From<stats::Claim> for Claim {
    fn from(claim: stats::Claim) -> Self {
        match claim {
            stats::Claim::Faster => Self::Faster,
            stats::Claim::Slower => Self::Slower,
            stats::Claim::NoneShown => Self::NoneShown,
        }
    }
}

/// One cell of the table: a subject with so many threads under one treatment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the subject.
    pub subject: String,
    /// Thread count.
    pub threads: Shape,
    /// Name of the treatment.
    pub placement: String,
    /// Trials that count: ok, and not warm-up.
    pub trials: u32,
    /// Trials that failed, warm-up left out.
    pub failed: u32,
    /// Trials that were stopped because they had lost their race by then.
    #[serde(default)]
    pub cut_off: u32,
    /// What its runs come to by what they are compared by.
    #[serde(skip)]
    pub figures: Figures,
    /// Median time, in seconds.
    pub median_s: Option<f64>,
    /// Mean time, in seconds.
    pub mean_s: Option<f64>,
    /// Standard deviation over mean (0.05 = 5 %).
    pub relative_sd: Option<f64>,
    /// Fastest, in seconds.
    pub min_s: Option<f64>,
    /// Slowest, in seconds.
    pub max_s: Option<f64>,
    /// How much better than under the reference, estimated from pairs of the same block: reference time over this time, or that of another
    /// metric, turned so that above 1 is better.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's 95 % interval.
    pub ratio_low: Option<f64>,
    /// Upper end of the ratio's 95 % interval.
    pub ratio_high: Option<f64>,
    /// Blocks in which both this and the reference went well.
    pub pairs: u32,
    /// Probability of a ratio this far from 1 if there were no difference.
    pub p_value: Option<f64>,
    /// Smallest relative difference that would have been seen with 80 % probability (0.03 = 3 %).
    pub smallest_detectable: Option<f64>,
    /// What is claimed of it.
    pub claim: Claim,
    /// What else may have made the difference that is claimed: it was then measured on a busy machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<Disturbance>,
    /// Median of the reference at the plan's smallest thread count, over this median, when that count is 1; where higher is better, this
    /// median over that.
    pub speedup: Option<f64>,
    /// Change of what is compared over the study (0.02 = 2 % slower, or worse, at the end), when a trend is shown.
    pub drift: Option<f64>,
    /// Sequence numbers of trials that lie far from the others; they still count.
    pub outliers: Vec<u32>,
    /// Whether the stop rule was met.
    pub settled: bool,
    /// Where the memory of its runs was, where that was read back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryShares>,
    /// An earlier treatment that is the very same placement at this thread count and was run, too: journals of versions before
    /// 3 have such cells.
    pub same_as: Option<String>,
    /// Later treatments that are the very same placement at this thread count, so that they weren't run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// What else its runs come to, by each metric of its subject.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricSummary>,
    /// What its runs used besides; of studies of very many trials, nothing.
    #[serde(skip)]
    pub used: Vec<MetricSummary>,
    /// Of a mix, what became of each job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobSummary>,
}

/// What the runs of a cell that count come to by what they are compared by, in its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Median.
    pub median: Option<f64>,
    /// Mean.
    pub mean: Option<f64>,
    /// Standard deviation over mean (0.05 = 5 %).
    pub relative_sd: Option<f64>,
    /// Least.
    pub min: Option<f64>,
    /// Most.
    pub max: Option<f64>,
    /// The median turned so that less is better.
    pub(crate) cost: Option<f64>,
}

impl Figures {
    /// Those of `values`, of which there may be none.
    fn new(metric: &Metric, values: &[f64]) -> Self {
        let Some(estimate) = stats::estimate(values) else { return Self::default() };
        Self {
            median: Some(estimate.median_s),
            mean: Some(estimate.mean_s),
            relative_sd: estimate.relative_sd(),
            min: Some(estimate.min_s),
            max: Some(estimate.max_s),
            cost: Some(metric.cost(estimate.median_s)),
        }
    }
}

/// What became of a job in the runs of a mix that count. Times are of its first run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Its name.
    pub name: String,
    /// Median of when it started, in seconds since the mix began.
    pub started_s: Option<f64>,
    /// Median of when it ended, likewise.
    pub ended_s: Option<f64>,
    /// Median of the time that counts, in seconds.
    pub median_s: Option<f64>,
    /// Median of its time over its time by itself in the same block, each the mean over the runs of a trial; 1 is as fast as by itself.
    pub slowdown: Option<f64>,
    /// Lower end of the 95 % interval of that median.
    pub slowdown_low: Option<f64>,
    /// Upper end of the 95 % interval of that median.
    pub slowdown_high: Option<f64>,
}

impl JobSummary {
    /// Those of the jobs of a cell.
    fn all(plan: &Plan, slowdowns: &BTreeMap<u32, Slowdowns>, cell: Cell, good: &[(&Trial, f64)]) -> Vec<Self> {
        let Some(mix) = &plan.subjects[cell.subject].mix else { return Vec::new() };
        let of_job = |(position, job): (usize, &Job)| {
            let first = |trial: &&(&Trial, f64)| trial.0.jobs().iter().find(|run| run.name == job.name).cloned();
            let runs: Vec<JobRun> = good.iter().filter_map(|trial| first(&trial)).collect();
            let median = |figure: fn(&JobRun) -> Option<f64>| {
                let numbers: Vec<f64> = runs.iter().filter_map(figure).collect();
                stats::quantile(&numbers, 0.5)
            };
            let of_trial = |trial: &&(&Trial, f64)| *slowdowns.get(&trial.0.sequence)?.jobs.get(position)?;
            let slower: Vec<f64> = good.iter().filter_map(|trial| of_trial(&trial)).collect();
            let interval = stats::median_interval(&slower);
            Self {
                name: job.name.clone(),
                started_s: median(|run| Some(run.started_s)),
                ended_s: median(|run| Some(run.ended_s)),
                median_s: median(|run| run.time_s),
                slowdown: stats::quantile(&slower, 0.5),
                slowdown_low: interval.map(|(low, _)| low),
                slowdown_high: interval.map(|(_, high)| high),
            }
        };
        mix.jobs.iter().enumerate().map(of_job).collect()
    }
}

/// Where the memory of a cell's runs was when they ended, over all that count (0.01 = 1 %).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryShares {
    /// By NUMA node.
    pub by_node: BTreeMap<u32, f64>,
    /// On nodes that have none of the placement's CPUs; none without a placement.
    pub remote: Option<f64>,
    /// In transparent huge pages.
    pub huge: f64,
    /// Runs in which the policy that was asked for was not followed.
    pub not_followed: u32,
}

impl MemoryShares {
    fn of<'a>(runs: impl Iterator<Item = &'a Trial>) -> Option<Self> {
        let (mut by_node, mut total, mut huge, mut remote) = (BTreeMap::<u32, f64>::new(), 0.0, 0.0, None);
        let mut not_followed = 0;
        for seen in runs.filter_map(|trial| trial.observation.as_ref()?.conditions.memory.as_ref()) {
            let of_run: f64 = seen.bytes_by_node.values().map(|bytes| *bytes as f64).sum();
            for (node, bytes) in &seen.bytes_by_node {
                *by_node.entry(*node).or_default() += *bytes as f64;
            }
            total += of_run;
            huge += seen.huge_bytes as f64;
            if let Some(share) = seen.remote_share {
                *remote.get_or_insert(0.0) += share * of_run;
            }
            not_followed += u32::from(seen.followed == Some(false));
        }
        by_node.values_mut().for_each(|bytes| *bytes /= total);
        let shares = Self { by_node, remote: remote.map(|bytes: f64| bytes / total), huge: huge / total, not_followed };
        (total > 0.0).then_some(shares)
    }
}

impl Summary {
    /// Whether more runs would still tell something: it isn't settled, and not all of its runs failed.
    pub(crate) fn is_open(&self) -> bool {
        !self.settled && (self.trials > 0 || self.failed == 0)
    }

    /// Claims nothing of its times but `claim`, and compares them with nothing.
    pub(crate) fn refuse(&mut self, claim: Claim) {
        (self.ratio, self.ratio_low, self.ratio_high, self.p_value) = (None, None, None, None);
        (self.smallest_detectable, self.speedup) = (None, None);
        self.claim = claim;
        self.disturbances.clear();
    }
}

/// The best cell of one subject, over all thread counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Name of the subject.
    pub subject: String,
    /// Thread count.
    pub threads: Shape,
    /// Name of the treatment.
    pub placement: String,
    /// Whether it is shown to be better than unbound with as many threads.
    pub shown: bool,
}

/// A trend is told when its p-value is below this.
const DRIFT_SIGNIFICANCE: f64 = 0.01;

/// Adds the speed-up over one thread of the reference, where that was run.
pub(crate) fn add_speedups(summaries: &mut [Summary]) {
    let base: BTreeMap<String, f64> = summaries
        .iter()
        .filter(|summary| summary.threads.total() == 1 && summary.claim == Claim::Reference)
        .filter_map(|summary| Some((summary.subject.clone(), summary.figures.cost?)))
        .collect();
    for summary in summaries {
        summary.speedup = base.get(&summary.subject).zip(summary.figures.cost).map(|(base, cost)| base / cost);
    }
}

/// What the times of a cell say by themselves, without what they are compared with.
pub(crate) fn summary_of_cell(
    plan: &Plan,
    trials: &[Trial],
    slowdowns: &BTreeMap<u32, Slowdowns>,
    cell: Cell,
    claim: Claim,
) -> Summary {
    let subject = &plan.subjects[cell.subject];
    let good: Vec<(&Trial, f64)> = counted(plan, trials, cell).collect();
    let costs: Vec<f64> = good.iter().map(|(_, cost)| *cost).collect();
    let numbers = |number: fn(&Subject, &Trial) -> Option<f64>| -> Vec<f64> {
        good.iter().filter_map(|(trial, _)| number(subject, trial)).collect()
    };
    let times = Figures::new(&Metric::default(), &numbers(|_, trial| trial.time_s));
    let figures = Figures::new(&subject.metric, &numbers(Subject::value));
    let over_study: Vec<(f64, f64)> = good.iter().map(|(trial, cost)| (f64::from(trial.sequence), *cost)).collect();
    let ended = |how: fn(Status) -> bool| {
        trials.iter().filter(|trial| !trial.warmup && how(trial.status) && cell.has_trial(plan, trial)).count() as u32
    };
    Summary {
        subject: subject.name.clone(),
        threads: plan.threads[cell.threads],
        placement: plan.treatments[cell.treatment].name.clone(),
        also: plan.names(cell).skip(1).map(str::to_owned).collect(),
        trials: good.len() as u32,
        failed: ended(Status::is_failure),
        cut_off: ended(|status| status == Status::CutOff),
        figures,
        median_s: times.median,
        mean_s: times.mean,
        relative_sd: times.relative_sd,
        min_s: times.min,
        max_s: times.max,
        ratio: None,
        ratio_low: None,
        ratio_high: None,
        pairs: if cell.treatment == 0 { 0 } else { pairs(plan, trials, cell).len() as u32 },
        p_value: None,
        smallest_detectable: None,
        claim,
        disturbances: Vec::new(),
        speedup: None,
        drift: stats::drift(&over_study)
            .filter(|drift| drift.p_value < DRIFT_SIGNIFICANCE)
            .map(|drift| drift.relative_change),
        outliers: stats::outliers(&costs)
            .into_iter()
            .zip(&good)
            .filter(|(mark, _)| *mark != Mark::Typical)
            .map(|(_, (trial, _))| trial.sequence)
            .collect(),
        settled: false,
        memory: MemoryShares::of(good.iter().map(|(trial, _)| *trial)),
        same_as: plan.twin(cell).map(|treatment| treatment.name.clone()),
        metrics: Vec::new(),
        used: Vec::new(),
        jobs: JobSummary::all(plan, slowdowns, cell, &good),
    }
}

/// The best cell of a subject: at the thread count whose fastest median is the fastest of all, the fastest of those
/// placements that are shown to beat the reference; the reference itself when none is.
pub(crate) fn best_of(subject: &str, summaries: &[Summary]) -> Option<Best> {
    let fastest =
        |a: &&Summary, b: &&Summary| a.figures.cost.unwrap_or(f64::MAX).total_cmp(&b.figures.cost.unwrap_or(f64::MAX));
    let ours = || summaries.iter().filter(|summary| summary.subject == subject && summary.figures.cost.is_some());
    let threads = ours().min_by(fastest)?.threads;
    let chosen = best_of_shape(subject, threads, summaries)?;
    Some(Best {
        subject: subject.to_owned(),
        threads,
        placement: chosen.placement.clone(),
        shown: chosen.claim == Claim::Faster,
    })
}

/// The best cell of a subject with so many threads, or ranks x threads, by the same rule.
pub(crate) fn best_of_shape<'s>(subject: &str, shape: Shape, summaries: &'s [Summary]) -> Option<&'s Summary> {
    let fastest =
        |a: &&Summary, b: &&Summary| a.figures.cost.unwrap_or(f64::MAX).total_cmp(&b.figures.cost.unwrap_or(f64::MAX));
    let has_runs = |summary: &&Summary| summary.subject == subject && summary.figures.cost.is_some();
    let here = || summaries.iter().filter(has_runs).filter(|summary| summary.threads == shape);
    here()
        .filter(|summary| summary.claim == Claim::Faster)
        .min_by(fastest)
        .or_else(|| here().find(|summary| summary.claim == Claim::Reference))
        .or_else(|| here().min_by(fastest))
}

/// Adds what a race says of its winner's gain to the summary of that cell.
pub(crate) fn add_gain(race: &RaceResult, verdict: &RaceVerdict, summaries: &mut [Summary]) {
    let (Some(best), Some(gain)) = (race.best(), race.gain()) else { return };
    let is_best = |summary: &&mut Summary| {
        summary.subject == race.subject
            && summary.claim != Claim::Reference
            && (best.threads, &best.placement) == (summary.threads, &summary.placement)
    };
    if let Some(summary) = summaries.iter_mut().find(is_best) {
        (summary.ratio, summary.ratio_low, summary.ratio_high) = (Some(gain.ratio), Some(gain.low), Some(gain.high));
        summary.pairs = gain.pairs as u32;
        summary.claim = gain.claim.into();
        if let Some(outcome) = verdict.outcome.as_ref().filter(|_| summary.claim == Claim::Faster) {
            summary.disturbances.clone_from(&outcome.disturbances);
        }
    }
}

/// What is best in a race: its winner where that is shown to beat the reference or there is none, else the reference.
pub(crate) fn winner(race: &RaceResult) -> Option<Best> {
    let best = race.best()?;
    let shown = race.beats_reference();
    let chosen = if shown { best } else { race.timed_reference().unwrap_or(best) };
    let (subject, placement) = (race.subject.clone(), chosen.placement.clone());
    Some(Best { subject, threads: chosen.threads, placement, shown })
}
