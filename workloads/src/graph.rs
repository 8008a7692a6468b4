//! A program's task graph, derived from recorded runs: `stayput workloads NAME --graph CLASS`.
//!
//! Tasks do the same in every run, and what else goes on in a machine only ever adds to their time: a task takes the least
//! that it took in any run. Stages get the distribution of their tasks' times and keep their total. Where the number of tasks
//! varies from round to round, its mean is rounded, and times are scaled so that the total is kept then, too.

use crate::recording::{Part, Recording, RecordingError, StageRecord};
use crate::{Program, ResolveError, catalog};
use machine::linux::system;
use machine::{Machine, MachineError};
use sim::space::{Graph, Stage, Tasks};
use sim::{Distribution, Footprint};
use toml::{Table, Value};

/// How many runs a graph is derived from.
const RUNS: usize = 9;

/// Bytes of the lines that footprints count.
const LINE_BYTES: f64 = 64.0;

/// The most misses a ms that a footprint may have.
const MOST_MISSES_PER_MS: f64 = 1e6;

/// Where a histogram of times is cut, as shares of tasks in percent: finer where times scatter most.
const CUTS_PERCENT: [f64; 13] = [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 100.0];

/// The fewest times that make a histogram; below it, one of its bins would hold none. Fewer have only their mean.
const FEWEST_FOR_HISTOGRAM: usize = 100;

/// Why a program has no graph.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// It has no such class.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// It doesn't record its tasks.
    #[error("{0} tells no tasks, so that it has no graph; {others} have one", others = names_with_graph())]
    NoGraph(String),
    /// This machine can't be read.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A run recorded nothing.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// There is nothing recorded.
    #[error("no tasks were recorded")]
    NoTasks,
    /// Runs did different things.
    #[error("stage `{0}` did not have the same tasks in every run, so that their times can't be put together")]
    Differs(String),
    /// A stage contradicts itself or the first one.
    #[error(
        "stage `{stage}` recorded {tasks} tasks in {rounds} rounds, which its shape or the other stages' rounds contradict"
    )]
    Shape {
        /// Its name.
        stage: String,
        /// Tasks recorded.
        tasks: usize,
        /// Rounds that it says it had.
        rounds: u32,
    },
    /// What was derived is no graph, or there is no CPU to run the program on.
    #[error("{0}")]
    Other(String),
}

impl GraphError {
    /// Whether the program isn't there.
    pub fn is_not_installed(&self) -> bool {
        matches!(self, Self::Recording(RecordingError::NotInstalled(_)))
    }

    /// Whether what is asked for can't be, so that no program was run.
    pub fn is_usage_error(&self) -> bool {
        matches!(self, Self::Resolve(_) | Self::NoGraph(_) | Self::Machine(_))
    }
}

/// Runs the program and derives its graph, as the text of a graph file.
///
/// # Errors
/// [`GraphError`].
pub fn graph(program: &Program, class: &str) -> Result<String, GraphError> {
    let builtin = crate::resolve(&format!("{}.{class}", program.name))?;
    let name = program.graph.as_ref().ok_or_else(|| GraphError::NoGraph(program.name.clone()))?;
    // Interrupts are mostly served by the first CPUs.
    let machine = Machine::host()?;
    let cpu = machine.usable().last().ok_or_else(|| GraphError::Other("no CPU may be used here".into()))?;
    let runs = (0..RUNS).map(|_| Recording::run(&builtin, cpu)).collect::<Result<Vec<_>, _>>()?;

    let cpu_model = system::cpu_model().unwrap_or_else(|| "a CPU that doesn't tell its model".into());
    let graph = Graph {
        name: name.clone(),
        about: program.title.clone(),
        source: format!(
            "{}, class {class}: the least times of {RUNS} runs with one thread, of which the fastest took {} s; {}, {cpu_model}",
            program.name,
            rounded(least(runs.iter().map(|run| run.seconds))),
            runs[0].compiler
        ),
        ..derive(&runs)?
    };
    graph.check().map_err(|error| GraphError::Other(error.to_string()))?;
    graph_text(&graph).map_err(|error| GraphError::Other(error.to_string()))
}

