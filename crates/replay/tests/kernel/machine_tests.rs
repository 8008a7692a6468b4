//! The machine itself: it boots, shows the CPUs that were asked for, and tells the truth about what ran in it.

use crate::guest::{self, Results};
use machine::{CpuSet, Kind};
use std::collections::BTreeMap;
use std::time::Duration;
use vm::{Exit, Plugin, Step, VmError};

/// Prints `FILE:CONTENT` for what the guest's kernel says of its CPUs.
const CPU_FILES: &str = "cd /sys/devices/system/cpu; grep . cpu[0-9]*/topology/*_cpus_list cpu[0-9]*/cache/index*/* cpu[0-9]*/node*/cpulist";

/// What the guest sees must be the tree that the simulator is given for the same name.
fn sees_the_tree(topology: &str) {
    let Some(vm) = guest::vm(topology) else { return };
    let results = guest::run(&vm, &format!("topology-{topology}"), vec![Step::shell("files", CPU_FILES)]);
    let files: BTreeMap<&str, &str> = results.output("files").lines().filter_map(|line| line.split_once(':')).collect();
    let machine = vm.topology.machine().unwrap();
    assert_eq!(machine.pus().len(), vm.topology.cpus() as usize);
    // Qemu 7 gives each hardware thread an L1 of its own, which no CPU has. The tree has it right.
    let mut caches = vec![(2, Kind::Cache(2)), (3, Kind::Cache(3))];
    if !machine.has_smt() {
        caches.extend([(0, Kind::Cache(1)), (1, Kind::InstructionCache(1))]);
    }
    for cpu in machine.pus().iter().map(|pu| pu.cpu) {
        let set = |file: String| files[file.as_str()].parse::<CpuSet>().unwrap();
        for (file, kind) in [("core_cpus", Kind::Core), ("die_cpus", Kind::Die), ("package_cpus", Kind::Package)] {
            let object = machine.enclosing(cpu, kind).unwrap();
            assert_eq!(set(format!("cpu{cpu}/topology/{file}_list")), machine.cpus_of(object), "{kind} of CPU {cpu}");
        }
        for &(index, kind) in &caches {
            let object = machine.enclosing(cpu, kind).unwrap();
            let folder = format!("cpu{cpu}/cache/index{index}");
            assert_eq!(set(format!("{folder}/shared_cpu_list")), machine.cpus_of(object), "{kind} of CPU {cpu}");
            let size_kib = machine.object(object).cache.unwrap().size_bytes.unwrap().get() >> 10;
            assert_eq!(files[format!("{folder}/size").as_str()], format!("{size_kib}K"), "{kind} of CPU {cpu}");
        }
        let [node] = machine.local_numa_nodes(cpu) else {
            panic!("CPU {cpu} has {} nodes", machine.local_numa_nodes(cpu).len())
        };
        let cpus = machine.pus().iter().map(|pu| pu.cpu);
        let near: CpuSet = cpus.filter(|&other| machine.local_numa_nodes(other) == [*node]).collect();
        let number = machine.numa_node(*node).os_index;
        assert_eq!(set(format!("cpu{cpu}/node{number}/cpulist")), near, "node of CPU {cpu}");
    }
}

#[test]
#[ignore = "boots a virtual machine: make test-kernel"]
fn dies_and_hardware_threads_are_seen_as_in_the_tree() {
    sees_the_tree("dies");
}

#[test]
#[ignore = "boots a virtual machine: make test-kernel"]
fn each_step_says_how_it_ended_and_a_panic_hides_none_of_it() {
    let Some(vm) = guest::vm("1x2") else { return };
    let steps = vec![
        Step::shell("code", "echo out; echo err >&2; exit 42"),
        Step::shell("signal", "kill -SEGV $$"),
        Step::shell("late", "echo before; sleep 100 & sleep 100").within(Duration::from_secs(1)),
        Step::run("absent", ["no-such-program"]),
        Step::shell("left", "pidof sleep; echo nobody"),
        Step::shell("sched_ext", "cat /sys/kernel/sched_ext/state; ls /sys/kernel/btf/vmlinux"),
        Step::shell("mounted", "ls /sys/fs/cgroup/cgroup.procs /sys/kernel/debug/sched /sys/kernel/tracing/events"),
        Step::run("burn", ["stayput-guest", "burn", "--processes", "3", "--seconds", "1", "--pin", "1"]),
        Step::run("sleeper", ["stayput-guest", "sleeper", "--seconds", "1"]),
        Step::shell("fatal", "echo c > /proc/sysrq-trigger"),
        Step::run("never", ["true"]),
    ];
    let error = vm.run(&steps, guest::TIMEOUT, |_| ()).unwrap_err();
    let VmError::Panicked { cause, stopped } = error else { panic!("{error}") };
    assert!(cause.contains("sysrq"), "{cause}");
    assert_eq!(stopped.during.as_deref(), Some("fatal"));
    assert!(stopped.console.contains("Call Trace"), "{}", stopped.console);

    let results = Results::of_steps(stopped.ended);
    let code = results.of("code");
    assert_eq!((&code.exit, &*code.stdout, &*code.stderr), (&Exit::Code(42), "out\n", "err\n"));
    assert_eq!(results.of("signal").exit, Exit::Signal(11));
    let late = results.of("late");
    assert_eq!((&late.exit, &*late.stdout), (&Exit::TimedOut, "before\n"));
    assert!(matches!(results.of("absent").exit, Exit::NotStarted(_)));
    assert_eq!(results.output("left"), "nobody\n", "the timeout must end all processes of the step");
    assert!(results.output("sched_ext").starts_with("disabled\n"));
    results.output("mounted");
    let burnt: serde_json::Value = serde_json::from_str(results.output("burn")).unwrap();
    assert_eq!((burnt["cpu_seconds"].as_array().unwrap().len(), &burnt["cpus"]), (3, &serde_json::json!([1])));
    assert!(results.output("sleeper").contains("p999_ms"));
}

#[test]
#[ignore = "starts a virtual machine: make test-kernel"]
fn what_qemu_refuses_is_told() {
    let Some(mut vm) = guest::vm("1x1") else { return };
    vm.plugin = Some(Plugin { library: "/no,such=/plugin.so".into(), arguments: vec!["a=b".into()] });
    let error = vm.run(&[], guest::TIMEOUT, |_| ()).unwrap_err();
    assert!(matches!(error, VmError::Ended { .. }), "{error}");
    assert!(error.to_string().contains("/no,such=/plugin.so"), "{error}");
}

#[test]
#[ignore = "boots a virtual machine: make test-kernel"]
fn a_machine_that_takes_too_long_is_stopped() {
    let Some(vm) = guest::vm("1x1") else { return };
    let error = vm.run(&[], Duration::from_secs(1), |_| ()).unwrap_err();
    assert!(matches!(&error, VmError::Hung { stopped, .. } if stopped.during.is_none()), "{error}");
}

mod long {
    use super::sees_the_tree;

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn two_packages_are_seen_as_in_the_tree() {
        sees_the_tree("2x4");
    }

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn numa_nodes_are_seen_as_in_the_tree() {
        sees_the_tree("nodes");
    }
}
