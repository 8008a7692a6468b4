//! A study that is given again: gone on with, extended, or known to be finished.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use study::{Comparison, Journal};

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// `stayput study` of a program that sleeps, with these words, in `folder`.
fn study(folder: &Path, words: &str) -> Output {
    Command::new(STAYPUT)
        .args(["study", "--quiet"])
        .args(words.split_whitespace())
        .args(["--out", "a.stayput", "--", "sleep", "0.002"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What it printed when it went well.
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(folder: &Path) -> Value {
    let output =
        Command::new(STAYPUT).args(["report", "a.stayput", "--format", "json"]).current_dir(folder).output().unwrap();
    serde_json::from_str(&printed(&output)).unwrap()
}

fn trials(report: &Value) -> Vec<(u64, String)> {
    let trials = report["trials"].as_array().unwrap().iter();
    trials.map(|t| (t["block"].as_u64().unwrap(), t["placement"].as_str().unwrap().to_owned())).collect()
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap()
}

#[test]
fn a_study_says_why_it_stopped_and_goes_on_when_it_may_run_more() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Narrower than any program is: so the most runs end it.
    let words = "-n 1 --place unbound,compact --width 0.001% --min-runs 5 --max-runs";
    let text = printed(&study(folder, &format!("{words} 6")));
    assert!(!text.contains("nothing was run"), "{text}");
    assert_eq!(
        last_line(&text),
        "stopped: 6 runs of a cell are the most that it may make (--max-runs), with 1 of 2 cells not settled; the same command with a larger --max-runs goes on."
    );
    let page = fs::read_to_string(folder.join("a.html")).unwrap();
    assert!(page.contains("6 runs of a cell are the most that it may make (--max-runs)"));
    let first = json(folder);
    assert_eq!((&first["stop"]["reason"], &first["stop"]["runs"]), (&"most-runs".into(), &6.into()));
    assert_eq!(trials(&first).len(), 2 * 7);

    let text = printed(&study(folder, &format!("{words} 6")));
    let first_line = text.lines().next().unwrap();
    assert!(first_line.starts_with("nothing was run: this study was finished on 20"), "{first_line}");
    let again = json(folder);
    assert_eq!(again, first, "not even the command is kept, which ran nothing");

    let text = printed(&study(folder, &format!("{words} 9 --budget 1h")));
    assert!(!text.contains("nothing was run"), "{text}");
    let more = json(folder);
    assert_eq!(trials(&more)[..14], trials(&first));
    assert_eq!(trials(&more).len(), 2 * 10);
    assert_eq!(more["plan"]["extensions"][0]["from_block"], 7);
    assert_eq!(more["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_larger_budget_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let words = "-n 1 --place unbound,compact --min-runs 12 --max-runs 12";
    let text = printed(&study(folder, &format!("{words} --budget 15ms")));
    assert!(last_line(&text).starts_with("stopped: The time budget of 15 ms is spent (--budget)"), "{text}");
    assert!(trials(&json(folder)).len() < 26);
    let text = printed(&study(folder, &format!("{words} --budget 10min")));
    assert_eq!(last_line(&text), "stopped: Every cell had its 12 runs (--max-runs).");
    assert_eq!(trials(&json(folder)).len(), 2 * 13);
}

#[test]
fn placements_and_thread_counts_are_added_in_new_blocks_and_the_page_says_from_which_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let runs = "--min-runs 6 --max-runs 6";
    printed(&study(folder, &format!("-n 1 --place unbound,0 {runs}")));
    let before = trials(&json(folder));
    // Two threads on one CPU, so that there is such a placement on every machine.
    printed(&study(folder, &format!("-n 1,2 --place unbound,0,scatter {runs}")));
    let report = json(folder);
    let after = trials(&report);
    assert_eq!(after[..before.len()], before);
    assert!(after[before.len()..].iter().all(|(block, _)| *block > 6), "{after:?}");
    let added = report["plan"]["extensions"][0].clone();
    assert_eq!(added["threads"], serde_json::json!([2]));
    assert_eq!(added["treatments"], serde_json::json!(["scatter"]));
    let summaries = report["summaries"].as_array().unwrap();
    let of = |threads: u64, placement: &str| {
        summaries.iter().find(|s| s["threads"] == threads && s["placement"] == placement)
    };
    assert_eq!(of(2, "unbound").unwrap()["trials"], 6);
    assert_eq!(of(2, "scatter").unwrap()["pairs"], 6);
    let sentence = "Added to the study from block 7 on, so that ratios are of the blocks since: scatter, 2 threads.";
    assert!(report["warnings"].as_array().unwrap().iter().any(|warning| warning == sentence), "{}", report["warnings"]);
    assert!(fs::read_to_string(folder.join("a.html")).unwrap().contains(sentence));

    // What it has can't be left out.
    let fewer = study(folder, &format!("-n 2 --place unbound,0,scatter {runs}"));
    assert_eq!(fewer.status.code(), Some(2));
    let said = String::from_utf8(fewer.stderr).unwrap();
    assert!(said.contains("threads: the journal has [1,2], you ask for [2]"), "{said}");
}

#[test]
fn cells_that_were_given_up_are_tried_again_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Fails while there is a file that says so.
    let run = |words: &[&str]| {
        Command::new(STAYPUT)
            .args(["study", "--quiet", "--no-report", "-n", "1", "--place", "unbound,0", "--min-runs", "5"])
            .args(["--max-runs", "5", "--out", "a.stayput"])
            .args(words)
            .args(["--", "test", "!", "-e", "broken"])
            .current_dir(folder)
            .output()
            .unwrap()
    };
    fs::write(folder.join("broken"), "").unwrap();
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(last_line(&text), "stopped: No cell is left that does not fail; --retry tries them again.");
    let failed = trials(&json(folder)).len();

    fs::remove_file(folder.join("broken")).unwrap();
    assert_eq!(run(&[]).status.code(), Some(1), "nothing is tried unasked");
    assert_eq!(trials(&json(folder)).len(), failed);
    let text = printed(&run(&["--retry"]));
    assert_eq!(last_line(&text), "stopped: Every cell had its 5 runs (--max-runs).");
    let report = json(folder);
    assert!(report["summaries"].as_array().unwrap().iter().all(|s| s["trials"].as_u64() >= Some(2)));
    assert_eq!(trials(&report).len(), failed + 2 * 3, "five runs each, two of which had failed and one warmed up");
    let said = String::from_utf8(run(&["--retry"]).stderr).unwrap();
    assert!(said.contains("no cell of a.stayput was given up"), "{said}");
}

/// `stayput study` of the program `./app` in `folder`, whose journal has its default name.
fn study_app(folder: &Path, words: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(STAYPUT)
        .args(["study", "--quiet", "-n", "1", "--place", "unbound,0", "--min-runs", "5", "--max-runs", "5"])
        .args(words)
        .args(["--", "./app"])
        .envs(variables.iter().copied())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn write_app(folder: &Path, text: &str) {
    // By a new file, as compilers do.
    let _ = fs::remove_file(folder.join("app"));
    fs::write(folder.join("app"), text).unwrap();
    fs::set_permissions(folder.join("app"), fs::Permissions::from_mode(0o755)).unwrap();
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_program_that_changed_gets_a_study_of_its_own_beside_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (quick, slow) = ("#!/bin/sh\n:\n", "#!/bin/sh\nsleep 0.01\n");
    write_app(folder, quick);
    assert!(!printed(&study_app(folder, &[], &[])).contains("nothing was run"));
    let first = fs::read(folder.join("app.stayput")).unwrap();

    // The same program built again, at another time, is the same one.
    write_app(folder, quick);
    let output = study_app(folder, &[], &[]);
    assert!(printed(&output).starts_with("nothing was run"));
    assert_eq!(said(&output), "");

    // Where the study found it best is told of the program that it was.
    let run =
        || Command::new(STAYPUT).args(["run", "--place", "app.stayput", "--", "./app"]).current_dir(folder).output();
    let changed = "stayput: since the study in app.stayput ./app has another content (12 bytes then, 21 now); what it found may not hold any more: study it again\n";
    assert!(!said(&run().unwrap()).contains("since the study"));
    write_app(folder, slow);
    assert!(said(&run().unwrap()).contains(changed), "{}", said(&run().unwrap()));

    let output = study_app(folder, &[], &[]);
    let text = printed(&output);
    assert!(!text.contains("nothing was run") && text.contains("journal: app.2.stayput"), "{text}");
    assert_eq!(
        said(&output),
        "stayput: since the last study ./app has another content (12 bytes then, 21 now); its results are kept, and the study of what there is now begins in app.2.stayput\n"
    );
    assert_eq!(fs::read(folder.join("app.stayput")).unwrap(), first);
    assert_eq!(names(folder), ["app", "app.2.html", "app.2.stayput", "app.html", "app.stayput"]);
    assert!(printed(&study_app(folder, &[], &[])).starts_with("nothing was run"));

    // A journal that is named is not changed for another.
    let named = study_app(folder, &["--out", "app.stayput"], &[]);
    assert_eq!(named.status.code(), Some(2));
    assert!(said(&named).contains("was begun with another program"), "{}", said(&named));

    write_app(folder, quick);
    assert!(
        printed(&study_app(folder, &[], &[])).contains("journal: app.stayput"),
        "the old one's study is still there"
    );

    let other = study_app(folder, &[], &[("OMP_SCHEDULE", "dynamic"), ("HOME", "/")]);
    assert!(said(&other).contains("OMP_SCHEDULE was not set, and is `dynamic`"), "{}", said(&other));
    assert!(!said(&other).contains("HOME"));
    assert!(printed(&other).contains("journal: app.3.stayput"));
}

#[test]
fn a_shared_object_of_the_programs_own_is_part_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let cc = |words: &str| {
        let status = Command::new("cc").args(words.split_whitespace()).current_dir(folder).status().unwrap();
        assert!(status.success());
    };
    fs::write(folder.join("app.c"), "int answer(void);\nint main(void) { return answer() - answer(); }\n").unwrap();
    let library = |answer: u32| {
        fs::write(folder.join("answer.c"), format!("int answer(void) {{ return {answer}; }}\n")).unwrap();
        cc("-shared -fPIC -o libanswer.so answer.c");
    };
    library(41);
    cc("-o app app.c -L. -lanswer -Wl,-rpath,$ORIGIN");
    printed(&study_app(folder, &["--no-report"], &[]));
    library(41);
    assert!(printed(&study_app(folder, &["--no-report"], &[])).starts_with("nothing was run"));
    library(42);
    let output = study_app(folder, &["--no-report"], &[]);
    assert!(said(&output).contains("libanswer.so has another content"), "{}", said(&output));
    assert!(printed(&output).contains("journal: app.2.stayput"));
}

#[test]
fn a_finished_study_needs_its_program_no_more_and_an_unfinished_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_app(folder, "#!/bin/sh\n:\n");
    printed(&study_app(folder, &["--no-report"], &[]));
    fs::remove_file(folder.join("app")).unwrap();
    let output = study_app(folder, &["--no-report"], &[]);
    assert!(printed(&output).starts_with("nothing was run"));
    assert_eq!(said(&output), "stayput: ./app: command not found; nothing is left to run\n");

    let before = fs::read(folder.join("app.stayput")).unwrap();
    let more = study_app(folder, &["--no-report", "--retry", "--out", "none.stayput"], &[]);
    assert_eq!((more.status.code(), folder.join("none.stayput").exists()), (Some(127), false));
    let mut more = Command::new(STAYPUT);
    more.args(["study", "--quiet", "-n", "1", "--place", "unbound,0", "--min-runs", "6", "--max-runs", "6"]);
    let more = more.args(["--", "./app"]).current_dir(folder).output().unwrap();
    assert_eq!(more.status.code(), Some(127));
    assert!(said(&more).contains("app.stayput isn't finished, and can't be gone on with: ./app: command not found"));
    assert_eq!(fs::read(folder.join("app.stayput")).unwrap(), before);
}

#[test]
fn a_built_in_program_that_is_not_built_names_the_command_that_makes_it() {
    let folder = tempfile::tempdir().unwrap();
    // Built-in programs are looked for beside the command.
    let alone = folder.path().join("stayput");
    fs::copy(STAYPUT, &alone).unwrap();
    let output = Command::new(&alone).args(["study", "npb:cg.S"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    let said = said(&output);
    assert!(said.contains("npb-cg isn't installed") && said.contains("`make install`"), "{said}");
    assert_eq!(names(folder.path()), ["stayput"]);
}

#[test]
fn a_program_that_is_built_anew_while_it_is_studied_ends_the_study() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // It replaces itself when it has run ten times.
    write_app(
        folder,
        "#!/bin/sh\necho >> runs\n[ $(wc -l < runs) -lt 10 ] || { echo '#!/bin/sh' > new; chmod +x new; mv new app; }\n",
    );
    let output = study_app(folder, &["--no-report"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).starts_with("stayput: ./app has another content ("), "{}", said(&output));
    assert!(said(&output).contains("the same command begins the study of what there is now"));
    let record = Journal::<Comparison>::read(&folder.join("app.stayput")).unwrap();
    assert_eq!((record.trials.len(), record.ending), (10, None));
    assert!(printed(&study_app(folder, &["--no-report"], &[])).contains("journal: app.2.stayput"));
}
