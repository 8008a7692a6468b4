//! The runner of real programs: a cell of the plan becomes a launch, an observation becomes a trial.

use crate::engine::{Limit, Runner, RunnerError, Turn};
use crate::host::unix_seconds;
use crate::input::Inputs;
use crate::plan::{Plan, Subject, word_of_run};
use crate::preparation::{IgnoredFailures, Step, StepError};
use crate::redaction::{Redaction, without};
use crate::reported_time::Printed;
use crate::server_runner::KeptForBlock;
use crate::shape::Shape;
use crate::trial::{More, Status, Trial};
use crate::watch::Watch;
use crate::written::Written;
use launch::{Descendants, Exit, Launch, LaunchError, Launched, Marks, Output, Standstill, launch};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

/// What of a program's output is kept with a trial, in bytes.
pub(crate) const TAIL_BYTES: usize = 4096;

/// Runs programs on this machine.
#[derive(Debug)]
pub struct ProgramRunner {
    /// For each subject of the plan: what is looked for in its output.
    pub(crate) patterns: Vec<Patterns>,
    /// For each subject, as far as there is any: what its runs read.
    pub(crate) inputs: Inputs,
    /// For each subject of the plan, its files.
    watches: Vec<Watch>,
    /// What isn't kept of the output, beside what its names say: values of each subject, and of variables.
    redaction: Redaction,
    secrets: Vec<Vec<String>>,
    /// What marks when the next run is, if anything does.
    pub(crate) marks: Option<Marks>,
    /// Whether times mean anything, so that a run which stood still has none. An emulated machine stands still all the time.
    times_count: bool,
    /// The subjects whose setup has been run, each with the treatment whose command it is for.
    set_up: BTreeSet<(usize, usize)>,
    /// Whether what programs print is shown as they end.
    shows_output: bool,
    /// The server that is kept for the block.
    pub(crate) kept: Option<KeptForBlock>,
}

/// What is looked for in the output of a subject's runs.
#[derive(Debug)]
pub(crate) struct Patterns {
    /// Its own time.
    time: Option<Regex>,
    /// That its result is right.
    verified: Option<Regex>,
    /// Exit codes that are none of a failure.
    ignored: IgnoredFailures,
    /// Its numbers of other metrics.
    written: Written,
}

impl Patterns {
    fn of(subject: &Subject) -> Result<Self, regex::Error> {
        let compile = |pattern: &Option<String>| pattern.as_deref().map(Regex::new).transpose();
        Ok(Self {
            time: compile(&subject.time_regex)?,
            verified: compile(&subject.verified_regex)?,
            ignored: subject.preparation.ignored_failures.clone(),
            written: Written::of(subject)?,
        })
    }

    /// The numbers of other metrics that a run wrote, by their names; else how it failed, and the cause in words.
    pub(crate) fn numbers(
        &self,
        launched: &Launched,
        started_unix_s: f64,
        threads: Shape,
        block: u32,
    ) -> Result<BTreeMap<String, f64>, (Status, String)> {
        let texts = [launched.stdout.text(), launched.stderr.text()];
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let named = |file: &str| word_of_run(file, threads, block);
        self.written.numbers(&texts, started_unix_s, named).map_err(|cause| (Status::NoMetric, cause))
    }
}

impl ProgramRunner {
    /// A runner for `plan`, whose programs read `inputs`.
    ///
    /// # Errors
    /// When one of the plan's regular expressions isn't one.
    pub fn new(plan: &Plan, inputs: Inputs) -> Result<Self, RunnerError> {
        let patterns = plan
            .subjects
            .iter()
            .map(Patterns::of)
            .collect::<Result<_, regex::Error>>()
            .map_err(|error| RunnerError::Broken(error.to_string()))?;
        let watches = plan.subjects.iter().map(|subject| Watch::new(subject.identity.as_ref())).collect();
        let redaction = plan.redaction();
        let variables = redaction.values_of_environment();
        let secrets = plan.subjects.iter().map(|subject| [&subject.unkept.values[..], &variables].concat()).collect();
        Ok(Self {
            patterns,
            inputs,
            watches,
            redaction,
            secrets,
            marks: None,
            times_count: !plan.site.is_emulated(),
            set_up: BTreeSet::new(),
            kept: None,
            shows_output: false,
        })
    }

    /// Shows what programs print, as each ends.
    #[must_use]
    pub fn showing_output(mut self, shows_output: bool) -> Self {
        self.shows_output = shows_output;
        self
    }

    /// Runs a step of a subject.
    ///
    /// # Errors
    /// Why the study can't go on. Why the step failed is in `trial`, which is then none that went well.
    fn step(&mut self, plan: &Plan, turn: &Turn, step: Step, trial: &mut Trial) -> Result<(), RunnerError> {
        let subject = &plan.subjects[turn.cell.subject];
        let threads = subject.threads_of(plan.threads[turn.cell.threads]);
        match subject.preparation_under(&trial.placement).run(step, (threads, turn.block), plan.timeout) {
            Ok(()) => Ok(()),
            Err(StepError::Interrupted { signal }) => Err(RunnerError::Interrupted { signal }),
            Err(StepError::Failed { cause, said }) => {
                // What went wrong first is the cause.
                if !trial.status.is_failure() || trial.cause.is_empty() {
                    (trial.status, trial.cause) = (Status::Preparation, cause);
                    trial.output_tail = self.kept_tail(&said, &[turn.cell.subject]);
                }
                trial.time_s = None;
                trial.forget_values();
                Ok(())
            }
        }
    }

