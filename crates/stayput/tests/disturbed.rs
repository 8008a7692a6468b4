//! A run that stood still has no time of the program's: it is kept, told, run again, and counted nowhere.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use rusqlite::Connection;
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// Its first run takes long enough to be stopped in the middle; it says who it is.
const PROGRAM: &str = "test -e done || { echo $$ > pid.new; mv pid.new pid; sleep 1.5; touch done; }";

struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// In a process group of its own, as a shell starts it.
    fn start(&self, words: &[&str], program: &str) -> Child {
        let mut command = Command::new(STAYPUT);
        command.args(words).args(["--", "sh", "-c", program]).current_dir(self.0.path()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn study(&self, program: &str) -> Child {
        let words = ["study", "-n", "1", "--place", "unbound", "--min-runs", "2", "--max-runs", "2"];
        self.start(&[&words[..], &["--out", "a.stayput"]].concat(), program)
    }

    /// The program's id, once its first run is at work.
    fn program(&self) -> libc::pid_t {
        let begun = Instant::now();
        loop {
            if let Some(pid) = fs::read_to_string(self.path("pid")).ok().and_then(|pid| pid.trim().parse().ok()) {
                return pid;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "the program never began");
            sleep(Duration::from_millis(5));
        }
    }

    fn report(&self, form: &str) -> String {
        let output =
            Command::new(STAYPUT).args(["report", "a.stayput", "--format", form]).current_dir(self.0.path()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    /// The study ended well, with one run that was disturbed by `what`; its counted runs are as many as were asked for.
    fn assert_one_disturbed(&self, output: &Output, what: &str) {
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        let json: Value = serde_json::from_str(&self.report("json")).unwrap();
        let disturbed = json["disturbed"].as_array().unwrap();
        assert_eq!(disturbed.len(), 1, "{disturbed:?}");
        assert_eq!(disturbed[0]["status"], "disturbed");
        assert_eq!(disturbed[0]["time_s"], Value::Null);
        assert!(disturbed[0]["cause"].as_str().unwrap().starts_with(what), "{disturbed:?}");
        let trials = json["trials"].as_array().unwrap();
        assert!(trials.iter().all(|trial| trial["status"] == "ok"), "{trials:?}");
        assert_eq!(trials.iter().filter(|trial| trial["warmup"] == false).count(), 2, "{trials:?}");
        let finding = json["findings"]["warnings"].as_array().unwrap().iter().find(|w| w["warning"] == "disturbed");
        assert_eq!(finding.unwrap()["trials"], 1);
        for form in ["terminal", "html", "markdown", "latex"] {
            let report = self.report(form).split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(report.contains("1 run was disturbed and run again"), "{form}: {report}");
        }
        assert!(self.report("csv").contains(",disturbed,"));
    }
}

fn send(pid: libc::pid_t, signal: libc::c_int) {
    // SAFETY: sending a signal touches no memory of ours.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "{signal} to {pid}");
}

/// Stops a process, or a group whose number is negative, for a while.
fn stop_for_a_while(pid: libc::pid_t) {
    send(pid, libc::SIGSTOP);
    sleep(Duration::from_millis(700));
    send(pid, libc::SIGCONT);
}

#[test]
fn a_stop_of_stayput_alone_disturbs_the_run() {
    let desk = Desk::new();
    let study = desk.study(PROGRAM);
    desk.program();
    stop_for_a_while(study.id() as libc::pid_t);
    desk.assert_one_disturbed(&study.wait_with_output().unwrap(), "stayput was stopped by a signal");
}

/// A control group that can be frozen, gone when dropped; none where this user may not make one.
struct Freezer {
    folder: PathBuf,
    /// The file that says so, and what it takes to freeze and to thaw.
    switch: (&'static str, [&'static str; 2]),
}

impl Freezer {
    fn new() -> Option<Self> {
        let name = format!("stayput-test-{}", std::process::id());
        let places = [
            ("/sys/fs/cgroup/freezer", ("freezer.state", ["FROZEN", "THAWED"])),
            ("/sys/fs/cgroup", ("cgroup.freeze", ["1", "0"])),
        ];
        places.into_iter().find_map(|(root, switch)| {
            let freezer = Self { folder: PathBuf::from(root).join(&name), switch };
            fs::create_dir(&freezer.folder).ok()?;
            freezer.folder.join(switch.0).exists().then_some(freezer)
        })
    }

    fn add(&self, pid: libc::pid_t) {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    fn freeze_for_a_while(&self) {
        let (file, [freeze, thaw]) = self.switch;
        fs::write(self.folder.join(file), freeze).unwrap();
        sleep(Duration::from_millis(900));
        fs::write(self.folder.join(file), thaw).unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        // It can be removed when the last process in it has ended.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_frozen_control_group_disturbs_the_run() {
    let Some(freezer) = Freezer::new() else {
        return eprintln!("skipped: no control group that this user may freeze");
    };
    let desk = Desk::new();
    let study = desk.study(PROGRAM);
    freezer.add(study.id() as libc::pid_t);
    freezer.add(desk.program());
    freezer.freeze_for_a_while();
    desk.assert_one_disturbed(&study.wait_with_output().unwrap(), "stayput, or the whole machine, stood still");
}

#[test]
fn a_stop_of_its_process_group_disturbs_the_run() {
    let desk = Desk::new();
    let study = desk.study(PROGRAM);
    desk.program();
    stop_for_a_while(-(study.id() as libc::pid_t));
    desk.assert_one_disturbed(&study.wait_with_output().unwrap(), "stayput was stopped by a signal");
}

#[test]
fn a_stop_that_outlasts_the_program_disturbs_its_run() {
    let desk = Desk::new();
    // It starts no other process, whose birth would wait for us.
    let work = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
    let study = desk.study(&format!("test -e done || {{ echo $$ > pid; {work}; : > done; }}"));
    desk.program();
    let pid = study.id() as libc::pid_t;
    send(pid, libc::SIGSTOP);
    let begun = Instant::now();
    while !desk.path("done").exists() && begun.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(5));
    }
    sleep(Duration::from_millis(100));
    send(pid, libc::SIGCONT);
    desk.assert_one_disturbed(&study.wait_with_output().unwrap(), "stayput was stopped by a signal");
}

#[test]
fn a_stop_of_the_program_by_others_disturbs_its_run() {
    let desk = Desk::new();
    let study = desk.study(PROGRAM);
    stop_for_a_while(desk.program());
    desk.assert_one_disturbed(&study.wait_with_output().unwrap(), "the program was stopped by a signal");
}

#[test]
fn a_program_that_stops_itself_is_not_disturbed() {
    let desk = Desk::new();
    let study = desk.study("(sleep 0.2; kill -CONT $$) & kill -STOP $$; wait");
    let output = study.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_str(&desk.report("json")).unwrap();
    assert_eq!(json["disturbed"], Value::Null);
}

#[test]
fn a_study_whose_disturbances_go_on_ends_with_a_sentence_and_can_be_gone_on_with() {
    let desk = Desk::new();
    let long = "echo $$ > pid.new; mv pid.new pid; test -e calm || sleep 0.5";
    let mut study = desk.study(long);
    while study.try_wait().unwrap().is_none() {
        if fs::remove_file(desk.path("pid")).is_ok() {
            send(study.id() as libc::pid_t, libc::SIGSTOP);
            sleep(Duration::from_millis(50));
            send(study.id() as libc::pid_t, libc::SIGCONT);
        }
        sleep(Duration::from_millis(5));
    }
    let output = study.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("5 runs in a row were disturbed"), "{said}");
    let count = |sql: &str| -> i64 {
        let journal = Connection::open(desk.path("a.stayput")).unwrap();
        journal.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count("SELECT count(*) FROM disturbed"), 5);
    assert_eq!(count("SELECT count(*) FROM trial"), 0);
    fs::write(desk.path("calm"), "").unwrap();
    let output = desk.study(long).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(count("SELECT count(*) FROM disturbed"), 5, "they are kept");
    assert_eq!(count("SELECT count(*) FROM trial WHERE status = 'ok' AND NOT warmup"), 2);
}

#[test]
fn a_run_says_that_it_was_stopped() {
    let desk = Desk::new();
    let run = desk.start(&["run"], PROGRAM);
    desk.program();
    stop_for_a_while(-(run.id() as libc::pid_t));
    let output = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains(" was stopped by a signal for "), "{said}");
}
