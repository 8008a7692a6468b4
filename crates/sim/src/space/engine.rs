//! One replicate: jobs' workers run tasks on the CPUs that their jobs have, until something takes or gives CPUs.
//!
//! A worker is a process to the kernel: it does one task of its job after another, and when its CPU is taken it keeps the task that it is
//! at. Each CPU has one event at a time, the end of its worker's task or of a yield delay. At one moment arrivals come first, by
//! number, then CPUs by theirs. Who gets which CPU is decided in `allocator.rs`.

use super::allocator::Allocator;
use super::book::{Book, NEVER, Seated, State};
use super::experiment::Experiment;
use super::outcome::{Cause, Change, Event, JobIndex, JobOutcome, Outcome};
use super::policy::{Policy, Rules};
use super::progress::Progress;
use crate::behaviour::{Lengths, ns};
use crate::index::{CpuIndex, ProcessIndex};
use crate::memory::TaskMemory;
use crate::random::{Draws, Purpose};
use crate::tournament::{Nest, Tournament};

impl Experiment<'_> {
    /// Runs one replicate, from 0, under a policy; `watch` sees every CPU that changes hands and every
    /// worker that moves.
    pub fn run<M: TaskMemory>(&self, policy: Policy, replicate: u32, memory: M, watch: impl FnMut(Event)) -> Outcome {
        Engine::new(self, policy, replicate, memory, watch).run()
    }
}

/// What a CPU is at, beside what the books say of it.
#[derive(Default)]
struct Run {
    /// Since when it is idle in its job's hands, or when its run began.
    since_ns: u64,
    /// The run: how much work it has, and how long the switch before it.
    work_ns: u64,
    switch_ns: u64,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A job arrives.
    Arrival(u32),
    /// The task that runs on a CPU is done.
    Done(u32),
    /// The job of a CPU has kept it for long enough.
    GivesUp(u32),
}

/// What a worker is at.
#[derive(Clone, Copy, Default)]
struct Turn {
    task: u32,
    /// Work left of its task.
    rest_ns: u64,
    /// Its last move: whether it was back to its CPU, why, and whether it went on with a task.
    affine: bool,
    cause: Cause,
    resumed: bool,
}

/// How far a job is.
pub(super) struct Job<'a> {
    pub progress: Progress<'a>,
    /// What has become of it so far.
    outcome: JobOutcome,
    /// Until when the CPU time that it had is summed.
    summed_ns: u64,
}

/// A replicate under way.
pub(crate) struct Engine<'a, M, W> {
    experiment: &'a Experiment<'a>,
    policy: Policy,
    replicate: u32,
    /// Who has which CPU.
    pub(super) book: Book,
    switch_ns: u64,
    horizon_ns: u64,
    /// By CPU.
    runs: Vec<Run>,
    /// By worker.
    turns: Vec<Turn>,
    pub(super) jobs: Vec<Job<'a>>,
    /// Jobs yet to arrive, the next one last.
    arrivals: Vec<(u64, u32)>,
    stops: Tournament<u64>,
    cpu_bits: u32,
    memory: M,
    watch: W,
    reallocations: u64,
    tasks: u64,
}

impl<'a, M: TaskMemory, W: FnMut(Event)> Engine<'a, M, W> {
    pub(super) fn new(experiment: &'a Experiment<'a>, policy: Policy, replicate: u32, memory: M, watch: W) -> Self {
        let parameters = experiment.parameters;
        let count = experiment.cpus;
        let cpu_bits = u32::BITS - (count - 1).leading_zeros();
        let horizon_ns = parameters.horizon_ms.map_or(NEVER, ns).min((NEVER >> cpu_bits) - 2);
        let at_speed = |ms: f64| ns(ms / parameters.speed);
        let job = |(number, kind): (u32, u32)| {
            let draws = Draws::new(parameters.seed, replicate, Purpose::Tasks, number);
            let rounds = experiment.mix.kinds[kind as usize].graph.rounds;
            Job {
                progress: Progress::new(&experiment.stages[kind as usize], rounds, draws),
                outcome: JobOutcome { kind, arrived_ns: horizon_ns, ..JobOutcome::default() },
                summed_ns: 0,
            }
        };
        let rules = Rules::new(policy, at_speed(parameters.yield_delay_ms));
        let jobs = experiment.mix.jobs();
        Self {
            experiment,
            policy,
            replicate,
            book: Book::new(rules, count, jobs, parameters.history, parameters.seed, replicate),
            switch_ns: at_speed(parameters.switch_us / 1e3),
            horizon_ns,
            runs: (0..count).map(|_| Run::default()).collect(),
            turns: vec![Turn::default(); (jobs * count) as usize],
            jobs: (0..).zip(experiment.kinds_of_jobs()).map(job).collect(),
            arrivals: arrivals(experiment, replicate),
            stops: Tournament::new(Nest::flat(count as usize), NEVER),
            cpu_bits,
            memory,
            watch,
            reallocations: 0,
            tasks: 0,
        }
    }

