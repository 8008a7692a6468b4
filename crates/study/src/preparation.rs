//! What is run around a subject's runs: before and after all of them, and before and after each. None of it is timed.

use crate::bounds::MOST_JOBS;
use crate::plan::{PlanError, word_of_run};
use crate::redaction::Redaction;
use crate::shape::Shape;
use launch::{Descendants, Exit, Launch, LaunchError, Output, launch};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

/// Lines for a shell (`sh -c`), which run bound nowhere, and the variables of what is run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preparation {
    /// Before the first run of the subject in each stretch of work on the study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Before each run, also of those that warm up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// After each run, also where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclude: Option<String>,
    /// After the last run of the subject in each stretch of work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<String>,
    /// Variables that its runs, and these lines, have on top of our own environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<Variable>,
    /// Exit codes other than 0 with which a run went well.
    #[serde(default, skip_serializing_if = "IgnoredFailures::is_none")]
    pub ignored_failures: IgnoredFailures,
}

/// A variable of the environment: `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl FromStr for Variable {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '\0');
        match text.split_once('=') {
            Some((name, value)) if is_name(name) && !value.contains('\0') => {
                Ok(Self { name: name.to_owned(), value: value.to_owned() })
            }
            _ => Err(format!("`{text}` is no variable; write NAME=VALUE")),
        }
    }
}

impl TryFrom<String> for Variable {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Variable> for String {
    fn from(variable: Variable) -> Self {
        format!("{}={}", variable.name, variable.value)
    }
}

/// Exit codes other than 0 with which a run went well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum IgnoredFailures {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// These.
    Codes(Vec<i32>),
}

impl IgnoredFailures {
    fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Whether a run that exited with `code` went well.
    pub(crate) fn has(&self, code: i32) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Codes(codes) => codes.contains(&code),
        }
    }
}

