//! A simulation, or replays, for a terminal.

use super::Sheet;
use crate::format::Screen;
use crate::grid::Grid;
use crate::sentences;
use crate::terminal::paragraph;

/// The sheet, fitted to the screen.
pub(crate) fn terminal(sheet: &Sheet, Screen { width, colour }: Screen) -> String {
    let mut text = String::new();
    for verdict in &sheet.verdicts {
        paragraph(&mut text, "", verdict, width);
    }
    text.push('\n');
    let table = &sheet.table;
    let mut grid = Grid::new(table.heads.clone());
    if !table.corner.is_empty() {
        paragraph(&mut text, "", &format!("by {}:", table.corner), width);
    }
    for (label, cells) in &table.rows {
        grid.push(vec![label.clone()], cells.clone());
    }
    grid.write(&mut text, width, colour);
    text.push('\n');
    paragraph(&mut text, "", &sheet.key, width);
    paragraph(&mut text, "", &sheet.setting, width);
    if !sheet.warnings.is_empty() {
        text.push('\n');
    }
    for warning in sentences::warnings(sheet.warnings) {
        paragraph(&mut text, "warning: ", &warning, width);
    }
    text.push('\n');
    paragraph(&mut text, "", &format!("{}:", sheet.limits_of), width);
    for limit in sheet.limits {
        paragraph(&mut text, "- ", limit, width);
    }
    text
}
