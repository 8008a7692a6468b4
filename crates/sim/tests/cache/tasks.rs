//! Workers that are cut off at any time, move, and turn from one task to the next.

use crate::laws::{footprint, hierarchy};
use crate::lines::LineCache;
use crate::program::Program;
use crate::{DIRECT_MAPPED, applications, caches, characterise};
use machine::Machine;
use proptest::prelude::*;
use sim::cache::{CacheModel, Footprint, Hierarchy, Member, Order, TaskCaches, Timing};
use sim::{CpuIndex, Memory, ProcessIndex, Ran, Stopped, TaskMemory};

const WORKER: ProcessIndex = ProcessIndex(0);
const INTRUDER: ProcessIndex = ProcessIndex(1);
const HERE: CpuIndex = CpuIndex(0);
const THERE: CpuIndex = CpuIndex(1);

/// One CPU's caches by themselves, and a bus that is never busy.
fn private_caches() -> impl Strategy<Value = Hierarchy> {
    let one_depth = prop_oneof![Just(1), Just(4)].prop_map(|ways| caches("sgi-4d340", (16_384, ways)));
    prop_oneof![
        one_depth,
        Just("pack:2 l3:1(size=2MB) l2:1(size=256KB) core:1 pu:1").prop_map(|description| {
            let machine = Machine::named(description).unwrap();
            let cpus: Vec<_> = machine.usable().collect();
            Hierarchy::new(&machine, &cpus, Timing { bus_ns: 0.0, ..Timing::SERVER }).unwrap()
        })
    ]
}

/// Caches in which lines of workers fare as those of processes do: of one way, or in this order. Only for processes it is followed how long ago each
/// line was used.
fn alike() -> impl Strategy<Value = (Hierarchy, Option<Order>)> {
    let one_way = Just((caches("sgi-4d340", DIRECT_MAPPED), None));
    prop_oneof![one_way, hierarchy().prop_map(|hierarchy| (hierarchy, Some(Order::Blocked)))]
}

/// Workers that each have the footprint of their number.
fn workers(hierarchy: Hierarchy, footprints: &[Footprint], jobs: &[u32]) -> TaskCaches {
    let mut caches = TaskCaches::new(hierarchy, footprints, jobs);
    (0..jobs.len() as u32).for_each(|worker| caches.turn(ProcessIndex(worker), worker, 1.0));
    caches
}

