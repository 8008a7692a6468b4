//! Order statistics of values that are too many to store, such as one for each pair of points.

/// So many values are stored and selected from; more are only counted.
const MOST_STORED: u64 = 1 << 16;

/// Values that can be counted and, once few are left, listed.
pub(crate) trait Counted {
    /// How many there are.
    fn count(&self) -> u64;
    /// How many are less than `value`.
    fn count_below(&self, value: f64) -> u64;
    /// How many are greater than `value`.
    fn count_above(&self, value: f64) -> u64;
    /// Those between `low` and `high`, which may be infinite; neither end belongs to them.
    fn between(&self, low: f64, high: f64) -> Vec<f64>;
}

/// The value that `rank` others precede in rising order; `rank` is below the count.
///
/// The doubles between two bounds are halved, by their number rather than their size, until few values are left between
/// them: 64 counts at most, in the memory that a count takes.
pub(crate) fn order_statistic(values: &impl Counted, rank: u64) -> f64 {
    let all = values.count();
    let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
    // Values up to `low`, which are at most `rank`, and values below `high`, which are more.
    let (mut up_to_low, mut below_high) = (0, all);
    while below_high - up_to_low > MOST_STORED {
        let middle = halfway(low, high);
        if middle == low {
            // No double lies between the bounds: the counts differ by rounding alone.
            return high;
        }
        let below = values.count_below(middle);
        if below > rank {
            (high, below_high) = (middle, below);
            continue;
        }
        let up_to_middle = all - values.count_above(middle);
        if up_to_middle > rank {
            // Many values are equal: no bounds would part them. The sum makes a zero positive.
            return middle + 0.0;
        }
        (low, up_to_low) = (middle, up_to_middle);
    }
    let mut few = values.between(low, high);
    let rank = ((rank - up_to_low) as usize).min(few.len().saturating_sub(1));
    if few.is_empty() { high } else { *few.select_nth_unstable_by(rank, f64::total_cmp).1 }
}

/// The double that as many doubles part from `low` as from `high`.
fn halfway(low: f64, high: f64) -> f64 {
    // Doubles are ordered as their bits are when those of the negative ones, but for the sign, are inverted.
    let flip = |bits: i64| bits ^ (((bits >> 63) as u64) >> 1) as i64;
    let (low, high) = (flip(low.to_bits() as i64), flip(high.to_bits() as i64));
    f64::from_bits(flip((low & high) + ((low ^ high) >> 1)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draws, Purpose};

    /// The means of all pairs of a rising sample, each value paired with itself too (Walsh averages).
    struct Means(Vec<f64>);

    impl Means {
        fn mean(&self, i: usize, j: usize) -> f64 {
            0.5 * (self.0[i] + self.0[j])
        }

        /// In row i, of the pairs (i, j) with j >= i, how many fulfil `holds`, which does so for the first ones only.
        fn count_rows(&self, holds: impl Fn(f64) -> bool) -> u64 {
            let n = self.0.len();
            let mut end = n;
            (0..n)
                .map(|i| {
                    while end > 0 && !holds(self.mean(i, end - 1)) {
                        end -= 1;
                    }
                    end.saturating_sub(i) as u64
                })
                .sum()
        }
    }

    impl Counted for Means {
        fn count(&self) -> u64 {
            (self.0.len() * (self.0.len() + 1) / 2) as u64
        }

        fn count_below(&self, value: f64) -> u64 {
            self.count_rows(|mean| mean < value)
        }

        fn count_above(&self, value: f64) -> u64 {
            self.count() - self.count_rows(|mean| mean <= value)
        }

        fn between(&self, low: f64, high: f64) -> Vec<f64> {
            let pairs = (0..self.0.len()).flat_map(|i| (i..self.0.len()).map(move |j| (i, j)));
            pairs.map(|(i, j)| self.mean(i, j)).filter(|&mean| low < mean && mean < high).collect()
        }
    }

    #[test]
    fn every_order_statistic_is_that_of_the_stored_values() {
        let mut draws = Draws::new(3, Purpose::Bootstrap, [0, 0]);
        // Fine values, and so coarse ones that thousands of means are equal.
        for (steps, n) in [(1 << 30, 700), (20, 700), (1, 500), (1 << 30, 5)] {
            let mut sample: Vec<f64> = (0..n).map(|_| draws.below(steps) as f64 - steps as f64 / 2.0).collect();
            sample.sort_unstable_by(f64::total_cmp);
            let means = Means(sample);
            let mut stored = means.between(f64::NEG_INFINITY, f64::INFINITY);
            stored.sort_unstable_by(f64::total_cmp);
            assert_eq!(stored.len() as u64, means.count());
            for part in 0..=20 {
                let rank = (stored.len() - 1) * part / 20;
                assert_eq!(order_statistic(&means, rank as u64), stored[rank], "{steps} {rank}");
            }
        }
    }

    #[test]
    fn halfway_is_by_number() {
        assert_eq!(halfway(f64::NEG_INFINITY, f64::INFINITY), 0.0);
        assert_eq!(halfway(1.0, 2.0), 1.5);
        assert_eq!(halfway(-2.0, -1.0), -1.5);
        assert_eq!(halfway(1.0, 1.0_f64.next_up()), 1.0);
        assert_eq!(halfway(-1.0_f64.next_up(), -1.0), -1.0_f64.next_up());
    }
}
