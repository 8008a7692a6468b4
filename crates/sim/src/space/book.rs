//! Who has which CPU, who wants more, and who ran where before: all that the rules of `allocator.rs` decide by.
//!
//! Jobs, CPUs and workers are known by their numbers, from 0. A job has a worker for each CPU at most, which are numbered job by job: those of
//! job `j` on `n` CPUs are `j * n` to `j * n + n - 1`.

use super::outcome::Cause;
use super::policy::{MOST_HISTORY, Policy, Rules};
use crate::random::{Draws, Purpose};

/// No time.
pub const NEVER: u64 = u64::MAX;
/// No CPU, job or worker.
pub const NONE: u32 = u32::MAX;

/// What a CPU does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// No job has it.
    #[default]
    Free,
    /// Its job has nothing for it, and gives it to whoever asks.
    Willing,
    /// Its job has nothing for it, and keeps it: for a while, or for good under equal shares.
    Kept,
    /// Its worker runs.
    Running,
}

/// A CPU.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// What it does.
    pub state: State,
    /// Who has it, or [`NONE`].
    pub job: u32,
    /// The worker that runs, or that ran last and stands by; or [`NONE`].
    pub worker: u32,
    /// The last different workers to run here, the latest first.
    pub history: [u32; MOST_HISTORY],
    /// Why its job got it, until a worker runs.
    pub cause: Cause,
    /// Its place in `free` or `willing`.
    pool_place: u32,
}

/// Where a worker is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seat {
    /// On a CPU that its job has: it runs or stands by.
    OnCpu,
    /// Without a CPU and without a task.
    #[default]
    Idle,
    /// Without a CPU in the middle of a task.
    Stopped,
}

/// A worker: what the kernel calls a process or a thread.
#[derive(Clone, Copy, Debug)]
pub struct Worker {
    /// Whose it is.
    pub job: u32,
    /// Where it is.
    pub seat: Seat,
    /// Where it ran last, or [`NONE`].
    pub cpu: u32,
}

/// What a job has.
#[derive(Clone, Debug)]
pub struct Holding {
    /// The CPUs that it has, the latest last.
    pub cpus: Vec<u32>,
    /// Those of them that it has nothing for, the last to fall idle last.
    pub idle_cpus: Vec<u32>,
    /// Its workers without a CPU that are in the middle of a task, the first to stop first.
    pub stopped: Vec<u32>,
    /// Its other workers without a CPU, the last to stop last.
    pub idle: Vec<u32>,
    /// Number of the first of its workers.
    pub first_worker: u32,
    /// How many workers it has had use for.
    pub workers: u32,
    /// Since when it wants for more CPUs, in ns; or [`NEVER`].
    pub asks_since_ns: u64,
}

/// The books of one machine.
#[derive(Clone, Debug)]
pub struct Book {
    /// What the policy heeds.
    pub rules: Rules,
    /// How many of the workers that ran on a CPU it remembers.
    pub history: usize,
    /// By number.
    pub cpus: Vec<Cpu>,
    /// By number.
    pub jobs: Vec<Holding>,
    /// By number.
    pub workers: Vec<Worker>,
    /// Jobs that have arrived and are not done, in the order of arrival.
    pub active: Vec<u32>,
    /// CPUs that nobody has.
    pub free: Vec<u32>,
    /// CPUs that their jobs would give.
    pub willing: Vec<u32>,
    /// The time, in ns.
    pub now_ns: u64,
    /// Decides where a rule leaves several CPUs.
    chance: Draws,
}

