//! Rows of journals: how what was observed is written and read back.

use rusqlite::types::FromSql;
use rusqlite::{Connection, Params, Row as SqlRow, ToSql, params_from_iter};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;

/// What a journal has a row of: an execution, or a sample.
pub trait Row: Clone + Debug + PartialEq + Sized {
    /// The tables that hold it, as SQL.
    const TABLES: &'static str;

    /// Columns that a journal of this schema version may lack since an earlier Stayput began it, each as its table and its SQL
    /// definition: they are added before anything is written, and an earlier Stayput leaves them empty.
    const ADDED_COLUMNS: &'static [(&'static str, &'static str)] = &[];

    /// Writes it.
    ///
    /// # Errors
    /// SQLite's.
    fn insert(&self, connection: &Connection) -> rusqlite::Result<()>;

    /// Forgets what decides nothing and only reports tell, once it is in a journal: a study at work has no use for it.
    fn forget_details(&mut self) {}

    /// Reads all of them, in the order in which they were run.
    ///
    /// # Errors
    /// [`RowError`].
    fn read_all(connection: &Connection, tails: Tails) -> Result<Vec<Self>, RowError>;

    /// The same from a journal of version 1 or 2.
    ///
    /// # Errors
    /// [`RowError`].
    fn read_older(connection: &Connection, tails: Tails) -> Result<Vec<Self>, RowError>;
}

/// Of which trials the last of their output is read: up to 4 KiB each, which no report tells of those that went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tails {
    /// Of all, as to write them again.
    OfAll,
    /// Of those that failed.
    OfFailures,
}

/// Why a row can't be read.
#[derive(Debug)]
pub enum RowError {
    /// SQLite can't.
    Sql(rusqlite::Error),
    /// It holds what no study writes, in a sentence.
    Damaged(String),
}

impl From<rusqlite::Error> for RowError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// Writes a row of `table`: the names of its columns, and what they hold.
pub(crate) fn insert(connection: &Connection, table: &str, columns: &[(&str, &dyn ToSql)]) -> rusqlite::Result<()> {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let places = vec!["?"; columns.len()].join(", ");
    let sql = format!("INSERT INTO {table} ({}) VALUES ({places})", names.join(", "));
    connection.prepare_cached(&sql)?.execute(params_from_iter(columns.iter().map(|(_, value)| value)))?;
    Ok(())
}

/// Adds those of `columns`, each a table and a definition, that are not there.
pub(crate) fn add_missing_columns(connection: &Connection, columns: &[(&str, &str)]) -> rusqlite::Result<()> {
    for (table, definition) in columns {
        let name = definition.split_whitespace().next().unwrap_or_default();
        if !connection.column_exists(None, *table, name)? {
            connection.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {definition}"))?;
        }
    }
    Ok(())
}

/// What `read` finds in each of the rows that `sql` selects.
pub(crate) fn rows<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Columns) -> Result<T, RowError>,
) -> Result<Vec<T>, RowError> {
    connection.prepare_cached(sql)?.query_and_then(params, |row| read(&Columns(row)))?.collect()
}

/// The columns of a row that is read, by name.
pub(crate) struct Columns<'a>(&'a SqlRow<'a>);

impl Columns<'_> {
    pub(crate) fn get<T: FromSql>(&self, column: &str) -> Result<T, RowError> {
        Ok(self.0.get(column)?)
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, RowError> {
        from_json(&self.get::<String>(column)?, &format!("column {column}"))
    }

    pub(crate) fn optional_json<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>, RowError> {
        let text: Option<String> = self.get(column)?;
        text.map(|text| from_json(&text, &format!("column {column}"))).transpose()
    }

    /// A variant without data, by the name that serde gives it.
    pub(crate) fn variant<T: DeserializeOwned>(&self, column: &str) -> Result<T, RowError> {
        let name = Value::String(self.get(column)?);
        serde_json::from_value(name).map_err(|error| RowError::Damaged(format!("column {column}: {error}")))
    }

    pub(crate) fn optional_count(&self, column: &str) -> Result<Option<u64>, RowError> {
        let value: Option<i64> = self.get(column)?;
        let negative = |value| RowError::Damaged(format!("negative {column} ({value})"));
        value.map(|value| u64::try_from(value).map_err(|_| negative(value))).transpose()
    }

    /// Whether the table has this column: journals that were begun earlier lack the later ones.
    pub(crate) fn has(&self, column: &str) -> bool {
        self.0.as_ref().column_index(column).is_ok()
    }

    pub(crate) fn count(&self, column: &str) -> Result<u64, RowError> {
        required(self.optional_count(column)?, column)
    }

    /// A time that a clock can tell, where there is one.
    pub(crate) fn optional_seconds(&self, column: &str) -> Result<Option<f64>, RowError> {
        let time_s: Option<f64> = self.get(column)?;
        match time_s.filter(|time_s| !(time_s.is_finite() && *time_s >= 0.0)) {
            Some(time_s) => Err(RowError::Damaged(format!("{column} is {time_s}"))),
            None => Ok(time_s),
        }
    }

    /// The same of a column that not every journal has.
    pub(crate) fn added_seconds(&self, column: &str) -> Result<Option<f64>, RowError> {
        if self.0.as_ref().column_index(column).is_ok() { self.optional_seconds(column) } else { Ok(None) }
    }

    /// A text that journals used not to keep.
    pub(crate) fn added(&self, column: &str) -> Result<Option<String>, RowError> {
        if self.0.as_ref().column_index(column).is_ok() { self.get(column) } else { Ok(None) }
    }

    pub(crate) fn seconds(&self, column: &str) -> Result<f64, RowError> {
        required(self.optional_seconds(column)?, column)
    }
}

fn required<T>(value: Option<T>, column: &str) -> Result<T, RowError> {
    value.ok_or_else(|| RowError::Damaged(format!("{column} is missing")))
}

/// What the JSON of `what` says.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str, what: &str) -> Result<T, RowError> {
    serde_json::from_str(text).map_err(|error| RowError::Damaged(format!("{what}: {error}")))
}

#[expect(clippy::expect_used, reason = "our own types have no map key or number that JSON can't say")]
pub(crate) fn to_json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("our types serialise")
}

/// SQLite's integers are signed; a count beyond 2^63 is beyond any machine.
pub(crate) fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
