//! The papers' table for a paper in LaTeX.

use crate::metric;
use crate::mix_table::{jobs_key, metrics_key};
use crate::paper_table::{Fact, KEY, PaperTable};
use crate::ranking::{self, Ranking};
use crate::sentences;
use crate::setting::setting;
use crate::study_view::StudyView;
use crate::table::{BUSY_KEY, Cell, EFFECTS_KEY, MEMORY_KEY, Mark, Table};
use crate::wording::Wording;
use crate::words::{capital, count, plain};
use std::fmt::Write;

/// A floating table to be `\input` into a paper. It needs the package `booktabs` and an engine that reads UTF-8 (any
/// of the last ten years). The verdicts stand above it as comments, the setting in its caption. A ratio is bold where
/// a difference is shown.
pub(crate) fn cells(study: &StudyView) -> String {
    let mut text = comments(&sentences::verdicts(study), &study.warnings);
    for table in PaperTable::all(study) {
        float(&mut text, &beside_the_paper(study, &table), &table.whole());
    }
    if study.is_race() {
        for ranking in &study.rankings {
            let shown = ranking.top_and_tied(ranking::MOST_ROWS);
            let table = ranking.table(&shown, study.plan.warmup_blocks);
            float(&mut text, &ranked(study, ranking, &ranking.rest(&shown)), &table);
        }
    } else {
        let placements = Table::of_placements(study);
        let busy = if placements.has_busy() { format!("; italic where {BUSY_KEY}") } else { String::new() };
        let caption = format!(
            "{} Medians, ratio to {} (above 1 is {}; 95\\,\\% interval below; bold where a difference is shown, allowing for the number of comparisons{busy}) and speed-up. {}",
            escape(&metric::key(study)),
            escape(study.reference()),
            Wording::of_study(study).word(true),
            escape(&setting(study))
        );
        float(&mut text, &caption, &placements);
    }
    if let Some(jobs) = Table::of_jobs(study) {
        float(&mut text, &format!("{} {}", escape(jobs_key(study)), escape(&setting(study))), &jobs);
    }
    if let Some(metrics) = Table::of_metrics(study) {
        float(&mut text, &format!("{} {}", escape(&metrics_key(study)), escape(&setting(study))), &metrics);
    }
    if let Some(effects) = Table::of_effects(study) {
        float(&mut text, &format!("{EFFECTS_KEY} {}", escape(&setting(study))), &effects);
    }
    if let Some(memory) = Table::of_memory(study) {
        float(&mut text, &format!("{MEMORY_KEY} {}", escape(&setting(study))), &memory);
    }
    text
}

/// What stands above the tables: the answer, what limits it, and what they need.
pub(crate) fn comments(verdicts: &[String], warnings: &[String]) -> String {
    let warnings = warnings.iter().map(|warning| format!("Warning: {warning}"));
    let lines = verdicts.iter().cloned().chain(warnings).chain(["Needs \\usepackage{booktabs}.".into()]);
    lines.map(|line| format!("% {}\n", plain(&line).replace('\n', " "))).collect()
}

/// The caption of a race's ranking, which leaves out `rest`.
fn ranked(study: &StudyView, ranking: &Ranking, rest: &str) -> String {
    let rest = match rest {
        "" => String::new(),
        rest => format!(" Not shown: {}.", escape(rest.trim_start_matches("and "))),
    };
    format!(
        "{}: the best of {}. {} {}{rest} {}",
        escape(&ranking.race.subject),
        count(ranking.places.len(), "placement"),
        escape(&metric::key(study)),
        escape(&ranking::key(study)),
        escape(&setting(study))
    )
}

/// The caption of a paper's table, ours below each of its rows.
fn beside_the_paper(study: &StudyView, table: &PaperTable) -> String {
    let facts = table.facts(study);
    let told = |side: fn(&Fact) -> &str| {
        facts.iter().map(|fact| format!("{}: {}", fact.0, escape(side(fact)))).collect::<Vec<_>>().join("; ")
    };
    format!(
        "{}: {}. {} Printed: {}. Ours: {}.",
        escape(&table.title()),
        escape(&table.printed.about),
        escape(KEY),
        told(|fact| &fact.1),
        told(|fact| &fact.2)
    )
}

