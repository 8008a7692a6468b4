//! What one replicate showed, as numbers of metrics.
//!
//! A replicate has every number that makes sense for its workload and machine, zeros included, so that means over replicates
//! leave none out.

use machine::{Level, Machine};
use serde::Serialize;
use sim::{Durations, End, JobOutcome, Misses, Outcome, ProcessOutcome, Workload};
use stats::{By, Metric, Unit};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Lines that processes had to bring into a cache, by cause `reload`, `steady` or `invalidation`.
pub const MISSES: Metric = Metric::lower("misses", Unit::Count);
/// From the start until the last process or job ended.
pub const MAKESPAN: Metric = Metric::lower("makespan", Unit::Ms);
/// Mean over jobs of the time from a job's arrival to its end.
pub const MEAN_COMPLETION: Metric = Metric::lower("mean_completion", Unit::Ms);
/// From a job's arrival to its end.
pub const COMPLETION: Metric = Metric::lower("completion", Unit::Ms);
/// Effective time slices: a histogram.
pub const SLICES: Metric = Metric::neutral("effective_slice", Unit::Ms);
/// Median of the effective time slices.
pub const SLICE_MEDIAN: Metric = Metric::neutral("effective_slice_median", Unit::Ms);
/// Dispatch intervals: a histogram.
pub const INTERVALS: Metric = Metric::neutral("dispatch_interval", Unit::Ms);
/// Median of the dispatch intervals.
pub const INTERVAL_MEDIAN: Metric = Metric::neutral("dispatch_interval_median", Unit::Ms);
/// The share of dispatch intervals that a cause ended.
pub const ENDED: Metric = Metric::neutral("ended", Unit::Fraction);
/// Moves of processes from one CPU to another, by what the two share.
pub const MIGRATIONS: Metric = Metric::lower("migrations", Unit::Count);
/// CPU time that was work.
pub const WORK: Metric = Metric::neutral("work", Unit::Ms);
/// Of space sharing, from a job's arrival to its end: what policies are compared by.
pub const RESPONSE: Metric = Metric::lower("response", Unit::Ms);
/// Of space sharing, the share of CPU time that jobs had in which cached lines were brought back.
pub const RELOAD_FRACTION: Metric = Metric::neutral("reload", Unit::Fraction);

/// What a process leaves from one CPU of `machine` to another, from the closest.
pub(crate) fn levels(machine: &Machine) -> Vec<Level> {
    let cpus: Vec<_> = machine.usable().collect();
    // Whatever two CPUs share, two neighbours in the tree share.
    let mut levels: Vec<Level> = cpus.windows(2).filter_map(|pair| machine.sharing(pair[0], pair[1])).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// The distributions of a replicate.
pub(crate) fn histograms(outcome: &Outcome) -> BTreeMap<Metric, Vec<(f64, u64)>> {
    BTreeMap::from([(SLICES, outcome.slices().rounded()), (INTERVALS, outcome.intervals().rounded())])
}

/// The numbers of a replicate of `workload` on a machine whose CPUs are at `levels` from one another.
pub(crate) fn metrics(outcome: &Outcome, workload: &Workload, levels: &[Level]) -> BTreeMap<Metric, f64> {
    let all: Vec<&JobOutcome> = outcome.jobs.iter().collect();
    let mut numbers = Numbers::default();
    let mut of_all = numbers.of(None);
    let (cpu_ms, work_ms) = of_all.jobs(&all, &outcome.processes, levels);
    of_all.add(Metric::neutral("dispatches", Unit::Count), outcome.dispatches as f64);
    of_all.add(Metric::lower("switches", Unit::Count), outcome.switches as f64);
    of_all.add(Metric::neutral("idle", Unit::Fraction), outcome.idle_fraction);
    of_all.add(Metric::lower("longest_wait", Unit::Ms), outcome.longest_wait_ms);
    of_all.add(Metric::lower("stalled", Unit::Fraction), (cpu_ms > 0.0).then(|| 1.0 - work_ms / cpu_ms));
    of_all.add(MAKESPAN, outcome.completed.then_some(outcome.makespan_ms));
    of_all.add(MEAN_COMPLETION, outcome.mean_completion_ms());
    of_all.add(Metric::higher("jain_index", Unit::Index), outcome.jain_index);

    let mut processes = outcome.processes.as_slice();
    for (job, count) in outcome.jobs.iter().zip(workload.jobs.iter().map(|job| job.processes as usize)) {
        let (own, others) = processes.split_at(count.min(processes.len()));
        processes = others;
        let mut of_job = numbers.of(Some(&job.name));
        of_job.jobs(&[job], own, levels);
        of_job.add(COMPLETION, job.completion_ms);
    }
    numbers.by_metric
}

/// Numbers of a sample as they are collected.
#[derive(Default)]
pub(crate) struct Numbers {
    pub by_metric: BTreeMap<Metric, f64>,
}

/// Collects the numbers of one job, or of all together.
pub(crate) struct NumbersOf<'a> {
    numbers: &'a mut Numbers,
    job: Option<&'a str>,
}

