//! What is measured: a name, a unit, and when it is better.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// A quantity that samples have a number of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Metric {
    /// The quantity without its unit, such as `makespan`, or `effective_slice_median`.
    pub name: Cow<'static, str>,
    /// The part of it that is counted here; none for all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
    /// What it is counted in.
    pub unit: Unit,
    /// When it is better.
    pub better: Better,
    /// The job whose it is; none for all jobs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// A part of a quantity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// What has this cause, such as misses by `reload`.
    Cause(Cow<'static, str>),
    /// What happened within this level of the machine, such as migrations within an `l3`.
    Distance(Cow<'static, str>),
    /// What this ended, such as dispatch intervals that end with the `quantum`.
    End(Cow<'static, str>),
}

/// What a metric is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Pieces.
    Count,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// CPUs.
    Cpus,
    /// A share of a whole, from 0 to 1.
    Fraction,
    /// An index from 0 to 1 that is no share, such as Jain's.
    Index,
    /// Pieces a second.
    PerSecond,
    /// Pieces a millisecond of work.
    PerMs,
    /// Pieces of a thousand.
    PerThousand,
}

/// When a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// When it is lower, as times are.
    Lower,
    /// When it is higher, as throughputs are.
    Higher,
    /// Neither: it describes.
    Neither,
}

impl Unit {
    /// Units whose names end the names of their metrics; a count has no such end, nor has an index.
    const SUFFIXES: [(Self, &'static str); 7] = [
        (Self::PerSecond, "_per_s"),
        (Self::PerMs, "_per_ms"),
        (Self::PerThousand, "_per_1000"),
        (Self::Ms, "_ms"),
        (Self::Us, "_us"),
        (Self::Cpus, "_cpus"),
        (Self::Fraction, "_fraction"),
    ];

    /// How names of metrics in this unit end.
    pub fn suffix(self) -> &'static str {
        Self::SUFFIXES.iter().find(|(unit, _)| *unit == self).map_or("", |(_, suffix)| suffix)
    }

    /// The least and the largest number that there can be. Intervals of few samples can reach beyond.
    pub fn range(self) -> (f64, f64) {
        (0.0, if matches!(self, Self::Fraction | Self::Index) { 1.0 } else { f64::INFINITY })
    }
}

/// Indices by name: nothing in the name tells them from counts.
const INDICES: [&str; 2] = ["jain_index", "cpu_time_least_over_most"];

/// Quantities that are counted by cause, and the causes.
const CAUSES: [(&str, &[&str]); 2] = [
    ("misses", &["reload", "steady", "invalidation", "first_use"]),
    ("moves", &["voluntary", "forced", "within", "resumed"]),
];

/// How the names of quantities begin of which less is better.
const LOWER: [&str; 14] = [
    "misses",
    "makespan",
    "mean_completion",
    "completion",
    "process_time",
    "response",
    "wait",
    "longest_wait",
    "wake_late",
    "stalled",
    "switches",
    "migrations",
    "l2_",
    "l3_",
];

impl Metric {
    /// A quantity of which less is better.
    pub const fn lower(name: &'static str, unit: Unit) -> Self {
        Self { name: Cow::Borrowed(name), by: None, unit, better: Better::Lower, job: None }
    }

    /// A quantity of which more is better.
    pub const fn higher(name: &'static str, unit: Unit) -> Self {
        Self { name: Cow::Borrowed(name), by: None, unit, better: Better::Higher, job: None }
    }

    /// A quantity that is neither better when lower nor when higher.
    pub const fn neutral(name: &'static str, unit: Unit) -> Self {
        Self { name: Cow::Borrowed(name), by: None, unit, better: Better::Neither, job: None }
    }

    /// The part of it that has this cause, distance or end.
    pub fn by(&self, by: By) -> Self {
        Self { by: Some(by), ..self.clone() }
    }

    /// The same of one job.
    pub fn of_job(&self, job: &str) -> Self {
        Self { job: Some(job.to_owned()), ..self.clone() }
    }

