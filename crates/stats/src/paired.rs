//! The paired ratio: how much faster a treatment is than the reference, from runs of the same block.
//!
//! A block runs every treatment once, in random order, so whatever slows the machine for a while slows the reference
//! and the treatment alike and cancels in their ratio. The estimate is the 20 % trimmed mean of the log ratios: one run in
//! ten may be an outlier on either side without moving it far, and it wastes little when there are none. Its
//! standard error comes from the Winsorised variance (Tukey and McLaughlin, Sankhya A 25, 1963; Yuen, Biometrika
//! 61, 1974), and its 95 % interval is the symmetric bootstrap-t (Hall, "On symmetric bootstrap confidence intervals",
//! JRSS B 50, 1988; Wilcox, "Introduction to Robust Estimation and Hypothesis Testing", chapter 4).
//!
//! Why this one: over 2,000 drawn studies a cell, n from 5 to 40, with and without 5 % of runs 1.5 times slower,
//!
//! | interval                      | covered      | because                                                        |
//! | ----------------------------- | ------------ | -------------------------------------------------------------- |
//! | percentile bootstrap, trimmed | 89 to 95 %   | too narrow below 12 pairs                                      |
//! | bootstrap-t, mean             | 95 to 99 %   | outliers make it up to 30 times wider                          |
//! | Student's t, mean             | 94 to 99 %   | likewise                                                       |
//! | signed rank, Hodges-Lehmann   | 93 to 97 %   | 20 times wider below 12 pairs with outliers                    |
//! | Student's t, trimmed          | 93.5 to 96 % | the narrowest below 10 pairs; 92.5 % when one side alone has outliers |
//! | bootstrap-t, trimmed          | 94 to 97 %   | holds from 10 pairs on; unbounded at 5                         |
//!
//! so the bootstrap gives the critical value from 10 pairs, and Student's t below, where the few distinct resamples
//! leave it too wild, and beyond 1,000 pairs, where the two agree and resampling would take long. Looking again after every block is the stop rule's business: see [`crate::is_settled`].

use crate::draw::{Draws, Purpose};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::cmp::Ordering;

/// Holm's adjusted p-value up to which a difference is claimed.
///
/// A study without a difference should claim one in at most 5 % of cases. One per cent of that is kept for what p-values
/// can't know: that the study looked after every block and stopped when it liked what it saw.
pub const CLAIM_LEVEL: f64 = 0.04;

/// Probability with which an interval holds the true ratio.
pub const CONFIDENCE: f64 = 0.95;

/// Fewest pairs that give an interval: with fewer, trimming leaves a single degree of freedom or none.
pub const MIN_PAIRS: usize = 5;

/// Resamples of the bootstrap.
pub const RESAMPLES: usize = 2_000;

/// Fewest pairs whose critical value comes from the bootstrap.
const MIN_BOOTSTRAP_PAIRS: usize = 10;

/// Most pairs whose critical value comes from the bootstrap. Student's t misses coverage by a share that goes with 1 / n, and is off by
/// less beyond this than 2,000 resamples are.
const MOST_BOOTSTRAP_PAIRS: usize = 1_000;

/// How much an interval is widened for each natural log of the looks that a study may have taken before it: looking after
/// every block and stopping when the noise seems small finds noise that seems small. With the stop rule of
/// [`crate::is_settled`], 0.015 brings intervals that stopped a study from 92.5 to 94 % and more, and takes those of a fixed
/// number of pairs to 96.9 % at most.
const WIDENING_PER_LOG_LOOK: f64 = 0.015;

/// Divided by the square of the number of pairs: how much an interval of fewer than [`MIN_BOOTSTRAP_PAIRS`] is widened.
/// Student's t for a trimmed mean of five covers 93.8 % without it, and 95 % with it.
const WIDENING_OF_FEW: f64 = 3.0;

/// The power at which the smallest detectable difference is stated.
pub(crate) const POWER: f64 = 0.80;

