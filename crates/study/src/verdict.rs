//! What a study comes to, as values: what is shown, by how much, and with which doubt. `report` writes them as sentences.

mod comparison;
mod race;

pub use comparison::{ComparisonHeadline, ComparisonVerdict, Difference, PlacementVerdict};
pub use race::{RaceFinding, RaceOutcome, RaceVerdict, Slowest};

use crate::play::ReplayVerdict;
use crate::simulation::{SimulationVerdict, SpaceSharingVerdict};
use serde::{Deserialize, Serialize};

/// What a study comes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Verdict {
    /// Placements of one subject compared with the reference.
    Comparison(ComparisonVerdict),
    /// The race for the best placement of one subject.
    Race(RaceVerdict),
    /// Policies of time sharing, simulated.
    Simulation(SimulationVerdict),
    /// Policies of space sharing, simulated.
    SpaceSharing(SpaceSharingVerdict),
    /// A workload replayed in a kernel, and simulated beside it.
    Replay(ReplayVerdict),
}

/// A thread count under one treatment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// Thread count.
    pub threads: u32,
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
