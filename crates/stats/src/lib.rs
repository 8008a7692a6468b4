//! What times say, and how sure one may be: pure functions of numbers, the same bytes for the same seed.
//!
//! ```text
//! times of one cell   ──> estimate, median_interval, outlier_marks, drift, relative_sd_below
//! pairs of two cells  ──> paired_ratio ──> settled (is it enough?)
//!                                      └─> claims  (may we say so, among all the comparisons of the study?)
//! seed, block, group  ──> block_permutation (who runs when)
//! runs of many arms   ──> Race: next_block, limit_s ──> standings (which is best, and what can't be told apart from it)
//! ```
//!
//! Nothing here panics or returns NaN: what can't be said is `None` or a [`PairError`]. `tests/coverage.rs` draws thousands of
//! studies, and `tests/races.rs` of races, and they hold intervals and claims to what they promise.

#![forbid(unsafe_code)]

mod claim;
mod disturbance;
mod draw;
mod drift;
mod estimate;
mod outlier;
mod paired;
mod race;
mod select;
mod stop;

pub use claim::{CLAIM_LEVEL, Claim, claims, holm};
pub use disturbance::{Cause, Disturbance, IDLE_LOAD, LARGE_SHARE, Surroundings, disturbances};
pub use draw::block_permutation;
pub use drift::{Drift, MIN_DRIFT_POINTS, drift};
pub use estimate::{Estimate, estimate, mean_interval, median_interval, quantile};
pub use outlier::{Mark, OUTLIER_THRESHOLD, outlier_marks};
pub use paired::{CONFIDENCE, MIN_PAIRS, Pair, PairError, PairedRatio, RESAMPLES, paired_ratio};
pub use race::{Drop, DropReason, Gain, Outcome, Race, RaceRule, Run, Standing, Standings};
pub use stop::{
    DEFAULT_MAX_BLOCKS, DEFAULT_MIN_BLOCKS, DEFAULT_WIDTH, NARROW_LOOKS, PAPERS_MIN_RUNS, PAPERS_RELATIVE_SD,
    relative_sd_below, settled,
};
