//! The processes of all jobs under way, whoever schedules them: when they arrive, what each has had, and what is told in the end.

use super::job::{Barrier, Job};
use super::semaphores::Semaphores;
use crate::behaviour::Op;
use crate::course::Course;
use crate::cpus::Cpus;
use crate::experiment::Experiment;
use crate::index::{CpuIndex, ProcessIndex};
use crate::outcome::{End, Interval, Outcome, ProcessOutcome};
use crate::parameters::Policy;
use crate::random::{Draws, Purpose};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a dispatch needs of a process: one cache line.
#[repr(align(64))]
pub(crate) struct Process {
    pub(crate) course: Course,
    /// Since when it is runnable.
    pub(crate) runnable_ns: u64,
    pub(crate) cpu_ns: u64,
}

const _: () = assert!(size_of::<Process>() == 64);

/// What is seldom needed of a process.
#[derive(Clone, Copy, Default)]
pub(crate) struct History {
    pub(crate) arrived_ns: Option<u64>,
    pub(crate) ended_ns: Option<u64>,
    pub(crate) woke_ns: u64,
    pub(crate) barrier: Barrier,
}

/// Who has a CPU, and who had it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seat {
    pub(crate) running: Option<ProcessIndex>,
    /// Who has run here last, and how long without another in between.
    pub(crate) last: Option<ProcessIndex>,
    slice_ns: u64,
    /// When the dispatch interval began.
    pub(crate) interval_ns: u64,
    pub(crate) idle_since_ns: u64,
}

/// What is counted of all CPUs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) dispatches: u64,
    switches: u64,
    longest_wait_ns: u64,
    pub(crate) idle_ns: u128,
}

/// All processes.
pub(crate) struct Population<'a> {
    pub(crate) jobs: Vec<Job<'a>>,
    pub(crate) processes: Vec<Process>,
    pub(crate) histories: Vec<History>,
    /// Jobs whose processes are equal, and whether their index was taken.
    equals: Vec<(Vec<ProcessIndex>, Option<f64>)>,
    group_of_job: Vec<Option<usize>>,
    /// When processes wake or arrive.
    pub(crate) wakes: BinaryHeap<Reverse<(u64, ProcessIndex)>>,
    pub(crate) semaphores: Semaphores,
    pub(crate) runnable: u64,
    /// Processes that have not ended.
    pub(crate) left: u64,
    pub(crate) counts: Counts,
}

impl<'a> Population<'a> {
    /// Nobody has arrived.
    pub(crate) fn new(experiment: &'a Experiment<'_>, replicate: u32) -> Self {
        let seed = experiment.parameters.seed;
        let mut processes = Vec::new();
        let mut jobs = Vec::new();
        let mut wakes = Vec::new();
        for (number, (job, behaviour)) in experiment.workload.jobs.iter().zip(&experiment.behaviours).enumerate() {
            let first = processes.len() as u32;
            let job = Job::new(job, behaviour, first);
            for process in job.processes.clone() {
                let draws = Draws::new(seed, replicate, Purpose::Process, process);
                let course = Course::new(number as u32, process == first, draws);
                processes.push(Process { course, runnable_ns: 0, cpu_ns: 0 });
            }
            let gaps = Draws::new(seed, replicate, Purpose::Arrivals, number as u32);
            let arrivals = behaviour.arrivals_ns(gaps).zip(first..job.next);
            wakes.extend(arrivals.map(|(arrival_ns, process)| Reverse((arrival_ns, ProcessIndex(process)))));
            jobs.push(job);
        }
        let (equals, group_of_job) = experiment.workload.equal_processes();
        let mut ops = experiment.behaviours.iter().flat_map(|behaviour| &behaviour.ops);
        let has_sleepers = ops.any(|op| matches!(op, Op::SleepingBarrier));
        Self {
            jobs,
            histories: vec![History::default(); processes.len()],
            left: processes.len() as u64,
            semaphores: Semaphores::new(experiment.workload, has_sleepers),
            processes,
            equals: equals.into_iter().map(|group| (group, None)).collect(),
            group_of_job,
            wakes: wakes.into(),
            runnable: 0,
            counts: Counts::default(),
        }
    }

