//! The BPF side's own headers on the host: what a CPU's place, an account, the load and a process that is left to a CPU come to.

use crate::intf::{MAX_CPUS, Place};
use crate::machine_tree::MachineTree;
use machine::{CpuId, Level, Machine};
use sim::Decay;
use sim::rule::{self, Distance, LOAD_ONE};
use std::collections::BTreeSet;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;
use strum::VariantArray;

unsafe extern "C" {
    safe fn test_reset();
    safe fn test_set_place(cpu: u32, place: &Place);
    safe fn test_meeting(a: i32, b: i32) -> u32;
    safe fn test_distance(last: i32, cpu: i32) -> u32;
    safe fn test_set_decay(rule: u32, now: u32);
    safe fn test_set_account(pid: i32, decayed_until: u32, cpu_ticks: u32);
    safe fn test_decay(pid: i32);
    safe fn test_cpu_ticks(pid: i32) -> u32;
    safe fn test_load_after(before: u64, runnable: u32, cpus: u32) -> u64;
    safe fn test_wait(pid: i32, cpu: i32);
    safe fn test_leave(pid: i32);
    safe fn test_take_overdue(cpu: i32, now: u64) -> i32;
    safe fn test_cpu_offline(cpu: i32);
    safe fn test_fill_slot(cpu: u32, noted: u64) -> bool;
    safe fn test_next_left(cpu: u32) -> u64;
    safe fn test_wake_limit_ns() -> u64;
}

/// The BPF side has one state: a test at a time, each from the start.
fn fresh() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    test_reset();
    guard
}

const FAR: u32 = Distance::Far as u32;

#[test]
fn two_cpus_meet_where_the_tree_says() {
    let _one = fresh();
    let machine = Machine::named("package:2 l3:2 l2:2 core:2 pu:2").unwrap();
    let tree = MachineTree::from_machine(&machine);
    tree.places.iter().for_each(|(cpu, place)| test_set_place(*cpu, place));
    for &(a, _) in &tree.places {
        for &(b, _) in &tree.places {
            let meets = Level::VARIANTS[test_meeting(a as i32, b as i32) as usize];
            assert_eq!(Some(meets), machine.sharing(CpuId(a), CpuId(b)), "{a} and {b}");
        }
    }
}

#[test]
fn a_cpu_of_which_nothing_is_known_is_far_from_all_others() {
    let _one = fresh();
    // Nothing is known of any: the topology can't be read.
    for (a, b) in [(0, 1), (0, MAX_CPUS as i32 - 1), (6, 7)] {
        assert_eq!(test_distance(a, b), FAR, "{a} and {b}");
        assert_eq!(test_distance(a, a), Distance::SameCpu as u32);
    }
    // Of CPU 3 nothing is: it was offline.
    let tree = MachineTree::from_machine(&Machine::named("l3:1 core:4 pu:1").unwrap());
    tree.places.iter().filter(|(cpu, _)| *cpu != 3).for_each(|(cpu, place)| test_set_place(*cpu, place));
    assert_eq!([0, 1, 3].map(|cpu| test_distance(cpu, 2)), [Distance::SameL3 as u32, Distance::SameL3 as u32, FAR]);
    assert_eq!(test_distance(0, 3), FAR);
    // It comes, and the loader says where it is.
    tree.places.iter().for_each(|(cpu, place)| test_set_place(*cpu, place));
    assert_eq!(test_distance(0, 3), Distance::SameL3 as u32);
}

#[test]
fn an_account_that_has_decayed_further_than_a_cpu_knows_stays_as_it_is() {
    let _one = fresh();
    for decay in [Decay::Half, Decay::Bsd, Decay::Subtract(0)] {
        test_set_decay(decay.rule().0, 5);
        test_set_account(1, 6, 100);
        test_decay(1);
        assert_eq!(test_cpu_ticks(1), 100, "{decay}");
    }
}

#[test]
fn accounts_decay_once_for_each_period() {
    let _one = fresh();
    for (from, now) in [(0, 0), (0, 1), (3, 7), (0, 31), (0, 33), (u32::MAX, 1)] {
        test_set_decay(Decay::Half.rule().0, now);
        test_set_account(1, from, 1 << 20);
        test_decay(1);
        let periods = now.wrapping_sub(from);
        let expected = (0..periods).fold(1 << 20, |ticks, _| rule::decay(ticks, Decay::Half, 0));
        assert_eq!(test_cpu_ticks(1), expected, "{periods} periods");
        // And not again.
        test_decay(1);
        assert_eq!(test_cpu_ticks(1), expected, "{periods} periods");
    }
}

