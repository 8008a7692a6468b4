//! Who has which CPU, of jobs that run: the simulator's rules, over what jobs say that they can use.
//!
//! The simulator knows which task each worker of a job is at. Of a job that runs only a number is known: how many CPUs it can use. So
//! a job that wants `w` CPUs has `w` workers with something to do: those on CPUs, those that lost a CPU while they had, and for the rest
//! there are tasks that are ready. When it wants fewer, those without a CPU have nothing left first, and then the CPU that it got last.
//! A worker is a place among the job's threads, not one of them: which thread runs there the kernel decides.

use sim::index::{CpuIndex, ProcessIndex};
use sim::space::allocator::Allocator;
use sim::space::book::{Book, Seat, Seated, State};
use sim::space::outcome::{Change, Event};
use sim::space::{JobIndex, Policy};

/// The CPUs of a machine, and who of several jobs has them.
#[derive(Clone, Debug)]
pub struct Allocation {
    book: Book,
    /// By job: CPUs that it can use.
    wants: Vec<u32>,
    /// What was decided since it was last asked.
    events: Vec<Event>,
}

impl Allocation {
    /// Nobody has anything yet. CPUs and jobs are known by number, from 0; at least one of each. `history` is how many workers a CPU
    /// remembers; `seed` that of what chance decides.
    pub fn new(policy: Policy, cpus: u32, jobs: u32, history: u32, seed: u64) -> Self {
        Self {
            book: Book::of_policy(policy, cpus, jobs, history, seed, 0),
            wants: vec![0; jobs as usize],
            events: Vec::new(),
        }
    }

    /// A job arrives, which can use `wanted` CPUs; that is at least 1, and at most as many as there are. It may have to wait for its first.
    pub fn arrive(&mut self, at_ns: u64, job: u32, wanted: u32) -> Vec<Event> {
        self.book.now_ns = at_ns;
        self.wants[job as usize] = self.bounded(wanted);
        self.admit(job);
        std::mem::take(&mut self.events)
    }

    /// A job that has arrived can use `wanted` CPUs from now on, as in [`arrive`](Self::arrive).
    pub fn want(&mut self, at_ns: u64, job: u32, wanted: u32) -> Vec<Event> {
        self.book.now_ns = at_ns;
        self.wants[job as usize] = self.bounded(wanted);
        let idle = self.lay_down(job);
        self.use_idle(job);
        self.ask(job);
        self.settle_asking(job);
        for cpu in idle {
            // A CPU that was offered before may have been given for this one, which is then its job's again.
            if self.book.cpus[cpu as usize].state == State::Willing {
                self.offer(cpu);
            }
        }
        std::mem::take(&mut self.events)
    }

    /// A job has ended.
    pub fn depart(&mut self, at_ns: u64, job: u32) -> Vec<Event> {
        self.book.now_ns = at_ns;
        self.wants[job as usize] = 0;
        // Its workers have nothing to do any more, and none of them is given a CPU that it leaves.
        self.lay_down(job);
        self.dismiss(job);
        std::mem::take(&mut self.events)
    }

    /// The CPUs that a job has, in rising order.
    pub fn cpus_of(&self, job: u32) -> Vec<u32> {
        let mut cpus = self.book.jobs[job as usize].cpus.clone();
        cpus.sort_unstable();
        cpus
    }

    /// How many CPUs a job is taken to be able to use.
    pub fn wanted(&self, job: u32) -> u32 {
        self.wants[job as usize]
    }

    fn bounded(&self, wanted: u32) -> u32 {
        wanted.clamp(1, self.book.cpus.len() as u32)
    }

    /// Workers of a job that run. A CPU between two states, as when it stands by no more and its worker isn't chosen yet, counts for none.
    fn running(&self, job: u32) -> u32 {
        let cpus = &self.book.jobs[job as usize].cpus;
        cpus.iter().filter(|&&cpu| self.book.cpus[cpu as usize].state == State::Running).count() as u32
    }

    /// Workers beyond what a job can use have nothing to do any more: the CPUs that fall idle by that.
    fn lay_down(&mut self, job: u32) -> Vec<u32> {
        let wanted = self.wants[job as usize];
        let mut idle = Vec::new();
        while self.running(job) + self.book.jobs[job as usize].stopped.len() as u32 > wanted {
            let holding = &mut self.book.jobs[job as usize];
            if let Some(worker) = holding.stopped.pop() {
                // Who was stopped last is needed least.
                holding.idle.push(worker);
                self.book.workers[worker as usize].seat = Seat::Idle;
                continue;
            }
            let runs = |cpu: &&u32| self.book.cpus[**cpu as usize].state == State::Running;
            let Some(&cpu) = self.book.jobs[job as usize].cpus.iter().rev().find(runs) else { break };
            self.fall_idle(cpu);
            idle.push(cpu);
        }
        idle
    }

    fn note(&mut self, cpu: u32, change: Change) {
        self.events.push(Event { at_ns: self.book.now_ns, cpu: CpuIndex(cpu), change });
    }
}

impl Allocator for Allocation {
    fn book(&self) -> &Book {
        &self.book
    }

    fn book_mut(&mut self) -> &mut Book {
        &mut self.book
    }

    fn ready(&self, job: u32) -> u32 {
        let at_work = self.running(job) + self.book.jobs[job as usize].stopped.len() as u32;
        self.wants[job as usize].saturating_sub(at_work)
    }

    fn on_taken(&mut self, cpu: u32, _: u32) {
        self.note(cpu, Change::Taken);
    }

    fn on_given(&mut self, cpu: u32, job: u32) {
        self.note(cpu, Change::Given(JobIndex(job)));
    }

    fn on_seated(&mut self, cpu: u32, worker: u32, _: Seated) {
        self.note(cpu, Change::Seated(ProcessIndex(worker)));
    }

    // The job's own threads do what there is to do: none of this moves a CPU.
    fn on_stopped(&mut self, _: u32) {}
    fn on_resumed(&mut self, _: u32) {}
    fn on_idle(&mut self, _: u32) {}
    fn on_idle_end(&mut self, _: u32) {}
}
