//! What captured programs read from their standard input: one file, from its start for each of them.

use std::fs::{File, Metadata};
use std::io::{self, Seek};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// A file that every launch reads from its start, whatever earlier ones have read, and whatever its name stands for by then.
#[derive(Clone, Debug)]
pub struct Input {
    file: Arc<File>,
    state: State,
}

/// By what one tells that a file was written.
type State = (u64, i64, i64);

fn state(file: &Metadata) -> State {
    (file.len(), file.mtime(), file.mtime_nsec())
}

impl Input {
    /// Takes a regular file, with what it holds now; it may have no name any more.
    ///
    /// # Errors
    /// When the system tells nothing of the file.
    pub fn new(file: File) -> io::Result<Self> {
        let state = state(&file.metadata()?);
        Ok(Self { file: file.into(), state })
    }

    /// Writes what it holds to the file at `path`, for somebody who can't be given an open file.
    ///
    /// # Errors
    /// When it was written since; and the system's.
    pub fn copy_to(&self, path: &Path) -> io::Result<()> {
        io::copy(&mut self.open()?, &mut File::create(path)?).map(drop)
    }

    /// Where this process has it open.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The file once more, at its start.
    ///
    /// # Errors
    /// When it was written since, so that this program would read something else than the one before; and the system's.
    pub(crate) fn open(&self) -> io::Result<File> {
        if state(&self.file.metadata()?) != self.state {
            return Err(io::Error::other("the file was written while programs were given it"));
        }
        // A place of its own, so that nobody else's reading moves it.
        if let Ok(file) = File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd())) {
            return Ok(file);
        }
        // No /proc, or a file that we were handed and may not open: launches come one after the other, and can share a place.
        let mut file = self.file.try_clone()?;
        file.rewind()?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn everyone_reads_from_the_start_and_a_file_that_was_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.dat");
        std::fs::write(&path, "1 2 3\n").unwrap();
        let mut opened = File::options().read(true).write(true).open(&path).unwrap();
        opened.read_exact(&mut [0; 2]).unwrap();
        let input = Input::new(opened.try_clone().unwrap()).unwrap();
        // Renamed over: the program that comes next reads what the first has read.
        std::fs::write(folder.path().join("other"), "4").unwrap();
        std::fs::rename(folder.path().join("other"), &path).unwrap();
        let mut both = [input.open().unwrap(), input.clone().open().unwrap()];
        for file in &mut both {
            assert_eq!(io::read_to_string(file).unwrap(), "1 2 3\n");
        }
        opened.write_all(b"more than there was").unwrap();
        assert!(input.open().unwrap_err().to_string().contains("was written"));
    }
}
