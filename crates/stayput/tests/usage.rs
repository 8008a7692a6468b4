//! Wrong usages, each with the one sentence and the exit code that it gets: the table is `usage.txt`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fmt::Write;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A folder with what the table's commands name.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let program = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    };
    program("app", "#!/bin/sh\necho hello\n");
    program("badinterpreter", "#!/no/such/shell\n");
    for (name, text) in [
        ("plain.txt", "no program\n"),
        ("broken.toml", "threads = [1,\n"),
        ("unknown-key.toml", "thread = [1]\n[[subject]]\ncommand = [\"./app\"]\n"),
        ("plan.toml", "[[subject]]\ncommand = [\"./app\"]\n"),
        ("broken-mix.toml", "[[mix]]\njobs = [\"./app\"]\n"),
        (
            "endless.toml",
            "name = \"endless\"\n[[jobs]]\nname = \"a\"\nprocesses = 1\n[jobs.process.intervals.bursts]\nlength_ms = { constant = 1 }\n\
             ends = { system_call = 100 }\n",
        ),
        ("broken.stayput", "no journal\n"),
        ("broken.xml", "<topology>\n"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    fs::create_dir(folder.path().join("folder")).unwrap();
    folder
}

/// What the command line gets: its exit code and what it says, on a line each.
fn answer(line: &str, folder: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_stayput"))
        .args(shell_words::split(line).unwrap())
        .current_dir(folder)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let code = output.status.code().map_or("killed by a signal".to_owned(), |code| code.to_string());
    let mut text = format!("$ stayput {line}\n");
    for said in String::from_utf8(output.stderr).unwrap().trim_end().lines() {
        let _ = writeln!(text, "{code}: {said}");
    }
    text
}

#[test]
fn each_wrong_usage_gets_its_sentence_and_its_exit_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/usage.txt");
    let table = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix("$ stayput ")).collect();
    assert!(lines.len() >= 75, "only {} usages", lines.len());
    let folder = folder();
    let before = files(folder.path());
    let found: String = lines.iter().map(|line| answer(line, folder.path())).collect();
    if std::env::var_os("STAYPUT_WRITE_USAGE").is_some() {
        fs::write(&path, &found).unwrap();
    }
    for (expected, found) in table.split_inclusive("\n$").zip(found.split_inclusive("\n$")) {
        assert_eq!(expected, found, "STAYPUT_WRITE_USAGE=1 writes the table anew; look at each line that changes");
    }
    assert_eq!(table.len(), found.len());
    assert_eq!(files(folder.path()), before, "a wrong usage left something behind");
}

/// Each is one sentence for people: no help text, no panic, no error of a library in its own words.
#[test]
fn the_sentences_are_sentences() {
    let table = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/usage.txt")).unwrap();
    for usage in table.split("$ stayput ").skip(1) {
        let (_, answer) = usage.split_once('\n').unwrap();
        assert_eq!(answer.lines().count(), 1, "{usage}");
        let (code, sentence) = answer.trim_end().split_once(": ").unwrap();
        assert!(["1", "2", "126", "127"].contains(&code), "{usage}");
        assert!(sentence.starts_with("stayput: "), "{usage}");
        for unwanted in ["panicked", "error:", "Error", "os error", "Usage:", "tip:"] {
            assert!(!sentence.contains(unwanted), "{usage}");
        }
    }
}

/// Whoever comes from other tools types more than placements.
#[test]
fn servers_metrics_parameters_and_gates_are_typed_wrongly_in_more_than_forty_ways() {
    let flags = [
        "--metric",
        "--primary",
        "--server",
        "--ready",
        "--stop-",
        "--load-place",
        "--pid",
        "--cgroup",
        "--for ",
        "-L ",
        "--command-name",
        "--setup",
        "--prepare",
        "--conclude",
        "--cleanup",
        "--env",
        "--ignore-failure",
        "--show-output",
        "--export-json",
        "--baseline",
        "--against",
        "--junit",
        "--comment",
    ];
    let table = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/usage.txt")).unwrap();
    let lines: Vec<&str> = table.lines().filter(|line| line.starts_with('$')).collect();
    for flag in flags {
        assert!(lines.iter().any(|line| line.contains(flag)), "{flag}");
    }
    let ways = lines.iter().filter(|line| flags.iter().any(|flag| line.contains(flag))).count();
    assert!(ways > 40, "{ways}");
}

/// Each code of the manual's table is given by a command, and no command gives another.
#[test]
fn the_manual_has_every_exit_code() {
    let folder = folder();
    let stayput = |line: &str| {
        let words = shell_words::split(line).unwrap();
        Command::new(env!("CARGO_BIN_EXE_stayput")).args(words).current_dir(folder.path()).output().unwrap()
    };
    let help = String::from_utf8(stayput("--help").stdout).unwrap();
    let (_, table) = help.split_once("Exit codes:\n").unwrap();
    let rows = table.lines().map_while(|line| line.strip_prefix("  "));
    let codes: Vec<i32> = rows.map(|row| row.split(' ').next().unwrap().parse().unwrap()).collect();
    let lines = [
        ("place scatter -n 1", 0),
        ("study -n 1 --place unbound --max-runs 2 --no-report --quiet --out failing.stayput -- false", 1),
        ("place nowhere", 2),
        ("run --quiet -- ./plain.txt", 126),
        ("run --quiet -- ./missing", 127),
    ];
    assert_eq!(codes, lines.map(|(_, code)| code));
    for (line, code) in lines {
        assert_eq!(stayput(line).status.code(), Some(code), "{line}");
    }
    // Beyond them, `run` ends as its program does.
    assert_eq!(stayput("run --quiet -- sh -c 'exit 42'").status.code(), Some(42));
    assert_eq!(stayput("run --quiet -- sh -c 'kill -9 $$'").status.signal(), Some(9));

    let table = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/usage.txt")).unwrap();
    let given = table.lines().filter(|line| !line.starts_with('$'));
    for line in given {
        assert!(codes.contains(&line.split(':').next().unwrap().parse().unwrap()), "{line}");
    }
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
