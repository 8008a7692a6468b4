//! One replicate under the kernel's fair scheduler: events in their order.
//!
//! Each CPU has one event at a time: the end of its process's step, or the clock tick before that at which something is to
//! be decided. Ticks at which nothing would happen don't take place. Wake-ups and arrivals are in a heap; idle CPUs, whose
//! clocks stand still, are balanced at the ticks of a clock of their own. At one moment that clock comes first, then wake-ups
//! and arrivals by process number, then CPUs by theirs.

use super::balance::Move;
use super::fair::Fair;
use super::flat::Flat;
use super::groups::Groups;
use super::kernel::{KernelParameters, OWN_SLICE_MS};
use super::llc::Gathering;
use super::queue::{Entity, IDLE_WEIGHT, NICE_0};
use crate::behaviour::ns;
use crate::cpus::Cpus;
use crate::engine::job::Outlook;
use crate::engine::population::{Population, Seat};
use crate::experiment::Experiment;
use crate::index::{CpuIndex, ProcessIndex};
use crate::memory::Memory;
use crate::outcome::{End, Interval, Outcome};
use crate::parameters::{Clocks, Policy};
use crate::random::{Draws, Purpose};
use crate::timing::Timing;
use crate::tournament::{Nest, Tournament};
use crate::workload::{Process, Sched};
use std::cmp::Reverse;

const NEVER: u64 = u64::MAX;

/// No CPU: a timer.
const NOBODY: u32 = u32::MAX;

/// Processes that arrive at one moment come in any order, each so many ns late at most, where there is any jitter: in the order of
/// their numbers, each CPU would get the same of each job.
const ARRIVAL_JITTER_NS: u64 = 1_000;

/// What a process does until its step ends.
#[derive(Clone, Copy, Default)]
struct Run {
    /// When it began, and how much work it is; none where it only waits for a lock or barrier.
    start_ns: u64,
    work_ns: Option<u64>,
    /// When the step ends if nothing comes in between, and whether the dispatch interval ends with it.
    stop_ns: u64,
    end: Option<End>,
    /// How late the clock tick is that ends the slice.
    late_ns: u64,
    /// The phase of the CPU's clock.
    first_tick_ns: u64,
}

/// A replicate under way.
pub(crate) struct Engine<'a, M, W> {
    policy: Policy,
    replicate: u32,
    timing: Timing,
    cpu_set: &'a Cpus<'a>,
    fair: Fair,
    seats: Vec<Seat>,
    runs: Vec<Run>,
    population: Population<'a>,
    /// By process, the CPU on which its semaphore was posted; empty where there are no semaphores.
    wakers: Vec<u32>,
    /// By job, the CPU on which its next process is created.
    parents: Vec<u32>,
    memory: M,
    watch: W,
    chance: Draws,
    /// When each CPU is to be looked at, and its number.
    stops: Tournament<u64>,
    /// Bits of a CPU's number in the keys of `stops`.
    cpu_bits: u32,
    /// When idle CPUs are balanced next.
    idle_tick_ns: u64,
    /// The earlier of that and the next wake-up.
    timer_ns: u64,
    moves: Vec<Move>,
}

/// The weight of a nice value: a factor of 1.25 a level (sched(7): "about 1.25"), 1,024 at 0.
pub(crate) fn weight_of_nice(nice: i32) -> u32 {
    libm::round(f64::from(NICE_0) * libm::pow(1.25, -f64::from(nice))) as u32
}

/// What the scheduler knows of a process, whose slices are `slice_ns` if it asks for none.
fn entity_of(process: &Process, slice_ns: u32, own_slices: bool) -> Entity {
    let weight = if process.sched == Sched::Idle { IDLE_WEIGHT } else { weight_of_nice(process.nice) };
    let own = process.slice_ms.filter(|_| own_slices).map(|ms| ns(ms) as u32);
    let mut entity = Entity::new(weight, own.unwrap_or(slice_ns));
    entity.is_idle_class = process.sched == Sched::Idle;
    entity.is_batch = process.sched == Sched::Batch;
    entity
}

