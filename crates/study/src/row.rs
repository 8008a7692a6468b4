//! Rows of journals: how what was observed is written and read back.

use machine::CpuSet;
use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{CachedStatement, Connection, Row as SqlRow, ToSql, params_from_iter};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::fmt::Debug;

/// What a journal has a row of: an execution, or a sample.
pub trait Row: Clone + Debug + PartialEq + Sized {
    /// The tables that hold it, as SQL.
    const TABLES: &'static str;

    /// Columns that a journal of this schema version may lack since an earlier Stayput began it, each as its table and its SQL
    /// definition: they are added before anything is written, and an earlier Stayput leaves them empty.
    const ADDED_COLUMNS: &'static [(&'static str, &'static str)] = &[];

    /// Tables that a journal may lack likewise, as SQL that makes them where they aren't.
    const ADDED_TABLES: &'static str = "";

    /// Writes it beside the others, as one that was disturbed and run again. Nothing can disturb a sample.
    ///
    /// # Errors
    /// SQLite's.
    fn insert_disturbed(&self, _connection: &Connection) -> rusqlite::Result<()> {
        Ok(())
    }

    /// Reads those, in the order in which they were run.
    ///
    /// # Errors
    /// [`RowError`].
    fn read_disturbed(_tables: &Tables) -> Result<Vec<Self>, RowError> {
        Ok(Vec::new())
    }

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
    fn read_all(tables: &Tables, detail: Detail) -> Result<Vec<Self>, RowError>;

    /// The same from a journal of version 1 or 2.
    ///
    /// # Errors
    /// [`RowError`].
    fn read_older(tables: &Tables, detail: Detail) -> Result<Vec<Self>, RowError>;
}

/// How much of each trial is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Everything, as to write it again.
    Everything,
    /// What reports tell: all but the last of the output, up to 4 KiB, of those that went well.
    Told,
    /// What decides when a study has enough: all but what [`Row::forget_details`] forgets.
    Deciding,
}

/// Why a row can't be read.
#[derive(Debug)]
pub enum RowError {
    /// SQLite can't.
    Sql(rusqlite::Error),
    /// It holds what no study writes, in a sentence.
    Damaged(String),
    /// There is more than is read: of what, as the end of a sentence.
    TooLarge(String),
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

/// What one reading of a journal may take in memory, in MiB: its file is somebody's, and may be made to take all.
const MOST_MIB: u64 = 256;

/// What an element of a JSON list or object takes in memory at most, in bytes.
const JSON_ELEMENT_BYTES: usize = 32;

/// What a set of CPUs takes in memory, in bytes: without any, and for each.
const CPU_SET_BYTES: (usize, usize) = (88, 8);

/// No study has so large a number of a block or of a run: what counts on from it stays a number.
const LARGEST_NUMBER: u32 = i32::MAX as u32;

/// The tables of a journal while it is read, and how much more may be taken from them.
pub struct Tables<'a> {
    connection: &'a Connection,
    left_bytes: Cell<u64>,
    /// The sets of CPUs that were read, each once: the threads of large studies have few different ones.
    sets: RefCell<HashMap<String, CpuSet>>,
}

impl<'a> Tables<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Self {
        Self { connection, left_bytes: Cell::new(MOST_MIB << 20), sets: RefCell::default() }
    }

    /// Whether there is such a table.
    pub(crate) fn has(&self, table: &str) -> Result<bool, RowError> {
        Ok(self.connection.table_exists(None, table)?)
    }

    /// What `read` finds in each of the rows that `sql` selects.
    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        read: impl Fn(&Columns) -> Result<T, RowError>,
    ) -> Result<Vec<T>, RowError> {
        let mut statement = self.prepare(sql)?;
        let names = ColumnNames::default();
        let rows = statement.query_and_then([], |row| self.read(row, &names, &read))?;
        let mut found: Vec<T> = rows.collect::<Result<_, RowError>>()?;
        // The threads of a trial are few, and there may be a hundred thousand trials: what vectors have left over adds up.
        found.shrink_to_fit();
        Ok(found)
    }

    /// The rows that `sql` selects, for a reader that goes through them at its own pace.
    pub(crate) fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>, RowError> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    /// What `read` finds in a row.
    pub(crate) fn read<T>(
        &self,
        row: &SqlRow,
        names: &ColumnNames,
        read: impl Fn(&Columns) -> Result<T, RowError>,
    ) -> Result<T, RowError> {
        self.take(size_of::<T>())?;
        read(&Columns { row, names, tables: self })
    }

    /// The same set, in memory that all equal ones share.
    pub(crate) fn shared(&self, set: CpuSet) -> Result<CpuSet, RowError> {
        let text = set.to_string();
        if let Some(known) = self.sets.borrow().get(&text) {
            return Ok(known.clone());
        }
        let (base, each) = CPU_SET_BYTES;
        self.take(base + each * set.len() + text.len())?;
        Ok(self.sets.borrow_mut().entry(text).or_insert(set).clone())
    }

    /// Counts what something takes in memory.
    fn take(&self, bytes: usize) -> Result<(), RowError> {
        let left = self.left_bytes.get().checked_sub(bytes as u64);
        let left = left.ok_or_else(|| RowError::TooLarge(format!("all of it takes more than {MOST_MIB} MiB")))?;
        self.left_bytes.set(left);
        Ok(())
    }
}

