//! Samples of what is simulated or replayed in a journal: the tables `sample`, `metric`, `measurement` and `histogram`.

use super::{JournalError, Reader, Row, to_json};
use crate::sample::{Failure, FailureCause, Measurements, Sample};
use rusqlite::{Connection, OptionalExtension, params};
use stats::Metric;
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
        connection
            .prepare_cached(
                "INSERT INTO sample (sequence, replicate, subject, policy, started_s, status, what, makespan_s, notes)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                self.sequence,
                self.replicate,
                self.subject,
                self.policy,
                self.started_s,
                status,
                what,
                measured.map(|m| m.makespan_s),
                measured.map(|m| to_json(&m.notes)),
            ])?;
        let mut number =
            connection.prepare_cached("INSERT INTO measurement (sequence, metric, value) VALUES (?1, ?2, ?3)")?;
        let mut histogram =
            connection.prepare_cached("INSERT INTO histogram (sequence, metric, counts) VALUES (?1, ?2, ?3)")?;
        for (metric, value) in measured.iter().flat_map(|m| &m.metrics) {
            number.execute(params![self.sequence, metric_id(connection, metric)?, value])?;
        }
        for (metric, counts) in measured.iter().flat_map(|m| &m.histograms) {
            histogram.execute(params![self.sequence, metric_id(connection, metric)?, to_json(counts)])?;
        }
        Ok(())
    }

    fn read_all(reader: &Reader) -> Result<Vec<Self>, JournalError> {
        let metrics = metrics_by_id(reader)?;
        let metric = |id: i64| metrics.get(&id).ok_or_else(|| reader.damaged(format!("there is no metric {id}")));
        let mut numbers =
            reader.sql(reader.connection.prepare("SELECT metric, value FROM measurement WHERE sequence = ?1"))?;
        let mut histograms =
            reader.sql(reader.connection.prepare("SELECT metric, counts FROM histogram WHERE sequence = ?1"))?;
        let mut statement = reader.sql(reader.connection.prepare("SELECT * FROM sample ORDER BY sequence"))?;
        let mut rows = reader.sql(statement.query([]))?;
        let mut samples = Vec::new();
        while let Some(row) = reader.sql(rows.next())? {
            let sequence: u32 = reader.column(row, "sequence")?;
            let status: String = reader.column(row, "status")?;
            let result = if status == OK {
                let mut measured = Measurements {
                    makespan_s: reader.seconds(row, "makespan_s")?,
                    notes: reader.json_column(row, "notes")?,
                    ..Measurements::default()
                };
                let mut found = reader.sql(numbers.query([sequence]))?;
                while let Some(row) = reader.sql(found.next())? {
                    let value = reader.column(row, "value")?;
                    measured.metrics.insert(metric(reader.column(row, "metric")?)?.clone(), value);
                }
                let mut found = reader.sql(histograms.query([sequence]))?;
                while let Some(row) = reader.sql(found.next())? {
                    let counts = reader.json_column(row, "counts")?;
                    measured.histograms.insert(metric(reader.column(row, "metric")?)?.clone(), counts);
                }
                Ok(measured)
            } else {
                let cause = status.parse().map_err(|_| reader.damaged(format!("status is {status}")))?;
                Err(Failure { cause, what: reader.column(row, "what")? })
            };
            samples.push(Self {
                sequence,
                replicate: reader.column(row, "replicate")?,
                subject: reader.column(row, "subject")?,
                policy: reader.column(row, "policy")?,
                started_s: reader.seconds(row, "started_s")?,
                result,
            });
        }
        Ok(samples)
    }

    /// They stood among the trials of programs, metrics and histograms as JSON objects.
    fn read_older(reader: &Reader) -> Result<Vec<Self>, JournalError> {
        let mut statement = reader.sql(reader.connection.prepare("SELECT * FROM trial ORDER BY sequence"))?;
        let mut rows = reader.sql(statement.query([]))?;
        let mut samples = Vec::new();
        while let Some(row) = reader.sql(rows.next())? {
            let result = match reader.column::<Option<String>>(row, "exit")? {
                None => Err(Failure { cause: FailureCause::Unknown, what: reader.column(row, "cause")? }),
                Some(_) => Ok(Measurements {
                    makespan_s: reader.seconds(row, "wall_s")?,
                    metrics: by_metric(reader.optional_json_column(row, "metrics")?),
                    histograms: by_metric(reader.optional_json_column(row, "histograms")?),
                    notes: reader.json_column(row, "notes")?,
                }),
            };
            samples.push(Self {
                sequence: reader.column(row, "sequence")?,
                replicate: reader.column(row, "block")?,
                subject: reader.column(row, "subject")?,
                policy: reader.column(row, "placement")?,
                started_s: reader.seconds(row, "started_unix_s")?,
                result,
            });
        }
        Ok(samples)
    }
}

/// Values by metric, from values by the metrics' written names.
fn by_metric<T>(by_name: Option<BTreeMap<String, T>>) -> BTreeMap<Metric, T> {
    by_name.into_iter().flatten().map(|(name, value)| (Metric::from_name(&name), value)).collect()
}

/// The row of `metric`, made where there is none.
fn metric_id(connection: &Connection, metric: &Metric) -> rusqlite::Result<i64> {
    let (unit, better, by) = (word(&metric.unit), word(&metric.better), metric.by.as_ref().map(to_json));
    let found = connection
        .prepare_cached(
            "SELECT id FROM metric WHERE name = ?1 AND unit = ?2 AND better = ?3 AND by IS ?4 AND job IS ?5",
        )?
        .query_row(params![metric.name, unit, better, by, metric.job], |row| row.get(0))
        .optional()?;
    if let Some(id) = found {
        return Ok(id);
    }
    connection
        .prepare_cached("INSERT INTO metric (name, unit, better, by, job) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![metric.name, unit, better, by, metric.job])?;
    Ok(connection.last_insert_rowid())
}

fn metrics_by_id(reader: &Reader) -> Result<HashMap<i64, Metric>, JournalError> {
    let mut statement = reader.sql(reader.connection.prepare("SELECT * FROM metric"))?;
    let mut rows = reader.sql(statement.query([]))?;
    let mut metrics = HashMap::new();
    while let Some(row) = reader.sql(rows.next())? {
        let variant = |column: &str| reader.column::<String>(row, column).map(|text| to_json(&text));
        let metric = Metric {
            name: reader.column::<String>(row, "name")?.into(),
            unit: reader.json(&variant("unit")?, "column unit")?,
            better: reader.json(&variant("better")?, "column better")?,
            by: reader.optional_json_column(row, "by")?,
            job: reader.column(row, "job")?,
        };
        metrics.insert(reader.column(row, "id")?, metric);
    }
    Ok(metrics)
}

/// A variant without data by the name that serde gives it.
fn word(variant: &impl serde::Serialize) -> String {
    to_json(variant).trim_matches('"').to_owned()
}
