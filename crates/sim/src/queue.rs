//! The run queue: who waits, and whom a CPU takes.
//!
//! | policies | queue | cost of a dispatch with C CPUs and P processes |
//! | --- | --- | --- |
//! | round robin | [`fifo`] | constant |
//! | standard, light, heavy, complex, graded, long quantum | [`affine`] | log P/C in one heap + log C in one tree |
//! | attached, per-CPU | [`local`] | the same |
//!
//! A decay changes all priorities at once; heaps are then rebuilt in time P, once in a period.
//!
//! # Can a process starve?
//!
//! Without decay, no: everyone else may get at most 2 (phi_p + phi_t) ticks and a quantum more than a process that waits (the
//! bound is a property test in `laws.rs`). The report says the same of its scheduler, and argues that a favoured
//! process accumulates CPU time until its priority falls. With decay that holds only while a process accumulates
//! enough in a period: k processes that take turns on a CPU have 100 / k ticks each when a second is halved away, and a
//! foreign one gets in only if that exceeds 2 phi_p. So with k above 8 (light) or 3 (heavy) processes a CPU, those that
//! never ran, or last ran elsewhere, can wait until others end. `spin:1000` on 64 CPUs shows it.

pub(crate) mod affine;
pub(crate) mod fifo;
pub(crate) mod idle;
pub(crate) mod local;
#[cfg(test)]
pub(crate) mod scan;

use crate::index::{CpuIndex, ProcessIndex};
use crate::random::Draws;
use crate::rule;
use idle::IdleCpus;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What queues know of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// `base` of its priority.
    pub(crate) base: u32,
    /// Accumulated ticks.
    pub(crate) cpu_ticks: u32,
    /// Where it last ran.
    pub(crate) last_cpu: Option<CpuIndex>,
    /// The time there, in ticks of that CPU's clock, when it stopped.
    pub(crate) left_tick: u32,
}

impl Standing {
    /// Its priority in half units, without boosts.
    #[inline]
    pub(crate) fn prio(&self) -> i32 {
        rule::prio(self.base, self.cpu_ticks)
    }
}

/// A CPU that looks for a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// The CPU.
    pub(crate) cpu: CpuIndex,
    /// Its clock, in ticks.
    pub(crate) tick: u32,
    /// The process that has just run there, when it remains runnable.
    pub(crate) again: Option<ProcessIndex>,
}

/// What a queue sees when a process joins: all processes, the idle CPUs, and the draws that choose among equal ones.
pub(crate) struct Surroundings<'a> {
    pub(crate) standings: &'a [Standing],
    pub(crate) idle: &'a IdleCpus,
    pub(crate) chance: &'a mut Draws,
}

/// Processes that are runnable and don't run.
pub(crate) trait RunQueue {
    /// Whether priorities, and so ticks, mean anything to it.
    const PRIORITIES: bool;

    /// A process arrives or wakes. The answer is an idle CPU that now looks for a process, if one does.
    fn join(&mut self, process: ProcessIndex, around: Surroundings<'_>) -> Option<CpuIndex>;

    /// A CPU takes a process; the one that has just run there joins before.
    fn take(&mut self, search: Search, standings: &[Standing]) -> Option<ProcessIndex>;

    /// The process running on `cpu` blocks or, if `ended`, is done.
    fn left(&mut self, _cpu: CpuIndex, _ended: bool) {}

    /// All priorities have changed.
    fn reorder(&mut self, standings: &[Standing]);

    /// The balance period is over.
    fn balance(&mut self) {}
}

/// A place in the order of a queue: priority without boosts, then the order of joining. Less is first, as
/// [`rule::before`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u128);

impl Place {
    /// After all others, with any boost: nobody's place.
    pub(crate) const NONE: Self = Self(u128::MAX >> 1);

    /// Priorities without boosts are never negative.
    #[inline]
    pub(crate) fn new(prio: i32, queued: u64, process: ProcessIndex) -> Self {
        Self(u128::from(prio as u32) << 96 | u128::from(queued) << 32 | u128::from(process.0))
    }

    #[inline]
    pub(crate) fn prio(self) -> i32 {
        (self.0 >> 96) as i32
    }

    /// When it joined, counted in joins.
    #[inline]
    pub(crate) fn queued(self) -> u64 {
        (self.0 >> 32) as u64
    }

    #[inline]
    pub(crate) fn process(self) -> ProcessIndex {
        ProcessIndex(self.0 as u32)
    }

    /// The same place with the priority that its process has now.
    fn updated(self, standings: &[Standing]) -> Self {
        Self::new(standings[self.process().at()].prio(), self.queued(), self.process())
    }
}

/// Waiting processes by place, the first one at the top.
type Heap = BinaryHeap<Reverse<Place>>;

/// Puts a heap in order again after all priorities have changed.
fn reorder_heap(heap: &mut Heap, standings: &[Standing]) {
    let mut places = std::mem::take(heap).into_vec();
    // Building the heap anew takes linear time; moving one place after another would take a logarithm more.
    places.iter_mut().for_each(|Reverse(place)| *place = place.updated(standings));
    *heap = places.into();
}
