//! A paper beside what we get: its tables with ours next to every printed number, its figures, and a verdict on what it claims.
//!
//! What a paper prints is data (`papers/printed`); what we get is computed when it is asked for, and so is every verdict.

use crate::contention::{Contention, HeldOut, Role};
use crate::interval::exactly;
use crate::paper::{Printed, PrintedClaim};
use crate::verdict::Judgement;
use serde::{Deserialize, Serialize};
use simulation::{Estimated, TimeBin};
use study::record::Ending;

pub use crate::against_kernel::{AgainstKernel, PolicyEffects, WorkloadEffect};
pub use crate::verdict::Verdict;

/// What a paper says and what we get.
#[derive(Clone, Debug, PartialEq)]
pub struct Reproduction {
    /// What the paper is called here.
    pub paper: String,
    /// Authors, title and year, as far as they are known.
    pub citation: String,
    /// Where our numbers come from; none where there are none.
    pub method: Option<Method>,
    /// What became of its studies on this machine; none where nobody asked for them.
    pub live: Option<LiveStudies>,
    /// What its policies would change against today's kernel, where both were simulated.
    pub against_kernel: Option<AgainstKernel>,
    /// What the paper leaves open and we chose: the choice's place and value.
    pub chosen: Vec<(String, String)>,
    /// How well a fitted model predicts what it hasn't seen, where one was fitted.
    pub held_out: Option<HeldOut>,
    /// Its tables, in order.
    pub tables: Vec<ReproducedTable>,
    /// Its figures, in order.
    pub figures: Vec<ReproducedFigure>,
    /// What its text says, in order.
    pub claims: Vec<JudgedClaim>,
}

/// Where our numbers come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// From simulations of the paper's workloads.
    Simulated {
        /// The preset on which they share CPUs in time.
        machine: String,
        /// Replicates of each workload and policy.
        replicates: u32,
        /// Where the draws start.
        seed: u64,
        /// The presets on which jobs share CPUs in space.
        space_machines: Vec<String>,
        /// Replicates of each mix and policy on the first of them.
        space_replicates: u32,
    },
    /// From a model that was fitted on some of the paper's own.
    Fitted(Contention),
}

/// What became of a paper's studies on this machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveStudies {
    /// Those that were run.
    pub studies: Vec<LiveStudy>,
    /// What of them wasn't run, or never went well, in sentences.
    pub left_out: Vec<String>,
}

/// One study that was run, or several in one place.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveStudy {
    /// Names of the subjects.
    pub subjects: Vec<String>,
    /// Where it ran, within a sentence: in a virtual machine, or on nodes of a cluster; none where it ran on this machine.
    pub elsewhere: Option<String>,
    /// The CPU's name, where it is known.
    pub cpu_model: Option<String>,
    /// The kernel's release.
    pub kernel: String,
    /// Number of trials.
    pub trials: usize,
    /// In which journal, or journals, they are.
    pub kept_in: String,
    /// How it ended; none where it isn't finished.
    pub ending: Option<Ending>,
    /// Where it isn't the paper's study, in the plan's sentences.
    pub departures: Vec<String>,
}

/// A table of the paper with ours in each cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReproducedTable {
    /// Its name in file names and links: `table-5`.
    pub name: String,
    /// The paper's name for it: `Table V`.
    pub title: String,
    /// What it shows, with its unit, and what became of it.
    pub about: String,
    /// How far ours may be from what is printed and still count as the same, in the table's unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// Above the labels of the rows.
    pub corner: String,
    /// Above the cells.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<ReproducedRow>,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReproducedRow {
    /// What the row is of.
    pub label: String,
    /// One cell a column.
    pub cells: Vec<ReproducedCell>,
}

/// A cell: what is printed there, and what we get.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ReproducedCell {
    /// A number.
    Number {
        /// As printed; none where nothing is.
        printed: Option<Printed>,
        /// Ours with its 95 % interval, in the table's unit.
        ours: Option<Estimated>,
        /// Ours less the printed one, where both are.
        difference: Option<f64>,
        /// What a fitted model had to do with the printed one.
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<Role>,
        /// What this machine measured, with its 95 % interval.
        #[serde(skip_serializing_if = "Option::is_none")]
        live: Option<Estimated>,
    },
    /// Words.
    Words {
        /// As printed, in our words.
        printed: String,
        /// What we have in its place.
        ours: String,
        /// What this machine showed.
        #[serde(skip_serializing_if = "Option::is_none")]
        live: Option<String>,
    },
}

impl ReproducedCell {
    /// Words beside printed ones.
    pub fn words(printed: impl Into<String>, ours: impl Into<String>) -> Self {
        Self::Words { printed: printed.into(), ours: ours.into(), live: None }
    }

    /// A number beside its printed one.
    pub fn number(printed: Option<Printed>, ours: Option<Estimated>) -> Self {
        let difference = printed.zip(ours).map(|(printed, ours)| ours.value - printed.value);
        Self::Number { printed, ours, difference, role: None, live: None }
    }

    /// The same with what this machine measured.
    #[must_use]
    pub fn with_live(self, measured: Option<Estimated>) -> Self {
        match self {
            Self::Number { printed, ours, difference, role, live: _ } => {
                Self::Number { printed, ours, difference, role, live: measured }
            }
            words @ Self::Words { .. } => words,
        }
    }

    /// A printed number beside a model's, which has no interval, and this machine's.
    pub fn predicted(
        printed: Option<Printed>,
        predicted: Option<f64>,
        role: Option<Role>,
        live: Option<Estimated>,
    ) -> Self {
        let difference = printed.zip(predicted).map(|(printed, predicted)| predicted - printed.value);
        Self::Number { printed, ours: predicted.map(exactly), difference, role, live }
    }
}

/// A figure of distributions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReproducedFigure {
    /// Its name in file names and links: `figure-2`.
    pub name: String,
    /// The paper's name for it: `Figure 2`.
    pub title: String,
    /// What it shows, how it is normalised, and what the paper has of it.
    pub about: String,
    /// One distribution each, in order.
    pub panels: Vec<Panel>,
}

/// One distribution of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Panel {
    /// What it is of.
    pub label: String,
    /// The median in ms.
    pub median_ms: Option<f64>,
    /// Its bins; percentages as the figure normalises them.
    pub bins: Vec<TimeBin>,
}

/// A sentence of the paper, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedClaim {
    /// Where the paper says it.
    #[serde(rename = "where")]
    pub place: String,
    /// What it says, in our words.
    pub statement: String,
    /// Whose numbers it is judged by.
    pub against: Against,
    /// Whether it is so.
    pub verdict: Verdict,
    /// The numbers that decide, and where it fails, what in the paper makes it so.
    pub why: String,
    /// What the same check says of this machine's numbers, where it can be asked of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveVerdict>,
}

impl JudgedClaim {
    /// A claim with its judgement; where it doesn't hold, what it is otherwise by is said besides.
    pub(super) fn new(claim: &PrintedClaim, against: Against, (verdict, mut why): Judgement) -> Self {
        if verdict != Verdict::Holds && !claim.otherwise.is_empty() {
            why = format!("{why}. {}", claim.otherwise);
        }
        Self { place: claim.place.clone(), statement: claim.says.clone(), against, verdict, why, live: None }
    }
}

/// What this machine's numbers say of a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveVerdict {
    /// Whether it is so here.
    pub verdict: Verdict,
    /// The numbers that decide, and how many of those that the claim speaks of there aren't.
    pub why: String,
}

/// Whose numbers a claim is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// What the paper itself prints, and the machine that it names.
    Itself,
    /// Ours.
    Us,
}
