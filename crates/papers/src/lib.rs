//! What papers print and claim, beside what we get.
//!
//! In goes what a paper prints (`papers/printed/*.toml`, embedded) and, where it was run here, the record of its study; out comes a
//! [`Reproduction`]: its tables with ours next to every printed number, its figures, and a verdict on each claim. What we get is
//! simulated or fitted when it is asked for. Nothing is read from disk, written or started.

mod cache_affinity;
mod case;
mod cells;
pub mod contention;
mod evidence;
mod interval;
mod itself;
mod live;
mod machine_claims;
pub mod paper;
mod placement;
mod placement_claims;
mod printed;
mod references;
pub mod reproduction;
mod scheduler_claims;
mod simulated;
mod space_sharing;

pub use cache_affinity::cache_affinity;
pub use contention::Contention;
pub use live::Live;
pub use paper::Paper;
pub use placement::placement;
pub use reproduction::Reproduction;