    pub(super) fn run(mut self) -> Outcome {
        while let Some((at_ns, next)) = self.next() {
            self.step(at_ns, next);
        }
        self.finish()
    }

    /// What happens next and when; nothing when all is done or the horizon is reached.
    #[inline]
    pub(super) fn next(&self) -> Option<(u64, Next)> {
        let stop = self.stops.least();
        // The key of a stop is its time above and the CPU below: at one moment CPUs come in their order.
        let stop_ns = if stop == NEVER { NEVER } else { stop >> self.cpu_bits };
        let arrival = self.arrivals.last().filter(|&&(at_ns, _)| at_ns <= stop_ns);
        let next = match arrival {
            Some(&(at_ns, job)) => (at_ns, Next::Arrival(job)),
            None if stop == NEVER => return None,
            None => {
                let cpu = (stop & ((1 << self.cpu_bits) - 1)) as u32;
                let runs = self.book.cpus[cpu as usize].state == State::Running;
                (stop_ns, if runs { Next::Done(cpu) } else { Next::GivesUp(cpu) })
            }
        };
        (next.0 <= self.horizon_ns).then_some(next)
    }

    #[inline]
    pub(super) fn step(&mut self, at_ns: u64, next: Next) {
        self.book.now_ns = at_ns;
        match next {
            Next::Arrival(job) => self.arrive(job),
            Next::Done(cpu) => {
                self.complete(cpu);
                // Only now: mostly it runs again, and its next stop takes the place of the one that was.
                if matches!(self.book.cpus[cpu as usize].state, State::Willing | State::Free) {
                    self.stops.set(cpu as usize, NEVER);
                }
            }
            Next::GivesUp(cpu) => self.give_up(cpu),
        }
    }

    fn finish(mut self) -> Outcome {
        let completed = self.book.active.is_empty() && self.arrivals.is_empty();
        if !completed {
            self.book.now_ns = self.horizon_ns;
            for cpu in 0..self.book.cpus.len() as u32 {
                match self.book.cpus[cpu as usize].state {
                    State::Running => self.cut(cpu),
                    State::Willing | State::Kept => self.end_idle(cpu),
                    State::Free => {}
                }
            }
        }
        for number in 0..self.jobs.len() as u32 {
            self.sum_held(number);
        }
        Outcome {
            policy: self.policy,
            replicate: self.replicate,
            makespan_ms: self.book.now_ns as f64 / 1e6,
            completed,
            jobs: self.jobs.into_iter().map(|job| job.outcome).collect(),
            reallocations: self.reallocations,
            tasks: self.tasks,
        }
    }

    fn arrive(&mut self, number: u32) {
        self.arrivals.pop();
        let now_ns = self.book.now_ns;
        let job = &mut self.jobs[number as usize];
        job.outcome.arrived_ns = now_ns;
        job.summed_ns = now_ns;
        self.admit(number);
    }

