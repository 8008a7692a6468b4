//! The decision that docs/design/simulator.md goes through by hand.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use machine::Machine;
use sim::cache::{Hierarchy, Member, Timing};
use sim::{
    CacheModel, Clocks, CpuIndex, Decay, Experiment, Footprint, Interval, Memory, Parameters, Policy, ProcessIndex,
    QuantumEnd, Ran, Workload,
};
use std::cell::RefCell;

const TWO_CPUS: &str = "pack:1 core:2 pu:1";

/// The report's Matrix.
const MATRIX: Footprint = Footprint {
    line_bytes: 16.0,
    reload_lines: 3_000.0,
    pass_us: 250.0,
    order: sim::cache::Order::Random,
    steady_misses_per_ms: 125.0,
    fresh_share: 1.0,
    shared_lines: 0.0,
    shared_writes_per_ms: 0.0,
};

/// Who, where, when (in ms), and how many misses of reload.
type Run = (u32, u32, u64, f64);

/// Caches that tell of every run.
struct Told<'a> {
    caches: CacheModel,
    runs: &'a RefCell<Vec<Run>>,
}

impl Memory for Told<'_> {
    fn dispatch(&mut self, process: ProcessIndex, cpu: CpuIndex, now_ns: u64) {
        self.caches.dispatch(process, cpu, now_ns);
    }

    fn run(&mut self, process: ProcessIndex, cpu: CpuIndex, now_ns: u64, work_ns: u64, wall_ns: u64) -> Ran {
        let ran = self.caches.run(process, cpu, now_ns, work_ns, wall_ns);
        self.runs.borrow_mut().push((process.0, cpu.0, now_ns / 1_000_000, ran.misses.reload));
        ran
    }
}

fn simulated() -> (Vec<Interval>, Vec<Run>) {
    let machine = Machine::named(TWO_CPUS).unwrap();
    let mut workload = Workload::spin(3);
    workload.jobs[0].process.memory = MATRIX;
    let parameters = Parameters {
        decay: Decay::None,
        clocks: Clocks::Together,
        quantum_end: QuantumEnd::Elapsed,
        jitter_us: 0.0,
        horizon_ms: Some(900.0),
        ..Parameters::default()
    };
    // The caches of two CPUs of the report's machine.
    let reports = Machine::named("sgi-4d340").unwrap();
    let cpus: Vec<_> = reports.usable().take(2).collect();
    let hierarchy = Hierarchy::new(&reports, &cpus, Timing::SGI_4D340).unwrap();
    let caches = CacheModel::new(hierarchy, &[Member { footprint: MATRIX, job: 0 }; 3]);
    let runs = RefCell::default();
    let mut intervals = Vec::new();
    let experiment = Experiment::new(&machine, &workload, &parameters).unwrap();
    experiment.run(Policy::Light, 0, Told { caches, runs: &runs }, |interval| intervals.push(interval));
    (intervals, runs.into_inner())
}

/// Who takes a CPU at a time in ms.
fn taken(intervals: &[Interval], cpu: u32, at_ms: u64) -> u32 {
    let begins = |i: &&Interval| i.cpu == CpuIndex(cpu) && i.from_ns == at_ms * 1_000_000;
    intervals.iter().find(begins).unwrap().process.0
}

#[test]
fn boosts_keep_a_cpu_for_240_ms_and_lose_it_at_the_threshold() {
    let (intervals, _) = simulated();
    // Two run from the start, on a CPU each; which one gets which is left to chance.
    let (a, b, c) = (taken(&intervals, 0, 0), taken(&intervals, 1, 0), 2);
    assert_eq!((taken(&intervals, 0, 210), taken(&intervals, 0, 240)), (a, c), "24 ticks are 12 units: both boosts");
    assert_eq!((taken(&intervals, 1, 240), taken(&intervals, 1, 450)), (b, b), "nobody has affinity to CPU 1 but B");
    assert_eq!(taken(&intervals, 0, 480), c, "12 - 12 is before A's 12 - 6");
    assert_eq!(taken(&intervals, 1, 480), a, "24 - 12 is not before A's 12, who has waited longer");
    assert_eq!((taken(&intervals, 1, 810), taken(&intervals, 1, 840)), (a, b), "30 - 12 is not before B's 24 - 6");
}

#[test]
fn a_migrant_reloads_everything_and_who_returns_what_was_displaced() {
    let (_, runs) = simulated();
    let reloaded = |cpu: u32, at_ms: u64| {
        runs.iter().find(|&&(_, at, from_ms, _)| (at, from_ms) == (cpu, at_ms)).map(|&(.., reload)| reload).unwrap()
    };
    let near = |x: f64, y: f64| assert!((x / y - 1.0).abs() < 0.01, "{x} {y}");
    near(reloaded(1, 480), 3_000.0);
    // A's 360 ms on CPU 1: 3 ms of reload, the rest work with 125 misses of 1 us a ms. Its own lines lie side by side.
    let frames = 16_384.0f64;
    let work_ms = (360.0 - 3.0) / 1.125;
    let displacing = 125.0 * work_ms - frames * (1.0 - 3_000.0 / frames).ln();
    near(displacing, 43_000.0);
    near(reloaded(1, 840), 3_000.0 * (1.0 - (-displacing / frames).exp()));
}
