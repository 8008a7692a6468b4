//! `stayput profile` from the command line: what it writes, to whom it says what, and that it ends.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// A user who may do nothing in particular.
const NOBODY: u32 = 65_534;

struct Desk(TempDir);

impl Desk {
    /// A folder that everybody may use, with the command in it: where it is built, others may not look.
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::hard_link(env!("CARGO_BIN_EXE_stayput"), folder.path().join("stayput"))
            .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_stayput"), folder.path().join("stayput")).map(drop))
            .unwrap();
        Self(folder)
    }

    fn command(&self, words: &[&str]) -> Command {
        // Whoever runs this may have signals ignored, as what runs in the background has, and that would be inherited.
        let mut command = Command::new("env");
        command.args(["--default-signal", "./stayput", "profile"]).args(words);
        command.current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.0.path().join(name)).unwrap()).unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn program<'a>(profile: &'a Value, name: &str) -> &'a Value {
    let programs = profile["programs"].as_array().unwrap();
    programs.iter().find(|program| program["name"] == name).unwrap_or_else(|| panic!("{profile:#}"))
}

/// Whether anything may be counted in the kernel here; says it if not.
fn can_count(output: &Output) -> bool {
    let refused = text(&output.stderr);
    let is_refused = refused.contains("from records") || refused.contains("without that");
    if is_refused {
        println!("skipped: {refused}");
    }
    !is_refused
}

const SLEEPS: &str = "for i in 1 2 3 4 5; do sleep 0.01; done";

#[test]
fn a_reload_is_measured_after_the_profile_whoever_profiles() {
    let desk = Desk::new();
    let counts = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let words = ["--reload", "--for", "20s", "--json", "p.json", "--", "sh", "-c", counts];
    let output = desk.command(&words).output().unwrap();
    let said = text(&output.stderr);
    if said.contains("isn't told by its kernel") || said.contains("perf_event_open") {
        return println!("skipped: {said}");
    }
    assert!(output.status.success() && said.contains("reload of L2: "), "{said}");
    assert!(program(&desk.json("p.json"), "sh")["reload_us"]["estimate"].is_number(), "{said}");
}

#[test]
fn a_profile_has_what_was_agreed_and_the_simulator_takes_its_workload() {
    let desk = Desk::new();
    let words = ["--json", "p.json", "--workload", "p.toml", "--", "sh", "-c", SLEEPS];
    let output = desk.command(&words).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("What ended them") && shown.contains("What affinity can gain"), "{shown}");
    let profile = desk.json("p.json");
    for key in ["seconds", "lost_events", "programs"] {
        assert!(!profile[key].is_null(), "{key}");
    }
    let sleep = program(&profile, "sleep");
    for key in ["name", "threads", "cpu_s", "switches", "dispatch_intervals", "ends_percent", "migrations", "potential"]
    {
        assert!(!sleep[key].is_null(), "{key}: {sleep:#}");
    }
    assert!(sleep["reload_us"].is_null());
    assert_eq!(sleep["threads"], 5);
    let ends = &sleep["ends_percent"];
    let causes = ["quantum", "semaphore", "synchronization", "system_call", "tlb_fault", "other"];
    let sum: f64 = causes.iter().map(|cause| ends[cause].as_f64().unwrap()).sum();
    assert!((sum - 100.0).abs() < 1e-6, "{ends}");
    let simulated = Command::new(desk.0.path().join("stayput"))
        .args(["simulate", "time-sharing", "--policy", "eevdf", "--machine", "host", "--replicates", "1", "--quiet"])
        .args(["--workload", "p.toml"])
        .current_dir(desk.0.path())
        .output()
        .unwrap();
    assert!(simulated.status.success(), "{}", text(&simulated.stderr));
    if can_count(&output) {
        assert_eq!(profile["source"], "bpf");
        let lost = profile["lost_events"].as_u64().unwrap();
        assert!(sleep["system_calls"]["timer"].as_u64().unwrap().abs_diff(5) <= lost, "{sleep:#}");
    }
}

