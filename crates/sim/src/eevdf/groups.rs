//! Control groups before Linux 7.3: processes that compete as one.
//!
//! In each CPU's queue a control group is one entity, which stands for those of its processes that are in that CPU's queue of the
//! group, and so on inwards. A process runs that is first in the queue in which it is, in a group that is first where it is, and so on
//! out to the CPU's own queue, the root's. Its CPU time counts in all of them.
//!
//! A group's `cpu.weight` is for the whole machine. On each CPU it weighs its part of that, in proportion to what is
//! in its queue there and in all of them, where one counts what was there of late, as `Documentation/admin-guide/cgroup-v2.rst` has it ("the weights of
//! active children"): with all of its processes on one CPU it weighs as much there as with the same on each CPU together.

use super::fair::Fair;
use super::load::Average;
use super::queue::{Entity, NICE_0, State};
use crate::control_group::{ControlGroup, DEFAULT_WEIGHT};
use crate::index::ProcessIndex;

/// The least weight that a group has where it has processes.
const LEAST_WEIGHT: f64 = 2.0;

/// Of the group in which the workload runs, whose queues are the CPUs' own.
pub(super) const ROOT: u32 = 0;

/// The control groups of a workload, from number 1 on, and which process is in which.
pub(super) struct Groups {
    cpus: u32,
    /// Entities before these are processes, all others stand for a group on a CPU.
    processes: u32,
    /// By process, the number of its group.
    of: Vec<u32>,
    /// By number of group less 1.
    groups: Vec<Group>,
    /// By group and CPU, as the entities behind the processes.
    parts: Vec<Part>,
}

struct Group {
    parent: u32,
    /// What it weighs on the whole machine, where a process of nice 0 has 1,024.
    weight: u32,
    /// What is in its queues, by weight: now, and of late.
    now: u64,
    load: Average,
}

/// A group's processes on one CPU.
#[derive(Clone, Copy, Default)]
struct Part {
    /// What is in the queue: now, and of late.
    now: u64,
    load: Average,
    /// Up to which virtual runtime the group is not preempted at a wake-up.
    protected: i64,
}

impl Groups {
    /// Groups of processes as the workload has them; none where it has none.
    pub(super) fn new(groups: &[ControlGroup<'_>], of: &[Option<usize>], cpus: usize) -> Option<Self> {
        let number = |position: Option<usize>| position.map_or(ROOT, |position| position as u32 + 1);
        let weight = |group: &ControlGroup<'_>| (group.cpu_weight * NICE_0).div_ceil(DEFAULT_WEIGHT);
        let group = |group: &ControlGroup<'_>| Group {
            parent: number(group.parent),
            weight: weight(group),
            now: 0,
            load: Average::default(),
        };
        (!groups.is_empty()).then(|| Self {
            cpus: cpus as u32,
            processes: of.len() as u32,
            of: of.iter().copied().map(number).collect(),
            groups: groups.iter().map(group).collect(),
            parts: vec![Part::default(); groups.len() * cpus],
        })
    }

    /// What stands for them in queues, with slices of so many ns.
    pub(super) fn entities(&self, slice_ns: u32) -> impl Iterator<Item = Entity> {
        let of_group = move |group: &Group| {
            let weight = group.weight;
            (0..self.cpus).map(move |cpu| {
                let mut entity = Entity::new(weight, slice_ns);
                entity.cpu = cpu;
                entity
            })
        };
        self.groups.iter().flat_map(of_group)
    }

    /// How many queues there are beside the CPUs' own.
    pub(super) fn queues(&self) -> usize {
        self.parts.len()
    }

    /// The group that an entity is in.
    fn around(&self, entity: ProcessIndex) -> u32 {
        match entity.0.checked_sub(self.processes) {
            None => self.of[entity.at()],
            Some(part) => self.groups[(part / self.cpus) as usize].parent,
        }
    }

    /// The number of a group's queue on a CPU.
    fn queue(&self, group: u32, cpu: u32) -> usize {
        (group * self.cpus + cpu) as usize
    }

    /// The group whose queue has this number; none of the CPUs' own.
    fn group_of_queue(&self, queue: usize) -> Option<u32> {
        Some(queue as u32 / self.cpus).filter(|&group| group != ROOT)
    }

    /// What stands for a group on a CPU.
    fn entity(&self, group: u32, cpu: u32) -> ProcessIndex {
        ProcessIndex(self.processes + (group - 1) * self.cpus + cpu)
    }

    fn part(&self, entity: ProcessIndex) -> usize {
        (entity.0 - self.processes) as usize
    }

    /// Up to which virtual runtime what stands for a group is not preempted.
    fn protected(&self, entity: ProcessIndex) -> i64 {
        self.parts[self.part(entity)].protected
    }

