//! The ratio of two samples whose runs are in no common blocks, such as those of two studies.
//!
//! As in [`crate::paired_ratio`] it is that of 20 % trimmed means of logs; its interval is Yuen's for two trimmed means with unequal
//! variances ("The two-sample trimmed t for unequal population variances", Biometrika 61, 1974, section 2). What changed between the
//! two samples as a whole (another day, another room temperature) is in the ratio, and not in its interval.

use crate::paired::{MIN_PAIRS, Trimmed, UPPER, student};
use serde::{Deserialize, Serialize};
use statrs::distribution::ContinuousCDF;

/// A ratio with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnpairedRatio {
    /// The estimate: the first sample's over the second's.
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of its 95 % interval.
    pub high: f64,
}

/// The ratio of `reference` to `other`, in any order each; none where one has fewer than [`MIN_PAIRS`] values, or a value that is no
/// positive number.
pub fn unpaired_ratio(reference: &[f64], other: &[f64]) -> Option<UnpairedRatio> {
    let of = |values: &[f64]| {
        let is_usable = |value: &f64| value.is_finite() && *value > 0.0;
        if values.len() < MIN_PAIRS || !values.iter().all(is_usable) {
            return None;
        }
        let mut logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        logs.sort_unstable_by(f64::total_cmp);
        let middle = logs[logs.len() / 2];
        let centred: Vec<f64> = logs.iter().map(|log| log - middle).collect();
        let trimmed = Trimmed::from_sorted(&centred, &vec![1; centred.len()]);
        // Those that trimming leaves, less one.
        let freedom = (values.len() - 2 * (values.len() / 5)) as f64 - 1.0;
        Some((middle + trimmed.mean, trimmed.std_error.powi(2), freedom))
    };
    let ((mean, variance, freedom), (other_mean, other_variance, other_freedom)) = (of(reference)?, of(other)?);
    let sum = variance + other_variance;
    let log_ratio = mean - other_mean;
    let half_width = if sum > 0.0 {
        let shared = sum.powi(2) / (variance.powi(2) / freedom + other_variance.powi(2) / other_freedom);
        student(shared).inverse_cdf(UPPER) * sum.sqrt()
    } else {
        0.0
    };
    let ends = [log_ratio, log_ratio - half_width, log_ratio + half_width].map(f64::exp);
    Some(UnpairedRatio { ratio: ends[0], low: ends[1], high: ends[2] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_trimmed_means_and_has_an_interval_around_it() {
        let sample = [1.0, 1.1, 0.9, 1.05, 0.95];
        let doubled = sample.map(|value| 2.0 * value);
        let found = unpaired_ratio(&doubled, &sample).unwrap();
        assert!((found.ratio - 2.0).abs() < 1e-12 && found.low < 2.0 && found.high > 2.0, "{found:?}");
        let swapped = unpaired_ratio(&sample, &doubled).unwrap();
        assert!((found.low * swapped.high - 1.0).abs() < 1e-12);
        let with_outlier = unpaired_ratio(&[2.0, 2.2, 1.8, 2.1, 900.0], &sample).unwrap();
        assert!((with_outlier.ratio / 2.1 - 1.0).abs() < 0.05, "{with_outlier:?}");
        let same = unpaired_ratio(&[3.0; 5], &[1.5; 9]).unwrap();
        assert!((same.ratio - 2.0).abs() < 1e-12 && same.low == same.high);
        assert_eq!(unpaired_ratio(&[1.0; 4], &[1.0; 9]), None, "too few");
        assert_eq!(unpaired_ratio(&[1.0, 1.0, 1.0, 1.0, 0.0], &[1.0; 9]), None);
    }
}
