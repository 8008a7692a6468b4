//! `stayput place --all`, `--important` and `--count` as a reader and a program see them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// 256 CPUs.
const LARGE: &str = "pack:2 l3:8 core:8 pu:2";

fn place(arguments: &[&str]) -> Output {
    Command::new(STAYPUT).arg("place").args(arguments).output().unwrap()
}

fn said(arguments: &[&str]) -> String {
    let output = place(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_poster_s_classes_are_listed_under_its_names() {
    assert_eq!(
        said(&["--all", "-n", "2", "--machine", "xeon-e5405"]),
        "CPUs by thread  CPU sets  policies\n\
         0,1                    4  unbalanced (compact)\n\
         0,2                    8  semi-balanced\n\
         0,4                   16  balanced (scatter)\n"
    );
}

#[test]
fn a_set_of_cpus_is_a_placement_wherever_one_is_asked_for() {
    assert_eq!(said(&["node:1", "--machine", "opteron-6272"]), "8,9,10,11,12,13,14,15\n");
    assert_eq!(said(&["l3:2", "-n", "9", "--machine", "opteron-6272", "--as", "gomp"]), "16 17 18 19 20 21 22 23 16\n");
    assert_eq!(said(&["package:1", "-n", "2", "--machine", "xeon-e5620", "--as", "taskset"]), "taskset -c 4,5\n");
    for help in [["place", "--help"].as_slice(), &["help", "place"]] {
        let output = Command::new(STAYPUT).args(help).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for set in machine::NamedSet::FORMS {
            assert!(text.contains(set), "{set} in {text}");
        }
    }
    // One thread for each CPU of the set, which here are all that there are.
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("seen.json");
    let run = |set: &str| {
        let output = Command::new(STAYPUT)
            .args(["run", "--quiet", "--place", set, "--json"])
            .arg(&json)
            .args(["--shell", "--", "echo $OMP_NUM_THREADS"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().parse::<usize>().unwrap()
    };
    let host = machine::Machine::host().unwrap();
    for set in machine::NamedSet::all_of(&host) {
        assert_eq!(run(&set.to_string()), set.cpus(&host).unwrap().len(), "{set}");
        let seen: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
        assert_eq!(seen["placement"], json!(set.to_string()));
        // A program that creates no thread may use all of them.
        assert_eq!(seen["intended_cpus"][0], json!(set.cpus(&host).unwrap().into_iter().collect::<machine::CpuSet>()));
    }
}

#[test]
fn sets_of_cpus_are_studied_and_raced_under_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let study = |flags: &[&str]| {
        let journal = folder.path().join(format!("{}.stayput", flags.len()));
        let output = Command::new(STAYPUT)
            .args(["study", "--no-report", "--place", "one-per-core,unbound", "-n", "1", "--out"])
            .arg(&journal)
            .args(flags)
            .args(["--", "true"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(study(&["--min-runs", "2", "--max-runs", "2"]).contains("one-per-core"));
    assert!(study(&["--best", "--among", "named", "--runs", "4"]).contains("one-per-core"));
}

#[test]
fn a_set_that_is_not_there_is_a_mistake_of_usage_everywhere() {
    for (set, sentence) in [
        ("node:65535", "there is no NUMA node 65535 here; there"),
        ("node:x", "`node:x` names no set of CPUs: `node:` needs a whole number after it, as in node:0"),
        ("package:0:1", "`package:0:1` names no set of CPUs"),
        ("p-core", "`p-core` is no policy"),
    ] {
        for before in [
            ["place", set].as_slice(),
            &["topology", "--place", set],
            &["run", "--place", set, "--", "true"],
            &["study", "--no-report", "--place", set, "--", "true"],
            &["study", "--no-report", "--best", "--place", set, "--", "true"],
        ] {
            let folder = tempfile::tempdir().unwrap();
            let output = Command::new(STAYPUT).args(before).current_dir(&folder).output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{before:?}: {error}");
            assert!(error.contains(sentence) && error.lines().count() == 1, "{before:?}: {error}");
        }
    }
}

#[test]
fn orders_are_named_level_by_level() {
    assert_eq!(
        said(&["--all", "--ordered", "-n", "8", "--machine", "xeon-e5405"]),
        "CPUs by thread   CPU sets  policies  [order of threads]\n\
         0,1,2,3,4,5,6,7         1  balanced (unbalanced, compact)  [machine together, package together]\n\
         0,2,1,3,4,6,5,7         1  semi-balanced  [machine together, package apart]\n\
         0,4,1,5,2,6,3,7         1  [machine apart, package together]\n\
         0,4,2,6,1,5,3,7         1  scatter  [machine apart, package apart]\n"
    );
}

#[test]
fn json_is_one_list_of_classes() {
    let text = said(&["--all", "--ordered", "-n", "4", "--machine", "xeon-e5405", "--format", "json"]);
    let classes: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(classes.as_array().unwrap().len(), 12);
    assert_eq!(
        classes[11],
        json!({
            "cpus": [0, 4, 2, 6],
            "cpu_sets": "16",
            "name": "scatter",
            "policies": ["scatter"],
            "order": { "machine": "apart" },
        })
    );
    assert_eq!(classes[2]["name"], Value::Null);
    let none = said(&["--all", "-n", "2", "--machine", "xeon-e5405", "--format", "json", "--limit", "0"]);
    assert_eq!(serde_json::from_str::<Value>(&none).unwrap(), json!([]));
}

#[test]
fn the_number_of_classes_is_exact_at_any_size() {
    let numbers = said(&["--count", "-n", "2", "--machine", "xeon-e5405", "--format", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&numbers).unwrap(), json!({ "classes": "3", "cpu_sets": "28" }));
    assert_eq!(
        said(&["--count", "-n", "32", "--machine", LARGE]),
        "106882521 distinct placements of 32 threads on pack:2 l3:8 core:8 pu:2, out of \
         58244594029230756747090036884923424763000 sets of CPUs\n"
    );
    assert_eq!(
        said(&["--count", "-n", "8", "--ordered", "--machine", "xeon-e5405"]),
        "4 distinct placements of 8 threads on xeon-e5405, the order of threads counted, out of 1 set of CPUs\n"
    );
}

#[test]
fn the_short_list_is_part_of_the_whole_in_the_same_order() {
    let whole = said(&["--all", "-n", "6", "--machine", "opteron-6272"]);
    let short = said(&["--important", "-n", "6", "--machine", "opteron-6272"]);
    let mut rest = whole.lines();
    assert!(short.lines().all(|line| rest.any(|other| other == line)), "{short}");
    assert!(short.lines().count() < whole.lines().count() / 2);
    let one = said(&["--all", "-n", "6", "--machine", "opteron-6272", "--limit", "1"]);
    assert_eq!(one.lines().count(), 2, "a line of headers, and one of a class");
}

#[test]
fn a_hundred_million_classes_are_printed_as_they_come_and_no_further_than_they_are_read() {
    for format in ["list", "json"] {
        let mut child = Command::new(STAYPUT)
            .args(["place", "--all", "-n", "32", "--machine", LARGE, "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines: Vec<String> =
            BufReader::new(child.stdout.take().unwrap()).lines().take(10).map(Result::unwrap).collect();
        assert_eq!(lines.len(), 10);
        // The pipe is closed now. Were the rest still to come, this would take minutes.
        let output = child.wait_with_output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn what_cannot_be_is_said_in_a_sentence() {
    for (arguments, sentence) in [
        (
            &["--all", "-n", "0", "--machine", "xeon-e5405"][..],
            "stayput: `--threads`: `0` is no number of threads from 1 up, nor of ranks x threads such as 4x8; see `stayput place --help`\n",
        ),
        (
            &["--count", "-n", "9", "--machine", "xeon-e5405"],
            "stayput: 9 threads can't each have a CPU: machine `xeon-e5405` has 8 that are usable; ask for fewer threads\n",
        ),
        (
            &["--important", "-n", "9", "--ordered", "--machine", "xeon-e5405"],
            "stayput: 9 threads can't each have a CPU: machine `xeon-e5405` has 8 that are usable; ask for fewer threads\n",
        ),
    ] {
        let output = place(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), sentence);
        assert!(output.stdout.is_empty());
    }
    for wrong in [
        &["--all"][..],
        &["compact", "--all", "-n", "2"],
        &["--all", "--important", "-n", "2"],
        &["--all", "-n", "2", "--as", "gomp"],
        &[],
    ] {
        assert_eq!(place(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn what_takes_long_says_so_and_what_would_never_end_is_refused() {
    let mut child = Command::new(STAYPUT)
        .args(["place", "--count", "-n", "4000", "--machine", "pack:16 l3:16 l2:16 core:1 pu:2"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let line = BufReader::new(child.stderr.take().unwrap()).lines().next();
    // It may be a minute's work, of which nothing more is to be seen here.
    let _ = child.kill();
    child.wait().unwrap();
    assert!(line.unwrap().unwrap().starts_with("stayput: still looking for the distinct placements after "));

    let output = place(&["scatter", "-n", "1000000000", "--machine", "xeon-e5405"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "stayput: 1000000000 threads are more than 65536, the most that are placed; ask for fewer\n"
    );
}

#[test]
fn the_help_names_every_preset() {
    for subcommand in ["place", "topology"] {
        let output = Command::new(STAYPUT).args([subcommand, "--help"]).output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let words: Vec<&str> = help.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
        assert!(machine::preset::names().all(|name| words.contains(&name)), "{help}");
    }
}
