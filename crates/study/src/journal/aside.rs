//! Setting a journal aside, so that its name is free for a new study.

use super::guard::Guarded;
use super::reading::{ONE_FILE, WRITTEN, beside, lock_for_writing};
use super::{JournalError, Reader};
use rusqlite::OpenFlags;
use std::fs;
use std::path::{Path, PathBuf};

/// Renames the journal at `path` to `NAME.old-1.stayput`, or the next number that is free; gives that name. None where there is no
/// study to be kept. A damaged journal is set aside as well.
///
/// # Errors
/// [`JournalError`]: it is no journal, some Stayput works on it, or it can't be renamed.
pub fn set_aside(path: &Path) -> Result<Option<PathBuf>, JournalError> {
    if !path.exists() {
        return Ok(None);
    }
    let _lock = lock_for_writing(path)?;
    let connection = Guarded::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .map_err(|error| JournalError::writing(path, &error))?;
    match Reader::new(&connection, path) {
        Ok(None) => return Ok(None),
        Err(error @ (JournalError::Foreign(_) | JournalError::Busy(_))) => return Err(error),
        // What was written ahead belongs to it; what can't be folded in is renamed with it.
        _ => drop(connection.execute_batch(ONE_FILE)),
    }
    drop(connection);
    let free = (1..).map(|number| path.with_extension(format!("old-{number}.stayput"))).find(|name| !name.exists());
    let aside = free.expect("there are more numbers than files");
    for what in WRITTEN {
        let from = beside(path, what);
        if from.exists() {
            let renamed = fs::rename(&from, beside(&aside, what));
            renamed.map_err(|cause| JournalError::Open { path: from, cause })?;
        }
    }
    Ok(Some(aside))
}
