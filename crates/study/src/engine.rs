//! The engine: runs the blocks that a study asks for, trial by trial, until it asks for none.
//!
//! What a block runs is the study's to say: a comparison runs its open groups, a race those that may still win.
//!
//! Every decision is a function of the plan and the trials of earlier blocks alone. So a study that was interrupted
//! goes on exactly as it would have gone on, given the same outcomes.

use crate::journal::JournalError;
use crate::kind::Kind;
use crate::plan::{Cell, Plan};
use crate::record::Ending;
use crate::session::Session;
use crate::trial::{Status, Trial};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A cell is given up after so many failures in a row.
pub const FAILURES_TO_GIVE_UP: usize = 3;

/// A study ends when so many runs in a row were disturbed: whatever does that goes on.
pub const DISTURBED_TO_END: usize = 5;

/// A trial that is to be run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
            ran_s: None,
            observation: None,
            more: None,
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

/// A study of cells, which runs programs or models of them.
pub trait CellStudy: Kind<Trial = Trial> {
    /// What it decides by.
    type Course<'a>: Course
    where
        Self: 'a;

    /// What it runs where.
    fn plan(&self) -> &Plan;

    /// Its course after the trials of whole blocks, at least of all those before the plan was last extended.
    fn course<'a>(&'a self, earlier: &[Trial]) -> Self::Course<'a>;

    /// The same study of another plan.
    #[must_use]
    fn with_plan(&self, plan: Plan) -> Self;

    /// Whether `cell` isn't run any more for its failures.
    fn is_given_up(&self, trials: &[Trial], cell: Cell) -> bool {
        let mut failures = Failures::default();
        trials.iter().filter(|trial| cell.has_trial(self.plan(), trial)).for_each(|trial| {
            failures.note(self.plan(), trial);
        });
        failures.give_up()
    }
}

/// What the trials of a study so far come to, kept up trial by trial, so that a trial costs about as much after a hundred thousand as
/// after ten. What it says is a function of the study and these trials.
pub trait Course {
    /// Takes note of a trial that comes after all others.
    fn note(&mut self, trial: &Trial);

    /// What `block` runs, when the trials of all earlier blocks but the last `ahead` are noted, and no others; no cells when the study is
    /// finished. Blocks that run at the same time are ahead of one another.
    fn work_of_block(&mut self, block: u32, ahead: u32) -> Work;

    /// How long a run of `cell` may take before nothing more is to be learnt from it.
    fn cut_off(&mut self, _cell: Cell) -> Option<Duration> {
        None
    }
}

/// What runs a trial: a program here, or a model of one.
pub trait Runner {
    /// Runs one trial.
    ///
    /// # Errors
    /// Only when the study can't go on, in one sentence; a trial that went wrong is a [`Trial`] with its cause.
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError>;

    /// Whether what is left of the block can't be compared with what was run of it, since the machine that ran it is gone.
    fn has_lost_block(&self) -> bool {
        false
    }

