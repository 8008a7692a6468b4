//! A journal is somebody's file, and SQLite files can hold programs: views and triggers that never end, values that fill the memory.
//!
//! So a journal is opened here and nowhere else. It has to be a regular file and not too long. SQLite may run nothing that the file
//! brings with it, holds no value that is too large, and stops after a number of steps. Before anything is read of the tables,
//! the schema has to be one that a Stayput wrote. How much may be taken into memory is counted in `row.rs`.

use super::{JournalError, SCHEMA};
use crate::row::{Row, RowError};
use crate::sample::Sample;
use crate::trial::Trial;
use nix::fcntl::OFlag;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// No study's journal is larger, in bytes.
pub(super) const MOST_FILE_BYTES: u64 = 1 << 30;

/// No text in a journal is longer, in bytes. The longest are plans and machines: one of 8,192 CPUs in 32,000 objects takes 1.2 MB.
pub(super) const MOST_TEXT_BYTES: u32 = 8 << 20;

/// Steps of SQLite's virtual machine until the schema is known, which takes some hundred.
const STEPS_TO_SCHEMA: u64 = 100_000;

/// Steps for all else that is done at once. What fits into memory is read with a fifth of them.
const STEPS: u64 = 500_000_000;

/// The handler that counts steps is called so often.
const STEPS_OF_A_CALL: u32 = 1000;

/// Words of schemas that no longer are in ours: columns of trials until version 2.
const OLDER_WORDS: [&str; 2] = ["metrics", "histograms"];

/// The tables that a journal may have.
const TABLES: [&str; 9] =
    ["study", "session", "trial", "thread", "disturbed", "sample", "metric", "measurement", "histogram"];

/// The only index that isn't part of a table.
const INDEX: &str = "CREATE INDEX thread_by_trial ON thread (sequence)";

/// Opens a journal or a file beside it, which has to be a regular one: others may never end, or be waited for.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> Result<File, JournalError> {
    let failed = |cause| JournalError::Open { path: path.into(), cause };
    if let Ok(metadata) = fs::metadata(path) {
        check_file(path, &metadata)?;
    }
    // Without waiting, should it have become a FIFO in the meantime.
    let file = options.custom_flags(OFlag::O_NONBLOCK.bits()).open(path).map_err(failed)?;
    check_file(path, &file.metadata().map_err(failed)?)?;
    Ok(file)
}

/// The same for reading alone.
pub(super) fn open_to_read(path: &Path) -> Result<File, JournalError> {
    open(path, OpenOptions::new().read(true))
}

/// Checks what kind of file it is, and how long.
pub(super) fn check_file(path: &Path, metadata: &fs::Metadata) -> Result<(), JournalError> {
    let kind = metadata.file_type();
    if kind.is_file() {
        let most = MOST_FILE_BYTES >> 20;
        return if metadata.len() <= MOST_FILE_BYTES {
            Ok(())
        } else {
            Err(JournalError::TooLarge { path: path.into(), what: format!("the file has more than {most} MiB") })
        };
    }
    let what = match () {
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(JournalError::NoFile { path: path.into(), what })
}

/// A connection to a journal, and how many steps are left for what is done now.
#[derive(Debug)]
pub(super) struct Guarded {
    connection: Connection,
    steps_left: Arc<AtomicU64>,
}

impl Deref for Guarded {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Guarded {
    /// Connects to the journal in `file`, which is at `path` for the user.
    pub(super) fn connect(file: &Path, flags: OpenFlags) -> rusqlite::Result<Self> {
        // One thread at a time has it, as Rust sees to.
        let mut connection = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        for (what, is_on) in [
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        ] {
            connection.set_db_config(what, is_on)?;
        }
        for (limit, most) in [
            (Limit::SQLITE_LIMIT_LENGTH, MOST_TEXT_BYTES as i32),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, 64 << 10),
            (Limit::SQLITE_LIMIT_COLUMN, 64),
            (Limit::SQLITE_LIMIT_EXPR_DEPTH, 64),
            (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 8),
            (Limit::SQLITE_LIMIT_VDBE_OP, 100_000),
            (Limit::SQLITE_LIMIT_FUNCTION_ARG, 8),
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
            (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 64),
            (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
            (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        ] {
            connection.set_limit(limit, most)?;
        }
        // The size of the cache may stand in the file; a damaged page must not be taken for a whole one.
        connection.execute_batch("PRAGMA cache_size = -2000; PRAGMA mmap_size = 0; PRAGMA cell_size_check = ON;")?;
        let steps_left = Arc::new(AtomicU64::new(STEPS_TO_SCHEMA));
        let left = Arc::clone(&steps_left);
        let is_over = move || {
            let taken = left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(STEPS_OF_A_CALL.into()));
            taken.is_err()
        };
        connection.progress_handler(STEPS_OF_A_CALL as i32, Some(is_over))?;
        Ok(Self { connection, steps_left })
    }

    /// Allows all steps anew.
    pub(super) fn refill(&self) {
        self.steps_left.store(STEPS, Ordering::Relaxed);
    }

    /// Checks that the schema has the tables of a journal and nothing else, each without a word that isn't in ours: no view, trigger,
    /// virtual table, computed column, default, or check of its own.
    pub(super) fn check_schema(&self) -> Result<(), RowError> {
        let sources = [SCHEMA, Trial::TABLES, Trial::ADDED_TABLES, Sample::TABLES];
        let added = Trial::ADDED_COLUMNS.iter().chain(Sample::ADDED_COLUMNS).map(|(_, definition)| *definition);
        let known: HashSet<&str> = sources.into_iter().chain(added).flat_map(words).chain(OLDER_WORDS).collect();
        let mut statement = self.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let [kind, name, table]: [String; 3] = [row.get(0)?, row.get(1)?, row.get(2)?];
            let sql: Option<String> = row.get(3)?;
            let is_ours = match (kind.as_str(), sql.as_deref()) {
                ("table", Some(sql)) => TABLES.contains(&name.as_str()) && is_plain_table(sql, &name, &known),
                ("index", None) => name.starts_with("sqlite_autoindex_"),
                ("index", Some(sql)) => sql.split_whitespace().eq(INDEX.split_whitespace()),
                _ => false,
            };
            if !(is_ours && TABLES.contains(&table.as_str())) {
                let name: String = name.chars().take(60).collect();
                return Err(RowError::Damaged(format!("it has {} `{name}` that no stayput writes", word(&kind))));
            }
        }
        Ok(())
    }
}

/// A kind of object in a schema; whatever else stands there is none.
fn word(kind: &str) -> &'static str {
    match kind {
        "table" => "a table",
        "index" => "an index",
        "view" => "a view",
        "trigger" => "a trigger",
        _ => "an object",
    }
}

/// Whether `sql` makes the table `name` of known words, parentheses and commas.
fn is_plain_table(sql: &str, name: &str, known: &HashSet<&str>) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || c.is_ascii_whitespace() || "_(),".contains(c);
    let sql = sql.replacen("CHECK (id = 1)", "", 1);
    let mut begin = words(&sql);
    begin.next() == Some("CREATE")
        && begin.next() == Some("TABLE")
        && begin.next() == Some(name)
        && sql.chars().all(is_known)
        && words(&sql).all(|word| word != "CHECK" && known.contains(word))
}

/// The words of SQL.
fn words(sql: &str) -> impl Iterator<Item = &str> {
    sql.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}
