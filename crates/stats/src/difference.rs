//! The paired difference: by how much two runs of the same block differ, in whatever unit they have.
//!
//! It is estimated as the paired ratio is, with values in place of logs of ratios, so that its interval and its claims hold
//! what [`crate::paired_ratio`] promises.

use crate::paired::{CLAIM_LEVEL, MIN_PAIRS, PairedRatio, location};

/// A difference, with its doubt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedDifference {
    /// How many pairs it comes from.
    pub pairs: usize,
    /// The 20 % trimmed mean of the pairs' differences.
    pub difference: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// Probability of an estimate at least this far from 0 if there were no difference.
    pub p_value: f64,
}

/// Estimates the difference from those of single pairs, in any order; `seed` is that of the bootstrap.
///
/// None for fewer than [`MIN_PAIRS`], or when one is no finite number.
pub fn paired_difference(differences: &[f64], seed: u64) -> Option<PairedDifference> {
    if differences.len() < MIN_PAIRS || !differences.iter().all(|difference| difference.is_finite()) {
        return None;
    }
    let (difference, std_error) = location(differences.to_vec(), seed);
    let as_logs = PairedRatio { pairs: differences.len(), log_ratio: difference, std_error };
    let half_width = as_logs.half_width();
    Some(PairedDifference {
        pairs: differences.len(),
        difference,
        low: difference - half_width,
        high: difference + half_width,
        p_value: as_logs.p_value(),
    })
}

impl PairedDifference {
    /// Whether a difference may be claimed, as the only comparison of its study: see [`crate::claims`].
    pub fn is_claimed(&self) -> bool {
        (self.low > 0.0 || self.high < 0.0) && self.p_value <= CLAIM_LEVEL
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pair, paired_ratio};

    #[test]
    fn differences_are_estimated_as_logs_of_ratios_are() {
        let differences = [0.3, -0.1, 0.25, 0.2, 0.9, 0.15, 0.22, 0.18, 0.31, 0.27, 0.19];
        let pairs = differences.map(|difference: f64| Pair { reference_s: difference.exp(), treatment_s: 1.0 });
        let (found, ratio) = (paired_difference(&differences, 7).unwrap(), paired_ratio(&pairs, 7).unwrap());
        assert!((found.difference - ratio.log_ratio).abs() < 1e-12 && (found.low - ratio.low().ln()).abs() < 1e-12);
        assert!((found.high - ratio.high().ln()).abs() < 1e-12 && found.is_claimed());
        assert_eq!(paired_difference(&differences[..4], 7), None, "too few");
        assert_eq!(paired_difference(&[0.0, 1.0, 2.0, 3.0, f64::NAN], 7), None);
    }
}
