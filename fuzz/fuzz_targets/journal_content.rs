//! A journal whose rows, values, plan, schema or pages somebody changed is refused or read, and left as it is; of what was read every
//! form of report can be made. The changes are drawn from the input, so that what comes out is a SQLite file more often than not.
#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use report::{Format, Screen, Study};
use rusqlite::Connection;
use rusqlite::types::Value as Cell;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use study::journal;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a temporary folder"));

/// Small journals of each kind and version.
static JOURNALS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/report/tests/journals");
    let names = ["failures", "race-model", "simulation", "space-sharing", "play", "unfinished", "version-1-failures"];
    let read =
        |name: &str| fs::read(folder.join(format!("{name}.stayput"))).expect("the journals of the report's tests");
    names.iter().map(|name| read(name)).collect()
});

const TABLES: [&str; 8] = ["study", "session", "trial", "thread", "sample", "metric", "measurement", "histogram"];

/// What somebody may write into a schema.
const SCHEMAS: [&str; 6] = [
    "CREATE VIEW v AS SELECT 1",
    "CREATE TRIGGER t AFTER INSERT ON session BEGIN DELETE FROM session; END",
    "CREATE INDEX i ON session (hex(before))",
    "ALTER TABLE session ADD COLUMN g TEXT AS (hex(before))",
    "DROP INDEX thread_by_trial",
    "ALTER TABLE session RENAME TO s; CREATE VIEW session AS \
     WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT s.* FROM s, n",
];

fuzz_target!(|input: &[u8]| {
    let mut input = Unstructured::new(input);
    let Ok(base) = input.choose(&JOURNALS) else { return };
    let path = FOLDER.path().join("a.stayput");
    for beside in ["", "-journal", "-shm", "-wal"] {
        let _ = fs::remove_file(FOLDER.path().join(format!("a.stayput{beside}")));
    }
    fs::write(&path, base).expect("the temporary folder can be written");
    let db = Connection::open(&path).expect("a journal is a database");
    // What can't be changed so stays as it is.
    let _ = change_rows(&db, &mut input);
    drop(db);
    let mut content = fs::read(&path).expect("it was written");
    // None, more often than not.
    let bytes = input.int_in_range(0..=12).unwrap_or(0_usize).saturating_sub(7);
    for _ in 0..bytes {
        let Ok(at) = input.choose_index(content.len()) else { break };
        content[at] = input.arbitrary().unwrap_or_default();
    }
    fs::write(&path, &content).expect("the temporary folder can be written");

    let _ = journal::glance(&path);
    let study = Study::read(&path);
    assert!(fs::read(&path).expect("the file is still there") == content, "reading changed the file");
    if let Ok(study) = study {
        for format in [Format::Terminal, Format::Html, Format::Markdown, Format::Latex, Format::Csv, Format::Json] {
            study.write(format, Screen { width: 100, colour: true });
        }
    }
});

fn change_rows(db: &Connection, input: &mut Unstructured) -> Result<()> {
    // Any value may then stand in any column.
    let lax = "UPDATE sqlite_schema SET sql = replace(replace(sql, ' STRICT,', ''), ' STRICT', '')";
    let _ = db.execute_batch(&format!("PRAGMA writable_schema = ON; {lax}; PRAGMA writable_schema = RESET"));
    let _ = db.execute_batch("PRAGMA ignore_check_constraints = ON");
    for _ in 0..input.int_in_range(1..=4)? {
        let table = input.choose(&TABLES)?;
        match input.int_in_range(0..=9)? {
            0 => drop(db.execute_batch(input.choose(&SCHEMAS)?)),
            1 => drop(db.execute_batch(&format!("DELETE FROM {table} WHERE rowid % 2 = 0"))),
            2..=5 => change_value(db, table, input)?,
            _ => change_json(db, input)?,
        }
    }
    Ok(())
}

