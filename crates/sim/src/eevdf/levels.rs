//! The levels of the machine that a kernel's fair scheduler balances over (`Documentation/scheduler/sched-domains.rst`).
//!
//! Each CPU lies in a *span* of each level: the threads of a core, the cores of a cluster with an L2, those under one
//! last-level cache, of a die or NUMA node, of a package, of the machine. A span consists of *groups*, the spans of the level
//! below or single CPUs. A level at which a CPU's span would be a single group doesn't exist for that CPU. CPUs are in tree
//! order, so that spans and groups are ranges.

use super::idle::IdleMask;
use crate::cpus::Cpus;
use machine::Level;
use std::ops::Range;

/// No span at a level.
const NONE: u32 = u32::MAX;

/// CPUs of one level that are balanced with one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) cpus: Range<u32>,
    pub(crate) groups: Vec<Group>,
    /// Position of its tally: see [`Levels::tallies_of`].
    pub(crate) tally: u32,
}

/// CPUs that are one side of balancing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) cpus: Range<u32>,
    /// Position of its tally.
    pub(crate) tally: u32,
    /// Its position among all groups of all levels.
    pub(crate) number: u32,
}

/// One level of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tier {
    /// Whether all CPUs of a span share a core, and a last-level cache.
    pub(crate) within_core: bool,
    pub(crate) within_llc: bool,
    /// Whether processes are spread over its groups while these have idle CPUs: they gain caches or units of a core by that.
    /// Between nodes they would lose their memory.
    pub(crate) prefers_spreading: bool,
    pub(crate) spans: Vec<Span>,
    /// By CPU, its span.
    of_cpu: Vec<u32>,
}

/// All levels, from the inside out, and what CPUs share.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    pub(crate) tiers: Vec<Tier>,
    /// By CPU, those under the same last-level cache, and by CPU the number of that cache.
    pub(crate) llc: Vec<Range<u32>>,
    pub(crate) llc_number: Vec<u32>,
    /// By number of last-level cache.
    pub(crate) llcs: Vec<Range<u32>>,
    /// By CPU, the threads of its core.
    pub(crate) core: Vec<Range<u32>>,
    /// By CPU, the tallies in which it counts: its own, which has its number, and one for each span around it.
    pub(crate) tallies_of: Vec<Vec<u32>>,
    pub(crate) tallies: u32,
    /// How many groups there are.
    pub(crate) groups: u32,
    /// By CPU, the groups of which it is the first CPU: level, span, and group within it.
    pub(crate) leads: Vec<Vec<(u32, u32, u32)>>,
}

/// The levels of a machine at which CPUs may share something, from the inside out.
const LEVELS: [Level; 7] =
    [Level::Core, Level::L2, Level::L3, Level::Node, Level::Package, Level::Group, Level::Machine];

impl Tier {
    /// The position of its numbers in the kernel's: threads of a core, CPUs under one last-level cache, and beyond.
    pub(crate) fn class(&self) -> usize {
        match (self.within_core, self.within_llc) {
            (true, _) => 0,
            (_, true) => 1,
            _ => 2,
        }
    }
}

