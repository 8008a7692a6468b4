//! Graphs of tasks: derived from runs of programs, and read from files of one's own.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use sim::Distribution;
use sim::cache::footprint::Order;
use sim::space::{Graph, Tasks};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the command with stand-ins for these programs beside it.
fn stayput(programs: &[&str], arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_stayput"), folder.path().join("stayput")).unwrap();
    let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/tasks.sh");
    for program in programs {
        symlink(&stand_in, folder.path().join(program)).unwrap();
    }
    // Nothing of the same name may be found elsewhere.
    Command::new(folder.path().join("stayput")).args(arguments).env("PATH", "/usr/bin:/bin").output().unwrap()
}

/// Asserts that the command says only one sentence and ends with this exit code.
fn refusal(output: &Output, code: i32) -> String {
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(code), &b""[..]), "{output:?}");
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said.trim_end().strip_prefix("stayput: ").unwrap().to_owned()
}

#[test]
fn a_graph_file_comes_from_runs_on_one_thread() {
    let output = stayput(&["mva"], &["workloads", "mva", "--graph", "S"]);
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{output:?}");
    let graph = Graph::parse(&String::from_utf8(output.stdout).unwrap()).unwrap();
    assert_eq!((graph.name.as_str(), graph.rounds), ("MVA", 2));
    assert_eq!(graph.about, "exact mean-value analysis of a queueing network");
    let source =
        "mva, class S: the least times of 9 runs with one thread, of which the fastest took 0.000011 s; testcc 1.2, ";
    assert!(graph.source.starts_with(source), "{}", graph.source);
    let stages: Vec<_> = graph.stages.iter().map(|stage| (stage.name.as_str(), stage.tasks.clone())).collect();
    assert_eq!(stages, [("rows", Tasks::Independent(2)), ("sum", Tasks::Independent(1))]);
    let memory = graph.stages[0].memory;
    assert_eq!((memory.line_bytes, memory.reload_lines, memory.pass_us, graph.stages[0].kept), (64.0, 10.0, 1.25, 0.5));
    assert_eq!(graph.stages[1].work_ms, Distribution::Constant(0.0005));
    assert_eq!(graph.stages[1].memory.steady_misses_per_ms, 2000.0);
}

#[test]
fn what_is_asked_wrongly_is_refused_with_exit_code_2() {
    let told = |arguments: &[&str]| refusal(&stayput(&["mva"], &[&["workloads"], arguments].concat()), 2);
    assert_eq!(told(&["mva", "--graph", "Z"]), "mva has no class `Z`; it has S, W, A, B, C and D");
    assert_eq!(
        told(&["npb:cg", "--graph", "S"]),
        "npb:cg tells no tasks, so that it has no graph; mva, matrix, gravity have one"
    );
    assert!(told(&["mvb", "--graph", "S"]).starts_with("there is no built-in program `mvb`"));
    let one = "--graph is of one program: name one, as in `stayput workloads mva --graph W`";
    assert_eq!((told(&["--graph", "S"]), told(&["mva", "matrix", "--graph", "S"])), (one.into(), one.into()));
}

#[test]
fn a_run_that_fails_makes_no_graph() {
    let told = |programs: &[&str], class: &str| refusal(&stayput(programs, &["workloads", "mva", "--graph", class]), 1);
    let missing = refusal(&stayput(&[], &["workloads", "mva", "--graph", "S"]), 127);
    assert!(missing.starts_with("mva isn't installed with this command: `make install`"), "{missing}");
    assert_eq!(told(&["mva"], "W"), "mva W ended with exit code 1: verification: failed");
    assert_eq!(
        told(&["mva"], "A"),
        "mva A ended well, but: wrote no tasks: it was built without its graph; build it again"
    );
    assert_eq!(told(&["mva"], "B"), "mva B was killed by signal 9");
}

/// The example in the docs of the format.
#[test]
fn the_example_in_the_docs_is_a_graph_file() {
    let lines = include_str!("../../../docs/graph-files.md").lines().skip_while(|line| *line != "```toml").skip(1);
    let text: String = lines.take_while(|line| *line != "```").map(|line| line.to_owned() + "\n").collect();
    let graph = Graph::parse(&text).unwrap();
    assert_eq!((graph.name.as_str(), graph.rounds, graph.tasks()), ("filter", 30, 30 * (1 + 96 + 8 * 12 + 2)));
    assert_eq!((graph.stages[1].memory.order, graph.stages[1].kept), (Order::Blocked, 0.25));
    // In a row: the cut, a piece, 19 tiles of the wavefront, head and body.
    let span_ms = 0.8 + (0.5 * 0.25 + 0.4 * 0.4 + 0.1 * 1.25) + 19.0 * 0.06 + 0.1 + 3.0;
    assert!((graph.span_ms() / graph.rounds as f64 - span_ms).abs() < 1e-9, "{} ms", graph.span_ms());
}
