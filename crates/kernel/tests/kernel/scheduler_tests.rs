//! The affinity scheduler in a kernel: whatever becomes of it, of its loader or of the work, the machine is whole afterwards.

use crate::guest::{self, Results};
use kernel::vm::{Exit, Step, Vm};
use serde_json::Value;
use std::time::Duration;

/// A machine with the scheduler's loader, and a build of it that can be broken on purpose.
fn vm_with_loader() -> Option<Vm> {
    let mut vm = guest::vm("2x4")?;
    vm.programs = guest::loaders();
    Some(vm)
}

/// What each part of a scenario starts with: words for waiting until the scheduler is loaded, or all work is done.
const WORDS: &str = "
loaded() {
    for i in $(seq 900); do [ $(cat /sys/kernel/sched_ext/state) = enabled ] && return; sleep 0.1; done
    echo 'it was never loaded' >&2; exit 99
}
idle() { while ps -o comm | grep -q stayput-guest; do sleep 0.1; done; }
";

/// A part of a scenario, and a look at the machine after it.
fn part(name: &str, text: &str) -> [Step; 2] {
    let look = "
sleep 0.2; cat /sys/kernel/sched_ext/state
stayput-guest burn --processes 2 --seconds 0.1 >/dev/null
dmesg -c | grep -E 'WARNING:|BUG:|INFO: (rcu|task)|rcu_.*stall|lockup|Call Trace'; true";
    let step = Step::shell(name, format!("{WORDS}{text}")).within(Duration::from_secs(180));
    [step, Step::shell(whole(name), look)]
}

fn whole(name: &str) -> String {
    format!("after {name}")
}

/// A part must have ended with this exit code, and left the kernel's own scheduler at work and nothing in its log.
fn assert_whole(results: &Results, name: &str, exit_code: i32) {
    let result = results.of(name);
    assert_eq!(result.exit, Exit::Code(exit_code), "{result:#?}");
    assert_eq!(results.output(&whole(name)), "disabled\n", "after {result:#?}");
}

/// What a part that must be refused says: one sentence, and exit code 1.
fn refusal<'a>(results: &'a Results, name: &str) -> &'a str {
    assert_whole(results, name, 1);
    let text = results.of(name).stderr.trim_end();
    assert!(text.starts_with("stayput sched: ") && !text.contains('\n'), "{text}");
    text
}

/// CPU times of the processes of a `stayput-guest burn`, and how long it took, in seconds.
fn burnt(results: &Results, name: &str) -> (Vec<f64>, f64) {
    let text = &results.of(name).stdout;
    let told: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"));
    let seconds = told["cpu_seconds"].as_array().unwrap().iter().map(|seconds| seconds.as_f64().unwrap());
    (seconds.collect(), told["seconds"].as_f64().unwrap())
}

/// The work must have gone on to its end, whatever became of the scheduler: all processes ran, on about all CPUs.
fn assert_worked(results: &Results, name: &str, processes: usize, cpus: f64) {
    let (cpu_seconds, seconds) = burnt(results, name);
    assert_eq!(cpu_seconds.len(), processes, "{name}: {cpu_seconds:?}");
    assert!(cpu_seconds.iter().all(|&seconds| seconds > 0.0), "{name}: {cpu_seconds:?}");
    let used = cpu_seconds.iter().sum::<f64>() / seconds;
    assert!((0.5 * cpus..=1.05 * cpus).contains(&used), "{name}: {used:.2} of {cpus} CPUs were used");
}

#[test]
#[ignore = "boots a virtual machine: make test-kernel"]
fn the_machine_is_whole_after_whatever_happens_to_the_loader() {
    let Some(vm) = vm_with_loader() else { return };
    let parts = [
        part("exit code", "stayput-sched -q --light -- sh -c 'exit 42'"),
        part("crash", "stayput-sched -q --exact --light -- sh -c 'kill -SEGV $$'"),
        part("absent command", "stayput-sched -q --exact --light -- no-such-program"),
        part(
            "killed",
            "stayput-sched --light -- stayput-guest burn --processes 16 --seconds 4 &
             loaded; sleep 1; kill -9 $!; wait $!; [ $? = 137 ] && idle",
        ),
        part(
            "stopped",
            "stayput-sched -q --heavy -- sh -c 'stayput-guest burn --processes 16 --seconds 3; exit 7' &
             loaded; kill -STOP $!; sleep 5; kill -CONT $!; wait $!",
        ),
        part(
            "sysrq",
            "stayput-sched -q --light -- stayput-guest burn --processes 16 --seconds 3 &
             loaded; sleep 1; echo S > /proc/sysrq-trigger; wait $!",
        ),
        part(
            "occupied",
            "stayput-sched -q --exact --all & loaded; stayput-sched --heavy -- true; code=$?; kill $!; wait $!; exit $code",
        ),
        part("unprivileged", "su user -c 'stayput-sched --light -- true'"),
        part(
            "no BTF",
            "mount -t tmpfs none /sys/kernel/btf; stayput-sched --light -- true; code=$?; umount /sys/kernel/btf; exit $code",
        ),
        part(
            "no sched_ext",
            "mount -t tmpfs none /sys/kernel; stayput-sched --light -- true; code=$?; umount /sys/kernel; exit $code",
        ),
    ];
    let results = guest::run(&vm, "loader", parts.concat());
    assert_whole(&results, "exit code", 42);
    assert_whole(&results, "crash", 128 + 11);
    assert!(refusal(&results, "absent command").contains("no-such-program"));
    assert_whole(&results, "killed", 0);
    assert_worked(&results, "killed", 16, 8.0);
    assert_whole(&results, "stopped", 7);
    assert_worked(&results, "stopped", 16, 8.0);
    assert!(refusal(&results, "sysrq").contains("ended the scheduler"));
    assert_worked(&results, "sysrq", 16, 8.0);
    assert!(refusal(&results, "occupied").contains("another scheduler"));
    assert!(refusal(&results, "unprivileged").contains("root"));
    assert!(refusal(&results, "no BTF").contains("CONFIG_DEBUG_INFO_BTF"));
    assert!(refusal(&results, "no sched_ext").contains("CONFIG_SCHED_CLASS_EXT"));
}

