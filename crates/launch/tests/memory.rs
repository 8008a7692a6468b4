//! Memory policies and huge pages: a C program tells which it has and where its memory is, without us.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use launch::{Conditions, Descendants, Exit, Launch, LaunchError, Launched, Observe, Output, launch, trace_available};
use machine::Placement;
use machine::linux::{allowed_cpus, memory};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;
use tempfile::TempDir;

/// What the program touches.
const TOUCHED_BYTES: u64 = 64 << 20;

/// Compiled once; none where there is no compiler.
static PROGRAM: LazyLock<Option<(TempDir, PathBuf)>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("touch");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/memory/touch.c");
    let compiled = Command::new("cc").args(["-O1", "-static", "-pthread", "-o"]).arg(&program).arg(source).status();
    compiled.is_ok_and(|status| status.success()).then_some((folder, program))
});

/// Serves tests that change what the whole machine is set to, and those that would notice.
static HUGE_PAGES: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn conditions(memory: &str, huge_pages: &str) -> Conditions {
    Conditions { memory: memory.parse().unwrap(), huge_pages: huge_pages.parse().unwrap(), ..Conditions::default() }
}

fn launched(conditions: Conditions, observe: Observe, arguments: &[&str]) -> Option<Launched> {
    let Some((_, program)) = &*PROGRAM else {
        println!("skipped: there is no C compiler (cc)");
        return None;
    };
    if let Some(why) = conditions.lacking() {
        println!("skipped: {why}");
        return None;
    }
    let argv = [program.into()].into_iter().chain(arguments.iter().map(Into::into)).collect();
    let (output, descendants) = (Output::Capture, Descendants::Kill);
    let launched = launch(&Launch { conditions, observe, output, descendants, ..Launch::new(argv) }).unwrap();
    assert_eq!(launched.observation.exit, Exit::Code(0), "{}", launched.stderr.text());
    Some(launched)
}

/// What the program said after this name.
fn said(launched: &Launched, name: &str) -> u64 {
    let text = launched.stdout.text();
    let value =
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap_or_else(|| panic!("{text}"));
    value.parse().unwrap()
}

#[test]
fn a_policy_is_the_one_that_the_program_has() {
    // Modes of linux/mempolicy.h.
    for (policy, mode, nodes) in [
        ("default", 0, 0),
        ("bind:0", 2, 1),
        ("preferred:0", 1, 1),
        ("interleave", 3, 1),
        ("interleave:0", 3, 1),
        ("local", 4, 0),
        ("weighted-interleave", 6, 1),
    ] {
        if memory::nodes_with_memory() != [0].into() {
            return println!("skipped: it takes a machine with one NUMA node, 0");
        }
        for observe in [Observe::Trace, Observe::Poll] {
            let Some(seen) = launched(conditions(policy, "default"), observe, &[]) else { break };
            assert_eq!((said(&seen, "mode"), said(&seen, "nodes")), (mode, nodes), "{policy}");
            if observe == Observe::Trace {
                assert_eq!(seen.observation.notes, Vec::<String>::new(), "{policy}");
            }
        }
    }
    // Ours is as it was.
    let own = fs::read_to_string("/proc/thread-self/numa_maps").unwrap();
    assert!(own.lines().all(|line| line.split(' ').nth(1) == Some("default")), "{own}");
}

/// What was read back must contain what the program touched, and hardly more.
fn is_about_touched(bytes: u64, times: u64) -> bool {
    (times * TOUCHED_BYTES..times * (TOUCHED_BYTES + (4 << 20))).contains(&bytes)
}

