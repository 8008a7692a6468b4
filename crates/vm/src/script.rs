//! What a virtual machine is asked to do, and what became of it: the words that this side and the guest's init share.
//!
//! The script goes into the guest as one JSON file. What comes back goes over a serial port of its own, one JSON message a
//! line, so that the kernel's messages on the console can't mix in and each step is known as soon as it has ended.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Where the script lies in the guest.
pub const SCRIPT_PATH: &str = "/stayput/script.json";
/// The serial port over which the guest answers.
pub const ANSWER_PORT: &str = "/dev/ttyS1";
/// How much of a step's output and of its errors, each, comes back; what is more is cut off in the middle.
pub const OUTPUT_BYTES: usize = 8 << 20;

/// Steps that the guest runs one after another, each whatever became of the one before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Script {
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// A program with its arguments, or a line for the shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A program of the guest, by name or path, and its arguments.
    Run(Vec<String>),
    /// Text for the guest's `sh` (busybox).
    Shell(String),
}

/// One thing to do. It runs in a process group of its own, of which nothing is left when it has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What its result is found by.
    pub name: String,
    /// What to do.
    pub action: Action,
    /// Guest time after which it is killed.
    pub timeout: Duration,
    /// Variables added to its environment.
    pub environment: BTreeMap<String, String>,
}

impl Step {
    /// A step that runs a program, for a minute at most.
    pub fn run<S: Into<String>>(name: impl Into<String>, argv: impl IntoIterator<Item = S>) -> Self {
        Self::new(name, Action::Run(argv.into_iter().map(Into::into).collect()))
    }

    /// A step that the shell runs, for a minute at most.
    pub fn shell(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(name, Action::Shell(text.into()))
    }

    fn new(name: impl Into<String>, action: Action) -> Self {
        Self { name: name.into(), action, timeout: Duration::from_secs(60), environment: BTreeMap::new() }
    }

    /// The same step, killed after `timeout` of guest time.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same step with a variable in its environment.
    pub fn with_variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It was killed when its time was up.
    TimedOut,
    /// It never began, and why.
    NotStarted(String),
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// The step's name.
    pub name: String,
    /// How it ended.
    pub exit: Exit,
    /// What it wrote to its standard output, also when it was killed.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
    /// How long it took, in seconds of guest time.
    pub seconds: f64,
}

/// What the guest tells, one message a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The step of this name has begun.
    Began(String),
    /// A step has ended.
    Ended(StepResult),
    /// Nothing is left to do; the machine is being switched off.
    Done,
}