/// One run of the reference and one of the treatment in the same block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Time of the reference, in seconds.
    pub reference_s: f64,
    /// Time of the treatment, in seconds.
    pub treatment_s: f64,
}

/// The ratio reference time / treatment time, with its doubt. Above 1 the treatment is faster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairedRatio {
    /// How many pairs it comes from.
    pub pairs: usize,
    /// The 20 % trimmed mean of the natural logs of the pairs' ratios.
    pub log_ratio: f64,
    /// The standard error of `log_ratio`, scaled so that Student's t with the degrees of freedom of its tail gives
    /// the interval.
    pub std_error: f64,
}

/// Estimates the ratio from `pairs`, in any order; `seed` is that of the bootstrap.
///
/// Exchanging reference and treatment in all pairs negates `log_ratio` and keeps `std_error`, exactly.
/// None for fewer than [`MIN_PAIRS`], or when a time is no positive number.
pub fn paired_ratio(pairs: &[Pair], seed: u64) -> Option<PairedRatio> {
    let mut times_s = pairs.iter().flat_map(|pair| [pair.reference_s, pair.treatment_s]);
    if pairs.len() < MIN_PAIRS || !times_s.all(|time_s| time_s.is_finite() && time_s > 0.0) {
        return None;
    }
    let log_ratios = pairs.iter().map(|pair| pair.reference_s.ln() - pair.treatment_s.ln()).collect();
    let (log_ratio, std_error) = location(log_ratios, seed);
    Some(PairedRatio { pairs: pairs.len(), log_ratio, std_error })
}

/// The 20 % trimmed mean of at least [`MIN_PAIRS`] finite values, and the standard error that [`PairedRatio::std_error`] describes.
pub(crate) fn location(mut values: Vec<f64>, seed: u64) -> (f64, f64) {
    let count = values.len();
    values.sort_unstable_by(f64::total_cmp);
    // Of a sample and its mirror image always the same one is computed with, so that rounding and resampling can't
    // break the symmetry of reference and treatment.
    let mirrored: Vec<f64> = values.iter().rev().map(|value| 0.0 - value).collect();
    let orientation = values.partial_cmp(&mirrored).unwrap_or(Ordering::Equal);
    let sample = if orientation == Ordering::Greater { mirrored } else { values };

    let middle = sample[sample.len() / 2];
    let centred: Vec<f64> = sample.iter().map(|value| value - middle).collect();
    let trimmed = Trimmed::from_sorted(&centred, &vec![1; centred.len()]);
    let n = count as f64;
    let students = || student(textbook_freedom(count)).inverse_cdf(UPPER);
    let looks = n - MIN_BOOTSTRAP_PAIRS as f64 + 1.0;
    let widened_for_looks = |critical: f64| critical * (1.0 + WIDENING_PER_LOG_LOOK * looks.ln());
    let critical = if count < MIN_BOOTSTRAP_PAIRS {
        students() * (1.0 + WIDENING_OF_FEW / (n * n))
    } else if count <= MOST_BOOTSTRAP_PAIRS {
        widened_for_looks(bootstrap_critical_value(&centred, trimmed.mean, seed))
    } else {
        widened_for_looks(students())
    };
    let std_error = trimmed.std_error * critical / student(tail_freedom(count)).inverse_cdf(UPPER);
    let location = match orientation {
        Ordering::Less => middle + trimmed.mean,
        Ordering::Equal => 0.0,
        Ordering::Greater => 0.0 - (middle + trimmed.mean),
    };
    (location, std_error)
}

impl PairedRatio {
    /// The estimate: reference time over treatment time.
    pub fn ratio(&self) -> f64 {
        self.log_ratio.exp()
    }

    /// Lower end of the 95 % interval of the ratio.
    pub fn low(&self) -> f64 {
        (self.log_ratio - self.half_width()).exp()
    }

    /// Upper end of the 95 % interval of the ratio.
    pub fn high(&self) -> f64 {
        (self.log_ratio + self.half_width()).exp()
    }

