//! Reading what a person wrote in TOML: a mistake is told with its file and line.

use sim::toml_text::Mistake;
use std::path::{Path, PathBuf};

/// Why a file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It can't be read.
    #[error("cannot read {noun} {path}: {cause}", path = path.display())]
    Read {
        /// What it should be: `study file`.
        noun: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// It isn't what it must be.
    #[error("{noun} {path}, line {line}: {what}", path = path.display())]
    Syntax {
        /// What it should be: `study file`.
        noun: &'static str,
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        what: String,
    },
}

/// Reads the file at `path`, called `noun` when it can't be used, by `parse`.
///
/// # Errors
/// [`FileError`], with the line where there is one.
pub fn read<T>(
    noun: &'static str,
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, Mistake>,
) -> Result<T, FileError> {
    let bytes = std::fs::read(path).map_err(|cause| FileError::Read { noun, path: path.into(), cause })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        FileError::Syntax { noun, path: path.into(), line, what: "not UTF-8 text".into() }
    })?;
    parse(&text).map_err(|(line, what)| FileError::Syntax { noun, path: path.into(), line, what })
}
