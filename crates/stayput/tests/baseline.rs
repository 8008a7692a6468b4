//! Studies held against earlier ones: a loss is told, limited, and written for those who build and review.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

struct Desk(TempDir);

impl Desk {
    /// A desk with the journal `base.stayput` of a program that takes 40 ms.
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        desk.program("0.04");
        let output = desk.study(&["--out", "base.stayput"]);
        assert!(output.status.success(), "{}", said(&output));
        desk
    }

    fn program(&self, seconds: &str) {
        let path = self.0.path().join("app");
        fs::write(&path, format!("#!/bin/sh\nsleep {seconds}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }

    fn stayput(&self, words: &[&str]) -> Output {
        Command::new(STAYPUT).args(words).current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap()
    }

    fn study(&self, words: &[&str]) -> Output {
        let usual =
            ["study", "-q", "--no-report", "-n", "1", "--place", "unbound", "--min-runs", "6", "--max-runs", "6"];
        self.stayput(&[&usual[..], words, &["--", "./app"]].concat())
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap()
    }
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned()).concat()
}

const GATE: [&str; 8] =
    ["--baseline", "base.stayput", "--max-loss", "20%", "--junit", "loss.xml", "--comment", "loss.md"];

#[test]
fn a_loss_beyond_the_limit_fails_and_is_written_for_builds_and_reviews() {
    let desk = Desk::new();
    desk.program("0.08");
    let output = desk.study(&[&GATE[..], &["--out", "new.stayput"]].concat());
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("more than the 20 % allowed") && text.contains("Runs of two studies aren't paired"),
        "{text}"
    );
    let junit = desk.file("loss.xml");
    assert!(
        junit.starts_with("<?xml") && junit.contains("failures=\"1\"") && junit.contains("<failure message=\"./app, "),
        "{junit}"
    );
    let comment = desk.file("loss.md");
    assert!(
        comment.contains("| ./app | 1 | unbound | time [s] |") && comment.contains("more is lost than allowed"),
        "{comment}"
    );
    // It is there to be gone on with, and its answer is the same.
    let again = desk.study(&[&GATE[..], &["--out", "new.stayput"]].concat());
    assert_eq!(again.status.code(), Some(1), "{}", said(&again));
}

#[test]
fn no_loss_passes_and_a_gain_does() {
    let desk = Desk::new();
    for (seconds, journal) in [("0.04", "same.stayput"), ("0.01", "faster.stayput")] {
        desk.program(seconds);
        let output =
            desk.study(&["--baseline", "base.stayput", "--max-loss", "50", "--junit", "ok.xml", "--out", journal]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(said(&output).contains("within the 50 % allowed"), "{}", said(&output));
        assert!(desk.file("ok.xml").contains("failures=\"0\""));
    }
    let told = desk.study(&["--against", "base.stayput", "--out", "told.stayput"]);
    assert_eq!(told.status.code(), Some(0), "without a limit a loss or gain is told alone");
    assert!(said(&told).contains("Against base.stayput of "), "{}", said(&told));
}

#[test]
fn what_has_nothing_in_common_or_is_the_same_file_is_refused_before_anything_runs() {
    let desk = Desk::new();
    for (words, part) in [
        (
            &["--baseline", "base.stayput", "--out", "base.stayput"][..],
            "is the journal that this very study would go on with",
        ),
        (&["--baseline", "base.stayput", "--metric", "a lower = a: (.*)"], "no program in common"),
        (&["--baseline", "base.stayput", "--max-loss", "compact=3"], "no placement `compact`"),
        (&["--baseline", "none.stayput"], "none.stayput"),
        (&["--baseline", "app"], "app is not a stayput journal"),
        (&["--baseline", "base.stayput", "--junit", "base.stayput"], "base.stayput"),
    ] {
        let output =
            desk.study(&[words, if words.contains(&"--out") { &[] } else { &["--out", "new.stayput"] }].concat());
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        assert!(text.contains(part) && text.lines().count() == 1, "{words:?}: {text}");
        assert!(!desk.0.path().join("new.stayput").exists(), "{words:?}");
    }
}

#[test]
fn the_recipes_of_the_page_run_as_plain_shell() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/continuous-integration.md");
    let page = fs::read_to_string(page).unwrap();
    let recipes: Vec<&str> = page.split("```yaml").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(recipes.len(), 2);
    for recipe in recipes {
        let desk = Desk::new();
        let (after, before) = (desk.0.path().join("after"), desk.0.path().join("before"));
        for (folder, seconds) in [(&before, "0.02"), (&after, "0.06")] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("app"), format!("#!/bin/sh\nsleep {seconds}\n")).unwrap();
            fs::set_permissions(folder.join("app"), Permissions::from_mode(0o755)).unwrap();
        }
        let commands = recipe.lines().map(|line| line.trim().trim_start_matches("- "));
        let commands: Vec<&str> = commands.filter(|line| line.starts_with("stayput study")).collect();
        assert_eq!(commands.len(), 2, "{recipe}");
        for (command, code) in commands.into_iter().zip([0, 1]) {
            let short = command.replace("study -q", "study -q -n 1 --place unbound --max-runs 6 --min-runs 6");
            let line = short.replacen("stayput", STAYPUT, 1);
            let output =
                Command::new("sh").args(["-c", &line]).current_dir(&after).stdin(Stdio::null()).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{line}: {}", said(&output));
        }
        let junit = fs::read_to_string(after.join("loss.xml")).unwrap();
        assert!(junit.contains("failures=\"1\""), "{junit}");
    }
}
