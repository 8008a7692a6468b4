//! What a study survives: its own death, programs that misbehave, disks that are full.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use study::{Comparison, Journal, JournalError};

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// A variable that marks a test's processes, so that those left over can be found.
const MARK: &str = "STAYPUT_FAULT_TEST";

fn stayput(mark: &Path) -> Command {
    let mut command = Command::new(STAYPUT);
    command.env(MARK, mark).stdin(Stdio::null());
    command
}

fn json(journal: &Path) -> Value {
    let output = Command::new(STAYPUT).args(["report", "--format", "json"]).arg(journal).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Programs that carry the mark, by command line; none may be left when a study is over. Those that are just being torn
/// down get a moment.
fn left_over(mark: &Path) -> Vec<String> {
    let entry = format!("{MARK}={}\0", mark.display());
    let look = || -> Vec<String> {
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
        let marked = processes.filter(|process| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            environment.windows(entry.len()).any(|window| window == entry.as_bytes())
        });
        marked
            .filter_map(|process| fs::read_to_string(process.join("cmdline")).ok())
            .filter(|line| !line.is_empty())
            .map(|line| line.replace('\0', " "))
            .collect()
    };
    (0..50)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            look()
        })
        .find(Vec::is_empty)
        .unwrap_or_else(look)
}

fn one_sentence(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    assert!(!text.contains("panicked"), "{text}");
    text
}

#[test]
fn killed_at_twenty_random_moments_a_study_loses_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("study.stayput");
    let study = || {
        let mut command = stayput(folder.path());
        command
            .args(["study", "--quiet", "--no-report", "-n", "1", "--min-runs", "30", "--max-runs", "30", "--out"])
            .arg(&journal)
            .args(["--", "sleep", "0.005"])
            .stdout(Stdio::null());
        command
    };
    // Any seed will do; this one is written down so that a failure can be had again.
    let mut random = 0x5EED_u64;
    let mut whole_at_last_look = 0;
    for _ in 0..20 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut running = study().stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(5_000 + (random >> 40) % 120_000));
        running.kill().unwrap();
        running.wait().unwrap();
        assert_eq!(left_over(folder.path()), Vec::<String>::new());
        // Killed before the first write, there is no study yet; after that it is always whole.
        let trials = match Journal::<Comparison>::read(&journal) {
            Ok(record) => record.trials.len(),
            Err(JournalError::Open { .. } | JournalError::Empty { .. }) => 0,
            Err(error) => panic!("{error}"),
        };
        assert!(trials >= whole_at_last_look, "{trials} trials, {whole_at_last_look} before");
        whole_at_last_look = trials;
    }
    assert!(study().status().unwrap().success());
    let report = json(&journal);
    let trials = report["trials"].as_array().unwrap();
    let keys: BTreeSet<String> = trials.iter().map(|t| format!("{} {}", t["block"], t["placement"])).collect();
    assert_eq!(
        trials.len(),
        31 * 2,
        "30 blocks after one of warm-up, two placements: of one thread, scatter is compact"
    );
    assert_eq!(keys.len(), trials.len(), "no trial twice");
    for (position, trial) in trials.iter().enumerate() {
        assert_eq!(trial["sequence"], position, "none missing");
        assert_eq!(trial["status"], "ok");
    }
    assert!(report["sessions"].as_array().unwrap().len() > 1);
}