    /// Width of the 95 % interval over the ratio (0.02 = 2 %).
    pub fn relative_width(&self) -> f64 {
        // (e^h - e^-h) e^r / e^r
        2.0 * self.half_width().sinh()
    }

    /// Whether the 95 % interval leaves out 1.
    pub fn excludes_one(&self) -> bool {
        self.log_ratio.abs() > self.half_width()
    }

    /// Probability of an estimate at least this far from 1 if there were no difference; below 5 % exactly when the interval
    /// excludes 1, beyond which Student's t carries it further than resamples can be counted.
    ///
    /// When all that trimming leaves is one value, as a coarse clock can make it, there is no error to measure by, and
    /// the probability is that all pairs point the same way by chance (the sign test).
    pub fn p_value(&self) -> f64 {
        if self.log_ratio == 0.0 {
            1.0
        } else if self.std_error > 0.0 {
            2.0 * student(tail_freedom(self.pairs)).sf(self.log_ratio.abs() / self.std_error)
        } else {
            2.0 * 0.5_f64.powf(self.pairs as f64)
        }
    }

    /// This ratio when it is the one chosen of `finalists` that had as many pairs: its error is widened so that the intervals
    /// of all of them hold at once (Bonferroni), whichever was chosen.
    pub fn one_of(self, finalists: usize) -> Self {
        let student = student(tail_freedom(self.pairs));
        let among_all = student.inverse_cdf(1.0 - (1.0 - UPPER) / finalists.max(1) as f64);
        Self { std_error: self.std_error * among_all / student.inverse_cdf(UPPER), ..self }
    }

    /// The smallest relative difference (0.03 = 3 %) that as many pairs with this noise would show in 80 % of studies, when
    /// it is one of `comparisons` among which [`crate::claims`] decides.
    ///
    /// exp((t(1 - alpha / 2) + t(0.8)) standard errors) - 1, with alpha = [`CLAIM_LEVEL`] / `comparisons` (Bloom, "Minimum
    /// detectable effects", Evaluation Review 19(5), 1995; Bonferroni's share is what Holm asks of the first claim).
    pub fn smallest_detectable(&self, comparisons: usize) -> f64 {
        let student = student(tail_freedom(self.pairs));
        let alpha = CLAIM_LEVEL / comparisons.max(1) as f64;
        let distance = -student.inverse_cdf(alpha / 2.0) + student.inverse_cdf(POWER);
        (distance * self.std_error).exp_m1()
    }

    /// Half the width of the interval of the log ratio.
    pub(crate) fn half_width(&self) -> f64 {
        student(tail_freedom(self.pairs)).inverse_cdf(UPPER) * self.std_error
    }
}

/// Where the upper end of a two-sided interval lies.
pub(crate) const UPPER: f64 = 1.0 - (1.0 - CONFIDENCE) / 2.0;

/// How many of `n` sorted values are trimmed at either end: a fifth, rounded down.
fn trim(n: usize) -> usize {
    n / 5
}

/// Degrees of freedom of a trimmed mean: the pairs that trimming leaves, less one.
fn textbook_freedom(pairs: usize) -> f64 {
    (pairs - 2 * trim(pairs)).saturating_sub(1).max(1) as f64
}

/// Degrees of freedom beyond the 95 % point. The textbook's are for the body of the distribution: in drawn studies
/// p-values below 0.5 % came 1.2 to 2 times as often as they said, and as often or less with two thirds of them.
fn tail_freedom(pairs: usize) -> f64 {
    textbook_freedom(pairs) * 2.0 / 3.0
}

/// Student's t with so many degrees of freedom, above 0.
pub(crate) fn student(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("location 0, scale 1 and freedom > 0 are valid")
}

/// A 20 % trimmed mean and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trimmed {
    pub(crate) mean: f64,
    pub(crate) std_error: f64,
}

