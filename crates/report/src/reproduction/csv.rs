//! Every cell of every table, one row each.

use papers::Reproduction;
use papers::contention::Role;
use papers::reproduction::ReproducedCell;

/// One row a cell, in the order of the papers: `paper`, `table`, `row`, `column`, `printed`, `ours`, the ends of the 95 % interval
/// `ours_low` and `ours_high`, and `difference`, in the table's unit; and what a fitted
/// model had to do with the printed number, `role`: `fitted`, `implied` by such, or `held-out`; and what this machine measured, `live`,
/// with the ends of its interval, `live_low` and `live_high`. What there is not is an empty field.
pub fn csv(papers: &[Reproduction]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write =
        |row: [String; 13]| writer.write_record(row).expect("writing rows of one length to memory cannot fail");
    write(
        [
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
        ]
        .map(String::from),
    );
    let number = |number: Option<f64>| number.map_or_else(String::new, |number| number.to_string());
    for paper in papers {
        for table in &paper.tables {
            for row in &table.rows {
                for (column, cell) in table.columns.iter().zip(&row.cells) {
                    let [printed, ours, low, high, difference, role, live, live_low, live_high] = match cell {
                        ReproducedCell::Number { printed, ours, difference, role, live } => [
                            printed.map_or_else(String::new, |printed| printed.to_string()),
                            number(ours.map(|ours| ours.value)),
                            number(ours.and_then(|ours| ours.low)),
                            number(ours.and_then(|ours| ours.high)),
                            number(*difference),
                            role.map_or_else(String::new, role_word),
                            number(live.map(|live| live.value)),
                            number(live.and_then(|live| live.low)),
                            number(live.and_then(|live| live.high)),
                        ],
                        ReproducedCell::Words { printed, ours } => {
                            let mut fields = [const { String::new() }; 9];
                            fields[..2].clone_from_slice(&[printed.clone(), ours.clone()]);
                            fields
                        }
                    };
                    let place = [&paper.paper, &table.name, &row.label, column].map(String::clone);
                    let [paper, table, row, column] = place;
                    write([
                        paper, table, row, column, printed, ours, low, high, difference, role, live, live_low,
                        live_high,
                    ]);
                }
            }
        }
    }
    let bytes = writer.into_inner().expect("flushing to memory cannot fail");
    String::from_utf8(bytes).expect("CSV of UTF-8 fields is UTF-8")
}

fn role_word(role: Role) -> String {
    match role {
        Role::Fitted => "fitted",
        Role::Implied => "implied",
        Role::HeldOut => "held-out",
    }
    .into()
}
