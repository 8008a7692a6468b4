//! A file in a journal's place is refused or read, and left as it is until a session begins; of what was read every form of
//! report can be made.
#![no_main]

use libfuzzer_sys::fuzz_target;
use report::{Format, Screen, Study};
use simulation::{ReplayPlan, SimulationPlan};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use study::{Comparison, Journal, Kind, Race, Record, journal};
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a temporary folder"));

fuzz_target!(|content: &[u8]| {
    let path = file(content);
    let is_unchanged = || fs::read(&path).expect("the file is still there") == content;
    let study = Study::read(&path);
    assert!(is_unchanged(), "reading changed the file");
    match journal::kind(&path).as_deref() {
        Ok(Race::NAME) => open::<Race>(&path),
        Ok(SimulationPlan::NAME) => open::<SimulationPlan>(&path),
        Ok(ReplayPlan::NAME) => open::<ReplayPlan>(&path),
        // Also what holds no study, or one of no kind that there is.
        _ => open::<Comparison>(&path),
    }
    assert!(is_unchanged(), "opening changed the file");
    if let Ok(study) = study {
        for format in [Format::Terminal, Format::Html, Format::Markdown, Format::Latex, Format::Csv, Format::Json] {
            study.write(format, Screen { width: 100, colour: true });
        }
    }
});

/// A file of this content, without what SQLite leaves beside a file that it was cut off in writing.
fn file(content: &[u8]) -> PathBuf {
    let path = FOLDER.path().join("a.stayput");
    for beside in ["-journal", "-shm", "-wal"] {
        let _ = fs::remove_file(FOLDER.path().join(format!("a.stayput{beside}")));
    }
    fs::write(&path, content).expect("the temporary folder can be written");
    path
}

/// A writer sees what a reader does.
fn open<K: Kind>(path: &Path) {
    let read: Option<Record<K>> = Journal::read(path).ok();
    if let Ok(journal) = Journal::<K>::open(path) {
        assert!(journal.record().ok().flatten() == read);
    }
}