mod long {
    use super::*;

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn the_machine_is_whole_after_cpus_come_and_go_and_work_is_bound_or_storms() {
        let Some(vm) = vm_with_loader() else { return };
        // Waves of processes that wake all at once, and end.
        let storm = "for i in $(seq 50); do stayput-guest burn --processes 200 --seconds 0 || exit; done";
        let parts = [
            part(
                "terminated",
                "stayput-sched -q --heavy --all & loaded; stayput-guest burn --processes 9 --seconds 2; kill $!; wait $!",
            ),
            part(
                "hotplug",
                "stayput-sched -q --light -- sh -c 'stayput-guest burn --processes 16 --seconds 8; exit 8' & loaded
                 for cpu in 1 4 7; do
                     echo 0 > /sys/devices/system/cpu/cpu$cpu/online; sleep 0.5
                     echo 1 > /sys/devices/system/cpu/cpu$cpu/online; sleep 0.5
                 done; wait $!",
            ),
            part("bound", "stayput-sched -q --heavy -- stayput-guest burn --processes 3 --seconds 3 --pin 5"),
            part("bound, exact", "stayput-sched -q --exact -- stayput-guest burn --processes 6 --seconds 3 --pin 2 3"),
            within_an_hour(part("storm", &format!("stayput-sched -q --light -- sh -c '{storm}; exit 3'"))),
            within_an_hour(part(
                "storm, exact",
                &format!("stayput-sched -q --exact --heavy -- sh -c '{storm}; exit 4'"),
            )),
            part("threads", "stayput-sched -q --light -- stayput-guest burn --threads 1000 --seconds 5"),
            part("threads, exact", "stayput-sched -q --exact -- stayput-guest burn --threads 1000 --seconds 5"),
        ];
        let results = guest::run_within(guest::LONG_TIMEOUT, &vm, "storms", parts.concat());
        assert_whole(&results, "terminated", 0);
        assert_worked(&results, "terminated", 9, 8.0);
        assert_whole(&results, "hotplug", 8);
        assert_worked(&results, "hotplug", 16, 8.0);
        assert_whole(&results, "bound", 0);
        assert_worked(&results, "bound", 3, 1.0);
        assert_whole(&results, "bound, exact", 0);
        assert_worked(&results, "bound, exact", 6, 2.0);
        assert_whole(&results, "storm", 3);
        assert_whole(&results, "storm, exact", 4);
        for name in ["threads", "threads, exact"] {
            assert_whole(&results, name, 0);
            assert_worked(&results, name, 1, 8.0);
        }
    }

    fn within_an_hour([step, look]: [Step; 2]) -> [Step; 2] {
        [step.within(Duration::from_secs(60 * 60)), look]
    }

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn it_loads_and_unloads_fifty_times() {
        let Some(vm) = vm_with_loader() else { return };
        let loads = "for i in $(seq 50); do stayput-sched -q --light -- true || exit; done";
        let steps = within_an_hour(part("fifty loads", loads)).into();
        let results = guest::run_within(guest::LONG_TIMEOUT, &vm, "fifty-loads", steps);
        assert_whole(&results, "fifty loads", 0);
    }

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn a_scheduler_that_never_dispatches_is_thrown_out_and_the_work_goes_on() {
        let Some(vm) = vm_with_loader() else { return };
        let stall = "stayput-sched-breakable -q --light --fault stall -- stayput-guest burn --processes 16 --seconds 8";
        let results = guest::run(&vm, "stall", part("stall", stall).into());
        assert!(refusal(&results, "stall").contains("ended the scheduler"));
        assert_worked(&results, "stall", 16, 8.0);
    }
}
