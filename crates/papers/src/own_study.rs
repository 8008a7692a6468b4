//! A paper's own study: the file that is built in, and what a journal already holds of it.

use crate::paper::Paper;
use std::path::{Path, PathBuf};
use std::time::Duration;
use study::study_file::StudyFile;
use study::{Comparison, Ending, Journal, JournalError, Record};

/// The papers' study files, by their papers' names.
const FILES: [(&str, &str); 3] = [
    ("pires-2016", include_str!("../../../papers/pires-2016.toml")),
    ("pires-2017", include_str!("../../../papers/pires-2017.toml")),
    ("weber-2010", include_str!("../../../papers/weber-2010.toml")),
];

/// Why a journal can't be gone on with as a paper's.
#[derive(Debug, thiserror::Error)]
pub enum OwnStudyError {
    /// It can't be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It is the journal of another study.
    #[error("journal {journal} holds another study than {paper}'s; name another with --journal", journal = journal.display())]
    Other {
        /// Its file.
        journal: PathBuf,
        /// The paper's name.
        paper: &'static str,
    },
}

/// The study file of a paper.
pub fn study_file(paper: &Paper) -> StudyFile {
    let (_, text) = FILES.iter().find(|(name, _)| *name == paper.name).expect("a test finds every paper's file");
    StudyFile::parse(text, &[paper.name]).expect("a test reads every paper's file")
}

/// What the journal holds of the paper's study; none where there is no journal yet, or nothing in it.
///
/// # Errors
/// [`OwnStudyError`] when the journal can't be read or is of another study.
pub fn earlier(paper: &Paper, journal: &Path) -> Result<Option<Record<Comparison>>, OwnStudyError> {
    let record = match Journal::<Comparison>::read(journal) {
        Ok(record) => record,
        Err(JournalError::Empty { .. }) => return Ok(None),
        Err(JournalError::Open { .. }) if !journal.exists() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if record.plan.plan.paper.as_deref() != Some(paper.name) {
        return Err(OwnStudyError::Other { journal: journal.into(), paper: paper.name });
    }
    Ok(Some(record))
}

/// Whether a record is at its end as it is asked for: all programs are of `class`, where one is given, and it is settled, or its budget
/// is spent and no other is given.
pub fn has_ended(record: &Record<Comparison>, class: Option<&str>, budget: Option<Duration>) -> bool {
    let is_of_class = |name: &str, class: &str| name.rsplit_once('.').is_some_and(|(_, of)| of == class);
    let subjects = &record.plan.plan.subjects;
    let ended = match record.ending {
        Some(Ending::Finished) => true,
        Some(Ending::BudgetSpent) => budget.is_none() || budget == record.plan.plan.budget,
        None => false,
    };
    ended && class.is_none_or(|class| subjects.iter().all(|subject| is_of_class(&subject.name, class)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_paper_has_its_study_built_in() {
        for name in Paper::names() {
            assert_eq!(study_file(Paper::named(name).unwrap()).paper.as_deref(), Some(name));
        }
        assert_eq!(Paper::names().count(), FILES.len());
    }
}
