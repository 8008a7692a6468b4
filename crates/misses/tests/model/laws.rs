//! Situations whose misses can be counted on paper.

use crate::guest::{self, Data, Guest, LINE, cache, core, machine, two_by_four};
use machine::{CpuId, Kind, Level, Machine};
use misses::report::{Causes, Instructions, Report};
use misses::tasks::TaskAddress;
use misses::window::{self, ProcessIndex, SectionIndex};
use misses::{HierarchyError, Model};
use std::collections::BTreeMap;

const L1: Kind = Kind::Cache(1);
const L2: Kind = Kind::Cache(2);
const L3: Kind = Kind::Cache(3);

#[test]
fn who_fits_and_stays_misses_each_line_once() {
    let mut guest = Guest::new(two_by_four());
    for _ in 0..10 {
        guest.pass(0, 0, 16);
    }
    let counts = guest.end().all;
    // 16 lines fill the L2; the L1, of 4, never has the next one.
    assert_eq!(counts.misses, BTreeMap::from([(L1, 160), (L2, 16), (L3, 16)]));
    assert_eq!(counts.causes[&L2], Causes { cold: 16, ..Causes::default() });
    assert_eq!((counts.accesses, counts.runs), (160, 1));
}

#[test]
fn who_doesn_t_fit_misses_by_its_own_doing() {
    let mut guest = Guest::new(two_by_four());
    for _ in 0..10 {
        guest.pass(0, 0, 32);
    }
    let counts = guest.end().all;
    // LRU has always just displaced what is wanted next. The L3, of 64, has all.
    assert_eq!(counts.causes[&L2], Causes { cold: 32, steady: 9 * 32, ..Causes::default() });
    assert_eq!(counts.causes[&L3], Causes { cold: 32, ..Causes::default() });
}

#[test]
fn who_takes_turns_reloads_what_the_other_displaced() {
    let mut guest = Guest::new(two_by_four());
    for _ in 0..10 {
        guest.pass(0, 0, 16);
        guest.pass(0, 1, 16);
    }
    let section = guest.end();
    for process in [0, 1] {
        let counts = &section.processes[&process];
        assert_eq!(counts.causes[&L2], Causes { cold: 16, reload: 9 * 16, ..Causes::default() });
        assert_eq!(counts.causes[&L3], Causes { cold: 16, ..Causes::default() });
        assert_eq!((counts.runs, counts.migrations.len()), (10, 0));
    }
}

#[test]
fn who_moves_leaves_its_lines_behind() {
    let mut guest = Guest::new(two_by_four());
    guest.pass(0, 0, 16);
    guest.pass(1, 0, 16);
    guest.pass(4, 0, 16);
    let counts = guest.end().all;
    assert_eq!(counts.causes[&L2], Causes { cold: 16, migration: 2 * 16, ..Causes::default() });
    // CPU 1 has the L3 of CPU 0, CPU 4 has its own.
    assert_eq!(counts.causes[&L3], Causes { cold: 16, migration: 16, ..Causes::default() });
    assert_eq!(counts.migrations, BTreeMap::from([(Level::L3, 1), (Level::Machine, 1)]));
    assert_eq!(counts.runs, 3);
}

#[test]
fn who_comes_back_finds_what_it_only_loaded_since() {
    let mut guest = Guest::new(two_by_four());
    guest.pass(0, 0, 16);
    guest.pass(1, 0, 16);
    guest.pass(0, 0, 16);
    assert_eq!(guest.end().all.misses[&L2], 32);

    // A store takes the line from where it was.
    let mut guest = Guest::new(two_by_four());
    guest.pass(0, 0, 16);
    guest.access(1, Data::Own(0, 3), true);
    guest.pass(0, 0, 16);
    assert_eq!(guest.end().all.causes[&L2], Causes { cold: 16, migration: 2, ..Causes::default() });
}