    /// Does what is to be done after the last trial of a stretch of work.
    ///
    /// # Errors
    /// What went wrong, in one sentence; what was run before is good all the same.
    fn finish(&mut self, _plan: &Plan) -> Result<(), RunnerError> {
        Ok(())
    }
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
        /// The number of all of these.
        of: usize,
    },
    /// A trial begins.
    Begin(Cell),
    /// A trial has ended and is in the journal.
    End(&'a Trial),
    /// A sample of a simulation is in the journal.
    Sample,
    /// A trial was disturbed, which the journal keeps, and is run again.
    Disturbed(&'a Trial),
    /// Where the blocks of a round are that run elsewhere.
    Queue(Queue<'a>),
    /// Something happened there that whoever watches wants to know, in a sentence.
    Note(&'a str),
}

/// Where the blocks of a round are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue<'a> {
    /// Blocks that are whole.
    pub whole: u32,
    /// Blocks that run.
    pub running: u32,
    /// Blocks that wait.
    pub pending: u32,
    /// Why they do; empty where that isn't known.
    pub why: &'a str,
}

/// Runs what is left of the study in `session`.
///
/// # Errors
/// When the journal or the runner fails; what was done before is in the journal.
pub fn run_blocks<S: CellStudy>(
    session: &mut Session<S>,
    runner: &mut dyn Runner,
    watch: &mut dyn FnMut(Event),
) -> Result<Ending, EngineError> {
    let study = session.plan().clone();
    let plan = study.plan();
    // Blocks run one after the other, so all before the last one begun are whole, or were left when the study was extended.
    let first = session.trials().last().map_or(0, |trial| trial.block).max(plan.first_block());
    let mut noted = session.trials().partition_point(|trial| trial.block < first);
    let mut course = study.course(&session.trials()[..noted]);
    let mut spent_s = sum_s(session.trials());
    for block in first.. {
        let earlier = noted;
        let work = course.work_of_block(block, 0);
        if work.cells.is_empty() {
            return Ok(Ending::Finished);
        }
        // What was begun in a virtual machine that is gone isn't gone on with in another.
        if plan.site.is_emulated() && session.trials().len() > earlier {
            session.trials()[noted..].iter().for_each(|trial| course.note(trial));
            noted = session.trials().len();
            continue;
        }
        watch(Event::Block { block, open: work.open, of: work.of });
        for cell in work.cells {
            let trials = session.trials();
            trials[noted..].iter().for_each(|trial| course.note(trial));
            noted = trials.len();
            if trials[earlier..].iter().any(|trial| cell.has_trial(plan, trial)) {
                continue;
            }
            if plan.budget.is_some_and(|budget| duration(spent_s) >= budget) {
                return Ok(Ending::BudgetSpent);
            }
            watch(Event::Begin(cell));
            let sequence = trials.last().map_or(0, |trial| trial.sequence + 1);
            let cut_off = course.cut_off(cell);
            let turn = Turn { cell, sequence, block, warmup: block < plan.warmup_blocks, cut_off };
            let mut disturbed = 0;
            let trial = loop {
                let trial = runner.run(plan, &turn)?;
                spent_s += trial.ran_s.unwrap_or(0.0);
                if trial.status != Status::Disturbed {
                    break trial;
                }
                let trial = session.add_disturbed(trial)?;
                watch(Event::Disturbed(trial));
                disturbed += 1;
                if disturbed == DISTURBED_TO_END {
                    let cause = disturbed_too_often(&trial.cause);
                    return Err(RunnerError::Broken(format!(
                        "{cause}; what was measured is kept, and the same command goes on"
                    ))
                    .into());
                }
            };
            watch(Event::End(session.add(trial)?));
            if runner.has_lost_block() {
                break;
            }
        }
        session.trials()[noted..].iter().for_each(|trial| course.note(trial));
        noted = session.trials().len();
    }
    unreachable!("the stop rule bounds the number of blocks")
}

/// That [`DISTURBED_TO_END`] runs were disturbed, the last one for `cause`.
pub(crate) fn disturbed_too_often(cause: &str) -> String {
    format!("{DISTURBED_TO_END} runs in a row were disturbed, at last since {cause}")
}

/// Tries the cells again that were given up for their failures, from the next block on; gives how many there are.
pub fn retry<S: CellStudy>(session: &mut Session<S>) -> usize {
    let (study, trials) = (session.plan(), session.trials());
    let plan = study.plan();
    let given_up = plan.cells().filter(|&cell| study.is_given_up(trials, cell)).count();
    if given_up > 0 {
        let next_block = trials.last().map_or(0, |trial| trial.block + 1);
        session.set_plan(study.with_plan(plan.retried(next_block)));
    }
    given_up
}

/// What one block runs.
pub struct Work {
    /// The cells in the order in which they run.
    pub cells: Vec<Cell>,
    /// Comparisons that are open, or cells still in their race.
    pub open: usize,
    /// How many comparisons, or cells, there are.
    pub of: usize,
}

/// Time spent in trials, warm-up included.
pub fn time_spent(trials: &[Trial]) -> Duration {
    duration(sum_s(trials))
}

pub(crate) fn sum_s(trials: &[Trial]) -> f64 {
    trials.iter().filter_map(|trial| trial.ran_s).sum()
}

pub(crate) fn duration(s: f64) -> Duration {
    Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX)
}

/// The failures of one cell, as far as they decide whether it is given up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failures {
    /// Runs that failed, one after the other, up to the last.
    in_a_row: usize,
    /// Whether the last one couldn't be started.
    not_started: bool,
}

impl Failures {
    /// Takes note of a trial of the cell that comes after all others. Those from before it was tried again don't count.
    pub(crate) fn note(&mut self, plan: &Plan, trial: &Trial) {
        if trial.block >= plan.retried_from() {
            self.in_a_row = if trial.status.is_failure() { self.in_a_row + 1 } else { 0 };
            self.not_started = trial.status == Status::NotStarted;
        }
    }

    /// Whether nothing more is to be learnt from the cell: it can't be started, or failed every one of its last runs.
    pub(crate) fn give_up(self) -> bool {
        self.not_started || self.in_a_row >= FAILURES_TO_GIVE_UP
    }
}
