//! `stayput advise`: what it predicts, what it refuses to predict, and what becomes of it when it is proved.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A folder with a workload that was inferred from six processes that compute and block by turns.
struct Desk {
    folder: TempDir,
    cpus: usize,
}

/// What differs from one case to the other.
#[derive(Clone, Copy)]
struct Case<'a> {
    seconds: &'a str,
    quantum_percent: f64,
    wait_median_ms: f64,
    /// Further lines on the program.
    more: &'a str,
    command: &'a str,
}

const BUSY: Case<'_> =
    Case { seconds: "3.0", quantum_percent: 97.0, wait_median_ms: 4.0, more: "", command: "[\"true\"]" };

impl Desk {
    fn new() -> Self {
        let cpus = machine::Machine::host().unwrap().usable().count();
        Self { folder: tempfile::tempdir().unwrap(), cpus }
    }

    fn write(&self, case: Case<'_>) {
        let Case { seconds, quantum_percent, wait_median_ms, more, command } = case;
        let text = format!(
            "name = \"app\"\n[[jobs]]\nname = \"app\"\nprocesses = {processes}\n[jobs.process]\nwork_ms = {{ constant = 500 }}\n\
             block_ms = {{ constant = 3 }}\n[jobs.process.intervals.bursts]\nlength_ms = {{ constant = 100 }}\nends = {{ semaphore = 100 }}\n\
             [profile]\nkernel = \"6.12\"\ncpus = {cpus}\nseconds = {seconds}\ncommand = {command}\n[[profile.programs]]\nname = \"app\"\njobs = 1\n\
             dispatch_intervals = 2000\ndispatch_interval_ms = {{ histogram = {{ edges_ms = [3.9, 4.2], percent = [100] }} }}\n\
             ends_percent = {{ quantum = {quantum_percent}, semaphore = {blocked}, synchronization = 0, system_call = 0, tlb_fault = 0, other = 0 }}\n\
             wait_median_ms = {wait_median_ms}\n{more}\n",
            processes = 3 * self.cpus,
            cpus = self.cpus,
            blocked = 100.0 - quantum_percent,
        );
        fs::write(self.folder.path().join("app.toml"), text).unwrap();
    }

    fn advise(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stayput"));
        command.arg("advise").arg("app.toml").args(words).current_dir(self.folder.path());
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// What is printed for a case.
    fn advice(&self, case: Case<'_>) -> String {
        self.write(case);
        let output = self.advise(&[]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The sentence with which a case is refused.
    fn refusal(&self, case: Case<'_>) -> String {
        self.write(case);
        let output = self.advise(&[]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        text(&output.stderr)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_may_gain_by_its_reloads_is_worth_a_study_and_no_more_than_that() {
    let desk = Desk::new();
    if desk.cpus < 2 {
        assert!(desk.refusal(BUSY).contains("this machine has one CPU"));
        return;
    }
    let advice = desk.advice(BUSY);
    assert!(advice.contains("not measured: none to all of the L2"), "{advice}");
    let row = |name: &str| advice.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    // Longer slices reload less often; on kernels that grant none, that is said.
    assert!(row("slice=30").ends_with("yes") || row("slice=30").contains("grants no slices"), "{advice}");
    if row("slice=30").ends_with("yes") {
        assert!(advice.contains("stayput study --sched") && advice.contains("slice=30"), "{advice}");
    }
    assert_eq!(desk.advice(BUSY), advice, "the same file gives the same advice");
    // Where nothing is reloaded there is nothing to gain.
    let nothing = desk.advice(Case { more: "reload_us = { estimate = 0, low = -3, high = 0 }", ..BUSY });
    assert!(nothing.contains("(measured)") && nothing.contains("Nothing is worth a study"), "{nothing}");
    // Nor where next to nothing is touched: 8 KiB take 3 us of a slice of 4 ms.
    let little = desk.advice(Case { more: "touched_kib = 8", ..BUSY });
    assert!(little.contains("0 to 3 (not measured: none to all of the 8 KiB that it touches in a slice)"), "{little}");
    assert!(little.contains("Nothing is worth a study"), "{little}");
    let much = desk.advice(Case { more: "touched_kib = 1e9", ..BUSY });
    let more = much.strip_prefix(&*advice).expect("no more is reloaded than the cache holds");
    // What touches memory can be shown to miss less, by a command that is understood.
    let words = more.lines().find_map(|line| line.strip_prefix("  stayput replay ")).unwrap();
    let policies = "--workload app.toml --policy eevdf,light,heavy,attached,long-slice";
    assert!(words.starts_with(&format!("--on vm:1x{0} --misses 'pack:1 l2:{0}(size=", desk.cpus)), "{more}");
    assert!(words.contains(policies), "{more}");
}

#[test]
fn what_cannot_be_predicted_is_refused_in_a_sentence() {
    let desk = Desk::new();
    if desk.cpus < 2 {
        return;
    }
    let alone = desk.refusal(Case { quantum_percent: 0.0, wait_median_ms: 0.01, ..BUSY });
    assert!(alone.contains("none of its threads waited for a CPU"), "{alone}");
    let short = desk.refusal(Case { seconds: "0.1", ..BUSY });
    assert!(short.contains("too few; profile it for longer"), "{short}");
    let broken = desk.refusal(Case { more: "touched_kib = -1", ..BUSY });
    assert!(broken.contains("app.toml, line") && broken.contains("`touched_kib`"), "{broken}");
    let broken = desk.refusal(Case { seconds: "-1", ..BUSY });
    assert!(broken.contains("app.toml, line") && broken.contains("`seconds`"), "{broken}");
    desk.write(BUSY);
    let elsewhere = fs::read_to_string(desk.folder.path().join("app.toml")).unwrap();
    let elsewhere = elsewhere.replace(&format!("cpus = {}", desk.cpus), &format!("cpus = {}", desk.cpus + 1));
    fs::write(desk.folder.path().join("app.toml"), elsewhere).unwrap();
    let output = desk.advise(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("go where it was profiled"), "{}", text(&output.stderr));
}

#[test]
fn what_is_predicted_is_set_beside_what_a_study_measures() {
    let desk = Desk::new();
    // Whoever profiled no command gets no study.
    if desk.cpus < 2 {
        return;
    }
    let nobody = desk.advice(Case { command: "[]", ..BUSY });
    assert!(!nobody.contains("stayput study --sched"), "{nobody}");
    let advice = desk.advice(BUSY);
    let output = desk.advise(&["--prove", "app.stayput"]);
    let shown = text(&output.stdout);
    if !advice.contains("stayput study --sched") {
        assert!(text(&output.stderr).contains("nothing to prove"), "{shown}");
        return;
    }
    assert!(shown.starts_with(&advice), "{shown}");
    assert!(desk.folder.path().join("app.stayput").exists());
    let verdict = shown.lines().find(|line| line.starts_with("slice=30") && line.contains("predicted")).unwrap();
    let held = verdict.ends_with(": held");
    assert!(held || verdict.ends_with("did not hold"), "{verdict}");
    assert_eq!(output.status.code(), Some(if held { 0 } else { 1 }), "{verdict}");
}
