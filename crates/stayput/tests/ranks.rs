//! A program of several processes: whether a study notices that a placement puts them all on one CPU, and binds them one by one
//! where it is asked to.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as the tests may")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Compiles the program of two threads a process; each test compiles to a name of its own.
fn ranks(folder: &Path) -> PathBuf {
    let (program, source) =
        (folder.join("ranks"), Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/ranks.c"));
    let status = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(status.success());
    program
}

/// Whether what is to be seen can be: two CPUs, threads that are noticed at once, and a kernel that counts how long they wait.
fn can_be_seen() -> bool {
    let cpus = machine::linux::allowed_cpus().map_or(0, |cpus| cpus.len());
    let main = machine::linux::Pid(std::process::id() as i32);
    let waits = main.scheduler_times(main.main_thread()).and_then(|times| times.waited_s);
    let traced = launch::trace_available();
    let can = cpus >= 2 && waits.is_some() && traced.is_ok();
    if !can {
        println!("skipped: {cpus} CPUs, time waited {waits:?}, ptrace {traced:?}");
    }
    can
}

fn study(folder: &Path, arguments: &[&str], program: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_stayput"))
        .current_dir(folder)
        .args([
            "study",
            "-q",
            "-n",
            "2",
            "--place",
            "unbound,compact",
            "--min-runs",
            "2",
            "--max-runs",
            "2",
            "--warmup",
            "0",
        ])
        .args(["--no-report", "--out", "ranks.stayput"])
        .args(arguments)
        .arg("--")
        .args(program)
        .output()
        .unwrap();
    assert!(output.stdout.is_empty() || output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn json(folder: &Path) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_stayput"))
        .current_dir(folder)
        .args(["report", "ranks.stayput", "--format", "json"])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn warning<'a>(study: &'a Value, kind: &str) -> Option<&'a Value> {
    study["findings"]["warnings"].as_array().unwrap().iter().find(|warning| warning["warning"] == kind)
}

#[test]
fn processes_that_a_placement_puts_on_one_cpu_are_noticed_and_said_first() {
    if !can_be_seen() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = ranks(folder.path());
    study(folder.path(), &[], &[program.to_str().unwrap(), "2", "150"]);
    let told = json(folder.path());
    let crowded = warning(&told, "crowded").unwrap_or_else(|| panic!("{}", told["warnings"]));
    assert_eq!((&crowded["placement"], &crowded["processes"]), (&"compact".into(), &2.into()), "{crowded}");
    assert_eq!((&crowded["trials"], &crowded["cells"]), (&2.into(), &1.into()), "{crowded}");
    let headline = told["verdicts"][0].as_str().unwrap();
    let first = "busy threads of 2 processes were put on the same CPU under compact with 2 threads: ";
    assert!(headline.contains(first), "{headline}");

    // Bound one by one, without the launcher, each has a CPU of its own.
    let other = study(folder.path(), &["--unit", "process", "--skip", "0"], &[program.to_str().unwrap(), "2", "150"]);
    assert_eq!(other.status.code(), Some(2), "another binding is another study");
    assert!(String::from_utf8_lossy(&other.stderr).contains("binding"), "{}", String::from_utf8_lossy(&other.stderr));
    std::fs::remove_file(folder.path().join("ranks.stayput")).unwrap();
    study(folder.path(), &["--unit", "process", "--skip", "0"], &[program.to_str().unwrap(), "2", "150"]);
    let told = json(folder.path());
    assert_eq!(warning(&told, "crowded"), None);
    assert_eq!(told["plan"]["subjects"][0]["binding"]["unit"], "process");
}

#[test]
fn processes_that_follow_each_other_on_one_cpu_are_nothing_to_tell() {
    if !can_be_seen() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = ranks(folder.path());
    let one = format!("{} 1 60", program.display());
    study(folder.path(), &[], &["sh", "-c", &format!("{one}; {one}; {one}")]);
    assert_eq!(warning(&json(folder.path()), "crowded"), None);
}
