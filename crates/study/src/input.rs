//! What programs read from their standard input: read once, and given to every run, so that all runs do the same.
//!
//! A regular file is opened anew for each run. All else, such as a pipe, is kept in a file without a name. The plan holds how long it
//! is and its hash, so that the same command with other input is another study.

use crate::plan::Plan;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a plan keeps of the standard input of a subject's runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFacts {
    /// The file; none when it came through a pipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of it, in hexadecimal digits; empty as long as it was not read.
    pub sha256: String,
}

impl InputFacts {
    /// Those of a file that is named, and not read yet.
    pub fn unread(file: PathBuf) -> Self {
        Self { file: Some(file), ..Self::default() }
    }
}

/// Why there is no input.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It can't be read.
    #[error("cannot read {name}: {cause}")]
    Read {
        /// The file, or `standard input`.
        name: String,
        /// The error of the system.
        cause: io::Error,
    },
    /// It is more than is kept.
    #[error(
        "{name} has more than {} MiB, and as much is kept at most to be given to every run; write it to a file, and name that \
         with --input",
        .most_bytes >> 20
    )]
    TooMuch {
        /// What it was to be read from.
        name: String,
        /// How much is kept.
        most_bytes: u64,
    },
    /// There is no room for it.
    #[error("cannot keep {name} in the folder for temporary files: {cause}")]
    Keep {
        /// What was read.
        name: String,
        /// The error of the system.
        cause: io::Error,
    },
}

/// The standard input of each subject's runs, in the plan's order; none is empty input.
pub type Inputs = Vec<Option<launch::Input>>;

/// Most that is kept of what isn't a regular file.
const MOST_BYTES: u64 = 1 << 30;

/// How long nothing may come before someone is told that we wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads the input of every subject that is a program of the user's: of the file that its facts name, of `all` where that is given, else
/// of standard input, unless that is a terminal. The plan then has the facts. `waits` is called when standard input doesn't come
/// or end.
///
/// # Errors
/// [`InputError`].
pub fn read(plan: &mut Plan, all: Option<&Path>, waits: &mut dyn FnMut()) -> Result<Inputs, InputError> {
    // Of those that name no file: read once, when the first asks.
    let mut shared: Option<Option<(InputFacts, launch::Input)>> = None;
    let mut inputs = Vec::new();
    for subject in &mut plan.subjects {
        if !subject.is_command() {
            inputs.push(None);
            continue;
        }
        let own = subject.input.as_ref().and_then(|input| input.file.as_deref());
        let read = match (all.or(own), &shared) {
            (None, Some(shared)) => shared.clone(),
            (None, None) => shared.insert(standard_input(waits)?).clone(),
            (Some(path), _) => {
                let name = path.display().to_string();
                let file = File::open(path).map_err(|cause| InputError::Read { name: name.clone(), cause })?;
                let read = taken(file, &name, MOST_BYTES, waits)?;
                read.map(|(facts, input)| (InputFacts { file: Some(path.into()), ..facts }, input))
            }
        };
        let (facts, input) = read.unzip();
        subject.input = facts;
        inputs.push(input);
    }
    Ok(inputs)
}

fn standard_input(waits: &mut dyn FnMut()) -> Result<Option<(InputFacts, launch::Input)>, InputError> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Ok(None);
    }
    let name = "standard input";
    let file = stdin.as_fd().try_clone_to_owned().map_err(|cause| InputError::Read { name: name.into(), cause })?;
    let read = taken(file.into(), name, MOST_BYTES, waits)?;
    Ok(read.map(|(facts, input)| (InputFacts { file: redirected(facts.bytes), ..facts }, input)))
}

/// The file that a shell redirected to our standard input, where all of it was read.
fn redirected(bytes: u64) -> Option<PathBuf> {
    let path = std::fs::read_link("/proc/self/fd/0").ok()?;
    let file = std::fs::metadata(&path).ok()?;
    (file.is_file() && file.len() == bytes).then(|| {
        let folder = std::env::current_dir().unwrap_or_default();
        path.strip_prefix(folder).map_or(path.clone(), Path::to_path_buf)
    })
}

