//! The work on a study: which journal it is kept in, and the runs that are left.

use super::Progress;
use super::venue::Venue;
use crate::{Interrupted, UsageError};
use indicatif::MultiProgress;
use launch::Interruptions;
use machine::Machine;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use study::engine::{self, CellStudy, EngineError, Event, Runner, RunnerError, Turn};
use study::ranks::RankError;
use study::session::SessionError;
use study::slurm::{self, Cluster, Folder};
use study::{
    Host, Inputs, Kind, ModelRunner, Plan, ProgramRunner, Race, RankStart, Record, Session, Trial, journal_name,
};

/// Whether every program of the plan is there, and can be executed.
pub(super) fn can_start(plan: &Plan) -> anyhow::Result<()> {
    for subject in plan.subjects.iter().filter(|subject| subject.model.is_none() && subject.preparation.setup.is_none())
    {
        let builtin = workloads::resolve(&subject.name).ok();
        builtin.map(|builtin| builtin.path()).transpose()?;
        let variants = subject.variants.iter().map(|variant| subject.argv_under(&variant.treatment, plan.threads[0]));
        for argv in std::iter::once(subject.command_for(plan.threads[0]))
            .chain(variants)
            .chain(subject.server.iter().map(|server| server.argv.clone()))
        {
            let Some(program) = argv.first() else { continue };
            let program = OsStr::new(program);
            let path = launch::executable_path(program).map_err(|error| {
                let error = crate::unstartable(error, program);
                let is_builtin = workloads::resolve(&program.to_string_lossy()).is_ok();
                if is_builtin { error.context("a built-in program is named before the `--`") } else { error }
            })?;
            let Some(RankStart { mpi, args, .. }) = &subject.ranks else { continue };
            launch::executable_path(OsStr::new(mpi.program()))
                .map_err(|_| UsageError::from(RankError::NoLauncher(mpi.program(), *mpi)))?;
            if let Some(why) = launch::mpi::obstacle(*mpi, &path, &subject.preparation.variables(), args) {
                return Err(UsageError::from(why));
            }
        }
    }
    Ok(())
}

/// Runs nothing: its program isn't there any more.
struct Gone;

impl Runner for Gone {
    fn run(&mut self, _plan: &Plan, _turn: &Turn) -> Result<Trial, RunnerError> {
        Err(RunnerError::Broken(PROGRAM_GONE.into()))
    }
}

const PROGRAM_GONE: &str = "its program is gone";

pub(super) fn is_program_gone(error: &EngineError) -> bool {
    matches!(error, EngineError::Runner(RunnerError::Broken(why)) if why == PROGRAM_GONE)
}

/// The journal at `path`, or where that is of another program or machine, one of those beside it that is of this study, or a new one:
/// `app.2.stayput` beside `app.stayput`. Says why the one before it isn't gone on with.
fn beside_others<S: CellStudy>(study: &S, machine: &Machine, host: &Host, path: PathBuf) -> PathBuf {
    let (mut number, mut at, mut why) = (1, path.clone(), None);
    // Whatever else is wrong with a journal is told when it is opened.
    while let Err(error) = Session::check(&at, study, machine, host) {
        why = Some(match error {
            SessionError::OtherProgram { changes, .. } => {
                changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            }
            SessionError::OtherMachine { cpu_model, .. } => format!("the machine is another one ({cpu_model} then)"),
            SessionError::OtherPlan { .. } | SessionError::Journal(_) => break,
        });
        number += 1;
        at = path.with_extension(format!("{number}.stayput"));
    }
    if let Some(why) = why {
        let verb = if at.exists() { "goes on" } else { "begins" };
        let now = format!("the study of what there is now {verb} in {}", at.display());
        eprintln!("stayput: since the last study {why}; its results are kept, and {now}");
    }
    at
}

/// The journal of `study` in the current folder; to start anew, whatever program that is of.
pub(super) fn default_journal<S: CellStudy>(
    study: &S,
    machine: &Machine,
    host: &Host,
    file: Option<&Path>,
    anew: bool,
) -> PathBuf {
    let path = journal_name::default_path(study, file);
    if anew { path } else { beside_others(study, machine, host, path) }
}

/// `study` with what the files of its programs are now.
pub(super) fn identified<S: CellStudy>(study: &S) -> S {
    study.with_plan(study.plan().clone().identified())
}

