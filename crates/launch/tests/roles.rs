//! Places that go by what threads and processes are called.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use launch::{Descendants, Exit, Launch, Observation, Observe, Output, SlotRule, ThreadObservation, Unit, launch};
use machine::linux::affinity::allowed_cpus;
use machine::{CpuSet, Placement};

/// A placement of two CPUs that differ; none where there aren't two, which it says.
fn two_slots() -> Option<Placement> {
    let slots: Vec<CpuSet> = allowed_cpus().unwrap().iter().take(2).map(CpuSet::from).collect();
    if slots.len() < 2 {
        println!("skipped: it takes two CPUs");
        return None;
    }
    Some(Placement { policy: "list".into(), slots })
}

fn trial(argv: &[&str], unit: Unit, rules: &[&str], observe: Observe) -> Option<Observation> {
    let roles: Vec<SlotRule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let launched = launch(&Launch {
        output: Output::Capture,
        descendants: Descendants::Kill,
        placement: Some(two_slots()?),
        unit,
        roles,
        observe,
        ..Launch::new(argv.iter().map(Into::into).collect())
    });
    let launched = launched.unwrap();
    assert_eq!(launched.observation.exit, Exit::Code(0), "{}", launched.stderr.text());
    Some(launched.observation)
}

/// Where each was to be, and where it could run, by the numbers of the placement's slots; both of them is `free`.
fn places<'a>(threads: impl Iterator<Item = &'a ThreadObservation>) -> Vec<[String; 2]> {
    let slots = two_slots().unwrap();
    let name = |cpus: &CpuSet| match slots.slots.iter().position(|slot| slot == cpus) {
        Some(slot) => slot.to_string(),
        None if *cpus == slots.union() => "free".into(),
        None => cpus.to_string(),
    };
    let of = |thread: &ThreadObservation| {
        [thread.intended_cpus.as_ref().map_or("free".into(), name), name(&thread.actual_cpus)]
    };
    threads.map(of).collect()
}

/// Processes that give themselves a title some time after they are born, as servers do, workers and helpers in turn.
const SERVER: &str = r#"
for title in 'srv: writer' 'srv: worker a' 'srv: writer 2' 'srv: worker b' 'srv: collector' 'srv: worker c'; do
    (sleep 0.01; exec -a "$title" sleep 1) &
done
wait
"#;

#[test]
fn processes_take_places_by_their_titles_and_helpers_none() {
    for observe in [Observe::Trace, Observe::Poll] {
        let rules = ["srv: worker* = next", "srv: collector* = 1", "* = free"];
        let Some(seen) = trial(&["bash", "-c", SERVER], Unit::Process, &rules, observe) else { return };
        // Each shell in between has a child that sleeps first; those that gave themselves a title lived longest.
        let titled = seen
            .threads
            .iter()
            .filter(|thread| thread.ended_s.zip(thread.began_s).is_some_and(|(end, begin)| end - begin > 0.8));
        let titled = titled.filter(|thread| thread.process > 0 && thread.name.as_deref() == Some("sleep"));
        let mut places: Vec<[String; 2]> = places(titled);
        places.sort();
        let pair = |place: &str| [place.to_owned(), place.to_owned()];
        // Three workers on the two places, the collector on its own, and two writers that are free.
        let workers_first = [pair("0"), pair("0"), pair("1"), pair("1"), pair("free"), pair("free")];
        let collector_first = [pair("0"), pair("1"), pair("1"), pair("1"), pair("free"), pair("free")];
        assert!(places == workers_first || places == collector_first, "{places:?}: {:?}", seen.threads);
        assert_eq!(seen.notes.iter().find(|note| note.contains("strayed")), None);
    }
}

/// Threads that call themselves something, and one that keeps its name.
const THREADS: &str = r#"
import ctypes, threading, time
libc = ctypes.CDLL(None)
def run(name):
    if name: libc.prctl(15, name)
    time.sleep(0.6)
threads = [threading.Thread(target=run, args=(name,)) for name in (b"io 1", b"gc 1", b"io 2", b"gc 2", None)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"#;

#[test]
fn threads_take_places_by_what_they_call_themselves() {
    for observe in [Observe::Trace, Observe::Poll] {
        let rules = ["gc* = free", "io* = 1"];
        let Some(seen) = trial(&["python3", "-c", THREADS], Unit::Thread, &rules, observe) else { return };
        let named = |name: &'static str| seen.threads.iter().filter(move |thread| thread.name.as_deref() == Some(name));
        for (name, place) in [("io 1", "1"), ("gc 1", "free"), ("io 2", "1"), ("gc 2", "free")] {
            assert_eq!(places(named(name)), [[place, place]], "{name}: {:?}", seen.threads);
        }
        // The main thread and the one that kept the program's name take the places that fewest have, once there are several.
        let mut others = places(named("python3"));
        others.sort();
        assert_eq!(others, [["0", "0"], ["0", "0"]], "{:?}", seen.threads);
    }
}

#[test]
fn without_a_rule_for_it_a_lone_thread_is_free_and_a_rule_may_name_it() {
    for (rules, place) in [(["other = 0"], "free"), (["sleep = 1"], "1")] {
        let Some(seen) = trial(&["sleep", "0.3"], Unit::Thread, &rules, Observe::Trace) else { return };
        assert_eq!(places(seen.threads.iter()), [[place, place]], "{rules:?}");
    }
}
