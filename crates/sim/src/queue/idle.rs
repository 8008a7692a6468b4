//! The CPUs that have nothing to run.

use crate::index::CpuIndex;
use crate::random::Draws;
use crate::rule::Distance;
use crate::tournament::{Nest, Tournament};

const BUSY: u32 = u32::MAX;

/// A set of idle CPUs.
pub(crate) struct IdleCpus {
    list: Vec<CpuIndex>,
    /// Where each CPU is in the list; [`BUSY`] when it is not.
    position: Vec<u32>,
    /// The lowest idle CPU of each part of the machine.
    lowest: Tournament<u32>,
}

impl IdleCpus {
    /// All of `cpus` CPUs, in the shape of `nest`.
    pub(crate) fn all(cpus: usize, nest: Nest) -> Self {
        let mut idle =
            Self { list: Vec::with_capacity(cpus), position: vec![BUSY; cpus], lowest: Tournament::new(nest, BUSY) };
        (0..cpus as u32).for_each(|cpu| idle.insert(CpuIndex(cpu)));
        idle
    }

    pub(crate) fn insert(&mut self, cpu: CpuIndex) {
        self.position[cpu.at()] = self.list.len() as u32;
        self.list.push(cpu);
        self.lowest.set(cpu.at(), cpu.0);
    }

    pub(crate) fn remove(&mut self, cpu: CpuIndex) {
        let position = std::mem::replace(&mut self.position[cpu.at()], BUSY) as usize;
        // Draws choose by position, so the order in the list is part of what a seed means.
        self.list.swap_remove(position);
        if let Some(moved) = self.list.get(position) {
            self.position[moved.at()] = position as u32;
        }
        self.lowest.set(cpu.at(), BUSY);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = CpuIndex> {
        self.list.iter().copied()
    }

    pub(crate) fn contains(&self, cpu: CpuIndex) -> bool {
        self.position[cpu.at()] != BUSY
    }

    /// One of them, all equally likely.
    pub(crate) fn any(&self, chance: &mut Draws) -> Option<CpuIndex> {
        match self.list.len() {
            0 => None,
            1 => Some(self.list[0]),
            n => Some(self.list[chance.below(n as u64) as usize]),
        }
    }

    /// The one nearest to `cpu` and no further than `most`: itself, or the lowest of those equally near.
    pub(crate) fn nearest(&self, cpu: CpuIndex, most: Distance) -> Option<CpuIndex> {
        (self.lowest.around(cpu.at()))
            .take_while(|&(_, distance)| distance <= most)
            .map(|(node, _)| self.lowest.least_in(node))
            .find(|&lowest| lowest != BUSY)
            .map(CpuIndex)
    }
}
