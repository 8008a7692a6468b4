//! The journal: one SQLite file a study, readable from anything that reads SQLite.
//!
//! Tables of every study: `study` (one row: kind, plan, machine, host, ending) and `session` (one row a stretch of work). Studies
//! that run programs have `trial` (one row as each trial ends) and `thread` (one row a thread of a trial, intended and actual
//! CPUs), and `disturbed` (the same as JSON of what was run again); those that simulate or replay have `sample`, `metric` (what is measured, once), `measurement` and `histogram`.
//! Structures that no query would look into are JSON text.
//!
//! A trial with all that belongs to it is one transaction in write-ahead mode, so that a process killed at any moment loses at
//! most the trial that was running, and a machine that loses power loses the last trials but not the file. The write-ahead file is
//! folded into the journal every second, and when the work on it ends, by an interruption too; see `reading.rs` for what else may be.
//! `application_id` marks the file as ours, `user_version` is the schema's version.

mod aside;
mod error;
mod execution;
mod glance;
mod guard;
mod older;
mod reading;
mod sample;

pub use aside::set_aside;
pub use error::JournalError;
pub use glance::{Glance, State, glance};
pub use reading::{is_at_work, may_lack_last_runs};

use crate::host::{HostFacts, HostState, PastSession};
use crate::kind::Kind;
use crate::record::{Ending, Record};
use crate::row::{Columns, Detail, Row, RowError, Tables, add_missing_columns, insert, to_json};
use guard::Guarded;
use nix::fcntl::Flock;
use reading::{ONE_FILE, lock_for_writing, read_with};
use rusqlite::{Connection, OpenFlags};
use std::fmt::Display;
use std::fs::File;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// "STPY" in ASCII.
const APPLICATION_ID: i32 = 0x5354_5059;

/// Version of the schema; raised with every change that an older Stayput could not read. Version 2 brought races, cells without a
/// placement, models, trials that were cut off, and simulations among the trials of programs. Version 3 names the kind of study, and
/// has tables of its own for samples.
pub const SCHEMA_VERSION: i32 = 3;

/// The tables of every study.
const SCHEMA: &str = "
CREATE TABLE study (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    kind TEXT NOT NULL,
    plan TEXT NOT NULL,
    machine TEXT NOT NULL,
    host TEXT NOT NULL,
    ending TEXT
) STRICT;
CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    command_line TEXT NOT NULL,
    before TEXT NOT NULL,
    after TEXT
) STRICT;
";

/// How a journal is written while a study is at work: see the head of this file.
const WRITING: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;";

/// Trials are copied from the write-ahead file into the journal itself so often, so that a copy of that file alone lacks little.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

/// An open journal of one kind of study, held against other writers for as long as it lives.
#[derive(Debug)]
pub struct Journal<K: Kind> {
    // Declared before the lock, so dropped first: the file is closed while it is still ours.
    connection: Guarded,
    path: PathBuf,
    _lock: Flock<File>,
    /// Whether it still has the schema of an earlier version.
    is_older: bool,
    /// When the journal itself last had all trials.
    checkpoint: Instant,
    kind: PhantomData<K>,
}

