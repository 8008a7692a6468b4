//! The fair scheduler's state: all queues, who runs where, and what is counted of each part of the machine.
//!
//! Whoever changes a queue brings it up to date first ([`Fair::account`]): who runs has had the CPU since it was last looked at.

use super::balance::Imbalance;
use super::flat::Flat;
use super::groups::{Groups, Rung};
use super::idle::IdleMask;
use super::kernel::KernelParameters;
use super::levels::Levels;
use super::llc::Gathering;
use super::load::Average;
use super::queue::{Entity, Queue, State};
use crate::cpus::Cpus;
use crate::index::ProcessIndex;

/// What a CPU's scheduler knows beside its queue.
#[derive(Clone, Copy, Default)]
pub(super) struct Cpu {
    pub(super) current: Option<ProcessIndex>,
    /// Up to when who runs was accounted for.
    since_ns: u64,
    /// Up to which virtual runtime who runs is not preempted at a wake-up.
    pub(super) protected: i64,
    pub(super) idle_since_ns: u64,
    /// Average time that it was idle at a time.
    pub(super) mean_idle_ns: u64,
    /// What is in its queue by weight: now, and of late.
    weight: u64,
    load: Average,
    /// Whether it was busy of late. A process that moves takes along what it used.
    used: Average,
    /// When it is to look whether the groups that it leads should pull.
    pub(super) balance_due_ns: u64,
}

/// What is counted of a CPU, or of the CPUs of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Processes that wait or run.
    pub(super) runnable: u32,
    /// CPUs with two of them or more.
    pub(super) crowded: u32,
    /// CPUs with none.
    pub(super) idle: u32,
    /// The weight of all that are in queues.
    pub(super) weight: u64,
}

/// When a group last pulled from others of its span, and what came of it.
#[derive(Clone, Copy, Default)]
pub(super) struct Pulling {
    pub(super) last_ns: u64,
    /// How many times as long as usual it waits for the next time, 1 or 2, less 1.
    pub(super) patience: u32,
    /// How often in a row nothing could be moved although something should have been.
    pub(super) failed: u32,
    /// What it last decided to pull when it was busy, and when.
    pub(super) decided: Option<(u64, Option<(u32, Imbalance)>)>,
}

/// All queues of a machine.
pub(super) struct Fair {
    pub(super) kernel: KernelParameters,
    pub(super) levels: Levels,
    pub(super) tick_ns: u64,
    /// The processes, and behind them what stands for control groups.
    pub(super) entities: Vec<Entity>,
    /// The CPUs', and behind them those of control groups.
    pub(super) queues: Vec<Queue>,
    /// Where the workload has any, and queues of their own.
    pub(super) groups: Option<Groups>,
    /// Where it has any, and one queue for all.
    pub(super) flat: Option<Flat>,
    /// Who ran until now on the CPU that picks next, where there are groups.
    pub(super) stopped: Option<ProcessIndex>,
    pub(super) cpus: Vec<Cpu>,
    pub(super) idle: IdleMask,
    pub(super) tallies: Vec<Tally>,
    /// By number of group.
    pub(super) pullings: Vec<Pulling>,
    /// Processes bound for life, by CPU; none where they move freely.
    pub(super) bound: Option<Vec<u32>>,
    /// By process, where it was when it last woke to a busy CPU; `u32::MAX` where it never did.
    pub(super) recent: Vec<u32>,
    /// By number of last-level cache, how many of its CPUs were busy of late.
    used: Vec<Average>,
    /// Cache-aware balancing, where it is on.
    pub(super) gathering: Option<Gathering>,
    /// Whether all clocks tick at the same moments.
    pub(super) ticks_together: bool,
    /// Whether any process has a slice of its own.
    pub(super) has_own_slices: bool,
}

