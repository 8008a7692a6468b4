//! `stayput study --on vm`: programs of this host under schedulers that its kernel may lack, and what is told when the guest is lost.

use crate::guest;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The command, beside which are the programs that it starts; none where no guest can have this host's files.
fn stayput() -> Option<PathBuf> {
    if let Err(skip) = vm::can_share_files(&|what| eprintln!("{what}")) {
        eprintln!("kernel test skipped: {skip}");
        return None;
    }
    guest::built("stayput-guest");
    guest::loaders();
    guest::plugin();
    Some(guest::built("stayput"))
}

/// A study in a folder of a test, by these words.
fn study(stayput: &Path, folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(stayput);
    command.args(["study", "--warmup", "0", "--no-report", "-q", "--out", "a.stayput"]).args(words);
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// Its trials, as `report --format json` has them.
fn trials(stayput: &Path, folder: &Path) -> Vec<Value> {
    let report = Command::new(stayput).args(["report", "a.stayput", "--format", "json"]).current_dir(folder).output();
    let report: Value = serde_json::from_slice(&report.unwrap().stdout).unwrap();
    assert_eq!(report["findings"]["verdicts"][0]["kind"], "emulated", "{report}");
    let claims = report["summaries"].as_array().unwrap().iter().map(|summary| summary["claim"].as_str().unwrap());
    assert!(claims.into_iter().all(|claim| claim == "emulated"), "{report}");
    report["trials"].as_array().unwrap().clone()
}

#[test]
#[ignore = "boots a virtual machine: make test-kernel"]
fn programs_of_the_host_run_in_a_guest_under_schedulers_that_are_read_back() {
    let Some(stayput) = stayput() else { return };
    let folder = tempfile::tempdir().unwrap();
    let words = ["--on", "vm:1x2", "--min-runs", "1", "--max-runs", "1", "--force"];
    let run = |levels: &str, script: &str| {
        let words = [&words[..], &["--sched", levels, "--", "sh", "-c", script]].concat();
        let output = study(&stayput, folder.path(), &words).output().unwrap();
        assert!(output.status.code().is_some(), "{output:?}");
        trials(&stayput, folder.path())
    };
    let of = |trials: &[Value], name: &str| {
        trials.iter().find(|trial| trial["placement"] == name).unwrap_or_else(|| panic!("{trials:?}")).clone()
    };
    let ran = run("default,light,cache-aware=off", "echo changed > changed; ls /usr/lib | wc -l");
    assert!(ran.len() == 3 && ran.iter().all(|trial| trial["status"] == "ok"), "{ran:?}");
    assert_eq!(of(&ran, "sched=light")["sched"]["ops"], "stayput", "{ran:?}");
    assert!(!folder.path().join("changed").exists(), "what is written stays in the guest");
    let ran = run("default,light", "pkill -9 stayput-sched; sleep 2");
    let lost = of(&ran, "sched=light");
    assert_eq!((&lost["status"], &lost["time_s"]), (&Value::from("not-in-force"), &Value::Null), "{lost}");
    assert!(lost["cause"].as_str().unwrap().contains("its loader was killed by signal 9"), "{lost}");
    assert_eq!(of(&ran, "unbound")["status"], "ok");
}

/// A child of `parent` whose program has this name, once there is one.
fn child_of(parent: &Child, name: &str) -> u32 {
    let begun = Instant::now();
    loop {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", parent.id())).unwrap_or_default();
        let named =
            |pid: &&str| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with(name));
        if let Some(pid) = children.split_whitespace().find(named) {
            return pid.parse().unwrap();
        }
        assert!(begun.elapsed() < guest::TIMEOUT, "no {name}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until it is so.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < guest::TIMEOUT, "never: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Whether a process runs.
fn runs(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

#[test]
#[ignore = "boots a virtual machine: make test-kernel"]
fn a_guest_that_panics_or_loses_its_files_is_a_failed_trial_with_that_cause_and_nothing_outlives_the_command() {
    let Some(stayput) = stayput() else { return };
    let folder = tempfile::tempdir().unwrap();
    let words = ["--on", "vm:1x2", "--min-runs", "1", "--max-runs", "1", "--force", "--place", "unbound", "--"];
    let study = |program: &[&str]| study(&stayput, folder.path(), &[&words[..], program].concat());
    let journal = folder.path().join("a.stayput");

    let panicked = study(&["sh", "-c", "echo c > /proc/sysrq-trigger; sleep 60"]).output().unwrap();
    assert_eq!(panicked.status.code(), Some(1), "{panicked:?}");
    let trial = &trials(&stayput, folder.path())[0];
    assert_eq!((&trial["status"], &trial["time_s"]), (&Value::from("machine-lost"), &Value::Null), "{trial}");
    assert!(trial["cause"].as_str().unwrap().contains("Kernel panic - not syncing: sysrq"), "{trial}");

    fs::remove_file(&journal).unwrap();
    let mut losing = study(&["sh", "-c", "sleep 20; ls /usr/lib"]).spawn().unwrap();
    wait_until("the study began", || journal.exists());
    thread::sleep(Duration::from_secs(2));
    kill(child_of(&losing, "virtiofsd"));
    assert_eq!(losing.wait().unwrap().code(), Some(1));
    let trial = &trials(&stayput, folder.path())[0];
    assert_eq!(trial["status"], "machine-lost", "{trial}");
    assert!(trial["cause"].as_str().unwrap().contains("virtiofsd ended"), "{trial}");

    fs::remove_file(&journal).unwrap();
    let mut killed = study(&["sleep", "60"]).spawn().unwrap();
    wait_until("the study began", || journal.exists());
    let left = ["qemu", "virtiofsd"].map(|name| child_of(&killed, name));
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_until("they are gone", || !left.iter().any(|&pid| runs(pid)));
}

#[test]
#[ignore = "boots a virtual machine: make test-kernel"]
fn misses_of_a_program_are_metrics_of_its_trials() {
    let Some(stayput) = stayput() else { return };
    let folder = tempfile::tempdir().unwrap();
    let machine = "pack:1 l3:1(size=4MiB) l2:2(size=512KiB) l1d:1(size=32KiB) core:1 pu:1";
    let words = ["--on", "vm:1x2", "--misses", machine, "--min-runs", "1", "--max-runs", "1", "--place", "unbound"];
    let output = study(&stayput, folder.path(), &[&words[..], &["--", "ls", "/usr/lib"]].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    trials(&stayput, folder.path());
    // As the journal keeps them.
    let text = fs::read(folder.path().join("a.stayput")).unwrap();
    let text = String::from_utf8_lossy(&text);
    for metric in ["l2_misses_per_1000", "l2_cold_misses_per_1000", "l3_reload_misses_per_1000"] {
        assert!(text.contains(metric), "no {metric} is kept");
    }
}
