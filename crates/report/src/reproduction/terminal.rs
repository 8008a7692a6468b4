//! Papers beside ours, for a terminal.

use super::{
    Answer, CellView, FITTED, Group, LOST, NOT_HERE, TableView, has_live, median, what_was_done, word, wrapped,
};
use crate::terminal::paragraph;
use crate::words::{capital, plain};
use ::simulation::TimeBin;
use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use papers::Reproduction;
use papers::reproduction::{Panel, ReproducedFigure, Verdict};
use std::fmt::Write;
use std::ops::Range;

/// `papers` in `width` columns: the answer, the tables, the figures as rows of bars, the claims, what was chosen. With `colour`,
/// verdicts are coloured, and differences where a margin judges them; a star marks those beyond it either way.
pub fn terminal(papers: &[Reproduction], width: usize, colour: bool) -> String {
    let width = width.max(40);
    papers.iter().map(|paper| one(paper, width, colour)).collect::<Vec<_>>().join("\n")
}

fn one(paper: &Reproduction, width: usize, colour: bool) -> String {
    let mut text = String::new();
    let answer = Answer::of(paper).sentences().join(" ");
    paragraph(&mut text, "", &format!("{}: {answer}", paper.paper), width);
    for sentence in what_was_done(paper) {
        paragraph(&mut text, "  ", &sentence, width);
    }
    let mut is_explained = false;
    for view in TableView::all(paper) {
        text.push('\n');
        paragraph(&mut text, "", &format!("{}: {}.", plain(&view.table.title), view.table.about), width);
        text.push('\n');
        if view.is_prose() {
            prose(&mut text, &view, width, colour);
        } else {
            numbers(&mut text, &view, width, colour);
            if !std::mem::replace(&mut is_explained, true) {
                text.push('\n');
                paragraph(&mut text, "  ", &key(&view), width);
            }
        }
    }
    figures(&mut text, &paper.figures, width);
    claims(&mut text, paper, width, colour);
    if !paper.chosen.is_empty() {
        text.push('\n');
        paragraph(&mut text, "", "What the paper leaves open and was chosen:", width);
        for (place, value) in &paper.chosen {
            paragraph(&mut text, "  ", &format!("{place} = {value}"), width);
        }
    }
    text
}

/// What stands below the first table with numbers.
fn key(view: &TableView) -> String {
    if view.is_predicted() {
        let live = if view.is_live() { "; live: this machine's" } else { "" };
        return format!("ours: the model's; {FITTED} fitted on what is printed; difference: ours less printed{live}");
    }
    let margin = view.table.margin.map_or_else(String::new, |margin| format!("; * more than {margin} points"));
    format!(
        "ours: mean of all replicates ± the farther end of its 95 % interval; difference: ours less printed{margin}"
    )
}

fn bare(colour: bool) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
    if colour {
        table.enforce_styling();
    }
    table
}

fn finished(mut table: Table) -> String {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 2 } else { 0 }, 2));
    }
    table.trim_fmt()
}

/// What is printed beside ours, wrapped.
fn prose(text: &mut String, view: &TableView, width: usize, colour: bool) {
    let mut table = bare(colour);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width as u16);
    table.set_header([view.table.corner.as_str(), "printed", "ours"]);
    for row in &view.table.rows {
        for cell in row.cells.iter().map(|cell| view.cell(cell)) {
            table.add_row([plain(&row.label), cell.printed.unwrap_or_default(), cell.ours.unwrap_or_default()]);
        }
    }
    let _ = writeln!(text, "{}", finished(table));
}

/// A line of a table with numbers.
struct Line {
    /// The row's name, where the line is its first, and whose numbers these are.
    labels: [String; 2],
    /// One a column, with what colour they are told in.
    cells: Vec<(String, Option<Color>)>,
}

impl Line {
    fn cell_width(&self, column: usize) -> usize {
        self.cells[column].0.chars().count()
    }
}

