//! Balancing: CPUs with little to do pull processes from the others of a span, level by level.
//!
//! A span consists of groups, and each group pulls for itself, by the CPU in it that has least to do: one that is idle, or else
//! its first. When it is busy it looks at a clock tick, a millisecond for each CPU of the span after it last did, times
//! `busy_factor`; when it is idle another CPU's tick looks for it, that many times more often. A CPU that falls idle looks
//! at once, from the inside out, unless it is idle for so short a time on average that a migration or the search isn't worth it.
//!
//! What is looked for is the *busiest* other group: above all one that is *crowded*, with more processes than CPUs.
//!
//! | the group that pulls | the busiest | what is moved |
//! | --- | --- | --- |
//! | has idle CPUs | is crowded | a process that waits; beyond a last-level cache, if our CPUs have time left for it |
//! | has idle CPUs | has two running more, where spreading is preferred | one process, though it runs if ours didn't just fall idle |
//! | is busy | is crowded, and its load exceeds ours by `imbalance_pct` | load, until both are at the mean; of us who have time left, half of the processes that are more there |
//!
//! Of equally busy groups it is the next one after ours, and who looks at the same tick sees none of what others then move.
//!
//! A process is moved for load if it has no more of it than is out of balance, or after failures twice as much for each; also one that
//! sleeps in a queue, since it has load.
//! Processes that ran within `migration_cost_ns` are passed over, until that has failed `cache_nice_tries` times. When
//! even then nothing could be moved to an idle CPU for two more times, the process that runs on the busiest CPU is stopped and
//! pushed there: the *active* kind.

use super::fair::Fair;
use super::levels::Group;
use super::queue::State;
use crate::index::ProcessIndex;

/// Who pulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A CPU that falls idle.
    NewlyIdle,
    /// One that is idle.
    Idle,
    /// One that is busy.
    Busy,
}

/// What is to be moved to even two groups out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Imbalance {
    Processes(u32),
    /// What is left of our CPUs' time, in CPUs.
    Use(f64),
    /// Weight that was runnable of late.
    Load(f64),
}

/// A group among those of all levels.
#[derive(Clone, Copy, Debug)]
struct Side {
    tier: usize,
    span: usize,
    group: usize,
}

/// What balancing has done, for whoever runs the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Processes came to this CPU's queue.
    Pulled(u32),
    /// Who runs on `from` is to be stopped and moved to `to`, which is idle.
    Push { from: u32, to: u32 },
}

impl Fair {
    /// A CPU without processes looks for some before it idles; whether it found any.
    pub(super) fn balance_newly_idle(&mut self, cpu: u32, now_ns: u64) -> bool {
        let worth = self.cpus[cpu as usize].mean_idle_ns >= self.kernel.migration_cost_ns;
        let all_crowded = |fair: &Self| {
            fair.levels.tallies_of[cpu as usize].last().is_some_and(|&all| fair.tallies[all as usize].crowded > 0)
        };
        if self.bound.is_some() || !worth || !all_crowded(self) {
            return false;
        }
        let mut cost_ns = 0;
        for tier in 0..self.levels.tiers.len() {
            let Some(span) = self.levels.span(tier, cpu) else { continue };
            cost_ns += self.kernel.max_newidle_lb_cost_ns[self.levels.tiers[tier].class()];
            if self.cpus[cpu as usize].mean_idle_ns < cost_ns {
                return false;
            }
            if self.tallies[span.tally as usize].crowded == 0 {
                continue;
            }
            let group = span.groups.partition_point(|group| group.cpus.end <= cpu);
            let side = Side { tier, span: self.levels.span_number(tier, cpu), group };
            if self.pull(side, cpu, Kind::NewlyIdle, now_ns) == Some(Move::Pulled(cpu)) {
                return true;
            }
        }
        false
    }

    /// What the clock tick of a busy CPU does for the groups that it is the first of and that have nobody idle.
    pub(super) fn balance_busy(&mut self, cpu: u32, now_ns: u64, moves: &mut Vec<Move>) {
        for lead in 0..self.levels.leads[cpu as usize].len() {
            let (tier, span, group) = self.levels.leads[cpu as usize][lead];
            let side = Side { tier: tier as usize, span: span as usize, group: group as usize };
            let nobody_is_idle = self.tallies[self.group(side).tally as usize].idle == 0;
            if nobody_is_idle && self.due_ns(side, Kind::Busy) <= now_ns {
                self.decide(side, now_ns);
                moves.extend(self.pull(side, cpu, Kind::Busy, now_ns));
            }
        }
    }

