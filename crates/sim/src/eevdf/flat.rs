//! Control groups since Linux 7.3: a single queue for each CPU, in which each process has the weight that its groups leave it.
//!
//! "sched/eevdf: Move to a single runqueue" (Linux 7.3): the tree of groups is kept to count what competes and how much there was of late,
//! but nobody stands for a group in a queue. The *effective* weight of a process on a CPU is its own, times, for each group around it, what the
//! group weighs there over what competes in the group there. It is found anew where the process joins a queue or is picked, and where
//! somebody joins it or balancing looks; in a kernel at each clock tick instead.
//!
//! "sched/fair: Add cgroup_mode: concur": a group weighs on a CPU its part of what competes in it anywhere, of its `cpu.weight` times
//! as many processes as it has had of late, but no more than there are CPUs. So processes of nice 0 in a group of
//! the usual weight weigh as much as others, as long as there are no more of them than CPUs.

use super::fair::Fair;
use super::kernel::CgroupMode;
use super::load::Average;
use super::queue::{Entity, NICE_0, State};
use crate::control_group::{ControlGroup, DEFAULT_WEIGHT};
use crate::index::ProcessIndex;

/// The weight of nice -20, which a group weighs at most on a CPU by `max`.
const MOST_WEIGHT: f64 = 88_761.0;

/// The control groups of a workload, and which process is in which.
pub(super) struct Flat {
    mode: CgroupMode,
    cpus: usize,
    /// By process, the number of its group.
    of: Vec<Option<usize>>,
    /// By process, its own weight.
    own: Vec<u32>,
    groups: Vec<Group>,
    /// By group and CPU.
    parts: Vec<Part>,
    /// By CPU, the weight of all that compete there and are in no group, and of those groups that do.
    outermost: Vec<i64>,
}

struct Group {
    parent: Option<usize>,
    /// What it weighs, where a process of nice 0 has 1,024.
    weight: f64,
    competing: Counted,
    runnable: Counted,
}

/// What there is, and how much there was of late.
#[derive(Clone, Copy, Default)]
struct Counted {
    now: i64,
    of_late: Average,
}

/// A group on one CPU.
#[derive(Clone, Copy, Default)]
struct Part {
    /// The weight of the processes that compete in it, and of the groups in it.
    competing: Counted,
    /// What it weighs in the group around it, or on the CPU.
    weight: i64,
    /// How much of the time it competed.
    presence: Average,
}

impl Counted {
    fn of_late(&self, now_ns: u64) -> f64 {
        self.of_late.now(self.now as f64, now_ns)
    }

    fn change(&mut self, change: i64, now_ns: u64) {
        self.of_late.update(self.now as f64, now_ns);
        self.now += change;
    }

    /// So much comes, or goes, that brings along what it was of late.
    fn carry(&mut self, change: f64, now_ns: u64) {
        self.of_late.update(self.now as f64, now_ns);
        self.of_late.add(change);
    }
}

impl Part {
    fn is_present(&self) -> f64 {
        if self.competing.now > 0 { 1.0 } else { 0.0 }
    }

    fn presence(&self, now_ns: u64) -> f64 {
        self.presence.now(self.is_present(), now_ns)
    }
}

impl Flat {
    /// Groups of processes as the workload has them, which have these weights of their own; none where it has no groups.
    pub(super) fn new(
        mode: CgroupMode,
        groups: &[ControlGroup<'_>],
        of: Vec<Option<usize>>,
        own: Vec<u32>,
        cpus: usize,
    ) -> Option<Self> {
        let group = |group: &ControlGroup<'_>| Group {
            parent: group.parent,
            weight: f64::from(group.cpu_weight) * f64::from(NICE_0) / f64::from(DEFAULT_WEIGHT),
            competing: Counted::default(),
            runnable: Counted::default(),
        };
        (!groups.is_empty()).then(|| Self {
            mode,
            cpus,
            of,
            own,
            groups: groups.iter().map(group).collect(),
            parts: vec![Part::default(); groups.len() * cpus],
            outermost: vec![0; cpus],
        })
    }

