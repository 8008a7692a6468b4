//! Space sharing: jobs hold CPUs, and an allocator moves CPUs from job to job.

pub mod graph;
pub mod mix;

pub use graph::{Graph, Listed, Stage, Tasks};
pub use mix::{Kind, Mix, MixError};