impl<K: Kind> Journal<K> {
    /// Opens the journal at `path` for writing, making the file when there is none. Whether it already holds a study
    /// is what [`Journal::record`] says. Nothing is written yet, so that a journal which turns out to be of another study stays
    /// as it is: one of an older version becomes one of this version when a [session](Self::begin_session) begins.
    ///
    /// # Errors
    /// Any [`JournalError`].
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let lock = lock_for_writing(path)?;
        let connection = Guarded::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .map_err(|error| JournalError::writing(path, &error))?;
        connection.pragma_update(None, "foreign_keys", true).map_err(|error| JournalError::writing(path, &error))?;
        let reader = Reader::new(&connection, path)?;
        reader.iter().try_for_each(Reader::check_kind::<K>)?;
        let is_older = reader.is_some_and(|reader| reader.is_older());
        Ok(Self { connection, path: path.into(), _lock: lock, is_older, checkpoint: Instant::now(), kind: PhantomData })
    }

    /// Reads the whole study at `path`, but for the output of runs that went well; also while a study is at work on it, and where nothing
    /// may be written. The file is changed only to finish or undo what a writer that was killed left.
    ///
    /// # Errors
    /// Any [`JournalError`].
    pub fn read(path: &Path) -> Result<Record<K>, JournalError> {
        read_with(path, |reader| reader.record(Detail::Told))
    }

    /// Everything in this journal, but for the output of runs that went well; none when it is new.
    ///
    /// # Errors
    /// Any [`JournalError`] of reading.
    pub fn record(&self) -> Result<Option<Record<K>>, JournalError> {
        self.record_with(Detail::Told)
    }

    /// What a study that goes on decides by; none when it is new.
    ///
    /// # Errors
    /// Any [`JournalError`] of reading.
    pub(crate) fn record_to_go_on(&self) -> Result<Option<Record<K>>, JournalError> {
        self.record_with(Detail::Deciding)
    }

    fn record_with(&self, detail: Detail) -> Result<Option<Record<K>>, JournalError> {
        Reader::new(&self.connection, &self.path)?.map(|reader| reader.record(detail)).transpose()
    }

    /// Writes plan and machine into a new journal.
    ///
    /// # Errors
    /// Any [`JournalError`] of writing.
    pub fn begin_study(&mut self, plan: &K, machine: &serde_json::Value, host: &HostFacts) -> Result<(), JournalError> {
        // Not yet ahead: whoever copies the file alone finds a study in it.
        self.write(|connection| {
            let transaction = connection.transaction()?;
            begin(&transaction, plan, machine, host)?;
            transaction.commit()
        })
    }

    /// Writes the start of a stretch of work; gives its id for [`Journal::end_session`]. A journal of an older version is first
    /// written anew as one of this version.
    ///
    /// # Errors
    /// Any [`JournalError`].
    pub fn begin_session(&mut self, command_line: &[String], before: &HostState) -> Result<i64, JournalError> {
        if self.is_older
            && let Some(record) = self.record_with(Detail::Everything)?
        {
            self.write(|connection| older::upgrade(connection, &record))?;
            self.is_older = false;
        }
        self.write(|connection| {
            add_missing_columns(connection, K::Trial::ADDED_COLUMNS)?;
            connection.execute_batch(K::Trial::ADDED_TABLES)?;
            insert_session(connection, command_line, before, None)?;
            let id = connection.last_insert_rowid();
            connection.execute_batch(WRITING)?;
            Ok(id)
        })
    }

    /// Writes the end of a stretch of work.
    ///
    /// # Errors
    /// Any [`JournalError`] of writing.
    pub fn end_session(&mut self, session: i64, after: &HostState) -> Result<(), JournalError> {
        self.write(|connection| {
            connection.execute("UPDATE session SET after = ?2 WHERE id = ?1", (session, to_json(after))).map(drop)
        })
    }

    /// Writes a trial that has just ended.
    ///
    /// # Errors
    /// Any [`JournalError`] of writing.
    pub fn add(&mut self, trial: &K::Trial) -> Result<(), JournalError> {
        self.write(|connection| {
            let transaction = connection.transaction()?;
            trial.insert(&transaction)?;
            transaction.commit()
        })?;
        if self.checkpoint.elapsed() >= CHECKPOINT_EVERY {
            // As far as readers let it; that it can't be done now is no failure, since nothing is lost.
            let _ = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            self.checkpoint = Instant::now();
        }
        Ok(())
    }

    /// Writes the trials of a whole block, and those that were `disturbed` in it: all of them, or none.
    ///
    /// # Errors
    /// Any [`JournalError`] of writing.
    pub fn add_block(&mut self, trials: &[K::Trial], disturbed: &[K::Trial]) -> Result<(), JournalError> {
        self.write(|connection| {
            let transaction = connection.transaction()?;
            trials.iter().try_for_each(|trial| trial.insert(&transaction))?;
            disturbed.iter().try_for_each(|trial| trial.insert_disturbed(&transaction))?;
            transaction.commit()
        })
    }

    /// Writes a trial that was disturbed.
    ///
    /// # Errors
    /// Any [`JournalError`] of writing.
    pub fn add_disturbed(&mut self, trial: &K::Trial) -> Result<(), JournalError> {
        self.write(|connection| trial.insert_disturbed(connection))
    }

    /// Writes why the study ended; none reopens it.
    ///
    /// # Errors
    /// Any [`JournalError`] of writing.
    pub fn set_ending(&mut self, ending: Option<Ending>) -> Result<(), JournalError> {
        self.write(|connection| write_ending(connection, ending))
    }

    /// Writes the plan by which the study goes on; it has no end then.
    ///
    /// # Errors
    /// Any [`JournalError`] of writing.
    pub fn set_plan(&mut self, plan: &K) -> Result<(), JournalError> {
        let plan = to_json(plan);
        self.write(|connection| connection.execute("UPDATE study SET plan = ?1, ending = NULL", [plan]).map(drop))
    }

    /// Folds the write-ahead file back, so that the study is one plain file again. Where somebody reads it at this moment, the next
    /// reader does that.
    ///
    /// # Errors
    /// Any [`JournalError`] of writing.
    pub fn close(mut self) -> Result<(), JournalError> {
        self.fold()
    }

    fn fold(&mut self) -> Result<(), JournalError> {
        match self.write(|connection| connection.execute_batch(ONE_FILE)) {
            Err(JournalError::Busy(_)) => Ok(()),
            folded => folded,
        }
    }

    fn write<T>(&mut self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, JournalError> {
        self.connection.refill();
        work(&mut self.connection).map_err(|error| JournalError::writing(&self.path, &error))
    }
}

