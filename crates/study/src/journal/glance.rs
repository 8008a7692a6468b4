//! What a journal says at a glance, of whichever kind its study is: for lists of many.

use super::reading::{is_at_work, read_with};
use super::{JournalError, Reader};
use crate::input::InputFacts;
use crate::row::RowError;
use serde::Deserialize;
use std::path::Path;

/// What a journal says at a glance.
#[derive(Clone, Debug, PartialEq)]
pub struct Glance {
    /// The kind of its study, as [`Kind::NAME`](crate::Kind::NAME) has it.
    pub kind: String,
    /// How many runs, replicates or replays there are.
    pub runs: u64,
    /// When it was last worked on, in seconds since 1970; none when nothing was run.
    pub last_unix_s: Option<f64>,
    /// The command that was given last: the same one goes on.
    pub command_line: Vec<String>,
    /// What the first program that reads any input reads, where the study runs programs.
    pub input: Option<InputFacts>,
    /// Whether it is worked on now, was left, or has ended.
    pub state: State,
}

/// Whether a study is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum State {
    /// Some Stayput works on it.
    AtWork,
    /// It was interrupted.
    Unfinished,
    /// It came to its end.
    Ended,
}

/// Looks into the journal at `path`.
///
/// # Errors
/// Any [`JournalError`] of reading.
pub fn glance(path: &Path) -> Result<Glance, JournalError> {
    read_with(path, |reader| {
        let error = |error| JournalError::reading(path, error);
        let kind = reader.kind()?;
        let (command_line, last_unix_s) = last_session(reader).map_err(error)?;
        let has_ended = reader.study(|row| Ok(row.get::<Option<String>>("ending")?.is_some())).map_err(error)?;
        let state = match has_ended {
            _ if is_at_work(path) => State::AtWork,
            true => State::Ended,
            false => State::Unfinished,
        };
        let plan: String = reader.study(|row| row.get("plan")).map_err(error)?;
        let input =
            serde_json::from_str(&plan).ok().and_then(|Inputs { subjects }| subjects.into_iter().find_map(|s| s.input));
        Ok(Glance { kind, runs: runs(reader).map_err(error)?, last_unix_s, command_line, input, state })
    })
}

/// Of a plan, what its subjects read; the rest isn't kept in memory.
#[derive(Deserialize)]
struct Inputs {
    #[serde(default)]
    subjects: Vec<Input>,
}

#[derive(Deserialize)]
struct Input {
    #[serde(default)]
    input: Option<InputFacts>,
}

/// The last session's command, and when it ended, or else began.
fn last_session(reader: &Reader) -> Result<(Vec<String>, Option<f64>), RowError> {
    let sql = "SELECT command_line, \
               coalesce(json_extract(after, '$.unix_s'), json_extract(before, '$.unix_s')) AS last \
               FROM session ORDER BY id DESC LIMIT 1";
    let session = |row: &crate::row::Columns| Ok((row.json("command_line")?, row.get("last")?));
    Ok(reader.tables.rows(sql, session)?.pop().unwrap_or_default())
}

fn runs(reader: &Reader) -> Result<u64, RowError> {
    let names = "SELECT name FROM sqlite_schema WHERE name IN ('trial', 'sample')";
    let mut runs = 0;
    for table in reader.tables.rows(names, |row| row.get::<String>("name"))? {
        let counts = reader.tables.rows(&format!("SELECT count(*) AS runs FROM {table}"), |row| row.count("runs"))?;
        runs += counts.into_iter().sum::<u64>();
    }
    Ok(runs)
}
