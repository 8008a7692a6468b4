//! One task of an array: a whole block, on the node where Slurm has started us.

use super::Distributed;
use super::block_result::{BlockWriter, Header};
use super::folder::{BlockWork, Folder, Submission, TaskFailure};
use crate::engine::RunnerError;
use crate::host::HostState;
use launch::Interruptions;
use machine::linux::{Tid, affinity, system};
use std::path::Path;

/// Why a block came to nothing on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskError {
    /// A signal asked us to end: Slurm's, as a rule.
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// A cause in a sentence.
    Failed {
        /// The sentence.
        cause: String,
        /// Whether it would be the same on another node, or another time.
        is_final: bool,
    },
}

impl TaskError {
    /// It may go well elsewhere.
    pub fn here(cause: String) -> Self {
        Self::Failed { cause, is_final: false }
    }

    /// It would be the same elsewhere.
    pub fn lasting(cause: String) -> Self {
        Self::Failed { cause, is_final: true }
    }
}

impl From<RunnerError> for TaskError {
    fn from(error: RunnerError) -> Self {
        match error {
            RunnerError::Interrupted { signal } => Self::Interrupted { signal },
            RunnerError::Broken(cause) => Self::here(cause),
        }
    }
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// The block is there, whole: by this task, or by another one before.
    Done,
    /// A signal asked it to end.
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// It came to nothing, in a sentence, which is kept in the folder as well where that can be written.
    Failed(String),
}

/// A block as the task sees it that runs it.
#[derive(Debug)]
pub struct Task<'a, T> {
    /// Where the study is.
    pub folder: &'a Folder,
    /// The name of this node, as Slurm calls it.
    pub node: &'a str,
    /// The block.
    pub block: u32,
    /// What it runs.
    pub turns: &'a [T],
}

impl<T> Task<'_, T> {
    /// `error` at `what`, here.
    pub fn wrong(&self, what: &str, error: &dyn std::fmt::Display) -> TaskError {
        TaskError::here(format!("{} {what}: {error}", self.node))
    }
}

/// Runs the block of this task of the submission `number` in `folder`, that of the index which Slurm has put into the environment, by `run`,
/// which writes its trials.
pub fn run_task<K: Distributed>(
    folder: &Path,
    number: u32,
    run: impl FnOnce(&Task<K::Turn>, &mut BlockWriter<K::Trial>) -> Result<(), TaskError>,
) -> TaskEnd {
    // Slurm asks before it kills, so that programs can be ended and what was set up cleaned up.
    let _held = Interruptions::hold();
    let folder = Folder::at(folder);
    let node = node();
    let index = std::env::var("SLURM_ARRAY_TASK_ID").ok().and_then(|index| index.parse::<usize>().ok());
    let submission: Submission<K::Turn> = match folder.submitted(number) {
        Ok(submission) => submission,
        Err(error) => {
            let path = folder.path().display();
            return TaskEnd::Failed(format!("{node} can't read what it is to run in {path}: {error}"));
        }
    };
    let Some(BlockWork { block, turns }) = index.and_then(|index| submission.blocks.get(index)) else {
        return TaskEnd::Failed("this is no task of an array of Slurm's".into());
    };
    let task = Task { folder: &folder, node: &node, block: *block, turns };
    match run_block(&task, &submission.study, number, run) {
        Ok(()) => TaskEnd::Done,
        Err(TaskError::Interrupted { signal }) => TaskEnd::Interrupted { signal },
        Err(TaskError::Failed { cause, is_final }) => {
            let failure = TaskFailure { node: node.clone(), cause: cause.clone(), is_final };
            // Where it can't be kept, Slurm has what is printed.
            let _ = folder.write(&folder.failure(*block, number), &failure);
            TaskEnd::Failed(cause)
        }
    }
}

fn run_block<T, R: serde::Serialize>(
    task: &Task<T>,
    study: &str,
    number: u32,
    run: impl FnOnce(&Task<T>, &mut BlockWriter<R>) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    let Task { folder, node, block, .. } = *task;
    let whole = folder.result(block);
    // Slurm starts a task again that it takes for lost.
    if whole.exists() {
        return Ok(());
    }
    let part = folder.path().join(format!("part-{block}-{number}-{node}-{}", std::process::id()));
    let header = Header { study: study.into(), block, node: node.into(), before: HostState::read() };
    let cannot_write = |error| task.wrong(&format!("can't write to {}", folder.path().display()), &error);
    let mut writer = BlockWriter::begin(part, header).map_err(cannot_write)?;
    match run(task, &mut writer) {
        Ok(()) => writer.finish(&whole).map_err(cannot_write),
        Err(error) => {
            writer.abandon();
            Err(error)
        }
    }
}

/// The name of this node, as Slurm calls it.
fn node() -> String {
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
    std::env::var("SLURMD_NODENAME").ok().or_else(host).unwrap_or_default()
}

/// Leaves the mask behind in which Slurm starts a task that has the whole node: threads are bound by us. A cpuset can't be left.
pub fn take_all_cpus() {
    if let Some(online) = system::online_cpus() {
        let _ = affinity::Mask::from(&online).apply(Tid::CALLER);
    }
}
