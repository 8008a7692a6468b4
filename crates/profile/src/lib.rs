//! A program that runs goes in; a [`Profile`] comes out: how long it has a CPU at a time, what ends that, what runs in between,
//! how long it waits, where it moves. That is what the cache-affinity report asks of a workload before it says what affinity
//! can gain.

pub mod agreement;
mod barriers;
pub mod caching;
mod call_kinds;
pub mod collector;
mod counts;
mod dialogue;
pub mod evictor;
pub mod histogram;
mod intf;
mod kinds;
pub mod live;
pub mod means;
mod period;
pub mod potential;
mod privileges;
pub mod profile;
mod records;
pub mod reload;
mod survival;
pub mod text;
pub mod trace;
pub mod watching;
pub mod working_set;
pub mod workload;

pub use agreement::{Inferred, ProgramAgreement, WaitAgreement};
pub use collector::{Collector, Refused, Watched};
pub use histogram::{Histogram, TimeBin};
pub use live::{Live, Look};
pub use means::Means;
pub use profile::{CallKind, Potential, Profile, Program};
pub use watching::{ProfileError, Profiled, Target, profile};
pub use working_set::Looks;
