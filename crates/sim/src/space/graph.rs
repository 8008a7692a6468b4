//! Task graphs: what a job computes, as stages of tasks.
//!
//! A graph's stages follow one another, round after round; all tasks of a stage are done before the next one begins, as at a
//! barrier. Within a stage tasks are independent, or a wavefront, or whatever its list says.

use crate::cache::Footprint;
use crate::fault::{self, Checked, Fault, WorkloadError, mean_ms};
use crate::parameters::LONGEST_MS;
use crate::workload::Distribution;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a job computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// What it is, in words; empty where nobody said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Where its numbers come from; empty where nobody said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// How often its stages are gone through.
    #[serde(default = "crate::workload::once")]
    pub rounds: u32,
    /// The stages, in order; at least one.
    pub stages: Vec<Stage>,
}

/// Tasks between two barriers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Its tasks, and which waits for which.
    pub tasks: Tasks,
    /// Work of each task, drawn anew for each. Work is time with nothing to bring back: with the misses that the task has anyway.
    pub work_ms: Distribution,
    /// What a task does to caches.
    #[serde(default)]
    pub memory: Footprint,
    /// Of what a worker used again and again in its task before, the share that a task of this stage uses, too.
    #[serde(default)]
    pub kept: f64,
}

/// The tasks of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tasks {
    /// So many, none of which waits for another.
    Independent(u32),
    /// One for each place of a grid. Each waits for the one above and the one on its left.
    Wavefront {
        /// Rows of the grid.
        rows: u32,
        /// Columns of the grid.
        columns: u32,
    },
    /// These.
    Listed(Vec<Listed>),
}

/// A task that is listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// Its name, for others to wait for it.
    pub name: String,
    /// Its work; the stage's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms: Option<Distribution>,
    /// The tasks that are done before it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// Most rounds, most tasks in all of them, and most in one stage.
const MOST_ROUNDS: f64 = 1e7;
const MOST_TASKS: f64 = 4e9;
const MOST_IN_A_STAGE: f64 = 2e7;

/// The shortest that a task may take on average, in ms: below it, a simulated second would take minutes.
const SHORTEST_MS: f64 = 1e-5;

impl Graph {
    /// Whether it can be simulated.
    ///
    /// # Errors
    /// [`WorkloadError`] names the first field that is wrong.
    pub fn check(&self) -> Result<(), WorkloadError> {
        fault::named(&self.name, "name")?;
        fault::range(f64::from(self.rounds), 1.0, MOST_ROUNDS, "rounds")?;
        if self.stages.is_empty() {
            return Err(Fault::Empty.at("stages"));
        }
        self.stages.iter().enumerate().try_for_each(|(number, stage)| stage.check(&format!("stages[{number}]")))?;
        fault::range(self.tasks() as f64, 1.0, MOST_TASKS, "rounds")
    }

    /// Tasks of all rounds.
    pub fn tasks(&self) -> u64 {
        let of_a_round = self.stages.iter().map(|stage| stage.tasks.count()).fold(0, u64::saturating_add);
        of_a_round.saturating_mul(self.rounds.into())
    }

    /// Mean work of all tasks in ms: the time that it takes on one CPU with nothing to bring back.
    pub fn work_ms(&self) -> f64 {
        self.stages.iter().map(Stage::mean_work_ms).sum::<f64>() * f64::from(self.rounds)
    }

    /// Mean work on the longest chain of tasks that wait for one another, in ms: the time that it takes at least.
    pub fn span_ms(&self) -> f64 {
        self.stages.iter().map(Stage::mean_span_ms).sum::<f64>() * f64::from(self.rounds)
    }
}

