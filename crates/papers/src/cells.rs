//! The cells of a paper's tables, with the numbers that its claims are judged by.

use crate::interval::{over, rounded};
use crate::live::Live;
use crate::paper::{Paper, Place, Printed, PrintedRow, PrintedTable, Quantity};
use simulation::Estimated;
use std::cell::RefCell;
use std::collections::BTreeMap;
use study::plan::UNBOUND;

/// Whose numbers a claim is judged by: the paper's, or this machine's in their place.
pub(super) struct Cells<'a> {
    pub paper: &'a Paper,
    pub live: Option<&'a Live>,
    /// How many live intervals must hold at once.
    pub among: usize,
    /// What a claim asked this machine for, and whether it was there.
    asked: RefCell<BTreeMap<String, bool>>,
}

impl<'a> Cells<'a> {
    /// What the paper prints.
    pub fn printed(paper: &'a Paper) -> Self {
        Self { paper, live: None, among: 1, asked: RefCell::default() }
    }

    /// What this machine measured.
    pub fn measured(paper: &'a Paper, live: &'a Live, among: usize) -> Self {
        Self { paper, live: Some(live), among, asked: RefCell::default() }
    }

    /// What was run: the paper's benchmark with its class, or ours in its place.
    pub fn name(&self, benchmark: &str, class: Option<&str>) -> String {
        let ours = self.live.and_then(|live| live.subject(benchmark, class));
        ours.map_or_else(|| name(benchmark, class), str::to_owned)
    }

    /// Notes that this machine was asked for something.
    pub fn noted(&self, what: String, found: Option<Estimated>) -> Option<Estimated> {
        self.asked.borrow_mut().insert(what, found.is_some());
        found
    }

    /// How many things this machine was asked for, and how many of them were there.
    pub fn found(&self) -> (usize, usize) {
        let asked = self.asked.borrow();
        (asked.len(), asked.values().filter(|found| **found).count())
    }

    /// A time in seconds, of a printed row.
    pub fn time_s(&self, table: &PrintedTable, row: &PrintedRow, threads: u32) -> Option<Estimated> {
        let printed = table.number(row, threads)?;
        let Some(live) = self.live else { return Some(rounded(printed)) };
        let place = Place::new(table, row, threads)?;
        self.noted(place.to_string(), live.time_s(&place, self.among).filter(|time| time.low.is_some()))
    }

    /// The ratio of the time of a printed row to that of the placement `to`.
    pub fn ratio(&self, table: &PrintedTable, row: &PrintedRow, to: &str, threads: u32) -> Option<Estimated> {
        let slower = table.number(row, threads)?;
        let faster = self.paper.time_s(&row.benchmark, table.class.as_deref(), to, threads)?;
        let Some(live) = self.live else {
            return Some(self.narrowed(over(rounded(slower), rounded(faster)), table, row, to, threads));
        };
        let place = Place::new(table, row, threads)?;
        self.noted(format!("{place}, over {to}"), live.ratio(&place, to, self.among))
    }

    /// What a ratio of printed times can be when the ratio is printed too, which was made from times with more digits.
    fn narrowed(&self, ratio: Estimated, table: &PrintedTable, row: &PrintedRow, to: &str, threads: u32) -> Estimated {
        let printed_ratio = rows(self.paper, Quantity::Ratio).find(|(other_table, other)| {
            (&other_table.name, &other.benchmark, other.placement.as_deref()) == (&table.name, &row.benchmark, Some(to))
        });
        let bounds = printed_ratio.and_then(|(table, row)| table.number(row, threads)).map(Printed::bounds);
        let Some((low, high)) = bounds.filter(|_| row.placement.as_deref() == Some(UNBOUND)) else { return ratio };
        let narrower = (ratio.low.map_or(low, |x| x.max(low)), ratio.high.map_or(high, |x| x.min(high)));
        if narrower.0 > narrower.1 {
            return ratio;
        }
        let value = ratio.value.clamp(narrower.0, narrower.1);
        Estimated { value, low: Some(narrower.0), high: Some(narrower.1) }
    }

    /// A speed-up of a printed row.
    pub fn speed_up(&self, table: &PrintedTable, row: &PrintedRow, threads: u32) -> Option<Estimated> {
        let Some(live) = self.live else { return table.number(row, threads).map(rounded) };
        let place = Place::new(table, row, threads)?;
        self.noted(place.to_string(), live.speed_up(&place, self.among))
    }
}

/// The paper's rows of that quantity, with their tables.
pub(super) fn rows(paper: &Paper, quantity: Quantity) -> impl Iterator<Item = (&PrintedTable, &PrintedRow)> {
    let rows = paper.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    rows.filter(move |(_, row)| row.quantity == quantity)
}

/// A benchmark with its class: `BT.B`.
pub(super) fn name(benchmark: &str, class: Option<&str>) -> String {
    class.map_or_else(|| benchmark.to_owned(), |class| format!("{benchmark}.{class}"))
}
