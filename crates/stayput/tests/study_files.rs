//! The page about study files: its examples run, its keys are those that there are, and mistakes are told as it says.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use study::study_file::StudyFile;
use tempfile::TempDir;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/study-files.md");
    fs::read_to_string(path).unwrap()
}

fn examples(page: &str) -> Vec<String> {
    page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// A folder with the program that the examples name. It says what they look for, where it is given the input that they name.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        let solver = desk.path("solver");
        let script = "#!/bin/sh\n[ \"$1\" != --threads ] || [ \"$(cat)\" = input ] || exit 1\nsleep 0.012; echo 'solved in 0.01 s'; echo residual ok; echo 'rate: 7 MB/s'; echo '{\"latency\": {\"p95\": 2}}'\n";
        fs::write(&solver, script).unwrap();
        fs::set_permissions(&solver, fs::Permissions::from_mode(0o755)).unwrap();
        // A server that is ready at once, and a load on it.
        let server = "#!/bin/sh\ntouch listening; trap 'rm -f listening; exit' INT; while :; do sleep 0.01; done\n";
        for (name, script) in [("server", server), ("load", "#!/bin/sh\ntest -e listening\n")] {
            fs::write(desk.path(name), script).unwrap();
            fs::set_permissions(desk.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(desk.path("in.dat"), "input\n").unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn stayput(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stayput"));
        command.args(words).current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn every_example_of_the_page_runs() {
    let examples = examples(&page());
    assert!(examples.len() >= 3);
    for (number, example) in examples.iter().enumerate() {
        let desk = Desk::new();
        // Whether built-in programs are there is another test's concern.
        let builtin = "[[subject]]\nbuiltin = \"npb:cg.W\"\n";
        let as_run = example.replace(builtin, "");
        assert_eq!(as_run != *example, example.contains("builtin"), "only the program that isn't built is left out");
        // A CPU that every machine has.
        fs::write(desk.path("mine.toml"), as_run.replace("\"0,2\"", "\"0\"")).unwrap();
        let words = ["study", "--quiet", "--no-report", "mine.toml", "--min-runs", "2", "--max-runs", "2"];
        let output = desk.stayput(&words);
        assert!(output.status.success(), "example {number}: {}", text(&output.stderr));
        let report = desk.stayput(&["report", "mine.stayput", "--format", "json"]);
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        let trials = report["trials"].as_array().unwrap();
        assert!(
            trials.len() >= 6 && trials.iter().all(|trial| trial["status"] == "ok"),
            "example {number}: {trials:?}"
        );
        if example.contains("time-regex") {
            let mut timed = trials.iter().filter(|trial| trial["subject"] == "solver").peekable();
            assert!(timed.peek().is_some() && timed.all(|trial| trial["time_s"] == 0.01), "example {number}");
        }
    }
}

#[test]
fn the_page_has_every_key_and_no_other() {
    let told = StudyFile::parse("nonsense = 1", &[]).unwrap_err().1;
    let of_stop = StudyFile::parse("stop = { nonsense = 1 }", &[]).unwrap_err().1;
    let of_subject = StudyFile::parse("[[subject]]\nnonsense = 1", &[]).unwrap_err().1;
    let keys = |told: &str| -> BTreeSet<String> {
        let names = told.split("expected one of ").nth(1).unwrap().split(", ");
        names.map(|name| name.trim_matches('`').to_owned()).collect()
    };
    let page = page();
    // The first column of a table, by its heading.
    let column = |heading: &str| -> BTreeSet<String> {
        let table = page.split(&format!("| {heading} |")).nth(1).unwrap();
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let cells = rows.flat_map(|row| row.split('|').nth(1).unwrap().split(", "));
        cells.map(|cell| cell.trim().trim_matches(['`', '[', ']']).to_owned()).collect()
    };
    assert_eq!(column("key"), keys(&told));
    assert_eq!(column("key of `stop`"), keys(&of_stop));
    assert_eq!(column("key of a `[[subject]]`"), keys(&of_subject));
    let whole = &examples(&page)[1];
    // Those that go with nothing else that the example shows.
    let alone = ["paper", "relative-sd", "mix", "mpi", "mpi-args", "bind-mpi-helpers"];
    for key in keys(&told).iter().chain(&keys(&of_stop)).chain(&keys(&of_subject)) {
        assert!(alone.contains(&key.as_str()) || whole.contains(key.as_str()), "{key}");
    }
}

#[test]
fn a_mistake_is_one_sentence_with_file_line_key_and_what_is_allowed() {
    let desk = Desk::new();
    for (text_of_file, parts) in [
        ("threads = [0]\n", &["mine.toml, line 1: `0` is not a thread count", "write 4, 1-8 or all"][..]),
        ("seed = 1\n\nthread = 1\n", &["mine.toml, line 3: ", "`thread`", "`threads`"]),
        ("[[subject]]\ncommand = \"./solver | tail\"\n", &["mine.toml, line 2: `command`: no shell reads this"]),
        ("threads = 1\n", &["nothing to study"]),
    ] {
        fs::write(desk.path("mine.toml"), text_of_file).unwrap();
        let output = desk.stayput(&["study", "mine.toml"]);
        assert_eq!(output.status.code(), Some(2), "{text_of_file}");
        let told = text(&output.stderr);
        assert_eq!(told.trim_end().lines().count(), 1, "{told}");
        assert!(parts.iter().all(|part| told.contains(part)), "{text_of_file}: {told}");
    }
    assert!(!desk.path("mine.stayput").exists());
}
