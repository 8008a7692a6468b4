//! The engine: runs a plan's trials in randomised complete blocks until every comparison is settled.
//!
//! A **group** is one subject at one thread count; its treatments are compared with one another. In every block each
//! open group runs each of its treatments once, one right after the other, so that a machine that gets slower gets
//! slower for all of them; the order of the groups, and of the treatments within, is drawn anew for every block
//! (randomised complete block design; Fisher, *The Design of Experiments*, 1935). Blocks `0..warmup_blocks` warm up.
//!
//! Where the best of many is asked for, a block is one turn of a race instead: see [`crate::race`].
//!
//! Every decision is a function of the plan and the trials of earlier blocks alone. So a study that was interrupted
//! goes on exactly as it would have gone on, given the same outcomes.

use crate::journal::{Journal, JournalError};
use crate::plan::{Cell, Plan, StopRule};
use crate::race;
use crate::record::Ending;
use crate::summary;
use crate::trial::{Status, Trial};
use std::time::Duration;

/// A cell is given up after so many failures in a row.
pub const FAILURES_TO_GIVE_UP: usize = 3;

/// A trial that is to be run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// Whose turn it is.
    pub cell: Cell,
    /// Position in the study, from 0.
    pub sequence: u32,
    /// Randomised complete block.
    pub block: u32,
    /// Whether it warms up, and isn't counted.
    pub warmup: bool,
    /// In a race, how long it may take before it has lost; none while nothing is known.
    pub cut_off: Option<Duration>,
}

/// How long a trial may take, and what it means when it takes longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// How long.
    pub longest: Duration,
    /// Whether it is then out of a race; else it failed.
    pub cuts_off: bool,
}

impl Turn {
    /// The trial before it is run: as yet not started.
    pub fn trial(&self, plan: &Plan, started_unix_s: f64) -> Trial {
        Trial {
            sequence: self.sequence,
            block: self.block,
            warmup: self.warmup,
            subject: plan.subjects[self.cell.subject].name.clone(),
            threads: plan.threads[self.cell.threads],
            placement: plan.treatments[self.cell.treatment].name.clone(),
            status: Status::NotStarted,
            cause: String::new(),
            time_s: None,
            started_unix_s,
            intended_cpus: plan.placement(self.cell).map(|placement| placement.slots.clone()),
            observation: None,
            output_tail: String::new(),
        }
    }

    /// The shorter of the plan's timeout and the race's cut-off.
    pub fn limit(&self, plan: &Plan) -> Limit {
        match self.cut_off {
            Some(cut_off) if cut_off < plan.timeout => Limit { longest: cut_off, cuts_off: true },
            _ => Limit { longest: plan.timeout, cuts_off: false },
        }
    }
}

impl Limit {
    /// How a trial went that took longer, and the cause in words.
    pub fn exceeded(self) -> (Status, String) {
        let longest = self.longest;
        if self.cuts_off {
            (Status::CutOff, format!("stopped after {longest:.3?}: it had lost to the best by then"))
        } else {
            (Status::Timeout, format!("ran longer than {longest:?} and was killed"))
        }
    }
}

/// What runs a trial: a program here, or a model of one.
pub trait Runner {
    /// Runs one trial.
    ///
    /// # Errors
    /// Only when the study can't go on, in one sentence; a trial that went wrong is a [`Trial`] with its cause.
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError>;
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
        /// Groups that are still open, or cells that are still in their race.
        open: usize,
        /// Of how many.
        of: usize,
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
        let work = match plan.stop {
            StopRule::Best { .. } => race::block(plan, &trials[..earlier], block),
            StopRule::Paired { .. } | StopRule::RelativeSd { .. } => comparisons(plan, &trials[..earlier], block),
        };
        if work.cells.is_empty() {
            return Ok(Ending::Finished);
        }
        watch(Event::Block { block, open: work.open, of: work.of });
        for cell in work.cells {
            if done_in(plan, &trials[earlier..], cell) {
                continue;
            }
            if plan.budget.is_some_and(|budget| time_spent(&trials) >= budget) {
                return Ok(Ending::BudgetSpent);
            }
            watch(Event::Begin(cell));
            let sequence = trials.last().map_or(0, |trial| trial.sequence + 1);
            let cut_off = race::cut_off(plan, &trials, cell);
            let turn = Turn { cell, sequence, block, warmup: block < plan.warmup_blocks, cut_off };
            let trial = runner.run(plan, &turn)?;
            journal.add(&trial)?;
            watch(Event::End(&trial));
            trials.push(trial);
        }
    }
    unreachable!("the stop rule bounds the number of blocks")
}

/// What one block runs.
pub(crate) struct Work {
    /// The cells in the order in which they run.
    pub cells: Vec<Cell>,
    /// Comparisons that are open, or cells still in their race.
    pub open: usize,
    /// Of how many.
    pub of: usize,
}

/// A block of a study that compares every placement with the reference.
fn comparisons(plan: &Plan, earlier: &[Trial], block: u32) -> Work {
    let groups = open_groups(plan, earlier, block);
    let mut cells = block_order(plan, &groups, block);
    cells.retain(|&cell| !given_up(plan, earlier, cell));
    Work { cells, open: groups.len(), of: plan.subjects.len() * plan.threads.len() }
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
            let all = (0..plan.treatments.len()).map(|treatment| Cell { subject, threads, treatment });
            let cells: Vec<Cell> = all.filter(|&cell| plan.has(cell)).collect();
            if cells.iter().all(|&cell| given_up(plan, earlier, cell)) {
                return false;
            }
            let (least, most) = match plan.stop {
                StopRule::Paired { min_blocks, max_blocks, .. } => (min_blocks, max_blocks),
                StopRule::RelativeSd { min_runs, max_runs, .. } => (min_runs, max_runs),
                // A race has no groups.
                StopRule::Best { .. } => return false,
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
        StopRule::Best { .. } => true,
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
                .filter(|&cell| plan.has(cell))
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
    let failed = last.filter(|trial| trial.status.is_failure()).count();
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
