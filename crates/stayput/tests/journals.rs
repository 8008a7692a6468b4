//! A study is one file: whenever it is interrupted or killed, wherever it is copied to, and whoever reads it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use study::{Comparison, Journal};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// A folder in which studies are made.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        // Whoever runs the tests in the background may have them ignore SIGINT.
        let mut command = Command::new("env");
        command
            .args(["--default-signal=HUP,INT,QUIT,TERM", STAYPUT])
            .args(words)
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        command
    }

    fn stayput(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// A study at work that ends by itself only much later.
    fn long_study(&self, out: &str, program: &[&str]) -> Child {
        let words = ["study", "--quiet", "--no-report", "-n", "1", "--min-runs", "90000", "--max-runs", "90000"];
        self.command(&words).args(["--out", out, "--"]).args(program).spawn().unwrap()
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn trials(journal: &Path) -> usize {
    Journal::<Comparison>::read(journal).map_or(0, |record| record.trials.len())
}

/// What the bytes of one file hold, whatever lies beside it.
fn trials_in_file(journal: &Path) -> i64 {
    let uri = format!("file:{}?immutable=1", journal.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri, flags).unwrap();
    connection.query_row("SELECT count(*) FROM trial", [], |row| row.get(0)).unwrap()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let so = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        is_so()
    });
    assert!(so, "{what}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn reported(output: &Output) -> usize {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["trials"].as_array().unwrap().len()
}

#[test]
fn interrupted_at_any_moment_a_study_is_one_plain_file() {
    // A program that does nothing leaves as much time between the runs as in them.
    for (moment, signal) in ["TERM", "INT", "HUP", "TERM", "INT", "TERM"].into_iter().enumerate() {
        let desk = Desk::new();
        let study = desk.long_study("a.stayput", &["true"]);
        wait_for("the study begins", || trials(&desk.path("a.stayput")) > 10);
        std::thread::sleep(Duration::from_micros(700 * moment as u64));
        assert!(Command::new("kill").args(["-s", signal, &study.id().to_string()]).status().unwrap().success());
        let output = study.wait_with_output().unwrap();
        let said = text(&output.stderr);
        let number = match signal {
            "TERM" => 15,
            "INT" => 2,
            _ => 1,
        };
        assert_eq!(output.status.signal(), Some(number), "{said}");
        assert!(said.contains("a.stayput keeps what was measured, and the same command goes on"), "{said}");
        assert_eq!(desk.files(), ["a.stayput"]);
        assert!(trials_in_file(&desk.path("a.stayput")) > 10);
        let record = Journal::<Comparison>::read(&desk.path("a.stayput")).unwrap();
        assert!(record.sessions[0].after.is_some(), "the end of the work was written");
    }
}

#[test]
fn a_simulation_that_is_interrupted_is_one_plain_file_and_goes_on() {
    let desk = Desk::new();
    let words = ["simulate", "time-sharing", "--workload", "spin:4", "--horizon-ms", "2000", "--quiet"];
    let simulation = desk.command(&words).args(["--replicates", "200000", "--out", "a.stayput"]).spawn().unwrap();
    wait_for("it begins", || desk.path("a.stayput-wal").exists());
    assert!(Command::new("kill").args(["-s", "TERM", &simulation.id().to_string()]).status().unwrap().success());
    let output = simulation.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(15), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("a.stayput keeps what was measured"));
    assert_eq!(desk.files(), ["a.stayput"]);
}

/// A journal whose writer was killed, with what it left; and how many trials there are.
fn killed(desk: &Desk) -> usize {
    let mut study = desk.long_study("a.stayput", &["true"]);
    wait_for("the study begins", || trials(&desk.path("a.stayput")) > 10);
    study.kill().unwrap();
    study.wait().unwrap();
    assert!(desk.path("a.stayput-wal").exists(), "{:?}", desk.files());
    let copies = Desk::new();
    for name in desk.files() {
        fs::copy(desk.path(&name), copies.path(&name)).unwrap();
    }
    trials(&copies.path("a.stayput"))
}

#[test]
fn whoever_reads_a_study_that_was_killed_makes_it_one_file_again() {
    let desk = Desk::new();
    let left = killed(&desk);
    assert!(left > 10);
    let output = desk.stayput(&["report", "a.stayput", "--format", "json"]);
    assert_eq!(reported(&output), left);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(desk.files(), ["a.stayput"]);
    assert_eq!(trials_in_file(&desk.path("a.stayput")), left as i64);
}

