//! Replays on this very machine.

use crate::output::{ReplayOutput, RunFailure};
use crate::series::{OUTPUT, OnOutput, Programs, Run, SCHEDULER_OUTPUT, Series, SeriesError};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

impl Series {
    /// Replays on this machine, one run after the other; `on_output` gets what each showed, or in a sentence why it failed.
    ///
    /// # Errors
    /// [`SeriesError`], or what `on_output` fails with.
    pub fn run_here<E: From<SeriesError>>(
        &self,
        runs: &[Run],
        programs: &Programs,
        on_output: OnOutput<'_, E>,
    ) -> Result<(), E> {
        let folder = tempfile::tempdir().map_err(SeriesError::Files)?;
        self.write_files(folder.path())?;
        for run in runs {
            on_output(*run, output(&self.command(*run, programs, folder.path()), folder.path()))?;
        }
        Ok(())
    }
}

/// Runs the programs of one run; what they wrote.
fn output(command: &[String], folder: &Path) -> Result<ReplayOutput, RunFailure> {
    let texts = [OUTPUT, SCHEDULER_OUTPUT].map(|name| folder.join(name));
    for text in &texts {
        // Of the run before; it may not be there.
        let _ = fs::remove_file(text);
    }
    let (program, arguments) =
        command.split_first().ok_or_else(|| RunFailure::NotStarted("nothing is to be run".into()))?;
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let Output { status, stderr, .. } =
        output.map_err(|error| RunFailure::NotStarted(format!("cannot run {program}: {error}")))?;
    let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
    match (status.code(), status.signal()) {
        (Some(0), _) => {}
        (Some(code), _) => return Err(RunFailure::ExitCode { code, stderr }),
        (None, signal) => return Err(RunFailure::Signal { signal: signal.unwrap_or_default(), stderr }),
    }
    let texts: String = texts.iter().filter_map(|text| fs::read_to_string(text).ok()).collect();
    ReplayOutput::parse(&texts).map_err(|error| RunFailure::Unreadable(error.to_string()))
}
