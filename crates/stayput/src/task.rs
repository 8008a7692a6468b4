//! `stayput task`: one block of a study on Slurm, as the task of an array runs it on its node. It is for nobody else.

use std::path::PathBuf;
use study::slurm::{self, TaskEnd};

/// The folder of the study, and the number of what was submitted.
#[derive(clap::Args)]
pub struct TaskArgs {
    folder: PathBuf,
    submission: u32,
}

/// Runs the block whose index Slurm has put into the environment.
pub fn run(args: &TaskArgs) -> anyhow::Result<u8> {
    match slurm::run_task(&args.folder, args.submission) {
        TaskEnd::Done => Ok(crate::SUCCESS),
        TaskEnd::Interrupted { signal } => launch::die_by(signal),
        TaskEnd::Failed(cause) => Err(anyhow::Error::msg(cause)),
    }
}