/// Starts and stops at the end of the work.
fn uncut(caches: &mut TaskCaches, worker: ProcessIndex, cpu: CpuIndex, now_ns: &mut u64, work_ns: u64) -> Stopped {
    let wall_ns = caches.start(worker, cpu, *now_ns, work_ns);
    *now_ns += wall_ns;
    caches.stop(worker, cpu, *now_ns, work_ns, wall_ns)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_not_cut_off_is_a_run(
        (hierarchy, order) in alike(), mut a in footprint(), mut b in footprint(),
        intervals in prop::collection::vec((0..4u32, 0..4u32, 1..20_000_000u64, prop_oneof![Just(0), 0..5_000_000u64]), 1..30),
    ) {
        (a.order, b.order) = (order.unwrap_or(a.order), order.unwrap_or(b.order));
        let (footprints, jobs) = ([a, a, b, b], [0, 0, 1, 1]);
        let members: Vec<_> = footprints.into_iter().zip(jobs).map(|(footprint, job)| Member { footprint, job }).collect();
        let mut by_run = CacheModel::new(hierarchy.clone(), &members);
        let mut by_task = workers(hierarchy, &footprints, &jobs);
        let mut now_ns = 0;
        for (process, cpu, work_ns, gap_ns) in intervals {
            let (process, cpu) = (ProcessIndex(process), CpuIndex(cpu));
            now_ns += gap_ns;
            by_run.dispatch(process, cpu, now_ns);
            let ran: Ran = by_run.run(process, cpu, now_ns, work_ns, u64::MAX);
            let stopped = uncut(&mut by_task, process, cpu, &mut now_ns, work_ns);
            prop_assert_eq!(stopped.ran, ran);
            prop_assert!(stopped.reload_ns <= ran.wall_ns - ran.work_ns);
            for cpu in (0..4).map(CpuIndex) {
                prop_assert_eq!(by_task.resident_lines(process, cpu), by_run.resident_lines(process, cpu));
            }
        }
    }

    #[test]
    fn cuts_cost_nothing_when_nobody_is_about(
        hierarchy in hierarchy(), footprint in footprint(), work_ns in 1..50_000_000u64, cuts in prop::collection::vec(0.0..1.0, 0..8),
    ) {
        let mut whole = workers(hierarchy.clone(), &[footprint], &[0]);
        let whole_ns = whole.start(WORKER, HERE, 0, work_ns);
        let mut cut = workers(hierarchy, &[footprint], &[0]);
        let (mut now_ns, mut left_ns) = (0, work_ns);
        for &share in cuts.iter().chain(&[1.0]) {
            let needed_ns = cut.start(WORKER, HERE, now_ns, left_ns);
            let wall_ns = if share < 1.0 { (needed_ns as f64 * share) as u64 } else { needed_ns };
            now_ns += wall_ns;
            let Stopped { ran, reload_ns } = cut.stop(WORKER, HERE, now_ns, left_ns, wall_ns);
            prop_assert_eq!((ran.wall_ns, reload_ns), (wall_ns, 0));
            prop_assert!(ran.work_ns <= left_ns.min(wall_ns));
            left_ns -= ran.work_ns;
        }
        prop_assert_eq!(left_ns, 0);
        let slope = whole_ns as f64 / work_ns as f64;
        let rounding = (2.0 + slope) * (cuts.len() + 1) as f64 + whole_ns as f64 * 1e-5;
        prop_assert!(now_ns.abs_diff(whole_ns) as f64 <= rounding, "{} in parts, {} in one", now_ns, whole_ns);
    }

    #[test]
    fn what_an_absence_costs_is_told(
        hierarchy in private_caches(), footprint in footprint(), intruder in footprint(), warm_ns in 1..20_000_000u64,
        cut in 0.0..1.0, intruder_ns in 0..20_000_000u64, moves in any::<bool>(), tasks_ns in prop::collection::vec(1..5_000_000u64, 1..5),
    ) {
        let mut stays = workers(hierarchy, &[footprint, intruder], &[0, 1]);
        stays.start(WORKER, HERE, 0, warm_ns);
        let mut now_ns = (warm_ns as f64 * cut) as u64;
        stays.stop(WORKER, HERE, now_ns, warm_ns, now_ns);
        let mut leaves = stays.clone();
        uncut(&mut leaves, INTRUDER, HERE, &mut now_ns, intruder_ns);
        now_ns += 1;
        let returns_to = if moves { THERE } else { HERE };
        let (mut undisturbed_ns, mut disturbed_ns, mut reload_ns) = (now_ns, now_ns, 0);
        for &work_ns in &tasks_ns {
            prop_assert_eq!(uncut(&mut stays, WORKER, HERE, &mut undisturbed_ns, work_ns).reload_ns, 0);
            reload_ns += uncut(&mut leaves, WORKER, returns_to, &mut disturbed_ns, work_ns).reload_ns;
        }
        let penalty_ns = disturbed_ns - undisturbed_ns;
        let rounding = 2 * tasks_ns.len() as u64 + 20;
        prop_assert!(penalty_ns.abs_diff(reload_ns) <= rounding, "{} ns slower, {} ns told", penalty_ns, reload_ns);
    }

    /// Measured work takes its own time, whatever it misses, and an absence costs the same as otherwise.
    #[test]
    fn of_measured_work_only_what_was_lost_takes_time(
        hierarchy in private_caches(), footprint in footprint(), intruder in footprint(), warm_ns in 1..20_000_000u64,
        intruder_ns in 0..20_000_000u64, moves in any::<bool>(), work_ns in 1..5_000_000u64,
    ) {
        let alone = |footprint: Footprint| Footprint { shared_lines: 0.0, shared_writes_per_ms: 0.0, ..footprint };
        let (footprint, intruder) = (alone(footprint), alone(intruder));
        let plain = workers(hierarchy.clone(), &[footprint, intruder], &[0, 1]);
        let measured = plain.clone().under_measured_work();
        let cpu = if moves { THERE } else { HERE };
        let [plain, measured] = [plain, measured].map(|mut caches| {
            let mut now_ns = 0;
            let first = uncut(&mut caches, WORKER, HERE, &mut now_ns, warm_ns);
            uncut(&mut caches, INTRUDER, HERE, &mut now_ns, intruder_ns);
            (first, uncut(&mut caches, WORKER, cpu, &mut now_ns, work_ns))
        });
        prop_assert_eq!((measured.0.ran.wall_ns, measured.0.reload_ns), (warm_ns, 0));
        let Stopped { ran, reload_ns } = measured.1;
        prop_assert!(ran.wall_ns.abs_diff(work_ns + reload_ns) <= 1, "{ran:?} {reload_ns}");
        prop_assert!(reload_ns.abs_diff(plain.1.reload_ns) <= 1, "{} {}", reload_ns, plain.1.reload_ns);
    }

    #[test]
    fn a_turn_to_the_same_lines_changes_nothing(hierarchy in hierarchy(), footprint in footprint(), tasks_ns in prop::collection::vec(1..5_000_000u64, 1..5)) {
        let mut plain = workers(hierarchy, &[footprint], &[0]);
        let mut turned = plain.clone();
        let (mut plain_ns, mut turned_ns) = (0, 0);
        for &work_ns in &tasks_ns {
            turned.turn(WORKER, 0, 1.0);
            prop_assert_eq!(
                uncut(&mut turned, WORKER, HERE, &mut turned_ns, work_ns),
                uncut(&mut plain, WORKER, HERE, &mut plain_ns, work_ns)
            );
        }
    }

    #[test]
    fn a_turn_to_all_other_lines_is_a_cold_start_at_which_nothing_was_lost(
        hierarchy in hierarchy(), before in footprint(), after in footprint(), cut in 0.0..1.0, goes in any::<bool>(), work_ns in 1..20_000_000u64,
    ) {
        let after = Footprint { shared_lines: 0.0, shared_writes_per_ms: 0.0, ..after };
        let mut turned = TaskCaches::new(hierarchy.clone(), &[before, after], &[0]);
        turned.turn(WORKER, 0, 1.0);
        let needed_ns = turned.start(WORKER, HERE, 0, work_ns);
        let mut now_ns = (needed_ns as f64 * cut) as u64;
        turned.stop(WORKER, HERE, now_ns, work_ns, now_ns);
        turned.turn(WORKER, 1, 0.0);
        let cpu = if goes { THERE } else { HERE };
        let stopped = uncut(&mut turned, WORKER, cpu, &mut now_ns, work_ns);
        let mut cold = TaskCaches::new(hierarchy, &[before, after], &[0]);
        cold.turn(WORKER, 1, 1.0);
        let first = uncut(&mut cold, WORKER, cpu, &mut 0, work_ns);
        prop_assert_eq!(stopped.reload_ns, 0);
        prop_assert!((stopped.ran.misses.total() - first.ran.misses.total()).abs() <= 1e-3, "{:?} {:?}", stopped, first);
        // Its memory may be nearer in one of them.
        if cpu == HERE {
            prop_assert!(stopped.ran.wall_ns.abs_diff(first.ran.wall_ns) <= 1);
        }
    }
}

