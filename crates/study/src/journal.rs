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
use nix::fcntl::{Flock, FlockArg};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// "STPY" in ASCII.
const APPLICATION_ID: i32 = 0x5354_5059;

/// Version of the schema below; raised with every change that an older Stayput could not read. Version 2 brought races, cells
/// without a placement, models, trials that were cut off, and simulations among the trials of programs. Version 3 names the
/// kind of study, and has tables of its own for samples.
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
const WRITING: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;";

/// What a journal has a row of: an execution, or a sample.
pub trait Row: Clone + Debug + PartialEq + Sized {
    /// The tables that hold it, as SQL.
    const TABLES: &'static str;

    /// Writes it.
    ///
    /// # Errors
    /// SQLite's.
    fn insert(&self, connection: &Connection) -> rusqlite::Result<()>;

    /// Reads all of them, in the order in which they were run.
    ///
    /// # Errors
    /// [`JournalError`].
    fn read_all(reader: &Reader) -> Result<Vec<Self>, JournalError>;

    /// The same from a journal of version 1 or 2.
    ///
    /// # Errors
    /// [`JournalError`].
    fn read_older(reader: &Reader) -> Result<Vec<Self>, JournalError>;
}

/// Why a journal can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file isn't there or can't be opened.
    #[error("cannot open journal {path}: {cause}", path = path.display())]
    Open {
        /// The journal.
        path: PathBuf,
        /// The reason as the system gives it.
        cause: std::io::Error,
    },
    /// The file is something else.
    #[error("{path} is not a stayput journal; name another file", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// It is empty: its study was killed before it began, or never was one.
    #[error("{path} holds no study yet; give the command of the study again", path = path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It holds a study of another kind.
    #[error("journal {path} holds a {found}, and this is a {asked}; give --out another file", path = path.display())]
    OtherKind {
        /// The journal.
        path: PathBuf,
        /// The kind of its study.
        found: String,
        /// The kind that was asked for.
        asked: &'static str,
    },
    /// It holds a study of a kind that there isn't, or not yet.
    #[error(
        "journal {path} holds a study of an unknown kind ({found}); use the newer stayput that wrote it",
        path = path.display()
    )]
    UnknownKind {
        /// The journal.
        path: PathBuf,
        /// The kind as the journal names it.
        found: String,
    },
    /// A newer Stayput wrote it.
    #[error(
        "journal {path} has schema version {found}, this stayput reads up to {SCHEMA_VERSION}; use the newer stayput that wrote it",
        path = path.display()
    )]
    Newer {
        /// The journal.
        path: PathBuf,
        /// Its schema version.
        found: i32,
    },
    /// The file is damaged, or holds what this schema can't.
    #[error("journal {path} is damaged ({what}); restore it from a copy or start again with another file", path = path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The disk is full.
    #[error(
        "no space left to write journal {path}; what was measured before is in it: free some space and give the same command again",
        path = path.display()
    )]
    Full {
        /// The journal.
        path: PathBuf,
    },
    /// Another process works on it.
    #[error("another stayput is working on journal {path}; wait for it or name another file", path = path.display())]
    Busy {
        /// The journal.
        path: PathBuf,
    },
    /// It can't be written.
    #[error("cannot write journal {path}: {what}", path = path.display())]
    Write {
        /// The journal.
        path: PathBuf,
        /// The reason as SQLite gives it.
        what: String,
    },
}

impl JournalError {
    /// Whether another file should have been named: the file isn't a journal of what is asked for, and nothing failed.
    pub fn is_usage_error(&self) -> bool {
        matches!(
            self,
            Self::Open { .. } | Self::Foreign { .. } | Self::Empty { .. } | Self::OtherKind { .. } | Self::Newer { .. }
        )
    }
}

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

/// Reads a journal whose schema is known, and says where it is damaged.
#[derive(Debug)]
pub struct Reader<'a> {
    connection: &'a Connection,
    path: &'a Path,
    /// The schema's version.
    version: i32,
}

