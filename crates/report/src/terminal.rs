//! The answer and the papers' table, for a terminal.

use crate::paste;
use crate::study_view::StudyView;
use crate::table::{Cell, Group, Quantity, Table};
use crate::verdict::Verdicts;
use crate::words::{count, plain, short};
use comfy_table::{CellAlignment, Color, ContentArrangement, presets};
use std::fmt::Write;
use study::{Analysis, Claim, Record};

/// Longest placement name in the table; a CPU list can be any length.
const NAME_WIDTH: usize = 24;

/// The study in `width` columns: the verdict, the table, what went wrong, and the line to paste. With `colour`, a
/// ratio is coloured when a difference is shown, and only then; a star marks it either way.
pub fn terminal(record: &Record, analysis: &Analysis, width: usize, colour: bool) -> String {
    let study = StudyView::new(record, analysis);
    let width = width.max(40);
    let mut text = String::new();
    for subject in &record.plan.subjects {
        let verdicts = Verdicts::on(&study, subject);
        for headline in &verdicts.headlines {
            paragraph(&mut text, "", &format!("{}: {headline}", subject.name), width);
        }
        for comparison in &verdicts.comparisons {
            paragraph(&mut text, "  ", comparison, width);
        }
        if !verdicts.quiet.is_empty() {
            let more = format!(
                "{} without a difference shown; the table has the intervals.",
                count(verdicts.quiet.len(), "comparison")
            );
            paragraph(&mut text, "  ", &more, width);
        }
    }
    for verdict in Verdicts::on_none(&study) {
        paragraph(&mut text, "", verdict, width);
    }
    if analysis.verdicts.is_empty() {
        paragraph(&mut text, "", "Nothing can be said: no trial went well.", width);
    }
    let table = Table::new(&study);
    for group in &table.groups {
        text.push('\n');
        paragraph(&mut text, "", &group.subject, width);
        let mut first = 0;
        while first < table.threads.len() {
            let columns = columns_that_fit(&table, group, first, width);
            let _ = writeln!(text, "{}", rendered(&table, group, first..first + columns, colour));
            first += columns;
        }
    }
    if table.groups.iter().flat_map(|group| &group.rows).flat_map(|row| &row.cells).any(|cell| cell.interval.is_some())
    {
        let key = format!(
            "ratio: time of {} over time of the placement, so above 1 is faster; below it the 95 % interval; * a difference is shown, allowing for the number of comparisons",
            table.reference
        );
        text.push('\n');
        paragraph(&mut text, "", &key, width);
    }
    let failures: Vec<_> = study.failures().collect();
    if !failures.is_empty() {
        text.push('\n');
        paragraph(
            &mut text,
            "",
            &format!("{} failed, left out of every number:", count(failures.len(), "trial")),
            width,
        );
        for trial in failures.iter().take(5) {
            let line = format!(
                "#{} {}, {}, {}: {}, {}",
                trial.sequence,
                trial.subject,
                count(trial.threads as usize, "thread"),
                trial.placement,
                trial.status,
                trial.cause
            );
            paragraph(&mut text, "  ", &line, width);
        }
        if failures.len() > 5 {
            let _ = writeln!(text, "  and {} more", failures.len() - 5);
        }
    }
    if !analysis.warnings.is_empty() {
        text.push('\n');
        for warning in &analysis.warnings {
            paragraph(&mut text, "warning: ", warning, width);
        }
    }
    for advice in paste::advice(&study) {
        text.push('\n');
        paragraph(&mut text, "", &advice.sentence, width);
        for line in &advice.lines {
            // Never wrapped: it is there to be copied.
            let _ = writeln!(text, "  {}", plain(&line.command));
        }
    }
    text.push('\n');
    paragraph(
        &mut text,
        "",
        "`stayput report FILE --format html` shows every trial, picture and fact of the machine.",
        width,
    );
    text
}

/// Appends `words` after `mark`, wrapped at `width`, later lines indented by the mark's width.
fn paragraph(text: &mut String, mark: &str, words: &str, width: usize) {
    let indent = " ".repeat(mark.chars().count());
    let mut line = mark.to_owned();
    let mut fresh = true;
    for word in plain(words).split_whitespace() {
        if !fresh && line.chars().count() + 1 + word.chars().count() > width {
            let _ = writeln!(text, "{line}");
            line.clone_from(&indent);
            fresh = true;
        }
        if !fresh {
            line.push(' ');
        }
        line.push_str(word);
        fresh = false;
    }
    let _ = writeln!(text, "{line}");
}

/// What stands before a row's figures.
fn label(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Time => "time, s",
        Quantity::Ratio => "ratio",
        Quantity::Speedup => "speed-up",
    }
}

/// A cell's text; a star marks a claim for readers without colours.
fn written(cell: &Cell) -> String {
    let star = if cell.claim.is_some() { "*" } else { "" };
    match cell.range("-") {
        _ if cell.text.is_empty() => "-".into(),
        range if range.is_empty() => format!("{}{star}", cell.text),
        range => format!("{}{star}\n{range}", cell.text),
    }
}

fn columns_that_fit(table: &Table, group: &Group, first: usize, width: usize) -> usize {
    let names = group.rows.iter().map(|row| short(&row.placement, NAME_WIDTH).chars().count()).max().unwrap_or(0);
    let mut used = 2 + "speed-up".len() + 2 + names;
    let mut columns = 0;
    for column in first..table.threads.len() {
        let figures =
            group.rows.iter().flat_map(|row| written(&row.cells[column]).lines().map(|l| l.chars().count()).max());
        used += 2 + figures.max().unwrap_or(0).max(heading(table.threads[column]).len());
        if used > width && columns > 0 {
            break;
        }
        columns += 1;
    }
    columns
}

fn heading(threads: u32) -> String {
    count(threads as usize, "thread")
}

fn rendered(table: &Table, group: &Group, columns: std::ops::Range<usize>, colour: bool) -> String {
    let mut grid = comfy_table::Table::new();
    grid.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
    if colour {
        grid.enforce_styling();
    }
    let mut header = vec![String::new(), String::new()];
    header.extend(table.threads[columns.clone()].iter().map(|&threads| heading(threads)));
    grid.set_header(header);
    let mut previous = None;
    for row in &group.rows {
        let fresh = previous.replace(row.quantity) != Some(row.quantity);
        let mut cells = vec![
            comfy_table::Cell::new(if fresh { label(row.quantity) } else { "" }),
            comfy_table::Cell::new(short(&row.placement, NAME_WIDTH)),
        ];
        cells.extend(row.cells[columns.clone()].iter().map(|cell| {
            let painted = comfy_table::Cell::new(written(cell));
            match cell.claim {
                Some(Claim::Faster) => painted.fg(Color::Green),
                Some(Claim::Slower) => painted.fg(Color::Red),
                _ => painted,
            }
        }));
        grid.add_row(cells);
    }
    for (index, column) in grid.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 2 } else { 0 }, 2));
        if index >= 2 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    grid.trim_fmt()
}
