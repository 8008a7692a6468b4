//! What a reallocation costs in simulated space sharing: `make bench`, or `cargo bench -p stayput-sim --bench space`.
//!
//! A *reallocation* is a CPU that goes from one job, or from nobody, to another; a *move* is a worker that begins on a CPU where
//! it had not just run. Every reallocation makes a move, and so does a worker that makes way for another of its own job. A *task*
//! is begun and done. All three are counted in the same run: a rate of one is no rate of the others.
//!
//! The alternating mix is made to reallocate: two jobs, each of which can use one CPU and then all but one, so that most tasks
//! begin on a CPU that the other job had. The report's mix does what programs do, and moves less.
//!
//! `-- sequent caches` runs only those whose lines have all of these words.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't run says so and ends")]

use machine::Machine;
use nix::time::{ClockId, clock_gettime};
use sim::cache::{Footprint, Timing};
use sim::space::{Experiment, Graph, Kind, Mix, MixError, Outcome, Parameters, Policy, Stage, Tasks};
use sim::workload::Distribution;
use sim::{NoMemory, TaskCaches};
use std::time::Duration;

/// Rounds in which each simulation runs once; the median is told.
const ROUNDS: usize = 7;

/// Tasks of one run, about.
const TASKS: u64 = 200_000;

/// Millions a second of CPU time.
#[derive(Clone, Copy)]
struct Rates {
    reallocations: f64,
    moves: f64,
    tasks: f64,
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut contests = Vec::new();
    for name in ["sequent-symmetry", "opteron-6272", "epyc-7763"] {
        let machine = Machine::named(name).unwrap();
        let cpus = machine.usable().count() as u32;
        for mix in [alternating(cpus), Mix::named("2*MVA+2*MATRIX+2*GRAVITY", no_file).unwrap()] {
            for policy in [Policy::Dynamic, Policy::DynamicAffinity] {
                for with_caches in [false, true] {
                    let caches = if with_caches { "caches" } else { "no caches" };
                    let line = format!("{name:16} {cpus:4}  {:24} {policy:16} {caches:9}", mix.name);
                    if wanted.iter().all(|word| line.contains(word)) {
                        contests.push((line, machine.clone(), mix.clone(), policy, with_caches));
                    }
                }
            }
        }
    }
    let mut rates: Vec<Vec<Rates>> = vec![Vec::new(); contests.len()];
    for _ in 0..ROUNDS {
        for ((_, machine, mix, policy, with_caches), rates) in contests.iter().zip(&mut rates) {
            rates.push(measured(machine, mix, *policy, *with_caches));
        }
    }
    println!(
        "million a second of CPU time; median of {ROUNDS} interleaved runs, lowest and highest; goal: 3 reallocations\n"
    );
    println!(
        "{:16} {:>4}  {:24} {:16} {:9} {:>27} {:>7} {:>7}",
        "machine", "CPUs", "mix", "policy", "memory", "reallocations", "moves", "tasks"
    );
    for ((line, ..), mut rates) in contests.into_iter().zip(rates) {
        rates.sort_by(|a, b| a.tasks.total_cmp(&b.tasks));
        let [lowest, median, highest] = [0, ROUNDS / 2, ROUNDS - 1].map(|place| rates[place]);
        println!(
            "{line} {:10.2}  [{:5.2}  {:5.2}] {:7.2} {:7.2}",
            median.reallocations, lowest.reallocations, highest.reallocations, median.moves, median.tasks
        );
    }
}

fn no_file(name: &str) -> Result<Graph, MixError> {
    Err(MixError::Unknown(name.into()))
}

/// Two jobs, each of which has one task and then as many as CPUs but one, again and again. A task goes through its lines 2.5
/// times, and half of them are of use to the next one.
fn alternating(cpus: u32) -> Mix {
    let memory = Footprint { line_bytes: 64.0, reload_lines: 500.0, pass_us: 20.0, ..Footprint::default() };
    let stage = |name: &str, tasks| Stage {
        name: name.into(),
        tasks: Tasks::Independent(tasks),
        work_ms: Distribution::Uniform(0.025, 0.075),
        memory,
        kept: 0.5,
    };
    let graph = Graph {
        name: "alternating".into(),
        about: String::new(),
        source: String::new(),
        rounds: (TASKS / 2 / u64::from(cpus)) as u32,
        stages: vec![stage("one", 1), stage("all but one", cpus - 1)],
    };
    Mix { name: "alternating".into(), kinds: vec![Kind { graph, count: 2 }] }
}

fn measured(machine: &Machine, mix: &Mix, policy: Policy, with_caches: bool) -> Rates {
    let parameters = Parameters::default();
    let experiment = Experiment::new(machine, mix, &parameters).unwrap();
    let tasks: u64 = mix.kinds.iter().map(|kind| kind.graph.tasks() * u64::from(kind.count)).sum();
    let (mut reallocations, mut moves, mut done, mut seconds) = (0, 0, 0, 0.0);
    for replicate in 0..(TASKS / tasks).max(1) as u32 {
        let (outcome, took_s) = if with_caches {
            let (footprints, jobs) = (experiment.footprints(), experiment.jobs_of_workers());
            let caches = TaskCaches::for_machine(machine, Timing::for_machine(machine), footprints, &jobs).unwrap();
            timed(|| experiment.run(policy, replicate, caches, |_| {}))
        } else {
            timed(|| experiment.run(policy, replicate, NoMemory, |_| {}))
        };
        let moved = |account: sim::space::Account| account.all_affine().count + account.all_other().count;
        reallocations += outcome.reallocations;
        moves += outcome.jobs.iter().map(|job| moved(job.account)).sum::<u64>();
        done += outcome.tasks;
        seconds += took_s;
    }
    let rate = |count: u64| count as f64 / seconds / 1e6;
    Rates { reallocations: rate(reallocations), moves: rate(moves), tasks: rate(done) }
}

/// How long a run takes in s of this thread's CPU time: on a machine that is shared, wall time would tell more of the others.
fn timed(run: impl FnOnce() -> Outcome) -> (Outcome, f64) {
    let now = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap()).as_secs_f64();
    let begin_s = now();
    let outcome = run();
    (outcome, now() - begin_s)
}
