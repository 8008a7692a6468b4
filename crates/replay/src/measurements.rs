//! Numbers of a run, from when each process had which CPU: the same code for the simulator and for a kernel.
//!
//! They have the names of the simulator's metrics, units included.

use machine::{Level, Machine};
use serde::Serialize;
use sim::{Durations, End, Interval, ProcessIndex, ProcessOutcome, Workload};
use std::collections::BTreeMap;

/// How late processes that had slept got a CPU.
pub const WAKES: &str = "wake_late";

/// How long they waited for a CPU, for whatever reason.
pub const WAITS: &str = "wait";

/// What is less is no wait for a CPU that others had, but what a kernel takes to switch.
const LEAST_WAIT_NS: u64 = 50_000;

/// The least CPU time of equal processes over the most.
pub const CPU_TIME_RATIO: &str = "cpu_time_least_over_most";

/// When the processes of a workload had which CPU.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'a> {
    /// What ran.
    pub workload: &'a Workload,
    /// Where: its usable CPUs in tree order are the intervals'.
    pub machine: &'a Machine,
    /// Times on CPUs; those of a CPU or a process in the order of time.
    pub intervals: &'a [Interval],
    /// When processes came and went, by number.
    pub processes: &'a [ProcessOutcome],
    /// When the last process ended or the horizon was reached, in ns.
    pub until_ns: u64,
}

/// What a trace comes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measurements {
    /// Numbers by name.
    pub metrics: BTreeMap<String, f64>,
    /// Distributions of times in ms, rounded, by name.
    pub histograms: BTreeMap<String, Vec<(f64, u64)>>,
}

/// What is left of a run without its first `warm_up_ns`, with times that count from then.
pub fn without_warm_up(
    warm_up_ns: u64,
    intervals: &[Interval],
    processes: &[ProcessOutcome],
) -> (Vec<Interval>, Vec<ProcessOutcome>) {
    let left = |ns: u64| ns.saturating_sub(warm_up_ns);
    let intervals = intervals.iter().filter(|interval| interval.until_ns > warm_up_ns).map(|interval| Interval {
        // Who had the CPU then did not wait for it.
        runnable_ns: left(interval.runnable_ns).min(left(interval.from_ns)),
        from_ns: left(interval.from_ns),
        until_ns: left(interval.until_ns),
        ..*interval
    });
    let processes = processes.iter().map(|process| ProcessOutcome {
        arrived_ns: process.arrived_ns.map(left),
        ended_ns: process.ended_ns.map(left),
        ..*process
    });
    (intervals.collect(), processes.collect())
}

impl Trace<'_> {
    /// Measures the run.
    pub fn measurements(&self) -> Measurements {
        let mut by_process = self.intervals.to_vec();
        by_process.sort_by_key(|interval| (interval.process, interval.from_ns));
        let mut measurements = Measurements::default();
        measurements.add_cpus(self);
        measurements.add_processes(self, &by_process);
        measurements.add_completions(self);
        measurements.add_fairness(self, &by_process);
        measurements
    }
}

impl Measurements {
    fn set(&mut self, name: &str, value: f64) {
        self.metrics.insert(name.into(), value);
    }

    fn set_times(&mut self, name: &str, times: &Durations) {
        for (which, value) in [
            ("median", times.quantile_ms(0.5)),
            ("p99", times.quantile_ms(0.99)),
            ("p999", times.quantile_ms(0.999)),
            ("mean", times.mean_ms()),
            ("longest", times.longest_ms()),
        ] {
            value.into_iter().for_each(|ms| self.set(&format!("{name}_{which}_ms"), ms));
        }
        self.set(&format!("{name}s"), times.count() as f64);
        self.histograms.insert(format!("{name}_ms"), times.rounded());
    }

    /// What CPUs did: time slices, switches, idle time.
    fn add_cpus(&mut self, trace: &Trace<'_>) {
        let mut by_cpu: Vec<&Interval> = trace.intervals.iter().collect();
        by_cpu.sort_by_key(|interval| (interval.cpu, interval.from_ns));
        let mut slices = Durations::default();
        let mut switches = 0;
        let mut cpu_ns = 0;
        // Time on a CPU with no other process in between.
        for slice in by_cpu.chunk_by(|a, b| a.cpu == b.cpu && a.process == b.process) {
            let slice_ns = slice.iter().map(|interval| interval.until_ns - interval.from_ns).sum();
            slices.record(slice_ns);
            switches += 1;
            cpu_ns += slice_ns;
        }
        self.set_times("effective_slice", &slices);
        let seconds = trace.until_ns as f64 / 1e9;
        let capacity_ns = trace.until_ns as f64 * trace.machine.usable().count() as f64;
        self.set("cpu_ms", cpu_ns as f64 / 1e6);
        self.set("switches", f64::from(switches));
        if seconds > 0.0 {
            self.set("switches_per_s", f64::from(switches) / seconds);
            self.set("idle_fraction", (1.0 - cpu_ns as f64 / capacity_ns).max(0.0));
        }
    }