#[test]
fn memory_is_read_back_before_a_program_ends() {
    if memory::nodes_with_memory() != [0].into() {
        return println!("skipped: it takes a machine with one NUMA node, 0");
    }
    let Some(seen) = launched(conditions("bind:0", "default"), Observe::Trace, &[]) else { return };
    if seen.observation.notes.iter().any(|note| note.contains("polled")) {
        return println!("skipped: {:?}", seen.observation.notes);
    }
    let memory = seen.observation.conditions.memory.clone().unwrap();
    assert_eq!((memory.processes, memory.followed, memory.remote_share), (1, Some(true), None));
    assert!(memory.bytes_by_node.len() == 1 && is_about_touched(memory.bytes_by_node[&0], 1), "{memory:?}");
    assert_eq!((said(&seen, "node0_bytes"), said(&seen, "node1_bytes")), (TOUCHED_BYTES, 0));
    assert_eq!(seen.observation.notes, Vec::<String>::new());

    // Each process of a program, also where a thread that isn't the first would be bound, and without any policy.
    let (_, program) = PROGRAM.as_ref().unwrap();
    let script = format!("{0} && {0} & wait; {0}", program.display());
    let argv = ["sh", "-c", &script].map(Into::into).to_vec();
    let cpus = allowed_cpus().unwrap();
    let placement = Some(Placement { policy: "list".into(), slots: cpus.iter().map(Into::into).collect() });
    for placement in [None, placement] {
        let is_placed = placement.is_some();
        let all = Launch { read_memory: true, output: Output::Capture, placement, ..Launch::new(argv.clone()) };
        let seen = launch(&all).unwrap().observation;
        let memory = seen.conditions.memory.unwrap();
        // Three programs, the shell, and its copy that waits for the first two; either may become its last program.
        assert!((3..=5).contains(&memory.processes) && memory.followed.is_none(), "{memory:?}");
        assert!(is_about_touched(memory.bytes_by_node[&0], 3), "{memory:?}");
        assert_eq!(memory.remote_share, is_placed.then_some(0.0));
    }
    let seen = launch(&Launch { output: Output::Capture, ..Launch::new(argv) }).unwrap();
    assert_eq!(seen.observation.conditions.memory, None);
}

#[test]
fn memory_is_that_at_the_end_of_the_last_thread() {
    if memory::nodes_with_memory().is_empty() || trace_available().is_err() {
        return println!("skipped: it takes ptrace, and a kernel that knows NUMA nodes");
    }
    for how in ["main-ends", "exits"] {
        let Some(seen) = launched(conditions("interleave", "default"), Observe::Trace, &[how]) else { return };
        let memory = seen.observation.conditions.memory.unwrap();
        assert!(is_about_touched(memory.bytes_by_node.values().sum(), 1), "{how}: {memory:?}");
        assert_eq!((memory.processes, memory.followed), (1, Some(true)), "{how}: {:?}", seen.observation.notes);
        assert_eq!(seen.observation.threads.len(), 2);
    }
}

#[test]
fn memory_is_read_back_of_many_processes() {
    if memory::nodes_with_memory().is_empty() || trace_available().is_err() {
        return println!("skipped: it takes ptrace, and a kernel that knows NUMA nodes");
    }
    let argv = ["sh", "-c", "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done"].map(Into::into).to_vec();
    let seen = launch(&Launch { read_memory: true, output: Output::Capture, ..Launch::new(argv) }).unwrap().observation;
    assert_eq!((seen.conditions.memory.unwrap().processes, seen.threads.len()), (201, 201), "{:?}", seen.notes);
}

#[test]
fn memory_of_a_program_that_is_not_stopped_is_that_of_the_latest_look() {
    if memory::nodes_with_memory().is_empty() {
        return println!("skipped: it takes a kernel that knows NUMA nodes");
    }
    let Some(seen) = launched(conditions("interleave", "default"), Observe::Poll, &["wait"]) else {
        return;
    };
    let memory = seen.observation.conditions.memory.unwrap();
    assert!(memory.processes == 1 && is_about_touched(memory.bytes_by_node.values().sum(), 1), "{memory:?}");
}

#[test]
fn a_policy_that_the_program_sets_itself_is_said() {
    if memory::nodes_with_memory() != [0].into() || trace_available().is_err() {
        return println!("skipped: it takes ptrace, and a machine with one NUMA node, 0");
    }
    let Some(seen) = launched(conditions("interleave", "default"), Observe::Trace, &["bind=0"]) else { return };
    let memory = seen.observation.conditions.memory.unwrap();
    let share = memory.own_policy_shares["bind:0"];
    assert!((0.48..0.52).contains(&share) && memory.followed == Some(false), "{memory:?}");
    let notes = &seen.observation.notes;
    assert!(notes.len() == 1 && notes[0].contains("(bind:0)"), "{notes:?}");
}

