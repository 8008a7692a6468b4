//! What runs beside a program for as long as it does.

use crate::LaunchError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A command that runs beside a program, as it was written: `stress-ng --cache 2`.
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

impl FromStr for Company {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self { command: text.trim().to_owned() })
    }
}

crate::text_in_journals!(Company);

impl Company {
    /// Why it can't be started here, in a sentence.
    pub fn lacking(&self) -> Option<String> {
        None
    }

    /// Starts it, and returns when it has settled.
    pub(crate) fn begin(&self) -> Result<CompanyInForce, LaunchError> {
        Ok(CompanyInForce {})
    }
}

/// What was seen of the company.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompanyObservation {}

/// The company while it runs; dropped, it is killed with all that it started.
pub(crate) struct CompanyInForce {}

impl CompanyInForce {
    /// Why it doesn't run (any more), in a sentence.
    pub(crate) fn lost(&mut self) -> Option<String> {
        None
    }
}
