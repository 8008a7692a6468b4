//! The placement papers: their times beside a contention model's, and this machine's.

use crate::contention::{CellPrediction, ContentionError};
use crate::paper::{Paper, Place, Printed, PrintedClaim, PrintedRow, PrintedTable, Quantity};
use crate::placement_claims::{judge, judge_live};
use crate::reproduction::{Against, JudgedClaim, Method, ReproducedCell, ReproducedRow, ReproducedTable, Reproduction};
use crate::{Contention, Live};
use machine::Machine;
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
    let claim = |claim: &PrintedClaim| {
        let (verdict, why) = judge(&claim.check, paper);
        JudgedClaim {
            place: claim.place.clone(),
            statement: claim.says.clone(),
            against: Against::Itself,
            verdict,
            why,
            live: live.and_then(|live| judge_live(&claim.check, paper, live)),
        }
    };
    let mut tables = tables(&model, paper);
    if let Some(live) = live {
        tables = measure(tables, paper, &model, live);
    }
    Ok(Reproduction {
        paper: paper.name.into(),
        citation: paper.citation.clone(),
        held_out: model.held_out(),
        method: Some(Method::Fitted(model)),
        live: live.map(|live| live.study.clone()),
        chosen: Vec::new(),
        tables,
        figures: Vec::new(),
        claims: paper.claims.iter().map(claim).collect(),
    })
}

/// The paper's tables with the model's number in each cell; ratios are those of its times.
fn tables(model: &Contention, paper: &Paper) -> Vec<ReproducedTable> {
    let table = |table: &PrintedTable| ReproducedTable {
        name: table.name.clone(),
        title: table.title.clone(),
        about: table.about.clone(),
        margin: None,
        corner: "threads".into(),
        columns: table.threads.iter().map(u32::to_string).collect(),
        rows: table.rows.iter().map(|row| model_row(model, table, row)).collect(),
    };
    paper.tables.iter().map(table).collect()
}

fn model_row(model: &Contention, table: &PrintedTable, row: &PrintedRow) -> ReproducedRow {
    let predicted = |placement: Option<&str>, threads| {
        let is_this = |cell: &&CellPrediction| {
            (cell.placement.as_deref(), cell.threads) == (placement, threads)
                && (&cell.table, &cell.benchmark) == (&table.name, &row.benchmark)
        };
        model.cells.iter().find(is_this).map(|cell| (cell.predicted, Some(cell.role)))
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

/// Puts what this machine measured into the cells of the paper's tables, and below each table of times one of their ratios, which can
/// be compared with those of another machine.
fn measure(tables: Vec<ReproducedTable>, paper: &Paper, model: &Contention, measured: &Live) -> Vec<ReproducedTable> {
    let mut beside = Vec::new();
    for (mut table, printed) in tables.into_iter().zip(&paper.tables) {
        for (row, printed_row) in table.rows.iter_mut().zip(&printed.rows) {
            for (cell, &threads) in row.cells.iter_mut().zip(&printed.threads) {
                let place = Place::new(printed, printed_row, threads);
                if let (ReproducedCell::Number { live, .. }, Some(place)) = (cell, place) {
                    *live = measured.cell(printed_row.quantity, &place);
                }
            }
        }
        let rows: Vec<ReproducedRow> =
            printed.rows.iter().filter_map(|row| ratios(paper, printed, row, model, measured)).collect();
        let ratios = ReproducedTable {
            name: format!("{}-ratios", table.name),
            title: format!("Ratios of {}", table.title),
            about: "unbound times over those of the placement, above 1 is faster: as they follow from what is printed, from what the \
                    model predicts, and from pairs of this machine's runs"
                .into(),
            rows,
            ..table.clone()
        };
        beside.push(table);
        beside.extend(Some(ratios).filter(|ratios| !ratios.rows.is_empty()));
    }
    beside
}

/// The ratios of unbound times to those of a row, where the table has times and no ratios.
fn ratios(
    paper: &Paper,
    table: &PrintedTable,
    row: &PrintedRow,
    model: &Contention,
    measured: &Live,
) -> Option<ReproducedRow> {
    let bound = row.placement.as_deref().filter(|name| *name != UNBOUND && row.quantity == Quantity::Time)?;
    if table.rows.iter().any(|row| row.quantity == Quantity::Ratio) {
        return None;
    }
    let class = table.class.as_deref();
    let cell = |&threads: &u32| {
        let printed = |placement: &str| Some(paper.time_s(&row.benchmark, class, placement, threads)?.value);
        let predicted = |placement: &str| {
            let is_it = |cell: &&CellPrediction| {
                (cell.benchmark.as_str(), cell.class.as_deref(), cell.placement.as_deref(), cell.threads)
                    == (&row.benchmark, class, Some(placement), threads)
            };
            Some(model.cells.iter().find(is_it)?.predicted)
        };
        let ratio = |of: &dyn Fn(&str) -> Option<f64>| Some(of(UNBOUND)? / of(bound)?);
        let printed = ratio(&printed).map(|value| Printed { value, decimals: 2 });
        let mut cell = ReproducedCell::predicted(printed, ratio(&predicted), None);
        if let (ReproducedCell::Number { live, .. }, Some(place)) = (&mut cell, Place::new(table, row, threads)) {
            *live = measured.cell(Quantity::Ratio, &place);
        }
        cell
    };
    let label = [Some(row.benchmark.as_str()), class, Some(UNBOUND), Some("over"), Some(bound)];
    Some(ReproducedRow {
        label: label.into_iter().flatten().collect::<Vec<_>>().join(" "),
        cells: table.threads.iter().map(cell).collect(),
    })
}
