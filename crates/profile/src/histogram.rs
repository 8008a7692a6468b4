//! A distribution of times in logarithmic bins, which the kernel's side counts in as well.
//!
//! The first eight bins are [`UNIT_NS`] wide; from then on each power of two has eight of equal width, so that a bin is at most
//! an eighth as wide as what it holds.

use serde::{Deserialize, Serialize};

/// Width of the narrowest bins, in ns.
pub const UNIT_NS: u64 = 256;

/// Bins between two powers of two, as a power of two.
const STEPS_LOG2: u32 = 3;

/// How many bins there are: what is longer than 2^40 ns (18 minutes) is in the last.
pub const BINS: usize = 240;

/// The bin of a time.
pub fn bin_of(ns: u64) -> usize {
    let units = (ns / UNIT_NS).min(u64::from(u32::MAX));
    let doublings = (units >> STEPS_LOG2 | 1).ilog2();
    ((doublings as usize) << STEPS_LOG2) + (units >> doublings) as usize
}

/// The shortest time of a bin, in ns; of bin [`BINS`] the first time that is in none.
pub(crate) fn lowest_ns(bin: usize) -> u64 {
    let doublings = ((bin >> STEPS_LOG2) as u32).saturating_sub(1);
    (((bin - ((doublings as usize) << STEPS_LOG2)) as u64) << doublings) * UNIT_NS
}

/// Times of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// How many there are.
    pub count: u64,
    /// Their sum, in ms.
    pub total_ms: f64,
    /// The longest, in ms; 0 where there are none.
    pub longest_ms: f64,
    /// Those bins that hold any, from the shortest times to the longest.
    pub bins: Vec<TimeBin>,
}

/// A bin and what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeBin {
    /// The shortest time that belongs in it, in us.
    pub from_us: f64,
    /// The shortest that belongs in the next, in us. The last bin has no end, and holds what is longer, too.
    pub to_us: f64,
    /// How many are in it.
    pub count: u64,
}

impl Histogram {
    /// The histogram of counts by bin, as [`bin_of`] numbers them, with the times' sum and the longest.
    pub fn from_counts(counts: &[u64], total_ns: u64, longest_ns: u64) -> Self {
        let bins: Vec<TimeBin> = (counts.iter().enumerate())
            .filter(|&(_, &count)| count > 0)
            .map(|(bin, &count)| {
                let edge_us = |bin| lowest_ns(bin) as f64 / 1e3;
                TimeBin { from_us: edge_us(bin), to_us: edge_us(bin + 1), count }
            })
            .collect();
        let count = bins.iter().map(|bin| bin.count).sum();
        Self { count, total_ms: total_ns as f64 / 1e6, longest_ms: longest_ns as f64 / 1e6, bins }
    }

    /// All times of several.
    pub fn of_all<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        for Self { count, total_ms, longest_ms, bins } in all {
            sum.count += count;
            sum.total_ms += total_ms;
            sum.longest_ms = sum.longest_ms.max(*longest_ms);
            sum.bins.extend(bins);
        }
        sum.bins.sort_by(|a, b| a.from_us.total_cmp(&b.from_us));
        sum.bins.dedup_by(|next, bin| {
            let is_same = next.from_us == bin.from_us;
            bin.count += if is_same { next.count } else { 0 };
            is_same
        });
        sum
    }

    /// The time in ms that `share` of them don't exceed (0.5 is the median): from the bin that holds it, as if its times were
    /// evenly spread. None where there are none.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let rank = share.clamp(0.0, 1.0) * self.count as f64;
        let mut below = 0.0;
        for bin in &self.bins {
            let count = bin.count as f64;
            if below + count >= rank {
                let within = ((rank - below) / count).clamp(0.0, 1.0);
                return Some(((bin.from_us + within * (bin.to_us - bin.from_us)) / 1e3).min(self.longest_ms));
            }
            below += count;
        }
        None
    }

    /// Their mean in ms; none where there are none.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total_ms / self.count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_lie_side_by_side_and_are_narrow() {
        for bin in 0..BINS {
            let (from, to) = (lowest_ns(bin), lowest_ns(bin + 1));
            assert_eq!((bin_of(from), bin_of(to - 1)), (bin, bin));
            assert!(to - from == UNIT_NS || (to - from) * 8 <= from, "{bin}: {from} to {to} ns");
        }
        assert_eq!(bin_of(u64::MAX), BINS - 1);
    }

    #[test]
    fn all_times_of_several_are_those_of_one_with_their_counts() {
        let counts = |times_ns: &[u64]| {
            let mut counts = [0; BINS];
            times_ns.iter().for_each(|&ns| counts[bin_of(ns)] += 1);
            Histogram::from_counts(&counts, times_ns.iter().sum(), times_ns.iter().copied().max().unwrap_or(0))
        };
        let parts = [counts(&[4_000_000, 1_000_000, 4_000_000]), counts(&[]), counts(&[1_000_000, 70_000_000])];
        assert_eq!(Histogram::of_all(&parts), counts(&[4_000_000, 1_000_000, 4_000_000, 1_000_000, 70_000_000]));
    }

    #[test]
    fn a_median_is_in_its_bin_and_no_longer_than_the_longest() {
        let mut counts = [0; BINS];
        [1_000_000, 2_000_000, 2_000_000].iter().for_each(|&ns| counts[bin_of(ns)] += 1);
        let times = Histogram::from_counts(&counts, 5_000_000, 2_000_000);
        assert!(times.quantile_ms(0.5).is_some_and(|ms| (1.8..=2.0).contains(&ms)));
        assert_eq!(times.quantile_ms(1.0), Some(2.0));
        assert_eq!(times.mean_ms(), Some(5.0 / 3.0));
        assert_eq!(Histogram::default().quantile_ms(0.5), None);
    }

    proptest! {
        #[test]
        fn every_time_is_in_the_bin_that_is_said_to_hold_it(ns in 0..1_u64 << 40) {
            let mut counts = [0; BINS];
            counts[bin_of(ns)] += 1;
            let bin = Histogram::from_counts(&counts, ns, ns).bins[0];
            let us = ns as f64 / 1e3;
            prop_assert!(bin.from_us <= us && us < bin.to_us);
        }
    }
}
