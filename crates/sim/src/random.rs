//! Draws that depend on the seed and on what they are for, and on nothing else.
//!
//! Every process draws its own behaviour from its own stream, so that it does the same under every policy: policies
//! are then compared on the same workload (common random numbers), and differences show in few replicates. The
//! generator is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): eight bytes of state for each process.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// What a stream is for; two purposes never share one.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// What a process does.
    Process = 1,
    /// When jobs' processes arrive.
    Arrivals = 2,
    /// The phases of the CPUs' clocks.
    Clocks = 3,
    /// Delays of quantum ends, which idle CPU is first, and which of several CPUs a job gets.
    Chance = 4,
    /// Lengths of a job's tasks.
    Tasks = 5,
}

/// A stream of draws.
#[derive(Clone, Debug)]
pub(crate) struct Draws(SplitMix64);

impl Draws {
    pub(crate) fn new(seed: u64, replicate: u32, purpose: Purpose, index: u32) -> Self {
        let mixed = [purpose as u64, u64::from(replicate), u64::from(index)]
            .into_iter()
            .fold(seed, |state, word| Self::from_state(state ^ word).0.next_u64());
        Self::from_state(mixed)
    }

    /// The stream of that number, of those that begin here: it depends on nothing that is drawn otherwise.
    #[inline]
    pub(crate) fn numbered(&self, number: u64) -> Self {
        let mut mixed = self.clone();
        let start = mixed.0.next_u64();
        Self::from_state(Self::from_state(start ^ number).0.next_u64())
    }

    #[inline]
    fn from_state(state: u64) -> Self {
        Self(SplitMix64::from_seed(state.to_le_bytes()))
    }

    /// A whole number below `bound`, by multiplying and shifting 64 random bits (its bias is below `bound` / 2^64).
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 to below 1.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
