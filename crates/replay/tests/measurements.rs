//! What kernels are measured with, held against what the simulator says of itself.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use machine::Machine;
use replay::{CPU_TIME_RATIO, Measurements, Trace};
use sim::{CpuIndex, Decay, Experiment, NoMemory, Outcome, Parameters, Policy, ProcessOutcome, Workload, WorkloadFile};

const MIXED: &str = r#"
name = "mixed"
[[jobs]]
name = "solver"
processes = 12
[jobs.process]
work_ms = { uniform = [400, 700] }
[[jobs]]
name = "server"
processes = 5
gap_ms = { exponential = 50 }
[jobs.process]
work_ms = { constant = 90 }
block_ms = { exponential = 10 }
intervals.bursts = { length_ms = { exponential = 4 }, ends = { semaphore = 60, system_call = 40 } }
"#;

fn measured(
    machine: &Machine,
    workload: &Workload,
    parameters: &Parameters,
    policy: Policy,
) -> (Outcome, Measurements) {
    let experiment = Experiment::new(machine, workload, parameters).unwrap();
    let mut intervals = Vec::new();
    let outcome = experiment.run(policy, 0, NoMemory, |interval| intervals.push(interval));
    let until_ns = (outcome.makespan_ms * 1e6).round() as u64;
    let trace = Trace { workload, machine, intervals: &intervals, processes: &outcome.processes, until_ns };
    let measurements = trace.measurements();
    (outcome, measurements)
}

#[test]
fn it_says_of_a_simulation_what_the_simulator_says() {
    let machine = Machine::named("pack:2 l3:1 core:4 pu:1").unwrap();
    for horizon_ms in [None, Some(700.0)] {
        for policy in [Policy::Standard, Policy::Light, Policy::Attached, Policy::PerCpu] {
            let workload = WorkloadFile::parse(MIXED).unwrap().workload;
            let parameters = Parameters { decay: Decay::None, horizon_ms, ..Parameters::default() };
            let (outcome, measurements) = measured(&machine, &workload, &parameters, policy);
            let slices = outcome.slices();
            let migrations =
                |level| outcome.jobs.iter().filter_map(|job| job.migrations.get(&level)).sum::<u64>() as f64;
            for (name, expected) in [
                ("migrations", Some(outcome.migrations() as f64)),
                ("migrations_within_l3", Some(migrations(machine::Level::L3))),
                ("migrations_within_machine", Some(migrations(machine::Level::Machine))),
                ("switches", Some(outcome.switches as f64)),
                ("idle_fraction", Some(outcome.idle_fraction)),
                ("effective_slices", Some(slices.count() as f64)),
                ("effective_slice_median_ms", slices.quantile_ms(0.5)),
                ("effective_slice_mean_ms", slices.mean_ms()),
                ("effective_slice_longest_ms", slices.longest_ms()),
                ("longest_wait_ms", Some(outcome.longest_wait_ms)),
                ("jain_index", outcome.jain_index),
                ("makespan_ms", outcome.completed.then_some(outcome.makespan_ms)),
                ("mean_completion_ms", outcome.mean_completion_ms()),
                ("completion_ms:server", outcome.jobs[1].completion_ms),
                ("cpu_ms:server", Some(outcome.jobs[1].cpu_ms)),
            ] {
                let found = measurements.metrics.get(name).copied();
                let agree = found.zip(expected).is_some_and(|(a, b)| (a - b).abs() <= 1e-9 * a.abs().max(1.0));
                assert!(agree || found == expected, "{name} under {policy}: {found:?}, not {expected:?}");
            }
        }
    }
}

#[test]
fn lateness_counts_from_the_end_of_a_sleep_and_fairness_to_the_first_end() {
    use sim::{End, Interval, ProcessIndex};
    let ms = |ms: u64| ms * 1_000_000;
    let at = |process, cpu, [runnable, from, until]: [u64; 3], end| Interval {
        process: ProcessIndex(process),
        cpu: CpuIndex(cpu),
        runnable_ns: ms(runnable),
        from_ns: ms(from),
        until_ns: ms(until),
        end,
    };
    let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
    let workload = Workload::spin(2);
    let intervals = [
        at(0, 0, [0, 0, 10], End::Quantum),
        at(0, 0, [10, 15, 25], End::Semaphore),
        at(0, 1, [40, 43, 53], End::Exit),
        at(1, 0, [0, 10, 15], End::Quantum),
        at(1, 0, [15, 25, 60], End::Exit),
    ];
    let process = |ended| ProcessOutcome { arrived_ns: Some(0), ended_ns: Some(ms(ended)), cpu_ns: ms(30) };
    let processes = [process(53), process(60)];
    let until_ns = ms(60);
    let trace =
        Trace { workload: &workload, machine: &machine, intervals: &intervals, processes: &processes, until_ns };
    let measurements = trace.measurements();
    let value = |name: &str| measurements.metrics[name];
    assert_eq!([value("wake_lates"), value("wake_late_longest_ms")], [1.0, 3.0]);
    assert_eq!([value("waits"), value("longest_wait_ms")], [4.0, 10.0]);
    assert_eq!(value("migrations_per_s"), 1.0 / 0.06);
    // At 53 ms one has had 30 ms, the other 5 + 28.
    assert!((value(CPU_TIME_RATIO) - 30.0 / 33.0).abs() < 1e-12);
    assert_eq!([value("effective_slices"), value("effective_slice_longest_ms")], [5.0, 35.0]);
    assert_eq!(measurements.histograms["effective_slice_ms"][..2], [(5.0, 1), (10.0, 3)]);
}
