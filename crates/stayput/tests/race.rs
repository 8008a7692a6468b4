//! Finding the best placement from the command line, on machines that aren't here.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Unbound takes 1.2 s, balanced 1 s, everything else between 1.05 and 1.35 s.
const MODEL: &str = "\
name = \"app\"
[noise]
lognormal = \"2 %\"
[[time]]
placement = \"unbound\"
mean_s = 1.2
[[time]]
placement = \"balanced\"
mean_s = 1.0
[others]
mean_s = 1.05
spread = \"30 %\"
";

struct Desk {
    folder: TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("app.toml"), MODEL).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn stayput(&self, words: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_stayput"))
            .args(shell_words::split(words).unwrap())
            .current_dir(self.folder.path())
            .output()
            .unwrap()
    }

    /// Runs it and gives the journal's report as JSON.
    fn study(&self, words: &str) -> Value {
        let output = self.stayput(&format!("study --quiet --no-report --out race.stayput {words}"));
        assert!(output.status.success(), "{}", text(&output.stderr));
        self.report(&self.path("race.stayput"))
    }

    fn report(&self, journal: &Path) -> Value {
        let output = self.stayput(&format!("report --format json {}", journal.display()));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn race(report: &Value) -> &Value {
    &report["races"][0]
}

#[test]
fn the_best_of_a_machines_important_placements_is_found_in_few_runs() {
    let desk = Desk::new();
    let report = desk.study("--best --subject-model app.toml --machine opteron-6272 -n 8");
    let race = race(&report);
    assert_eq!(race["best"]["placement"], "balanced");
    assert_eq!(race["gain"]["claim"], "faster");
    let entrants = race["entrants"].as_array().unwrap().len() as u64;
    let runs = race["runs"].as_u64().unwrap();
    assert!(entrants >= 10 && runs <= 2 * entrants + 40, "{entrants} entrants, {runs} runs");
    assert_eq!(report["trials"].as_array().unwrap().len() as u64, runs);
}

#[test]
fn the_same_race_gives_the_same_trials_and_another_seed_others() {
    let desk = Desk::new();
    let trials = |words: &str| {
        std::fs::remove_file(desk.path("race.stayput")).ok();
        desk.study(&format!("--best --subject-model app.toml --machine xeon-e5620 -n 4 {words}"))["trials"].clone()
    };
    let first = trials("");
    assert_eq!(first, trials(""));
    assert_ne!(first, trials("--seed 2"));
}

#[test]
fn a_finished_race_is_not_run_again() {
    let desk = Desk::new();
    let words = "--best --subject-model app.toml --machine xeon-e5620 -n 4";
    let first = desk.study(words);
    assert_eq!(first["trials"], desk.study(words)["trials"]);
    let more = desk.study(&format!("{words} --runs 99"));
    let trials = |report: &Value| report["trials"].as_array().unwrap().clone();
    assert_eq!(trials(&more)[..trials(&first).len()], trials(&first), "more runs go on with it");
    assert!(trials(&more).len() <= 99);
    let output = desk.stayput(&format!("study --quiet --no-report --out race.stayput {words} --runs 99 --seed 2"));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("another plan"), "{}", text(&output.stderr));
}

#[test]
fn thread_counts_are_added_to_a_race() {
    let desk = Desk::new();
    let words = "--best --subject-model app.toml --machine xeon-e5620 -n";
    let first = desk.study(&format!("{words} 2"));
    let more = desk.study(&format!("{words} 2,4"));
    let trials = |report: &Value| report["trials"].as_array().unwrap().clone();
    assert_eq!(trials(&more)[..trials(&first).len()], trials(&first));
    assert_eq!(more["plan"]["extensions"][0]["threads"], serde_json::json!([4]));
    assert!(trials(&more).iter().any(|trial| trial["threads"] == 4));
}

