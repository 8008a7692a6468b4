//! What the boosts mean in milliseconds, as the report and the algebra behind it (policy/README.md) say.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use machine::Machine;
use sim::rule::{self, BASE_MAX, Distance, LOAD_ONE, PHI_HEAVY, PHI_LIGHT, PHI_MAX, Phi, TimeBoost};
use sim::{
    Clocks, Decay, Distribution, Experiment, Interval, Job, NoMemory, Outcome, Parameters, Policy, Process,
    ProcessIndex, QuantumEnd, Workload,
};
use std::collections::BTreeSet;

/// One tick is the quantum, so that slices aren't rounded up to more; nothing is left to chance.
fn exact() -> Parameters {
    Parameters {
        quantum_ms: 10.0,
        quantum_end: QuantumEnd::Elapsed,
        clocks: Clocks::Together,
        jitter_us: 0.0,
        decay: Decay::None,
        ..Parameters::default()
    }
}

fn run(machine: &str, workload: &Workload, parameters: &Parameters, policy: Policy) -> (Outcome, Vec<Interval>) {
    let machine = Machine::named(machine).unwrap();
    let experiment = Experiment::new(&machine, workload, parameters).unwrap();
    let mut intervals = Vec::new();
    let outcome = experiment.run(policy, 0, NoMemory, |interval| intervals.push(interval));
    (outcome, intervals)
}

/// Lengths in ms of the effective time slices on one CPU, in order.
fn slices_ms(intervals: &[Interval]) -> Vec<(ProcessIndex, f64)> {
    let mut slices: Vec<(ProcessIndex, f64)> = Vec::new();
    for interval in intervals {
        let ms = (interval.until_ns - interval.from_ns) as f64 / 1e6;
        match slices.last_mut() {
            Some((process, slice)) if *process == interval.process => *slice += ms,
            _ => slices.push((interval.process, ms)),
        }
    }
    slices
}

const ONE_CPU: &str = "pack:1 core:1 pu:1";
const TWO_CPUS: &str = "pack:1 core:2 pu:1";

#[test]
fn the_first_slice_against_a_process_that_never_ran_is_20_ms_times_both_boosts() {
    for (policy, expected_ms) in [(Policy::Standard, 10.0), (Policy::Light, 240.0), (Policy::Heavy, 640.0)] {
        let (_, intervals) = run(ONE_CPU, &Workload::spin(2), &exact(), policy);
        assert_eq!(slices_ms(&intervals)[0], (ProcessIndex(0), expected_ms), "{policy}");
    }
}

/// With quanta of 30 ms, 640 ms are 21 1/3 of them, and so 22.
#[test]
fn slices_are_whole_quanta() {
    let parameters = Parameters { quantum_ms: 30.0, ..exact() };
    for (policy, expected_ms) in [(Policy::Light, 240.0), (Policy::Heavy, 660.0)] {
        let (outcome, _) = run("sgi-4d340", &Workload::spin(8), &parameters, policy);
        assert_eq!(outcome.slices().quantile_ms(0.5).map(f64::round), Some(expected_ms), "{policy}");
    }
}

#[test]
fn k_processes_of_one_cpu_have_slices_of_20_ms_times_phi_t_times_k_over_k_less_1() {
    for (policy, phi_t) in [(Policy::Light, 6.0), (Policy::Heavy, 16.0)] {
        for k in [2_u32, 3, 4, 8] {
            let (_, intervals) = run(ONE_CPU, &Workload::spin(k), &exact(), policy);
            let slices = slices_ms(&intervals);
            // After the first rounds, and before any process is done.
            let until = slices.len() - 4 * k as usize;
            let steady: Vec<f64> = slices[slices.len() / 3..until].iter().map(|&(_, ms)| ms).collect();
            let mean_ms = steady.iter().sum::<f64>() / steady.len() as f64;
            let expected_ms = 20.0 * phi_t * f64::from(k) / f64::from(k - 1);
            assert!((mean_ms - expected_ms).abs() <= 0.03 * expected_ms, "{policy} k={k}: {mean_ms} of {expected_ms}");
        }
    }
}

fn worker(work_ms: f64, arrival_ms: f64) -> Job {
    Job {
        name: "worker".into(),
        arrival_ms,
        gap_ms: None,
        processes: 1,
        at_once: None,
        locks: Vec::new(),
        threads: false,
        group: None,
        process: Process { work_ms: Some(Distribution::Constant(work_ms)), ..Process::default() },
    }
}

