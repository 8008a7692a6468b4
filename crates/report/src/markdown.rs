//! The answer and the papers' table in GitHub-flavoured Markdown.

use crate::paper_table::{KEY, PaperTable};
use crate::paste;
use crate::programs::{self, BuiltinProgram};
use crate::ranking;
use crate::sentences;
use crate::setting::setting;
use crate::study_view::StudyView;
use crate::table::{Cell, Table};
use crate::words::{count, plain};
use papers::paper::Quantity;
use std::fmt::Write;
use study::Claim;

/// The study as Markdown: verdicts, one table, failures, warnings, and the line to paste. A ratio is bold where a
/// difference is shown.
pub(crate) fn cells(study: &StudyView) -> String {
    let mut text = String::new();
    for verdict in sentences::verdicts(study.analysis) {
        let _ = writeln!(text, "- {}", escape(&verdict));
    }
    if study.analysis.verdicts.is_empty() {
        text.push_str("- Nothing can be said: no trial went well.\n");
    }
    beside_the_paper(&mut text, study);
    if study.is_race() {
        rankings(&mut text, study);
    } else {
        comparisons(&mut text, study);
    }
    let _ = writeln!(text, "\n{}", escape(&setting(study)));
    built_in_programs(&mut text, study);
    let failures: Vec<_> = study.failures().collect();
    if !failures.is_empty() {
        let _ = writeln!(text, "\n{} failed, left out of every number:\n", count(failures.len(), "trial"));
        for trial in failures {
            let _ = writeln!(
                text,
                "- \\#{} {}, {}, {}: {}, {}",
                trial.sequence,
                escape(&trial.subject),
                count(trial.threads as usize, "thread"),
                escape(&trial.placement),
                trial.status,
                escape(&trial.cause)
            );
        }
    }
    if !study.warnings.is_empty() {
        text.push_str("\nWarnings:\n\n");
        for warning in &study.warnings {
            let _ = writeln!(text, "- {}", escape(warning));
        }
    }
    for advice in paste::advice(study) {
        let _ = writeln!(text, "\n{}", escape(&advice.sentence));
        if !advice.lines.is_empty() {
            text.push('\n');
        }
        for line in &advice.lines {
            // An indented block: no fence that a command could close.
            let _ = writeln!(text, "    {}", plain(&line.command).replace('\n', " "));
        }
    }
    text
}

/// Every placement beside the reference.
fn comparisons(text: &mut String, study: &StudyView) {
    let table = Table::new(study);
    text.push_str("\n| subject | | placement |");
    for &threads in &table.threads {
        let _ = write!(text, " {} |", count(threads as usize, "thread"));
    }
    text.push_str("\n| --- | --- | --- |");
    text.push_str(&" ---: |".repeat(table.threads.len()));
    text.push('\n');
    for group in &table.groups {
        for (index, row) in group.rows.iter().enumerate() {
            let subject = if index == 0 { escape(&group.subject) } else { String::new() };
            let quantity = match row.quantity {
                Quantity::Time => "time (s)",
                Quantity::Ratio => "ratio",
                Quantity::SpeedUp => "speed-up",
            };
            let _ = write!(text, "| {subject} | {quantity} | {} |", escape(&row.placement));
            for cell in &row.cells {
                let _ = write!(text, " {} |", written(cell));
            }
            text.push('\n');
        }
    }
    let _ = writeln!(
        text,
        "\nTimes are medians. Ratio: time of {} over time of the placement, from pairs of the same block, so above 1 is faster; in parentheses its 95 % interval; bold where a difference is shown, allowing for the number of comparisons.",
        escape(&table.reference)
    );
}

