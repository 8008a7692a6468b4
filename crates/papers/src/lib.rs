//! What papers print and claim, beside what we get.
//!
//! In goes what a paper prints (`papers/printed/*.toml`, embedded) and, where its study was run here, the record of it; out comes a
//! [`Reproduction`]: the paper's tables with ours next to every printed number, its figures, and a verdict on each claim. What we get
//! is simulated ([`cache_affinity()`]) or predicted by a fitted model ([`placement()`]) when it is asked for. It may read a journal
//! ([`own_study`]), and writes and starts nothing.
//!
//! What comes out is typed, and `report` says it in sentences, but for three kinds of text: the names and captions that a table has
//! from the paper, or of ours in the same words; where its study departs from the paper's, which the plan keeps as sentences; and each claim's `why`. A `why` is made where the claim is checked,
//! of the very numbers that decide: each of the some eighty checks has numbers of its own, so that a type for each and a sentence
//! elsewhere would say everything twice.

mod against_kernel;
mod cache_affinity;
mod case;
mod cells;
mod coincidence;
pub mod contention;
mod evidence;
mod gain;
mod interval;
mod itself;
mod live;
mod live_claims;
mod live_numbers;
pub mod live_profiles;
pub mod live_space;
mod live_tables;
pub mod live_workloads;
mod machine_claims;
pub mod own_study;
pub mod paper;
mod placement;
mod placement_claims;
mod printed;
mod references;
pub mod reproduction;
mod scheduler_claims;
mod simulated;
mod space_sharing;
mod verdict;

pub use cache_affinity::cache_affinity;
pub use contention::Contention;
pub use live::Live;
pub use live_workloads::LiveWorkloads;
pub use paper::Paper;
pub use placement::placement;
pub use reproduction::Reproduction;
