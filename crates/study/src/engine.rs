//! The engine: runs a plan's trials in randomised complete blocks until every comparison is settled.
//!
//! A **group** is one subject at one thread count; its treatments are compared with one another. In every block each
//! open group runs each of its treatments once, one right after the other, so that a machine that gets slower gets
//! slower for all of them; the order of the groups, and of the treatments within, is drawn anew for every block
//! (randomised complete block design; Fisher, *The Design of Experiments*, 1935). Blocks `0..warmup_blocks` warm up.
//!
//! Every decision is a function of the plan and the trials of earlier blocks alone. So a study that was interrupted
//! goes on exactly as it would have gone on, given the same outcomes.

use crate::journal::{Journal, JournalError};
use crate::plan::{Plan, StopRule};
use crate::record::Ending;
use crate::summary;
use crate::trial::{Status, Trial};
use std::time::Duration;

/// A cell is given up after so many failures in a row.
pub const FAILURES_TO_GIVE_UP: usize = 3;

/// One cell of the plan, by positions in its lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// Position in `plan.subjects`.
    pub subject: usize,
    /// Position in `plan.threads`.
    pub threads: usize,
    /// Position in `plan.treatments`.
    pub treatment: usize,
}

/// What runs a trial: a program here, or a model of one.
pub trait Runner {
    /// Runs `cell` once. `sequence`, `block` and `warmup` are only to be copied into the trial.
    ///
    /// # Errors
    /// Only when the study can't go on, in one sentence; a trial that went wrong is a [`Trial`] with its cause.
    fn run(&mut self, plan: &Plan, cell: Cell, sequence: u32, block: u32, warmup: bool) -> Result<Trial, RunnerError>;
}

/// Why no trial can be run any more.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// A signal asked us to end.
    #[error("interrupted by signal {signal}")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// The runner itself can't work.
    #[error("{0}")]
    Broken(String),
}

/// Why a study stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The runner failed.
    #[error(transparent)]
    Runner(#[from] RunnerError),
}

/// What the engine tells whoever watches.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A block begins.
    Block {
        /// Its number, warm-up included.
        block: u32,
        /// Groups that are still open.
        open_groups: usize,
        /// Groups in all.
        groups: usize,
    },
    /// A trial begins.
    Begin(Cell),
    /// A trial has ended and is in the journal.
    End(&'a Trial),
}

/// Runs what is left of `plan`, adding to `journal`, whose trials so far are `done`.
///
/// # Errors
/// When the journal or the runner fails; what was done before is in the journal.
pub fn conduct(
    plan: &Plan,
    done: Vec<Trial>,
    journal: &mut Journal,
    runner: &mut dyn Runner,
    watch: &mut dyn FnMut(Event),
) -> Result<Ending, EngineError> {
    let mut trials = done;
    // Blocks run one after the other, so all before the last one begun are whole.
    let first = trials.last().map_or(0, |trial| trial.block);
    for block in first.. {
        let earlier = trials.partition_point(|trial| trial.block < block);
        let groups = open_groups(plan, &trials[..earlier], block);
        if groups.is_empty() {
            return Ok(Ending::Finished);
        }
        watch(Event::Block { block, open_groups: groups.len(), groups: plan.subjects.len() * plan.threads.len() });
        for cell in block_order(plan, &groups, block) {
            if done_in(plan, &trials[earlier..], cell) || given_up(plan, &trials[..earlier], cell) {
                continue;
            }
            if plan.budget.is_some_and(|budget| time_spent(&trials) >= budget) {
                return Ok(Ending::BudgetSpent);
            }
            watch(Event::Begin(cell));
            let sequence = trials.last().map_or(0, |trial| trial.sequence + 1);
            let trial = runner.run(plan, cell, sequence, block, block < plan.warmup_blocks)?;
            journal.add(&trial)?;
            watch(Event::End(&trial));
            trials.push(trial);
        }
    }
    unreachable!("the stop rule bounds the number of blocks")
}