#[test]
fn what_may_only_be_read_is_read() {
    let desk = Desk::new();
    let left = killed(&desk);
    // A disk that nobody may write to, for root neither: the journal with the file beside it, and as a copy without.
    let script = "mount -t tmpfs -o size=8m none disk || exit 77
         mkdir disk/whole disk/alone && cp a.stayput a.stayput-wal disk/whole && cp a.stayput disk/alone
         mount -o remount,ro disk || exit 77
         for folder in whole alone; do $STAYPUT report disk/$folder/a.stayput --format json > $folder.json || exit 1; done
         ls disk/whole disk/alone";
    fs::create_dir(desk.path("disk")).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script])
        .env("STAYPUT", STAYPUT)
        .current_dir(desk.0.path())
        .output()
        .unwrap();
    let said = text(&output.stderr);
    if output.status.code() == Some(77) || said.contains("unshare") {
        eprintln!("skipped: no private mount here: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let count = |name: &str| {
        let report: Value = serde_json::from_slice(&fs::read(desk.path(name)).unwrap()).unwrap();
        report["trials"].as_array().unwrap().len()
    };
    assert_eq!(count("whole.json"), left);
    assert!(count("alone.json") <= left);
    assert!(said.contains("disk/alone/a.stayput was copied while its study was at work"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_copy_of_a_study_at_work_says_that_it_may_lack_runs_and_lacks_few() {
    let desk = Desk::new();
    let mut study = desk.long_study("a.stayput", &["true"]);
    wait_for("the study begins", || trials(&desk.path("a.stayput")) > 10);
    fs::copy(desk.path("a.stayput"), desk.path("early.stayput")).unwrap();
    wait_for("runs are copied into the file itself", || trials_in_file(&desk.path("a.stayput")) > 10);
    // Copied between two copies into it, as far as a test can choose that.
    wait_for("the copy is whole", || {
        fs::copy(desk.path("a.stayput"), desk.path("late.stayput")).unwrap();
        trials(&desk.path("late.stayput")) > 10
    });
    let at_work = desk.stayput(&["report", "a.stayput", "--format", "json"]);
    assert_eq!(text(&at_work.stderr), "", "nothing is lacking where the study is");
    study.kill().unwrap();
    study.wait().unwrap();
    let at_least = trials(&desk.path("a.stayput"));
    for (name, most) in [("early.stayput", at_least), ("late.stayput", at_least)] {
        let before = desk.files();
        let output = desk.stayput(&["report", name, "--format", "json"]);
        let said = text(&output.stderr);
        assert!(said.contains("was copied while its study was at work: it may lack the last runs"), "{said}");
        assert!(said.contains(&format!("{name}-wal")), "{said}");
        assert!(reported(&output) <= most);
        assert_eq!(desk.files(), before, "nothing is left beside it");
    }
}

/// A study of a moment.
const SHORT: [&str; 11] =
    ["study", "--quiet", "-n", "1", "--place", "unbound,0", "--min-runs", "2", "--max-runs", "2", "--"];

fn short_study(desk: &Desk, program: &[&str]) -> Output {
    let output = desk.stayput(&[&SHORT, program].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

fn journal_of(output: &Output) -> String {
    let said = text(&output.stdout);
    said.lines().find_map(|line| line.strip_prefix("journal: ")).unwrap().to_owned()
}

#[test]
fn other_arguments_are_another_journal_and_the_same_command_goes_on_with_its_own() {
    let desk = Desk::new();
    let commands: [&[&str]; 4] =
        [&["true"], &["true", "1000"], &["sh", "-c", "exit 0 # 1"], &["sh", "-c", "exit 0 # (1)"]];
    let journals = commands.map(|program| journal_of(&short_study(&desk, program)));
    assert_eq!(journals[..3], ["true.stayput", "true-1000.stayput", "sh-c-exit-0-1.stayput"]);
    assert!(journals[3].starts_with("sh-c-exit-0-1-"), "{journals:?}");
    let before: Vec<Vec<u8>> = journals.iter().map(|name| fs::read(desk.path(name)).unwrap()).collect();
    for (program, (journal, before)) in commands.iter().zip(journals.iter().zip(&before)) {
        let again = short_study(&desk, program);
        assert_eq!(journal_of(&again), *journal);
        assert!(fs::read(desk.path(journal)).unwrap() == *before, "{journal}: nothing was run, and something written");
    }
    // So is the same command with its processes bound, as a report advises.
    let mut bound = vec!["study", "--quiet", "--no-report", "-n", "1", "--place", "unbound,0", "--min-runs", "2"];
    bound.extend(["--max-runs", "2", "--unit", "process", "--", "true"]);
    assert!(journal_of(&desk.stayput(&bound)).starts_with("true-"));
    // A race is another study of the same command.
    let race = desk.stayput(&["study", "--quiet", "--best", "-n", "1", "--runs", "4", "--", "true"]);
    assert_eq!(journal_of(&race), "true-best.stayput", "{}", text(&race.stderr));
    // As versions did that knew no arguments in names.
    fs::rename(desk.path("true-1000.stayput"), desk.path("true.stayput")).unwrap();
    assert_eq!(journal_of(&short_study(&desk, &["true", "1000"])), "true.stayput");
}

#[test]
fn force_starts_anew_and_keeps_what_was_there_with_its_report() {
    let desk = Desk::new();
    short_study(&desk, &["true"]);
    let (journal, page) = (fs::read(desk.path("true.stayput")).unwrap(), fs::read(desk.path("true.html")).unwrap());
    let seeded = [&["study", "--seed", "2"], &SHORT[1..], &["true"]].concat();
    let refused = desk.stayput(&seeded);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("study --force starts anew"), "{}", text(&refused.stderr));
    let forced = desk.stayput(&[&["study", "--force", "--seed", "2"], &SHORT[1..], &["true"]].concat());
    assert!(forced.status.success(), "{}", text(&forced.stderr));
    assert!(text(&forced.stderr).contains("true.stayput is now true.old-1.stayput"), "{}", text(&forced.stderr));
    assert_eq!(fs::read(desk.path("true.old-1.stayput")).unwrap(), journal);
    assert_eq!(fs::read(desk.path("true.old-1.html")).unwrap(), page);
    assert_eq!(Journal::<Comparison>::read(&desk.path("true.stayput")).unwrap().plan.plan.seed, 2);
    let again = desk.stayput(&[&["study", "--force"], &SHORT[1..], &["true"]].concat());
    assert!(text(&again.stderr).contains("true.old-2.stayput"), "{}", text(&again.stderr));
    assert_eq!(fs::read(desk.path("true.old-1.stayput")).unwrap(), journal);
    // What isn't a journal is somebody's file, and one that is written is not taken away.
    fs::write(desk.path("notes"), "some notes that somebody wants to keep as they are, of course. ".repeat(9)).unwrap();
    let notes = desk.stayput(&["study", "--force", "--out", "notes", "--", "true"]);
    assert!(text(&notes.stderr).contains("notes is not a stayput journal"), "{}", text(&notes.stderr));
    let mut study = desk.long_study("busy.stayput", &["true"]);
    wait_for("the study begins", || trials(&desk.path("busy.stayput")) > 1);
    let busy = desk.stayput(&["study", "--force", "--out", "busy.stayput", "--", "true"]);
    study.kill().unwrap();
    study.wait().unwrap();
    assert!(text(&busy.stderr).contains("another stayput is working"), "{}", text(&busy.stderr));
}

#[test]
fn report_without_a_file_lists_the_journals_of_the_folder() {
    let desk = Desk::new();
    let none = desk.stayput(&["report"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("there is no journal in this folder"));
    short_study(&desk, &["true", "a b"]);
    let mut study = desk.long_study("cut.stayput", &["true"]);
    wait_for("the study begins", || trials(&desk.path("cut.stayput")) > 1);
    let at_work = text(&desk.stayput(&["report"]).stdout);
    assert!(at_work.lines().any(|line| line.starts_with("cut.stayput") && line.contains(" at-work ")), "{at_work}");
    study.kill().unwrap();
    study.wait().unwrap();
    desk.stayput(&["simulate", "time-sharing", "--workload", "spin:2", "--horizon-ms", "50", "--out", "s.stayput"]);
    fs::write(desk.path("broken.stayput"), "no journal at all, but somebody called it one ".repeat(9)).unwrap();
    let output = desk.stayput(&["report"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let list = text(&output.stdout);
    let line = |name: &str| list.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert_eq!(list.lines().count(), 5, "{list}");
    let short = line("true-a-b.stayput");
    assert!(short.contains(" comparison ") && short.contains(" 6 ") && short.contains(" ended "), "{short}");
    let command = "stayput study --quiet -n 1 --place unbound,0 --min-runs 2 --max-runs 2 -- true 'a b'";
    assert!(short.ends_with(command), "{short}");
    assert!(line("cut.stayput").contains(" unfinished "), "{list}");
    assert!(line("s.stayput").contains(" simulation "), "{list}");
    assert!(line("broken.stayput").contains("is not a stayput journal"), "{list}");
    assert_eq!(list.lines().nth(1).unwrap(), line("s.stayput"), "the last one first");
    let folder = desk.0.path().to_str().unwrap();
    let elsewhere = Command::new(STAYPUT).args(["report", folder]).current_dir("/").output().unwrap();
    assert_eq!(text(&elsewhere.stdout).lines().count(), 5);
    assert_eq!(desk.stayput(&["report", "--format", "json"]).status.code(), Some(2));
}
