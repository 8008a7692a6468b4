//! `stayput rank`: what wraps each rank of an MPI program that `run --mpi` starts. It is for nobody else.

use launch::Exit;
use std::ffi::OsString;
use std::path::PathBuf;

/// The folder in which it is told what to do, and the program.
#[derive(clap::Args)]
pub struct RankArgs {
    folder: PathBuf,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Launches the program of one rank, and ends as it did.
pub fn run(args: &RankArgs) -> anyhow::Result<u8> {
    match study::ranks::run_rank(&args.folder, &args.command)? {
        Exit::Code(code) => Ok(code as u8),
        Exit::Signal(signal) => launch::die_by(signal),
        Exit::TimedOut => Ok(crate::FAILURE),
    }
}