/// What is printed, ours and the difference, a line each, of every row.
fn lines(view: &TableView) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in &view.table.rows {
        let cells: Vec<CellView> = row.cells.iter().map(|cell| view.cell(cell)).collect();
        let mut label = plain(&row.label);
        let mut line = |whose: &str, told: fn(&CellView) -> (String, Option<Color>)| {
            let labels = [std::mem::take(&mut label), whose.to_owned()];
            lines.push(Line { labels, cells: cells.iter().map(told).collect() });
        };
        if view.is_lost(&row.cells) {
            line(LOST, |_| (String::new(), None));
            continue;
        }
        if view.is_printed(&row.cells) {
            line("printed", |cell| (cell.printed.clone().unwrap_or_default(), None));
        }
        line("ours", |cell| {
            let fitted = if cell.is_fitted { FITTED } else { "" };
            let doubt = cell.doubt.as_ref().map_or_else(String::new, |doubt| format!("±{doubt}"));
            (cell.ours.as_ref().map_or_else(|| "-".into(), |ours| ours.to_owned() + &doubt + fitted), None)
        });
        if cells.iter().any(|cell| cell.difference.is_some()) {
            line("difference", |cell| {
                let star = if cell.near == Some(false) { "*" } else { "" };
                let colour = cell.near.map(|near| if near { Color::Green } else { Color::Red });
                (cell.difference.as_ref().map_or_else(String::new, |points| format!("{points}{star}")), colour)
            });
        }
        if has_live(&row.cells) {
            line("live", |cell| {
                let told = cell.live.as_ref().map(|live| match &live.doubt {
                    Some(doubt) => format!("{}±{doubt}", live.value),
                    None => live.value.clone(),
                });
                (told.unwrap_or_else(|| NOT_HERE.into()), None)
            });
        }
    }
    lines
}

/// A table with numbers, in as many parts as the width asks for.
fn numbers(text: &mut String, view: &TableView, width: usize, colour: bool) {
    const NARROWEST_HEAD: usize = 8;
    let lines = lines(view);
    let widest = |column| lines.iter().map(|line| line.cell_width(column)).max().unwrap_or(0);
    let head = |(at, name): (usize, &String)| wrapped(&plain(name), widest(at).max(NARROWEST_HEAD));
    let heads: Vec<Vec<String>> = view.table.columns.iter().enumerate().map(head).collect();
    let column_width = |column: usize| {
        let head = heads[column].iter().map(|line| line.chars().count()).max().unwrap_or(0);
        2 + head.max(widest(column))
    };
    let corner = plain(&view.table.corner);
    let labels = |at: usize| lines.iter().map(|line| line.labels[at].chars().count()).max().unwrap_or(0);
    let room = width.saturating_sub(6 + labels(0).max(corner.chars().count()) + labels(1));
    for part in parts(heads.len(), room, column_width) {
        let mut table = bare(colour);
        let head = heads[part.clone()].iter().map(|lines| lines.join("\n"));
        table.set_header([corner.clone(), String::new()].into_iter().chain(head));
        for Line { labels, cells } in &lines {
            let cells = &cells[part.clone()];
            // A part may lack what was compared.
            if labels[0].is_empty() && cells.iter().all(|(words, _)| words.is_empty()) {
                continue;
            }
            let cells = cells.iter().map(|(words, colour)| match colour {
                Some(colour) => Cell::new(words).fg(*colour),
                None => Cell::new(words),
            });
            table.add_row(labels.iter().map(Cell::new).chain(cells));
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let _ = writeln!(text, "{}", finished(table));
    }
}

/// Runs of `columns` that fit into `room`, or of one.
fn parts(columns: usize, room: usize, column_width: impl Fn(usize) -> usize) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut used = 0;
    for column in 0..columns {
        used += column_width(column);
        match parts.last_mut() {
            // The last column's padding needs no room.
            Some(part) if used <= room + 2 => part.end += 1,
            _ => {
                used = column_width(column);
                parts.push(column..column + 1);
            }
        }
    }
    parts
}