    /// A process arrives or wakes; whether it arrives.
    pub(crate) fn join(&mut self, index: ProcessIndex, now_ns: u64) -> bool {
        let process = &mut self.processes[index.at()];
        process.runnable_ns = now_ns;
        let history = &mut self.histories[index.at()];
        history.woke_ns = now_ns;
        self.runnable += 1;
        if history.arrived_ns.is_some() {
            return false;
        }
        history.arrived_ns = Some(now_ns);
        let job = &mut self.jobs[process.course.job as usize];
        job.living += 1;
        // Drawn from the process's own stream, so that it does the same under every policy.
        process.course.begin(job.behaviour);
        true
    }

    /// A CPU takes a process that last ran on `last_cpu`; whether another had run here in between.
    #[inline(always)]
    pub(crate) fn seat(
        &mut self,
        seat: &mut Seat,
        next: ProcessIndex,
        (last_cpu, cpu): (Option<CpuIndex>, CpuIndex),
        cpus: &Cpus<'_>,
        now_ns: u64,
    ) -> bool {
        let process = &self.processes[next.at()];
        self.counts.dispatches += 1;
        self.counts.longest_wait_ns = self.counts.longest_wait_ns.max(now_ns - process.runnable_ns);
        if let Some(last) = last_cpu.filter(|&last| last != cpu) {
            let level = cpus.sharing(last, cpu);
            self.jobs[process.course.job as usize].tally.migrations[level as usize] += 1;
        }
        // A time slice goes on over intervals, also with idle time in between, until another process runs here.
        let is_switch = seat.last != Some(next);
        if is_switch {
            self.counts.switches += 1;
            if let Some(last) = seat.last {
                let job = self.processes[last.at()].course.job;
                self.jobs[job as usize].tally.slices.record(seat.slice_ns);
            }
            seat.last = Some(next);
            seat.slice_ns = 0;
        }
        seat.running = Some(next);
        seat.interval_ns = now_ns;
        is_switch
    }

    /// A process gives up its CPU, which is told to `watch`.
    #[inline(always)]
    pub(crate) fn unseat(
        &mut self,
        seat: &mut Seat,
        (running, cpu): (ProcessIndex, CpuIndex),
        now_ns: u64,
        end: End,
        watch: &mut impl FnMut(Interval),
    ) {
        let ran_ns = now_ns - seat.interval_ns;
        seat.slice_ns += ran_ns;
        seat.running = None;
        let process = &mut self.processes[running.at()];
        let (runnable_ns, from_ns) = (process.runnable_ns, seat.interval_ns);
        watch(Interval { process: running, cpu, runnable_ns, from_ns, until_ns: now_ns, end });
        process.cpu_ns += ran_ns;
        let job = &mut self.jobs[process.course.job as usize];
        job.tally.ends[end as usize] += 1;
        if end != End::Horizon {
            job.tally.intervals.record(ran_ns);
        }
    }

    /// It has come to a semaphore, and blocks until it is among those that wake.
    pub(crate) fn block(&mut self, index: ProcessIndex, now_ns: u64) {
        let process = &mut self.processes[index.at()];
        let job = &mut self.jobs[process.course.job as usize];
        if job.behaviour.interactive {
            job.tally.responses.record(now_ns - self.histories[index.at()].woke_ns);
        }
        self.runnable -= 1;
        if let Some(Op::Wait(semaphore)) = process.course.op(job.behaviour) {
            let semaphore = *semaphore;
            process.course.next_op(job.behaviour);
            // At this very moment another may have posted it.
            if !self.semaphores.pass(semaphore, index) {
                return self.semaphores.wait(semaphore, index);
            }
            return self.wakes.push(Reverse((now_ns, index)));
        }
        if let Some(Op::AwaitReply(semaphore)) = process.course.op(job.behaviour) {
            let semaphore = *semaphore;
            process.course.next_op(job.behaviour);
            if !self.semaphores.take_reply(semaphore, index) {
                return self.semaphores.wait(semaphore, index);
            }
            return self.wakes.push(Reverse((now_ns, index)));
        }
        if matches!(process.course.op(job.behaviour), Some(Op::SleepingBarrier)) {
            process.course.next_op(job.behaviour);
            // At this very moment the last one may have come.
            if !job.sleep_at_barrier(index, &mut self.histories[index.at()].barrier) {
                self.wakes.push(Reverse((now_ns, index)));
            }
            return;
        }
        let block_ns = process.course.block_ns(job.behaviour);
        self.wakes.push(Reverse((now_ns.saturating_add(block_ns), index)));
    }

