//! What a simulated dispatch costs, beside the peers in the same run.
//!
//! `make bench`, or `cargo bench -p stayput-sim --bench dispatch`. Every program simulates the same: processes that compute
//! for ever go round on CPUs in quanta of 30 ms. SimCore is the Rust core of the DSLab simulators, built from
//! `benches/simcore`, and SimPy the usual engine in Python. A peer that doesn't run here is left out and said.
//!
//! Under the kernel's fair scheduler they go round at its clock ticks, each CPU with a queue of its own.
//!
//! `cargo bench -p stayput-sim --bench dispatch -- --billion` shows instead that memory doesn't grow with the dispatches: it
//! simulates ten million and then a billion with everything on, which takes some minutes.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't run says so and ends")]

use machine::Machine;
use nix::time::{ClockId, clock_gettime};
use sim::cache::Timing;
use sim::{CacheModel, Decay, Experiment, Footprint, Memory, NoMemory, Parameters, Policy, Workload};
use std::process::Command;
use std::time::Duration;

/// Rounds in which each simulation runs once; the median is told.
const ROUNDS: usize = 7;

const QUANTUM_MS: f64 = 30.0;
/// A tick of Debian's kernels (`CONFIG_HZ=250`).
const KERNEL_TICK_MS: f64 = 4.0;
const SMALL: Size = Size { machine: "pack:1 l2:64(size=1MB) core:1 pu:1", cpus: 64, processes: 1_000 };
const LARGE: Size =
    Size { machine: "pack:2 [numa] l3:8(size=32MB) l2:256(size=1MB) core:1 pu:1", cpus: 4_096, processes: 100_000 };

#[derive(Clone, Copy)]
struct Size {
    machine: &'static str,
    cpus: u32,
    processes: u32,
}

impl Size {
    fn horizon_ms(self, dispatches: f64, interval_ms: f64) -> f64 {
        (dispatches / f64::from(self.cpus)).ceil() * interval_ms
    }
}

/// What is simulated: its name, the goal in million dispatches a second, and a run that returns these.
type Contest = (String, Option<f64>, Box<dyn FnMut() -> Option<f64>>);

fn main() {
    if std::env::args().any(|argument| argument == "--billion") {
        [1e7, 1e9].into_iter().for_each(run_long);
        return;
    }
    let mut contests: Vec<Contest> = vec![
        ours("round robin", SMALL, 2e6, Some(12.0), Policy::RoundRobin, false),
        ours("standard", SMALL, 1e6, None, Policy::Standard, false),
        ours("light", SMALL, 1e6, Some(8.0), Policy::Light, false),
        ours("light, caches", SMALL, 1e6, Some(8.0), Policy::Light, true),
        ours("round robin", LARGE, 1e6, Some(4.0), Policy::RoundRobin, false),
        ours("light, caches", LARGE, 1e6, Some(8.0 / 3.0), Policy::Light, true),
        ours("eevdf", SMALL, 2e6, Some(5.0), Policy::Eevdf, false),
        ours("eevdf, caches", SMALL, 2e6, None, Policy::Eevdf, true),
        ours("eevdf", LARGE, 2e6, Some(5.0 / 3.0), Policy::Eevdf, false),
        peer("SimCore", build_simcore().unwrap_or_default(), Vec::new(), 1e6),
        peer("SimPy", "/usr/bin/python3".into(), vec!["-c".into(), SIMPY.into()], 1e5),
    ];
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); contests.len()];
    for _ in 0..ROUNDS {
        for ((_, _, run), rates) in contests.iter_mut().zip(&mut rates) {
            rates.extend(run());
        }
    }
    println!("million dispatches a second of CPU time; median of {ROUNDS} interleaved runs, lowest and highest\n");
    for ((name, goal, _), mut rates) in contests.into_iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        let goal = goal.map_or(String::new(), |goal| format!("  goal {goal:.1}"));
        match (rates.first(), rates.get(rates.len() / 2), rates.last()) {
            (Some(lowest), Some(median), Some(highest)) => {
                println!("{name:55} {median:7.2}  [{lowest:.2} {highest:.2}]{goal}");
            }
            _ => println!("{name:55} left out: it does not run here"),
        }
    }
}

