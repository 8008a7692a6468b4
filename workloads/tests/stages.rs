//! What the three jobs tell of their task graphs: that it adds up, and that the graphs of the simulator say the same.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use sim::space::{Graph, Stage, Tasks};
use stayput_workloads::catalog;
use stayput_workloads::recording::{Part, StageRecord};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const JOBS: [(&str, &str); 3] = [
    ("MVA", env!("CARGO_BIN_EXE_mva")),
    ("MATRIX", env!("CARGO_BIN_EXE_matrix")),
    ("GRAVITY", env!("CARGO_BIN_EXE_gravity")),
];

/// A run with one thread that tells its stages, beside what it prints.
fn run(executable: &str, class: &str) -> (Output, Vec<StageRecord>) {
    let name = PathBuf::from(executable).file_name().unwrap().to_string_lossy().into_owned();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("{name}-{class}-{:?}.stages", std::thread::current().id()));
    let output = Command::new(executable)
        .arg(class)
        .envs([("OMP_NUM_THREADS", "1"), ("STAYPUT_TASKS", path.to_str().unwrap())])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{name} {class}: {output:?}");
    let written = fs::read_to_string(&path).unwrap();
    fs::remove_file(path).unwrap();
    (output, written.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The `name: value` lines that are numbers.
fn numbers(output: &Output) -> BTreeMap<String, f64> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |line: &str| line.split_once(": ").and_then(|(name, value)| Some((name.into(), value.parse().ok()?)));
    text.lines().filter_map(line).collect()
}

fn seconds(stages: &[StageRecord], belongs: impl Fn(&str) -> bool) -> f64 {
    stages.iter().filter(|stage| belongs(&stage.name)).flat_map(|stage| &stage.us).sum::<f64>() * 1e-6
}

/// Same run, same clock: tasks are all that a stage consists of, but for what little lies between.
#[test]
fn the_tasks_of_a_run_take_as_long_as_it_says() {
    for (name, executable) in JOBS {
        let (output, stages) = run(executable, "W");
        let told = numbers(&output);
        let close = |tasks: f64, stage: f64, what: &str| {
            // Tasks lie within the stage. What a busy machine takes between two of them is nobody's, hence the room below.
            assert!(tasks <= stage * 1.001 && tasks >= stage * 0.5 - 0.05, "{name}: {what}: {tasks} s of {stage} s");
        };
        close(seconds(&stages, |_| true), told["seconds"], "all");
        if name == "GRAVITY" {
            close(seconds(&stages, |stage| ["move", "key"].contains(&stage)), told["seconds, advance"], "advance");
            close(seconds(&stages, |stage| stage == "build"), told["seconds, build"], "build");
            let weigh = |stage: &str| stage == "gather" || stage.starts_with("weigh");
            close(seconds(&stages, weigh), told["seconds, weigh"], "weigh");
            close(seconds(&stages, |stage| stage == "attract"), told["seconds, attract"], "attract");
        }
    }
}

/// Being asked for tasks changes no result.
#[test]
fn what_is_computed_does_not_depend_on_whether_tasks_are_told() {
    for (name, executable) in JOBS {
        let plain = Command::new(executable).arg("S").env("OMP_NUM_THREADS", "1").output().unwrap();
        let computed = |output: &Output| -> Vec<String> {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let timed = |line: &&str| line.starts_with("seconds") || line.starts_with("mops");
            text.lines().filter(|line| !timed(line)).map(str::to_owned).collect()
        };
        assert_eq!(computed(&run(executable, "S").0), computed(&plain), "{name}");
    }
}