#[test]
fn what_was_lost_before_a_move_is_not_the_move_s_fault() {
    let mut guest = Guest::new(two_by_four());
    guest.pass(0, 0, 16);
    guest.pass(0, 1, 12);
    guest.pass(1, 0, 16);
    // Process 1's 12 lines took three of the four frames of each set.
    let causes = guest.end().processes[&0].causes[&L2];
    assert_eq!(causes, Causes { cold: 16, reload: 12, migration: 4, ..Causes::default() });
}

#[test]
fn what_is_lost_while_away_is_the_move_s_fault() {
    let mut guest = Guest::new(two_by_four());
    guest.pass(0, 0, 15);
    guest.access(1, Data::Own(0, 99), false);
    guest.pass(0, 1, 16);
    guest.pass(1, 0, 15);
    let causes = guest.end().processes[&0].causes[&L2];
    assert_eq!(causes, Causes { cold: 16, migration: 15, ..Causes::default() });
}

#[test]
fn what_neighbours_and_the_kernel_take_is_contention() {
    let mut guest = Guest::new(two_by_four());
    guest.pass(0, 0, 16);
    for process in 1..4 {
        guest.pass(process, process, 32);
    }
    // The kernel, in the L1 and the L2 of a process that is taken to run.
    for line in 0..16 {
        guest.access(0, Data::Other(0x5000 + line), false);
    }
    guest.pass(0, 0, 16);
    let causes = &guest.end().processes[&0].causes;
    assert_eq!(causes[&L2], Causes { cold: 16, contention: 16, ..Causes::default() });
    assert_eq!(causes[&L3], Causes { cold: 16, contention: 16, ..Causes::default() });
}

#[test]
fn what_a_process_displaces_of_its_own_to_rebuild_is_reloaded_too() {
    let mut guest = Guest::new(two_by_four());
    guest.pass(0, 0, 16);
    guest.pass(0, 1, 4);
    guest.pass(0, 0, 16);
    // Process 1 took the oldest of four lines of each set. Bringing it back displaces the next one that is wanted, and so on,
    // though the process has room for all.
    let causes = guest.end().processes[&0].causes[&L2];
    assert_eq!(causes, Causes { cold: 16, reload: 16, ..Causes::default() });
}

#[test]
fn who_shares_loses_by_the_others_stores() {
    let mut guest = Guest::new(two_by_four());
    for (cpu, process) in [(0, 0), (1, 1)] {
        guest.access(cpu, Data::Own(process, 0), false);
        guest.access(cpu, Data::Shared(0, 1), false);
    }
    for _ in 0..5 {
        guest.access(0, Data::Shared(0, 1), true);
        guest.access(1, Data::Shared(0, 1), false);
    }
    let section = guest.end();
    let causes = |process: u32| section.processes[&process].causes[&L2];
    assert_eq!(causes(0), Causes { cold: 2, ..Causes::default() });
    assert_eq!(causes(1), Causes { cold: 2, invalidation: 5, ..Causes::default() });
    // Both have the same L3, which loses nothing.
    assert_eq!(section.all.misses[&L3], 3);
}

#[test]
fn siblings_share_their_core_s_caches_and_dies_don_t() {
    let shared = |first: u32, second: u32| {
        let mut guest = Guest::new(guest::dies_with_smt());
        for cpu in [first, second] {
            for line in 0..4 {
                guest.access(cpu, Data::Other(line), false);
            }
        }
        let misses = guest.end().other.misses;
        [L1, L2, L3].map(|kind| misses[&kind])
    };
    assert_eq!(shared(0, 1), [4, 4, 4]);
    assert_eq!(shared(0, 2), [8, 8, 4]);
    assert_eq!(shared(0, 4), [8, 8, 8]);
}

#[test]
fn the_report_says_what_was_modelled() {
    let report = Model::new(guest::dies_with_smt(), true).unwrap().report();
    let caches: Vec<_> =
        report.caches.iter().map(|build| (build.kind, build.count, build.size_bytes / LINE, build.ways)).collect();
    assert_eq!(caches, [(L1, 4, 4, 4), (L2, 4, 16, 2), (L3, 2, 48, 4)]);
    assert_eq!((report.line_bytes, report.sections.len()), (LINE, 0));
}