/// The figures side by side where they fit: one row a distribution.
fn figures(text: &mut String, figures: &[ReproducedFigure], width: usize) {
    if figures.is_empty() {
        return;
    }
    for figure in figures {
        text.push('\n');
        paragraph(text, "", &format!("{}: {}.", plain(&figure.title), figure.about), width);
    }
    text.push('\n');
    let label = figures.iter().flat_map(|figure| &figure.panels).map(|panel| panel.label.chars().count()).max();
    let column = |at: usize| {
        let bins = figures[at].panels.iter().map(|panel| panel.bins.len()).max().unwrap_or(0);
        bins.max(axis(&figures[at]).chars().count()) + MEDIAN.len() + 4
    };
    for part in parts(figures.len(), width.saturating_sub(4 + label.unwrap_or(0)), column) {
        let mut table = bare(false);
        let shown = &figures[part];
        let heads = shown.iter().flat_map(|figure| [MEDIAN.into(), axis(figure)]);
        table.set_header(std::iter::once(String::new()).chain(heads));
        for row in 0..shown.iter().map(|figure| figure.panels.len()).max().unwrap_or(0) {
            let panels = shown.iter().map(|figure| figure.panels.get(row));
            let label = panels.clone().flatten().next().map_or_else(String::new, |panel| plain(&panel.label));
            let cells = panels.flat_map(|panel| panel.map_or_else(Default::default, drawn));
            table.add_row(std::iter::once(label).chain(cells));
        }
        for column in table.column_iter_mut().skip(1).step_by(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let _ = writeln!(text, "{}", finished(table));
    }
    text.push('\n');
    paragraph(
        text,
        "  ",
        "median: in ms; each row of bars is as high as its own longest, \u{b7} less than 0.05 %",
        width,
    );
}

/// Above the medians of a figure.
const MEDIAN: &str = "median";

/// A figure's title and the scale of its bars.
fn axis(figure: &ReproducedFigure) -> String {
    let ends = figure.panels.first().and_then(|panel| panel.bins.first().zip(panel.bins.last()));
    let scale = ends.map_or_else(String::new, |(first, last)| match last.to_ms {
        Some(end) => format!(": {} to {end} ms", first.from_ms),
        None => format!(": {} to {} ms, longer", first.from_ms, last.from_ms),
    });
    plain(&figure.title) + &scale
}

/// A panel's median, and its bars.
fn drawn(panel: &Panel) -> [String; 2] {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const SEEN_PERCENT: f64 = 0.05;
    let highest = panel.bins.iter().map(|bin| bin.percent).fold(0.0, f64::max);
    let bar = |bin: &TimeBin| match bin.percent {
        percent if percent < SEEN_PERCENT => '\u{b7}',
        percent => BARS[((percent / highest * BARS.len() as f64).ceil() as usize).clamp(1, BARS.len()) - 1],
    };
    [median(panel).unwrap_or_else(|| "-".into()), panel.bins.iter().map(bar).collect()]
}

/// Verdict by verdict, what is claimed and why it is so.
fn claims(text: &mut String, paper: &Reproduction, width: usize, colour: bool) {
    for group in Group::all(paper) {
        text.push('\n');
        paragraph(text, "", &format!("{}. {}", group.title(), group.about()), width);
        text.push('\n');
        let mut table = bare(colour);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width as u16);
        for claim in group.claims {
            let verdict = Cell::new(word(claim.verdict)).fg(match claim.verdict {
                Verdict::Holds => Color::Green,
                Verdict::Fails => Color::Red,
                Verdict::Undecidable => Color::Yellow,
            });
            let live = claim
                .live
                .as_ref()
                .map_or_else(String::new, |live| format!("\nlive: {}: {}.", word(live.verdict), plain(&live.why)));
            let words = format!(
                "{} ({})\n{}.{live}",
                capital(&plain(&claim.statement)),
                plain(&claim.place),
                plain(&claim.why)
            );
            table.add_row([verdict, Cell::new(words)]);
        }
        let _ = writeln!(text, "{}", finished(table));
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
                assert!(part.clone().map(|column| 3 + column).sum::<usize>() <= room + 2, "{part:?} in {room}");
            }
        }
    }
}
