//! Foreign text, wherever it enters, reaches a terminal as text: nothing of it is obeyed.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// Sets the title of a window, colours by C1, turns the order around, hides, breaks lines, goes back to the start of one.
const HOSTILE: &str = "a\u{1b}]0;title\u{7}\u{9b}31m\u{202e}b\u{2066}\u{200f}\u{61c}\u{2028}\u{200b}c\u{7f}\rd";

/// What no terminal may get of it.
fn misleading(bytes: &[u8]) -> Vec<char> {
    let text = String::from_utf8_lossy(bytes);
    HOSTILE.chars().filter(|c| terminal::misleads(*c) && text.contains(*c)).collect()
}

struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(STAYPUT);
        command.args(words).current_dir(self.0.path()).stdin(Stdio::null()).env_remove("NO_COLOR");
        command
    }

    fn stayput(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// What a terminal gets of standard output and standard error.
    fn in_terminal(&self, words: &[&str]) -> Vec<u8> {
        let (mut ours, mut theirs) = (0, 0);
        let null = std::ptr::null_mut();
        // SAFETY: the call fills both descriptors, and none of the rest is asked for.
        assert_eq!(unsafe { libc::openpty(&raw mut ours, &raw mut theirs, null, null.cast(), null.cast()) }, 0);
        // SAFETY: both were just opened, and are nobody else's.
        let (mut ours, theirs) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        let mut command = self.command(words);
        command.env("TERM", "xterm-256color").stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let mut child = command.spawn().unwrap();
        // It has the other end's last copies.
        drop(command);
        let mut seen = Vec::new();
        // The end of a terminal is an error of reading.
        let _ = ours.read_to_end(&mut seen);
        child.wait().unwrap();
        seen
    }

    /// A study in `a.stayput` whose names, output and variables are hostile.
    fn study(&self) -> Output {
        let line = format!("printf '%s' '{HOSTILE}'; printf '%s' '{HOSTILE}' >&2; exit 3");
        let words = ["study", "-n", "1", "--place", "unbound,0", "--name", HOSTILE, "--out", "a.stayput"];
        self.command(&words)
            .args(["--max-runs", "4", "--min-runs", "4", "--", "sh", "-c", &line])
            .env("KMP_STAYPUT_TEST", HOSTILE)
            .output()
            .unwrap()
    }
}

fn assert_harmless(what: &str, output: &Output) {
    for (stream, bytes) in [("standard output", &output.stdout), ("standard error", &output.stderr)] {
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(misleading(bytes), [], "{what}: {stream}: {text:?}");
    }
}

#[test]
fn whatever_a_command_line_names_is_shown_in_the_error_and_not_obeyed() {
    let desk = Desk::new();
    let file = |ending: &str| format!("{HOSTILE}.{ending}");
    desk.write("key.toml", "[stop]\n\"a\\u001b]0;x\\u0007\\u202e\" = 1\n");
    desk.write("name.toml", &format!("[[subject]]\nname = {:?}\ncommand = [\"/nowhere/app\"]\n", "\u{1b}"));
    desk.write("model.toml", "\"a\\u001b]0;x\\u0007\\u202e\" = 1\n");
    desk.write("bad.xml", &format!("<topology><{}/></topology>", "\u{202e}"));
    desk.write("bad.stayput", HOSTILE);
    let commands: &[&[&str]] = &[
        &[HOSTILE],
        &["report", &file("stayput")],
        &["report", "bad.stayput"],
        &["report", "bad.stayput", "--format", HOSTILE],
        &["report", "bad.stayput", &format!("--{HOSTILE}")],
        &["report", "--out", &format!("{HOSTILE}/x"), "bad.stayput"],
        &["study", &file("toml")],
        &["study", "key.toml"],
        &["study", "name.toml"],
        &["study", HOSTILE],
        &["study", "--", HOSTILE],
        &["study", "--place", HOSTILE, "--", "true"],
        &["study", "-n", HOSTILE, "--", "true"],
        &["study", "--time-regex", &format!("({HOSTILE}"), "--", "true"],
        &["study", "--budget", HOSTILE, "--", "true"],
        &["study", "--best", "--subject-model", "model.toml"],
        &["study", "--best", "--subject-model", &file("toml")],
        &["study", "--out", &format!("{HOSTILE}/x"), "--", "true"],
        &["run", "--place", &file("stayput"), "--", "true"],
        &["run", "--place", HOSTILE, "--", "true"],
        &["run", "--json", &format!("{HOSTILE}/x"), "--", "true"],
        &["run", "--", HOSTILE],
        &["topology", "--machine", HOSTILE],
        &["topology", "--machine", &file("xml")],
        &["topology", "--machine", "bad.xml"],
        &["place", HOSTILE],
        &["place", "compact", "--as", HOSTILE],
        &["simulate", "time-sharing", "--workload", &file("toml")],
        &["simulate", "time-sharing", "--policy", HOSTILE],
        &["simulate", "space-sharing", "--machine", HOSTILE],
        &["replay", "--workload", &file("toml")],
        &["reproduce", HOSTILE],
        &["workloads", HOSTILE],
        &["completions", HOSTILE],
        &["man", HOSTILE],
        &["sched", "--ticks", HOSTILE, "--", "true"],
    ];
    for words in commands {
        let output = desk.stayput(words);
        assert!(!output.status.success(), "{words:?}");
        assert!(!output.stderr.is_empty(), "{words:?}");
        assert_harmless(&format!("{words:?}"), &output);
    }
}

