//! Whom the scheduler's loader runs a command as, and CPUs that come online while the scheduler is loaded.

use crate::guest;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use vm::{Exit, Step};

/// What `stayput-sched --json` writes, as far as these tests look.
#[derive(Debug, Deserialize)]
struct Summary {
    metrics: BTreeMap<String, f64>,
}

#[test]
#[ignore = "boots a virtual machine: make test-kernel"]
fn a_command_runs_as_who_called_sudo_and_a_cpu_that_comes_is_no_neighbour_of_all() {
    let Some(mut vm) = guest::vm("2x4") else { return };
    vm.programs = guest::loaders();
    let step = |name: &str, text: &str| Step::shell(name, text).within(Duration::from_secs(180));
    let who = "sh -c 'echo $(id -u) $(id -g) $(id -G) $HOME $USER'";
    let sudo = "HOME=/root USER=root SUDO_UID=1000 SUDO_GID=1000";
    let steps = vec![
        step("root", &format!("HOME=/root USER=root stayput-sched -q --light -- {who}")),
        step("sudo", &format!("{sudo} stayput-sched -q --light -- {who}")),
        step("as root", &format!("{sudo} stayput-sched -q --light --as-root -- {who}")),
        step("no number", &format!("SUDO_UID=me SUDO_GID=1000 stayput-sched -q --light -- {who}")),
        step(
            "new CPU",
            "echo 0 > /sys/devices/system/cpu/cpu3/online
             stayput-sched -q --phi-p 0 --phi-t 0 --json /tmp/summary -- sh -c '
                 echo 1 > /sys/devices/system/cpu/cpu3/online
                 stayput-guest burn --processes 16 --seconds 3' >/dev/null && cat /tmp/summary",
        ),
        step("after", "cat /sys/kernel/sched_ext/state"),
    ];
    let results = guest::run(&vm, "callers", steps);
    assert_eq!(results.output("root"), "0 0 0 /root root\n");
    assert_eq!(results.output("sudo"), "1000 1000 1000 /tmp user\n");
    assert_eq!(results.output("as root"), "0 0 0 /root root\n");
    let refused = results.of("no number");
    assert_eq!(refused.exit, Exit::Code(1), "{refused:#?}");
    assert!(refused.stderr.contains("--as-root"), "{refused:#?}");

    // Cores have one thread: nothing moves within a core, nor an L2, whoever came late. What moves to CPU 3 stays within its L3
    // or leaves its package.
    let summary: Summary = serde_json::from_str(results.output("new CPU")).unwrap();
    let within = |level: &str| summary.metrics.get(&format!("migrations_within_{level}"));
    assert_eq!((within("core"), within("l2")), (None, None), "{summary:#?}");
    assert!(within("l3").is_some_and(|&count| count > 0.0), "{summary:#?}");
    assert_eq!(results.output("after"), "disabled\n");
}
