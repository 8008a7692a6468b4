//! The answer and the papers' table in GitHub-flavoured Markdown.

use crate::metric;
use crate::mix_table::{jobs_key, metrics_key};
use crate::paper_table::{KEY, PaperTable};
use crate::paste;
use crate::programs::{self, BuiltinProgram};
use crate::ranking;
use crate::sentences;
use crate::setting::setting;
use crate::study_view::StudyView;
use crate::table::{BUSY_KEY, Cell, EFFECTS_KEY, MEMORY_KEY, Mark, Table};
use crate::wording::Wording;
use crate::words::shape_in_words;
use crate::words::{compared, count, plain};
use std::fmt::Write;

/// The study as Markdown: verdicts, one table, failures, warnings, and the line to paste. A ratio is bold where a
/// difference is shown.
pub(crate) fn cells(study: &StudyView) -> String {
    let mut text = String::new();
    list(&mut text, sentences::verdicts(study));
    if study.analysis.verdicts.is_empty() {
        text.push_str("- Nothing can be said: no trial went well.\n");
    }
    beside_the_paper(&mut text, study);
    if study.is_race() {
        rankings(&mut text, study);
    } else {
        // Where times mean nothing, what was counted comes first.
        if study.is_emulated() {
            metrics(&mut text, study);
        }
        let placements = Table::of_placements(study);
        table(&mut text, &placements);
        let busy = if placements.has_busy() { format!("; in italics where {BUSY_KEY}") } else { String::new() };
        let wording = Wording::of_study(study);
        let ratio = format!(
            " Ratio: {}, from pairs of the same block, so above 1 is {}; in parentheses its 95 % interval; bold where a difference is shown, allowing for the number of comparisons{busy}.",
            escape(&wording.ratio_of(study.reference(), compared(study.analysis.varied))),
            wording.word(true)
        );
        let ratio = if placements.has_intervals() { ratio } else { String::new() };
        let _ = writeln!(text, "\n{} The table has medians.{ratio}", escape(&metric::key(study)));
    }
    if let Some(jobs) = Table::of_jobs(study) {
        table(&mut text, &jobs);
        let _ = writeln!(text, "\n{}", jobs_key(study));
    }
    if !study.is_emulated() {
        metrics(&mut text, study);
    }
    if let Some(effects) = Table::of_effects(study) {
        table(&mut text, &effects);
        let _ = writeln!(text, "\n{EFFECTS_KEY}");
    }
    if let Some(memory) = Table::of_memory(study) {
        table(&mut text, &memory);
        let _ = writeln!(text, "\n{MEMORY_KEY}");
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
                shape_in_words(trial.threads),
                escape(&trial.placement),
                trial.status,
                escape(&trial.cause)
            );
        }
    }
    warnings(&mut text, &study.warnings);
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

/// What else was measured, where anything was.
fn metrics(text: &mut String, study: &StudyView) {
    if let Some(metrics) = Table::of_metrics(study) {
        table(text, &metrics);
        let _ = writeln!(text, "\n{}", metrics_key(study));
    }
}

/// The ranking of each race.
fn rankings(text: &mut String, study: &StudyView) {
    for ranking in &study.rankings {
        if study.rankings.len() > 1 {
            let _ = writeln!(text, "\n**{}**", escape(&ranking.race.subject));
        }
        let shown = ranking.top_and_tied(ranking::MOST_ROWS);
        table(text, &ranking.table(&shown, study.plan.warmup_blocks));
        let rest = ranking.rest(&shown);
        if !rest.is_empty() {
            let _ = writeln!(text, "\n{rest}");
        }
    }
    let _ = writeln!(text, "\n{} {}", escape(&metric::key(study)), escape(&ranking::key(study)));
}

/// The paper's tables, ours below each of their rows.
fn beside_the_paper(text: &mut String, study: &StudyView) {
    let tables = PaperTable::all(study);
    let Some(first) = tables.first() else { return };
    let _ = writeln!(text, "\n{}", escape(&first.paper.citation));
    let rows = first.facts(study).into_iter().map(|(fact, printed, ours)| vec![fact.into(), printed, ours]);
    table(text, &Table::of_labels(["", "printed", "ours"], rows));
    for beside in &tables {
        let _ = writeln!(text, "\n**{}**: {}.", escape(&beside.title()), escape(&beside.printed.about));
        table(text, &beside.whole());
    }
    let _ = writeln!(text, "\n{KEY}");
}

/// What the built-in programs need, and the rates that they reached.
fn built_in_programs(text: &mut String, study: &StudyView) {
    let programs = BuiltinProgram::all(study);
    if programs.is_empty() {
        return;
    }
    table(text, &programs::table(&programs, &study.plan.threads));
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

/// Appends a table and the empty line above it.
pub(crate) fn table(text: &mut String, table: &Table) {
    let heads = table.corner.iter().chain(&table.heads_in_words()).map(|head| escape(head)).collect();
    let rows = table.rows_without_repeats().map(|(labels, cells)| {
        let labels = labels.into_iter().map(|label| escape(label.trim_start()));
        labels.chain(cells.iter().map(written)).collect()
    });
    rows_and_heads(text, heads, table.heads.len(), rows);
}

/// The same of cells in Markdown, of which the last columns are `figures`.
pub(crate) fn rows_and_heads(
    text: &mut String,
    heads: Vec<String>,
    figures: usize,
    rows: impl Iterator<Item = Vec<String>>,
) {
    let rule = [" --- |".repeat(heads.len() - figures), " ---: |".repeat(figures)].concat();
    let _ = writeln!(text, "\n| {} |\n|{rule}", heads.join(" | "));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
}

/// Appends sentences as a list.
pub(crate) fn list(text: &mut String, sentences: impl IntoIterator<Item = impl AsRef<str>>) {
    for sentence in sentences {
        let _ = writeln!(text, "- {}", escape(sentence.as_ref()));
    }
}

/// Appends the warnings, if there are any.
pub(crate) fn warnings(text: &mut String, warnings: &[String]) {
    if !warnings.is_empty() {
        text.push_str("\nWarnings:\n\n");
        list(text, warnings);
    }
}

fn written(cell: &Cell) -> String {
    let figure = match (cell.mark(), escape(&cell.text)) {
        _ if cell.text.is_empty() => "–".into(),
        (Mark::Shown(_), text) => format!("**{text}**"),
        (Mark::Seeming, text) => format!("*{text}*"),
        (Mark::Plain, text) => text,
    };
    match cell.range("–") {
        range if range.is_empty() => figure,
        range => format!("{figure} ({})", escape(&range)),
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
