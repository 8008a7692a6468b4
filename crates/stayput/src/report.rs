//! `stayput report`: a journal, told in one of six forms.

use anyhow::Context;
use std::path::PathBuf;
use study::Journal;

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

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// Verdict and table for a terminal
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

/// Reads the journal and writes the report.
pub fn run(args: &ReportArgs) -> anyhow::Result<u8> {
    let record = Journal::read(&args.file)?;
    let analysis = study::analyse(&record);
    let text = match args.format {
        Format::Terminal => report::terminal(
            &record,
            &analysis,
            crate::study::terminal_width(),
            crate::study::colours(&std::io::stdout()),
        ),
        Format::Html => report::html(&record, &analysis),
        Format::Markdown => report::markdown(&record, &analysis),
        Format::Latex => report::latex(&record, &analysis),
        Format::Csv => report::csv(&record, &analysis),
        Format::Json => report::json(&record, &analysis),
    };
    match &args.out {
        Some(path) => std::fs::write(path, text).with_context(|| format!("cannot write report {}", path.display()))?,
        None => crate::print(&text)?,
    }
    Ok(crate::SUCCESS)
}
