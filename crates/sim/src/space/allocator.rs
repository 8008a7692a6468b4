//! Who gets which CPU: the rules of section 5.1 of the cache-affinity report, for whoever has CPUs to share out.
//!
//! The simulator's engine follows them, and so does the allocator of jobs that run. Both keep a [`Book`] and are told what the
//! rules decide, by the methods that they have to provide.
//!
//! What the report leaves open, and how it is filled here:
//!
//! - A job's priority is the higher the fewer CPUs it has; of equals the one that has asked longest comes first.
//! - D.3 takes a CPU only from a job with over one more than the one that asks. Otherwise two would take one from each other for ever.
//! - "The last task to have run on it" can't be the one that gives the CPU up, which has nothing to do: it is the latest one
//!   before it, among the [`Parameters::history`](super::Parameters::history) that the CPU remembers.
//! - A job's most critical task is the worker that was stopped first, or else the one that fell idle last.
//! - Where a rule leaves several CPUs, chance decides: an order would be affinity by accident.

use super::book::{Book, NEVER, NONE, Seat, Seated, State};
use super::outcome::Cause;

/// Shares CPUs out among jobs. What is required are its books, what jobs have to do, and what happens when a CPU changes hands or a
/// worker its place; what is provided are the rules.
pub trait Allocator {
    /// The books.
    fn book(&self) -> &Book;

    /// The same. What is provided keeps them whole; who writes to them otherwise has to.
    fn book_mut(&mut self) -> &mut Book;

    /// How many tasks of a job could begin now, if there were workers on CPUs for them.
    fn ready(&self, job: u32) -> u32;

    /// `job` is about to lose `cpu`, on which nothing runs any more.
    fn on_taken(&mut self, cpu: u32, job: u32);

    /// `job` is about to have `cpu`, which was free.
    fn on_given(&mut self, cpu: u32, job: u32);

    /// The worker that runs on `cpu` is about to be stopped in the middle of its task.
    fn on_stopped(&mut self, cpu: u32);

    /// `worker` is on `cpu`, where it had not just run, and begins a task or goes on with its own.
    fn on_seated(&mut self, cpu: u32, worker: u32, how: Seated);

    /// The worker that stands by on `cpu` begins a task.
    fn on_resumed(&mut self, cpu: u32);

    /// The job of `cpu` has nothing for it.
    fn on_idle(&mut self, cpu: u32);

    /// `cpu`, which is idle in its job's hands, is about to be so no more.
    fn on_idle_end(&mut self, cpu: u32);

    /// For how many more workers a job has work.
    #[inline]
    fn useful(&self, job: u32) -> u32 {
        self.ready(job) + self.book().jobs[job as usize].stopped.len() as u32
    }

    /// A job arrives.
    fn admit(&mut self, number: u32) {
        self.book_mut().active.push(number);
        if self.book().rules.equal_shares { self.share_equally() } else { self.ask(number) }
    }

    /// A job is done: all that it has is free.
    fn dismiss(&mut self, number: u32) {
        self.book_mut().active.retain(|&active| active != number);
        let cpus = self.book().jobs[number as usize].cpus.clone();
        for &cpu in &cpus {
            self.take(cpu);
        }
        if self.book().rules.equal_shares {
            self.share_equally();
        } else {
            cpus.into_iter().for_each(|cpu| self.offer(cpu));
        }
    }