impl Fair {
    /// Empty queues, and processes as given.
    pub(super) fn new(
        kernel: KernelParameters,
        cpus: &Cpus<'_>,
        mut entities: Vec<Entity>,
        groups: Option<Groups>,
    ) -> Self {
        let levels = Levels::new(cpus);
        let mut tallies = vec![Tally::default(); levels.tallies as usize];
        levels.tallies_of.iter().flatten().for_each(|&tally| tallies[tally as usize].idle += 1);
        let base_slice_ns = kernel.base_slice_on_ns(cpus.len()) as u32;
        // An idle machine has been so for long: its CPUs may look for work.
        let cpu = Cpu { mean_idle_ns: kernel.most_idle_ns(), ..Cpu::default() };
        let recent = vec![u32::MAX; entities.len()];
        let has_own_slices = entities.iter().any(|entity| entity.slice_ns != base_slice_ns);
        entities.extend(groups.iter().flat_map(|groups| groups.entities(base_slice_ns)));
        let queues = cpus.len() + groups.as_ref().map_or(0, Groups::queues);
        Self {
            tick_ns: kernel.tick_ns(),
            has_own_slices,
            queues: (0..queues).map(|_| Queue::default()).collect(),
            groups,
            flat: None,
            stopped: None,
            cpus: vec![cpu; cpus.len()],
            idle: levels.all_idle(),
            pullings: vec![Pulling::default(); levels.groups as usize],
            tallies,
            recent,
            used: vec![Average::default(); levels.llcs.len()],
            entities,
            levels,
            kernel,
            bound: None,
            gathering: None,
            ticks_together: false,
        }
    }

    /// Who runs on a CPU has had it until now.
    #[inline]
    pub(super) fn account(&mut self, cpu: u32, now_ns: u64) {
        let state = &mut self.cpus[cpu as usize];
        let ran_ns = now_ns - state.since_ns;
        state.since_ns = now_ns;
        if let Some(current) = state.current
            && ran_ns > 0
        {
            let queue = self.queue_of(current, cpu);
            let entity = &mut self.entities[current.at()];
            let virtual_ns = entity.virtual_of(ran_ns);
            self.queues[queue].advance(entity, virtual_ns);
            // Who has had all of its request makes the next one, also when nobody else wants the CPU.
            if entity.v >= entity.deadline {
                entity.deadline = entity.v + entity.request();
            }
            if self.groups.is_some() {
                self.account_groups(current, cpu, ran_ns);
            }
        }
    }

    /// The most lag that a process keeps, in virtual ns: two requests, or a tick, whichever is more. The paper bounds lag by a
    /// request and the time between two decisions.
    pub(super) fn most_lag(&self, process: ProcessIndex) -> i64 {
        let entity = &self.entities[process.at()];
        entity.virtual_of((2 * u64::from(entity.slice_ns)).max(self.tick_ns))
    }

    /// More or fewer processes are runnable on a CPU.
    fn count(&mut self, cpu: u32, process: ProcessIndex, change: i32, now_ns: u64) {
        self.count_in_groups(process, change, now_ns);
        let entity = &self.entities[process.at()];
        let queue = &mut self.queues[cpu as usize];
        let (before, had_normal) = (queue.runnable, queue.normal > 0);
        queue.count_runnable(entity.is_idle_class, change);
        let after = queue.runnable;
        if had_normal != (queue.normal > 0) && before.min(after) > 0 {
            // Only `SCHED_IDLE` ones are left, or were there: it balances more often, or less.
            self.cpus[cpu as usize].balance_due_ns = 0;
        }
        let crowded = i32::from(after > 1) - i32::from(before > 1);
        for &tally in &self.levels.tallies_of[cpu as usize] {
            let tally = &mut self.tallies[tally as usize];
            tally.runnable = tally.runnable.wrapping_add_signed(change);
            tally.crowded = tally.crowded.wrapping_add_signed(crowded);
        }
        if let Some(gathering) = &mut self.gathering {
            gathering.count(process, self.levels.llc_number[cpu as usize], change);
        }
    }

    /// A CPU weighs what is in its queue, which has changed: also who sleeps there.
    pub(super) fn weigh(&mut self, cpu: u32, now_ns: u64) {
        let weight = self.flat.as_ref().map_or(self.queues[cpu as usize].weight(), |flat| flat.weight_on(cpu));
        let state = &mut self.cpus[cpu as usize];
        state.load.update(state.weight as f64, now_ns);
        let change = weight - state.weight as i64;
        state.weight = weight as u64;
        for &tally in &self.levels.tallies_of[cpu as usize] {
            let tally = &mut self.tallies[tally as usize];
            tally.weight = tally.weight.wrapping_add_signed(change);
        }
    }

