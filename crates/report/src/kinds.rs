//! A study of any kind with its analysis: the one place where kinds are told apart.

use crate::replay::ReplayView;
use crate::simulation::SimulationView;
use crate::study_view::StudyView;
use crate::{csv, html, json, latex, markdown, terminal};
use simulation::{
    ReplayAnalysis, ReplayPlan, SimulationAnalysis, SimulationPlan, replay_analysis, simulation_analysis,
};
use std::path::Path;
use strum::{EnumIter, EnumMessage, EnumString};
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

/// The forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, EnumMessage, EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum Format {
    /// Verdict and table for a terminal.
    #[strum(serialize = "terminal", serialize = "text")]
    Terminal,
    /// Everything, as one HTML file that loads nothing from outside.
    Html,
    /// Verdict and table in Markdown.
    Markdown,
    /// The table for a paper.
    Latex,
    /// Every trial, one row each.
    Csv,
    /// Everything, for programs.
    Json,
}

/// What text for a terminal is fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns to fill; 40 at least are used.
    pub width: usize,
    /// Whether it may be coloured.
    pub colour: bool,
}

/// A kind of study in every form.
pub(crate) trait Forms {
    fn terminal(&self, screen: Screen) -> String;
    fn html(&self) -> String;
    fn markdown(&self) -> String;
    fn latex(&self) -> String;
    fn csv(&self) -> String;
    fn json(&self) -> String;
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
            // A kind that there isn't is reported as another one than this.
            _ => Journal::<Comparison>::read(path)?.into(),
        })
    }

    /// The study in one form; `screen` is for terminals.
    pub fn write(&self, format: Format, screen: Screen) -> String {
        let forms: Box<dyn Forms> = match self {
            Self::Comparison(record, analysis) => Box::new(StudyView::of_comparison(record, analysis)),
            Self::Race(record, analysis) => Box::new(StudyView::of_race(record, analysis)),
            Self::Simulation(record, analysis) => Box::new(SimulationView::new(record, analysis)),
            Self::Replay(record, analysis) => Box::new(ReplayView::new(record, analysis)),
        };
        match format {
            Format::Terminal => forms.terminal(Screen { width: screen.width.max(40), ..screen }),
            Format::Html => forms.html(),
            Format::Markdown => forms.markdown(),
            Format::Latex => forms.latex(),
            Format::Csv => forms.csv(),
            Format::Json => forms.json(),
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

impl Forms for StudyView<'_> {
    fn terminal(&self, screen: Screen) -> String {
        terminal::cells(self, screen)
    }
    fn html(&self) -> String {
        html::cells_page(self)
    }
    fn markdown(&self) -> String {
        markdown::cells(self)
    }
    fn latex(&self) -> String {
        latex::cells(self)
    }
    fn csv(&self) -> String {
        csv::cells(self)
    }
    fn json(&self) -> String {
        json::cells(self)
    }
}

impl Forms for SimulationView<'_> {
    fn terminal(&self, screen: Screen) -> String {
        crate::simulation::terminal(&self.sheet(), screen)
    }
    fn html(&self) -> String {
        html::simulation_page(self)
    }
    fn markdown(&self) -> String {
        crate::simulation::markdown(&self.sheet())
    }
    fn latex(&self) -> String {
        crate::simulation::latex(&self.sheet())
    }
    fn csv(&self) -> String {
        crate::simulation::csv(self)
    }
    fn json(&self) -> String {
        json::simulation(self, json::Metrics::OfEachSample)
    }
}

impl Forms for ReplayView<'_> {
    fn terminal(&self, screen: Screen) -> String {
        crate::simulation::terminal(&self.sheet(), screen)
    }
    fn html(&self) -> String {
        html::replay_page(self)
    }
    fn markdown(&self) -> String {
        crate::simulation::markdown(&self.sheet())
    }
    fn latex(&self) -> String {
        crate::simulation::latex(&self.sheet())
    }
    fn csv(&self) -> String {
        ReplayView::csv(self)
    }
    fn json(&self) -> String {
        json::replay(self, json::Metrics::OfEachSample)
    }
}