/// Three processes on two CPUs: two share one CPU, and fall behind the third until one of them is so far behind that it
/// moves to the other CPU instead of that CPU's own process.
#[test]
fn a_process_migrates_when_it_has_had_20_ms_times_phi_p_less() {
    for (phi_p, threshold_ms) in [(0_u32, 0.0), (3, 60.0), (6, 120.0), (16, 320.0)] {
        let parameters = Parameters { phi_p, phi_t: 0, horizon_ms: Some(4_000.0), ..exact() };
        let workload = Workload {
            name: "three on two".into(),
            jobs: (0..3).map(|_| worker(1e5, 0.0)).collect(),
            ..Workload::default()
        };
        let (_, intervals) = run(TWO_CPUS, &workload, &parameters, Policy::Affinity);
        let mut had_ms = [0.0_f64; 3];
        let mut last_cpu = [None; 3];
        let mut least_lead_ms = f64::INFINITY;
        let mut ordered = intervals.clone();
        ordered.sort_by_key(|interval| (interval.from_ns, interval.cpu));
        for (position, interval) in ordered.iter().enumerate() {
            let process = interval.process.0 as usize;
            let moved = last_cpu[process].is_some_and(|cpu| cpu != interval.cpu);
            if moved {
                // The process that the CPU ran before, and could have gone on with.
                let before = ordered[..position].iter().rev().find(|other| other.cpu == interval.cpu).unwrap();
                let lead_ms = had_ms[before.process.0 as usize] - had_ms[process];
                least_lead_ms = least_lead_ms.min(lead_ms);
            }
            had_ms[process] += (interval.until_ns - interval.from_ns) as f64 / 1e6;
            last_cpu[process] = Some(interval.cpu);
        }
        assert_eq!(least_lead_ms, threshold_ms, "phi_p = {phi_p}");
    }
}

#[test]
fn only_phi_p_keeps_processes_where_they_are() {
    let parameters = Parameters { clocks: Clocks::Together, quantum_end: QuantumEnd::Ticks, ..Parameters::default() };
    let moves = |phi_p, phi_t| {
        let parameters = Parameters { phi_p, phi_t, ..parameters.clone() };
        let (outcome, _) = run("sgi-4d340", &Workload::spin(8), &parameters, Policy::Affinity);
        (outcome.migrations() as f64 / outcome.switches as f64, outcome.slices().quantile_ms(0.5).unwrap().round())
    };
    let (standard, standard_slice_ms) = moves(0, 0);
    // Four CPUs look at the queue at the same time, in random order.
    assert!((0.65..0.85).contains(&standard), "{standard}");
    assert_eq!(standard_slice_ms, 30.0);
    let (only_space, slice_ms) = moves(6, 0);
    assert!(only_space < 0.01, "{only_space}");
    assert_eq!(slice_ms, 30.0);
    let (both, slice_ms) = moves(6, 6);
    assert!(both < 0.01, "{both}");
    assert!(slice_ms >= 240.0, "{slice_ms}");
}

/// Three processes on a CPU; the one that runs blocks. The simple rule takes the one that has waited longest, the complex
/// one the one that ran last.
#[test]
fn the_complex_boost_prefers_who_ran_last() {
    let phases = |work_ms| {
        vec![sim::Phase {
            repeat: 1,
            steps: vec![
                sim::Step::Work(Distribution::Constant(work_ms)),
                sim::Step::Block(Distribution::Constant(500.0)),
            ],
        }]
    };
    let mut jobs = vec![worker(1e4, 0.0), worker(1e4, 0.0), worker(1e4, 0.0)];
    jobs[2].process.phases = phases(5.0);
    let workload = Workload { name: "three".into(), jobs, ..Workload::default() };
    let parameters = Parameters { phi_p: 6, phi_t: 6, horizon_ms: Some(10_000.0), ..exact() };
    let after_block = |policy| {
        let (_, intervals) = run(ONE_CPU, &workload, &parameters, policy);
        let mut same = 0;
        let mut blocks = 0;
        for triple in intervals.windows(3) {
            if triple[1].process == ProcessIndex(2) && triple[1].end == sim::End::Semaphore {
                blocks += 1;
                same += u32::from(triple[0].process == triple[2].process);
            }
        }
        (same, blocks)
    };
    // Not where the one that ran last has used up its boosts.
    let (same, blocks) = after_block(Policy::Complex);
    assert!(blocks > 10 && 10 * same > 8 * blocks, "{same} of {blocks}");
    let (same, blocks) = after_block(Policy::Affinity);
    assert!(blocks > 10 && 10 * same < 6 * blocks, "{same} of {blocks}");
}

/// The report's "attaching processes to processors": without migration, and no CPU has more than its share at first.
#[test]
fn attached_processes_are_shared_out_evenly_and_never_migrate() {
    for cpus in [1, 3, 4, 8, 9, 20] {
        let machine = format!("pack:1 core:{cpus} pu:1");
        let (outcome, intervals) = run(&machine, &Workload::spin(2 * cpus), &exact(), Policy::Attached);
        let on: BTreeSet<_> = intervals.iter().map(|interval| (interval.cpu, interval.process)).collect();
        assert_eq!(on.len(), 2 * cpus as usize, "each of {cpus} CPUs has two processes, and these have one CPU");
        assert_eq!(on.iter().map(|(cpu, _)| cpu).collect::<BTreeSet<_>>().len(), cpus as usize);
        assert_eq!(outcome.makespan_ms, 60_000.0);
    }
}