impl<'a, M: Memory, W: FnMut(Interval)> Engine<'a, M, W> {
    pub(crate) fn new(experiment: &'a Experiment<'_>, policy: Policy, replicate: u32, memory: M, watch: W) -> Self {
        let parameters = experiment.parameters;
        let kernel = parameters.kernel.clone().unwrap_or_default();
        let cpu_set = &experiment.cpus;
        let count = cpu_set.len();
        let cpu_bits = usize::BITS - (count - 1).leading_zeros();
        let mut timing = Timing::new(parameters, policy);
        timing.horizon_ns = timing.horizon_ns.min((NEVER >> cpu_bits) - 1);

        let mut population = Population::new(experiment, replicate);
        if timing.jitter_ns > 0 {
            let mut delays = Draws::new(parameters.seed, replicate, Purpose::Arrivals, u32::MAX);
            let arrivals = std::mem::take(&mut population.wakes).into_vec().into_iter();
            let late = |Reverse((at_ns, process))| Reverse((at_ns + delays.below(ARRIVAL_JITTER_NS), process));
            population.wakes = arrivals.map(late).collect();
        }
        let mut fair = fair(experiment, policy, kernel);
        let mut clocks = Draws::new(parameters.seed, replicate, Purpose::Clocks, 0);
        let first_tick = |_| match parameters.clocks {
            Clocks::Random => 1 + clocks.below(fair.tick_ns),
            Clocks::Together => fair.tick_ns,
        };
        let runs: Vec<Run> =
            (0..count).map(first_tick).map(|first_tick_ns| Run { first_tick_ns, ..Run::default() }).collect();
        fair.ticks_together = parameters.clocks == Clocks::Together;
        let mut engine = Self {
            policy,
            replicate,
            timing,
            cpu_set,
            seats: vec![Seat::default(); count],
            runs,
            wakers: if population.semaphores.is_empty() {
                Vec::new()
            } else {
                vec![NOBODY; population.processes.len()]
            },
            parents: vec![0; population.jobs.len()],
            population,
            fair,
            memory,
            watch,
            chance: Draws::new(parameters.seed, replicate, Purpose::Chance, 0),
            stops: Tournament::new(Nest::flat(count), NEVER),
            cpu_bits,
            idle_tick_ns: NEVER,
            timer_ns: 0,
            moves: Vec::new(),
        };
        engine.set_timer();
        engine
    }

    /// Runs until all processes have ended or the horizon is reached.
    pub(crate) fn run(mut self) -> Outcome {
        let mut now_ns = 0;
        while self.population.left > 0 {
            // A key holds the time above and the CPU's number below, so that at one moment CPUs come in their order.
            let stop = self.stops.least();
            let stop_ns = stop >> self.cpu_bits;
            if self.timer_ns <= stop_ns && self.timer_ns < self.timing.horizon_ns {
                now_ns = self.timer_ns;
                self.timer(now_ns);
            } else if stop < NEVER {
                now_ns = stop_ns;
                let cpu = stop & !(NEVER << self.cpu_bits);
                self.look_at(cpu as u32, now_ns);
            } else {
                now_ns = self.timing.horizon_ns;
                break;
            }
        }
        for cpu in self.fair.idle.iter() {
            self.population.counts.idle_ns += u128::from(now_ns - self.seats[cpu as usize].idle_since_ns);
        }
        self.population.outcome(self.policy, self.replicate, now_ns, &self.seats)
    }

    fn set_timer(&mut self) {
        let wake_ns = self.population.wakes.peek().map_or(NEVER, |&Reverse((at_ns, _))| at_ns);
        self.timer_ns = self.idle_tick_ns.min(wake_ns);
    }

    #[inline(never)]
    fn timer(&mut self, now_ns: u64) {
        if now_ns == self.idle_tick_ns {
            self.idle_tick_ns = NEVER;
            let mut moves = std::mem::take(&mut self.moves);
            self.fair.balance_idle(now_ns, &mut moves);
            self.carry_out(moves, now_ns);
            self.arm_idle_tick(now_ns);
        } else if let Some(Reverse((_, process))) = self.population.wakes.pop() {
            self.join(process, now_ns);
        }
        self.set_timer();
    }

