//! What the scheduler promises in numbers: its slices, its fairness, what a search of its queues costs. The guest's clock counts
//! instructions here, so that these don't depend on what else this host does.

use crate::guest::{self, Results};
use serde_json::Value;
use std::fmt::Write;
use std::time::Duration;
use vm::{Step, Vm};

/// An instruction takes 8 ns: slow enough for a host to emulate a second of eight CPUs in about one.
const ICOUNT_SHIFT: u8 = 3;
/// Both ways to find who is next.
const QUEUES: [&str; 2] = ["--exact", "--scalable"];

fn vm(topology: &str) -> Option<Vm> {
    let mut vm = guest::vm(topology)?;
    vm.programs = guest::loaders();
    vm.icount_shift = Some(ICOUNT_SHIFT);
    Some(vm)
}

/// A command under the scheduler, and what both say: the command's output, then the scheduler's summary.
fn measured(name: &str, options: &str, command: &str) -> Step {
    let text = format!("stayput-sched -q {options} --json /tmp/seen.json -- sh -c '{command}' && cat /tmp/seen.json");
    Step::shell(name, text).within(Duration::from_secs(600))
}

/// The JSON values that a step printed, one after the other.
fn outputs(results: &Results, name: &str) -> Vec<Value> {
    let values = serde_json::Deserializer::from_str(results.output(name)).into_iter();
    values.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error} in {:#?}", results.of(name)))
}

/// A number of the scheduler's summary.
fn metric(results: &Results, name: &str, metric: &str) -> f64 {
    let outputs = outputs(results, name);
    outputs.last().unwrap()["metrics"][metric].as_f64().unwrap_or_else(|| panic!("no {metric} in {outputs:#?}"))
}

/// How long the scheduler was on, in seconds.
fn seconds(results: &Results, name: &str) -> f64 {
    outputs(results, name).last().unwrap()["seconds"].as_f64().unwrap()
}

/// The least CPU time of equal processes over the most.
fn fairness(burnt: &Value) -> f64 {
    let seconds = burnt["cpu_seconds"].as_array().unwrap().iter().map(|seconds| seconds.as_f64().unwrap());
    let (least, most) = seconds.fold((f64::MAX, 0.0_f64), |(least, most), s| (least.min(s), most.max(s)));
    least / most
}

mod long {
    use super::*;

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn slices_are_as_long_as_the_algebra_says_and_affinity_prevents_migrations() {
        let Some(vm) = vm("2x4") else { return };
        let boosts = [("--light", 6.0), ("--heavy", 16.0)];
        let mut steps = Vec::new();
        for queue in QUEUES {
            for k in [2, 3] {
                for boost in ["--phi-p 0 --phi-t 0", "--light", "--heavy"] {
                    // Three processes that began together take turns of 320 and 640 ms under heavy affinity, of which neither is the
                    // median until chance has spaced them.
                    let seconds = if boost == "--heavy" { 40 } else { 10 };
                    let command = format!("stayput-guest burn --processes {} --seconds {seconds}", 8 * k);
                    steps.push(measured(
                        &format!("{queue} {boost} {k}"),
                        &format!("{queue} {boost} --decay none"),
                        &command,
                    ));
                }
            }
        }
        let results = guest::run_within(guest::LONG_TIMEOUT, &vm, "slices", steps);
        let mut table = String::from("queue       boost    k  slice ms  by the algebra  ratio\n");
        let mut off = Vec::new();
        for queue in QUEUES {
            for k in [2.0, 3.0] {
                for (boost, phi_t) in boosts {
                    let expected_ms = 20.0 * phi_t * k / (k - 1.0);
                    let median_ms = metric(&results, &format!("{queue} {boost} {k}"), "effective_slice_median_ms");
                    let ratio = median_ms / expected_ms;
                    let _ =
                        writeln!(table, "{queue:11} {boost:8} {k}  {median_ms:8.1}  {expected_ms:14.1}  {ratio:.2}");
                    if !(0.8..=1.2).contains(&ratio) {
                        off.push(format!("{queue} {boost} k = {k}: {ratio:.2}"));
                    }
                }
            }
            let migrations = |boost: &str| {
                let step = format!("{queue} {boost} 3");
                metric(&results, &step, "migrations") / seconds(&results, &step)
            };
            let [none, light, heavy] = ["--phi-p 0 --phi-t 0", "--light", "--heavy"].map(migrations);
            let _ = writeln!(
                table,
                "{queue:11} migrations a second of 24 processes: {none:.1} without boosts, {light:.1} light, {heavy:.1} heavy"
            );
            if none < 3.0 * light || none < 6.0 * heavy {
                off.push(format!("{queue}: {none:.1}, {light:.1} and {heavy:.1} migrations a second"));
            }
        }
        eprintln!("{table}");
        assert!(off.is_empty(), "{off:#?}");
    }