    /// What was in a CPU's queue of late, by weight.
    pub(super) fn load(&self, cpu: u32, now_ns: u64) -> f64 {
        let state = &self.cpus[cpu as usize];
        state.load.now(state.weight as f64, now_ns)
    }

    /// How many CPUs under a last-level cache are busy.
    fn busy_under(&self, llc: usize) -> u32 {
        self.levels.llcs[llc].clone().filter(|&cpu| !self.idle.contains(cpu)).count() as u32
    }

    /// How busy a CPU was of late.
    pub(super) fn use_of(&self, cpu: u32, now_ns: u64) -> f64 {
        self.cpus[cpu as usize].used.now(if self.idle.contains(cpu) { 0.0 } else { 1.0 }, now_ns)
    }

    /// How many were of late.
    pub(super) fn used(&self, llc: u32, now_ns: u64) -> f64 {
        self.used[llc as usize].now(f64::from(self.busy_under(llc as usize)), now_ns)
    }

    /// What was in a CPU's queue of late changes at once by so much.
    pub(super) fn add_load(&mut self, cpu: u32, change: f64, now_ns: u64) {
        let state = &mut self.cpus[cpu as usize];
        state.load.update(state.weight as f64, now_ns);
        state.load.add(change);
    }

    /// A process joins a CPU's queue, with the lag that it has; its request goes on if `again`.
    pub(super) fn join(&mut self, process: ProcessIndex, cpu: u32, again: bool, now_ns: u64) {
        self.account(cpu, now_ns);
        self.count(cpu, process, 1, now_ns);
        self.entities[process.at()].load.update(0.0, now_ns);
        let (share, own_weight) = (self.share(process), f64::from(self.own_weight(process)));
        let entity = &mut self.entities[process.at()];
        // What it was of late goes where it goes.
        let before = std::mem::replace(&mut entity.cpu, cpu);
        if before != cpu {
            let own = entity.load.now(0.0, now_ns);
            // Of the CPU's time it had one share of as many as there were, itself included, while it was runnable.
            let own_use = own / own_weight / f64::from(1 + self.queues[before as usize].runnable);
            let is_busy = |cpu: u32| if self.idle.contains(cpu) { 0.0 } else { 1.0 };
            let busy = [is_busy(cpu), is_busy(before)];
            let own = own * share;
            self.carry(process, before, -own, now_ns);
            self.carry(process, cpu, own, now_ns);
            if self.flat.is_some() {
                self.weigh(before, now_ns);
            }
            let state = &mut self.cpus[cpu as usize];
            state.used.update(busy[0], now_ns);
            state.used.add(own_use);
            let state = &mut self.cpus[before as usize];
            state.used.update(busy[1], now_ns);
            state.used.add(-own_use);
        }
        if self.flat.is_some() {
            if let Some(current) = self.cpus[cpu as usize].current {
                self.reweigh_process(current);
            }
            self.compete(process, cpu, 1, now_ns);
            self.reweigh_process(process);
        }
        let entity = &mut self.entities[process.at()];
        entity.state = State::Queued;
        if !self.kernel.place_lag {
            entity.v = 0;
        }
        let queue = self.queue_of(process, cpu);
        self.queues[queue].join(process, &mut self.entities, again);
        if self.has_own_slices {
            self.queues[queue].count_slice(self.entities[process.at()].slice_ns, 1);
        }
        self.settle(process, cpu, false, now_ns);
        self.weigh(cpu, now_ns);
    }

    /// A process competes no more, and takes its lag along; `stops` where it ran.
    fn leave(&mut self, process: ProcessIndex, most_lag: i64, stops: bool, now_ns: u64) {
        let cpu = self.entities[process.at()].cpu;
        let own_weight = f64::from(self.own_weight(process));
        self.entities[process.at()].load.update(own_weight, now_ns);
        self.leave_queue(process, self.queue_of(process, cpu), most_lag);
        self.compete(process, cpu, -1, now_ns);
        self.settle(process, cpu, stops, now_ns);
        self.weigh(cpu, now_ns);
    }

