//! Under which scheduling a program runs, as the program itself and a reader of the kernel's files see it.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use launch::{
    AttachedProcess, Conditions, Descendants, Exit, Launch, Launched, Observation, Observe, Output, Scheduling,
    SchedulingObservation, ThreadObservation, launch,
};
use machine::linux::affinity::allowed_cpus;
use machine::{CpuId, CpuSet, Placement};
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

/// What `Attached` should have given: for each birth, in their order, the lowest of the CPUs with the fewest processes that had begun
/// and not ended by then.
fn by_brute_force(observation: &Observation, cpus: &CpuSet) -> Vec<AttachedProcess> {
    let mut given: Vec<(f64, f64, CpuId)> = Vec::new();
    let mut processes: Vec<&ThreadObservation> = observation.threads.iter().filter(|row| row.thread == 0).collect();
    processes.sort_by(|a, b| a.began_s.partial_cmp(&b.began_s).unwrap());
    for row in &processes {
        let now = row.began_s.unwrap();
        let load = |cpu| given.iter().filter(|(began, ended, on)| *on == cpu && *began < now && now < *ended).count();
        let cpu = cpus.iter().min_by_key(|cpu| (load(*cpu), *cpu)).unwrap();
        given.push((now, row.ended_s.unwrap(), cpu));
    }
    processes.iter().zip(given).map(|(row, (.., cpu))| AttachedProcess { process: row.process, cpu }).collect()
}

#[test]
fn each_process_is_attached_to_the_cpu_that_had_the_fewest() {
    let cpus = allowed_cpus().unwrap();
    // Four that live at once, of which two end before others begin; and one that ends at once.
    let script = "sleep 1000 & a=$!; sleep 1000 & b=$!; sleep 1000 & c=$!; sleep 1000 & d=$!; kill $a; wait $a; /bin/true; \
                  kill $c; wait $c; sleep 1000 & e=$!; sh -c '/bin/true & /bin/true; wait'; kill $b $d $e; wait";
    for many in ["", "i=0; while [ $i -lt 70 ]; do /bin/true; i=$((i+1)); done; "] {
        let launched = trial(&format!("{many}{script}"), "attached", Observe::Trace);
        let observation = &launched.observation;
        if observation.notes.iter().any(|note| note.contains("polled")) {
            return println!("skipped: {:?}", observation.notes);
        }
        let attached = &seen(&launched).attached;
        assert_eq!(attached.len(), if many.is_empty() { 10 } else { 80 }, "{attached:?}");
        assert_eq!(*attached, by_brute_force(observation, &cpus), "{:?}", observation.threads);
        for row in &observation.threads {
            let given = attached.iter().find(|process| process.process == row.process).unwrap();
            assert_eq!(row.actual_cpus, CpuSet::from(given.cpu));
            assert_eq!(row.intended_cpus, Some(CpuSet::from(given.cpu)));
        }
    }
}

#[test]
fn a_placement_says_which_cpus_processes_are_attached_to() {
    let last = allowed_cpus().unwrap().iter().last().unwrap();
    let slots = vec![CpuSet::from(last); 2];
    let conditions = Conditions { scheduling: Scheduling::Attached, ..Conditions::default() };
    let launched = launch(&Launch {
        output: Output::Capture,
        descendants: Descendants::Kill,
        placement: Some(Placement { policy: "list".into(), slots }),
        conditions,
        ..Launch::new(["sh", "-c", "/bin/true & /bin/true & echo $OMP_NUM_THREADS; wait"].map(Into::into).to_vec())
    });
    let launched = launched.unwrap();
    assert!(seen(&launched).attached.iter().all(|process| process.cpu == last));
    assert_eq!(launched.observation.notes.iter().filter(|note| note.contains("attached")).count(), 0);
    assert_eq!(launched.stdout.text(), format!("{}\n", std::env::var("OMP_NUM_THREADS").unwrap_or_default()));
}

#[test]
fn by_default_nothing_is_read_back() {
    assert!(trial("true", "default", Observe::Trace).observation.conditions.is_empty());
}