#[test]
fn killed_during_a_program_of_many_processes_a_study_leaves_none_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    // More births than are learned by stops; what is born after them is not traced.
    let script =
        format!("for i in $(seq 200); do /bin/true; done; sleep 1000 & (sleep 1000 &) ; >{}; wait", ready.display());
    let mut running = stayput(folder.path())
        .args(["study", "--quiet", "--no-report", "-n", "1", "--place", "unbound,compact", "--out"])
        .arg(folder.path().join("study.stayput"))
        .args(["--", "sh", "-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !ready.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(left_over(folder.path()).len() >= 3);
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(left_over(folder.path()), Vec::<String>::new());
}

#[test]
fn programs_that_misbehave_are_named_rows_and_the_study_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("misbehaving.toml");
    let counter = folder.path().join("counter");
    let counter = counter.display();
    // Only the kernel finds out that what is to interpret it isn't a program.
    let script = folder.path().join("script");
    fs::write(&script, "#!/etc/passwd\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let script = script.display();
    fs::write(
        &plan,
        format!(
            r#"
threads = ["1"]
placements = ["unbound", "0"]
warmup-blocks = 0
timeout = "400ms"
stop = {{ min-runs = 6, max-runs = 6 }}

[[subject]]
name = "good"
command = ["true"]

[[subject]]
name = "hangs"
command = ["sh", "-c", "trap '' TERM; sleep 1000 & wait; sleep 1000"]

[[subject]]
name = "crashes"
command = ["sh", "-c", "echo about to crash >&2; kill -SEGV $$"]

[[subject]]
name = "fails"
command = ["sh", "-c", "exit 3"]

[[subject]]
name = "wrong now and then"
command = ["sh", "-c", "echo x >> {counter}; if [ $(($(wc -l < {counter}) % 3)) = 0 ]; then echo wrong; else echo right; fi"]
verified-regex = "^right"

[[subject]]
name = "leaves children"
command = ["sh", "-c", "sleep 1000 & (setsid sleep 1000 &) ; exit 0"]

[[subject]]
name = "talks"
command = ["sh", "-c", "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo 'took 0.001 s'"]
time-regex = 'took ([0-9.]+) s'

[[subject]]
name = "says no time"
command = ["echo", "done"]
time-regex = 'took ([0-9.]+) s'

[[subject]]
name = "says a rate"
command = ["echo", "took 13507.3 s"]
time-regex = 'took ([0-9.]+) s'

[[subject]]
name = "has no interpreter"
command = ["{script}"]
"#
        ),
    )
    .unwrap();
    let journal = folder.path().join("study.stayput");
    let output = stayput(folder.path())
        .args(["study", "--quiet", "--no-report", "--timeout", "3s", "--out"])
        .args([&journal, &plan])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "cells without any good run: {output:?}");
    assert_eq!(left_over(folder.path()), Vec::<String>::new());

    let report = json(&journal);
    let trials = report["trials"].as_array().unwrap();
    let of = |subject: &str| trials.iter().filter(|trial| trial["subject"] == subject).collect::<Vec<_>>();
    let statuses = |subject: &str| -> BTreeSet<String> {
        of(subject).iter().map(|trial| trial["status"].as_str().unwrap().to_owned()).collect()
    };
    let only = |status: &str| BTreeSet::from([status.to_owned()]);
    assert_eq!(statuses("good"), only("ok"));
    assert_eq!(of("good").len(), 12);
    assert_eq!(statuses("hangs"), only("timeout"));
    assert_eq!(of("hangs").len(), 6, "given up after three failures in each of two cells");
    assert_eq!(statuses("crashes"), only("signal"));
    assert!(of("crashes").iter().all(|trial| trial["cause"].as_str().unwrap().contains("SIGSEGV")));
    assert!(of("crashes").iter().all(|trial| trial["output_tail"].as_str().unwrap().contains("about to crash")));
    assert_eq!(statuses("fails"), only("exit-code"));
    assert!(of("fails").iter().all(|trial| trial["cause"] == "exit code 3"));
    assert_eq!(statuses("wrong now and then"), BTreeSet::from(["ok".to_owned(), "verification-failed".to_owned()]));
    assert_eq!(of("wrong now and then").len(), 12);
    assert_eq!(statuses("leaves children"), only("ok"));
    assert!(
        of("leaves children").iter().all(|trial| trial["leftover_processes"] == 2),
        "{:?}",
        of("leaves children")[0]
    );
    assert_eq!(statuses("talks"), only("ok"));
    assert!(of("talks").iter().all(|trial| trial["time_s"] == 0.001));
    assert_eq!(statuses("says no time"), only("no-time"));
    assert_eq!(statuses("says a rate"), only("no-time"));
    let cause = of("says a rate")[0]["cause"].as_str().unwrap();
    assert!(cause.starts_with("it reports a time of 13507.3 s, and ran for ") && cause.contains("a rate"), "{cause}");
    assert_eq!(statuses("has no interpreter"), only("not-started"));
    assert_eq!(of("has no interpreter").len(), 2);
    for trial in trials {
        assert_eq!(trial["status"] == "ok", trial["time_s"].is_number(), "a failed trial is never a number: {trial}");
        assert_eq!(trial["status"] == "ok", trial["cause"] == "", "{trial}");
    }
}

#[test]
fn an_interrupted_study_says_how_to_go_on_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("study.stayput");
    let running = stayput(folder.path())
        .args(["study", "--quiet", "--no-report", "-n", "1", "--out"])
        .arg(&journal)
        .args(["--", "sleep", "0.2"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let has_trial = || Journal::<Comparison>::read(&journal).is_ok_and(|record| !record.trials.is_empty());
    assert!((0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        has_trial()
    }));
    // Not by SIGINT, which a shell makes its background processes ignore.
    assert!(Command::new("sh").args(["-c", &format!("kill -TERM {}", running.id())]).status().unwrap().success());
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(15));
    assert!(one_sentence(&output).contains("the same command goes on"));
    assert_eq!(left_over(folder.path()), Vec::<String>::new());
    assert!(!json(&journal)["trials"].as_array().unwrap().is_empty());
}

