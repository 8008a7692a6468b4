//! What must hold for any workload on any machine, by property tests.

use crate::course::{Act, Courses};
use crate::cpus::Cpus;
use crate::decay::Decay;
use crate::eevdf::{KernelParameters, Release};
use crate::experiment::Experiment;
use crate::index::{CpuIndex, ProcessIndex};
use crate::memory::NoMemory;
use crate::outcome::{End, Interval, Outcome};
use crate::parameters::{Clocks, Parameters, Policy, QuantumEnd, Wake};
use crate::queue::scan::Scan;
use crate::workload::{Distribution, Ends, Intervals, Job, Phase, Process, Step, Workload};
use machine::Machine;
use proptest::prelude::*;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use strum::VariantArray;

/// Machines with all kinds of sharing; one has more than eight children to a node.
static MACHINES: LazyLock<Vec<Machine>> = LazyLock::new(|| {
    ["sgi-4d340", "xeon-e5405", "pack:1 core:1 pu:1", "pack:2 [numa] l3:2 l2:2 core:1 pu:2", "pack:1 core:11 pu:1"]
        .map(|name| Machine::named(name).unwrap())
        .into()
});

const ONE_QUEUE: [Policy; 5] =
    [Policy::Standard, Policy::Affinity, Policy::Complex, Policy::Graded, Policy::LongQuantum];

fn lengths() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        (1..60_u32).prop_map(|ms| Distribution::Constant(f64::from(ms))),
        (0.1..30.0).prop_map(Distribution::Exponential),
        (0.0..10.0, 0.1..20.0).prop_map(|(from, more)| Distribution::Uniform(from, from + more)),
    ]
}

fn ends() -> impl Strategy<Value = Ends> {
    (0.0..50.0, 0.0..50.0).prop_map(|(semaphore, system_call)| Ends {
        semaphore,
        system_call,
        other: 100.0 - semaphore - system_call,
        ..Ends::default()
    })
}

fn phases() -> impl Strategy<Value = Vec<Phase>> {
    let work = || lengths().prop_map(Step::Work);
    let locked = (work(), work())
        .prop_map(|(before, inside)| vec![before, Step::Acquire("lock".into()), inside, Step::Release("lock".into())]);
    let barrier = prop_oneof![Just(Step::Barrier), Just(Step::SleepingBarrier)];
    let joint = (work(), barrier).prop_map(|(work, barrier)| vec![work, barrier]);
    let asleep = (work(), lengths()).prop_map(|(work, block)| vec![work, Step::Block(block)]);
    let phase = (prop_oneof![locked, joint, asleep], 1..4_u32).prop_map(|(steps, repeat)| Phase { repeat, steps });
    prop_oneof![Just(Vec::new()), prop::collection::vec(phase, 1..3)]
}

prop_compose! {
    fn job()(
        processes in 1..7_u32,
        at_once in prop::option::of(1..4_u32),
        arrival in prop_oneof![Just(0.0), 0.0..200.0],
        gap in prop::option::of(lengths()),
        work in lengths(),
        intervals in prop::option::of((lengths(), ends())),
        block in lengths(),
        phases in phases(),
        base in 0..3_u32,
        group in prop::option::of(prop::sample::select(&["a", "b/c", "b/d"][..])),
    ) -> Job {
        let takes_lock = phases.iter().any(|phase| phase.steps.len() == 4);
        Job {
            name: "job".into(),
            arrival_ms: arrival,
            at_once: at_once.map(|n| n.min(processes)),
            gap_ms: gap.filter(|_| at_once.is_none()),
            processes,
            threads: false,
            group: group.map(str::to_owned),
            locks: if takes_lock { vec!["lock".into()] } else { Vec::new() },
            process: Process {
                work_ms: Some(match work {
                    Distribution::Constant(ms) => Distribution::Constant(ms * 5.0),
                    other => other,
                }),
                base,
                intervals: intervals.map(|(length_ms, ends)| Intervals::Bursts { length_ms, ends }),
                block_ms: Some(block),
                phases,
                interactive: true,
                ..Process::default()
            },
        }
    }
}

