//! Papers beside ours, for a terminal.

use super::{Answer, CellView, FITTED, Group, NOT_HERE, TableView, Whose, median, what_was_done, word, wrapped};
use crate::format::Screen;
use crate::grid::{Grid, Line, bare, finished, parts};
use crate::terminal::paragraph;
use crate::words::{capital, plain};
use ::simulation::TimeBin;
use comfy_table::{Cell, CellAlignment, Color, ContentArrangement};
use papers::Reproduction;
use papers::reproduction::{Panel, ReproducedFigure, Verdict};
use std::fmt::Write;

/// `papers` in `width` columns: the answer, the tables, the figures as rows of bars, the claims, what was chosen. With `colour`,
/// verdicts are coloured, and differences where a margin judges them; a star marks those beyond it either way.
pub fn terminal(papers: &[Reproduction], width: usize, colour: bool) -> String {
    let width = width.max(40);
    papers.iter().map(|paper| one(paper, width, colour)).collect::<Vec<_>>().join("\n")
}

fn one(paper: &Reproduction, width: usize, colour: bool) -> String {
    let mut text = String::new();
    let answer = Answer::of(paper);
    paragraph(&mut text, "", &format!("{}: {}", paper.paper, answer.sentences().join(" ")), width);
    for sentence in &answer.against_kernel {
        paragraph(&mut text, "", sentence, width);
    }
    paragraph(&mut text, "  ", &format!("Printed in: {}", paper.citation), width);
    for sentence in what_was_done(paper) {
        paragraph(&mut text, "  ", &sentence, width);
    }
    let mut is_explained = false;
    for view in TableView::all(paper) {
        text.push('\n');
        let source = format!("{} of {}: {}.", plain(&view.table.title), paper.paper, view.table.about);
        paragraph(&mut text, "", &source, width);
        text.push('\n');
        if view.is_prose() {
            prose(&mut text, &view, width, colour);
        } else {
            numbers(&mut text, &view, Screen { width, colour });
            if !std::mem::replace(&mut is_explained, true) {
                text.push('\n');
                paragraph(&mut text, "  ", &key(&view), width);
            }
        }
    }
    figures(&mut text, &paper.paper, &paper.figures, width);
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
    let has_doubt = view.table.rows.iter().flat_map(|row| &row.cells).any(|cell| view.cell(cell).doubt.is_some());
    let doubt = if has_doubt { " ± the farther end of its 95 % interval" } else { "" };
    format!("ours: mean of all replicates{doubt}; difference: ours less printed{margin}")
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

/// A table with numbers, in as many parts as the width asks for.
fn numbers(text: &mut String, view: &TableView, screen: Screen) {
    const NARROWEST_HEAD: usize = 8;
    let line = |(labels, figures): ([String; 2], Vec<_>)| Line { labels: labels.map(|l| plain(&l)).into(), figures };
    let rows: Vec<Line> = view.lines(told).into_iter().map(line).collect();
    let widest = |column: usize| rows.iter().map(|row| row.figures[column].0.chars().count()).max().unwrap_or(0);
    let head = |(at, name): (usize, &String)| wrapped(&plain(name), widest(at).max(NARROWEST_HEAD)).join("\n");
    let heads = view.table.columns.iter().enumerate().map(head).collect();
    Grid { corner: vec![plain(&view.table.corner), String::new()], heads, rows }.write(text, screen);
}

/// What is said of a cell, and in which colour.
fn told(whose: Whose, cell: &CellView) -> (String, Option<Color>) {
    let with_doubt = |number: &str, doubt: &Option<String>| match doubt {
        Some(doubt) => format!("{number}±{doubt}"),
        None => number.to_owned(),
    };
    match whose {
        Whose::Lost => (String::new(), None),
        Whose::Printed => (cell.printed.clone().unwrap_or_default(), None),
        Whose::Ours => {
            let fitted = if cell.is_fitted { FITTED } else { "" };
            (cell.ours.as_ref().map_or_else(|| "-".into(), |ours| with_doubt(ours, &cell.doubt) + fitted), None)
        }
        Whose::Difference => {
            let star = if cell.near == Some(false) { "*" } else { "" };
            let colour = cell.near.map(|near| if near { Color::Green } else { Color::Red });
            (cell.difference.as_ref().map_or_else(String::new, |points| format!("{points}{star}")), colour)
        }
        Whose::Live => {
            (cell.live.as_ref().map_or_else(|| NOT_HERE.into(), |live| with_doubt(&live.value, &live.doubt)), None)
        }
    }
}

/// The figures side by side where they fit: one row a distribution.
fn figures(text: &mut String, paper: &str, figures: &[ReproducedFigure], width: usize) {
    if figures.is_empty() {
        return;
    }
    for figure in figures {
        text.push('\n');
        paragraph(text, "", &format!("{} of {paper}: {}.", plain(&figure.title), figure.about), width);
    }
    text.push('\n');
    let label = figures.iter().flat_map(|figure| &figure.panels).map(|panel| panel.label.chars().count()).max();
    let column = |at: usize| {
        let bins = figures[at].panels.iter().map(|panel| panel.bins.len()).max().unwrap_or(0);
        bins.max(axis(&figures[at]).chars().count()) + MEDIAN.len() + 4
    };
    for part in parts(figures.len(), width.saturating_sub(2 + label.unwrap_or(0)), column) {
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
