//! Marks of when a program, or several, run: commands for somebody who measures from elsewhere.

use crate::LaunchError;
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// Commands that mark a program's beginning and its end: each a program with its arguments.
#[derive(Clone, Debug)]
pub struct Marks {
    /// Run when all is ready, right before the program begins.
    pub begin: Vec<OsString>,
    /// Run right after it has ended, while its conditions are still in force.
    pub end: Vec<OsString>,
}

/// Runs the command of one of `marks`, if there are any.
///
/// # Errors
/// When it can't be run, or fails.
pub(crate) fn mark(marks: Option<&Marks>, which: impl Fn(&Marks) -> &[OsString]) -> Result<(), LaunchError> {
    let Some(command) = marks.map(which) else { return Ok(()) };
    let failed = |cause: String| LaunchError::Conditions(format!("it can't be marked when the program runs: {cause}"));
    let (program, arguments) = command.split_first().ok_or_else(|| failed("no command is given".into()))?;
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|cause| failed(cause.to_string()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(failed(said.trim().to_owned())) }
}
