//! The journal: one SQLite file a study, readable from anything that reads SQLite.
//!
//! Tables of every study: `study` (one row: kind, plan, machine, host, ending) and `session` (one row a stretch of work). Studies
//! that run programs have `trial` (one row as each trial ends) and `thread` (one row a thread of a trial, intended and actual
//! CPUs); those that simulate or replay have `sample`, `metric` (what is measured, once), `measurement` and `histogram`.
//! Structures that no query would look into are JSON text.
//!
//! A trial with all that belongs to it is one transaction in write-ahead mode, so that a process killed at any moment loses at
//! most the trial that was running, and a machine that loses power loses the last trials but not the file.
//! `application_id` marks the file as ours, `user_version` is the schema's version.

mod execution;
mod older;
mod sample;

use crate::host::{HostFacts, HostState, PastSession};
use crate::kind::Kind;
use crate::record::{Ending, Record};
use crate::row::{APPLICATION_ID, Reader, Row, read_error, to_json, write_error};
pub use crate::row::{JournalError, SCHEMA_VERSION};
use nix::fcntl::{Flock, FlockArg};
use rusqlite::{Connection, OpenFlags, params};
use std::fs::{File, OpenOptions};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

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
const WRITING: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;";

/// An open journal of one kind of study, held against other writers for as long as it lives.
#[derive(Debug)]
pub struct Journal<K: Kind> {
    // Declared before the lock, so dropped first: the file is closed while it is still ours.
    connection: Connection,
    path: PathBuf,
    _lock: Flock<File>,
    /// Whether it still has the schema of an earlier version.
    is_older: bool,
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
        let io_error = |cause| JournalError::Open { path: path.into(), cause };
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(io_error)?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            nix::errno::Errno::EAGAIN => JournalError::Busy { path: path.into() },
            other => io_error(other.into()),
        })?;
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .map_err(|error| write_error(path, error))?;
        let reader = Reader::new(&connection, path)?;
        reader.iter().try_for_each(Reader::check_kind::<K>)?;
        let is_older = reader.is_some_and(|reader| reader.is_older());
        Ok(Self { connection, path: path.into(), _lock: lock, is_older, kind: PhantomData })
    }

    /// Reads the whole study at `path`; also while a study is at work on it. The file is changed only to finish or undo
    /// a write that was cut off.
    ///
    /// # Errors
    /// Any [`JournalError`].
    pub fn read(path: &Path) -> Result<Record<K>, JournalError> {
        read_with(path, |reader| reader.record())
    }

    /// Everything in this journal; none when it is new.
    ///
    /// # Errors
    /// Any [`JournalError`] of reading.
    pub fn record(&self) -> Result<Option<Record<K>>, JournalError> {
        Reader::new(&self.connection, &self.path)?.map(|reader| reader.record()).transpose()
    }

    /// Writes plan and machine into a new journal.
    ///
    /// # Errors
    /// Any [`JournalError`] of writing.
    pub fn begin_study(&mut self, plan: &K, machine: &serde_json::Value, host: &HostFacts) -> Result<(), JournalError> {
        self.write(|connection| {
            connection.execute_batch(WRITING)?;
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
            && let Some(record) = self.record()?
        {
            self.write(|connection| older::upgrade(connection, &record))?;
            self.is_older = false;
        }
        self.write(|connection| {
            connection.execute_batch(WRITING)?;
            connection.execute(
                "INSERT INTO session (command_line, before) VALUES (?1, ?2)",
                params![to_json(&command_line), to_json(before)],
            )?;
            Ok(connection.last_insert_rowid())
        })
    }

    /// Writes the end of a stretch of work.
    ///
    /// # Errors
    /// Any [`JournalError`] of writing.
    pub fn end_session(&mut self, session: i64, after: &HostState) -> Result<(), JournalError> {
        self.write(|connection| {
            connection.execute("UPDATE session SET after = ?2 WHERE id = ?1", params![session, to_json(after)])?;
            Ok(())
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
        })
    }

    /// Writes why the study ended; none reopens it.
    ///
    /// # Errors
    /// Any [`JournalError`] of writing.
    pub fn set_ending(&mut self, ending: Option<Ending>) -> Result<(), JournalError> {
        self.write(|connection| {
            connection.execute("UPDATE study SET ending = ?1", [ending.map(|ending| to_json(&ending))])?;
            Ok(())
        })
    }

    /// Folds the write-ahead file back, so that the study is one plain file again.
    ///
    /// # Errors
    /// Any [`JournalError`] of writing.
    pub fn close(mut self) -> Result<(), JournalError> {
        self.write(|connection| connection.execute_batch("PRAGMA journal_mode = DELETE"))
    }

    fn write<T>(&mut self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, JournalError> {
        work(&mut self.connection).map_err(|error| write_error(&self.path, error))
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
    connection.execute(
        "INSERT INTO study (id, kind, plan, machine, host) VALUES (1, ?1, ?2, ?3, ?4)",
        params![K::NAME, to_json(plan), to_json(machine), to_json(host)],
    )?;
    Ok(())
}

/// What `read` finds in the journal at `path`.
fn read_with<T>(path: &Path, read: impl Fn(&Reader) -> Result<T, JournalError>) -> Result<T, JournalError> {
    File::open(path).map_err(|cause| JournalError::Open { path: path.into(), cause })?;
    let read_by = |flags: OpenFlags| {
        let connection = Connection::open_with_flags(path, flags).map_err(|error| read_error(path, error))?;
        let reader = Reader::new(&connection, path)?.ok_or_else(|| JournalError::Empty { path: path.into() })?;
        read(&reader)
    };
    match read_by(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        // Killed in the middle of a write: SQLite has to recover the file before anyone can read it.
        Err(JournalError::Write { .. }) => read_by(OpenFlags::SQLITE_OPEN_READ_WRITE),
        read => read,
    }
}

/// What a journal says of its study.
impl Reader<'_> {
    /// The kind of the study.
    fn kind(&self) -> Result<String, JournalError> {
        if self.is_older() {
            return Ok(older::kind_of_plan(&self.json(&self.study_column::<String>("plan")?, "plan")?).to_owned());
        }
        self.study_column("kind")
    }

    fn check_kind<K: Kind>(&self) -> Result<(), JournalError> {
        let found = self.kind()?;
        if found == K::NAME {
            return Ok(());
        }
        Err(JournalError::OtherKind { path: self.path.into(), found, asked: K::NAME })
    }

    /// The whole study.
    fn record<K: Kind>(&self) -> Result<Record<K>, JournalError> {
        self.check_kind::<K>()?;
        let ending: Option<String> = self.study_column("ending")?;
        let mut statement =
            self.sql(self.connection.prepare("SELECT command_line, before, after FROM session ORDER BY id"))?;
        let mut rows = self.sql(statement.query([]))?;
        let mut sessions = Vec::new();
        while let Some(row) = self.sql(rows.next())? {
            sessions.push(PastSession {
                command_line: self.json_column(row, "command_line")?,
                before: self.json_column(row, "before")?,
                after: self.optional_json_column(row, "after")?,
            });
        }
        Ok(Record {
            plan: self.plan()?,
            machine: self.json(&self.study_column::<String>("machine")?, "machine")?,
            host: self.json(&self.study_column::<String>("host")?, "host")?,
            sessions,
            trials: if self.is_older() { K::Trial::read_older(self)? } else { K::Trial::read_all(self)? },
            ending: ending.map(|text| self.json(&text, "ending")).transpose()?,
        })
    }

    /// A plan that can be carried out, so that nobody who reads a journal need ask again.
    fn plan<K: Kind>(&self) -> Result<K, JournalError> {
        let text: String = self.study_column("plan")?;
        let plan = if self.is_older() {
            K::from_older(self.json(&text, "plan")?).map_err(|error| self.damaged(format!("plan: {error}")))?
        } else {
            self.json::<K>(&text, "plan")?
        };
        plan.check().map_err(|error| self.damaged(format!("plan: {error}")))?;
        Ok(plan)
    }
}
