//! On which CPU a process goes on that wakes, and on which one it begins.

use super::fair::{Fair, Tally};
use super::levels::Group;
use super::load::Average;
use super::queue::State;
use crate::index::ProcessIndex;

/// Of an idle machine's CPUs, those further away must have this share of all CPUs idle more before a new process goes there from
/// the node where it is created (a quarter, as balancing between nodes allows).
const NODE_LEAD: u32 = 4;

impl Fair {
    /// A process wakes by what happens on `waker`, or by a timer: its CPU, in whose queue it now is.
    pub(super) fn wake(&mut self, process: ProcessIndex, waker: Option<u32>, now_ns: u64) -> u32 {
        // Who sleeps in a queue goes on in it.
        if self.wake_delayed(process, now_ns) {
            return self.entities[process.at()].cpu;
        }
        let cpu = match &self.bound {
            Some(_) => self.entities[process.at()].cpu,
            None => self.cpu_for_waking(process, waker, now_ns),
        };
        self.join(process, cpu, false, now_ns);
        cpu
    }

    /// The CPU for a waking process. It has cached data where it was before, `previous`; what wakes it has data for it on the
    /// waker's CPU. One of them is the target, the waker's only if it is idle, or less busy than the other by what runs on it.
    /// The process goes to an idle CPU under the target's last-level cache: the target, then where it was before, then where it was when
    /// it last woke to a busy CPU, then the next idle core, then an idle one of the [next few](Self::search_length) CPUs; else it waits at
    /// the target.
    pub(super) fn cpu_for_waking(&mut self, process: ProcessIndex, waker: Option<u32>, now_ns: u64) -> u32 {
        let previous = self.entities[process.at()].cpu;
        let mut target = match waker.filter(|&waker| waker != previous) {
            None => previous,
            Some(waker) => self.affine_target(process, waker, previous, now_ns),
        };
        if let Some(gathering) = &self.gathering
            && let Some(llc) = gathering.preferred(process)
            && self.levels.llc_number[target as usize] != llc
            && self.llc_has_room(llc)
        {
            target = self.levels.llcs[llc as usize].start;
        }
        let llc = self.levels.llc[target as usize].clone();
        if self.is_free(target) {
            return target;
        }
        if llc.contains(&previous) && self.is_free(previous) {
            return previous;
        }
        let recent = std::mem::replace(&mut self.recent[process.at()], previous);
        if llc.contains(&recent) && self.is_free(recent) {
            return recent;
        }
        let length = self.search_length(target, now_ns);
        let after = |cpu: u32| if cpu + 1 < llc.end { cpu + 1 } else { llc.start };
        let next = std::iter::successors(Some(after(target)), |&cpu| Some(after(cpu)));
        let mut searched = next.take_while(|&cpu| cpu != target).take(length);
        searched.find(|&cpu| self.is_free(cpu)).unwrap_or(target)
    }

    /// How many of the CPUs under a last-level cache a waking process looks at: fewer the more these are used, so that nobody searches
    /// for long where hardly any can be idle. Those of the cache, times 1 - (use x `imbalance_pct`)^2, as the change that brought it in
    /// tells by a table ("sched/fair: Introduce SIS_UTIL to search idle CPU based on sum of util_avg", Linux 6.0).
    fn search_length(&self, target: u32, now_ns: u64) -> usize {
        let cpus = self.levels.llc[target as usize].len() as f64;
        let used = self.used(self.levels.llc_number[target as usize], now_ns) / cpus;
        let most = used * f64::from(self.kernel.imbalance_pct[1]) / 100.0;
        (cpus * (1.0 - most * most)).max(0.0) as usize
    }

    /// Whether a process that wakes there runs at once: the CPU is idle, or has only `SCHED_IDLE` ones.
    fn is_free(&self, cpu: u32) -> bool {
        self.queues[cpu as usize].normal == 0
    }