#[test]
fn two_cpus_that_let_an_account_decay_at_once_let_it_decay_once() {
    let _one = fresh();
    const ROUNDS: u32 = 2_000;
    let both = Barrier::new(2);
    let decay_together = || {
        both.wait();
        test_decay(1);
        both.wait();
    };
    let ticks: Vec<u32> = thread::scope(|scope| {
        scope.spawn(|| (0..ROUNDS).for_each(|_| decay_together()));
        let rounds = (1..=ROUNDS).map(|now| {
            test_set_decay(Decay::Half.rule().0, now);
            test_set_account(1, now - 1, 1 << 20);
            decay_together();
            test_cpu_ticks(1)
        });
        rounds.collect()
    });
    assert_eq!(ticks, [1 << 19; ROUNDS as usize]);
}

#[test]
fn the_load_is_that_of_the_cpus_that_are_online() {
    let _one = fresh();
    let one = u64::from(LOAD_ONE);
    // Twelve on four CPUs are a load of three, which it stays.
    assert_eq!(test_load_after(3 * one, 12, 4), 3 * one);
    assert_eq!(test_load_after(0, 12, 4), 3 * one / 60);
}

#[test]
fn all_that_are_left_to_a_cpu_are_taken_who_waited_longest_first() {
    let _one = fresh();
    (1..=3).for_each(|pid| test_wait(pid, 5));
    [2, 3, 1].into_iter().for_each(|pid| test_leave(pid));
    assert_eq!(test_take_overdue(4, 0), 0, "they may not run there");
    assert_eq!([0; 4].map(|now| test_take_overdue(5, now)), [1, 2, 3, 0]);
}

/// So many processes that may run on CPU 5 only wake at once, and are overdue when CPU 4 next dispatches: it leaves all of them. Returns
/// the time.
fn leave_all_to_cpu_5(count: i32) -> u64 {
    let now = test_wake_limit_ns() + 1;
    (1..=count).for_each(|pid| test_wait(pid, 5));
    (0..count).for_each(|_| assert_eq!(test_take_overdue(4, now), 0));
    now
}

#[test]
fn when_more_are_left_to_a_cpu_than_there_is_room_for_they_come_later() {
    let _one = fresh();
    let now = leave_all_to_cpu_5(20);
    let taken = |now: u64| -> BTreeSet<i32> {
        std::iter::repeat_with(|| test_take_overdue(5, now)).take_while(|&pid| pid != 0).collect()
    };
    let mut all = taken(now);
    assert!(!all.is_empty() && all.len() < 20, "{all:?}");
    all.extend(taken(now + test_wake_limit_ns() + 1));
    assert_eq!(all, (1..=20).collect());
}

#[test]
fn who_is_left_to_a_cpu_that_goes_offline_is_looked_at_again() {
    let _one = fresh();
    let now = leave_all_to_cpu_5(1);
    test_cpu_offline(5);
    assert_eq!(test_next_left(5), 0);
    assert_eq!(test_take_overdue(5, now), 0);
    assert_eq!(test_take_overdue(5, now + test_wake_limit_ns() + 1), 1);
}

#[test]
fn nobody_is_lost_or_taken_twice_while_one_cpu_leaves_and_another_takes() {
    let _one = fresh();
    const TURNS: u64 = 100_000;
    // The map exists before both use it.
    assert_eq!(test_next_left(0), 0);
    let taken = thread::scope(|scope| {
        let leaves = scope.spawn(|| {
            for turn in 1..=TURNS {
                while !test_fill_slot(0, turn) {
                    thread::yield_now();
                }
            }
        });
        let mut taken: Vec<u64> = Vec::new();
        loop {
            let is_last = leaves.is_finished();
            match test_next_left(0) {
                0 if is_last => break taken,
                0 => thread::yield_now(),
                turn => taken.push(turn),
            }
        }
    });
    let mut sorted = taken.clone();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(1..=TURNS));
}
