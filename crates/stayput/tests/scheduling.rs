//! `stayput run --sched`: what the program itself sees of it, against what is said.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as the tests may")]

use serde_json::Value;
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
