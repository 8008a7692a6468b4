//! How much slower the jobs of a mix were than by themselves in the same block, and what that comes to.

use crate::metric::TIME;
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

    /// The metrics of the whole mix, by name: those of slowdowns only where every job has one.
    pub fn metrics(&self) -> Vec<(&'static str, f64)> {
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
                slowdowns.insert(trial.sequence, Slowdowns::new(mix, trial.jobs(), alone_s));
            }
        }
    }
    slowdowns
}

/// All numbers of a trial, by the name of the metric.
pub(crate) fn values<'a>(
    trial: &'a Trial,
    slowdowns: &'a BTreeMap<u32, Slowdowns>,
) -> impl Iterator<Item = (&'a str, f64)> {
    let of_jobs = slowdowns.get(&trial.sequence).map(Slowdowns::metrics);
    let time_s = trial.time_s.map(|time_s| (TIME, time_s));
    trial.values().chain(time_s).chain(of_jobs.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of docs/design/treatments.md.
    #[test]
    fn a_trial_has_what_its_slowdowns_come_to_unless_one_is_missing() {
        let of = |jobs: [Option<f64>; 3]| {
            Slowdowns { runs: Vec::new(), jobs: jobs.into(), mean_completion_s: None }.metrics()
        };
        let metrics = of([Some(1.25), Some(1.5), Some(2.0)]);
        let [(ANTT, antt), (STP, stp), (JAIN_INDEX, index)] = metrics[..] else { panic!("{metrics:?}") };
        let close = |value: f64, by_hand: f64| (value - by_hand).abs() < 1e-12;
        assert!(close(antt, 19.0 / 12.0) && close(stp, 59.0 / 30.0) && close(index, 3481.0 / 3603.0));
        assert_eq!(of([Some(1.25), None, Some(2.0)]), []);
    }

    #[test]
    fn a_job_that_repeats_counts_by_the_mean_of_its_whole_runs_and_its_completion_is_its_first() {
        let job = |name: &str, start_s| Job {
            name: name.into(),
            subject: name.into(),
            start: std::time::Duration::from_secs(start_s),
            ..Job::default()
        };
        let mix = Mix { jobs: vec![job("a", 0), job("b", 1)], ..Mix::default() };
        let run = |name: &str, started_s, ended_s, whole: bool| JobRun {
            name: name.into(),
            started_s,
            ended_s,
            time_s: whole.then_some(ended_s - started_s),
            processes: 1,
        };
        let runs =
            [run("a", 0.0, 2.0, true), run("a", 2.0, 6.0, true), run("a", 6.0, 7.0, false), run("b", 1.0, 7.0, true)];
        let alone_s = |subject: &str| Some(if subject == "a" { 1.0 } else { 4.0 });
        let slowdowns = Slowdowns::new(&mix, &runs, alone_s);
        assert_eq!(slowdowns.runs, [Some(2.0), Some(4.0), None, Some(1.5)]);
        assert_eq!(slowdowns.jobs, [Some(3.0), Some(1.5)]);
        assert_eq!(slowdowns.mean_completion_s, Some(4.0), "2 s, and 6 s from its start");
    }
}
