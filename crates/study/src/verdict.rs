//! What a study comes to, as values: what is shown, by how much, and with which doubt. `report` writes them as sentences.

mod comparison;
mod emulated;
mod headline;
mod race;

pub use comparison::{ComparisonHeadline, ComparisonVerdict, Difference, PlacementVerdict};
pub use emulated::{EmulatedVerdict, MetricVerdict};
pub use headline::Headline;
pub use race::{CutOff, RaceFinding, RaceOutcome, RaceVerdict, Slowest};

use crate::shape::Shape;
use serde::{Deserialize, Serialize};
use stats::Disturbance;

/// What a study comes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Verdict {
    /// Placements of one subject compared with the reference.
    Comparison(ComparisonVerdict),
    /// The race for the best placement of one subject.
    Race(RaceVerdict),
    /// Placements of one subject compared by what was counted in an emulated machine.
    Emulated(EmulatedVerdict),
    /// Nothing is said of one subject.
    Refused(RefusedVerdict),
}

/// That what a program reports as its time can't be that: it falls where its runs take longer, also under the same placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RefusedVerdict {
    /// Name of the subject.
    pub subject: String,
    /// Kendall's rank correlation of what is reported and the time taken, from -1.
    pub correlation: f64,
    /// Runs that say so.
    pub runs: u32,
}

impl Verdict {
    /// Name of the subject.
    pub fn subject(&self) -> &str {
        match self {
            Self::Comparison(verdict) => &verdict.subject,
            Self::Race(verdict) => &verdict.subject,
            Self::Emulated(verdict) => &verdict.subject,
            Self::Refused(verdict) => &verdict.subject,
        }
    }

    /// What else may have made the effect that it headlines: it was then measured on a busy machine.
    pub fn disturbances(&self) -> &[Disturbance] {
        match self {
            Self::Comparison(verdict) => verdict.headline.disturbances(),
            Self::Race(verdict) => verdict.outcome.as_ref().map_or(&[], |outcome| &outcome.disturbances),
            Self::Emulated(_) | Self::Refused(_) => &[],
        }
    }
}

/// A thread count under one treatment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// Thread count.
    pub threads: Shape,
    /// Name of the treatment.
    pub placement: String,
}

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}
