//! Cache-aware balancing (`SCHED_CACHE`): the threads of one process gather under one last-level cache.

use super::fair::Fair;
use crate::index::ProcessIndex;

/// Which threads belong together, and where they are.
pub(super) struct Gathering {
    /// By process of the simulation, its address space; none where it has one of its own.
    space: Vec<Option<u32>>,
    llcs: usize,
    /// By address space and last-level cache, how many threads are runnable there.
    runnable: Vec<u32>,
    /// By address space, the last-level cache that its threads prefer.
    preferred: Vec<Option<u32>>,
}

impl Gathering {
    /// Nobody has arrived; `space` tells the address space of each process, where it shares it.
    pub(super) fn new(space: Vec<Option<u32>>, llcs: usize) -> Self {
        let spaces = space.iter().flatten().max().map_or(0, |&last| last as usize + 1);
        Self { space, llcs, runnable: vec![0; spaces * llcs], preferred: vec![None; spaces] }
    }

    /// More or fewer threads are runnable under a cache. The preferred cache is where most are, and stays until another has more.
    #[inline]
    pub(super) fn count(&mut self, process: ProcessIndex, llc: u32, change: i32) {
        let Some(space) = self.space[process.at()] else { return };
        let first = space as usize * self.llcs;
        let runnable = &mut self.runnable[first..first + self.llcs];
        runnable[llc as usize] = runnable[llc as usize].wrapping_add_signed(change);
        let preferred = &mut self.preferred[space as usize];
        let there = |llc: u32| runnable[llc as usize];
        if change > 0 && preferred.is_none_or(|preferred| there(llc) > there(preferred)) {
            *preferred = Some(llc);
        }
    }

    /// The last-level cache that a process prefers.
    #[inline]
    pub(super) fn preferred(&self, process: ProcessIndex) -> Option<u32> {
        self.preferred[self.space[process.at()]? as usize]
    }
}

impl Fair {
    /// Whether threads still gather under a cache: fewer processes are runnable there than `overaggr_pct` of its CPUs.
    pub(super) fn llc_has_room(&self, llc: u32) -> bool {
        let cpus = self.levels.llcs[llc as usize].clone();
        let runnable: u32 = cpus.clone().map(|cpu| self.queues[cpu as usize].runnable).sum();
        runnable * 100 < cpus.len() as u32 * self.kernel.overaggr_pct
    }

    /// Whether a process that prefers another last-level cache than that of `to` is kept where it is: it is under its cache,
    /// which isn't full.
    pub(super) fn is_gathered(&self, process: ProcessIndex, to: u32) -> bool {
        let Some(preferred) = self.gathering.as_ref().and_then(|gathering| gathering.preferred(process)) else {
            return false;
        };
        let at = self.levels.llc_number[self.entities[process.at()].cpu as usize];
        let cpus = self.levels.llcs[preferred as usize].len() as u32;
        let runnable: u32 =
            self.levels.llcs[preferred as usize].clone().map(|cpu| self.queues[cpu as usize].runnable).sum();
        at == preferred && self.levels.llc_number[to as usize] != preferred && runnable <= cpus
    }

    /// A process elsewhere that would rather be under the last-level cache of an idle CPU, and whether it runs.
    pub(super) fn stray(&self, to: u32) -> Option<ProcessIndex> {
        let gathering = self.gathering.as_ref()?;
        let llc = self.levels.llc_number[to as usize];
        if !self.llc_has_room(llc) {
            return None;
        }
        let is_stray = |process: &ProcessIndex| gathering.preferred(*process) == Some(llc);
        let elsewhere = (0..self.cpus.len() as u32).filter(|&cpu| self.levels.llc_number[cpu as usize] != llc);
        let mut processes = elsewhere.flat_map(|cpu| self.waiting(cpu).chain(self.cpus[cpu as usize].current));
        processes.find(is_stray)
    }
}
