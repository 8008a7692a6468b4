//! The papers' table for a paper in LaTeX.

use crate::paper_table::{Fact, KEY, PaperTable};
use crate::ranking::{self, Ranking};
use crate::sentences;
use crate::setting::setting;
use crate::study_view::StudyView;
use crate::table::{Cell, Table};
use crate::words::{capital, count, plain};
use papers::paper::Quantity;
use std::fmt::Write;

/// A floating table to be `\input` into a paper. It needs the package `booktabs` and an engine that reads UTF-8 (any
/// of the last ten years). The verdicts stand above it as comments, the setting in its caption. A ratio is bold where
/// a difference is shown.
pub(crate) fn cells(study: &StudyView) -> String {
    let mut text = String::new();
    for verdict in sentences::verdicts(study.analysis) {
        let _ = writeln!(text, "% {}", plain(&verdict).replace('\n', " "));
    }
    for warning in &study.warnings {
        let _ = writeln!(text, "% Warning: {}", plain(warning).replace('\n', " "));
    }
    text.push_str("% Needs \\usepackage{booktabs}.\n");
    for table in PaperTable::all(study) {
        beside_the_paper(&mut text, study, &table);
    }
    if study.is_race() {
        for ranking in &study.rankings {
            ranked(&mut text, study, ranking);
        }
    } else {
        compared(&mut text, study);
    }
    text
}

/// Every placement beside the reference as a float.
fn compared(text: &mut String, study: &StudyView) {
    let table = Table::new(study);
    let columns = table.threads.len();
    let _ = writeln!(text, "\\begin{{table}}\n\\centering");
    let _ = writeln!(
        text,
        "\\caption{{Median times, ratio to {} (above 1 is faster; 95\\,\\% interval below; bold where a difference is shown, allowing for the number of comparisons) and speed-up. {}}}",
        escape(&table.reference),
        escape(&setting(study))
    );
    let _ = writeln!(text, "\\begin{{tabular}}{{lll{}}}\n\\toprule", "r".repeat(columns.max(1)));
    let _ = writeln!(text, "& & & \\multicolumn{{{}}}{{c}}{{Threads}} \\\\", columns.max(1));
    if columns > 0 {
        let _ = writeln!(text, "\\cmidrule(lr){{4-{}}}", columns + 3);
    }
    text.push_str("Benchmark & & Placement");
    for threads in &table.threads {
        let _ = write!(text, " & {threads}");
    }
    text.push_str(" \\\\\n");
    for group in &table.groups {
        text.push_str("\\midrule\n");
        let mut previous = None;
        for (index, row) in group.rows.iter().enumerate() {
            let subject = if index == 0 { escape(&group.subject) } else { String::new() };
            let fresh = previous.replace(row.quantity) != Some(row.quantity);
            let quantity = match row.quantity {
                _ if !fresh => "",
                Quantity::Time => "Time (s)",
                Quantity::Ratio => "Ratio",
                Quantity::SpeedUp => "Speed-up",
            };
            let _ = write!(text, "{subject} & {quantity} & {}", escape(&row.placement));
            figures(text, &row.cells);
        }
    }
    text.push_str("\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

/// The ranking of a race as a float.
fn ranked(text: &mut String, study: &StudyView, ranking: &Ranking) {
    let heads = ranking.heads();
    let shown = ranking.top_and_tied(ranking::MOST_ROWS);
    let rest = match ranking.rest(&shown) {
        rest if rest.is_empty() => rest,
        rest => format!(" Not shown: {}.", escape(rest.trim_start_matches("and "))),
    };
    let _ = writeln!(
        text,
        "\\begin{{table}}\n\\centering\n\\caption{{{}: the best of {}. {}{rest} {}}}",
        escape(&ranking.race.subject),
        count(ranking.places.len(), "placement"),
        escape(ranking::KEY),
        escape(&setting(study))
    );
    let _ = writeln!(text, "\\begin{{tabular}}{{rl{}}}\n\\toprule", "r".repeat(heads.len() - 2));
    let head = |head: &&str| escape(&capital(head));
    let _ = writeln!(text, "{} \\\\\n\\midrule", heads.iter().map(head).collect::<Vec<_>>().join(" & "));
    for place in &shown {
        let row = ranking.row(place, study.plan.warmup_blocks);
        let cell = |text: &String| if text.is_empty() { "--".into() } else { escape(text) };
        let _ = writeln!(text, "{} \\\\", row.iter().map(cell).collect::<Vec<_>>().join(" & "));
    }
    text.push_str("\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

/// A paper's table as a float, ours below each of its rows.
fn beside_the_paper(text: &mut String, study: &StudyView, table: &PaperTable) {
    let facts = table.facts(study);
    let told = |side: fn(&Fact) -> &str| {
        facts.iter().map(|fact| format!("{}: {}", fact.0, escape(side(fact)))).collect::<Vec<_>>().join("; ")
    };
    let _ = writeln!(
        text,
        "\\begin{{table}}\n\\centering\n\\caption{{{}: {}. {} Printed: {}. Ours: {}.}}",
        escape(&table.title()),
        escape(&table.printed.about),
        escape(KEY),
        told(|fact| &fact.1),
        told(|fact| &fact.2)
    );
    let columns = table.printed.threads.len();
    let _ = writeln!(text, "\\begin{{tabular}}{{lll{}}}\n\\toprule", "r".repeat(columns));
    let _ =
        writeln!(text, "& & & \\multicolumn{{{columns}}}{{c}}{{Threads}} \\\\\n\\cmidrule(lr){{4-{}}}", columns + 3);
    text.push_str("Benchmark & &");
    for threads in &table.printed.threads {
        let _ = write!(text, " & {threads}");
    }
    text.push_str(" \\\\\n");
    for line in table.lines() {
        if !line.benchmark.is_empty() {
            text.push_str("\\midrule\n");
        }
        let _ = write!(text, "{} & {} & {}", line.benchmark, escape(&line.label), line.source.word());
        figures(text, &line.cells);
    }
    text.push_str("\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

/// The rest of a row, and below it the intervals of its ratios.
fn figures(text: &mut String, cells: &[Cell]) {
    for cell in cells {
        match (cell.text.as_str(), cell.claim) {
            ("", _) => text.push_str(" & --"),
            (figure, Some(_)) => {
                let _ = write!(text, " & \\textbf{{{figure}}}");
            }
            (figure, None) => {
                let _ = write!(text, " & {}", escape(figure));
            }
        }
    }
    text.push_str(" \\\\\n");
    if cells.iter().any(|cell| cell.interval.is_some()) {
        text.push_str("& &");
        for cell in cells {
            match cell.range("--") {
                range if range.is_empty() => text.push_str(" &"),
                range => {
                    let _ = write!(text, " & {{\\footnotesize {range}}}");
                }
            }
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
