//! What holds whatever the footprints, machines and schedules.

use crate::{DIRECT_MAPPED, caches};
use machine::Machine;
use proptest::prelude::*;
use sim::cache::experiment::reuse;
use sim::cache::{CacheModel, Footprint, Hierarchy, Member, Order, Timing};
use sim::{CpuIndex, Memory, ProcessIndex, Ran};

pub fn footprint() -> impl Strategy<Value = Footprint> {
    let order = prop_oneof![Just(Order::Random), Just(Order::Blocked)];
    let lines = prop_oneof![Just(0.0), 1.0..40_000.0];
    (order, lines, 0.0..1.0, 1.0..5_000.0, 0.0..5_000.0, 0.0..=1.0, prop_oneof![Just(0.0), 0.0..500.0]).prop_map(
        |(order, reload_lines, shared, pass_us, steady_misses_per_ms, fresh_share, writes)| Footprint {
            order,
            reload_lines,
            pass_us,
            steady_misses_per_ms,
            fresh_share,
            shared_lines: if shared < 0.5 { 0.0 } else { shared * reload_lines },
            shared_writes_per_ms: if shared < 0.5 || reload_lines == 0.0 { 0.0 } else { writes },
            ..Footprint::default()
        },
    )
}

/// Four processes of two jobs.
fn members() -> impl Strategy<Value = Vec<Member>> {
    (footprint(), footprint()).prop_map(|(a, b)| {
        [a, a, b, b].into_iter().zip([0, 0, 1, 1]).map(|(footprint, job)| Member { footprint, job }).collect()
    })
}

pub fn hierarchy() -> impl Strategy<Value = Hierarchy> {
    prop_oneof![Just("sgi-4d340"), Just("xeon-e5405"), Just("xeon-e5620"), Just("opteron-6272")].prop_map(|preset| {
        let machine = Machine::named(preset).unwrap();
        let cpus: Vec<_> = machine.usable().collect();
        Hierarchy::new(&machine, &cpus, Timing::for_machine(&machine)).unwrap()
    })
}

/// Process, CPU, how long, and for how long before that all are idle.
type Interval = (u32, u32, u64, u64);

fn intervals(most: usize) -> impl Strategy<Value = Vec<Interval>> {
    let gap = prop_oneof![Just(0), 0..5_000_000u64];
    prop::collection::vec((0..4u32, 0..4u32, 1..40_000_000u64, gap), 1..most)
}

fn play(model: &mut CacheModel, intervals: &[Interval], mut now_ns: u64) -> Vec<Ran> {
    let mut all = Vec::new();
    for &(process, cpu, wall_ns, gap_ns) in intervals {
        now_ns += gap_ns;
        model.dispatch(ProcessIndex(process), CpuIndex(cpu), now_ns);
        all.push(model.run(ProcessIndex(process), CpuIndex(cpu), now_ns, u64::MAX, wall_ns));
        now_ns += wall_ns;
    }
    all
}

