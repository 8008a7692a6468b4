//! `stayput task`: one block of a study on Slurm, as the task of an array runs it on its node. It is for nobody else.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use study::slurm::{self, TaskEnd};

/// The folder of the study, and the number of what was submitted.
#[derive(clap::Args)]
pub struct TaskArgs {
    /// Whether it takes samples of a simulation, and runs no programs.
    #[arg(long)]
    simulation: bool,
    folder: PathBuf,
    submission: u32,
}

/// Runs the block whose index Slurm has put into the environment.
pub fn run(args: &TaskArgs) -> anyhow::Result<u8> {
    let run = if args.simulation { simulation::slurm::run_task } else { slurm::run_trials };
    match run(&args.folder, args.submission) {
        TaskEnd::Done => Ok(crate::SUCCESS),
        TaskEnd::Interrupted { signal } => launch::die_by(signal),
        TaskEnd::Failed(cause) => Err(anyhow::Error::msg(cause)),
    }
}

/// This program, with the words that make it a task.
///
/// # Errors
/// When it isn't known where it is.
pub(crate) fn program(is_simulation: bool) -> io::Result<Vec<OsString>> {
    let words = [std::env::current_exe()?.into(), "task".into()];
    Ok(words.into_iter().chain(is_simulation.then(|| "--simulation".into())).collect())
}
