//! Who gets which CPU: the rules of section 5.1 of the cache-affinity report.
//!
//! What the report leaves open, and how it is filled here:
//!
//! - A job's priority is the higher the fewer CPUs it has; of equals the one that has asked longest comes first.
//! - D.3 takes a CPU only from a job with over one more than the one that asks. Otherwise two would take one from each other for ever.
//! - "The last task to have run on it" can't be the one that gives the CPU up, which has nothing to do: it is the latest one
//!   before it, among the [`Parameters::history`](super::Parameters::history) that the CPU remembers.
//! - A job's most critical task is the worker that was stopped first, or else the one that fell idle last.
//! - Where a rule leaves several CPUs, chance decides: an order would be affinity by accident.

use super::engine::{Engine, NEVER, NONE, Seat, State};
use super::outcome::Event;
use crate::memory::TaskMemory;

impl<M: TaskMemory, W: FnMut(Event)> Engine<'_, M, W> {
    /// A job asks for as many CPUs as it has work for: D.1 to D.3, and A.2.
    pub(super) fn ask(&mut self, number: u32) {
        if self.rules.equal_shares {
            return;
        }
        while self.jobs[number as usize].useful() > 0 {
            let Some((cpu, worker)) = self.served(number) else {
                let job = &mut self.jobs[number as usize];
                job.asks_since_ns = job.asks_since_ns.min(self.now_ns);
                return;
            };
            self.take(cpu);
            self.give(cpu, number);
            self.seat(cpu, worker);
        }
        self.settle_asking(number);
    }

    /// The CPU that a job gets which asks for one, and its worker that runs there.
    fn served(&mut self, number: u32) -> Option<(u32, u32)> {
        if self.jobs[number as usize].cpus.len() == self.cpus.len() {
            return None;
        }
        let critical = self.critical(number);
        let desired = if self.rules.affinity { self.workers[critical as usize].cpu } else { NONE };
        if desired != NONE && matches!(self.cpus[desired as usize].state, State::Free | State::Willing) {
            return Some((desired, critical));
        }
        let available = if self.free.is_empty() { &self.willing } else { &self.free };
        let cpu = if available.is_empty() {
            self.preempted_for(number, desired)?
        } else {
            available[self.chance.below(available.len() as u64) as usize]
        };
        Some((cpu, if cpu == desired { critical } else { self.worker_for(cpu, number) }))
    }

    /// The CPU that D.3 takes for a job.
    fn preempted_for(&mut self, number: u32, desired: u32) -> Option<u32> {
        let has = |job: u32| self.jobs[job as usize].cpus.len();
        // Of several with most, the one that arrived first.
        let most = self.active.iter().copied().rev().max_by_key(|&job| has(job))?;
        if has(most) <= has(number) + 1 {
            return None;
        }
        let victim = &self.jobs[most as usize];
        // Those that it can't use, though it may still keep them, are worth least.
        let worst = if victim.idle_cpus.is_empty() { &victim.cpus } else { &victim.idle_cpus };
        if worst.contains(&desired) {
            return Some(desired);
        }
        Some(worst[self.chance.below(worst.len() as u64) as usize])
    }

    /// A CPU is to be had: A.1, or the job of highest priority that asks.
    pub(super) fn offer(&mut self, number: u32) {
        let asks = |job: &&u32| self.jobs[**job as usize].asks_since_ns != NEVER;
        let priority = |job: &&u32| (self.jobs[**job as usize].cpus.len(), self.jobs[**job as usize].asks_since_ns);
        let Some(&first) = self.active.iter().filter(asks).min_by_key(priority) else { return };
        let last = self.last_task(number);
        let a1 = last.filter(|&worker| {
            let has = |job: u32| self.jobs[job as usize].cpus.len();
            !self.rules.priority || has(self.job_of(worker)) <= has(first)
        });
        let (job, worker) = match a1 {
            Some(worker) => (self.job_of(worker), worker),
            None => (first, self.worker_for(number, first)),
        };
        self.take(number);
        self.give(number, job);
        self.seat(number, worker);
        self.settle_asking(job);
    }

    /// The last worker to have run on a CPU that could run there now, under policies that heed it.
    fn last_task(&self, number: u32) -> Option<u32> {
        let heeded = if self.rules.affinity { self.history } else { 0 };
        self.cpus[number as usize].history[..heeded].iter().copied().find(|&worker| self.could_run(worker))
    }

    /// Whether a worker is without a CPU and has something to do.
    fn could_run(&self, worker: u32) -> bool {
        worker != NONE
            && match self.workers[worker as usize].seat {
                Seat::OnCpu => false,
                Seat::Stopped => true,
                Seat::Idle => self.jobs[self.job_of(worker) as usize].progress.ready() > 0,
            }
    }

    fn job_of(&self, worker: u32) -> u32 {
        self.workers[worker as usize].job
    }

    /// Which of its workers a job runs on a CPU that it gets: with affinity the last that ran there, or else its most critical.
    pub(super) fn worker_for(&mut self, cpu: u32, number: u32) -> u32 {
        let heeded = if self.rules.affinity || self.rules.equal_shares { self.history } else { 0 };
        let own = |&worker: &u32| self.could_run(worker) && self.job_of(worker) == number;
        let last = self.cpus[cpu as usize].history[..heeded].iter().copied().find(own);
        last.unwrap_or_else(|| self.critical(number))
    }

    /// The worker that a job most needs to run.
    fn critical(&mut self, number: u32) -> u32 {
        let job = &self.jobs[number as usize];
        match (job.stopped.first(), job.idle.as_slice()) {
            (Some(&stopped), _) => stopped,
            (None, []) => job.first_worker + job.workers,
            (None, [.., last]) if self.rules.affinity || self.rules.equal_shares => *last,
            (None, idle) => idle[self.chance.below(idle.len() as u64) as usize],
        }
    }

    /// Equal shares: of what doesn't divide, the jobs that arrived first have one more each.
    pub(super) fn share_equally(&mut self) {
        let (jobs, cpus) = (self.active.len(), self.cpus.len());
        let share = |place: usize| cpus / jobs + usize::from(place < cpus % jobs);
        for place in 0..jobs {
            let number = self.active[place] as usize;
            while self.jobs[number].cpus.len() > share(place) {
                let job = &self.jobs[number];
                let cpu = job.idle_cpus.last().or(job.cpus.last());
                if let Some(&cpu) = cpu {
                    self.take(cpu);
                }
            }
        }
        for place in 0..jobs {
            let number = self.active[place];
            while self.jobs[number as usize].cpus.len() < share(place)
                && let Some(&cpu) = self.free.last()
            {
                self.give_idle(cpu, number);
            }
            self.use_idle(number);
        }
    }
}
