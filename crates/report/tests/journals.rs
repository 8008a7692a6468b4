//! Journals that earlier versions of Stayput wrote: they still read, and what is told of them is what was told then.
//!
//! `journals/README.md` says how each was made.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

use serde_json::Value;
use stayput_report::{Format, Screen, Study};
use std::fs;
use std::path::{Path, PathBuf};

/// What is compared, by the ending of the file that has it.
struct Told {
    texts: [(&'static str, String); 4],
    json: Value,
}

/// Reads a journal and tells of it.
fn told(journal: &Path) -> Told {
    let study = Study::read(journal).unwrap_or_else(|error| panic!("{error}"));
    let write = |format| study.write(format, Screen { width: 100, colour: false });
    let texts = [
        ("txt", write(Format::Terminal)),
        ("md", write(Format::Markdown)),
        ("tex", write(Format::Latex)),
        ("csv", write(Format::Csv)),
    ];
    Told { texts, json: serde_json::from_str(&write(Format::Json)).unwrap() }
}

fn journals() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journals");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut journals: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "stayput")).collect();
    journals.sort();
    assert!(!journals.is_empty(), "no journals found");
    journals
}

#[test]
fn old_journals_are_told_in_the_same_sentences() {
    for journal in journals() {
        let then = fs::read_to_string(journal.with_extension("sentences.json")).unwrap();
        let then: Value = serde_json::from_str(&then).unwrap();
        let now = told(&journal).json;
        for part in ["verdicts", "warnings"] {
            assert_eq!(now[part], then[part], "{part} of {}", journal.display());
        }
    }
}

#[test]
fn old_journals_are_told_in_the_same_text() {
    for journal in journals() {
        for (ending, now) in told(&journal).texts {
            let file = journal.with_extension(ending);
            let then = fs::read_to_string(&file).unwrap();
            if now != then {
                let line = now.lines().zip(then.lines()).position(|(now, then)| now != then);
                let line = line.unwrap_or_else(|| now.lines().count().min(then.lines().count()));
                let of = |text: &str| text.lines().nth(line).map(str::to_owned);
                panic!("{}, line {}:\n  now  {:?}\n  then {:?}", file.display(), line + 1, of(&now), of(&then));
            }
        }
    }
}

#[test]
fn every_old_journal_is_listed_with_how_it_was_made() {
    let list = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journals/README.md")).unwrap();
    for journal in journals() {
        let name = journal.file_stem().unwrap().to_str().unwrap();
        assert!(list.contains(&format!("`{name}`")), "{name} isn't in journals/README.md");
    }
}