/// How a study is worked on.
#[derive(Clone, Copy)]
pub(super) struct Conduct<'a> {
    /// Whether progress isn't shown.
    pub(super) quiet: bool,
    /// Whether what programs print is shown.
    pub(super) shows_output: bool,
    /// Whether cells that were given up are tried again.
    pub(super) retry: bool,
    /// Whether the programs can be started.
    pub(super) can_start: bool,
    /// Where its progress is shown, beside that of other studies.
    pub(super) among: Option<&'a MultiProgress>,
}

/// What became of a command that asked for runs.
pub(super) struct Runs {
    /// Where none was left to be made, the sentence that says so.
    pub(super) nothing: Option<String>,
    /// What went wrong after the last run, in one sentence.
    pub(super) not_finished: Option<String>,
}

/// Runs what is left of the study; gives all that is in the journal then.
pub(super) fn conduct<S: CellStudy>(
    study: &S,
    machine: &Machine,
    path: &Path,
    inputs: Inputs,
    venue: Venue,
    Conduct { quiet, shows_output, retry, can_start, among }: Conduct<'_>,
) -> anyhow::Result<(Record<S>, Runs)> {
    let host = venue.host(study.plan());
    let held = Interruptions::hold();
    let opened = Session::open(Some(path), study, machine, &host, &crate::command_line());
    let mut session = opened.map_err(|error| match error {
        SessionError::Journal(error) => error.into(),
        error => {
            UsageError::from(format!("{error}\nstudy --force starts anew, and keeps what is there under another name"))
        }
    })?;
    if !session.trials().is_empty() && !session.plan().keeps_identity() {
        eprintln!(
            "stayput: {} doesn't say what the files of its programs were, so that it can't be told whether they changed since",
            path.display()
        );
    }
    if retry && engine::retry(&mut session) == 0 {
        eprintln!("stayput: no cell of {} was given up, so that there is none to --retry", path.display());
    }
    let study = session.plan().clone();
    let plan = study.plan();
    let directory = match &venue {
        Venue::Cluster(nodes) if can_start => Some(nodes.directory.clone()),
        _ => None,
    };
    let mut runner: Box<dyn Runner> = match (host, venue) {
        (Host::Modelled, _) => Box::new(ModelRunner::after(session.trials())),
        // Whatever runs on a cluster does so in its tasks.
        (_, Venue::Cluster(..)) => Box::new(Gone),
        _ if !can_start => Box::new(Gone),
        (_, Venue::Here) => Box::new(ProgramRunner::new(plan, inputs.clone())?.showing_output(shows_output)),
        (_, Venue::Guest(_, runner)) => {
            let mut runner = runner.into_inner();
            runner.begin(plan, &inputs)?;
            Box::new(runner)
        }
    };
    let resumed = session.trials().len();
    let mut progress = Progress::new(plan, S::NAME == Race::NAME, engine::time_spent(session.trials()), quiet, among);
    let mut has_run = false;
    let mut watch = |event: Event| {
        if matches!(event, Event::Begin(_) | Event::Queue(_))
            && !std::mem::replace(&mut has_run, true)
            && resumed > 0
            && !quiet
        {
            progress.say(&format!("going on after {resumed} trials in {}", path.display()));
        }
        progress.show(plan, event);
    };
    let ending = match directory {
        Some(directory) => {
            let cluster = Cluster { folder: Folder::beside(path), program: crate::task::program(false)?, directory };
            slurm::run_rounds(&mut session, &cluster, (&inputs, machine), &mut watch)
        }
        None => engine::run_blocks(&mut session, runner.as_mut(), &mut watch),
    };
    // Whatever ended it, what was set up is cleaned up; to an interruption nothing is added.
    let finished = if launch::interruption().is_none() { runner.finish(plan) } else { Ok(()) };
    progress.finish();
    let record = session.end(ending);
    // The journal is closed, so that it is one whole file. The last run may have ended before the signal was heeded.
    let interruption = launch::interruption();
    drop(held);
    if let Some(signal) = interruption {
        return Err(Interrupted { signal, kept_in: path.to_owned() }.into());
    }
    let record = record?;
    let nothing = (!has_run).then(|| report::sentences::nothing_run(&record.sessions));
    let not_finished = finished.err().map(|error| error.to_string());
    Ok((record, Runs { nothing, not_finished }))
}
