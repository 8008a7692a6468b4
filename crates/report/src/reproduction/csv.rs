//! Every cell of every table, one row each.

use crate::csv::{or_empty, text};
use ::simulation::Estimated;
use papers::Reproduction;
use papers::contention::Role;
use papers::reproduction::ReproducedCell;

/// One row a cell, in the order of the papers: `paper`, `table`, `row`, `column`, `printed`, `ours`, the ends of the 95 % interval
/// `ours_low` and `ours_high`, and `difference`, in the table's unit; and what a fitted
/// model had to do with the printed number, `role`: `fitted`, `implied` by such, or `held-out`; and what this machine measured, `live`,
/// with the ends of its interval, `live_low` and `live_high`. What there is not is an empty field.
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
    let tables = papers.iter().flat_map(|paper| paper.tables.iter().map(move |table| (paper, table)));
    let rows = tables.flat_map(|(paper, table)| {
        table.rows.iter().flat_map(move |row| {
            table.columns.iter().zip(&row.cells).map(move |(column, cell)| {
                let place = [&paper.paper, &table.name, &row.label, column].map(String::clone);
                place.into_iter().chain(fields(cell)).collect()
            })
        })
    });
    text(heads.map(String::from).into(), rows)
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
        ReproducedCell::Words { printed, ours } => {
            let mut fields = [const { String::new() }; 9];
            fields[..2].clone_from_slice(&[printed.clone(), ours.clone()]);
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
