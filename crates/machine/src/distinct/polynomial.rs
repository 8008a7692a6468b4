//! Polynomials with natural numbers as coefficients: the coefficient of x^n counts something with n threads.
//!
//! They are multiplied as numbers: with x = 2^w, where no coefficient reaches 2^w, the digits of the product are the
//! coefficients of the product (Kronecker 1882), and large numbers are multiplied in much less than quadratic time.

use num_bigint::BigUint;

/// A polynomial; `self.0[n]` is the coefficient of x^n.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Polynomial(Vec<BigUint>);

/// Bits in a digit of a [`BigUint`].
const DIGIT_BITS: u64 = 32;

impl Polynomial {
    /// `constant + linear x`
    pub(super) fn linear(constant: u32, linear: impl Into<BigUint>) -> Self {
        Self(vec![constant.into(), linear.into()])
    }

    pub(super) fn coefficient(&self, power: usize) -> BigUint {
        self.0.get(power).cloned().unwrap_or_default()
    }

    /// Its value at x = 1.
    fn sum(&self) -> BigUint {
        self.0.iter().sum()
    }

    /// The number with x = 2^(32 digits).
    fn pack(&self, digits: usize) -> BigUint {
        let mut packed = vec![0; self.0.len() * digits];
        for (coefficient, room) in self.0.iter().zip(packed.chunks_mut(digits)) {
            for (digit, place) in coefficient.iter_u32_digits().zip(room) {
                *place = digit;
            }
        }
        BigUint::new(packed)
    }

    fn unpack(packed: &BigUint, digits: usize) -> Self {
        Self(packed.to_u32_digits().chunks(digits).map(BigUint::from_slice).collect())
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let powers = self.0.len().max(other.0.len());
        Self((0..powers).map(|power| self.coefficient(power) + other.coefficient(power)).collect())
    }

    /// The difference, where no coefficient of `other` is larger.
    pub(super) fn minus(&self, other: &Self) -> Self {
        Self((0..self.0.len()).map(|power| self.coefficient(power) - other.coefficient(power)).collect())
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        let digits = digits_for(&(self.sum() * other.sum()));
        Self::unpack(&(self.pack(digits) * other.pack(digits)), digits)
    }

    /// Each coefficient divided by `divisor`, which divides them all.
    pub(super) fn divided(&self, divisor: usize) -> Self {
        Self(self.0.iter().map(|coefficient| coefficient / divisor).collect())
    }

    /// With x^n for x.
    pub(super) fn stretched(&self, n: usize) -> Self {
        if n == 1 {
            return self.clone();
        }
        let mut stretched = vec![BigUint::ZERO; (self.0.len().max(1) - 1) * n + 1];
        for (power, coefficient) in self.0.iter().enumerate() {
            stretched[power * n] = coefficient.clone();
        }
        Self(stretched)
    }

    /// Counts the multisets of `size` of what `self` counts: the complete homogeneous symmetric function h_k of as many
    /// variables as there are things. Exactly one thing has no threads.
    pub(super) fn multisets(&self, size: usize) -> Self {
        let things = self.sum();
        let digits = digits_for(&(binomial(&(&things + size - 1_u32), size) * size));
        let occupied = things - 1_u32;
        let top = self.0.len() - 1;
        // One row of additions for each thing and each size, or one product for each pair of sizes.
        let products_take = BigUint::from(size) * top / 2_u32;
        if occupied <= products_take {
            self.multisets_thing_by_thing(size, digits)
        } else {
            self.multisets_by_power_sums(size, digits)
        }
    }

    /// Row k counts the multisets of k things with threads. A further thing with n threads can be taken any number of times:
    /// row k gains x^n times row k - 1, which has gained already. Things without threads fill up to `size`.
    fn multisets_thing_by_thing(&self, size: usize, digits: usize) -> Self {
        let things: Vec<(usize, &BigUint)> =
            self.0.iter().enumerate().skip(1).filter(|(_, count)| **count != BigUint::ZERO).collect();
        if let [(threads, count)] = things.as_slice()
            && **count == BigUint::from(1_u32)
        {
            return Self(vec![BigUint::from(1_u32); size + 1]).stretched(*threads);
        }
        let mut rows = vec![BigUint::ZERO; size + 1];
        rows[0] = BigUint::from(1_u32);
        for (threads, count) in things {
            let shift = threads as u64 * digits as u64 * DIGIT_BITS;
            let mut left = count.clone();
            while left != BigUint::ZERO {
                for k in 1..=size {
                    let gain = &rows[k - 1] << shift;
                    rows[k] += gain;
                }
                left -= 1_u32;
            }
        }
        Self::unpack(&rows.iter().sum(), digits)
    }

    /// k h_k = p_1 h_(k-1) + ... + p_k h_0, with the power sums p_i = F(x^i) (Newton's identities).
    fn multisets_by_power_sums(&self, size: usize, digits: usize) -> Self {
        let power_sums: Vec<BigUint> = (1..=size).map(|i| self.stretched(i).pack(digits)).collect();
        let mut multisets = vec![BigUint::from(1_u32)];
        for k in 1..=size {
            let sum: BigUint = power_sums.iter().zip(multisets.iter().rev()).map(|(p, h)| p * h).sum();
            multisets.push(sum / k);
        }
        Self::unpack(&multisets[size], digits)
    }
}

/// How many digits hold every number up to `bound`.
fn digits_for(bound: &BigUint) -> usize {
    bound.bits().div_ceil(DIGIT_BITS).max(1) as usize
}

/// How many sets of `k` there are among `n`.
pub(super) fn binomial(n: &BigUint, k: usize) -> BigUint {
    let mut result = BigUint::from(1_u32);
    if *n < BigUint::from(k) {
        return BigUint::ZERO;
    }
    for i in 0..k {
        result *= n - i;
        result /= i + 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polynomial(coefficients: &[u32]) -> Polynomial {
        Polynomial(coefficients.iter().copied().map(BigUint::from).collect())
    }

    #[test]
    fn products_are_those_of_paper_and_pencil() {
        let large = u32::MAX;
        let squared = polynomial(&[large, 1]).times(&polynomial(&[large, 1]));
        assert_eq!(squared.coefficient(0), BigUint::from(u64::from(large) * u64::from(large)));
        assert_eq!(squared.coefficient(1), BigUint::from(2 * u64::from(large)));
        assert_eq!(squared.coefficient(2), BigUint::from(1_u32));
    }

    #[test]
    fn both_ways_to_count_multisets_agree() {
        for (coefficients, size) in [(&[1, 1][..], 5), (&[1, 1, 1], 4), (&[1, 2, 3, 2, 1], 6), (&[1, 0, 7], 3)] {
            let things = polynomial(coefficients);
            let digits = 4;
            let by_thing = things.multisets_thing_by_thing(size, digits);
            assert_eq!(by_thing, things.multisets_by_power_sums(size, digits), "{coefficients:?}");
            assert_eq!(by_thing.sum(), binomial(&(things.sum() + size - 1_u32), size));
        }
    }
}