/// The names of a statement's columns, asked for once: SQLite takes longer to name a column than to read it.
#[derive(Default)]
pub(crate) struct ColumnNames(OnceCell<Vec<String>>);

impl ColumnNames {
    /// The names as of the first row: a statement that was prepared before columns were added doesn't know these until it runs.
    fn get(&self, row: &SqlRow) -> &[String] {
        self.0.get_or_init(|| row.as_ref().column_names().map(str::to_owned).collect())
    }
}

/// The columns of a row that is read, by name.
pub(crate) struct Columns<'a> {
    row: &'a SqlRow<'a>,
    names: &'a ColumnNames,
    tables: &'a Tables<'a>,
}

impl Columns<'_> {
    fn position(&self, column: &str) -> Option<usize> {
        self.names.get(self.row).iter().position(|name| name == column)
    }

    pub(crate) fn get<T: FromSql>(&self, column: &str) -> Result<T, RowError> {
        let missing = || rusqlite::Error::InvalidColumnName(column.to_owned());
        let position = self.position(column).ok_or_else(missing)?;
        if let ValueRef::Text(text) | ValueRef::Blob(text) = self.row.get_ref(position)? {
            self.tables.take(text.len())?;
        }
        Ok(self.row.get(position)?)
    }

    /// A set of CPUs in the kernel's list format, where there is one.
    pub(crate) fn optional_cpus(&self, column: &str) -> Result<Option<CpuSet>, RowError> {
        let text: Option<String> = self.get(column)?;
        let cpus = text.map(|text| text.parse::<CpuSet>()).transpose();
        let cpus = cpus.map_err(|error| RowError::Damaged(format!("{column}: {error}")))?;
        cpus.map(|cpus| self.tables.shared(cpus)).transpose()
    }

    pub(crate) fn cpus(&self, column: &str) -> Result<CpuSet, RowError> {
        required(self.optional_cpus(column)?, column)
    }

    /// The number of a block or of a run.
    pub(crate) fn number(&self, column: &str) -> Result<u32, RowError> {
        let number: u32 = self.get(column)?;
        if number > LARGEST_NUMBER {
            return Err(RowError::Damaged(format!("{column} is {number}")));
        }
        Ok(number)
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, RowError> {
        self.parsed(&self.get::<String>(column)?, column)
    }

    pub(crate) fn optional_json<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>, RowError> {
        let text: Option<String> = self.get(column)?;
        text.map(|text| self.parsed(&text, column)).transpose()
    }

    fn parsed<T: DeserializeOwned>(&self, text: &str, column: &str) -> Result<T, RowError> {
        let elements = text.bytes().filter(|byte| b",[{".contains(byte)).count();
        self.tables.take(elements * JSON_ELEMENT_BYTES)?;
        from_json(text, &format!("column {column}"))
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
        self.position(column).is_some()
    }

    pub(crate) fn count(&self, column: &str) -> Result<u64, RowError> {
        required(self.optional_count(column)?, column)
    }

    /// A time that a clock can tell, where there is one.
    pub(crate) fn optional_seconds(&self, column: &str) -> Result<Option<f64>, RowError> {
        let time_s: Option<f64> = self.get(column)?;
        match time_s.filter(|time_s| !(time_s.is_finite() && *time_s >= 0.0)) {
            Some(time_s) => Err(RowError::Damaged(format!("{column} is {time_s:e}"))),
            None => Ok(time_s),
        }
    }

    /// The same of a column that not every journal has.
    pub(crate) fn added_seconds(&self, column: &str) -> Result<Option<f64>, RowError> {
        if self.has(column) { self.optional_seconds(column) } else { Ok(None) }
    }

    /// A text that journals used not to keep.
    pub(crate) fn added(&self, column: &str) -> Result<Option<String>, RowError> {
        if self.has(column) { self.get(column) } else { Ok(None) }
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
