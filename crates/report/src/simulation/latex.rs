//! A simulation's table for a paper in LaTeX.

use super::Sheet;
use crate::latex::escape;
use crate::sentences;
use crate::table::Cell;
use crate::words::{capital, plain};
use std::fmt::Write;

/// A floating table to be `\input`; the answer stands above it as comments, the setting in its caption.
pub(crate) fn latex(sheet: &Sheet) -> String {
    let mut text = String::new();
    for verdict in sheet.verdicts.iter().chain(&sentences::warnings(sheet.warnings)) {
        let _ = writeln!(text, "% {}", plain(verdict).replace('\n', " "));
    }
    text.push_str("% Needs \\usepackage{booktabs}.\n");
    let table = &sheet.table;
    let _ = writeln!(
        text,
        "\\begin{{table}}\n\\centering\n\\caption{{{} {}}}\n\\begin{{tabular}}{{l{}}}\n\\toprule",
        escape(&sheet.setting),
        escape(&sheet.key),
        "r".repeat(table.heads.len())
    );
    text.push_str(&escape(&table.corner));
    for head in &table.heads {
        let _ = write!(text, " & {}", escape(&capital(head)));
    }
    text.push_str(" \\\\\n\\midrule\n");
    for (label, cells) in &table.rows {
        let indent = if label.starts_with(' ') { "\\quad " } else { "" };
        let _ = write!(text, "{indent}{}", escape(label.trim_start()));
        for cell in cells {
            let _ = write!(text, " & {}", figure(cell));
        }
        text.push_str(" \\\\\n");
    }
    text.push_str("\\bottomrule\n\\end{tabular}\n\\end{table}\n");
    text
}

/// A figure and its interval; bold where that leaves no doubt.
fn figure(cell: &Cell) -> String {
    let text = match cell.claim {
        _ if cell.text.is_empty() => "--".into(),
        Some(_) => format!("\\textbf{{{}}}", escape(&cell.text)),
        None => escape(&cell.text),
    };
    match cell.range("--") {
        range if range.is_empty() => text,
        range => format!("{text} {{\\footnotesize ({range})}}"),
    }
}
