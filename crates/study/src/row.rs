//! Rows of journals: how what was observed is written and read back, and why a journal can't be.

use rusqlite::{Connection, ErrorCode, OptionalExtension, Row as SqlRow, types::FromSql};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

/// "STPY" in ASCII.
pub(crate) const APPLICATION_ID: i32 = 0x5354_5059;

/// Version of the schema below; raised with every change that an older Stayput could not read. Version 2 brought races, cells
/// without a placement, models, trials that were cut off, and simulations among the trials of programs. Version 3 names the
/// kind of study, and has tables of its own for samples.
pub const SCHEMA_VERSION: i32 = 3;

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
            Self::Open { .. }
                | Self::Foreign { .. }
                | Self::Empty { .. }
                | Self::OtherKind { .. }
                | Self::UnknownKind { .. }
                | Self::Newer { .. }
        )
    }
}

/// Reads a journal whose schema is known, and says where it is damaged.
#[derive(Debug)]
pub struct Reader<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) path: &'a Path,
    /// The schema's version.
    version: i32,
}

impl<'a> Reader<'a> {
    /// A reader of the journal; none while it is empty.
    pub(crate) fn new(connection: &'a Connection, path: &'a Path) -> Result<Option<Self>, JournalError> {
        let is_empty = connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0));
        if is_empty.map_err(|error| read_error(path, error))? {
            return Ok(None);
        }
        let version = schema_version(connection, path)?;
        Ok(Some(Self { connection, path, version }))
    }

    pub(crate) fn is_older(&self) -> bool {
        self.version < SCHEMA_VERSION
    }

    pub(crate) fn study_column<T: FromSql>(&self, column: &str) -> Result<T, JournalError> {
        let found = self.connection.query_row(&format!("SELECT {column} FROM study"), [], |row| row.get(0)).optional();
        self.sql(found)?.ok_or_else(|| self.damaged("table study has no row".into()))
    }

    pub(crate) fn damaged(&self, what: String) -> JournalError {
        JournalError::Damaged { path: self.path.into(), what }
    }

    /// What SQLite found, its error as the journal's.
    pub(crate) fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T, JournalError> {
        result.map_err(|error| read_error(self.path, error))
    }

    pub(crate) fn column<T: FromSql>(&self, row: &SqlRow, column: &str) -> Result<T, JournalError> {
        self.sql(row.get(column))
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, text: &str, what: &str) -> Result<T, JournalError> {
        serde_json::from_str(text).map_err(|error| self.damaged(format!("{what}: {error}")))
    }

    pub(crate) fn json_column<T: DeserializeOwned>(&self, row: &SqlRow, column: &str) -> Result<T, JournalError> {
        self.json(&self.column::<String>(row, column)?, &format!("column {column}"))
    }

    pub(crate) fn optional_json_column<T: DeserializeOwned>(
        &self,
        row: &SqlRow,
        column: &str,
    ) -> Result<Option<T>, JournalError> {
        let text: Option<String> = self.column(row, column)?;
        text.map(|text| self.json(&text, &format!("column {column}"))).transpose()
    }

    /// A column that holds a count.
    pub(crate) fn count(&self, row: &SqlRow, column: &str) -> Result<u64, JournalError> {
        self.unsigned(self.column(row, column)?, column)
    }

    pub(crate) fn optional_count(&self, row: &SqlRow, column: &str) -> Result<Option<u64>, JournalError> {
        let value: Option<i64> = self.column(row, column)?;
        value.map(|value| self.unsigned(value, column)).transpose()
    }

    fn unsigned(&self, value: i64, column: &str) -> Result<u64, JournalError> {
        u64::try_from(value).map_err(|_| self.damaged(format!("negative {column} ({value})")))
    }

    /// A time that a clock can tell, where there is one.
    pub(crate) fn optional_seconds(&self, row: &SqlRow, column: &str) -> Result<Option<f64>, JournalError> {
        let time_s: Option<f64> = self.column(row, column)?;
        match time_s {
            Some(time_s) if !(time_s.is_finite() && time_s >= 0.0) => {
                Err(self.damaged(format!("{column} is {time_s}")))
            }
            _ => Ok(time_s),
        }
    }

    pub(crate) fn seconds(&self, row: &SqlRow, column: &str) -> Result<f64, JournalError> {
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

pub(crate) fn read_error(path: &Path, error: rusqlite::Error) -> JournalError {
    let path = path.to_path_buf();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => JournalError::Foreign { path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => JournalError::Busy { path },
        Some(ErrorCode::ReadOnly) => JournalError::Write { path, what: error.to_string() },
        _ => JournalError::Damaged { path, what: error.to_string() },
    }
}

pub(crate) fn write_error(path: &Path, error: rusqlite::Error) -> JournalError {
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
pub(crate) fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[expect(clippy::expect_used, reason = "our own types have no map key or number that JSON can't say")]
pub(crate) fn to_json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("our types serialise")
}
