//! A journal is somebody's file. Whatever it holds, whoever reads it gets an answer soon, or a sentence, and keeps their memory.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use rusqlite::{Connection, params_from_iter};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// Address space that a command may use, in KiB: 500 MB, and what the loader maps of an executable with debug information.
const MOST_KIB: u32 = 700_000;

/// Runs stayput with a watchdog and bounded memory. Its exit code is 124 or more when either had to step in.
fn stayput(words: &[&str], folder: &Path) -> Output {
    let script = format!("ulimit -v {MOST_KIB}; exec timeout --signal KILL 60 \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, STAYPUT]).args(words).current_dir(folder).stdin(Stdio::null());
    command.env("RAYON_NUM_THREADS", "2").output().unwrap()
}

/// A small journal of a comparison, made by a real study.
fn journal(folder: &Path) -> PathBuf {
    let words =
        ["study", "--quiet", "--no-report", "-n", "1", "--place", "unbound,0", "--min-runs", "3", "--max-runs", "3"];
    let output = stayput(&[&words[..], &["--out", "small.stayput", "--", "/bin/true"]].concat(), folder);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder.join("small.stayput")
}

/// A small journal of a simulation.
fn simulation(folder: &Path) -> PathBuf {
    let words = ["simulate", "time-sharing", "--replicates", "1", "--workload", "Matrix+Matrix", "--policy", "light"];
    let output = stayput(&[&words[..], &["--out", "simulated.stayput"]].concat(), folder);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder.join("simulated.stayput")
}

/// Changes the plan in a journal.
fn change_plan(db: &Connection, change: impl Fn(&mut Value)) {
    let plan: String = db.query_row("SELECT plan FROM study", [], |row| row.get(0)).unwrap();
    let mut plan: Value = serde_json::from_str(&plan).unwrap();
    change(&mut plan);
    db.execute("UPDATE study SET plan = ?1", [plan.to_string()]).unwrap();
}

/// Makes the list `key` of a plan so many copies of its last item, each with a name of its own.
fn multiply(db: &Connection, key: &str, count: usize) {
    change_plan(db, |plan| {
        let last = plan[key].as_array().unwrap().last().unwrap().clone();
        let named = |number: usize| {
            let mut item = last.clone();
            item["name"] = json!(format!("n{number}"));
            item
        };
        plan[key] = (0..count).map(named).collect();
    });
}

fn columns(db: &Connection, table: &str) -> Vec<String> {
    let mut statement = db.prepare(&format!("PRAGMA table_info({table})")).unwrap();
    statement.query_map([], |row| row.get(1)).unwrap().map(Result::unwrap).collect()
}

/// Replaces a table by a view of its rows that never ends.
fn endless_view(db: &Connection, table: &str) {
    let columns = columns(db, table).join(", ");
    db.execute_batch(&format!(
        "ALTER TABLE {table} RENAME TO hidden; CREATE VIEW {table} AS WITH RECURSIVE n(x) AS \
         (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {columns} FROM n, hidden;"
    ))
    .unwrap();
}

/// Rewrites the schema's SQL by hand, as an editor of bytes could.
fn rewrite_schema(db: &Connection, from: &str, to: &str) {
    db.execute_batch("PRAGMA writable_schema = ON").unwrap();
    let changed = db.execute("UPDATE sqlite_schema SET sql = replace(sql, ?1, ?2)", [from, to]).unwrap();
    assert!(changed > 0);
}

/// Appends `count` copies of the last row of `table`; `number` is the column that numbers them.
fn copies(db: &Connection, table: &str, number: &[&str], count: i64) {
    let columns = columns(db, table);
    let row = format!("SELECT * FROM {table} ORDER BY rowid DESC LIMIT 1");
    let row: Vec<rusqlite::types::Value> =
        db.query_row(&row, [], |row| Ok((0..columns.len()).map(|column| row.get(column).unwrap()).collect())).unwrap();
    let places = vec!["?"; columns.len()].join(", ");
    db.execute_batch("BEGIN").unwrap();
    let mut insert = db.prepare(&format!("INSERT INTO {table} VALUES ({places})")).unwrap();
    for copy in 0..count {
        let mut row = row.clone();
        for (value, _) in row.iter_mut().zip(&columns).filter(|(_, name)| number.contains(&name.as_str())) {
            *value = rusqlite::types::Value::Integer(1000 + copy);
        }
        insert.execute(params_from_iter(row)).unwrap();
    }
    db.execute_batch("COMMIT").unwrap();
}

/// What is done to a journal, and what the answer says; nothing where a report is as good.
type Case = (&'static str, fn(&Connection), Option<&'static str>);

const COMPARISONS: &[Case] = &[
    ("study is a view", |db| endless_view(db, "study"), Some("that no stayput writes")),
    ("session is a view", |db| endless_view(db, "session"), Some("that no stayput writes")),
    ("trial is a view", |db| endless_view(db, "trial"), Some("that no stayput writes")),
    ("thread is a view", |db| endless_view(db, "thread"), Some("that no stayput writes")),
    (
        "a trigger",
        |db| db.execute_batch("CREATE TRIGGER t AFTER INSERT ON session BEGIN DELETE FROM trial; END").unwrap(),
        Some("a trigger `t` that no stayput writes"),
    ),
    (
        "a computed column",
        |db| {
            let sql = "ALTER TABLE trial ADD COLUMN g TEXT GENERATED ALWAYS AS (hex(zeroblob(100000000))) VIRTUAL";
            db.execute_batch(sql).unwrap();
        },
        Some("a table `trial` that no stayput writes"),
    ),
    (
        "a check that works hard",
        |db| rewrite_schema(db, "CHECK (id = 1)", "CHECK (length(hex(zeroblob(100000000))) > id)"),
        Some("a table `study` that no stayput writes"),
    ),
    (
        "an index of expressions",
        |db| db.execute_batch("CREATE INDEX i ON trial (hex(zeroblob(1000000)))").unwrap(),
        Some("an index `i` that no stayput writes"),
    ),
    (
        "2,000 tables",
        |db| {
            db.execute_batch("BEGIN").unwrap();
            (0..2000).for_each(|n| db.execute_batch(&format!("CREATE TABLE t{n} (a)")).unwrap());
            db.execute_batch("COMMIT").unwrap();
        },
        Some("a table `t0` that no stayput writes"),
    ),
    (
        "a text of 60 MB",
        |db| {
            let sql = "UPDATE trial SET output_tail = hex(zeroblob(30000000)) WHERE sequence = 0";
            db.execute_batch(sql).unwrap();
        },
        Some("a value has more than 8 MiB"),
    ),
    (
        "a blob of 100 MB in a text's place",
        |db| {
            rewrite_schema(db, "STRICT", "");
            db.execute_batch("PRAGMA writable_schema = RESET").unwrap();
            db.execute_batch("UPDATE session SET command_line = zeroblob(100000000)").unwrap();
        },
        Some("a value has more than 8 MiB"),
    ),
    (
        "a machine of 20 MB",
        |db| {
            let list = "UPDATE study SET machine = '[' || replace(hex(zeroblob(10000000)), '00', '1,') || '1]'";
            db.execute_batch(list).unwrap();
        },
        Some("a value has more than 8 MiB"),
    ),
    (
        "a machine of 4 million numbers",
        |db| {
            let list = "UPDATE study SET machine = '[' || replace(hex(zeroblob(4000000)), '00', '1,') || '1]'";
            db.execute_batch(list).unwrap();
        },
        None,
    ),
    (
        "20 million empty notes",
        |db| {
            let list = "UPDATE trial SET notes = '[' || replace(hex(zeroblob(2500000)), '00', '\"\",') || '\"\"]'";
            db.execute_batch(list).unwrap();
        },
        Some("all of it takes more than"),
    ),
    (
        "ever different sets of many CPUs",
        |db| {
            copies(db, "thread", &[], 3000);
            db.execute_batch("UPDATE thread SET actual_cpus = '0-' || (60000 + rowid)").unwrap();
        },
        Some("all of it takes more than"),
    ),
    (
        "a word of a megabyte",
        |db| drop(db.execute_batch("UPDATE trial SET status = hex(zeroblob(500000))")),
        Some("is damaged"),
    ),
    ("a time beyond all", |db| drop(db.execute_batch("UPDATE trial SET time_s = -1e308")), Some("time_s is -1e308")),
    ("20,000 subjects", |db| multiply(db, "subjects", 20_000), Some("20000 subjects are too many; 1000 are the most")),
    (
        "40,000 placements",
        |db| multiply(db, "treatments", 40_000),
        Some("40000 placements are too many; 30000 are the most"),
    ),
    (
        "200,000 thread counts",
        |db| change_plan(db, |plan| plan["threads"] = (1..200_000).collect()),
        Some("199999 thread counts are too many"),
    ),
    (
        "a thread count of none",
        |db| change_plan(db, |plan| plan["threads"] = json!([0])),
        Some("0 is no thread count; it is 1 to 65536"),
    ),
    (
        "a regular expression of 1 MB",
        |db| change_plan(db, |plan| plan["subjects"][0]["time_regex"] = json!(format!("({})", "a".repeat(1_000_000)))),
        Some("has 1000002 bytes; 4096 are the most"),
    ),
    (
        "a regular expression of 300,000 classes",
        |db| change_plan(db, |plan| plan["subjects"][0]["time_regex"] = json!(format!("({})", r"\w".repeat(300_000)))),
        Some("bytes; 4096 are the most"),
    ),
    (
        "a regular expression that grows",
        |db| change_plan(db, |plan| plan["subjects"][0]["verified_regex"] = json!("((a{999}){999}){999}")),
        Some("is no regular expression"),
    ),
    ("a time below 0", |db| drop(db.execute("UPDATE trial SET time_s = -1", [])), Some("time_s is -1")),
    ("an endless time", |db| drop(db.execute("UPDATE trial SET time_s = 9e999", [])), Some("time_s is inf")),
    ("a time of ages", |db| drop(db.execute("UPDATE trial SET time_s = 1e308", [])), None),
    (
        "a block beyond all",
        |db| drop(db.execute("UPDATE trial SET block = 4294967295 WHERE sequence = 1", [])),
        Some("block is 4294967295"),
    ),
    (
        "a number that is no number",
        |db| drop(db.execute("UPDATE trial SET block = 9223372036854775807 WHERE sequence = 1", [])),
        Some("out of range"),
    ),
    (
        "words where there are numbers",
        |db| {
            rewrite_schema(db, "STRICT", "");
            db.execute_batch("PRAGMA writable_schema = RESET; UPDATE trial SET started_unix_s = 'soon'").unwrap();
        },
        Some("is damaged"),
    ),
    ("100,000 sessions", |db| copies(db, "session", &["id"], 100_000), None),
    ("100,000 threads of one trial", |db| copies(db, "thread", &[], 100_000), None),
    (
        "threads without an index",
        |db| {
            copies(db, "trial", &["sequence", "block"], 20_000);
            db.execute_batch("DROP INDEX thread_by_trial").unwrap();
            copies(db, "thread", &["sequence"], 20_000);
        },
        None,
    ),
];

const SIMULATIONS: &[Case] = &[
    ("measurement is a view", |db| endless_view(db, "measurement"), Some("that no stayput writes")),
    (
        "a histogram of 4 million",
        |db| {
            let list =
                "UPDATE histogram SET counts = '[' || replace(hex(zeroblob(900000)), '00', '[1.0,1],') || '[1.0,1]]'";
            db.execute_batch(list).unwrap();
        },
        None,
    ),
    ("4,500 points", |db| multiply(db, "points", 4500), Some("4500 points are too many; 4000 are the most")),
    (
        "a policy again and again",
        |db| change_plan(db, |plan| plan["policies"] = vec!["light"; 100_000].into()),
        Some("policy `light` is in it twice"),
    ),
    ("a list of replicates that never ends", |db| change_plan(db, |plan| plan["replicates"] = json!(u32::MAX)), None),
];

/// What reads a journal.
const READERS: [&[&str]; 2] = [&["report"], &["run", "--place"]];

#[test]
fn whatever_a_journal_holds_its_reader_gets_an_answer() {
    let folder = TempDir::new().unwrap();
    let kinds = [(journal(folder.path()), COMPARISONS), (simulation(folder.path()), SIMULATIONS)];
    for (journal, cases) in kinds {
        for (name, change, expected) in cases {
            let path = folder.path().join("hostile.stayput");
            fs::copy(&journal, &path).unwrap();
            let db = Connection::open(&path).unwrap();
            change(&db);
            drop(db);
            let before = fs::metadata(&path).unwrap().len();
            for words in READERS {
                let is_run = words[0] == "run";
                let end: &[&str] = if is_run { &["--", "/bin/true"] } else { &[] };
                let output = stayput(&[words, &["hostile.stayput"], end].concat(), folder.path());
                check(name, &output, expected.filter(|_| !is_run));
            }
            assert_eq!(fs::metadata(&path).unwrap().len(), before, "{name}: a reader changed it");
            // The list of a folder is made of whatever lies in it.
            check(name, &stayput(&["report", "."], folder.path()), None);
        }
    }
}

/// That the command came to an end by itself, and has a sentence where it failed.
fn check(name: &str, output: &Output, expected: Option<&str>) {
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    let short: String = said.chars().take(600).collect();
    assert!(matches!(code, Some(0..=2)), "{name}: {} {short}", output.status);
    assert!(!said.contains("panicked"), "{name}: {short}");
    assert!(said.len() < 5_000, "{name}: {} bytes of message", said.len());
    assert!(code == Some(0) || said.starts_with("stayput: "), "{name}: {short}");
    if let Some(expected) = expected {
        assert!(code != Some(0) && said.contains(expected), "{name}: {code:?} {short}");
    }
}

#[test]
fn what_is_no_regular_file_is_not_waited_for() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert!(Command::new("mkfifo").arg(path("pipe.stayput")).status().unwrap().success());
    assert!(Command::new("mkfifo").arg(path("beside.stayput-wal")).status().unwrap().success());
    symlink("/dev/zero", path("zero.stayput")).unwrap();
    symlink("loop.stayput", path("loop.stayput")).unwrap();
    fs::create_dir(path("folder.stayput")).unwrap();
    fs::write(path("zeros.stayput"), vec![0; 5 << 20]).unwrap();
    let sparse = fs::File::create(path("sparse.stayput")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let good = journal(folder.path());
    fs::copy(&good, path("beside.stayput")).unwrap();
    let bytes = fs::read(&good).unwrap();
    fs::write(path("cut.stayput"), &bytes[..bytes.len() / 2]).unwrap();
    for (name, expected) in [
        ("pipe.stayput", "is a pipe and no file"),
        ("beside.stayput", "is a pipe and no file"),
        ("zero.stayput", "is a device and no file"),
        ("loop.stayput", "cannot open journal"),
        ("sparse.stayput", "the file has more than 1024 MiB"),
        ("zeros.stayput", "is not a stayput journal"),
        ("cut.stayput", "is damaged"),
    ] {
        check(name, &stayput(&["report", name], folder.path()), Some(expected));
        let taken_up = stayput(&["study", "--quiet", "--no-report", "--out", name, "--", "/bin/true"], folder.path());
        check(name, &taken_up, Some(expected));
        check(name, &stayput(&["run", "--place", name, "--", "/bin/true"], folder.path()), Some(""));
    }
    let taken_up = stayput(&["study", "--quiet", "--out", "folder.stayput", "--", "/bin/true"], folder.path());
    assert_eq!(taken_up.status.code(), Some(2));
    // What can't be read is in the list all the same, but for what is no file.
    let list = stayput(&["report"], folder.path());
    assert!(list.status.success());
    assert_eq!(String::from_utf8_lossy(&list.stdout).matches("unreadable").count(), 4);
}

#[test]
fn a_hostile_journal_is_not_gone_on_with() {
    let folder = TempDir::new().unwrap();
    let journal = journal(folder.path());
    let db = Connection::open(&journal).unwrap();
    db.execute_batch("CREATE TRIGGER t AFTER INSERT ON session BEGIN DELETE FROM trial; END").unwrap();
    drop(db);
    let before = fs::read(&journal).unwrap();
    let words =
        ["study", "--quiet", "--no-report", "-n", "1", "--place", "unbound,0", "--min-runs", "4", "--max-runs", "4"];
    let output = stayput(&[&words[..], &["--out", "small.stayput", "--", "/bin/true"]].concat(), folder.path());
    check("trigger", &output, Some("a trigger `t` that no stayput writes"));
    assert_eq!(fs::read(&journal).unwrap(), before, "it is as it was");
}
