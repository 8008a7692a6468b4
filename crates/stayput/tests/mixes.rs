//! `stayput study --mix`: jobs run at once and each by itself, what goes wrong with one makes no number, and nothing outlives Stayput.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A variable that marks a test's processes, so that those left over can be found.
const MARK: &str = "STAYPUT_MIXES_TEST";

struct Desk(TempDir);

impl Desk {
    /// A folder with programs of different lengths, one that fails after a while, and one that never ends.
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        for (name, text) in [
            ("short", "sleep 0.02"),
            ("app", "sleep 0.06"),
            ("long", "sleep 0.2"),
            ("failing", "sleep 0.03; echo no more >&2; exit 3"),
            ("endless", "trap '' TERM; while :; do sleep 1; done"),
            // Says which CPUs it may use.
            (
                "where",
                "while read key value; do case $key in Cpus_allowed_list:) echo \"$1 $value\" >> seen;; esac; done \
                 < /proc/self/status; sleep 0.03",
            ),
        ] {
            let path = desk.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
        desk
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stayput"));
        command.args(words).current_dir(self.path()).env(MARK, self.path()).stdin(Stdio::null());
        command
    }

    fn study_command(&self, words: &[&str], blocks: &str) -> Command {
        let usual = ["study", "-q", "--no-report", "--out", "a.stayput", "-n", "1", "--warmup", "0"];
        self.command(&[&usual[..], &["--min-runs", blocks, "--max-runs", blocks], words].concat())
    }

    /// What the report says of a study in `a.stayput` that ends with `code`.
    fn study(&self, words: &[&str], blocks: &str, code: i32) -> Value {
        let output = self.study_command(words, blocks).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        self.report()
    }

    fn report(&self) -> Value {
        let output = self.command(&["report", "a.stayput", "--format", "json"]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The command lines of living processes that carry the mark.
    fn marked(&self) -> Vec<String> {
        let entry = format!("{MARK}={}\0", self.path().display());
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
        let marked = processes.filter(|process| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            environment.windows(entry.len()).any(|window| window == entry.as_bytes())
        });
        let lines = marked.filter_map(|process| fs::read_to_string(process.join("cmdline")).ok());
        lines.filter(|line| !line.is_empty()).map(|line| line.replace('\0', " ")).collect()
    }

    fn wait_until_nothing_is_left(&self, when: &str) {
        let began = Instant::now();
        while !self.marked().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(20), "{when}: {:?}", self.marked());
            sleep(Duration::from_millis(10));
        }
    }
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn texts<'a>(list: &'a [Value], key: &str) -> Vec<&'a str> {
    list.iter().map(|element| element[key].as_str().unwrap()).collect()
}

