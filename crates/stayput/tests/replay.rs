//! Plays from the command line, under the scheduler that this machine has.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod built;

use built::built;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn stayput(folder: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stayput"));
    command.args(shell_words::split(words).unwrap()).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const WORKLOAD: &str = r#"
name = "pairs"
[[jobs]]
name = "busy"
processes = 3
process.work_ms = { constant = 40 }
[[jobs]]
name = "sleeper"
processes = 1
[jobs.process]
work_ms = { constant = 10 }
block_ms = { constant = 2 }
intervals.bursts = { length_ms = { constant = 1 }, ends = { semaphore = 100 } }
"#;

#[test]
fn a_workload_is_played_and_simulated_once_and_the_same_command_goes_on() {
    built("stayput-replay");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pairs.toml"), WORKLOAD).unwrap();
    let words = "replay --workload pairs.toml --policy eevdf,attached --replicates 2 --out p.stayput --format json -q";
    let first = stayput(folder.path(), words);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let told: Value = serde_json::from_slice(&first.stdout).unwrap();
    let trials = told["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 8);
    for policy in told["policies"].as_array().unwrap() {
        assert_eq!((&policy["replays"], &policy["failed"]), (&2.into(), &0.into()));
        let work_ms = &policy["metrics"]["work_ms"];
        for world in ["kernel", "simulator"] {
            assert!((work_ms[world].as_f64().unwrap() - 130.0).abs() < 1e-3, "{world}: {work_ms}");
        }
        // What bursts without a quantum sleep is drawn alike in both worlds.
        assert_eq!(policy["metrics"]["wake_lates"]["ratio"], 1.0);
    }
    assert_eq!(told["policies"][1]["metrics"]["migrations"]["kernel"], 0.0);
    let again = stayput(folder.path(), words);
    let more: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(more["trials"], told["trials"], "nothing is played twice");
    let other = stayput(folder.path(), &format!("{words} --seed 7"));
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("journal p.stayput holds another plan"), "{}", text(&other.stderr));
    // By the name that the command had before.
    let alone = stayput(folder.path(), "play --workload pairs.toml --policy eevdf --replicates 1 --no-simulation -q");
    assert!(text(&alone.stdout).starts_with("pairs: migrations a second and "), "{}", text(&alone.stdout));
}

#[test]
fn what_cannot_be_played_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let profiled = "[profile]\nkernel = \"7.3\"\ncpus = 2\nseconds = 1\nprograms = []\n";
    std::fs::write(folder.path().join("profiled.toml"), [WORKLOAD, profiled].concat()).unwrap();
    for (words, sentence) in [
        (
            "--on vm --workload profiled.toml --misses epyc-7763",
            "profiled.toml doesn't say what its programs touch, so that none would miss; profile them with --working-set",
        ),
        ("--policy per-cpu", "`per-cpu` is no policy that can be replayed: name standard, light, heavy"),
        ("--on moon", "`moon` is no place to replay; name here, vm or vm:TOPOLOGY; see"),
        ("--on slurm", "workloads are replayed here or in a virtual machine; leave out --on slurm"),
        ("--on vm:moon", "`moon` is no machine for a guest"),
        ("--workload nothing", "`nothing` is no built-in workload"),
        ("--policy eevdf --phi-p 3", "phi changes nothing under these policies"),
        ("--policy eevdf --horizon-ms 0", "`horizon_ms` is 0"),
        ("--decay sometimes", "`sometimes` is no decay rule"),
        ("--misses epyc-7763", "misses are modelled in virtual machines only; add --on vm"),
        ("--on vm:2x4 --misses 'core:2 pu:1'", "vm:2x4 has 8 CPUs, and the machine of --misses 2"),
    ] {
        let output = stayput(folder.path(), &format!("replay {words}"));
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {told}");
        assert!(told.contains(sentence) && output.stdout.is_empty(), "{words}: {told}");
    }
}

#[test]
fn a_workload_file_is_a_subject_of_studies_whose_metrics_are_told() {
    built("stayput-replay");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pairs.toml"), WORKLOAD).unwrap();
    let words = "study -q --no-report --out a.stayput --warmup 0 -n 1 --sched default,batch --workload pairs.toml";
    let output = stayput(folder.path(), &format!("{words} --min-runs 3 --max-runs 3"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = stayput(folder.path(), "report a.stayput --format json");
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let subject = &report["plan"]["subjects"][0];
    assert_eq!((&subject["name"], &subject["input"]["file"]), (&"pairs".into(), &"pairs.toml".into()), "{subject}");
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 6);
    for trial in trials {
        let makespan_ms = 1e3 * trial["time_s"].as_f64().unwrap_or_else(|| panic!("{trial}"));
        let value = |name: &str| trial["values"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {trial}"));
        assert!(value("mean_completion") <= makespan_ms && makespan_ms >= 40.0, "{trial}");
        assert!(value("jain_index") <= 1.0 && value("longest_wait") >= value("wait_mean"), "{trial}");
    }
    // A changed file is another study.
    std::fs::write(folder.path().join("pairs.toml"), WORKLOAD.replace("40", "50")).unwrap();
    let other = stayput(folder.path(), words);
    assert_eq!(other.status.code(), Some(2), "{}", text(&other.stderr));
}
