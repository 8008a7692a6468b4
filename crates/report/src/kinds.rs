//! A study of any kind with its analysis: the one place where kinds are told apart.

use crate::format::{Format, Screen};
use crate::replay::ReplayView;
use crate::simulation::SimulationView;
use crate::study_view::StudyView;
use crate::{csv, glossary, html, json, latex, markdown, terminal};
use ::terminal::{printable, printable_coloured, printable_json};
use simulation::{
    ReplayAnalysis, ReplayPlan, SimulationAnalysis, SimulationPlan, replay_analysis, simulation_analysis,
};
use std::path::Path;
use study::redaction::Redaction;
use study::{
    Analysis, Comparison, Journal, JournalError, Kind, Race, RaceAnalysis, Record, comparison_analysis, journal,
    race_analysis,
};

/// A study of any kind, and what is concluded from it.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a program holds one at a time")]
pub enum Study {
    /// Every placement against the reference.
    Comparison(Record<Comparison>, Analysis),
    /// The best of many placements.
    Race(Record<Race>, RaceAnalysis),
    /// What schedulers or allocators would do.
    Simulation(Record<SimulationPlan>, SimulationAnalysis),
    /// What a kernel does, beside its simulation.
    Replay(Record<ReplayPlan>, ReplayAnalysis),
}

impl Study {
    /// Reads the journal at `path`, of whichever kind its study is.
    ///
    /// # Errors
    /// Any [`JournalError`].
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        Ok(match journal::kind(path)?.as_str() {
            Race::NAME => Journal::<Race>::read(path)?.into(),
            SimulationPlan::NAME => Journal::<SimulationPlan>::read(path)?.into(),
            ReplayPlan::NAME => Journal::<ReplayPlan>::read(path)?.into(),
            Comparison::NAME => Journal::<Comparison>::read(path)?.into(),
            found => return Err(JournalError::UnknownKind { path: path.into(), found: found.into() }),
        })
    }

    /// The same without the values that `redaction` hides.
    ///
    /// # Errors
    /// Any [`JournalError`].
    pub fn read_redacted(path: &Path, redaction: &Redaction) -> Result<Self, JournalError> {
        Ok(match journal::kind(path)?.as_str() {
            Race::NAME => Journal::<Race>::read(path)?.redacted_cells(redaction).into(),
            Comparison::NAME => Journal::<Comparison>::read(path)?.redacted_cells(redaction).into(),
            SimulationPlan::NAME => Journal::<SimulationPlan>::read(path)?.redacted(redaction).into(),
            ReplayPlan::NAME => Journal::<ReplayPlan>::read(path)?.redacted(redaction).into(),
            _ => return Self::read(path),
        })
    }

    /// The study in one form; `screen` is for terminals. What would steer a terminal, or turn the order of a page around, is shown as
    /// escapes, in JSON by JSON's own; CSV alone has every name as it is.
    pub fn write(&self, format: Format, screen: Screen) -> String {
        let mut text = String::new();
        self.write_in_parts(format, screen, &mut |part| text.push_str(part));
        text
    }

    /// The same part by part: what names every trial of a large study need never be in memory whole.
    pub fn write_in_parts(&self, format: Format, screen: Screen, part: &mut dyn FnMut(&str)) {
        let screen = Screen { width: screen.width.max(40), ..screen };
        let part = &mut |text: &str| match format {
            Format::Terminal => part(&printable_coloured(text)),
            Format::Html | Format::Markdown | Format::Latex => part(&printable(text)),
            Format::Json => part(&printable_json(text)),
            Format::Csv => part(text),
        };
        match self {
            Self::Comparison(record, analysis) => {
                cells(&StudyView::of_comparison(record, analysis), format, screen, part);
            }
            Self::Race(record, analysis) => cells(&StudyView::of_race(record, analysis), format, screen, part),
            Self::Simulation(record, analysis) => {
                part(&simulation(&SimulationView::new(record, analysis), format, screen));
            }
            Self::Replay(record, analysis) => part(&replay(&ReplayView::new(record, analysis), format, screen)),
        }
    }

    /// Why it stopped, as a sentence, where it runs programs.
    pub fn stop(&self) -> Option<String> {
        self.cells().map(|cells| crate::sentences::stop(&cells.stop))
    }

    /// What the words of a simulation's or of replays' table mean, for a terminal of `width` columns; none for a study that runs
    /// programs, whose table has its key below it.
    pub fn explanation(&self, width: usize) -> Option<String> {
        match self {
            Self::Comparison(..) | Self::Race(..) => None,
            Self::Simulation(record, analysis) => {
                Some(glossary::terminal(SimulationView::new(record, analysis).glossary(), width))
            }
            Self::Replay(record, analysis) => {
                Some(glossary::terminal(ReplayView::new(record, analysis).glossary(), width))
            }
        }
    }

    /// Its cells, where it runs programs.
    pub fn cells(&self) -> Option<&Analysis> {
        match self {
            Self::Comparison(_, analysis) => Some(analysis),
            Self::Race(_, analysis) => Some(&analysis.cells),
            Self::Simulation(..) | Self::Replay(..) => None,
        }
    }
}

