//! What one placement of a paper gains over another.

use crate::case::Case;
use crate::cells::{Cells, rows};
use crate::interval::ends;
use crate::paper::{Printed, PrintedRow, PrintedTable, Quantity, with_threads};
use crate::verdict::Verdict;
use simulation::Estimated;
use study::plan::UNBOUND;

/// By how much a placement is faster than another, in percent of the faster one's time.
pub(super) struct Gain<'a> {
    /// What was run.
    name: String,
    pub benchmark: &'a str,
    pub class: Option<&'a str>,
    pub threads: u32,
    pub percent: Estimated,
    /// As printed, of the slower.
    pub time: Printed,
    pub is_printed_alike: bool,
}

impl<'a> Gain<'a> {
    pub fn label(&self) -> String {
        format!("{} {}", self.name, with_threads(self.threads))
    }

    pub fn case(&self, range: (f64, f64)) -> Case {
        Case::new(self.label(), self.percent, range, " %")
    }

    /// The larger gain; its interval is of the largest of both.
    pub fn larger(self, other: Self) -> Self {
        let ((low, high), (other_low, other_high)) = (ends(self.percent), ends(other.percent));
        let larger = if self.percent.value >= other.percent.value { self } else { other };
        let percent = Estimated { low: Some(low.max(other_low)), high: Some(high.max(other_high)), ..larger.percent };
        Self { percent, ..larger }
    }
}

/// What one placement gains over another with some numbers of threads.
pub(super) fn gains<'a>(cells: &Cells<'a>, from: &str, to: &str, counts: &[u32]) -> Vec<Gain<'a>> {
    let rows = rows(cells.paper, Quantity::Time).filter(|(_, row)| row.placement.as_deref() == Some(from));
    let cells_of_rows = rows.flat_map(|row| counts.iter().map(move |&threads| (row, threads)));
    let gain = |((table, row), threads): ((&'a PrintedTable, &'a PrintedRow), u32)| {
        let (benchmark, class) = (row.benchmark.as_str(), table.class.as_deref());
        let percent = cells.ratio(table, row, to, threads)?.map(|ratio| 100.0 * (ratio - 1.0));
        let time = table.number(row, threads)?;
        let is_printed_alike = Some(time) == cells.paper.time_s(benchmark, class, to, threads);
        Some(Gain { name: cells.name(benchmark, class), benchmark, class, threads, percent, time, is_printed_alike })
    };
    cells_of_rows.filter_map(gain).collect()
}

/// What the placement of the paper's first table gains over unbound.
pub(super) fn affinity_gains<'a>(cells: &Cells<'a>, counts: &[u32]) -> Vec<Gain<'a>> {
    let mut placements = rows(cells.paper, Quantity::Time).filter_map(|(_, row)| row.placement.as_deref());
    let bound = placements.find(|placement| *placement != UNBOUND);
    bound.map_or_else(Vec::new, |bound| gains(cells, UNBOUND, bound, counts))
}

/// The share of gains in a range in percent, with those that rounding leaves open as its interval.
pub(super) fn share(gains: &[Gain], range: (f64, f64)) -> Option<Estimated> {
    let percent =
        |which: &dyn Fn(&&Gain) -> bool| 100.0 * gains.iter().filter(which).count() as f64 / gains.len() as f64;
    (!gains.is_empty()).then(|| Estimated {
        value: percent(&|gain| (range.0..=range.1).contains(&gain.percent.value)),
        low: Some(percent(&|gain| gain.case(range).verdict() == Verdict::Holds)),
        high: Some(percent(&|gain| gain.case(range).verdict() != Verdict::Fails)),
    })
}

/// The gain of the geometric mean of ratios, in percent; none of no gains.
pub(super) fn geometric_mean(gains: &[Gain]) -> Option<Estimated> {
    let mean = |percent: &dyn Fn(&Gain) -> f64| {
        let logarithms = gains.iter().map(|gain| (percent(gain) / 100.0).ln_1p()).sum::<f64>();
        100.0 * (logarithms / gains.len() as f64).exp_m1()
    };
    (!gains.is_empty()).then(|| Estimated {
        value: mean(&|gain| gain.percent.value),
        low: Some(mean(&|gain| ends(gain.percent).0)),
        high: Some(mean(&|gain| ends(gain.percent).1)),
    })
}
