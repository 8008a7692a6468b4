//! Labels and figures in columns for a terminal, in as many parts as its width asks for.

use crate::format::Screen;
use crate::table::{Cell, Mark, Table};
use crate::words::short;
use comfy_table::{CellAlignment, Color, ContentArrangement, presets};
use std::fmt::Write;
use std::ops::Range;
use study::Claim;

/// Marks a difference that was measured on a busy machine.
pub(crate) const SEEMING: &str = "~";

/// Rows of labels, each followed by one figure a column.
pub(crate) struct Grid {
    /// What stands above the labels.
    pub corner: Vec<String>,
    /// What stands above the figures.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<Line>,
}

/// A row of a grid.
pub(crate) struct Line {
    /// One for each of the corner.
    pub labels: Vec<String>,
    /// One for each head, and the colour that it is told in.
    pub figures: Vec<(String, Option<Color>)>,
}

impl Grid {
    /// The grid of a table, whose labels are cut to `label_width`. A star marks a claim for readers without colours.
    pub(crate) fn new(table: &Table, label_width: usize) -> Self {
        let line = |(labels, cells): (Vec<&str>, &[Cell])| Line {
            labels: labels.into_iter().map(|label| short(label, label_width)).collect(),
            figures: cells.iter().map(|cell| (written(cell), colour(cell))).collect(),
        };
        Self {
            corner: vec![String::new(); table.corner.len()],
            heads: table.heads_in_words(),
            rows: table.rows_without_repeats().map(line).collect(),
        }
    }

    /// Appends the grid to `text`, parts below one another where the screen doesn't hold all columns.
    pub(crate) fn write(&self, text: &mut String, screen: Screen) {
        let longest = |text: &String| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let corner = self.corner.iter().enumerate().map(|(at, corner)| {
            2 + self.rows.iter().map(|row| &row.labels[at]).chain([corner]).map(longest).max().unwrap_or(0)
        });
        let width = |column: usize| {
            let figures = self.rows.iter().map(|row| &row.figures[column].0);
            2 + figures.chain([&self.heads[column]]).map(longest).max().unwrap_or(0)
        };
        for part in parts(self.heads.len(), screen.width.saturating_sub(corner.sum()), width) {
            let _ = writeln!(text, "{}", self.part(part, screen.colour));
        }
    }

    fn part(&self, columns: Range<usize>, is_coloured: bool) -> String {
        let mut table = bare(is_coloured);
        table.set_header(self.corner.iter().chain(&self.heads[columns.clone()]));
        for Line { labels, figures } in &self.rows {
            let figures = &figures[columns.clone()];
            // A part may lack what the row is about.
            if labels[0].is_empty() && figures.iter().all(|(figure, _)| figure.is_empty()) {
                continue;
            }
            let painted = figures.iter().map(|(figure, colour)| match colour {
                Some(colour) => comfy_table::Cell::new(figure).fg(*colour),
                None => comfy_table::Cell::new(figure),
            });
            table.add_row(labels.iter().map(comfy_table::Cell::new).chain(painted));
        }
        for column in table.column_iter_mut().skip(self.corner.len()) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        finished(table)
    }
}

/// Runs of `columns` whose widths fit into `room`, or of one.
pub(crate) fn parts(columns: usize, room: usize, column_width: impl Fn(usize) -> usize) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut used = 0;
    for column in 0..columns {
        used += column_width(column);
        match parts.last_mut() {
            Some(part) if used <= room => part.end += 1,
            _ => {
                used = column_width(column);
                parts.push(column..column + 1);
            }
        }
    }
    parts
}

/// A table without lines.
pub(crate) fn bare(is_coloured: bool) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
    if is_coloured {
        table.enforce_styling();
    }
    table
}

/// A table, indented and with its columns set apart.
pub(crate) fn finished(mut table: comfy_table::Table) -> String {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 2 } else { 0 }, 2));
    }
    table.trim_fmt()
}

fn written(cell: &Cell) -> String {
    let star = match cell.mark() {
        Mark::Shown(_) => "*",
        Mark::Seeming => SEEMING,
        Mark::Plain => "",
    };
    match cell.range("-") {
        _ if cell.text.is_empty() => "-".into(),
        range if range.is_empty() => format!("{}{star}", cell.text),
        range => format!("{}{star}\n{range}", cell.text),
    }
}

fn colour(cell: &Cell) -> Option<Color> {
    match cell.mark() {
        Mark::Shown(Claim::Faster) => Some(Color::Green),
        Mark::Shown(Claim::Slower) => Some(Color::Red),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_every_column_once_and_no_more_than_fits() {
        for room in 0..40 {
            let parts = parts(7, room, |column| 3 + column);
            assert!(parts.iter().cloned().flatten().eq(0..7));
            for part in parts.iter().filter(|part| part.len() > 1) {
                assert!(part.clone().map(|column| 3 + column).sum::<usize>() <= room, "{part:?} in {room}");
            }
        }
    }
}