impl FromStr for IgnoredFailures {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` names no exit codes; write all, or codes from 1 to 255 such as 1,2");
        match text.trim() {
            "all" => Ok(Self::All),
            codes => {
                let code = |code: &str| code.trim().parse().ok().filter(|code| (1..=255).contains(code));
                codes.split(',').map(code).collect::<Option<_>>().map(Self::Codes).ok_or_else(wrong)
            }
        }
    }
}

impl TryFrom<String> for IgnoredFailures {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        if text == "none" { Ok(Self::None) } else { text.parse() }
    }
}

impl From<IgnoredFailures> for String {
    fn from(ignored: IgnoredFailures) -> Self {
        match ignored {
            IgnoredFailures::None => "none".into(),
            IgnoredFailures::All => "all".into(),
            IgnoredFailures::Codes(codes) => codes.iter().map(i32::to_string).collect::<Vec<_>>().join(","),
        }
    }
}

/// One of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Step {
    /// Before the first run.
    Setup,
    /// Before each.
    Prepare,
    /// After each.
    Conclude,
    /// After the last.
    Cleanup,
}

/// Why a line did not do what it was for.
#[derive(Debug)]
pub(crate) enum StepError {
    /// A signal asked us to end.
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// It failed: how, and the end of what it said.
    Failed {
        /// How.
        cause: String,
        /// What it said.
        said: String,
    },
}

impl Preparation {
    /// Whether there is nothing of it.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The line of a step, if it has one.
    pub fn line(&self, step: Step) -> Option<&str> {
        match step {
            Step::Setup => self.setup.as_deref(),
            Step::Prepare => self.prepare.as_deref(),
            Step::Conclude => self.conclude.as_deref(),
            Step::Cleanup => self.cleanup.as_deref(),
        }
    }

    /// All lines.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        [Step::Setup, Step::Prepare, Step::Conclude, Step::Cleanup].into_iter().filter_map(|step| self.line(step))
    }

    /// Whether it can be kept in a journal, which keeps it as it is.
    ///
    /// # Errors
    /// What can't, in one sentence.
    pub(crate) fn check(&self, redaction: &Redaction) -> Result<(), PlanError> {
        if self.env.len() > MOST_JOBS {
            return Err(PlanError(format!("a subject has {MOST_JOBS} variables of its own at most")));
        }
        let is_secret = |line: &str| {
            let mut values = Vec::new();
            redaction.text(line, &mut values);
            !values.is_empty()
        };
        if self.lines().any(is_secret) {
            return Err(PlanError(
                "a line that prepares holds a secret value, and journals keep such lines as they are run; give the value by a file or a \
                 variable"
                    .into(),
            ));
        }
        match self.env.iter().find(|variable| redaction.hides(&variable.name)) {
            Some(Variable { name, .. }) => Err(PlanError(format!(
                "the value of {name} is secret, and journals keep variables that are given by --env; set it in stayput's own \
                 environment, which programs inherit"
            ))),
            None => Ok(()),
        }
    }

    /// Its variables for a program.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        self.env.iter().map(|variable| (variable.name.clone().into(), variable.value.clone().into())).collect()
    }

    /// Runs the line of a step, if there is one, as it is for a run with `threads` threads in `block`. Nothing that it started is left.
    pub(crate) fn run(&self, step: Step, (threads, block): (Shape, u32), timeout: Duration) -> Result<(), StepError> {
        let Some(line) = self.line(step) else { return Ok(()) };
        let argv = ["sh", "-c", &word_of_run(line, threads, block)].map(OsString::from).to_vec();
        let launched = launch(&Launch {
            output: Output::Capture,
            timeout: Some(timeout),
            descendants: Descendants::Kill,
            env: self.variables(),
            ..Launch::new(argv)
        });
        let launched = launched.map_err(|error| match error {
            LaunchError::Interrupted { signal } => StepError::Interrupted { signal },
            error => StepError::Failed { cause: format!("{step} can't be run: {error}"), said: String::new() },
        })?;
        let how = match launched.observation.exit {
            Exit::Code(0) => return Ok(()),
            Exit::Code(code) => format!("failed with exit code {code}"),
            Exit::Signal(signal) => format!("was killed by signal {signal}"),
            Exit::TimedOut => format!("ran longer than {timeout:?} and was killed"),
        };
        let said = format!("{}{}", launched.stdout.text(), launched.stderr.text());
        let last = said.lines().rfind(|line| !line.trim().is_empty()).map(|line| machine::quoted(line.trim()));
        let last = last.map_or_else(String::new, |line| format!("; the last line that it printed is `{line}`"));
        Err(StepError::Failed { cause: format!("{step} (`{line}`) {how}{last}"), said })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_codes_are_read_as_they_are_written_and_kept_so() {
        let variable: Variable = "A=b=c d".parse().unwrap();
        assert_eq!((variable.name.as_str(), variable.value.as_str()), ("A", "b=c d"));
        assert!(["A", "=b", "A B=c", ""].iter().all(|text| text.parse::<Variable>().is_err()));
        let codes: IgnoredFailures = "1, 3".parse().unwrap();
        assert!(codes.has(1) && codes.has(3) && !codes.has(2));
        assert!("all".parse::<IgnoredFailures>().unwrap().has(77));
        assert!(["", "0", "256", "x", "1,,2", "-1"].iter().all(|text| text.parse::<IgnoredFailures>().is_err()));
        let whole = Preparation {
            prepare: Some("sync".into()),
            env: vec![variable],
            ignored_failures: codes,
            ..Preparation::default()
        };
        let kept = serde_json::to_string(&whole).unwrap();
        assert_eq!(kept, r#"{"prepare":"sync","env":["A=b=c d"],"ignored_failures":"1,3"}"#);
        assert_eq!(serde_json::from_str::<Preparation>(&kept).unwrap(), whole);
        assert_eq!(serde_json::to_string(&Preparation::default()).unwrap(), "{}");
    }

    #[test]
    fn secrets_are_not_kept() {
        let redaction = Redaction::default();
        let with = |prepare: &str, env: &[&str]| Preparation {
            prepare: Some(prepare.into()),
            env: env.iter().map(|text| text.parse().unwrap()).collect(),
            ..Preparation::default()
        };
        assert!(with("curl --token abcdefgh", &[]).check(&redaction).is_err());
        assert!(with("true", &["API_KEY=x"]).check(&redaction).unwrap_err().0.contains("API_KEY"));
        assert_eq!(with("make clean", &["LANG=C"]).check(&redaction), Ok(()));
    }
}