    fn affine_target(&self, process: ProcessIndex, waker: u32, previous: u32, now_ns: u64) -> u32 {
        let shares = self.levels.llc[waker as usize].contains(&previous);
        if self.idle.contains(waker) && shares {
            return if self.idle.contains(previous) { previous } else { waker };
        }
        if self.idle.contains(previous) {
            return previous;
        }
        // Where less was in the queue of late, who wakes included.
        let own = self.entities[process.at()].load.now(0.0, now_ns) * self.share_of_load(process, now_ns);
        if self.load(waker, now_ns) + own < self.load(previous, now_ns) { waker } else { previous }
    }

    /// A process begins that was created on a CPU: its CPU, in whose queue it now is.
    pub(super) fn arrive(&mut self, process: ProcessIndex, parent: u32, now_ns: u64) -> u32 {
        let cpu = match &mut self.bound {
            Some(bound) => {
                let least = (0_u32..).zip(bound.iter()).min_by_key(|&(cpu, &bound)| (bound, cpu));
                let cpu = least.map_or(0, |(cpu, _)| cpu);
                bound[cpu as usize] += 1;
                cpu
            }
            None => self.idlest(parent),
        };
        // A new process counts as if it had been runnable for long. Its first request may be half a slice.
        let weight = f64::from(self.own_weight(process));
        let entity = &mut self.entities[process.at()];
        (entity.cpu, entity.state, entity.v) = (cpu, State::Out, 0);
        entity.load = Average::full(weight, now_ns);
        entity.deadline = if self.kernel.place_deadline_initial { entity.request() / 2 } else { entity.request() };
        let weight = weight * self.share(process);
        self.carry(process, cpu, weight, now_ns);
        self.join(process, cpu, true, now_ns);
        cpu
    }

    /// The idlest CPU, level by level from the machine inwards: the idlest of its groups. One's own group is left for another only if
    /// that is clearly idler.
    fn idlest(&self, parent: u32) -> u32 {
        let mut at = parent;
        let mut tier = self.levels.tiers.len();
        while tier > 0 {
            tier -= 1;
            let Some(span) = self.levels.span(tier, at) else { continue };
            let own = span.groups.partition_point(|group| group.cpus.end <= at);
            let lead = if self.levels.tiers[tier].prefers_spreading {
                0
            } else {
                span.groups[own].cpus.len() as u32 / NODE_LEAD
            };
            let room = |group: &Group| self.room(group);
            let mut best = (own, room(&span.groups[own]));
            for (position, group) in span.groups.iter().enumerate().filter(|&(position, _)| position != own) {
                let other = room(group);
                if other.is_more_than(&best.1, if best.0 == own { lead } else { 0 }) {
                    best = (position, other);
                }
            }
            if best.0 != own {
                at = span.groups[best.0].cpus.start;
            }
        }
        at
    }

    fn room(&self, group: &Group) -> Room {
        let cpus = group.cpus.len() as u64;
        let Tally { runnable, idle, weight, .. } = self.tallies[group.tally as usize];
        match idle {
            0 if u64::from(runnable) <= cpus => Room::Full { weight, cpus },
            0 => Room::Crowded { weight, cpus },
            _ => Room::Idle(idle),
        }
    }
}

/// How much room a part of the machine has for a process that begins, from most to least.
#[derive(Clone, Copy, Debug)]
enum Room {
    /// So many of its CPUs are idle.
    Idle(u32),
    /// There is a process for each CPU; what they weigh.
    Full { weight: u64, cpus: u64 },
    /// There are more.
    Crowded { weight: u64, cpus: u64 },
}

impl Room {
    fn rank(&self) -> u32 {
        match self {
            Self::Idle(_) => 0,
            Self::Full { .. } => 1,
            Self::Crowded { .. } => 2,
        }
    }

    /// Whether it is more, of idle CPUs by more than `lead`.
    fn is_more_than(&self, other: &Self, lead: u32) -> bool {
        match (self, other) {
            (Self::Idle(a), Self::Idle(b)) => *a > b + lead,
            (Self::Full { weight: a, cpus: a_cpus }, Self::Full { weight: b, cpus: b_cpus })
            | (Self::Crowded { weight: a, cpus: a_cpus }, Self::Crowded { weight: b, cpus: b_cpus }) => {
                a * b_cpus < b * a_cpus
            }
            _ => self.rank() < other.rank(),
        }
    }
}
