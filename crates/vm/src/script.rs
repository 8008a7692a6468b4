//! What a virtual machine is asked to do, and what became of it: the words that this side and the guest's init share.
//!
//! The script goes into the guest as one JSON file. What comes back goes over a serial port of its own, one JSON message a
//! line, so that the kernel's messages on the console can't mix in and each step is known as soon as it has ended.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Where the script lies in the guest.
pub const SCRIPT_PATH: &str = "/stayput/script.json";
/// The serial port over which the guest answers.
pub const ANSWER_PORT: &str = "/dev/ttyS1";
/// How much of a step's output and of its errors, each, comes back; what is more is cut off in the middle.
pub const OUTPUT_BYTES: usize = 8 << 20;

/// Where the guest has the module of overlay file systems, if it needs one.
pub const OVERLAY_PATH: &str = "/stayput/overlay.ko";
/// Where the guest has the kernel's configuration, until it lies where libbpf looks for it.
pub const CONFIG_PATH: &str = "/stayput/config";
/// The name of a port of a guest that stays up: for requests and answers.
pub const REQUEST_PORT: &str = "requests";
/// By which name the guest mounts the host's file system.
pub const ROOT_TAG: &str = "root";

/// What a guest is booted for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Script {
    /// To run steps, one after another.
    Steps(Vec<Step>),
    /// To run a program of the host's among all of its files.
    Host(HostProgram),
}

/// A program of the host's that answers requests in a guest, which has the host's file system: read-only, under an overlay, so that
/// what is written there is in the guest's memory alone. Requests are lines of its standard input, answers of its standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostProgram {
    /// Its path and arguments.
    pub argv: Vec<OsString>,
    /// The folder that it runs in.
    pub folder: PathBuf,
    /// All of its variables.
    pub environment: Vec<(OsString, OsString)>,
}

/// One thing to do. It runs in a process group of its own, of which nothing is left when it has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What its result is found by.
    pub name: String,
    /// A program of the guest, by name or path, and its arguments.
    pub argv: Vec<String>,
    /// Guest time after which it is killed.
    pub timeout: Duration,
}

impl Step {
    /// A step that runs a program, for a minute at most.
    pub fn run<S: Into<String>>(name: impl Into<String>, argv: impl IntoIterator<Item = S>) -> Self {
        let argv = argv.into_iter().map(Into::into).collect();
        Self { name: name.into(), argv, timeout: Duration::from_secs(60) }
    }

    /// A step in which the guest's `sh` (busybox) runs a text, for a minute at most.
    pub fn shell(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::run(name, ["/bin/sh".into(), "-c".into(), text.into()])
    }

    /// The same step, killed after `timeout` of guest time.
    pub fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
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