    /// A task is done.
    fn complete(&mut self, number: u32) {
        self.cut(number);
        self.tasks += 1;
        let held = &self.book.cpus[number as usize];
        let (owner, worker) = (held.job, held.worker);
        let job = &mut self.jobs[owner as usize];
        let newly = job.progress.done(self.turns[worker as usize].task);
        if job.progress.is_over() {
            job.outcome.ended_ns = Some(self.book.now_ns);
            self.fall_idle(number);
            return self.dismiss(owner);
        }
        if job.progress.ready() > 0 {
            // Of those that it made ready itself the worker has most in its caches.
            self.begin(number, worker, newly > 0, 0);
        } else if self.book.jobs[owner as usize].stopped.is_empty() {
            self.fall_idle(number);
        } else {
            self.make_way(number);
        }
        // One task that became ready is its own to do; others are for idle CPUs, or worth asking for more.
        if newly > 1 {
            self.use_idle(owner);
            self.ask(owner);
        }
        self.settle_asking(owner);
        if self.book.cpus[number as usize].state == State::Willing {
            self.offer(number);
        }
    }

    /// A yield delay is over.
    fn give_up(&mut self, number: u32) {
        self.book.be_willing(number);
        self.stops.set(number as usize, NEVER);
        self.offer(number);
    }

    /// The key of a stop: what would be after the latest horizon is just beyond it.
    #[inline]
    fn stop_at(&self, at_ns: u64, number: u32) -> u64 {
        (at_ns.min((NEVER >> self.cpu_bits) - 1) << self.cpu_bits) | u64::from(number)
    }

    /// The worker of a CPU begins a task that is ready.
    fn begin(&mut self, number: u32, worker: u32, newest: bool, switch_ns: u64) {
        let owner = self.book.cpus[number as usize].job;
        let begun = self.jobs[owner as usize].progress.begin(newest, self.experiment.parameters.speed);
        self.memory.turn(ProcessIndex(worker), begun.footprint, begun.kept);
        let turn = &mut self.turns[worker as usize];
        (turn.task, turn.rest_ns) = (begun.task, begun.work_ns);
        self.start(number, worker, switch_ns);
    }

    /// The worker of a CPU runs what is left of its task, after a switch.
    fn start(&mut self, number: u32, worker: u32, switch_ns: u64) {
        let now_ns = self.book.now_ns;
        let work_ns = self.turns[worker as usize].rest_ns;
        let from_ns = now_ns.saturating_add(switch_ns);
        let wall_ns = self.memory.start(ProcessIndex(worker), CpuIndex(number), from_ns, work_ns);
        self.runs[number as usize] = Run { since_ns: now_ns, work_ns, switch_ns };
        let stop = self.stop_at(from_ns.saturating_add(wall_ns), number);
        self.stops.set(number as usize, stop);
    }

    /// Ends the run on a CPU, at the end of its task or before, and accounts for it.
    fn cut(&mut self, number: u32) {
        let (run, held, now_ns) = (&self.runs[number as usize], &self.book.cpus[number as usize], self.book.now_ns);
        let elapsed_ns = now_ns - run.since_ns;
        // A run that is cut in the middle of its switch has done no work yet.
        let switch_ns = run.switch_ns.min(elapsed_ns);
        let wall_ns = elapsed_ns - switch_ns;
        let stopped = self.memory.stop(ProcessIndex(held.worker), CpuIndex(number), now_ns, run.work_ns, wall_ns);
        let job = &mut self.jobs[held.job as usize];
        let turn = &mut self.turns[held.worker as usize];
        turn.rest_ns = run.work_ns - stopped.ran.work_ns;
        let reload_ns = stopped.reload_ns.min(wall_ns);
        let JobOutcome { account, misses, .. } = &mut job.outcome;
        account.switch_ns += switch_ns;
        account.work_ns += wall_ns - reload_ns;
        let moves = if turn.affine { &mut account.affine } else { &mut account.other };
        moves[turn.cause as usize].reload_ns += reload_ns;
        if turn.resumed {
            account.resumed.reload_ns += reload_ns;
        }
        *misses += stopped.ran.misses;
    }

    fn sum_held(&mut self, number: u32) {
        let job = &mut self.jobs[number as usize];
        let now_ns = self.book.now_ns;
        job.outcome.held_ns += self.book.has(number) as u64 * (now_ns - job.summed_ns);
        job.summed_ns = now_ns;
    }
}