    /// Runs the setup of the subject whose turn it is, if that hasn't been done.
    fn set_up(&mut self, plan: &Plan, turn: &Turn) -> Result<(), RunnerError> {
        let subject = &plan.subjects[turn.cell.subject];
        let treatment = &plan.treatments[turn.cell.treatment].name;
        // Of commands that are compared each has its own.
        let command = if subject.variants.is_empty() { 0 } else { turn.cell.treatment };
        if !self.set_up.insert((turn.cell.subject, command)) {
            return Ok(());
        }
        let (threads, name) = (plan.threads[turn.cell.threads], &subject.name);
        subject
            .preparation_under(treatment)
            .run(Step::Setup, (threads, turn.block), plan.timeout)
            .map_err(|error| broken(name, error))
    }

    /// Lets `marks` mark when the next run is.
    pub(crate) fn mark_next(&mut self, marks: Option<Marks>) {
        self.marks = marks;
    }
}

impl ProgramRunner {
    /// Whether the program of a subject is still what it was.
    ///
    /// # Errors
    /// When it isn't, so that the study can't go on.
    pub(crate) fn check_program(&mut self, subject: usize) -> Result<(), RunnerError> {
        let Some(change) = self.watches[subject].change() else { return Ok(()) };
        let again = "what was measured is kept, and the same command begins the study of what there is now";
        Err(RunnerError::Broken(format!("{change} since this study went on; {again}")))
    }

    /// Shows what a program printed, where that is asked for.
    pub(crate) fn show(&self, launched: &Launched) {
        if self.shows_output {
            eprint!("{}{}", launched.stdout.text(), launched.stderr.text());
        }
    }

    /// Takes the number of a trial back that was not under its conditions, or stood still.
    pub(crate) fn judge(&self, trial: &mut Trial, not_in_force: Option<String>, standstill: Option<Standstill>) {
        if let Some(cause) = not_in_force {
            (trial.status, trial.time_s, trial.cause) = (Status::NotInForce, None, cause);
            trial.forget_values();
        }
        if let Some(standstill) = standstill.filter(|_| self.times_count) {
            // Whatever else became of it may have come of that.
            let otherwise = if trial.cause.is_empty() { String::new() } else { format!("; {}", trial.cause) };
            trial.cause = format!("{standstill}{otherwise}");
            (trial.status, trial.time_s) = (Status::Disturbed, None);
            trial.forget_values();
        }
    }

    /// The end of what programs said, without values of these subjects that aren't kept.
    pub(crate) fn kept_tail(&self, said: &str, subjects: &[usize]) -> String {
        // More than is kept: a value that is cut in half here is beyond it.
        let text = tail(said.to_owned(), 16 * TAIL_BYTES);
        let text = subjects.iter().fold(text, |text, &subject| without(&text, &self.secrets[subject]));
        tail(self.redaction.text(&text, &mut Vec::new()), TAIL_BYTES)
    }
}

