//! Random draws that are the same on every platform and under every later version of the libraries.
//!
//! The generator is ChaCha8 (Bernstein 2008), whose output is fixed by its specification. Key and reduction are
//! ours, because the seeding and range functions of `rand` may change between its versions. A draw depends on
//! its key only, never on what was drawn before: a resumed study has the plan that it would have had.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What a stream of numbers is for; two purposes never share a stream.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    BlockOrder = 1,
    Bootstrap = 2,
}

/// A stream of draws with its own key.
pub(crate) struct Draws(ChaCha8Rng);

impl Draws {
    pub(crate) fn new(seed: u64, purpose: Purpose, detail: [u32; 2]) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&(purpose as u64).to_le_bytes());
        key[16..20].copy_from_slice(&detail[0].to_le_bytes());
        key[20..24].copy_from_slice(&detail[1].to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// A number below `bound`, which is at most 2^32, by multiplying and shifting 32 random bits. It favours some
    /// numbers by at most one part in 2^32 / `bound`, which no study is long enough to show.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u64::from(self.0.next_u32()) * bound as u64) >> 32) as usize
    }
}

/// The order in which a randomised complete block runs its `len` treatments: a permutation of `0..len`.
///
/// It is a function of `seed`, `block` and `group` (what is shuffled within the block, for example one subject at one
/// thread count) and of nothing else. Every permutation is equally likely (Fisher and Yates 1938; Durstenfeld 1964).
pub fn block_permutation(seed: u64, block: u32, group: u32, len: usize) -> Vec<usize> {
    let mut draws = Draws::new(seed, Purpose::BlockOrder, [block, group]);
    let mut order: Vec<usize> = (0..len).collect();
    for last in (1..len).rev() {
        order.swap(last, draws.below(last + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_order_of_a_block_is_fixed_by_its_key() {
        // Pinned: another order here would change the plan of every study that is to be resumed.
        let orders = [(7, 0, 0), (7, 1, 0), (7, 0, 1), (8, 0, 0)]
            .map(|(seed, block, group)| block_permutation(seed, block, group, 8));
        assert_eq!(
            orders,
            [[2, 1, 3, 4, 5, 7, 6, 0], [3, 2, 1, 6, 7, 0, 5, 4], [6, 1, 3, 0, 4, 5, 7, 2], [5, 3, 0, 7, 1, 6, 2, 4]]
        );
    }

    #[test]
    fn nothing_and_one_are_ordered_too() {
        assert_eq!(block_permutation(1, 2, 3, 0), Vec::<usize>::new());
        assert_eq!(block_permutation(1, 2, 3, 1), [0]);
    }

    #[test]
    fn all_orders_of_a_block_are_equally_likely() {
        let mut seen = BTreeMap::new();
        for block in 0..6_000 {
            *seen.entry(block_permutation(42, block, 0, 3)).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        // Chi-squared with 5 degrees of freedom: above 20.5 once in a thousand seeds.
        let chi_squared: f64 = seen.values().map(|&count| (f64::from(count) - 1_000.0).powi(2) / 1_000.0).sum();
        assert!(chi_squared < 20.5, "{chi_squared} {seen:?}");
    }
}