#[test]
fn sections_are_counted_apart_and_come_back_from_json() {
    let mut model = Model::new(two_by_four(), true).unwrap();
    let executed = |user| {
        let mut all = vec![Instructions::default(); 8];
        all[2].user = user;
        all
    };
    let mark = |model: &mut Model, section: u32, user: u64| {
        let address = window::mark(SectionIndex(section));
        assert_eq!(model.access(CpuId(0), address, false, || Some(0)), None, "a load marks nothing");
        let marked = model.access(CpuId(0), address, true, || Some(0)).unwrap();
        assert_eq!(marked, SectionIndex(section));
        model.begin_section(marked, &executed(user));
    };
    let touch = |model: &mut Model, line: u64| {
        let address = window::own(ProcessIndex(7)) + line * LINE;
        assert_eq!(model.access(CpuId(2), address, true, || Some(line * LINE)), None);
    };
    touch(&mut model, 0);
    mark(&mut model, 1, 100);
    touch(&mut model, 0);
    touch(&mut model, 0);
    mark(&mut model, 2, 250);
    touch(&mut model, 0);
    touch(&mut model, 1);
    mark(&mut model, 0, 300);
    touch(&mut model, 1);
    mark(&mut model, 1, 1000);
    touch(&mut model, 0);
    mark(&mut model, 0, 1001);

    let text = serde_json::to_string(&model.report()).unwrap();
    let report: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(report, model.report());
    let shown = |section: u32| {
        let section = &report.sections[&section];
        let counts = &section.processes[&7];
        (counts.accesses, counts.misses[&L2], counts.causes[&L2].cold, counts.runs, section.instructions[2].user)
    };
    assert_eq!(report.sections.len(), 2);
    // Section 1 twice, from empty caches and with a new process both times; section 2 goes on from the first.
    assert_eq!(shown(1), (3, 2, 2, 2, 151));
    assert_eq!(shown(2), (2, 1, 1, 0, 50));
}

#[test]
fn devices_and_unwanted_others_leave_no_trace() {
    let mut model = Model::new(two_by_four(), false).unwrap();
    let none = vec![Instructions::default(); 8];
    model.begin_section(SectionIndex(1), &none);
    model.access(CpuId(0), Data::Other(1).address(), true, || panic!("nobody wants to know"));
    model.access(CpuId(0), Data::Own(0, 1).address(), true, || None);
    model.begin_section(SectionIndex::OUTSIDE, &none);
    let section = &model.report().sections[&1];
    assert_eq!((section.all.accesses, section.other.accesses), (0, 0));
}

fn refusal(machine: Machine) -> String {
    let error: HierarchyError = Model::new(machine, true).unwrap_err();
    error.to_string()
}

#[test]
fn a_machine_that_can_t_be_modelled_gets_one_sentence() {
    assert_eq!(
        refusal(machine("bare", vec![core([0])])),
        "bare has no data cache; describe some, as in the synthetic string `l3:1(size=4MB) l2:4(size=512KB)`"
    );
    assert_eq!(
        refusal(machine("gap", vec![cache(2, 8, 1, vec![core([0, 2])])])),
        "gap has no CPU 1, and the guest's CPUs are numbered from 0 without gaps"
    );
    assert_eq!(
        refusal(machine("mixed", vec![cache(2, 8, 1, vec![cache(1, 4, 1, vec![core([0])])]), core([1])])),
        "mixed has no data cache around CPU 1 and L1d, L2 around CPU 0; describe the same levels around all"
    );
    let mut unknown = cache(2, 8, 1, vec![core([0])]);
    unknown.cache = None;
    assert_eq!(
        refusal(machine("vague", vec![unknown])),
        "vague doesn't tell the size of the L2 around CPU 0; describe it, as in `L2:1(size=1MB)`"
    );
    let mut odd = cache(2, 8, 1, vec![core([0])]);
    odd.cache.as_mut().unwrap().line_bytes = 48.try_into().ok();
    assert_eq!(
        refusal(machine("odd", vec![odd])),
        "odd has lines of 48 bytes in its L2; all caches must have the same, a power of two"
    );
}

