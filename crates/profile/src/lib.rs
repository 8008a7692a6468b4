//! A program that runs goes in; a [`Profile`] comes out: how long it has a CPU at a time, what ends that, what runs in between,
//! how long it waits, where it moves. That is what the cache-affinity report asks of a workload before it says what affinity
//! can gain.

pub mod histogram;
pub mod profile;

pub use histogram::{Histogram, TimeBin};
pub use profile::{CallKind, Profile, Program};
