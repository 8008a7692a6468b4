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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exit, Launch, Output, launch};
    use std::fs;

    #[test]
    fn marks_are_made_before_a_program_and_after_it_and_one_that_fails_leaves_no_number() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let shell = |text: String| ["sh".into(), "-c".into(), text.into()].to_vec();
        let says = |word: &str| shell(format!("echo {word} >> {}", log.display()));
        let marked = |end| Launch {
            output: Output::Capture,
            marks: Some(Marks { begin: says("begin"), end }),
            ..Launch::new(says("program"))
        };
        assert_eq!(launch(&marked(says("end"))).unwrap().observation.exit, Exit::Code(0));
        assert_eq!(fs::read_to_string(&log).unwrap(), "begin\nprogram\nend\n");
        let error = launch(&marked(shell("echo no >&2; exit 1".into()))).unwrap_err().to_string();
        assert_eq!(error, "it can't be marked when the program runs: no");
    }
}
