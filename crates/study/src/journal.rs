//! The journal: one SQLite file a study, readable from anything that reads SQLite.
//!
//! Tables: `study` (one row: plan, machine, host, ending), `session` (one row a stretch of work), `trial` (one row
//! as each trial ends) and `thread` (one row a thread of a trial, intended and actual CPUs). Structures that no
//! query would look into are JSON text.
//!
//! A trial and its threads are one transaction in write-ahead mode, so that a process killed at any moment loses at
//! most the trial that was running, and a machine that loses power loses the last trials but not the file.
//! `application_id` marks the file as ours, `user_version` is the schema's version.

use crate::host::{HostFacts, HostState, Session};
use crate::plan::Plan;
use crate::record::{Ending, Record};
use crate::trial::Trial;
use launch::{Exit, Observation, ThreadObservation};
use machine::{CpuId, CpuSet};
use nix::fcntl::{Flock, FlockArg};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// "STPY" in ASCII.
const APPLICATION_ID: i32 = 0x5354_5059;

/// Version of the schema below; raised with every change that an older Stayput could not read. Version 2 has races, cells
/// without a placement, models, trials that were cut off, and simulations with their metrics and histograms.
pub const SCHEMA_VERSION: i32 = 2;

const SCHEMA: &str = "
CREATE TABLE study (
    id INTEGER PRIMARY KEY CHECK (id = 1),
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
CREATE TABLE trial (
    sequence INTEGER PRIMARY KEY,
    block INTEGER NOT NULL,
    warmup INTEGER NOT NULL,
    subject TEXT NOT NULL,
    threads INTEGER NOT NULL,
    placement TEXT NOT NULL,
    status TEXT NOT NULL,
    cause TEXT NOT NULL,
    time_s REAL,
    started_unix_s REAL NOT NULL,
    intended_cpus TEXT,
    output_tail TEXT NOT NULL,
    exit TEXT,
    wall_s REAL,
    user_s REAL,
    system_s REAL,
    max_rss_bytes INTEGER,
    voluntary_switches INTEGER,
    involuntary_switches INTEGER,
    migrations INTEGER,
    minor_faults INTEGER,
    major_faults INTEGER,
    counters TEXT,
    metrics TEXT,
    histograms TEXT,
    leftovers INTEGER,
    notes TEXT,
    UNIQUE (block, subject, threads, placement)
) STRICT;
CREATE TABLE thread (
    sequence INTEGER NOT NULL REFERENCES trial (sequence),
    process INTEGER NOT NULL,
    exec INTEGER NOT NULL,
    thread INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    intended_cpus TEXT,
    actual_cpus TEXT NOT NULL,
    last_cpu INTEGER,
    migrations INTEGER
) STRICT;
CREATE INDEX thread_by_trial ON thread (sequence);
";

/// Why a journal can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file isn't there or can't be opened.
    #[error("cannot open journal {path}: {cause}", path = path.display())]
    Open {
        /// The journal.
        path: PathBuf,
        /// The system's word.
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
        /// SQLite's word.
        what: String,
    },
}

/// An open journal, held against other writers for as long as it lives.
#[derive(Debug)]
pub struct Journal {
    // Declared before the lock, so dropped first: the file is closed while it is still ours.
    connection: Connection,
    path: PathBuf,
    _lock: Flock<File>,
}