#[test]
fn a_trace_is_a_file_of_its_own_and_gets_its_name_when_it_is_whole() {
    let desk = Desk::new();
    let words = ["--json", "p.json", "--trace", "p.pftrace", "--", "sh", "-c", SLEEPS];
    let output = desk.command(&words).output().unwrap();
    if can_count(&output) {
        assert!(output.status.success(), "{}", text(&output.stderr));
        let trace = &desk.json("p.json")["trace"];
        let file = fs::metadata(desk.0.path().join("p.pftrace")).unwrap();
        assert_eq!((trace["bytes"].as_u64(), trace["lost_events"].as_u64()), (Some(file.len()), Some(0)));
        let events = trace["events"].as_u64().unwrap();
        assert!(text(&output.stdout).contains(&format!("Trace: {events} events, none lost")));
        assert!(!desk.0.path().join("p.pftrace.incomplete").exists());
        // What can't be started leaves the former trace as it was.
        let output = desk.command(&["--trace", "p.pftrace", "--", "./no-such-program"]).output().unwrap();
        assert!(!output.status.success());
        assert_eq!(fs::metadata(desk.0.path().join("p.pftrace")).unwrap().len(), file.len());
        assert!(!desk.0.path().join("p.pftrace.incomplete").exists());
    }
    for words in [
        &["--trace", "-", "--", "true"][..],
        &["--trace", "/dev/null", "--", "true"],
        &["--trace", "p.json", "--json", "p.json", "--", "true"],
        &["--trace", "nowhere/p.pftrace", "--", "true"],
    ] {
        let output = desk.command(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output.stderr));
    }
    // Without privileges there is no trace, and no file.
    if is_root() {
        let output = desk.command(&["--trace", "q.pftrace", "--", "true"]).uid(NOBODY).gid(NOBODY).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("without that there is no trace"), "{said}");
        assert!(!desk.0.path().join("q.pftrace").exists() && !desk.0.path().join("q.pftrace.incomplete").exists());
    }
}

#[test]
fn what_would_prove_a_judgement_is_a_command_to_paste() {
    let desk = Desk::new();
    let spins = "for i in 1 2 3 4 5 6 7 8; do (i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done) & done; wait";
    let output = desk.command(&["--json", "p.json", "--", "sh", "-c", spins]).output().unwrap();
    let shown = text(&output.stdout);
    let profile = desk.json("p.json");
    let potentials =
        profile["programs"].as_array().unwrap().iter().map(|program| program["potential"].as_str().unwrap());
    let may_gain = potentials.into_iter().any(|word| !["unknown", "none"].contains(&word));
    let line = format!("  stayput study --sched default,attached,slice=30 -- sh -c '{spins}'\n");
    assert_eq!(shown.ends_with(&format!("\nWhat would prove it\n{line}")), may_gain, "{shown}");
}

#[test]
fn without_privileges_a_command_is_profiled_by_its_records() {
    let desk = Desk::new();
    let mut command = desk.command(&["--json", "p.json", "--", "sh", "-c", SLEEPS]);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    if said.contains("perf_event_open") {
        return println!("skipped: {said}");
    }
    assert!(output.status.success(), "{said}");
    let profile = desk.json("p.json");
    if profile["source"] == "bpf" {
        return println!("skipped: everybody may count in the kernel here");
    }
    assert!(said.contains("from records, which tell less"), "{said}");
    assert_eq!((&profile["source"], &profile["lost_events"]), (&"records".into(), &0.into()));
    let sleep = program(&profile, "sleep");
    assert_eq!((&sleep["threads"], &sleep["exits"]), (&5.into(), &5.into()));
    assert_eq!(sleep["potential"], "unknown");
    assert!(sleep["histograms"]["block"]["count"].as_u64() >= Some(5), "{sleep:#}");
    assert!(profile["untold"].as_array().unwrap().len() > 3);
    // What runs already would take privileges.
    let mut command = desk.command(&["--all", "--for", "0.1s"]);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("CAP_BPF"), "{}", text(&output.stderr));
}

fn is_root() -> bool {
    // SAFETY: it only reads a number of the process.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn a_command_that_fails_fails_the_profile() {
    let desk = Desk::new();
    for (words, code, why) in [
        (["--", "false"], 1, "exit code 1"),
        (["--", "./no-such-program"], 127, "not found"),
        (["--pid", "2147483647"], 2, "there is no process"),
        (["--cgroup", "no/such/group"], 2, "is no control group"),
    ] {
        let output = desk.command(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(why), "{words:?}: {}", text(&output.stderr));
    }
}

#[test]
fn ctrl_c_ends_a_profile_and_prints_it() {
    let desk = Desk::new();
    let mut target = Command::new("sh").args(["-c", "while :; do sleep 0.01; done"]).spawn().unwrap();
    let pid = target.id().to_string();
    let child: Child = desk.command(&["--pid", &pid]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    sleep(Duration::from_millis(1_500));
    // SAFETY: it sends a signal to a child that is not yet waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    target.kill().unwrap();
    target.wait().unwrap();
    if can_count(&output) {
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("sleep"), "{}", text(&output.stdout));
    }
}
