//! What a study keeps: no value whose name says that it is secret, and what it does keep is for its owner.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// Values that must not be found anywhere.
const SECRETS: [&str; 6] = ["argv-s3cr3t", "flag-s3cr3t", "word-s3cr3t", "env-s3cr3t", "ld-s3cr3t", "said-s3cr3t"];

/// Prints all that it is given, so that only what is left out is absent; then fails, so that its output is kept.
const PROGRAM: &str = "#!/bin/sh
echo \"$@ and $GITHUB_TOKEN alone, $GITHUB_TOKEN\" >&2
echo \"db_password: said-s3cr3t\" >&2
echo \"the plain word\"
test -e wait && { : > begun; sleep 2; }
exit ${CODE:-3}
";

struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        fs::write(desk.path("app"), PROGRAM).unwrap();
        fs::set_permissions(desk.path("app"), fs::Permissions::from_mode(0o755)).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        // The usual mask, by which all could read.
        let mut command = Command::new("sh");
        command.args(["-c", "umask 022; exec \"$0\" \"$@\"", STAYPUT]).args(words).current_dir(self.0.path());
        command.stdin(Stdio::null()).env("GITHUB_TOKEN", "env-s3cr3t").env("KMP_STAYPUT_SECRET", "ld-s3cr3t");
        command
    }

    fn stayput(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// The words of a study in `out` of a program that is given secrets in every way.
    fn study<'a>(out: &[&'a str], pin: &'a str) -> Vec<&'a str> {
        let words =
            ["study", "-n", "1", "--place", "unbound,0", "--min-runs", "3", "--max-runs", "3", "--redact", "pin"];
        let program = [
            "--",
            "./app",
            "MY_TOKEN=argv-s3cr3t",
            "--api-key=flag-s3cr3t",
            "--password",
            "word-s3cr3t",
            pin,
            "--plain=kept",
        ];
        [&words[..], out, &program[..]].concat()
    }

    /// Asserts that none of `SECRETS` is in any file here, but for the program.
    fn assert_files_are_clean(&self, when: &str) {
        for entry in fs::read_dir(self.0.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with("app") {
                continue;
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // A file beside the journal may be gone by now.
            let Ok(bytes) = fs::read(&path) else { continue };
            assert_clean(&format!("{when}: {name}"), &bytes);
            assert_clean(when, name.as_bytes());
        }
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).unwrap().mode() & 0o777
    }
}

fn assert_clean(what: &str, bytes: &[u8]) {
    for secret in SECRETS.iter().chain(&["pin-s3cr3t"]) {
        let found = bytes.windows(secret.len()).position(|window| window == secret.as_bytes());
        if let Some(at) = found {
            let around = &bytes[at.saturating_sub(60)..(at + 40).min(bytes.len())];
            panic!("{what} has {secret}: {:?}", String::from_utf8_lossy(around));
        }
    }
}

#[test]
fn no_secret_is_in_any_byte_of_a_journal_or_a_report() {
    let desk = Desk::new();
    fs::write(desk.path("wait"), "").unwrap();
    let mut study = desk.command(&Desk::study(&[], "--pin=pin-s3cr3t"));
    let study = study.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while !desk.path("begun").exists() && began.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(10));
    }
    desk.assert_files_are_clean("before the first trial ends");
    fs::remove_file(desk.path("wait")).unwrap();
    let mut journals_while_at_work = 0;
    while study_is_at_work(&study) && began.elapsed() < Duration::from_secs(60) {
        desk.assert_files_are_clean("at work");
        journals_while_at_work += 1;
        sleep(Duration::from_millis(20));
    }
    assert!(journals_while_at_work > 0);
    let output = study.wait_with_output().unwrap();
    assert_clean("standard output", &output.stdout);
    assert_clean("standard error", &output.stderr);
    desk.assert_files_are_clean("at the end");
    let journal = fs::read_dir(desk.0.path()).unwrap().map(|entry| entry.unwrap().path());
    let journal = journal.into_iter().find(|path| path.extension().is_some_and(|e| e == "stayput")).unwrap();
    let journal = journal.file_name().unwrap().to_str().unwrap().to_owned();
    for form in ["terminal", "html", "markdown", "latex", "csv", "json"] {
        let output = desk.stayput(&["report", &journal, "--format", form]);
        assert!(output.status.success());
        assert_clean(form, &output.stdout);
    }
    assert_clean("list", &desk.stayput(&["report"]).stdout);
    // The program was given them all, and the rest is kept.
    let json: Value = serde_json::from_slice(&desk.stayput(&["report", &journal, "--format", "json"]).stdout).unwrap();
    let tail = json["trials"][0]["output_tail"].as_str().unwrap();
    assert!(tail.contains("the plain word") && tail.contains("and [redacted] alone"), "{tail}");
    assert!(tail.contains("--plain=kept"), "{tail}");
    assert_eq!(json["plan"]["subjects"][0]["secrets"], Value::Null, "a hash of a weak secret can be guessed");
    assert_eq!(json["plan"]["subjects"][0]["argv"][1], "MY_TOKEN=[redacted]");
    assert_eq!(json["host"]["environment"]["KMP_STAYPUT_SECRET"], "[redacted]");
}