impl Levels {
    pub(crate) fn new(cpus: &Cpus<'_>) -> Self {
        let all = cpus.len() as u32;
        let ranges = |level: Level| -> Vec<Range<u32>> {
            let mut ranges: Vec<Range<u32>> = Vec::new();
            for cpu in 0..all {
                match ranges.last_mut() {
                    Some(last) if cpus.are_within(level, last.start, cpu) => last.end = cpu + 1,
                    _ => ranges.push(cpu..cpu + 1),
                }
            }
            ranges
        };
        // A machine that tells of no caches at all: kernels then take a package to share one.
        let llc_level = if cpus.tells_of_caches() { Level::L3 } else { Level::Package };
        let mut tiers = Vec::new();
        let mut cells: Vec<(Range<u32>, u32)> = (0..all).map(|cpu| (cpu..cpu + 1, cpu)).collect();
        let (mut tallies, mut numbers) = (all, 0..);
        let mut leads = vec![Vec::new(); all as usize];
        let mut tallies_of: Vec<Vec<u32>> = (0..all).map(|cpu| vec![cpu]).collect();
        for level in LEVELS {
            let mut tier = Tier {
                within_core: level == Level::Core,
                within_llc: level <= llc_level,
                prefers_spreading: true,
                spans: Vec::new(),
                of_cpu: vec![NONE; all as usize],
            };
            let mut wider = Vec::new();
            let mut rest = cells.into_iter().peekable();
            for part in ranges(level) {
                let mut inside = Vec::new();
                while let Some(cell) = rest.next_if(|(cell, _)| cell.end <= part.end) {
                    inside.push(cell);
                }
                if inside.len() < 2 {
                    wider.extend(inside);
                    continue;
                }
                let group = |(cpus, tally), number| Group { cpus, tally, number };
                let groups: Vec<Group> = inside.into_iter().zip(&mut numbers).map(|(cell, n)| group(cell, n)).collect();
                let span = tier.spans.len() as u32;
                for (position, group) in (0..).zip(&groups) {
                    leads[group.cpus.start as usize].push((tiers.len() as u32, span, position));
                }
                for cpu in part.clone() {
                    tier.of_cpu[cpu as usize] = span;
                    tallies_of[cpu as usize].push(tallies);
                }
                tier.prefers_spreading &= cpus.share_memory(part.start, part.end - 1);
                tier.spans.push(Span { cpus: part.clone(), groups, tally: tallies });
                wider.push((part, tallies));
                tallies += 1;
            }
            cells = wider;
            if !tier.spans.is_empty() {
                tiers.push(tier);
            }
        }
        let by_cpu = |ranges: &[Range<u32>]| -> Vec<Range<u32>> {
            ranges.iter().flat_map(|range| range.clone().map(|_| range.clone())).collect()
        };
        let llcs = ranges(llc_level);
        let llc_number = (0_u32..).zip(&llcs).flat_map(|(number, range)| range.clone().map(move |_| number)).collect();
        Self {
            tiers,
            llc: by_cpu(&llcs),
            llc_number,
            llcs,
            core: by_cpu(&ranges(Level::Core)),
            tallies_of,
            tallies,
            groups: numbers.start,
            leads,
        }
    }

    /// The span of a CPU at a level.
    #[inline]
    pub(crate) fn span(&self, tier: usize, cpu: u32) -> Option<&Span> {
        self.tiers[tier].spans.get(self.tiers[tier].of_cpu[cpu as usize] as usize)
    }

    /// The position of that span at its level.
    #[inline]
    pub(crate) fn span_number(&self, tier: usize, cpu: u32) -> usize {
        self.tiers[tier].of_cpu[cpu as usize] as usize
    }

    /// Nobody is busy.
    pub(crate) fn all_idle(&self) -> IdleMask {
        IdleMask::all(&self.core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Machine;

    fn levels(name: &str) -> Levels {
        Levels::new(&Cpus::new(&Machine::named(name).unwrap()))
    }

    #[test]
    fn levels_are_the_machines_without_those_of_one_group() {
        // Two packages that are nodes, each with two L3 of two cores of two threads: L2 and core are the same CPUs.
        let levels = levels("pack:2 [numa] l3:2 l2:2 core:1 pu:2");
        let span = |tier: usize| {
            let span = levels.span(tier, 5).unwrap();
            (span.cpus.clone(), span.groups.iter().map(|group| group.cpus.clone()).collect::<Vec<_>>())
        };
        assert_eq!(levels.tiers.len(), 4);
        assert_eq!(span(0), (4..6, vec![4..5, 5..6]));
        assert_eq!(span(1), (4..8, vec![4..6, 6..8]));
        assert_eq!(span(2), (0..8, vec![0..4, 4..8]));
        assert_eq!(span(3), (0..16, vec![0..8, 8..16]));
        let spreads = levels.tiers.iter().map(|tier| tier.prefers_spreading).collect::<Vec<_>>();
        assert_eq!(spreads, [true, true, true, false], "not from node to node");
        assert_eq!(levels.llc[5], 4..8);
        assert_eq!(levels.tiers.iter().map(|tier| tier.within_llc).collect::<Vec<_>>(), [true, true, false, false]);
    }

    #[test]
    fn a_machine_that_tells_of_no_caches_has_one_for_each_package() {
        assert_eq!(levels("pack:2 core:3 pu:1").llc[4], 3..6);
        assert_eq!(levels("pack:1 core:1 pu:1").tiers.len(), 0);
    }
}
