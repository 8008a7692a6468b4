//! What a simulation shows, and what may be said of it.

use crate::plan::SimulationPlan;
use crate::results::{PointResult, point_results};
use crate::sharing::Sharing;
use crate::space::verdict::SpaceSharingVerdict;
use crate::verdict::{TimeSharingVerdict, warnings};
use serde::Serialize;
use study::{Record, Warning};

/// All that is concluded from a record of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulationAnalysis {
    /// What was seen at each point of the sweep, or at the only one.
    pub points: Vec<PointResult>,
    /// The answer with its doubt.
    pub verdict: Option<SimulationVerdict>,
    /// What limits the results.
    pub warnings: Vec<Warning>,
}

/// What a simulation shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SimulationVerdict {
    /// Of processes that take turns on CPUs.
    #[serde(rename = "simulation")]
    TimeSharing(TimeSharingVerdict),
    /// Of jobs that hold CPUs.
    SpaceSharing(SpaceSharingVerdict),
}

/// What a simulation shows; the same record gives the same conclusions.
pub fn simulation_analysis(record: &Record<SimulationPlan>) -> SimulationAnalysis {
    let points = point_results(record);
    let verdict = match record.plan.first().map(|simulation| &simulation.sharing) {
        Some(Sharing::Space { .. }) => SpaceSharingVerdict::new(&points).map(SimulationVerdict::SpaceSharing),
        _ => TimeSharingVerdict::new(&points, record.plan.reference_kernel()).map(SimulationVerdict::TimeSharing),
    };
    SimulationAnalysis { verdict, warnings: warnings(record, &points), points }
}