    /// The groups around a process, outwards.
    fn around(&self, process: ProcessIndex) -> impl Iterator<Item = usize> + use<'_> {
        std::iter::successors(self.of[process.at()], |&group| self.groups[group].parent)
    }

    fn part(&self, group: usize, cpu: u32) -> usize {
        group * self.cpus + cpu as usize
    }

    /// The weight of all that compete on a CPU, those in groups by what these weigh.
    pub(super) fn weight_on(&self, cpu: u32) -> i64 {
        self.outermost[cpu as usize]
    }

    /// What competes in a group on a CPU by weight, and what the group weighs there.
    #[cfg(test)]
    pub(super) fn on(&self, group: usize, cpu: u32) -> (i64, i64) {
        let part = &self.parts[self.part(group, cpu)];
        (part.competing.now, part.weight)
    }

    /// What a group weighs on a CPU.
    fn weight(&self, group: usize, cpu: u32, now_ns: u64) -> i64 {
        let Group { weight, competing, runnable, .. } = &self.groups[group];
        let part = &self.parts[self.part(group, cpu)];
        let of_late = part.competing.of_late(now_ns);
        let here = of_late.max(part.competing.now as f64);
        // Averages of all parts fade alike: their sum is the average of the sum.
        let everywhere = (competing.of_late(now_ns) - of_late + here).max(here);
        let fraction = if everywhere > 0.0 { here / everywhere } else { 1.0 };
        let cpus = self.cpus as f64;
        let weight = match self.mode {
            CgroupMode::Up => *weight,
            CgroupMode::Smp => weight * fraction,
            CgroupMode::Concur => weight * fraction * runnable.of_late(now_ns).clamp(1.0, cpus),
            CgroupMode::Max => (weight * fraction * cpus).min(MOST_WEIGHT.max(*weight)),
        };
        libm::round(weight).max(2.0) as i64
    }

    /// The weight of a process among all that compete on a CPU where it does.
    fn effective_weight(&self, process: ProcessIndex, cpu: u32) -> u32 {
        let fraction = |group: usize| {
            let part = &self.parts[self.part(group, cpu)];
            part.weight as f64 / part.competing.now.max(1) as f64
        };
        let own = f64::from(self.own[process.at()]);
        libm::round(own * self.around(process).map(fraction).product::<f64>()).max(1.0) as u32
    }

    /// What is in a group on a CPU changes: what competes by `change`, what did of late by `carried` beside, and for how much of the time by
    /// `presence` if nobody else is there. The groups around it change accordingly. By how much what was on the CPU of late changes.
    fn change(&mut self, group: usize, cpu: u32, change: i64, (carried, presence): (f64, f64), now_ns: u64) -> f64 {
        let number = self.part(group, cpu);
        let part = &mut self.parts[number];
        let contribution = |part: &Part| if part.competing.now > 0 { part.weight } else { 0 };
        let load = |part: &Part| part.weight as f64 * part.presence(now_ns);
        let before = (contribution(part), load(part));
        part.presence.update(part.is_present(), now_ns);
        part.competing.change(change, now_ns);
        part.competing.carry(carried, now_ns);
        if presence > 0.0 || part.competing.now == 0 {
            let was_there = part.presence(now_ns);
            part.presence.add(presence.clamp(-was_there, 1.0 - was_there));
        }
        let Group { competing, parent, .. } = &mut self.groups[group];
        competing.change(change, now_ns);
        competing.carry(carried, now_ns);
        let parent = *parent;
        let weight = self.weight(group, cpu, now_ns);
        let part = &mut self.parts[number];
        part.weight = weight;
        let (change, carried) = (contribution(part) - before.0, load(part) - before.1);
        match parent {
            Some(parent) => self.change(parent, cpu, change, (carried, presence), now_ns),
            None => {
                self.outermost[cpu as usize] += change;
                carried
            }
        }
    }
}

impl Fair {
    /// A process's own weight, whatever groups it is in.
    #[inline]
    pub(super) fn own_weight(&self, process: ProcessIndex) -> u32 {
        self.flat.as_ref().map_or(self.entities[process.at()].weight, |flat| flat.own[process.at()])
    }

