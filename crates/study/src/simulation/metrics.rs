//! What one replicate showed, as numbers with names.
//!
//! Units stand in the names. Numbers of one job carry its name after a colon. A replicate has every number that makes sense for
//! its workload and machine, zeros included, so that means over replicates leave none out.

use machine::{Level, Machine};
use serde::Serialize;
use sim::{Durations, End, JobOutcome, Misses, Outcome, ProcessOutcome, Workload};
use std::collections::BTreeMap;

/// The histogram of effective time slices.
pub const SLICES: &str = "effective_slice_ms";
/// The histogram of dispatch intervals.
pub const INTERVALS: &str = "dispatch_interval_ms";

/// What a process leaves from one CPU of `machine` to another, from the closest.
pub(super) fn levels(machine: &Machine) -> Vec<Level> {
    let cpus: Vec<_> = machine.usable().collect();
    // Whatever two CPUs share, two neighbours in the tree share.
    let mut levels: Vec<Level> = cpus.windows(2).filter_map(|pair| machine.sharing(pair[0], pair[1])).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// The distributions of a replicate.
pub(super) fn histograms(outcome: &Outcome) -> BTreeMap<String, Vec<(f64, u64)>> {
    BTreeMap::from([(SLICES.into(), outcome.slices().rounded()), (INTERVALS.into(), outcome.intervals().rounded())])
}

/// The numbers of a replicate of `workload` on a machine whose CPUs are at `levels` from one another.
pub(super) fn metrics(outcome: &Outcome, workload: &Workload, levels: &[Level]) -> BTreeMap<String, f64> {
    let mut told = Told(BTreeMap::new());
    told.misses("", outcome.misses());
    told.times("effective_slice", "", &outcome.slices());
    told.times("dispatch_interval", "", &outcome.intervals());
    told.times("response", "", &outcome.responses());
    let all: Vec<&JobOutcome> = outcome.jobs.iter().collect();
    told.ends("", &all);
    told.migrations("", &all, levels);
    told.process_times("", &outcome.processes);

    let sum = |of: fn(&JobOutcome) -> f64| outcome.jobs.iter().map(of).sum::<f64>();
    let (cpu_ms, work_ms) = (sum(|job| job.cpu_ms), sum(|job| job.work_ms));
    told.number("cpu_ms", cpu_ms);
    told.number("work_ms", work_ms);
    told.number("dispatches", outcome.dispatches as f64);
    told.number("switches", outcome.switches as f64);
    told.number("idle_fraction", outcome.idle_fraction);
    told.number("longest_wait_ms", outcome.longest_wait_ms);
    told.known("stalled_fraction", (cpu_ms > 0.0).then(|| 1.0 - work_ms / cpu_ms));
    told.known("makespan_ms", outcome.completed.then_some(outcome.makespan_ms));
    told.known("mean_completion_ms", outcome.mean_completion_ms());
    told.known("jain_index", outcome.jain_index);

    let mut processes = outcome.processes.as_slice();
    for (job, count) in outcome.jobs.iter().zip(workload.jobs.iter().map(|job| job.processes as usize)) {
        let (own, others) = processes.split_at(count.min(processes.len()));
        processes = others;
        let whose = format!(":{}", job.name);
        told.misses(&whose, job.misses);
        told.times("effective_slice", &whose, &job.slices);
        told.times("dispatch_interval", &whose, &job.intervals);
        told.times("response", &whose, &job.responses);
        told.ends(&whose, &[job]);
        told.migrations(&whose, &[job], levels);
        told.process_times(&whose, own);
        told.number(&format!("cpu_ms{whose}"), job.cpu_ms);
        told.number(&format!("work_ms{whose}"), job.work_ms);
        told.known(&format!("completion_ms{whose}"), job.completion_ms);
    }
    told.0
}

/// Numbers by name.
pub(super) struct Told(pub BTreeMap<String, f64>);

impl Told {
    pub fn number(&mut self, name: &str, value: f64) {
        self.0.insert(name.to_owned(), value);
    }

    pub fn known(&mut self, name: &str, value: Option<f64>) {
        value.into_iter().for_each(|value| self.number(name, value));
    }

    pub fn misses(&mut self, whose: &str, misses: Misses) {
        self.number(&format!("misses{whose}"), misses.total());
        self.number(&format!("misses_reload{whose}"), misses.reload);
        self.number(&format!("misses_steady{whose}"), misses.steady);
        self.number(&format!("misses_invalidation{whose}"), misses.invalidation);
    }

    /// Median, mean, longest and number of times; nothing where there are none.
    fn times(&mut self, name: &str, whose: &str, times: &Durations) {
        self.known(&format!("{name}_median_ms{whose}"), times.quantile_ms(0.5));
        self.known(&format!("{name}_mean_ms{whose}"), times.mean_ms());
        self.known(&format!("{name}_longest_ms{whose}"), times.longest_ms());
        if times.count() > 0 {
            self.number(&format!("{name}s{whose}"), times.count() as f64);
        }
    }

    /// Why dispatch intervals ended: the share of each cause. Those cut off by the horizon are left out.
    fn ends(&mut self, whose: &str, jobs: &[&JobOutcome]) {
        let ended = |end: &End| jobs.iter().filter_map(|job| job.ends.get(end)).sum::<u64>() as f64;
        let causes: Vec<End> = End::ALL.into_iter().filter(|end| *end != End::Horizon).collect();
        let all: f64 = causes.iter().map(ended).sum();
        if all > 0.0 {
            for end in causes {
                self.number(&format!("ended_by_{}_fraction{whose}", variant_name(&end)), ended(&end) / all);
            }
        }
    }

    /// Moves from one CPU to another, all of them and by what the two share.
    fn migrations(&mut self, whose: &str, jobs: &[&JobOutcome], levels: &[Level]) {
        let moves = |level: &Level| jobs.iter().filter_map(|job| job.migrations.get(level)).sum::<u64>() as f64;
        for level in levels {
            self.number(&format!("migrations_within_{}{whose}", variant_name(level)), moves(level));
        }
        let all: u64 = jobs.iter().flat_map(|job| job.migrations.values()).sum();
        self.number(&format!("migrations{whose}"), all as f64);
    }

    /// From the arrival of a process to its end: the mean and the longest; nothing when one had not ended.
    fn process_times(&mut self, whose: &str, processes: &[ProcessOutcome]) {
        let times = processes.iter().map(|process| Some((process.ended_ns? - process.arrived_ns?) as f64 / 1e6));
        if let Some(times_ms) = times.collect::<Option<Vec<f64>>>().filter(|times| !times.is_empty()) {
            let mean_ms = times_ms.iter().sum::<f64>() / times_ms.len() as f64;
            self.number(&format!("process_time_mean_ms{whose}"), mean_ms);
            self.number(&format!("process_time_longest_ms{whose}"), times_ms.into_iter().fold(0.0, f64::max));
        }
    }
}

/// What serde calls a variant without data.
fn variant_name(variant: &impl Serialize) -> String {
    serde_json::to_value(variant).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