    /// Who competes in a queue does so no more.
    pub(super) fn leave_queue(&mut self, entity: ProcessIndex, queue: usize, most_lag: i64) {
        self.queues[queue].leave(entity, &mut self.entities, most_lag);
        if self.has_own_slices {
            self.queues[queue].count_slice(self.entities[entity.at()].slice_ns, -1);
        }
        self.entities[entity.at()].state = State::Out;
    }

    /// Whether who goes to sleep owes others something in its queue, and pays for it by competing on without running.
    pub(super) fn competes_on(&self, entity: ProcessIndex, queue: usize) -> bool {
        self.kernel.delay_dequeue && !self.queues[queue].is_eligible(self.entities[entity.at()].v)
    }

    /// Who runs on a CPU waits in its queue now.
    #[inline]
    pub(super) fn put(&mut self, cpu: u32, now_ns: u64) -> Option<ProcessIndex> {
        self.account(cpu, now_ns);
        let current = self.cpus[cpu as usize].current.take()?;
        let entity = &mut self.entities[current.at()];
        entity.state = State::Queued;
        entity.ran_until_ns = now_ns;
        let queue = self.queue_of(current, cpu);
        self.queues[queue].enter(current, &mut self.entities);
        if self.groups.is_some() {
            self.stopped = Some(current);
            self.settle(current, cpu, true, now_ns);
            self.weigh(cpu, now_ns);
        }
        Some(current)
    }

    /// Who runs on a CPU gives up what is left of its request, and waits in the queue; nothing changes where nobody else waits there.
    pub(super) fn yield_(&mut self, cpu: u32, now_ns: u64) {
        self.account(cpu, now_ns);
        let Some(current) = self.cpus[cpu as usize].current else { return };
        let queue = self.queue_of(current, cpu);
        let entity = &mut self.entities[current.at()];
        if self.queues[cpu as usize].runnable > 1 {
            if self.kernel.yield_forfeits {
                let left = (entity.deadline - entity.v).max(0);
                self.queues[queue].advance(entity, left);
            }
            entity.deadline += entity.request();
        }
        self.put(cpu, now_ns);
    }

    /// Who runs on a CPU goes to sleep.
    pub(super) fn sleep(&mut self, cpu: u32, now_ns: u64) {
        self.account(cpu, now_ns);
        let Some(current) = self.cpus[cpu as usize].current.take() else { return };
        self.rest(current, cpu, now_ns);
        let queue = self.queue_of(current, cpu);
        if self.competes_on(current, queue) {
            self.entities[current.at()].state = State::Delayed;
            self.queues[queue].enter(current, &mut self.entities);
            self.settle(current, cpu, true, now_ns);
        } else {
            self.leave(current, self.most_lag(current), true, now_ns);
        }
    }

    /// Who runs on a CPU has ended.
    pub(super) fn exit(&mut self, cpu: u32, now_ns: u64) {
        self.account(cpu, now_ns);
        let Some(current) = self.cpus[cpu as usize].current.take() else { return };
        self.rest(current, cpu, now_ns);
        self.leave(current, 0, true, now_ns);
        if let Some(bound) = &mut self.bound {
            bound[cpu as usize] -= 1;
        }
    }

    /// A process that ran is runnable no more.
    fn rest(&mut self, process: ProcessIndex, cpu: u32, now_ns: u64) {
        self.stopped = self.groups.is_some().then_some(process);
        self.count(cpu, process, -1, now_ns);
        self.entities[process.at()].ran_until_ns = now_ns;
    }