impl Journal {
    /// Opens the journal at `path` for writing, making the file when there is none. Whether it already holds a study
    /// is told by [`Journal::plan`].
    ///
    /// # Errors
    /// Any [`JournalError`]; the file is then as it was.
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
        let journal = Self { connection, path: path.into(), _lock: lock };
        if !is_empty(&journal.connection).map_err(|error| read_error(path, error))? {
            check_schema(&journal.connection, path)?;
            add_later_columns(&journal.connection).map_err(|error| write_error(path, error))?;
        }
        journal
            .connection
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;")
            .map_err(|error| write_error(path, error))?;
        Ok(journal)
    }

    /// Reads the whole study at `path`; also while a study is at work on it. The file is changed only to finish or undo
    /// a write that was cut off.
    ///
    /// # Errors
    /// Any [`JournalError`].
    pub fn read(path: &Path) -> Result<Record, JournalError> {
        File::open(path).map_err(|cause| JournalError::Open { path: path.into(), cause })?;
        match read_with(path, OpenFlags::SQLITE_OPEN_READ_ONLY) {
            // Killed in the middle of a write: SQLite has to recover the file before anyone can read it.
            Err(JournalError::Write { .. }) => read_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE),
            read => read,
        }
    }

    /// The plan of the study in this journal; none when the journal is new.
    ///
    /// # Errors
    /// [`JournalError::Damaged`] when it can't be understood.
    pub fn plan(&self) -> Result<Option<Plan>, JournalError> {
        if is_empty(&self.connection).map_err(|error| read_error(&self.path, error))? {
            return Ok(None);
        }
        let text: Option<String> = self
            .connection
            .query_row("SELECT plan FROM study", [], |row| row.get(0))
            .optional()
            .map_err(|error| read_error(&self.path, error))?;
        text.map(|text| plan_from_json(&text, &self.path)).transpose()
    }

    /// Everything in this journal.
    ///
    /// # Errors
    /// Any [`JournalError`] of reading.
    pub fn record(&self) -> Result<Record, JournalError> {
        read_record(&self.connection, &self.path)
    }

    /// Writes plan and machine into a new journal.
    ///
    /// # Errors
    /// Any [`JournalError`] of writing.
    pub fn begin_study(
        &mut self,
        plan: &Plan,
        machine: &serde_json::Value,
        host: &HostFacts,
    ) -> Result<(), JournalError> {
        self.write(|connection| {
            let transaction = connection.transaction()?;
            transaction.execute_batch(SCHEMA)?;
            transaction.execute_batch(&format!(
                "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
            ))?;
            transaction.execute(
                "INSERT INTO study (id, plan, machine, host) VALUES (1, ?1, ?2, ?3)",
                params![to_json(plan), to_json(machine), to_json(host)],
            )?;
            transaction.commit()
        })
    }

    /// Writes the start of a stretch of work; gives its id for [`Journal::end_session`].
    ///
    /// # Errors
    /// Any [`JournalError`] of writing.
    pub fn begin_session(&mut self, command_line: &[String], before: &HostState) -> Result<i64, JournalError> {
        self.write(|connection| {
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
    pub fn add(&mut self, trial: &Trial) -> Result<(), JournalError> {
        self.write(|connection| {
            let transaction = connection.transaction()?;
            insert_trial(&transaction, trial)?;
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

/// Gives the trials of a journal of version 1 the columns that came later; an older Stayput doesn't mind them.
fn add_later_columns(connection: &Connection) -> rusqlite::Result<()> {
    for column in ["metrics", "histograms"] {
        if !connection.column_exists(None::<&str>, "trial", column)? {
            connection.execute_batch(&format!("ALTER TABLE trial ADD COLUMN {column} TEXT"))?;
        }
    }
    Ok(())
}

fn read_with(path: &Path, flags: OpenFlags) -> Result<Record, JournalError> {
    let connection = Connection::open_with_flags(path, flags).map_err(|error| read_error(path, error))?;
    if is_empty(&connection).map_err(|error| read_error(path, error))? {
        return Err(JournalError::Empty { path: path.into() });
    }
    check_schema(&connection, path)?;
    read_record(&connection, path)
}

fn insert_trial(connection: &Connection, trial: &Trial) -> rusqlite::Result<()> {
    let seen = trial.observation.as_ref();
    connection
        .prepare_cached(
            "INSERT INTO trial (sequence, block, warmup, subject, threads, placement, status, cause, time_s,
                 started_unix_s, intended_cpus, output_tail, exit, wall_s, user_s, system_s, max_rss_bytes,
                 voluntary_switches, involuntary_switches, migrations, minor_faults, major_faults, counters,
                 metrics, histograms, leftovers, notes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
                 ?22, ?23, ?24, ?25, ?26, ?27)",
        )?
        .execute(params![
            trial.sequence,
            trial.block,
            trial.warmup,
            trial.subject,
            trial.threads,
            trial.placement,
            trial.status.to_string(),
            trial.cause,
            trial.time_s,
            trial.started_unix_s,
            trial.intended_cpus.as_ref().map(to_json),
            trial.output_tail,
            seen.map(|o| to_json(&o.exit)),
            seen.map(|o| o.wall_s),
            seen.map(|o| o.user_s),
            seen.map(|o| o.system_s),
            seen.map(|o| integer(o.max_rss_bytes)),
            seen.map(|o| integer(o.voluntary_switches)),
            seen.map(|o| integer(o.involuntary_switches)),
            seen.and_then(|o| o.migrations).map(integer),
            seen.map(|o| integer(o.minor_faults)),
            seen.map(|o| integer(o.major_faults)),
            seen.map(|o| to_json(&o.counters)),
            seen.filter(|o| !o.metrics.is_empty()).map(|o| to_json(&o.metrics)),
            seen.filter(|o| !o.histograms.is_empty()).map(|o| to_json(&o.histograms)),
            seen.map(|o| o.leftovers),
            seen.map(|o| to_json(&o.notes)),
        ])?;
    let mut insert_thread = connection.prepare_cached(
        "INSERT INTO thread (sequence, process, exec, thread, tid, intended_cpus, actual_cpus, last_cpu, migrations)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for thread in seen.into_iter().flat_map(|o| &o.threads) {
        insert_thread.execute(params![
            trial.sequence,
            thread.process,
            thread.exec,
            thread.thread,
            thread.tid,
            thread.intended_cpus.as_ref().map(CpuSet::to_string),
            thread.actual_cpus.to_string(),
            thread.last_cpu.map(|cpu| cpu.0),
            thread.migrations.map(integer),
        ])?;
    }
    Ok(())
}

fn read_record(connection: &Connection, path: &Path) -> Result<Record, JournalError> {
    let sql_error = |error| read_error(path, error);
    let (plan, machine, host, ending) = connection
        .query_row("SELECT plan, machine, host, ending FROM study", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?, row.get(3)?))
        })
        .map_err(sql_error)?;
    let ending: Option<String> = ending;
    let mut sessions = Vec::new();
    let mut statement =
        connection.prepare("SELECT command_line, before, after FROM session ORDER BY id").map_err(sql_error)?;
    let mut rows = statement.query([]).map_err(sql_error)?;
    while let Some(row) = rows.next().map_err(sql_error)? {
        sessions.push(Session {
            command_line: json_column(row, "command_line", path)?,
            before: json_column(row, "before", path)?,
            after: optional_json_column(row, "after", path)?,
        });
    }
    Ok(Record {
        plan: plan_from_json(&plan, path)?,
        machine: from_json(&machine, "machine", path)?,
        host: from_json(&host, "host", path)?,
        sessions,
        trials: read_trials(connection, path)?,
        ending: ending.map(|text| from_json(&text, "ending", path)).transpose()?,
    })
}

fn read_trials(connection: &Connection, path: &Path) -> Result<Vec<Trial>, JournalError> {
    let sql_error = |error| read_error(path, error);
    let mut threads = connection
        .prepare(
            "SELECT process, exec, thread, tid, intended_cpus, actual_cpus, last_cpu, migrations FROM thread
             WHERE sequence = ?1 ORDER BY rowid",
        )
        .map_err(sql_error)?;
    let mut statement = connection.prepare("SELECT * FROM trial ORDER BY sequence").map_err(sql_error)?;
    let mut rows = statement.query([]).map_err(sql_error)?;
    let mut trials = Vec::new();
    while let Some(row) = rows.next().map_err(sql_error)? {
        let sequence: u32 = row.get("sequence").map_err(sql_error)?;
        let exit: Option<Exit> = optional_json_column(row, "exit", path)?;
        let observation = match exit {
            None => None,
            Some(exit) => {
                let mut seen = Vec::new();
                let mut thread_rows = threads.query([sequence]).map_err(sql_error)?;
                while let Some(thread) = thread_rows.next().map_err(sql_error)? {
                    seen.push(read_thread(thread, path)?);
                }
                Some(read_observation(row, exit, seen, path)?)
            }
        };
        let status: String = row.get("status").map_err(sql_error)?;
        trials.push(Trial {
            sequence,
            block: row.get("block").map_err(sql_error)?,
            warmup: row.get("warmup").map_err(sql_error)?,
            subject: row.get("subject").map_err(sql_error)?,
            threads: row.get("threads").map_err(sql_error)?,
            placement: row.get("placement").map_err(sql_error)?,
            status: from_json(&to_json(&status), "status", path)?,
            cause: row.get("cause").map_err(sql_error)?,
            time_s: seconds(row, "time_s", path)?,
            started_unix_s: required_seconds(row, "started_unix_s", path)?,
            intended_cpus: optional_json_column(row, "intended_cpus", path)?,
            observation,
            output_tail: row.get("output_tail").map_err(sql_error)?,
        });
    }
    Ok(trials)
}

fn read_observation(
    row: &Row,
    exit: Exit,
    threads: Vec<ThreadObservation>,
    path: &Path,
) -> Result<Observation, JournalError> {
    let sql_error = |error| read_error(path, error);
    let count = |column: &str| unsigned(row.get(column).map_err(sql_error)?, column, path);
    let migrations: Option<i64> = row.get("migrations").map_err(sql_error)?;
    Ok(Observation {
        exit,
        wall_s: required_seconds(row, "wall_s", path)?,
        user_s: required_seconds(row, "user_s", path)?,
        system_s: required_seconds(row, "system_s", path)?,
        max_rss_bytes: count("max_rss_bytes")?,
        voluntary_switches: count("voluntary_switches")?,
        involuntary_switches: count("involuntary_switches")?,
        migrations: migrations.map(|n| unsigned(n, "migrations", path)).transpose()?,
        minor_faults: count("minor_faults")?,
        major_faults: count("major_faults")?,
        counters: json_column(row, "counters", path)?,
        metrics: later_column(row, "metrics", path)?,
        histograms: later_column(row, "histograms", path)?,
        threads,
        leftovers: row.get("leftovers").map_err(sql_error)?,
        notes: json_column(row, "notes", path)?,
    })
}

fn read_thread(row: &Row, path: &Path) -> Result<ThreadObservation, JournalError> {
    let sql_error = |error| read_error(path, error);
    let cpus = |text: String| -> Result<CpuSet, JournalError> {
        text.parse().map_err(|error| JournalError::Damaged { path: path.into(), what: format!("{error}") })
    };
    let intended: Option<String> = row.get("intended_cpus").map_err(sql_error)?;
    let migrations: Option<i64> = row.get("migrations").map_err(sql_error)?;
    Ok(ThreadObservation {
        process: row.get("process").map_err(sql_error)?,
        exec: row.get("exec").map_err(sql_error)?,
        thread: row.get("thread").map_err(sql_error)?,
        tid: row.get("tid").map_err(sql_error)?,
        intended_cpus: intended.map(cpus).transpose()?,
        actual_cpus: cpus(row.get("actual_cpus").map_err(sql_error)?)?,
        last_cpu: row.get::<_, Option<u32>>("last_cpu").map_err(sql_error)?.map(CpuId),
        migrations: migrations.map(|n| unsigned(n, "migrations", path)).transpose()?,
    })
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

fn check_schema(connection: &Connection, path: &Path) -> Result<(), JournalError> {
    let pragma = |name: &str| -> Result<i32, JournalError> {
        connection.pragma_query_value(None, name, |row| row.get(0)).map_err(|error| read_error(path, error))
    };
    if pragma("application_id")? != APPLICATION_ID {
        return Err(JournalError::Foreign { path: path.into() });
    }
    match pragma("user_version")? {
        found if found > SCHEMA_VERSION => return Err(JournalError::Newer { path: path.into(), found }),
        1..=SCHEMA_VERSION => {}
        found => return Err(JournalError::Damaged { path: path.into(), what: format!("schema version {found}") }),
    }
    let health: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(|error| read_error(path, error))?;
    if health == "ok" { Ok(()) } else { Err(JournalError::Damaged { path: path.into(), what: health }) }
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

fn unsigned(value: i64, column: &str, path: &Path) -> Result<u64, JournalError> {
    u64::try_from(value)
        .map_err(|_| JournalError::Damaged { path: path.into(), what: format!("negative {column} ({value})") })
}

/// A time that a clock can tell, where there is one.
fn seconds(row: &Row, column: &str, path: &Path) -> Result<Option<f64>, JournalError> {
    let time_s: Option<f64> = row.get(column).map_err(|error| read_error(path, error))?;
    match time_s {
        Some(time_s) if !(time_s.is_finite() && time_s >= 0.0) => {
            Err(JournalError::Damaged { path: path.into(), what: format!("{column} is {time_s}") })
        }
        _ => Ok(time_s),
    }
}

fn required_seconds(row: &Row, column: &str, path: &Path) -> Result<f64, JournalError> {
    seconds(row, column, path)?
        .ok_or_else(|| JournalError::Damaged { path: path.into(), what: format!("{column} is missing") })
}

#[expect(clippy::expect_used, reason = "our own types have no map key or number that JSON can't say")]
fn to_json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("our types serialise")
}

fn from_json<T: DeserializeOwned>(text: &str, what: &str, path: &Path) -> Result<T, JournalError> {
    serde_json::from_str(text)
        .map_err(|error| JournalError::Damaged { path: path.into(), what: format!("{what}: {error}") })
}

/// A plan that can be carried out, so that nobody who reads a journal need ask again.
fn plan_from_json(text: &str, path: &Path) -> Result<Plan, JournalError> {
    let plan: Plan = from_json(text, "plan", path)?;
    plan.check().map_err(|error| JournalError::Damaged { path: path.into(), what: format!("plan: {error}") })?;
    Ok(plan)
}

fn json_column<T: DeserializeOwned>(row: &Row, column: &str, path: &Path) -> Result<T, JournalError> {
    let text: String = row.get(column).map_err(|error| read_error(path, error))?;
    from_json(&text, &format!("column {column}"), path)
}

/// A column that journals of version 1 may lack, and trials without a simulator leave empty.
fn later_column<T: DeserializeOwned + Default>(row: &Row, column: &str, path: &Path) -> Result<T, JournalError> {
    if row.as_ref().column_index(column).is_err() {
        return Ok(T::default());
    }
    Ok(optional_json_column(row, column, path)?.unwrap_or_default())
}

fn optional_json_column<T: DeserializeOwned>(row: &Row, column: &str, path: &Path) -> Result<Option<T>, JournalError> {
    let text: Option<String> = row.get(column).map_err(|error| read_error(path, error))?;
    text.map(|text| from_json(&text, &format!("column {column}"), path)).transpose()
}
