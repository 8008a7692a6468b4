//! Simulations of space sharing from the command line.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod simulation_desk;

use serde_json::Value;
use simulation_desk::{Desk, text};
use std::time::Duration;

/// Ten times a task alone, then eight side by side.
const GRAPH: &str = "\
name = \"steps\"
rounds = 10

[[stages]]
name = \"one\"
tasks = { independent = 1 }
work_ms = { constant = 0.5 }

[[stages]]
name = \"all\"
tasks = { independent = 8 }
work_ms = { uniform = [0.5, 1.5] }
kept = 0.5
memory = { line_bytes = 64, reload_lines = 1000, pass_us = 100 }
";

fn desk() -> Desk {
    Desk::new("space-sharing", "steps.toml", GRAPH)
}

/// The example of the page on graph files.
fn documented() -> String {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/graph-files.md")).unwrap();
    let (_, example) = page.split_once("```toml\n").unwrap();
    example.split_once("```").unwrap().0.to_owned()
}

fn names<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap()).collect()
}

const THREE: [&str; 3] = ["equipartition", "dynamic", "dynamic-affinity"];

#[test]
fn without_options_it_tells_whether_affinity_matters_on_the_papers_machine() {
    let desk = desk();
    let told = desk.told("--replicates 4");
    let mut lines = told.lines();
    let answer = lines.by_ref().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    assert!(answer.starts_with("MVA+MATRIX+GRAVITY: under dynamic jobs answer "), "{answer}");
    assert!(answer.contains(" Under dynamic-affinity jobs answer "), "{answer}");
    assert!(answer.contains("Affinity "), "{answer}");
    assert!(lines.any(|line| THREE.iter().all(|policy| line.split_whitespace().any(|word| word == *policy))), "{told}");
    assert!(told.contains("Simulated: MVA+MATRIX+GRAVITY on sequent-symmetry, 20 CPUs, 4 replicates"), "{told}");
}

#[test]
fn jobs_and_mixes_are_listed_and_all_of_them_run() {
    let desk = desk();
    let listed = desk.told("--list");
    let (jobs, mixes) = listed.split_once("\nMixes:\n").unwrap();
    let words = |part: &str| -> Vec<String> {
        let rows = part.lines().filter_map(|line| line.strip_prefix("  "));
        rows.map(|row| row.split_whitespace().next().unwrap().to_owned()).collect()
    };
    assert_eq!(words(jobs), ["MVA", "MATRIX", "GRAVITY"]);
    let told = desk.json("--mix all --replicates 1 --policy equipartition,dynamic");
    let simulated: Vec<&str> =
        told["mixes"].as_array().unwrap().iter().map(|one| one["mix"]["name"].as_str().unwrap()).collect();
    assert_eq!(words(mixes), simulated);
    for mix in told["mixes"].as_array().unwrap() {
        assert_eq!(names(&mix["policies"], "policy"), ["equipartition", "dynamic"], "{}", mix["mix"]["name"]);
        assert!(mix["policies"][1]["response_change_percent"].is_number(), "{}", mix["mix"]["name"]);
    }
}

#[test]
fn the_same_command_gives_the_same_bytes_on_any_number_of_threads() {
    let desk = desk();
    let words = "simulate space-sharing --mix 2*steps.toml --replicates 4 --machine opteron-6272 --format json";
    let on = |threads: &str| desk.command(words).env("RAYON_NUM_THREADS", threads).output().unwrap().stdout;
    let one = text(&on("1"));
    assert!(!one.is_empty());
    assert!(one == text(&on("3")), "the same on three threads");
    let other = text(&desk.command(words).args(["--seed", "2"]).output().unwrap().stdout);
    assert!(!other.is_empty() && one != other, "another seed draws anew");
}

#[test]
fn the_documented_graph_shares_a_machine_with_a_built_in_one() {
    let desk = desk();
    desk.write("filter.toml", &documented());
    let told = desk.json("--mix 2*filter.toml+MVA --machine opteron-6272 --replicates 2");
    assert_eq!(told["machine"]["name"], "opteron-6272");
    let kinds = told["mix"]["kinds"].as_array().unwrap();
    let shape = |at: usize| (kinds[at]["graph"]["name"].as_str().unwrap(), kinds[at]["count"].as_u64().unwrap());
    assert_eq!((kinds.len(), shape(0), shape(1)), (2, ("filter", 2), ("MVA", 1)));
    assert_eq!((&told["parameters"]["speed"], &told["parameters"]["data"]), (&1.0.into(), &1.0.into()));
    for policy in told["policies"].as_array().unwrap() {
        assert_eq!(names(&policy["jobs"], "job"), ["filter", "MVA"]);
    }
}

