//! When a study has run enough. Both rules are functions of the times so far, so a resumed study stops where an
//! uninterrupted one would have.

use crate::estimate::estimate;
use crate::look::last_look;
use crate::paired::{Pair, PairedRatio, paired_ratio};

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

/// The paired rule: whether there are at least `min_blocks` pairs and the 95 % interval of the ratio was narrower than
/// `width` relative to the ratio at each of the last [`NARROW_LOOKS`] [looks](crate::is_look). `pairs` are in the order of
/// their blocks.
///
/// A study that stops at the first narrow interval stops when its noise happens to look small: of 2,000 drawn studies as
/// few as 90 % then covered. Asking for five looks in a row costs about five blocks and brings most of it back; five is also
/// how often trimming takes a pair more from either end, at which the interval jumps.
pub fn is_settled(pairs: &[Pair], width: f64, min_blocks: usize, seed: u64) -> bool {
    PairedLooks::default().is_settled(pairs, width, min_blocks, seed)
}

/// The looks of the paired rule at a comparison that goes on, each taken once.
#[derive(Clone, Copy, Debug, Default)]
pub struct PairedLooks {
    /// How many pairs there were at the last look.
    last: usize,
    /// How many looks in a row found the interval narrow, up to that one.
    narrow: usize,
    /// How many looks were taken.
    taken: usize,
}

impl PairedLooks {
    /// How many looks were taken: what the rule cost so far.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// What [`is_settled`] says of the same arguments. Each call is about the pairs of the one before and those that came since, with
    /// the same width and seed.
    pub fn is_settled(&mut self, pairs: &[Pair], width: f64, min_blocks: usize, seed: u64) -> bool {
        if pairs.len() < min_blocks.max(NARROW_LOOKS) {
            return false;
        }
        let mut look = last_look(pairs.len());
        if look > self.last {
            let (last, before) = (look, (self.last, self.narrow));
            self.narrow = 0;
            // Backwards, since a wide look makes those before it nothing.
            while look > before.0 && self.narrow < NARROW_LOOKS {
                self.taken += 1;
                let is_narrow = |ratio: PairedRatio| ratio.relative_width() < width;
                if !paired_ratio(&pairs[..look], seed).is_some_and(is_narrow) {
                    break;
                }
                self.narrow += 1;
                look = last_look(look - 1);
            }
            if look == before.0 {
                self.narrow += before.1;
            }
            self.last = last;
        }
        self.narrow >= NARROW_LOOKS
    }
}

/// The papers' rule: at least `min_runs` runs, and the standard deviation of `times_s` over their mean is below
/// `relative_sd` (0.05 = 5 %) at the last [look](crate::is_look). Pires 2017, section 3, took 5 runs and 5 %.
pub fn relative_sd_below(times_s: &[f64], min_runs: usize, relative_sd: f64) -> bool {
    RelativeSdLooks::default().is_below(times_s, min_runs, relative_sd)
}

/// The looks of the papers' rule at a cell that goes on, each taken once.
#[derive(Clone, Copy, Debug, Default)]
pub struct RelativeSdLooks {
    last: usize,
    is_below: bool,
}

impl RelativeSdLooks {
    /// What [`relative_sd_below`] says of the same arguments. Each call is about the times of the one before and those that came since,
    /// with the same `relative_sd`.
    pub fn is_below(&mut self, times_s: &[f64], min_runs: usize, relative_sd: f64) -> bool {
        if times_s.len() < min_runs {
            return false;
        }
        let look = last_look(times_s.len());
        if look > self.last {
            let found = estimate(&times_s[..look]).and_then(|estimate| estimate.relative_sd());
            (self.last, self.is_below) = (look, found.is_some_and(|found| found < relative_sd));
        }
        self.is_below
    }
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

    /// Pairs whose noise comes and goes.
    fn changing(pairs: usize) -> Vec<Pair> {
        let noise = |block: usize| if (block / 90).is_multiple_of(2) { 0.05 } else { 0.001 };
        (0..pairs)
            .map(|block| Pair { reference_s: (noise(block) * ((block * 7 % 11) as f64 - 5.0)).exp(), treatment_s: 1.0 })
            .collect()
    }

    #[test]
    fn looks_that_are_taken_once_say_what_all_of_them_say_each_time() {
        let pairs = changing(400);
        let widths: Vec<f64> = (0..=pairs.len())
            .map(|look| paired_ratio(&pairs[..look], 1).map_or(f64::INFINITY, |ratio| ratio.relative_width()))
            .collect();
        let mut settled = 0;
        // Asked at every block, at some, and once.
        for (step, width) in [(1, 0.03), (7, 0.03), (399, 0.03)] {
            let mut looks = PairedLooks::default();
            for blocks in (1..=pairs.len()).step_by(step) {
                let last = (1..=blocks).rev().filter(|&look| crate::is_look(look)).take(NARROW_LOOKS);
                let by_rule = blocks >= 10 && last.into_iter().all(|look| widths[look] < width);
                assert_eq!(looks.is_settled(&pairs[..blocks], width, 10, 1), by_rule, "{step} {width} {blocks}");
                settled += usize::from(by_rule);
            }
        }
        assert!((50..400).contains(&settled), "both happen: {settled}, {widths:?}");
    }

    #[test]
    fn looks_grow_with_the_logarithm_of_the_pairs() {
        let taken = |pairs: usize| {
            let (pairs, mut looks) = (steady(pairs, 0.5), PairedLooks::default());
            (1..=pairs.len()).for_each(|blocks| assert!(!looks.is_settled(&pairs[..blocks], 1e-9, 10, 1)));
            looks.taken()
        };
        let sizes = [256, 512, 1_024, 2_048].map(taken);
        assert!(sizes.windows(2).all(|pair| pair[1] - pair[0] == 64), "as many in every doubling: {sizes:?}");
        assert!(sizes[0] <= 192, "{sizes:?}");
    }

    #[test]
    fn deviations_that_are_looked_at_once_are_those_of_the_last_look() {
        let times_s: Vec<f64> = changing(700).iter().map(|pair| pair.reference_s).collect();
        let mut looks = RelativeSdLooks::default();
        let mut below = 0;
        for runs in 1..=times_s.len() {
            let last = (1..=runs).rev().find(|&look| crate::is_look(look)).unwrap();
            let by_rule = runs >= 5 && estimate(&times_s[..last]).unwrap().relative_sd().unwrap_or(1.0) < 0.12;
            assert_eq!(looks.is_below(&times_s[..runs], 5, 0.12), by_rule, "{runs}");
            below += usize::from(by_rule);
        }
        assert!((1..696).contains(&below), "both happen: {below}");
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