/// Two jobs of which one posts a semaphore exactly as often as the other waits there.
fn posters_and_waiters() -> impl Strategy<Value = Vec<Job>> {
    (1..5_u32, 1..6_u32, lengths(), lengths()).prop_map(|(processes, repeat, before, after)| {
        let named = |name: &str, steps: Vec<Step>| Job {
            name: name.into(),
            processes,
            process: Process { phases: vec![Phase { repeat, steps }], ..Process::default() },
            ..Job::default()
        };
        let posted = vec![Step::Work(before), Step::Post("ready".into())];
        vec![named("posters", posted), named("waiters", vec![Step::Wait("ready".into()), Step::Work(after)])]
    })
}

/// Clients that ask, and a server that replies to each of them as often as it asks.
fn clients_and_their_server() -> impl Strategy<Value = Vec<Job>> {
    (1..5_u32, 1..6_u32, lengths(), lengths()).prop_map(|(clients, repeat, before, after)| {
        let named = |name: &str, processes, repeat, steps: Vec<Step>| Job {
            name: name.into(),
            processes,
            process: Process { phases: vec![Phase { repeat, steps }], ..Process::default() },
            ..Job::default()
        };
        let asks = vec![
            Step::Single(before.clone()),
            Step::Work(before),
            Step::Post("ask".into()),
            Step::Wait("answer".into()),
        ];
        let replies = vec![Step::Wait("ask".into()), Step::Work(after), Step::Reply("answer".into())];
        vec![named("clients", clients, repeat, asks), named("server", 1, clients * repeat, replies)]
    })
}

fn workload() -> impl Strategy<Value = Workload> {
    let pairs = prop_oneof![Just(Vec::new()), posters_and_waiters(), clients_and_their_server()];
    (prop::collection::vec(job(), 1..4), pairs)
        .prop_map(|(jobs, pairs)| Workload {
            name: "any".into(),
            jobs: jobs.into_iter().chain(pairs).collect(),
            ..Workload::default()
        })
        .prop_perturb(|mut workload, mut random| {
            let paths: Vec<String> = workload.control_groups().iter().map(|group| group.path.to_owned()).collect();
            workload.cpu_weight = paths.into_iter().map(|path| (path, random.random_range(1..1_000))).collect();
            workload
        })
}

prop_compose! {
    fn parameters()(
        (phi_p, phi_t, fade_per_tick) in (0..20_u32, 0..20_u32, 0..3_u32),
        graded in prop::option::of([0..9_u32, 0..9, 0..9, 0..9, 0..9].prop_map(|mut phi| {
            phi.sort_unstable_by(|a, b| b.cmp(a));
            phi
        })),
        (tick_ms, quantum_ms) in (1.0..12.0, 1.0..40.0),
        clocks in prop_oneof![Just(Clocks::Random), Just(Clocks::Together)],
        quantum_end in prop_oneof![Just(QuantumEnd::Elapsed), Just(QuantumEnd::Ticks)],
        (jitter_us, switch_us) in (prop_oneof![Just(0.0), 0.0..2_000.0], prop_oneof![Just(0.0), 0.0..500.0]),
        wake_us in prop_oneof![Just(0.0), 0.0..500.0],
        decay in prop_oneof![Just(Decay::None), Just(Decay::Half), Just(Decay::Bsd), (1..9_u32).prop_map(Decay::Subtract)],
        decay_period_ms in 5.0..400.0,
        wake in prop_oneof![Just(Wake::Any), Just(Wake::Nearest)],
        horizon_ms in 1.0..400.0,
        seed in any::<u64>(),
    ) -> Parameters {
        Parameters {
            phi_p, phi_t, graded, fade_per_tick, tick_ms, quantum_ms, clocks, quantum_end, jitter_us, switch_us, wake_us,
            decay,
            decay_period_ms, wake, horizon_ms: Some(horizon_ms), seed,
            attempt_us: 700.0,
            ..Parameters::default()
        }
    }
}

fn trace(experiment: &Experiment<'_>, policy: Policy) -> (Outcome, Vec<Interval>) {
    let mut intervals = Vec::new();
    let outcome = experiment.run(policy, 0, NoMemory, |interval| intervals.push(interval));
    (outcome, intervals)
}