impl<K: Kind> Drop for Journal<K> {
    /// However the work on it ended, what is left is one file.
    fn drop(&mut self) {
        let _ = self.fold();
    }
}

/// The kind of the study in the journal at `path`, by the name that [`Kind::NAME`] gives it.
///
/// # Errors
/// Any [`JournalError`].
pub fn kind(path: &Path) -> Result<String, JournalError> {
    read_with(path, |reader| reader.kind())
}

/// Writes the tables of a study, and its only row but for the ending.
fn begin<K: Kind>(
    connection: &Connection,
    plan: &K,
    machine: &serde_json::Value,
    host: &HostFacts,
) -> rusqlite::Result<()> {
    connection.execute_batch(SCHEMA)?;
    connection.execute_batch(K::Trial::TABLES)?;
    connection
        .execute_batch(&format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"))?;
    insert(
        connection,
        "study",
        &[
            ("id", &1),
            ("kind", &K::NAME),
            ("plan", &to_json(plan)),
            ("machine", &to_json(machine)),
            ("host", &to_json(host)),
        ],
    )
}

fn insert_session(
    connection: &Connection,
    command_line: &[String],
    before: &HostState,
    after: Option<&HostState>,
) -> rusqlite::Result<()> {
    insert(
        connection,
        "session",
        &[("command_line", &to_json(command_line)), ("before", &to_json(before)), ("after", &after.map(to_json))],
    )
}

fn write_ending(connection: &Connection, ending: Option<Ending>) -> rusqlite::Result<()> {
    connection.execute("UPDATE study SET ending = ?1", [ending.map(|ending| to_json(&ending))]).map(drop)
}

/// Reads a journal whose schema is known.
struct Reader<'a> {
    tables: Tables<'a>,
    path: &'a Path,
    /// The schema's version.
    version: i32,
}