/// Appends a table as a float. Intervals stand below their figures, and rules part groups of several rows.
pub(crate) fn float(text: &mut String, caption: &str, table: &Table) {
    let (labels, figures) = (table.corner.len(), table.heads.len());
    let _ = writeln!(
        text,
        "\\begin{{table}}\n\\centering\n\\caption{{{caption}}}\n\\begin{{tabular}}{{{}{}}}\n\\toprule",
        "l".repeat(labels),
        "r".repeat(figures)
    );
    if let Some(noun) = table.counted.filter(|_| figures > 0) {
        let _ = writeln!(
            text,
            "{}\\multicolumn{{{figures}}}{{c}}{{{}s}} \\\\\n\\cmidrule(lr){{{}-{}}}",
            "& ".repeat(labels),
            capital(noun),
            labels + 1,
            labels + figures
        );
    }
    // The only label's head may be the name of a parameter.
    let corner = table.corner.iter().map(|head| if labels == 1 { head.clone() } else { capital(head) });
    let heads: Vec<String> = corner.chain(table.heads.iter().map(|head| capital(head))).map(|h| escape(&h)).collect();
    let _ = writeln!(text, "{} \\\\\n\\midrule", heads.join(" & "));
    for (at, (labels, cells)) in table.rows_without_repeats().enumerate() {
        if at > 0 && table.is_grouped && !labels[0].is_empty() {
            text.push_str("\\midrule\n");
        }
        row(text, &labels, cells);
    }
    text.push_str("\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

/// A row, and below it the intervals of its figures.
fn row(text: &mut String, labels: &[&str], cells: &[Cell]) {
    let label = |label: &&str| {
        let indent = if label.starts_with(' ') { "\\quad " } else { "" };
        format!("{indent}{}", escape(label.trim_start()))
    };
    text.push_str(&labels.iter().map(label).collect::<Vec<_>>().join(" & "));
    for cell in cells {
        let _ = match (escape(&cell.text), cell.mark()) {
            (figure, _) if figure.is_empty() => write!(text, " & --"),
            (figure, Mark::Shown(_)) => write!(text, " & \\textbf{{{figure}}}"),
            (figure, Mark::Seeming) => write!(text, " & \\textit{{{figure}}}"),
            (figure, Mark::Plain) => write!(text, " & {figure}"),
        };
    }
    text.push_str(" \\\\\n");
    if cells.iter().any(|cell| cell.interval.is_some()) {
        text.push_str(&["&"].repeat(labels.len() - 1).join(" "));
        for cell in cells {
            let _ = match escape(&cell.range("--")) {
                range if range.is_empty() => write!(text, " &"),
                range => write!(text, " & {{\\footnotesize {range}}}"),
            };
        }
        text.push_str(" \\\\\n");
    }
}

/// `text` on one line, with LaTeX's special characters written so that they print as themselves.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in plain(text).chars() {
        match c {
            '\n' => escaped.push(' '),
            // What stood for a control character is no letter of the usual fonts.
            char::REPLACEMENT_CHARACTER => escaped.push('?'),
            // In brackets a row would begin with the option of the rule above it.
            '[' => escaped.push_str("{[}"),
            ']' => escaped.push_str("{]}"),
            '\\' => escaped.push_str("\\textbackslash{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '<' => escaped.push_str("\\textless{}"),
            '>' => escaped.push_str("\\textgreater{}"),
            '|' => escaped.push_str("\\textbar{}"),
            '"' => escaped.push_str("''"),
            '%' | '&' | '#' | '$' | '_' | '{' | '}' => escaped.extend(['\\', c]),
            _ => escaped.push(c),
        }
    }
    escaped
}
