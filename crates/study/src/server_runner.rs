//! The runner of servers: the server and the load of a cell are launched, and what was seen of both becomes one trial.

use crate::engine::{RunnerError, Turn};
use crate::plan::{Plan, word_of_run};
use crate::runner::{ProgramRunner, TAIL_BYTES, said, tail, time_s};
use crate::server::{Server, signal_number};
use crate::trial::{LoadRun, More, Status, Trial};
use launch::{
    Conditions, Descendants, KeptServer, KeptServerStart, Launch, LaunchError, Launched, NoServer, Output, Service,
    ServiceFailure, ServiceLaunched, Stop, launch_service,
};
use std::ffi::OsString;
use std::time::Duration;

/// How long it may take until it is known how a server has ended.
const LONGEST_WORD: Duration = Duration::from_secs(1);

/// A server that goes on from trial to trial of a block.
#[derive(Debug)]
pub(crate) struct KeptForBlock {
    server: KeptServer,
    block: u32,
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl ProgramRunner {
    /// Runs the server of a cell under its treatment, with the load.
    pub(crate) fn run_service(
        &mut self,
        plan: &Plan,
        turn: &Turn,
        server: &Server,
        trial: &mut Trial,
    ) -> Result<(), RunnerError> {
        let subject = &plan.subjects[turn.cell.subject];
        if server.keep {
            return self.run_kept(plan, turn, server, trial);
        }
        let launched = match launch_service(&self.service(plan, turn, server)?) {
            Err(LaunchError::Interrupted { signal }) => return Err(RunnerError::Interrupted { signal }),
            Err(error @ LaunchError::Input(_)) => {
                return Err(RunnerError::Broken(format!("{}: {error}", subject.name)));
            }
            Err(error) => {
                trial.cause = error.to_string();
                return Ok(());
            }
            Ok(launched) => launched,
        };
        let patterns = &self.patterns[turn.cell.subject];
        let threads = subject.threads_of(plan.threads[turn.cell.threads]);
        let of_load = |load: &Launched| {
            let time_s = time_s(load, turn.limit(plan), patterns)
                .map_err(|(status, cause)| (status, format!("load: {cause}")))?;
            Ok((time_s, patterns.numbers(load, trial.started_unix_s, threads, turn.block)?))
        };
        let outcome = match (&launched.failure, &launched.load) {
            (Some(failure), _) => {
                let how = launched.server.as_ref().and_then(how_it_ended);
                let log = launched.server.as_ref().map(log_of).unwrap_or_default();
                Err((Status::Server, cause(failure, server, how.as_deref(), &log)))
            }
            (None, Some(load)) => of_load(load),
            (None, None) => Err((Status::Server, "the load never began".to_owned())),
        };
        let mut more = More::default();
        match outcome {
            Ok((time_s, values)) => {
                (trial.status, trial.time_s) = (Status::Ok, Some(time_s));
                more.values = values;
            }
            Err((status, cause)) => (trial.status, trial.cause) = (status, cause),
        }
        self.judge(trial, launched.not_in_force.clone(), launched.standstill);
        trial.ran_s = launched.load.as_ref().or(launched.server.as_ref()).map(|seen| seen.observation.wall_s);
        let log = launched.server.as_ref().map(log_of).unwrap_or_default();
        let told: String = launched.load.iter().map(|load| said(load, trial.status)).collect();
        let told = if trial.status == Status::Ok { told } else { format!("{told}server:\n{log}") };
        trial.output_tail = self.kept_tail(&told, &[turn.cell.subject]);
        more.log_tail = self.kept_tail(&log, &[turn.cell.subject]);
        let notes = notes(&launched, server);
        let ServiceLaunched { server: seen, load, ready_s, conditions, .. } = launched;
        more.load = load.map(|load| LoadRun { ready_s, observation: load.observation });
        trial.more = more.boxed();
        if trial.status != Status::Ok {
            trial.forget_values();
        }
        trial.observation = seen.map(|seen| {
            let mut observation = seen.observation;
            observation.conditions.company = conditions.company;
            observation.conditions.scheduling = observation.conditions.scheduling.or(conditions.scheduling);
            observation.notes.extend(notes);
            observation
        });
        Ok(())
    }

    /// Binds the server that is kept for the block while the load of a cell runs; starts it where there is none.
    fn run_kept(&mut self, plan: &Plan, turn: &Turn, server: &Server, trial: &mut Trial) -> Result<(), RunnerError> {
        let service = self.service(plan, turn, server)?;
        let (argv, env) = (service.server.argv, service.server.env);
        let is_it = |kept: &KeptForBlock| kept.block == turn.block && kept.argv == argv && kept.env == env;
        // What was wrong with the stop of the one before is told with what follows it.
        let mut notes = Vec::new();
        // One that has ended meanwhile is started anew.
        if !self.kept.as_mut().is_some_and(|kept| is_it(kept) && kept.server.ending(Duration::ZERO).is_none()) {
            notes = self.stop_kept();
            let start = KeptServerStart {
                argv: argv.clone(),
                env: env.clone(),
                ready: service.ready,
                ready_timeout: service.ready_timeout,
                stop: service.stop,
            };
            match KeptServer::start(&start) {
                Ok(server) => self.kept = Some(KeptForBlock { server, block: turn.block, argv, env }),
                Err(NoServer::Launch(LaunchError::Interrupted { signal })) => {
                    return Err(RunnerError::Interrupted { signal });
                }
                Err(NoServer::Launch(error)) => {
                    trial.cause = error.to_string();
                    return Ok(());
                }
                Err(NoServer::Failure(failure, how, log)) => {
                    notes.insert(0, cause(&failure, server, how.as_deref(), &log));
                    (trial.status, trial.cause) = (Status::Server, notes.join("; "));
                    trial.output_tail = self.kept_tail(&format!("server:\n{log}"), &[turn.cell.subject]);
                    return Ok(());
                }
            }
        }
        let Some(mut kept) = self.kept.take() else { return Ok(()) };
        let outcome = self.run_load_on(plan, turn, &kept.server.target, &server.load_placements, trial);
        let log = self.kept_tail(&kept.server.written(), &[turn.cell.subject]);
        if trial.status == Status::Server {
            trial.cause =
                cause(&ServiceFailure::EndedUnderLoad, server, kept.server.ending(LONGEST_WORD).as_deref(), &log);
        }
        let mut more = trial.more.take().map_or_else(More::default, |more| *more);
        if let Some(load) = &mut more.load {
            load.ready_s = Some(kept.server.ready_s);
        }
        more.log_tail = log;
        trial.more = more.boxed();
        if let Some(observation) = &mut trial.observation {
            observation.notes.extend(notes.into_iter().map(|note| format!("in the block before, {note}")));
        }
        self.kept = Some(kept);
        outcome
    }

    /// Has the server that is kept stop, if there is one; sentences that say what was wrong with that.
    pub(crate) fn stop_kept(&mut self) -> Vec<String> {
        self.kept.take().map_or_else(Vec::new, |kept| kept.server.stop())
    }

    /// The server and the load of a cell as they are launched.
    fn service(&self, plan: &Plan, turn: &Turn, server: &Server) -> Result<Service, RunnerError> {
        let subject = &plan.subjects[turn.cell.subject];
        let treatment = &plan.treatments[turn.cell.treatment];
        let threads = subject.threads_of(plan.threads[turn.cell.threads]);
        let word = |word: &String| OsString::from(word_of_run(word, threads, turn.block));
        let env = subject.preparation_under(&treatment.name).variables();
        let launch = |argv: Vec<OsString>| Launch {
            output: Output::Capture,
            descendants: Descendants::Kill,
            env: env.clone(),
            ..Launch::new(argv)
        };
        let broken = |what: String| RunnerError::Broken(what);
        let Conditions { company, .. } = &treatment.conditions;
        let whole_machine = Conditions { company: company.clone(), ..crate::mix_runner::of_all(&treatment.conditions) };
        Ok(Service {
            server: Launch {
                placement: plan.placement(turn.cell).cloned(),
                threads: Some(threads.threads()),
                unit: subject.binding.unit,
                skip: subject.binding.skip.clone(),
                roles: subject.binding.slots.clone(),
                observe: subject.binding.observe,
                conditions: Conditions { company: None, ..treatment.conditions.clone() },
                read_memory: plan.varies_memory(),
                ..launch(server.argv.iter().map(word).collect())
            },
            ready: server.ready.for_launch().map_err(|error| broken(error.to_string()))?,
            ready_timeout: server.ready_timeout,
            stop: Stop {
                signal: signal_number(&server.stop_signal).map_err(|error| broken(error.0))?,
                command: server.stop_command.as_ref().map(|line| word_of_run(line, threads, turn.block)),
                timeout: server.stop_timeout,
            },
            load: Launch {
                placement: server.load_placements.get(turn.cell.threads).cloned().flatten(),
                input: self.inputs.get(turn.cell.subject).cloned().flatten(),
                timeout: Some(turn.limit(plan).longest),
                ..launch(
                    subject.command_in(&treatment.name, threads, turn.block).into_iter().map(OsString::from).collect(),
                )
            },
            conditions: whole_machine,
            marks: self.marks.clone(),
        })
    }
}

/// The end of what a server printed.
fn log_of(server: &Launched) -> String {
    tail(format!("{}{}", server.stdout.text(), server.stderr.text()), TAIL_BYTES)
}

/// How a server ended by itself, if it did, in words.
fn how_it_ended(server: &Launched) -> Option<String> {
    match server.observation.exit {
        launch::Exit::Code(code) => Some(format!("with exit code {code}")),
        launch::Exit::Signal(signal) => Some(format!("by signal {signal}")),
        launch::Exit::TimedOut => None,
    }
}

/// What went wrong, in words.
fn cause(failure: &ServiceFailure, server: &Server, how: Option<&str>, log: &str) -> String {
    let is_daemon = how == Some("with exit code 0");
    let hint = if is_daemon { ": one that goes into the background by itself is to be told to stay" } else { "" };
    let how = how.map_or_else(String::new, |how| {
        format!(" ({}{hint})", how.trim_start_matches("with ").trim_start_matches("by "))
    });
    let last = log.lines().rfind(|line| !line.trim().is_empty());
    let last = last.map_or_else(String::new, |last| {
        format!("; the last line that it printed is `{}`", machine::quoted(last.trim()))
    });
    match failure {
        ServiceFailure::PortInUse(port) => {
            format!("port {port} is in use before the server is started; end what listens there, or name another port")
        }
        ServiceFailure::NotReady => {
            format!("the server was not ready ({}) within {:?}{last}", server.ready, server.ready_timeout)
        }
        ServiceFailure::EndedBeforeReady => format!("the server ended before it was ready{how}{last}"),
        ServiceFailure::EndedUnderLoad => format!("the server ended before the load did{how}{last}"),
    }
}

/// What else is to be known, in sentences.
fn notes(launched: &ServiceLaunched, server: &Server) -> Vec<String> {
    let killed = launched
        .was_killed
        .then(|| format!("the server did not stop within {:?} of being asked, and was killed", server.stop_timeout));
    killed.into_iter().chain(launched.stop_failure.clone()).collect()
}