impl Trimmed {
    /// Of a sample of at least [`MIN_PAIRS`], in rising order, that holds `sorted[i]` as often as `times[i]` says.
    ///
    /// `sorted` should be centred about 0, because squares are summed in one pass. Called for every resample, so the
    /// loop has no branches.
    pub(crate) fn from_sorted(sorted: &[f64], times: &[u32]) -> Self {
        let n = times.iter().sum::<u32>();
        let cut = trim(n as usize) as u32;
        let (mut sum, mut squares) = (0.0, 0.0);
        let (mut lowest, mut highest, mut before) = (0, 0, 0);
        for (&value, &times) in sorted.iter().zip(times) {
            let after = before + times;
            // How many of these lie between rank `cut` and rank `n - cut`.
            let kept = f64::from(after.clamp(cut, n - cut) - before.clamp(cut, n - cut));
            sum += kept * value;
            squares += kept * value * value;
            lowest += usize::from(after <= cut);
            highest += usize::from(after < n - cut);
            before = after;
        }
        let (low, high) = (sorted[lowest], sorted[highest]);
        let n = f64::from(n);
        let deviations = |squares: f64, sum: f64| (squares - sum * sum / n).max(0.0);
        if low == high {
            // A coarse clock: the middle is one value. What was cut is then all that tells of the error.
            let all = || sorted.iter().zip(times).map(|(value, &times)| (value - low, f64::from(times)));
            let sum: f64 = all().map(|(value, times)| times * value).sum();
            let squares: f64 = all().map(|(value, times)| times * value * value).sum();
            return Self { mean: low, std_error: (deviations(squares, sum) / (n * (n - 1.0))).sqrt() };
        }
        // Winsorised: each value that was cut counts as the nearest that was kept.
        let (cut, kept) = (f64::from(cut), n - 2.0 * f64::from(cut));
        let winsorised = deviations(squares + cut * (low * low + high * high), sum + cut * (low + high));
        Self { mean: sum / kept, std_error: (winsorised / (kept * (kept - 1.0))).sqrt() }
    }
}