/// 3,000 lines in the report's cache, all about after some passes.
const MATRIX: Footprint = Footprint {
    line_bytes: 16.0,
    reload_lines: 3_000.0,
    pass_us: 250.0,
    order: Order::Random,
    steady_misses_per_ms: 0.0,
    fresh_share: 1.0,
    shared_lines: 0.0,
    shared_writes_per_ms: 0.0,
};
const SETTLING_NS: u64 = 20_000_000;

#[test]
fn a_turn_keeps_a_share_of_what_is_cached_and_of_what_was_lost() {
    let smaller = Footprint { reload_lines: 1_000.0, ..MATRIX };
    let mut caches = workers(caches("sgi-4d340", DIRECT_MAPPED), &[MATRIX, MATRIX, smaller], &[0, 1, 2]);
    let mut now_ns = 0;
    assert_eq!(
        uncut(&mut caches, WORKER, HERE, &mut now_ns, SETTLING_NS).reload_ns,
        0,
        "its first lines, not lost ones"
    );
    caches.turn(WORKER, 0, 0.25);
    assert_eq!(caches.resident_lines(WORKER, HERE), 750.0);
    let Stopped { ran, reload_ns } = uncut(&mut caches, WORKER, HERE, &mut now_ns, SETTLING_NS);
    assert!((ran.misses.reload - 2_250.0).abs() < 1e-6 && reload_ns == 0, "{ran:?}");

    // On another CPU it finds nothing, and wants half of that.
    caches.turn(WORKER, 1, 0.5);
    let Stopped { ran, reload_ns } = uncut(&mut caches, WORKER, THERE, &mut now_ns, SETTLING_NS);
    assert!((ran.misses.reload - 3_000.0).abs() < 1e-6, "{ran:?}");
    assert_eq!(reload_ns, 1_500_000);

    // Half of its lines are still where it was. It runs for a pass, and exp(-1) of the others stay lost; half of those are of
    // use after the turn.
    let needed_ns = caches.start(WORKER, HERE, now_ns, 250_000);
    now_ns += needed_ns;
    let first_ns = caches.stop(WORKER, HERE, now_ns, 250_000, needed_ns).reload_ns as f64;
    let left = (-1.0f64).exp();
    assert!((first_ns - 1_500e3 * (1.0 - left)).abs() < 1.0, "{first_ns}");
    caches.turn(WORKER, 0, 0.5);
    let second_ns = uncut(&mut caches, WORKER, HERE, &mut now_ns, SETTLING_NS).reload_ns as f64;
    assert!((second_ns - 1_500e3 * left * 0.5).abs() < 1.0, "{second_ns}");

    caches.turn(WORKER, 2, 1.0);
    assert_eq!(caches.resident_lines(WORKER, HERE), 1_000.0, "no more than the footprint has");
    assert_eq!(uncut(&mut caches, WORKER, HERE, &mut now_ns, SETTLING_NS).ran.misses.reload, 0.0);
}

