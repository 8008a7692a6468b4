//! Commands, parameters and what runs around runs: each of hyperfine's habits as `docs/commands.md` says it is here.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// Notes how it is called, and exits as its second argument says.
const APP: &str = "#!/bin/sh\necho \"run $1${MODE:+ $MODE}\" >> log\nsleep 0.0$1\nexit ${2:-0}\n";

struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        for name in ["app", "app.old"] {
            let path = desk.0.path().join(name);
            fs::write(&path, APP).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
        desk
    }

    fn stayput(&self, words: &[&str]) -> Output {
        Command::new(STAYPUT).args(words).current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap()
    }

    /// A study of `runs` blocks in `a.stayput` that ends with `code`; what it says.
    fn study(&self, runs: &str, words: &[&str], code: i32) -> String {
        let usual =
            ["study", "-q", "--no-report", "--out", "a.stayput", "-n", "1", "--min-runs", runs, "--max-runs", runs];
        let output = self.stayput(&[&usual[..], words].concat());
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        said
    }

    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.0.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn json(&self) -> Value {
        let output = self.stayput(&["report", "a.stayput", "--format", "json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

const AROUND: [&str; 8] = [
    "--setup",
    "echo setup >> log",
    "--prepare",
    "echo prepare >> log",
    "--conclude",
    "echo conclude >> log",
    "--cleanup",
    "echo cleanup >> log",
];

#[test]
fn lines_run_in_order_around_all_runs_and_around_each_warm_ups_too() {
    let desk = Desk::new();
    desk.study("2", &[&["--place", "unbound", "--warmup", "1"], &AROUND[..], &["--", "./app", "1"]].concat(), 0);
    let each = ["prepare", "run 1", "conclude"];
    let expected = [&["setup"][..], &each, &each, &each, &["cleanup"]].concat();
    assert_eq!(desk.log(), expected);
    // What is there already is not prepared for.
    desk.study("2", &[&["--place", "unbound", "--warmup", "1"], &AROUND[..], &["--", "./app", "1"]].concat(), 0);
    assert_eq!(desk.log(), expected, "nothing was left to run");
}

#[test]
fn each_of_several_commands_is_set_up_and_cleaned_up_and_they_are_interleaved() {
    let desk = Desk::new();
    let lines = ["--setup", "echo setup {t} >> log", "--cleanup", "echo cleanup {t} >> log", "--warmup", "0"];
    desk.study("4", &[&["-L", "t", "1,2"], &lines[..], &["--", "./app", "{t}"]].concat(), 0);
    let log = desk.log();
    let count = |line: &str| log.iter().filter(|other| *other == line).count();
    for command in ["1", "2"] {
        assert_eq!((count(&format!("setup {command}")), count(&format!("run {command}"))), (1, 4), "{log:?}");
        assert_eq!(count(&format!("cleanup {command}")), 1);
        let position = |line: String| log.iter().position(|other| *other == line).unwrap();
        assert!(position(format!("setup {command}")) < position(format!("run {command}")));
    }
    assert!(log[8..].iter().skip(2).all(|line| line.starts_with("cleanup")), "{log:?}");
}

#[test]
fn a_line_that_fails_is_told_with_what_it_said_and_makes_no_number() {
    for (line, runs) in [("--prepare", 0), ("--conclude", 1)] {
        let desk = Desk::new();
        let asked = ["--place", "unbound", "--warmup", "0", line, "echo no disk; exit 3", "--", "./app", "1"];
        let said = desk.study("1", &asked, 1);
        let cause = format!(
            "{} (`echo no disk; exit 3`) failed with exit code 3; the last line that it printed is `no disk`",
            &line[2..]
        );
        assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains(&cause), "{said}");
        let trial = &desk.json()["trials"][0];
        assert_eq!((trial["status"].as_str(), trial["time_s"].as_f64()), (Some("preparation"), None), "{trial}");
        assert_eq!(!desk.log().is_empty(), runs == 1);
    }
    let desk = Desk::new();
    let said = desk.study("1", &["--place", "unbound", "--setup", "exit 4", "--", "./app", "1"], 1);
    assert!(said.contains("setup (`exit 4`) failed with exit code 4") && desk.log().is_empty(), "{said}");
    let said = desk.study("1", &["--place", "unbound", "--force", "--cleanup", "exit 5", "--", "./app", "1"], 1);
    assert!(said.contains("cleanup (`exit 5`) failed with exit code 5; what was measured is kept"), "{said}");
    assert_eq!(desk.json()["trials"][0]["status"], "ok");
}

#[test]
fn a_failed_exit_code_counts_only_where_it_is_ignored_and_is_kept() {
    let codes = [(None, 1), (Some("-i"), 0), (Some("--ignore-failure=3,4"), 0), (Some("--ignore-failure=5"), 1)];
    for (flag, code) in codes {
        let desk = Desk::new();
        let flag: Vec<&str> = flag.into_iter().collect();
        desk.study(
            "1",
            &[&["--place", "unbound", "--warmup", "0"], &flag[..], &["--", "./app", "1", "3"]].concat(),
            code,
        );
        let trial = &desk.json()["trials"][0];
        assert_eq!(trial["status"], if code == 0 { "ok" } else { "exit-code" }, "{flag:?}");
    }
}

#[test]
fn variables_reach_the_program_and_the_lines_and_another_value_is_another_study() {
    let desk = Desk::new();
    let asked = |mode: &'static str| {
        ["--place", "unbound", "--warmup", "0", "--env", mode, "--prepare", "echo $MODE >> log", "--", "./app", "1"]
    };
    desk.study("1", &asked("MODE=fast"), 0);
    assert_eq!(desk.log(), ["fast", "run 1 fast"]);
    let said = desk.study("1", &asked("MODE=slow"), 2);
    assert!(said.contains("MODE=fast") && said.contains("MODE=slow"), "{said}");
}

#[test]
fn parameters_multiply_and_each_combination_is_compared_with_the_first() {
    let desk = Desk::new();
    let said = desk.study("6", &["-L", "a", "1,1", "--", "./app", "{a}"], 2);
    assert!(said.contains("two commands are called `./app 1`"), "{said}");
    desk.study("6", &["-L", "a", "1,9", "-L", "code", "0,00", "--", "./app", "{a}", "{code}"], 0);
    let json = desk.json();
    let names: Vec<&str> =
        json["summaries"].as_array().unwrap().iter().map(|summary| summary["placement"].as_str().unwrap()).collect();
    assert_eq!(names, ["./app 1 0", "./app 1 00", "./app 9 0", "./app 9 00"]);
    let claims: Vec<&str> =
        json["summaries"].as_array().unwrap().iter().map(|summary| summary["claim"].as_str().unwrap()).collect();
    assert_eq!((claims[0], claims[2], claims[3]), ("reference", "slower", "slower"));
}

#[test]
fn two_commands_are_compared_as_two_treatments_are_and_their_loss_can_be_limited() {
    let desk = Desk::new();
    let two = ["--command-name", "old", "--", "./app.old", "1", "--command-name", "new", "--", "./app", "9"];
    let said = desk.study("6", &two, 0);
    let said_in_one = said.split_whitespace().collect::<Vec<_>>().join(" ");
    // On a busy machine it seems to.
    assert!(
        said_in_one.contains("which command runs matters") || said_in_one.contains("which command runs seems to"),
        "{said}"
    );
    assert!(
        said_in_one.contains("x slower than old (95 % interval ") && !said.contains("Unbound was left out"),
        "{said}"
    );
    let limited = desk.study("6", &[&["--max-loss", "5%"], &two[..]].concat(), 1);
    assert!(limited.contains("more than the 5 % allowed"), "{limited}");
    let reversed = ["--command-name", "old", "--", "./app.old", "9", "--command-name", "new", "--", "./app", "1"];
    desk.study("6", &[&["--max-loss", "5%", "--force"], &reversed[..]].concat(), 0);
    let said = desk.study("6", &[&["--force"], &reversed[..]].concat(), 0);
    assert!(said.contains("new is best: ./app 1"), "{said}");
}

#[test]
fn where_treatments_vary_each_command_is_a_subject_of_its_own() {
    let desk = Desk::new();
    desk.study("5", &["--place", "unbound,0", "-L", "t", "1,2", "--", "./app", "{t}"], 0);
    let json = desk.json();
    let subjects: Vec<&str> =
        json["plan"]["subjects"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(subjects, ["./app 1", "./app 2"]);
    assert_eq!(json["summaries"].as_array().unwrap().len(), 4);
}

#[test]
fn the_export_has_what_scripts_for_hyperfine_read() {
    let desk = Desk::new();
    let two = ["--command-name", "old", "--", "./app.old", "1", "--command-name", "new", "--", "./app", "2"];
    desk.study("3", &[&["--export-json", "times.json"], &two[..]].concat(), 0);
    let text = fs::read_to_string(desk.0.path().join("times.json")).unwrap();
    let export: Value = serde_json::from_str(&text).unwrap();
    let results = export["results"].as_array().unwrap();
    assert_eq!(results.iter().map(|r| r["command"].as_str().unwrap()).collect::<Vec<_>>(), ["old", "new"]);
    for result in results {
        let number = |key: &str| result[key].as_f64().unwrap();
        let times: Vec<f64> = result["times"].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect();
        assert_eq!(times.len(), 3, "warm-ups are left out");
        assert!((times.iter().sum::<f64>() / 3.0 - number("mean")).abs() < 1e-12);
        assert!(number("min") <= number("median") && number("median") <= number("max") && number("stddev") >= 0.0);
        assert!(number("user") >= 0.0 && number("system") >= 0.0);
        assert_eq!(result["exit_codes"], serde_json::json!([0, 0, 0]));
        assert_eq!(result["memory_usage_byte"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn what_programs_print_is_shown_where_that_is_asked_for() {
    let desk = Desk::new();
    let words = ["--place", "unbound", "--warmup", "0", "--", "sh", "-c", "echo hello there"];
    assert!(!desk.study("1", &words, 0).lines().any(|line| line == "hello there"));
    let said = desk.study("1", &[&["--force", "--show-output"], &words[..]].concat(), 0);
    assert!(said.lines().any(|line| line == "hello there"), "{said}");
}

#[test]
fn killed_while_a_line_prepares_nothing_of_it_is_left() {
    let desk = Desk::new();
    let mark = format!("{}.125", 200_000 + std::process::id());
    let line = format!("setsid sleep {mark} & sleep {mark} & touch begun; wait");
    let words = ["study", "-q", "--no-report", "-n", "1", "--place", "unbound", "--prepare", &line, "--", "./app", "1"];
    let running = || {
        let found = Command::new("pgrep").args(["-f", &format!("^sleep {mark}")]).output().unwrap();
        !found.stdout.is_empty()
    };
    let mut command = Command::new(STAYPUT);
    let command = command.args(words).current_dir(desk.0.path()).stdin(Stdio::null());
    let mut we = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = |is_so: &dyn Fn() -> bool| {
        let begun = std::time::Instant::now();
        while !is_so() && begun.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        is_so()
    };
    assert!(until(&|| desk.0.path().join("begun").exists() && running()));
    we.kill().unwrap();
    we.wait().unwrap();
    assert!(until(&|| !running()));
}

#[test]
fn a_program_that_a_setup_builds_need_not_be_there_before() {
    let desk = Desk::new();
    desk.study("1", &["--place", "unbound", "--setup", "cp app built", "--", "./built", "1"], 0);
    assert_eq!(desk.json()["trials"][1]["status"], "ok");
}
