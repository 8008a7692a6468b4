//! The queue of one CPU: who is in it, how far each is from its due, and who runs next.
//!
//! Stoica and Abdel-Wahab, "Earliest Eligible Virtual Deadline First: A Flexible and Accurate Mechanism for Proportional
//! Share Resource Allocation", Old Dominion University, TR-95-22, 1995. Each process i has a weight w_i and a *virtual
//! runtime* v_i: what it had of the CPU, over its weight. The queue's *virtual time* V is the mean of the v_i by weight. The
//! *lag* of a process is what it is owed, V - v_i; who is owed nothing yet has negative lag and is not *eligible*. A process
//! asks for the CPU in requests of one slice each, due at the *virtual deadline* v_i + slice / w_i, v_i as of the beginning
//! of the request. Of those that are eligible, the earliest deadline runs; equal ones by the number of the process.
//!
//! Virtual times are counted in ns of a process of nice 0, whose weight is [`NICE_0`].
//!
//! # How the earliest eligible deadline is found
//!
//! Two heaps: those found to be in the future (v_i above V), by v_i, and all others, by deadline. Everybody begins in the
//! second. Who is found at its top without being eligible goes to the first, and comes back when V has risen so far. Where all
//! slices are equal, the earliest deadline is that of the least v_i, which is never above the mean: the first heap then stays
//! empty. An entry is out of date when its process has another one since, or left; it is dropped where it is found.

use crate::index::ProcessIndex;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The weight of nice 0.
pub(crate) const NICE_0: u32 = 1_024;
/// The weight of `SCHED_IDLE`.
pub(crate) const IDLE_WEIGHT: u32 = 3;

/// Where a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// In no queue.
    #[default]
    Out,
    /// Waits in a queue.
    Queued,
    /// Runs.
    Running,
    /// It sleeps, and competes on until its negative lag is made up for (`DELAY_DEQUEUE`).
    Delayed,
}

/// What a queue knows of a process.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Entity {
    /// Virtual runtime, in virtual ns. Outside of a queue, its negative lag: what it had more than its due.
    pub(crate) v: i64,
    /// The deadline of its request, in virtual ns; outside of a queue, how far it is after `v`, where the request goes on.
    pub(crate) deadline: i64,
    /// Its slice in ns.
    pub(crate) slice_ns: u32,
    pub(crate) weight: u32,
    /// How often it was entered into a heap: older entries are out of date.
    entry: u32,
    /// The CPU in whose queue it is or was last.
    pub(crate) cpu: u32,
    pub(crate) state: State,
    pub(crate) is_idle_class: bool,
    pub(crate) is_batch: bool,
    /// The CPU on which it last ran; `u32::MAX` where it never did.
    pub(crate) last_cpu: u32,
    /// When it last stopped running.
    pub(crate) ran_until_ns: u64,
    /// Its load as of then: see [`super::load`].
    pub(crate) load: super::load::Average,
}

impl Entity {
    /// A process of this weight with slices of so many ns.
    pub(crate) fn new(weight: u32, slice_ns: u32) -> Self {
        Self {
            v: 0,
            deadline: 0,
            slice_ns,
            weight,
            entry: 0,
            cpu: 0,
            state: State::Out,
            is_idle_class: false,
            is_batch: false,
            last_cpu: u32::MAX,
            ran_until_ns: 0,
            load: super::load::Average::default(),
        }
    }

    /// So many ns of CPU time in virtual ns of its own.
    #[inline]
    pub(crate) fn virtual_of(&self, ns: u64) -> i64 {
        if self.weight == NICE_0 {
            return ns as i64;
        }
        (u128::from(ns) * u128::from(NICE_0) / u128::from(self.weight)) as i64
    }

    /// CPU time after which so many virtual ns of its own have passed.
    #[inline]
    pub(crate) fn ns_of(&self, virtual_ns: i64) -> u64 {
        let virtual_ns = virtual_ns.max(0) as u64;
        if self.weight == NICE_0 {
            return virtual_ns;
        }
        (u128::from(virtual_ns) * u128::from(self.weight)).div_ceil(u128::from(NICE_0)) as u64
    }

    /// A whole request in virtual ns.
    #[inline]
    pub(crate) fn request(&self) -> i64 {
        self.virtual_of(u64::from(self.slice_ns))
    }
}

const _: () = assert!(size_of::<Entity>() == 64);

