//! A paper's study on this machine: what is left out, what takes whose place, and that it is said everywhere.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

/// The command with programs beside it that print what the built-in ones print, without their work.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(programs: &[&str]) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // Programs are looked for beside the command itself. Links, since what has just been written may still be held
        // open by the fork of another test, and can't be started then.
        fs::hard_link(env!("CARGO_BIN_EXE_stayput"), folder.path().join("stayput")).unwrap();
        let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/builtin.sh");
        for program in programs {
            symlink(&stand_in, folder.path().join(program)).unwrap();
        }
        Self { folder }
    }

    fn stayput(&self, arguments: &[&str]) -> Output {
        let program = self.folder.path().join("stayput");
        Command::new(program).args(arguments).current_dir(self.folder.path()).output().unwrap()
    }

    fn json(&self, journal: &str) -> Value {
        let output = self.stayput(&["report", "--format", "json", journal]);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A study of `programs` that asks for one thread and for more than any machine has.
fn study_file(paper: &str, programs: &[&str], classes: &[&str]) -> String {
    let mut text = format!(
        "paper = \"{paper}\"\nthreads = [\"1\", \"65536\"]\nbeyond-machine = \"leave-out\"\n\
         placements = [\"unbound\", \"compact\", \"scatter\"]\nstop = {{ relative-sd = \"5 %\", min-runs = 2, max-runs = 2 }}\n"
    );
    for class in classes {
        for program in programs {
            text.push_str(&format!("[[subject]]\nbuiltin = \"{program}.{class}\"\n"));
        }
    }
    text
}

#[test]
fn what_departs_from_the_paper_is_said_at_the_start_in_the_journal_and_in_the_report() {
    let bench = Bench::new(&["npb-cg", "npb-ep"]);
    let file = study_file("pires-2017", &["npb:cg", "npb:ep"], &["A", "C"]);
    fs::write(bench.folder.path().join("study.toml"), file).unwrap();
    let output = bench.stayput(&["study", "--class", "W", "study.toml"]);
    let (said, report) = (text(&output.stderr), text(&output.stdout));
    assert!(output.status.success(), "{said}");
    let value = bench.json("pires-2017.stayput");
    let departures = value["plan"]["departures"].as_array().unwrap();
    assert_eq!(departures.len(), 3, "{departures:?}");
    let starts =
        ["Class W takes the place of A and C;", "Left out: 65536 threads,", "compact and scatter are the very same"];
    for (departure, start) in departures.iter().zip(starts) {
        let departure = departure.as_str().unwrap();
        assert!(departure.starts_with(start), "{departure}");
        assert!(said.contains(&format!("stayput: {departure}")), "{said}");
        assert!(value["warnings"].as_array().unwrap().contains(&json!(departure)), "{}", value["warnings"]);
    }
    assert_eq!(value["plan"]["threads"], json!([1]));
    let subjects: Vec<&Value> = value["plan"]["subjects"].as_array().unwrap().iter().map(|s| &s["name"]).collect();
    assert_eq!(subjects, [&json!("npb:cg.W"), &json!("npb:ep.W")]);
    assert_eq!(value["plan"]["subjects"][0]["build"], "npb-cg 0.1.0 (testcc 1.2)");
    assert!(report.contains("Table 2 of Pires and Lobosco 2017, class C, beside ours of class W"), "{report}");
    assert!(report.contains("compiler: testcc 1.2"), "{report}");
    // The printed time of CG, class A, one thread; and what the programs here say they took.
    let rows = value["paper"]["tables"][0]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["benchmark"] == "CG" && row["quantity"] == "time").unwrap();
    assert_eq!((&row["printed"][0], &row["ours"][0]), (&json!(3.29), &json!(0.01)));
}

#[test]
fn a_study_of_another_class_is_not_gone_on_with_and_one_with_nothing_to_run_is_refused() {
    let bench = Bench::new(&["npb-ep"]);
    fs::write(bench.folder.path().join("study.toml"), study_file("pires-2016", &["npb:ep"], &["B"])).unwrap();
    assert!(bench.stayput(&["study", "--no-report", "--class", "S", "study.toml"]).status.success());
    for (arguments, said) in [
        (vec!["study", "study.toml"], "pires-2016.stayput holds another plan"),
        (vec!["study", "--class", "Z", "study.toml"], "npb:ep has no class `Z`"),
        (vec!["study", "--class", "W", "--", "true"], "--class W is for built-in programs"),
        (vec!["study", "-n", "65536", "study.toml"], "too few for any thread count of the study"),
    ] {
        let output = bench.stayput(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn thread_counts_beyond_the_machine_still_wrap_around_where_no_file_says_otherwise() {
    let bench = Bench::new(&["npb-ep"]);
    let threads = std::thread::available_parallelism().unwrap().get() + 1;
    let count = threads.to_string();
    let arguments = ["study", "--no-report", "-n", &count, "--min-runs", "2", "--max-runs", "2", "npb:ep.S"];
    let output = bench.stayput(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let value = bench.json("npb-ep.S.stayput");
    assert_eq!(value["plan"]["threads"], json!([threads]));
    assert!(value["plan"].get("departures").is_none() && value.get("paper").is_none());
}

#[test]
fn threads_for_which_a_program_has_no_work_are_told_before_the_first_trial_and_in_the_report() {
    let bench = Bench::new(&["npb-lu"]);
    let study = |threads: &str| {
        bench.stayput(&["study", "--no-report", "-n", threads, "--min-runs", "2", "--max-runs", "2", "npb:lu.S"])
    };
    let sentence =
        "npb:lu.S has work for 10 threads: of 12, 2 only wait, wherever they are; a larger class has work for more.";
    let output = study("12");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).lines().any(|line| line == format!("stayput: {sentence}")),
        "{}",
        text(&output.stderr)
    );
    let told = |value: &serde_json::Value| value["findings"]["warnings"].to_string().contains("more-threads-than-work");
    let value = bench.json("npb-lu.S.stayput");
    assert!(value.to_string().contains(sentence) && told(&value), "{}", value["findings"]);
    assert_eq!(value["plan"]["subjects"][0]["useful_threads"], 10);

    std::fs::remove_file(bench.folder.path().join("npb-lu.S.stayput")).unwrap();
    assert!(!text(&study("10").stderr).contains("only wait"));
    assert!(!told(&bench.json("npb-lu.S.stayput")));
}

#[test]
fn every_program_of_the_papers_studies_is_there() {
    for paper in ["pires-2016", "pires-2017", "weber-2010"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../papers/{paper}.toml"));
        let file = study::study_file::StudyFile::read(&path, &[paper]).unwrap();
        assert!(!file.subjects.is_empty(), "{paper} studies nothing");
        for subject in file.subjects {
            let builtin = subject.builtin.unwrap();
            assert!(workloads::resolve(&builtin).is_ok(), "{paper}: {builtin}");
        }
    }
}
