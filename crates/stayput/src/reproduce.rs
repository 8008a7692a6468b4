//! `stayput reproduce`: what a paper prints and claims, beside what we get.

mod profiles;
mod space;

use crate::study::{LiveRequest, conduct_paper, conduct_workloads};
use crate::{UsageError, shell};
use clap::ValueHint;
use clap::builder::NonEmptyStringValueParser;
use output::Inputs;
use papers::live_workloads::{LIVE_WORKLOADS, Place, Size};
use papers::{Live, Paper, cache_affinity, placement};
use sim::Parameters;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use study::Site;
use study::site::ParseSiteError;
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
  stayput reproduce cache-affinity --live                 the report's seven workloads as programs, here and in a virtual machine
  stayput reproduce cache-affinity --live --live-size full  all of it, overnight
  stayput reproduce pires-2017 --live --on slurm:nodes=4    its study on the nodes of a cluster

Papers: cache-affinity (affinity scheduling of processes that share CPUs in time), which is simulated; and pires-2016, pires-2017 and
weber-2010 (where threads run), whose times a model that is fitted on some of them predicts.

With --live their studies are run here, as `stayput study` runs them: each has a journal, and the same command goes on where it
stopped. Printed times are of other machines; compare ratios, and what the claims come to. The seven workloads of cache-affinity have
a journal each, in a folder; they are run here under the kernel's own scheduler, for their times, and in a virtual machine under the
report's schedulers and the kernel's, for their misses. Then CPUs are shared out here among jobs of its section 5, as `stayput share`
does, for its Figure 3, and its applications are profiled, as `stayput profile` does, for its Tables II, III and IV."
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
    /// Where the workloads of cache-affinity are run: here, vm, or both; and in place of here, for every paper, the nodes of a cluster: slurm,
    /// or slurm:partition=p,nodes=4 and the like, as of `stayput study` [default: here,vm]
    #[arg(long, value_name = "PLACES", requires = "live", add = shell::names(|| ["here", "vm", "slurm"].map(Into::into).into()))]
    on: Option<LivePlaces>,
    /// How much is measured of cache-affinity: small ends within half an hour on two CPUs, full takes a night [default: small]
    #[arg(long, value_name = "SIZE", requires = "live")]
    live_size: Option<LiveSize>,
    /// Longest that the trials of one paper may take in all [default: 10min; of cache-affinity 20min, of its full size 12h]
    #[arg(long, value_name = "DURATION", requires = "live")]
    live_budget: Option<Span>,
    /// Problem class of every program in place of the papers' own
    #[arg(long, value_name = "CLASS", requires = "live", value_parser = NonEmptyStringValueParser::new())]
    live_class: Option<String>,
    /// Folder of the journals, each called by its paper's name and .stayput, and of the folder cache-affinity; or one paper's journal, or
    /// that folder [default: this folder]
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

/// Where papers' studies are run.
#[derive(Clone, Debug, PartialEq)]
struct LivePlaces {
    /// On this machine, or a cluster in its place.
    here: Option<Site>,
    /// In a virtual machine.
    vm: bool,
}

impl Default for LivePlaces {
    fn default() -> Self {
        Self { here: Some(Site::Here), vm: true }
    }
}

impl FromStr for LivePlaces {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut names: Vec<String> = Vec::new();
        for word in text.split(',') {
            match names.last_mut() {
                // Slurm's options have commas between them, too.
                Some(last) if last.starts_with("slurm:") && !["here", "vm"].contains(&word) => {
                    last.push(',');
                    last.push_str(word);
                }
                _ => names.push(word.to_owned()),
            }
        }
        let mut places = Self { here: None, vm: false };
        for name in names {
            let site = name.parse::<Site>().map_err(|error| match error {
                ParseSiteError::Unknown(name) => {
                    format!("`{name}` is no place to run; name here, vm, slurm or slurm:OPTIONS")
                }
                error => error.to_string(),
            })?;
            match site {
                Site::Vm(_) if name == "vm" => places.vm = true,
                Site::Vm(_) => return Err("which virtual machine it is the paper says; name vm".into()),
                site if places.here.as_ref().is_none_or(|other| *other == site) => places.here = Some(site),
                _ => return Err("this machine and a cluster are one place here; name one of them".into()),
            }
        }
        Ok(places)
    }
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum LiveSize {
    /// Few plays, under four schedulers in the virtual machine
    Small,
    /// All workloads under all schedulers
    Full,
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

/// So long all of its workloads may take in both places: with what is between runs, and jobs that share CPUs in space, less than half an
/// hour.
const SMALL_BUDGET: Duration = Duration::from_secs(20 * 60);
/// The same of the full size.
const FULL_BUDGET: Duration = Duration::from_secs(12 * 60 * 60);

impl ReproduceArgs {
    /// How much of its workloads is run.
    fn size(&self) -> Size {
        match self.live_size {
            None | Some(LiveSize::Small) => Size::Small,
            Some(LiveSize::Full) => Size::Full,
        }
    }

    /// Where its workloads are run, each place once, and where those on this machine are.
    fn places(&self) -> (Vec<Place>, Site) {
        let LivePlaces { here, vm } = self.on.clone().unwrap_or_default();
        let places = [(here.is_some(), Place::Here), (vm, Place::Vm)];
        (
            places.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, place)| place).collect(),
            here.unwrap_or_default(),
        )
    }
}

