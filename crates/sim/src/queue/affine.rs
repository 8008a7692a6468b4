//! One queue for all CPUs, ordered for each by its own boosts, without looking at all of it.
//!
//! A boost depends on where a process last ran, so the processes that last ran on one CPU keep their order for every
//! searching CPU: they form a heap, by priority without boosts. A CPU then compares few candidates: the head of its own
//! heap with phi_p; for each distance at which the boost steps down, the best head within it; and the process that has
//! just run on it. The best heads are the nodes of a tree in the machine's shape. In the complex variant, processes
//! that last ran on a CPU so recently that phi_t still counts are kept beside its heap and looked at one by one; there
//! are no more of them than dispatches in phi_t ticks.

use super::{Heap, Place, RunQueue, Search, Standing, Surroundings, reorder_heap};
use crate::index::{CpuIndex, ProcessIndex};
use crate::parameters::Wake;
use crate::rule::{self, Distance, Phi};
use crate::tournament::{Nest, Slot, Tournament};
use std::cmp::Reverse;

/// Processes that last ran on one CPU.
#[derive(Default)]
struct Set {
    heap: Heap,
    /// Those to which phi_t may still count, in the complex variant.
    recent: Vec<Place>,
}

impl Set {
    fn head(&self) -> Place {
        let recent = self.recent.iter().copied().min().unwrap_or(Place::NONE);
        self.heap.peek().map_or(recent, |&Reverse(head)| head.min(recent))
    }

    fn remove(&mut self, place: Place) {
        match self.recent.iter().position(|&recent| recent == place) {
            Some(position) => {
                self.recent.swap_remove(position);
            }
            None => {
                self.heap.pop();
            }
        }
    }
}

/// How far the affinity to another CPU reaches.
struct Reach {
    /// The part of the machine.
    part: Slot,
    /// The boost in it, in half units.
    boost: i32,
}

/// The queue of the standard scheduler and of all affinity schedulers.
pub(crate) struct Affine {
    /// By CPU; the last one holds the processes that never ran.
    sets: Vec<Set>,
    heads: Tournament<Place>,
    /// For each CPU, from the nearest part of the machine to the whole.
    reaches: Vec<Vec<Reach>>,
    phi: Phi,
    /// Boost of a process that last ran on the searching CPU, but not just now, and for which phi_t no longer fades.
    here: i32,
    /// Boost of the process that has just run there.
    just_ran: i32,
    /// The largest boost of one that waits.
    largest: i32,
    /// Ticks after which phi_t no longer counts; none where time does not change it.
    fades_after_ticks: Option<u32>,
    wake: Wake,
    joins: u64,
}

impl Affine {
    pub(crate) fn new(cpus: usize, nest: Nest, phi: Phi, wake: Wake) -> Self {
        // One more leaf beside the machine: processes that never ran are near to no CPU.
        let everyone = Nest::Node(Distance::Far, vec![nest, Nest::Leaf]);
        let heads = Tournament::new(everyone, Place::NONE);
        let boost = |distance| phi.boost(distance, false, 0);
        let reaches = (0..cpus)
            .map(|cpu| {
                let alone = heads.within(cpu, Distance::SameCpu);
                let mut reaches: Vec<Reach> = Vec::new();
                for distance in [Distance::SameCore, Distance::SameL2, Distance::SameL3, Distance::SameNode] {
                    let part = heads.within(cpu, distance);
                    let boost = boost(distance);
                    // The same CPUs count from further in, where the boost is no less.
                    if boost > 0 && reaches.last().map_or(alone, |last| last.part) != part {
                        reaches.push(Reach { part, boost });
                    }
                }
                reaches.push(Reach { part: Slot::ROOT, boost: boost(Distance::Far) });
                reaches
            })
            .collect();
        let fades_after_ticks = phi.is_complex().then(|| phi.fades_after_ticks()).flatten();
        Self {
            sets: (0..=cpus).map(|_| Set::default()).collect(),
            heads,
            reaches,
            here: phi.boost(Distance::SameCpu, false, fades_after_ticks.unwrap_or(0)),
            just_ran: phi.boost(Distance::SameCpu, true, 0),
            largest: phi.boost(Distance::SameCpu, false, 0),
            fades_after_ticks,
            phi,
            wake,
            joins: 0,
        }
    }

    fn set_of(&self, standing: &Standing) -> usize {
        standing.last_cpu.map_or(self.sets.len() - 1, CpuIndex::at)
    }