impl Numbers {
    /// Collects numbers of the job of that name, or of all.
    pub fn of<'a>(&'a mut self, job: Option<&'a str>) -> NumbersOf<'a> {
        NumbersOf { numbers: self, job }
    }
}

impl NumbersOf<'_> {
    /// Adds a number, where there is one.
    pub fn add(&mut self, metric: Metric, value: impl Into<Option<f64>>) {
        let metric = self.job.map_or_else(|| metric.clone(), |job| metric.of_job(job));
        self.numbers.by_metric.extend(value.into().map(|value| (metric, value)));
    }

    /// Adds what one job has as well as all together; CPU time and work, in ms.
    fn jobs(&mut self, jobs: &[&JobOutcome], processes: &[ProcessOutcome], levels: &[Level]) -> (f64, f64) {
        let merged = |of: fn(&JobOutcome) -> &Durations| {
            let mut merged = Durations::default();
            jobs.iter().for_each(|job| merged.merge(of(job)));
            merged
        };
        self.misses(jobs.iter().map(|job| job.misses).sum());
        self.times("effective_slice", &merged(|job| &job.slices));
        self.times("dispatch_interval", &merged(|job| &job.intervals));
        self.times("response", &merged(|job| &job.responses));
        self.ends(jobs);
        self.migrations(jobs, levels);
        self.process_times(processes);
        let sum = |of: fn(&JobOutcome) -> f64| jobs.iter().map(|job| of(job)).sum::<f64>();
        let (cpu_ms, work_ms) = (sum(|job| job.cpu_ms), sum(|job| job.work_ms));
        self.add(Metric::neutral("cpu", Unit::Ms), cpu_ms);
        self.add(WORK, work_ms);
        (cpu_ms, work_ms)
    }

    /// Adds misses, all of them and by cause.
    pub fn misses(&mut self, misses: Misses) {
        self.add(MISSES, misses.total());
        for (cause, count) in
            [("reload", misses.reload), ("steady", misses.steady), ("invalidation", misses.invalidation)]
        {
            self.add(MISSES.by(By::Cause(cause.into())), count);
        }
    }

    /// Median, mean, longest and number of times; nothing where there are none.
    fn times(&mut self, name: &str, times: &Durations) {
        let of = |statistic: &str| named(format!("{name}_{statistic}"), Unit::Ms);
        self.add(of("median"), times.quantile_ms(0.5));
        self.add(of("mean"), times.mean_ms());
        self.add(of("longest"), times.longest_ms());
        self.add(named(format!("{name}s"), Unit::Count), (times.count() > 0).then_some(times.count() as f64));
    }

    /// Why dispatch intervals ended: the share of each cause. Those cut off by the horizon are left out.
    fn ends(&mut self, jobs: &[&JobOutcome]) {
        let ended = |end: &End| jobs.iter().filter_map(|job| job.ends.get(end)).sum::<u64>() as f64;
        // Policies under which nothing preempts have no word for it.
        let is_told = |end: &End| *end != End::Horizon && (*end != End::Preempted || ended(end) > 0.0);
        let causes: Vec<End> = End::ALL.into_iter().filter(is_told).collect();
        let all: f64 = causes.iter().map(ended).sum();
        if all > 0.0 {
            for end in causes {
                self.add(ENDED.by(By::End(variant_name(&end))), ended(&end) / all);
            }
        }
    }

    /// Moves from one CPU to another, all of them and by what the two share.
    fn migrations(&mut self, jobs: &[&JobOutcome], levels: &[Level]) {
        let moves = |level: &Level| jobs.iter().filter_map(|job| job.migrations.get(level)).sum::<u64>() as f64;
        for level in levels {
            self.add(MIGRATIONS.by(By::Distance(variant_name(level))), moves(level));
        }
        let all: u64 = jobs.iter().flat_map(|job| job.migrations.values()).sum();
        self.add(MIGRATIONS, all as f64);
    }

    /// From the arrival of a process to its end: the mean and the longest; nothing when one had not ended.
    fn process_times(&mut self, processes: &[ProcessOutcome]) {
        let times = processes.iter().map(|process| Some((process.ended_ns? - process.arrived_ns?) as f64 / 1e6));
        if let Some(times_ms) = times.collect::<Option<Vec<f64>>>().filter(|times| !times.is_empty()) {
            let mean_ms = times_ms.iter().sum::<f64>() / times_ms.len() as f64;
            self.add(Metric::lower("process_time_mean", Unit::Ms), mean_ms);
            self.add(Metric::lower("process_time_longest", Unit::Ms), times_ms.into_iter().fold(0.0, f64::max));
        }
    }
}

/// A metric of a name that is put together; less of responses is better.
fn named(name: String, unit: Unit) -> Metric {
    let metric = if name.starts_with("response") { Metric::lower("", unit) } else { Metric::neutral("", unit) };
    Metric { name: Cow::Owned(name), ..metric }
}

/// What serde calls a variant without data.
fn variant_name(variant: &impl Serialize) -> Cow<'static, str> {
    let name = serde_json::to_value(variant).ok().and_then(|value| value.as_str().map(str::to_owned));
    Cow::Owned(name.unwrap_or_default())
}
