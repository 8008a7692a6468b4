//! Under which scheduling a program runs, as the program itself and a reader of the kernel's files see it.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use launch::{
    Conditions, Descendants, Exit, Launch, Launched, Observe, Output, Scheduling, SchedulingObservation, launch,
};
use std::process::Command;

fn trial(script: &str, scheduling: &str, observe: Observe) -> Launched {
    let argv = ["sh", "-c", script].map(Into::into).to_vec();
    let (output, descendants) = (Output::Capture, Descendants::Kill);
    let conditions = Conditions { scheduling: scheduling.parse().unwrap(), ..Conditions::default() };
    let launched = launch(&Launch { output, descendants, observe, conditions, ..Launch::new(argv) }).unwrap();
    assert_eq!(launched.observation.exit, Exit::Code(0), "{}", launched.stderr.text());
    launched
}

fn seen(launched: &Launched) -> &SchedulingObservation {
    launched.observation.conditions.scheduling.as_ref().unwrap()
}

/// Field 41 of `/proc/PID/stat` is the class, field 19 the nice value.
const CLASS_AND_NICE: &str = "cut -d' ' -f19,41 /proc/self/stat";

#[test]
fn class_and_nice_value_are_what_the_program_and_its_children_have() {
    for observe in [Observe::Trace, Observe::Poll] {
        for (word, class, stat) in [("batch", "batch", "3"), ("idle", "idle", "5"), ("nice=7", "other", "0")] {
            let launched = trial(&format!("{CLASS_AND_NICE}; true"), word, observe);
            let read = seen(&launched);
            assert_eq!(read.policy.as_deref(), Some(class), "{observe:?}");
            let stdout = launched.stdout.text();
            let (nice, number) = stdout.trim().split_once(' ').unwrap();
            assert_eq!((number, nice.parse().ok()), (stat, read.nice), "{word}, {observe:?}");
            assert!(word != "nice=7" || read.nice == Some(7));
            assert_eq!((read.otherwise, launched.not_in_force), (0, None));
        }
    }
}

#[test]
fn a_slice_is_inherited_by_what_the_program_starts() {
    let scheduling: Scheduling = "slice=3.5ms".parse().unwrap();
    if let Some(lacking) = scheduling.lacking() {
        return println!("skipped: {lacking}");
    }
    let launched = trial("sh -c 'grep -s se.slice /proc/self/sched; true'; true", "slice=3.5ms", Observe::Trace);
    assert_eq!((seen(&launched).slice_us, seen(&launched).otherwise), (Some(3500), 0));
    // Where there is such a file, the grandchild has read its own.
    let text = launched.stdout.text();
    assert!(text.is_empty() || text.trim().ends_with(" 3500000"), "{text}");
}

#[test]
fn a_program_that_changes_it_itself_is_told() {
    if Command::new("chrt").arg("--version").output().is_err() {
        return println!("skipped: there is no chrt");
    }
    let launched = trial("chrt --batch -p 0 $$; true", "nice=5", Observe::Trace);
    let notes = &launched.observation.notes;
    if notes.iter().any(|note| note.contains("polled")) {
        return println!("skipped: {notes:?}");
    }
    assert_eq!((seen(&launched).policy.as_deref(), seen(&launched).otherwise), (Some("batch"), 1));
    let note = notes.iter().find(|note| note.contains("nice=5")).unwrap_or_else(|| panic!("{notes:?}"));
    assert!(note.contains("batch") && note.contains("changed it itself"), "{note}");
}

#[test]
fn by_default_nothing_is_read_back() {
    assert!(trial("true", "default", Observe::Trace).observation.conditions.is_empty());
}
