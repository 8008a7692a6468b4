//! The affinity scheduler as the report words it: look at every process in the queue. What [`super::affine`] is held to.

use super::{RunQueue, Search, Standing, Surroundings};
use crate::cpus::Cpus;
use crate::index::{CpuIndex, ProcessIndex};
use crate::parameters::Wake;
use crate::rule::{self, Distance, Phi};

/// One list of everyone who waits, in the order of joining.
pub(crate) struct Scan<'a> {
    waiting: Vec<ProcessIndex>,
    just_ran: Vec<Option<ProcessIndex>>,
    cpus: &'a Cpus<'a>,
    phi: Phi,
    wake: Wake,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(cpus: &'a Cpus<'a>, phi: Phi, wake: Wake) -> Self {
        Self { waiting: Vec::new(), just_ran: vec![None; cpus.len()], cpus, phi, wake }
    }
}

impl RunQueue for Scan<'_> {
    const PRIORITIES: bool = true;

    fn join(&mut self, process: ProcessIndex, around: Surroundings<'_>) -> Option<CpuIndex> {
        self.waiting.push(process);
        match (self.wake, around.standings[process.at()].last_cpu) {
            (Wake::Nearest, Some(last)) => {
                // Of equally near CPUs the lowest.
                around.idle.iter().min_by_key(|&cpu| (self.cpus.detour(last, cpu), cpu))
            }
            _ => around.idle.any(around.chance),
        }
    }

    fn take(&mut self, search: Search, standings: &[Standing]) -> Option<ProcessIndex> {
        self.waiting.extend(search.again);
        let just_ran = self.just_ran[search.cpu.at()];
        let boosted = |process: ProcessIndex| {
            let standing = &standings[process.at()];
            let distance = standing.last_cpu.map_or(Distance::Far, |last| self.cpus.distance(last, search.cpu));
            let away = search.tick.wrapping_sub(standing.left_tick);
            standing.prio() - self.phi.boost(distance, just_ran == Some(process), away)
        };
        let mut best = 0;
        for i in 1..self.waiting.len() {
            if rule::before(boosted(self.waiting[i]), i as u64, boosted(self.waiting[best]), best as u64) {
                best = i;
            }
        }
        let taken = (!self.waiting.is_empty()).then(|| self.waiting.remove(best));
        if taken.is_some() {
            self.just_ran[search.cpu.at()] = taken;
        }
        taken
    }

    fn reorder(&mut self, _: &[Standing]) {}
}