    /// What processes saw: moves, waits, lateness after sleeps.
    fn add_processes(&mut self, trace: &Trace<'_>, by_process: &[Interval]) {
        let cpus: Vec<_> = trace.machine.usable().collect();
        let sharing = |a: &Interval, b: &Interval| {
            let (a, b) = (cpus.get(a.cpu.0 as usize)?, cpus.get(b.cpu.0 as usize)?);
            trace.machine.sharing(*a, *b)
        };
        // Whatever two CPUs share, two neighbours in the tree share.
        let levels = cpus.windows(2).filter_map(|pair| trace.machine.sharing(pair[0], pair[1]));
        let mut migrations: BTreeMap<Level, u32> = levels.map(|level| (level, 0)).collect();
        let mut all_migrations = 0;
        let (mut waits, mut wakes) = (Durations::default(), Durations::default());
        for own in by_process.chunk_by(|a, b| a.process == b.process) {
            for (at, interval) in own.iter().enumerate() {
                let before = at.checked_sub(1).map(|at| &own[at]);
                let waited_ns = interval.from_ns - interval.runnable_ns;
                if waited_ns >= LEAST_WAIT_NS {
                    waits.record(waited_ns);
                }
                if before.is_some_and(|before| before.end == End::Semaphore) {
                    wakes.record(waited_ns);
                }
                if let Some(before) = before.filter(|before| before.cpu != interval.cpu) {
                    all_migrations += 1;
                    sharing(before, interval).into_iter().for_each(|level| *migrations.entry(level).or_default() += 1);
                }
            }
        }
        self.set("migrations", f64::from(all_migrations));
        if trace.until_ns > 0 {
            self.set("migrations_per_s", f64::from(all_migrations) / (trace.until_ns as f64 / 1e9));
        }
        for (level, count) in migrations {
            // Levels are named as the simulator's metrics name them.
            let name = format!("{level:?}").to_lowercase();
            self.set(&format!("migrations_within_{name}"), f64::from(count));
        }
        self.set_times(WAITS, &waits);
        self.set_times(WAKES, &wakes);
        self.set("longest_wait_ms", waits.longest_ms().unwrap_or_default());
    }

    fn add_completions(&mut self, trace: &Trace<'_>) {
        let ms = |ns: u64| ns as f64 / 1e6;
        let mut completions = Vec::new();
        let mut first = 0;
        for job in &trace.workload.jobs {
            let own = &trace.processes[first..first + job.processes as usize];
            first += job.processes as usize;
            let cpu_ns: u64 = own.iter().map(|process| process.cpu_ns).sum();
            self.set(&format!("cpu_ms:{}", job.name), ms(cpu_ns));
            let last_end = own.iter().map(|process| process.ended_ns).reduce(|a, b| Some(a?.max(b?))).flatten();
            let completion_ms = last_end.map(|end_ns| ms(end_ns) - job.arrival_ms);
            completion_ms.into_iter().for_each(|ms| self.set(&format!("completion_ms:{}", job.name), ms));
            completions.push(completion_ms);
        }
        let completions: Option<Vec<f64>> = completions.into_iter().collect();
        if let Some(completions) = completions.filter(|completions| !completions.is_empty()) {
            self.set("makespan_ms", ms(trace.until_ns));
            self.set("mean_completion_ms", completions.iter().sum::<f64>() / completions.len() as f64);
        }
    }

    /// How alike the CPU time of equal processes is when the first of them ends, or at the end: of the least alike group.
    fn add_fairness(&mut self, trace: &Trace<'_>, by_process: &[Interval]) {
        let (groups, _) = trace.workload.equal_processes();
        let cpu_ns = |process: ProcessIndex, until_ns: u64| {
            let from = by_process.partition_point(|interval| interval.process < process);
            let own = by_process[from..].iter().take_while(|interval| interval.process == process);
            own.map(|interval| interval.until_ns.min(until_ns).saturating_sub(interval.from_ns)).sum::<u64>() as f64
        };
        let (mut jain_index, mut ratio): (Option<f64>, Option<f64>) = (None, None);
        for group in groups.iter().filter(|group| group.len() > 1) {
            let ends = group.iter().filter_map(|process| trace.processes.get(process.0 as usize)?.ended_ns);
            let until_ns = ends.min().unwrap_or(trace.until_ns);
            let times: Vec<f64> = group.iter().map(|process| cpu_ns(*process, until_ns)).collect();
            let (sum, squares) = times.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
            if squares > 0.0 {
                // Jain, Chiu and Hawe, DEC-TR-301, 1984.
                let index = sum * sum / (times.len() as f64 * squares);
                let (least, most) = times.iter().fold((f64::MAX, 0.0), |(a, b), x| (f64::min(a, *x), f64::max(b, *x)));
                jain_index = Some(jain_index.map_or(index, |other| other.min(index)));
                ratio = Some(ratio.map_or(least / most, |other| other.min(least / most)));
            }
        }
        jain_index.into_iter().for_each(|index| self.set("jain_index", index));
        ratio.into_iter().for_each(|ratio| self.set(CPU_TIME_RATIO, ratio));
    }
}
