//! Labels and figures in rows, built once for every form to write in its own way; and the papers' table.
//!
//! The papers' table is as Pires 2016 and 2017 print it: one group of rows a benchmark, one column a thread count, times without
//! and with binding, and below them the ratio of the two. We add the ratio's interval and the speed-up.

use crate::metric;
use crate::number::{self, Ratio};
use crate::study_view::StudyView;
use crate::words::shape_in_words;
use crate::words::{compared, count};
use papers::paper::Quantity;
use std::collections::BTreeSet;
use study::Shape;
use study::{Claim, Effect, MemoryShares, Subject, Summary, Treatment};

/// Rows of labels and figures below their heads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// What stands above the labels, as many as every row has.
    pub corner: Vec<String>,
    /// What stands above the figures.
    pub heads: Vec<String>,
    /// What those heads are numbers of, such as `thread`; none where they are words.
    pub counted: Option<&'static str>,
    /// Whether neighbours with the same first label are a group, whose labels needn't be repeated.
    pub is_grouped: bool,
    /// The rows.
    pub rows: Vec<Row>,
}

/// Labels and the figures beside them.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// One for each of the corner. In the only label of a row, leading spaces say that it is a part of what is above.
    pub labels: Vec<String>,
    /// One for each head.
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
    /// Whether that was measured on a busy machine, so that it only seems to differ.
    pub is_busy: bool,
}

impl Table {
    /// An empty table with a figure for each of `threads`.
    pub(crate) fn over_threads(corner: [&str; 3], threads: &[Shape]) -> Self {
        let corner = corner.map(String::from).into();
        let heads = threads.iter().map(Shape::to_string).collect();
        Self { corner, heads, counted: Some("thread"), is_grouped: true, rows: Vec::new() }
    }

    /// An empty table with one label a row, and a figure for each of `heads`.
    pub(crate) fn of_policies(corner: String, heads: Vec<String>) -> Self {
        Self { corner: vec![corner], heads, ..Self::default() }
    }

    /// Adds a row with one label.
    pub(crate) fn push(&mut self, label: String, cells: Vec<Cell>) {
        self.rows.push(Row { labels: vec![label], cells });
    }

    /// A table of words alone.
    pub(crate) fn of_labels(corner: [&str; 3], rows: impl Iterator<Item = Vec<String>>) -> Self {
        let rows = rows.map(|labels| Row { labels, cells: Vec::new() }).collect();
        Self { corner: corner.map(String::from).into(), rows, ..Self::default() }
    }

    /// Every placement of `study` beside the reference: subject, quantity and placement over thread counts.
    pub(crate) fn of_placements(study: &StudyView) -> Self {
        let plan = &study.plan;
        let rows_of = |subject: &Subject| {
            let cell = |quantity, treatment: &Treatment, threads| match treatment.same_placement(threads) {
                Some(earlier) => Cell::twin(earlier),
                None => study
                    .summary(&subject.name, threads, &treatment.name)
                    .map_or_else(Cell::default, |summary| Cell::new(summary, quantity, study.is_busy(summary))),
            };
            let row = |quantity, treatment: &Treatment| Row {
                labels: vec![subject.name.clone(), words(subject, quantity), treatment.name.clone()],
                cells: plan.threads.iter().map(|&threads| cell(quantity, treatment, threads)).collect(),
            };
            let all = || plan.treatments.iter();
            // Which other one it is stands among the times; a row that says nothing else isn't repeated.
            let own = || all().filter(|treatment| !study.is_run_as_others(treatment));
            let mut rows: Vec<Row> = all().map(|treatment| row(Quantity::Time, treatment)).collect();
            // Of times that mean nothing there is no ratio.
            if !study.is_emulated() {
                rows.extend(own().skip(1).map(|treatment| row(Quantity::Ratio, treatment)));
            }
            if plan.threads.len() > 1 && study.summaries(&subject.name).any(|s| s.speedup.is_some()) {
                rows.extend(own().map(|treatment| row(Quantity::SpeedUp, treatment)));
            }
            rows
        };
        let rows = study.compared().flat_map(rows_of).collect();
        Self { rows, ..Self::over_threads(["subject", "", compared(study.analysis.varied)], &plan.threads) }
    }

