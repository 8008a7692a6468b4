//! Labels and figures in columns for a terminal, in as many parts as its width asks for.

use crate::table::Cell;
use comfy_table::{CellAlignment, Color, ContentArrangement, Table, presets};
use std::fmt::Write;
use std::ops::Range;
use study::Claim;

/// Rows of labels, each followed by one figure a column.
pub(crate) struct Grid {
    heads: Vec<String>,
    rows: Vec<(Vec<String>, Vec<Cell>)>,
}

impl Grid {
    /// An empty grid whose columns of figures are headed `heads`.
    pub(crate) fn new(heads: Vec<String>) -> Self {
        Self { heads, rows: Vec::new() }
    }

    /// Adds a row: as many labels as every other, and a figure for each head.
    pub(crate) fn push(&mut self, labels: Vec<String>, figures: Vec<Cell>) {
        self.rows.push((labels, figures));
    }

    /// Appends the grid to `text`, parts below one another where `width` doesn't hold all columns. With `colour`, a
    /// figure is coloured where a difference is shown.
    pub(crate) fn write(&self, text: &mut String, width: usize, colour: bool) {
        let mut first = 0;
        while first < self.heads.len() {
            let columns = first..first + self.columns_that_fit(first, width);
            first = columns.end;
            let _ = writeln!(text, "{}", self.part(columns, colour));
        }
    }

    fn labels(&self) -> usize {
        self.rows.first().map_or(0, |(labels, _)| labels.len())
    }

    fn columns_that_fit(&self, first: usize, width: usize) -> usize {
        let label_width =
            |label: usize| self.rows.iter().map(|(labels, _)| labels[label].chars().count()).max().unwrap_or(0);
        let mut used: usize = (0..self.labels()).map(|label| 2 + label_width(label)).sum();
        let mut columns = 0;
        for column in first..self.heads.len() {
            let figures = self
                .rows
                .iter()
                .flat_map(|(_, figures)| written(&figures[column]).lines().map(|line| line.chars().count()).max());
            used += 2 + figures.max().unwrap_or(0).max(self.heads[column].chars().count());
            if used > width && columns > 0 {
                break;
            }
            columns += 1;
        }
        columns
    }

    fn part(&self, columns: Range<usize>, colour: bool) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
        if colour {
            table.enforce_styling();
        }
        let heads = self.heads[columns.clone()].iter().cloned();
        table.set_header(vec![String::new(); self.labels()].into_iter().chain(heads));
        for (labels, figures) in &self.rows {
            let labels = labels.iter().map(comfy_table::Cell::new);
            table.add_row(labels.chain(figures[columns.clone()].iter().map(painted)));
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((if index == 0 { 2 } else { 0 }, 2));
            if index >= self.labels() {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.trim_fmt()
    }
}

/// A figure's text; a star marks a claim for readers without colours.
fn written(cell: &Cell) -> String {
    let star = if cell.claim.is_some() { "*" } else { "" };
    match cell.range("-") {
        _ if cell.text.is_empty() => "-".into(),
        range if range.is_empty() => format!("{}{star}", cell.text),
        range => format!("{}{star}\n{range}", cell.text),
    }
}

fn painted(cell: &Cell) -> comfy_table::Cell {
    let written = comfy_table::Cell::new(written(cell));
    match cell.claim {
        Some(Claim::Faster) => written.fg(Color::Green),
        Some(Claim::Slower) => written.fg(Color::Red),
        _ => written,
    }
}
