//! The runner of trials in a virtual machine: boots it, sends it each turn, and takes its answers with suspicion.

use crate::cache_model::CacheModel;
use crate::engine::{Runner, RunnerError, Turn};
use crate::guest::{Answer, Assignment, Request};
use crate::host::{HostFacts, unix_seconds};
use crate::input::Inputs;
use crate::plan::{Cell, Plan};
use crate::runner::{TAIL_BYTES, tail};
use crate::trial::{Status, Trial};
use crate::watch::Watch;
use launch::Conditions;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// So often it is looked whether someone wants us to end.
const LOOK: Duration = Duration::from_millis(100);

/// A boot, and whatever is asked besides a trial, may take so long.
const LONGEST_ANSWER: Duration = Duration::from_secs(300);

/// What is around a trial (a scheduler to load, company to settle, a program that is killed) may take so long besides it.
const GRACE: Duration = Duration::from_secs(120);

/// A guest that answers lines with lines.
pub trait Line {
    /// Sends a line; `what` it asks for is told where the guest doesn't answer it.
    ///
    /// # Errors
    /// Why the guest doesn't run any more, in words.
    fn tell(&mut self, what: &str, line: &str) -> Result<(), String>;

    /// The next line from it, if one comes within `timeout`.
    ///
    /// # Errors
    /// As for `tell`.
    fn line_within(&mut self, timeout: Duration) -> Result<Option<String>, String>;

    /// Why one that hasn't answered for `timeout` is given up, in words.
    fn hung(&self, timeout: Duration) -> String;
}

impl Line for vm::Guest {
    fn tell(&mut self, what: &str, line: &str) -> Result<(), String> {
        self.tell(what, line).map_err(|error| error.to_string())
    }

    fn line_within(&mut self, timeout: Duration) -> Result<Option<String>, String> {
        self.line_within(timeout).map_err(|error| error.to_string())
    }

    fn hung(&self, timeout: Duration) -> String {
        self.hung(timeout).to_string()
    }
}

/// How many times as long as without it everything may take with a model of caches.
const MODEL_SLOWS: u32 = 20;

/// Boots a guest.
pub type Boot = Box<dyn FnMut() -> Result<Box<dyn Line>, String>>;

/// Runs programs in a virtual machine.
pub struct GuestRunner {
    boot: Boot,
    /// The model of its caches, where there is one.
    misses: Option<CacheModel>,
    guest: Option<Guest>,
    /// What it is to run; none until that is planned.
    study: Option<Study>,
    has_lost_block: bool,
}

/// A guest that runs.
struct Guest {
    line: Box<dyn Line>,
    /// Which boot of the study it is, once it has that.
    number: Option<u32>,
    /// Trials that it was asked to run.
    trials: u32,
    /// Subjects whose files it has in memory, since they have run there.
    warm: HashSet<usize>,
}

struct Study {
    /// What the guest reads.
    folder: TempDir,
    watches: Vec<Watch>,
}

/// Why there is no answer.
enum Unanswered {
    /// A signal asked us to end.
    Interrupted { signal: i32 },
    /// The guest is gone, or is to be, in words.
    Lost(String),
}

impl From<Unanswered> for RunnerError {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Interrupted { signal } => Self::Interrupted { signal },
            Unanswered::Lost(cause) => Self::Broken(cause),
        }
    }
}

impl GuestRunner {
    /// A runner whose guests `boot` starts, with a model of their caches where there is one.
    pub fn new(boot: Boot, misses: Option<CacheModel>) -> Self {
        Self { boot, misses, guest: None, study: None, has_lost_block: false }
    }

    /// What machine a guest is.
    ///
    /// # Errors
    /// When it can't be booted or asked.
    pub fn facts(&mut self) -> Result<HostFacts, RunnerError> {
        match self.ask("what machine it is", &Request::Facts, LONGEST_ANSWER)? {
            Answer::Facts(facts) => Ok(*facts),
            other => Err(self.unfit(&other).into()),
        }
    }

    /// Why a guest's kernel can't bring `conditions` about, in a sentence.
    ///
    /// # Errors
    /// As for [`GuestRunner::facts`].
    pub fn lacking(&mut self, conditions: &Conditions) -> Result<Option<String>, RunnerError> {
        match self.ask("what its kernel lacks", &Request::Lacking(conditions.clone()), LONGEST_ANSWER)? {
            Answer::Lacking(cause) => Ok(cause),
            other => Err(self.unfit(&other).into()),
        }
    }

    /// Takes the study of `plan`, whose programs read `inputs`.
    ///
    /// # Errors
    /// When it can't be written for the guest.
    pub fn begin(&mut self, plan: &Plan, inputs: &Inputs) -> Result<(), RunnerError> {
        let unwritten = |cause| RunnerError::Broken(format!("cannot write the study for a virtual machine: {cause}"));
        let folder = tempfile::tempdir().map_err(unwritten)?;
        Assignment::write(folder.path(), plan, inputs, None, folder.path()).map_err(unwritten)?;
        let watches = plan.subjects.iter().map(|subject| Watch::new(subject.identity.as_ref())).collect();
        self.study = Some(Study { folder, watches });
        Ok(())
    }

    /// The guest, which has the study, in the boot that runs `block`.
    fn guest_for(&mut self, plan: &Plan, block: u32) -> Result<(), Unanswered> {
        let boot = plan.site.boot_of(block);
        if self.guest.as_ref().is_some_and(|guest| guest.number.is_some() && guest.number != boot) {
            self.guest = None;
        }
        if self.guest.as_ref().is_some_and(|guest| guest.number.is_some()) {
            return Ok(());
        }
        let folder = self.study.as_ref().map(|study| study.folder.path().to_owned());
        let folder = folder.ok_or_else(|| Unanswered::Lost("no study was begun".into()))?;
        match self.ask("taking the study", &Request::Begin(folder), LONGEST_ANSWER)? {
            Answer::Begun => {
                self.guest.iter_mut().for_each(|guest| guest.number = boot);
                Ok(())
            }
            other => Err(self.unfit(&other)),
        }
    }

