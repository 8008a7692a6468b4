//! What a process does, one act after the other, as a seed draws it: the same whoever carries it out, the simulator or a real
//! process.

use crate::behaviour::{Behaviour, Op};
use crate::index::ProcessIndex;
use crate::outcome::End;
use crate::random::{Draws, Purpose};
use crate::workload::Workload;

const NEVER: u64 = u64::MAX;

/// Where a process is in what its job's processes do.
pub(crate) struct Course {
    /// Position of the job, and whether it is its first process.
    pub(crate) job: u32,
    is_first: bool,
    /// Its position in the job's operations, how often it has done the phase, and how often all phases.
    op: u16,
    lap: u32,
    round: u32,
    /// Why the burst ends.
    pub(crate) burst_end: End,
    /// Work until the step, the burst and the process are done.
    step_ns: u64,
    burst_ns: u64,
    rest_ns: u64,
    draws: Draws,
}

impl Course {
    /// Of a process that has not arrived.
    pub(crate) fn new(job: u32, is_first: bool, draws: Draws) -> Self {
        Self {
            job,
            is_first,
            op: 0,
            lap: 0,
            round: 0,
            burst_end: End::Other,
            step_ns: NEVER,
            burst_ns: NEVER,
            rest_ns: NEVER,
            draws,
        }
    }

    /// It arrives.
    pub(crate) fn begin(&mut self, behaviour: &Behaviour) {
        if let Some(work) = &behaviour.work {
            self.rest_ns = work.draw_ns(&mut self.draws);
        }
        self.begin_burst(behaviour);
        self.begin_op(behaviour);
    }

    /// Work until something else is to be done.
    #[inline]
    pub(crate) fn work_ns(&self) -> u64 {
        self.step_ns.min(self.burst_ns).min(self.rest_ns)
    }

    /// So much of it is done.
    #[inline]
    pub(crate) fn worked(&mut self, ns: u64) {
        self.step_ns -= ns;
        self.burst_ns -= ns;
        self.rest_ns -= ns;
    }

    /// Whether all its work is done.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.rest_ns == 0
    }

    /// Whether the work of its burst is done.
    #[inline]
    pub(crate) fn burst_is_done(&self) -> bool {
        self.burst_ns == 0
    }

    /// Whether the work of its step is done.
    #[inline]
    pub(crate) fn step_is_done(&self) -> bool {
        self.step_ns == 0
    }

    /// The operation that it is at.
    #[inline]
    pub(crate) fn op<'b>(&self, behaviour: &'b Behaviour) -> Option<&'b Op> {
        behaviour.ops.get(usize::from(self.op))
    }

    /// What becomes of its dispatch interval when its [`Self::work_ns`] are done; none where it goes on with the next step.
    pub(crate) fn end_of_work(&self) -> Option<End> {
        let work_ns = self.work_ns();
        match () {
            () if self.rest_ns == work_ns => Some(End::Exit),
            () if self.burst_ns == work_ns => Some(self.burst_end),
            () => None,
        }
    }

    /// For how long it blocks, having come to a semaphore.
    pub(crate) fn block_ns(&mut self, behaviour: &Behaviour) -> u64 {
        if let Some(Op::Block(length)) = self.op(behaviour) {
            let block_ns = length.draw_ns(&mut self.draws);
            self.next_op(behaviour);
            return block_ns;
        }
        self.begin_burst(behaviour);
        behaviour.block.draw_ns(&mut self.draws)
    }

    /// Goes on to the next operation, from the last to the first where work or rounds are left to do.
    pub(crate) fn next_op(&mut self, behaviour: &Behaviour) {
        self.op += 1;
        loop {
            match self.op(behaviour) {
                Some(Op::Repeat { to, times }) => {
                    self.lap += 1;
                    if self.lap < *times {
                        self.op = *to as u16;
                    } else {
                        self.lap = 0;
                        self.op += 1;
                    }
                }
                None if behaviour.work.is_some() => self.op = 0,
                None if self.round + 1 < behaviour.rounds => {
                    self.round += 1;
                    self.op = 0;
                }
                _ => break,
            }
        }
        self.begin_op(behaviour);
    }

    fn begin_op(&mut self, behaviour: &Behaviour) {
        self.step_ns = match self.op(behaviour) {
            Some(Op::Single(_)) if !self.is_first => 0,
            Some(Op::Work(length) | Op::Single(length)) => length.draw_ns(&mut self.draws),
            _ => NEVER,
        };
    }

    pub(crate) fn begin_burst(&mut self, behaviour: &Behaviour) {
        (self.burst_ns, self.burst_end) = match &behaviour.bursts {
            Some(bursts) => bursts.draw(&mut self.draws),
            None => (NEVER, End::Other),
        };
    }
}

