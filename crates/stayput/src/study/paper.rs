//! A paper's study on this machine, as `stayput study papers/X.toml` does it, from the file that is built in.

use super::builtin_subject;
use super::conduct::{Conduct, conduct, identified};
use super::venue::Venue;
use crate::UsageError;
use papers::Paper;
use papers::own_study::{self, OwnStudyError};
use std::path::Path;
use study::request::{CellPlan, DEFAULT_BUDGET, Request};
use study::study_file::{Span, StudyFile};
use study::{Comparison, Kind, Record, Site};

/// How papers' studies are worked on.
pub(super) const CONDUCT: Conduct<'_> =
    Conduct { quiet: false, shows_output: false, retry: false, can_start: true, among: None };

/// Runs what is left of a paper's study at `site` within `budget`, all programs with `class` where one is given, or reads the journal where the
/// study that is asked for has ended; gives all that is in the journal then.
pub(crate) fn conduct_paper(
    paper: &Paper,
    class: Option<&str>,
    budget: Option<Span>,
    site: &Site,
    journal: &Path,
    quiet: bool,
) -> anyhow::Result<Record<Comparison>> {
    super::check_place(journal)?;
    let earlier = own_study::earlier(paper, journal).map_err(|error| match error {
        OwnStudyError::Other { .. } => UsageError::from(error.to_string()),
        OwnStudyError::Journal(error) => error.into(),
    })?;
    if let Some(earlier) = earlier.as_ref().filter(|it| own_study::has_ended(it, class, budget.map(|span| span.0))) {
        return Ok(earlier.clone());
    }
    let (venue, machine) = Venue::of(site)?;
    let budget = Some(budget.unwrap_or(Span(DEFAULT_BUDGET)));
    let flags = StudyFile { budget, on: Some(site.clone()), ..StudyFile::default() };
    let study = own_study::study_file(paper).with(flags);
    let request = Request { study, class: class.map(str::to_owned), ..Request::default() };
    let CellPlan::Comparison(study) =
        request.plan(&machine, builtin_subject, |conditions| venue.lacking(conditions)).map_err(UsageError::from)?
    else {
        return Err(UsageError::from(format!("the study of {} is no comparison", paper.name)));
    };
    let other = earlier.and_then(|earlier| earlier.plan.extended_by(&study, &earlier.trials).err());
    if let Some(differences) = other {
        return Err(UsageError::from(format!(
            "journal {} holds another plan; name another with --journal, or ask for the same again:\n  {}",
            journal.display(),
            differences.join("\n  ")
        )));
    }
    // Built-in programs read nothing.
    Ok(conduct(&identified(&study), &machine, journal, Vec::new(), venue, Conduct { quiet, ..CONDUCT })?.0)
}
