//! Whether times move while a study goes on: the machine warms up, a neighbour arrives.

use crate::estimate::sorted;
use crate::select::{Counted, order_statistic};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};
use std::cmp::Ordering;

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
/// Econometrica 13, 1945; Kendall, "Rank Correlation Methods", 1975), two-sided. Time goes with n log n and memory with n.
pub fn drift(points: &[(f64, f64)]) -> Option<Drift> {
    let real = |&(position, time_s): &(f64, f64)| position.is_finite() && time_s.is_finite() && time_s > 0.0;
    if points.len() < MIN_DRIFT_POINTS || !points.iter().all(real) {
        return None;
    }
    let slopes = Slopes::new(points);
    let last_rank = slopes.count().checked_sub(1)?;
    let (below, above) = (last_rank / 2, last_rank.div_ceil(2));
    let below_slope = order_statistic(&slopes, below);
    let median_slope =
        if below == above { below_slope } else { 0.5 * below_slope + 0.5 * order_statistic(&slopes, above) };
    let kendall_s = slopes.count_above(0.0).abs_diff(slopes.count_below(0.0));
    let positions = sorted(&points.iter().map(|point| point.0).collect::<Vec<_>>())?;
    let times_s = sorted(&points.iter().map(|point| point.1).collect::<Vec<_>>())?;
    let span = positions.last()? - positions.first()?;
    let relative_change = (median_slope * span).exp_m1();
    let variance = variance_of_s(&positions, &times_s);
    let p_value = if variance > 0.0 {
        let z = (kendall_s as f64 - 1.0).max(0.0) / variance.sqrt();
        2.0 * Normal::standard().sf(z)
    } else {
        1.0
    };
    relative_change.is_finite().then_some(Drift { relative_change, p_value: p_value.min(1.0) })
}

/// The slopes between all pairs of points whose positions differ, none of which is stored.
struct Slopes {
    /// Points of (position, log time), in rising order.
    points: Vec<(f64, f64)>,
    count: u64,
}

/// A point with what is left of its log time when a line is taken off.
#[derive(Clone, Copy)]
struct Residual {
    residual: f64,
    point: (f64, f64),
}

impl Slopes {
    fn new(points: &[(f64, f64)]) -> Self {
        let mut points: Vec<(f64, f64)> = points.iter().map(|&(position, time_s)| (position, time_s.ln())).collect();
        points.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        let pairs = |n: usize| (n as u64) * (n as u64).saturating_sub(1) / 2;
        let count = pairs(points.len()) - points.chunk_by(same_position).map(|tie| pairs(tie.len())).sum::<u64>();
        Self { points, count }
    }
}

/// A slope is less than `value` exactly when the later of its points has the lesser residual about a line of slope `value`
/// (the dual arrangement: Cole, Salowe, Steiger and Szemeredi, "An optimal-time algorithm for slope selection", SIAM Journal
/// on Computing 18, 1989). So slopes are counted as inversions, which merge sort finds.
impl Counted for Slopes {
    fn count(&self) -> u64 {
        self.count
    }

    fn count_below(&self, value: f64) -> u64 {
        // Points of one position rise, so that none of their pairs is inverted.
        inversions(self.points.iter().map(|&point| Residual::about(value, point)).collect())
    }

    fn count_above(&self, value: f64) -> u64 {
        // From the last position to the first, but rising at each of them.
        let points = self.points.chunk_by(same_position).rev().flatten();
        inversions(points.map(|&point| Residual::about(value, point)).collect())
    }

    fn between(&self, low: f64, high: f64) -> Vec<f64> {
        let mut points = self.points.clone();
        // Of points on one line of slope `low` the later goes first: theirs is not among the slopes above `low`.
        points.sort_by(|a, b| {
            let residuals = Residual::about(low, *a).residual.total_cmp(&Residual::about(low, *b).residual);
            residuals.then(b.0.total_cmp(&a.0))
        });
        let mut residuals: Vec<Residual> = points.iter().map(|&point| Residual::about(high, point)).collect();
        let mut slopes = Vec::new();
        merge_sort(&mut residuals, &mut Vec::new(), &mut |earlier, later| {
            let runs_and_rises =
                earlier.iter().map(|earlier| (later.point.0 - earlier.point.0, later.point.1 - earlier.point.1));
            // Rounding can invert points of one position.
            slopes.extend(runs_and_rises.filter(|(run, _)| *run > 0.0).map(|(run, rise)| rise / run));
        });
        slopes
    }
}

impl Residual {
    /// About a line of slope `slope`, which may be infinite: then positions alone decide.
    fn about(slope: f64, point: (f64, f64)) -> Self {
        let residual = if slope.is_finite() { point.1 - slope * point.0 } else { -slope.signum() * point.0 };
        Self { residual, point }
    }
}