    /// What each level of each factor of `study` changes, and two together, over thread counts: subject, factor and level. None where
    /// fewer than two factors vary.
    pub(crate) fn of_effects(study: &StudyView) -> Option<Self> {
        let effects = &study.analysis.effects;
        let threads: Vec<Shape> =
            study.plan.threads.iter().copied().filter(|&count| effects.iter().any(|e| e.threads == count)).collect();
        let mut rows: Vec<Row> = Vec::new();
        for effect in effects {
            let labels = vec![effect.subject.clone(), effect.factor.clone(), effect.in_words()];
            let column = threads.iter().position(|&count| count == effect.threads)?;
            let at = rows.iter().position(|row| row.labels == labels).unwrap_or_else(|| {
                rows.push(Row { labels, cells: vec![Cell::default(); threads.len()] });
                rows.len() - 1
            });
            rows[at].cells[column] = Cell::of_effect(effect, !study.disturbances(&effect.subject).is_empty());
        }
        (!rows.is_empty()).then(|| Self { rows, ..Self::over_threads(["subject", "factor", "level"], &threads) })
    }

    /// Where the memory of each cell's runs was, where that was read back: subject, treatment and thread count over NUMA nodes.
    pub(crate) fn of_memory(study: &StudyView) -> Option<Self> {
        let cells: Vec<(&Summary, &MemoryShares)> =
            study.analysis.summaries.iter().filter_map(|summary| Some((summary, summary.memory.as_ref()?))).collect();
        let nodes: BTreeSet<u32> = cells.iter().flat_map(|(_, memory)| memory.by_node.keys().copied()).collect();
        let has_remote = cells.iter().any(|(_, memory)| memory.remote.is_some());
        let percent = |share: f64| Cell::from(format!("{:.1} %", 100.0 * share));
        let row = |(summary, memory): &(&Summary, &MemoryShares)| {
            let of_node = |node: &u32| percent(memory.by_node.get(node).copied().unwrap_or(0.0));
            let mut cells: Vec<Cell> = nodes.iter().map(of_node).collect();
            cells.extend(has_remote.then(|| memory.remote.map_or_else(Cell::default, percent)));
            cells.push(percent(memory.huge));
            let threads = shape_in_words(summary.threads);
            Row { labels: vec![summary.subject.clone(), summary.placement.clone(), threads], cells }
        };
        let mut heads: Vec<String> = nodes.iter().map(|node| format!("node {node}")).collect();
        heads.extend(has_remote.then(|| "remote".to_owned()));
        heads.push("huge pages".into());
        let corner = ["subject", compared(study.analysis.varied), ""].map(String::from).into();
        let rows: Vec<Row> = cells.iter().map(row).collect();
        (!rows.is_empty()).then_some(Self { corner, heads, counted: None, is_grouped: true, rows })
    }

    /// The heads of the figures in words: `2 threads`.
    pub(crate) fn heads_in_words(&self) -> Vec<String> {
        let in_words = |head: &String| match (self.counted, head.parse(), head.parse()) {
            (Some(noun), Ok(number), _) => count(number, noun),
            (Some(_), _, Ok(shape)) => shape_in_words(shape),
            _ => head.clone(),
        };
        self.heads.iter().map(in_words).collect()
    }

