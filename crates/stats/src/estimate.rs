//! Estimates of one sample of times.

use crate::paired::{CONFIDENCE, student};
use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF};

/// What one sample of times says by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// How many times there are.
    pub runs: usize,
    /// Fastest, in seconds.
    pub min_s: f64,
    /// Median, in seconds.
    pub median_s: f64,
    /// Mean, in seconds.
    pub mean_s: f64,
    /// Slowest, in seconds.
    pub max_s: f64,
    /// Sample standard deviation (divisor n - 1), in seconds; none of a single run.
    pub sd_s: Option<f64>,
}

impl Estimate {
    /// Standard deviation over mean (0.05 = 5 %); none of a single run or when the mean is 0.
    pub fn relative_sd(&self) -> Option<f64> {
        self.sd_s.map(|sd_s| sd_s / self.mean_s).filter(|relative_sd| relative_sd.is_finite())
    }
}

/// Describes `times_s`, in seconds, in any order; none when there are no times, or one is negative or not finite.
pub fn estimate(times_s: &[f64]) -> Option<Estimate> {
    let sorted = sorted(times_s)?;
    let (min_s, max_s) = (*sorted.first()?, *sorted.last()?);
    if min_s < 0.0 {
        return None;
    }
    let runs = sorted.len();
    let mean_s = sorted.iter().map(|time_s| time_s / runs as f64).sum::<f64>();
    let sd_s = (runs > 1).then(|| {
        // Relative to the slowest, so that squares stay within the range of a double.
        let unit_s = if max_s > 0.0 { max_s } else { 1.0 };
        let squares = sorted.iter().map(|time_s| ((time_s - mean_s) / unit_s).powi(2)).sum::<f64>();
        unit_s * (squares / (runs as f64 - 1.0)).sqrt()
    });
    Some(Estimate { runs, min_s, median_s: quantile_of_sorted(&sorted, 0.5), mean_s, max_s, sd_s })
}

/// The quantile at `share` (0.5 = median) of `values`, in any order; none when there are no values, one is not finite,
/// or `share` is outside 0 to 1.
///
/// Between two values it interpolates: definition 7 of Hyndman and Fan, "Sample quantiles in statistical packages",
/// The American Statistician 50(4), 1996.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let sorted = sorted(values)?;
    (!sorted.is_empty() && (0.0..=1.0).contains(&share)).then(|| quantile_of_sorted(&sorted, share))
}

/// An interval that holds the median of the distribution with a probability of at least 95 %, whatever its shape; none
/// for fewer than 6 values, from which no such interval can be had, or when one is not finite.
///
/// Its ends are the narrowest symmetric pair of order statistics (the sign test turned around: Thompson, "On
/// confidence ranges for the median", Annals of Mathematical Statistics 7(3), 1936).
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(values)?;
    // How many of n values lie below the median is binomial(n, 1/2).
    let below = Binomial::new(0.5, sorted.len() as u64).ok()?;
    let rank = (0..sorted.len() as u64 / 2).take_while(|&rank| below.cdf(rank) <= 0.025).count().checked_sub(1)?;
    Some((sorted[rank], sorted[sorted.len() - 1 - rank]))
}

/// The mean of independent values and an interval that holds the distribution's mean with a probability of 95 % (Student's t:
/// right for values that scatter normally, close for others without far outliers); no interval of a single value, and nothing
/// without values or when one is not finite.
pub fn mean_interval(values: &[f64]) -> Option<(f64, Option<(f64, f64)>)> {
    let sorted = sorted(values)?;
    let count = sorted.len() as f64;
    let mean = sorted.iter().map(|value| value / count).sum::<f64>();
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    if first == last {
        return Some((first, (sorted.len() > 1).then_some((first, first))));
    }
    let variance = sorted.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = student(count - 1.0).inverse_cdf(0.5 + CONFIDENCE / 2.0) * (variance / count).sqrt();
    Some((mean, Some((mean - half, mean + half))))
}

