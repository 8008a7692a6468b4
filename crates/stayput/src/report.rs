//! `stayput report`: a journal in one of six forms.

use anyhow::Context;
use report::{Format, Study};
use std::path::{Path, PathBuf};

/// Report what a study found
#[derive(clap::Args)]
pub struct ReportArgs {
    /// The study's journal, a .stayput file
    #[arg(add = crate::shell::files("stayput"))]
    file: PathBuf,
    /// The form of the report
    #[arg(long, value_parser = crate::choice::<Format>(), default_value = "terminal")]
    format: Format,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    out: Option<PathBuf>,
}

/// Reads the journal and writes the report.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let text = Study::read(&args.file)?.write(args.format, crate::study::screen());
    match &args.out {
        Some(path) => write_report(path, &text),
        None => crate::print(&text),
    }
}

/// Writes a report to a file.
pub(crate) fn write_report(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write report {}", path.display()))
}
