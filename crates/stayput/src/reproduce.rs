//! `stayput reproduce`: what a paper prints and claims, beside what we get.

use crate::study::conduct_paper;
use crate::{UsageError, shell};
use clap::ValueHint;
use clap::builder::NonEmptyStringValueParser;
use output::Inputs;
use papers::reproduction::LiveStudy;
use papers::{Live, Paper, Reproduction, cache_affinity, placement};
use report::reproduction::NO_PROGRAMS;
use sim::Parameters;
use std::path::PathBuf;
use study::study_file::Span;

/// Set what papers print and claim beside what we get
///
/// Every number that a paper prints stands beside ours with the difference, figures of what is simulated are drawn again, and every
/// claim of its text is judged by computation: on our numbers, or on what the paper itself prints. The same command gives the same
/// bytes.
#[derive(clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  stayput reproduce                                       each paper's tables and claims, beside ours
  stayput reproduce --format html --out papers.html       the same with its figures, as a page
  stayput reproduce cache-affinity --format csv --seed 7  every cell of one, from other draws
  stayput reproduce pires-2016 --live --live-class W      the same study on this machine, smaller, beside the paper's

Papers: cache-affinity (affinity scheduling of processes that share CPUs in time), which is simulated; and pires-2016, pires-2017 and
weber-2010 (where threads run), whose times a model that is fitted on some of them predicts.

With --live their studies are run here, as `stayput study` runs them: each has a journal, and the same command goes on where it
stopped. Printed times are of other machines; compare ratios, and what the claims come to."
)]
pub struct ReproduceArgs {
    /// The papers [default: all]
    #[arg(value_name = "PAPER", add = shell::names(|| papers().map(Into::into).collect()))]
    papers: Vec<String>,
    /// How often each workload is simulated under each policy, with other draws each time
    #[arg(long, value_name = "R", default_value_t = Parameters::default().replicates)]
    replicates: u32,
    /// Where the draws of simulations start
    #[arg(long, value_name = "S", default_value_t = Parameters::default().seed)]
    seed: u64,
    /// Run the papers' studies on this machine and show what they give beside what is printed
    #[arg(long)]
    live: bool,
    /// Longest that the trials of one paper may take in all [default: 10min]
    #[arg(long, value_name = "DURATION", requires = "live")]
    live_budget: Option<Span>,
    /// Problem class of every program in place of the papers' own
    #[arg(long, value_name = "CLASS", requires = "live", value_parser = NonEmptyStringValueParser::new())]
    live_class: Option<String>,
    /// Folder of the journals, each called by its paper's name and .stayput; or one paper's journal [default: this folder]
    #[arg(long, value_name = "PATH", requires = "live", value_hint = ValueHint::AnyPath)]
    journal: Option<PathBuf>,
    /// The form of the result
    #[arg(long, value_enum, default_value_t = Form::Terminal)]
    format: Form,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
    /// Say at the end what the words mean (terminal)
    #[arg(long)]
    explain: bool,
    /// Don't show progress
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Form {
    /// Answer, tables, figures and claims for a terminal
    #[value(alias = "text")]
    Terminal,
    /// Everything, as one HTML file that loads nothing from outside
    Html,
    /// Answer, tables and claims in Markdown
    Markdown,
    /// Every cell of every table, one row each
    Csv,
    /// Everything, for programs
    Json,
}

/// The paper that is simulated; the others are placement papers.
const SIMULATED: &str = "cache-affinity";

/// The papers that can be reproduced.
fn papers() -> impl Iterator<Item = &'static str> {
    std::iter::once(SIMULATED).chain(Paper::names())
}

/// Reproduces, and reports what came out.
pub fn run(args: &ReproduceArgs) -> anyhow::Result<()> {
    let names = paper_names(&args.papers)?;
    if args.live && names == [SIMULATED] {
        return Err(UsageError::from(format!("{NO_PROGRAMS}; name a placement paper with --live")));
    }
    let journal = journals(args, &names)?;
    let mut inputs = Inputs::default();
    names.iter().filter(|_| args.live).for_each(|name| inputs.add_journal(&journal(name)));
    let out = crate::result_file(args.out.as_deref(), inputs)?;
    let parameters = Parameters { replicates: args.replicates, seed: args.seed, ..Parameters::default() };
    parameters.check().map_err(UsageError::from)?;
    const STEPS: u64 = 100;
    let progress = crate::progress_bar(STEPS * names.len() as u64, args.quiet);
    let mut papers = Vec::new();
    for (number, name) in names.into_iter().enumerate() {
        let show_progress = &mut |share: f64| progress.set_position(((number as f64 + share) * STEPS as f64) as u64);
        papers.push(match Paper::named(name) {
            Some(paper) if args.live => {
                let path = journal(name);
                let record = progress.suspend(|| {
                    conduct_paper(paper, args.live_class.as_deref(), args.live_budget, &path, args.quiet)
                })?;
                placement(paper, Some(&Live::new(paper, &record, &path.display().to_string())))?
            }
            Some(paper) => placement(paper, None)?,
            None => {
                let simulated = cache_affinity(args.replicates, args.seed, show_progress)?;
                Reproduction { live: args.live.then_some(LiveStudy::NoPrograms), ..simulated }
            }
        });
    }
    progress.finish_and_clear();
    let screen = crate::study::screen();
    let text = match args.format {
        Form::Terminal => {
            let colour = args.out.is_none() && screen.colour;
            let words = match args.explain {
                true => report::reproduction::explanation(&papers, screen.width),
                false => "--explain says what the words mean.\n".into(),
            };
            format!("{}\n{words}", report::reproduction::terminal(&papers, screen.width, colour))
        }
        Form::Html => report::reproduction::html(&papers),
        Form::Markdown => report::reproduction::markdown(&papers),
        Form::Csv => report::reproduction::csv(&papers),
        Form::Json => terminal::printable_json(&report::reproduction::json(&papers)).into_owned(),
    };
    match out {
        Some(out) => Ok(out.write(text)?),
        None if args.format == Form::Terminal => crate::print_coloured(&text),
        None => crate::print_exactly(&text),
    }
}

/// Where a paper's live study keeps its trials.
fn journals(args: &ReproduceArgs, names: &[&str]) -> anyhow::Result<impl Fn(&str) -> PathBuf + use<>> {
    let path = args.journal.clone();
    let studies = names.iter().filter(|name| **name != SIMULATED).count();
    if let Some(path) = path.as_ref().filter(|path| !path.is_dir() && studies > 1) {
        return Err(UsageError::from(format!(
            "--journal {} is no folder, and {studies} studies need a journal each: name a folder",
            path.display()
        )));
    }
    Ok(move |name: &str| match &path {
        Some(path) if !path.is_dir() => path.clone(),
        folder => folder.clone().unwrap_or_default().join(format!("{name}.stayput")),
    })
}

/// The papers named, each once; all of them when none is.
fn paper_names(names: &[String]) -> anyhow::Result<Vec<&'static str>> {
    if let Some(name) = names.iter().find(|name| papers().all(|known| known != name.as_str())) {
        let known = papers().collect::<Vec<_>>().join(", ");
        return Err(UsageError::from(format!("there is no paper `{name}`; there are: {known}")));
    }
    Ok(papers().filter(|name| names.is_empty() || names.iter().any(|other| other == name)).collect())
}