    /// The cap on waiting after a wake-up that is the default, in ms.
    const MAX_WAIT_MS: f64 = 100.0;

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn equal_processes_get_equal_time_and_sleepers_wake_in_time() {
        let Some(vm) = vm("2x4") else { return };
        let command = "stayput-guest burn --processes 24 --seconds 10 & \
             stayput-guest sleeper --period-ms 10 --seconds 10; wait";
        let mut settings = vec![String::new()];
        for queue in QUEUES {
            for decay in ["none", "half"] {
                for boost in ["--phi-p 0 --phi-t 0", "--light", "--heavy", "--heavy --complex", "--heavy --graded"] {
                    settings.push(format!("{queue} --decay {decay} {boost}"));
                }
            }
        }
        let step = |setting: &String| match setting.as_str() {
            "" => Step::shell("", format!("sh -c '{command}'")).within(Duration::from_secs(600)),
            setting => measured(setting, setting, command),
        };
        let results = guest::run_within(guest::LONG_TIMEOUT, &vm, "fairness", settings.iter().map(step).collect());
        let mut table = String::from("least/most CPU time  late ms: median   99 %  99.9 %  longest  setting\n");
        let mut off = Vec::new();
        for setting in &settings {
            let outputs = outputs(&results, setting);
            let of = |name: &str| outputs.iter().find(|output| output.get(name).is_some()).unwrap();
            let (ratio, late) = (fairness(of("cpu_seconds")), of("wakes"));
            let ms = |name: &str| late[name].as_f64().unwrap();
            let whose = if setting.is_empty() { "the kernel's own" } else { setting };
            let (p50, p99, p999, max) = (ms("p50_ms"), ms("p99_ms"), ms("p999_ms"), ms("max_ms"));
            let _ = writeln!(table, "{ratio:19.3}  {p50:15.2}  {p99:5.1}  {p999:6.1}  {max:7.1}  {whose}");
            if !setting.is_empty() && (ratio < 0.85 || p999 > MAX_WAIT_MS) {
                off.push(format!("{setting}: {ratio:.3}, late by {p999:.1} ms"));
            }
        }
        eprintln!("{table}");
        assert!(off.is_empty(), "{off:#?}");
    }

    /// Nobody is overdue, so that all are searched for: to serve who is overdue costs less, and the same however many wait.
    const NO_CAP: &str = "--max-wait-ms 60000";

    #[test]
    #[ignore = "boots virtual machines: make test-kernel"]
    fn a_search_of_the_scalable_queue_grows_with_cpus_and_not_with_tasks() {
        let tasks = [24, 200, 1000];
        let mut table = String::from("queue       CPUs  tasks  instructions a search (median)\n");
        let mut scalable = Vec::new();
        for (topology, cpus) in [("2x4", 8), ("2x8", 16), ("4x16", 64)] {
            let Some(vm) = vm(topology) else { return };
            let mut steps = Vec::new();
            for queue in QUEUES {
                for n in tasks {
                    let command = format!("stayput-guest burn --processes {n} --seconds 3");
                    steps.push(measured(&format!("{queue} {n}"), &format!("{queue} --light {NO_CAP}"), &command));
                }
            }
            let results = guest::run_within(guest::LONG_TIMEOUT, &vm, &format!("cost-{cpus}"), steps);
            for queue in QUEUES {
                for n in tasks {
                    let ns = metric(&results, &format!("{queue} {n}"), "search_median_ns");
                    let instructions = ns / f64::from(1_u32 << ICOUNT_SHIFT);
                    let _ = writeln!(table, "{queue:11} {cpus:4}  {n:5}  {instructions:10.0}");
                    if queue == "--scalable" {
                        scalable.push((cpus, n, instructions));
                    }
                }
            }
        }
        eprintln!("{table}");
        let cost = |cpus: u32, n: u32| scalable.iter().find(|cost| (cost.0, cost.1) == (cpus, n)).unwrap().2;
        // Linear at most: no more than eight times as much for eight times the CPUs. And a quarter more for forty times the tasks.
        assert!(cost(64, 200) <= 8.0 * cost(8, 200), "{scalable:?}");
        assert!(cost(64, 1000) <= 1.25 * cost(64, 200) && cost(8, 1000) <= 1.25 * cost(8, 24), "{scalable:?}");
    }
}