#[test]
fn json_has_every_number_with_its_interval() {
    let desk = desk();
    let told = desk.json("--mix steps.toml+steps.toml --policy dynamic-affinity,dynamic,equipartition --replicates 4");
    assert_eq!(
        names(&told["policies"], "policy"),
        ["equipartition", "dynamic-affinity", "dynamic"],
        "the reference first"
    );
    assert_eq!(told["parameters"]["speed"], 0.001, "the paper's machine is slow");
    for policy in told["policies"].as_array().unwrap() {
        let name = policy["policy"].as_str().unwrap();
        let interval = |object: &Value, key: &str| {
            ["", "_low", "_high"].map(|end| {
                let number = &object[format!("{key}{end}")];
                number.as_f64().unwrap_or_else(|| panic!("{name}: {key}{end} is {number}"))
            })
        };
        for key in [
            "response_ms",
            "makespan_ms",
            "allocation_mean_cpus",
            "reallocations",
            "moves",
            "work_ms",
            "idle_held_ms",
            "switch_ms",
            "reload_ms",
            "affine_fraction",
            "reload_fraction",
        ] {
            let [value, low, high] = interval(policy, key);
            assert!(low <= value && value <= high, "{name}: {key} {low} {value} {high}");
        }
        assert_eq!(policy["response_change_percent"].is_number(), name != "equipartition", "{name}");
        assert_eq!(policy["response_change_by_affinity_percent"].is_number(), name == "dynamic-affinity", "{name}");
        let [job] = policy["jobs"].as_array().unwrap().as_slice() else { panic!("one kind of job") };
        assert_eq!(interval(job, "response_ms"), interval(policy, "response_ms"), "one kind is the whole");
    }
}

#[test]
fn a_sweep_is_of_one_mix_and_rises() {
    let desk = desk();
    let told = desk.json("--mix 2*steps.toml --sweep future=100,1,10 --replicates 2");
    assert_eq!(told["sweep"], "future");
    let points = told["points"].as_array().unwrap();
    let values: Vec<f64> = points.iter().map(|point| point["value"].as_f64().unwrap()).collect();
    assert_eq!(values, [1.0, 10.0, 100.0], "so that what is said of its ends is said of the least and the most");
    let speeds: Vec<f64> = points.iter().map(|point| point["parameters"]["speed"].as_f64().unwrap()).collect();
    assert_eq!((speeds[0], speeds[2]), (0.001, 0.01));
    assert!(points.iter().all(|point| names(&point["policies"], "policy") == THREE));
    for mixes in ["MVA,MATRIX", "all"] {
        let refused = desk.refused(&format!("--mix {mixes} --sweep future=1-3"));
        assert_eq!(refused, "stayput: a sweep is of one mix; name one with --mix\n");
    }
}