/// The ranking of each race.
fn rankings(text: &mut String, study: &StudyView) {
    for ranking in &study.rankings {
        if study.rankings.len() > 1 {
            let _ = writeln!(text, "\n**{}**", escape(&ranking.race.subject));
        }
        let heads = ranking.heads();
        let _ = writeln!(text, "\n| {} |", heads.join(" | "));
        let _ = writeln!(text, "| ---: | --- |{}", " ---: |".repeat(heads.len() - 2));
        let shown = ranking.top_and_tied(ranking::MOST_ROWS);
        for place in &shown {
            let row = ranking.row(place, study.plan.warmup_blocks);
            let cell = |text: &String| if text.is_empty() { "–".into() } else { escape(text) };
            let _ = writeln!(text, "| {} |", row.iter().map(cell).collect::<Vec<_>>().join(" | "));
        }
        let rest = ranking.rest(&shown);
        if !rest.is_empty() {
            let _ = writeln!(text, "\n{rest}");
        }
    }
    let _ = writeln!(text, "\n{}", escape(ranking::KEY));
}

/// The paper's tables, ours below each of their rows.
fn beside_the_paper(text: &mut String, study: &StudyView) {
    let tables = PaperTable::all(study);
    let Some(PaperTable { paper, .. }) = tables.first() else { return };
    let _ = writeln!(text, "\n{}\n", escape(&paper.citation));
    text.push_str("| | printed | ours |\n| --- | --- | --- |\n");
    for (fact, printed, ours) in tables[0].facts(study) {
        let _ = writeln!(text, "| {fact} | {} | {} |", escape(&printed), escape(&ours));
    }
    for table in &tables {
        let _ = writeln!(text, "\n**{}**: {}.\n", escape(&table.title()), escape(&table.printed.about));
        text.push_str("| | | |");
        for &threads in &table.printed.threads {
            let _ = write!(text, " {} |", count(threads as usize, "thread"));
        }
        let _ = writeln!(text, "\n| --- | --- | --- |{}", " ---: |".repeat(table.printed.threads.len()));
        for line in table.lines() {
            let _ = write!(text, "| {} | {} | {} |", line.benchmark, escape(&line.label), line.source.word());
            for cell in &line.cells {
                let _ = write!(text, " {} |", written(cell));
            }
            text.push('\n');
        }
    }
    let _ = writeln!(text, "\n{KEY}");
}

/// What the built-in programs need, and the rates that they reached.
fn built_in_programs(text: &mut String, study: &StudyView) {
    let programs = BuiltinProgram::all(study);
    if programs.is_empty() {
        return;
    }
    let threads = &study.plan.threads;
    text.push_str("\n| program | | in all |");
    for &threads in threads {
        let _ = write!(text, " {} |", count(threads as usize, "thread"));
    }
    let _ = writeln!(text, "\n| --- | --- | ---: |{}", " ---: |".repeat(threads.len()));
    for program in &programs {
        for (index, row) in program.rows(threads).iter().enumerate() {
            let subject = if index == 0 { program.subject } else { "" };
            let _ = write!(text, "| {subject} | {} | {} |", row.label, row.total);
            for cell in &row.cells {
                let _ = write!(text, " {} |", if cell.is_empty() { "–".into() } else { escape(cell) });
            }
            text.push('\n');
        }
    }
    let _ = writeln!(text, "\n{}\n", programs::KEY);
    for program in &programs {
        let BuiltinProgram { subject, title, stresses, verification, .. } = program;
        let _ = writeln!(
            text,
            "- {subject}: {}, {}. Stresses {}. Verified: {}.",
            escape(title),
            program.needs(),
            escape(stresses),
            escape(verification)
        );
    }
}

pub(crate) fn written(cell: &Cell) -> String {
    let figure = match cell.claim {
        _ if cell.text.is_empty() => "–".into(),
        Some(Claim::Faster | Claim::Slower) => format!("**{}**", cell.text),
        _ => escape(&cell.text),
    };
    match cell.range("–") {
        range if range.is_empty() => figure,
        range => format!("{figure} ({range})"),
    }
}

/// `text` on one line, with every character that Markdown or its HTML could read as more than itself escaped.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in plain(text).chars() {
        match c {
            '\n' => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '|' | '[' | ']' | '#' | '~' | '$' => escaped.extend(['\\', c]),
            _ => escaped.push(c),
        }
    }
    escaped
}
