//! What a study may claim when it compares many placements at once.

use crate::paired::{CLAIM_LEVEL, PairedRatio};
use serde::{Deserialize, Serialize};

/// What is claimed of a treatment against the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// It is faster.
    Faster,
    /// It is slower.
    Slower,
    /// No difference is shown, which isn't to say that there is none.
    NoneShown,
}

/// The p-values adjusted for their number, in the order given: each is the smallest chance of *any* false claim at which its
/// own would be made (Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
/// Statistics 6(2), 1979). What isn't a probability counts as 1.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let probability = |index: usize| Some(p_values[index]).filter(|p| (0.0..=1.0).contains(p)).unwrap_or(1.0);
    let mut rising: Vec<usize> = (0..p_values.len()).collect();
    rising.sort_by(|&a, &b| probability(a).total_cmp(&probability(b)));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, &index) in rising.iter().enumerate() {
        let remaining = (p_values.len() - rank) as f64;
        largest = largest.max((remaining * probability(index)).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

/// One claim for each of all the comparisons of a study, in their order.
///
/// A difference is claimed when the comparison's own 95 % interval excludes 1 and Holm's adjusted p-value over all
/// comparisons is at most [`CLAIM_LEVEL`]. So a study of treatments that don't differ claims any difference at all in at most 5 %
/// of cases, however many there are.
pub fn claims(comparisons: &[PairedRatio]) -> Vec<Claim> {
    let p_values: Vec<f64> = comparisons.iter().map(PairedRatio::p_value).collect();
    comparisons
        .iter()
        .zip(holm(&p_values))
        .map(|(comparison, adjusted_p)| {
            if !comparison.excludes_one() || adjusted_p > CLAIM_LEVEL {
                Claim::NoneShown
            } else if comparison.log_ratio > 0.0 {
                Claim::Faster
            } else {
                Claim::Slower
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_by_hand() {
        // Sorted .005 .01 .03 .04: times 4 3 2 1 is .02 .03 .06 .04, and no step goes down.
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (adjusted, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((adjusted - expected).abs() < 1e-15, "{adjusted} {expected}");
        }
        assert_eq!(holm(&[0.6, 0.7]), [1.0, 1.0]);
        assert_eq!(holm(&[f64::NAN, 0.01]), [1.0, 0.02]);
        assert_eq!(holm(&[]), []);
    }

    #[test]
    fn a_claim_needs_more_among_many() {
        // 25 pairs: 14 * 2 / 3 degrees of freedom; t = 2.6 has p = 0.027, t = 8 has p = 0.00002.
        let comparison = |t: f64| PairedRatio { pairs: 25, log_ratio: 0.01 * t, std_error: 0.01 };
        assert_eq!(claims(&[comparison(2.6)]), [Claim::Faster]);
        assert_eq!(claims(&[comparison(-2.6)]), [Claim::Slower]);
        assert_eq!(claims(&[comparison(2.0)]), [Claim::NoneShown]);
        let many = [comparison(2.6), comparison(0.0), comparison(-8.0), comparison(1.0)];
        assert_eq!(claims(&many), [Claim::NoneShown, Claim::NoneShown, Claim::Slower, Claim::NoneShown]);
    }
}
