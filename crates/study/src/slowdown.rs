//! How much slower the jobs of a mix were than by themselves in the same block, and what that comes to.

use crate::mix::{ANTT, JAIN_INDEX, Job, JobRun, MEAN_COMPLETION, Mix, STP};
use crate::plan::{Cell, Plan};
use crate::times::counted;
use crate::trial::Trial;
use std::collections::BTreeMap;

/// How much slower the jobs of one trial of a mix were than by themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct Slowdowns {
    /// For each of the trial's runs of jobs, its time over that by itself; none where it was cut short, or its program failed by itself.
    pub runs: Vec<Option<f64>>,
    /// For each job of the mix, the mean over its runs.
    pub jobs: Vec<Option<f64>>,
    /// The mean time, over jobs, from when each was to start to the end of its first run, in seconds.
    pub mean_completion_s: Option<f64>,
}

impl Slowdowns {
    /// Those of a trial of `mix`, where `alone_s` is the time of a program by itself in the same block, by the name of its subject.
    fn new(mix: &Mix, runs: &[JobRun], alone_s: impl Fn(&str) -> Option<f64>) -> Self {
        let job_of = |run: &JobRun| mix.jobs.iter().find(|job| job.name == run.name);
        let slowdown = |run: &JobRun| Some(run.time_s? / alone_s(&job_of(run)?.subject)?);
        let of_runs: Vec<Option<f64>> = runs.iter().map(slowdown).collect();
        let of_job = |name: &str| {
            let ours = runs.iter().zip(&of_runs).filter(|(run, _)| run.name == name);
            let slowdowns: Vec<f64> = ours.filter_map(|(_, slowdown)| *slowdown).collect();
            stats::antt(&slowdowns)
        };
        let completion_s = |job: &Job| {
            let first = runs.iter().find(|run| run.name == job.name)?;
            Some(first.ended_s - job.start.as_secs_f64())
        };
        let completions_s = mix.jobs.iter().map(completion_s).collect::<Option<Vec<f64>>>();
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let jobs = mix.jobs.iter().map(|job| of_job(&job.name)).collect();
        Self {
            runs: of_runs,
            jobs,
            mean_completion_s: completions_s.filter(|completions_s| !completions_s.is_empty()).map(mean),
        }
    }

    /// The metrics of the whole mix, by name; those of slowdowns only where every job has one.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let slowdowns = self.jobs.iter().copied().collect::<Option<Vec<f64>>>().unwrap_or_default();
        let progress: Vec<f64> = slowdowns.iter().map(|slowdown| slowdown.recip()).collect();
        let metrics = [
            (MEAN_COMPLETION, self.mean_completion_s),
            (ANTT, stats::antt(&slowdowns)),
            (STP, stats::stp(&slowdowns)),
            (JAIN_INDEX, stats::jain_index(&progress)),
        ];
        metrics.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// The slowdowns in every trial of a mix that counts, by its sequence number.
pub(crate) fn slowdowns(plan: &Plan, trials: &[Trial]) -> BTreeMap<u32, Slowdowns> {
    let mut slowdowns = BTreeMap::new();
    for (threads, _) in plan.threads.iter().enumerate() {
        // By subject, then by block. A program that is studied beside mixes is run by itself anyway.
        let mut alone_s: BTreeMap<&str, BTreeMap<u32, f64>> = BTreeMap::new();
        for (subject, alone) in plan.subjects.iter().enumerate().filter(|(_, subject)| subject.mix.is_none()) {
            let runs = counted(plan, trials, Cell { subject, threads, treatment: 0 });
            alone_s.insert(&alone.name, runs.map(|(trial, time_s)| (trial.block, time_s)).collect());
        }
        for cell in plan.cells().filter(|cell| cell.threads == threads) {
            let Some(mix) = &plan.subjects[cell.subject].mix else { continue };
            for (trial, _) in counted(plan, trials, cell) {
                let alone_s = |subject: &str| alone_s.get(subject)?.get(&trial.block).copied();
                slowdowns.insert(trial.sequence, Slowdowns::new(mix, &trial.jobs, alone_s));
            }
        }
    }
    slowdowns
}

/// All numbers of a trial besides what its subject is compared by, by the name of the metric.
pub(crate) fn values<'a>(
    trial: &'a Trial,
    slowdowns: &'a BTreeMap<u32, Slowdowns>,
) -> impl Iterator<Item = (&'a str, f64)> {
    let of_jobs = slowdowns.get(&trial.sequence).map(Slowdowns::metrics);
    let kept = trial.values.iter().map(|(name, value)| (name.as_str(), *value));
    kept.chain(of_jobs.into_iter().flatten())
}
