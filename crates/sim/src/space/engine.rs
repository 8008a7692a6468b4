//! One replicate: jobs' workers run tasks on the CPUs that their jobs have, until something takes or gives CPUs.
//!
//! A worker is a process to the kernel: it does one task of its job after another, and when its CPU is taken it keeps the task that it is
//! at. Each CPU has one event at a time, the end of its worker's task or of a yield delay. At one moment arrivals come first, by
//! number, then CPUs by theirs. Who gets which CPU is decided in `allocator.rs`.

use super::experiment::Experiment;
use super::outcome::{Cause, Change, Event, JobIndex, JobOutcome, Outcome};
use super::policy::{MOST_HISTORY, Policy, Rules};
use super::progress::Progress;
use crate::behaviour::{Lengths, ns};
use crate::index::{CpuIndex, ProcessIndex};
use crate::memory::TaskMemory;
use crate::random::{Draws, Purpose};
use crate::tournament::{Nest, Tournament};

/// No time.
pub(super) const NEVER: u64 = u64::MAX;
/// No CPU, job or worker.
pub(super) const NONE: u32 = u32::MAX;

impl Experiment<'_> {
    /// Runs one replicate, from 0, under a policy; `watch` sees every CPU that changes hands and every
    /// worker that moves.
    pub fn run<M: TaskMemory>(&self, policy: Policy, replicate: u32, memory: M, watch: impl FnMut(Event)) -> Outcome {
        Engine::new(self, policy, replicate, memory, watch).run()
    }
}

/// What a CPU does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
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

#[derive(Default)]
pub(super) struct Cpu {
    pub state: State,
    /// Who has it.
    pub job: u32,
    /// The worker that runs, or that ran last and stands by.
    pub worker: u32,
    /// The last different workers to run here, the latest first.
    pub history: [u32; MOST_HISTORY],
    /// Why its job got it, until a worker runs.
    cause: Cause,
    /// Since when it is idle in its job's hands, or when its run began.
    since_ns: u64,
    /// The run: how much work it has, and how long the switch before it.
    work_ns: u64,
    switch_ns: u64,
    /// Its place in `free` or `willing`.
    pool_place: u32,
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

/// Where a worker is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Seat {
    /// On a CPU that its job has: it runs or stands by.
    OnCpu,
    /// Without a CPU and without a task.
    #[default]
    Idle,
    /// Without a CPU in the middle of a task.
    Stopped,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Worker {
    pub job: u32,
    pub seat: Seat,
    /// Where it ran last.
    pub cpu: u32,
    task: u32,
    /// Work left of its task.
    rest_ns: u64,
    /// Its last move: whether it was back to its CPU, why, and whether it went on with a task.
    affine: bool,
    cause: Cause,
    resumed: bool,
}

pub(super) struct Job<'a> {
    pub progress: Progress<'a>,
    /// What has become of it so far.
    outcome: JobOutcome,
    /// The CPUs that it has, the latest last; and those of them that it has nothing for.
    pub cpus: Vec<u32>,
    pub idle_cpus: Vec<u32>,
    /// Its workers without a CPU: those in the middle of a task, the first to stop first; and the others, the last to stop last.
    pub stopped: Vec<u32>,
    pub idle: Vec<u32>,
    /// Number of the first of its workers, and how many it has had use for.
    pub first_worker: u32,
    pub workers: u32,
    /// Since when it wants for more CPUs.
    pub asks_since_ns: u64,
    /// Until when the CPU time that it had is summed.
    summed_ns: u64,
}

impl Job<'_> {
    /// For how many more workers it has work.
    #[inline]
    pub fn useful(&self) -> u32 {
        self.progress.ready() + self.stopped.len() as u32
    }
}

