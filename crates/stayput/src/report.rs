//! `stayput report`: a journal, told in one of six forms.

use anyhow::Context;
use std::path::PathBuf;
use study::{Analysis, Journal, Record};

/// Tell what a study found
#[derive(clap::Args)]
pub struct ReportArgs {
    /// The study's journal, a .stayput file
    file: PathBuf,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The forms of a report.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Format {
    /// Verdict and table for a terminal
    #[value(alias = "text")]
    Terminal,
    /// Everything, as one HTML file that loads nothing from outside
    Html,
    /// Verdict and table in Markdown
    Markdown,
    /// The table for a paper
    Latex,
    /// Every trial, one row each
    Csv,
    /// Everything, for programs
    Json,
}

impl Format {
    /// The report in this form.
    pub(crate) fn write(self, record: &Record, analysis: &Analysis) -> String {
        match self {
            Self::Terminal => report::terminal(
                record,
                analysis,
                crate::study::terminal_width(),
                crate::study::colours(&std::io::stdout()),
            ),
            Self::Html => report::html(record, analysis),
            Self::Markdown => report::markdown(record, analysis),
            Self::Latex => report::latex(record, analysis),
            Self::Csv => report::csv(record, analysis),
            Self::Json => report::json(record, analysis),
        }
    }
}

/// Reads the journal and writes the report.
pub fn run(args: &ReportArgs) -> anyhow::Result<u8> {
    let record = Journal::read(&args.file)?;
    let text = args.format.write(&record, &study::analyse(&record));
    match &args.out {
        Some(path) => std::fs::write(path, text).with_context(|| format!("cannot write report {}", path.display()))?,
        None => crate::print(&text)?,
    }
    Ok(crate::SUCCESS)
}