/// The names of the programs that tell their tasks.
fn names_with_graph() -> String {
    let names: Vec<&str> = catalog().iter().filter(|p| p.graph.is_some()).map(|p| p.name.as_str()).collect();
    names.join(", ")
}

/// The graph of recorded runs, without name and words.
fn derive(runs: &[Recording]) -> Result<Graph, GraphError> {
    let [first, ..] = runs else { return Err(GraphError::NoTasks) };
    let rounds = first.stages.first().ok_or(GraphError::NoTasks)?.rounds;
    let stages = (0..first.stages.len()).map(|number| {
        let record = &first.stages[number];
        let times: Option<Vec<&[f64]>> = runs.iter().map(|run| task_times(run.stages.get(number)?, record)).collect();
        let times = times.ok_or_else(|| GraphError::Differs(record.name.clone()))?;
        let times_ms: Vec<f64> =
            (0..record.us.len()).map(|task| least(times.iter().map(|times| times[task])) * 1e-3).collect();
        stage(record, rounds, times_ms)
    });
    let stages = stages.collect::<Result<_, _>>()?;
    Ok(Graph { name: String::new(), about: String::new(), source: String::new(), rounds, stages })
}

/// A run's times of the tasks of `like`; none if it did others.
fn task_times<'a>(stage: &'a StageRecord, like: &StageRecord) -> Option<&'a [f64]> {
    (stage.name == like.name && stage.us.len() == like.us.len()).then_some(&stage.us)
}

fn stage(record: &StageRecord, rounds: u32, times_ms: Vec<f64>) -> Result<Stage, GraphError> {
    let recorded = times_ms.len() as f64;
    let a_round = recorded / f64::from(rounds.max(1));
    let (tasks, fits) = match record.wavefront {
        Some((rows, columns)) => (Tasks::Wavefront { rows, columns }, f64::from(rows) * f64::from(columns) == a_round),
        None => (Tasks::Independent(a_round.round().max(1.0) as u32), a_round > 0.0),
    };
    if !fits || record.rounds != rounds {
        let (stage, tasks, rounds) = (record.name.clone(), times_ms.len(), record.rounds);
        return Err(GraphError::Shape { stage, tasks, rounds });
    }
    let mean_ms = times_ms.iter().sum::<f64>() / recorded;
    let (memory, kept) = footprint(record, mean_ms);
    let work_ms = distribution(times_ms, mean_ms * a_round / tasks.count() as f64);
    Ok(Stage { name: record.name.clone(), tasks, work_ms, memory, kept })
}

/// What a task that works for `mean_ms` does to caches, and the share of what it uses again that the next one uses, too.
fn footprint(record: &StageRecord, mean_ms: f64) -> (Footprint, f64) {
    let bytes = |count: fn(&Part) -> f64| record.parts.iter().map(count).sum::<f64>();
    let again = bytes(|part| if part.again { part.bytes } else { 0.0 });
    let kept = bytes(|part| if part.again { part.bytes * part.kept } else { 0.0 });
    let once = bytes(|part| if part.again { 0.0 } else { part.bytes });
    let plain = Footprint {
        line_bytes: LINE_BYTES,
        steady_misses_per_ms: rounded((once / LINE_BYTES / mean_ms).min(MOST_MISSES_PER_MS)),
        ..Footprint::default()
    };
    if again == 0.0 {
        return (plain, 0.0);
    }
    let memory = Footprint {
        reload_lines: (again / LINE_BYTES).round(),
        pass_us: rounded(1e3 * mean_ms / record.passes),
        order: record.order,
        ..plain
    };
    (memory, rounded(kept / again))
}

