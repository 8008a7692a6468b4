//! Trials in a virtual machine: what is said to this program's copy in the guest, and what that answers.
//!
//! ```text
//! host: GuestRunner ──Request, a line──> guest: answer_requests ──> ProgramRunner
//!                   <──Answer, a line──
//! ```
//!
//! In the guest a trial is run, read back and judged by the very code that runs it anywhere else. A node of a cluster is asked likewise
//! what machine it is, before a study is planned for it.

use crate::engine::{Runner, RunnerError, Turn};
use crate::host::HostFacts;
use crate::input::Inputs;
use crate::plan::Plan;
use crate::redaction::Unkept;
use crate::runner::ProgramRunner;
use crate::trial::Trial;
use launch::{Conditions, Input, Marks, NotInstalled};
use machine::Machine;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

/// What the guest is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// What machine it is.
    Facts,
    /// Its topology.
    Topology,
    /// Why its kernel can't bring these about.
    Lacking(Conditions),
    /// To take the study in this folder, which an [`Assignment`] has written.
    Begin(PathBuf),
    /// To run a trial of it, and to mark when its program runs, if a number is given for that.
    Run(Turn, Option<u32>),
}

/// What the guest answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// What machine it is.
    Facts(Box<HostFacts>),
    /// Its topology; else why it can't be read, in a sentence.
    Topology(Box<Result<Machine, String>>),
    /// Why its kernel can't, in a sentence.
    Lacking(Option<String>),
    /// It has the study.
    Begun,
    /// How the trial went.
    Trial(Box<Trial>),
    /// It can't do that, in a sentence.
    Broken(String),
}

/// A study as guests and nodes get it: in a folder that nobody else may read, with all that no journal keeps.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Assignment {
    plan: Plan,
    /// Of each subject, the whole command where the plan hasn't got it, and the values that are left out of what it prints.
    unkept: Vec<(Option<Vec<String>>, Vec<String>)>,
    /// For each subject, the file that its runs read.
    inputs: Vec<Option<PathBuf>>,
    /// The machine that it was planned on, where that isn't the one that runs it.
    machine: Option<Machine>,
    /// The folder that commands were given in.
    directory: PathBuf,
}

const ASSIGNMENT: &str = "assignment.json";

impl Assignment {
    /// Writes the study of `plan`, whose programs read `inputs`, into `folder`; `machine` is where it was planned, unless that runs it,
    /// and `directory` where commands were given. An earlier one is there until this one is whole.
    pub(crate) fn write(
        folder: &Path,
        plan: &Plan,
        inputs: &Inputs,
        machine: Option<&Machine>,
        directory: &Path,
    ) -> io::Result<()> {
        let mut files = Vec::new();
        for (number, input) in inputs.iter().enumerate() {
            let path = folder.join(format!("input-{number}"));
            // Where it is there, it has been copied before, and may be what is read from.
            let copy = |input: &Input| if path.exists() { Ok(()) } else { input.copy_to(&path) };
            files.push(input.as_ref().map(|input| copy(input).map(|()| path.clone())).transpose()?);
        }
        let unkept = |unkept: &Unkept| (unkept.argv.clone(), unkept.values.clone());
        let unkept = plan.subjects.iter().map(|subject| unkept(&subject.unkept)).collect();
        let (plan, machine) = (plan.clone(), machine.cloned());
        let assignment = Self { plan, unkept, inputs: files, machine, directory: directory.to_owned() };
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec(&assignment)?)?;
        file.as_file().sync_all()?;
        file.persist(folder.join(ASSIGNMENT)).map(drop).map_err(|error| error.error)
    }

    /// What was written into `folder`.
    pub(crate) fn read(folder: &Path) -> io::Result<Assigned> {
        let Self { mut plan, unkept, inputs, machine, directory } =
            serde_json::from_slice(&fs::read(folder.join(ASSIGNMENT))?)?;
        for (subject, (argv, values)) in plan.subjects.iter_mut().zip(unkept) {
            subject.unkept = Unkept { argv, values, target: None };
        }
        let open = |path: Option<PathBuf>| path.map(|path| Input::new(File::open(path)?)).transpose();
        let inputs = inputs.into_iter().map(open).collect::<io::Result<_>>()?;
        Ok(Assigned { plan, inputs, machine, directory })
    }
}

/// A study that was assigned.
pub(crate) struct Assigned {
    /// With all that no journal keeps.
    pub(crate) plan: Plan,
    /// For each subject, what its runs read.
    pub(crate) inputs: Inputs,
    /// The machine that it was planned on, where that isn't the one that runs it.
    pub(crate) machine: Option<Machine>,
    /// The folder that commands were given in.
    pub(crate) directory: PathBuf,
}

/// The study in `folder`, and a runner for it.
fn begin(folder: &Path) -> Result<(Plan, ProgramRunner), String> {
    let read = Assignment::read(folder).map_err(|error| format!("cannot take the study: {error}"))?;
    let runner = ProgramRunner::new(&read.plan, read.inputs).map_err(|error| error.to_string())?;
    Ok((read.plan, runner))
}

/// Answers the requests of `input` until that ends.
///
/// # Errors
/// When a request can't be read or an answer written.
pub fn answer_requests(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut work: Option<(Plan, ProgramRunner)> = None;
    for line in input.lines() {
        let answer = match serde_json::from_str(&line?) {
            Err(error) => Answer::Broken(format!("a request can't be read: {error}")),
            Ok(Request::Facts) => Answer::Facts(Box::new(HostFacts::read())),
            Ok(Request::Topology) => Answer::Topology(Box::new(Machine::host().map_err(|error| error.to_string()))),
            Ok(Request::Lacking(conditions)) => Answer::Lacking(conditions.lacking()),
            Ok(Request::Begin(folder)) => match begin(&folder) {
                Ok(begun) => {
                    work = Some(begun);
                    Answer::Begun
                }
                Err(cause) => Answer::Broken(cause),
            },
            Ok(Request::Run(turn, section)) => match &mut work {
                None => Answer::Broken("no study was begun".into()),
                Some((plan, runner)) => run(plan, runner, turn, section),
            },
        };
        serde_json::to_writer(&mut output, &answer)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

/// What marks when a program runs, in a section of this number.
fn marks(section: u32) -> Result<Marks, NotInstalled> {
    let program = launch::companion("stayput-guest")?;
    let mark = |section: u32| vec![program.clone().into(), "mark".into(), section.to_string().into()];
    // A section ends where none begins.
    Ok(Marks { begin: mark(section), end: mark(0) })
}

fn run(plan: &Plan, runner: &mut ProgramRunner, turn: Turn, section: Option<u32>) -> Answer {
    match section.map(marks).transpose() {
        Ok(marks) => runner.mark_next(marks),
        Err(error) => return Answer::Broken(error.to_string()),
    }
    let Some(turn) = Some(turn).filter(|turn| turn.cell.is_of(plan)) else {
        return Answer::Broken("the study has no such cell".into());
    };
    match runner.run(plan, &turn) {
        Ok(trial) => Answer::Trial(Box::new(trial)),
        Err(RunnerError::Interrupted { signal }) => Answer::Broken(format!("interrupted by signal {signal}")),
        Err(RunnerError::Broken(cause)) => Answer::Broken(cause),
    }
}
