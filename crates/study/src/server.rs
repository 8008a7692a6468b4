//! A server that a subject's command puts a load on: the server is what is placed, the load tells how it does.

use crate::plan::PlanError;
use machine::Placement;
use nix::sys::signal::Signal;
use regex::RegexBuilder;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How long a server may take until it is ready, where nothing else is said.
pub const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// How long it may take to stop, likewise.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A server: it is started under the treatment for each trial, and ended when the load has ended, unless it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Program and arguments, as for [`crate::Subject::argv`]; it holds no secret value.
    pub argv: Vec<String>,
    /// When it is ready.
    pub ready: ReadyWhen,
    /// How long it may take until then.
    pub ready_timeout: Duration,
    /// The signal by which it is asked to stop, by its name.
    pub stop_signal: String,
    /// The line for a shell that asks it instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_command: Option<String>,
    /// How long it may take to stop, after which it is killed.
    pub stop_timeout: Duration,
    /// Whether it is started once a block, and its threads are bound anew for each trial: only its place and its company can vary then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
    /// Where the load runs: `unbound`, a policy's name, a set or list of CPUs.
    pub load_place: String,
    /// For each thread count of the plan the load's placement; empty where it is bound nowhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_placements: Vec<Option<Placement>>,
}

/// When a server is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ReadyWhen {
    /// When something listens on this port.
    Port(u16),
    /// When what it printed matches.
    Log(String),
    /// When this line for a shell succeeds.
    Command(String),
}

impl fmt::Display for ReadyWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, "port:{port}"),
            Self::Log(pattern) => write!(f, "regex:{pattern}"),
            Self::Command(line) => write!(f, "command:{line}"),
        }
    }
}

impl FromStr for ReadyWhen {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` doesn't say when a server is ready; write port:5432, regex:EXPRESSION or command:LINE")
        };
        match text.split_once(':') {
            Some(("port", port)) => port
                .trim()
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .map(Self::Port)
                .ok_or_else(|| format!("`{}` is no port; write a number from 1 to 65535", port.trim())),
            Some(("regex", pattern)) if !pattern.is_empty() => {
                crate::plan::check_regex(pattern).map_err(|wrong| wrong.0)?;
                Ok(Self::Log(pattern.to_owned()))
            }
            Some(("command", line)) if !line.trim().is_empty() => Ok(Self::Command(line.to_owned())),
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for ReadyWhen {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ReadyWhen> for String {
    fn from(ready: ReadyWhen) -> Self {
        ready.to_string()
    }
}

impl ReadyWhen {
    /// The same for the launcher.
    pub(crate) fn for_launch(&self) -> Result<launch::Ready, regex::Error> {
        Ok(match self {
            Self::Port(port) => launch::Ready::Port(*port),
            Self::Command(line) => launch::Ready::Command(line.clone()),
            Self::Log(pattern) => {
                let pattern = RegexBuilder::new(pattern).multi_line(true).build()?;
                launch::Ready::Log(Arc::new(move |text| pattern.is_match(text)))
            }
        })
    }
}

/// The number of a signal by its name, with or without SIG.
///
/// # Errors
/// That it is none, in one sentence.
pub fn signal_number(name: &str) -> Result<i32, PlanError> {
    let long = if name.starts_with("SIG") { name.to_owned() } else { format!("SIG{name}") };
    let wrong = |_| PlanError(format!("`{name}` is no signal; write its name, such as TERM or INT"));
    long.parse::<Signal>().map(|signal| signal as i32).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_and_signals_are_read_as_they_are_written() {
        for text in ["port:5432", "regex:ready to accept", "command:pg_isready -p {port}"] {
            let ready: ReadyWhen = text.parse().unwrap();
            assert_eq!(ready.to_string(), text);
        }
        for (text, part) in [
            ("5432", "port:5432"),
            ("port:0", "1 to 65535"),
            ("port:x", "1 to 65535"),
            ("regex:", "port:5432"),
            ("regex:(", "regular expression"),
            ("command: ", "port:5432"),
        ] {
            let told = text.parse::<ReadyWhen>().unwrap_err();
            assert!(told.contains(part), "{text}: {told}");
        }
        assert_eq!(signal_number("TERM"), Ok(15));
        assert_eq!(signal_number("SIGINT"), Ok(2));
        assert!(signal_number("NONE").is_err());
    }
}
