//! Simulations whose samples the nodes of a cluster take.

use super::{Output, simulate_with};
use crate::study::{note, queue_words};
use crate::{UsageError, shell};
use ::report::Format;
use anyhow::Context;
use indicatif::ProgressStyle;
use machine::Machine;
use simulation::SimulationPlan;
use simulation::slurm::{Assignment, simulate_on};
use std::path::{Path, PathBuf};
use study::engine::Event;
use study::slurm::{self, Folder};
use study::{Site, SlurmSite};

#[derive(clap::Args)]
pub(super) struct SiteArgs {
    /// Where it is simulated: here; or on the nodes of a cluster, with the same bytes: slurm, or slurm:partition=p,nodes=4 and other options of
    /// sbatch, of which nodes is how many of them simulate at a time; with --out [default: here]
    #[arg(long, value_name = "PLACE", add = shell::names(|| ["here", "slurm"].map(Into::into).into()))]
    on: Option<Site>,
}

#[derive(clap::Args)]
pub(super) struct AttachArgs {
    /// Go on with a simulation on Slurm that this journal holds, and with what it has in the queue, by nothing but the journal's name
    #[arg(long, value_name = "JOURNAL", required = true, add = shell::files("stayput"))]
    attach: Option<PathBuf>,
    /// Don't show progress
    #[arg(long, short)]
    quiet: bool,
}

impl SiteArgs {
    /// The journal and what the nodes of a cluster are to do, where they are to simulate `plan`.
    pub(super) fn assignment<'a>(
        &self,
        plan: &SimulationPlan,
        machine: &Machine,
        journal: Option<&'a Path>,
    ) -> anyhow::Result<Option<(&'a Path, Assignment)>> {
        let site = match &self.on {
            None | Some(Site::Here) => {
                return journal.map_or(Ok(()), check_not_under_way).map(|()| None);
            }
            Some(Site::Slurm(site)) => site,
            Some(Site::Vm(_)) => {
                return Err(UsageError::from("simulations run here or on slurm; in a virtual machine programs do"));
            }
        };
        if site.round != site.nodes {
            return Err(UsageError::from("slurm: nothing is decided between simulations; leave out `round`"));
        }
        let journal = journal.ok_or_else(|| {
            UsageError::from(
                "a simulation on Slurm is kept in a journal, beside which nodes find it; name one with --out",
            )
        })?;
        let directory = std::env::current_dir().context("there is no current folder")?;
        let assignment = Assignment::new(SlurmSite::clone(site), plan.clone(), machine.clone(), directory);
        Ok(Some((journal, assignment)))
    }
}

/// Whether no cluster has something of the simulation in `journal`, which would be done twice.
fn check_not_under_way(journal: &Path) -> anyhow::Result<()> {
    let folder = Folder::beside(journal);
    if !folder.path().exists() {
        return Ok(());
    }
    Err(UsageError::from(format!(
        "{} is under way on Slurm; `stayput simulate --attach {}` goes on with it, and without the folder {} it can be simulated here",
        journal.display(),
        journal.display(),
        folder.path().display()
    )))
}

/// Goes on with what is under way.
pub(super) fn attach(args: &AttachArgs) -> anyhow::Result<()> {
    let Some(journal) = &args.attach else {
        return Err(UsageError::from("name a journal with --attach, or what is to be simulated"));
    };
    let assignment = Assignment::attached(journal).map_err(UsageError::from)?;
    let output = Output { out: Some(journal.clone()), format: Format::Terminal, explain: false, quiet: args.quiet };
    simulate(journal, assignment, &output)
}

/// Lets nodes take the samples that `journal` doesn't have yet, and reports on all.
pub(super) fn simulate(journal: &Path, assignment: Assignment, output: &Output) -> anyhow::Result<()> {
    slurm::check().context("no simulation can be run on Slurm")?;
    let program = crate::task::program(true)?;
    let (plan, machine) = (assignment.plan.clone(), assignment.machine.clone());
    simulate_with(&plan, &machine, output, |session, progress| {
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}") {
            progress.set_style(style);
        }
        simulate_on(session, journal, assignment, program, &mut |event| match event {
            Event::Sample => progress.inc(1),
            Event::Queue(queue) => progress.set_message(queue_words(queue)),
            Event::Note(text) => note(progress, text, output.quiet),
            Event::Block { .. } | Event::Begin(_) | Event::End(_) | Event::Disturbed(_) => {}
        })
    })
}
