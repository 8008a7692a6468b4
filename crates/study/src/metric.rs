//! What runs of a program are compared by.

use crate::bounds::compiled;
use crate::plan::PlanError;
use serde::{Deserialize, Serialize};
use stats::Better;
use std::fmt;
use std::str::FromStr;

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
    /// A regular expression whose first group is its number in the program's output, or in `file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// A JSON pointer (RFC 6901) to its number in the program's output, or in `file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// The file that each run writes it to, where it isn't in the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Whether a run may go well without it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_optional: bool,
}

impl Metric {
    /// One that isn't looked for in what the program writes.
    pub fn new(name: impl Into<String>, unit: Option<&str>, better: Better) -> Self {
        let unit = unit.map(str::to_owned);
        Self { name: name.into(), unit, better, regex: None, json: None, file: None, is_optional: false }
    }

    /// Whether its number is looked for in what the program writes. Of others it is the time, or comes of what was observed.
    pub fn is_written(&self) -> bool {
        self.regex.is_some() || self.json.is_some()
    }

    /// `value` turned so that less is better, as times are: itself, or one over it.
    pub fn cost(&self, value: f64) -> f64 {
        if self.better == Better::Higher { value.recip() } else { value }
    }

    /// Whether a number can be found as it says.
    ///
    /// # Errors
    /// What is wrong, in one sentence.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let of = |what: String| PlanError(format!("metric `{}`: {what}", self.name));
        match (&self.regex, &self.json) {
            (Some(pattern), None) => match compiled(pattern).map_err(|error| of(error.0))?.captures_len() {
                0 | 1 => Err(of(format!("`{pattern}` has no group; put the number in parentheses"))),
                _ => Ok(()),
            },
            (None, Some(pointer)) if !pointer.starts_with('/') => {
                Err(of(format!("`{pointer}` is no JSON pointer; write it as /a/b")))
            }
            (Some(_), Some(_)) => {
                Err(of("it is found by a regular expression or by a JSON pointer, not by both".into()))
            }
            _ => Ok(()),
        }
    }
}

/// Names that are taken: what is measured of every run, and of every mix.
const TAKEN: [&str; 2] = [TIME, "makespan"];

const HOW: &str =
    "write NAME [UNIT] higher|lower = \"REGEX\", or json:/a/b or file:PATH:json:/a/b in place of the expression";

/// As people write it: `tps higher = "tps = ([0-9.]+)"`, `p95 [ms] lower = json:/latency/p95`.
impl FromStr for Metric {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| Err(format!("`{text}` {what}; {HOW}"));
        let Some((what, source)) = text.split_once('=') else { return wrong("does not say where its number is") };
        let what = what.trim();
        let (name, better) = match what.rsplit_once(char::is_whitespace) {
            Some((name, "higher")) => (name.trim(), Better::Higher),
            Some((name, "lower")) => (name.trim(), Better::Lower),
            _ if ["higher", "lower"].contains(&what) => return wrong("does not say what its number is called"),
            _ => return wrong("does not say whether higher or lower is better"),
        };
        let (name, unit) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            Some((name, unit)) if !unit.trim().is_empty() => (name.trim(), Some(unit.trim())),
            Some(_) => return wrong("has brackets without a unit"),
            None => (name, None),
        };
        if name.is_empty() || name.contains(['[', ']']) {
            return wrong("has no name before its unit");
        }
        if TAKEN.contains(&name) {
            return Err(format!("`{name}` is measured of every run; give the metric another name"));
        }
        let source = source.trim();
        let (file, source) = match source.strip_prefix("file:") {
            None => (None, source),
            // A path may have colons; what comes after it begins in one of few ways.
            Some(rest) => match [":json:", ":\"", ":'"].iter().filter_map(|start| rest.find(start)).min() {
                Some(at) if at > 0 => (Some(rest[..at].to_owned()), &rest[at + 1..]),
                _ => return wrong("names a file, and not what to look for in it"),
            },
        };
        let is_quoted = |quote| source.len() > 1 && source.starts_with(quote) && source.ends_with(quote);
        let metric = Self { file, ..Self::new(name, unit, better) };
        let metric = match source.strip_prefix("json:") {
            Some(pointer) => Self { json: Some(pointer.to_owned()), ..metric },
            None if source.is_empty() => return wrong("does not say where its number is"),
            None => {
                let pattern = if is_quoted('"') || is_quoted('\'') { &source[1..source.len() - 1] } else { source };
                Self { regex: Some(pattern.to_owned()), ..metric }
            }
        };
        metric.check().map(|()| metric).map_err(|error| error.0)
    }
}