    /// Idle CPUs are balanced while there are any beside busy ones.
    fn arm_idle_tick(&mut self, now_ns: u64) {
        let idle = self.fair.idle.count() as usize;
        if self.idle_tick_ns == NEVER && idle > 0 && idle < self.seats.len() && self.fair.bound.is_none() {
            self.idle_tick_ns = (now_ns / self.fair.tick_ns + 1) * self.fair.tick_ns;
        }
    }

    /// A process arrives or wakes.
    fn join(&mut self, process: ProcessIndex, now_ns: u64) {
        let cpu = if self.population.join(process, now_ns) {
            let job = self.population.processes[process.at()].course.job;
            self.fair.arrive(process, self.parents[job as usize], now_ns)
        } else {
            // A timer goes off where it was set.
            let waker = self.wakers.get_mut(process.at()).map(|waker| std::mem::replace(waker, NOBODY));
            self.fair.wake(process, waker.filter(|&waker| waker != NOBODY), now_ns)
        };
        if self.seats[cpu as usize].running.is_none() {
            self.dispatch(cpu, now_ns);
        } else if self.fair.preempts(process, cpu) {
            self.preempt(cpu, now_ns, End::Preempted);
            self.dispatch(cpu, now_ns);
        } else {
            self.set_stop(cpu, now_ns);
        }
    }

    /// Something is due on a CPU.
    #[inline(never)]
    fn look_at(&mut self, cpu: u32, now_ns: u64) {
        let at = cpu as usize;
        let Some(running) = self.seats[at].running else { return };
        if self.runs[at].stop_ns <= now_ns {
            self.finish_run(cpu, now_ns);
            match self.runs[at].end {
                // A step that ends within the interval leaves the CPU to the process.
                None => return self.segment(cpu, running, now_ns),
                Some(end) => self.give_up(cpu, running, end, now_ns),
            }
        } else if now_ns >= self.timing.horizon_ns {
            self.finish_run(cpu, now_ns);
            self.unseat(cpu, running, now_ns, End::Horizon);
        } else {
            self.fair.account(cpu, now_ns);
            if self.fair.busy_due_ns(cpu, now_ns) <= now_ns {
                let mut moves = std::mem::take(&mut self.moves);
                self.fair.balance_busy(cpu, now_ns, &mut moves);
                self.carry_out(moves, now_ns);
            }
            if !self.fair.is_slice_over(cpu) {
                return self.set_stop(cpu, now_ns);
            }
            self.preempt(cpu, now_ns, End::Quantum);
        }
        // An end at the very horizon counts as what it is, but nobody is dispatched any more.
        if now_ns >= self.timing.horizon_ns {
            return self.stops.set(at, NEVER);
        }
        self.dispatch(cpu, now_ns);
    }

    /// A process gives up its CPU by itself.
    fn give_up(&mut self, cpu: u32, running: ProcessIndex, end: End, now_ns: u64) {
        self.unseat(cpu, running, now_ns, end);
        match end {
            End::Semaphore => {
                self.population.block(running, now_ns);
                self.fair.sleep(cpu, now_ns);
                self.set_timer();
            }
            End::Exit => {
                self.population.exit(running, now_ns, self.seats.iter());
                self.fair.exit(cpu, now_ns);
                self.parents[self.population.processes[running.at()].course.job as usize] = cpu;
                self.set_timer();
            }
            _ => {
                self.population.stay(running, now_ns);
                self.fair.yield_(cpu, now_ns);
            }
        }
    }

    /// The process on a CPU is stopped where it is, and waits.
    fn preempt(&mut self, cpu: u32, now_ns: u64, end: End) -> Option<ProcessIndex> {
        let running = self.seats[cpu as usize].running?;
        self.finish_run(cpu, now_ns);
        self.unseat(cpu, running, now_ns, end);
        self.population.stay(running, now_ns);
        self.fair.put(cpu, now_ns)
    }

    fn unseat(&mut self, cpu: u32, running: ProcessIndex, now_ns: u64, end: End) {
        let seat = &mut self.seats[cpu as usize];
        self.population.unseat(seat, (running, CpuIndex(cpu)), now_ns, end, &mut self.watch);
    }