impl Stage {
    fn check(&self, at: &str) -> Checked {
        let count = self.tasks.count();
        if count == 0 {
            return Err(Fault::Empty.at(format!("{at}.tasks")));
        }
        fault::range(count as f64, 1.0, MOST_IN_A_STAGE, &format!("{at}.tasks"))?;
        fault::range(self.kept, 0.0, 1.0, &format!("{at}.kept"))?;
        check_work(&self.work_ms, &format!("{at}.work_ms"))?;
        fault::footprint(&self.memory, at)?;
        let Tasks::Listed(tasks) = &self.tasks else { return Ok(()) };
        let at = |number: usize| format!("{at}.tasks.listed[{number}]");
        let mut names = BTreeSet::new();
        for (number, task) in tasks.iter().enumerate() {
            fault::named(&task.name, &format!("{}.name", at(number)))?;
            if !names.insert(task.name.as_str()) {
                return Err(Fault::SameTask(task.name.clone()).at(format!("{}.name", at(number))));
            }
            if let Some(work) = &task.work_ms {
                check_work(work, &format!("{}.work_ms", at(number)))?;
            }
        }
        for (number, task) in tasks.iter().enumerate() {
            if let Some(unknown) = task.after.iter().find(|name| !names.contains(name.as_str())) {
                return Err(Fault::UnknownTask(unknown.clone()).at(format!("{}.after", at(number))));
            }
        }
        let begun: BTreeSet<u32> = Order::new(&self.tasks).in_turn().into_iter().collect();
        match (0..tasks.len()).find(|&task| !begun.contains(&(task as u32))) {
            None => Ok(()),
            Some(task) => Err(Fault::TaskCircle(tasks[task].name.clone()).at(format!("{}.after", at(task)))),
        }
    }

    fn mean_work_ms(&self) -> f64 {
        match &self.tasks {
            Tasks::Listed(tasks) => tasks.iter().map(|task| self.mean_of(task)).sum(),
            tasks => tasks.count() as f64 * mean_ms(&self.work_ms),
        }
    }

    /// Mean work of a listed task in ms.
    fn mean_of(&self, task: &Listed) -> f64 {
        mean_ms(task.work_ms.as_ref().unwrap_or(&self.work_ms))
    }

    fn mean_span_ms(&self) -> f64 {
        match &self.tasks {
            Tasks::Independent(_) => mean_ms(&self.work_ms),
            Tasks::Wavefront { rows, columns } => f64::from(rows + columns - 1) * mean_ms(&self.work_ms),
            Tasks::Listed(tasks) => {
                let order = Order::new(&self.tasks);
                let mut ends_ms: Vec<f64> = tasks.iter().map(|task| self.mean_of(task)).collect();
                for task in order.in_turn() {
                    let end_ms = ends_ms[task as usize];
                    for &next in order.successors(task) {
                        let own_ms = self.mean_of(&tasks[next as usize]);
                        ends_ms[next as usize] = ends_ms[next as usize].max(end_ms + own_ms);
                    }
                }
                ends_ms.into_iter().fold(0.0, f64::max)
            }
        }
    }
}

impl Tasks {
    /// How many there are.
    pub fn count(&self) -> u64 {
        match self {
            Self::Independent(count) => u64::from(*count),
            Self::Wavefront { rows, columns } => u64::from(*rows) * u64::from(*columns),
            Self::Listed(tasks) => tasks.len() as u64,
        }
    }
}

/// A task's work takes time.
fn check_work(work: &Distribution, at: &str) -> Checked {
    fault::distribution(work, at)?;
    fault::range(mean_ms(work), SHORTEST_MS, LONGEST_MS, at)
}

/// Which tasks of a stage wait for which.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// By task, for how many it waits.
    waits_for: Vec<u32>,
    /// By task, where its successors begin; one more at the end.
    first: Vec<u32>,
    successors: Vec<u32>,
}

impl Order {
    /// Independent tasks have none.
    pub fn new(tasks: &Tasks) -> Self {
        let mut edges: Vec<(u32, u32)> = Vec::new();
        let count = match tasks {
            Tasks::Independent(_) => 0,
            Tasks::Wavefront { rows, columns } => {
                let count = rows * columns;
                for task in 0..count {
                    let right = Some(task + 1).filter(|right| right % columns != 0);
                    let below = Some(task + columns).filter(|&below| below < count);
                    edges.extend([right, below].into_iter().flatten().map(|next| (task, next)));
                }
                count
            }
            Tasks::Listed(tasks) => {
                let numbers: BTreeMap<&str, u32> =
                    tasks.iter().enumerate().map(|(number, task)| (task.name.as_str(), number as u32)).collect();
                for (number, task) in tasks.iter().enumerate() {
                    // A task that is named twice is waited for once.
                    let before: BTreeSet<u32> =
                        task.after.iter().filter_map(|name| numbers.get(name.as_str()).copied()).collect();
                    edges.extend(before.into_iter().map(|before| (before, number as u32)));
                }
                edges.sort_unstable();
                tasks.len() as u32
            }
        };
        let mut order = Self { waits_for: vec![0; count as usize], first: Vec::new(), successors: Vec::new() };
        let mut edges = edges.into_iter().peekable();
        for task in 0..count {
            order.first.push(order.successors.len() as u32);
            while let Some((_, next)) = edges.next_if(|&(before, _)| before == task) {
                order.successors.push(next);
                order.waits_for[next as usize] += 1;
            }
        }
        order.first.push(order.successors.len() as u32);
        order
    }

