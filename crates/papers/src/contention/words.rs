//! The model as a page of a paper's reproduction: in sentences, and its numbers in the paper's own tables.

use super::{CellPrediction, Contention, LEFT_OUT, Neighbourhood, Role};
use crate::paper::{Paper, PrintedRow, PrintedTable, Quantity};
use crate::reproduction::{ReproducedCell, ReproducedRow, ReproducedTable};
use std::collections::{BTreeMap, BTreeSet};

/// An error of a cell from which the sentences say what the model lacks there: the largest mean error that we allow.
const TELLING_ERROR: f64 = 0.12;

impl Contention {
    /// What was fitted on what, how well the rest is predicted, and what is missing where it isn't.
    pub fn in_words(&self) -> Vec<String> {
        let of = |role| self.cells.iter().filter(move |cell| cell.role == role);
        let mut words = vec![format!(
            "A contention model of the paper's machine was fitted on {} of {} printed cells, which a dagger marks: {}.",
            of(Role::Fitted).count(),
            self.cells.len(),
            named(of(Role::Fitted))
        )];
        let slowed = match self.machine.neighbourhood {
            Neighbourhood::SharedUnits => "while a CPU that shares its units is busy",
            Neighbourhood::PackageClock => "while more than half of its package is busy",
        };
        words.extend(
            self.machine.slowdown.map(|slowdown| format!("Core work takes {slowdown:.2} times as long {slowed}.")),
        );
        words.extend(self.machine.misplaced.map(|share| {
            format!("An unbound thread sits on a wrong memory node in {:.1} % of phases.", 100.0 * share)
        }));
        if let Some(held_out) = self.held_out() {
            words.push(format!(
                "On the {} cells that it hasn't seen, dividing the time on one thread by the threads would be wrong by {:.1} % and \
                 interpolating between the fitted cells by {:.1} %.",
                held_out.cells,
                100.0 * held_out.perfect_scaling_mean_error,
                100.0 * held_out.interpolation_mean_error,
            ));
            if held_out.implied_cells > 0 {
                words.push(format!(
                    "The other {} follow from fitted ones and test nothing: one thread, or placements alike.",
                    held_out.implied_cells
                ));
            }
        }
        let mut missed: Vec<&CellPrediction> =
            of(Role::HeldOut).filter(|cell| cell.error.abs() > TELLING_ERROR).collect();
        missed.sort_by(|a, b| b.error.abs().total_cmp(&a.error.abs()));
        words.extend(missed.into_iter().map(in_words));
        words.push(format!("Left out: {}.", LEFT_OUT.join("; ")));
        words
    }

    /// The paper's tables with the model's number in each cell; ratios are those of its times.
    pub fn tables(&self, paper: &Paper) -> Vec<ReproducedTable> {
        let table = |table: &PrintedTable| ReproducedTable {
            name: table.name.clone(),
            title: table.title.clone(),
            about: table.about.clone(),
            margin: None,
            corner: "threads".into(),
            columns: table.threads.iter().map(u32::to_string).collect(),
            rows: table.rows.iter().map(|row| self.row(table, row)).collect(),
        };
        paper.tables.iter().map(table).collect()
    }

    fn row(&self, table: &PrintedTable, row: &PrintedRow) -> ReproducedRow {
        let predicted = |placement: Option<&str>, threads| {
            let is_this = |cell: &&CellPrediction| {
                (cell.placement.as_deref(), cell.threads) == (placement, threads)
                    && (&cell.table, &cell.benchmark) == (&table.name, &row.benchmark)
            };
            self.cells.iter().find(is_this).map(|cell| (cell.predicted, Some(cell.role)))
        };
        let placement = row.placement.as_deref();
        let cells = table.threads.iter().zip(&row.printed).map(|(&threads, &printed)| {
            let ours = match row.quantity {
                Quantity::Time | Quantity::SpeedUp => predicted(placement, threads),
                Quantity::Ratio => predicted(Some("unbound"), threads)
                    .zip(predicted(placement, threads))
                    .map(|((unbound, _), (bound, _))| (unbound / bound, None)),
            };
            ReproducedCell::predicted(printed, ours.map(|(value, _)| value), ours.and_then(|(_, role)| role))
        });
        let quantity = match row.quantity {
            Quantity::Time => "s",
            Quantity::Ratio => "ratio",
            Quantity::SpeedUp => "speed-up",
        };
        let label = [Some(row.benchmark.as_str()), table.class.as_deref(), placement, Some(quantity)];
        ReproducedRow { label: label.into_iter().flatten().collect::<Vec<_>>().join(" "), cells: cells.collect() }
    }
}

/// Which cells these are: `scatter with 1, 8 threads of BT.B, CG.B; unbound with 8 threads of CG.B`.
fn named<'a>(cells: impl Iterator<Item = &'a CellPrediction>) -> String {
    let mut benchmarks: BTreeMap<(&str, u32), BTreeSet<String>> = BTreeMap::new();
    for cell in cells {
        benchmarks.entry((placement(cell), cell.threads)).or_default().insert(name(cell));
    }
    let mut threads: BTreeMap<(&str, BTreeSet<String>), Vec<String>> = BTreeMap::new();
    for ((placement, count), benchmarks) in benchmarks {
        threads.entry((placement, benchmarks)).or_default().push(count.to_string());
    }
    let group = |((placement, benchmarks), threads): ((&str, BTreeSet<String>), Vec<String>)| {
        let benchmarks: Vec<String> = benchmarks.into_iter().collect();
        format!("{placement} with {} threads of {}", threads.join(", "), benchmarks.join(", "))
    };
    threads.into_iter().map(group).collect::<Vec<_>>().join("; ")
}

/// Its placement in words.
fn placement(cell: &CellPrediction) -> &str {
    cell.placement.as_deref().unwrap_or("a placement that isn't named")
}

/// A benchmark with its class: `BT.B`.
fn name(cell: &CellPrediction) -> String {
    let class = cell.class.as_ref().map_or_else(String::new, |class| format!(".{class}"));
    format!("{}{class}", cell.benchmark)
}

/// A cell that the model misses, and what would explain it.
fn in_words(cell: &CellPrediction) -> String {
    let missing = match cell.misplaced_needed {
        Some(share) if share > 1.0 => "one misplaced thread throughout isn't enough".to_owned(),
        Some(share) if share > 0.0 => format!("a misplaced thread in {:.0} % of phases would explain it", 100.0 * share),
        Some(_) => "its threads are slowed less than where they are bound".to_owned(),
        None => "between the fitted counts of threads, contention grows in another way than a queue for each node and a constant \
                 for each further thread"
            .to_owned(),
    };
    format!(
        "{} {} with {} threads: {:.*} where {} is printed; {missing}.",
        name(cell),
        placement(cell),
        cell.threads,
        usize::from(cell.printed.decimals),
        cell.predicted,
        cell.printed
    )
}