#[test]
fn longer_quanta_lengthen_slices_but_not_those_of_processes_that_block() {
    let (outcome, _) = run("sgi-4d340", &Workload::spin(8), &Parameters::default(), Policy::LongQuantum);
    assert_eq!(outcome.slices().quantile_ms(0.5).map(f64::round), Some(240.0));
    let mut blocking = worker(2_000.0, 0.0);
    blocking.processes = 8;
    blocking.process.phases = vec![sim::Phase {
        repeat: 1,
        steps: vec![sim::Step::Work(Distribution::Constant(5.0)), sim::Step::Block(Distribution::Exponential(3.0))],
    }];
    let workload = Workload { name: "blocking".into(), jobs: vec![blocking], ..Workload::default() };
    let (outcome, _) = run("sgi-4d340", &workload, &Parameters::default(), Policy::LongQuantum);
    assert_eq!(outcome.intervals().quantile_ms(0.5).map(f64::round), Some(5.0));
}

#[test]
fn priorities_are_base_plus_half_the_ticks_in_half_units() {
    assert_eq!(rule::prio(0, 0), 0);
    assert_eq!(rule::prio(60, 5), 125);
    assert_eq!(rule::prio(BASE_MAX, u32::MAX >> 2), (2 << 20) + (i32::MAX >> 1));
    assert_eq!(rule::charge(7, 3), 10);
    assert_eq!(rule::charge(1 << 30, 1), 1 << 30, "ticks saturate, so that priorities never overflow");
    assert_eq!(rule::charge(5, u32::MAX), 1 << 30);
}

#[test]
fn decays_are_what_their_systems_did() {
    assert_eq!([0, 1, 7, 200].map(|ticks| rule::decay(ticks, Decay::Half, 0)), [0, 0, 3, 100]);
    assert_eq!([0, 1, 7, 200].map(|ticks| rule::decay(ticks, Decay::None, 9)), [0, 1, 7, 200]);
    assert_eq!([0, 1, 7, 200].map(|ticks| rule::decay(ticks, Decay::Subtract(7), 7)), [0, 0, 0, 193]);
    // 2L / (2L + 1): two thirds at a load of 1, and nothing stays without load.
    assert_eq!(rule::decay(300, Decay::Bsd, LOAD_ONE), 200);
    assert_eq!(rule::decay(300, Decay::Bsd, 0), 0);
    // The largest product fits 64 bits: 2^30 (1 - 2^11 / 2^33).
    assert_eq!(rule::decay(1 << 30, Decay::Bsd, u32::MAX), (1 << 30) - 256);
}

#[test]
fn decay_rules_are_read_as_they_are_written() {
    for decay in [Decay::None, Decay::Half, Decay::Bsd, Decay::Subtract(0), Decay::Subtract(u32::MAX)] {
        assert_eq!(decay.to_string().parse(), Ok(decay));
    }
    // Two processes that share a CPU take half of its 100 ticks a second each.
    assert_eq!("subtract".parse(), Ok(Decay::Subtract(50)));
    for wrong in ["", "Half", "subtract=", "subtract=-1", "subtract=4294967296", "third"] {
        let error = wrong.parse::<Decay>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{wrong}` is no decay rule; write half, bsd, ")), "{error}");
    }
}

#[test]
fn boosts_are_the_reports() {
    let header = include_str!("../../../policy/affinity.h");
    for (name, value) in [("LIGHT", PHI_LIGHT), ("HEAVY", PHI_HEAVY)] {
        assert!(header.contains(&format!("#define STAYPUT_PHI_{name} {value}\n")), "{name}");
    }
    let simple = Phi::new([6, 3, 2, 1, 1, 0], 6, TimeBoost::Simple, 0);
    assert_eq!(simple.boost(Distance::SameCpu, true, 0), 24, "who has just run gets both");
    assert_eq!(simple.boost(Distance::SameCpu, false, 0), 12);
    assert_eq!(simple.boost(Distance::SameL2, false, 0), 4);
    assert_eq!(simple.boost(Distance::Far, false, 0), 0);
    let complex = Phi::new([6, 0, 0, 0, 0, 0], 6, TimeBoost::Complex, 1);
    assert_eq!([0, 1, 5, 6, 100].map(|away| complex.boost(Distance::SameCpu, false, away)), [24, 22, 14, 12, 12]);
    assert_eq!(complex.boost(Distance::SameCore, false, 0), 0);
    let huge = Phi::new([PHI_MAX; 6], PHI_MAX, TimeBoost::Simple, 0);
    assert_eq!(huge.boost(Distance::SameCpu, true, 0), 1 << 22);
}

#[test]
fn the_lower_priority_runs_first_and_of_equals_who_waited_longer() {
    assert!(rule::before(-3, 9, 2, 1));
    assert!(!rule::before(2, 1, -3, 9));
    assert!(rule::before(5, 1, 5, 2));
    assert!(!rule::before(5, 2, 5, 2));
}
