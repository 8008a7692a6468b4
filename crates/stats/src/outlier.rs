//! Marks on values that lie far from the others. Nothing is ever dropped for it.

use crate::estimate::{quantile_of_sorted, sorted};
use serde::{Deserialize, Serialize};

/// A value whose modified z-score is beyond this is marked.
///
/// The score is the distance from the median in units of 1.4826 MAD, which estimates the standard deviation of a normal
/// sample: 1.4826 = 1 / 0.6745, and 0.6745 is the upper quartile of the standard normal distribution. Iglewicz
/// and Hoaglin ("How to Detect and Handle Outliers", ASQC 1993) chose 3.5 after simulation; in a large normal sample
/// one value in 2,000 is beyond it.
pub const OUTLIER_THRESHOLD: f64 = 3.5;

const SD_PER_MAD: f64 = 1.4826;
/// The square root of pi / 2: the standard deviation of a normal sample over its mean absolute deviation.
const SD_PER_MEAN_DEVIATION: f64 = 1.253_314_137_315_5;

/// How a time lies to the others of its sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// With the others.
    Typical,
    /// Far faster than the others.
    Fast,
    /// Far slower than the others.
    Slow,
}

/// One mark for each of `times_s`, in their order. Fewer than three times, or a time that isn't finite, and all are
/// typical: there is nothing to be far from.
///
/// When more than half of the times are equal, as with a coarse clock, the MAD is 0 and the mean absolute deviation from
/// the median takes its place, as Iglewicz and Hoaglin propose.
pub fn outliers(times_s: &[f64]) -> Vec<Mark> {
    let typical = vec![Mark::Typical; times_s.len()];
    let Some(sorted_s) = sorted(times_s).filter(|sorted_s| sorted_s.len() >= 3) else { return typical };
    let median_s = quantile_of_sorted(&sorted_s, 0.5);
    let deviations_s: Vec<f64> = times_s.iter().map(|time_s| (time_s - median_s).abs()).collect();
    let Some(sorted_deviations_s) = sorted(&deviations_s) else { return typical };
    let mad_s = quantile_of_sorted(&sorted_deviations_s, 0.5);
    let sd_s = if mad_s > 0.0 {
        SD_PER_MAD * mad_s
    } else {
        SD_PER_MEAN_DEVIATION * deviations_s.iter().sum::<f64>() / times_s.len() as f64
    };
    times_s
        .iter()
        .map(|time_s| match time_s - median_s {
            distance_s if distance_s > OUTLIER_THRESHOLD * sd_s => Mark::Slow,
            distance_s if distance_s < -OUTLIER_THRESHOLD * sd_s => Mark::Fast,
            _ => Mark::Typical,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mark::{Fast, Slow, Typical};

    #[test]
    fn marks_by_hand() {
        // Median 10, deviations 0 1 1 2 2 5 6: MAD 2, so beyond 3.5 * 1.4826 * 2 = 10.4 is far.
        assert_eq!(outliers(&[10.0, 9.0, 11.0, 8.0, 12.0, 5.0, 16.0]), [Typical; 7]);
        // Median 10, deviations 0 0.1 0.1 0.2 0.2 1 5: MAD 0.2, so beyond 1.04 is far.
        let marks = outliers(&[15.0, 9.9, 10.1, 9.8, 10.2, 9.0, 10.0]);
        assert_eq!(marks, [Slow, Typical, Typical, Typical, Typical, Typical, Typical]);
        let marks = outliers(&[15.0, 9.9, 10.1, 9.8, 10.2, 8.9, 10.0]);
        assert_eq!(marks, [Slow, Typical, Typical, Typical, Typical, Fast, Typical]);
    }

    #[test]
    fn a_coarse_clock_does_not_hide_an_outlier() {
        let mut times_s = [0.05; 12];
        times_s[3] = 0.5;
        let marks = outliers(&times_s);
        assert_eq!(marks.iter().filter(|&&mark| mark == Slow).count(), 1);
        assert_eq!(marks[3], Slow);
        assert_eq!(outliers(&[0.05; 12]), [Typical; 12]);
    }

    #[test]
    fn too_few_or_unreal_times_are_typical() {
        assert_eq!(outliers(&[]), []);
        assert_eq!(outliers(&[1.0, 100.0]), [Typical; 2]);
        assert_eq!(outliers(&[1.0, 1.0, 1.0, f64::NAN]), [Typical; 4]);
    }
}
