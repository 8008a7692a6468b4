//! Programs with many births: each is known, whether or not it was stopped at its birth.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use launch::{Descendants, Exit, Launch, Observation, Output, launch, trace_available};
use machine::linux::affinity::allowed_cpus;
use machine::{CpuSet, Placement};

/// More than are learned by stops.
const BIRTHS: usize = 300;

fn trial(script: &str, placement: Option<Placement>) -> Observation {
    let argv = ["sh", "-c", script].map(Into::into).to_vec();
    let (output, descendants) = (Output::Capture, Descendants::Kill);
    let launched = launch(&Launch { output, descendants, placement, ..Launch::new(argv) }).unwrap();
    assert_eq!(launched.observation.exit, Exit::Code(0), "{}", launched.stderr.text());
    launched.observation
}

/// A shell that runs so many programs one after the other.
fn programs() -> String {
    format!("i=0; while [ $i -lt {BIRTHS} ]; do /bin/true; i=$((i+1)); done")
}

/// Whether all births are known where they aren't stops; says if not.
fn all_are_known(seen: &Observation) -> bool {
    match seen.notes.iter().find(|note| note.contains("looked for") || note.contains("polled")) {
        Some(note) => println!("skipped: {note}"),
        None => return true,
    }
    false
}

#[test]
fn many_processes_are_listed_in_order_and_hardly_stopped() {
    let all = allowed_cpus().unwrap();
    let alike = Placement { policy: "list".into(), slots: vec![all.clone(), all.clone()] };
    for placement in [None, Some(alike)] {
        let bound = placement.is_some();
        let seen = trial(&programs(), placement);
        if !all_are_known(&seen) {
            return;
        }
        assert_eq!(seen.threads.len(), 1 + BIRTHS, "{:?}", seen.notes);
        for (index, thread) in seen.threads.iter().enumerate() {
            let exec = u32::from(index > 0);
            assert_eq!((thread.process as usize, thread.exec, thread.thread), (index, exec, 0));
            assert_eq!(thread.actual_cpus, all);
            assert_eq!(thread.intended_cpus, bound.then(|| all.clone()));
        }
        assert!(seen.stops.unwrap() < BIRTHS as u64 * 2, "{:?}", seen.stops);
    }
}

#[test]
fn what_many_processes_leave_behind_is_killed_and_counted() {
    let seen = trial(&format!("{}; sleep 1000 & (sleep 1000 &) ; exit 0", programs()), None);
    assert_eq!(seen.leftovers, 2, "{:?}", seen.notes);
}

#[test]
fn each_thread_that_is_bound_by_itself_is_stopped_however_many_there_are() {
    let all = allowed_cpus().unwrap();
    if all.len() < 2 || trace_available().is_err() {
        return println!("skipped: it takes two CPUs, and ptrace");
    }
    let slots = all.iter().map(CpuSet::from).collect();
    let seen = trial(&programs(), Some(Placement { policy: "list".into(), slots }));
    assert_eq!(seen.threads.len(), 1 + BIRTHS);
    // Two for each birth, and one for what it executes.
    assert!(seen.stops.unwrap() >= 3 * BIRTHS as u64, "{:?}", seen.stops);
}

#[test]
fn a_program_with_few_births_is_known_by_its_stops_alone() {
    if trace_available().is_err() {
        return println!("skipped: it takes ptrace");
    }
    let seen = trial("/bin/true; /bin/true", None);
    assert_eq!(seen.threads.len(), 3);
    assert!(seen.threads.iter().all(|thread| thread.last_cpu.is_some()));
    assert!((1..50).contains(&seen.stops.unwrap()) && seen.stops_s.unwrap() > 0.0);
}