    /// What the process on a CPU did until now is done.
    #[inline]
    fn finish_run(&mut self, cpu: u32, now_ns: u64) {
        let run = &mut self.runs[cpu as usize];
        if let (Some(running), Some(work_ns)) = (self.seats[cpu as usize].running, run.work_ns.take()) {
            let wall_ns = now_ns.saturating_sub(run.start_ns);
            let ran = self.memory.stop(running, CpuIndex(cpu), now_ns, work_ns, wall_ns);
            let course = &mut self.population.processes[running.at()].course;
            course.worked(ran.work_ns);
            let tally = &mut self.population.jobs[course.job as usize].tally;
            tally.work_ns += u128::from(ran.work_ns);
            tally.misses += ran.misses;
        }
    }

    fn carry_out(&mut self, mut moves: Vec<Move>, now_ns: u64) {
        for moved in moves.drain(..) {
            match moved {
                Move::Pulled(to) if self.seats[to as usize].running.is_none() => self.dispatch(to, now_ns),
                Move::Pulled(to) if self.fair.is_taken(to) => {
                    self.preempt(to, now_ns, End::Preempted);
                    self.dispatch(to, now_ns);
                }
                Move::Pulled(to) => self.set_stop(to, now_ns),
                Move::Push { from, to } => {
                    // Earlier moves of this pass may have changed both.
                    if self.seats[to as usize].running.is_none()
                        && let Some(pushed) = self.preempt(from, now_ns, End::Preempted)
                    {
                        self.fair.migrate(pushed, to, now_ns);
                        self.dispatch(from, now_ns);
                        self.dispatch(to, now_ns);
                    }
                }
            }
        }
        self.moves = moves;
    }

    /// A CPU without a process takes one, or idles.
    #[inline]
    fn dispatch(&mut self, cpu: u32, now_ns: u64) {
        let mut next = self.fair.pick(cpu, now_ns);
        if next.is_none() && !self.fair.idle.contains(cpu) && self.fair.balance_newly_idle(cpu, now_ns) {
            next = self.fair.pick(cpu, now_ns);
        }
        let at = cpu as usize;
        let Some(next) = next else {
            if !self.fair.idle.contains(cpu) {
                self.fair.set_idle(cpu, true, now_ns);
                self.seats[at].idle_since_ns = now_ns;
                self.arm_idle_tick(now_ns);
                self.set_timer();
            }
            return self.stops.set(at, NEVER);
        };
        if self.fair.idle.contains(cpu) {
            self.fair.set_idle(cpu, false, now_ns);
            self.population.counts.idle_ns += u128::from(now_ns - self.seats[at].idle_since_ns);
            self.arm_idle_tick(now_ns);
            self.set_timer();
        }
        let last_cpu = std::mem::replace(&mut self.fair.entities[next.at()].last_cpu, cpu);
        let last_cpu = (last_cpu != u32::MAX).then_some(CpuIndex(last_cpu));
        let seat = &mut self.seats[at];
        let is_switch = self.population.seat(seat, next, (last_cpu, CpuIndex(cpu)), self.cpu_set, now_ns);
        let start_ns = if is_switch { (now_ns + self.timing.switch_ns).min(self.timing.horizon_ns) } else { now_ns };
        let jitter_ns = self.timing.jitter_ns;
        self.runs[at].late_ns = if jitter_ns > 0 { self.chance.below(jitter_ns + 1) } else { 0 };
        self.segment(cpu, next, start_ns);
    }