    /// The same of all jobs together.
    pub fn of_all_jobs(&self) -> Self {
        Self { job: None, ..self.clone() }
    }

    /// Its name without unit and job: `misses_reload`, `migrations_within_l3`.
    pub fn stem(&self) -> String {
        match &self.by {
            None => self.name.to_string(),
            Some(By::Cause(cause)) => format!("{}_{cause}", self.name),
            Some(By::Distance(level)) => format!("{}_within_{level}", self.name),
            Some(By::End(end)) => format!("{}_by_{end}", self.name),
        }
    }

    /// The metric whose written form is `text`, as programs and journals of versions before 3 name it.
    pub fn from_name(text: &str) -> Self {
        let (stem, job) = match text.split_once(':') {
            Some((stem, job)) => (stem, Some(job.to_owned())),
            None => (text, None),
        };
        let with_suffix = Unit::SUFFIXES.iter().find_map(|(unit, suffix)| Some((*unit, stem.strip_suffix(suffix)?)));
        let (unit, stem) = match with_suffix {
            Some(found) => found,
            None if INDICES.contains(&stem) => (Unit::Index, stem),
            None => (Unit::Count, stem),
        };
        let by_cause = CAUSES.iter().find_map(|(name, causes)| {
            let cause = stem.strip_prefix(name)?.strip_prefix('_')?;
            Some((*name, causes.iter().find(|known| **known == cause)?))
        });
        let owned = |text: &str| Cow::Owned(text.to_owned());
        let (name, by) = if let Some((name, cause)) = by_cause {
            (name, Some(By::Cause(owned(cause))))
        } else if let Some((name, level)) = stem.split_once("_within_") {
            (name, Some(By::Distance(owned(level))))
        } else if let Some(end) = stem.strip_prefix("ended_by_") {
            ("ended", Some(By::End(owned(end))))
        } else {
            (stem, None)
        };
        let better = if LOWER.iter().any(|lower| name.starts_with(lower)) {
            Better::Lower
        } else if unit == Unit::Index {
            Better::Higher
        } else {
            Better::Neither
        };
        Self { name: owned(name), by, unit, better, job }
    }
}

/// Its name with unit and job, as programs read it: `misses_reload:Matrix`.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.stem(), self.unit.suffix())?;
        self.job.iter().try_for_each(|job| write!(f, ":{job}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_quantity_part_unit_and_job() {
        let metric = Metric::from_name("migrations_within_l3:Matrix");
        assert_eq!(metric.name, "migrations");
        assert_eq!(metric.by, Some(By::Distance("l3".into())));
        assert_eq!((metric.unit, metric.job.as_deref()), (Unit::Count, Some("Matrix")));
        let ended = Metric::neutral("ended", Unit::Fraction).by(By::End("quantum".into()));
        assert_eq!(ended.to_string(), "ended_by_quantum_fraction");
        assert_eq!(Metric::from_name("ended_by_quantum_fraction"), ended);
        assert_eq!(Metric::from_name("makespan_ms"), Metric::lower("makespan", Unit::Ms));
        assert_eq!(Metric::from_name("jain_index"), Metric::higher("jain_index", Unit::Index));
    }

    #[test]
    fn names_are_read_back_as_they_were_written() {
        let names = [
            "misses",
            "misses_reload:A",
            "moves_voluntary",
            "moves",
            "moves_lost",
            "effective_slice_median_ms",
            "effective_slices",
            "migrations_per_s",
            "reload_resumed_mean_us",
            "l2_reload_misses_per_1000",
            "allocation_mean_cpus:MVA",
            "completion_ms:a job: with a colon",
        ];
        for name in names {
            assert_eq!(Metric::from_name(name).to_string(), name);
        }
    }

    #[test]
    fn shares_and_indices_end_at_one() {
        assert_eq!(Metric::from_name("idle_fraction").unit.range().1, 1.0);
        assert_eq!(Metric::from_name("cpu_time_least_over_most").unit.range().1, 1.0);
        assert_eq!(Metric::from_name("misses").unit.range(), (0.0, f64::INFINITY));
    }
}
