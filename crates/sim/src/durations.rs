//! A distribution of times, kept in constant memory.

use serde::Serialize;
use std::collections::BTreeMap;

/// Times as a histogram of 1 us resolution or 0.1 %, whichever is coarser.
///
/// Its bins are those of an HDR histogram of three digits: one a us below 2,048 us, and 1,024 of equal width between each
/// two further powers of two. They are ours since every simulated dispatch records a time, and a library also checks it and
/// looks for the least and the most.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Durations {
    /// By bin, as far as times go.
    counts: Vec<u64>,
    count: u64,
    total_ns: u128,
    longest_ns: u64,
}

const MS_NS: f64 = 1e6;
/// Bins between two powers of two.
const BINS_LOG2: u32 = 10;

/// The bin of a time.
#[inline]
fn bin_of(us: u64) -> usize {
    let doublings = (us >> BINS_LOG2 | 1).ilog2();
    ((doublings as usize) << BINS_LOG2) + (us >> doublings) as usize
}

/// The lowest and the highest time of a bin, in us.
fn bounds_us(bin: usize) -> (u64, u64) {
    let doublings = ((bin >> BINS_LOG2) as u32).saturating_sub(1);
    let lowest = ((bin - ((doublings as usize) << BINS_LOG2)) as u64) << doublings;
    (lowest, lowest + ((1 << doublings) - 1))
}

impl Durations {
    /// Adds one time.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        let bin = bin_of(ns / 1_000);
        if bin >= self.counts.len() {
            self.grow(bin);
        }
        self.counts[bin] += 1;
        self.count += 1;
        self.total_ns += u128::from(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    #[cold]
    fn grow(&mut self, bin: usize) {
        self.counts.resize(bin + 1, 0);
    }

    /// Adds all of another's.
    pub fn merge(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum in ms.
    pub fn total_ms(&self) -> f64 {
        self.total_ns as f64 / MS_NS
    }

    /// Their mean in ms; none when there are none.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.total_ms() / self.count() as f64)
    }

    /// The time in ms that `share` of them don't exceed (0.5 = median), to the histogram's resolution; none when there are none.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let rank = ((share.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut so_far = 0;
        let reached = |&count: &u64| {
            so_far += count;
            so_far >= rank
        };
        let bin = self.counts.iter().position(reached)?;
        Some(bounds_us(bin).1 as f64 / 1e3)
    }

    /// The longest in ms; none when there are none.
    pub fn longest_ms(&self) -> Option<f64> {
        (self.count() > 0).then_some(self.longest_ns as f64 / MS_NS)
    }

    /// How many fall into each bin between rising `edges_ms`, the lower edge included, to the histogram's resolution; those
    /// below the first and above the last edge are left out.
    pub fn counts(&self, edges_ms: &[f64]) -> Vec<u64> {
        let mut counts = vec![0; edges_ms.len().saturating_sub(1)];
        for (ms, count) in self.recorded() {
            if let Some(bin) = edges_ms.partition_point(|&edge| edge <= ms).checked_sub(1)
                && bin < counts.len()
            {
                counts[bin] += count;
            }
        }
        counts
    }

    /// The times that there are, in ms and rising, and how many of each, to the histogram's resolution.
    pub fn recorded(&self) -> impl Iterator<Item = (f64, u64)> {
        // The lowest value that a bin stands for, so that whole milliseconds stay whole.
        let recorded = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        recorded.map(|(bin, &count)| (bounds_us(bin).0 as f64 / 1e3, count))
    }

    /// Times in ms, rounded down to a step, and how many of each. Steps are a fortieth of a time at most, but no less than
    /// 0.1 ms, and each divides the next, so that bins of any round width that is no finer hold whole steps.
    pub fn rounded(&self) -> Vec<(f64, u64)> {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for (ms, count) in self.recorded() {
            let tenths = (ms * 10.0).floor() as u64;
            *counts.entry(tenths - tenths % step(tenths)).or_default() += count;
        }
        counts.into_iter().map(|(tenths, count)| (tenths as f64 / 10.0, count)).collect()
    }
}

/// What a time is rounded to, all in tenths of a ms: 1, 5, 10, 50 and so on.
fn step(tenths: u64) -> u64 {
    let decade = 10_u64.pow(tenths.max(1).ilog10());
    let step = match tenths / decade {
        0 | 1 => decade / 100,
        2..5 => decade / 20,
        _ => decade / 10,
    };
    step.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_lie_side_by_side_and_are_narrow() {
        let mut next = 0;
        for bin in 0..40 << BINS_LOG2 {
            let (lowest, highest) = bounds_us(bin);
            assert_eq!(lowest, next);
            assert_eq!((bin_of(lowest), bin_of(highest)), (bin, bin));
            assert!((highest - lowest) as f64 <= 0.001 * lowest as f64);
            next = highest + 1;
        }
        // The longest that a simulation can last.
        assert!(bin_of(u64::MAX / 1_000) < 64 << BINS_LOG2);
    }

    #[test]
    fn steps_divide_one_another_and_are_fine_enough() {
        let mut before = 1;
        for tenths in 0..100_000 {
            let step = step(tenths);
            assert!(step.is_multiple_of(before) && (step == 1 || step * 40 <= tenths), "{step} at {tenths}");
            before = step;
        }
        assert_eq!([0, 99, 199, 200, 300, 500, 1_999, 2_000].map(step), [1, 1, 1, 5, 5, 10, 10, 50]);
    }

    #[test]
    fn quantiles_are_of_what_was_recorded() {
        let mut times = Durations::default();
        assert_eq!(times.quantile_ms(0.5), None);
        (1..=100).for_each(|ms| times.record(ms * 1_000_000));
        for (share, ms) in [(0.0, 1.0), (0.5, 50.0), (0.501, 51.0), (1.0, 100.0)] {
            assert!(
                times.quantile_ms(share).is_some_and(|found| (0.0..=0.001).contains(&(found / ms - 1.0))),
                "{share}"
            );
        }
        let mut twice = times.clone();
        twice.merge(&times);
        assert_eq!((twice.count(), twice.total_ms()), (200, 10_100.0));
        assert_eq!(twice.counts(&[1.0, 3.0, 101.0]), [4, 196]);
    }
}
