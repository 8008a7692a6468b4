//! A queue for each CPU: processes bound for life, or moved where today's kernels move them.

use super::idle::IdleCpus;
use super::{Heap, Place, RunQueue, Search, Standing, Surroundings, reorder_heap};
use crate::index::{CpuIndex, ProcessIndex};
use crate::rule::Distance;
use crate::tournament::{Nest, Tournament};
use std::cmp::Reverse;

/// Whether processes change queues.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    /// Never.
    ForLife,
    /// When they wake, when a CPU would idle, and when balance is made.
    Loose,
}

/// A CPU and a count, ordered by the count.
type Count = (u32, u32);

/// After all CPUs.
const NO_CPU: Count = (u32::MAX, u32::MAX);

/// Queues of CPUs.
pub(crate) struct Local {
    binding: Binding,
    heaps: Vec<Heap>,
    /// Home of each process; of use only for those that never ran, or are bound.
    home: Vec<CpuIndex>,
    /// By CPU: processes that are waiting or running there; bound to it, where they are bound.
    load: Tournament<Count>,
    /// By CPU: how few processes are waiting, as `u32::MAX` less their number, so that the least has the most.
    waiting: Tournament<Count>,
    joins: u64,
}

impl Local {
    pub(crate) fn new(binding: Binding, processes: usize, cpus: usize, nest: impl Fn() -> Nest) -> Self {
        let mut load = Tournament::new(nest(), NO_CPU);
        let mut waiting = Tournament::new(nest(), NO_CPU);
        for cpu in 0..cpus {
            load.set(cpu, (0, cpu as u32));
            waiting.set(cpu, (u32::MAX, cpu as u32));
        }
        Self { binding, heaps: vec![Heap::new(); cpus], home: vec![CpuIndex(0); processes], load, waiting, joins: 0 }
    }

    fn add_load(&mut self, cpu: CpuIndex, change: i32) {
        let (load, leaf) = self.load.key(cpu.at());
        self.load.set(cpu.at(), (load.wrapping_add_signed(change), leaf));
    }

    fn push(&mut self, cpu: CpuIndex, process: ProcessIndex, standings: &[Standing]) {
        self.joins += 1;
        let place = Place::new(standings[process.at()].prio(), self.joins, process);
        self.heaps[cpu.at()].push(Reverse(place));
        self.count_waiting(cpu);
    }

    fn pop(&mut self, cpu: CpuIndex) -> Option<Place> {
        let Reverse(place) = self.heaps[cpu.at()].pop()?;
        self.count_waiting(cpu);
        Some(place)
    }

    /// Takes the first process of one queue on behalf of another CPU, to which its load goes.
    fn pull(&mut self, from: CpuIndex, to: CpuIndex) -> Option<Place> {
        let place = self.pop(from)?;
        self.add_load(from, -1);
        self.add_load(to, 1);
        Some(place)
    }

    fn count_waiting(&mut self, cpu: CpuIndex) {
        self.waiting.set(cpu.at(), (u32::MAX - self.heaps[cpu.at()].len() as u32, cpu.0));
    }

    /// The nearest queue from which `cpu` should take a process: the fullest of the innermost part of the machine in which
    /// one with processes waiting is at least `lead` ahead of it.
    fn fullest(&self, cpu: CpuIndex, lead: u32) -> Option<CpuIndex> {
        let (own, _) = self.load.key(cpu.at());
        (self.waiting.around(cpu.at())).find_map(|(node, _)| {
            let (few, fullest) = self.waiting.least_in(node);
            let (load, _) = self.load.key(fullest as usize);
            (few < u32::MAX && fullest != cpu.0 && load >= own + lead).then_some(CpuIndex(fullest))
        })
    }

    /// The CPU to whose queue a process goes that joins.
    fn target(&self, process: ProcessIndex, standing: &Standing, idle: &IdleCpus) -> CpuIndex {
        match (self.binding, standing.last_cpu) {
            (_, None) => CpuIndex(self.load.least().1),
            (Binding::ForLife, Some(_)) => self.home[process.at()],
            (Binding::Loose, Some(last)) => idle.nearest(last, Distance::SameL3).unwrap_or(last),
        }
    }
}

impl RunQueue for Local {
    const PRIORITIES: bool = true;

    fn join(&mut self, process: ProcessIndex, around: Surroundings<'_>) -> Option<CpuIndex> {
        let Surroundings { standings, idle, .. } = around;
        let standing = &standings[process.at()];
        let cpu = self.target(process, standing, idle);
        if self.binding == Binding::Loose || standing.last_cpu.is_none() {
            self.add_load(cpu, 1);
        }
        self.home[process.at()] = cpu;
        self.push(cpu, process, standings);
        idle.contains(cpu).then_some(cpu)
    }

    fn take(&mut self, search: Search, standings: &[Standing]) -> Option<ProcessIndex> {
        if let Some(process) = search.again {
            self.push(search.cpu, process, standings);
        }
        if let Some(place) = self.pop(search.cpu) {
            return Some(place.process());
        }
        if self.binding == Binding::ForLife {
            return None;
        }
        let from = self.fullest(search.cpu, 1)?;
        Some(self.pull(from, search.cpu)?.process())
    }

    fn left(&mut self, cpu: CpuIndex, ended: bool) {
        if ended || self.binding == Binding::Loose {
            self.add_load(cpu, -1);
        }
    }

    fn reorder(&mut self, standings: &[Standing]) {
        self.heaps.iter_mut().for_each(|heap| reorder_heap(heap, standings));
    }

    fn balance(&mut self) {
        if self.binding == Binding::ForLife {
            return;
        }
        for cpu in (0..self.heaps.len() as u32).map(CpuIndex) {
            // An idle CPU helps itself.
            if self.load.key(cpu.at()).0 > 0
                // A lead of one would only change sides.
                && let Some(from) = self.fullest(cpu, 2)
                && let Some(place) = self.pull(from, cpu)
            {
                // It keeps its place: joins are counted over all queues.
                self.heaps[cpu.at()].push(Reverse(place));
                self.count_waiting(cpu);
            }
        }
    }
}
