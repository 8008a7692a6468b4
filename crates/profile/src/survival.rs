//! The distribution of lengths of which some were cut short by the end of what was watched.

use crate::histogram::Histogram;
use std::collections::BTreeMap;

/// What is shorter is next to nothing, in ms.
const SHORTEST_MS: f64 = 1e-4;

/// Lengths as a distribution: bins side by side, those between two that hold any included.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Distribution {
    /// Edges of the bins, in ms; one more than there are bins.
    pub edges_ms: Vec<f64>,
    /// Share of all lengths in each, in percent.
    pub percent: Vec<f64>,
    /// Share of those that are longer than any that was seen, in percent.
    pub longer_percent: f64,
}

/// The product-limit estimate (Kaplan and Meier 1958) of how lengths are distributed of which `complete` were seen to end, and `cut`
/// were not, but were at least that long. Leaving those out would make all lengths too short: a compiler that reads its files in many
/// short bursts and then computes to its end has one long burst, which is always cut.
///
/// Within a bin, what ended comes before what was cut.
pub(crate) fn product_limit(complete: &Histogram, cut: &Histogram) -> Distribution {
    // By the lower edge: upper edge, how many ended, how many were cut. Edges are whole ns.
    let ns = |us: f64| (us * 1e3).round() as u64;
    let mut bins: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
    for (histogram, is_cut) in [(complete, false), (cut, true)] {
        for bin in &histogram.bins {
            let (_, ended, cut) = bins.entry(ns(bin.from_us)).or_insert((ns(bin.to_us), 0, 0));
            *(if is_cut { cut } else { ended }) += bin.count;
        }
    }
    let mut at_risk = complete.count + cut.count;
    let mut surviving = 1.0;
    let mut distribution = Distribution::default();
    for (from_ns, (to_ns, ended, cut)) in bins {
        if ended > 0 {
            let share = surviving * ended as f64 / at_risk as f64;
            surviving -= share;
            distribution.add(from_ns as f64 / 1e6, to_ns as f64 / 1e6, 100.0 * share);
        }
        at_risk -= ended + cut;
    }
    distribution.longer_percent = (100.0 * surviving).max(0.0);
    distribution
}

impl Distribution {
    /// Adds a bin after all others.
    fn add(&mut self, from_ms: f64, to_ms: f64, percent: f64) {
        match self.edges_ms.last() {
            Some(&last) if last < from_ms => {
                self.percent.push(0.0);
                self.edges_ms.push(from_ms);
            }
            Some(_) => {}
            None => self.edges_ms.push(from_ms),
        }
        self.percent.push(percent);
        self.edges_ms.push(to_ms);
    }

    /// The same, where the longest length that was seen to be exceeded is taken as one that ended (Efron 1967): for what has to
    /// end some time.
    pub fn closed(mut self, longest_ms: f64) -> Self {
        if self.longer_percent > 0.0 {
            let last = self.edges_ms.last().copied().unwrap_or(0.0);
            let from = longest_ms.max(last);
            self.add(from, from * 1.001 + 1e-6, self.longer_percent);
            self.longer_percent = 0.0;
        }
        self
    }

    /// The same with all lengths `less_ms` shorter, those that are no longer than that becoming next to nothing.
    pub fn shortened(self, less_ms: f64) -> Self {
        let mut shorter = Self { longer_percent: self.longer_percent, ..Self::default() };
        let mut below = 0.0;
        for (edges, percent) in self.edges_ms.windows(2).zip(&self.percent) {
            if edges[1] - less_ms <= SHORTEST_MS {
                below += percent;
                continue;
            }
            let from = (edges[0] - less_ms).max(SHORTEST_MS);
            if below > 0.0 {
                shorter.add(0.0, from.min(SHORTEST_MS), below);
                below = 0.0;
            }
            shorter.add(from, edges[1] - less_ms, *percent);
        }
        if below > 0.0 {
            shorter.add(0.0, SHORTEST_MS, below);
        }
        shorter
    }

    /// The same with all lengths `factor` times as long.
    pub fn scaled(mut self, factor: f64) -> Self {
        self.edges_ms.iter_mut().for_each(|edge| *edge *= factor);
        self
    }