    /// What a guest, which is booted if none runs, answers.
    fn ask(&mut self, what: &str, request: &Request, timeout: Duration) -> Result<Answer, Unanswered> {
        let answer = self.answer(what, request, timeout * self.misses.as_ref().map_or(1, |_| MODEL_SLOWS));
        if answer.is_err() {
            self.guest = None;
        }
        answer
    }

    fn answer(&mut self, what: &str, request: &Request, timeout: Duration) -> Result<Answer, Unanswered> {
        let guest = match &mut self.guest {
            Some(guest) => guest,
            None => {
                let line = (self.boot)().map_err(Unanswered::Lost)?;
                self.guest.insert(Guest { line, number: None, trials: 0, warm: HashSet::new() })
            }
        };
        let text = serde_json::to_string(request).map_err(|error| Unanswered::Lost(error.to_string()))?;
        guest.line.tell(what, &text).map_err(Unanswered::Lost)?;
        let begun = Instant::now();
        loop {
            if let Some(signal) = launch::interruption() {
                return Err(Unanswered::Interrupted { signal });
            }
            if let Some(line) = guest.line.line_within(LOOK).map_err(Unanswered::Lost)? {
                let garbled = |error| Unanswered::Lost(format!("the virtual machine's answer can't be read: {error}"));
                return serde_json::from_str(&line).map_err(garbled);
            }
            if begun.elapsed() > timeout {
                return Err(Unanswered::Lost(guest.line.hung(timeout)));
            }
        }
    }

    /// Gives up a guest that answers something else than it was asked.
    fn unfit(&mut self, answer: &Answer) -> Unanswered {
        self.guest = None;
        Unanswered::Lost(match answer {
            Answer::Broken(cause) => cause.clone(),
            _ => "the virtual machine answers something that it wasn't asked".into(),
        })
    }

    /// The trial of `turn`, if that is what the guest answers.
    fn trial(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, Unanswered> {
        let Cell { subject, threads, treatment } = turn.cell;
        let (subject, treatment) = (&plan.subjects[subject].name, &plan.treatments[treatment].name);
        let what = format!("{subject} x{} {treatment}", plan.threads[threads]);
        let longest = turn.limit(plan).longest + GRACE;
        // The first run in a boot, by which its files come into memory, was seen to have less than half as many cold misses as all that
        // came after it: no run to compare others with.
        let is_cold =
            self.misses.is_some() && self.guest.as_mut().is_some_and(|guest| guest.warm.insert(turn.cell.subject));
        if is_cold {
            match self.ask(&format!("{what}, to warm up"), &Request::Run(*turn, None), longest)? {
                Answer::Trial(_) => {}
                other => return Err(self.unfit(&other)),
            }
        }
        // Sections are numbered from 1 in each boot.
        let number = self.guest.as_mut().map_or(0, |guest| {
            guest.trials += 1;
            guest.trials
        });
        let section = self.misses.as_ref().map(|_| number);
        match self.ask(&what, &Request::Run(*turn, section), longest)? {
            Answer::Trial(trial) if turn.cell.has_trial(plan, &trial) && trial.sequence == turn.sequence => {
                match &self.misses {
                    Some(model) if trial.status == Status::Ok => model.counted(*trial, number),
                    _ => Ok(*trial),
                }
                .map_err(Unanswered::Lost)
            }
            Answer::Broken(cause) => Err(self.unfit(&Answer::Broken(cause))),
            other => Err(self.unfit(&other)),
        }
    }
}

impl Runner for GuestRunner {
    /// A virtual machine that is lost costs this trial, and what is left of the block; the next block has another one.
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        let watch = self.study.as_mut().and_then(|study| study.watches.get_mut(turn.cell.subject));
        if let Some(change) = watch.and_then(Watch::change) {
            let again = "what was measured is kept, and the same command begins the study of what there is now";
            return Err(RunnerError::Broken(format!("{change} since this study went on; {again}")));
        }
        // A machine that can't be had is no fault of this trial's.
        self.guest_for(plan, turn.block).map_err(|unanswered| match unanswered {
            Unanswered::Lost(cause) => RunnerError::Broken(format!(
                "the virtual machine can't be had: {cause}\nwhat was measured is kept, and the same command goes on"
            )),
            interrupted => interrupted.into(),
        })?;
        let (begun, started_unix_s) = (Instant::now(), unix_seconds());
        let trial = self.trial(plan, turn);
        // The budget is of the time that passes here.
        let ran_s = Some(begun.elapsed().as_secs_f64());
        self.has_lost_block = false;
        match trial {
            Ok(trial) => Ok(Trial { ran_s: trial.ran_s.and(ran_s), started_unix_s, ..trial }),
            Err(Unanswered::Interrupted { signal }) => Err(RunnerError::Interrupted { signal }),
            Err(Unanswered::Lost(cause)) => {
                self.has_lost_block = true;
                // After the first line comes the end of its console.
                let (cause, console) = cause.split_once('\n').unwrap_or((&cause, ""));
                let output_tail = tail(console.to_owned(), TAIL_BYTES);
                let trial = turn.trial(plan, started_unix_s);
                Ok(Trial { status: Status::MachineLost, cause: cause.to_owned(), ran_s, output_tail, ..trial })
            }
        }
    }

    fn has_lost_block(&self) -> bool {
        self.has_lost_block
    }
}
