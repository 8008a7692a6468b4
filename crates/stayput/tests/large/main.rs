//! Large studies: what a study of many trials, and each form of its report, takes of memory.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod made;
mod spent;

use spent::Spent;
use std::path::{Path, PathBuf};
use std::process::Command;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// Trials of two studies, from which it follows what one of [`LARGE`] takes.
const FEW: u32 = 1_000;
const MANY: u32 = 10_000;
const LARGE: u32 = 100_000;

/// What the study and each form of its report may take here: 200 MB, and a tenth for programs that are larger than what users have, and
/// for what a peak differs by from run to run, which is ten times that in what is extrapolated.
const MOST_BYTES: f64 = 1.1 * 200e6;

/// What a page may take on top of what the table for a terminal does: it draws and lists as many trials of any larger study.
const MOST_BYTES_OF_PAGE: f64 = 40e6;

/// A page with a sample of its trials is no larger than this.
const PAGE_BYTES: usize = 10_000_000;

/// What [`makes_a_journal`] makes, how large, and where.
const KIND: &str = "STAYPUT_TEST_KIND";
const TRIALS: &str = "STAYPUT_TEST_TRIALS";
const JOURNAL: &str = "STAYPUT_TEST_JOURNAL";

#[test]
#[ignore = "the other test runs it, in a process of its own: what a process takes is counted for those that it starts"]
fn makes_a_journal() {
    let journal = PathBuf::from(std::env::var_os(JOURNAL).unwrap());
    let trials = std::env::var(TRIALS).unwrap().parse().unwrap();
    let made = match std::env::var(KIND).unwrap().as_str() {
        "race" => made::make(&made::race(2, trials), &journal),
        _ => made::make(&made::comparison(2, trials), &journal),
    };
    assert_eq!(made, trials as usize);
}

/// What `command`, which is given how many trials there are, takes of memory when there are [`MANY`], and when there are [`LARGE`].
fn peaks(command: impl Fn(u32) -> Command) -> (f64, f64) {
    let [few, many] = [FEW, MANY].map(|trials| Spent::by(&mut command(trials)).peak_bytes as f64);
    (many, many + (many - few).max(0.0) * f64::from(LARGE - MANY) / f64::from(MANY - FEW))
}

/// Checks what a study and the forms of its report take; those of the larger study are left in `folder`.
fn stays_within_memory(kind: &str, forms: &[&str], folder: &Path) {
    let journal = |trials: u32| folder.join(format!("{kind}-{trials}.stayput"));
    let make = |trials: u32| {
        let mut make = Command::new(std::env::current_exe().unwrap());
        make.args(["--exact", "makes_a_journal", "--ignored"]).env(KIND, kind);
        make.env(TRIALS, trials.to_string()).env(JOURNAL, journal(trials));
        make
    };
    let report = |form: &str, trials: u32| {
        let mut report = Command::new(STAYPUT);
        report.arg("report").arg(journal(trials)).args(["--format", form, "--out"]).arg(folder.join(form));
        report
    };
    let check = |what: &str, bytes: f64, most: f64| {
        println!("{kind}, {what}: {:.0} MB", bytes / 1e6);
        assert!(bytes <= most, "{kind}, {what}: {:.0} MB", bytes / 1e6);
    };
    check("the study", peaks(make).1, MOST_BYTES);
    // Which pages are in use at once is chance, of which extrapolation makes ten times as much: the least of three.
    let gone_on_with = (0..3).map(|_| peaks(make).1).fold(f64::INFINITY, f64::min);
    check("the study gone on with", gone_on_with, MOST_BYTES);
    let (many, large) = peaks(|trials| report("terminal", trials));
    check("terminal", large, MOST_BYTES - MOST_BYTES_OF_PAGE / 2.0);
    for form in forms {
        check(form, peaks(|trials| report(form, trials)).1, MOST_BYTES);
    }
    check("html beside terminal", Spent::by(&mut report("html", MANY)).peak_bytes as f64 - many, MOST_BYTES_OF_PAGE);
}

/// One test, since what this process takes is counted for those that it starts: reports are looked at when all have been made.
#[test]
fn large_studies_and_their_reports_stay_within_memory() {
    let folder = tempfile::tempdir().unwrap();
    stays_within_memory("race", &["json"], folder.path());
    stays_within_memory("comparison", &["csv", "json"], folder.path());

    let text = |form: &str| std::fs::read_to_string(folder.path().join(form)).unwrap();
    // A line each, below the heads.
    assert_eq!(text("csv").lines().count(), MANY as usize + 1);
    let json: serde_json::Value = serde_json::from_str(&text("json")).unwrap();
    assert_eq!(json["trials"].as_array().unwrap().len(), MANY as usize);
    let page = text("html");
    assert!(page.len() < PAGE_BYTES, "{}", page.len());
    assert!(page.contains("5000 of 10000 trials as a table"), "the page says that it has a sample");
    assert!(page.contains(" Of so many one in "), "and so do its charts");
}