#[test]
fn a_node_that_is_not_there_is_refused_in_a_sentence() {
    if memory::nodes_with_memory().is_empty() || memory::nodes_with_memory().contains(&77) {
        return println!("skipped: it takes a kernel that knows NUMA nodes");
    }
    for policy in ["bind:77", "preferred:0,77", "interleave:77"] {
        let lacking = conditions(policy, "default").lacking().unwrap();
        assert!(lacking.contains("no NUMA node 77") && lacking.contains(policy), "{lacking}");
    }
    // Whoever doesn't ask before is told by the kernel, and the program doesn't run.
    for observe in [Observe::Trace, Observe::Poll] {
        let conditions = conditions("bind:77", "default");
        let refused = launch(&Launch { conditions, observe, ..Launch::new(vec!["true".into()]) });
        assert!(matches!(refused, Err(LaunchError::Refused { part: launch::Part::Memory, .. })), "{refused:?}");
    }
}

#[test]
fn huge_pages_are_kept_from_a_program_and_from_nobody_else() {
    let _alone = HUGE_PAGES.lock();
    let disabled = || fs::read_to_string("/proc/self/status").unwrap().lines().any(|line| line == "THP_enabled:\t0");
    let before = disabled();
    for observe in [Observe::Trace, Observe::Poll] {
        // It asks for huge pages itself (madvise), which is refused, too.
        let Some(seen) = launched(conditions("default", "never"), observe, &["advise"]) else { return };
        assert_eq!((said(&seen, "thp_disabled"), said(&seen, "huge_bytes")), (1, 0));
        let memory = seen.observation.conditions.memory.unwrap();
        assert_eq!(memory.huge_bytes, 0);
        assert!(memory.followed != Some(false), "{:?}", seen.observation.notes);
        assert_eq!(disabled(), before);
    }
    let refused = Launch::new(vec!["/proc/self/status".into()]);
    assert!(launch(&Launch { conditions: conditions("default", "never"), ..refused }).is_err());
    assert_eq!(disabled(), before);
}

#[test]
fn huge_pages_are_given_to_all_memory_while_a_program_runs_and_set_back() {
    let _alone = HUGE_PAGES.lock();
    let Some(before) = memory::huge_pages() else { return println!("skipped: this kernel has no huge pages") };
    let Some(seen) = launched(conditions("default", "always"), Observe::Trace, &[]) else { return };
    // Where memory is in pieces not all of it can be.
    assert!(said(&seen, "huge_bytes") > TOUCHED_BYTES / 2, "{}", seen.stdout.text());
    assert_eq!(seen.not_in_force, None);
    let read_back = seen.observation.conditions.memory.as_ref().unwrap();
    assert_eq!((read_back.huge_bytes, read_back.followed), (said(&seen, "huge_bytes"), Some(true)));
    assert_eq!(memory::huge_pages(), Some(before.clone()));
    // A program that can't be started leaves no trace of it either.
    let conditions = conditions("default", "always");
    assert!(launch(&Launch { conditions, ..Launch::new(vec!["/proc/self/status".into()]) }).is_err());
    assert_eq!(memory::huge_pages(), Some(before));
}

#[test]
fn what_somebody_else_sets_meanwhile_is_said_and_theirs() {
    let _alone = HUGE_PAGES.lock();
    let Some(before) = memory::huge_pages() else { return println!("skipped: this kernel has no huge pages") };
    if let Some(why) = conditions("default", "always").lacking() {
        return println!("skipped: {why}");
    }
    let argv = ["sh", "-c", "echo never > /sys/kernel/mm/transparent_hugepage/enabled"].map(Into::into).to_vec();
    let conditions = conditions("default", "always");
    let seen = launch(&Launch { conditions, output: Output::Capture, ..Launch::new(argv) }).unwrap();
    let now = before.now().unwrap();
    fs::write(&before.path, &before.word).unwrap();
    assert_eq!(now, "never");
    assert!(seen.not_in_force.unwrap().contains("set to `never` by somebody else"));
}
