//! The placement papers: their times beside a contention model's, and this machine's.

use crate::contention::ContentionError;
use crate::paper::{Paper, Place, Printed, PrintedRow, PrintedTable, Quantity};
use crate::placement_claims::{judge, judge_live};
use crate::reproduction::{
    Against, JudgedClaim, LiveStudies, Method, ReproducedCell, ReproducedRow, ReproducedTable, Reproduction,
};
use crate::{Contention, Live};
use machine::Machine;
use simulation::Estimated;
use study::plan::UNBOUND;

/// Fits a contention model of the paper's machine on some of its printed times, and sets its predictions beside all of them; with
/// `live`, what its study measured on this machine too. Claims are judged by what the paper prints and not by the model, and where
/// they speak of runs, by the live ones besides.
///
/// # Errors
/// [`ContentionError`] when the paper's cells can't be predicted.
pub fn placement(paper: &Paper, live: Option<&Live>) -> Result<Reproduction, ContentionError> {
    let machine = Machine::named(&paper.machine).expect("a test reads every paper's machine");
    let model = Contention::fit(paper, &machine)?;
    let tables = paper.tables.iter().flat_map(|printed| {
        let sources = Sources { paper, model: &model, live, printed };
        [Some(sources.table()), live.and_then(|_| sources.table_of_ratios())]
    });
    let claims = paper.claims.iter().map(|claim| {
        let judgement = judge(&claim.check, paper);
        let live = live.and_then(|live| judge_live(&claim.check, paper, live));
        JudgedClaim { live, ..JudgedClaim::new(claim, Against::Itself, judgement) }
    });
    Ok(Reproduction {
        paper: paper.name.into(),
        citation: paper.citation.clone(),
        held_out: model.held_out(),
        live: live.map(|live| LiveStudies { studies: vec![live.study.clone()], left_out: Vec::new() }),
        against_kernel: None,
        chosen: Vec::new(),
        tables: tables.flatten().collect(),
        figures: Vec::new(),
        claims: claims.collect(),
        method: Some(Method::Fitted(model)),
    })
}

/// A printed table, and where the numbers beside it come from.
struct Sources<'a> {
    paper: &'a Paper,
    model: &'a Contention,
    live: Option<&'a Live>,
    printed: &'a PrintedTable,
}

impl Sources<'_> {
    /// The paper's table with the model's number in each cell; ratios are those of its times.
    fn table(&self) -> ReproducedTable {
        let PrintedTable { name, title, about, threads, rows, .. } = self.printed;
        ReproducedTable {
            name: name.clone(),
            title: title.clone(),
            about: about.clone(),
            margin: None,
            corner: "threads".into(),
            columns: threads.iter().map(u32::to_string).collect(),
            rows: rows.iter().map(|row| self.row(row)).collect(),
        }
    }

    fn row(&self, row: &PrintedRow) -> ReproducedRow {
        let class = self.printed.class.as_deref();
        let placement = row.placement.as_deref();
        let predicted = |placement, threads| self.model.prediction(&row.benchmark, class, placement, threads);
        let cells = self.printed.threads.iter().zip(&row.printed).map(|(&threads, &printed)| {
            let (ours, role) = match row.quantity {
                Quantity::Time | Quantity::SpeedUp => {
                    let cell = predicted(placement, threads);
                    (cell.map(|cell| cell.predicted), cell.map(|cell| cell.role))
                }
                Quantity::Ratio => {
                    let times = predicted(Some(UNBOUND), threads).zip(predicted(placement, threads));
                    (times.map(|(unbound, bound)| unbound.predicted / bound.predicted), None)
                }
            };
            ReproducedCell::predicted(printed, ours, role, self.measured(row, row.quantity, threads))
        });
        let quantity = match row.quantity {
            Quantity::Time => "s",
            Quantity::Ratio => "ratio",
            Quantity::SpeedUp => "speed-up",
        };
        ReproducedRow {
            label: words([Some(row.benchmark.as_str()), class, placement, Some(quantity)]),
            cells: cells.collect(),
        }
    }

    /// What this machine measured in place of a row's number.
    fn measured(&self, row: &PrintedRow, quantity: Quantity, threads: u32) -> Option<Estimated> {
        self.live?.cell(quantity, &Place::new(self.printed, row, threads)?)
    }

    /// The ratios of a table's times, which can be compared with those of another machine; none where it has ratios or no times.
    fn table_of_ratios(&self) -> Option<ReproducedTable> {
        if self.printed.rows.iter().any(|row| row.quantity == Quantity::Ratio) {
            return None;
        }
        let rows: Vec<ReproducedRow> = self.printed.rows.iter().filter_map(|row| self.ratios(row)).collect();
        (!rows.is_empty()).then(|| ReproducedTable {
            name: format!("{}-ratios", self.printed.name),
            title: format!("Ratios of {}", self.printed.title),
            about: "unbound times over those of the placement, above 1 is faster: as they follow from what is printed, from what the \
                    model predicts, and from pairs of this machine's runs"
                .into(),
            rows,
            ..self.table()
        })
    }

    /// The ratios of unbound times to those of a row.
    fn ratios(&self, row: &PrintedRow) -> Option<ReproducedRow> {
        let bound = row.placement.as_deref().filter(|name| *name != UNBOUND && row.quantity == Quantity::Time)?;
        let (benchmark, class) = (row.benchmark.as_str(), self.printed.class.as_deref());
        let cells = self.printed.threads.iter().map(|&threads| {
            let printed = |placement: &str| Some(self.paper.time_s(benchmark, class, placement, threads)?.value);
            let predicted =
                |placement: &str| Some(self.model.prediction(benchmark, class, Some(placement), threads)?.predicted);
            let ratio = |time: &dyn Fn(&str) -> Option<f64>| Some(time(UNBOUND)? / time(bound)?);
            let printed = ratio(&printed).map(|value| Printed { value, decimals: 2 });
            ReproducedCell::predicted(printed, ratio(&predicted), None, self.measured(row, Quantity::Ratio, threads))
        });
        let label = words([Some(benchmark), class, Some(UNBOUND), Some("over"), Some(bound)]);
        Some(ReproducedRow { label, cells: cells.collect() })
    }
}

/// The words that are there, with a space between each two.
fn words<'a>(words: impl IntoIterator<Item = Option<&'a str>>) -> String {
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
