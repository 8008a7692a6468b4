//! What runs already: bound for a while, read back, and given back what it had, whatever becomes of us.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// Before it has any thread, has the kernel number the next ones from the lowest again, where root may.
const NUMBERS_START_AGAIN: &str = r#"
try:
    last = open("/proc/sys/kernel/pid_max").read()
    open("/proc/sys/kernel/ns_last_pid", "w").write(str(int(last) - 1))
except OSError as error:
    print(error, flush=True)
"#;

/// Has threads that stay, threads that come and go, and a process of its own; one thread chose the last CPU for itself.
const PROGRAM: &str = r#"
import os, sys, threading, time
if os.fork() == 0:
    time.sleep(1000); sys.exit()
def narrow():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))}); time.sleep(1000)
for target in (narrow, lambda: time.sleep(1000)):
    threading.Thread(target=target, daemon=True).start()
time.sleep(0.05); print("ready", flush=True)
while True:
    threading.Thread(target=time.sleep, args=(0.03,)).start(); time.sleep(0.01)
"#;

struct Desk {
    folder: TempDir,
    program: Child,
    /// The process that it forked, which may outlive it.
    forked: String,
}

impl Desk {
    fn new() -> Self {
        Self::with(PROGRAM)
    }

    fn with(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let mut program = Command::new("python3");
        let program = program.args(["-c", text]).stdout(fs::File::create(&out).unwrap()).spawn().unwrap();
        assert!(comes_true(|| fs::read_to_string(&out).is_ok_and(|text| text.contains("ready"))));
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", program.id())).unwrap();
        Self { folder, program, forked: children.trim().to_owned() }
    }

    fn pid(&self) -> String {
        self.program.id().to_string()
    }

    fn command(&self, words: &[&str]) -> Command {
        // Whoever runs this may have signals ignored, as what runs in the background has, and that would be inherited.
        let mut command = Command::new("env");
        command.args(["--default-signal", STAYPUT]).args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn ends(&self, words: &[&str], code: i32) -> String {
        let Output { status, stdout, stderr } = self.command(words).output().unwrap();
        let said = [stdout, stderr].map(|said| String::from_utf8(said).unwrap()).concat();
        assert_eq!(status.code(), Some(code), "{words:?}: {said}");
        said
    }

    /// The masks of the threads that stay, in the order in which they began, and those that any other has which isn't the program's own.
    ///
    /// At a moment there may be no other, so what is told of them is only what differs.
    fn masks(&self) -> (Vec<String>, BTreeSet<String>) {
        // As they began: numbers start again from the lowest some time.
        let threads: Vec<u32> = fs::read_dir(format!("/proc/{}/task", self.pid()))
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
            .collect();
        let mask = |path: String| {
            let status = fs::read_to_string(path).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            Some(line.trim().to_owned())
        };
        let of = |tid: &u32| mask(format!("/proc/{}/task/{tid}/status", self.pid()));
        let mut stay: Vec<String> = threads.iter().take(3).filter_map(of).collect();
        stay.extend(mask(format!("/proc/{}/status", self.forked)));
        let others = threads.iter().skip(3).filter_map(of).filter(|mask| *mask != stay[0]).collect();
        (stay, others)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        for pid in [&self.forked, &self.pid()] {
            let _ = Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status();
        }
        let _ = self.program.wait();
    }
}

fn comes_true(is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(10));
    }
    is_so()
}