impl<M: TaskMemory, W: FnMut(Event)> Allocator for Engine<'_, M, W> {
    #[inline]
    fn book(&self) -> &Book {
        &self.book
    }

    #[inline]
    fn book_mut(&mut self) -> &mut Book {
        &mut self.book
    }

    #[inline]
    fn ready(&self, job: u32) -> u32 {
        self.jobs[job as usize].progress.ready()
    }

    fn on_taken(&mut self, cpu: u32, job: u32) {
        self.sum_held(job);
        (self.watch)(Event { at_ns: self.book.now_ns, cpu: CpuIndex(cpu), change: Change::Taken });
    }

    fn on_given(&mut self, cpu: u32, job: u32) {
        self.sum_held(job);
        self.reallocations += 1;
        (self.watch)(Event { at_ns: self.book.now_ns, cpu: CpuIndex(cpu), change: Change::Given(JobIndex(job)) });
    }

    fn on_stopped(&mut self, cpu: u32) {
        self.cut(cpu);
        self.stops.set(cpu as usize, NEVER);
    }

    fn on_seated(&mut self, cpu: u32, worker: u32, how: Seated) {
        let Seated { affine, was_stopped, cause } = how;
        let turn = &mut self.turns[worker as usize];
        (turn.affine, turn.cause, turn.resumed) = (affine, cause, was_stopped);
        let account = &mut self.jobs[self.book.job_of(worker) as usize].outcome.account;
        let moves = if affine { &mut account.affine } else { &mut account.other };
        moves[cause as usize].count += 1;
        account.resumed.count += u64::from(was_stopped);
        let change = Change::Seated(ProcessIndex(worker));
        (self.watch)(Event { at_ns: self.book.now_ns, cpu: CpuIndex(cpu), change });
        if was_stopped {
            self.start(cpu, worker, self.switch_ns);
        } else {
            self.begin(cpu, worker, false, self.switch_ns);
        }
    }

    fn on_resumed(&mut self, cpu: u32) {
        self.begin(cpu, self.book.cpus[cpu as usize].worker, false, 0);
    }

    fn on_idle(&mut self, cpu: u32) {
        let now_ns = self.book.now_ns;
        self.runs[cpu as usize].since_ns = now_ns;
        let Rules { equal_shares, yield_delay_ns, .. } = self.book.rules;
        if equal_shares {
            self.stops.set(cpu as usize, NEVER);
        } else if yield_delay_ns > 0 {
            let stop = self.stop_at(now_ns.saturating_add(yield_delay_ns), cpu);
            self.stops.set(cpu as usize, stop);
        }
    }

    fn on_idle_end(&mut self, cpu: u32) {
        let held = &self.book.cpus[cpu as usize];
        let account = &mut self.jobs[held.job as usize].outcome.account;
        account.idle_ns += self.book.now_ns - self.runs[cpu as usize].since_ns;
        if held.state == State::Kept {
            self.stops.set(cpu as usize, NEVER);
        }
    }
}

/// When each job arrives, the first one last: in the order that is drawn.
fn arrivals(experiment: &Experiment, replicate: u32) -> Vec<(u64, u32)> {
    let parameters = experiment.parameters;
    let mut draws = Draws::new(parameters.seed, replicate, Purpose::Arrivals, 0);
    let mut jobs: Vec<u32> = (0..experiment.mix.jobs()).collect();
    let mut at_ns = 0_u64;
    let Some(gap) = parameters.gap_ms.as_ref().map(Lengths::new) else {
        return jobs.into_iter().rev().map(|job| (0, job)).collect();
    };
    // The order is shuffled by Fisher and Yates, before any gap is drawn.
    for left in (1..jobs.len()).rev() {
        jobs.swap(left, draws.below(left as u64 + 1) as usize);
    }
    let next = |job| {
        let arrival = (at_ns, job);
        let gap_ns = gap.draw_ns(&mut draws) as f64 / parameters.speed;
        at_ns = at_ns.saturating_add(gap_ns.round() as u64);
        arrival
    };
    let mut arrivals: Vec<(u64, u32)> = jobs.into_iter().map(next).collect();
    arrivals.reverse();
    arrivals
}