    /// A process wakes that sleeps in a queue: it is runnable there. Whether there is one.
    pub(super) fn wake_delayed(&mut self, process: ProcessIndex, now_ns: u64) -> bool {
        let Entity { state, cpu, .. } = self.entities[process.at()];
        if state != State::Delayed {
            return false;
        }
        self.account(cpu, now_ns);
        let queue = self.queue_of(process, cpu);
        if self.queues[queue].is_eligible(self.entities[process.at()].v) {
            // It has made up for what it owed, and while it sleeps it is owed nothing.
            self.leave(process, 0, false, now_ns);
            self.join(process, cpu, true, now_ns);
        } else {
            self.count(cpu, process, 1, now_ns);
            self.entities[process.at()].state = State::Queued;
        }
        true
    }

    /// A process that waits, or sleeps in a queue, moves to another CPU, with its lag, its request and its load.
    pub(super) fn migrate(&mut self, process: ProcessIndex, to: u32, now_ns: u64) {
        let from = self.entities[process.at()].cpu;
        self.account(from, now_ns);
        let sleeps = self.entities[process.at()].state == State::Delayed;
        if !sleeps {
            self.count(from, process, -1, now_ns);
        }
        self.leave(process, self.most_lag(process), false, now_ns);
        self.join(process, to, true, now_ns);
        if sleeps {
            self.count(to, process, -1, now_ns);
            self.entities[process.at()].state = State::Delayed;
        }
    }

    /// Whom a CPU without a process takes from its queue.
    pub(super) fn pick(&mut self, cpu: u32, now_ns: u64) -> Option<ProcessIndex> {
        let mut queue = cpu as usize;
        let stopped = self.stopped.take();
        loop {
            if let Some(inner) = stopped.and_then(|stopped| self.go_on(stopped, cpu, queue)) {
                queue = inner;
                continue;
            }
            let picked = self.queues[queue].take(&mut self.entities)?;
            if self.entities[picked.at()].state == State::Delayed {
                // Its turn has come: it has made up for its negative lag, and leaves without any.
                self.leave(picked, 0, true, now_ns);
                queue = cpu as usize;
                continue;
            }
            self.entities[picked.at()].state = State::Running;
            self.reweigh_process(picked);
            let entity = &self.entities[picked.at()];
            let shortest = match (self.kernel.protect_shortest, self.has_own_slices) {
                (true, true) => entity.virtual_of(u64::from(self.queues[queue].shortest_slice(entity.slice_ns))),
                (true, false) => entity.request(),
                (false, _) => i64::MAX,
            };
            let protected = entity.deadline.min(entity.v.saturating_add(shortest));
            if let Some(inner) = self.protect(picked, protected) {
                queue = inner;
                continue;
            }
            let state = &mut self.cpus[cpu as usize];
            state.protected = protected;
            (state.current, state.since_ns) = (Some(picked), now_ns);
            return Some(picked);
        }
    }

    /// Whether a process that has just joined the queue of a busy CPU, brought up to date, takes it at once.
    pub(super) fn preempts(&mut self, process: ProcessIndex, cpu: u32) -> bool {
        let Some(current) = self.cpus[cpu as usize].current else { return false };
        let Some((running, waking)) = self.rivals(cpu, current, process) else { return false };
        let protected = self.protected(running, cpu);
        let is_batch = self.entities[process.at()].is_batch;
        let (rung, running, waking) =
            (running, &self.entities[running.entity.at()], &self.entities[waking.entity.at()]);
        if running.is_idle_class != waking.is_idle_class {
            return running.is_idle_class;
        }
        if is_batch || waking.is_idle_class {
            return false;
        }
        let is_short = self.kernel.preempt_short && waking.slice_ns < running.slice_ns;
        let is_overtaken = self.is_overtaken(rung, if is_short { i64::MIN } else { protected });
        if is_overtaken {
            self.protect(rung.entity, i64::MIN);
        }
        is_overtaken
    }

    /// Whether a process that was moved to a busy CPU, brought up to date, takes it at once.
    pub(super) fn is_taken(&mut self, cpu: u32) -> bool {
        let Some(current) = self.cpus[cpu as usize].current else { return false };
        let rungs: Vec<Rung> = self.rungs(current, cpu).collect();
        rungs.into_iter().any(|rung| self.is_overtaken(rung, self.protected(rung, cpu)))
    }

