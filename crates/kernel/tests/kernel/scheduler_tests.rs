//! The affinity scheduler in a kernel: whatever becomes of it, of its loader or of the work, the machine is whole afterwards.

use crate::guest::{self, Results};
use kernel::vm::{Exit, Step, Vm};
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
idle() { while pidof stayput-guest >/dev/null; do sleep 0.1; done; }
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

#[test]
#[ignore = "boots a virtual machine: make test-kernel"]
fn the_machine_is_whole_after_whatever_happens_to_the_loader() {
    let Some(vm) = vm_with_loader() else { return };
    let parts = [
        part("exit code", "stayput-sched -q --light -- sh -c 'exit 42'"),
        part("crash", "stayput-sched -q --light -- sh -c 'kill -SEGV $$'"),
        part("absent command", "stayput-sched -q --light -- no-such-program"),
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
            "terminated",
            "stayput-sched -q --heavy --all & loaded; stayput-guest burn --processes 9 --seconds 1; kill $!; wait $!",
        ),
        part(
            "sysrq",
            "stayput-sched -q --light -- stayput-guest burn --processes 16 --seconds 3 &
             loaded; sleep 1; echo S > /proc/sysrq-trigger; wait $!",
        ),
        part(
            "hotplug",
            "stayput-sched -q --light -- sh -c 'stayput-guest burn --processes 16 --seconds 6; exit 8' & loaded
             for cpu in 1 4 7; do
                 echo 0 > /sys/devices/system/cpu/cpu$cpu/online; sleep 0.5
                 echo 1 > /sys/devices/system/cpu/cpu$cpu/online; sleep 0.5
             done; wait $!",
        ),
        part("pinned", "stayput-sched -q --heavy -- stayput-guest burn --processes 3 --seconds 3 --pin 5"),
        part(
            "occupied",
            "stayput-sched -q --light --all & loaded; stayput-sched --heavy -- true; code=$?; kill $!; wait $!; exit $code",
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
        part("again", "for i in 1 2 3 4 5; do stayput-sched -q --light -- true || exit; done"),
    ];
    let results = guest::run(&vm, "loader", parts.concat());
    assert_whole(&results, "exit code", 42);
    assert_whole(&results, "crash", 128 + 11);
    assert!(refusal(&results, "absent command").contains("no-such-program"));
    assert_whole(&results, "killed", 0);
    assert_eq!(results.of("killed").stdout.matches(',').count(), 16, "the work must go on to its end");
    assert_whole(&results, "stopped", 7);
    assert_whole(&results, "terminated", 0);
    assert!(refusal(&results, "sysrq").contains("ended the scheduler"));
    assert_whole(&results, "hotplug", 8);
    assert_whole(&results, "pinned", 0);
    assert!(refusal(&results, "occupied").contains("another scheduler"));
    assert!(refusal(&results, "unprivileged").contains("root"));
    assert!(refusal(&results, "no BTF").contains("CONFIG_DEBUG_INFO_BTF"));
    assert!(refusal(&results, "no sched_ext").contains("CONFIG_SCHED_CLASS_EXT"));
    assert_whole(&results, "again", 0);
}

mod long {
    use super::*;

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn the_machine_is_whole_after_storms() {
        let Some(vm) = vm_with_loader() else { return };
        let storm = "i=0; while [ $i -lt 10000 ]; do : & i=$((i+1)); done; wait";
        let parts = [
            part("fifty loads", "for i in $(seq 50); do stayput-sched -q --light -- true || exit; done"),
            part("fork storm", &format!("stayput-sched -q --light -- sh -c '{storm}; exit 3'")),
            part("fork storm, exact", &format!("stayput-sched -q --exact --heavy -- sh -c '{storm}; exit 4'")),
            part("thousand threads", "stayput-sched -q --light -- stayput-guest burn --threads 1000 --seconds 5"),
            part(
                "thousand threads, exact",
                "stayput-sched -q --exact --heavy -- stayput-guest burn --threads 1000 --seconds 5",
            ),
        ];
        let results = guest::run(&vm, "storms", parts.concat());
        assert_whole(&results, "fifty loads", 0);
        assert_whole(&results, "fork storm", 3);
        assert_whole(&results, "fork storm, exact", 4);
        assert_whole(&results, "thousand threads", 0);
        assert_whole(&results, "thousand threads, exact", 0);
    }

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn a_scheduler_that_never_dispatches_is_thrown_out_and_the_work_goes_on() {
        let Some(vm) = vm_with_loader() else { return };
        let parts = part(
            "stall",
            "stayput-sched-breakable -q --light --fault stall -- stayput-guest burn --processes 16 --seconds 3",
        );
        let results = guest::run(&vm, "stall", parts.into());
        assert!(refusal(&results, "stall").contains("ended the scheduler"));
        assert_eq!(results.of("stall").stdout.matches(',').count(), 16, "the work must go on to its end");
    }
}