/// Time spent in trials, warm-up included.
pub fn time_spent(trials: &[Trial]) -> Duration {
    let sum_s = trials.iter().filter_map(|trial| Some(trial.observation.as_ref()?.wall_s)).sum();
    Duration::try_from_secs_f64(sum_s).unwrap_or(Duration::MAX)
}

/// The groups (subject, threads) that run in `block`, given the trials of all earlier blocks.
fn open_groups(plan: &Plan, earlier: &[Trial], block: u32) -> Vec<(usize, usize)> {
    let counted = block.saturating_sub(plan.warmup_blocks);
    (0..plan.subjects.len())
        .flat_map(|subject| (0..plan.threads.len()).map(move |threads| (subject, threads)))
        .filter(|&(subject, threads)| {
            let cells: Vec<Cell> =
                (0..plan.treatments.len()).map(|treatment| Cell { subject, threads, treatment }).collect();
            if cells.iter().all(|&cell| given_up(plan, earlier, cell)) {
                return false;
            }
            let (least, most) = match plan.stop {
                StopRule::Paired { min_blocks, max_blocks, .. } => (min_blocks, max_blocks),
                StopRule::RelativeSd { min_runs, max_runs, .. } => (min_runs, max_runs),
            };
            if counted < least {
                return true;
            }
            counted < most && cells.iter().any(|&cell| !given_up(plan, earlier, cell) && !settled(plan, earlier, cell))
        })
        .collect()
}

/// Whether the stop rule is met for one cell.
pub(crate) fn settled(plan: &Plan, trials: &[Trial], cell: Cell) -> bool {
    match plan.stop {
        // The reference is settled with whatever is compared to it.
        StopRule::Paired { .. } if cell.treatment == 0 => true,
        StopRule::Paired { width, min_blocks, .. } => stats::settled(
            &summary::pairs(plan, trials, cell),
            width,
            min_blocks as usize,
            summary::bootstrap_seed(plan, cell),
        ),
        StopRule::RelativeSd { relative_sd, min_runs, .. } => {
            stats::relative_sd_below(&summary::counted_times(plan, trials, cell), min_runs as usize, relative_sd)
        }
    }
}

/// The cells of `groups` in the order in which `block` runs them.
fn block_order(plan: &Plan, groups: &[(usize, usize)], block: u32) -> Vec<Cell> {
    let all = plan.subjects.len() * plan.threads.len();
    // Drawn over all groups, open or not, so that closing one doesn't reorder the others.
    stats::block_permutation(plan.seed, block, all as u32, all)
        .into_iter()
        .map(|group| (group, (group / plan.threads.len(), group % plan.threads.len())))
        .filter(|(_, group)| groups.contains(group))
        .flat_map(|(number, (subject, threads))| {
            stats::block_permutation(plan.seed, block, number as u32, plan.treatments.len())
                .into_iter()
                .map(move |treatment| Cell { subject, threads, treatment })
        })
        .collect()
}

fn done_in(plan: &Plan, block: &[Trial], cell: Cell) -> bool {
    block.iter().any(|trial| cell.is_of(plan, trial))
}

/// Whether nothing more is to be learnt from `cell`: it can't be started, or failed every one of its last runs.
pub(crate) fn given_up(plan: &Plan, trials: &[Trial], cell: Cell) -> bool {
    let mut last = trials.iter().rev().filter(|trial| cell.is_of(plan, trial)).take(FAILURES_TO_GIVE_UP).peekable();
    if last.peek().is_some_and(|trial| trial.status == Status::NotStarted) {
        return true;
    }
    let failed = last.filter(|trial| trial.status != Status::Ok).count();
    failed == FAILURES_TO_GIVE_UP
}

impl Cell {
    /// Whether `trial` is of this cell.
    pub fn is_of(self, plan: &Plan, trial: &Trial) -> bool {
        trial.threads == plan.threads[self.threads]
            && trial.placement == plan.treatments[self.treatment].name
            && trial.subject == plan.subjects[self.subject].name
    }
}