/// An entry of a heap: what it is ordered by, the process, and which of the process's entries it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    #[inline]
    fn new(key: i64, process: ProcessIndex, entry: u32) -> Self {
        // Signed keys in the order of unsigned ones.
        let key = (key as u64) ^ (1 << 63);
        Self(u128::from(key) << 64 | u128::from(process.0) << 32 | u128::from(entry))
    }

    #[inline]
    fn key(self) -> i64 {
        ((self.0 >> 64) as u64 ^ (1 << 63)) as i64
    }

    #[inline]
    fn process(self) -> ProcessIndex {
        ProcessIndex((self.0 >> 32) as u32)
    }

    /// Which of its process's entries it is.
    #[inline]
    fn number(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    fn is_current(self, entities: &[Entity]) -> bool {
        entities[self.process().at()].entry == self.number()
    }
}

/// A CPU's queue. Who runs is counted in its sums and is in none of its heaps.
#[derive(Default)]
pub(crate) struct Queue {
    by_deadline: BinaryHeap<Reverse<Entry>>,
    future: BinaryHeap<Reverse<Entry>>,
    /// Sums over all that compete, who runs and who sleeps with negative lag included: of weights, and of weight times
    /// virtual runtime.
    weight: i64,
    weighted: i128,
    /// Virtual time when the queue was last left empty.
    rest: i64,
    /// Who waits or runs, without those that sleep.
    pub(crate) runnable: u32,
    /// The same of those that are not `SCHED_IDLE`.
    pub(crate) normal: u32,
    /// How many of those that compete have which slice, in ns; empty where all have the same.
    slices: BTreeMap<u32, i32>,
}

impl Queue {
    /// The weight of all that compete.
    #[inline]
    pub(crate) fn weight(&self) -> i64 {
        self.weight
    }

    /// V, in virtual ns, rounded down.
    #[inline]
    pub(crate) fn virtual_time(&self) -> i64 {
        match self.weight {
            0 => self.rest,
            weight => self.weighted.div_euclid(i128::from(weight)) as i64,
        }
    }

    /// Whether a virtual runtime is not above V.
    #[inline]
    pub(crate) fn is_eligible(&self, v: i64) -> bool {
        i128::from(v) * i128::from(self.weight) <= self.weighted
    }

    /// Whether others compete beside one that does, sleeping ones included.
    #[inline]
    pub(crate) fn has_others(&self, entity: &Entity) -> bool {
        self.weight > i64::from(entity.weight)
    }

    #[inline]
    fn count(&mut self, entity: &Entity, sign: i64) {
        let weight = i64::from(entity.weight) * sign;
        self.weight += weight;
        self.weighted += i128::from(weight) * i128::from(entity.v);
        if self.weight == 0 {
            self.rest = entity.v;
        }
    }

    /// The virtual runtime of who runs has grown by so much.
    #[inline]
    pub(crate) fn advance(&mut self, entity: &mut Entity, virtual_ns: i64) {
        entity.v += virtual_ns;
        self.weighted += i128::from(entity.weight) * i128::from(virtual_ns);
    }

    /// Enters a process that competes into a heap.
    #[inline]
    pub(crate) fn enter(&mut self, process: ProcessIndex, entities: &mut [Entity]) {
        let entity = &mut entities[process.at()];
        entity.entry = entity.entry.wrapping_add(1);
        self.by_deadline.push(Reverse(Entry::new(entity.deadline, process, entity.entry)));
    }

    /// A process begins to compete that was outside, with the lag that it had; `again` where its request goes on.
    ///
    /// Joining with lag l moves V away from the newcomer, to (W V + w (V - l')) / (W + w). It has lag l afterwards where it
    /// is placed at l' = l (W + w) / W.
    pub(crate) fn join(&mut self, process: ProcessIndex, entities: &mut [Entity], again: bool) {
        let entity = &mut entities[process.at()];
        let ahead = match self.weight {
            0 => 0,
            all => {
                let own = i128::from(entity.weight);
                (i128::from(entity.v) * (i128::from(all) + own) / i128::from(all)) as i64
            }
        };
        let left = if again { entity.deadline } else { entity.request() };
        entity.v = self.virtual_time() + ahead;
        entity.deadline = entity.v + left;
        self.count(entity, 1);
        self.enter(process, entities);
    }

