//! The idle CPUs as bits, to find the next one in a part of the machine.

use std::ops::Range;

/// Which CPUs are idle, and which cores wholly are.
#[derive(Clone, Debug)]
pub(crate) struct IdleMask {
    cpus: Vec<u64>,
    /// The first thread of each core that has no busy one.
    cores: Vec<u64>,
    count: u32,
    core_of: Vec<Range<u32>>,
    /// By CPU that is the first of its core, how many threads of it are busy.
    busy: Vec<u32>,
}

/// The first bit that is set in a range.
fn first_in(words: &[u64], range: Range<u32>) -> Option<u32> {
    let mut at = range.start;
    while at < range.end {
        let rest = words[at as usize / 64] >> (at % 64);
        if rest != 0 {
            let found = at + rest.trailing_zeros();
            return (found < range.end).then_some(found);
        }
        at = (at / 64 + 1) * 64;
    }
    None
}

/// The first bit that is set in a range, from `start` on and round.
fn next_in(words: &[u64], range: Range<u32>, start: u32) -> Option<u32> {
    first_in(words, start..range.end).or_else(|| first_in(words, range.start..start))
}

impl IdleMask {
    /// All are idle, in cores as given by CPU.
    pub(crate) fn all(core_of: &[Range<u32>]) -> Self {
        let words = core_of.len().div_ceil(64);
        let mut all = Self {
            cpus: vec![0; words],
            cores: vec![0; words],
            count: core_of.len() as u32,
            core_of: core_of.to_vec(),
            busy: vec![0; core_of.len()],
        };
        for (cpu, core) in core_of.iter().enumerate() {
            all.cpus[cpu / 64] |= 1 << (cpu % 64);
            all.cores[core.start as usize / 64] |= 1 << (core.start % 64);
        }
        all
    }

    pub(crate) fn set(&mut self, cpu: u32, is_idle: bool) {
        let bit = 1 << (cpu % 64);
        let word = &mut self.cpus[cpu as usize / 64];
        if (*word & bit != 0) == is_idle {
            return;
        }
        *word ^= bit;
        let first = self.core_of[cpu as usize].start;
        let busy = &mut self.busy[first as usize];
        (self.count, *busy) = if is_idle { (self.count + 1, *busy - 1) } else { (self.count - 1, *busy + 1) };
        let core = &mut self.cores[first as usize / 64];
        let bit = 1 << (first % 64);
        *core = if *busy == 0 { *core | bit } else { *core & !bit };
    }

    #[inline]
    pub(crate) fn contains(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize / 64] >> (cpu % 64) & 1 != 0
    }

    /// How many CPUs are idle.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The next idle CPU of a part of the machine from `start` on and round; one of an idle core before all others.
    pub(crate) fn next(&self, part: Range<u32>, start: u32) -> Option<u32> {
        let own = self.core_of[start as usize].start;
        let core = next_in(&self.cores, part.clone(), own.max(part.start));
        core.or_else(|| next_in(&self.cpus, part, start))
    }

    /// The idle CPUs in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.cpus).flat_map(|(word, &bits)| {
            std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)))
                .take_while(|&bits| bits != 0)
                .map(move |bits| word * 64 + bits.trailing_zeros())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_mask_is_the_set(threads in 1..4_u32, cpus in 1..200_u32, changes in prop::collection::vec((0..200_u32, any::<bool>()), 0..300), from in 0..200_u32) {
            let core_of: Vec<Range<u32>> = (0..cpus)
                .map(|cpu| cpu / threads * threads..(cpu / threads * threads + threads).min(cpus))
                .collect();
            let mut mask = IdleMask::all(&core_of);
            let mut idle = vec![true; cpus as usize];
            for (cpu, is_idle) in changes {
                mask.set(cpu % cpus, is_idle);
                idle[(cpu % cpus) as usize] = is_idle;
            }
            let from = from % cpus;
            let is_idle = |cpu: &u32| idle[*cpu as usize];
            let whole = |cpu: &u32| core_of[*cpu as usize].start == *cpu && core_of[*cpu as usize].clone().all(|cpu| idle[cpu as usize]);
            let own = core_of[from as usize].start;
            let expected = (own..cpus).chain(0..own).find(whole).or_else(|| (from..cpus).chain(0..from).find(is_idle));
            prop_assert_eq!(mask.next(0..cpus, from), expected);
            prop_assert_eq!(mask.iter().collect::<Vec<_>>(), (0..cpus).filter(is_idle).collect::<Vec<_>>());
            prop_assert_eq!(mask.count() as usize, idle.iter().filter(|idle| **idle).count());
        }
    }
}
