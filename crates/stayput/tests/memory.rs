//! `stayput run --memory` and `--huge-pages`: what is asked for is read back, and what can't be is refused before anything runs.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use machine::linux::memory;
use serde_json::Value;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Serves tests that change what the whole machine is set to.
static HUGE_PAGES: Mutex<()> = Mutex::new(());

fn stayput(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stayput"));
    command.arg("run").args(arguments).stdin(Stdio::null());
    command
}

/// Exit code, and what is said on standard error.
fn said(arguments: &[&str]) -> (Option<i32>, String) {
    let output = stayput(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn what_is_no_policy_or_cannot_be_followed_is_refused_before_the_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("ran");
    let trace = trace.to_str().unwrap();
    for (flag, value, told) in [
        ("--memory", "near", "`near` is no memory policy; these are default, local, bind:NODES"),
        ("--memory", "bind", "`bind` needs NUMA nodes; write bind:0"),
        ("--memory", "bind:x", "`x` is no list of NUMA nodes"),
        ("--huge-pages", "some", "these are default, always and never"),
        ("--memory", "bind:7777", "7777"),
    ] {
        let (code, text) = said(&[flag, value, "--", "touch", trace]);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.starts_with("stayput: ") && text.contains(told) && text.trim_end().lines().count() == 1, "{text}");
    }
    assert!(!folder.path().join("ran").exists());
}

#[test]
fn memory_is_in_the_summary_and_in_the_json() {
    if memory::nodes_with_memory() != [0].into() {
        return println!("skipped: it takes a machine with one NUMA node, 0");
    }
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("seen.json");
    for (arguments, policy, remote) in [
        (&["--memory", "bind:0", "--place", "0"][..], "bind:0", Value::from(0.0)),
        (&["--memory", "default"], "default", Value::Null),
        (&["--huge-pages", "never"], "default", Value::Null),
    ] {
        let json = ["--json", json.to_str().unwrap()];
        let (code, text) = said(&[arguments, &json, &["--", "sleep", "0.1"]].concat());
        if text.contains("polled") {
            return println!("skipped: {text}");
        }
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("      memory  ") && text.contains(" 100.0 % on node 0"), "{text}");
        let seen: Value = serde_json::from_str(&fs::read_to_string(json[1]).unwrap()).unwrap();
        let memory = &seen["memory"];
        assert_eq!(
            (&memory["policy"], &memory["remote_share"], &memory["processes"]),
            (&policy.into(), &remote, &1.into())
        );
        assert!(memory["bytes_by_node"]["0"].as_u64().unwrap() > 4096, "{memory}");
    }
    let (_, text) = said(&["--json", json.to_str().unwrap(), "--", "true"]);
    assert!(!text.contains("on node 0"), "{text}");
    let seen: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(seen.get("memory"), None);
}

#[test]
fn a_program_has_the_policy_that_numactl_shows() {
    if Command::new("numactl").arg("--show").output().is_err() {
        return println!("skipped: numactl is not installed");
    }
    for (policy, shown) in
        [("bind:0", "policy: bind"), ("interleave", "policy: interleave"), ("local", "policy: local")]
    {
        let output = stayput(&["--quiet", "--memory", policy, "--", "numactl", "--show"]).output().unwrap();
        if output.status.code() == Some(2) {
            return println!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        }
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().next(), Some(shown), "{policy}: {text}");
    }
}

#[test]
fn what_the_whole_machine_was_set_to_comes_back_however_we_end() {
    let _alone = HUGE_PAGES.lock();
    let Some(before) = memory::huge_pages().filter(|setting| setting.word != "always") else {
        return println!("skipped: there are no huge pages here, or always");
    };
    let wait_for = |word: &str| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while before.now().as_deref() != Some(word) {
            assert!(Instant::now() < deadline, "{before:?} is {:?}", before.now());
            sleep(Duration::from_millis(5));
        }
    };
    let (code, text) = said(&["--huge-pages", "always", "--", "true"]);
    if code == Some(2) {
        return println!("skipped: {text}");
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        let mut command = stayput(&["--quiet", "--huge-pages", "always", "--", "sleep", "1000"]);
        // Whoever starts tests in the background has Ctrl-C ignored, and what is ignored stays so.
        // SAFETY: signal(2) may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            })
        };
        let mut running = command.spawn().unwrap();
        wait_for("always");
        // Until the program is there, a signal is one to us.
        let children = format!("/proc/{0}/task/{0}/children", running.id());
        while !fs::read_to_string(&children)
            .unwrap()
            .split_whitespace()
            .any(|child| fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name == "sleep\n"))
        {
            sleep(Duration::from_millis(5));
        }
        // SAFETY: it is a child of ours that has not been waited for.
        unsafe { libc::kill(running.id() as i32, signal) };
        assert_eq!(running.wait().unwrap().signal(), Some(signal));
        wait_for(&before.word);
    }
}
