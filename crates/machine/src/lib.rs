//! Machines as trees, and placements of threads on them.
//!
//! A machine is read once ([`Machine`](tree::Machine)) and never changes; after hotplug, read a new one.

pub mod cpu;
pub mod placement;

pub use cpu::{CpuId, CpuSet, ParseCpuSetError};
pub use placement::Placement;
