//! Why a journal can't be read or written.

use super::SCHEMA_VERSION;
use super::guard::MOST_TEXT_BYTES;
use crate::row::RowError;
use machine::cpu::quoted;
use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};

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
    /// It is no regular file.
    #[error("{path} is {what} and no file; name a journal", path = path.display())]
    NoFile {
        /// What was named.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// It holds more than is read.
    #[error(
        "journal {path} holds more than is read of any study ({what}); name another file",
        path = path.display()
    )]
    TooLarge {
        /// The journal.
        path: PathBuf,
        /// What there is too much of.
        what: String,
    },
    /// The file is something else.
    #[error("{} is not a stayput journal; name another file", .0.display())]
    Foreign(PathBuf),
    /// It is empty: its study was killed before it began, or never was one.
    #[error("{} holds no study yet; give the command of the study again", .0.display())]
    Empty(PathBuf),
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
        "no space left to write journal {}: free some space and give the same command again, which goes on after what is in it",
        .0.display()
    )]
    Full(PathBuf),
    /// Another process works on it.
    #[error("another stayput is working on journal {}; wait for it or name another file", .0.display())]
    Busy(PathBuf),
    /// It can be read only as a copy, and there is no room for one.
    #[error("cannot read journal {path} where it is, nor copy it into the folder for temporary files: {cause}", path = path.display())]
    Copy {
        /// The journal.
        path: PathBuf,
        /// The reason as the system gives it.
        cause: std::io::Error,
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
                | Self::NoFile { .. }
                | Self::Foreign(_)
                | Self::Empty(_)
                | Self::OtherKind { .. }
                | Self::UnknownKind { .. }
                | Self::Newer { .. }
        )
    }

    /// What kept the journal at `path` from being read.
    pub(super) fn reading(path: &Path, error: impl Into<RowError>) -> Self {
        let path = path.to_path_buf();
        match error.into() {
            RowError::Sql(error) => Self::reading_sql(path, &error),
            RowError::Damaged(what) => Self::Damaged { path, what: quoted(&what) },
            RowError::TooLarge(what) => Self::TooLarge { path, what },
        }
    }

    fn reading_sql(path: PathBuf, error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::Foreign(path),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy(path),
            // It would have to write beside the journal, or into it.
            Some(ErrorCode::TooBig) => {
                Self::TooLarge { path, what: format!("a value has more than {} MiB", MOST_TEXT_BYTES >> 20) }
            }
            Some(ErrorCode::OperationInterrupted) => {
                Self::TooLarge { path, what: "SQLite needs more steps for it than it is given".into() }
            }
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen) => Self::Write { path, what: error.to_string() },
            _ => Self::Damaged { path, what: error.to_string() },
        }
    }

    /// What kept the journal at `path` from being written.
    pub(super) fn writing(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full(path),
            Some(ErrorCode::NotADatabase) => Self::Foreign(path),
            Some(ErrorCode::TooBig | ErrorCode::OperationInterrupted) => Self::reading_sql(path, error),
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, what: error.to_string() },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy(path),
            _ => Self::Write { path, what: error.to_string() },
        }
    }
}
