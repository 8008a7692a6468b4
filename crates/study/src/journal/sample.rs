//! Samples of what is simulated or replayed in a journal: the tables `sample`, `metric`, `measurement` and `histogram`.

use crate::row::{Columns, Detail, Row, RowError, Tables, insert, to_json};
use crate::sample::{Failure, FailureCause, Measurements, Sample, by_metric};
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use stats::Metric;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

/// How the status of a sample that didn't fail is written.
const OK: &str = "ok";

impl Row for Sample {
    const TABLES: &'static str = "
CREATE TABLE sample (
    sequence INTEGER PRIMARY KEY,
    replicate INTEGER NOT NULL,
    subject TEXT NOT NULL,
    policy TEXT NOT NULL,
    started_s REAL NOT NULL,
    status TEXT NOT NULL,
    what TEXT NOT NULL,
    makespan_s REAL,
    notes TEXT,
    UNIQUE (replicate, subject, policy)
) STRICT;
CREATE TABLE metric (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    unit TEXT NOT NULL,
    better TEXT NOT NULL,
    by TEXT,
    job TEXT,
    UNIQUE (name, unit, better, by, job)
) STRICT;
CREATE TABLE measurement (
    sequence INTEGER NOT NULL REFERENCES sample (sequence),
    metric INTEGER NOT NULL REFERENCES metric (id),
    value REAL NOT NULL,
    PRIMARY KEY (sequence, metric)
) STRICT, WITHOUT ROWID;
CREATE TABLE histogram (
    sequence INTEGER NOT NULL REFERENCES sample (sequence),
    metric INTEGER NOT NULL REFERENCES metric (id),
    counts TEXT NOT NULL,
    PRIMARY KEY (sequence, metric)
) STRICT, WITHOUT ROWID;
";

    fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        let (status, what) = match &self.result {
            Ok(_) => (OK.to_owned(), ""),
            Err(failure) => (failure.cause.to_string(), failure.what.as_str()),
        };
        let measured = self.measurements();
        insert(
            connection,
            "sample",
            &[
                ("sequence", &self.sequence),
                ("replicate", &self.replicate),
                ("subject", &self.subject),
                ("policy", &self.policy),
                ("started_s", &self.started_s),
                ("status", &status),
                ("what", &what),
                ("makespan_s", &measured.map(|m| m.makespan_s)),
                ("notes", &measured.map(|m| to_json(&m.notes))),
            ],
        )?;
        let add = |table: &str, metric: &Metric, column: &str, value: &dyn ToSql| {
            let metric = metric_id(connection, metric)?;
            insert(connection, table, &[("sequence", &self.sequence), ("metric", &metric), (column, value)])
        };
        let Some(measured) = measured else { return Ok(()) };
        measured.metrics.iter().try_for_each(|(metric, value)| add("measurement", metric, "value", value))?;
        let mut histograms = measured.histograms.iter();
        histograms.try_for_each(|(metric, counts)| add("histogram", metric, "counts", &to_json(counts)))
    }

    fn read_all(tables: &Tables, _detail: Detail) -> Result<Vec<Self>, RowError> {
        let metrics = metrics_by_id(tables)?;
        let metric = |row: &Columns| {
            let id: i64 = row.get("metric")?;
            metrics.get(&id).cloned().ok_or_else(|| RowError::Damaged(format!("there is no metric {id}")))
        };
        let numbers = by_sample(tables, "measurement", |row| Ok((metric(row)?, row.get("value")?)))?;
        let histograms = by_sample(tables, "histogram", |row| Ok((metric(row)?, row.json("counts")?)))?;
        let (numbers, histograms) = (RefCell::new(numbers), RefCell::new(histograms));
        tables.rows("SELECT * FROM sample ORDER BY sequence", |row| {
            let sequence = row.number("sequence")?;
            let metrics = numbers.borrow_mut().remove(&sequence).unwrap_or_default();
            let histograms = histograms.borrow_mut().remove(&sequence).unwrap_or_default();
            let status: String = row.get("status")?;
            let result = if status == OK {
                Ok(Measurements {
                    makespan_s: row.seconds("makespan_s")?,
                    metrics,
                    histograms,
                    notes: row.json("notes")?,
                })
            } else {
                let cause = status.parse().map_err(|_| RowError::Damaged(format!("status is {status}")))?;
                Err(Failure { cause, what: row.get("what")? })
            };
            Ok(Self {
                sequence,
                replicate: row.number("replicate")?,
                subject: row.get("subject")?,
                policy: row.get("policy")?,
                started_s: row.seconds("started_s")?,
                result,
            })
        })
    }

    /// They stood among the trials of programs, metrics and histograms as JSON objects.
    fn read_older(tables: &Tables, _detail: Detail) -> Result<Vec<Self>, RowError> {
        tables.rows("SELECT * FROM trial ORDER BY sequence", |row| {
            let result = match row.get::<Option<String>>("exit")? {
                None => Err(Failure { cause: FailureCause::Unknown, what: row.get("cause")? }),
                Some(_) => Ok(Measurements {
                    makespan_s: row.seconds("wall_s")?,
                    metrics: by_metric(row.optional_json("metrics")?.unwrap_or_default()),
                    histograms: by_metric(row.optional_json("histograms")?.unwrap_or_default()),
                    notes: row.json("notes")?,
                }),
            };
            Ok(Self {
                sequence: row.number("sequence")?,
                replicate: row.number("block")?,
                subject: row.get("subject")?,
                policy: row.get("placement")?,
                started_s: row.seconds("started_unix_s")?,
                result,
            })
        })
    }
}