fn study_is_at_work(study: &std::process::Child) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", study.id())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn the_program_gets_what_is_left_out_and_another_value_is_another_study() {
    let desk = Desk::new();
    let run = |pin: &str| {
        let mut command = desk.command(&Desk::study(&["--out", "a.stayput", "--no-report"], pin));
        command.env("CODE", "0").output().unwrap()
    };
    fs::write(desk.path("app"), "#!/bin/sh\necho \"$@\" >> given\nexit 0\n").unwrap();
    assert!(run("--pin=1111").status.success());
    let given = || fs::read_to_string(desk.path("given")).unwrap();
    assert!(
        given().lines().all(|line| line.contains("MY_TOKEN=argv-s3cr3t") && line.contains("--pin=1111")),
        "{}",
        given()
    );
    // The same values go on with it.
    let again = run("--pin=1111");
    assert!(again.status.success());
    assert!(String::from_utf8_lossy(&again.stdout).contains("othing was run"), "{again:?}");
    let lines = given().lines().count();
    let other = run("--pin=2222");
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert_eq!(other.status.code(), Some(2), "{said}");
    assert!(said.contains("other values where it says [redacted]"), "{said}");
    assert!(!said.contains("2222") && !said.contains("1111"), "{said}");
    assert_eq!(given().lines().count(), lines, "nothing was run");
    // Going on with runs that are left gives the program the values again.
    let words = Desk::study(&["--out", "a.stayput", "--no-report", "--width", "0.0001"], "--pin=1111");
    let words: Vec<&str> = words.into_iter().map(|word| if word == "3" { "4" } else { word }).collect();
    assert!(desk.command(&words).output().unwrap().status.success());
    assert!(given().lines().count() > lines);
    assert!(given().lines().all(|line| line.contains("--pin=1111") && line.contains("word-s3cr3t")), "{}", given());
}

#[test]
fn a_report_leaves_out_what_its_journal_has() {
    let desk = Desk::new();
    let words = ["study", "-n", "1", "--place", "unbound", "--min-runs", "3", "--max-runs", "3", "--out", "a.stayput"];
    desk.stayput(&[&words[..], &["--no-report", "--", "./app", "--badge=badge-1234", "x"]].concat());
    let has = |words: &[&str]| String::from_utf8(desk.stayput(words).stdout).unwrap().contains("badge-1234");
    for form in ["terminal", "html", "markdown", "latex", "csv", "json"] {
        let plain = ["report", "a.stayput", "--format", form];
        assert!(has(&plain), "{form}");
        assert!(!has(&[&plain[..], &["--redact", "BAD?E"]].concat()), "{form}");
    }
}

#[test]
fn journals_and_pages_are_for_their_owner_unless_shared_and_no_mode_is_changed() {
    let desk = Desk::new();
    let study = |out: &str, more: &[&str]| {
        let words =
            ["study", "-n", "1", "--place", "unbound", "--min-runs", "3", "--max-runs", "3", "--quiet", "--out", out];
        desk.stayput(&[&words[..], more, &["--", "true"]].concat())
    };
    assert!(study("own.stayput", &[]).status.success());
    assert_eq!((desk.mode("own.stayput"), desk.mode("own.html")), (0o600, 0o600));
    assert!(study("all.stayput", &["--share"]).status.success());
    assert_eq!((desk.mode("all.stayput"), desk.mode("all.html")), (0o644, 0o644));
    // What is there keeps its mode, whatever is asked.
    for (name, mode) in [("own.stayput", 0o640), ("own.html", 0o604)] {
        fs::set_permissions(desk.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for more in [&["--max-runs", "4", "--share"][..], &[]] {
        study("own.stayput", more);
        assert_eq!((desk.mode("own.stayput"), desk.mode("own.html")), (0o640, 0o604));
    }
    desk.stayput(&["report", "own.stayput", "--format", "html", "--out", "copy.html"]);
    desk.stayput(&["report", "own.stayput", "--format", "html", "--out", "shared.html", "--share"]);
    assert_eq!((desk.mode("copy.html"), desk.mode("shared.html")), (0o600, 0o644));
}

#[test]
fn the_files_beside_a_journal_are_for_its_owner_too() {
    let desk = Desk::new();
    let words =
        ["study", "-n", "1", "--place", "unbound", "--min-runs", "90", "--max-runs", "90", "--out", "a.stayput"];
    let mut study = desk.command(&[&words[..], &["--no-report", "--", "sleep", "0.05"]].concat());
    let mut study = study.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while !desk.path("a.stayput-wal").exists() && began.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(5));
    }
    let modes: Vec<u32> = ["a.stayput", "a.stayput-wal", "a.stayput-shm"].map(|name| desk.mode(name)).to_vec();
    // SAFETY: sending a signal touches no memory of ours; the shell has become the study.
    unsafe { libc::kill(study.id() as libc::pid_t, libc::SIGTERM) };
    study.wait().unwrap();
    assert_eq!(modes, [0o600, 0o600, 0o600]);
}
