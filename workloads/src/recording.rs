//! A run that records its tasks: started alone on one CPU, verified, and what it wrote read.

use crate::Builtin;
use launch::{Descendants, Exit, Launch, LaunchError, NotInstalled, Output, launch};
use machine::{CpuId, Placement};
use serde::Deserialize;
use sim::cache::footprint::Order;
use std::ffi::OsString;
use std::io;

/// Names the file to which a program writes its stages (`workloads/harness/stage.h`).
const STAGES_VARIABLE: &str = "STAYPUT_TASKS";

/// What a run recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The stages in their order, a line each.
    pub stages: Vec<StageRecord>,
    /// How long the timed part took.
    pub seconds: f64,
    /// The compiler that made the program.
    pub compiler: String,
}

/// The tasks between two barriers, of all rounds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageRecord {
    /// What it is called.
    pub name: String,
    /// How often it was gone through.
    pub rounds: u32,
    /// Rows and columns; none when no task waits for another.
    #[serde(default)]
    pub wavefront: Option<(u32, u32)>,
    /// The order of references to what is used again.
    pub order: Order,
    /// How often a task goes over what it uses again.
    pub passes: f64,
    /// The memory that a task touches.
    pub parts: Vec<Part>,
    /// How long each task took, in the order in which they were done.
    pub us: Vec<f64>,
}

/// Memory that a task touches.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// For people who read the file.
    pub what: String,
    /// Of a task, on average.
    pub bytes: f64,
    /// Whether they are used again, by the task or by the next one.
    pub again: bool,
    /// The share of them that the thread's next task uses, too.
    pub kept: f64,
}

/// Why a run recorded nothing.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// There is no such program.
    #[error(transparent)]
    NotInstalled(#[from] NotInstalled),
    /// It can't be started.
    #[error(transparent)]
    Launch(LaunchError),
    /// The file for its tasks can't be made or read.
    #[error("the file for the tasks' times can't be used: {0}")]
    File(#[from] io::Error),
    /// It didn't end well.
    #[error("{command} {end}")]
    Failed {
        /// Program and arguments.
        command: String,
        /// How it ended.
        end: String,
    },
    /// What it printed or recorded can't be used.
    #[error("{command} ended well, but: {why}")]
    Unusable {
        /// Program and arguments.
        command: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Recording {
    /// Runs the program with one thread on `cpu`.
    ///
    /// # Errors
    /// It can't be started, doesn't end well, isn't verified, or writes what can't be read.
    pub fn run(builtin: &Builtin, cpu: CpuId) -> Result<Self, RecordingError> {
        let file = tempfile::NamedTempFile::new()?;
        let mut argv: Vec<OsString> = vec![builtin.path()?.into()];
        argv.extend(builtin.args.iter().map(Into::into));
        let launched = launch(&Launch {
            placement: Some(Placement::from_cpus("list", [cpu])),
            threads: Some(1),
            output: Output::Capture,
            descendants: Descendants::Kill,
            env: vec![(STAGES_VARIABLE.into(), file.path().into())],
            ..Launch::new(argv)
        });
        let launched = launched.map_err(RecordingError::Launch)?;
        let command = format!("{} {}", builtin.program, builtin.args.join(" "));
        let end = match launched.observation.exit {
            Exit::Code(0) => {
                let written = std::fs::read_to_string(file.path())?;
                let recording = Self::read(&launched.stdout.text(), &written);
                return recording.map_err(|why| RecordingError::Unusable { command, why });
            }
            Exit::Code(code) => {
                // Its reason, or else `verification: failed`.
                let (stderr, stdout) = (launched.stderr.text(), launched.stdout.text());
                let reason = stderr.lines().chain(stdout.lines().rev()).next().unwrap_or("it said nothing");
                format!("ended with exit code {code}: {reason}")
            }
            Exit::Signal(signal) => format!("was killed by signal {signal}"),
            Exit::TimedOut => unreachable!("no timeout was given"),
        };
        Err(RecordingError::Failed { command, end })
    }

    /// From what the program printed and what it wrote.
    ///
    /// # Errors
    /// What is wrong with that.
    pub fn read(printed: &str, written: &str) -> Result<Self, String> {
        let value = |name: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.ok_or_else(|| format!("printed no line `{name}: `"))
        };
        if value("verification")? != "successful" {
            return Err("its result is wrong".into());
        }
        let stage = |(number, line)| {
            serde_json::from_str(line)
                .map_err(|error| format!("line {} of its tasks can't be read: {error}", number + 1))
        };
        let stages: Vec<StageRecord> = written.lines().enumerate().map(stage).collect::<Result<_, _>>()?;
        if stages.is_empty() {
            return Err("wrote no tasks: it was built without its graph; build it again".into());
        }
        let seconds = value("seconds")?.parse();
        let seconds = seconds.map_err(|error| format!("its line `seconds: ` holds no number: {error}"))?;
        Ok(Self { stages, seconds, compiler: value("compiler")?.to_owned() })
    }
}