/// By what the runs of a program are compared where `metrics` are given, and what else is told of them: compared is by the one that is
/// called `primary`, or `time`; else by the first. The time of a run is told of all.
///
/// # Errors
/// When there is none of that name, in one sentence.
pub(crate) fn primary_and_others(
    metrics: Vec<Metric>,
    primary: Option<&str>,
) -> Result<(Metric, Vec<Metric>), PlanError> {
    let time = Metric::default();
    let Some(first) = metrics.first() else {
        return match primary {
            Some(name) if name != time.name => Err(PlanError(format!("there is no metric `{name}` to compare by"))),
            _ => Ok((time, metrics)),
        };
    };
    let name = primary.unwrap_or(&first.name);
    if name == time.name {
        return Ok((time, metrics));
    }
    let Some(at) = metrics.iter().position(|metric| metric.name == name) else {
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).chain([time.name.as_str()]).collect();
        return Err(PlanError(format!("there is no metric `{name}` to compare by; there are {}", names.join(", "))));
    };
    let mut others = metrics;
    let primary = others.remove(at);
    others.insert(0, time);
    Ok((primary, others))
}

/// Who takes the time of a run, or tells what else it is compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// We do, from the program's first instruction to its end.
    Wall,
    /// The program, which says it in its output.
    Program,
    /// The program, which writes it to a file.
    File,
    /// Nobody: a model draws it.
    Model,
}

/// What the time of a run is called.
pub(crate) const TIME: &str = "time";

/// The time of a run in seconds, of which less is better: what every study compares by.
impl Default for Metric {
    fn default() -> Self {
        Self::new(TIME, Some("s"), Better::Lower)
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

    #[test]
    fn a_metric_is_read_as_people_write_it() {
        let read = |text: &str| text.parse::<Metric>().unwrap();
        let tps = read(r#"tps higher = "tps = ([0-9.]+)""#);
        assert_eq!((tps.to_string().as_str(), tps.better), ("tps", Better::Higher));
        assert_eq!(tps.regex.as_deref(), Some("tps = ([0-9.]+)"));
        let p95 = read("latency p95 [ms] lower = json:/latency/p95");
        assert_eq!((p95.to_string().as_str(), p95.better), ("latency p95 [ms]", Better::Lower));
        assert_eq!((p95.json.as_deref(), p95.file), (Some("/latency/p95"), None));
        let filed = read("rate[MB/s] higher=file:out:1.txt:'rate: (.*)'");
        assert_eq!((filed.file.as_deref(), filed.regex.as_deref()), (Some("out:1.txt"), Some("rate: (.*)")));
        assert_eq!(filed.unit.as_deref(), Some("MB/s"));
        assert_eq!(read("rate higher = file:o.json:json:/a").file.as_deref(), Some("o.json"));
        for (text, part) in [
            ("tps", "where its number is"),
            ("tps higher", "where its number is"),
            ("tps higher =", "where its number is"),
            ("tps = \"(.*)\"", "higher or lower"),
            ("higher = \"(.*)\"", "what its number is called"),
            ("[ms] higher = \"(.*)\"", "no name"),
            ("tps [] higher = \"(.*)\"", "without a unit"),
            ("time lower = \"(.*)\"", "every run"),
            ("tps higher = \"tps\"", "no group"),
            ("tps higher = \"(\"", "metric `tps`"),
            ("tps higher = json:a/b", "JSON pointer"),
            ("tps higher = file:out.txt", "what to look for"),
        ] {
            let told = text.parse::<Metric>().unwrap_err();
            assert!(told.contains(part), "{text}: {told}");
        }
    }

    #[test]
    fn compared_is_by_the_first_or_the_named_one_and_the_time_is_told_anyway() {
        let metrics = || ["tps", "p95"].map(|name| Metric::new(name, None, Better::Higher)).to_vec();
        let names = |primary| {
            let (first, others) = primary_and_others(metrics(), primary).unwrap();
            std::iter::once(first).chain(others).map(|metric| metric.name).collect::<Vec<_>>()
        };
        assert_eq!(names(None), ["tps", "time", "p95"]);
        assert_eq!(names(Some("p95")), ["p95", "time", "tps"]);
        assert_eq!(names(Some("time")), ["time", "tps", "p95"]);
        let told = primary_and_others(metrics(), Some("p99")).unwrap_err().0;
        assert_eq!(told, "there is no metric `p99` to compare by; there are tps, p95, time");
        assert_eq!(primary_and_others(Vec::new(), None), Ok((Metric::default(), Vec::new())));
    }
}