#[test]
fn no_form_of_a_report_obeys_what_its_journal_holds() {
    let desk = Desk::new();
    assert_harmless("study", &desk.study());
    for form in ["terminal", "html", "markdown", "latex", "json"] {
        let output = desk.stayput(&["report", "a.stayput", "--format", form]);
        assert!(output.status.success(), "{form}");
        assert_harmless(form, &output);
        assert_eq!(misleading(&desk.in_terminal(&["report", "a.stayput", "--format", form])), ['\r'], "{form}");
    }
    let page = fs::read(desk.0.path().join("a.html")).unwrap();
    assert_eq!(misleading(&page), []);
    // JSON says the same by its own escapes.
    let json = desk.stayput(&["report", "a.stayput", "--format", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["plan"]["subjects"][0]["name"], HOSTILE);
    assert_eq!(json["host"]["environment"]["KMP_STAYPUT_TEST"], HOSTILE);
    // CSV is exact in a file, and harmless in a terminal.
    let csv = desk.stayput(&["report", "a.stayput", "--format", "csv"]).stdout;
    assert!(String::from_utf8(csv).unwrap().contains(HOSTILE));
    assert_eq!(misleading(&desk.in_terminal(&["report", "a.stayput", "--format", "csv"])), ['\r']);
}

#[test]
fn the_list_of_journals_and_what_is_said_of_changes_are_harmless() {
    let desk = Desk::new();
    desk.study();
    fs::copy(desk.0.path().join("a.stayput"), desk.0.path().join(format!("{HOSTILE}.stayput"))).unwrap();
    desk.write(&format!("{HOSTILE}-2.stayput"), "no journal");
    let list = desk.stayput(&["report"]);
    assert!(list.status.success());
    assert_harmless("list", &list);
    // The variable isn't set any more, which is told with its value.
    let again = desk.study();
    let line = String::from_utf8_lossy(&again.stderr).into_owned();
    let changed =
        desk.stayput(&["study", "--name", HOSTILE, "--out", "a.stayput", "-n", "1", "--", "sh", "-c", "exit 3"]);
    assert!(!changed.status.success(), "{line}");
    assert!(!changed.stderr.is_empty());
    assert_harmless("changes", &changed);
}

#[test]
fn the_progress_line_is_harmless() {
    let desk = Desk::new();
    let line = format!("printf '%s' '{HOSTILE}' >&2; exit 3");
    let words =
        ["study", "-n", "1", "--place", "unbound,0", "--name", HOSTILE, "--out", "a.stayput", "--max-runs", "4"];
    let seen = desk.in_terminal(&[&words[..], &["--min-runs", "4", "--", "sh", "-c", &line]].concat());
    let text = String::from_utf8_lossy(&seen).into_owned();
    assert!(text.contains("\\u{202e}") && text.contains("warm-up"), "{text:?}");
    // The terminal itself writes carriage returns, and the bar its own sequences.
    let of_the_bar = |c: &char| matches!(c, '\r' | '\u{1b}');
    let left: Vec<char> = misleading(&seen).into_iter().filter(|c| !of_the_bar(c)).collect();
    assert_eq!(left, [], "{text:?}");
    assert!(!text.contains("\u{1b}]"), "{text:?}");
}

#[test]
fn the_names_of_machines_are_harmless() {
    let desk = Desk::new();
    let xml = desk.stayput(&["topology", "--machine", "pack:1 core:2 pu:1", "--format", "xml"]).stdout;
    let xml = String::from_utf8(xml).unwrap();
    let name = "a\u{9b}31m\u{202e}b\u{2066}\u{200f}\u{61c}\u{2028}\u{200b}c\u{7f}";
    let info = format!("<info name=\"CPUModel\" value=\"{name}\"/><info name=\"HostName\" value=\"{name}\"/>");
    let at = xml.find("<object type=\"Package\"").unwrap();
    let end = at + xml[at..].find('>').unwrap() + 1;
    desk.write("hostile.xml", &format!("{}{info}{}", &xml[..end], &xml[end..]));
    for form in ["text", "json", "svg"] {
        let output = desk.stayput(&["topology", "--machine", "hostile.xml", "--format", form]);
        assert!(output.status.success(), "{form}: {}", String::from_utf8_lossy(&output.stderr));
        if form == "text" {
            assert!(String::from_utf8_lossy(&output.stdout).contains("\\u{202e}"), "the name is shown");
        }
        assert_harmless(form, &output);
    }
    let seen = desk.in_terminal(&["topology", "--machine", "hostile.xml", "--format", "xml"]);
    assert_eq!(misleading(&seen), ['\r']);
}