/// When all of that is over.
fn end_ns(intervals: &[Interval]) -> u64 {
    intervals.iter().map(|(_, _, wall_ns, gap_ns)| wall_ns + gap_ns).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn misses_and_resident_lines_stay_in_range(hierarchy in hierarchy(), members in members(), intervals in intervals(40)) {
        let mut model = CacheModel::new(hierarchy, &members);
        let mut now_ns = 0;
        for interval in intervals {
            let ran = play(&mut model, &[interval], now_ns)[0];
            now_ns += interval.2 + interval.3;
            prop_assert!(ran.work_ns <= ran.wall_ns && ran.wall_ns == interval.2);
            prop_assert!(ran.misses.reload >= 0.0 && ran.misses.steady >= 0.0 && ran.misses.invalidation >= 0.0);
            let all = members[interval.0 as usize].footprint.reload_lines;
            let resident = model.resident_lines(ProcessIndex(interval.0), CpuIndex(interval.1));
            prop_assert!((0.0..=all * 1.000_001).contains(&resident), "{resident} of {all}");
        }
    }

    #[test]
    fn work_and_wall_time_are_inverse(
        hierarchy in hierarchy(), members in members(), before in intervals(20), interval in (0..4u32, 0..4u32), work_ns in 1..100_000_000u64,
    ) {
        let mut model = CacheModel::new(hierarchy, &members);
        play(&mut model, &before, 0);
        let (process, cpu, now_ns) = (ProcessIndex(interval.0), CpuIndex(interval.1), end_ns(&before));
        model.dispatch(process, cpu, now_ns);
        let by_work = model.clone().run(process, cpu, now_ns, work_ns, u64::MAX);
        let by_wall = model.clone().run(process, cpu, now_ns, u64::MAX, by_work.wall_ns);
        prop_assert_eq!(by_work.work_ns, work_ns);
        prop_assert!(by_wall.work_ns.abs_diff(work_ns) <= 1, "{} {}", by_wall.work_ns, work_ns);
        prop_assert!((by_wall.misses.total() - by_work.misses.total()).abs() < 0.1);
        let exactly = model.run(process, cpu, now_ns, work_ns, by_work.wall_ns);
        prop_assert_eq!(exactly, by_work);
    }

    #[test]
    fn a_run_in_two_parts_is_the_run(
        hierarchy in hierarchy(), members in members(), before in intervals(20), interval in (0..4u32, 0..4u32),
        work_ns in 2..100_000_000u64, cut in 0.0..1.0,
    ) {
        let mut model = CacheModel::new(hierarchy, &members);
        play(&mut model, &before, 0);
        let (process, cpu, now_ns) = (ProcessIndex(interval.0), CpuIndex(interval.1), end_ns(&before) + 1);
                model.dispatch(process, cpu, now_ns);
        // Until all that ran before is seen to be over.
        (0..100).for_each(|_| { model.run(process, cpu, now_ns, 0, 0); });
        let whole = model.clone().run(process, cpu, now_ns, work_ns, u64::MAX);
        let first_ns = (work_ns as f64 * cut) as u64;
        let first = model.run(process, cpu, now_ns, first_ns, u64::MAX);
        model.dispatch(process, cpu, now_ns + first.wall_ns);
        let second = model.run(process, cpu, now_ns + first.wall_ns, work_ns - first_ns, u64::MAX);
        let misses = first.misses.total() + second.misses.total();
        prop_assert!((misses - whole.misses.total()).abs() < 1e-5 * whole.misses.total() + 0.05, "{misses} {:?}", whole);
        let wall_ns = first.wall_ns + second.wall_ns;
        prop_assert!(wall_ns.abs_diff(whole.wall_ns) <= 4 + whole.wall_ns / 100_000, "{wall_ns} {}", whole.wall_ns);
    }

    #[test]
    fn longer_runs_miss_more_and_longer_intruders_cost_more(
        members in members(), short_ns in 1..30_000_000u64, more_ns in 0..30_000_000u64, ways in prop_oneof![Just(1), Just(2), Just(4), Just(16)],
    ) {
        let (victim, cpu) = (ProcessIndex(0), CpuIndex(0));
        let misses = |intruding_ns, own_ns| {
            let mut model = CacheModel::new(caches("sgi-4d340", (16_384, ways)), &members);
            play(&mut model, &[(0, 0, 100_000_000, 0), (2, 0, intruding_ns, 0)], 0);
            let now_ns = 100_000_000 + intruding_ns;
            model.dispatch(victim, cpu, now_ns);
            model.run(victim, cpu, now_ns, own_ns, u64::MAX).misses
        };
        prop_assert!(misses(short_ns + more_ns, 10_000_000).reload >= misses(short_ns, 10_000_000).reload - 1e-2);
        prop_assert!(misses(short_ns, short_ns + more_ns).total() >= misses(short_ns, short_ns).total() - 1e-9);
    }

    #[test]
    fn the_same_calls_give_the_same_bits(hierarchy in hierarchy(), members in members(), intervals in intervals(40)) {
        let run = || play(&mut CacheModel::new(hierarchy.clone(), &members), &intervals, 0);
        let bits = |all: Vec<Ran>| all.iter().map(|ran| (ran.work_ns, ran.misses.total().to_bits())).collect::<Vec<_>>();
        prop_assert_eq!(bits(run()), bits(run()));
    }
}

/// Section 3.1.1 and 3.2.2 of the report, and its 10 % potential of Matrix+Matrix, out of the parameters taken from them.
#[test]
fn the_reports_experiments_give_its_numbers() {
    for (name, reload_lines, steady_per_slice, slice_ms, potential) in [
        ("Matrix", 3_000.0, 3_000.0, 30.0, Some(0.1)),
        ("Cholesky", 1_000.0, 4_000.0, 25.0, Some(0.04)),
        ("Mp3d", 0.0, 18_000.0, 20.0, Some(0.0)),
        ("Oracle", 2_000.0, 500.0, 4.4, None),
    ] {
        let work_ms = slice_ms - (reload_lines + steady_per_slice) * 1e-3;
        let footprint =
            Footprint { reload_lines, steady_misses_per_ms: steady_per_slice / work_ms, ..Footprint::default() };
        let model = CacheModel::new(caches("sgi-4d340", DIRECT_MAPPED), &[Member { footprint, job: 0 }]);
        let found = reuse(&model, ProcessIndex(0), CpuIndex(0), 0, (slice_ms * 1e6) as u64);
        assert!((found.reload_misses - reload_lines).abs() <= 0.01 * reload_lines, "{name} {found:?}");
        let intervening = reload_lines + steady_per_slice;
        assert!((found.intervening_misses - intervening).abs() <= 0.01 * intervening, "{name} {found:?}");
        if let Some(potential) = potential {
            assert!((found.potential - potential).abs() <= 0.01, "{name} {found:?}");
        }
    }
}

/// What a busy bus adds: four that miss all the time wait for each other, one alone doesn't.
#[test]
fn misses_cost_more_on_a_busy_bus() {
    let machine = Machine::named("sgi-4d340").unwrap();
    let cpus: Vec<_> = machine.usable().collect();
    let hierarchy = Hierarchy::new(&machine, &cpus, Timing::for_machine(&machine)).unwrap();
    let footprint = Footprint { steady_misses_per_ms: 9_000.0, ..Footprint::default() };
    let mut model = CacheModel::new(hierarchy, &[Member { footprint, job: 0 }; 4]);
    let mut run = |process, now_ns| {
        model.dispatch(ProcessIndex(process), CpuIndex(process), now_ns);
        model.run(ProcessIndex(process), CpuIndex(process), now_ns, 1_000_000, u64::MAX).wall_ns
    };
    let alone = run(0, 0);
    assert_eq!(alone, 10_000_000, "9 misses of 1 us each for each us of work");
    let together = (1..4).map(|process| run(process, 1)).next_back().unwrap();
    assert!(together > alone);
    assert!(together < alone + 9_000 * 3 * 250, "no miss waits for more than three others");
    let later = (0..4).map(|_| run(0, 1_000_000_000)).next_back().unwrap();
    assert_eq!(later, alone, "the others are gone");
}
