//! One process of a play: it does what the simulator's process of its number does.

use crate::memory::Memory;
use crate::presence::Presence;
use crate::stage::{Barrier, JobStage, Stage, Step, Told};
use crate::{Binding, Play};
use machine::CpuId;
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity, sched_yield};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use nix::unistd::Pid;
use sim::{Act, Courses, End, ProcessIndex};
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

/// The last nice value (nice(2)).
pub(crate) const HIGHEST_NICE: u32 = 19;

/// Work between two looks at CPU time. After each such chunk comes a PAUSE: an emulator with one thread for all virtual CPUs
/// goes from one to the next at an idle CPU or a PAUSE, and otherwise only every 100 ms, which no guest would take for
/// CPUs that run side by side.
const CHUNK_NS: u64 = 100_000;

/// What there is to know of a process before it begins.
pub(crate) struct Role<'a> {
    pub(crate) play: &'a Play<'a>,
    pub(crate) stage: &'a Stage,
    pub(crate) courses: &'a Courses,
    pub(crate) cpus: &'a [CpuId],
    pub(crate) process: usize,
    pub(crate) job: usize,
    /// Its number among its job's.
    pub(crate) in_job: u32,
    /// When it arrives, if not at another's end.
    pub(crate) arrival_ns: u64,
}

/// The play is over for this process.
struct Horizon;

type Going = ControlFlow<Horizon>;

/// The process that plays.
struct Actor<'a> {
    role: &'a Role<'a>,
    presence: Presence<'a>,
    memory: Memory,
    /// When the horizon is, on the clock.
    horizon_ns: u64,
    /// CPU time beyond the work so far: the next work is so much shorter.
    credit_ns: u64,
    /// CPU time for which its memory is yet to be referred to.
    due_ns: u64,
    work_ns: u64,
}

impl Role<'_> {
    fn job_stage(&self) -> &JobStage {
        &self.stage.jobs[self.job]
    }

    fn told(&self) -> &Told {
        &self.stage.told[self.process]
    }

    /// Gets ready, waits for the beginning, plays. The caller was forked for this and ends afterwards.
    pub(crate) fn perform(&self) {
        let memory = match self.get_ready() {
            Ok(memory) => memory,
            Err((step, errno)) => {
                self.told().fail(step, errno);
                return;
            }
        };
        self.stage.ready[0].fetch_add(1, AcqRel);
        self.stage.begun[0].wait();
        let start_ns = self.stage.start_ns();
        let horizon_ns = start_ns.saturating_add(self.stage.horizon_ns);
        let Some(arrival_ns) = self.wait_for_arrival(start_ns, horizon_ns) else {
            self.admit_next(self.stage.horizon_ns);
            return;
        };
        let bound = (self.play.binding == Binding::Attached).then(|| self.bind_to_emptiest());
        if let Some(Err(errno)) = bound {
            self.told().fail(Step::Bind, errno);
            return;
        }
        self.told().arrived.set(arrival_ns - start_ns);
        self.job_stage().arrive();
        let mut actor = Actor {
            role: self,
            presence: Presence::new(self.stage.log(self.process), start_ns, arrival_ns),
            memory,
            horizon_ns,
            credit_ns: 0,
            due_ns: 0,
            work_ns: 0,
        };
        let going = actor.play();
        actor.end(going.is_continue());
        if let Some(Ok(cpu)) = bound {
            self.stage.bound[cpu].fetch_sub(1, AcqRel);
        }
    }

    fn at_once(&self) -> Option<u32> {
        self.play.workload.jobs[self.job].at_once
    }

    /// Lets the next process of the job arrive, where one does when another ends.
    fn admit_next(&self, now_ns: u64) {
        let Some(at_once) = self.at_once() else { return };
        let next = at_once + self.job_stage().ended.fetch_add(1, AcqRel);
        if next < self.play.workload.jobs[self.job].processes {
            let told = &self.stage.told[self.process - self.in_job as usize + next as usize];
            told.arrived.set(now_ns);
            told.admitted.open();
        }
    }

    fn get_ready(&self) -> Result<Memory, (Step, Errno)> {
        // Sleeps end when they are due, not when it suits the kernel (50 us later by default).
        // SAFETY: it sets a number of the calling thread.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        let job = &self.play.workload.jobs[self.job].process;
        if let Some(slice) = self.play.slice {
            ask_for_slice(slice)?;
        }
        if job.base > 0 {
            // SAFETY: it sets a number of the calling process.
            Errno::result(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, job.base as i32) })
                .map_err(|errno| (Step::Nice, errno))?;
        }
        Memory::map(self.process, self.job, &job.memory).map_err(|errno| (Step::Memory, errno))
    }

    /// When it arrived, on the clock; none when that is beyond the horizon.
    fn wait_for_arrival(&self, start_ns: u64, horizon_ns: u64) -> Option<u64> {
        if self.at_once().is_some_and(|at_once| self.in_job >= at_once) {
            self.told().admitted.wait();
        }
        // Who ended for this one to arrive has noted when.
        let since_start_ns = self.told().arrived.get().unwrap_or(self.arrival_ns);
        let arrival_ns = start_ns.saturating_add(since_start_ns);
        sleep_until(arrival_ns.min(horizon_ns));
        (arrival_ns < horizon_ns).then_some(arrival_ns)
    }

    /// Binds it to the CPU with the fewest; its position.
    fn bind_to_emptiest(&self) -> Result<usize, Errno> {
        let bound = &self.stage.bound;
        let position = loop {
            let counts = bound.iter().map(|count| count.load(Acquire)).enumerate();
            let (position, fewest) = counts.min_by_key(|&(_, count)| count).unwrap_or_default();
            if bound[position].compare_exchange(fewest, fewest + 1, AcqRel, Relaxed).is_ok() {
                break position;
            }
        };
        let mut set = CpuSet::new();
        set.set(self.cpus[position].0 as usize)?;
        sched_setaffinity(Pid::from_raw(0), &set)?;
        Ok(position)
    }
}