    /// When a busy CPU is to call [`Self::balance_busy`] next. It is found anew only when it has come, since it is asked for at
    /// each dispatch.
    #[inline]
    pub(super) fn busy_due_ns(&mut self, cpu: u32, now_ns: u64) -> u64 {
        let known_ns = self.cpus[cpu as usize].balance_due_ns;
        if known_ns > now_ns {
            return known_ns;
        }
        let due_ns = self.next_busy_due_ns(cpu, now_ns);
        self.cpus[cpu as usize].balance_due_ns = due_ns;
        due_ns
    }

    fn next_busy_due_ns(&self, cpu: u32, now_ns: u64) -> u64 {
        if self.bound.is_some() {
            return u64::MAX;
        }
        let leads = self.levels.leads[cpu as usize].iter();
        let sides =
            leads.map(|&(tier, span, group)| Side { tier: tier as usize, span: span as usize, group: group as usize });
        let due_ns = |side: Side| {
            // While somebody in the group is idle, that one pulls; it is looked at again when that may have changed.
            let has_idle = self.tallies[self.group(side).tally as usize].idle > 0;
            if has_idle { now_ns + self.period_ns(side, Kind::Busy) } else { self.due_ns(side, Kind::Busy) }
        };
        sides.map(due_ns).min().unwrap_or(u64::MAX)
    }

    /// What is done for all idle CPUs at a clock tick.
    pub(super) fn balance_idle(&mut self, now_ns: u64, moves: &mut Vec<Move>) {
        if self.bound.is_some() {
            return;
        }
        for tier in 0..self.levels.tiers.len() {
            for span in 0..self.levels.tiers[tier].spans.len() {
                let tally = self.tallies[self.levels.tiers[tier].spans[span].tally as usize];
                let spreads = self.levels.tiers[tier].prefers_spreading && tally.runnable > 1;
                let gathers = self.gathering.is_some() && !self.levels.tiers[tier].within_llc;
                if tally.idle == 0 || (tally.crowded == 0 && !spreads && !gathers) {
                    continue;
                }
                for group in 0..self.levels.tiers[tier].spans[span].groups.len() {
                    let side = Side { tier, span, group };
                    let Group { cpus, tally, .. } = self.group(side);
                    if self.tallies[*tally as usize].idle == 0 || self.due_ns(side, Kind::Idle) > now_ns {
                        continue;
                    }
                    if let Some(cpu) = self.idle.next(cpus.clone(), cpus.start) {
                        moves.extend(self.pull(side, cpu, Kind::Idle, now_ns));
                    }
                }
            }
        }
    }

    fn group(&self, side: Side) -> &Group {
        &self.levels.tiers[side.tier].spans[side.span].groups[side.group]
    }

    /// When a group pulls next: a millisecond after the last time for each CPU of the span, twice that where nothing was out of
    /// balance then, and many times that when it is busy.
    fn due_ns(&self, side: Side, kind: Kind) -> u64 {
        self.pullings[self.group(side).number as usize].last_ns + self.period_ns(side, kind)
    }

    fn period_ns(&self, side: Side, kind: Kind) -> u64 {
        let cpus = self.levels.tiers[side.tier].spans[side.span].cpus.len() as u64;
        let pulling = &self.pullings[self.group(side).number as usize];
        // Where only `SCHED_IDLE` ones run, a CPU looks as often as an idle one.
        let is_busy = || self.queues[self.group(side).cpus.start as usize].normal > 0;
        let factor = if kind == Kind::Busy && is_busy() { u64::from(self.kernel.busy_factor) } else { 1 };
        cpus * 1_000_000 * u64::from(1 + pulling.patience) * factor
    }

    /// What a busy group is to pull. CPUs whose clocks tick together look at the same moment: none sees what another does then.
    fn decide(&mut self, side: Side, now_ns: u64) {
        let groups = match self.ticks_together {
            true => 0..self.levels.tiers[side.tier].spans[side.span].groups.len(),
            false => side.group..side.group + 1,
        };
        for group in groups {
            let side = Side { group, ..side };
            let &Group { tally, number, .. } = self.group(side);
            let is_decided = self.pullings[number as usize].decided.is_some_and(|(at_ns, _)| at_ns == now_ns);
            if !is_decided && self.tallies[tally as usize].idle == 0 && self.due_ns(side, Kind::Busy) <= now_ns {
                let found = self.busiest(side, Kind::Busy, now_ns);
                self.pullings[number as usize].decided = Some((now_ns, found));
            }
        }
    }