#[test]
fn lines_of_earlier_tasks_displace_as_well() {
    let mut caches = workers(caches("sgi-4d340", DIRECT_MAPPED), &[MATRIX, MATRIX], &[0, 1]);
    let mut now_ns = 0;
    uncut(&mut caches, WORKER, HERE, &mut now_ns, SETTLING_NS);
    for _ in 0..5 {
        caches.turn(INTRUDER, 1, 0.0);
        uncut(&mut caches, INTRUDER, HERE, &mut now_ns, SETTLING_NS);
    }
    let Stopped { ran, reload_ns } = uncut(&mut caches, WORKER, HERE, &mut now_ns, SETTLING_NS);
    // Each set hits 3,000 of 16,384 frames.
    let lost = 3_000.0 * (1.0 - (1.0 - 3_000.0 / 16_384.0f64).powi(5));
    assert!((ran.misses.reload - lost).abs() < 1e-3, "{ran:?}, {lost}");
    assert!((reload_ns as f64 - lost * 1e3).abs() < 1.0);
}

#[test]
fn shared_lines_are_the_jobs_and_what_writers_took_was_not_lost_by_leaving() {
    let shared = Footprint { shared_lines: 3_000.0, shared_writes_per_ms: 100.0, ..MATRIX };
    let caches = |footprint| workers(caches("sgi-4d340", DIRECT_MAPPED), &[footprint; 3], &[0, 0, 1]);
    let (mate, stranger) = (ProcessIndex(1), ProcessIndex(2));

    // A mate's turn leaves them alone, and so does its own.
    let mut model = caches(Footprint { shared_writes_per_ms: 0.0, ..shared });
    let mut now_ns = 0;
    uncut(&mut model, WORKER, HERE, &mut now_ns, SETTLING_NS);
    model.turn(WORKER, 1, 0.0);
    model.turn(mate, 2, 0.0);
    assert_eq!(uncut(&mut model, mate, HERE, &mut now_ns, SETTLING_NS).ran.misses.total(), 0.0);
    let moved = uncut(&mut model, mate, THERE, &mut now_ns, SETTLING_NS);
    assert_eq!(moved.reload_ns, 3_000_000);
    assert_eq!(
        uncut(&mut model, WORKER, THERE, &mut now_ns, SETTLING_NS).ran.misses.total(),
        0.0,
        "its mate has loaded them"
    );

    // Away while a mate writes elsewhere, with a stranger on its CPU and without.
    for strangers_ns in [0, SETTLING_NS] {
        let mut model = caches(shared);
        let mut now_ns = 0;
        uncut(&mut model, WORKER, HERE, &mut now_ns, SETTLING_NS);
        uncut(&mut model, mate, THERE, &mut now_ns, 10_000_000);
        uncut(&mut model, stranger, HERE, &mut now_ns, strangers_ns);
        let back = uncut(&mut model, WORKER, HERE, &mut now_ns, SETTLING_NS);
        // 1,000 writes to 3,000 lines; the stranger's own hit 3,000 of 16,384 frames.
        let unwritten = 3_000.0 * (-1.0f64 / 3.0).exp();
        let lost = if strangers_ns > 0 { unwritten * 3_000.0 / 16_384.0 } else { 0.0 };
        assert!((back.reload_ns as f64 * 1e-3 - lost).abs() < 1.0, "{back:?}, {lost}");
        assert!(back.ran.misses.total() > 3_000.0 - unwritten);
    }
}

