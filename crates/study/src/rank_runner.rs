//! Runs of MPI programs: a cell becomes ranks that their own launcher starts, and what they come to becomes one trial.

use crate::engine::{RunnerError, Turn};
use crate::plan::Plan;
use crate::ranks::{RankError, RankLaunch, RankStart, RanksLaunched, launch_ranks};
use crate::runner::{ProgramRunner, said, signal_name, time_s};
use crate::trial::{More, Status, Trial};
use launch::{Descendants, Exit, Launch, LaunchError, Output};
use machine::RankPlacement;
use std::ffi::OsString;
use std::time::Duration;

/// How much longer than its ranks a launcher may take, to start and to end, before it is killed: they are killed by their wrappers, so that
/// it ends by itself.
const LAUNCHER_GRACE: Duration = Duration::from_secs(30);

impl ProgramRunner {
    /// Runs the program of a cell as ranks. Its time is that of the longest rank; what it prints is what rank 0 prints.
    ///
    /// # Errors
    /// Why the study can't go on.
    pub(crate) fn run_ranks(
        &mut self,
        plan: &Plan,
        turn: &Turn,
        start: &RankStart,
        trial: &mut Trial,
    ) -> Result<(), RunnerError> {
        let subject = &plan.subjects[turn.cell.subject];
        let shape = plan.threads[turn.cell.threads];
        let Some(ranks) = shape.rank_shape() else {
            trial.cause = format!("{shape} says of no rank how many threads it has");
            return Ok(());
        };
        let treatment = &plan.treatments[turn.cell.treatment].name;
        let limit = turn.limit(plan);
        let own = std::env::current_exe().map_err(|error| {
            RunnerError::Broken(format!("cannot tell where this program is, which has to wrap each rank: {error}"))
        })?;
        let launch = RankLaunch {
            mpi: start.mpi,
            options: None,
            further: start.args.clone(),
            shape: ranks,
            sets_threads: true,
            placement: plan.placement(turn.cell).map(|row| RankPlacement::of_row(row, ranks)),
            skip: subject.binding.skip.clone(),
            roles: subject.binding.slots.clone(),
            observe: subject.binding.observe,
            binds_helpers: start.bind_helpers,
            // Unbound means unbound.
            keeps_binding_variables: false,
            timeout: Some(limit.longest),
            in_a_study: true,
            launcher: Launch {
                output: Output::Capture,
                input: self.inputs.get(turn.cell.subject).cloned().flatten(),
                timeout: Some(limit.longest + LAUNCHER_GRACE),
                descendants: Descendants::Kill,
                keep_binding_variables: true,
                marks: self.marks.clone(),
                env: subject.preparation_under(treatment).variables(),
                ..Launch::default()
            },
            wrapper: vec![own.into_os_string(), "rank".into()],
        };
        let argv: Vec<OsString> =
            subject.command_in(treatment, shape, turn.block).into_iter().map(OsString::from).collect();
        let ranks_launched = match launch_ranks(&launch, &argv) {
            Ok(launched) => launched,
            Err(RankError::Launch(LaunchError::Interrupted { signal })) => {
                return Err(RunnerError::Interrupted { signal });
            }
            // The runs so far read something else than this one would.
            Err(RankError::Launch(error @ LaunchError::Input(_))) => {
                return Err(RunnerError::Broken(format!("{}: {error}", subject.name)));
            }
            Err(error) => {
                trial.cause = error.to_string();
                return Ok(());
            }
        };
        let mut launched = ranks_launched.launched.clone();
        // Every run has helper threads; which ones they are stands with each thread.
        launched.observation.notes.retain(|note| !launch::is_helper_note(note));
        self.show(&launched);
        let culprit = ranks_launched.culprit();
        if culprit.is_some_and(|(_, exit)| exit == Exit::TimedOut) {
            launched.observation.exit = Exit::TimedOut;
        }
        let patterns = &self.patterns[turn.cell.subject];
        let numbers = || patterns.numbers(&launched, trial.started_unix_s, shape, turn.block);
        match time_s(&launched, limit, patterns).and_then(|time_s| Ok((time_s, numbers()?))) {
            Ok((time_s, values)) => {
                (trial.status, trial.time_s) = (Status::Ok, Some(time_s));
                trial.more = More { values, ..More::default() }.boxed();
            }
            Err((status, cause)) => {
                (trial.status, trial.cause) = cause_by_rank(&ranks_launched, status, cause);
            }
        }
        let not_as_asked = ranks_launched.not_as_asked.clone().filter(|_| trial.status == Status::Ok);
        self.judge(trial, not_as_asked.or(launched.not_in_force.clone()), launched.standstill);
        trial.output_tail = self.kept_tail(&said(&launched, trial.status), &[turn.cell.subject]);
        trial.ran_s = Some(launched.observation.wall_s);
        trial.observation = Some(launched.observation);
        Ok(())
    }
}

/// How a run failed, and the cause with the rank that made it: a launcher's own exit code says neither which one that was nor how it ended.
fn cause_by_rank(ranks: &RanksLaunched, status: Status, cause: String) -> (Status, String) {
    let is_of_launcher = matches!(status, Status::ExitCode | Status::Signal);
    match (ranks.culprit(), &ranks.not_as_asked) {
        (Some((rank, Exit::Code(code))), _) if is_of_launcher => {
            (Status::ExitCode, format!("rank {rank}: exit code {code}"))
        }
        (Some((rank, Exit::Signal(signal))), _) if is_of_launcher => {
            (Status::Signal, format!("rank {rank}: {}", signal_name(signal)))
        }
        (None, Some(why)) if is_of_launcher => (status, format!("{cause}: {why}")),
        _ => (status, cause),
    }
}