/// The shapes that the definitions of the programs give, and sizes of what they keep, worked out once more.
#[test]
fn stages_are_those_of_the_algorithms() {
    let (_, mva) = run(JOBS[0].1, "S");
    assert_eq!((mva.len(), mva[0].wavefront, mva[0].us.len()), (1, Some((16, 16)), 256));
    // 128 populations and 32 of 64 queues each; demands of 2 classes.
    let bytes: Vec<f64> = mva[0].parts.iter().map(|part| part.bytes).collect();
    assert_eq!(bytes, [128.0 * 64.0 * 8.0, 2.0 * 64.0 * 8.0, 32.0 * 64.0 * 8.0]);

    let (_, matrix) = run(JOBS[1].1, "S");
    assert_eq!((matrix.len(), matrix[0].wavefront, matrix[0].us.len()), (1, None, 16));
    let block = 120.0 * 120.0 * 8.0;
    assert_eq!(matrix[0].parts.iter().map(|part| part.bytes).collect::<Vec<_>>(), [4.0 * block, block, 4.0 * block]);

    let (output, gravity) = run(JOBS[2].1, "S");
    assert!(gravity.iter().all(|stage| stage.rounds == 10 && stage.wavefront.is_none()));
    let count = |name: &str| gravity.iter().find(|stage| stage.name == name).unwrap().us.len();
    assert_eq!(["move", "key", "build", "gather"].map(count), [160, 160, 10, 160]);
    // The leaves of the last step are printed; those of ten steps are some ten times as many.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let leaves: f64 = text.split("of which leaves: ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
    assert!((count("attract") as f64 / (10.0 * leaves) - 1.0).abs() < 0.1, "{} for {leaves}", count("attract"));
    // Levels from the deepest to the root, whose tasks are one a step.
    let levels: Vec<&str> = gravity.iter().filter_map(|stage| stage.name.strip_prefix("weigh level ")).collect();
    assert!(levels.len() > 3 && levels.iter().rev().enumerate().all(|(at, level)| *level == at.to_string()));
    assert_eq!(count("weigh level 0"), 10);
}

/// The graph that the simulator has of a job.
fn built_in(name: &str) -> &'static Graph {
    Graph::built_in().iter().find(|graph| graph.name == name).unwrap()
}

/// Within this share, where bodies may lie on the other side of an edge with another compiler or instruction set.
fn tolerance(name: &str) -> f64 {
    if name == "GRAVITY" { 0.01 } else { 1e-9 }
}

#[test]
fn the_built_in_graphs_are_those_of_class_w() {
    for (name, executable) in JOBS {
        let program = catalog().iter().find(|program| program.graph.as_deref() == Some(name)).unwrap();
        let graph = built_in(name);
        assert!(graph.source.starts_with(&format!("{}, class W", program.name)), "{}", graph.source);
        graph.check().unwrap();

        let (_, told) = run(executable, "W");
        assert_eq!(graph.rounds, told[0].rounds, "{name}");
        let names = |stage: &Stage| stage.name.clone();
        assert_eq!(
            graph.stages.iter().map(names).collect::<Vec<_>>(),
            told.iter().map(|t| t.name.clone()).collect::<Vec<_>>()
        );
        for (stage, told) in graph.stages.iter().zip(&told) {
            same(name, stage, told);
        }
    }
}

fn same(graph: &str, stage: &Stage, told: &StageRecord) {
    let what = format!("{graph}, {}: `make graphs` derives it anew", stage.name);
    let near = |ours: f64, theirs: f64, least: f64| {
        assert!(
            (ours - theirs).abs() <= (theirs * tolerance(graph)).max(least),
            "{what}: {ours}, but a run says {theirs}"
        );
    };
    match (&stage.tasks, told.wavefront) {
        (Tasks::Wavefront { rows, columns }, Some(grid)) => assert_eq!((*rows, *columns), grid, "{what}"),
        (Tasks::Independent(count), None) => {
            near(f64::from(*count), told.us.len() as f64 / f64::from(told.rounds), 0.5);
        }
        (tasks, grid) => panic!("{what}: {tasks:?}, but a run says {grid:?}"),
    }
    assert!(told.parts.iter().all(|part| !part.what.is_empty() && part.bytes > 0.0), "{what}");
    let (again, once): (Vec<&Part>, Vec<&Part>) = told.parts.iter().partition(|part| part.again);
    let bytes = |parts: &[&Part]| parts.iter().map(|part| part.bytes).sum::<f64>();
    near(stage.memory.reload_lines * stage.memory.line_bytes, bytes(&again), 32.0);
    assert_eq!(stage.memory.steady_misses_per_ms > 0.0, bytes(&once) > 0.0, "{what}");
    if again.is_empty() {
        assert_eq!(stage.kept, 0.0, "{what}");
    } else {
        near(stage.kept, again.iter().map(|part| part.kept * part.bytes).sum::<f64>() / bytes(&again), 1e-4);
        assert_eq!(stage.memory.order, told.order, "{what}");
        assert!(told.passes >= 1.0 && stage.memory.pass_us > 0.0, "{what}");
    }
}