/// A replicate under way.
pub(crate) struct Engine<'a, M, W> {
    experiment: &'a Experiment<'a>,
    policy: Policy,
    replicate: u32,
    pub(super) rules: Rules,
    switch_ns: u64,
    horizon_ns: u64,
    pub(super) history: usize,
    pub(super) cpus: Vec<Cpu>,
    pub(super) jobs: Vec<Job<'a>>,
    pub(super) workers: Vec<Worker>,
    /// Jobs that have arrived and are not done, in the order of arrival.
    pub(super) active: Vec<u32>,
    /// CPUs that nobody has, and those that their jobs would give.
    pub(super) free: Vec<u32>,
    pub(super) willing: Vec<u32>,
    /// Jobs yet to arrive, the next one last.
    arrivals: Vec<(u64, u32)>,
    stops: Tournament<u64>,
    cpu_bits: u32,
    pub(super) chance: Draws,
    memory: M,
    watch: W,
    pub(super) now_ns: u64,
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
        let cpu = |number| {
            let history = [NONE; MOST_HISTORY];
            Cpu { job: NONE, worker: NONE, history, pool_place: number, ..Cpu::default() }
        };
        let job = |(number, kind): (u32, u32)| {
            let draws = Draws::new(parameters.seed, replicate, Purpose::Tasks, number);
            let rounds = experiment.mix.kinds[kind as usize].graph.rounds;
            Job {
                progress: Progress::new(&experiment.stages[kind as usize], rounds, draws),
                outcome: JobOutcome { kind, arrived_ns: horizon_ns, ..JobOutcome::default() },
                cpus: Vec::new(),
                idle_cpus: Vec::new(),
                stopped: Vec::new(),
                idle: Vec::new(),
                first_worker: number * count,
                workers: 0,
                asks_since_ns: NEVER,
                summed_ns: 0,
            }
        };
        let worker = |job| Worker { job, cpu: NONE, ..Worker::default() };
        Self {
            experiment,
            policy,
            replicate,
            rules: Rules::new(policy, at_speed(parameters.yield_delay_ms)),
            switch_ns: at_speed(parameters.switch_us / 1e3),
            horizon_ns,
            history: parameters.history as usize,
            cpus: (0..count).map(cpu).collect(),
            jobs: (0..).zip(experiment.kinds_of_jobs()).map(job).collect(),
            workers: experiment.jobs_of_workers().into_iter().map(worker).collect(),
            active: Vec::new(),
            free: (0..count).collect(),
            willing: Vec::new(),
            arrivals: arrivals(experiment, replicate),
            stops: Tournament::new(Nest::flat(count as usize), NEVER),
            cpu_bits,
            chance: Draws::new(parameters.seed, replicate, Purpose::Chance, 0),
            memory,
            watch,
            now_ns: 0,
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
                let runs = self.cpus[cpu as usize].state == State::Running;
                (stop_ns, if runs { Next::Done(cpu) } else { Next::GivesUp(cpu) })
            }
        };
        (next.0 <= self.horizon_ns).then_some(next)
    }

    #[inline]
    pub(super) fn step(&mut self, at_ns: u64, next: Next) {
        self.now_ns = at_ns;
        match next {
            Next::Arrival(job) => self.arrive(job),
            Next::Done(cpu) => {
                self.complete(cpu);
                // Only now: mostly it runs again, and its next stop takes the place of the one that was.
                if matches!(self.cpus[cpu as usize].state, State::Willing | State::Free) {
                    self.stops.set(cpu as usize, NEVER);
                }
            }
            Next::GivesUp(cpu) => self.give_up(cpu),
        }
    }

    fn finish(mut self) -> Outcome {
        let completed = self.active.is_empty() && self.arrivals.is_empty();
        if !completed {
            self.now_ns = self.horizon_ns;
            for cpu in 0..self.cpus.len() as u32 {
                match self.cpus[cpu as usize].state {
                    State::Running => _ = self.cut(cpu),
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
            makespan_ms: self.now_ns as f64 / 1e6,
            completed,
            jobs: self.jobs.into_iter().map(|job| job.outcome).collect(),
            reallocations: self.reallocations,
            tasks: self.tasks,
        }
    }

    fn arrive(&mut self, number: u32) {
        self.arrivals.pop();
        let job = &mut self.jobs[number as usize];
        job.outcome.arrived_ns = self.now_ns;
        job.summed_ns = self.now_ns;
        self.active.push(number);
        if self.rules.equal_shares { self.share_equally() } else { self.ask(number) }
    }

    /// A task is done.
    fn complete(&mut self, number: u32) {
        let worker = self.cut(number);
        self.tasks += 1;
        let owner = self.cpus[number as usize].job;
        let task = self.workers[worker as usize].task;
        let job = &mut self.jobs[owner as usize];
        let newly = job.progress.done(task);
        if job.progress.is_over() {
            self.idle(number);
            return self.depart(owner);
        }
        if job.progress.ready() > 0 {
            // Of those that it made ready itself the worker has most in its caches.
            self.begin(number, worker, newly > 0, 0);
        } else if self.jobs[owner as usize].stopped.is_empty() {
            self.idle(number);
        } else {
            self.make_way(number);
        }
        // One task that became ready is its own to do; others are for idle CPUs, or worth asking for more.
        if newly > 1 {
            self.use_idle(owner);
            self.ask(owner);
        }
        self.settle_asking(owner);
        if self.cpus[number as usize].state == State::Willing {
            self.offer(number);
        }
    }

    /// A job is done: all that it has is free.
    fn depart(&mut self, number: u32) {
        let job = &mut self.jobs[number as usize];
        job.outcome.ended_ns = Some(self.now_ns);
        self.active.retain(|&active| active != number);
        let cpus = self.jobs[number as usize].cpus.clone();
        for &cpu in &cpus {
            self.take(cpu);
        }
        if self.rules.equal_shares {
            self.share_equally();
        } else {
            cpus.into_iter().for_each(|cpu| self.offer(cpu));
        }
    }

    /// A yield delay is over.
    fn give_up(&mut self, number: u32) {
        self.be_willing(number);
        self.stops.set(number as usize, NEVER);
        self.offer(number);
    }

    /// The job of a CPU has nothing for it.
    fn idle(&mut self, number: u32) {
        let Rules { equal_shares, yield_delay_ns, .. } = self.rules;
        let keeps = equal_shares || yield_delay_ns > 0;
        let stop = if equal_shares { NEVER } else { self.stop_at(self.now_ns.saturating_add(yield_delay_ns), number) };
        let cpu = &mut self.cpus[number as usize];
        let job = &mut self.jobs[cpu.job as usize];
        cpu.since_ns = self.now_ns;
        job.idle_cpus.push(number);
        if keeps {
            cpu.state = State::Kept;
            self.stops.set(number as usize, stop);
        } else {
            self.be_willing(number);
        }
    }

    /// Puts a CPU among those that their jobs would give.
    fn be_willing(&mut self, number: u32) {
        let cpu = &mut self.cpus[number as usize];
        (cpu.state, cpu.pool_place) = (State::Willing, self.willing.len() as u32);
        self.willing.push(number);
    }

    /// The key of a stop: what would be after the latest horizon is just beyond it.
    #[inline]
    fn stop_at(&self, at_ns: u64, number: u32) -> u64 {
        (at_ns.min((NEVER >> self.cpu_bits) - 1) << self.cpu_bits) | u64::from(number)
    }

    /// An idle CPU of a job has something to do again, or another job.
    fn end_idle(&mut self, number: u32) {
        let cpu = &self.cpus[number as usize];
        let job = &mut self.jobs[cpu.job as usize];
        job.outcome.account.idle_ns += self.now_ns - cpu.since_ns;
        remove(&mut job.idle_cpus, number);
        if cpu.state == State::Willing {
            leave_pool(&mut self.willing, &mut self.cpus, number);
        } else {
            self.stops.set(number as usize, NEVER);
        }
    }

    /// A job puts idle CPUs of its own to use.
    pub(super) fn use_idle(&mut self, number: u32) {
        while let Some(&cpu) = self.jobs[number as usize].idle_cpus.last()
            && self.jobs[number as usize].useful() > 0
        {
            self.end_idle(cpu);
            let worker = self.cpus[cpu as usize].worker;
            if worker == NONE {
                self.seat_one(cpu);
            } else if self.jobs[number as usize].progress.ready() > 0 {
                // The one that stands by needs no switch.
                self.begin(cpu, worker, false, 0);
            } else {
                self.make_way(cpu);
            }
        }
    }

    /// Takes a CPU from whoever has it; it is free then.
    pub(super) fn take(&mut self, number: u32) {
        let state = self.cpus[number as usize].state;
        let owner = self.cpus[number as usize].job;
        match state {
            State::Free => {
                self.cpus[number as usize].cause = Cause::Voluntary;
                return;
            }
            State::Willing | State::Kept => {
                self.end_idle(number);
                self.stand_down(number);
            }
            State::Running => {
                let worker = self.cut(number);
                self.workers[worker as usize].seat = Seat::Stopped;
                // It wants back at once what it could use.
                let job = &mut self.jobs[owner as usize];
                job.stopped.push(worker);
                job.asks_since_ns = job.asks_since_ns.min(self.now_ns);
                self.stops.set(number as usize, NEVER);
            }
        }
        self.sum_held(owner);
        let cpu = &mut self.cpus[number as usize];
        cpu.cause = if state == State::Running { Cause::Forced } else { Cause::Voluntary };
        (cpu.state, cpu.job, cpu.worker) = (State::Free, NONE, NONE);
        cpu.pool_place = self.free.len() as u32;
        self.free.push(number);
        remove(&mut self.jobs[owner as usize].cpus, number);
        (self.watch)(Event { at_ns: self.now_ns, cpu: CpuIndex(number), change: Change::Taken });
    }

    /// Gives a free CPU to a job, which has to put it to use.
    pub(super) fn give(&mut self, number: u32, owner: u32) {
        self.sum_held(owner);
        self.cpus[number as usize].job = owner;
        self.jobs[owner as usize].cpus.push(number);
        leave_pool(&mut self.free, &mut self.cpus, number);
        self.reallocations += 1;
        (self.watch)(Event { at_ns: self.now_ns, cpu: CpuIndex(number), change: Change::Given(JobIndex(owner)) });
    }

    /// Gives a free CPU to a job that has nothing for it yet.
    pub(super) fn give_idle(&mut self, number: u32, owner: u32) {
        self.give(number, owner);
        self.idle(number);
    }

    /// The worker that stands by on a CPU leaves it.
    fn stand_down(&mut self, number: u32) {
        let cpu = &mut self.cpus[number as usize];
        let worker = std::mem::replace(&mut cpu.worker, NONE);
        if worker != NONE {
            self.workers[worker as usize].seat = Seat::Idle;
            self.jobs[cpu.job as usize].idle.push(worker);
        }
    }

    /// The worker of a CPU makes way for one of its job that was stopped in the middle of a task.
    fn make_way(&mut self, number: u32) {
        self.stand_down(number);
        self.cpus[number as usize].cause = Cause::Within;
        self.seat_one(number);
    }

    /// The worker that its job needs most begins to run on a CPU that the job has.
    pub(super) fn seat_one(&mut self, number: u32) {
        let worker = self.worker_for(number, self.cpus[number as usize].job);
        self.seat(number, worker);
    }

    /// A worker without a CPU begins to run on one that its job has.
    pub(super) fn seat(&mut self, number: u32, worker: u32) {
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
        moved.seat = Seat::OnCpu;
        moved.affine = moved.cpu == number;
        moved.cause = cpu.cause;
        moved.cpu = number;
        let account = &mut job.outcome.account;
        let moves = if moved.affine { &mut account.affine } else { &mut account.other };
        moves[moved.cause as usize].count += 1;
        moved.resumed = was_stopped;
        account.resumed.count += u64::from(was_stopped);
        cpu.worker = worker;
        // The worker goes to the front, and those that were before its old place move back by one.
        let mut pushed = worker;
        for place in &mut cpu.history[..self.history] {
            std::mem::swap(place, &mut pushed);
            if pushed == worker {
                break;
            }
        }
        let change = Change::Seated(ProcessIndex(worker));
        (self.watch)(Event { at_ns: self.now_ns, cpu: CpuIndex(number), change });
        if was_stopped {
            self.start(number, worker, self.switch_ns);
        } else {
            self.begin(number, worker, false, self.switch_ns);
        }
    }

    /// The worker of a CPU begins a task that is ready.
    fn begin(&mut self, number: u32, worker: u32, newest: bool, switch_ns: u64) {
        let owner = self.cpus[number as usize].job;
        let begun = self.jobs[owner as usize].progress.begin(newest, self.experiment.parameters.speed);
        self.memory.turn(ProcessIndex(worker), begun.footprint, begun.kept);
        let worker_state = &mut self.workers[worker as usize];
        (worker_state.task, worker_state.rest_ns) = (begun.task, begun.work_ns);
        self.start(number, worker, switch_ns);
    }

    /// The worker of a CPU runs what is left of its task, after a switch.
    fn start(&mut self, number: u32, worker: u32, switch_ns: u64) {
        let work_ns = self.workers[worker as usize].rest_ns;
        let from_ns = self.now_ns.saturating_add(switch_ns);
        let wall_ns = self.memory.start(ProcessIndex(worker), CpuIndex(number), from_ns, work_ns);
        let cpu = &mut self.cpus[number as usize];
        cpu.state = State::Running;
        (cpu.since_ns, cpu.work_ns, cpu.switch_ns) = (self.now_ns, work_ns, switch_ns);
        let stop = self.stop_at(from_ns.saturating_add(wall_ns), number);
        self.stops.set(number as usize, stop);
    }

    /// Ends the run on a CPU, at the end of its task or before, and accounts for it; the worker that ran.
    fn cut(&mut self, number: u32) -> u32 {
        let cpu = &self.cpus[number as usize];
        let elapsed_ns = self.now_ns - cpu.since_ns;
        // A run that is cut in the middle of its switch has done no work yet.
        let switch_ns = cpu.switch_ns.min(elapsed_ns);
        let wall_ns = elapsed_ns - switch_ns;
        let worker = cpu.worker;
        let stopped = self.memory.stop(ProcessIndex(worker), CpuIndex(number), self.now_ns, cpu.work_ns, wall_ns);
        let job = &mut self.jobs[cpu.job as usize];
        let moved = &mut self.workers[worker as usize];
        moved.rest_ns = cpu.work_ns - stopped.ran.work_ns;
        let reload_ns = stopped.reload_ns.min(wall_ns);
        let JobOutcome { account, misses, .. } = &mut job.outcome;
        account.switch_ns += switch_ns;
        account.work_ns += wall_ns - reload_ns;
        let moves = if moved.affine { &mut account.affine } else { &mut account.other };
        moves[moved.cause as usize].reload_ns += reload_ns;
        if moved.resumed {
            account.resumed.reload_ns += reload_ns;
        }
        *misses += stopped.ran.misses;
        worker
    }

    fn sum_held(&mut self, number: u32) {
        let job = &mut self.jobs[number as usize];
        job.outcome.held_ns += job.cpus.len() as u64 * (self.now_ns - job.summed_ns);
        job.summed_ns = self.now_ns;
    }

    /// Whether a job still wants for CPUs.
    pub(super) fn settle_asking(&mut self, number: u32) {
        let job = &mut self.jobs[number as usize];
        if job.useful() == 0 {
            job.asks_since_ns = NEVER;
        }
    }
}

/// Takes a CPU out of the pool that it is in: the last one of the pool gets its place.
fn leave_pool(pool: &mut Vec<u32>, cpus: &mut [Cpu], number: u32) {
    let place = cpus[number as usize].pool_place;
    pool.swap_remove(place as usize);
    if let Some(&moved) = pool.get(place as usize) {
        cpus[moved as usize].pool_place = place;
    }
}

/// Takes a number out of a list that has it, mostly as one of the last, and leaves the order.
fn remove(list: &mut Vec<u32>, number: u32) {
    let Some(mut moved) = list.pop() else { return };
    for place in list.iter_mut().rev() {
        if moved == number {
            return;
        }
        std::mem::swap(place, &mut moved);
    }
    debug_assert_eq!(moved, number);
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