#[test]
fn what_a_machine_doesn_t_tell_is_assumed_aloud() {
    let mut vague = cache(2, 64, 1, vec![core([0])]);
    let facts = vague.cache.as_mut().unwrap();
    (facts.line_bytes, facts.associativity) = (None, None);
    let report = Model::new(machine("vague", vec![vague]), true).unwrap().report();
    assert_eq!(
        report.assumptions,
        [
            "vague doesn't tell the line size (64 bytes assumed) of its L2",
            "vague doesn't tell the ways (16 assumed) of its L2"
        ]
    );
    assert_eq!((report.caches[0].ways, report.line_bytes), (16, 64));
}

/// Two cores with an L2 of 64 sets, and an L1 of 16.
fn with_many_sets() -> Machine {
    let core = |cpu| cache(2, 128, 2, vec![cache(1, 16, 1, vec![core([cpu])])]);
    machine("many sets", vec![core(0), core(1)])
}

/// Two tasks that take turns on two CPUs, whose data of `lines(turn, task)` each fill all sets alike.
fn tasks_that_take_turns(least_sets: u64, lines: impl Fn(u64, u64) -> u64) -> Report {
    let mut model = Model::of_tasks(with_many_sets(), least_sets).unwrap();
    let none = vec![Instructions::default(); 2];
    model.begin_section(SectionIndex(1), &none);
    for turn in 0..12 {
        for task in 0..2 {
            let cpu = CpuId(u32::from(turn % 4 == 3));
            model.switch(cpu, TaskAddress(0xffff_8880_0000_0000 + task * 0x4000));
            for line in 0..lines(turn, task) {
                let physical = (task << 20 | line) * LINE;
                let address = 0x5555_0000_0000 + line * LINE;
                // Who doesn't ask is answered likewise.
                if line % 5 == 0 || !model.is_unmodelled(cpu, address) {
                    model.access(cpu, address, line / 64 % 2 == 0, || Some(physical));
                }
            }
        }
    }
    model.begin_section(SectionIndex::OUTSIDE, &none);
    model.report()
}

#[test]
fn what_is_alike_in_all_sets_is_counted_exactly_by_a_part_of_them() {
    let lines = |turn, task| 64 * (1 + (turn + task) % 3);
    let exact = tasks_that_take_turns(64, lines);
    let causes = exact.sections[&1].all.causes[&L2];
    assert!(
        [causes.cold, causes.steady, causes.reload, causes.migration].iter().all(|&misses| misses > 0),
        "{causes:?}"
    );
    assert_eq!(exact.assumptions, Vec::<String>::new());
    for one_of in [2, 4, 8, 16] {
        let part = tasks_that_take_turns(64 / one_of, lines);
        assert_eq!(part.sections, exact.sections, "one of {one_of}");
        let said = format!("of {one_of} sets of a cache one is modelled, and each of its misses counts {one_of} times");
        assert_eq!((part.assumptions, part.caches), (vec![said], exact.caches.clone()));
    }
    // The L1 has no more than 16 sets, and the L2 no more than 64.
    assert_eq!(tasks_that_take_turns(1, lines), tasks_that_take_turns(4, lines));
    assert_eq!(tasks_that_take_turns(65, lines), exact);
}

#[test]
fn of_a_part_of_the_sets_accesses_are_all_counted() {
    let lines = |turn, task| 37 + 11 * turn + task;
    let (exact, part) = (tasks_that_take_turns(64, lines), tasks_that_take_turns(16, lines));
    let (exact, part) = (&exact.sections[&1].all, &part.sections[&1].all);
    assert_eq!((part.accesses, part.runs, &part.migrations), (exact.accesses, exact.runs, &exact.migrations));
    assert_ne!(part.misses, exact.misses, "not all sets are alike here");
    assert!(part.misses.values().all(|misses| misses % 4 == 0));
}