impl From<Record<Comparison>> for Study {
    fn from(record: Record<Comparison>) -> Self {
        let analysis = comparison_analysis(&record);
        Self::Comparison(record, analysis)
    }
}

impl From<Record<Race>> for Study {
    fn from(record: Record<Race>) -> Self {
        let analysis = race_analysis(&record);
        Self::Race(record, analysis)
    }
}

impl From<Record<SimulationPlan>> for Study {
    fn from(record: Record<SimulationPlan>) -> Self {
        let analysis = simulation_analysis(&record);
        Self::Simulation(record, analysis)
    }
}

impl From<Record<ReplayPlan>> for Study {
    fn from(record: Record<ReplayPlan>) -> Self {
        let analysis = replay_analysis(&record);
        Self::Replay(record, analysis)
    }
}

/// A comparison or a race in one form.
fn cells(study: &StudyView, format: Format, screen: Screen, part: &mut dyn FnMut(&str)) {
    match format {
        Format::Terminal => part(&terminal::cells(study, screen)),
        Format::Html => part(&html::cells_page(study)),
        Format::Markdown => part(&markdown::cells(study)),
        Format::Latex => part(&latex::cells(study)),
        Format::Csv => csv::cells(study, part),
        Format::Json => json::cells(study, part),
    }
}

fn simulation(study: &SimulationView, format: Format, screen: Screen) -> String {
    match format {
        Format::Terminal => study.sheet().terminal(screen),
        Format::Html => html::simulation::page(study),
        Format::Markdown => study.sheet().markdown(),
        Format::Latex => study.sheet().latex(),
        Format::Csv => crate::simulation::csv(study),
        Format::Json => json::simulation(study, json::Metrics::OfEachSample),
    }
}

fn replay(study: &ReplayView, format: Format, screen: Screen) -> String {
    match format {
        Format::Terminal => study.sheet().terminal(screen),
        Format::Html => html::replay::page(study),
        Format::Markdown => study.sheet().markdown(),
        Format::Latex => study.sheet().latex(),
        Format::Csv => study.csv(),
        Format::Json => json::replay(study, json::Metrics::OfEachSample),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};
    use study::plan::PlanError;
    use study::{HostFacts, Sample};

    /// A kind that a later version might have.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Cluster {}

    impl Kind for Cluster {
        const NAME: &'static str = "cluster";
        type Trial = Sample;

        fn check(&self) -> Result<(), PlanError> {
            Ok(())
        }
    }

    #[test]
    fn a_study_of_a_kind_to_come_is_refused_in_one_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.stayput");
        let mut journal = Journal::open(&path).unwrap();
        journal.begin_study(&Cluster {}, &serde_json::json!({}), &HostFacts::default()).unwrap();
        journal.close().unwrap();
        let said = format!(
            "journal {} holds a study of an unknown kind (cluster); use the newer stayput that wrote it",
            path.display()
        );
        assert_eq!(Study::read(&path).unwrap_err().to_string(), said);
    }
}