/// The distribution of times, scaled to have this mean.
fn distribution(mut times_ms: Vec<f64>, mean_ms: f64) -> Distribution {
    times_ms.sort_unstable_by(f64::total_cmp);
    let (mut edges_ms, mut percent) = (vec![times_ms[0]], Vec::new());
    // A bin that is too narrow for its edges to differ when they are rounded goes to the next one, or at last to the one before.
    let mut share = 0.0;
    for cut in CUTS_PERCENT.windows(2) {
        let (last_ms, edge_ms) = (edges_ms[edges_ms.len() - 1], quantile(&times_ms, cut[1] / 100.0));
        share += cut[1] - cut[0];
        if edge_ms > last_ms * 1.002 {
            edges_ms.push(edge_ms);
            percent.push(std::mem::take(&mut share));
        }
    }
    let Some(last) = percent.last_mut().filter(|_| times_ms.len() >= FEWEST_FOR_HISTOGRAM) else {
        return Distribution::Constant(rounded(mean_ms));
    };
    *last += share;
    let middles_ms = edges_ms.windows(2).map(|edges| f64::midpoint(edges[0], edges[1]));
    let mean_of_bins_ms: f64 = middles_ms.zip(&percent).map(|(middle_ms, share)| middle_ms * share / 100.0).sum();
    edges_ms.iter_mut().for_each(|edge_ms| *edge_ms = rounded(*edge_ms * mean_ms / mean_of_bins_ms));
    Distribution::Histogram { edges_ms, percent }
}

/// Of sorted values, the one at this share of them, between two neighbours in proportion.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// The least of at least one value.
fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

