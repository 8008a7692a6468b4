//! What runs beside a program for as long as it does.
//!
//! The command is started before the program, by a [supervisor](crate::supervisor) that ends it with all that it started when
//! the program has ended, or when we are gone. It may use all CPUs that we may. It is in force from when it has settled, which is when it
//! has run for [`SETTLING`], and as long as one of its processes lives; where its own process ends, it has to do so with success,
//! as daemons do.

use crate::supervisor::{Charge, Ended, Supervisor};
use crate::{LaunchError, executable_path};
use machine::linux::Pid;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// So long a command has to run before the program begins: most have their processes and their memory by then.
const SETTLING: Duration = Duration::from_millis(100);

/// What has ended is told of within this.
const LONGEST_WORD: Duration = Duration::from_secs(1);

/// A command that runs beside a program, as it was written: `stress-ng --cache 2`. Words are told apart as shells do, and
/// nothing else of a shell is done: `sh -c '...'` does that.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Company {
    command: String,
}

impl fmt::Display for Company {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.command)
    }
}

/// A text that is no command to run beside a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseCompanyError {
    /// No program is named.
    #[error("no command to run beside the program is named; write one, as in 'stress-ng --cache 2', or `none`")]
    Empty,
    /// A quote is open at the end, or a backslash is the last character.
    #[error("in the command `{0}`, to run beside the program, a quote is not closed, or nothing follows a backslash")]
    Unbalanced(String),
    /// No argument can hold that.
    #[error("the command `{0}`, to run beside the program, holds a NUL byte, which no argument can")]
    NulByte(String),
}

impl FromStr for Company {
    type Err = ParseCompanyError;

    fn from_str(text: &str) -> Result<Self, ParseCompanyError> {
        let command = text.trim();
        if command.contains('\0') {
            return Err(ParseCompanyError::NulByte(machine::quoted(&command.replace('\0', "\\0"))));
        }
        match shell_words::split(command).map_err(|_| ParseCompanyError::Unbalanced(machine::quoted(command)))?.first()
        {
            Some(name) if !name.is_empty() => Ok(Self { command: command.to_owned() }),
            _ => Err(ParseCompanyError::Empty),
        }
    }
}

crate::text_in_journals!(Company);

impl Company {
    /// The program and its arguments; never empty.
    pub fn argv(&self) -> Vec<String> {
        shell_words::split(&self.command).unwrap_or_default()
    }

    /// Why it can't be started here, in a sentence.
    pub fn lacking(&self) -> Option<String> {
        let argv = self.argv();
        executable_path(OsStr::new(argv.first()?)).err().map(|error| self.unstartable(&error))
    }

    fn unstartable(&self, error: &LaunchError) -> String {
        format!("its company '{self}' can't be started: {error}")
    }

    /// Starts it, and returns when it has settled or has ended before.
    pub(crate) fn begin(&self) -> Result<CompanyInForce, LaunchError> {
        let unstartable = |error: LaunchError| LaunchError::Conditions(self.unstartable(&error));
        let argv: Vec<OsString> = self.argv().into_iter().map(Into::into).collect();
        let path = executable_path(argv.first().ok_or(LaunchError::NoProgram)?).map_err(unstartable)?;
        let mut supervisor = Supervisor::start(Charge::Command(path, argv)).map_err(unstartable)?;
        supervisor.ended_within(SETTLING);
        let before_s = cpu_s(supervisor.pid);
        Ok(CompanyInForce { company: self.clone(), supervisor, before_s })
    }
}

/// What was seen of the company.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompanyObservation {
    /// CPU time that its processes used while the program ran, in seconds; in steps of the kernel's clock, mostly 0.01 s each.
    pub cpu_s: f64,
    /// How many processes it had when the program ended.
    pub processes: u32,
}

/// The company while it runs; dropped, it is killed with all that it started.
pub(crate) struct CompanyInForce {
    company: Company,
    supervisor: Supervisor,
    /// What it had used when it had settled.
    before_s: f64,
}