    /// A process competes no more, and takes its lag along, but no more of it than `most` virtual ns either way. Who waits is
    /// dropped from its heap when it is found there.
    pub(crate) fn leave(&mut self, process: ProcessIndex, entities: &mut [Entity], most: i64) {
        let entity = &mut entities[process.at()];
        let ahead = entity.v - self.virtual_time();
        entity.entry = entity.entry.wrapping_add(1);
        self.count(entity, -1);
        entity.deadline -= entity.v;
        entity.v = ahead.clamp(-most, most);
    }

    /// Who competes has another weight from now on, and the lag and what is left of the request that it had, both in CPU time: then
    /// V stays. Who waits is to be entered anew.
    pub(crate) fn reweigh(&mut self, process: ProcessIndex, entities: &mut [Entity], weight: u32) {
        let virtual_time = self.virtual_time();
        let entity = &mut entities[process.at()];
        self.count(entity, -1);
        let scaled = |ahead: i64| (i128::from(ahead) * i128::from(entity.weight) / i128::from(weight)) as i64;
        let (v, left) = (virtual_time + scaled(entity.v - virtual_time), scaled(entity.deadline - entity.v));
        (entity.v, entity.deadline, entity.weight) = (v, v + left, weight);
        self.count(entity, 1);
    }

    /// More or fewer of those that compete have this slice.
    pub(crate) fn count_slice(&mut self, slice_ns: u32, change: i32) {
        let count = self.slices.entry(slice_ns).or_default();
        *count += change;
        if *count == 0 {
            self.slices.remove(&slice_ns);
        }
    }

    /// The shortest slice of those that compete, or one's own.
    pub(crate) fn shortest_slice(&self, own_ns: u32) -> u32 {
        self.slices.keys().next().map_or(own_ns, |&shortest| shortest.min(own_ns))
    }

    /// The shortest slice of those that compete; none where nobody does.
    pub(crate) fn shortest_of_all(&self) -> Option<u32> {
        self.slices.keys().next().copied()
    }

    /// More or fewer are runnable.
    #[inline]
    pub(crate) fn count_runnable(&mut self, is_idle_class: bool, change: i32) {
        self.runnable = self.runnable.wrapping_add_signed(change);
        if !is_idle_class {
            self.normal = self.normal.wrapping_add_signed(change);
        }
    }

    /// Who of those in the heaps has the earliest eligible deadline. Always somebody if there is anybody and nobody runs: not
    /// all can be above their mean.
    pub(crate) fn first(&mut self, entities: &mut [Entity]) -> Option<ProcessIndex> {
        while let Some(&Reverse(entry)) = self.future.peek() {
            // By the entry alone: what waits for its time need not be looked at, also if it is out of date.
            if !self.is_eligible(entry.key()) {
                break;
            }
            self.future.pop();
            if entry.is_current(entities) {
                self.enter(entry.process(), entities);
            }
        }
        while let Some(&Reverse(entry)) = self.by_deadline.peek() {
            let process = entry.process();
            if !entry.is_current(entities) {
                self.by_deadline.pop();
            } else if self.is_eligible(entities[process.at()].v) {
                return Some(process);
            } else {
                self.by_deadline.pop();
                self.future.push(Reverse(Entry::new(entities[process.at()].v, process, entry.number())));
            }
        }
        None
    }

    /// Takes who is [`Self::first`] out of its heap; it competes on.
    #[inline]
    pub(crate) fn take(&mut self, entities: &mut [Entity]) -> Option<ProcessIndex> {
        let first = self.first(entities)?;
        self.by_deadline.pop();
        entities[first.at()].entry = entities[first.at()].entry.wrapping_add(1);
        Some(first)
    }

    /// Takes who waits out of its heap; it competes on.
    pub(crate) fn take_out(&mut self, process: ProcessIndex, entities: &mut [Entity]) {
        entities[process.at()].entry = entities[process.at()].entry.wrapping_add(1);
    }

    /// Those that wait, or sleep with negative lag, in no order that means anything.
    pub(crate) fn waiting<'a>(&'a self, entities: &'a [Entity]) -> impl Iterator<Item = ProcessIndex> + 'a {
        let entries = self.by_deadline.iter().chain(&self.future);
        entries.filter(|Reverse(entry)| entry.is_current(entities)).map(|Reverse(entry)| entry.process())
    }
}
