//! Every cell of every table, one row each.

use super::against_kernel;
use crate::csv::{or_empty, text};
use ::simulation::Estimated;
use papers::Reproduction;
use papers::contention::Role;
use papers::reproduction::ReproducedCell;

/// One row a cell, in the order of the papers: `paper`, `table`, `row`, `column`, `printed`, `ours`, the ends of the 95 % interval
/// `ours_low` and `ours_high`, and `difference`, in the table's unit; and what a fitted
/// model had to do with the printed number, `role`: `fitted`, `implied` by such, or `held-out`; and what this machine measured, `live`,
/// with the ends of its interval, `live_low` and `live_high`. What there is not is an empty field. What a paper's policies would change
/// against today's kernel is a row a sentence, of the table `against-kernel`, with the sentence as `ours`.
pub fn csv(papers: &[Reproduction]) -> String {
    let heads = [
        "paper",
        "table",
        "row",
        "column",
        "printed",
        "ours",
        "ours_low",
        "ours_high",
        "difference",
        "role",
        "live",
        "live_low",
        "live_high",
    ];
    text(heads.map(String::from).into(), papers.iter().flat_map(|paper| cells(paper).chain(sentences(paper))))
}

/// A row for each cell of a paper's tables.
fn cells(paper: &Reproduction) -> impl Iterator<Item = Vec<String>> {
    let rows = paper.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    rows.flat_map(move |(table, row)| {
        table.columns.iter().zip(&row.cells).map(move |(column, cell)| {
            let place = [&paper.paper, &table.name, &row.label, column].map(String::clone);
            place.into_iter().chain(fields(cell)).collect()
        })
    })
}

/// A row for each sentence on what a paper's policies would change against today's kernel.
fn sentences(paper: &Reproduction) -> impl Iterator<Item = Vec<String>> {
    against_kernel(paper).into_iter().map(|sentence| {
        let place = [paper.paper.as_str(), "against-kernel", "", ""].map(String::from);
        place.into_iter().chain(fields(&ReproducedCell::words("", sentence))).collect()
    })
}

/// What is told of a cell, from `printed` to `live_high`.
fn fields(cell: &ReproducedCell) -> [String; 9] {
    match cell {
        ReproducedCell::Number { printed, ours, difference, role, live } => {
            let [ours, live] = [ours, live].map(|estimate| {
                let Some(Estimated { value, low, high }) = *estimate else { return [const { String::new() }; 3] };
                [Some(value), low, high].map(or_empty)
            });
            let [ours, ours_low, ours_high] = ours;
            let [live, live_low, live_high] = live;
            let [printed, difference] = [or_empty(*printed), or_empty(*difference)];
            let role = or_empty(role.map(role_word));
            [printed, ours, ours_low, ours_high, difference, role, live, live_low, live_high]
        }
        ReproducedCell::Words { printed, ours, live } => {
            let mut fields = [const { String::new() }; 9];
            fields[..2].clone_from_slice(&[printed.clone(), ours.clone()]);
            fields[6] = live.clone().unwrap_or_default();
            fields
        }
    }
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::Fitted => "fitted",
        Role::Implied => "implied",
        Role::HeldOut => "held-out",
    }
}
