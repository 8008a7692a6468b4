//! `stayput run --sched`: what the program itself sees of it, against what is said.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as the tests may")]

use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stayput")).arg("run").args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_said_of_the_class_is_what_the_kernel_says_to_the_program() {
    let output = run(&["--sched", "batch", "--", "cut", "-d ", "-f41", "/proc/self/stat"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"3\n".as_slice()), "{}", stderr(&output));
    assert!(stderr(&output).contains("  scheduling  batch, nice "), "{}", stderr(&output));
}

#[test]
fn json_has_what_was_read_back_only_where_something_was_asked_for() {
    let seen = |sched: &str| {
        let output = run(&["-q", "--json", "-", "--sched", sched, "--", "true"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let sched = seen("idle")["sched"].clone();
    assert_eq!((sched["policy"].as_str(), sched["otherwise"].as_u64()), (Some("idle"), Some(0)), "{sched}");
    assert_eq!(seen("default").get("sched"), None);
}

#[test]
fn a_word_that_is_no_way_of_scheduling_starts_nothing_and_is_a_usage_error() {
    for (word, right) in [("rr", "these are default, batch"), ("nice=20", "from -20 to 19"), ("slice=1s", "0.1 to 100")]
    {
        let output = run(&["--sched", word, "--", "echo", "started"]);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), b"".as_slice()));
        assert!(stderr(&output).contains(right) && stderr(&output).trim().lines().count() == 1, "{}", stderr(&output));
    }
}

#[test]
fn what_this_kernel_lacks_is_said_before_the_program_starts() {
    for (word, file, said) in [
        ("light", "/sys/kernel/sched_ext", "CONFIG_SCHED_CLASS_EXT"),
        ("phi=6:6:graded", "/sys/kernel/sched_ext", "CONFIG_SCHED_CLASS_EXT"),
        ("ext:sleep 1000", "/sys/kernel/sched_ext", "CONFIG_SCHED_CLASS_EXT"),
        ("cache-aware=on", "/sys/kernel/debug/sched/llc_balancing", "CONFIG_SCHED_CACHE"),
    ] {
        if Path::new(file).exists() {
            println!("skipped: this kernel has {file}");
            continue;
        }
        let output = run(&["--sched", word, "--", "echo", "started"]);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), b"".as_slice()));
        assert!(stderr(&output).contains(said) && stderr(&output).trim().lines().count() == 1, "{}", stderr(&output));
    }
}

#[test]
fn attached_processes_are_listed_with_their_cpus() {
    let script = "/bin/true & /bin/true & wait";
    let output = run(&["-q", "--json", "-", "--sched", "attached", "--", "sh", "-c", script]);
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let attached = seen["sched"]["attached"].as_array().unwrap();
    assert_eq!(attached.len(), 3, "{seen}");
    for thread in seen["thread_details"].as_array().unwrap() {
        let given = attached.iter().find(|given| given["process"] == thread["process"]).unwrap();
        assert_eq!(thread["intended_cpus"], json!([given["cpu"]]), "{seen}");
    }
}

#[test]
fn the_scheduler_gets_all_words_as_they_were_typed() {
    let folder = tempfile::tempdir().unwrap();
    let stayput = folder.path().join("stayput");
    fs::copy(env!("CARGO_BIN_EXE_stayput"), &stayput).unwrap();
    let scheduler = folder.path().join("stayput-sched");
    fs::write(&scheduler, "#!/bin/sh\nprintf '%s|' \"$@\"\n").unwrap();
    fs::set_permissions(&scheduler, Permissions::from_mode(0o755)).unwrap();
    for words in [&["--", "true", "--light"][..], &["--light", "--", "true", "--", "x"], &["--check"], &["--help"], &[]]
    {
        let output = Command::new(&stayput).arg("sched").args(words).output().unwrap();
        let expected: String = words.iter().map(|word| format!("{word}|")).collect();
        let expected = if words.is_empty() { "|".into() } else { expected };
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{output:?}");
    }
}