#[test]
fn threads_old_and_new_are_bound_and_read_back_and_have_back_what_they_had() {
    let desk = Desk::new();
    let before = desk.masks();
    let usual = ["study", "-q", "--no-report", "--out", "a.stayput", "-n", "1", "--warmup", "0", "--min-runs", "2"];
    let asked =
        ["--max-runs", "2", "--pid", &desk.pid(), "--place", "unbound,0", "--load-place", "0", "--", "sleep", "0.2"];
    desk.ends(&[&usual[..], &asked].concat(), 0);
    assert_eq!(desk.masks(), before);
    let report = desk.command(&["report", "a.stayput", "--format", "json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&report.stdout).unwrap();
    for trial in json["trials"].as_array().unwrap() {
        assert_eq!((trial["status"].as_str(), trial["strayed_threads"].as_u64()), (Some("ok"), Some(0)), "{trial}");
        let threads = trial["actual_cpus"].as_array().unwrap();
        assert!(threads.len() > 5, "threads that come and go are seen: {trial}");
        if trial["placement"] == "0" {
            assert!(threads.iter().all(|cpus| *cpus == serde_json::json!([0])), "{trial}");
        }
        assert_eq!(trial["load"]["actual_cpus"], serde_json::json!([[0]]));
    }
    let subject = &json["plan"]["subjects"][0];
    assert!(subject["name"].as_str().unwrap().starts_with("running python3"), "{subject}");
}

#[test]
fn whatever_ends_it_everything_is_given_back() {
    let desk = Desk::new();
    let before = desk.masks();
    let pid = desk.pid();
    desk.ends(&["run", "--pid", &pid, "--place", "0", "--for", "100ms"], 0);
    assert_eq!(desk.masks(), before, "--for");
    desk.ends(&["run", "--pid", &pid, "--place", "0", "--", "sh", "-c", "sleep 0.1; exit 3"], 3);
    assert_eq!(desk.masks(), before, "a command that fails");
    for signal in ["-INT", "-TERM", "-HUP", "-KILL"] {
        let mut we = desk.command(&["run", "-q", "--pid", &pid, "--place", "0"]).stderr(Stdio::null()).spawn().unwrap();
        assert!(comes_true(|| desk.masks().0.iter().all(|mask| mask == "0")), "{signal}: {:?}", desk.masks());
        Command::new("kill").args([signal, &we.id().to_string()]).status().unwrap();
        we.wait().unwrap();
        assert!(comes_true(|| desk.masks() == before), "{signal}: {:?} and not {before:?}", desk.masks());
    }
}

#[test]
fn numbers_that_start_again_are_in_nobodys_way() {
    // Then the thread that chose its CPU has a lower number than the main thread, and those that come and go, too.
    let desk = Desk::with(&[NUMBERS_START_AGAIN, PROGRAM].concat());
    let before = desk.masks();
    for _ in 0..5 {
        desk.ends(&["run", "-q", "--pid", &desk.pid(), "--place", "0", "--for", "100ms"], 0);
        assert_eq!(desk.masks(), before);
    }
}

#[test]
fn killed_at_twenty_random_moments_no_thread_stays_bound_and_the_same_command_goes_on() {
    let desk = Desk::new();
    let before = desk.masks();
    let usual = ["study", "-q", "--no-report", "--out", "a.stayput", "-n", "1", "--warmup", "0", "--min-runs", "3"];
    let pid = desk.pid();
    let asked = ["--max-runs", "3", "--pid", &pid, "--place", "unbound,0", "--", "sleep", "0.05"];
    let words = [&usual[..], &asked].concat();
    for attempt in 0..20_u64 {
        let mut we = desk.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(10 + 29 * attempt % 300));
        we.kill().unwrap();
        we.wait().unwrap();
        assert!(comes_true(|| desk.masks() == before), "attempt {attempt}: {:?} and not {before:?}", desk.masks());
    }
    desk.ends(&words, 0);
    assert_eq!(desk.masks(), before);
}

#[test]
fn who_kills_all_that_is_called_stayput_leaves_the_one_that_gives_back() {
    let desk = Desk::new();
    let before = desk.masks();
    let mut we = desk.command(&["run", "-q", "--pid", &desk.pid(), "--place", "0"]).spawn().unwrap();
    assert!(comes_true(|| desk.masks().0.iter().all(|mask| mask == "0")));
    // By its command line, as nobody else's has.
    let pattern = format!("run -q --pid {}", desk.pid());
    Command::new("pkill").args(["-9", "-f", &pattern]).status().unwrap();
    we.wait().unwrap();
    assert!(comes_true(|| desk.masks() == before), "{:?} and not {before:?}", desk.masks());
}

#[test]
fn places_may_go_by_names_and_everything_is_given_back_all_the_same() {
    let desk = Desk::new();
    let before = desk.masks();
    let pid = desk.pid();
    // The process that it forked has its name and title, too.
    let words = ["run", "-q", "--pid", &pid, "--place", "0,1", "--unit", "process", "--slot", "python3 = 1"];
    let mut we = desk.command(&words).stderr(Stdio::null()).spawn().unwrap();
    assert!(comes_true(|| desk.masks().0.iter().all(|mask| mask == "1")), "{:?}", desk.masks());
    we.kill().unwrap();
    we.wait().unwrap();
    assert!(comes_true(|| desk.masks() == before), "{:?} and not {before:?}", desk.masks());
    let words = ["run", "-q", "--pid", &pid, "--place", "0,1", "--for", "300ms", "--slot", "python3 = free"];
    let mut we = desk.command(&words).stderr(Stdio::null()).spawn().unwrap();
    assert!(comes_true(|| desk.masks().0.iter().all(|mask| mask == "0-1")), "{:?}", desk.masks());
    assert!(we.wait().unwrap().success());
    assert!(comes_true(|| desk.masks() == before), "{:?} and not {before:?}", desk.masks());
}

#[test]
fn a_program_that_ends_in_the_middle_is_told_and_another_of_its_kind_goes_on() {
    let mut desk = Desk::new();
    let usual = ["study", "-q", "--no-report", "--out", "a.stayput", "-n", "1", "--warmup", "0", "--min-runs", "2"];
    let rest = ["--max-runs", "2", "--place", "unbound,0", "--", "sleep", "0.3"];
    let pid = desk.pid();
    let words = [&usual[..], &["--pid", &pid], &rest].concat();
    let we = desk.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    sleep(Duration::from_millis(500));
    desk.program.kill().unwrap();
    desk.program.wait().unwrap();
    let output = we.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("has ended") && said.contains("goes on"), "{said}");
    let other = Desk::new();
    let pid = other.pid();
    let output = Command::new(STAYPUT)
        .args([&usual[..], &["--pid", &pid, "--retry"], &rest].concat())
        .current_dir(desk.folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_cannot_be_bound_is_refused_in_a_sentence() {
    let desk = Desk::new();
    let pid = desk.pid();
    let own = std::process::id().to_string();
    for (words, part) in [
        (&["run", "--pid", "999999999", "--place", "0"][..], "there is no process 999999999"),
        (&["run", "--pid", "1", "--place", "0"], "process 1 is stayput itself or what it was started by"),
        (&["run", "--pid", &own, "--place", "0"], "is stayput itself or what it was started by"),
        (&["run", "--cgroup", "no/such/group", "--place", "0"], "is no control group"),
        (&["run", "--pid", &pid, "--place", "0", "--sched", "batch"], "can be placed, and nothing else"),
        (
            &["study", "--pid", &pid, "--sched", "default,batch", "--", "true"],
            "only its place and its company can vary",
        ),
        (&["study", "--pid", &pid, "--on", "vm", "--", "true"], "not in an emulated machine"),
        (&["study", "--pid", &pid, "--cgroup", "x", "--", "true"], "can't be given with"),
        (&["study", "--pid", &pid], "is missing"),
    ] {
        let said = desk.ends(words, 2);
        assert!(said.contains(part) && said.lines().count() == 1, "{words:?}: {said}");
    }
}
