//! A stretch of work on a study: its journal opened and taken up, trials added, its end written whatever that was.

use crate::host::{HostFacts, HostState};
use crate::identity::{Change, changed_variables};
use crate::journal::{Journal, JournalError};
use crate::kind::Kind;
use crate::record::{Ending, Record};
use crate::row::Row;
use machine::Machine;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Why a study can't be worked on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The journal can't be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal holds another study.
    #[error(
        "journal {path} holds another plan; give --out another file, or the same plan again:\n  {differences}",
        path = path.display(), differences = differences.join("\n  ")
    )]
    OtherPlan {
        /// The journal.
        path: PathBuf,
        /// What differs, a line each.
        differences: Vec<String>,
    },
    /// The study was begun with another program, or under other variables.
    #[error(
        "journal {path} was begun with another program; give --out another file:\n  {changes}",
        path = path.display(), changes = lines(changes)
    )]
    OtherProgram {
        /// The journal.
        path: PathBuf,
        /// What is different now.
        changes: Vec<Change>,
    },
    /// The study was begun elsewhere.
    #[error("journal {path} was begun on another machine ({cpu_model}); give --out another file", path = path.display())]
    OtherMachine {
        /// The journal.
        path: PathBuf,
        /// The CPU of the machine where it was begun.
        cpu_model: String,
    },
}

fn lines(changes: &[Change]) -> String {
    changes.iter().map(Change::to_string).collect::<Vec<_>>().join("\n  ")
}

/// Whether the machine that a study runs on has a part in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// It runs on this one, whose facts and state are kept.
    Real,
    /// It runs on another one, of which this is known: a virtual one, or nodes of a cluster. What moves here is nothing of that.
    Elsewhere(Box<HostFacts>),
    /// Nothing is run: the same study is the same on every host.
    Modelled,
}

impl Host {
    fn facts(&self) -> HostFacts {
        match self {
            Self::Real => HostFacts::read(),
            Self::Elsewhere(facts) => (**facts).clone(),
            Self::Modelled => HostFacts::of_model(),
        }
    }

    fn state(&self) -> HostState {
        if *self == Self::Real { HostState::read() } else { HostState::of_model() }
    }
}

/// A study at work, in a journal or in memory alone.
#[derive(Debug)]
pub struct Session<K: Kind> {
    record: Record<K>,
    journal: Option<Journal<K>>,
    host: Host,
    /// The stretch of work before it is in the journal.
    command_line: Vec<String>,
    before: HostState,
    /// Whether the plan isn't yet the one in the journal: it is written with the first trial, or with the end.
    has_new_plan: bool,
    /// Its number in the journal, where it is written with the first trial: without any there was no work.
    number: Option<i64>,
}

impl<K: Kind> Session<K> {
    /// Begins the study of `plan` on `machine`, or takes it up where it was left: in the journal at `path`, else in memory.
    ///
    /// # Errors
    /// [`SessionError`]; a journal is then as it was.
    pub fn open(
        path: Option<&Path>,
        plan: &K,
        machine: &Machine,
        host: &Host,
        command_line: &[String],
    ) -> Result<Self, SessionError> {
        let facts = host.facts().redacted(&plan.redaction());
        let (command_line, _) = plan.redaction().words(command_line);
        let topology = serde_json::to_value(machine).unwrap_or(Value::Null);
        let new = |facts, topology| Record {
            plan: plan.clone(),
            machine: topology,
            host: facts,
            sessions: Vec::new(),
            trials: Vec::new(),
            disturbed: Vec::new(),
            ending: None,
        };
        let session = |record, journal| Self {
            record,
            journal,
            before: host.state(),
            host: host.clone(),
            command_line: command_line.clone(),
            has_new_plan: false,
            number: None,
        };
        let Some(path) = path else {
            return Ok(session(new(facts, topology), None));
        };
        let mut journal = Journal::open(path)?;
        Ok(match journal.record_to_go_on()? {
            None => {
                journal.begin_study(plan, &topology, &facts)?;
                session(new(facts, topology), Some(journal))
            }
            Some(record) => {
                let plan = plan_to_go_on_with(&record, plan, &topology, &facts, path)?;
                let mut session = session(record, Some(journal));
                session.set_plan(plan);
                session
            }
        })
    }

    /// Goes on by `plan`, which extends the one so far.
    pub(crate) fn set_plan(&mut self, plan: K) {
        if plan != self.record.plan {
            (self.record.ending, self.has_new_plan) = (None, true);
        }
        // Also where it is the same: it knows what isn't kept.
        self.record.plan = plan;
    }

    /// Whether the journal at `path` could be gone on with by `plan` on `machine`, or there is none yet.
    ///
    /// # Errors
    /// [`SessionError`]; nothing is written either way.
    pub fn check(path: &Path, plan: &K, machine: &Machine, host: &Host) -> Result<(), SessionError> {
        let record = match Journal::read(path) {
            Ok(record) => record,
            Err(JournalError::Empty(_)) => return Ok(()),
            Err(JournalError::Open { .. }) if !path.exists() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let topology = serde_json::to_value(machine).unwrap_or(Value::Null);
        plan_to_go_on_with(&record, plan, &topology, &host.facts().redacted(&plan.redaction()), path).map(drop)
    }

    /// The plan.
    pub fn plan(&self) -> &K {
        &self.record.plan
    }

    /// The trials so far, those of earlier sessions among them; of those in a journal, what the work on the study needs.
    pub fn trials(&self) -> &[K::Trial] {
        &self.record.trials
    }

    /// Keeps a trial that has just ended.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn add(&mut self, mut trial: K::Trial) -> Result<&K::Trial, JournalError> {
        if let Some(journal) = self.journal_at_work()? {
            journal.add(&trial)?;
            trial.forget_details();
        }
        self.record.trials.push(trial);
        Ok(&self.record.trials[self.record.trials.len() - 1])
    }