    fn place(&mut self, process: ProcessIndex, standing: &Standing) -> Place {
        self.joins += 1;
        Place::new(standing.prio(), self.joins, process)
    }

    fn put(&mut self, set: usize, place: Place) {
        let ran_before = set + 1 < self.sets.len();
        let Set { heap, recent } = &mut self.sets[set];
        if ran_before && self.fades_after_ticks.is_some() {
            recent.push(place);
        } else {
            heap.push(Reverse(place));
        }
    }

    #[inline]
    fn refresh(&mut self, set: usize) {
        let head = self.sets[set].head();
        if head != self.heads.key(set) {
            self.heads.set(set, head);
        }
    }

    /// Moves processes for which phi_t no longer counts into the heap.
    fn fade(&mut self, search: Search, standings: &[Standing], after_ticks: u32) {
        let Set { heap, recent } = &mut self.sets[search.cpu.at()];
        recent.retain(|&place| {
            let stays = search.tick - standings[place.process().at()].left_tick < after_ticks;
            if !stays {
                heap.push(Reverse(place));
            }
            stays
        });
    }

    /// Takes the best of all that wait or, if that is better, the one that has just run.
    #[inline(never)]
    fn take_best(&mut self, search: Search, standings: &[Standing]) -> Option<ProcessIndex> {
        let own = search.cpu.at();
        let again = search.again.map(|process| self.place(process, &standings[process.at()]));

        // The best so far, and its boosted priority.
        let mut best = Place::NONE;
        let mut best_prio = i32::MAX;
        let mut consider = |place: Place, boost: i32| {
            let prio = place.prio() - boost;
            if rule::before(prio, place.queued(), best_prio, best.queued()) {
                (best, best_prio) = (place, prio);
            }
        };
        if let Some(place) = again {
            consider(place, self.just_ran);
        }
        let set = &self.sets[own];
        // All in the heap have the same boost here, so its head is the best of them.
        if let Some(&Reverse(head)) = set.heap.peek() {
            consider(head, self.here);
        }
        for &place in &set.recent {
            let ticks_away = search.tick - standings[place.process().at()].left_tick;
            consider(place, self.phi.boost(Distance::SameCpu, false, ticks_away));
        }
        // A wider part contains the narrower ones, whose processes are then considered again with a lower boost: that can't
        // make them win.
        for reach in &self.reaches[own] {
            consider(self.heads.least_in(reach.part), reach.boost);
        }

        if best == Place::NONE {
            return None;
        }
        if again == Some(best) {
            return search.again;
        }
        // Only now is it known that the one that has just run must wait: mostly it goes on and never enters a set.
        if let Some(place) = again {
            self.put(own, place);
        }
        let from = self.set_of(&standings[best.process().at()]);
        self.sets[from].remove(best);
        self.refresh(from);
        if from != own && again.is_some() {
            self.refresh(own);
        }
        Some(best.process())
    }
}

impl RunQueue for Affine {
    const PRIORITIES: bool = true;

    fn join(&mut self, process: ProcessIndex, around: Surroundings<'_>) -> Option<CpuIndex> {
        let standing = &around.standings[process.at()];
        let place = self.place(process, standing);
        let set = self.set_of(standing);
        self.put(set, place);
        self.refresh(set);
        match (self.wake, standing.last_cpu) {
            (Wake::Nearest, Some(last)) => around.idle.nearest(last, Distance::Far),
            _ => around.idle.any(around.chance),
        }
    }

    #[inline]
    fn take(&mut self, search: Search, standings: &[Standing]) -> Option<ProcessIndex> {
        if let Some(after_ticks) = self.fades_after_ticks {
            self.fade(search, standings, after_ticks);
        }
        if let Some(process) = search.again {
            // Mostly it is even before all that wait where each had come first and had the largest boost that it can have.
            let prio = standings[process.at()].prio() - self.just_ran;
            let is_before = |place: Place, boost| rule::before(prio, 1, place.prio() - boost, 0);
            let own = search.cpu.at();
            if is_before(self.heads.key(own), self.largest)
                && self.reaches[own].iter().all(|reach| is_before(self.heads.least_in(reach.part), reach.boost))
            {
                return Some(process);
            }
        }
        self.take_best(search, standings)
    }

    fn reorder(&mut self, standings: &[Standing]) {
        for set in 0..self.sets.len() {
            let Set { heap, recent } = &mut self.sets[set];
            reorder_heap(heap, standings);
            recent.iter_mut().for_each(|place| *place = place.updated(standings));
            self.refresh(set);
        }
    }
}
