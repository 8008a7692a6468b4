//! The processes of one job: what they hold, where they wait for one another, and what is counted of all of them.

use super::semaphores::Semaphores;
use crate::behaviour::{Behaviour, Op};
use crate::course::Course;
use crate::durations::Durations;
use crate::index::ProcessIndex;
use crate::memory::Misses;
use crate::outcome::{End, JobOutcome, ProcessOutcome};
use crate::workload;
use machine::Level;
use std::ops::Range;
use strum::{EnumCount, VariantArray};

/// Where a process is with a barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Barrier {
    #[default]
    Outside,
    /// It came when so many had been completed.
    Waiting(u32),
}

/// A job under way.
pub(crate) struct Job<'a> {
    name: &'a str,
    pub behaviour: &'a Behaviour,
    /// Its processes by number, those that have not arrived yet, and how many live.
    pub processes: Range<u32>,
    pub next: u32,
    pub living: u32,
    /// Who holds each lock.
    holders: Vec<Option<ProcessIndex>>,
    /// Processes at the barrier, barriers completed, and who sleeps at this one.
    at_barrier: u32,
    barriers: u32,
    sleepers: Vec<ProcessIndex>,
    pub tally: Tally,
}

/// What is counted of a job's processes.
#[derive(Default)]
pub(crate) struct Tally {
    pub work_ns: u128,
    pub misses: Misses,
    pub intervals: Durations,
    pub ends: [u64; End::COUNT],
    pub slices: Durations,
    pub migrations: [u64; Level::COUNT],
    pub responses: Durations,
}

/// What a process that has a CPU does with it.
pub(crate) enum Outlook {
    Work,
    /// It tries for a lock, or waits at a barrier.
    Wait,
    Block,
    Exit,
}

impl<'a> Job<'a> {
    /// Nobody has arrived; `first` is the number of its first process.
    pub fn new(job: &'a workload::Job, behaviour: &'a Behaviour, first: u32) -> Self {
        Self {
            name: &job.name,
            behaviour,
            processes: first..first + job.processes,
            next: first + job.at_once.unwrap_or(job.processes),
            living: 0,
            holders: vec![None; job.locks.len()],
            at_barrier: 0,
            barriers: 0,
            sleepers: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Goes with a process through the steps that take no time.
    #[inline]
    pub fn proceed(
        &mut self,
        course: &mut Course,
        index: ProcessIndex,
        barrier: &mut Barrier,
        semaphores: &mut Semaphores,
    ) -> Outlook {
        while let Some(op) = course.op(self.behaviour) {
            match op {
                Op::Work(_) | Op::Single(_) if !course.step_is_done() => return Outlook::Work,
                Op::Work(_) | Op::Single(_) => {}
                Op::Acquire(lock) => match self.holders[*lock] {
                    Some(_) => return Outlook::Wait,
                    None => self.holders[*lock] = Some(index),
                },
                Op::Release(lock) => self.holders[*lock] = None,
                Op::Barrier => match *barrier {
                    Barrier::Waiting(before) if before == self.barriers => return Outlook::Wait,
                    Barrier::Waiting(_) => *barrier = Barrier::Outside,
                    Barrier::Outside => {
                        if !self.come_to_barrier(barrier, semaphores) {
                            return Outlook::Wait;
                        }
                    }
                },
                Op::SleepingBarrier => match *barrier {
                    Barrier::Waiting(before) if before == self.barriers => return Outlook::Block,
                    Barrier::Waiting(_) => *barrier = Barrier::Outside,
                    Barrier::Outside => {
                        if !self.come_to_barrier(barrier, semaphores) {
                            return Outlook::Block;
                        }
                    }
                },
                Op::Block(_) => return Outlook::Block,
                Op::Post(semaphore) => semaphores.post(*semaphore, index),
                Op::Reply(semaphore) => semaphores.reply(*semaphore, index),
                Op::Wait(semaphore) if semaphores.pass(*semaphore, index) => {}
                Op::AwaitReply(semaphore) if semaphores.take_reply(*semaphore, index) => {}
                Op::Wait(_) | Op::AwaitReply(_) => return Outlook::Block,
                Op::Repeat { .. } => {}
            }
            course.next_op(self.behaviour);
        }
        Outlook::Exit
    }

    /// A process is done: what it held is free, and those at the barrier may have waited for it alone.
    pub fn lose(&mut self, index: ProcessIndex, semaphores: &mut Semaphores) {
        for holder in self.holders.iter_mut().filter(|holder| **holder == Some(index)) {
            *holder = None;
        }
        self.living -= 1;
        if self.at_barrier > 0 {
            self.complete_barrier(semaphores);
        }
    }

    /// A process comes to the barrier; whether it completes it.
    fn come_to_barrier(&mut self, barrier: &mut Barrier, semaphores: &mut Semaphores) -> bool {
        self.at_barrier += 1;
        let is_complete = self.complete_barrier(semaphores);
        if !is_complete {
            *barrier = Barrier::Waiting(self.barriers);
        }
        is_complete
    }

    /// A process goes to sleep at the barrier; whether that isn't complete yet.
    pub fn sleep_at_barrier(&mut self, index: ProcessIndex, barrier: &mut Barrier) -> bool {
        let is_complete = std::mem::take(barrier) != Barrier::Waiting(self.barriers);
        if !is_complete {
            self.sleepers.push(index);
        }
        !is_complete
    }

    /// Whether all that live are at the barrier, which then is completed: those that sleep there wake.
    fn complete_barrier(&mut self, semaphores: &mut Semaphores) -> bool {
        let is_complete = self.at_barrier == self.living;
        if is_complete {
            self.at_barrier = 0;
            self.barriers += 1;
            self.sleepers.drain(..).for_each(|sleeper| semaphores.wake(sleeper));
        }
        is_complete
    }

    /// What became of it and of its `own` processes.
    pub fn outcome(self, own: &[ProcessOutcome]) -> JobOutcome {
        let Self { name, behaviour, tally, .. } = self;
        // None when one has not ended.
        let last_end = own.iter().map(|process| process.ended_ns).reduce(|a, b| Some(a?.max(b?))).flatten();
        JobOutcome {
            name: name.to_owned(),
            completion_ms: last_end.map(|end_ns| (end_ns - behaviour.arrival_ns) as f64 / 1e6),
            misses: tally.misses,
            cpu_ms: own.iter().map(|process| u128::from(process.cpu_ns)).sum::<u128>() as f64 / 1e6,
            work_ms: tally.work_ns as f64 / 1e6,
            intervals: tally.intervals,
            ends: End::ALL.into_iter().zip(tally.ends).filter(|&(_, n)| n > 0).collect(),
            slices: tally.slices,
            migrations: Level::VARIANTS.iter().copied().zip(tally.migrations).filter(|&(_, n)| n > 0).collect(),
            responses: tally.responses,
        }
    }
}