    /// So many ranges, each between two lengths in ms, that hold an equal share of all, up to this share, from 0 to 1. Long ones don't follow one another.
    pub fn parts(&self, number: u64, most_share: f64) -> Vec<[f64; 2]> {
        let share = |at: u64| (at as f64 / number as f64).min(most_share);
        let part = |at: u64| [share(at), share(at + 1)].map(|share| self.quantile_ms(share));
        let stride = (1..number).rev().find(|stride| gcd(*stride, number) == 1 && *stride * 2 <= number).unwrap_or(1);
        (0..number).map(|at| part(at * stride % number)).collect()
    }

    /// The length that a share of all, from 0 to 1, doesn't exceed, in ms.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let wanted = share * self.percent.iter().sum::<f64>();
        let mut below = 0.0;
        for (edges, percent) in self.edges_ms.windows(2).zip(&self.percent) {
            if below + percent >= wanted && *percent > 0.0 {
                return edges[0] + (edges[1] - edges[0]) * ((wanted - below) / percent).clamp(0.0, 1.0);
            }
            below += percent;
        }
        self.edges_ms.last().copied().unwrap_or_default()
    }

    /// The mean length, in ms, of those that end.
    pub fn mean_ms(&self) -> f64 {
        let all: f64 = self.percent.iter().sum();
        let middles = self.edges_ms.windows(2).map(|edges| f64::midpoint(edges[0], edges[1]));
        if all > 0.0 {
            middles.zip(&self.percent).map(|(middle, percent)| middle * percent).sum::<f64>() / all
        } else {
            0.0
        }
    }
}

pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::{BINS, bin_of};
    use proptest::prelude::*;

    fn times(us: &[u64]) -> Histogram {
        let mut counts = [0; BINS];
        us.iter().for_each(|us| counts[bin_of(us * 1_000)] += 1);
        let ns = us.iter().map(|us| us * 1_000);
        Histogram::from_counts(&counts, ns.clone().sum(), ns.max().unwrap_or(0))
    }

    #[test]
    fn what_was_cut_counts_as_at_least_so_long() {
        // Five bursts of a ms, and one that was cut: a sixth goes on.
        let distribution = product_limit(&times(&[1_000; 5]), &times(&[500_000]));
        assert!((distribution.longer_percent - 100.0 / 6.0).abs() < 1e-9, "{distribution:?}");
        // What was cut before anything ended tells nothing.
        let distribution = product_limit(&times(&[1_000; 5]), &times(&[10]));
        assert_eq!(distribution.longer_percent, 0.0);
        // By hand: 1 of 4 ends at 1 ms, one is cut at 2 ms, and of the two left one ends at 4 ms: 3/4 * 1/2 go on.
        let distribution = product_limit(&times(&[1_000, 4_000]), &times(&[2_000, 8_000]));
        assert!((distribution.longer_percent - 37.5).abs() < 1e-9, "{distribution:?}");
        let closed = distribution.closed(8.0);
        assert!((closed.percent.last().copied().unwrap_or(0.0) - 37.5).abs() < 1e-9, "{closed:?}");
    }

    #[test]
    fn where_nothing_ended_everything_goes_on() {
        let distribution = product_limit(&Histogram::default(), &times(&[5_000]));
        assert_eq!((distribution.longer_percent, distribution.edges_ms.len()), (100.0, 0));
        assert_eq!(product_limit(&Histogram::default(), &Histogram::default()).longer_percent, 100.0);
    }

    proptest! {
        #[test]
        fn without_cuts_it_is_the_histogram(us in prop::collection::vec(0..10_000_000_u64, 1..50)) {
            let seen = times(&us);
            let distribution = product_limit(&seen, &Histogram::default());
            prop_assert!(distribution.longer_percent < 1e-9);
            let shares: Vec<f64> = distribution.percent.iter().copied().filter(|&percent| percent > 0.0).collect();
            let expected: Vec<f64> = seen.bins.iter().map(|bin| 100.0 * bin.count as f64 / seen.count as f64).collect();
            prop_assert_eq!(shares.len(), expected.len());
            for (share, expected) in shares.iter().zip(expected) {
                prop_assert!((share - expected).abs() < 1e-6);
            }
        }

        #[test]
        fn edges_rise_and_shares_are_all(
            ended in prop::collection::vec(0..10_000_000_u64, 0..50),
            cut in prop::collection::vec(0..10_000_000_u64, 0..50),
        ) {
            let distribution = product_limit(&times(&ended), &times(&cut));
            let all = distribution.percent.iter().sum::<f64>() + distribution.longer_percent;
            prop_assert!((all - 100.0).abs() < 1e-6);
            prop_assert!(distribution.edges_ms.windows(2).all(|edges| edges[0] < edges[1]));
        }
    }
}