/// Another value in a column of some rows.
fn change_value(db: &Connection, table: &str, input: &mut Unstructured) -> Result<()> {
    let Ok(mut statement) = db.prepare(&format!("PRAGMA table_info({table})")) else { return Ok(()) };
    let names =
        statement.query_map([], |row| row.get::<_, String>(1)).and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>);
    let names = names.unwrap_or_default();
    if names.is_empty() {
        return Ok(());
    }
    let column = input.choose(&names)?;
    let value = match input.int_in_range(0..=5)? {
        0 => Cell::Null,
        1 => Cell::Integer(*input.choose(&[
            0,
            -1,
            1,
            2,
            i64::from(i32::MAX),
            i64::from(u32::MAX),
            i64::MAX,
            i64::MIN,
        ])?),
        2 => Cell::Integer(input.arbitrary()?),
        3 => {
            Cell::Real(*input.choose(&[0.0, -0.0, -1.0, 1e-320, 1e308, f64::INFINITY, f64::NEG_INFINITY, 0.5, 1e15])?)
        }
        4 => Cell::Text(number(input)?.to_string()),
        _ => Cell::Text(input.arbitrary()?),
    };
    let every = input.int_in_range(1..=3)?;
    let _ = db.execute(&format!("UPDATE {table} SET {column} = ?1 WHERE rowid % {every} = 0"), [value]);
    Ok(())
}

/// Another value somewhere in a JSON text.
fn change_json(db: &Connection, input: &mut Unstructured) -> Result<()> {
    let places = [
        ("study", "plan"),
        ("study", "plan"),
        ("study", "machine"),
        ("study", "host"),
        ("session", "before"),
        ("session", "after"),
        ("trial", "exit"),
        ("trial", "counters"),
        ("trial", "intended_cpus"),
        ("histogram", "counts"),
        ("study", "ending"),
    ];
    let (table, column) = *input.choose(&places)?;
    let text = db.query_row(&format!("SELECT {column} FROM {table} WHERE {column} IS NOT NULL LIMIT 1"), [], |row| {
        row.get::<_, String>(0)
    });
    let Some(mut json) = text.ok().and_then(|text| serde_json::from_str::<Value>(&text).ok()) else { return Ok(()) };
    change_within(&mut json, input)?;
    let _ = db.execute(&format!("UPDATE {table} SET {column} = ?1 WHERE {column} IS NOT NULL"), [json.to_string()]);
    Ok(())
}

/// Changes the value, or one within it.
fn change_within(value: &mut Value, input: &mut Unstructured) -> Result<()> {
    let is_here = input.ratio(1, 12)?;
    match value {
        Value::Array(items) if !items.is_empty() && !is_here => {
            let at = input.choose_index(items.len())?;
            change_within(&mut items[at], input)
        }
        Value::Object(fields) if !fields.is_empty() && !is_here => {
            let at = input.choose_index(fields.len())?;
            change_within(fields.values_mut().nth(at).expect("it was counted"), input)
        }
        other => {
            *other = changed(other, input)?;
            Ok(())
        }
    }
}

fn changed(value: &Value, input: &mut Unstructured) -> Result<Value> {
    Ok(match (value, input.int_in_range(0..=4)?) {
        (Value::Array(items), 0 | 1) => {
            let times = input.int_in_range(0..=40)?;
            items.iter().cycle().take(items.len() * times).cloned().collect()
        }
        (Value::Array(items), 2) => items.iter().rev().skip(1).cloned().collect(),
        (Value::Object(_) | Value::Array(_), 3) => value.clone(),
        (Value::String(text), 0) => json!(text.repeat(input.int_in_range(0..=200)?)),
        (_, 0) => Value::Null,
        (_, 1) => json!(input.arbitrary::<String>()?),
        _ => number(input)?,
    })
}

fn number(input: &mut Unstructured) -> Result<Value> {
    Ok(match input.int_in_range(0..=3)? {
        0 => json!(input.choose(&[0, 1, 2, 255, 65_535, 65_536, u64::from(u32::MAX), 1 << 53, u64::MAX, 8192])?),
        1 => json!(input.choose(&[0.0, -1.0, 1e-300, 1e300, 0.5, 0.999_999, 1.0])?),
        2 => json!(input.arbitrary::<i32>()?),
        _ => json!(input.arbitrary::<u16>()?),
    })
}
