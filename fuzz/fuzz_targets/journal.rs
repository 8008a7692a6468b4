//! A file in a journal's place is refused and left as it is, or read, and then every form of report can be made of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs;
use std::sync::LazyLock;
use study::Journal;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a temporary folder"));

fuzz_target!(|content: &[u8]| {
    let path = FOLDER.path().join("a.stayput");
    let write = || {
        for beside in ["-journal", "-shm", "-wal"] {
            let _ = fs::remove_file(FOLDER.path().join(format!("a.stayput{beside}")));
        }
        fs::write(&path, content).expect("the temporary folder can be written");
    };
    let unchanged = || fs::read(&path).expect("the file is still there") == content;

    write();
    let record = Journal::read(&path);
    assert!(unchanged(), "reading changed the file");

    write();
    match Journal::open(&path) {
        Ok(journal) => {
            let _ = journal.plan();
            assert_eq!(journal.record().ok(), record.as_ref().ok().cloned());
        }
        // Also of what was read: SQLite heeds the schema's constraints only where it may write.
        Err(_) => assert!(unchanged(), "what was refused was changed"),
    }

    if let Ok(record) = record {
        let analysis = study::analyse(&record);
        study::engine::time_spent(&record.trials);
        report::terminal(&record, &analysis, 100, true);
        report::markdown(&record, &analysis);
        report::latex(&record, &analysis);
        report::csv(&record, &analysis);
        report::json(&record, &analysis);
        report::html(&record, &analysis);
    }
});