/// The papers that can be reproduced.
fn papers() -> impl Iterator<Item = &'static str> {
    std::iter::once(SIMULATED).chain(Paper::names())
}

/// Reproduces, and reports what came out.
pub fn run(args: &ReproduceArgs) -> anyhow::Result<()> {
    let names = paper_names(&args.papers)?;
    let journal = journals(args, &names)?;
    let mut inputs = Inputs::default();
    for name in names.iter().filter(|_| args.live) {
        match *name {
            SIMULATED => LIVE_WORKLOADS.iter().for_each(|workload| {
                [Place::Here, Place::Vm]
                    .iter()
                    .for_each(|place| inputs.add_journal(&workload.journal(*place, args.size(), &journal(name))));
            }),
            name => inputs.add_journal(&journal(name)),
        }
    }
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
                    conduct_paper(
                        paper,
                        args.live_class.as_deref(),
                        args.live_budget,
                        &args.places().1,
                        &path,
                        args.quiet,
                    )
                })?;
                placement(paper, Some(&Live::new(paper, &record, &path.display().to_string())))?
            }
            Some(paper) => placement(paper, None)?,
            None => {
                let conduct = || {
                    let size = args.size();
                    let default = if size == Size::Small { SMALL_BUDGET } else { FULL_BUDGET };
                    let budget = args.live_budget.map_or(default, |span| span.0);
                    let (class, (places, here), folder) = (args.live_class.as_deref(), args.places(), journal(name));
                    let mut live = conduct_workloads(&LiveRequest {
                        places: &places,
                        here: &here,
                        size,
                        class,
                        budget,
                        folder: &folder,
                        quiet: args.quiet,
                    })?;
                    if places.contains(&Place::Here) && here.is_here() {
                        space::conduct_mixes(&mut live, class, budget, &folder, args.quiet)?;
                        profiles::conduct_profiles(&mut live, class, &folder, args.quiet)?;
                    } else if !here.is_here() {
                        live.leave_out(
                            "The mixes of section 5 were not played, and the applications were not profiled: both are done on this machine alone."
                                .into(),
                        );
                    }
                    anyhow::Ok(live)
                };
                let live = args.live.then(|| progress.suspend(conduct)).transpose()?;
                cache_affinity(args.replicates, args.seed, live.as_ref(), show_progress)?
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
    let studies = names.len();
    if let Some(path) = path.as_ref().filter(|path| !path.is_dir() && studies > 1) {
        return Err(UsageError::from(format!(
            "--journal {} is no folder, and {studies} studies need a journal each: name a folder",
            path.display()
        )));
    }
    let is_one = studies == 1;
    Ok(move |name: &str| match &path {
        // The folder of workloads may not be there yet.
        Some(path) if !path.is_dir() || (is_one && name == SIMULATED) => path.clone(),
        folder if name == SIMULATED => folder.clone().unwrap_or_default().join(name),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_with_the_options_that_slurm_has() {
        let places = |text: &str| text.parse::<LivePlaces>();
        assert_eq!(places("here,vm").unwrap(), LivePlaces::default());
        assert_eq!(places("vm").unwrap(), LivePlaces { here: None, vm: true });
        let both = places("slurm:qos=q,nodes=4,vm").unwrap();
        assert_eq!((both.here.unwrap().to_string().as_str(), both.vm), ("slurm:qos=q,nodes=4", true));
        for (text, part) in [
            ("here,slurm", "one place here"),
            ("vm:2x4", "name vm"),
            ("there", "`there` is no place"),
            ("slurm:nodes=x", "`nodes` is a number"),
        ] {
            let error = places(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
