//! `stayput run --sched` in a kernel that has sched_ext and cache-aware balancing.

use crate::guest;
use serde::Deserialize;
use std::time::Duration;
use vm::{Exit, Step};

/// What `stayput run --json` writes, as far as these tests look.
#[derive(Debug, Deserialize)]
struct Seen {
    sched: Sched,
    notes: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Sched {
    ops: Option<String>,
    cache_aware: Option<bool>,
}

#[test]
#[ignore = "boots a virtual machine: make test-kernel"]
fn a_scheduler_is_loaded_for_a_run_and_unloaded_whatever_becomes_of_it() {
    let Some(mut vm) = guest::vm("2x4") else { return };
    vm.programs = guest::loaders();
    vm.programs.push(guest::built("stayput"));
    let step = |name: &str, text: &str| Step::shell(name, text).within(Duration::from_secs(240));
    let files = "cd /sys/kernel/sched_ext; export HOME=/tmp;";
    let looks = "sh -c 'cat /sys/kernel/sched_ext/state /sys/kernel/sched_ext/root/ops'";
    let steps = vec![
        step("light", &format!("{files} stayput run --json /tmp/light --sched light -- {looks} && cat state")),
        step("what was seen", "cat /tmp/light"),
        step(
            "ext",
            &format!("{files} stayput run -q --sched 'ext:stayput-sched --all -q --phi-p 3' -- {looks} && cat state"),
        ),
        step(
            "lost",
            &format!(
                "{files} stayput run --sched phi=6:0:graded -- sh -c 'killall stayput-sched
                     while grep -q enabled state; do sleep 0.1; done'"
            ),
        ),
        step(
            "killed",
            &format!(
                "{files} stayput run -q --sched heavy -- sleep 1000 & killed=$!
                 until grep -q enabled state; do sleep 0.1; done
                 kill -9 $killed
                 while grep -q enabled state || pidof stayput-sched; do sleep 0.1; done; cat state"
            ),
        ),
        step(
            "taken",
            &format!(
                "{files} stayput-sched -q --all --light & loaded=$!
                 until grep -q enabled state; do sleep 0.1; done
                 stayput run --sched light -- echo started; code=$?
                 kill $loaded; wait $loaded; exit $code"
            ),
        ),
        step("no loader", "HOME=/tmp stayput run --sched 'ext:sh -c \"echo why; exit 3\"' -- echo started"),
        step(
            "cache-aware",
            "cd /sys/kernel/debug/sched/llc_balancing || exit 9
             before=$(cat enabled); export HOME=/tmp
             for word in on off; do stayput run -q --json /tmp/$word --sched cache-aware=$word -- cat enabled || exit 8; done
             [ \"$before\" = \"$(cat enabled)\" ]",
        ),
        step("cache-aware, seen", "cat /tmp/off"),
    ];
    let results = guest::run(&vm, "launcher", steps);
    assert_eq!(results.output("light"), "enabled\nstayput\ndisabled\n");
    let seen: Seen = serde_json::from_str(results.output("what was seen")).unwrap();
    assert_eq!(seen.sched.ops.as_deref(), Some("stayput"), "{seen:?}");
    assert!(!seen.notes.iter().any(|note| note.contains("in force")), "{seen:?}");
    assert_eq!(results.output("ext"), "enabled\nstayput\ndisabled\n");

    let lost = results.of("lost");
    let sentence =
        "the scheduler stayput was not in force any more when the program ended: its loader exited with code 0";
    assert!(lost.exit == Exit::Code(0) && lost.stderr.contains(sentence), "{lost:#?}");
    assert!(results.output("killed").ends_with("disabled\n"));
    for (name, said) in [("taken", "loaded already, `stayput`"), ("no loader", "exited with code 3")] {
        let refused = results.of(name);
        assert_eq!((&refused.exit, refused.stdout.as_str()), (&Exit::Code(2), ""), "{refused:#?}");
        assert!(refused.stderr.contains(said), "{refused:#?}");
    }

    assert_eq!(results.output("cache-aware"), "1\n0\n");
    let seen: Seen = serde_json::from_str(results.output("cache-aware, seen")).unwrap();
    assert_eq!(seen.sched.cache_aware, Some(false), "{seen:?}");
}