    /// A process begins to compete on a CPU, or ceases to: what its groups weigh there changes.
    pub(super) fn compete(&mut self, process: ProcessIndex, cpu: u32, sign: i64, now_ns: u64) {
        let Some(flat) = &mut self.flat else { return };
        let change = sign * i64::from(flat.own[process.at()]);
        match flat.of[process.at()] {
            Some(group) => {
                let carried = flat.change(group, cpu, change, (0.0, 0.0), now_ns);
                self.add_load(cpu, carried, now_ns);
            }
            None => flat.outermost[cpu as usize] += change,
        }
    }

    /// A process comes to a CPU with what it was of late, by weight, or leaves with it where that is negative.
    pub(super) fn carry(&mut self, process: ProcessIndex, cpu: u32, load: f64, now_ns: u64) {
        let carried = match &mut self.flat {
            None => load,
            Some(flat) => match flat.of[process.at()] {
                None => load,
                Some(group) => {
                    let presence = load / f64::from(flat.own[process.at()]);
                    flat.change(group, cpu, 0, (load, presence), now_ns)
                }
            },
        };
        self.add_load(cpu, carried, now_ns);
    }

    /// More or fewer processes of the groups around one are runnable.
    pub(super) fn count_in_groups(&mut self, process: ProcessIndex, change: i32, now_ns: u64) {
        let Some(flat) = &mut self.flat else { return };
        let mut at = flat.of[process.at()];
        while let Some(group) = at {
            flat.groups[group].runnable.change(i64::from(change), now_ns);
            at = flat.groups[group].parent;
        }
    }

    /// Of a process's own load, how much it is on its CPU.
    pub(super) fn share_of_load(&self, process: ProcessIndex, now_ns: u64) -> f64 {
        let Some(flat) = &self.flat else { return self.share(process) };
        let cpu = self.entities[process.at()].cpu;
        let share = |group: usize| {
            let part = &flat.parts[flat.part(group, cpu)];
            part.weight as f64 * part.presence(now_ns) / part.competing.of_late(now_ns).max(1.0)
        };
        flat.around(process).map(share).product()
    }

    /// The groups on a CPU weigh what they do now, which also depends on what there is of them elsewhere, and so does who runs. A kernel finds
    /// that at each tick; here it is found where balancing looks.
    pub(super) fn weigh_groups(&mut self, cpu: u32, now_ns: u64) {
        self.account(cpu, now_ns);
        let Some(flat) = &mut self.flat else { return };
        // Groups come behind those that they are in.
        let mut carried = 0.0;
        for group in (0..flat.groups.len()).rev() {
            carried += flat.change(group, cpu, 0, (0.0, 0.0), now_ns);
        }
        self.add_load(cpu, carried, now_ns);
        self.weigh(cpu, now_ns);
        if let Some(current) = self.cpus[cpu as usize].current {
            self.reweigh_process(current);
        }
    }

    /// A process on its CPU, accounted for, has the effective weight from now on that its groups leave it.
    pub(super) fn reweigh_process(&mut self, process: ProcessIndex) {
        let Some(flat) = &self.flat else { return };
        let Entity { cpu, state, v, weight: before, .. } = self.entities[process.at()];
        let weight = flat.effective_weight(process, cpu);
        if weight == before {
            return;
        }
        let scaled = |ahead: i64| (i128::from(ahead) * i128::from(before) / i128::from(weight)) as i64;
        match state {
            State::Out => {
                // Its lag and what is left of its request are CPU time.
                let entity = &mut self.entities[process.at()];
                (entity.v, entity.deadline, entity.weight) = (scaled(v), scaled(entity.deadline), weight);
            }
            State::Running => {
                self.queues[cpu as usize].reweigh(process, &mut self.entities, weight);
                let protected = &mut self.cpus[cpu as usize].protected;
                *protected = self.entities[process.at()].v.saturating_add(scaled(protected.saturating_sub(v)));
            }
            State::Queued | State::Delayed => {
                self.queues[cpu as usize].reweigh(process, &mut self.entities, weight);
                self.queues[cpu as usize].enter(process, &mut self.entities);
            }
        }
    }
}
