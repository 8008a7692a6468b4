//! A run that records its tasks: started alone on one CPU, verified, and what it wrote read.

use super::beside;
use anyhow::{Context, bail};
use launch::{Descendants, Launch, LaunchError, Output, launch};
use machine::{CpuId, Placement};
use serde::Deserialize;
use sim::cache::footprint::Order;
use std::ffi::OsString;
use study::Exit;
use workloads::Builtin;

/// Names the file to which a program writes its stages (`workloads/harness/stage.h`).
const STAGES_VARIABLE: &str = "STAYPUT_TASKS";

/// What a run recorded.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recording {
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
pub(super) struct StageRecord {
    pub name: String,
    pub rounds: u32,
    /// Rows and columns; none when no task waits for another.
    #[serde(default)]
    pub wavefront: Option<(u32, u32)>,
    /// The order of references to what is used again.
    pub order: Order,
    /// How often a task goes over what it uses again.
    pub passes: f64,
    pub parts: Vec<Part>,
    /// How long each task took, in the order in which they were done.
    pub us: Vec<f64>,
}

/// Memory that a task touches.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    /// For people who read the file.
    pub what: String,
    /// Of a task, on average.
    pub bytes: f64,
    /// Whether they are used again, by the task or by the next one.
    pub again: bool,
    /// The share of them that the thread's next task uses, too.
    pub kept: f64,
}

impl Recording {
    /// Runs the program with one thread on `cpu`.
    ///
    /// # Errors
    /// It can't be started, doesn't end well, isn't verified, or writes what can't be read.
    pub fn make(builtin: &Builtin, cpu: CpuId) -> anyhow::Result<Self> {
        let file = tempfile::NamedTempFile::new().context("cannot make a file for the tasks' times")?;
        let mut argv: Vec<OsString> = vec![beside(&builtin.program).into()];
        argv.extend(builtin.args.iter().map(Into::into));
        let launched = launch(&Launch {
            placement: Some(Placement::from_cpus("list", [cpu])),
            threads: Some(1),
            output: Output::Capture,
            descendants: Descendants::Kill,
            env: vec![(STAGES_VARIABLE.into(), file.path().into())],
            ..Launch::new(argv)
        });
        let launched = match launched {
            Err(LaunchError::NotFound { .. }) => {
                bail!("{} is neither beside stayput nor on the PATH: `cargo build --release` makes it", builtin.program)
            }
            launched => launched?,
        };
        let what = format!("{} {}", builtin.program, builtin.args.join(" "));
        match launched.observation.exit {
            Exit::Code(0) => {}
            Exit::Code(code) => {
                // Its reason, or else `verification: failed`.
                let (stderr, stdout) = (launched.stderr.text(), launched.stdout.text());
                let said = stderr.lines().chain(stdout.lines().rev()).next().unwrap_or("it said nothing");
                bail!("{what} ended with exit code {code}: {said}")
            }
            Exit::Signal(signal) => bail!("{what} was killed by signal {signal}"),
            Exit::TimedOut => unreachable!("no timeout was given"),
        }
        let written = std::fs::read_to_string(file.path()).context("cannot read the tasks' times")?;
        Self::read(&launched.stdout.text(), &written).with_context(|| format!("{what} ended well, but"))
    }

    /// From what the program printed and what it wrote.
    pub fn read(printed: &str, written: &str) -> anyhow::Result<Self> {
        let value = |name: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.with_context(|| format!("printed no line `{name}: `"))
        };
        if value("verification")? != "successful" {
            bail!("its result is wrong");
        }
        let stages = written
            .lines()
            .enumerate()
            .map(|(number, line)| {
                serde_json::from_str(line).with_context(|| format!("line {} of its tasks can't be read", number + 1))
            })
            .collect::<anyhow::Result<Vec<StageRecord>>>()?;
        if stages.is_empty() {
            bail!("wrote no tasks: it was built without its graph; build it again");
        }
        let seconds = value("seconds")?.parse().context("its line `seconds: ` holds no number")?;
        Ok(Self { stages, seconds, compiler: value("compiler")?.to_owned() })
    }
}