/// The values in rising order; none when one is not finite.
pub(crate) fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.iter().all(|value| value.is_finite()).then_some(sorted)
}

/// `sorted` is not empty and rises; `share` lies between 0 and 1.
pub(crate) fn quantile_of_sorted(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    let weight = position.fract();
    below * (1.0 - weight) + above * weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_by_hand() {
        // Mean 5; squared deviations 9 1 1 1 0 0 4 16 = 32; 32 / 7.
        let estimate = estimate(&[9.0, 2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0]).unwrap();
        assert_eq!((estimate.runs, estimate.min_s, estimate.max_s), (8, 2.0, 9.0));
        assert_eq!((estimate.median_s, estimate.mean_s), (4.5, 5.0));
        assert!((estimate.sd_s.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-15);
        assert!((estimate.relative_sd().unwrap() - (32.0_f64 / 7.0).sqrt() / 5.0).abs() < 1e-15);
    }

    #[test]
    fn too_little_is_none_and_never_nan() {
        assert_eq!(estimate(&[]), None);
        assert_eq!(estimate(&[1.0, f64::NAN]), None);
        assert_eq!(estimate(&[1.0, f64::INFINITY]), None);
        assert_eq!(estimate(&[-1.0, 1.0]), None);
        assert_eq!(estimate(&[3.0]).unwrap().sd_s, None);
        assert_eq!(estimate(&[3.0]).unwrap().relative_sd(), None);
        assert_eq!(estimate(&[0.0, 0.0]).unwrap().relative_sd(), None);
        assert!(estimate(&[f64::MAX, f64::MAX / 2.0]).unwrap().sd_s.unwrap().is_finite());
    }

    #[test]
    fn quantiles_by_hand() {
        let values = [40.0, 10.0, 30.0, 20.0];
        assert_eq!(quantile(&values, 0.0), Some(10.0));
        assert_eq!(quantile(&values, 0.25), Some(17.5));
        assert_eq!(quantile(&values, 0.5), Some(25.0));
        assert_eq!(quantile(&values, 1.0), Some(40.0));
        assert_eq!(quantile(&values, 1.1), None);
        assert_eq!(quantile(&values, f64::NAN), None);
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn the_mean_interval_is_students() {
        // Mean 5, standard deviation sqrt(32 / 7), t(7) at 97.5 % from tables: 2.3646.
        let (mean, interval) = mean_interval(&[9.0, 2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0]).unwrap();
        let half = 2.3646 * (32.0_f64 / 7.0 / 8.0).sqrt();
        let (low, high) = interval.unwrap();
        assert!(mean == 5.0 && (low - (5.0 - half)).abs() < 1e-4 && (high - (5.0 + half)).abs() < 1e-4, "{low} {high}");
        assert_eq!(mean_interval(&[0.1; 3]), Some((0.1, Some((0.1, 0.1)))), "equal values leave no doubt");
        assert_eq!(mean_interval(&[3.0]), Some((3.0, None)));
        assert_eq!(mean_interval(&[]), None);
        assert_eq!(mean_interval(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn the_median_interval_takes_the_ranks_of_the_sign_test() {
        let ranks = |n: usize| median_interval(&(1..=n).map(|rank| rank as f64).collect::<Vec<_>>());
        assert_eq!(ranks(0), None);
        assert_eq!(ranks(5), None, "1 - 2 / 32 = 93.75 %");
        assert_eq!(ranks(6), Some((1.0, 6.0)), "1 - 2 / 64 = 96.9 %");
        assert_eq!(ranks(8), Some((1.0, 8.0)), "1 - 2 * 9 / 256 = 93.0 % would be too little");
        assert_eq!(ranks(9), Some((2.0, 8.0)), "1 - 2 * 10 / 512 = 96.1 %");
        assert_eq!(ranks(20), Some((6.0, 15.0)), "tables of the sign test");
    }
}