    /// What is in a group's queue on a CPU is so much now; what the group weighs there.
    fn weight(&mut self, group: u32, cpu: u32, now: u64, now_ns: u64) -> u32 {
        let part = self.part(self.entity(group, cpu));
        let part = &mut self.parts[part];
        let Group { weight, now: all, load, .. } = &mut self.groups[group as usize - 1];
        part.load.update(part.now as f64, now_ns);
        // Averages of all parts fade alike: their sum is the average of the sum.
        load.update(*all as f64, now_ns);
        *all = *all + now - part.now;
        part.now = now;
        let of_late = part.load.now(now as f64, now_ns);
        let here = of_late.max(now as f64);
        let everywhere = load.now(*all as f64, now_ns) - of_late + here;
        let most = f64::from(*weight);
        if everywhere > 0.0 {
            libm::round(most * here / everywhere).clamp(LEAST_WEIGHT.min(most), most) as u32
        } else {
            *weight
        }
    }
}

/// An entity and the number of the queue in which it is, from a process outwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rung {
    pub(super) entity: ProcessIndex,
    pub(super) queue: usize,
}

impl Fair {
    /// The number of the queue in which an entity is or would be on a CPU.
    #[inline]
    pub(super) fn queue_of(&self, entity: ProcessIndex, cpu: u32) -> usize {
        match &self.groups {
            None => cpu as usize,
            Some(groups) => groups.queue(groups.around(entity), cpu),
        }
    }

    /// An entity and the groups that it is in, with the queues of a CPU in which they are, from itself outwards.
    #[inline]
    pub(super) fn rungs(&self, entity: ProcessIndex, cpu: u32) -> impl Iterator<Item = Rung> {
        let first = Rung { entity, queue: self.queue_of(entity, cpu) };
        std::iter::successors(Some(first), move |rung| {
            let groups = self.groups.as_ref()?;
            let entity = groups.entity(groups.group_of_queue(rung.queue)?, cpu);
            Some(Rung { entity, queue: self.queue_of(entity, cpu) })
        })
    }

    /// Whether an entity is a process, and doesn't stand for a group.
    pub(super) fn is_process(&self, entity: ProcessIndex) -> bool {
        self.groups.as_ref().is_none_or(|groups| entity.0 < groups.processes)
    }

    /// Where two processes in the queues of a CPU compete: what stands for each in the innermost queue that has both.
    pub(super) fn rivals(&self, cpu: u32, one: ProcessIndex, other: ProcessIndex) -> Option<(Rung, Rung)> {
        self.rungs(one, cpu).find_map(|a| self.rungs(other, cpu).find(|b| b.queue == a.queue).map(|b| (a, b)))
    }

    /// Up to which virtual runtime what runs on a CPU, or stands for it, is not preempted at a wake-up.
    pub(super) fn protected(&self, rung: Rung, cpu: u32) -> i64 {
        match &self.groups {
            Some(groups) if !self.is_process(rung.entity) => groups.protected(rung.entity),
            _ => self.cpus[cpu as usize].protected,
        }
    }

    /// The share of a process's own weight that it has beside others in the CPU's queue.
    pub(super) fn share(&self, process: ProcessIndex) -> f64 {
        if self.groups.is_none() {
            return 1.0;
        }
        let own = &self.entities[process.at()];
        let rungs: Vec<Rung> = self.rungs(process, own.cpu).collect();
        // In the queue of its group it is one of those that make up what the group weighs.
        let of_group = |pair: &[Rung]| {
            let inside = self.queues[pair[0].queue].weight().max(i64::from(self.entities[pair[0].entity.at()].weight));
            f64::from(self.entities[pair[1].entity.at()].weight) / inside as f64
        };
        rungs.windows(2).map(of_group).product()
    }

    /// Groups in which a process is that runs on a CPU have had it for so many ns.
    pub(super) fn account_groups(&mut self, process: ProcessIndex, cpu: u32, ran_ns: u64) {
        let rungs: Vec<Rung> = self.rungs(process, cpu).skip(1).collect();
        for rung in rungs {
            let entity = &mut self.entities[rung.entity.at()];
            let virtual_ns = entity.virtual_of(ran_ns);
            self.queues[rung.queue].advance(entity, virtual_ns);
            if entity.v >= entity.deadline {
                entity.deadline = entity.v + entity.request();
            }
        }
    }