#[test]
fn a_journal_is_reported_like_any_study_and_keeps_to_its_plan() {
    let desk = desk();
    let words = "--mix steps.toml,2*steps.toml --replicates 3 --quiet --out";
    let printed = desk.told(&format!("{words} a.stayput"));
    assert!(printed.ends_with("\njournal: a.stayput\n"), "{printed}");
    let report = |journal: &str, form: &str| {
        let output = desk.command(&format!("report --format {form} {journal}")).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert_eq!(printed.strip_suffix("\njournal: a.stayput\n"), Some(report("a.stayput", "terminal").as_str()));
    assert!(desk.told(&format!("{words} a.stayput")) == printed, "nothing was left to do");
    assert_eq!(report("a.stayput", "csv").lines().count(), 1 + 2 * 3 * 3);
    // A horizon ends replicates, and the plan is another one.
    let refused = desk.refused(&format!("{words} a.stayput --horizon-ms 5"));
    assert!(refused.starts_with("stayput: journal a.stayput holds another plan"), "{refused}");
}

#[test]
fn a_killed_simulation_goes_on_where_it_stopped() {
    let desk = desk();
    let words = "--mix MVA+MATRIX+GRAVITY --replicates 20 --quiet --out";
    let rows = |journal: &str| {
        let output = desk.command(&format!("report --format csv {journal}")).output().unwrap();
        text(&output.stdout)
    };
    desk.told(&format!("{words} whole.stayput"));
    let mut killed = desk.command(&format!("simulate space-sharing {words} killed.stayput")).spawn().unwrap();
    // Some replicates are kept at a time: it is killed when it has some and not all.
    while killed.try_wait().unwrap().is_none() && rows("killed.stayput").lines().count() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    desk.told(&format!("{words} killed.stayput"));
    assert_eq!(rows("whole.stayput").lines().count(), 1 + 3 * 20);
    assert!(rows("whole.stayput") == rows("killed.stayput"), "the same replicates, wherever it was cut off");
}

/// What makes a mistake of [`GRAPH`]: what is put in place of what, on which line that is told, and a part of the sentence.
const MISTAKES: [(&str, &str, u32, &str); 9] = [
    ("rounds = 10", "rounds = 0", 2, "`rounds`: 0 is not a number from 1"),
    ("constant = 0.5", "constant = -1", 7, "`stages[0].work_ms`: -1 is not a number from 0"),
    ("[0.5, 1.5]", "[1.5, 0.5]", 12, "0.5 is not a number from 1.5"),
    ("independent = 8", "independent = 0", 11, "it is empty; at least one is needed"),
    ("independent = 8", "indepent = 8", 11, "unknown variant `indepent`"),
    ("kept = 0.5", "kept = 1.5", 13, "`stages[1].kept`: 1.5 is not a number from 0 to 1"),
    ("kept = 0.5", "keep = 0.5", 13, "unknown field `keep`"),
    ("pass_us = 100", "pass_us = nan", 14, "NaN is not a number from"),
    (
        "tasks = { independent = 1 }",
        "tasks.listed = [{ name = \"a\", after = [\"b\"] }]",
        6,
        "there is no task `b` in this stage",
    ),
];

#[test]
fn what_is_wrong_in_a_file_is_told_in_one_sentence_with_its_line() {
    let desk = desk();
    for (from, to, line, part) in MISTAKES {
        assert!(GRAPH.contains(from), "{from}");
        desk.write("bad.toml", &GRAPH.replacen(from, to, 1));
        let told = desk.refused("--mix MVA+bad.toml");
        assert!(told.starts_with(&format!("stayput: graph file bad.toml, line {line}: ")), "{to}: {told}");
        assert!(told.contains(part) && told.lines().count() == 1, "{to}: {told}");
    }
}

#[test]
fn what_is_wrong_on_the_command_line_is_told_too() {
    let desk = desk();
    desk.write("matrix.toml", &GRAPH.replace("steps", "MATRIX"));
    for (words, part) in [
        ("--mix MVB", "`MVB` is no built-in job: name MVA, MATRIX, GRAVITY, or a file ending in .toml"),
        ("--mix 0*MVA", "`0*MVA` is no built-in job"),
        ("--mix two*MVA", "`two*MVA` is no built-in job"),
        ("--mix 99999*MVA", "99999 is not a number from 1 to 10000"),
        ("--mix MVA,,MATRIX", "`` is no built-in job"),
        ("--mix missing.toml", "cannot read graph file missing.toml"),
        ("--mix MATRIX+matrix.toml", "two of the jobs are called `MATRIX`"),
        ("--machine nothing", "`nothing` is no machine"),
        ("--speed 0", "`speed` is 0; it must be a number from 0.000001"),
        ("--speed nan", "`speed` is NaN"),
        ("--data -1", "`data` is -1"),
        ("--history 0", "`history` is 0; it must be a number from 1 to 8"),
        ("--history 9", "`history` is 9; it must be a number from 1 to 8"),
        ("--replicates 0", "`replicates` is 0"),
        ("--gap-ms -1", "`gap_ms` is -1"),
        ("--switch-us -1", "`switch_us` is -1"),
        ("--horizon-ms 0", "`horizon_ms` is 0"),
        ("--sweep phi=1-3", "there is no parameter `phi` to sweep; there are "),
        ("--sweep future=0-3", "`future` can't be 0: it must be a factor from "),
        ("--out nowhere/a.stayput", "there is no folder nowhere for nowhere/a.stayput"),
    ] {
        let told = desk.refused(words);
        assert!(told.starts_with("stayput: ") && told.contains(part), "{words}: {told}");
        assert_eq!(told.lines().count(), 1, "{words}: {told}");
    }
    for (words, part) in [
        ("--policy equipartition,light", "`light` is no space-sharing policy: name equipartition, dynamic, "),
        ("--history -1", "`-1` is no value of `--history`"),
        ("--sweep future", "`future` is no sweep"),
        ("--format pdf", "`pdf` is no value of `--format`"),
    ] {
        let told = desk.refused(words);
        assert!(told.contains(part), "{words}: {told}");
    }
}