    /// A CPU pulls for its group from the others of the span.
    fn pull(&mut self, side: Side, to: u32, kind: Kind, now_ns: u64) -> Option<Move> {
        let number = self.group(side).number as usize;
        let tier = &self.levels.tiers[side.tier];
        let (class, within_llc) = (tier.class(), tier.within_llc);
        if kind != Kind::NewlyIdle {
            self.pullings[number].last_ns = now_ns;
        }
        let found = match self.pullings[number].decided {
            Some((decided_ns, found)) if kind == Kind::Busy && decided_ns == now_ns => found,
            _ => self.busiest(side, kind, now_ns),
        };
        if kind != Kind::NewlyIdle {
            self.pullings[number].patience = u32::from(found.is_none());
        }
        let Some((from, imbalance)) = found else {
            self.pullings[number].failed = 0;
            return if kind == Kind::Idle && !within_llc { self.gather(to, now_ns) } else { None };
        };
        let tries = self.kernel.cache_nice_tries[class];
        let failed = self.pullings[number].failed;
        let most = if kind == Kind::NewlyIdle { 1 } else { u32::MAX };
        let moved = self.detach((from, to), imbalance, most, (failed, tries), now_ns);
        if moved > 0 {
            self.pullings[number].failed = 0;
            return Some(Move::Pulled(to));
        }
        if kind == Kind::NewlyIdle {
            return None;
        }
        self.pullings[number].failed += 1;
        let running = self.cpus[from as usize].current;
        let is_kept = running.is_none_or(|running| self.is_gathered(running, to));
        if kind == Kind::Idle && failed > tries + 1 && !is_kept {
            self.pullings[number].failed = 0;
            return Some(Move::Push { from, to });
        }
        None
    }

    /// The CPU from which a group takes, and what evens out its group and ours; none where they are even.
    fn busiest(&mut self, side: Side, kind: Kind, now_ns: u64) -> Option<(u32, Imbalance)> {
        if self.flat.is_some() {
            let cpus = self.levels.tiers[side.tier].spans[side.span].cpus.clone();
            cpus.for_each(|cpu| self.weigh_groups(cpu, now_ns));
        }
        let tier = &self.levels.tiers[side.tier];
        let span = &tier.spans[side.span];
        let local = &span.groups[side.group];
        // In a ring from one's own on: of equal ones the first is taken, another one by each.
        let (before, after) = span.groups.split_at(side.group);
        let others = || after[1..].iter().chain(before);
        let tally = |group: &Group| self.tallies[group.tally as usize];
        let excess = |group: &Group| tally(group).runnable.saturating_sub(group.cpus.len() as u32);
        let runnable = |cpu: u32| self.queues[cpu as usize].runnable;
        let fullest = |group: &Group| {
            group.cpus.clone().max_by_key(|&cpu| (runnable(cpu), u32::MAX - cpu)).unwrap_or(group.cpus.start)
        };
        let (busiest, imbalance) = if kind == Kind::Busy {
            // Loads are averages over CPUs, so that groups of different sizes can be compared.
            let mean = |group: &Group| {
                group.cpus.clone().map(|cpu| self.load(cpu, now_ns)).sum::<f64>() / group.cpus.len() as f64
            };
            let crowded = others().filter(|group| excess(group) > 0).map(|group| (group, mean(group)));
            let (busiest, load) = crowded.reduce(|busiest, other| if other.1 > busiest.1 { other } else { busiest })?;
            let own = mean(local);
            let percent = self.kernel.imbalance_pct[tier.class()];
            let cpus = local.cpus.len() as f64;
            let used: f64 = local.cpus.clone().map(|cpu| self.use_of(cpu, now_ns)).sum();
            if excess(local) == 0 && used * f64::from(percent) < cpus * 100.0 {
                // With time left it is processes that are evened out, and one more than here is none too many.
                let more = (tally(busiest).runnable.saturating_sub(tally(local).runnable)) / 2;
                return (more > 0).then(|| (fullest(busiest), Imbalance::Processes(more)));
            }
            if load * 100.0 <= own * f64::from(percent) {
                return None;
            }
            let all = span.groups.iter().map(|group| (mean(group), group.cpus.len() as f64));
            let (sum, cpus) = all.fold((0.0, 0.0), |(sum, cpus), (mean, n)| (sum + mean * n, cpus + n));
            let middle = sum / cpus;
            if own >= middle {
                return None;
            }
            let from_load = (load - middle).max(0.0) * busiest.cpus.len() as f64;
            let to_load = (middle - own) * local.cpus.len() as f64;
            (busiest, Imbalance::Load(from_load.min(to_load)))
        } else {
            let key = |group: &Group| (excess(group), tally(group).runnable);
            let busier = |busiest, other| if key(other) > key(busiest) { other } else { busiest };
            let busiest = others().reduce(busier)?;
            let (there, here) = (tally(busiest), tally(local));
            if excess(busiest) > 0 {
                let spare = if tier.within_llc { 0.0 } else { self.spare(local, now_ns) };
                let processes = if tier.within_llc { excess(busiest).min(here.idle).max(1) } else { 1 };
                (busiest, if spare > 0.0 { Imbalance::Use(spare) } else { Imbalance::Processes(processes) })
            } else if tier.prefers_spreading && there.runnable > here.runnable + 1 {
                (busiest, Imbalance::Processes(1))
            } else {
                return None;
            }
        };
        Some((fullest(busiest), imbalance))
    }