    /// Keeps the trials of a whole block that was run elsewhere, all of them or none, with those that were `disturbed` there.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn add_block(&mut self, mut trials: Vec<K::Trial>, disturbed: Vec<K::Trial>) -> Result<(), JournalError> {
        if let Some(journal) = self.journal_at_work()? {
            journal.add_block(&trials, &disturbed)?;
            trials.iter_mut().for_each(Row::forget_details);
        }
        self.record.trials.append(&mut trials);
        self.record.disturbed.extend(disturbed);
        Ok(())
    }

    /// Keeps a trial that was disturbed and is run again, beside the others.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn add_disturbed(&mut self, trial: K::Trial) -> Result<&K::Trial, JournalError> {
        if let Some(journal) = self.journal_at_work()? {
            journal.add_disturbed(&trial)?;
        }
        self.record.disturbed.push(trial);
        Ok(&self.record.disturbed[self.record.disturbed.len() - 1])
    }

    /// The journal, in which this stretch of work and the plan that it goes on by are.
    fn journal_at_work(&mut self) -> Result<Option<&mut Journal<K>>, JournalError> {
        let Some(journal) = &mut self.journal else { return Ok(None) };
        if self.number.is_none() {
            self.number = Some(journal.begin_session(&self.command_line, &self.before)?);
        }
        if std::mem::take(&mut self.has_new_plan) {
            journal.set_plan(&self.record.plan)?;
        }
        if self.record.ending.take().is_some() {
            journal.set_ending(None)?;
        }
        Ok(Some(journal))
    }

    /// Ends the session as the work on it ended, and gives all that is known of the study then.
    ///
    /// # Errors
    /// The work's, if that failed; else what can't be written or read back.
    pub fn end<E: From<JournalError>>(mut self, work: Result<Ending, E>) -> Result<Record<K>, E> {
        let Some(mut journal) = self.journal else {
            return Ok(Record { ending: Some(work?), ..self.record });
        };
        let mut end = || self.number.map_or(Ok(()), |number| journal.end_session(number, &self.host.state()));
        match work {
            Ok(ending) => {
                end()?;
                if self.has_new_plan {
                    journal.set_plan(&self.record.plan)?;
                }
                if self.record.ending != Some(ending) {
                    journal.set_ending(Some(ending))?;
                }
            }
            Err(error) => {
                // The first error is the one to report, whether or not the session's end can be written. The journal closes itself.
                let _ = end();
                return Err(error);
            }
        }
        // Read back: what the report shows is what the journal keeps. What it says is never in memory twice.
        self.record.trials = Vec::new();
        let record = journal.record()?.unwrap_or(self.record);
        journal.close()?;
        Ok(record)
    }
}

/// The plan by which the study of `record` goes on when `plan` is asked for on this machine.
fn plan_to_go_on_with<K: Kind>(
    record: &Record<K>,
    plan: &K,
    topology: &Value,
    facts: &HostFacts,
    path: &Path,
) -> Result<K, SessionError> {
    let then = &record.host;
    // Earlier versions named the CPUs of fewer architectures.
    let models_differ = then.cpu_model.as_ref().zip(facts.cpu_model.as_ref()).is_some_and(|(then, now)| then != now);
    let trees_differ = tree(&record.machine).zip(tree(topology)).is_some_and(|(then, now)| then != now);
    if models_differ || trees_differ || then.architecture != facts.architecture {
        let cpu_model = then.cpu_model.clone().unwrap_or_else(|| "unnamed CPU".into());
        return Err(SessionError::OtherMachine { path: path.into(), cpu_model });
    }
    let mut changes = record.plan.changes(plan);
    if record.plan.keeps_identity() {
        changes.extend(changed_variables(&then.environment, &facts.environment));
    }
    if !changes.is_empty() {
        return Err(SessionError::OtherProgram { path: path.into(), changes });
    }
    let other_plan = |differences| SessionError::OtherPlan { path: path.into(), differences };
    record.plan.extended_by(plan, &record.trials).map_err(other_plan)
}

/// The objects of a topology, whichever of their CPUs may be used now, and however much memory this kernel leaves.
pub(crate) fn tree(topology: &Value) -> Option<Value> {
    fn forget(object: &mut Value) {
        let Some(fields) = object.as_object_mut() else { return };
        fields.remove("forbidden_by");
        for node in fields.get_mut("numa_nodes").and_then(Value::as_array_mut).into_iter().flatten() {
            node.as_object_mut().map(|node| node.remove("memory_bytes"));
        }
        fields.get_mut("children").and_then(Value::as_array_mut).into_iter().flatten().for_each(forget);
    }
    let mut tree = topology.get("tree")?.clone();
    forget(&mut tree);
    Some(tree)
}
