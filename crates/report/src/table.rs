//! The papers' table: one group of rows a benchmark, one column a thread count.
//!
//! As Pires 2016 and 2017 print it: times without and with binding, and below them the ratio of the two. We add the
//! ratio's interval and the speed-up.

use crate::number::{self, Ratio};
use crate::study_view::StudyView;
use papers::paper::Quantity;
use study::{Claim, Summary, Treatment};

/// The rows of every subject over the plan's thread counts.
#[derive(Debug)]
pub(crate) struct Table {
    /// Thread counts, one a column.
    pub threads: Vec<u32>,
    /// The treatment that every ratio is taken against.
    pub reference: String,
    /// One a subject.
    pub groups: Vec<Group>,
}

/// The rows of one subject.
#[derive(Debug)]
pub(crate) struct Group {
    /// The subject's name.
    pub subject: String,
    /// Its rows: first the times, then the ratios, then the speed-ups.
    pub rows: Vec<Row>,
}

/// One placement's figures of one kind.
#[derive(Debug)]
pub(crate) struct Row {
    /// What is told.
    pub quantity: Quantity,
    /// Of which placement.
    pub placement: String,
    /// One a thread count.
    pub cells: Vec<Cell>,
}

/// One figure, as text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cell {
    /// The figure, `failed`, or `= compact`; empty where there is nothing.
    pub text: String,
    /// The interval of a ratio.
    pub interval: Option<(String, String)>,
    /// What is claimed, where it is shown to differ from the reference.
    pub claim: Option<Claim>,
}

impl Table {
    /// The table of everything in `study`.
    pub(crate) fn new(study: &StudyView) -> Self {
        let plan = &study.plan;
        let group = |subject: &study::Subject| {
            let cell = |quantity, treatment: &Treatment, threads| match treatment.same_placement(threads) {
                Some(earlier) => Cell::twin(earlier),
                None => study
                    .summary(&subject.name, threads, &treatment.name)
                    .map_or_else(Cell::default, |summary| Cell::new(summary, quantity)),
            };
            let row = |quantity, treatment: &Treatment| Row {
                quantity,
                placement: treatment.name.clone(),
                cells: plan.threads.iter().map(|&threads| cell(quantity, treatment, threads)).collect(),
            };
            let all = || plan.treatments.iter();
            // Which other one it is stands among the times; a row that says nothing else isn't repeated.
            let own = || all().filter(|treatment| !study.is_run_as_others(treatment));
            let mut rows: Vec<Row> = all().map(|treatment| row(Quantity::Time, treatment)).collect();
            rows.extend(own().skip(1).map(|treatment| row(Quantity::Ratio, treatment)));
            if plan.threads.len() > 1 && study.summaries(&subject.name).any(|s| s.speedup.is_some()) {
                rows.extend(own().map(|treatment| row(Quantity::SpeedUp, treatment)));
            }
            Group { subject: subject.name.clone(), rows }
        };
        Self {
            threads: plan.threads.clone(),
            reference: study.reference().to_owned(),
            groups: plan.subjects.iter().map(group).collect(),
        }
    }
}

impl Cell {
    /// That it is the very placement of `earlier`.
    fn twin(earlier: &str) -> Self {
        Self { text: format!("= {earlier}"), ..Self::default() }
    }

    /// What `summary` says of `quantity`; a time is its median.
    pub(crate) fn new(summary: &Summary, quantity: Quantity) -> Self {
        let figure = match quantity {
            Quantity::Time => summary.median_s.map(number::seconds),
            Quantity::Ratio => summary.ratio.map(|r| Ratio::new(r, summary.ratio_low, summary.ratio_high).value),
            Quantity::SpeedUp => summary.speedup.map(|s| format!("{s:.2}")),
        };
        match (figure, &summary.same_as) {
            (None, Some(twin)) => Self::twin(twin),
            (None, None) if summary.failed > 0 && quantity == Quantity::Time => {
                Self { text: "failed".into(), ..Self::default() }
            }
            (None, None) => Self::default(),
            (Some(text), _) if quantity != Quantity::Ratio => Self { text, ..Self::default() },
            (Some(text), _) => Self {
                text,
                interval: summary.ratio.and_then(|r| Ratio::new(r, summary.ratio_low, summary.ratio_high).interval),
                claim: matches!(summary.claim, Claim::Faster | Claim::Slower).then_some(summary.claim),
            },
        }
    }

    /// The interval with `dash` between its ends; empty where there is none.
    pub(crate) fn range(&self, dash: &str) -> String {
        // A dash beside a sign would be taken for one.
        let dash = match &self.interval {
            Some((low, high)) if [low, high].iter().any(|end| end.starts_with(['+', '-'])) => " to ",
            _ => dash,
        };
        self.interval.as_ref().map_or_else(String::new, |(low, high)| format!("{low}{dash}{high}"))
    }
}