impl Book {
    /// Nobody has anything yet. `replicate` and `seed` are those of the draws.
    pub fn new(rules: Rules, cpus: u32, jobs: u32, history: u32, seed: u64, replicate: u32) -> Self {
        let cpu = |number| Cpu {
            state: State::Free,
            job: NONE,
            worker: NONE,
            history: [NONE; MOST_HISTORY],
            cause: Cause::Voluntary,
            pool_place: number,
        };
        let holding = |number| Holding {
            cpus: Vec::new(),
            idle_cpus: Vec::new(),
            stopped: Vec::new(),
            idle: Vec::new(),
            first_worker: number * cpus,
            workers: 0,
            asks_since_ns: NEVER,
        };
        let worker = |job| Worker { job, seat: Seat::Idle, cpu: NONE };
        Self {
            rules,
            history: (history as usize).min(MOST_HISTORY),
            cpus: (0..cpus).map(cpu).collect(),
            jobs: (0..jobs).map(holding).collect(),
            workers: (0..jobs).flat_map(|job| std::iter::repeat_n(worker(job), cpus as usize)).collect(),
            active: Vec::new(),
            free: (0..cpus).collect(),
            willing: Vec::new(),
            now_ns: 0,
            chance: Draws::new(seed, replicate, Purpose::Chance, 0),
        }
    }

    /// The same for jobs that run under `policy`, which keeps no CPU for a while.
    pub fn of_policy(policy: Policy, cpus: u32, jobs: u32, history: u32, seed: u64, replicate: u32) -> Self {
        Self::new(Rules::new(policy, 0), cpus, jobs, history, seed, replicate)
    }

    /// How many CPUs a job has.
    #[inline]
    pub fn has(&self, job: u32) -> usize {
        self.jobs[job as usize].cpus.len()
    }

    /// Whose a worker is.
    #[inline]
    pub fn job_of(&self, worker: u32) -> u32 {
        self.workers[worker as usize].job
    }

    /// One of these, by chance.
    #[inline]
    pub(super) fn any_of(chance: &mut Draws, cpus: &[u32]) -> u32 {
        cpus[chance.below(cpus.len() as u64) as usize]
    }

    /// One of the CPUs that can be had without taking one that is used: free ones first. None where there is none.
    #[inline]
    pub(super) fn any_available(&mut self) -> Option<u32> {
        let available = if self.free.is_empty() { &self.willing } else { &self.free };
        (!available.is_empty()).then(|| Self::any_of(&mut self.chance, available))
    }

    /// One of the worst CPUs of a job: those that it can't use, though it may still keep them, are worth least. `desired` if it is among
    /// these.
    #[inline]
    pub(super) fn any_worst(&mut self, job: u32, desired: u32) -> u32 {
        let victim = &self.jobs[job as usize];
        let worst = if victim.idle_cpus.is_empty() { &victim.cpus } else { &victim.idle_cpus };
        if worst.contains(&desired) {
            return desired;
        }
        Self::any_of(&mut self.chance, worst)
    }

    /// The worker that a job most needs to run.
    #[inline]
    pub(super) fn critical(&mut self, number: u32) -> u32 {
        let Self { rules, jobs, chance, .. } = self;
        let job = &jobs[number as usize];
        match (job.stopped.first(), job.idle.as_slice()) {
            (Some(&stopped), _) => stopped,
            (None, []) => job.first_worker + job.workers,
            (None, [.., last]) if rules.affinity || rules.equal_shares => *last,
            (None, idle) => Self::any_of(chance, idle),
        }
    }

    /// Puts an idle CPU among those that their jobs would give.
    #[inline]
    pub(super) fn be_willing(&mut self, number: u32) {
        let cpu = &mut self.cpus[number as usize];
        (cpu.state, cpu.pool_place) = (State::Willing, self.willing.len() as u32);
        self.willing.push(number);
    }

    /// An idle CPU is so no more: it is neither among its job's idle ones nor among those that are to be had.
    #[inline]
    pub(super) fn end_idle(&mut self, number: u32) {
        let cpu = &self.cpus[number as usize];
        remove(&mut self.jobs[cpu.job as usize].idle_cpus, number);
        if cpu.state == State::Willing {
            leave_pool(&mut self.willing, &mut self.cpus, number);
        }
    }

