//! `stayput reproduce`: what a paper prints and claims, beside what we get.

use crate::UsageError;
use anyhow::Context;
use indicatif::ProgressBar;
use sim::Parameters;
use std::path::PathBuf;
use study::Reproduction;
use study::reproduction::cache_affinity;
use study::simulation::SimulationError;

/// Set what papers print and claim beside what we get
///
/// Every number that a paper prints is told beside ours with the difference, every figure is drawn again, and every claim of its
/// text is judged by our numbers. The same command gives the same bytes.
#[derive(clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  stayput reproduce                                       each paper's tables and claims, beside ours
  stayput reproduce --format html --out papers.html       the same with its figures, as a page
  stayput reproduce cache-affinity --format csv --seed 7  every cell of one, from other draws

Papers: cache-affinity (affinity scheduling of processes that share CPUs in time)."
)]
pub struct ReproduceArgs {
    /// The papers [default: all]
    #[arg(value_name = "PAPER")]
    papers: Vec<String>,
    /// How often each workload is simulated under each policy, with other draws each time
    #[arg(long, value_name = "R", default_value_t = Parameters::default().replicates)]
    replicates: u32,
    /// Where the draws start
    #[arg(long, value_name = "S", default_value_t = Parameters::default().seed)]
    seed: u64,
    /// The form of the result
    #[arg(long, value_enum, default_value_t = Form::Terminal)]
    format: Form,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Don't show progress
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
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

/// Computes all that a paper prints and claims: `replicates` times, drawn from a seed, telling how much of it is done, from 0 to 1.
type Reproduce = fn(u32, u64, &mut dyn FnMut(f64)) -> Result<Reproduction, SimulationError>;

/// The papers that can be reproduced.
const PAPERS: [(&str, Reproduce); 1] = [("cache-affinity", cache_affinity)];

/// Reproduces, and tells what came out.
pub fn run(args: &ReproduceArgs) -> anyhow::Result<u8> {
    let asked = asked(&args.papers)?;
    let parameters = Parameters { replicates: args.replicates, seed: args.seed, ..Parameters::default() };
    parameters.check().map_err(UsageError::from)?;
    const STEPS: u64 = 100;
    let progress = if args.quiet { ProgressBar::hidden() } else { ProgressBar::new(STEPS * asked.len() as u64) };
    let mut papers = Vec::new();
    for (number, reproduce) in asked.iter().enumerate() {
        let told = &mut |share: f64| progress.set_position(((number as f64 + share) * STEPS as f64) as u64);
        papers.push(reproduce(args.replicates, args.seed, told)?);
    }
    progress.finish_and_clear();
    let text = match args.format {
        Form::Terminal => report::reproduction::terminal(
            &papers,
            crate::study::terminal_width(),
            args.out.is_none() && crate::study::colours(&std::io::stdout()),
        ),
        Form::Html => report::reproduction::html(&papers),
        Form::Markdown => report::reproduction::markdown(&papers),
        Form::Csv => report::reproduction::csv(&papers),
        Form::Json => report::reproduction::json(&papers),
    };
    match &args.out {
        Some(path) => std::fs::write(path, text).with_context(|| format!("cannot write report {}", path.display()))?,
        None => crate::print(&text)?,
    }
    Ok(crate::SUCCESS)
}

/// The papers named, each once; all of them when none is.
fn asked(names: &[String]) -> anyhow::Result<Vec<Reproduce>> {
    let unknown = |name: &&String| PAPERS.iter().all(|(known, _)| known != name);
    if let Some(name) = names.iter().find(unknown) {
        let known = PAPERS.map(|(known, _)| known).join(", ");
        return Err(UsageError::from(format!("there is no paper `{name}`; there is: {known}")));
    }
    let is_asked = |name: &str| names.is_empty() || names.iter().any(|asked| asked == name);
    Ok(PAPERS.into_iter().filter(|(name, _)| is_asked(name)).map(|(_, reproduce)| reproduce).collect())
}
