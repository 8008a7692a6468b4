//! A paper's study on this machine, as `stayput study papers/X.toml` does it, from the file that is built in.

use super::{StudyArgs, conduct, plan};
use crate::UsageError;
use anyhow::Context;
use machine::Machine;
use papers::Paper;
use std::path::Path;
use std::time::Duration;
use study::study_file::{Span, StudyFile};
use study::{Ending, Journal, JournalError, Record};

/// The papers' study files, by their papers' names.
const FILES: [(&str, &str); 3] = [
    ("pires-2016", include_str!("../../../../papers/pires-2016.toml")),
    ("pires-2017", include_str!("../../../../papers/pires-2017.toml")),
    ("weber-2010", include_str!("../../../../papers/weber-2010.toml")),
];

/// Longest that all trials of a study may take where nobody says.
const DEFAULT_BUDGET: Span = Span(Duration::from_secs(600));

/// Runs what is left of a paper's study within `budget`, all programs with `class` where one is given, or reads the journal where the
/// study that is asked for has ended; gives all that is in the journal then.
pub(crate) fn conduct_paper(
    paper: &Paper,
    class: Option<&str>,
    budget: Option<Span>,
    journal: &Path,
    quiet: bool,
) -> anyhow::Result<Record> {
    let old = match Journal::read(journal) {
        Ok(record) => Some(record),
        Err(JournalError::Empty { .. }) => None,
        Err(JournalError::Open { .. }) if !journal.exists() => None,
        Err(error) => return Err(error.into()),
    };
    if old.as_ref().is_some_and(|old| old.plan.paper.as_deref() != Some(paper.name)) {
        let name = paper.name;
        return Err(UsageError::from(format!(
            "journal {} holds another study than {name}'s; name another with --journal",
            journal.display()
        )));
    }
    let has_class = |record: &Record| {
        class.is_none_or(|class| {
            record.plan.subjects.iter().all(|subject| subject.name.rsplit_once('.').is_some_and(|(_, of)| of == class))
        })
    };
    match old {
        Some(old) if has_class(&old) && has_ended(&old, budget) => Ok(old),
        old => {
            let machine = Machine::host().context("cannot read this machine's topology")?;
            let plan = made(paper, class, budget.unwrap_or(DEFAULT_BUDGET), &machine)?;
            let differences = old.map(|old| old.plan.differences(&plan)).unwrap_or_default();
            if !differences.is_empty() {
                return Err(UsageError::from(format!(
                    "journal {} holds another plan; name another with --journal, or ask for the same again:\n  {}",
                    journal.display(),
                    differences.join("\n  ")
                )));
            }
            Ok(conduct(&plan, &machine, journal, quiet)?.0)
        }
    }
}

/// Whether a study is at its end: settled, or its budget spent and no other asked for.
fn has_ended(old: &Record, budget: Option<Span>) -> bool {
    match old.ending {
        Some(Ending::Finished) => true,
        Some(Ending::BudgetSpent) => budget.is_none_or(|budget| old.plan.budget == Some(budget.0)),
        None => false,
    }
}

/// The plan of a paper's study on `machine`.
fn made(paper: &Paper, class: Option<&str>, budget: Span, machine: &Machine) -> anyhow::Result<study::Plan> {
    let (_, text) = FILES.iter().find(|(name, _)| *name == paper.name).context("no study file is built in")?;
    let mut file = StudyFile::parse(text, &[paper.name])
        .map_err(|(line, what)| anyhow::anyhow!("line {line} of {}: {what}", paper.name))?;
    let tables = std::mem::take(&mut file.subjects);
    let mut args = StudyArgs { class: class.map(str::to_owned), ..StudyArgs::default() };
    args.stop.budget = Some(budget);
    plan::of(&args, file, tables, machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_paper_has_its_study_built_in() {
        assert!(Paper::names().eq(FILES.map(|(name, _)| name)));
        for (name, text) in FILES {
            assert_eq!(StudyFile::parse(text, &[name]).unwrap().paper.as_deref(), Some(name));
        }
    }
}
