//! How fast programs ran under each treatment, and how sure one may be. In go times in seconds in the order of their runs, what
//! the machine did besides, and a seed; out come estimates, intervals, claims, disturbances, and who runs next, as numbers and
//! enums without a word of English. It touches nothing: no file, clock, environment or state; the same arguments give the same
//! bytes on every machine.
//!
//! ```text
//! times of one cell   ──> estimate, median_interval, outliers, drift, relative_sd_below
//! pairs of two cells  ──> paired_ratio ──> is_settled (is it enough?)
//!                                      ├─> claims  (may we say so, among all the comparisons of the study?)
//!                                      └─> disturbances (was the machine too busy to say it plainly?)
//! differences of pairs ──> paired_difference
//! blocks of a factorial design ──> Factorial: contrasts, each as pairs
//! reported and taken   ──> opposition (can what a program reports be its time?)
//! slowdowns of a mix   ──> antt, stp; shares ──> jain_index
//! seed, block, group  ──> block_permutation (who runs when)
//! runs of many arms   ──> Race: next_block, limit_s ──> standings (which is best, and what can't be told apart from it)
//! ```
//!
//! Nothing here panics or returns NaN: what can't be said is `None`. `tests/coverage.rs` and `tests/disturbed.rs` draw
//! thousands of studies, and `tests/races.rs` of races; they hold intervals and claims to what they promise.

#![forbid(unsafe_code)]

mod claim;
mod difference;
mod disturbance;
mod draw;
mod drift;
mod estimate;
mod factorial;
mod look;
mod metric;
mod multiprogram;
mod opposition;
mod outlier;
mod paired;
mod race;
mod select;
mod stop;
mod unpaired;

pub use claim::{Claim, claims, holm};
pub use difference::{PairedDifference, paired_difference};
pub use disturbance::{Cause, Disturbance, IDLE_LOAD, LARGE_SHARE, Surroundings, disturbances};
pub use draw::block_permutation;
pub use drift::{Drift, MIN_DRIFT_POINTS, drift};
pub use estimate::{Estimate, estimate, mean_interval, median_interval, quantile};
pub use factorial::{Contrast, Factorial};
pub use look::{LOOKS_AT_EACH, is_look, last_look};
pub use metric::{Better, By, Metric, Unit};
pub use multiprogram::{antt, jain_index, stp};
pub use opposition::{Opposition, ReportedAndTaken, opposition};
pub use outlier::{Mark, OUTLIER_THRESHOLD, outliers};
pub use paired::{CLAIM_LEVEL, CONFIDENCE, MIN_PAIRS, Pair, PairedRatio, RESAMPLES, paired_ratio};
pub use race::{
    DropReason, Elimination, Gain, Outcome, PastStandings, Race, RaceRule, RaceUnderWay, Run, Standing, Standings,
};
pub use stop::{
    DEFAULT_MAX_BLOCKS, DEFAULT_MIN_BLOCKS, DEFAULT_WIDTH, NARROW_LOOKS, PAPERS_MIN_RUNS, PairedLooks, RelativeSdLooks,
    is_settled, relative_sd_below,
};
pub use unpaired::{UnpairedRatio, unpaired_ratio};