    /// The groups that an entity is in follow what has become of it on a CPU: they compete as long as somebody does in their queues, and
    /// have the weight of that. Where it ran and `stops`, they go back into their queues.
    pub(super) fn settle(&mut self, entity: ProcessIndex, cpu: u32, stops: bool, now_ns: u64) {
        if self.groups.is_none() {
            return;
        }
        let rungs: Vec<Rung> = self.rungs(entity, cpu).collect();
        for pair in rungs.windows(2) {
            let (inner, Rung { entity, queue }) = (pair[0].queue, pair[1]);
            let inside = self.queues[inner].weight();
            let weight = self.groups.as_mut().and_then(|groups| {
                groups.group_of_queue(inner).map(|group| groups.weight(group, cpu, inside as u64, now_ns))
            });
            let weight = weight.unwrap_or(NICE_0);
            match (self.entities[entity.at()].state, inside == 0) {
                (State::Out | State::Delayed, true) => {}
                (State::Out, false) => {
                    // The lag that it left with is CPU time.
                    let outside = &mut self.entities[entity.at()];
                    outside.v = (i128::from(outside.v) * i128::from(outside.weight) / i128::from(weight)) as i64;
                    outside.weight = weight;
                    self.join_queue(entity, queue, inner, false);
                }
                (State::Delayed, false) => {
                    if self.queues[queue].is_eligible(self.entities[entity.at()].v) {
                        self.leave_queue(entity, queue, 0);
                        self.entities[entity.at()].weight = weight;
                        self.join_queue(entity, queue, inner, true);
                    } else {
                        self.entities[entity.at()].state = State::Queued;
                        self.reweigh(entity, queue, weight);
                    }
                }
                (State::Queued, true) => self.leave_queue(entity, queue, self.most_lag(entity)),
                (State::Queued, false) => self.reweigh(entity, queue, weight),
                (State::Running, false) => {
                    self.reweigh(entity, queue, weight);
                    if stops {
                        self.entities[entity.at()].state = State::Queued;
                        self.queues[queue].enter(entity, &mut self.entities);
                    }
                }
                // As a process that goes to sleep.
                (State::Running, true) if self.competes_on(entity, queue) => {
                    self.entities[entity.at()].state = State::Delayed;
                    self.queues[queue].enter(entity, &mut self.entities);
                }
                (State::Running, true) => self.leave_queue(entity, queue, self.most_lag(entity)),
            }
        }
    }

    /// What stands for a group begins to compete.
    fn join_queue(&mut self, entity: ProcessIndex, queue: usize, inner: usize, again: bool) {
        if !self.kernel.place_lag {
            self.entities[entity.at()].v = 0;
        }
        if self.has_own_slices
            && let Some(shortest) = self.queues[inner].shortest_of_all()
        {
            self.entities[entity.at()].slice_ns = shortest;
        }
        self.queues[queue].join(entity, &mut self.entities, again);
        self.entities[entity.at()].state = State::Queued;
        if self.has_own_slices {
            self.queues[queue].count_slice(self.entities[entity.at()].slice_ns, 1);
        }
    }

    fn reweigh(&mut self, entity: ProcessIndex, queue: usize, weight: u32) {
        let Entity { v, weight: before, .. } = self.entities[entity.at()];
        if before == weight {
            return;
        }
        self.queues[queue].reweigh(entity, &mut self.entities, weight);
        let is_running = self.entities[entity.at()].state == State::Running;
        if let Some(groups) = &mut self.groups
            && is_running
        {
            let part = groups.part(entity);
            let left = groups.parts[part].protected.saturating_sub(v);
            let left = i128::from(left) * i128::from(before) / i128::from(weight);
            groups.parts[part].protected = self.entities[entity.at()].v.saturating_add(left as i64);
        }
        if !is_running {
            self.queues[queue].enter(entity, &mut self.entities);
        }
    }

    /// What stands for a group isn't preempted at wake-ups before this virtual runtime. Its queue; none of a process.
    pub(super) fn protect(&mut self, entity: ProcessIndex, until: i64) -> Option<usize> {
        let groups = self.groups.as_mut()?;
        let part = entity.0.checked_sub(groups.processes)? as usize;
        groups.parts[part].protected = until;
        // Queues of groups come behind the CPUs' own as what stands for them does behind the processes.
        Some(groups.cpus as usize + part)
    }

    /// Where a process ran in a group that stands in this queue of its CPU, and the group is eligible and protected still, another process
    /// of it is next: the group goes on, and its queue is this.
    pub(super) fn go_on(&mut self, stopped: ProcessIndex, cpu: u32, queue: usize) -> Option<usize> {
        let rungs: Vec<Rung> = self.rungs(stopped, cpu).collect();
        let pair = rungs.windows(2).find(|pair| pair[1].queue == queue)?;
        let (inner, entity) = (pair[0].queue, pair[1].entity);
        let Entity { v, state, .. } = self.entities[entity.at()];
        let goes_on = self.kernel.run_to_parity
            && state == State::Queued
            && v < self.protected(pair[1], cpu)
            && self.queues[queue].is_eligible(v);
        goes_on.then(|| {
            self.queues[queue].take_out(entity, &mut self.entities);
            self.entities[entity.at()].state = State::Running;
            inner
        })
    }

    /// Those that wait on a CPU, in whatever group, or sleep there with negative lag, in no order that means anything.
    pub(super) fn waiting(&self, cpu: u32) -> impl Iterator<Item = ProcessIndex> + '_ {
        let (stride, queues, processes) = match &self.groups {
            None => (1, 1, u32::MAX),
            Some(groups) => (groups.cpus as usize, groups.groups.len() + 1, groups.processes),
        };
        let queues = (0..queues).map(move |number| &self.queues[cpu as usize + number * stride]);
        queues.flat_map(|queue| queue.waiting(&self.entities)).filter(move |entity| entity.0 < processes)
    }
}