    /// A process goes on from where it is, until its next step.
    #[inline]
    fn segment(&mut self, cpu: u32, running: ProcessIndex, now_ns: u64) {
        let Population { processes, jobs, histories, semaphores, wakes, .. } = &mut self.population;
        let process = &mut processes[running.at()];
        let job = &mut jobs[process.course.job as usize];
        let run = &mut self.runs[cpu as usize];
        let outlook = if job.behaviour.ops.is_empty() {
            Outlook::Work
        } else {
            let barrier = &mut histories[running.at()].barrier;
            let outlook = job.proceed(&mut process.course, running, barrier, semaphores);
            let latency_ns = if self.fair.idle.count() > 0 { self.timing.wake_ns } else { 0 };
            let wake_ns = now_ns.saturating_add(latency_ns);
            while let Some(woken) = semaphores.take_woken() {
                self.wakers[woken.at()] = cpu;
                wakes.push(Reverse((wake_ns, woken)));
                self.timer_ns = self.timer_ns.min(wake_ns);
            }
            outlook
        };
        run.start_ns = now_ns;
        run.work_ns = None;
        (run.stop_ns, run.end) = match outlook {
            Outlook::Work => {
                let work_ns = process.course.work_ns();
                run.work_ns = Some(work_ns);
                let wall_ns = self.memory.start(running, CpuIndex(cpu), now_ns, work_ns);
                (now_ns.saturating_add(wall_ns), process.course.end_of_work())
            }
            Outlook::Wait => (now_ns.saturating_add(self.timing.attempt_ns), Some(End::Synchronization)),
            Outlook::Block => (now_ns, Some(End::Semaphore)),
            Outlook::Exit => (now_ns, Some(End::Exit)),
        };
        self.set_stop(cpu, now_ns);
    }

    /// A busy CPU is looked at next when its process's step ends, or at the first tick at which something is to be decided.
    #[inline]
    fn set_stop(&mut self, cpu: u32, now_ns: u64) {
        let run = &self.runs[cpu as usize];
        let tick_ns = self.fair.tick_ns;
        // The first tick not before a moment, and after now.
        let tick_after = |at_ns: u64| {
            let at_ns = at_ns.max(now_ns + 1).saturating_sub(run.first_tick_ns);
            run.first_tick_ns + at_ns.div_ceil(tick_ns) * tick_ns
        };
        let slice_ns = match self.fair.slice_over_ns(cpu) {
            NEVER => NEVER,
            over_ns if self.fair.kernel.hrtick => over_ns.max(now_ns + 1),
            over_ns => tick_after(over_ns) + run.late_ns,
        };
        let group_ns = match self.fair.group_over_ns(cpu) {
            NEVER => NEVER,
            over_ns => tick_after(over_ns) + run.late_ns,
        };
        let balance_ns = match self.fair.busy_due_ns(cpu, now_ns) {
            NEVER => NEVER,
            due_ns => tick_after(due_ns),
        };
        let stop_ns = run.stop_ns.min(slice_ns).min(group_ns).min(balance_ns).min(self.timing.horizon_ns);
        self.stops.set(cpu as usize, stop_ns << self.cpu_bits | u64::from(cpu));
    }
}

/// The scheduler before anybody has arrived, as the policy has it.
fn fair(experiment: &Experiment<'_>, policy: Policy, kernel: KernelParameters) -> Fair {
    let cpus = &experiment.cpus;
    let long_ms = experiment.parameters.long_quantum_ms.clamp(OWN_SLICE_MS[0], OWN_SLICE_MS[1]);
    let base_ns = kernel.base_slice_on_ns(cpus.len()) as u32;
    let slice_ns = match policy {
        Policy::EevdfLongSlice if kernel.own_slices => ns(long_ms) as u32,
        _ => base_ns,
    };
    let jobs = &experiment.workload.jobs;
    let entities = experiment.workload.job_of_processes();
    let entities: Vec<Entity> =
        entities.map(|job| entity_of(&jobs[job].process, slice_ns, kernel.own_slices)).collect();
    let own_weights = entities.iter().map(|entity| entity.weight).collect();
    let workload = experiment.workload;
    let groups = workload.control_groups();
    let of = workload.group_of_processes();
    let (nested, flat) = match kernel.single_queue {
        true => (None, Flat::new(kernel.cgroup_mode, &groups, of, own_weights, cpus.len())),
        false => (Groups::new(&groups, &of, cpus.len()), None),
    };
    let mut fair = Fair::new(kernel, cpus, entities, nested);
    fair.flat = flat;
    if policy == Policy::EevdfAttached {
        fair.bound = Some(vec![0; cpus.len()]);
    }
    if policy == Policy::EevdfLlc {
        let space = |job: usize| jobs[job].threads.then_some(job as u32);
        let spaces = experiment.workload.job_of_processes().map(space).collect();
        fair.gathering = Some(Gathering::new(spaces, fair.levels.llcs.len()));
    }
    fair
}