fn who_where_when(experiment: &Experiment<'_>, policy: Policy) -> Vec<Interval> {
    trace(experiment, policy).1
}

/// What holds of any run: nobody in two places, no CPU with two processes, and all time accounted for.
fn is_conserved(cpus: usize, outcome: &Outcome, intervals: &[Interval]) -> Result<(), TestCaseError> {
    let mut cpu_free_ns = vec![0; cpus];
    let mut process_free_ns = vec![0; outcome.processes.len()];
    let mut cpu_ns = vec![0; outcome.processes.len()];
    for interval in intervals {
        let (cpu, process) = (interval.cpu.at(), interval.process.at());
        prop_assert!(interval.from_ns >= cpu_free_ns[cpu] && interval.from_ns >= process_free_ns[process]);
        cpu_free_ns[cpu] = interval.until_ns;
        process_free_ns[process] = interval.until_ns;
        cpu_ns[process] += interval.until_ns - interval.from_ns;
    }
    let end_ns = (outcome.makespan_ms * 1e6).round() as u64;
    for (process, ran_ns) in outcome.processes.iter().zip(&cpu_ns) {
        prop_assert_eq!(process.cpu_ns, *ran_ns);
        prop_assert!(process.ended_ns.is_none_or(|at_ns| at_ns <= end_ns));
    }
    prop_assert_eq!(outcome.completed, outcome.processes.iter().all(|process| process.ended_ns.is_some()));
    let busy_ns: u64 = cpu_ns.iter().sum();
    let capacity_ns = end_ns as f64 * cpus as f64;
    prop_assert!(
        (busy_ns as f64 + outcome.idle_fraction * capacity_ns - capacity_ns).abs() <= 1e-9 * capacity_ns + 1.0
    );
    let slices_ms = outcome.slices().total_ms();
    prop_assert!((slices_ms - busy_ns as f64 / 1e6).abs() <= 1e-6 * (1.0 + slices_ms));
    prop_assert!(outcome.jobs.iter().all(|job| job.work_ms <= job.cpu_ms));
    let ends: u64 = outcome.jobs.iter().flat_map(|job| job.ends.values()).sum();
    prop_assert_eq!(ends, outcome.dispatches);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn the_fast_pick_is_the_linear_scan_of_the_queue(
        machine in 0..MACHINES.len(),
        workload in workload(),
        parameters in parameters(),
        policy in prop::sample::select(&ONE_QUEUE[..]),
    ) {
        let experiment = Experiment::new(&MACHINES[machine], &workload, &parameters).unwrap();
        let scan = Scan::new(&experiment.cpus, parameters.phi(policy), parameters.wake);
        let mut scanned = Vec::new();
        let slow = experiment.run_with(scan, policy, 0, NoMemory, |interval| scanned.push(interval));
        let (fast, intervals) = trace(&experiment, policy);
        prop_assert_eq!(intervals, scanned);
        prop_assert_eq!(fast, slow);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn time_is_conserved_under_every_policy(
        machine in 0..MACHINES.len(),
        workload in workload(),
        parameters in parameters(),
    ) {
        let experiment = Experiment::new(&MACHINES[machine], &workload, &parameters).unwrap();
        for policy in Policy::ALL {
            let (outcome, intervals) = trace(&experiment, policy);
            is_conserved(experiment.cpus.len(), &outcome, &intervals)?;
            if policy == Policy::Attached {
                prop_assert_eq!(outcome.migrations(), 0);
            }
        }
    }

    /// No wake-up is lost, no barrier, lock or semaphore waited for in vain.
    #[test]
    fn without_decay_every_process_ends_under_every_policy(
        machine in 0..MACHINES.len(),
        workload in workload(),
        parameters in parameters(),
    ) {
        let parameters = Parameters { decay: Decay::None, horizon_ms: None, ..parameters };
        let experiment = Experiment::new(&MACHINES[machine], &workload, &parameters).unwrap();
        for policy in Policy::ALL {
            let outcome = experiment.run(policy, 0, NoMemory, |_| {});
            prop_assert!(outcome.completed, "{policy}");
        }
    }

    /// What real processes are told to do is what simulated ones do.
    #[test]
    fn the_acts_of_processes_are_what_the_simulator_does(workload in workload(), parameters in parameters()) {
        let parameters = Parameters { decay: Decay::None, horizon_ms: None, ..parameters };
        let experiment = Experiment::new(&MACHINES[0], &workload, &parameters).unwrap();
        let (outcome, _) = trace(&experiment, Policy::Standard);
        let courses = Courses::new(&workload, parameters.seed, 0);
        let jobs: Vec<usize> = workload.job_of_processes().collect();
        for (number, job) in outcome.jobs.iter().enumerate() {
            let processes = (0..).map(ProcessIndex).zip(&jobs).filter(|(_, job)| **job == number);
            let acts: Vec<Act> = processes.flat_map(|(process, _)| courses.acts(process)).collect();
            let work_ns: u64 = acts.iter().map(|act| if let Act::Work(ns) = act { *ns } else { 0 }).sum();
            prop_assert!((work_ns as f64 / 1e6 - job.work_ms).abs() < 1e-6, "{} of {}", work_ns, job.work_ms);
            let count = |is: fn(&Act) -> bool| acts.iter().filter(|act| is(act)).count() as u64;
            let blocks = count(|act| matches!(act, Act::Block(_)));
            // Who waits blocks only where nobody has posted yet.
            let most = blocks + count(|act| matches!(act, Act::Wait(_) | Act::AwaitReply(_) | Act::SleepingBarrier));
            let blocked = job.ends.get(&End::Semaphore).copied().unwrap_or_default();
            prop_assert!((blocks..=most).contains(&blocked), "{} of {} to {}", blocked, blocks, most);
        }
    }

    #[test]
    fn without_boosts_every_affinity_policy_is_standard(
        machine in 0..MACHINES.len(),
        workload in workload(),
        parameters in parameters(),
    ) {
        let parameters = Parameters { phi_p: 0, phi_t: 0, graded: None, ..parameters };
        let experiment = Experiment::new(&MACHINES[machine], &workload, &parameters).unwrap();
        let standard = who_where_when(&experiment, Policy::Standard);
        for policy in [Policy::Affinity, Policy::Complex, Policy::Graded] {
            prop_assert_eq!(&who_where_when(&experiment, policy), &standard);
        }
    }

    #[test]
    fn a_complex_boost_that_does_not_fade_is_a_simple_one(
        machine in 0..MACHINES.len(),
        workload in workload(),
        parameters in parameters(),
    ) {
        let complex = Parameters { fade_per_tick: 0, ..parameters };
        let simple = Parameters { phi_p: complex.phi_p + complex.phi_t, phi_t: 0, ..complex.clone() };
        let of = |parameters: &Parameters, policy| {
            who_where_when(&Experiment::new(&MACHINES[machine], &workload, parameters).unwrap(), policy)
        };
        prop_assert_eq!(of(&complex, Policy::Complex), of(&simple, Policy::Affinity));
    }

    #[test]
    fn one_level_of_distance_is_the_simple_boost(
        machine in 0..MACHINES.len(),
        workload in workload(),
        parameters in parameters(),
    ) {
        let parameters = Parameters { graded: Some([parameters.phi_p, 0, 0, 0, 0]), ..parameters };
        let experiment = Experiment::new(&MACHINES[machine], &workload, &parameters).unwrap();
        prop_assert_eq!(who_where_when(&experiment, Policy::Graded), who_where_when(&experiment, Policy::Affinity));
    }

    #[test]
    fn no_cpu_idles_while_a_process_waits(
        machine in 0..MACHINES.len(),
        mut workload in workload(),
        parameters in parameters(),
        block_ms in 1..50_u32,
    ) {
        // So that wake-ups can be told from the trace.
        let block_ns = u64::from(block_ms) * 1_000_000;
        workload.jobs.retain(|job| job.name == "job");
        for job in &mut workload.jobs {
            let block = Distribution::Constant(f64::from(block_ms));
            for step in job.process.phases.iter_mut().flat_map(|phase| &mut phase.steps) {
                match step {
                    Step::Block(length) => *length = block.clone(),
                    Step::SleepingBarrier => *step = Step::Barrier,
                    _ => {}
                }
            }
            job.process.block_ms = Some(block);
        }
        let experiment = Experiment::new(&MACHINES[machine], &workload, &parameters).unwrap();
        for policy in ONE_QUEUE.into_iter().chain([Policy::RoundRobin]) {
            let (outcome, intervals) = trace(&experiment, policy);
            let mut runnable_ns: Vec<Option<u64>> = outcome.processes.iter().map(|process| process.arrived_ns).collect();
            let mut busy: Vec<Vec<(u64, u64)>> = vec![Vec::new(); experiment.cpus.len()];
            for interval in &intervals {
                busy[interval.cpu.at()].push((interval.from_ns, interval.until_ns));
            }
            let mut by_start = intervals.clone();
            by_start.sort_by_key(|interval| (interval.from_ns, interval.until_ns));
            let mut waits = Vec::new();
            for interval in &by_start {
                let process = interval.process.at();
                let since_ns = runnable_ns[process].unwrap();
                prop_assert!(since_ns <= interval.from_ns);
                waits.push((since_ns, interval.from_ns));
                runnable_ns[process] = match interval.end {
                    End::Exit => None,
                    End::Semaphore => Some(interval.until_ns + block_ns),
                    _ => Some(interval.until_ns),
                };
            }
            for (since_ns, until_ns) in waits {
                for cpu in &busy {
                    let first = cpu.partition_point(|&(_, until)| until <= since_ns);
                    let mut covered_ns = since_ns;
                    for &(from, until) in &cpu[first..] {
                        if covered_ns >= until_ns {
                            break;
                        }
                        prop_assert!(from <= covered_ns, "{policy}: a CPU idles from {covered_ns} to {from} ns");
                        covered_ns = until;
                    }
                    prop_assert!(covered_ns >= until_ns);
                }
            }
        }
    }

    /// Where a kernel conserves work: while somebody waits, no CPU is idle for longer than the passes of balancing take that
    /// may fail before they move a process which runs too often to be moved otherwise. Idle CPUs balance after 1 ms for each CPU of
    /// the span, or twice that, at a tick.
    #[test]
    fn under_eevdf_no_cpu_stays_idle_beyond_some_passes_of_balancing_while_a_process_waits(
        machine in 0..MACHINES.len(),
        workload in workload(),
        parameters in parameters(),
        release in prop::sample::select(Release::VARIANTS),
    ) {
        let kernel = KernelParameters::of(release);
        let experiment_parameters = Parameters {
            kernel: Some(kernel.clone()), decay: Decay::None, horizon_ms: Some(2_000.0), ..parameters
        };
        let experiment = Experiment::new(&MACHINES[machine], &workload, &experiment_parameters).unwrap();
        let passes = u64::from(kernel.cache_nice_tries[2]) + 3;
        let period_ns = 2_000_000 * experiment.cpus.len() as u64 + kernel.tick_ns();
        let (_, intervals) = trace(&experiment, Policy::Eevdf);
        for waited in intervals.iter().filter(|i| i.from_ns - i.runnable_ns > passes * period_ns) {
            for cpu in (0..experiment.cpus.len() as u32).map(CpuIndex) {
                let overlaps = |i: &Interval| i.from_ns < waited.from_ns && i.until_ns > waited.runnable_ns;
                prop_assert!(intervals.iter().any(|i| i.cpu == cpu && overlaps(i)), "{cpu:?} was idle during {waited:?}");
            }
        }
    }

    /// While a process waits with x ticks, another is taken only up to x + 2 (phi_p + phi_t) ticks and then runs for a quantum
    /// of q ticks; so all CPU-bound processes stay within b = 2 (phi_p + phi_t) + q ticks of one another, none gets more
    /// than 2 b while it waits, and all CPUs are busy with them. Decay can break this: see [`crate::queue`].
    #[test]
    fn without_decay_no_process_waits_longer_than_the_boosts_allow(
        machine in 0..MACHINES.len(),
        processes in 1..60_u32,
        parameters in parameters(),
        policy in prop::sample::select(vec![Policy::Standard, Policy::Affinity, Policy::Complex]),
    ) {
        let parameters = Parameters { decay: Decay::None, horizon_ms: Some(5_000.0), ..parameters };
        let workload = Workload::spin(processes);
        let experiment = Experiment::new(&MACHINES[machine], &workload, &parameters).unwrap();
        let outcome = experiment.run(policy, 0, NoMemory, |_| {});
        let cpus = experiment.cpus.len() as f64;
        let interval_ms =
            parameters.quantum_ms + parameters.tick_ms + (parameters.jitter_us + parameters.switch_us) / 1e3;
        let quantum_ticks = (interval_ms / parameters.tick_ms).ceil() + 1.0;
        let (phi_p, phi_t) = if policy == Policy::Standard { (0, 0) } else { (parameters.phi_p, parameters.phi_t) };
        let lead_ticks = 2.0 * f64::from(phi_p + phi_t) + quantum_ticks;
        let rounds = f64::from(processes - 1) / cpus;
        let most_ms = (rounds * 2.0 * lead_ticks + quantum_ticks) * parameters.tick_ms;
        prop_assert!(outcome.longest_wait_ms <= most_ms, "{} of {most_ms}", outcome.longest_wait_ms);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads(
        workload in workload(),
        parameters in parameters(),
    ) {
        let experiments: Vec<Experiment<'_>> =
            MACHINES[..3].iter().map(|machine| Experiment::new(machine, &workload, &parameters).unwrap()).collect();
        let bytes = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let runs: Vec<(&Experiment<'_>, Policy, u32)> = (experiments.iter())
                .flat_map(|experiment| Policy::ALL.map(|policy| (experiment, policy)))
                .flat_map(|(experiment, policy)| [0, 1].map(|replicate| (experiment, policy, replicate)))
                .collect();
            let outcomes: Vec<Outcome> = pool.install(|| {
                runs.par_iter().map(|(experiment, policy, r)| experiment.run(*policy, *r, NoMemory, |_| {})).collect()
            });
            serde_json::to_vec(&outcomes).unwrap()
        };
        let once = bytes(1);
        prop_assert_eq!(&bytes(1), &once);
        prop_assert_eq!(&bytes(4), &once);
    }
}

#[test]
fn cpus_share_what_the_machine_says() {
    for machine in MACHINES.iter() {
        let cpus = Cpus::new(machine);
        let usable: Vec<_> = machine.usable().collect();
        for (a, &id_a) in (0..).map(CpuIndex).zip(&usable) {
            for (b, &id_b) in (0..).map(CpuIndex).zip(&usable) {
                assert_eq!(Some(cpus.sharing(a, b)), machine.sharing(id_a, id_b), "{}", machine.name());
            }
        }
    }
}

#[test]
fn a_process_does_the_same_under_every_policy() {
    let job = Job {
        name: "job".into(),
        arrival_ms: 0.0,
        gap_ms: None,
        processes: 9,
        at_once: None,
        locks: Vec::new(),
        threads: false,
        group: None,
        process: Process {
            work_ms: Some(Distribution::Exponential(500.0)),
            intervals: Some(Intervals::Bursts {
                length_ms: Distribution::Exponential(20.0),
                ends: Ends { semaphore: 30.0, system_call: 70.0, ..Ends::default() },
            }),
            block_ms: Some(Distribution::Exponential(10.0)),
            ..Process::default()
        },
    };
    let workload = Workload { name: "drawn".into(), jobs: vec![job], ..Workload::default() };
    let parameters = Parameters::default();
    let experiment = Experiment::new(&MACHINES[0], &workload, &parameters).unwrap();
    let by_process = |policy| {
        let (outcome, intervals) = trace(&experiment, policy);
        let mut blocks: BTreeMap<ProcessIndex, usize> = BTreeMap::new();
        for interval in intervals.iter().filter(|interval| interval.end == End::Semaphore) {
            *blocks.entry(interval.process).or_default() += 1;
        }
        (outcome.jobs[0].work_ms, blocks)
    };
    let standard = by_process(Policy::Standard);
    assert!(standard.1.len() > 5);
    for policy in Policy::ALL {
        assert_eq!(by_process(policy), standard, "{policy}");
    }
}