fn same_position(a: &(f64, f64), b: &(f64, f64)) -> bool {
    a.0 == b.0
}

/// How many pairs have the greater residual first.
fn inversions(mut residuals: Vec<Residual>) -> u64 {
    let mut count = 0;
    merge_sort(&mut residuals, &mut Vec::new(), &mut |greater, _| count += greater.len() as u64);
    count
}

/// Sorts by residual, and calls `inverted` for each point with those before it whose residual is greater, a part at a time.
fn merge_sort(
    residuals: &mut [Residual],
    merged: &mut Vec<Residual>,
    inverted: &mut impl FnMut(&[Residual], Residual),
) {
    if residuals.len() < 2 {
        return;
    }
    let (left, right) = residuals.split_at_mut(residuals.len() / 2);
    merge_sort(left, merged, inverted);
    merge_sort(right, merged, inverted);
    merged.clear();
    let mut from_left = 0;
    for &next in &*right {
        while from_left < left.len() && left[from_left].residual <= next.residual {
            merged.push(left[from_left]);
            from_left += 1;
        }
        inverted(&left[from_left..], next);
        merged.push(next);
    }
    merged.extend_from_slice(&left[from_left..]);
    residuals.copy_from_slice(merged);
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
    use crate::draw::{Draws, Purpose};

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

    /// The same by listing every slope.
    fn by_listing(points: &[(f64, f64)]) -> Option<Drift> {
        let (mut slopes, mut s) = (Vec::new(), 0_i64);
        for (index, &(position, time_s)) in points.iter().enumerate() {
            for &(earlier, earlier_s) in points[..index].iter().filter(|earlier| earlier.0 != position) {
                let (run, rise) = (position - earlier, time_s.ln() - earlier_s.ln());
                slopes.push(rise / run);
                s += if rise == 0.0 { 0 } else { (run.signum() * rise.signum()) as i64 };
            }
        }
        let slope = crate::quantile(&slopes, 0.5)?;
        let positions = sorted(&points.iter().map(|point| point.0).collect::<Vec<_>>())?;
        let times_s = sorted(&points.iter().map(|point| point.1).collect::<Vec<_>>())?;
        let relative_change = (slope * (positions.last()? - positions.first()?)).exp_m1();
        let variance = variance_of_s(&positions, &times_s);
        let z = (s.unsigned_abs() as f64 - 1.0).max(0.0) / variance.sqrt();
        let p_value = if variance > 0.0 { (2.0 * Normal::standard().sf(z)).min(1.0) } else { 1.0 };
        Some(Drift { relative_change, p_value })
    }

    /// Positions and times that `ticks` and `places` make coarse: the fewer, the more ties.
    fn drawn(n: usize, places: usize, ticks: usize, trend: f64) -> Vec<(f64, f64)> {
        let mut draws = Draws::new((n + places) as u64, Purpose::Bootstrap, [ticks as u32, 0]);
        (0..n)
            .map(|_| {
                let position = draws.below(places) as f64;
                (position, 1.0 + draws.below(ticks) as f64 / ticks as f64 + trend * position / places as f64)
            })
            .collect()
    }

    #[test]
    fn counting_slopes_finds_what_listing_them_finds() {
        // From a few hundred points on, not all slopes are listed any more.
        for n in [10, 11, 30, 60, 363, 500, 901] {
            for (places, ticks) in [(1 << 30, 1 << 30), (2 * n, 1 << 20), (5, 1 << 20), (n, 3), (3, 2), (2, 1)] {
                for trend in [0.0, -0.5] {
                    let points = drawn(n, places, ticks, trend);
                    assert_eq!(drift(&points), by_listing(&points), "{n} {places} {ticks} {trend}");
                }
            }
        }
    }

    #[test]
    fn slopes_equal_but_for_rounding_have_their_common_value() {
        let points = points(&(0..1_000).map(|step| 1.001_f64.powi(step)).collect::<Vec<_>>());
        let (ours, listed) = (drift(&points).unwrap(), by_listing(&points).unwrap());
        assert_eq!(ours.p_value, listed.p_value);
        assert!((ours.relative_change / listed.relative_change - 1.0).abs() < 1e-12, "{ours:?} {listed:?}");
    }

    #[test]
    fn a_hundred_thousand_points_are_judged() {
        // Listed, their slopes would take 40 GB.
        let mut points = drawn(100_000, 1 << 30, 1 << 30, 0.0);
        points.iter_mut().for_each(|point| point.1 *= (0.1 * point.0 / f64::from(1 << 30)).exp());
        let drift = drift(&points).unwrap();
        assert!((drift.relative_change - 0.1_f64.exp_m1()).abs() < 0.01 && drift.p_value < 1e-10, "{drift:?}");
    }
}
