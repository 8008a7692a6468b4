//! Blocks of a study as tasks of Slurm, which is the only engine: it queues them, finds them nodes, and ends them.
//!
//! ```text
//! login node: run_rounds, run_all ──Submission, sbatch --array──> node: run_task ──> a runner of trials, or a simulator
//!       │ squeue: pending, running, lost                               │ every trial as it ends
//!       └───────────────── Session <── whole blocks, in their order ── block-N.trials, renamed into place
//! ```
//!
//! One task is one whole block on one node, so that what is compared ran on one node, one right after the other. A *round* of
//! blocks runs at a time; what the study asks for is decided between rounds, so that decisions stay a function of the plan and of earlier
//! blocks. Where nothing is decided, as between simulations, all blocks run at once. Both sides meet in a [`folder`] beside the journal. Results have names of our own: Slurm gives the number of a job that its
//! controller has forgotten to another one, runs a task twice after a node was taken for dead, and never says so. The first whole result of
//! a block counts, whichever task it is of.

mod array;
mod block_result;
mod folder;
mod options;
mod queue;
mod rounds;
mod survey;
mod task;
mod trials;

pub use array::{Cluster, run_all};
pub use block_result::BlockWriter;
pub use folder::{Folder, set_aside};
pub use options::{ParseSlurmError, SlurmSite};
pub use queue::{QueueError, check};
pub use rounds::run_rounds;
pub use survey::Survey;
pub use task::{Task, TaskEnd, TaskError, run_task, take_all_cpus};
pub use trials::run_trials;

use crate::engine::{CellStudy, Event, Turn, sum_s};
use crate::guest::{Assigned, Assignment};
use crate::input::Inputs;
use crate::kind::Kind;
use crate::plan::Plan;
use crate::trial::Trial;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

/// A kind of study whose blocks can be tasks of Slurm.
pub trait Distributed: Kind<Trial: Serialize + DeserializeOwned> {
    /// One run of a block, as a task is told of it.
    type Turn: Clone + Debug + PartialEq + Serialize + DeserializeOwned;

    /// The command that conducts such studies.
    const COMMAND: &'static str;

    /// Whether `trial` is what is to come of `turn`.
    fn is_of(&self, turn: &Self::Turn, trial: &Self::Trial) -> bool;

    /// Where the clock of models is after `trials`, in seconds.
    fn clock_s(trials: &[Self::Trial]) -> f64;

    /// Puts a trial of a model where the clock is, as if one had followed the other, and the clock behind it. Leaves others as they are.
    fn put_at(&self, trial: &mut Self::Trial, clock_s: &mut f64);

    /// What whoever watches is told when `trial` is in the journal.
    fn ended(trial: &Self::Trial) -> Option<Event<'_>>;

    /// The same of one that was disturbed.
    fn disturbed(trial: &Self::Trial) -> Option<Event<'_>>;
}

impl<S: CellStudy> Distributed for S {
    type Turn = Turn;

    const COMMAND: &'static str = "study";

    fn is_of(&self, turn: &Turn, trial: &Trial) -> bool {
        turn.cell.has_trial(self.plan(), trial)
            && (trial.sequence, trial.block, trial.warmup) == (turn.sequence, turn.block, turn.warmup)
    }

    fn clock_s(trials: &[Trial]) -> f64 {
        sum_s(trials)
    }

    fn put_at(&self, trial: &mut Trial, clock_s: &mut f64) {
        if self.plan().subjects.iter().any(|subject| subject.model.is_some()) {
            trial.started_unix_s = *clock_s;
            *clock_s += trial.ran_s.unwrap_or(0.0);
        }
    }

    fn ended(trial: &Trial) -> Option<Event<'_>> {
        Some(Event::End(trial))
    }

    fn disturbed(trial: &Trial) -> Option<Event<'_>> {
        Some(Event::Disturbed(trial))
    }
}

/// A study that a journal holds, with what no journal keeps, what its programs read, and where they are run: all that its folder has for its
/// tasks. Programs are started because the folder, which nobody else can have written, names them, and not because a journal does.
///
/// # Errors
/// When the folder isn't there, or is of another study, in one sentence.
pub fn taken_up<S: CellStudy>(study: &S, journal: &Path) -> Result<(S, Inputs, PathBuf), String> {
    let folder = Folder::beside(journal);
    let lacks = |why: &dyn std::fmt::Display| {
        let (path, journal) = (folder.path().display(), journal.display());
        format!("{path} doesn't say what is under way of {journal} ({why}); go on by the command that began it")
    };
    folder.check().map_err(|error| lacks(&error))?;
    let Assigned { plan: assigned, inputs, directory, .. } =
        Assignment::read(folder.path()).map_err(|error| lacks(&error))?;
    let mut plan = study.plan().clone();
    // Folders may be left over from another journal of that name.
    let id = |plan: &Plan| plan.site.slurm().map(|site| site.study.clone());
    let is_same = id(&assigned) == id(&plan)
        && assigned.subjects == plan.subjects
        && plan.treatments.iter().all(|treatment| assigned.treatments.contains(treatment));
    if !is_same {
        return Err(lacks(&"it is of another study"));
    }
    plan.take_unkept_of(&assigned);
    Ok((study.with_plan(plan), inputs, directory))
}