/// With four digits: more than runs agree in.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// A graph as the text of a graph file, without what has its default.
fn graph_text(graph: &Graph) -> Result<String, toml::ser::Error> {
    let lines = |table: &Table, keys: &[&str]| -> String {
        keys.iter().filter_map(|&key| Some(format!("{key} = {}\n", table.get(key)?))).collect()
    };
    let mut text = lines(&Table::try_from(graph)?, &["name", "about", "source", "rounds"]);
    let default = Table::try_from(Footprint::default())?;
    for stage in &graph.stages {
        let mut table = Table::try_from(stage)?;
        if let Some(Value::Table(memory)) = table.get_mut("memory") {
            memory.retain(|key, value| default.get(key) != Some(value));
        }
        if stage.kept == 0.0 {
            table.remove("kept");
        }
        text += "\n[[stages]]\n";
        text += &lines(&table, &["name", "tasks", "work_ms", "kept", "memory"]);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "net: a network\nclass: S\ncompiler: gcc 1.2\nseconds: 0.5\nverification: successful\n";

    const WAVE: &str = r#"{"name": "wave", "rounds": 2, "wavefront": [2, 1], "order": "blocked", "passes": 4, "parts": [
        {"what": "row", "bytes": 6400, "again": true, "kept": 0.5}, {"what": "table", "bytes": 1600, "again": true, "kept": 1},
        {"what": "column", "bytes": 640, "again": false, "kept": 0}], "us": [TIMES]}"#;
    const SUM: &str = r#"{"name": "sum", "rounds": 2, "order": "random", "passes": 1, "parts": [], "us": [TIMES]}"#;

    /// A run whose stages took these times.
    fn run(stages: &[(&str, &[f64])]) -> Recording {
        let line = |(stage, us): &(&str, &[f64])| {
            let us: Vec<String> = us.iter().map(f64::to_string).collect();
            stage.replace("\n        ", "").replace("TIMES", &us.join(", "))
        };
        Recording::read(PRINTED, &stages.iter().map(line).collect::<Vec<_>>().join("\n")).unwrap()
    }

    fn derived(runs: &[Recording]) -> Graph {
        Graph { name: "NET".into(), ..derive(runs).unwrap() }
    }

    #[test]
    fn times_are_the_least_of_all_runs_and_footprints_what_the_parts_add_up_to() {
        // In each run, others took a time slice from another task. A step has now one sum, now two: 1.5, rounded to 2.
        let graph = derived(&[
            run(&[(WAVE, &[100.0, 200.0, 100.0, 8200.0]), (SUM, &[4.0, 5.0, 6.0])]),
            run(&[(WAVE, &[101.0, 200.0, 8100.0, 200.0]), (SUM, &[4.0, 5.0, 999.0])]),
            run(&[(WAVE, &[103.0, 4200.0, 100.0, 200.0]), (SUM, &[4.0, 77.0, 6.0])]),
        ]);
        let text = graph_text(&graph).unwrap();
        assert_eq!(
            text,
            r#"name = "NET"
rounds = 2

[[stages]]
name = "wave"
tasks = { wavefront = { columns = 1, rows = 2 } }
work_ms = { constant = 0.15 }
kept = 0.6
memory = { line_bytes = 64.0, order = "blocked", pass_us = 37.5, reload_lines = 125.0, steady_misses_per_ms = 66.67 }

[[stages]]
name = "sum"
tasks = { independent = 2 }
work_ms = { constant = 0.00375 }
memory = { line_bytes = 64.0 }
"#
        );
        assert_eq!(Graph::parse(&text), Ok(graph.clone()));
        assert!((graph.work_ms() - 0.615).abs() < 1e-9, "{}, and not what the tasks took", graph.work_ms());
    }

    #[test]
    fn many_times_make_a_histogram_with_their_mean() {
        // A long tail: the bins' middles alone would make the mean too large.
        let us: Vec<f64> = (0..400).map(|task| 10.0 + f64::from(task * task) * 1e-3).collect();
        let graph = derived(&[run(&[(SUM, &us)])]);
        let Distribution::Histogram { edges_ms, percent } = &graph.stages[0].work_ms else {
            panic!("{:?}", graph.stages[0].work_ms);
        };
        assert_eq!((percent.len(), percent.iter().sum::<f64>()), (12, 100.0));
        assert!((edges_ms[0] - 0.010).abs() < 1e-4 && (edges_ms[12] - 0.1692).abs() < 2e-3, "{edges_ms:?}");
        let total_ms = us.iter().sum::<f64>() * 1e-3;
        assert!((graph.work_ms() / total_ms - 1.0).abs() < 1e-3, "{} ms of {total_ms}", graph.work_ms());
    }

    #[test]
    fn equal_times_leave_no_empty_bins() {
        let mut us = vec![5.0; 200];
        assert_eq!(derived(&[run(&[(SUM, &us)])]).stages[0].work_ms, Distribution::Constant(0.005));
        us[50..].fill(7.0);
        let graph = derived(&[run(&[(SUM, &us)])]);
        graph.check().unwrap();
        assert!((graph.work_ms() - 1.3).abs() < 2e-3, "{}", graph.work_ms());
    }

    #[test]
    fn runs_that_contradict_each_other_or_themselves_are_refused() {
        let error = |runs: &[Recording]| derive(runs).unwrap_err().to_string();
        assert_eq!(error(&[]), "no tasks were recorded");
        let (two, three) = (run(&[(SUM, &[1.0, 2.0])]), run(&[(SUM, &[1.0, 2.0, 3.0])]));
        let differs = "stage `sum` did not have the same tasks in every run, so that their times can't be put together";
        assert_eq!(error(&[two.clone(), three]), differs);
        assert_eq!(error(&[two, run(&[(WAVE, &[1.0; 4])])]), differs);
        assert_eq!(
            error(&[run(&[(WAVE, &[1.0; 5])])]),
            "stage `wave` recorded 5 tasks in 2 rounds, which its shape or the other stages' rounds contradict"
        );
        assert!(matches!(derive(&[run(&[(SUM, &[])])]), Err(GraphError::Shape { tasks: 0, .. })));
    }

    #[test]
    fn what_is_not_verified_or_cannot_be_read_is_refused() {
        let error = |printed: &str, written: &str| Recording::read(printed, written).unwrap_err();
        let line = SUM.replace("TIMES", "1.5");
        assert_eq!(error(&PRINTED.replace("successful", "failed"), &line), "its result is wrong");
        assert_eq!(error("seconds: 1\n", &line), "printed no line `verification: `");
        assert_eq!(error(PRINTED, ""), "wrote no tasks: it was built without its graph; build it again");
        let line_2 = error(PRINTED, &format!("{line}\n{}", line.replace("passes", "paces")));
        assert!(line_2.starts_with("line 2 of its tasks can't be read: unknown field `paces`"), "{line_2}");
    }
}
