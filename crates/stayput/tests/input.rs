//! What programs under study read from their standard input: the same, all of it, in every run.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

const WORDS: [&str; 9] = ["study", "--no-report", "-n", "1", "--place", "unbound,0", "--min-runs", "2", "--max-runs"];

/// A folder with a program that fails unless it reads exactly what is in the file `expected`.
struct Desk(TempDir);

impl Desk {
    fn new(expected: &str) -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        desk.write("expected", expected);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn study(&self, words: &[&str], stdin: impl Into<Stdio>) -> Output {
        let mut command = Command::new(STAYPUT);
        command.args(WORDS).arg("2").args(words).args(["--", "cmp", "-", "expected"]);
        command.current_dir(self.0.path()).stdin(stdin).output().unwrap()
    }

    /// What every run of the journal reads, and that each went well.
    fn input_of(&self, output: &Output) -> Value {
        let (said, told) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{told}");
        let journal = said.lines().find_map(|line| line.strip_prefix("journal: ")).unwrap();
        let report = Command::new(STAYPUT)
            .args(["report", "--format", "json", journal])
            .current_dir(self.0.path())
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        let trials = report["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 6);
        assert!(trials.iter().all(|trial| trial["status"] == "ok"), "{trials:?}");
        let mut input = report["plan"]["subjects"][0]["input"].clone();
        input["journal"] = journal.into();
        input
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A pipe through which that much comes.
fn pipe(bytes: &str) -> Stdio {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let bytes = bytes.to_owned();
    std::thread::spawn(move || writer.write_all(bytes.as_bytes()));
    reader.into()
}

#[test]
fn every_run_reads_all_of_a_file_a_pipe_or_what_is_left_of_a_file() {
    let long = "a line of input\n".repeat(20_000);
    let desk = Desk::new(&long);
    desk.write("in.dat", &long);
    let of_file = desk.study(&[], File::open(desk.path("in.dat")).unwrap());
    assert!(text(&of_file.stderr).contains("every run of cmp - expected reads in.dat (320000 bytes)"));
    let input = desk.input_of(&of_file);
    assert_eq!((&input["file"], &input["bytes"]), (&"in.dat".into(), &320_000.into()));

    // The same bytes are the same study, whichever way they come.
    let mut begun = File::open(desk.path("in.dat")).unwrap();
    for output in [
        desk.study(&[], pipe(&long)),
        desk.study(&["--input", "in.dat"], Stdio::null()),
        desk.study(&["--input", "in.dat"], pipe("something else")),
    ] {
        assert_eq!(desk.input_of(&output), input, "the study was gone on with");
    }
    // What the shell has read of it already is gone.
    begun.read_exact(&mut [0; 16]).unwrap();
    desk.write("expected", &long[16..]);
    let rest = desk.input_of(&desk.study(&[], begun.try_clone().unwrap()));
    assert_eq!((&rest["file"], &rest["bytes"]), (&Value::Null, &319_984.into()));
    assert_ne!(rest["journal"], input["journal"], "other input is another study");
    let list = Command::new(STAYPUT).arg("report").current_dir(desk.0.path()).output().unwrap();
    let list = text(&list.stdout);
    let line = |journal: &Value| list.lines().find(|line| line.starts_with(&format!("{} ", journal.as_str().unwrap())));
    assert!(line(&input["journal"]).unwrap().ends_with("-- cmp - expected < in.dat"), "{list}");
    assert!(line(&rest["journal"]).unwrap().ends_with("cmp - expected (and 319984 bytes through a pipe)"), "{list}");
    assert_eq!(begun.stream_position().unwrap(), long.len() as u64, "it was read once");
}

#[test]
fn no_input_is_no_input_as_ever() {
    let desk = Desk::new("");
    for stdin in [Stdio::null(), pipe(""), File::open(desk.path("expected")).unwrap().into()] {
        let output = desk.study(&[], stdin);
        assert_eq!(desk.input_of(&output)["sha256"], Value::Null);
        assert!(!text(&output.stderr).contains("every run"), "{}", text(&output.stderr));
    }
}

#[test]
fn input_that_is_not_there_or_changes_is_told() {
    let desk = Desk::new("1\n");
    let refused = |words: &[&str], code: i32| {
        let output = desk.study(words, Stdio::null());
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        text(&output.stderr)
    };
    assert!(refused(&["--input", "nowhere"], 2).contains("cannot read nowhere: "));
    assert!(refused(&["--input", "."], 2).contains("cannot read .: "));
    let output =
        Command::new(STAYPUT).args(["study", "--input", "x", "npb:ep.S"]).stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success());
    // A program that writes to its own input doesn't do the same twice.
    desk.write("in.dat", "1\n");
    let output = Command::new(STAYPUT)
        .args(WORDS)
        .args(["2", "--input", "in.dat", "--", "sh", "-c", "cat; echo 2 >> in.dat"])
        .current_dir(desk.0.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("the file was written while programs were given it"));
}

#[test]
fn a_run_passes_its_own_input_on() {
    let output = {
        let mut child = Command::new(STAYPUT)
            .args(["run", "--place", "0", "--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"through").unwrap();
        child.wait_with_output().unwrap()
    };
    assert_eq!(text(&output.stdout), "through");
}
