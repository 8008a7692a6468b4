//! What becomes of accumulated ticks with time.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What becomes of the accumulated ticks at the end of each decay period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// They stay.
    None,
    /// They are halved, as in System V.
    Half,
    /// They are multiplied by 2L / (2L + 1), as in 4.3BSD. L is the load average: processes running or runnable for each
    /// CPU, averaged over the last minute.
    Bsd,
    /// So many are taken away.
    Subtract(u32),
}

/// Ticks that `subtract` takes away: what each of two processes that share a CPU accumulates in a second.
const SUBTRACTED_TICKS: u32 = 50;

impl Decay {
    /// The rule's value in `enum stayput_decay`, and the ticks that it takes away.
    pub fn rule(self) -> (u32, u32) {
        match self {
            Self::None => (0, 0),
            Self::Half => (1, 0),
            Self::Bsd => (2, 0),
            Self::Subtract(ticks) => (3, ticks),
        }
    }
}

/// As on the command line.
impl fmt::Display for Decay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Half => f.pad("half"),
            Self::Bsd => f.pad("bsd"),
            Self::Subtract(ticks) => write!(f, "subtract={ticks}"),
        }
    }
}

/// A text that is no decay rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no decay rule; write half, bsd, none, subtract or subtract=TICKS")]
pub struct ParseDecayError(String);

impl FromStr for Decay {
    type Err = ParseDecayError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "half" => Ok(Self::Half),
            "bsd" => Ok(Self::Bsd),
            "subtract" => Ok(Self::Subtract(SUBTRACTED_TICKS)),
            other => {
                let ticks = other.strip_prefix("subtract=").and_then(|ticks| ticks.parse().ok());
                ticks.map(Self::Subtract).ok_or_else(|| ParseDecayError(other.into()))
            }
        }
    }
}
