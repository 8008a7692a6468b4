//! The answer and the papers' table, for a terminal.

mod failures;

use crate::format::Screen;
use crate::grid::{Grid, SEEMING};
use crate::metric;
use crate::mix_table::{USED_OTHERWISE_KEY, jobs_key, metrics_key, says_otherwise};
use crate::paper_table::{self, Fact, KEY, PaperTable};
use crate::paste;
use crate::ranking;
use crate::study_view::StudyView;
use crate::table::{BUSY_KEY, Cell, EFFECTS_KEY, MEMORY_KEY, Row, Table};
use crate::verdict::Verdicts;
use crate::wording::Wording;
use crate::words::{compared, count, plain, short_in_the_middle};
use papers::paper::Quantity;
use std::fmt::Write;
use study::Varied;

/// Longest placement name in the table; a CPU list can be any length.
const NAME_WIDTH: usize = 24;

/// Columns of a screen that a figure beside names needs.
const LEAST_FIGURES: usize = 16;

/// Shortest that a name of a treatment is cut.
const LEAST_NAME: usize = 12;

/// The same of treatments, whose names differ in their last words.
fn name_width(study: &StudyView, screen: Screen) -> usize {
    match study.analysis.varied {
        Varied::Places => NAME_WIDTH,
        Varied::Treatments | Varied::Commands => (screen.width / 2).max(NAME_WIDTH),
    }
}

