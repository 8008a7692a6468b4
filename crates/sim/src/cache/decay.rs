//! `exp(-x)`, fast and with the same bits everywhere.

use std::array;

/// Values of the table a unit of `x`.
const STEPS: usize = 32;
/// Beyond this `x` there is nothing: exp(-40) of a million million lines isn't one.
const LIMIT: usize = 40;

/// `exp(-x)` at `x = i / STEPS`.
#[derive(Clone, Debug)]
pub(super) struct Decay(Box<[f64; LIMIT * STEPS + 1]>);

impl Decay {
    /// Beyond this `x` nothing is left.
    pub const LIMIT: f64 = LIMIT as f64;

    pub fn new() -> Self {
        Self(Box::new(array::from_fn(|i| libm::exp(-(i as f64) / STEPS as f64))))
    }

    /// What is left of one after `x >= 0`, to eleven digits: from the nearest value in the table by Taylor's series, whose
    /// first term left out is at most `(1/64)^5 / 120`.
    #[inline]
    pub fn left(&self, x: f64) -> f64 {
        if x >= Self::LIMIT {
            return 0.0;
        }
        let i = (x * STEPS as f64 + 0.5) as usize;
        let y = i as f64 / STEPS as f64 - x;
        self.0[i] * (1.0 + y * (1.0 + y * (0.5 + y * (1.0 / 6.0 + y * (1.0 / 24.0)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_exponential_to_eleven_digits() {
        let decay = Decay::new();
        for i in 0..100_000 {
            let x = f64::from(i) * 3.99e-4;
            assert!((decay.left(x) / libm::exp(-x) - 1.0).abs() < 1e-11, "{x}");
        }
        assert_eq!((decay.left(0.0), decay.left(1e300), decay.left(f64::INFINITY)), (1.0, 0.0, 0.0));
    }
}
