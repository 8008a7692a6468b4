//! Simulations, and replays beside their simulations, as studies.
//!
//! In go a plan and a machine; out come samples in a session of a study, and what they say of the policies, as numbers. It uses all
//! cores, or the nodes of a cluster, and starts no program: replays are run by the crate `replay`, and only planned and analysed here.

#![forbid(unsafe_code)]

pub mod analysis;
pub mod metrics;
pub mod plan;
pub mod replays;
pub mod results;
pub mod run;
pub mod sharing;
pub mod slurm;
pub mod space;
pub mod verdict;

pub use analysis::{SimulationAnalysis, SimulationVerdict, simulation_analysis};
pub use plan::{Point, Simulation, SimulationError, SimulationPlan, SweepPoint};
pub use replays::{Kernel, ReplayAnalysis, ReplayPlan, ReplayResult, ReplayVerdict, ReplayedPolicy, replay_analysis};
pub use results::{Estimated, PointResult, PolicyResult, TimeBin};
pub use run::{RunError, simulate};
pub use sharing::Sharing;
pub use space::verdict::{MATTERS_PERCENT, SpaceSharingVerdict, affinity_matters_at, affinity_matters_from};
pub use verdict::{Change, ChangeAt, Direction, TimeSharingVerdict};