    /// It remains runnable. What the quantum cut goes on with the next dispatch.
    #[inline(always)]
    pub(crate) fn stay(&mut self, index: ProcessIndex, now_ns: u64) {
        let process = &mut self.processes[index.at()];
        if process.course.burst_is_done() {
            process.course.begin_burst(self.jobs[process.course.job as usize].behaviour);
        }
        process.runnable_ns = now_ns;
    }

    /// A process is done: what it held is free, those at the barrier may have waited for it alone, and the next one arrives.
    pub(crate) fn exit<'s>(&mut self, index: ProcessIndex, now_ns: u64, seats: impl Iterator<Item = &'s Seat>) {
        self.left -= 1;
        self.runnable -= 1;
        self.histories[index.at()].ended_ns = Some(now_ns);
        let number = self.processes[index.at()].course.job as usize;
        let job = &mut self.jobs[number];
        job.lose(index, &mut self.semaphores);
        while let Some(woken) = self.semaphores.take_woken() {
            self.wakes.push(Reverse((now_ns, woken)));
        }
        if job.next < job.processes.end {
            let next = ProcessIndex(job.next);
            job.next += 1;
            self.wakes.push(Reverse((now_ns, next)));
        }
        if let Some(group) = self.group_of_job[number] {
            self.take_jain_index(group, now_ns, seats);
        }
    }

    /// Jain's index (Jain, Chiu and Hawe, DEC-TR-301, 1984) of a group's CPU times so far, unless it was taken before.
    fn take_jain_index<'s>(&mut self, group: usize, now_ns: u64, seats: impl Iterator<Item = &'s Seat>) {
        let (members, index) = &mut self.equals[group];
        if index.is_some() {
            return;
        }
        let mut cpu_ns: Vec<f64> = members.iter().map(|process| self.processes[process.at()].cpu_ns as f64).collect();
        // Those that run have had the time since their dispatch as well.
        for seat in seats {
            if let Some(position) = seat.running.and_then(|running| members.binary_search(&running).ok()) {
                cpu_ns[position] += (now_ns - seat.interval_ns) as f64;
            }
        }
        let (sum, squares) = cpu_ns.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        if squares > 0.0 {
            *index = Some(sum * sum / (members.len() as f64 * squares));
        }
    }

    /// What the replicate showed, with idle time counted up to now.
    pub(crate) fn outcome(mut self, policy: Policy, replicate: u32, now_ns: u64, seats: &[Seat]) -> Outcome {
        (0..self.equals.len()).for_each(|group| self.take_jain_index(group, now_ns, seats.iter()));
        for seat in seats {
            if let Some(last) = seat.last {
                let job = self.processes[last.at()].course.job;
                self.jobs[job as usize].tally.slices.record(seat.slice_ns);
            }
        }
        let processes: Vec<ProcessOutcome> = (self.processes.iter().zip(&self.histories))
            .map(|(process, history)| ProcessOutcome {
                arrived_ns: history.arrived_ns,
                ended_ns: history.ended_ns,
                cpu_ns: process.cpu_ns,
            })
            .collect();
        let ms = |ns: u64| ns as f64 / 1e6;
        let jobs = self.jobs.into_iter().map(|job| {
            let own = job.processes.start as usize..job.processes.end as usize;
            job.outcome(&processes[own])
        });
        let jobs = jobs.collect();
        let capacity_ns = u128::from(now_ns) * seats.len() as u128;
        let Counts { dispatches, switches, longest_wait_ns, idle_ns } = self.counts;
        Outcome {
            policy,
            replicate,
            makespan_ms: ms(now_ns),
            completed: self.left == 0,
            jobs,
            processes,
            dispatches,
            switches,
            idle_fraction: if capacity_ns > 0 { idle_ns as f64 / capacity_ns as f64 } else { 0.0 },
            jain_index: self.equals.iter().filter_map(|&(_, index)| index).reduce(f64::min),
            longest_wait_ms: ms(longest_wait_ns),
        }
    }
}
