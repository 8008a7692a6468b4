//! The decisions that docs/design/simulator.md goes through by hand.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use machine::Machine;
use sim::cache::{Hierarchy, Member, Timing};
use sim::space::{Change, Graph, Kind, Listed, Mix, Outcome, Stage, Tasks};
use sim::workload::Distribution;
use sim::{
    CacheModel, Clocks, CpuIndex, Decay, Experiment, Footprint, Interval, Job, KernelParameters, Memory, NoMemory,
    Parameters, Phase, Policy, Process, ProcessIndex, QuantumEnd, Ran, Release, Step, Workload, space,
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

    fn start(&mut self, process: ProcessIndex, cpu: CpuIndex, now_ns: u64, work_ns: u64) -> u64 {
        Memory::start(&mut self.caches, process, cpu, now_ns, work_ns)
    }

    fn stop(&mut self, process: ProcessIndex, cpu: CpuIndex, now_ns: u64, work_ns: u64, wall_ns: u64) -> Ran {
        Memory::stop(&mut self.caches, process, cpu, now_ns, work_ns, wall_ns)
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

/// Jobs of one process each, which do these steps for ever.
fn single(steps: &[&[Step]]) -> Workload {
    let job = |(number, steps): (usize, &&[Step])| {
        let phases = vec![Phase { repeat: u32::MAX, steps: steps.to_vec() }];
        Job {
            name: number.to_string(),
            processes: 1,
            process: Process { phases, ..Process::default() },
            ..Job::default()
        }
    };
    Workload { name: "by hand".into(), jobs: steps.iter().enumerate().map(job).collect(), ..Workload::default() }
}

/// Who ran where from when to when, in us, under Linux 6.12's scheduler.
fn under_eevdf(machine: &str, workload: &Workload, horizon_ms: f64) -> Vec<(u32, u32, u64, u64)> {
    let machine = Machine::named(machine).unwrap();
    let kernel = Some(KernelParameters::of(Release::Linux6_12));
    let parameters = Parameters { kernel, jitter_us: 0.0, horizon_ms: Some(horizon_ms), ..Parameters::default() };
    let experiment = Experiment::new(&machine, workload, &parameters).unwrap();
    let mut ran = Vec::new();
    experiment.run(Policy::Eevdf, 0, NoMemory, |i: Interval| {
        ran.push((i.process.0, i.cpu.0, i.from_ns / 1_000, i.until_ns / 1_000));
    });
    ran.sort_by_key(|&(_, cpu, from, _)| (from, cpu));
    ran
}

#[test]
fn who_sleeps_owed_something_preempts_as_it_wakes_until_it_has_had_it() {
    let work = |ms| Step::Work(Distribution::Constant(ms));
    let workload = single(&[&[work(1e6)], &[work(1.0), Step::Block(Distribution::Constant(10.5))]]);
    let ran = under_eevdf("pack:1 core:1 pu:1", &workload, 53.5);
    let of_b: Vec<(u64, u64)> = ran.iter().filter(|ran| ran.0 == 1).map(|&(.., from, until)| (from, until)).collect();
    // B waits for the first tick, at which A has had 4 ms; is owed 1.5 ms as it sleeps at 5, 1 at 16.5, 0.5 at 28, and nothing
    // at 39.5. So it waits for a tick again as it wakes at 50.
    assert_eq!(of_b, [(4_000, 5_000), (15_500, 16_500), (27_000, 28_000), (38_500, 39_500), (52_000, 53_000)]);
}

#[test]
fn who_has_waited_for_longest_at_a_semaphore_wakes_first_and_posts_are_kept() {
    let work = |ms| Step::Work(Distribution::Constant(ms));
    let wait = || Step::Wait("ready".into());
    let post = || Step::Post("ready".into());
    let block = |ms| Step::Block(Distribution::Constant(ms));
    let mut workload = single(&[
        &[work(2.0), post(), work(1.0), post(), post(), post(), work(1.0)],
        &[wait(), work(0.5)],
        &[block(1.0), wait(), work(0.5)],
        &[block(10.0), wait(), wait(), work(0.5)],
    ]);
    workload.jobs.iter_mut().for_each(|job| job.process.phases[0].repeat = 1);
    for policy in [Policy::Standard, Policy::Eevdf] {
        let worked = worked(&workload, policy, 0.0);
        // The first post wakes B, the second C. D finds two more at 10 ms, and needn't wait.
        assert_eq!(worked, [(0, 0, 4_000), (1, 2_000, 2_500), (2, 3_000, 3_500), (3, 10_000, 10_500)], "{policy}");
    }
}

/// What each process worked from when to when, in us, where each has a CPU, and looks that change nothing are left out.
fn worked(workload: &Workload, policy: Policy, wake_us: f64) -> Vec<(u32, u64, u64)> {
    let machine = Machine::named("pack:1 l3:1 core:4 pu:1").unwrap();
    let parameters = Parameters { jitter_us: 0.0, wake_us, horizon_ms: Some(100.0), ..Parameters::default() };
    let experiment = Experiment::new(&machine, workload, &parameters).unwrap();
    let mut worked: Vec<(u32, u64, u64)> = Vec::new();
    experiment.run(policy, 0, NoMemory, |i: Interval| {
        if i.from_ns < i.until_ns {
            worked.push((i.process.0, i.from_ns / 1_000, i.until_ns / 1_000));
        }
    });
    worked.sort_unstable();
    // A tick that leaves it where it is ends an interval, too.
    worked.dedup_by(|later, earlier| {
        let goes_on = later.0 == earlier.0 && later.1 == earlier.2;
        earlier.2 = if goes_on { later.2 } else { earlier.2 };
        goes_on
    });
    worked
}

#[test]
fn whom_another_wakes_comes_later_by_what_it_takes_to_tell_a_cpu_that_idles() {
    let work = |ms| Step::Work(Distribution::Constant(ms));
    let (wait, post) = (|| Step::Wait("ready".into()), || Step::Post("ready".into()));
    let (posts, waits): (&[Step], &[Step]) = (&[work(2.0), post(), work(1.0)], &[wait(), work(0.5)]);
    let once = |steps: &[&[Step]]| {
        let mut workload = single(steps);
        workload.jobs.iter_mut().for_each(|job| job.process.phases[0].repeat = 1);
        workload
    };
    let busy: &[Step] = &[work(5.0)];
    for policy in [Policy::Standard, Policy::Eevdf] {
        let idle = worked(&once(&[posts, waits]), policy, 300.0);
        assert_eq!(idle, [(0, 0, 3_000), (1, 2_300, 2_800)], "{policy}");
        // With all four CPUs taken there is none to tell.
        let taken = worked(&once(&[&posts[..2], waits, busy, busy, busy]), policy, 300.0);
        assert_eq!(taken[..2], [(0, 0, 2_000), (1, 2_000, 2_500)], "{policy}");
    }
}

#[test]
fn a_reply_is_for_whose_post_one_went_on_from_and_is_kept_for_it() {
    let work = |ms| Step::Work(Distribution::Constant(ms));
    let block = |ms| Step::Block(Distribution::Constant(ms));
    let (ask, answered) = (|| Step::Post("ask".into()), || Step::Wait("answer".into()));
    let mut workload = single(&[
        &[work(0.5), ask(), block(20.0), answered(), work(1.0)],
        &[work(1.0), ask(), answered(), work(1.0)],
        &[Step::Wait("ask".into()), work(3.0), Step::Reply("answer".into())],
    ]);
    workload.jobs.iter_mut().for_each(|job| job.process.phases[0].repeat = 1);
    workload.jobs[2].process.phases[0].repeat = 2;
    for policy in [Policy::Standard, Policy::Eevdf] {
        let ran = worked(&workload, policy, 0.0);
        // The first question is A's, who sleeps until 20.5 ms. B has waited since 1 ms, and its answer is the second.
        let expected = [(0, 0, 500), (0, 20_500, 21_500), (1, 0, 1_000), (1, 6_500, 7_500), (2, 500, 6_500)];
        assert_eq!(ran, expected, "{policy}");
    }
}

#[test]
fn what_a_single_process_works_the_others_wait_for_at_the_next_barrier() {
    let work = |ms| Distribution::Constant(ms);
    let mut workload = single(&[&[Step::Single(work(2.0)), Step::Work(work(1.0)), Step::SleepingBarrier]]);
    (workload.jobs[0].processes, workload.jobs[0].process.phases[0].repeat) = (3, 2);
    for policy in [Policy::Standard, Policy::Eevdf] {
        let ran = worked(&workload, policy, 0.0);
        let expected = [(0, 0, 6_000), (1, 0, 1_000), (1, 3_000, 4_000), (2, 0, 1_000), (2, 3_000, 4_000)];
        assert_eq!(ran, expected, "{policy}");
    }
}

#[test]
fn who_would_reply_to_nobody_or_post_what_is_for_one_alone_is_refused() {
    let work = || Step::Work(Distribution::Constant(1.0));
    let (ask, reply, wait) =
        (Step::Post("ask".into()), Step::Reply("answer".into()), |name: &str| Step::Wait(name.into()));
    let refused = |steps: &[&[Step]]| single(steps).check().unwrap_err().to_string();
    let client: &[Step] = &[work(), ask.clone(), wait("answer")];
    assert!(single(&[client, &[wait("ask"), work(), reply.clone()]]).check().is_ok());
    let early = refused(&[client, &[work(), reply.clone(), wait("ask")]]);
    assert!(early.contains("no `wait` for a post comes before it"), "{early}");
    // What is replied at is no post that one could reply to.
    let of_a_reply = refused(&[client, &[wait("answer"), work(), reply.clone(), wait("ask")]]);
    assert!(of_a_reply.contains("no `wait` for a post comes before it"), "{of_a_reply}");
    let both = refused(&[client, &[wait("ask"), work(), reply, Step::Post("answer".into())]]);
    assert!(both.contains("replied at and posted"), "{both}");
}

#[test]
fn who_comes_last_to_a_barrier_wakes_those_that_sleep_there() {
    let mut workload = single(&[&[Step::Work(Distribution::Constant(1.5)), Step::SleepingBarrier]]);
    let team = &mut workload.jobs[0];
    (team.processes, team.gap_ms, team.process.phases[0].repeat) = (3, Some(Distribution::Constant(1.0)), 2);
    for policy in [Policy::Standard, Policy::Eevdf] {
        let worked = worked(&workload, policy, 0.0);
        // They arrive 1 ms after one another. The third comes to the barrier at 3.5 ms, and goes on.
        assert_eq!(worked, [(0, 0, 1_500), (0, 3_500, 5_000), (1, 1_000, 2_500), (1, 3_500, 5_000), (2, 2_000, 5_000)]);
    }
}

#[test]
fn phases_are_gone_through_as_many_times_as_there_are_rounds() {
    let work = |ms| Step::Work(Distribution::Constant(ms));
    let mut workload = single(&[&[work(1.0), Step::Block(Distribution::Constant(1.0))]]);
    let process = &mut workload.jobs[0].process;
    process.phases[0].repeat = 2;
    process.phases.push(Phase { repeat: 1, steps: vec![work(5.0), Step::Block(Distribution::Constant(2.0))] });
    let worked = |rounds: Option<u32>| {
        let mut workload = workload.clone();
        workload.jobs[0].process.rounds = rounds;
        assert_eq!(workload.check().is_err(), rounds == Some(0));
        let courses = sim::Courses::new(&workload, 1, 0);
        let work = courses.acts(sim::ProcessIndex(0)).filter_map(|act| match act {
            sim::Act::Work(ns) => Some(ns / 1_000_000),
            _ => None,
        });
        work.collect::<Vec<_>>()
    };
    assert_eq!(worked(None), [1, 1, 5]);
    assert_eq!(worked(Some(3)), [1, 1, 5, 1, 1, 5, 1, 1, 5]);
    workload.jobs[0].process.rounds = Some(2);
    let ran = under_eevdf("pack:1 core:1 pu:1", &workload, 1_000.0);
    let ran: Vec<u64> = ran.iter().map(|&(_, _, from, until)| (until - from) / 1_000).filter(|&ms| ms > 0).collect();
    // A tick that leaves it where it is ends an interval, too.
    assert_eq!(ran.iter().sum::<u64>(), 14, "{ran:?}");
}

#[test]
fn a_busy_cpu_pulls_who_has_not_run_for_longest_when_its_turn_to_balance_comes() {
    let endless = [Step::Work(Distribution::Constant(1e6))];
    let mut workload = single(&[&endless, &endless, &endless, &endless, &endless, &endless]);
    for done in [1, 3] {
        workload.jobs[done].process.work_ms = Some(Distribution::Constant(20.0));
    }
    let ran = under_eevdf("pack:1 l3:1 core:2 pu:1", &workload, 150.0);
    let (a, c, e, f) = (0, 2, 4, 5);
    let on = |cpu: u32, from: u64, until: u64| -> Vec<u32> {
        let inside = |ran: &&(u32, u32, u64, u64)| ran.1 == cpu && ran.2 >= from && ran.2 < until;
        ran.iter().filter(inside).map(|ran| ran.0).collect()
    };
    assert_eq!(on(0, 0, 24_000), [a, c, e, a, c, e], "turns of a tick");
    let ended = |process: u32| ran.iter().filter(|ran| ran.0 == process).map(|ran| ran.3).max().unwrap();
    assert_eq!((ended(1), ended(3)), (52_000, 56_000), "five turns each, of three that take turns");
    // CPU 1 balances at 32 ms and finds nothing, 64 ms later and finds too little for a process, and 32 ms after that. Then E's
    // turn on CPU 0 begins; C ran until just now, A until 124 ms.
    let first_on_1 = ran.iter().find(|ran| ran.1 == 1 && ran.0 != f && ran.2 >= 56_000).unwrap();
    assert_eq!((first_on_1.0, first_on_1.2), (a, 132_000), "A comes at 128 ms with what it had more than its due");
    assert!(on(0, 128_000, 150_000).iter().all(|process| [c, e].contains(process)), "two take turns");
}

fn stage(tasks: Tasks, ms: f64) -> Stage {
    let work_ms = Distribution::Constant(ms);
    Stage { name: "stage".into(), tasks, work_ms, memory: Footprint::default(), kept: 0.0 }
}

fn job(name: &str, rounds: u32, stages: Vec<Stage>) -> Kind {
    let graph = Graph { name: name.into(), about: String::new(), source: String::new(), rounds, stages };
    Kind { graph, count: 1 }
}

/// Jobs A and B on four CPUs, and who was seated where and when, in ms. A's workers are 0 to 3, B's 4 to 7.
fn shared_in_space(policy: space::Policy, replicate: u32) -> (Outcome, Vec<(u32, CpuIndex, u64)>) {
    let listed =
        |name: &str, ms| Listed { name: name.into(), work_ms: Some(Distribution::Constant(ms)), after: vec![] };
    let a = job("A", 2, vec![stage(Tasks::Independent(1), 6.0), stage(Tasks::Independent(2), 4.0)]);
    let wide = Tasks::Listed(vec![listed("a", 2.0), listed("b", 2.0), listed("c", 4.0)]);
    let b = job("B", 1, vec![stage(Tasks::Independent(1), 12.0), stage(wide, 1.0), stage(Tasks::Independent(1), 20.0)]);
    let mix = Mix { name: "by hand".into(), kinds: vec![a, b] };
    let parameters = space::Parameters { gap_ms: None, switch_us: 1_000.0, ..Default::default() };
    let machine = Machine::named("pack:1 core:4 pu:1").unwrap();
    let experiment = space::Experiment::new(&machine, &mix, &parameters).unwrap();
    let mut seated = Vec::new();
    let outcome = experiment.run(policy, replicate, NoMemory, |event| {
        if let Change::Seated(worker) = event.change {
            seated.push((worker.0, event.cpu, event.at_ns / 1_000_000));
        }
    });
    (outcome, seated)
}

#[test]
fn a_job_that_asks_names_the_cpu_where_its_worker_ran() {
    let mut chosen_by_chance = std::collections::BTreeSet::new();
    for replicate in 0..20 {
        let (outcome, seated) = shared_in_space(space::Policy::DynamicAffinity, replicate);
        let who_and_when: Vec<(u32, u64)> = seated.iter().map(|&(worker, _, at_ms)| (worker, at_ms)).collect();
        assert_eq!(who_and_when, [(0, 0), (4, 0), (1, 7), (5, 13), (6, 13), (0, 18)]);
        let cpus: Vec<CpuIndex> = seated.iter().map(|&(_, cpu, _)| cpu).collect();
        let [p, q, r, s, taken, back] = cpus[..] else { panic!("six moves") };
        assert!([q, r, s].iter().all(|cpu| *cpu != p) && q != r && r != s && q != s, "D.1");
        assert_eq!(taken, p, "D.2");
        assert_eq!(back, p, "A.2");

        let a = &outcome.jobs[0];
        assert_eq!((a.response_ms(), outcome.jobs[1].response_ms()), (Some(23.0), Some(37.0)));
        let ms = |ns: u64| ns as f64 / 1e6;
        let account = a.account;
        assert_eq!((ms(account.work_ns), ms(account.idle_ns), ms(account.switch_ns)), (28.0, 3.0, 3.0));
        assert_eq!((account.all_affine().count, account.all_other().count), (1, 2));
        assert_eq!(ms(a.held_ns), 34.0, "work, idle time and switches, and 23 ms x 1.48 CPUs");

        let (_, seated) = shared_in_space(space::Policy::Dynamic, replicate);
        assert_eq!(seated[5].0, 0);
        chosen_by_chance.insert(seated[5].1 == seated[0].1);
    }
    assert_eq!(chosen_by_chance.len(), 2, "without affinity it gets either of the two CPUs that B would give");
}
