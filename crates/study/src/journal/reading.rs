//! Opening a journal to read it, whoever may write it and whatever its writer left behind.
//!
//! While a study is at work, its last runs are in the file `-wal` beside the journal. A writer that ends folds them back into the
//! one file. One that is killed can't, so the next reader does, if it may write. A reader that may not reads both files.

use super::guard::{Guarded, check_file, open, open_to_read};
use super::{JournalError, Reader};
use nix::fcntl::{Flock, FlockArg};
use rusqlite::OpenFlags;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What becomes of the write-ahead file when the journal is made one plain file again.
pub(super) const ONE_FILE: &str = "PRAGMA journal_mode = DELETE";

/// What `read` finds in the journal at `path`.
pub(super) fn read_with<T>(path: &Path, read: impl Fn(&Reader) -> Result<T, JournalError>) -> Result<T, JournalError> {
    let file = open_to_read(path)?;
    check_beside(path)?;
    fold_what_a_dead_writer_left(path, &file);
    let read_at = |file: &Path, flags: OpenFlags| {
        let connection = Guarded::connect(file, flags).map_err(|error| JournalError::reading(path, error))?;
        let reader = Reader::new(&connection, path)?.ok_or_else(|| JournalError::Empty(path.into()))?;
        read(&reader)
    };
    let read_copy = || {
        let copy = Copy::of(path).map_err(|cause| JournalError::Copy { path: path.into(), cause })?;
        read_at(&copy.journal, OpenFlags::SQLITE_OPEN_READ_WRITE)
    };
    if may_lack_last_runs(path) {
        // SQLite would make the file that isn't there, and leave it behind.
        return read_copy();
    }
    let mut found = read_at(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    if let Err(JournalError::Write { .. }) = found {
        // Killed in the middle of a write: SQLite has to recover the file before anyone can read it.
        found = read_at(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
    }
    if let Err(JournalError::Write { .. }) = found {
        // SQLite needs files of its own beside the journal, and may not make them there.
        found = read_copy();
    }
    found
}

/// Folds the write-ahead file back where nobody writes any more. It only spares others what a reader can do without: a failure is none.
fn fold_what_a_dead_writer_left(path: &Path, file: &File) {
    if !has_log(path) {
        return;
    }
    let Some(_lock) = file.try_clone().ok().and_then(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock).ok())
    else {
        return;
    };
    if let Ok(connection) = Guarded::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        && let Ok(Some(_)) = Reader::new(&connection, path)
    {
        let _ = connection.execute_batch(ONE_FILE);
    }
}

/// Whether the journal at `path` was copied without the write-ahead file that its study had beside it: the copy may lack the
/// last runs.
pub fn may_lack_last_runs(path: &Path) -> bool {
    // The bytes say by which means the file is written: 2 is with a write-ahead file.
    const WRITE_VERSION: usize = 18;
    let mut header = [0; WRITE_VERSION + 1];
    let read = open_to_read(path).is_ok_and(|mut file| file.read_exact(&mut header).is_ok());
    read && header[WRITE_VERSION] == 2 && !has_log(path) && !is_at_work(path)
}

/// Whether there is anything in the write-ahead file of the journal at `path`.
fn has_log(path: &Path) -> bool {
    fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0)
}

/// Checks the files that SQLite would open beside the journal at `path`.
fn check_beside(path: &Path) -> Result<(), JournalError> {
    for what in ["-wal", "-journal", "-shm"] {
        let file = beside(path, what);
        if let Ok(metadata) = fs::metadata(&file) {
            check_file(&file, &metadata)?;
        }
    }
    Ok(())
}

/// Whether some Stayput works on the journal at `path` at this moment.
pub fn is_at_work(path: &Path) -> bool {
    open_to_read(path).is_ok_and(|file| Flock::lock(file, FlockArg::LockSharedNonblock).is_err())
}

/// The file that SQLite keeps beside the journal for `what`.
pub(super) fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(what);
    name.into()
}

/// A copy of a journal, with what its writer left beside it, in a folder of its own.
struct Copy {
    journal: PathBuf,
    _folder: tempfile::TempDir,
}

impl Copy {
    fn of(path: &Path) -> io::Result<Self> {
        const ATTEMPTS: usize = 5;
        let folder = tempfile::tempdir()?;
        let journal = folder.path().join("copy.stayput");
        for _ in 0..ATTEMPTS {
            let before = states(path);
            for what in WRITTEN {
                let (from, to) = (beside(path, what), beside(&journal, what));
                match File::open(from) {
                    Ok(mut from) => drop(io::copy(&mut from, &mut File::create(to)?)?),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => drop(fs::remove_file(to)),
                    Err(error) => return Err(error),
                }
            }
            // A writer between the files would have torn the copy.
            if states(path) == before {
                return Ok(Self { journal, _folder: folder });
            }
        }
        Err(io::Error::other("it is written faster than it can be copied; try again when its study is over"))
    }
}

/// What a journal may consist of, by what is appended to its name.
pub(super) const WRITTEN: [&str; 3] = ["", "-wal", "-journal"];

/// When each file of the journal was last written, and how long it is.
fn states(path: &Path) -> [Option<(SystemTime, u64)>; WRITTEN.len()] {
    WRITTEN.map(|what| {
        let file = fs::metadata(beside(path, what)).ok()?;
        Some((file.modified().ok()?, file.len()))
    })
}

/// Who may use a new journal: its owner. SQLite gives the files beside it the same mode.
const OWNER_ONLY: u32 = 0o600;

/// Opens the journal at `path` for a writer, making the file when there is none, and keeps other writers out.
pub(super) fn lock_for_writing(path: &Path) -> Result<Flock<File>, JournalError> {
    // A reader may be folding what a dead writer left, which takes no longer.
    const ATTEMPTS: u32 = 10;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(30);
    let io_error = |cause| JournalError::Open { path: path.into(), cause };
    let mut file = open(path, OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(OWNER_ONLY))?;
    check_beside(path)?;
    for attempt in 1.. {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((file, nix::errno::Errno::EAGAIN)) if attempt < ATTEMPTS => file,
            Err((_, nix::errno::Errno::EAGAIN)) => break,
            Err((_, other)) => return Err(io_error(other.into())),
        };
        std::thread::sleep(PAUSE);
    }
    Err(JournalError::Busy(path.into()))
}