impl CompanyInForce {
    /// What it has used since it had settled, and what there is of it now.
    pub(crate) fn observation(&self) -> CompanyObservation {
        let used_s = cpu_s(self.supervisor.pid) - self.before_s;
        let processes = self.supervisor.pid.descendants().len() as u32;
        CompanyObservation { cpu_s: used_s.max(0.0), processes }
    }

    /// Why it doesn't run (any more), in a sentence.
    pub(crate) fn lost(&mut self) -> Option<String> {
        // Its end may be known to all but the one who tells of it.
        let is_gone = self.supervisor.pid.descendants().is_empty();
        let ended = self.supervisor.ended_within(if is_gone { LONGEST_WORD } else { Duration::ZERO })?;
        Some(sentence(&self.company, ended))
    }
}

/// CPU time of the supervisor and of all that descends from it, those that have ended included, in seconds.
fn cpu_s(supervisor: Pid) -> f64 {
    supervisor.descendants().into_iter().chain([supervisor]).filter_map(Pid::cpu_s).sum()
}

fn sentence(company: &Company, ended: &Ended) -> String {
    let (how, last_words) = (ended.how(), ended.last_words());
    format!("its company '{company}' ended after {:.1} s {how}, before the program did{last_words}", ended.after_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_a_command_or_a_sentence(text in any::<String>()) {
            match text.parse::<Company>() {
                Ok(company) => {
                    prop_assert!(!company.argv()[0].is_empty());
                    prop_assert_eq!(company.to_string().parse::<Company>(), Ok(company));
                }
                Err(error) => prop_assert_eq!(error.to_string().contains('\0'), false),
            }
        }
    }

    #[test]
    fn words_are_told_apart_as_shells_do() {
        let argv = |text: &str| text.parse::<Company>().unwrap().argv();
        assert_eq!(argv(" stress-ng --cache 2 "), ["stress-ng", "--cache", "2"]);
        assert_eq!(argv("sh -c 'a b; c' \"\" $x"), ["sh", "-c", "a b; c", "", "$x"]);
        let company: Company = "a  'b c'".parse().unwrap();
        assert_eq!(company.to_string(), "a  'b c'");
        let json = serde_json::to_string(&company).unwrap();
        assert_eq!(serde_json::from_str::<Company>(&json).unwrap(), company);
    }

    #[test]
    fn what_is_no_command_is_told_in_a_sentence() {
        for (text, sentence) in [
            ("", "no command to run beside the program is named; write one, as in 'stress-ng --cache 2', or `none`"),
            (
                " \t\n",
                "no command to run beside the program is named; write one, as in 'stress-ng --cache 2', or `none`",
            ),
            ("''", "no command to run beside the program is named; write one, as in 'stress-ng --cache 2', or `none`"),
            ("# a", "no command to run beside the program is named; write one, as in 'stress-ng --cache 2', or `none`"),
            (
                "sh -c 'a",
                "in the command `sh -c 'a`, to run beside the program, a quote is not closed, or nothing follows a backslash",
            ),
            (
                "a \"b",
                "in the command `a \"b`, to run beside the program, a quote is not closed, or nothing follows a backslash",
            ),
            ("a\0b", "the command `a\\0b`, to run beside the program, holds a NUL byte, which no argument can"),
        ] {
            assert_eq!(text.parse::<Company>().unwrap_err().to_string(), sentence, "{text:?}");
        }
    }

    #[test]
    fn how_it_ended_is_told_with_its_last_words() {
        let company: Company = "stress-ng --cache 2".parse().unwrap();
        let ended = |status, said: &str| Ended { status, after_s: 0.32, said: said.as_bytes().to_vec() };
        let told = |ended| sentence(&company, &ended);
        assert_eq!(
            told(ended(Some(1 << 8), "one\n no memory \n\n")),
            "its company 'stress-ng --cache 2' ended after 0.3 s with exit code 1, before the program did: \"no memory\""
        );
        assert_eq!(
            told(ended(Some(libc::SIGKILL), "")),
            "its company 'stress-ng --cache 2' ended after 0.3 s by SIGKILL, before the program did"
        );
        assert!(told(ended(Some(libc::SIGRTMIN() + 3), "")).contains("by signal 37, before"));
        assert!(told(ended(None, "")).contains("with the process that watched it, which was killed, before"));
    }
}