/// One thing that a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It works for so many ns; `u64::MAX` is without end.
    Work(u64),
    /// Its dispatch interval ends, and it stays in the run queue.
    Yield(End),
    /// It blocks on a semaphore for so many ns, out of the run queue.
    Block(u64),
    /// It posts the semaphore at this position among [`Workload::semaphores`].
    Post(usize),
    /// It waits at that semaphore.
    Wait(usize),
    /// It posts that semaphore for the process whose post it last went on from.
    Reply(usize),
    /// It waits at that semaphore for what is posted for it alone.
    AwaitReply(usize),
    /// It takes the lock at this position among its job's.
    Acquire(usize),
    /// It gives that lock back.
    Release(usize),
    /// It waits until all living processes of its job are here.
    Barrier,
    /// The same, out of the run queue.
    SleepingBarrier,
}

/// What the processes of a workload do in one replicate.
pub struct Courses {
    behaviours: Vec<Behaviour>,
    job_of_processes: Vec<usize>,
    seed: u64,
    replicate: u32,
}

impl Courses {
    /// Of a workload that was checked, with the draws of a simulation's replicate (from 0) with this seed.
    pub fn new(workload: &Workload, seed: u64, replicate: u32) -> Self {
        let behaviours = Behaviour::of_jobs(workload);
        Self { behaviours, job_of_processes: workload.job_of_processes().collect(), seed, replicate }
    }

    /// When the processes of the job at this position arrive one after the other, in ns from the start. With `at_once`, that holds
    /// of the first so many.
    pub fn arrivals_ns(&self, job: usize) -> impl Iterator<Item = u64> {
        let gaps = Draws::new(self.seed, self.replicate, Purpose::Arrivals, job as u32);
        self.behaviours[job].arrivals_ns(gaps)
    }

    /// What a process does from its arrival to its end, if it has one.
    pub fn acts(&self, process: ProcessIndex) -> Acts<'_> {
        let job = self.job_of_processes[process.at()];
        let behaviour = &self.behaviours[job];
        let is_first = process.at().checked_sub(1).is_none_or(|before| self.job_of_processes[before] != job);
        let draws = Draws::new(self.seed, self.replicate, Purpose::Process, process.0);
        let mut course = Course::new(job as u32, is_first, draws);
        course.begin(behaviour);
        Acts { behaviour, course }
    }
}

/// What a process does, in order.
pub struct Acts<'a> {
    behaviour: &'a Behaviour,
    course: Course,
}

impl Iterator for Acts<'_> {
    type Item = Act;

    fn next(&mut self) -> Option<Act> {
        let Self { behaviour, course } = self;
        if course.is_done() {
            return None;
        }
        if course.burst_is_done() {
            let end = course.burst_end;
            if end == End::Semaphore {
                return Some(Act::Block(course.block_ns(behaviour)));
            }
            course.begin_burst(behaviour);
            return Some(Act::Yield(end));
        }
        loop {
            let act = match course.op(behaviour) {
                None if !behaviour.ops.is_empty() => return None,
                Some(Op::Work(_) | Op::Single(_)) if course.step_is_done() => None,
                None | Some(Op::Work(_) | Op::Single(_)) => {
                    let ns = course.work_ns();
                    course.worked(ns);
                    return Some(Act::Work(ns));
                }
                Some(Op::Block(_)) => return Some(Act::Block(course.block_ns(behaviour))),
                Some(Op::Post(semaphore)) => Some(Act::Post(*semaphore)),
                Some(Op::Wait(semaphore)) => Some(Act::Wait(*semaphore)),
                Some(Op::Reply(semaphore)) => Some(Act::Reply(*semaphore)),
                Some(Op::AwaitReply(semaphore)) => Some(Act::AwaitReply(*semaphore)),
                Some(Op::Acquire(lock)) => Some(Act::Acquire(*lock)),
                Some(Op::Release(lock)) => Some(Act::Release(*lock)),
                Some(Op::Barrier) => Some(Act::Barrier),
                Some(Op::SleepingBarrier) => Some(Act::SleepingBarrier),
                Some(Op::Repeat { .. }) => None,
            };
            course.next_op(behaviour);
            if act.is_some() {
                return act;
            }
        }
    }
}
