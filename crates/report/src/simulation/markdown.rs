//! A simulation in GitHub-flavoured Markdown.

use super::Sheet;
use crate::markdown::{escape, written};
use crate::sentences;
use std::fmt::Write;

/// The simulation as Markdown: answer, table, setting, parameters, limits. A change is bold where its interval leaves no doubt.
pub(crate) fn markdown(sheet: &Sheet) -> String {
    let mut text = String::new();
    for verdict in &sheet.verdicts {
        let _ = writeln!(text, "- {}", escape(verdict));
    }
    let table = &sheet.table;
    let heads: Vec<String> = table.heads.iter().map(|head| escape(head)).collect();
    let _ = writeln!(text, "\n| {} | {} |", escape(&table.corner), heads.join(" | "));
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(heads.len()));
    for (label, cells) in &table.rows {
        let cells: Vec<String> = cells.iter().map(written).collect();
        let _ = writeln!(text, "| {} | {} |", escape(label.trim_start()), cells.join(" | "));
    }
    let _ = writeln!(text, "\n{}\n\n{}", escape(&sheet.key), escape(&sheet.setting));
    text.push('\n');
    for job in &sheet.jobs {
        let _ = writeln!(text, "- {}", escape(job));
    }
    let parameters: Vec<String> = sheet.parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let _ = writeln!(text, "\nParameters: {}.", escape(&parameters.join(", ")));
    if !sheet.warnings.is_empty() {
        text.push_str("\nWarnings:\n\n");
        for warning in sentences::warnings(sheet.warnings) {
            let _ = writeln!(text, "- {}", escape(&warning));
        }
    }
    let _ = writeln!(text, "\n{}:\n", sheet.limits_of);
    for limit in sheet.limits {
        let _ = writeln!(text, "- {}", escape(limit));
    }
    text
}