impl Actor<'_> {
    fn play(&mut self) -> Going {
        for act in self.role.courses.of(ProcessIndex(self.role.process as u32)) {
            match act {
                Act::Work(ns) => self.work(ns)?,
                Act::Yield(end) => self.give_up(end)?,
                Act::Block(ns) => self.block(ns)?,
                Act::Acquire(lock) => {
                    while !self.role.stage.locks_of(self.role.job)[lock].try_acquire(self.role.process) {
                        self.attempt()?;
                    }
                }
                Act::Release(lock) => self.role.stage.locks_of(self.role.job)[lock].release(self.role.process),
                Act::Barrier => {
                    if let Barrier::Waiting(before) = self.role.job_stage().come_to_barrier() {
                        while !self.role.job_stage().is_complete(before) {
                            self.attempt()?;
                        }
                    }
                }
            }
        }
        Continue(())
    }

    /// Works until it has had so much CPU time.
    fn work(&mut self, ns: u64) -> Going {
        let mut left_ns = ns.saturating_sub(self.credit_ns);
        let had_before_ns = ns - left_ns;
        self.credit_ns -= had_before_ns;
        self.work_ns += had_before_ns;
        while left_ns > 0 {
            let had_ns = self.chunk(left_ns.min(CHUNK_NS), true);
            self.work_ns += had_ns.min(left_ns);
            self.credit_ns += had_ns.saturating_sub(left_ns);
            left_ns = left_ns.saturating_sub(had_ns);
            self.has_time()?;
        }
        Continue(())
    }

    /// Runs for about so much wall time; the CPU time that it had.
    fn chunk(&mut self, ns: u64, refers: bool) -> u64 {
        let begin_ns = self.presence.look();
        if refers {
            // What a CPU that is too slow for its references doesn't get done in time is never made up for.
            let due_ns = self.due_ns.min(CHUNK_NS);
            let presence = &mut self.presence;
            self.memory.refer(due_ns, || {
                presence.look();
            });
            self.due_ns = 0;
        }
        while self.presence.look() - begin_ns < ns {}
        std::hint::spin_loop();
        let had_ns = self.presence.settle(End::Quantum);
        self.due_ns += if refers { had_ns } else { 0 };
        had_ns
    }

    /// Goes back to the run queue.
    fn give_up(&mut self, end: End) -> Going {
        self.presence.settle(End::Quantum);
        // It never fails on Linux.
        let _ = sched_yield();
        self.presence.settle(end);
        self.has_time()
    }

    /// One attempt at what isn't free.
    fn attempt(&mut self) -> Going {
        let mut left_ns = (self.role.play.parameters.attempt_us * 1e3) as u64;
        while left_ns > 0 {
            left_ns = left_ns.saturating_sub(self.chunk(left_ns.min(CHUNK_NS), false));
            self.has_time()?;
        }
        self.give_up(End::Synchronization)
    }

    fn block(&mut self, ns: u64) -> Going {
        let due_ns = self.presence.leave(End::Semaphore).saturating_add(ns);
        sleep_until(due_ns.min(self.horizon_ns));
        if due_ns >= self.horizon_ns {
            return Break(Horizon);
        }
        self.presence.come(due_ns);
        self.has_time()
    }

    fn has_time(&mut self) -> Going {
        if self.presence.look() < self.horizon_ns { Continue(()) } else { Break(Horizon) }
    }

    /// It is done, or the horizon was reached.
    fn end(mut self, is_done: bool) {
        let role = self.role;
        role.told().work_ns.store(self.work_ns, Relaxed);
        role.stage.locks_of(role.job).iter().for_each(|lock| lock.release(role.process));
        let ended_ns = self.presence.leave(if is_done { End::Exit } else { End::Horizon });
        let since_start_ns = ended_ns - role.stage.start_ns();
        if is_done && ended_ns < self.horizon_ns {
            role.told().ended.set(since_start_ns);
        }
        role.job_stage().exit();
        role.admit_next(since_start_ns);
    }
}

/// Sleeps until a time on the clock.
fn sleep_until(ns: u64) {
    let time = TimeSpec::from_duration(Duration::from_nanos(ns));
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &time) == Err(Errno::EINTR) {}
}

/// Asks for a slice of this length, and sees whether the kernel heeds it: before 6.12 it takes the call and does nothing.
fn ask_for_slice(slice: Duration) -> Result<(), (Step, Errno)> {
    let failed = |errno| (Step::Slice, errno);
    let asked_ns = slice.as_nanos() as u64;
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: all of it is integers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size;
    attributes.sched_policy = libc::SCHED_OTHER as u32;
    attributes.sched_runtime = asked_ns;
    // SAFETY: the kernel reads `size` bytes of it and no more.
    Errno::result(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) }).map_err(failed)?;
    // SAFETY: the kernel writes at most `size` bytes into it.
    Errno::result(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) })
        .map_err(failed)?;
    if attributes.sched_runtime == asked_ns { Ok(()) } else { Err((Step::NoSlices, Errno::ENOSYS)) }
}