impl<'a> Reader<'a> {
    /// A reader of the journal; none while it is empty.
    fn new(connection: &'a Connection, path: &'a Path) -> Result<Option<Self>, JournalError> {
        let is_empty = connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0));
        if is_empty.map_err(|error| read_error(path, error))? {
            return Ok(None);
        }
        let version = schema_version(connection, path)?;
        Ok(Some(Self { connection, path, version }))
    }

    fn is_older(&self) -> bool {
        self.version < SCHEMA_VERSION
    }

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

    fn study_column<T: rusqlite::types::FromSql>(&self, column: &str) -> Result<T, JournalError> {
        let found = self.connection.query_row(&format!("SELECT {column} FROM study"), [], |row| row.get(0)).optional();
        self.sql(found)?.ok_or_else(|| self.damaged("table study has no row".into()))
    }

    fn damaged(&self, what: String) -> JournalError {
        JournalError::Damaged { path: self.path.into(), what }
    }

    /// What SQLite found, its error as the journal's.
    fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T, JournalError> {
        result.map_err(|error| read_error(self.path, error))
    }

    fn column<T: rusqlite::types::FromSql>(&self, row: &rusqlite::Row, column: &str) -> Result<T, JournalError> {
        self.sql(row.get(column))
    }

    fn json<T: DeserializeOwned>(&self, text: &str, what: &str) -> Result<T, JournalError> {
        serde_json::from_str(text).map_err(|error| self.damaged(format!("{what}: {error}")))
    }

    fn json_column<T: DeserializeOwned>(&self, row: &rusqlite::Row, column: &str) -> Result<T, JournalError> {
        self.json(&self.column::<String>(row, column)?, &format!("column {column}"))
    }

    fn optional_json_column<T: DeserializeOwned>(
        &self,
        row: &rusqlite::Row,
        column: &str,
    ) -> Result<Option<T>, JournalError> {
        let text: Option<String> = self.column(row, column)?;
        text.map(|text| self.json(&text, &format!("column {column}"))).transpose()
    }

    /// A column that holds a count.
    fn count(&self, row: &rusqlite::Row, column: &str) -> Result<u64, JournalError> {
        self.unsigned(self.column(row, column)?, column)
    }

    fn optional_count(&self, row: &rusqlite::Row, column: &str) -> Result<Option<u64>, JournalError> {
        let value: Option<i64> = self.column(row, column)?;
        value.map(|value| self.unsigned(value, column)).transpose()
    }

    fn unsigned(&self, value: i64, column: &str) -> Result<u64, JournalError> {
        u64::try_from(value).map_err(|_| self.damaged(format!("negative {column} ({value})")))
    }

    /// A time that a clock can tell, where there is one.
    fn optional_seconds(&self, row: &rusqlite::Row, column: &str) -> Result<Option<f64>, JournalError> {
        let time_s: Option<f64> = self.column(row, column)?;
        match time_s {
            Some(time_s) if !(time_s.is_finite() && time_s >= 0.0) => {
                Err(self.damaged(format!("{column} is {time_s}")))
            }
            _ => Ok(time_s),
        }
    }

    fn seconds(&self, row: &rusqlite::Row, column: &str) -> Result<f64, JournalError> {
        self.optional_seconds(row, column)?.ok_or_else(|| self.damaged(format!("{column} is missing")))
    }
}

/// The version of the schema; an error for a file that is none of ours, or damaged.
fn schema_version(connection: &Connection, path: &Path) -> Result<i32, JournalError> {
    let pragma = |name: &str| -> Result<i32, JournalError> {
        connection.pragma_query_value(None, name, |row| row.get(0)).map_err(|error| read_error(path, error))
    };
    if pragma("application_id")? != APPLICATION_ID {
        return Err(JournalError::Foreign { path: path.into() });
    }
    let version = match pragma("user_version")? {
        found if found > SCHEMA_VERSION => return Err(JournalError::Newer { path: path.into(), found }),
        found @ 1..=SCHEMA_VERSION => found,
        found => return Err(JournalError::Damaged { path: path.into(), what: format!("schema version {found}") }),
    };
    let health: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(|error| read_error(path, error))?;
    if health == "ok" { Ok(version) } else { Err(JournalError::Damaged { path: path.into(), what: health }) }
}

fn read_error(path: &Path, error: rusqlite::Error) -> JournalError {
    let path = path.to_path_buf();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => JournalError::Foreign { path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => JournalError::Busy { path },
        Some(ErrorCode::ReadOnly) => JournalError::Write { path, what: error.to_string() },
        _ => JournalError::Damaged { path, what: error.to_string() },
    }
}

fn write_error(path: &Path, error: rusqlite::Error) -> JournalError {
    let path = path.to_path_buf();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => JournalError::Full { path },
        Some(ErrorCode::NotADatabase) => JournalError::Foreign { path },
        Some(ErrorCode::DatabaseCorrupt) => JournalError::Damaged { path, what: error.to_string() },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => JournalError::Busy { path },
        _ => JournalError::Write { path, what: error.to_string() },
    }
}

/// SQLite's integers are signed; a count beyond 2^63 is beyond any machine.
fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[expect(clippy::expect_used, reason = "our own types have no map key or number that JSON can't say")]
fn to_json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("our types serialise")
}
