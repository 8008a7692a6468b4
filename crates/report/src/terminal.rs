//! The answer and the papers' table, for a terminal.

use crate::format::Screen;
use crate::grid::Grid;
use crate::paper_table::{Fact, KEY, PaperTable};
use crate::paste;
use crate::ranking;
use crate::study_view::StudyView;
use crate::table::{Cell, Table};
use crate::verdict::Verdicts;
use crate::words::{count, plain, short};
use papers::paper::Quantity;
use std::fmt::Write;

/// Longest placement name in the table; a CPU list can be any length.
const NAME_WIDTH: usize = 24;

/// The study in `width` columns: the verdict, the table, what went wrong, and the line to paste. With `colour`, a
/// ratio is coloured when a difference is shown, and only then; a star marks it either way.
pub(crate) fn cells(study: &StudyView, screen: Screen) -> String {
    let Screen { width, colour } = screen;
    let mut text = String::new();
    for subject in &study.plan.subjects {
        let verdicts = Verdicts::on(study, subject);
        if let Some(headline) = &verdicts.headline {
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
    if study.analysis.verdicts.is_empty() {
        paragraph(&mut text, "", "Nothing can be said: no trial went well.", width);
    }
    let paper_tables = PaperTable::all(study);
    beside_the_paper(&mut text, study, &paper_tables, width, colour);
    rankings(&mut text, study, width, colour);
    let mut table = Table::new(study);
    if study.is_race() || (!paper_tables.is_empty() && PaperTable::cover(&paper_tables, study.plan)) {
        table.groups.clear();
    }
    for group in &table.groups {
        text.push('\n');
        paragraph(&mut text, "", &group.subject, width);
        let mut grid = Grid::new(table.threads.iter().map(|&threads| heading(threads)).collect());
        let mut previous = None;
        for row in &group.rows {
            let fresh = previous.replace(row.quantity) != Some(row.quantity);
            let quantity = if fresh { label(row.quantity) } else { "" };
            grid.push(vec![quantity.into(), short(&row.placement, NAME_WIDTH)], row.cells.clone());
        }
        grid.write(&mut text, width, colour);
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
    if !study.warnings.is_empty() {
        text.push('\n');
        for warning in &study.warnings {
            paragraph(&mut text, "warning: ", warning, width);
        }
    }
    for advice in paste::advice(study) {
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

/// The ranking of each race.
fn rankings(text: &mut String, study: &StudyView, width: usize, colour: bool) {
    for ranking in &study.rankings {
        text.push('\n');
        if study.rankings.len() > 1 {
            paragraph(text, "", &ranking.race.subject, width);
        }
        let shown = ranking.top_and_tied(ranking::MOST_ROWS);
        let heads = ranking.heads().into_iter().skip(2).map(String::from);
        let mut grid = Grid::new(heads.collect());
        for place in &shown {
            let mut row = ranking.row(place, study.plan.warmup_blocks);
            let figures = row.split_off(2).into_iter().map(|text| Cell { text, ..Cell::default() });
            row[1] = short(&row[1], NAME_WIDTH);
            grid.push(row, figures.collect());
        }
        grid.write(text, width, colour);
        let rest = ranking.rest(&shown);
        if !rest.is_empty() {
            let _ = writeln!(text, "  {rest}");
        }
    }
    if study.is_race() {
        text.push('\n');
        paragraph(text, "", ranking::KEY, width);
    }
}

/// Appends `words` after `mark`, wrapped at `width`, later lines indented by the mark's width.
pub(crate) fn paragraph(text: &mut String, mark: &str, words: &str, width: usize) {
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
        Quantity::SpeedUp => "speed-up",
    }
}

fn heading(threads: u32) -> String {
    count(threads as usize, "thread")
}

/// The paper's tables with ours below each of their rows: first what is compared, then the figures. For shortness only
/// the thread counts that were run, and of what follows from the times only the ratios.
fn beside_the_paper(text: &mut String, study: &StudyView, tables: &[PaperTable], width: usize, colour: bool) {
    let Some(first) = tables.first() else { return };
    text.push('\n');
    let facts = first.facts(study);
    let told = |side: fn(&Fact) -> &str| {
        facts.iter().map(|fact| format!("{}: {}", fact.0, side(fact))).collect::<Vec<_>>().join("; ")
    };
    paragraph(text, "printed: ", &told(|fact| &fact.1), width);
    paragraph(text, "ours: ", &told(|fact| &fact.2), width);
    for table in tables {
        text.push('\n');
        paragraph(text, "", &table.title(), width);
        let threads = &table.printed.threads;
        let run: Vec<bool> = threads.iter().map(|count| study.plan.threads.contains(count)).collect();
        let shown = |column: &usize| run[*column];
        let columns: Vec<usize> = (0..threads.len()).filter(shown).collect();
        let mut grid = Grid::new(columns.iter().map(|&column| heading(threads[column])).collect());
        for line in table.lines().into_iter().filter(|line| !line.derived_speedup) {
            let cells = columns.iter().map(|&column| line.cells[column].clone()).collect();
            grid.push(vec![line.benchmark.into(), line.label, line.source.word().into()], cells);
        }
        grid.write(text, width, colour);
    }
    text.push('\n');
    let star = "* a difference is shown, allowing for the number of comparisons.";
    let rest = "The other forms of the report have every column of the paper.";
    paragraph(text, "", &format!("{KEY} {star} {rest}"), width);
}