    /// The worker that stands by on a CPU leaves it.
    #[inline]
    pub(super) fn stand_down(&mut self, number: u32) {
        let cpu = &mut self.cpus[number as usize];
        let worker = std::mem::replace(&mut cpu.worker, NONE);
        if worker != NONE {
            self.workers[worker as usize].seat = Seat::Idle;
            self.jobs[cpu.job as usize].idle.push(worker);
        }
    }

    /// The worker that runs on a CPU is stopped in the middle of its task; its job wants back at once what it could use.
    #[inline]
    pub(super) fn stop(&mut self, number: u32) {
        let cpu = &self.cpus[number as usize];
        self.workers[cpu.worker as usize].seat = Seat::Stopped;
        let job = &mut self.jobs[cpu.job as usize];
        job.stopped.push(cpu.worker);
        job.asks_since_ns = job.asks_since_ns.min(self.now_ns);
    }

    /// Nobody has a CPU any more on which nothing runs.
    #[inline]
    pub(super) fn release(&mut self, number: u32, cause: Cause) {
        let cpu = &mut self.cpus[number as usize];
        let owner = cpu.job;
        (cpu.state, cpu.job, cpu.worker, cpu.cause) = (State::Free, NONE, NONE, cause);
        cpu.pool_place = self.free.len() as u32;
        self.free.push(number);
        remove(&mut self.jobs[owner as usize].cpus, number);
    }

    /// A job has a CPU that was free.
    #[inline]
    pub(super) fn hand(&mut self, number: u32, owner: u32) {
        self.cpus[number as usize].job = owner;
        self.jobs[owner as usize].cpus.push(number);
        leave_pool(&mut self.free, &mut self.cpus, number);
    }

    /// A worker without a CPU takes its place on one that its job has.
    #[inline]
    pub(super) fn sit(&mut self, number: u32, worker: u32) -> Seated {
        let cpu = &mut self.cpus[number as usize];
        let job = &mut self.jobs[cpu.job as usize];
        let moved = &mut self.workers[worker as usize];
        let was_stopped = moved.seat == Seat::Stopped;
        let waiting = if was_stopped { &mut job.stopped } else { &mut job.idle };
        if worker == job.first_worker + job.workers {
            // One that is new.
            job.workers += 1;
        } else {
            remove(waiting, worker);
        }
        let affine = moved.cpu == number;
        (moved.seat, moved.cpu) = (Seat::OnCpu, number);
        (cpu.worker, cpu.state) = (worker, State::Running);
        // The worker goes to the front, and those that were before its old place move back by one.
        let mut pushed = worker;
        for place in &mut cpu.history[..self.history] {
            std::mem::swap(place, &mut pushed);
            if pushed == worker {
                break;
            }
        }
        Seated { affine, was_stopped, cause: cpu.cause }
    }
}

/// How a worker came to the CPU on which it begins to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seated {
    /// It ran there last.
    pub affine: bool,
    /// It is in the middle of a task.
    pub was_stopped: bool,
    /// Why its job got the CPU.
    pub cause: Cause,
}

/// Takes a CPU out of the pool that it is in: the last one of the pool gets its place.
#[inline]
fn leave_pool(pool: &mut Vec<u32>, cpus: &mut [Cpu], number: u32) {
    let place = cpus[number as usize].pool_place;
    pool.swap_remove(place as usize);
    if let Some(&moved) = pool.get(place as usize) {
        cpus[moved as usize].pool_place = place;
    }
}

/// Takes a number out of a list that has it, mostly as one of the last, and leaves the order.
#[inline]
pub(super) fn remove(list: &mut Vec<u32>, number: u32) {
    let Some(mut moved) = list.pop() else { return };
    for place in list.iter_mut().rev() {
        if moved == number {
            return;
        }
        std::mem::swap(place, &mut moved);
    }
    debug_assert_eq!(moved, number);
}