#[test]
fn another_plan_on_the_same_journal_is_an_error_that_shows_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("study.stayput");
    let study = |runs: &str, seed: &str| {
        stayput(folder.path())
            .args(["study", "--quiet", "--no-report", "-n", "1", "--min-runs", runs, "--max-runs", runs])
            .args(["--seed", seed, "--out"])
            .arg(&journal)
            .args(["--", "true"])
            .output()
            .unwrap()
    };
    assert!(study("5", "1").status.success());
    let before = json(&journal);
    let other = study("6", "2");
    assert_eq!(other.status.code(), Some(2));
    let text = String::from_utf8(other.stderr).unwrap();
    assert!(text.contains("seed: the journal has 1, you ask for 2"), "{text}");
    assert!(!text.contains("min_blocks"), "how many runs are enough may change: {text}");
    let again = study("5", "1");
    assert!(again.status.success());
    assert_eq!(json(&journal)["trials"], before["trials"], "a finished study is not run again");
}

#[test]
fn paths_that_cannot_be_used_are_one_sentence_each() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    fs::write(&text, "not a journal, but a text that somebody wrote and wants to keep as it is, of course ".repeat(3))
        .unwrap();
    let attempt = |args: &[&str]| {
        let output = stayput(folder.path()).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        one_sentence(&output)
    };
    let path = text.to_str().unwrap();
    assert!(attempt(&["study", "--no-report", "--out", path, "--", "true"]).contains("not a stayput journal"));
    assert!(attempt(&["report", path]).contains("not a stayput journal"));
    assert!(attempt(&["report", "/nonexistent.stayput"]).contains("/nonexistent.stayput"));
    assert!(attempt(&["study", "--out", "/nonexistent/a.stayput", "--", "true"]).contains("/nonexistent/a.stayput"));
    assert!(attempt(&["study", "/nonexistent.toml"]).contains("/nonexistent.toml"));
    assert!(attempt(&["study", "--resume", "--out", "/nonexistent.stayput", "--", "true"]).contains("no journal"));
    assert!(attempt(&["study", "npb:xx.W"]).contains("npb:xx"));
    assert!(attempt(&["study", "--", ""]).contains("no program"));
    assert!(fs::read_to_string(&text).unwrap().starts_with("not a journal"));
}

#[test]
fn a_full_disk_is_one_sentence_and_what_was_measured_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    let kept = folder.path().join("kept.stayput");
    fs::create_dir(&disk).unwrap();
    // A private mount of a disk of 256 KiB; the journal is copied out before the mount is gone.
    let script = format!(
        "mount -t tmpfs -o size=256k none {disk} || exit 77
         {STAYPUT} study --quiet --no-report -n 1 --min-runs 5000 --max-runs 5000 --out {disk}/a.stayput -- true
         code=$?
         cp {disk}/a.stayput {kept}; [ ! -e {disk}/a.stayput-wal ] || cp {disk}/a.stayput-wal {kept}-wal
         exit $code",
        disk = disk.display(),
        kept = kept.display()
    );
    let output = Command::new("unshare").args(["--mount", "--map-root-user", "sh", "-c", &script]).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(77) || words.contains("unshare") {
        eprintln!("skipped: no private mount here: {words}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(one_sentence(&output).contains("no space left"), "{words}");
    let trials = json(&kept)["trials"].as_array().unwrap().len();
    assert!(trials > 10, "{trials} trials were kept");
}

#[test]
fn a_program_that_cannot_start_is_no_study() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        fs::write(folder.path().join(name), text).unwrap();
        fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    write("data", "1 2 3\n", 0o644);
    write("script", "#!/no/such/python3\nprint(1)\n", 0o755);
    fs::create_dir(folder.path().join("sub")).unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").args(["-m", "755"]).arg(pipe).status().unwrap().success());
    for (program, code, reason) in [
        ("./nosuch", 127, "./nosuch: command not found"),
        ("no-such-program", 127, "no-such-program: command not found"),
        ("./data", 126, "./data: cannot be executed"),
        ("./sub", 126, "./sub: cannot be executed"),
        ("./pipe", 126, "./pipe: cannot be executed"),
        ("./script", 126, "its first line names /no/such/python3, which isn't there"),
    ] {
        for command in [&["study", "--budget", "1s"][..], &["study", "--best", "--budget", "1s"], &["run"]] {
            let output =
                stayput(folder.path()).args(command).args(["--", program]).current_dir(folder.path()).output().unwrap();
            let sentence = one_sentence(&output);
            assert!(sentence.contains(reason), "{command:?} {program}: {sentence}");
            assert_eq!(output.status.code(), Some(code), "{command:?} {program}");
            assert!(output.stdout.is_empty());
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing was written");
}

#[test]
fn a_study_in_which_nothing_went_well_fails() {
    let folder = tempfile::tempdir().unwrap();
    let output = stayput(folder.path())
        .args(["study", "--quiet", "-n", "1", "--place", "unbound,compact", "--", "false"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains("2 of 2 cells have no run that went well"));
}