impl Runner for ProgramRunner {
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        let subject = &plan.subjects[turn.cell.subject];
        let mut trial = turn.trial(plan, unix_seconds());
        if let Some(mix) = &subject.mix {
            self.run_mix(plan, turn, mix, &mut trial)?;
            return Ok(trial);
        }
        self.set_up(plan, turn)?;
        self.step(plan, turn, Step::Prepare, &mut trial)?;
        if trial.status == Status::Preparation {
            return Ok(trial);
        }
        // Only now, since what prepares may have built it anew.
        self.check_program(turn.cell.subject)?;
        if let Some(running) = &subject.running {
            self.run_attached(plan, turn, running, &mut trial)?;
            self.step(plan, turn, Step::Conclude, &mut trial)?;
            return Ok(trial);
        }
        if let Some(server) = &subject.server {
            self.run_service(plan, turn, server, &mut trial)?;
            self.step(plan, turn, Step::Conclude, &mut trial)?;
            return Ok(trial);
        }
        if let Some(start) = &subject.ranks {
            self.run_ranks(plan, turn, start, &mut trial)?;
            if trial.status != Status::NotStarted {
                self.step(plan, turn, Step::Conclude, &mut trial)?;
            }
            return Ok(trial);
        }
        let threads = subject.threads_of(plan.threads[turn.cell.threads]);
        let treatment = &plan.treatments[turn.cell.treatment].name;
        let limit = turn.limit(plan);
        let launched = launch(&Launch {
            placement: plan.placement(turn.cell).cloned(),
            threads: Some(threads.threads()),
            unit: subject.binding.unit,
            skip: subject.binding.skip.clone(),
            roles: subject.binding.slots.clone(),
            observe: subject.binding.observe,
            output: Output::Capture,
            input: self.inputs.get(turn.cell.subject).cloned().flatten(),
            timeout: Some(limit.longest),
            descendants: Descendants::Kill,
            conditions: plan.treatments[turn.cell.treatment].conditions.clone(),
            // In all or in none: it stops each process where it ends.
            read_memory: plan.varies_memory(),
            marks: self.marks.clone(),
            env: subject.preparation_under(treatment).variables(),
            ..Launch::new(subject.command_in(treatment, threads, turn.block).into_iter().map(OsString::from).collect())
        });
        match launched {
            Err(LaunchError::Interrupted { signal }) => return Err(RunnerError::Interrupted { signal }),
            // The runs so far read something else than this one would.
            Err(error @ LaunchError::Input(_)) => {
                return Err(RunnerError::Broken(format!("{}: {error}", subject.name)));
            }
            Err(error) => trial.cause = error.to_string(),
            Ok(launched) => {
                self.show(&launched);
                let patterns = &self.patterns[turn.cell.subject];
                let numbers = || patterns.numbers(&launched, trial.started_unix_s, threads, turn.block);
                match time_s(&launched, limit, patterns).and_then(|time_s| Ok((time_s, numbers()?))) {
                    Ok((time_s, values)) => {
                        (trial.status, trial.time_s) = (Status::Ok, Some(time_s));
                        trial.more = More { values, ..More::default() }.boxed();
                    }
                    Err((status, cause)) => (trial.status, trial.cause) = (status, cause),
                }
                self.judge(&mut trial, launched.not_in_force.clone(), launched.standstill);
                trial.output_tail = self.kept_tail(&said(&launched, trial.status), &[turn.cell.subject]);
                trial.ran_s = Some(launched.observation.wall_s);
                trial.observation = Some(launched.observation);
            }
        }
        if trial.status != Status::NotStarted {
            self.step(plan, turn, Step::Conclude, &mut trial)?;
        }
        Ok(trial)
    }

    fn finish(&mut self, plan: &Plan) -> Result<(), RunnerError> {
        self.stop_kept();
        for (subject, treatment) in std::mem::take(&mut self.set_up) {
            let Subject { name, .. } = &plan.subjects[subject];
            let preparation = plan.subjects[subject].preparation_under(&plan.treatments[treatment].name);
            let done = preparation.run(Step::Cleanup, (plan.threads[0], 0), plan.timeout);
            done.map_err(|error| broken(name, error))?;
        }
        Ok(())
    }
}

fn broken(subject: &str, error: StepError) -> RunnerError {
    match error {
        StepError::Interrupted { signal } => RunnerError::Interrupted { signal },
        StepError::Failed { cause, .. } => RunnerError::Broken(format!("{subject}: {cause}")),
    }
}

/// The time that counts, in seconds; else how the run failed, and the cause in words.
pub(crate) fn time_s(
    launched: &Launched,
    limit: Limit,
    Patterns { time, verified, ignored, .. }: &Patterns,
) -> Result<f64, (Status, String)> {
    let texts = [launched.stdout.text(), launched.stderr.text()];
    let printed = time.as_ref().and_then(|time| {
        let captures = texts.iter().find_map(|text| time.captures(text))?;
        Printed::parse(captures.get(1)?.as_str())
    });
    let said_right = verified.as_ref().map(|verified| texts.iter().any(|text| verified.is_match(text)));
    match launched.observation.exit {
        Exit::TimedOut => return Err(limit.exceeded()),
        Exit::Signal(signal) => return Err((Status::Signal, signal_name(signal))),
        // A program that came to its end, gave its time and denies that the result is right.
        Exit::Code(code) if said_right == Some(false) && (code == 0 || printed.is_some()) => {
            let cause = format!("its output does not say that the result is right (exit code {code})");
            return Err((Status::VerificationFailed, cause));
        }
        Exit::Code(code) if code == 0 || ignored.has(code) => {}
        Exit::Code(code) => return Err((Status::ExitCode, format!("exit code {code}"))),
    }
    let wall_s = launched.observation.wall_s;
    match (time, printed) {
        (None, _) => Ok(wall_s),
        (Some(_), Some(printed)) => printed.time_s(wall_s).map_err(|cause| (Status::NoTime, cause)),
        (Some(_), None) => Err((Status::NoTime, "its own time is not in its output".into())),
    }
}

pub(crate) fn signal_name(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(name) => format!("killed by {}", name.as_str()),
        Err(_) => format!("killed by signal {signal}"),
    }
}

/// What it said: on standard error always, on standard output when something went wrong.
pub(crate) fn said(launched: &Launched, status: Status) -> String {
    let mut text = if status == Status::Ok { String::new() } else { launched.stdout.text().into_owned() };
    text.push_str(&launched.stderr.text());
    text
}

/// The end of `text`, at most `most` bytes of it.
pub(crate) fn tail(mut text: String, most: usize) -> String {
    let from = text.len().saturating_sub(most);
    let from = (from..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    text.split_off(from)
}
