//! `stayput report`: a journal in one of six forms, or a list of those in a folder.

mod list;

use crate::UsageError;
use output::{Inputs, ResultFile};
use report::{Format, Study};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use study::journal;
use study::redaction::Redaction;

/// Report what a study found, or list the studies in a folder
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  stayput report                                            the studies in this folder
  stayput report app.stayput                                what one of them found
  stayput report app.stayput --format html --out app.html   the same as a page")]
pub struct ReportArgs {
    /// The study's journal, a .stayput file; or a folder, whose journals are listed [default: this folder]
    #[arg(add = crate::shell::files("stayput"))]
    file: Option<PathBuf>,
    /// The form of the report
    #[arg(long, value_parser = crate::choice::<Format>(), default_value = "terminal")]
    format: Format,
    /// Say below a simulation's or replays' table what its words mean (terminal)
    #[arg(long)]
    explain: bool,
    /// Put an apostrophe before names that a spreadsheet would compute, such as =1+1 (csv)
    #[arg(long)]
    spreadsheet: bool,
    /// Leave out values whose names match, besides those of *TOKEN*, *SECRET*, *PASSWORD*, *PASSWD*, *API_KEY* and *CREDENTIAL*
    #[arg(long, value_name = "NAME")]
    redact: Vec<String>,
    /// Let others read the file that is written, as far as the umask does [default: its owner alone]
    #[arg(long, requires = "out")]
    share: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    out: Option<PathBuf>,
}

/// Reads the journal and writes the report.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    if args.spreadsheet && args.format != Format::Csv {
        return Err(UsageError::from("--spreadsheet is for --format csv"));
    }
    let here = PathBuf::from(".");
    let path = args.file.as_ref().unwrap_or(&here);
    let mut inputs = Inputs::default();
    inputs.add_journal(path);
    let out = crate::result_file(args.out.as_deref(), inputs)?.map(|out| out.shared(args.share));
    if path.is_dir() {
        if args.format != Format::Terminal || out.is_some() {
            return Err(UsageError::from("--format and --out are for the report of one study; name its journal"));
        }
        return crate::print(&list::of_folder(path)?);
    }
    let lacks = journal::may_lack_last_runs(path);
    let study = Study::read_redacted(path, &Redaction::new(&args.redact))?;
    if lacks {
        eprintln!(
            "stayput: {} was copied while its study was at work: it may lack the last runs, which are in the file {}-wal beside the \
             original",
            path.display(),
            path.file_name().unwrap_or_default().display()
        );
    }
    if matches!(args.format, Format::Csv | Format::Json) && !args.spreadsheet {
        return write_in_parts(&study, args.format, out.as_ref());
    }
    let mut text = written(&study, args.format, args.explain);
    if args.format == Format::Terminal {
        text.extend(study.stop().map(|reason| format!("\nstopped: {reason}\n")));
    }
    if args.spreadsheet {
        text = report::for_spreadsheets(&text);
    }
    match out {
        Some(out) => Ok(out.write(text)?),
        None => print_form(&text, args.format),
    }
}

/// Writes a form that names every trial, of which there may be very many, without having all of it in memory.
fn write_in_parts(study: &Study, format: Format, out: Option<&ResultFile>) -> anyhow::Result<()> {
    let screen = crate::study::screen();
    let parts = |file: &mut dyn Write, shown: &dyn Fn(&str, &mut dyn Write) -> io::Result<()>| {
        let mut written = Ok(());
        study.write_in_parts(format, screen, &mut |part| {
            if written.is_ok() {
                written = shown(part, file);
            }
        });
        written
    };
    let exactly = |part: &str, file: &mut dyn Write| file.write_all(part.as_bytes());
    match out {
        Some(out) => Ok(out.write_by(|file| parts(file, &exactly))?),
        None if io::stdout().is_terminal() => {
            crate::print_by(|stdout| parts(stdout, &|part, file| file.write_all(terminal::printable(part).as_bytes())))
        }
        None => crate::print_by(|stdout| parts(stdout, &exactly)),
    }
}

/// The study in a form; for a terminal with what its words mean, or with how to have them explained.
pub(crate) fn written(study: &Study, format: Format, explain: bool) -> String {
    let screen = crate::study::screen();
    let mut text = study.write(format, screen);
    let words = study.explanation(screen.width).filter(|_| format == Format::Terminal);
    text.extend(words.map(|words| match explain {
        true => format!("\n{words}"),
        false => "\n--explain says what the words of the table mean.\n".into(),
    }));
    text
}

/// Prints a study that was written in a form.
pub(crate) fn print_form(text: &str, format: Format) -> anyhow::Result<()> {
    if format == Format::Terminal { crate::print_coloured(text) } else { crate::print_exactly(text) }
}