/// What is left to read of `file`, for every run; none when that is nothing.
fn taken(
    mut file: File,
    name: &str,
    most_bytes: u64,
    waits: &mut dyn FnMut(),
) -> Result<Option<(InputFacts, launch::Input)>, InputError> {
    let cannot_read = |cause| InputError::Read { name: name.into(), cause };
    let is_regular = file.metadata().map_err(cannot_read)?.is_file();
    let (facts, file) = if is_regular && file.stream_position().map_err(cannot_read)? == 0 {
        // Taken before it is hashed, so that what is written meanwhile is noticed.
        let input = launch::Input::new(file.try_clone().map_err(cannot_read)?).map_err(cannot_read)?;
        return Ok(Some((hashed(&file).map_err(cannot_read)?, input)).filter(|(facts, _)| facts.bytes > 0));
    } else {
        kept(file, name, most_bytes, waits)?
    };
    let input = launch::Input::new(file).map_err(|cause| InputError::Keep { name: name.into(), cause })?;
    Ok(Some((facts, input)).filter(|(facts, _)| facts.bytes > 0))
}

/// The facts of a regular file, whose place isn't moved.
fn hashed(file: &File) -> io::Result<InputFacts> {
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match file.read_at(&mut buffer, bytes)? {
            0 => return Ok(InputFacts { file: None, bytes, sha256: hexadecimal(hash) }),
            length => {
                hash.update(&buffer[..length]);
                bytes += length as u64;
            }
        }
    }
}

const BUFFER_BYTES: usize = 1 << 16;

/// What comes out of `file`, in a file without a name, and its facts.
fn kept(
    mut file: File,
    name: &str,
    most_bytes: u64,
    waits: &mut dyn FnMut(),
) -> Result<(InputFacts, File), InputError> {
    let cannot_keep = |cause| InputError::Keep { name: name.into(), cause };
    let mut keep = tempfile::tempfile().map_err(cannot_keep)?;
    let (mut hash, mut bytes, mut has_told) = (Sha256::new(), 0, false);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let patience = if has_told { PollTimeout::NONE } else { PATIENCE.try_into().unwrap_or(PollTimeout::NONE) };
        // What can't be polled can be read, or says why not.
        if poll(&mut [PollFd::new(file.as_fd(), PollFlags::POLLIN)], patience) == Ok(0) {
            waits();
            has_told = true;
            continue;
        }
        let length = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => continue,
            Err(cause) => return Err(InputError::Read { name: name.into(), cause }),
        };
        bytes += length as u64;
        if bytes > most_bytes {
            return Err(InputError::TooMuch { name: name.into(), most_bytes });
        }
        hash.update(&buffer[..length]);
        keep.write_all(&buffer[..length]).map_err(cannot_keep)?;
    }
    Ok((InputFacts { file: None, bytes, sha256: hexadecimal(hash) }, keep))
}

fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_through_a_pipe_is_kept_up_to_a_bound_that_is_told() {
        let through_pipe = |bytes: &[u8], most_bytes: u64| {
            let (reader, mut writer) = io::pipe().unwrap();
            writer.write_all(bytes).unwrap();
            drop(writer);
            let file = File::from(std::os::fd::OwnedFd::from(reader));
            taken(file, "standard input", most_bytes, &mut || ())
        };
        let (facts, _) = through_pipe(b"abc", 3).unwrap().unwrap();
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(facts, InputFacts { file: None, bytes: 3, sha256: sha256.into() });
        assert!(through_pipe(b"", 3).unwrap().is_none());
        let error = through_pipe(&[b'x'; 5000], 4096).unwrap_err();
        assert!(matches!(error, InputError::TooMuch { most_bytes: 4096, .. }), "{error}");
        let told = InputError::TooMuch { name: "standard input".into(), most_bytes: MOST_BYTES }.to_string();
        assert!(told.starts_with("standard input has more than 1024 MiB, ") && told.contains("--input"), "{told}");
    }

    #[test]
    fn of_a_file_that_was_begun_the_rest_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.dat");
        std::fs::write(&path, "xabc").unwrap();
        let mut file = File::open(&path).unwrap();
        let whole = taken(file.try_clone().unwrap(), "in.dat", 9, &mut || ()).unwrap().unwrap().0;
        assert_eq!(whole.bytes, 4);
        file.read_exact(&mut [0]).unwrap();
        let rest = taken(file, "in.dat", 9, &mut || ()).unwrap().unwrap().0;
        assert!(rest.bytes == 3 && rest.sha256.starts_with("ba7816bf"), "{rest:?}");
    }

    #[test]
    fn someone_is_told_when_nothing_comes() {
        let (reader, writer) = io::pipe().unwrap();
        let mut writer = Some(writer);
        let mut told = 0;
        let mut waits = || {
            told += 1;
            drop(writer.take());
        };
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        assert!(taken(file, "standard input", 9, &mut waits).unwrap().is_none());
        assert_eq!(told, 1);
    }
}
