//! `stayput run --beside`: what is told of company, and that nothing of it outlives the program, or Stayput itself.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::{Value, json};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A variable that marks a test's processes, so that those left over can be found.
const MARK: &str = "STAYPUT_BESIDE_TEST";

fn run(mark: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stayput"));
    command.arg("run").args(arguments).env(MARK, mark).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// The command lines of living processes that carry the mark.
fn marked(mark: &Path) -> Vec<String> {
    let entry = format!("{MARK}={}\0", mark.display());
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
    let marked = processes.filter(|process| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.windows(entry.len()).any(|window| window == entry.as_bytes())
    });
    marked
        .filter_map(|process| fs::read_to_string(process.join("cmdline")).ok())
        .filter(|line| !line.is_empty())
        .map(|line| line.replace('\0', " "))
        .collect()
}

/// Waits until the marked processes are as is wanted; gives them if they never are.
fn wait_until(mark: &Path, is_wanted: impl Fn(&[String]) -> bool) -> Result<(), Vec<String>> {
    let began = Instant::now();
    loop {
        let found = marked(mark);
        if is_wanted(&found) {
            return Ok(());
        }
        if began.elapsed() > Duration::from_secs(20) {
            return Err(found);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn company_is_told_in_the_summary_and_in_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seen.json");
    let arguments = ["--beside", "sh -c 'sleep 1000 & wait'", "--json", path.to_str().unwrap(), "--", "true"];
    let output = run(folder.path(), &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    assert!(error(&output).contains("\n      beside  2 processes, 0.0"), "{}", error(&output));
    let seen: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(seen["beside"]["command"], json!("sh -c 'sleep 1000 & wait'"));
    assert_eq!(seen["beside"]["processes"], json!(2));
    assert!(seen["beside"]["cpu_s"].is_f64());
    assert_eq!(marked(folder.path()), [] as [String; 0]);

    for none in [["--beside", "none", "--json", path.to_str().unwrap()].as_slice(), &["--json", path.to_str().unwrap()]]
    {
        let output = run(folder.path(), &[none, &["--", "true"]].concat()).output().unwrap();
        assert!(output.status.success() && !error(&output).contains("beside"), "{}", error(&output));
        assert!(!fs::read_to_string(&path).unwrap().contains("beside"));
    }
}

#[test]
fn company_that_ends_before_the_program_is_told_and_the_program_ends_as_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--beside", "sh -c 'echo no memory >&2; exit 3'", "--", "sh", "-c", "exit 7"];
    let output = run(folder.path(), &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", error(&output));
    let note = "note  its company 'sh -c 'echo no memory >&2; exit 3'' ended after 0.";
    assert!(error(&output).contains(note), "{}", error(&output));
    assert!(error(&output).contains("with exit code 3, before the program did: \"no memory\"\n"), "{}", error(&output));
}

#[test]
fn company_that_cannot_be_is_a_mistake_of_usage() {
    let folder = tempfile::tempdir().unwrap();
    let touched = folder.path().join("touched");
    for (beside, sentence) in [
        ("", "no command to run beside the program is named"),
        ("''", "no command to run beside the program is named"),
        ("sh -c 'a", "a quote is not closed"),
        (
            "no-such-program --now",
            "its company 'no-such-program --now' can't be started: no-such-program: command not found",
        ),
        ("/etc/passwd", "its company '/etc/passwd' can't be started: /etc/passwd: cannot be executed"),
    ] {
        let arguments = ["--beside", beside, "--", "touch", touched.to_str().unwrap()];
        let output = run(folder.path(), &arguments).output().unwrap();
        let error = error(&output);
        assert_eq!(output.status.code(), Some(2), "{beside}: {error}");
        assert!(error.contains(sentence) && error.trim_end().lines().count() == 1, "{beside}: {error}");
    }
    assert!(!touched.exists(), "the program ran");
}

/// What heeds no signal, leaves its parent and its session, and goes on starting others.
const STUBBORN: &str = "sh -c 'trap \"\" TERM INT HUP; \
                        setsid sh -c \"trap \\\"\\\" TERM; (setsid sleep 1000 &); while :; do sleep 1; done\" & \
                        while :; do (setsid sleep 1000 &); sleep 0.01; done'";

#[test]
fn company_does_not_outlive_stayput_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    for whole_group in [false, true] {
        let arguments = ["--quiet", "--beside", STUBBORN, "--", "sleep", "2000"];
        let mut stayput = run(folder.path(), &arguments).process_group(0).spawn().unwrap();
        let program = |found: &[String]| found.iter().any(|line| line.contains("sleep 2000") && !line.contains("run"));
        wait_until(folder.path(), program).unwrap();
        kill(&mut stayput, whole_group);
        assert_eq!(wait_until(folder.path(), <[String]>::is_empty), Ok(()));
    }
}

#[test]
fn company_does_not_outlive_stayput_whenever_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20 {
        // While it starts, while its company settles, while the program runs.
        let moment = Duration::from_micros(RandomState::new().hash_one(round) % 250_000);
        let arguments = ["--quiet", "--beside", STUBBORN, "--", "sleep", "2000"];
        let mut stayput = run(folder.path(), &arguments).process_group(0).spawn().unwrap();
        thread::sleep(moment);
        kill(&mut stayput, round % 2 == 0);
        assert_eq!(wait_until(folder.path(), <[String]>::is_empty), Ok(()), "killed after {moment:?}");
    }
}

#[test]
fn an_interruption_ends_the_company_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--quiet", "--beside", STUBBORN, "--", "sleep", "2000"];
    let mut stayput = run(folder.path(), &arguments).spawn().unwrap();
    let program = |found: &[String]| found.iter().any(|line| line.contains("sleep 2000") && !line.contains("run"));
    wait_until(folder.path(), program).unwrap();
    let status = Command::new("kill").args(["-TERM", &stayput.id().to_string()]).status().unwrap();
    assert!(status.success());
    // The program ends by it, and so does Stayput, when the company has ended.
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&stayput.wait().unwrap()), Some(15));
    assert_eq!(marked(folder.path()), [] as [String; 0]);
}

/// Kills it at once, with its process group or alone.
fn kill(stayput: &mut std::process::Child, whole_group: bool) {
    let target = format!("{}{}", if whole_group { "-" } else { "" }, stayput.id());
    assert!(Command::new("kill").args(["-KILL", "--", &target]).status().unwrap().success());
    stayput.wait().unwrap();
}
