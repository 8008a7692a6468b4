//! Study files and journals that nobody sane wrote: each is refused with a sentence, or read and then of use.

use crate::engine::work;
use crate::model::{Model, comparison};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use study::study_file::StudyFile;
use study::{Comparison, JournalError, comparison_analysis as analyse};

type Journal = study::Journal<Comparison>;

const STUDY_FILE: &str = r#"threads = ["1", "2-8", "all"]
placements = ["unbound", "compact", "0,8,1,9"]
stop = { relative-sd = "1.9 %", min-runs = 5, max-runs = 40 }
timeout = "10 min"
seed = 7

[[subject]]
builtin = "npb:cg.W"

[[subject]]
name = "solver"
command = ["./solver", "--threads", "{threads}"]
time-regex = 'solved in ([0-9.]+) s'
"#;

/// Bytes put in place of others, at a share of the whole length.
type Damage<T> = Vec<(f64, usize, T)>;

fn damaged(whole: &[u8], damage: &Damage<Vec<u8>>) -> Vec<u8> {
    let mut content = whole.to_vec();
    for (place, length, replacement) in damage {
        let start = (place * content.len() as f64) as usize;
        let end = (start + length).min(content.len());
        content.splice(start..end, replacement.iter().copied());
    }
    content
}

fn told_with_its_line(text: &str) -> Result<(), TestCaseError> {
    if let Err((line, what)) = StudyFile::parse(text, &[]) {
        prop_assert!(!what.is_empty());
        prop_assert!((1..=text.split('\n').count()).contains(&line), "line {line} of {text:?}");
    }
    Ok(())
}

/// The bytes of a journal of a whole study.
static JOURNAL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    work(&path, &comparison(1, &["compact"]), &mut Model::new(&[1.0, 0.5], 0.01)).unwrap();
    fs::read(&path).unwrap()
});

/// What any file in a journal's place must allow: to be refused and left as it is, or to be read and concluded from.
fn refused_or_of_use(content: &[u8]) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    fs::write(&path, content).unwrap();
    match Journal::read(&path) {
        Ok(record) => {
            study::engine::time_spent(&record.trials);
            prop_assert_eq!(analyse(&record).summaries.len(), 4);
        }
        Err(error) => prop_assert!(error.to_string().contains("a.stayput"), "{error}"),
    }
    prop_assert!(fs::read(&path).unwrap() == content, "reading changed the file");
    if Journal::open(&path).is_err() {
        prop_assert!(fs::read(&path).unwrap() == content, "what was refused was changed");
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_text_makes_the_study_file_reader_panic(text in any::<String>()) {
        told_with_its_line(&text)?;
    }

    #[test]
    fn a_damaged_study_file_is_told_with_a_line_that_it_has(
        damage in prop::collection::vec((0.0..1.0, 0_usize..24, r#"[\[\]{}="'.,%\n a-z0-9-]{0,8}"#), 1..4),
    ) {
        let damage = damage.into_iter().map(|(place, length, text)| (place, length, text.into_bytes())).collect();
        let content = damaged(STUDY_FILE.as_bytes(), &damage);
        told_with_its_line(&String::from_utf8_lossy(&content))?;
    }

    #[test]
    fn a_damaged_journal_is_refused_or_of_use(
        flips in prop::collection::vec((0.0..1.0, 0_u8..8), 0..12),
        cut in prop::option::weighted(0.3, 0.0..1.0),
    ) {
        let mut content = JOURNAL.clone();
        for (place, bit) in flips {
            let at = (place * content.len() as f64) as usize;
            content[at] ^= 1 << bit;
        }
        content.truncate((cut.unwrap_or(1.0) * content.len() as f64) as usize);
        refused_or_of_use(&content)?;
    }

    #[test]
    fn a_journal_with_foreign_bytes_within_is_refused_or_of_use(
        damage in prop::collection::vec(
            (0.0..1.0, 0_usize..64, prop::collection::vec(any::<u8>(), 0..64)),
            1..4,
        ),
    ) {
        refused_or_of_use(&damaged(&JOURNAL, &damage))?;
    }
}

/// What the journal is damaged with by a statement that another program might run on it.
fn error_after(statement: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    fs::write(&path, &*JOURNAL).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch(statement).unwrap();
    what(&path)
}

fn what(path: &Path) -> String {
    match Journal::read(path) {
        Err(JournalError::Damaged { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_that_no_study_writes_are_damage() {
    for (statement, said) in [
        ("UPDATE trial SET time_s = -1 WHERE sequence = 3", "time_s is -1"),
        ("UPDATE trial SET wall_s = 9e999", "wall_s is inf"),
        ("UPDATE trial SET user_s = NULL", "user_s is missing"),
        ("UPDATE trial SET minor_faults = -5", "negative minor_faults (-5)"),
        ("UPDATE trial SET status = 'fine'", "status: "),
        ("UPDATE study SET plan = json_set(plan, '$.treatments', json('[]'))", "plan: a study needs at least one"),
        (
            "UPDATE study SET plan = json_set(plan, '$.treatments[1].placements[1].slots', json('[]'))",
            "plan: `compact`",
        ),
        (
            "UPDATE study SET plan = json_set(plan, '$.threads', json('[1,2,4]'))",
            "plan: `compact` lacks a placement for 4",
        ),
        ("DELETE FROM study", "table study has no row"),
    ] {
        let what = error_after(statement);
        assert!(what.contains(said), "{statement}: {what}");
    }
}

#[test]
fn enormous_values_do_not_overflow_what_is_concluded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    fs::write(&path, &*JOURNAL).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("UPDATE trial SET leftovers = 4294967295, wall_s = 1e308, time_s = 1e308").unwrap();
    let record = Journal::read(&path).unwrap();
    assert_eq!(study::engine::time_spent(&record.trials), std::time::Duration::MAX);
    assert!(!analyse(&record).verdicts.is_empty());
}
