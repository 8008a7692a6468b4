//! `stayput share`: real jobs, good and bad, on the CPUs of this machine; and its decisions, held against the report's rules as they
//! are restated for the allocator's own tests.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../share/tests/oracle/mod.rs"]
mod oracle;

use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The jobs of `programs/share.c`.
static JOBS: LazyLock<PathBuf> = LazyLock::new(|| compiled("gcc", &["-std=gnu11"], "share-jobs"));

/// Plays of CPUs' owners would disturb one another: what is asserted is who had what.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn compiled(compiler: &str, flags: &[&str], name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let executable = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let mut command = Command::new(compiler);
    command.args(flags).args(["-O1", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-I"]);
    command.arg(root.join("../share/include")).arg(root.join("tests/programs/share.c")).arg("-o").arg(&executable);
    let output = command.output().unwrap_or_else(|error| panic!("{compiler}: {error}; ./setup.sh test installs it"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    executable
}

fn stayput() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stayput"));
    command.args(["share", "--quiet"]).env_remove("STAYPUT_SHARE");
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// What came of jobs: the command's own output, its JSON, its decisions.
struct Played {
    output: Output,
    json: Value,
    decisions: Vec<Value>,
    lines: String,
}

/// Plays jobs of `programs/share.c`, or built-in ones.
fn play(name: &str, flags: &[&str], jobs: &[&str]) -> Played {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let file = |kind: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("share-{name}.{kind}"));
    let (json, decisions) = (file("json"), file("jsonl"));
    let mut command = stayput();
    command.args(flags).arg("--json").arg(&json).arg("--decisions").arg(&decisions).args(["--timeout", "60s", "--"]);
    for (place, job) in jobs.iter().enumerate() {
        if place > 0 {
            command.arg("+");
        }
        match job.contains('.') && !job.contains(' ') {
            true => command.arg(job),
            false => command.arg(&*JOBS).args(job.split(' ')),
        };
    }
    let output = command.output().unwrap();
    let lines = fs::read_to_string(&decisions).unwrap();
    let decisions = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let json = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap_or_else(|_| panic!("{output:?}"));
    Played { output, json, decisions, lines }
}

impl Played {
    fn jobs(&self) -> &Vec<Value> {
        self.json["plays"][0]["jobs"].as_array().unwrap()
    }

    fn went_well(&self) -> &Self {
        assert!(self.output.status.success(), "{}{}", text(&self.output.stdout), text(&self.output.stderr));
        oracle::judge(&self.lines);
        self
    }

    /// Decisions that began with this.
    fn steps(&self, step: &str, job: u64) -> Vec<&Value> {
        self.decisions.iter().filter(|line| line["step"][step]["job"] == job).collect()
    }

    fn cpus(&self) -> usize {
        self.json["cpus"].as_array().unwrap().len()
    }
}

fn is_given(line: &Value, job: u64) -> bool {
    line["decided"].as_array().unwrap().iter().any(|decided| decided["change"]["given"] == job)
}

/// Whether there are CPUs to share out; else says so.
fn can_share() -> bool {
    let several = thread::available_parallelism().unwrap().get() > 1;
    if !several {
        println!("skipped: one CPU can't be shared out");
    }
    several
}

#[test]
fn the_report_s_jobs_are_played_by_its_rules_under_every_policy() {
    let policies = "equipartition,dynamic,dynamic-affinity";
    let jobs = ["2*gravity.S", "mva.S", "matrix.S"];
    let played = play("rules", &["--policy", policies, "--runs", "2", "--gap", "20ms"], &jobs);
    played.went_well();
    let plays = played.json["plays"].as_array().unwrap();
    assert_eq!(plays.len(), 6);
    let verdicts = oracle::judge(&played.lines);
    for (play, verdict) in plays.iter().zip(&verdicts) {
        assert_eq!(play["moves"].as_u64().unwrap() as usize, verdict.given);
        for (job, held_ns) in play["jobs"].as_array().unwrap().iter().zip(&verdict.held_ns) {
            assert!(job["response_s"].as_f64().unwrap() > 0.0 && job["cpu_s"].as_f64().unwrap() > 0.0, "{job}");
            assert_eq!(job["spoke"], true, "{job}");
            // Decisions are written down before they are carried out: a job's time with CPUs begins and ends a moment later.
            let held_s = job["held_s"].as_f64().unwrap();
            assert!((held_s - *held_ns as f64 / 1e9).abs() < 0.5, "{held_s} {held_ns}");
        }
    }
    let told = text(&played.output.stdout);
    assert!(told.contains("2 pairs with equipartition are too few for a ratio; 5 are needed"), "{told}");
    let names: Vec<&str> = played.json["jobs"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(names, ["gravity.S", "gravity.S #2", "mva.S", "matrix.S"]);
}

#[test]
fn the_cpus_of_a_job_that_dies_are_another_s_at_once() {
    if !can_share() {
        return;
    }
    let played = play("dies", &["--policy", "dynamic"], &["die", "spin 1.5"]);
    assert_eq!(played.output.status.code(), Some(1));
    oracle::judge(&played.lines);
    assert_eq!(played.jobs()[0]["failure"], "killed by SIGKILL");
    assert!(played.jobs()[1]["response_s"].is_number());
    // What the dead job had goes to the other in the very decision that its end led to.
    let departs = played.steps("depart", 0);
    assert!(is_given(departs[0], 1), "{}", departs[0]);
    assert_eq!(played.jobs()[1]["got"].as_u64().unwrap() as usize, played.cpus());
    assert!(text(&played.output.stdout).contains("failed in 1 of 1 play: killed by SIGKILL"));
}

#[test]
fn a_job_that_lies_is_held_to_what_it_uses() {
    if !can_share() {
        return;
    }
    let played = play("lies", &["--policy", "dynamic"], &["lie 1.6"]);
    played.went_well();
    assert!(played.jobs()[0]["capped"].as_u64().unwrap() >= 1);
    let most = played.cpus() as u64;
    let wants = played.steps("want", 0);
    let capped = wants.iter().position(|line| line["step"]["want"]["wanted"] == 1 && line["step"]["want"]["said"] != 1);
    let after = &wants[capped.expect("it is held to one CPU")..];
    assert!(after.iter().all(|line| line["step"]["want"]["wanted"] != most), "it gets nothing back by saying it again");
    assert!(text(&played.output.stdout).contains("asked for CPUs that it didn't use"));
}

#[test]
fn a_job_that_hangs_is_killed_in_time_and_the_others_get_on() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let output = stayput()
        .args(["--timeout", "1s", "--policy", "dynamic", "--json", "-", "--", "sleep", "1000", "+"])
        .arg(&*JOBS)
        .args(["spin", "0.2"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let jobs = &json["plays"][0]["jobs"];
    assert_eq!(jobs[0]["failure"], "killed after 1 s");
    assert_eq!(jobs[0]["spoke"], false);
    assert!(jobs[1]["response_s"].is_number() && jobs[1]["failure"].is_null());
}

#[test]
fn a_job_that_binds_itself_elsewhere_is_brought_back() {
    if !can_share() {
        return;
    }
    // Two jobs that want all CPUs: with two CPUs, each has one.
    if thread::available_parallelism().unwrap().get() > 2 {
        println!("skipped: this test counts on two CPUs");
        return;
    }
    let played = play("escapes", &["--policy", "equipartition"], &["spin 1.0", "escape"]);
    played.went_well();
}

#[test]
fn a_job_that_writes_over_its_page_harms_nobody() {
    let played = play("scribbles", &["--policy", "dynamic"], &["scribble", "spin 0.5"]);
    played.went_well();
    assert!(played.jobs().iter().all(|job| job["response_s"].is_number()));
}

#[test]
fn the_page_names_the_cpus_on_which_the_job_is() {
    play("page", &["--policy", "dynamic-affinity"], &["page", "page"]).went_well();
}

#[test]
fn an_openmp_program_has_as_many_threads_as_it_is_granted_cpus() {
    let played = play("openmp", &["--policy", "dynamic"], &["openmp", "openmp"]);
    played.went_well();
}

#[test]
fn what_is_interrupted_tells_what_came_of_the_plays_before() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let file = |kind: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("share-interrupted.{kind}"));
    let (json, decisions) = (file("json"), file("jsonl"));
    let _ = fs::remove_file(&decisions);
    let mut command = stayput();
    command.args(["--policy", "equipartition,dynamic", "--runs", "1000", "--json"]).arg(&json).arg("--decisions");
    command.arg(&decisions).arg("--").arg(&*JOBS).args(["spin", "0.1"]);
    let allocator = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The fourth play has begun, so that three are whole.
    let begun = |text: &str| text.lines().filter(|line| line.contains("\"policy\"")).count();
    for _ in 0..3_000 {
        if fs::read_to_string(&decisions).is_ok_and(|text| begun(&text) >= 4) {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").args(["-INT", &allocator.id().to_string()]).status().unwrap().success());
    let output = allocator.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(2), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("interrupted; all jobs were ended; what follows is of "), "{said}");
    let told = text(&output.stdout);
    assert!(told.contains("dynamic: ") && told.contains("response s"), "{told}");
    let json: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let plays = json["plays"].as_array().unwrap();
    assert!(plays.len() >= 3, "{json}");
    let response = |play: &Value| play["jobs"][0]["response_s"].as_f64();
    assert!(plays.iter().all(|play| response(play).is_some_and(|s| s >= 0.1)), "what was cut short isn't told: {json}");
}

#[test]
fn what_outlives_a_job_is_killed_with_it() {
    let played = play("orphan", &[], &["orphan"]);
    played.went_well();
    assert_eq!(played.jobs()[0]["leftovers"], 1);
}

#[test]
fn kill_9_of_the_allocator_leaves_jobs_running_on_what_they_had() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let told = Path::new(env!("CARGO_TARGET_TMPDIR")).join("share-survive.txt");
    let _ = fs::remove_file(&told);
    let mut command = stayput();
    command.args(["--policy", "dynamic", "--"]).arg(&*JOBS).arg("survive").arg(&told);
    let mut allocator = command.spawn().unwrap();
    let wait_for = |is: &dyn Fn(&str) -> bool| {
        for _ in 0..2_000 {
            if let Some(line) = fs::read_to_string(&told).ok().filter(|line| is(line)) {
                return line;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the job says nothing any more");
    };
    let before = wait_for(&|_| true);
    allocator.kill().unwrap();
    allocator.wait().unwrap();
    let after = wait_for(&|line| line.starts_with("after"));
    let cpus = before.split_whitespace().nth(1).unwrap();
    let numbers: Vec<&str> = after.split_whitespace().skip(1).collect();
    assert_eq!(numbers[..2], [cpus, cpus], "it is on as many CPUs as before: {before}{after}");
    assert_eq!(numbers[2], cpus, "and asks a page that still says so: {after}");
}

#[test]
fn the_header_is_c99_and_cxx_for_both_compilers_and_works_without_an_allocator() {
    let header = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stayput_share.h");
    let printed = Command::new(env!("CARGO_BIN_EXE_stayput")).args(["share", "--header"]).output().unwrap();
    fs::write(&header, &printed.stdout).unwrap();
    for (compiler, language) in [("gcc", "c"), ("clang", "c"), ("g++", "c++"), ("clang++", "c++")] {
        let standard = if language == "c" { "-std=gnu99" } else { "-std=gnu++17" };
        let mut command = Command::new(compiler);
        command.args(["-x", language, standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]);
        match command.arg("-include").arg(&header).arg("/dev/null").output() {
            Err(error) => println!("skipped: no {compiler}: {error}"),
            Ok(output) => assert!(output.status.success(), "{compiler}: {}", text(&output.stderr)),
        }
    }
    let alone = Command::new(&*JOBS).arg("alone").env_remove("STAYPUT_SHARE").status().unwrap();
    assert_eq!(alone.code(), Some(0));
    for wrong in ["", "x", "3", "3,", "-1,2", "999,1000", "99999999999,1", "0,1,2"] {
        let alone = Command::new(&*JOBS).arg("alone").env("STAYPUT_SHARE", wrong).status().unwrap();
        assert_eq!(alone.code(), Some(0), "{wrong}");
    }
}

#[test]
fn cpusets_hold_a_job_where_the_system_lets_us_make_them() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let run = |jobs: &[&str]| stayput().args(["--cpusets", "--output", "--"]).args(jobs).output().unwrap();
    let output = run(&["sh", "-c", "sleep 0.5; cat /proc/self/cgroup >&2"]);
    if !output.status.success() {
        let said = text(&output.stderr);
        assert!(said.contains("leave out --cpusets"), "{said}");
        println!("skipped: {said}");
        return;
    }
    assert!(text(&output.stderr).contains("/stayput-share-"), "{output:?}");
}

#[test]
fn no_root_is_needed() {
    let nobody = |program: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", program]);
        command
    };
    let reachable = nobody(env!("CARGO_BIN_EXE_stayput")).arg("--version").output();
    if !reachable.is_ok_and(|output| output.status.success()) {
        println!("skipped: this test isn't run by root, has no setpriv, or lies where others can't read");
        return;
    }
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = nobody(env!("CARGO_BIN_EXE_stayput"));
    let output = command.args(["share", "--quiet", "--", "sleep", "0.3", "+", "sleep", "0.3"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!text(&output.stdout).contains("didn't let us bind"), "{output:?}");
}

#[test]
fn wrong_usage_is_told_in_a_sentence() {
    let cases: [(&[&str], i32, &str); 10] = [
        (&["--", "true", "+"], 2, "job 2 is empty"),
        (&["--", "+", "true"], 2, "job 1 is empty"),
        (&["--policy", "fair", "--", "true"], 2, "jobs that run are shared out by equipartition"),
        (&["--policy", "dynamic,dynamic-affinity,dynamic", "--", "true"], 2, "names a policy twice"),
        (&["--policy", "dynamic,dynamic", "--", "true"], 2, "names a policy twice"),
        (&["--json", "r.json", "--decisions", "r.json", "--", "true"], 2, "must not be written over"),
        (&["--", "mva"], 2, "needs a class"),
        (&["--", "0*mva.S"], 2, "there can be 1 to 1000 jobs"),
        (&["--", "no-such-program"], 127, "no-such-program"),
        (&["--json", "/no/such/folder/x.json", "--", "true"], 2, "there is no folder"),
    ];
    for (arguments, code, sentence) in cases {
        let output = stayput().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        assert!(text(&output.stderr).contains(sentence), "{arguments:?}: {output:?}");
    }
}
