//! Blocks of a study as tasks of Slurm, which is the only engine: it queues them, finds them nodes, and ends them.
//!
//! ```text
//! login node: run_rounds ──Submission, sbatch --array──> node: run_task ──> ProgramRunner or ModelRunner
//!       │ squeue: pending, running, lost                      │ every trial as it ends
//!       └──────────── Session <── whole blocks, in their order ── block-N.trials, renamed into place
//! ```
//!
//! One task is one whole block on one node, so that what is compared ran on one node, one right after the other. A *round* of
//! blocks runs at a time; what the study asks for is decided between rounds, so that decisions stay a function of the plan and of earlier
//! blocks. Both sides meet in a [`folder`] beside the journal. Results have names of our own: Slurm gives the number of a job that its
//! controller has forgotten to another one, runs a task twice after a node was taken for dead, and never says so. The first whole result of
//! a block counts, whichever task it is of.

mod block_result;
mod folder;
mod options;
mod queue;
mod rounds;
mod survey;
mod task;

pub use folder::{Folder, set_aside};
pub use options::{ParseSlurmError, SlurmSite};
pub use queue::{QueueError, check};
pub use rounds::{Cluster, run_rounds};
pub use survey::Survey;
pub use task::{TaskEnd, run_task};

use crate::engine::CellStudy;
use crate::guest::{Assigned, Assignment};
use crate::input::Inputs;
use crate::plan::Plan;
use std::path::{Path, PathBuf};

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