    /// A job asks for as many CPUs as it has work for: D.1 to D.3, and A.2.
    fn ask(&mut self, number: u32) {
        if self.book().rules.equal_shares {
            return;
        }
        while self.useful(number) > 0 {
            let Some((cpu, worker)) = self.served(number) else {
                let now_ns = self.book().now_ns;
                let job = &mut self.book_mut().jobs[number as usize];
                job.asks_since_ns = job.asks_since_ns.min(now_ns);
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
        let book = self.book_mut();
        if book.has(number) == book.cpus.len() {
            return None;
        }
        let critical = book.critical(number);
        let desired = if book.rules.affinity { book.workers[critical as usize].cpu } else { NONE };
        if desired != NONE && matches!(book.cpus[desired as usize].state, State::Free | State::Willing) {
            return Some((desired, critical));
        }
        let cpu = match book.any_available() {
            Some(cpu) => cpu,
            None => self.preempted_for(number, desired)?,
        };
        Some((cpu, if cpu == desired { critical } else { self.worker_for(cpu, number) }))
    }

    /// The CPU that D.3 takes for a job.
    fn preempted_for(&mut self, number: u32, desired: u32) -> Option<u32> {
        let book = self.book_mut();
        // Of several with most, the one that arrived first.
        let most = book.active.iter().copied().rev().max_by_key(|&job| book.has(job))?;
        if book.has(most) <= book.has(number) + 1 {
            return None;
        }
        Some(book.any_worst(most, desired))
    }

    /// A CPU is to be had: A.1, or the job of highest priority that asks.
    fn offer(&mut self, number: u32) {
        let book = self.book();
        let asks = |job: &&u32| book.jobs[**job as usize].asks_since_ns != NEVER;
        let priority = |job: &&u32| (book.has(**job), book.jobs[**job as usize].asks_since_ns);
        let Some(&first) = book.active.iter().filter(asks).min_by_key(priority) else { return };
        let is_due = |worker: &u32| !book.rules.priority || book.has(book.job_of(*worker)) <= book.has(first);
        let (job, worker) = match self.last_task(number).filter(is_due) {
            Some(worker) => (book.job_of(worker), worker),
            None => (first, self.worker_for(number, first)),
        };
        self.take(number);
        self.give(number, job);
        self.seat(number, worker);
        self.settle_asking(job);
    }

    /// The last worker to have run on a CPU that could run there now, under policies that heed it.
    fn last_task(&self, number: u32) -> Option<u32> {
        let book = self.book();
        let heeded = if book.rules.affinity { book.history } else { 0 };
        book.cpus[number as usize].history[..heeded].iter().copied().find(|&worker| self.could_run(worker))
    }

    /// Whether a worker is without a CPU and has something to do.
    fn could_run(&self, worker: u32) -> bool {
        worker != NONE
            && match self.book().workers[worker as usize].seat {
                Seat::OnCpu => false,
                Seat::Stopped => true,
                Seat::Idle => self.ready(self.book().job_of(worker)) > 0,
            }
    }

    /// Which of its workers a job runs on a CPU that it gets: with affinity the last that ran there, or else its most critical.
    fn worker_for(&mut self, cpu: u32, number: u32) -> u32 {
        let book = self.book();
        let heeded = if book.rules.affinity || book.rules.equal_shares { book.history } else { 0 };
        let own = |&worker: &u32| self.could_run(worker) && book.job_of(worker) == number;
        let last = book.cpus[cpu as usize].history[..heeded].iter().copied().find(own);
        last.unwrap_or_else(|| self.book_mut().critical(number))
    }

    /// Equal shares: of what doesn't divide, the jobs that arrived first have one more each.
    fn share_equally(&mut self) {
        let (jobs, cpus) = (self.book().active.len(), self.book().cpus.len());
        let share = |place: usize| cpus / jobs + usize::from(place < cpus % jobs);
        for place in 0..jobs {
            let number = self.book().active[place];
            while self.book().has(number) > share(place) {
                let job = &self.book().jobs[number as usize];
                let cpu = job.idle_cpus.last().or(job.cpus.last());
                if let Some(&cpu) = cpu {
                    self.take(cpu);
                }
            }
        }
        for place in 0..jobs {
            let number = self.book().active[place];
            while self.book().has(number) < share(place)
                && let Some(&cpu) = self.book().free.last()
            {
                // It has nothing for it yet.
                self.give(cpu, number);
                self.fall_idle(cpu);
            }
            self.use_idle(number);
        }
    }

    /// A job puts idle CPUs of its own to use.
    fn use_idle(&mut self, number: u32) {
        while let Some(&cpu) = self.book().jobs[number as usize].idle_cpus.last()
            && self.useful(number) > 0
        {
            self.end_idle(cpu);
            if self.book().cpus[cpu as usize].worker == NONE {
                self.seat_one(cpu);
            } else if self.ready(number) > 0 {
                // The one that stands by needs no switch.
                self.book_mut().cpus[cpu as usize].state = State::Running;
                self.on_resumed(cpu);
            } else {
                self.make_way(cpu);
            }
        }
    }

    /// Takes a CPU from whoever has it; it is free then.
    fn take(&mut self, number: u32) {
        let cpu = &mut self.book_mut().cpus[number as usize];
        let (state, owner) = (cpu.state, cpu.job);
        let cause = match state {
            State::Free => {
                cpu.cause = Cause::Voluntary;
                return;
            }
            State::Willing | State::Kept => {
                self.end_idle(number);
                self.book_mut().stand_down(number);
                Cause::Voluntary
            }
            State::Running => {
                self.on_stopped(number);
                self.book_mut().stop(number);
                Cause::Forced
            }
        };
        self.on_taken(number, owner);
        self.book_mut().release(number, cause);
    }

    /// Gives a free CPU to a job, which has to put it to use.
    fn give(&mut self, number: u32, owner: u32) {
        self.on_given(number, owner);
        self.book_mut().hand(number, owner);
    }

    /// A worker without a CPU begins to run on one that its job has.
    fn seat(&mut self, number: u32, worker: u32) {
        let how = self.book_mut().sit(number, worker);
        self.on_seated(number, worker, how);
    }

    /// The worker that its job needs most begins to run on a CPU that the job has.
    fn seat_one(&mut self, number: u32) {
        let worker = self.worker_for(number, self.book().cpus[number as usize].job);
        self.seat(number, worker);
    }

    /// The worker of a CPU makes way for one of its job that was stopped in the middle of a task.
    fn make_way(&mut self, number: u32) {
        let book = self.book_mut();
        book.stand_down(number);
        book.cpus[number as usize].cause = Cause::Within;
        self.seat_one(number);
    }

    /// The job of a CPU has nothing for it: it would give it, or keeps it.
    fn fall_idle(&mut self, number: u32) {
        let book = self.book_mut();
        let job = book.cpus[number as usize].job;
        book.jobs[job as usize].idle_cpus.push(number);
        if book.rules.keeps_idle() {
            book.cpus[number as usize].state = State::Kept;
        } else {
            book.be_willing(number);
        }
        self.on_idle(number);
    }

    /// An idle CPU of a job has something to do again, or another job.
    fn end_idle(&mut self, number: u32) {
        self.on_idle_end(number);
        self.book_mut().end_idle(number);
    }

    /// Whether a job still wants for CPUs.
    fn settle_asking(&mut self, number: u32) {
        if self.useful(number) == 0 {
            self.book_mut().jobs[number as usize].asks_since_ns = NEVER;
        }
    }
}
