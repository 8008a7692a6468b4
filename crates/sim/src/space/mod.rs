//! Space sharing: jobs hold CPUs, and an allocator moves CPUs from job to job.

pub mod allocator;
pub mod book;
mod engine;
pub mod experiment;
pub mod graph;
#[cfg(test)]
mod laws;
pub mod mix;
pub mod outcome;
pub mod policy;
mod progress;

pub use allocator::Allocator;
pub use book::Book;
pub use experiment::Experiment;
pub use graph::{Graph, Listed, Stage, Tasks};
pub use mix::{Kind, Mix, MixError};
pub use outcome::{Account, Cause, Change, Event, JobIndex, JobOutcome, Moves, Outcome};
pub use policy::{Parameters, ParsePolicyError, Policy, Rules};
