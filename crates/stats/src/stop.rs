//! When a study has run enough. Both rules are functions of the times so far, so a resumed study stops where an
//! uninterrupted one would have.

use crate::estimate::estimate;
use crate::paired::{Pair, paired_ratio};

/// Interval width over ratio at which a comparison is settled unless the user says otherwise (0.02 = 2 %, so about
/// 1 % to either side).
pub const DEFAULT_WIDTH: f64 = 0.02;

/// Blocks before the first look unless the user says otherwise.
pub const DEFAULT_MIN_BLOCKS: u32 = 10;

/// Blocks after which a study stops, settled or not, unless the user says otherwise.
pub const DEFAULT_MAX_BLOCKS: u32 = 50;

/// Looks in a row that must find the interval narrow.
pub const NARROW_LOOKS: usize = 5;

/// Runs before the first look of the papers' rule (Pires 2017, section 3).
pub const PAPERS_MIN_RUNS: u32 = 5;

/// The paired rule: whether there are at least `min_blocks` pairs and the 95 % interval of the ratio is narrower than
/// `width` relative to the ratio, now and at each of the last [`NARROW_LOOKS`] looks. `pairs` are in the order of
/// their blocks.
///
/// A study that stops at the first narrow interval stops when its noise happens to look small: of 2,000 drawn studies as
/// few as 90 % then covered. Asking for five looks in a row costs about five blocks and brings most of it back; five is also
/// how often trimming takes a pair more from either end, at which the interval jumps.
pub fn is_settled(pairs: &[Pair], width: f64, min_blocks: usize, seed: u64) -> bool {
    pairs.len() >= min_blocks.max(NARROW_LOOKS)
        && (pairs.len() - NARROW_LOOKS + 1..=pairs.len()).rev().all(|blocks| {
            paired_ratio(&pairs[..blocks], seed).is_some_and(|comparison| comparison.relative_width() < width)
        })
}

/// The papers' rule: at least `min_runs` runs, and the standard deviation of `times_s` over their mean is below
/// `relative_sd` (0.05 = 5 %). Pires 2017, section 3, took 5 runs and 5 %.
pub fn relative_sd_below(times_s: &[f64], min_runs: usize, relative_sd: f64) -> bool {
    times_s.len() >= min_runs
        && estimate(times_s).and_then(|estimate| estimate.relative_sd()).is_some_and(|found| found < relative_sd)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs whose log ratios go round -`spread`, 0 and `spread`.
    fn steady(pairs: usize, spread: f64) -> Vec<Pair> {
        (0..pairs)
            .map(|block| Pair { reference_s: (spread * (block % 3) as f64 - spread).exp(), treatment_s: 1.0 })
            .collect()
    }

    #[test]
    fn the_paired_rule_wants_blocks_and_a_narrow_interval() {
        assert!(!is_settled(&steady(9, 0.001), 0.02, 10, 1));
        assert!(is_settled(&steady(10, 0.001), 0.02, 10, 1));
        assert!(!is_settled(&steady(10, 0.1), 0.02, 10, 1));
    }

    #[test]
    fn one_narrow_look_is_not_enough() {
        // Wide for eight blocks; then blocks nearly agree, until trimming leaves only those.
        let mut pairs = steady(40, 0.002);
        for (pair, ratio) in pairs.iter_mut().zip([0.8, 1.2, 0.85, 1.15, 0.9, 1.1, 0.95, 1.05]) {
            pair.reference_s = ratio;
        }
        let narrow = |blocks: usize| paired_ratio(&pairs[..blocks], 1).unwrap().relative_width() < 0.02;
        let first = (10..=40).find(|&blocks| narrow(blocks)).unwrap();
        assert!(first > 10);
        let stop = (10..=40).find(|&blocks| is_settled(&pairs[..blocks], 0.02, 10, 1)).unwrap();
        assert!(stop >= first + NARROW_LOOKS - 1 && (stop - NARROW_LOOKS + 1..=stop).all(narrow), "{first} {stop}");
    }

    #[test]
    fn nothing_is_settled_without_pairs() {
        assert!(!is_settled(&[], 0.02, 0, 1));
        assert!(!is_settled(&steady(4, 0.0), 0.02, 0, 1));
        assert!(is_settled(&steady(9, 0.0), 0.02, 0, 1));
    }

    #[test]
    fn the_papers_rule_wants_runs_and_a_small_deviation() {
        let times_s = [10.0, 10.1, 9.9, 10.0, 10.0];
        assert!(relative_sd_below(&times_s, 5, 0.05));
        assert!(!relative_sd_below(&times_s[..4], 5, 0.05));
        assert!(!relative_sd_below(&[10.0, 12.0, 8.0, 11.0, 9.0], 5, 0.05));
        assert!(!relative_sd_below(&[], 0, 0.05));
        assert!(!relative_sd_below(&[1.0], 1, 0.05), "one run has no deviation");
    }
}
