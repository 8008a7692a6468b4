//! The affinity scheduler in a kernel: whatever becomes of it, of its loader or of the work, the machine is whole afterwards.

use crate::guest::{self, Results};
use serde::Deserialize;
use std::time::Duration;
use vm::{Exit, Step, Vm};

/// A machine with the scheduler's loader, and a build of it that can be broken on purpose.
fn vm_with_loader() -> Option<Vm> {
    let mut vm = guest::vm("2x4")?;
    vm.programs = guest::loaders();
    Some(vm)
}

/// What each part of a scenario starts with: words for waiting until the scheduler is loaded, or all work is done; for making a
/// control group, for running something in it, for naming its processes, and those in the scheduler's class; for a moment in two
/// seconds.
const WORDS: &str = "
loaded() {
    for i in $(seq 900); do [ $(cat /sys/kernel/sched_ext/state) = enabled ] && return; sleep 0.1; done
    echo 'it was never loaded' >&2; exit 99
}
idle() { while ps -o comm | grep -q stayput-guest; do sleep 0.1; done; }
groups=/sys/fs/cgroup
group() { echo +cpu +cpuset > $groups/cgroup.subtree_control; mkdir $groups/$1; }
inside() { group=$1; shift; sh -c 'echo $$ > $0/cgroup.procs; exec \"$@\"' $groups/$group \"$@\"; }
members() { echo $(sort -n $groups/$1/cgroup.procs); }
scheduled() { echo $(awk '$41 == 7 { print $1 }' /proc/[0-9]*/stat 2>/dev/null | sort -n); }
soon() { awk '{ print $1 + 2 }' /proc/uptime; }
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

/// What a `stayput-guest burn` tells.
#[derive(Debug, Deserialize)]
struct Burnt {
    seconds: f64,
    cpu_seconds: Vec<f64>,
    cpus: Vec<usize>,
}

impl Burnt {
    fn all_cpu_seconds(&self) -> f64 {
        self.cpu_seconds.iter().sum()
    }
}

/// What those of a part showed, in the order in which they did.
fn burnt(results: &Results, name: &str) -> Vec<Burnt> {
    let shown = results.of(name).stdout.lines().filter(|line| line.starts_with('{'));
    shown.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))).collect()
}

