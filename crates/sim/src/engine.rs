//! One replicate: CPUs take processes from a queue, and these run until something ends their dispatch interval.
//!
//! What ends an interval is known when it begins, since nothing preempts it: a waking process waits until some CPU looks
//! at the queue. So each CPU has one event at a time, the end of what it does now, in a tree that yields the earliest;
//! wake-ups and arrivals are in a heap; decay and balance have a date each. At one moment decay comes first, then
//! balance, wake-ups and arrivals by process number, and the CPUs by theirs. A clock tick at the very end of an interval
//! is charged to it.
//!
//! An interval has several segments where a process goes from one step of a phase to the next without giving up its CPU.

pub(crate) mod job;
pub(crate) mod population;
pub(crate) mod semaphores;

use crate::cpus::Cpus;
use crate::decay::Decay;
use crate::eevdf;
use crate::experiment::Experiment;
use crate::index::{CpuIndex, ProcessIndex};
use crate::memory::Memory;
use crate::outcome::{End, Interval, Outcome};
use crate::parameters::{Clocks, Policy};
use crate::queue::affine::Affine;
use crate::queue::fifo::Fifo;
use crate::queue::idle::IdleCpus;
use crate::queue::local::{Binding, Local};
use crate::queue::{RunQueue, Search, Standing, Surroundings};
use crate::random::{Draws, Purpose};
use crate::rule;
use crate::timing::Timing;
use crate::tournament::{Nest, Tournament};
use job::Outlook;
use population::{Population, Seat};
use std::cmp::Reverse;

const NEVER: u64 = u64::MAX;

impl Experiment<'_> {
    /// Runs one replicate, from 0, under a policy; `watch` sees every dispatch interval as it ends.
    pub fn run<M: Memory>(&self, policy: Policy, replicate: u32, memory: M, watch: impl FnMut(Interval)) -> Outcome {
        let cpus = self.cpus.len();
        let local = |binding| Local::new(binding, self.processes(), cpus, || self.cpus.nest());
        match policy {
            Policy::RoundRobin => self.run_with(Fifo::default(), policy, replicate, memory, watch),
            Policy::Attached => self.run_with(local(Binding::ForLife), policy, replicate, memory, watch),
            Policy::PerCpu => self.run_with(local(Binding::Loose), policy, replicate, memory, watch),
            Policy::Eevdf | Policy::EevdfLlc | Policy::EevdfAttached | Policy::EevdfLongSlice => {
                eevdf::engine::Engine::new(self, policy, replicate, memory, watch).run()
            }
            _ => {
                let phi = self.parameters.phi(policy);
                let queue = Affine::new(cpus, self.cpus.nest(), phi, self.parameters.wake);
                self.run_with(queue, policy, replicate, memory, watch)
            }
        }
    }

    pub(crate) fn run_with<Q: RunQueue, M: Memory>(
        &self,
        queue: Q,
        policy: Policy,
        replicate: u32,
        memory: M,
        watch: impl FnMut(Interval),
    ) -> Outcome {
        Engine::new(self, policy, replicate, queue, memory, watch).run()
    }
}

/// What a CPU does next.
#[derive(Clone, Copy, Debug, Default)]
enum Stop {
    /// Its process goes on with the next step.
    #[default]
    Step,
    /// Its dispatch interval ends.
    End(End),
}

#[derive(Default)]
struct Cpu {
    seat: Seat,
    quantum_end_ns: u64,
    stop: Stop,
    /// The clock: ticks so far, and when the next one is due.
    tick: u32,
    next_tick_ns: u64,
}

impl Cpu {
    /// Brings the clock up to date; the ticks since it last was.
    #[inline]
    fn advance(&mut self, now_ns: u64, tick_ns: u64) -> u32 {
        if now_ns < self.next_tick_ns {
            return 0;
        }
        let ticks = (now_ns - self.next_tick_ns) / tick_ns + 1;
        self.next_tick_ns += ticks * tick_ns;
        self.tick = self.tick.wrapping_add(ticks as u32);
        ticks as u32
    }
}