    /// By task, for how many it waits.
    pub fn waits_for(&self) -> &[u32] {
        &self.waits_for
    }

    /// Those that wait for a task.
    #[inline]
    pub fn successors(&self, task: u32) -> &[u32] {
        &self.successors[self.first[task as usize] as usize..self.first[task as usize + 1] as usize]
    }

    /// All tasks that can ever begin, each after those that it waits for.
    fn in_turn(&self) -> Vec<u32> {
        let mut waits_for = self.waits_for.clone();
        let mut turn: Vec<u32> = (0..waits_for.len() as u32).filter(|&task| waits_for[task as usize] == 0).collect();
        let mut done = 0;
        while let Some(&task) = turn.get(done) {
            done += 1;
            for &next in self.successors(task) {
                waits_for[next as usize] -= 1;
                if waits_for[next as usize] == 0 {
                    turn.push(next);
                }
            }
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(tasks: &[(&str, f64, &[&str])]) -> Graph {
        let task = |&(name, work_ms, after): &(&str, f64, &[&str])| Listed {
            name: name.into(),
            work_ms: Some(Distribution::Constant(work_ms)),
            after: after.iter().map(|&name| name.into()).collect(),
        };
        let stage = Stage {
            name: "only".into(),
            tasks: Tasks::Listed(tasks.iter().map(task).collect()),
            work_ms: Distribution::Constant(1.0),
            memory: Footprint::default(),
            kept: 0.0,
        };
        Graph { name: "g".into(), about: String::new(), source: String::new(), rounds: 1, stages: vec![stage] }
    }

    #[test]
    fn work_and_span_are_those_of_the_tasks() {
        // a - b - d, a - c - d, with c the longer way.
        let graph = listed(&[("d", 1.0, &["b", "c"]), ("a", 2.0, &[]), ("b", 3.0, &["a"]), ("c", 5.0, &["a", "a"])]);
        assert_eq!(graph.check(), Ok(()));
        assert_eq!((graph.work_ms(), graph.span_ms(), graph.tasks()), (11.0, 8.0, 4));
        let mut wave = graph;
        wave.rounds = 3;
        wave.stages[0].tasks = Tasks::Wavefront { rows: 4, columns: 5 };
        assert_eq!((wave.work_ms(), wave.span_ms(), wave.tasks()), (60.0, 24.0, 60));
        wave.stages[0].tasks = Tasks::Independent(7);
        assert_eq!((wave.work_ms(), wave.span_ms()), (21.0, 3.0));
    }

    #[test]
    fn a_wavefront_waits_above_and_on_the_left() {
        let order = Order::new(&Tasks::Wavefront { rows: 2, columns: 3 });
        assert_eq!(order.waits_for(), [0, 1, 1, 1, 2, 2]);
        assert_eq!(
            (0..6).map(|task| order.successors(task).to_vec()).collect::<Vec<_>>(),
            [vec![1, 3], vec![2, 4], vec![5], vec![4], vec![5], vec![]]
        );
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let told = |graph: &Graph| graph.check().unwrap_err().to_string();
        let circle = listed(&[("a", 1.0, &[]), ("b", 1.0, &["a", "c"]), ("c", 1.0, &["b"])]);
        assert_eq!(
            told(&circle),
            "stages[0].tasks.listed[1].after: task `b` is after itself, by way of those that it is after, or after tasks that are: \
             it could never begin"
        );
        assert_eq!(
            told(&listed(&[("a", 1.0, &["x"])])),
            "stages[0].tasks.listed[0].after: there is no task `x` in this stage to wait for"
        );
        assert_eq!(
            told(&listed(&[("a", 1.0, &[]), ("a", 1.0, &[])])),
            "stages[0].tasks.listed[1].name: task `a` is listed twice"
        );
        assert_eq!(told(&listed(&[])), "stages[0].tasks: it is empty; at least one is needed");
        let mut graph = listed(&[("a", -1.0, &[])]);
        assert!(
            told(&graph).starts_with("stages[0].tasks.listed[0].work_ms: -1 is not a number from 0"),
            "{}",
            told(&graph)
        );
        graph = listed(&[("a", 1.0, &[])]);
        graph.stages[0].kept = 1.5;
        assert_eq!(told(&graph), "stages[0].kept: 1.5 is not a number from 0 to 1");
    }
}