/// Simulates so many dispatches under light affinity with caches, and says how long it took and the most memory used so far.
fn run_long(dispatches: f64) {
    let machine = Machine::named(SMALL.machine).unwrap();
    let (workload, parameters) = simulated(SMALL, dispatches, Policy::Light, true);
    let experiment = Experiment::new(&machine, &workload, &parameters).unwrap();
    let begin_s = cpu_s();
    let memory = CacheModel::for_machine(&machine, Timing::for_machine(&machine), &workload).unwrap();
    let dispatches = experiment.run(Policy::Light, 0, memory, |_| {}).dispatches;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map_or("unknown", str::trim);
    println!("{dispatches} dispatches in {:.1} s of CPU time; peak resident memory {peak}", cpu_s() - begin_s);
}

/// Processes that compute for ever, and parameters under which there are so many dispatches.
fn simulated(size: Size, dispatches: f64, policy: Policy, with_caches: bool) -> (Workload, Parameters) {
    let mut workload = Workload::spin(size.processes);
    workload.jobs[0].process.work_ms = None;
    if with_caches {
        workload.jobs[0].process.memory = Footprint { reload_lines: 3_000.0, ..Footprint::default() };
    }
    // The kernel's scheduler looks at its queue at each of its clock ticks.
    let interval_ms = if policy.is_kernels() { KERNEL_TICK_MS } else { QUANTUM_MS };
    let parameters = Parameters {
        horizon_ms: Some(size.horizon_ms(dispatches, interval_ms)),
        decay: if policy == Policy::RoundRobin { Decay::None } else { Decay::Half },
        ..Parameters::default()
    };
    (workload, parameters)
}

fn ours(what: &str, size: Size, dispatches: f64, goal: Option<f64>, policy: Policy, with_caches: bool) -> Contest {
    let name = format!("stayput, {what}, {} CPUs, {} processes", size.cpus, size.processes);
    let machine = Machine::named(size.machine).unwrap();
    let (workload, parameters) = simulated(size, dispatches, policy, with_caches);
    let run = move || {
        let experiment = Experiment::new(&machine, &workload, &parameters).unwrap();
        Some(if with_caches {
            rate(
                &experiment,
                policy,
                CacheModel::for_machine(&machine, Timing::for_machine(&machine), &workload).unwrap(),
            )
        } else {
            rate(&experiment, policy, NoMemory)
        })
    };
    (name, goal, Box::new(run))
}

fn rate(experiment: &Experiment<'_>, policy: Policy, memory: impl Memory) -> f64 {
    let begin_s = cpu_s();
    let outcome = experiment.run(policy, 0, memory, |_| {});
    outcome.dispatches as f64 / (cpu_s() - begin_s) / 1e6
}

/// CPU time of this thread: on a machine that is shared, wall time would tell more of the others.
fn cpu_s() -> f64 {
    Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap()).as_secs_f64()
}

const SIMPY: &str = "
import collections, simpy, sys, time
cpus, processes, horizon, quantum = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
environment, queue, dispatches = simpy.Environment(), collections.deque(range(processes)), 0
def cpu():
    global dispatches
    while True:
        process = queue.popleft()
        dispatches += 1
        yield environment.timeout(quantum)
        queue.append(process)
for _ in range(cpus):
    environment.process(cpu())
begin = time.process_time()
environment.run(until=horizon)
print(dispatches / (time.process_time() - begin) / 1e6)
";

/// A program that is told the size, the time to simulate and the quantum, and prints its rate.
fn peer(name: &str, program: String, mut arguments: Vec<String>, dispatches: f64) -> Contest {
    let numbers =
        [f64::from(SMALL.cpus), f64::from(SMALL.processes), SMALL.horizon_ms(dispatches, QUANTUM_MS), QUANTUM_MS];
    arguments.extend(numbers.map(|number| number.to_string()));
    let run = move || {
        let output = Command::new(&program).args(&arguments).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    (format!("{name}, round robin, {} CPUs, {} processes", SMALL.cpus, SMALL.processes), None, Box::new(run))
}

/// The executable of `benches/simcore`; none when it can't be built, after cargo has said why.
fn build_simcore() -> Option<String> {
    let target = concat!(env!("CARGO_TARGET_TMPDIR"), "/simcore");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/simcore/Cargo.toml");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "--locked", "--manifest-path", manifest, "--target-dir", target])
        .status();
    status.is_ok_and(|status| status.success()).then(|| format!("{target}/release/stayput-simcore-peer"))
}