/// The work must have gone on to its end, whatever became of the scheduler: all processes ran, on about all CPUs.
fn assert_worked(results: &Results, name: &str, processes: usize, cpus: f64) {
    let burnt = burnt(results, name);
    let ran = burnt.iter().flat_map(|burnt| &burnt.cpu_seconds).filter(|&&seconds| seconds > 0.0).count();
    assert_eq!(ran, processes, "{name}: {burnt:?}");
    let seconds = burnt.iter().map(|burnt| burnt.seconds).fold(0.0, f64::max);
    let used = burnt.iter().map(Burnt::all_cpu_seconds).sum::<f64>() / seconds;
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
        part("no group", "stayput-sched --cgroup /tmp"),
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
    assert!(refusal(&results, "no group").contains("/tmp is no control group"));
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

    /// The same machine, whose clock counts instructions of 8 ns: what happens when doesn't depend on what else this host does.
    fn vm_by_instructions() -> Option<Vm> {
        Some(Vm { icount_shift: Some(3), ..vm_with_loader()? })
    }

    /// Two loads at once, whose CPU times are then printed one after the other.
    fn two(first: &str, second: &str) -> String {
        format!("{first} > /tmp/first & one=$!; {second} > /tmp/second; wait $one; cat /tmp/first /tmp/second")
    }

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn cpu_time_goes_by_the_weights_of_processes_and_groups() {
        let Some(vm) = vm_by_instructions() else { return };
        // Both begin at one moment: else whoever is first has all CPUs until the other comes.
        let burn = "stayput-guest burn --seconds 10 --at $at --processes";
        let groups = two(&format!("inside few {burn} 8"), &format!("inside many {burn} 16"));
        let nice = two(&format!("{burn} 12"), &format!("sh -c 'renice -n 5 -p $$; exec {burn} 12'"));
        let settings = ["--phi-p 0 --phi-t 0", "--light", "--light --exact", "--heavy --decay none"];
        let parts = settings.map(|setting| {
            // A weight that grows and falls while there is work in its group leaves nothing behind.
            let text = format!(
                "group few; group many; echo 300 > $groups/few/cpu.weight
                 stayput-sched -q {setting} --all & sched=$!; loaded
                 inside many stayput-guest burn --seconds 1 --processes 8 >/dev/null & one=$!
                 sleep 0.5; echo 10000 > $groups/many/cpu.weight; wait $one; echo 100 > $groups/many/cpu.weight
                 export at=$(soon); {groups}; export at=$(soon); {nice}; kill $sched; wait $sched; rmdir $groups/few $groups/many"
            );
            part(setting, &text)
        });
        let results = guest::run_within(guest::LONG_TIMEOUT, &vm, "weights", parts.concat());
        let mut off = Vec::new();
        for setting in settings {
            assert_whole(&results, setting, 0);
            let burnt = burnt(&results, setting);
            // A nice value of 5 weighs 335 where 0 weighs 1024: sched_prio_to_weight in Linux.
            for (what, two, by_weight) in
                [("groups", &burnt[..2], 300.0 / 100.0), ("nice", &burnt[2..], 1024.0 / 335.0)]
            {
                let ratio = two[0].all_cpu_seconds() / two[1].all_cpu_seconds();
                let shown = format!("{what} {setting}: {ratio:.2}, by weight {by_weight:.2}");
                eprintln!("{shown}");
                if !(0.75..=1.25).contains(&(ratio / by_weight)) {
                    off.push(shown);
                }
            }
        }
        assert!(off.is_empty(), "{off:#?}");
    }

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn cpusets_masks_and_groups_are_respected_with_work_all_around() {
        let Some(vm) = vm_by_instructions() else { return };
        let burn = "stayput-guest burn --seconds 6 --processes";
        let around = |first: &str| two(first, &format!("{burn} 16"));
        let [masked, bounded] =
            [format!("{burn} 4 --pin 2 5"), format!("inside pair {burn} 4")].map(|first| around(&first));
        let parts = [
            part("mask", &format!("stayput-sched -q --light --all & sched=$!; loaded; {masked}; kill $sched; wait $sched")),
            part(
                "cpuset",
                &format!(
                    "group pair; echo 2,5 > $groups/pair/cpuset.cpus
                     stayput-sched -q --light --all & sched=$!; loaded; (sleep 2; echo 3-4 > $groups/pair/cpuset.cpus) &
                     {bounded}; kill $sched; wait $sched; rmdir $groups/pair"
                ),
            ),
            part(
                "group",
                &format!(
                    "group mine; sleep 1000 & moved=$!; echo $moved > $groups/mine/cgroup.procs
                     stayput-sched -q --light --cgroup $groups/mine & sched=$!; loaded
                     inside mine {burn} 16 > /tmp/mine & mine=$!; {burn} 8 > /tmp/others & others=$!
                     sleep 2.5; members mine; scheduled
                     echo $moved > $groups/cgroup.procs; sleep 1.5; members mine; scheduled; echo $moved
                     wait $mine $others; cat /tmp/mine /tmp/others
                     sleep 1000 & left=$!; echo $left > $groups/mine/cgroup.procs; sleep 1.5; kill $sched; wait $sched; code=$?
                     scheduled; kill $moved $left; wait $moved $left; rmdir $groups/mine; exit $code"
                ),
            ),
            part(
                "kernel threads",
                &format!(
                    "switches() {{
                         awk '/^Kthread:/ {{ kernel = $2 }} /^voluntary/ {{ if (kernel) sum += $2 }} END {{ print sum }}' \
                             /proc/[0-9]*/status 2>/dev/null
                     }}
                     stayput-sched -q --heavy --all & sched=$!; loaded
                     {burn} 12 & burn=$!; switches
                     for i in $(seq 50); do mkdir $groups/$i; inside $i true; rmdir $groups/$i; unshare -n true; done
                     switches; wait $burn; kill $sched; wait $sched"
                ),
            ),
        ];
        let results = guest::run_within(guest::LONG_TIMEOUT, &vm, "bounds", parts.concat());
        for (name, processes) in [("mask", 20), ("cpuset", 20), ("group", 24), ("kernel threads", 12)] {
            assert_whole(&results, name, 0);
            assert_worked(&results, name, processes, 8.0);
        }
        for (name, cpus) in [("mask", vec![2, 5]), ("cpuset", vec![2, 3, 4, 5])] {
            let burnt = burnt(&results, name);
            assert_eq!(burnt[0].cpus, cpus, "{name}");
            // The two that are left to it may have enough to do.
            let mut around = (0..8).filter(|cpu| !cpus.contains(cpu));
            assert!(around.all(|cpu| burnt[1].cpus.contains(&cpu)), "{name}: {burnt:?}");
        }

        let shown: Vec<&str> = results.output("group").lines().filter(|line| !line.starts_with('{')).collect();
        let [members, scheduled, members_without, scheduled_without, moved, scheduled_after] = shown[..] else {
            panic!("{shown:#?}")
        };
        assert_eq!(scheduled, members);
        assert!(members.split(' ').any(|member| member == moved), "{moved} of {members}");
        assert_eq!(members_without.split(' ').count(), members.split(' ').count() - 1);
        assert_eq!(scheduled_without, members_without);
        assert_eq!(scheduled_after, "");

        let shown: Vec<u64> = results.output("kernel threads").lines().filter_map(|line| line.parse().ok()).collect();
        let [before, after] = shown[..] else { panic!("{shown:?}") };
        assert!(after > before + 500, "kernel threads were to be busy: {before} switches, then {after}");
    }
}
