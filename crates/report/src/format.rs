//! The forms of a report, and what text for a terminal is fitted to.

use strum::{EnumIter, EnumMessage, EnumString};

/// The forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, EnumMessage, EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum Format {
    /// Verdict and table for a terminal.
    #[strum(serialize = "terminal", serialize = "text")]
    Terminal,
    /// Everything, as one HTML file that loads nothing from outside.
    Html,
    /// Verdict and table in Markdown.
    Markdown,
    /// The table for a paper.
    Latex,
    /// Every trial, one row each.
    Csv,
    /// Everything, for programs.
    Json,
}

/// What text for a terminal is fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns to fill; 40 at least are used.
    pub width: usize,
    /// Whether it may be coloured.
    pub colour: bool,
}