#[test]
fn candidates_are_the_important_ones_all_or_those_that_are_named() {
    let desk = Desk::new();
    let names = |words: &str| -> Vec<String> {
        std::fs::remove_file(desk.path("race.stayput")).ok();
        let report = desk.study(&format!("--best --subject-model app.toml --machine xeon-e5405 {words}"));
        let entrants = race(&report)["entrants"].as_array().unwrap().clone();
        entrants.iter().map(|entrant| entrant["placement"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("-n 2"), ["unbound", "unbalanced", "semi-balanced", "balanced"]);
    assert_eq!(names("-n 2 --among all"), ["unbound", "unbalanced", "semi-balanced", "balanced"]);
    // The poster's machine has 5 classes of 4 threads; one of them is lopsided and not important.
    assert_eq!(names("-n 4 --among all").len(), 1 + 5);
    assert!(names("-n 4").len() < 1 + 5);
    assert_eq!(names("-n 4 --among named --place scatter,0,1,4,5"), ["unbound", "scatter", "0,1,4,5"]);
    assert!(names("-n 4 --ordered").len() > names("-n 4").len());
}

#[test]
fn thread_counts_race_against_one_another() {
    let desk = Desk::new();
    let model = "name = \"app\"\n[noise]\nlognormal = \"1 %\"\n[[time]]\nplacement = \"scatter\"\nthreads = 4\nmean_s = 0.8\n\
                 [[time]]\nplacement = \"unbound\"\nmean_s = 1.0\n[others]\nmean_s = 0.95\n";
    std::fs::write(desk.path("app.toml"), model).unwrap();
    let report = desk.study("--best --subject-model app.toml --machine xeon-e5620 -n 1-8");
    let best = &race(&report)["best"];
    assert_eq!((best["threads"].as_u64(), best["placement"].as_str()), (Some(4), Some("balanced")));
}

#[test]
fn a_check_fails_when_the_placement_loses_more_than_it_may_and_only_then() {
    let desk = Desk::new();
    let check = |words: &str| {
        std::fs::remove_file(desk.path("check.stayput")).ok();
        let study = format!(
            "study --quiet --no-report --out check.stayput --subject-model app.toml --machine xeon-e5620 -n 4 {words}"
        );
        let output = desk.stayput(&study);
        (output.status.code().unwrap(), text(&output.stderr))
    };
    // Unbound takes 20 % more time than balanced.
    let (code, said) = check("--max-loss 10");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("app: unbound takes") && said.contains("more than the 10 % allowed"), "{said}");
    let (code, said) = check("--max-loss 30%");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("within the 30 % allowed"), "{said}");
    assert_eq!(check("--max-loss compact=60").0, 0);
    assert_eq!(check("--place balanced --max-loss 1").0, 0);
    assert_eq!(check("--place compact --max-loss 0.5").0, 1);
    for wrong in ["--max-loss -5", "--max-loss x", "--max-loss =5", "--max-loss nowhere=5"] {
        assert_eq!(check(wrong).0, 2, "{wrong}");
    }
}

#[test]
fn a_guarantee_is_kept_or_costs_more_runs() {
    let desk = Desk::new();
    let report = desk.study("--best --guarantee 2%,5% --subject-model app.toml --machine opteron-6272 -n 8");
    assert_eq!(race(&report)["best"]["placement"], "balanced");
}

#[test]
fn what_can_not_race_is_refused_in_one_sentence() {
    let desk = Desk::new();
    for (words, expected) in [
        ("--best --subject-model nosuch.toml", "cannot read model file nosuch.toml"),
        ("--best --subject-model app.toml --machine nosuch", "nosuch"),
        ("--best --subject-model app.toml --machine xeon-e5620 -n 9", "ask for fewer threads"),
        ("--best --among named -- true", "there are none"),
        ("--best --cut-off 0.9 -- true", "factor above 1"),
        ("--best --guarantee 2,5 -- true", "no guarantee"),
        ("--max-loss 5 -n 1,2 -- true", "one thread count"),
        ("--machine xeon-e5620 -- true", "--subject-model"),
        ("--best --among all --subject-model app.toml --machine 'pack:2 l3:8 core:8 pu:2' -n 99", "more than 10000"),
    ] {
        let output = desk.stayput(&format!("study --quiet --no-report {words}"));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains(expected), "{words}: {said}");
        assert!(!said.contains("panicked"));
    }
    std::fs::write(desk.path("app.toml"), "name = \"app\"\n[[time]]\nplacement = \"scater\"\nmean_s = 1\n").unwrap();
    let output = desk.stayput("study --best --subject-model app.toml");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("model file app.toml, line 2: `scater` is no policy"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_placement_that_won_is_applied_by_run() {
    let desk = Desk::new();
    // Here, with a real program: sleeping is as fast anywhere, so that running unbound is what a study gives. One that is late on a busy
    // machine is not cut off.
    let sleep = "study --quiet --no-report --best --cut-off 100 --runs 12 --out here.stayput -- sleep 0.05";
    let output = desk.stayput(sleep);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("no difference shown"), "{}", text(&output.stdout));
    let output = desk.stayput("run --place here.stayput -- sleep 0.05");
    assert!(output.status.success(), "{}", text(&output.stderr));
}