/// The 95 % point of |resample's mean - mean| / resample's standard error over [`RESAMPLES`] resamples of `sorted`,
/// whose own trimmed mean is `mean`.
fn bootstrap_critical_value(sorted: &[f64], mean: f64, seed: u64) -> f64 {
    let mut draws = Draws::new(seed, Purpose::Bootstrap, [0, 0]);
    let mut times_drawn = vec![0; sorted.len()];
    let mut distances: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            times_drawn.fill(0);
            for _ in 0..sorted.len() {
                times_drawn[draws.below(sorted.len())] += 1;
            }
            let resample = Trimmed::from_sorted(sorted, &times_drawn);
            let distance = (resample.mean - mean).abs();
            if distance > 0.0 { distance / resample.std_error } else { 0.0 }
        })
        .collect();
    // The ceil(0.95 (B + 1))-th smallest: with the sample itself counted in, at most 5 % lie beyond.
    let rank = (CONFIDENCE * (RESAMPLES + 1) as f64).ceil() as usize;
    let (_, &mut critical, _) = distances.select_nth_unstable_by(rank - 1, f64::total_cmp);
    critical
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ratios: &[f64]) -> Vec<Pair> {
        ratios.iter().map(|&ratio| Pair { reference_s: ratio, treatment_s: 1.0 }).collect()
    }

    #[test]
    fn five_pairs_by_hand() {
        // Log ratios .01 .02 .03 .05 .90: trimmed to .02 .03 .05, mean .1 / 3. Winsorised to .02 .02 .03 .05 .05 with sum of
        // squares .0067 - .17^2 / 5 = .00092; standard error sqrt(.00092 / (3 * 2)) = .0123828; half width t(2) = 4.302653
        // of these, widened by 3 / 25.
        let pairs = pairs(&[0.9, 0.02, 0.05, 0.01, 0.03].map(f64::exp));
        let comparison = paired_ratio(&pairs, 1).unwrap();
        assert!((comparison.log_ratio - 0.1 / 3.0).abs() < 1e-15);
        assert!((comparison.low().ln() - (0.1 / 3.0 - 0.0596723)).abs() < 1e-6, "{}", comparison.low().ln());
        assert!((comparison.high().ln() - (0.1 / 3.0 + 0.0596723)).abs() < 1e-6);
        assert!(
            (comparison.relative_width() - (comparison.high() - comparison.low()) / comparison.ratio()).abs() < 1e-15
        );
        assert!(!comparison.excludes_one());
        // Student's density with 4 / 3 degrees of freedom, integrated apart: t at .975 is 7.19159, at .98 8.52343, at .8 1.20410.
        assert!((comparison.std_error - 0.0596723 / 7.19159).abs() < 1e-6, "{}", comparison.std_error);
        assert!((comparison.p_value() - 0.10597).abs() < 1e-4, "{}", comparison.p_value());
        let detectable = ((8.52343_f64 + 1.20410) * 0.0596723 / 7.19159).exp() - 1.0;
        assert!((comparison.smallest_detectable(1) - detectable).abs() < 1e-4, "{}", comparison.smallest_detectable(1));
        assert!(comparison.smallest_detectable(8) > comparison.smallest_detectable(1));
    }

    #[test]
    fn above_one_is_faster() {
        let comparison = paired_ratio(&pairs(&[1.19, 1.21, 1.2, 1.18, 1.22, 1.2, 1.19, 1.21, 1.2, 1.2]), 1).unwrap();
        assert!((comparison.ratio() - 1.2).abs() < 0.002);
        assert!(comparison.excludes_one() && comparison.low() > 1.18 && comparison.high() < 1.22);
        assert!(comparison.p_value() < 1e-5, "not bounded by the number of resamples: {}", comparison.p_value());
    }

    #[test]
    fn a_coarse_clock_leaves_an_honest_error() {
        // Three of five equal: trimming leaves one value, the error is that of all five.
        let comparison = paired_ratio(&pairs(&[1.0, 1.0, 1.0, 1.1, 1.0]), 1).unwrap();
        assert_eq!(comparison.log_ratio, 0.0);
        let half_width = 4.302_653 * 1.12 * 1.1_f64.ln() / 5.0;
        assert!((comparison.high().ln() - half_width).abs() < 1e-6, "{}", comparison.high().ln());
        assert_eq!(comparison.p_value(), 1.0);
        // All equal: no error to measure by, only five pairs that point the same way.
        let comparison = paired_ratio(&pairs(&[1.1; 5]), 1).unwrap();
        assert_eq!((comparison.std_error, comparison.p_value()), (0.0, 2.0 / 32.0));
        assert_eq!(comparison.low(), comparison.high());
        assert_eq!(paired_ratio(&pairs(&[1.0; 12]), 1).unwrap().p_value(), 1.0);
    }

    #[test]
    fn few_pairs_and_times_that_are_none_give_no_ratio() {
        assert_eq!(paired_ratio(&pairs(&[1.0; 4]), 1), None);
        for no_time in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(paired_ratio(&pairs(&[1.0, 1.0, no_time, 1.0, 1.0]), 1), None, "{no_time}");
        }
    }

    #[test]
    fn weighted_and_written_out_samples_agree() {
        let written_out = [-3.0, -3.0, -1.0, 0.0, 0.0, 0.0, 2.0, 5.0, 5.0, 5.0, 9.0];
        let direct = Trimmed::from_sorted(&written_out, &[1; 11]);
        assert_eq!(Trimmed::from_sorted(&[-3.0, -1.0, 0.0, 1.0, 2.0, 5.0, 9.0], &[2, 1, 3, 0, 1, 3, 1]), direct);
        // Two cut at either end: -1 0 0 0 2 5 5 with mean 11 / 7; Winsorised -1 -1 -1 0 0 0 2 5 5 5 5 has squares 107 and sum 19.
        assert_eq!(direct.mean, 11.0 / 7.0);
        assert!((direct.std_error - ((107.0 - 361.0 / 11.0) / 42.0_f64).sqrt()).abs() < 1e-15);
    }
}