/// A replicate under way.
pub(crate) struct Engine<'a, Q, M, W> {
    policy: Policy,
    replicate: u32,
    timing: Timing,
    cpu_set: &'a Cpus<'a>,
    cpus: Vec<Cpu>,
    population: Population<'a>,
    standings: Vec<Standing>,
    queue: Q,
    idle: IdleCpus,
    memory: M,
    watch: W,
    chance: Draws,
    /// When each CPU stops what it does, and its number.
    stops: Tournament<u64>,
    /// Bits of a CPU's number in the keys of `stops`.
    cpu_bits: u32,
    decay_ns: u64,
    balance_ns: u64,
    /// The earliest of these three.
    timer_ns: u64,
    load: Option<u32>,
}

impl<'a, Q: RunQueue, M: Memory, W: FnMut(Interval)> Engine<'a, Q, M, W> {
    pub(crate) fn new(
        experiment: &'a Experiment<'_>,
        policy: Policy,
        replicate: u32,
        queue: Q,
        memory: M,
        watch: W,
    ) -> Self {
        let seed = experiment.parameters.seed;
        let cpu_bits = usize::BITS - (experiment.cpus.len() - 1).leading_zeros();
        let mut timing = Timing::new(experiment.parameters, policy);
        // Every time up to it must fit into a key of `stops`, beside the number of a CPU.
        timing.horizon_ns = timing.horizon_ns.min((NEVER >> cpu_bits) - 1);
        let mut clocks = Draws::new(seed, replicate, Purpose::Clocks, 0);
        let cpu_set = &experiment.cpus;
        let cpus = (0..cpu_set.len())
            .map(|_| match experiment.parameters.clocks {
                Clocks::Random => 1 + clocks.below(timing.tick_ns),
                Clocks::Together => timing.tick_ns,
            })
            .map(|next_tick_ns| Cpu { next_tick_ns, ..Cpu::default() })
            .collect();

        let population = Population::new(experiment, replicate);
        let standing = |process: &population::Process| {
            let base = population.jobs[process.course.job as usize].behaviour.base;
            Standing { base, cpu_ticks: 0, last_cpu: None, left_tick: 0 }
        };
        let standings = population.processes.iter().map(standing).collect();

        let stops = Tournament::new(Nest::flat(cpu_set.len()), NEVER);
        let mut engine = Self {
            policy,
            replicate,
            cpu_set,
            cpus,
            population,
            standings,
            queue,
            idle: IdleCpus::all(cpu_set.len(), cpu_set.nest()),
            memory,
            watch,
            chance: Draws::new(seed, replicate, Purpose::Chance, 0),
            stops,
            cpu_bits,
            decay_ns: if timing.decay == Decay::None || !Q::PRIORITIES { NEVER } else { timing.decay_period_ns },
            balance_ns: if policy == Policy::PerCpu { timing.balance_period_ns } else { NEVER },
            timer_ns: 0,
            load: None,
            timing,
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
                self.stop(CpuIndex(cpu as u32), now_ns);
            } else {
                now_ns = self.timing.horizon_ns;
                break;
            }
        }
        self.outcome(now_ns)
    }

    fn set_timer(&mut self) {
        let wake_ns = self.population.wakes.peek().map_or(NEVER, |&Reverse((at_ns, _))| at_ns);
        self.timer_ns = self.decay_ns.min(self.balance_ns).min(wake_ns);
    }

    #[inline(never)]
    fn timer(&mut self, now_ns: u64) {
        if now_ns == self.decay_ns {
            self.decay_ns += self.timing.decay_period_ns;
            self.decay(now_ns);
        } else if now_ns == self.balance_ns {
            self.balance_ns += self.timing.balance_period_ns;
            self.queue.balance();
            // Idle CPUs look again, by their numbers: the set of them has an order of its own.
            let mut idle: Vec<CpuIndex> = self.idle.iter().collect();
            idle.sort_unstable();
            for cpu in idle {
                self.wake_cpu(cpu, now_ns);
            }
        } else if let Some(Reverse((_, process))) = self.population.wakes.pop() {
            self.join(process, now_ns);
        }
        self.set_timer();
    }

    fn decay(&mut self, now_ns: u64) {
        // Those that run are charged first, so that what they have had by now decays with the rest.
        for cpu in &mut self.cpus {
            let ticks = cpu.advance(now_ns, self.timing.tick_ns);
            if let Some(process) = cpu.seat.running {
                let standing = &mut self.standings[process.at()];
                standing.cpu_ticks = rule::charge(standing.cpu_ticks, ticks);
            }
        }
        let per_cpu = self.population.runnable * u64::from(rule::LOAD_ONE) / self.cpus.len() as u64;
        let load = self.timing.load(self.load, per_cpu.min(u64::from(u32::MAX)) as u32);
        self.load = Some(load);
        for standing in &mut self.standings {
            standing.cpu_ticks = self.timing.decayed(standing.cpu_ticks, load);
        }
        self.queue.reorder(&self.standings);
    }

    /// A process arrives or wakes.
    fn join(&mut self, index: ProcessIndex, now_ns: u64) {
        self.population.join(index, now_ns);
        let around = Surroundings { standings: &self.standings, idle: &self.idle, chance: &mut self.chance };
        if let Some(cpu) = self.queue.join(index, around) {
            self.wake_cpu(cpu, now_ns);
        }
    }

    /// An idle CPU looks for a process.
    fn wake_cpu(&mut self, index: CpuIndex, now_ns: u64) {
        self.idle.remove(index);
        let cpu = &mut self.cpus[index.at()];
        self.population.counts.idle_ns += u128::from(now_ns - cpu.seat.idle_since_ns);
        cpu.advance(now_ns, self.timing.tick_ns);
        self.search(index, now_ns, None);
    }

    /// What a CPU does now is over.
    #[inline(never)]
    fn stop(&mut self, index: CpuIndex, now_ns: u64) {
        let cpu = &mut self.cpus[index.at()];
        let Some(running) = cpu.seat.running else {
            return;
        };
        // A step that ends within the interval leaves the CPU to the process: nobody looks at the queue.
        let end = match cpu.stop {
            Stop::Step => return self.segment(index, running, now_ns),
            Stop::End(end) => end,
        };
        let ticks = cpu.advance(now_ns, self.timing.tick_ns);
        if Q::PRIORITIES {
            let standing = &mut self.standings[running.at()];
            standing.cpu_ticks = rule::charge(standing.cpu_ticks, ticks);
            standing.left_tick = cpu.tick;
        }
        self.population.unseat(&mut cpu.seat, (running, index), now_ns, end, &mut self.watch);
        let again = match end {
            End::Horizon => {
                self.stops.set(index.at(), NEVER);
                return;
            }
            End::Semaphore => {
                self.population.block(running, now_ns);
                self.set_timer();
                self.queue.left(index, false);
                None
            }
            End::Exit => {
                self.queue.left(index, true);
                self.population.exit(running, now_ns, self.cpus.iter().map(|cpu| &cpu.seat));
                self.set_timer();
                None
            }
            _ => {
                self.population.stay(running, now_ns);
                Some(running)
            }
        };
        // An end at the very horizon counts as what it is, but nobody is dispatched any more.
        if now_ns >= self.timing.horizon_ns {
            self.stops.set(index.at(), NEVER);
            return;
        }
        self.search(index, now_ns, again);
    }

    /// A CPU looks for a process.
    #[inline(always)]
    fn search(&mut self, index: CpuIndex, now_ns: u64, again: Option<ProcessIndex>) {
        let search = Search { cpu: index, tick: self.cpus[index.at()].tick, again };
        match self.queue.take(search, &self.standings) {
            Some(process) => self.dispatch(index, process, now_ns),
            None => {
                self.idle.insert(index);
                self.cpus[index.at()].seat.idle_since_ns = now_ns;
                self.stops.set(index.at(), NEVER);
            }
        }
    }

    #[inline(always)]
    fn dispatch(&mut self, index: CpuIndex, next: ProcessIndex, now_ns: u64) {
        let cpu = &mut self.cpus[index.at()];
        let last_cpu = self.standings[next.at()].last_cpu.replace(index);
        let is_switch = self.population.seat(&mut cpu.seat, next, (last_cpu, index), self.cpu_set, now_ns);
        let start_ns = if is_switch { (now_ns + self.timing.switch_ns).min(self.timing.horizon_ns) } else { now_ns };
        let late_ns = if self.timing.jitter_ns > 0 { self.chance.below(self.timing.jitter_ns + 1) } else { 0 };
        // Counted in ticks, the first one may come right away: such a quantum is up to a tick short.
        let due_ns = match self.timing.quantum_ticks {
            None => start_ns.saturating_add(self.timing.quantum_ns),
            Some(ticks) => start_ns.max(cpu.next_tick_ns.saturating_add((ticks - 1) * self.timing.tick_ns)),
        };
        cpu.quantum_end_ns = due_ns.saturating_add(late_ns);
        self.memory.dispatch(next, index, start_ns);
        self.segment(index, next, start_ns);
    }

    /// A process goes on from where it is, until its next step or the end of the interval.
    #[inline(always)]
    fn segment(&mut self, index: CpuIndex, running: ProcessIndex, now_ns: u64) {
        let Population { processes, jobs, histories, semaphores, wakes, .. } = &mut self.population;
        let process = &mut processes[running.at()];
        let job = &mut jobs[process.course.job as usize];
        let cpu = &mut self.cpus[index.at()];
        // The run is carried out now, though it lasts until later: nothing that happens in between can change it.
        let until_ns = cpu.quantum_end_ns.min(self.timing.horizon_ns);
        let cut = if until_ns < cpu.quantum_end_ns { End::Horizon } else { End::Quantum };

        let outlook = if job.behaviour.ops.is_empty() {
            Outlook::Work
        } else {
            let barrier = &mut histories[running.at()].barrier;
            let outlook = job.proceed(&mut process.course, running, barrier, semaphores);
            let latency_ns = if self.idle.iter().next().is_some() { self.timing.wake_ns } else { 0 };
            let wake_ns = now_ns.saturating_add(latency_ns);
            while let Some(woken) = semaphores.take_woken() {
                wakes.push(Reverse((wake_ns, woken)));
                self.timer_ns = self.timer_ns.min(wake_ns);
            }
            outlook
        };
        let (stop_ns, stop) = match outlook {
            Outlook::Work => {
                let work_ns = process.course.work_ns();
                let ran = self.memory.run(running, index, now_ns, work_ns, until_ns - now_ns);
                process.course.worked(ran.work_ns);
                job.tally.work_ns += u128::from(ran.work_ns);
                job.tally.misses += ran.misses;
                let stop = if ran.work_ns < work_ns {
                    Stop::End(cut)
                } else if process.course.is_done() {
                    Stop::End(End::Exit)
                } else if process.course.burst_is_done() {
                    Stop::End(process.course.burst_end)
                } else {
                    Stop::Step
                };
                (now_ns + ran.wall_ns, stop)
            }
            Outlook::Wait => {
                let attempt_ns = now_ns.saturating_add(self.timing.attempt_ns);
                if attempt_ns <= until_ns {
                    (attempt_ns, Stop::End(End::Synchronization))
                } else {
                    (until_ns, Stop::End(cut))
                }
            }
            Outlook::Block => (now_ns, Stop::End(End::Semaphore)),
            Outlook::Exit => (now_ns, Stop::End(End::Exit)),
        };
        cpu.stop = stop;
        self.stops.set(index.at(), stop_ns << self.cpu_bits | u64::from(index.0));
    }

    fn outcome(mut self, now_ns: u64) -> Outcome {
        let seats: Vec<Seat> = self.cpus.iter().map(|cpu| cpu.seat).collect();
        for cpu in self.idle.iter() {
            self.population.counts.idle_ns += u128::from(now_ns - seats[cpu.at()].idle_since_ns);
        }
        self.population.outcome(self.policy, self.replicate, now_ns, &seats)
    }
}