/// A program is cut off within its first pass, another runs on its CPU, and it goes on: how many of the misses that follow it
/// would not have had, by line and by model.
#[test]
fn a_preemption_costs_as_much_as_line_by_line() {
    for (geometry, order) in [((16_384, 1), Order::Random), ((16_384, 1), Order::Blocked), ((16_384, 4), Order::Random)]
    {
        let [matrix, .., pmake, oracle] = applications(order);
        for (victim, intruder, cut_ns, away_ns, rest_ns) in [
            (matrix, matrix, 200_000, 30_000_000, 600_000),
            (matrix, pmake, 350_000, 20_000_000, 5_000_000),
            (oracle, matrix, 100_000, 4_000_000, 5_000_000),
            (matrix, oracle, 5_000_000, 4_000_000, 250_000),
        ] {
            let seeds = 8;
            let mut by_line = 0.0;
            for seed in 0..seeds {
                let mut cache = LineCache::new(geometry.0, geometry.1);
                // Time stands still during misses, so that work is what is given.
                let program = |stream, number, cache: &LineCache| {
                    let mut program = Program::new(stream, cache, number, 100 * seed + u64::from(number));
                    program.miss_ns = 0.0;
                    program
                };
                let mut away = program(intruder, 1, &cache);
                let mut cut = program(victim, 0, &cache);
                cut.run(&mut cache, f64::from(cut_ns));
                let (undisturbed, _) = cut.clone().run(&mut cache.clone(), f64::from(rest_ns));
                away.run(&mut cache, f64::from(away_ns));
                let (disturbed, _) = cut.run(&mut cache, f64::from(rest_ns));
                by_line += (f64::from(disturbed) - f64::from(undisturbed)) / seeds as f64;
            }

            let footprints = [victim, intruder].map(|stream| characterise(stream, geometry));
            let mut model = workers(caches("sgi-4d340", geometry), &footprints, &[0, 1]);
            let mut now_ns = 0;
            uncut(&mut model, WORKER, HERE, &mut now_ns, cut_ns as u64);
            uncut(&mut model, INTRUDER, HERE, &mut now_ns, away_ns as u64);
            let by_model = uncut(&mut model, WORKER, HERE, &mut now_ns, rest_ns as u64).reload_ns as f64 * 1e-3;
            let case = format!("{geometry:?} {order:?} {} {cut_ns} {} {rest_ns}", victim.name, intruder.name);
            println!("{case}: {by_line:.0} by line, {by_model:.0} by model");
            // With several ways, what is loaded on the return displaces as well: one line in a hundred.
            let allowed = 0.05 * by_line + 0.01 * victim.reused_lines as f64;
            assert!((by_model - by_line).abs() <= allowed, "{case}: {by_line} by line, {by_model} by model");
        }
    }
}
