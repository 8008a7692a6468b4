//! `stayput study --workload`: a workload file's processes made real, with the same draws under every treatment of a block.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use escargot::CargoBuild;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

const WORKLOAD: &str = "name = \"pairs\"
[[jobs]]
name = \"pair\"
processes = 4
[jobs.process]
work_ms = { uniform = [5, 20] }
block_ms = { exponential = 1 }
[jobs.process.intervals.bursts]
length_ms = { exponential = 2 }
ends = { semaphore = 60, system_call = 40 }
";

fn stayput(folder: &Path, words: &[&str]) -> Output {
    Command::new(STAYPUT).args(words).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

fn study(folder: &Path, words: &[&str]) -> Value {
    let usual =
        ["study", "-q", "--no-report", "--out", "a.stayput", "--warmup", "0", "--min-runs", "3", "--max-runs", "3"];
    let output = stayput(folder, &[&usual[..], words].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = stayput(folder, &["report", "a.stayput", "--format", "json"]);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_workload_file_is_a_subject_whose_metrics_are_told() {
    // It is looked for beside stayput.
    CargoBuild::new().manifest_path("../replay/Cargo.toml").bin("stayput-replay").run().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pairs.toml"), WORKLOAD).unwrap();
    let report = study(folder.path(), &["--workload", "pairs.toml", "--sched", "default,batch", "-n", "1"]);
    let subject = &report["plan"]["subjects"][0];
    assert_eq!((&subject["name"], &subject["input"]["file"]), (&"pairs".into(), &"pairs.toml".into()), "{subject}");
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 6);
    for trial in trials {
        assert_eq!(trial["status"], "ok", "{trial}");
        let values = &trial["values"];
        let (makespan_ms, mean_ms) =
            (1e3 * trial["time_s"].as_f64().unwrap(), values["mean_completion"].as_f64().unwrap());
        assert!((makespan_ms - mean_ms).abs() < 1.0, "one job's completion is the makespan: {trial}");
        assert!(
            values["jain_index"].as_f64().unwrap() <= 1.0 && values["longest_wait"].as_f64().unwrap() >= 0.0,
            "{trial}"
        );
    }
    // A changed file is another study: it begins a journal of its own.
    fs::write(folder.path().join("pairs.toml"), WORKLOAD.replace("[5, 20]", "[5, 10]")).unwrap();
    let words =
        ["study", "-q", "--no-report", "--out", "a.stayput", "--workload", "pairs.toml", "--sched", "default,batch"];
    let output = stayput(folder.path(), &words);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_treatment_of_a_block_is_given_the_same_number() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("app");
    fs::write(&program, "#!/bin/sh\necho $1 >> seen\n").unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let report = study(folder.path(), &["-n", "1", "--sched", "default,batch", "--", "./app", "{block}"]);
    assert_eq!(report["plan"]["subjects"][0]["argv"][1], "{block}");
    let seen = fs::read_to_string(folder.path().join("seen")).unwrap();
    assert_eq!(seen.lines().collect::<Vec<_>>(), ["0", "0", "1", "1", "2", "2"]);
}