    /// How many CPUs of a group beyond last-level caches were idle of late.
    fn spare(&self, group: &Group, now_ns: u64) -> f64 {
        let llc = |cpu: u32| self.levels.llc_number[cpu as usize];
        let llcs = llc(group.cpus.start)..=llc(group.cpus.end - 1);
        group.cpus.len() as f64 - llcs.map(|llc| self.used(llc, now_ns)).sum::<f64>()
    }

    /// Moves processes that wait on one CPU to another until the imbalance is gone, but no more than leaves the two queues
    /// even; how many. Those go first that have not run for longest.
    fn detach(
        &mut self,
        (from, to): (u32, u32),
        imbalance: Imbalance,
        most: u32,
        (failed, tries): (u32, u32),
        now_ns: u64,
    ) -> u32 {
        let runnable = |fair: &Self, cpu: u32| fair.queues[cpu as usize].runnable;
        if runnable(self, from) < 2 {
            return 0;
        }
        let is_movable = |fair: &Self, process: ProcessIndex| {
            let entity = &fair.entities[process.at()];
            let is_hot = entity.ran_until_ns > 0 && now_ns - entity.ran_until_ns < fair.kernel.migration_cost_ns;
            let may_sleep = matches!(imbalance, Imbalance::Load(_));
            let waits = entity.state == State::Queued || (may_sleep && entity.state == State::Delayed);
            waits && (!is_hot || failed > tries) && !fair.is_gathered(process, to)
        };
        let waiting = self.waiting(from).take(self.kernel.nr_migrate as usize);
        let mut movable: Vec<ProcessIndex> = waiting.filter(|&process| is_movable(self, process)).collect();
        movable.sort_unstable_by_key(|&process| (self.entities[process.at()].ran_until_ns, process));
        let mut moved = 0;
        let mut left = imbalance;
        for process in movable {
            if runnable(self, from) < 2 || moved == most {
                break;
            }
            match &mut left {
                Imbalance::Processes(0) => break,
                Imbalance::Processes(_) if runnable(self, from) <= runnable(self, to) + 1 => break,
                Imbalance::Processes(n) => *n -= 1,
                Imbalance::Use(left) => {
                    // What it uses is taken to be how long it was runnable.
                    let weight = f64::from(self.own_weight(process));
                    let own = self.entities[process.at()].load.now(weight, now_ns) / weight;
                    if own / f64::from(1_u32 << failed.min(16)) > *left {
                        continue;
                    }
                    *left -= own;
                }
                Imbalance::Load(load) => {
                    let weight = f64::from(self.own_weight(process));
                    let own =
                        self.entities[process.at()].load.now(weight, now_ns) * self.share_of_load(process, now_ns);
                    // No more than the imbalance; where nothing could be moved for that, twice as much each time. So processes
                    // take turns at being the one too many: of 9 on 8 CPUs a kernel moves one every 100 ms or so.
                    if own / f64::from(1_u32 << failed.min(16)) > *load {
                        continue;
                    }
                    *load -= own;
                }
            }
            self.migrate(process, to, now_ns);
            moved += 1;
            if matches!(left, Imbalance::Load(left) | Imbalance::Use(left) if left <= 0.0) {
                break;
            }
        }
        moved
    }

    /// With cache-aware balancing, a thread that is away from the others comes to an idle CPU near them.
    fn gather(&mut self, to: u32, now_ns: u64) -> Option<Move> {
        let stray = self.stray(to)?;
        let from = self.entities[stray.at()].cpu;
        if self.cpus[from as usize].current == Some(stray) {
            return Some(Move::Push { from, to });
        }
        if self.entities[stray.at()].state != State::Queued {
            return None;
        }
        self.migrate(stray, to, now_ns);
        Some(Move::Pulled(to))
    }
}