    /// The rows of each group.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &[Row]> {
        self.rows.chunk_by(|a, b| a.labels[0] == b.labels[0])
    }

    /// Each row with its labels, of which those that only repeat the row above are empty.
    pub(crate) fn rows_without_repeats(&self) -> impl Iterator<Item = (Vec<&str>, &[Cell])> {
        let above = std::iter::once(None).chain(self.rows.iter().map(Some));
        self.rows.iter().zip(above).map(|(Row { labels, cells }, above)| {
            let repeats = |(own, other): &(&String, &String)| own == other;
            let repeated = above
                .filter(|_| self.is_grouped)
                .map_or(0, |above| labels.iter().zip(&above.labels).take_while(repeats).count());
            let shown = labels.iter().enumerate().map(|(at, label)| if at < repeated { "" } else { label.as_str() });
            (shown.collect(), cells.as_slice())
        })
    }

    /// Whether a difference is marked as measured on a busy machine.
    pub(crate) fn has_busy(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.mark() == Mark::Seeming)
    }

    /// Whether a figure has an interval.
    pub(crate) fn has_intervals(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.interval.is_some())
    }
}

/// How a table of effects is to be read.
pub(crate) const EFFECTS_KEY: &str = "Effects: how much faster (or better) runs are under the level than under the reference, over all levels of \
     the other factors, so above 1 is faster; of two levels together (x), how much faster they are than the product of what each changes by \
     itself.";

/// How a table of memory is to be read.
pub(crate) const MEMORY_KEY: &str = "Memory: where the memory of the runs was when they ended, as read back; remote is on nodes that \
     have no CPU of the placement.";

/// What a mark for a difference on a busy machine means.
pub(crate) const BUSY_KEY: &str = "a difference was measured, but on a busy machine, which may have made it";

/// What a row of the papers' table tells.
fn words(subject: &Subject, quantity: Quantity) -> String {
    match quantity {
        Quantity::Time => metric::label(&subject.metric),
        Quantity::Ratio => "ratio".into(),
        Quantity::SpeedUp => "speed-up".into(),
    }
}

/// What a figure of a table may be marked as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nothing is shown of it.
    Plain,
    /// A difference is shown.
    Shown(Claim),
    /// A difference was measured on a busy machine, which may have made it.
    Seeming,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl Cell {
    /// That it is the very placement of `earlier`.
    fn twin(earlier: &str) -> Self {
        format!("= {earlier}").into()
    }

    /// What `summary` says of `quantity`; a time is its median. A difference that was measured on a busy machine is marked as
    /// such.
    pub(crate) fn new(summary: &Summary, quantity: Quantity, is_busy: bool) -> Self {
        let told = match quantity {
            Quantity::Time => summary.figures.median.map(|value| number::seconds(value).into()),
            Quantity::Ratio => Ratio::of(summary).map(|Ratio { value, interval }| Self {
                text: value,
                interval,
                claim: matches!(summary.claim, Claim::Faster | Claim::Slower).then_some(summary.claim),
                is_busy,
            }),
            Quantity::SpeedUp => summary.speedup.map(|s| format!("{s:.2}").into()),
        };
        told.unwrap_or_else(|| match &summary.same_as {
            Some(twin) => Self::twin(twin),
            None if summary.failed > 0 && quantity == Quantity::Time => "failed".to_owned().into(),
            None => Self::default(),
        })
    }

    /// The ratio of an effect.
    fn of_effect(effect: &Effect, is_busy: bool) -> Self {
        let Some(value) = effect.ratio else { return "too few".to_owned().into() };
        let Ratio { value, interval } = Ratio::new(value, effect.ratio_low, effect.ratio_high);
        let claim = matches!(effect.claim, Claim::Faster | Claim::Slower).then_some(effect.claim);
        Self { text: value, interval, claim, is_busy }
    }

    /// What it is marked as.
    pub(crate) fn mark(&self) -> Mark {
        match self.claim {
            Some(_) if self.is_busy => Mark::Seeming,
            Some(claim) => Mark::Shown(claim),
            None => Mark::Plain,
        }
    }

    /// The interval with `dash` between its ends; empty where there is none.
    pub(crate) fn range(&self, dash: &str) -> String {
        self.interval.as_ref().map_or_else(String::new, |(low, high)| number::ends(low, high, dash))
    }
}
