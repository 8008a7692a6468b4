//! A simulation for a terminal.

use super::SimulationView;
use crate::grid::Grid;
use crate::terminal::paragraph;

/// The simulation in `width` columns.
pub(crate) fn terminal(study: &SimulationView, width: usize, colour: bool) -> String {
    let mut text = String::new();
    for verdict in &study.analysis.verdicts {
        paragraph(&mut text, "", verdict, width);
    }
    text.push('\n');
    let table = study.table();
    let mut grid = Grid::new(table.heads);
    if !table.corner.is_empty() {
        paragraph(&mut text, "", &format!("by {}:", table.corner), width);
    }
    for (label, cells) in table.rows {
        grid.push(vec![label], cells);
    }
    grid.write(&mut text, width, colour);
    text.push('\n');
    paragraph(&mut text, "", &study.key(), width);
    paragraph(&mut text, "", &study.setting(), width);
    if !study.analysis.warnings.is_empty() {
        text.push('\n');
    }
    for warning in &study.analysis.warnings {
        paragraph(&mut text, "warning: ", warning, width);
    }
    text.push('\n');
    paragraph(&mut text, "", "The model's limits:", width);
    for limit in study.limits() {
        paragraph(&mut text, "- ", limit, width);
    }
    text
}