/// The row of `metric`, made where there is none.
fn metric_id(connection: &Connection, metric: &Metric) -> rusqlite::Result<i64> {
    let Metric { name, job, .. } = metric;
    let (unit, better, by) = (word(&metric.unit), word(&metric.better), metric.by.as_ref().map(to_json));
    let found = connection
        .prepare_cached(
            "SELECT id FROM metric WHERE name = ?1 AND unit = ?2 AND better = ?3 AND by IS ?4 AND job IS ?5",
        )?
        .query_row(params![name, unit, better, by, job], |row| row.get(0))
        .optional()?;
    if let Some(id) = found {
        return Ok(id);
    }
    insert(connection, "metric", &[("name", name), ("unit", &unit), ("better", &better), ("by", &by), ("job", job)])?;
    Ok(connection.last_insert_rowid())
}

/// What `read` finds in the rows of `table`, by the number of the sample that they belong to: in one go, which needs no index.
fn by_sample<K: Ord, V>(
    tables: &Tables,
    table: &str,
    read: impl Fn(&Columns) -> Result<(K, V), RowError>,
) -> Result<HashMap<u32, BTreeMap<K, V>>, RowError> {
    let mut found: HashMap<u32, BTreeMap<K, V>> = HashMap::new();
    let all = tables.rows(&format!("SELECT * FROM {table}"), |row| Ok((row.number("sequence")?, read(row)?)))?;
    for (sequence, (key, value)) in all {
        found.entry(sequence).or_default().insert(key, value);
    }
    Ok(found)
}

fn metrics_by_id(tables: &Tables) -> Result<HashMap<i64, Metric>, RowError> {
    let metrics = tables.rows("SELECT * FROM metric", |row| {
        let metric = Metric {
            name: row.get::<String>("name")?.into(),
            unit: row.variant("unit")?,
            better: row.variant("better")?,
            by: row.optional_json("by")?,
            job: row.get("job")?,
        };
        Ok((row.get("id")?, metric))
    })?;
    Ok(metrics.into_iter().collect())
}

/// A variant without data by the name that serde gives it.
fn word(variant: &impl serde::Serialize) -> String {
    to_json(variant).trim_matches('"').to_owned()
}
