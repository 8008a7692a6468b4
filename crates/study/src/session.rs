//! A stretch of work on a study: its journal opened and taken up, trials added, its end written whatever that was.

use crate::host::{HostFacts, HostState};
use crate::journal::{Journal, JournalError};
use crate::kind::Kind;
use crate::record::{Ending, Record};
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
    /// The study was begun elsewhere.
    #[error("journal {path} was begun on another machine ({cpu_model}); give --out another file", path = path.display())]
    OtherMachine {
        /// The journal.
        path: PathBuf,
        /// The CPU of the machine where it was begun.
        cpu_model: String,
    },
}

/// Whether the machine that a study runs on has a part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// It runs on this one, whose facts and state are kept.
    Real,
    /// Nothing is run: the same study is the same on every host.
    Modelled,
}

impl Host {
    fn facts(self) -> HostFacts {
        if self == Self::Real { HostFacts::read() } else { HostFacts::of_model() }
    }

    fn state(self) -> HostState {
        if self == Self::Real { HostState::read() } else { HostState::of_model() }
    }
}

/// A study at work, in a journal or in memory alone.
#[derive(Debug)]
pub struct Session<K: Kind> {
    record: Record<K>,
    /// The journal, and the number of this session in it.
    journal: Option<(Journal<K>, i64)>,
    host: Host,
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
        host: Host,
        command_line: &[String],
    ) -> Result<Self, SessionError> {
        let facts = host.facts();
        let topology = serde_json::to_value(machine).unwrap_or(Value::Null);
        let new = |facts, topology| Record {
            plan: plan.clone(),
            machine: topology,
            host: facts,
            sessions: Vec::new(),
            trials: Vec::new(),
            ending: None,
        };
        let Some(path) = path else {
            return Ok(Self { record: new(facts, topology), journal: None, host });
        };
        let mut journal = Journal::open(path)?;
        let record = match journal.record()? {
            None => {
                journal.begin_study(plan, &topology, &facts)?;
                new(facts, topology)
            }
            Some(record) => {
                check_is_same(&record, plan, &topology, &facts, path)?;
                record
            }
        };
        let session = journal.begin_session(command_line, &host.state())?;
        Ok(Self { record, journal: Some((journal, session)), host })
    }

    /// The plan.
    pub fn plan(&self) -> &K {
        &self.record.plan
    }

    /// The trials so far, those of earlier sessions among them.
    pub fn trials(&self) -> &[K::Trial] {
        &self.record.trials
    }

    /// Keeps a trial that has just ended.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn add(&mut self, trial: K::Trial) -> Result<&K::Trial, JournalError> {
        if let Some((journal, _)) = &mut self.journal {
            journal.add(&trial)?;
        }
        self.record.trials.push(trial);
        Ok(&self.record.trials[self.record.trials.len() - 1])
    }

    /// Ends the session as the work on it ended, and gives all that is known of the study then.
    ///
    /// # Errors
    /// The work's, if that failed; else what can't be written or read back.
    pub fn end<E: From<JournalError>>(self, work: Result<Ending, E>) -> Result<Record<K>, E> {
        let Some((mut journal, session)) = self.journal else {
            return Ok(Record { ending: Some(work?), ..self.record });
        };
        match work {
            Ok(ending) => {
                journal.set_ending(Some(ending))?;
                journal.end_session(session, &self.host.state())?;
            }
            Err(error) => {
                // The first error is the one to report, whether or not the session's end can be written. The journal closes itself.
                let _ = journal.end_session(session, &self.host.state());
                return Err(error);
            }
        }
        // Read back: what the report shows is what the journal keeps.
        let record = journal.record()?.unwrap_or(self.record);
        journal.close()?;
        Ok(record)
    }
}

/// Whether `record` is of the study of `plan` on this machine.
fn check_is_same<K: Kind>(
    record: &Record<K>,
    plan: &K,
    topology: &Value,
    facts: &HostFacts,
    path: &Path,
) -> Result<(), SessionError> {
    let differences = record.plan.differences(plan);
    if !differences.is_empty() {
        return Err(SessionError::OtherPlan { path: path.into(), differences });
    }
    let then = &record.host;
    // Earlier versions named the CPUs of fewer architectures.
    let models_differ = then.cpu_model.as_ref().zip(facts.cpu_model.as_ref()).is_some_and(|(then, now)| then != now);
    let trees_differ = tree(&record.machine).zip(tree(topology)).is_some_and(|(then, now)| then != now);
    if models_differ || trees_differ || then.architecture != facts.architecture {
        let cpu_model = then.cpu_model.clone().unwrap_or_else(|| "unnamed CPU".into());
        return Err(SessionError::OtherMachine { path: path.into(), cpu_model });
    }
    Ok(())
}

/// The objects of a topology, whichever of their CPUs may be used now, and however much memory this kernel leaves.
fn tree(topology: &Value) -> Option<Value> {
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