    /// Whether who runs, or the group that stands for it, would not run if that queue chose now: it isn't protected any more, and
    /// another has the earliest deadline or it is itself not eligible.
    fn is_overtaken(&mut self, Rung { entity: current, queue }: Rung, protected: i64) -> bool {
        let queue = &mut self.queues[queue];
        let Entity { v, deadline, .. } = self.entities[current.at()];
        let is_eligible = queue.is_eligible(v);
        if is_eligible && self.kernel.run_to_parity && v < protected {
            return false;
        }
        match queue.first(&mut self.entities) {
            None => false,
            Some(first) => {
                let other = &self.entities[first.at()];
                !is_eligible || (other.deadline, first) < (deadline, current)
            }
        }
    }

    /// Whether a CPU chooses anew at a tick: others are in its queue, and who runs has had its request, or as much as it is protected for.
    pub(super) fn is_slice_over(&self, cpu: u32) -> bool {
        let Some(current) = self.cpus[cpu as usize].current else { return false };
        self.rungs(current, cpu).any(|rung| {
            let entity = &self.entities[rung.entity.at()];
            self.queues[rung.queue].has_others(entity) && entity.v >= self.protected(rung, cpu)
        })
    }

    /// When that will be the case at the earliest, if nothing else happens; never where nobody else is in the queue. With groups, when who
    /// runs has had its own request, whichever of the queues has others: a timer is set for that.
    pub(super) fn slice_over_ns(&self, cpu: u32) -> u64 {
        let Cpu { current, protected, since_ns, .. } = self.cpus[cpu as usize];
        let Some(current) = current else { return u64::MAX };
        let entity = &self.entities[current.at()];
        let has_others = |rung: Rung| self.queues[rung.queue].has_others(&self.entities[rung.entity.at()]);
        let mut rungs = self.rungs(current, cpu);
        let until = match rungs.next() {
            Some(own) if has_others(own) => protected,
            _ if !rungs.any(has_others) => return u64::MAX,
            _ if entity.v < protected => protected,
            _ => entity.deadline,
        };
        since_ns + entity.ns_of(until - entity.v)
    }

    /// When a group in which somebody runs has had its request, for which no timer is set; never where there are none.
    pub(super) fn group_over_ns(&self, cpu: u32) -> u64 {
        let Cpu { current, since_ns, .. } = self.cpus[cpu as usize];
        let (Some(current), Some(_)) = (current, &self.groups) else { return u64::MAX };
        let over_ns = |rung: Rung| {
            let entity = &self.entities[rung.entity.at()];
            let has_others = self.queues[rung.queue].has_others(entity);
            has_others.then(|| since_ns + entity.ns_of(self.protected(rung, cpu).saturating_sub(entity.v)))
        };
        self.rungs(current, cpu).skip(1).filter_map(over_ns).min().unwrap_or(u64::MAX)
    }

    /// A CPU falls idle, or has work again.
    pub(super) fn set_idle(&mut self, cpu: u32, is_idle: bool, now_ns: u64) {
        if self.idle.contains(cpu) == is_idle {
            return;
        }
        let llc = self.levels.llc_number[cpu as usize] as usize;
        let busy = self.busy_under(llc);
        self.used[llc].update(f64::from(busy), now_ns);
        self.cpus[cpu as usize].used.update(if is_idle { 1.0 } else { 0.0 }, now_ns);
        self.idle.set(cpu, is_idle);
        for &tally in &self.levels.tallies_of[cpu as usize] {
            let tally = &mut self.tallies[tally as usize];
            tally.idle = tally.idle.wrapping_add_signed(if is_idle { 1 } else { -1 });
        }
        let state = &mut self.cpus[cpu as usize];
        if is_idle {
            state.idle_since_ns = now_ns;
        } else {
            // A moving average over eight times or so, of which one very long one must not be all that counts.
            let most_ns = self.kernel.most_idle_ns();
            let was_ns = (now_ns - state.idle_since_ns).min(8 * most_ns);
            state.mean_idle_ns = ((7 * state.mean_idle_ns + was_ns) / 8).min(most_ns);
        }
    }
}
