//! Studies of several factors: what their trials ran under is read back, what wasn't in force is no number, and what was best is run
//! as it was studied.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// Takes 60 ms, but 20 ms where its scheduling class is SCHED_BATCH (3 in /proc/PID/stat), and says which it is.
const PROGRAM: &str = "#!/bin/sh
class=$(cut -d ' ' -f 41 /proc/self/stat)
echo \"class $class\"
if [ \"$class\" = 3 ]; then sleep 0.02; else sleep 0.06; fi
";

struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        desk.program("app", PROGRAM);
        desk
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(STAYPUT);
        command.args(words).current_dir(self.path()).stdin(Stdio::null());
        command
    }

    fn stayput(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// A study of the program in `a.stayput`, and what its report says.
    fn study(&self, words: &[&str], blocks: &str) -> Value {
        self.study_that_ends(words, blocks, 0)
    }

    fn study_that_ends(&self, words: &[&str], blocks: &str, code: i32) -> Value {
        let usual = ["study", "-q", "--no-report", "--out", "a.stayput", "-n", "1", "--warmup", "0"];
        let stop = ["--min-runs", blocks, "--max-runs", blocks];
        let output = self.stayput(&[&usual[..], &stop, words, &["--", "./app"]].concat());
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        self.report()
    }

    fn report(&self) -> Value {
        let output = self.stayput(&["report", "a.stayput", "--format", "json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn texts<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|element| element[key].as_str().unwrap()).collect()
}

#[test]
fn every_combination_runs_under_what_its_name_says_and_effects_are_told() {
    let desk = Desk::new();
    let json = desk.study(&["--place", "unbound,0", "--sched", "default,batch"], "6");
    let names = ["unbound", "sched=batch", "0", "0 sched=batch"];
    assert_eq!(texts(&json["plan"]["treatments"], "name"), names);
    assert_eq!(texts(&json["plan"]["treatments"], "place"), ["unbound", "unbound", "0", "0"]);
    assert_eq!(texts(&json["plan"]["treatments"], "sched"), ["default", "batch", "default", "batch"]);
    assert_eq!(texts(&json["summaries"], "placement"), names);
    let effects = json["effects"].as_array().unwrap();
    let words = |key| texts(&json["effects"], key);
    assert_eq!(words("factor"), ["place", "sched", "place x sched"]);
    assert_eq!(words("level"), ["0", "batch", "0 x batch"]);
    assert_eq!(words("reference"), ["unbound", "default", "unbound x default"]);
    // The program sees by itself what it runs under, and says so by its time.
    let ratio = effects[1]["ratio"].as_f64().unwrap();
    assert!((1.2..4.0).contains(&ratio), "{ratio}");
    let output = desk.stayput(&["report", "a.stayput"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("batch over default") && text.contains("Effects: how much faster"), "{text}");
    assert!(!text.contains("placement is shown") && !text.contains("where its threads run"), "{text}");
}

#[test]
fn what_a_study_found_best_is_run_under_its_conditions() {
    let desk = Desk::new();
    let json = desk.study(&["--sched", "default,batch"], "8");
    assert_eq!(texts(&json["plan"]["treatments"], "name"), ["unbound", "sched=batch"], "no place but the one");
    assert_eq!(json["best"][0]["placement"], "sched=batch", "{}", json["summaries"]);
    // On a busy machine it seems to.
    let verdict = json["verdicts"][0].as_str().unwrap();
    assert!(verdict.starts_with("./app: ") && verdict.contains("what it runs under "), "{verdict}");
    let run = desk.stayput(&["run", "-q", "--place", "a.stayput", "--", "./app"]);
    assert_eq!(String::from_utf8(run.stdout).unwrap(), "class 3\n");
    let otherwise = desk.stayput(&["run", "-q", "--sched", "default", "--place", "a.stayput", "--", "./app"]);
    assert_eq!(String::from_utf8(otherwise.stdout).unwrap(), "class 0\n", "a flag beats the study");
    let text = String::from_utf8(desk.stayput(&["report", "a.stayput"]).stdout).unwrap();
    assert!(text.contains("stayput run -n 1 --sched batch -- ./app"), "{text}");
}

#[test]
fn company_that_ends_before_the_program_makes_no_number() {
    let desk = Desk::new();
    desk.program("short", "#!/bin/sh\nsleep 0.12\necho out of work >&2\nexit 3\n");
    let json = desk.study_that_ends(&["--beside", "none,./short"], "3", 1);
    let trials = json["trials"].as_array().unwrap();
    let beside = |name: &'static str| trials.iter().filter(move |trial| trial["placement"] == name);
    assert_eq!(beside("unbound").filter(|trial| trial["status"] == "ok").count(), 3);
    let lost: Vec<&Value> = beside("beside=./short").collect();
    assert!(!lost.is_empty());
    for trial in lost {
        assert_eq!((&trial["status"], &trial["time_s"]), (&Value::from("not-in-force"), &Value::Null), "{trial}");
        let cause = trial["cause"].as_str().unwrap();
        assert!(cause.contains("./short") && cause.contains("code 3") && cause.contains("out of work"), "{cause}");
    }
    assert_eq!(json["summaries"][1]["median_s"], Value::Null);
}

#[test]
fn what_this_machine_lacks_is_refused_or_left_out_and_told() {
    let desk = Desk::new();
    let refused = desk.stayput(&["study", "--memory", "default,bind:999", "--", "./app"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said.contains("memory=bind:999: ") && said.contains("--leave-out"), "{said}");
    assert!(!desk.path().join("app.stayput").exists(), "nothing was begun");
    let json = desk.study(&["--memory", "default,bind:999,bind:0", "--leave-out"], "1");
    assert_eq!(texts(&json["plan"]["treatments"], "name"), ["unbound", "memory=bind:0"]);
    let departures = json["plan"]["departures"].as_array().unwrap();
    assert!(departures[0].as_str().unwrap().starts_with("memory=bind:999 is left out: "), "{departures:?}");
}

/// Processes whose command line holds `word`, which tests make up.
fn processes_with(word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let is_process = entry.file_name().to_string_lossy().parse::<u32>().is_ok();
        let line = if is_process { fs::read(entry.path().join("cmdline")).unwrap_or_default() } else { Vec::new() };
        let line = String::from_utf8_lossy(&line).into_owned();
        if line.contains(word) && !line.contains("stayput") {
            found.push(line.replace('\0', " "));
        }
    }
    found
}

#[test]
fn a_study_that_is_killed_leaves_no_company_and_is_gone_on_with() {
    let desk = Desk::new();
    let marker = format!("{}.25", 100_000 + std::process::id());
    let beside = format!("none,sleep {marker}");
    let words = [
        "study",
        "-q",
        "--no-report",
        "--out",
        "a.stayput",
        "-n",
        "1",
        "--min-runs",
        "6",
        "--max-runs",
        "6",
        "--beside",
    ];
    let words = [&words[..], &[&beside, "--", "./app"]].concat();
    for moment in [30, 110, 170, 240, 330, 470] {
        let mut study = desk.command(&words).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(moment));
        study.kill().unwrap();
        study.wait().unwrap();
        let began = Instant::now();
        while !processes_with(&marker).is_empty() {
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", processes_with(&marker));
            sleep(Duration::from_millis(20));
        }
    }
    let last = desk.stayput(&words);
    assert!(last.status.success(), "{}", String::from_utf8_lossy(&last.stderr));
    let json = desk.report();
    let trials = json["trials"].as_array().unwrap();
    let of = |name: &str| trials.iter().filter(|trial| trial["placement"] == name && trial["warmup"] == false).count();
    let names = texts(&json["plan"]["treatments"], "name");
    assert_eq!(names.iter().map(|name| of(name)).collect::<Vec<_>>(), [6, 6], "each block has each treatment once");
}

#[test]
fn a_secret_of_what_runs_beside_is_never_kept() {
    let desk = Desk::new();
    let output = desk.stayput(&["study", "--beside", "none,sleep 9 --token=s3cr3t", "--", "./app"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("holds a secret value") && !said.contains("s3cr3t"), "{said}");
    assert!(!desk.path().join("app.stayput").exists(), "nothing was begun");
}

#[test]
fn every_treatment_of_a_block_is_given_the_same_number() {
    let desk = Desk::new();
    desk.program("app", "#!/bin/sh\necho $1 >> seen\n");
    let usual = ["study", "-q", "--no-report", "-n", "1", "--warmup", "0", "--min-runs", "3", "--max-runs", "3"];
    let output = desk.stayput(&[&usual[..], &["--sched", "default,batch", "--", "./app", "{block}"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen = fs::read_to_string(desk.path().join("seen")).unwrap();
    assert_eq!(seen.lines().collect::<Vec<_>>(), ["0", "0", "1", "1", "2", "2"]);
}