/// The study in `width` columns: the verdict, the table, what went wrong, and the line to paste. With `colour`, a
/// ratio is coloured when a difference is shown, and only then; a star marks it either way.
pub(crate) fn cells(study: &StudyView, screen: Screen) -> String {
    let width = screen.width;
    let mut text = String::new();
    for subject in study.compared() {
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
    beside_the_paper(&mut text, study, &paper_tables, screen);
    rankings(&mut text, study, screen);
    let with_key = |text: &mut String, table: Option<(Table, String)>| {
        if let Some((table, key)) = table {
            by_subject(text, study, &table, screen);
            text.push('\n');
            paragraph(text, "", &key, width);
        }
    };
    let metrics = || Table::of_metrics(study).map(|table| (directions_below(table), metrics_key(study)));
    // Where times mean nothing, what was counted comes first.
    if study.is_emulated() {
        with_key(&mut text, metrics());
    }
    if !study.is_race() && (paper_tables.is_empty() || !PaperTable::cover(&paper_tables, study.plan)) {
        placements(&mut text, study, screen);
    }
    let jobs = Table::of_jobs(study).map(|table| (table, jobs_key(study).to_owned()));
    let used = Table::of_used(study, says_otherwise).map(|table| (table, USED_OTHERWISE_KEY.to_owned()));
    with_key(&mut text, jobs);
    if !study.is_emulated() {
        with_key(&mut text, metrics());
    }
    with_key(&mut text, used);
    effects(&mut text, study, screen);
    if let Some(table) = Table::of_memory(study) {
        by_subject(&mut text, study, &table, screen);
        text.push('\n');
        paragraph(&mut text, "", MEMORY_KEY, width);
    }
    failures::failures(&mut text, study, width);
    warnings(&mut text, &study.warnings, width);
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

/// Every placement beside the reference, subject by subject.
fn placements(text: &mut String, study: &StudyView, screen: Screen) {
    let table = Table::of_placements(study);
    by_subject(text, study, &table, screen);
    text.push('\n');
    paragraph(text, "", &metric::key(study), screen.width);
    if table.has_intervals() {
        let busy = if table.has_busy() { format!("; {SEEMING} {BUSY_KEY}") } else { String::new() };
        let wording = Wording::of_study(study);
        let key = format!(
            "ratio: {}, so above 1 is {}; below it the 95 % interval; * a difference is shown, allowing for the number of comparisons{busy}",
            wording.ratio_of(study.reference(), compared(study.analysis.varied)),
            wording.word(true)
        );
        paragraph(text, "", &key, screen.width);
    }
}

/// What each factor changes, where several vary.
fn effects(text: &mut String, study: &StudyView, screen: Screen) {
    let Some(table) = Table::of_effects(study) else { return };
    by_subject(text, study, &table, screen);
    text.push('\n');
    paragraph(text, "", EFFECTS_KEY, screen.width);
}

/// What all figures of a group need side by side.
fn figures_width(table: &Table, group: &[Row]) -> usize {
    let heads = table.heads_in_words();
    let width = |(column, head): (usize, &String)| {
        let figures = group.iter().filter_map(|row| row.cells.get(column));
        let of_cell = |cell: &Cell| (1 + cell.text.chars().count()).max(cell.range("-").chars().count());
        2 + figures.map(of_cell).chain([head.chars().count()]).max().unwrap_or(0)
    };
    heads.iter().enumerate().map(width).sum()
}

/// Each group of a table below the name of its subject.
fn by_subject(text: &mut String, study: &StudyView, table: &Table, screen: Screen) {
    for group in table.groups() {
        text.push('\n');
        paragraph(text, "", &group[0].labels[0], screen.width);
        let width = name_width(study, screen);
        // What stands before the name of what is compared, and a figure, have their room, too.
        let before: usize = (1..group[0].labels.len() - 1)
            .map(|at| 2 + group.iter().map(|row| row.labels[at].chars().count().min(width)).max().unwrap_or(0))
            .sum();
        let spare = screen.width.saturating_sub(before + 2);
        let all_figures = spare.saturating_sub(figures_width(table, group)).max(NAME_WIDTH);
        let room = all_figures.min(spare.saturating_sub(LEAST_FIGURES)).clamp(LEAST_NAME, width);
        let below = |row: &Row| {
            let mut labels = row.labels[1..].to_vec();
            if let Some(name) = labels.last_mut().filter(|_| study.analysis.varied != Varied::Places) {
                *name = short_in_the_middle(name, room);
            }
            Row { labels, cells: row.cells.clone() }
        };
        let corner = table.corner[1..].to_vec();
        let rows = group.iter().map(below).collect();
        Grid::new(&Table { corner, rows, ..table.clone() }, width).write(text, screen);
    }
}

/// The table with when each metric is better below its name, where it has a second row for that: lines are short.
fn directions_below(mut table: Table) -> Table {
    let metrics: Vec<[String; 2]> =
        table.rows.iter().map(|row| [row.labels[0].clone(), row.labels[1].clone()]).collect();
    for (at, row) in table.rows.iter_mut().enumerate() {
        let [_, label] = &metrics[at];
        let Some((name, direction)) = label.rsplit_once(", ").filter(|(_, end)| end.ends_with("is better")) else {
            continue;
        };
        if at > 0 && metrics[at - 1] == metrics[at] {
            row.labels[1] = direction.to_owned();
        } else if metrics.get(at + 1) == Some(&metrics[at]) {
            row.labels[1] = name.to_owned();
        }
    }
    table
}

/// The ranking of each race.
fn rankings(text: &mut String, study: &StudyView, screen: Screen) {
    for ranking in &study.rankings {
        text.push('\n');
        if study.rankings.len() > 1 {
            paragraph(text, "", &ranking.race.subject, screen.width);
        }
        let shown = ranking.top_and_tied(ranking::MOST_ROWS);
        Grid::new(&ranking.table(&shown, study.plan.warmup_blocks), NAME_WIDTH).write(text, screen);
        let rest = ranking.rest(&shown);
        if !rest.is_empty() {
            let _ = writeln!(text, "  {rest}");
        }
    }
    if study.is_race() {
        text.push('\n');
        paragraph(text, "", &metric::key(study), screen.width);
        paragraph(text, "", &ranking::key(study), screen.width);
    }
}

/// Appends the warnings, if there are any.
pub(crate) fn warnings(text: &mut String, warnings: &[String], width: usize) {
    if !warnings.is_empty() {
        text.push('\n');
    }
    for warning in warnings {
        paragraph(text, "warning: ", warning, width);
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

/// The paper's tables with ours below each of their rows: first what is compared, then the figures. For shortness only
/// the thread counts that were run, and of what follows from the times only the ratios.
fn beside_the_paper(text: &mut String, study: &StudyView, tables: &[PaperTable], screen: Screen) {
    let width = screen.width;
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
        let is_told = |row: &paper_table::Row| !(row.computed && row.quantity == Quantity::SpeedUp);
        let run = table.table(|threads| study.plan.threads.contains(&threads.into()), is_told);
        Grid::new(&run, usize::MAX).write(text, screen);
    }
    text.push('\n');
    let has_busy = tables.iter().any(|table| table.whole().has_busy());
    let busy = if has_busy { format!(" {SEEMING} {BUSY_KEY}.") } else { String::new() };
    let star = format!("* a difference is shown, allowing for the number of comparisons.{busy}");
    let rest = "The other forms of the report have every column of the paper.";
    paragraph(text, "", &format!("{KEY} {star} {rest}"), width);
}