impl<'a> Reader<'a> {
    /// A reader of the journal; none while it is empty.
    fn new(connection: &'a Guarded, path: &'a Path) -> Result<Option<Self>, JournalError> {
        let read_error = |error| JournalError::reading(path, error);
        let is_empty = connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0));
        if is_empty.map_err(read_error)? {
            return Ok(None);
        }
        let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0)).map_err(read_error);
        if pragma("application_id")? != APPLICATION_ID {
            return Err(JournalError::Foreign(path.into()));
        }
        let damaged = |what: String| JournalError::Damaged { path: path.into(), what };
        let version = match pragma("user_version")? {
            found if found > SCHEMA_VERSION => return Err(JournalError::Newer { path: path.into(), found }),
            found @ 1..=SCHEMA_VERSION => found,
            found => return Err(damaged(format!("schema version {found}"))),
        };
        connection.check_schema().map_err(|error| JournalError::reading(path, error))?;
        connection.refill();
        let health: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(read_error)?;
        if health == "ok" {
            Ok(Some(Self { tables: Tables::new(connection), path, version }))
        } else {
            Err(damaged(health))
        }
    }

    fn is_older(&self) -> bool {
        self.version < SCHEMA_VERSION
    }

    /// What `read` finds in the only row of the table `study`.
    fn study<T>(&self, read: impl Fn(&Columns) -> Result<T, RowError>) -> Result<T, RowError> {
        let found = self.tables.rows("SELECT * FROM study", read)?.pop();
        found.ok_or_else(|| RowError::Damaged("table study has no row".into()))
    }

    /// The kind of the study.
    fn kind(&self) -> Result<String, JournalError> {
        let is_older = self.is_older();
        let kind =
            self.study(
                |row| {
                    if is_older { Ok(older::kind_of_plan(&row.json("plan")?).to_owned()) } else { row.get("kind") }
                },
            );
        kind.map_err(|error| JournalError::reading(self.path, error))
    }

    fn check_kind<K: Kind>(&self) -> Result<(), JournalError> {
        let found = self.kind()?;
        if found == K::NAME {
            return Ok(());
        }
        Err(JournalError::OtherKind { path: self.path.into(), found, asked: K::NAME })
    }

    /// The whole study.
    fn record<K: Kind>(&self, detail: Detail) -> Result<Record<K>, JournalError> {
        self.check_kind::<K>()?;
        self.rows_of_all_tables(detail).map_err(|error| JournalError::reading(self.path, error))
    }

    fn rows_of_all_tables<K: Kind>(&self, detail: Detail) -> Result<Record<K>, RowError> {
        let tables = &self.tables;
        let session = |row: &Columns| {
            Ok(PastSession {
                command_line: row.json("command_line")?,
                before: row.json("before")?,
                after: row.optional_json("after")?,
            })
        };
        self.study(|row| {
            Ok(Record {
                plan: self.plan(row)?,
                machine: row.json("machine")?,
                host: row.json("host")?,
                sessions: tables.rows("SELECT * FROM session ORDER BY id", session)?,
                trials: if self.is_older() {
                    K::Trial::read_older(tables, detail)?
                } else {
                    K::Trial::read_all(tables, detail)?
                },
                disturbed: K::Trial::read_disturbed(tables)?,
                ending: row.optional_json("ending")?,
            })
        })
    }

    /// A plan that can be carried out, so that nobody who reads a journal need ask again.
    fn plan<K: Kind>(&self, row: &Columns) -> Result<K, RowError> {
        let damaged = |error: &dyn Display| RowError::Damaged(format!("plan: {error}"));
        let plan = if self.is_older() {
            K::from_older(row.json("plan")?).map_err(|error| damaged(&error))?
        } else {
            row.json::<K>("plan")?
        };
        plan.check().map_err(|error| damaged(&error))?;
        Ok(plan)
    }
}
