//! What runs of a program are compared by.

use serde::{Deserialize, Serialize};
use stats::Better;
use std::fmt;

/// A quantity by which the runs of a program are compared. (What simulations count is a [`stats::Metric`], whose units are few and
/// known; a program may count in any.)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// The quantity without its unit: `time`.
    pub name: String,
    /// What it is counted in, as it is written after a number; none for a bare number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// When it is better. Ratios are turned so that above 1 is better.
    pub better: Better,
    /// A regular expression whose first group is its number in the program's output, where it is found there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
}

impl Metric {
    /// One that isn't looked for in the program's output.
    pub fn new(name: impl Into<String>, unit: Option<&str>, better: Better) -> Self {
        Self { name: name.into(), unit: unit.map(str::to_owned), better, regex: None }
    }
}

/// Who takes the time of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// We do, from the program's first instruction to its end.
    Wall,
    /// The program, which says it in its output.
    Program,
    /// Nobody: a model draws it.
    Model,
}

/// The time of a run in seconds, of which less is better: what every study compares by.
impl Default for Metric {
    fn default() -> Self {
        Self::new("time", Some("s"), Better::Lower)
    }
}

/// Its name with its unit: `time [s]`.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.unit.iter().try_for_each(|unit| write!(f, " [{unit}]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_called_by_its_name_and_its_unit() {
        assert_eq!(Metric::default().to_string(), "time [s]");
        let bare = Metric::new("score", None, Better::Higher);
        assert_eq!(bare.to_string(), "score");
        assert_eq!(serde_json::to_string(&bare).unwrap(), r#"{"name":"score","better":"higher"}"#);
    }
}
