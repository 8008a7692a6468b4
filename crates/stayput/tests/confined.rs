//! Studies and runs where not every CPU, or not every right, is ours.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// CPUs that this test may use, as the kernel lists them.
fn allowed_cpus() -> Vec<u32> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim()
        .split(',')
        .flat_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse::<u32>().unwrap()..=last.parse().unwrap()
        })
        .collect()
}

/// A small study and a run, started through `wrapper`; gives the study's report and the run's JSON.
fn study_and_run(wrapper: &[String], folder: &Path) -> (Value, Value) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    let through = |args: &[&str]| -> Output {
        Command::new(&wrapper[0]).args(&wrapper[1..]).arg(STAYPUT).args(args).current_dir(folder).output().unwrap()
    };
    let output = through(&[
        "study",
        "--quiet",
        "--no-report",
        "-n",
        "1,all",
        "--min-runs",
        "5",
        "--max-runs",
        "5",
        "--out",
        "s.stayput",
        "--",
        "true",
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = through(&["report", "s.stayput", "--format", "json"]);
    let run = through(&["run", "--quiet", "--place", "compact", "-n", "1", "--json", "run.json", "--", "true"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = fs::read(folder.join("run.json")).unwrap();
    (serde_json::from_slice(&report.stdout).unwrap(), serde_json::from_slice(&text).unwrap())
}

/// Every trial was bound to `cpu` alone, or unbound but confined to it.
fn assert_all_on(report: &Value, run: &Value, cpu: u32) {
    assert_eq!(report["plan"]["threads"], json!([1]), "`all` is one CPU here");
    for trial in report["trials"].as_array().unwrap() {
        assert_eq!(trial["status"], "ok");
        assert_eq!(trial["actual_cpus"], json!([[cpu]]), "{trial}");
        if trial["placement"] != "unbound" {
            assert_eq!(trial["intended_cpus"], json!([[cpu]]));
        }
    }
    assert_eq!(run["intended_cpus"], json!([[cpu]]));
    assert_eq!(run["actual_cpus"], json!([[cpu]]));
}

#[test]
fn under_a_narrowed_mask_only_its_cpus_are_used() {
    let Some(&last) = allowed_cpus().last() else { unreachable!("a process has a CPU") };
    let folder = tempfile::tempdir().unwrap();
    let (report, run) = study_and_run(&["taskset".into(), "-c".into(), last.to_string()], folder.path());
    assert_all_on(&report, &run, last);
}

#[test]
fn a_cpu_outside_the_mask_is_refused_with_its_reason() {
    let cpus = allowed_cpus();
    let [first, .., last] = cpus.as_slice() else {
        eprintln!("skipped: one CPU has no outside");
        return;
    };
    for command in [vec!["run", "--place", "CPU", "--", "true"], vec!["study", "--place", "CPU", "--", "true"]] {
        let args = command.iter().map(|word| if *word == "CPU" { last.to_string() } else { (*word).to_owned() });
        let output = Command::new("taskset").args(["-c", &first.to_string(), STAYPUT]).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.trim_end().lines().count(), 1, "{text}");
        assert!(text.contains(&format!("CPU {last}")) && text.contains("affinity"), "{text}");
    }
}

/// A cpuset of one CPU, gone with the value; none where this machine or user can't make one.
struct Cpuset(PathBuf);

impl Cpuset {
    fn of(cpu: u32) -> Option<Self> {
        let name = format!("stayput-test-{}", std::process::id());
        for root in ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"] {
            let set = Self(Path::new(root).join(&name));
            if !Path::new(root).join("cgroup.procs").exists() || fs::create_dir(&set.0).is_err() {
                continue;
            }
            let _ = fs::write(Path::new(root).join("cgroup.subtree_control"), "+cpuset");
            if fs::write(set.0.join("cpuset.cpus"), cpu.to_string()).is_ok()
                && fs::write(set.0.join("cpuset.mems"), "0").is_ok()
            {
                return Some(set);
            }
        }
        None
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn inside_a_cpuset_of_one_cpu_it_is_the_whole_machine() {
    let Some(&last) = allowed_cpus().last() else { unreachable!("a process has a CPU") };
    let Some(set) = Cpuset::of(last) else {
        eprintln!("skipped: no cpuset can be made here (needs root and a cpuset controller)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", set.0.display());
    let (report, run) = study_and_run(&["sh".into(), "-c".into(), enter.clone(), "sh".into()], folder.path());
    assert_all_on(&report, &run, last);
    let text = Command::new("sh").args(["-c", &enter, "sh", STAYPUT, "topology"]).output().unwrap();
    if last > 0 {
        let text = String::from_utf8(text.stdout).unwrap();
        assert!(text.contains("cpuset"), "forbidden CPUs are shown with their reason: {text}");
    }
}

#[test]
fn without_privileges_studies_and_runs_work() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"];
    let can = Command::new(nobody[0]).args(&nobody[1..]).args([STAYPUT, "--version"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: can't become another user here (not root, or the program is out of its reach)");
        return;
    }
    let (report, run) = study_and_run(&nobody.map(String::from), folder.path());
    assert!(report["trials"].as_array().unwrap().iter().all(|trial| trial["status"] == "ok"));
    assert_eq!(run["intended_cpus"], run["actual_cpus"]);
    let doctor = Command::new(nobody[0]).args(&nobody[1..]).args([STAYPUT, "doctor"]).output().unwrap();
    let text = String::from_utf8(doctor.stdout).unwrap();
    assert!(doctor.status.success() && text.contains("binding"), "{text}");
    // Nobody counts in the kernel without a right to.
    let profiles = text.lines().find(|line| line.contains(" profiles ")).unwrap();
    assert!(!profiles.starts_with("ok"), "{text}");
}
