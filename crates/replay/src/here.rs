//! Plays on this very machine.

use crate::policy::{Programs, SCHEDULER_TOLD, Series, TOLD, Turn};
use crate::told::Told;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Why nothing can be played here at all.
#[derive(Debug, thiserror::Error)]
pub enum HereError {
    /// There is no room for its files.
    #[error("cannot keep a play's files: {0}")]
    Files(#[from] io::Error),
    /// What is played can't be written.
    #[error("cannot write what is to be played: {0}")]
    Series(#[from] serde_json::Error),
}

impl Series {
    /// Plays a turn after the other on this machine; `tell` is given what each showed, or in a sentence why it failed.
    ///
    /// # Errors
    /// [`HereError`], or what `tell` fails with.
    pub fn play_here<E: From<HereError>>(
        &self,
        turns: &[Turn],
        programs: &Programs,
        tell: &mut dyn FnMut(Turn, Result<Told, String>) -> Result<(), E>,
    ) -> Result<(), E> {
        let folder = tempfile::tempdir().map_err(HereError::Files)?;
        for (name, text) in self.files().map_err(HereError::Series)? {
            fs::write(folder.path().join(name), text).map_err(HereError::Files)?;
        }
        for turn in turns {
            tell(*turn, play(&self.words(*turn, programs, folder.path()), folder.path()))?;
        }
        Ok(())
    }
}

/// Runs the programs of one turn.
fn play(words: &[String], folder: &Path) -> Result<Told, String> {
    let texts = [TOLD, SCHEDULER_TOLD].map(|name| folder.join(name));
    for text in &texts {
        // Of the turn before; it may not be there.
        let _ = fs::remove_file(text);
    }
    let (program, arguments) = words.split_first().ok_or("nothing is to be run")?;
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let Output { status, stderr, .. } = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    if !status.success() {
        let said = String::from_utf8_lossy(&stderr);
        return Err(format!("{status}: {}", said.trim()));
    }
    let texts: String = texts.iter().filter_map(|text| fs::read_to_string(text).ok()).collect();
    Told::parse(&texts).map_err(|error| format!("what it told can't be read: {error}"))
}
