//! The runner of what runs already: its threads are bound for a trial, the load is launched, and everything is given back.

use crate::engine::{RunnerError, Turn};
use crate::plan::Plan;
use crate::runner::{ProgramRunner, said, time_s};
use crate::trial::{LoadRun, More, Status, Trial};
use launch::{Attached, Attachment, Descendants, Exit, LONGEST_DYING, Launch, LaunchError, Output, Target, launch};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A program that runs already, on which a subject's command is a load. Which process it is isn't kept: after a restart it is the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The file of its first process; of a control group, that.
    pub program: PathBuf,
    /// Where the load runs: `unbound`, a policy's name, a set or list of CPUs.
    pub load_place: String,
    /// For each thread count of the plan the load's placement; empty where it is bound nowhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_placements: Vec<Option<machine::Placement>>,
}

impl ProgramRunner {
    /// Puts the load of a cell on what runs already, bound as its treatment says.
    pub(crate) fn run_attached(
        &mut self,
        plan: &Plan,
        turn: &Turn,
        running: &Running,
        trial: &mut Trial,
    ) -> Result<(), RunnerError> {
        let subject = &plan.subjects[turn.cell.subject];
        let gone = |target: &Target| {
            RunnerError::Broken(format!(
                "{target} has ended; what was measured is kept, and the same command with what runs in its place goes on"
            ))
        };
        let Some(target) = subject.unkept.target.clone() else {
            return Err(RunnerError::Broken("no process is named; add --pid or --cgroup".into()));
        };
        if target.processes().is_empty() {
            return Err(gone(&target));
        }
        self.run_load_on(plan, turn, &target, &running.load_placements, trial)
    }

    /// Binds `target` as the treatment of a cell says while the cell's load runs.
    pub(crate) fn run_load_on(
        &mut self,
        plan: &Plan,
        turn: &Turn,
        target: &Target,
        load_placements: &[Option<machine::Placement>],
        trial: &mut Trial,
    ) -> Result<(), RunnerError> {
        let subject = &plan.subjects[turn.cell.subject];
        let treatment = &plan.treatments[turn.cell.treatment];
        let threads = subject.threads_of(plan.threads[turn.cell.threads]);
        let attachment = Attachment {
            placement: plan.placement(turn.cell).cloned(),
            unit: subject.binding.unit,
            skip: subject.binding.skip.clone(),
            roles: subject.binding.slots.clone(),
        };
        let attached = match Attached::begin(target, &attachment) {
            Ok(attached) => attached,
            Err(error) => {
                trial.cause = error.to_string();
                return Ok(());
            }
        };
        let launched = launch(&Launch {
            placement: load_placements.get(turn.cell.threads).cloned().flatten(),
            output: Output::Capture,
            input: self.inputs.get(turn.cell.subject).cloned().flatten(),
            timeout: Some(turn.limit(plan).longest),
            descendants: Descendants::Kill,
            env: subject.preparation_under(&treatment.name).variables(),
            conditions: treatment.conditions.clone(),
            marks: self.marks.clone(),
            ..Launch::new(
                subject.command_in(&treatment.name, threads, turn.block).into_iter().map(OsString::from).collect(),
            )
        });
        if launched.as_ref().is_ok_and(|load| load.observation.exit != Exit::Code(0)) {
            let latest = Instant::now() + LONGEST_DYING;
            while !attached.has_ended() && Instant::now() < latest {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        // Given back before anything else is done.
        let seen = attached.end();
        let load = match launched {
            Err(LaunchError::Interrupted { signal }) => return Err(RunnerError::Interrupted { signal }),
            Err(error @ LaunchError::Input(_)) => {
                return Err(RunnerError::Broken(format!("{}: {error}", subject.name)));
            }
            Err(error) => {
                trial.cause = error.to_string();
                return Ok(());
            }
            Ok(load) => load,
        };
        let patterns = &self.patterns[turn.cell.subject];
        let numbers = || patterns.numbers(&load, trial.started_unix_s, threads, turn.block);
        let outcome = match seen.has_ended {
            true => Err((Status::Server, format!("{target} ended before the load did"))),
            false => time_s(&load, turn.limit(plan), patterns)
                .map_err(|(status, cause)| (status, format!("load: {cause}")))
                .and_then(|time_s| Ok((time_s, numbers()?))),
        };
        let mut more = More::default();
        match outcome {
            Ok((time_s, values)) => {
                (trial.status, trial.time_s) = (Status::Ok, Some(time_s));
                more.values = values;
            }
            Err((status, cause)) => (trial.status, trial.cause) = (status, cause),
        }
        trial.ran_s = Some(load.observation.wall_s);
        trial.output_tail = self.kept_tail(&said(&load, trial.status), &[turn.cell.subject]);
        let (not_in_force, standstill) = (load.not_in_force.clone(), load.standstill);
        more.load = Some(LoadRun { ready_s: None, observation: load.observation });
        trial.more = more.boxed();
        trial.observation = Some(seen.observation);
        self.judge(trial, not_in_force, standstill);
        Ok(())
    }
}
