//! Whether times move while a study goes on: the machine warms up, a neighbour arrives.

use crate::estimate::{quantile_of_sorted, sorted};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

/// Fewest times from which a trend is judged: below this the normal approximation of Kendall's S is poor.
pub const MIN_DRIFT_POINTS: usize = 10;

/// A trend of times over a study.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Change from the first position to the last along the trend (0.02 = 2 % slower at the end).
    pub relative_change: f64,
    /// Probability of a trend at least this consistent if the times were in random order.
    pub p_value: f64,
}

/// The trend of times over the study, from points of (position, time in seconds). A position says when the time was
/// taken: a sequence or block number, with gaps where trials failed. None for fewer than [`MIN_DRIFT_POINTS`], or when
/// a number isn't finite, a time isn't positive, or all positions are equal.
///
/// The change is the median of the slopes between all pairs of points, on log times (Theil 1950; Sen, "Estimates of the
/// regression coefficient based on Kendall's tau", JASA 63, 1968); up to 29 % of the times may be outliers. The p-value
/// is that of Kendall's S with correction for ties and continuity (Mann, "Nonparametric tests against trend",
/// Econometrica 13, 1945; Kendall, "Rank Correlation Methods", 1975), two-sided.
pub fn drift(points: &[(f64, f64)]) -> Option<Drift> {
    let real = |&(position, time_s): &(f64, f64)| position.is_finite() && time_s.is_finite() && time_s > 0.0;
    if points.len() < MIN_DRIFT_POINTS || !points.iter().all(real) {
        return None;
    }
    let mut slopes = Vec::with_capacity(points.len() * (points.len() - 1) / 2);
    let mut kendall_s = 0_i64;
    for (index, &(position, time_s)) in points.iter().enumerate() {
        for &(earlier, earlier_s) in &points[..index] {
            let run = position - earlier;
            let rise = time_s.ln() - earlier_s.ln();
            if run != 0.0 {
                slopes.push(rise / run);
                kendall_s += (sign(run) * sign(rise)) as i64;
            }
        }
    }
    let slopes = sorted(&slopes).filter(|slopes| !slopes.is_empty())?;
    let positions = sorted(&points.iter().map(|point| point.0).collect::<Vec<_>>())?;
    let times_s = sorted(&points.iter().map(|point| point.1).collect::<Vec<_>>())?;
    let span = positions.last()? - positions.first()?;
    let relative_change = (quantile_of_sorted(&slopes, 0.5) * span).exp_m1();
    let variance = variance_of_s(&positions, &times_s);
    let p_value = if variance > 0.0 {
        let z = (kendall_s.unsigned_abs() as f64 - 1.0).max(0.0) / variance.sqrt();
        2.0 * Normal::standard().sf(z)
    } else {
        1.0
    };
    relative_change.is_finite().then_some(Drift { relative_change, p_value: p_value.min(1.0) })
}

fn sign(value: f64) -> i8 {
    i8::from(value > 0.0) - i8::from(value < 0.0)
}

/// Variance of S under random order with ties in both variables (Kendall 1975, chapter 4). Both slices rise.
fn variance_of_s(positions: &[f64], times_s: &[f64]) -> f64 {
    let n = positions.len() as f64;
    let over_ties = |sorted: &[f64], term: fn(f64) -> f64| -> f64 {
        sorted.chunk_by(|a, b| a == b).map(|tie| term(tie.len() as f64)).sum()
    };
    let cubic = |t: f64| t * (t - 1.0) * (2.0 * t + 5.0);
    let triples = |t: f64| t * (t - 1.0) * (t - 2.0);
    let pairs = |t: f64| t * (t - 1.0);
    (cubic(n) - over_ties(positions, cubic) - over_ties(times_s, cubic)) / 18.0
        + over_ties(positions, triples) * over_ties(times_s, triples) / (9.0 * triples(n))
        + over_ties(positions, pairs) * over_ties(times_s, pairs) / (2.0 * pairs(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(times_s: &[f64]) -> Vec<(f64, f64)> {
        times_s.iter().enumerate().map(|(position, &time_s)| (position as f64, time_s)).collect()
    }

    #[test]
    fn steady_growth_is_found_whole() {
        // 1 % a step over 10 steps; S = 55 of 55, variance 11 * 10 * 27 / 18 = 165, z = 54 / 12.845 = 4.204.
        let drift = drift(&points(&(0..11).map(|step| 1.01_f64.powi(step)).collect::<Vec<_>>())).unwrap();
        assert!((drift.relative_change - (1.01_f64.powi(10) - 1.0)).abs() < 1e-12);
        assert!((drift.p_value - 2.622e-5).abs() < 2e-7, "{}", drift.p_value);
    }

    #[test]
    fn ties_by_hand() {
        // Ten times, 5 ones then 5 twos: S = 25; variance (10*9*25 - 2*5*4*15) / 18 = 91.67; z = 24 / 9.574 = 2.5067.
        let drift = drift(&points(&[1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0])).unwrap();
        assert!((drift.p_value - 0.012_19).abs() < 2e-5, "{}", drift.p_value);
    }

    #[test]
    fn an_outlier_is_no_drift_and_order_of_the_points_is_nothing() {
        let mut times_s = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.01, 0.99];
        times_s[11] = 5.0;
        let mut points = points(&times_s);
        let drift_in_order = drift(&points).unwrap();
        assert!(drift_in_order.p_value > 0.3 && drift_in_order.relative_change.abs() < 0.01, "{drift_in_order:?}");
        points.reverse();
        assert_eq!(drift(&points).unwrap(), drift_in_order);
    }

    #[test]
    fn nothing_to_judge_is_none_or_no_trend() {
        assert_eq!(drift(&points(&[1.0; 9])), None);
        assert_eq!(drift(&[(3.0, 1.0); 12]), None);
        assert_eq!(drift(&points(&[0.0; 12])), None);
        assert_eq!(drift(&points(&[1.0; 12])), Some(Drift { relative_change: 0.0, p_value: 1.0 }));
    }
}
