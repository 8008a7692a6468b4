//! What a simulation, or replays beside one, say in the forms that are text alone.

use crate::format::Screen;
use crate::grid::Grid;
use crate::latex;
use crate::markdown::{self, escape};
use crate::sentences;
use crate::table::Table;
use crate::terminal::{self, paragraph};
use std::fmt::Write;
use study::Warning;

/// What is said, in the order in which it is said.
pub(crate) struct Sheet<'a> {
    /// The answer, a sentence each.
    pub verdicts: Vec<String>,
    /// What limits it.
    pub warnings: &'a [Warning],
    /// Its table.
    pub table: Table,
    /// What stands below the table.
    pub key: String,
    /// What was run, in one sentence.
    pub setting: String,
    /// The jobs of the workload, a line each.
    pub jobs: Vec<String>,
    /// Numbers, by name.
    pub parameters: Vec<(String, String)>,
    /// What the limits are called, and they in sentences.
    pub limits_of: &'static str,
    pub limits: Vec<String>,
}

impl Sheet<'_> {
    /// Fitted to the screen.
    pub(crate) fn terminal(&self, screen: Screen) -> String {
        let (mut text, width) = (String::new(), screen.width);
        for verdict in &self.verdicts {
            paragraph(&mut text, "", verdict, width);
        }
        text.push('\n');
        for corner in self.table.corner.iter().filter(|corner| !corner.is_empty()) {
            paragraph(&mut text, "", &format!("by {corner}:"), width);
        }
        Grid::new(&self.table, usize::MAX).write(&mut text, screen);
        text.push('\n');
        paragraph(&mut text, "", &self.key, width);
        paragraph(&mut text, "", &self.setting, width);
        terminal::warnings(&mut text, &sentences::warnings(self.warnings), width);
        text.push('\n');
        paragraph(&mut text, "", &format!("{}:", self.limits_of), width);
        for limit in &self.limits {
            paragraph(&mut text, "- ", limit, width);
        }
        text
    }

    /// Markdown. A change is bold where its interval leaves no doubt.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        markdown::list(&mut text, &self.verdicts);
        markdown::table(&mut text, &self.table);
        let _ = writeln!(text, "\n{}\n\n{}\n", escape(&self.key), escape(&self.setting));
        markdown::list(&mut text, &self.jobs);
        let parameters: Vec<String> = self.parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let _ = writeln!(text, "\nParameters: {}.", escape(&parameters.join(", ")));
        markdown::warnings(&mut text, &sentences::warnings(self.warnings));
        let _ = writeln!(text, "\n{}:\n", self.limits_of);
        markdown::list(&mut text, &self.limits);
        text
    }

    /// A floating table to be `\input`; the answer stands above it as comments, the setting in its caption.
    pub(crate) fn latex(&self) -> String {
        let mut text = latex::comments(&self.verdicts, &sentences::warnings(self.warnings));
        let caption = [&self.setting, &self.key].map(|sentence| latex::escape(sentence)).join(" ");
        latex::float(&mut text, &caption, &self.table);
        text
    }
}