fn of_subject<'a>(report: &'a Value, subject: &'a str) -> Vec<&'a Value> {
    list(report, "trials").iter().filter(|trial| trial["subject"] == subject).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn jobs_run_at_once_and_each_program_by_itself_in_every_block() {
    let desk = Desk::new();
    let mix = "./app*2 + [at=30ms name=late] ./short";
    let report = desk.study(&["--mix", mix, "--sched", "default,batch"], "6", 0);
    assert_eq!(texts(list(&report["plan"], "subjects"), "name"), [mix, "./app", "./short"]);
    let trials = of_subject(&report, mix);
    assert_eq!(trials.len(), 12, "six blocks under two treatments");
    for trial in trials {
        let jobs = list(trial, "jobs");
        assert_eq!(texts(jobs, "name"), ["./app 1", "./app 2", "late"]);
        let at = |key: &str| jobs.iter().map(|job| number(&job[key])).collect::<Vec<f64>>();
        let (started, ended) = (at("started_s"), at("ended_s"));
        assert!(started[0] < ended[1] && started[1] < ended[0] && started[2] < ended[0], "they overlap: {trial}");
        assert!(started[2] >= 0.03, "{trial}");
        assert_eq!(number(&trial["time_s"]), ended.iter().copied().fold(0.0, f64::max), "{trial}");
        assert!(jobs.iter().all(|job| number(&job["slowdown"]) > 0.0), "{trial}");
    }
    for alone in ["./app", "./short"] {
        let trials = of_subject(&report, alone);
        assert_eq!(trials.len(), 6, "{alone} is run by itself once a block");
        assert!(trials.iter().all(|trial| trial["placement"] == "unbound" && trial["jobs"].is_null()));
    }
    let batch = list(&report, "summaries").iter().find(|summary| summary["placement"] == "sched=batch").unwrap();
    assert_eq!(batch["subject"], mix);
    assert!(number(&batch["antt"]) > 0.0 && number(&batch["stp"]) <= 3.5 && number(&batch["jain_index"]) <= 1.0);
    assert!(number(&batch["mean_completion_s"]) < number(&batch["makespan_s"]));
    // Programs that sleep wait for nobody.
    assert!((0.5..2.0).contains(&number(&batch["antt"])), "{batch}");
}

#[test]
fn a_job_that_repeats_does_so_until_every_job_has_ended_once() {
    let desk = Desk::new();
    let report = desk.study(&["--mix", "[repeat] ./short + ./long"], "5", 0);
    for trial in of_subject(&report, "[repeat] ./short + ./long") {
        let jobs = list(trial, "jobs");
        let of = |name: &'static str| jobs.iter().filter(move |job| job["name"] == name);
        assert!(of("./short").count() > 2 && of("./long").count() == 1, "{trial}");
        let runs: Vec<(f64, f64)> =
            of("./short").map(|run| (number(&run["started_s"]), number(&run["ended_s"]))).collect();
        assert!(runs.windows(2).all(|pair| pair[0].1 <= pair[1].0), "one after the other: {trial}");
        let whole = of("./short").filter(|run| run["time_s"].is_f64()).count();
        assert!(whole + 1 >= runs.len(), "only the last may be cut short: {trial}");
        assert_eq!(number(&trial["time_s"]), number(&of("./long").next().unwrap()["ended_s"]));
    }
}

#[test]
fn threads_of_jobs_take_slots_one_after_the_other_and_a_job_keeps_its_own_place() {
    let allowed = Command::new("sh").args(["-c", "grep Cpus_allowed_list /proc/self/status"]).output().unwrap();
    let allowed = String::from_utf8(allowed.stdout).unwrap();
    let allowed = allowed.trim_start_matches("Cpus_allowed_list:");
    if !allowed.trim().starts_with("0-") {
        eprintln!("skipped: CPUs 0 and 1 are needed, and there is {allowed}");
        return;
    }
    let desk = Desk::new();
    let mix = "./where a + ./where b + [place=1] ./where c";
    desk.study(&["--mix", mix, "--place", "unbound,0-1"], "2", 0);
    let seen = fs::read_to_string(desk.path().join("seen")).unwrap();
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    seen.lines().for_each(|line| *times.entry(line).or_default() += 1);
    let all = allowed.trim();
    let free = |job: &str| times.get(format!("{job} {all}").as_str()).copied();
    // Two blocks: by itself, in the mix that is unbound, and in the one that is bound.
    assert_eq!((free("a"), free("b"), free("c")), (Some(4), Some(4), Some(2)), "{seen}");
    assert_eq!((times["a 0"], times["b 1"], times["c 1"]), (2, 2, 4), "{seen}");
}

#[test]
fn a_job_that_fails_makes_no_number_and_is_named() {
    let desk = Desk::new();
    for (mix, status, parts) in [
        ("./endless + ./failing", "exit-code", &["./failing: ", "exit code 3"][..]),
        ("./app + sh -c 'kill -9 $$'", "signal", &["sh -c kill -9 $$: ", "SIGKILL"]),
    ] {
        let report = desk.study(&["--force", "--timeout", "500ms", "--mix", mix], "3", 1);
        let trials: Vec<&Value> = list(&report, "trials").iter().filter(|trial| trial["subject"] == mix).collect();
        assert!(!trials.is_empty());
        for trial in trials {
            assert_eq!((&trial["status"], &trial["time_s"]), (&Value::from(status), &Value::Null), "{trial}");
            let cause = trial["cause"].as_str().unwrap();
            assert!(parts.iter().all(|part| cause.contains(part)), "{cause}");
        }
        assert_eq!(desk.marked(), [] as [String; 0], "the others were killed");
    }
}

#[test]
fn a_job_that_hangs_is_killed_at_the_timeout_and_named() {
    let desk = Desk::new();
    let mix = "./short + ./endless";
    let report = desk.study(&["--timeout", "300ms", "--mix", mix], "2", 1);
    for trial in of_subject(&report, mix) {
        assert_eq!(trial["status"], "timeout", "{trial}");
        assert!(trial["cause"].as_str().unwrap().ends_with("before ./endless had ended"), "{trial}");
    }
    assert_eq!(desk.marked(), [] as [String; 0]);
}

#[test]
fn a_job_that_can_t_start_is_told_before_anything_runs() {
    let desk = Desk::new();
    let output = desk.study_command(&["--mix", "./app + ./missing"], "2").output().unwrap();
    assert!(said(&output).contains("./missing") && said(&output).trim_end().lines().count() == 1, "{}", said(&output));
    assert!(!output.status.success() && !desk.path().join("a.stayput").exists());
}

#[test]
fn a_study_file_says_mixes_too() {
    let desk = Desk::new();
    let text = "[[mix]]\nname = \"both\"\njobs = [\"./app\", \"[at=10ms] ./short\"]\n";
    fs::write(desk.path().join("mix.toml"), text).unwrap();
    let report = desk.study(&["mix.toml"], "2", 0);
    assert_eq!(texts(list(&report["plan"], "subjects"), "name"), ["both", "./app", "./short"]);
    assert_eq!(of_subject(&report, "both").len(), 2 * 3, "unbound, compact and scatter");
}

#[test]
fn the_same_command_goes_on_with_a_mix_and_more_treatments_extend_it() {
    let desk = Desk::new();
    let mix = "./short*2";
    let first = desk.study(&["--mix", mix], "3", 0);
    let again = desk.study(&["--mix", mix], "3", 0);
    assert_eq!(list(&first, "trials"), list(&again, "trials"), "nothing was left to run");
    let more = desk.study(&["--mix", mix, "--place", "unbound,compact,scatter,0"], "3", 0);
    assert!(more["trials"].as_array().unwrap().len() > list(&first, "trials").len());
    let kept = list(&first, "trials").len();
    assert_eq!(&list(&more, "trials")[..kept], list(&first, "trials"));
}

#[test]
fn the_best_treatment_of_a_mix_is_raced_for() {
    let desk = Desk::new();
    let words =
        ["study", "-q", "--no-report", "--out", "a.stayput", "-n", "1", "--warmup", "0", "--best", "--runs", "24"];
    let mix = ["--among", "named", "--place", "unbound,compact", "--mix", "./short + ./app"];
    let output = desk.command(&[&words[..], &mix].concat()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let report = desk.report();
    assert!(
        list(&report, "trials").iter().all(|trial| trial["subject"] == "./short + ./app"),
        "races run no job by itself"
    );
    assert_eq!(list(&report, "races").len(), 1);
}

#[test]
fn nothing_of_a_mix_outlives_stayput_whenever_it_is_killed_and_the_same_command_goes_on() {
    let desk = Desk::new();
    let words = [
        "--mix",
        "./endless + ./app*2 + [repeat at=10ms] ./short",
        "--beside",
        "none,sleep 1000",
        "--timeout",
        "150ms",
    ];
    for round in 0..20 {
        // While workers start, while jobs run, while they are ended, and while the trial is kept.
        let moment = Duration::from_micros(RandomState::new().hash_one(round) % 500_000);
        let mut stayput = desk.study_command(&words, "40").process_group(0).stderr(Stdio::null()).spawn().unwrap();
        sleep(moment);
        let target = format!("{}{}", if round % 2 == 0 { "-" } else { "" }, stayput.id());
        assert!(Command::new("kill").args(["-KILL", "--", &target]).status().unwrap().success());
        stayput.wait().unwrap();
        desk.wait_until_nothing_is_left(&format!("killed after {moment:?}"));
    }
    // The journal is whole, and the study goes on from it to its end: one of its jobs never ends, so its cells are given up.
    let before = desk.command(&["report", "a.stayput", "--format", "json"]).output().unwrap();
    let report = desk.study(&words, "40", 1);
    let trials = list(&report, "trials");
    assert!(trials.iter().map(|trial| trial["sequence"].as_u64().unwrap()).eq(0..trials.len() as u64));
    if before.status.success() {
        let before: Value = serde_json::from_slice(&before.stdout).unwrap();
        assert_eq!(list(&before, "trials"), &trials[..list(&before, "trials").len()], "what was measured is kept");
    }
    desk.wait_until_nothing_is_left("ended");
}
