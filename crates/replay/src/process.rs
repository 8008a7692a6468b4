//! One process of a replay: it does what the simulator's process of its number does.

use crate::arena::{Arena, Barrier, JobState, Lock, ProcessState, Semaphore, SetupStep};
use crate::groups::Groups;
use crate::memory::{self, Memory};
use crate::presence::{Presence, now_ns};
use crate::{Binding, CHUNK, Replay};
use machine::linux::Tid;
use machine::linux::affinity::Mask;
use machine::{CpuId, CpuSet};
use nix::errno::Errno;
use nix::sched::sched_yield;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use sim::{Act, Courses, End, ProcessIndex, Sched};
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

/// The last nice value (nice(2)).
pub(crate) const HIGHEST_NICE: i32 = 19;

const CHUNK_NS: u64 = CHUNK.as_nanos() as u64;

/// What there is to know of a process before it begins.
pub(crate) struct Process<'a> {
    pub(crate) replay: &'a Replay<'a>,
    pub(crate) arena: &'a Arena,
    pub(crate) courses: &'a Courses,
    pub(crate) groups: &'a Groups,
    pub(crate) cpus: &'a [CpuId],
    /// Its number among all.
    pub(crate) number: usize,
    pub(crate) job: usize,
    /// Its number among its job's.
    pub(crate) in_job: u32,
    /// When it arrives, if not at another's end.
    pub(crate) arrival_ns: u64,
}

/// The replay is over for this process.
struct Horizon;

type Going = ControlFlow<Horizon>;

/// A process that has arrived.
struct Execution<'a> {
    process: &'a Process<'a>,
    presence: Presence<'a>,
    memory: Memory,
    /// When the horizon is, on the clock.
    horizon_ns: u64,
    /// CPU time beyond the work so far: the next work is so much shorter.
    credit_ns: u64,
    /// CPU time for which its memory is yet to be referred to.
    due_ns: u64,
    work_ns: u64,
    /// Whose post it last went on from.
    asker: usize,
}

impl Process<'_> {
    fn job_state(&self) -> &JobState {
        &self.arena.jobs[self.job]
    }

    fn state(&self) -> &ProcessState {
        &self.arena.states[self.number]
    }

    /// Whether it asks for its CPU time as rarely as it can: what runs when is then for others to watch.
    fn is_sparing(&self) -> bool {
        self.replay.chunk.is_some()
    }

    fn locks(&self) -> &[Lock] {
        &self.arena.locks[self.job]
    }

    /// Gets ready, waits for the beginning, follows its course. The caller was forked for this and ends afterwards.
    pub(crate) fn run(&self) {
        if let Err((step, errno)) = self.get_ready() {
            self.state().fail(step, errno);
            return;
        }
        // Those that arrive together are counted before any of them begins: they wait for one another at their first barrier, however late the
        // CPU of one comes. Who is forked as it arrives is counted where it is let in.
        let arrives_alone = self.replay.workload.jobs[self.job].gap_ms.is_some();
        if !arrives_alone && !self.is_kept_waiting() {
            self.job_state().arrive();
        }
        // Its memory is mapped and its page tables are filled before it is counted: none of that is measured. What opens the gate
        // is set 20 ms ahead of the start, and everybody sleeps until then, so that being woken first is no head start. Who is forked as it
        // arrives passes.
        self.arena.ready[0].fetch_add(1, AcqRel);
        self.arena.begun[0].wait();
        let start_ns = self.arena.start_ns();
        let horizon_ns = start_ns.saturating_add(self.arena.horizon_ns);
        let Some(arrival_ns) = self.wait_for_arrival(start_ns, horizon_ns) else {
            self.admit_next(self.arena.horizon_ns);
            return;
        };
        // How long it took to be forked is no wait of its own.
        let runnable_ns = if self.is_kept_waiting() { now_ns() } else { arrival_ns };
        self.arena.placing.place();
        let bound = (self.replay.binding == Binding::Attached).then(|| self.bind_to_emptiest());
        if let Some(Err(errno)) = bound {
            self.state().fail(SetupStep::Bind, errno);
            return;
        }
        self.state().arrived.set(arrival_ns - start_ns);
        if arrives_alone {
            self.job_state().arrive();
        }
        let mut execution = Execution {
            process: self,
            presence: Presence::new(self.arena.log(self.number), start_ns, runnable_ns, self.is_sparing()),
            memory: Memory::new(self.number, self.job, &self.replay.workload.jobs[self.job].process.memory),
            horizon_ns,
            credit_ns: 0,
            due_ns: 0,
            work_ns: 0,
            asker: 0,
        };
        let going = execution.follow_course();
        execution.end(going.is_continue());
        if let Some(Ok(cpu)) = bound {
            self.arena.bound[cpu].fetch_sub(1, AcqRel);
        }
    }

    fn at_once(&self) -> Option<u32> {
        self.replay.workload.jobs[self.job].at_once
    }

    /// Whether it is forked as it arrives: at the beginning, where more of its job come as others end, or at another's end.
    pub(crate) fn is_kept_waiting(&self) -> bool {
        self.arrives_first() || self.at_once().is_some_and(|at_once| self.in_job >= at_once)
    }

    /// Whether it is there at the beginning, and more of its job come as others end.
    pub(crate) fn arrives_first(&self) -> bool {
        self.arrival_ns == 0 && self.at_once().is_some_and(|at_once| self.in_job < at_once)
    }

    /// Lets it arrive at the beginning.
    pub(crate) fn admit_first(&self) {
        self.job_state().arrive();
        self.state().arrived.set(0);
    }

    /// Lets the next process of the job arrive, where one does when another ends.
    fn admit_next(&self, now_ns: u64) {
        let Some(at_once) = self.at_once() else { return };
        let next = at_once + self.job_state().ended.fetch_add(1, AcqRel);
        if next < self.replay.workload.jobs[self.job].processes {
            let state = &self.arena.states[self.number - self.in_job as usize + next as usize];
            self.job_state().arrive();
            state.arrived.set(now_ns);
        }
    }

    fn get_ready(&self) -> Result<(), (SetupStep, Errno)> {
        self.groups
            .enter(self.number)
            .map_err(|error| (SetupStep::Group, error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw)))?;
        // Sleeps end when they are due, not when it suits the kernel (50 us later by default).
        // SAFETY: it sets a number of the calling thread.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        let job = &self.replay.workload.jobs[self.job].process;
        if let Some(class) = class_of(job.sched) {
            set_class(class)?;
        }
        // What the policy asks for holds for all of them.
        let own_slice = job.slice_ms.map(|ms| Duration::from_secs_f64(ms / 1e3));
        if let Some(slice) = self.replay.slice.or(own_slice) {
            ask_for_slice(slice, class_of(job.sched).unwrap_or(libc::SCHED_OTHER))?;
        }
        let nice = nice_of(job);
        if nice != 0 {
            // SAFETY: it sets a number of the calling process.
            Errno::result(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })
                .map_err(|errno| (SetupStep::Nice, errno))?;
        }
        // It is mapped already for who is forked as it arrives.
        if self.is_kept_waiting() {
            return Ok(());
        }
        memory::map_own(self.number, &job.memory).map_err(|errno| (SetupStep::Memory, errno))
    }

    /// When it arrived, on the clock; none when that is beyond the horizon.
    fn wait_for_arrival(&self, start_ns: u64, horizon_ns: u64) -> Option<u64> {
        // Who ended for this one to arrive has noted when.
        let since_start_ns = self.state().arrived.get().unwrap_or(self.arrival_ns);
        let arrival_ns = start_ns.saturating_add(since_start_ns);
        sleep_until(arrival_ns.min(horizon_ns));
        (arrival_ns < horizon_ns).then_some(arrival_ns)
    }

    /// Binds it to the CPU with the fewest; its position.
    fn bind_to_emptiest(&self) -> Result<usize, Errno> {
        let bound = &self.arena.bound;
        let position = loop {
            let counts = bound.iter().map(|count| count.load(Acquire)).enumerate();
            let (position, fewest) = counts.min_by_key(|&(_, count)| count).unwrap_or_default();
            if bound[position].compare_exchange(fewest, fewest + 1, AcqRel, Relaxed).is_ok() {
                break position;
            }
        };
        Mask::from(&CpuSet::from(self.cpus[position])).apply(Tid::CALLER)?;
        Ok(position)
    }
}

impl Execution<'_> {
    fn follow_course(&mut self) -> Going {
        for act in self.process.courses.acts(ProcessIndex(self.process.number as u32)) {
            match act {
                Act::Work(ns) => self.work(ns)?,
                Act::Yield(end) => self.give_up(end)?,
                Act::Block(ns) => self.block(ns)?,
                Act::Post(semaphore) => {
                    let now_ns = self.presence.look();
                    self.process.arena.will_post(semaphore, self.process.number);
                    self.process.arena.semaphores[semaphore].post(now_ns);
                }
                Act::Wait(semaphore) => {
                    self.wait(&self.process.arena.semaphores[semaphore])?;
                    self.asker = self.process.arena.asker(semaphore, self.asker);
                }
                Act::Reply(semaphore) => {
                    let now_ns = self.presence.look();
                    self.process.arena.replies(semaphore, self.asker).post(now_ns);
                }
                Act::AwaitReply(semaphore) => {
                    self.wait(self.process.arena.replies(semaphore, self.process.number))?;
                }
                Act::Acquire(lock) => {
                    while !self.process.locks()[lock].try_acquire(self.process.number) {
                        self.attempt()?;
                    }
                }
                Act::Release(lock) => self.process.locks()[lock].release(self.process.number),
                Act::Barrier => {
                    let now_ns = self.presence.look();
                    if let Barrier::Waiting(before) = self.process.job_state().come_to_barrier(now_ns) {
                        while !self.process.job_state().is_complete(before) {
                            self.attempt()?;
                        }
                    }
                }
                Act::SleepingBarrier => {
                    let now_ns = self.presence.look();
                    if let Barrier::Waiting(before) = self.process.job_state().come_to_barrier(now_ns) {
                        let process = self.process;
                        self.sleep(|horizon_ns| process.job_state().sleep_at_barrier(before, horizon_ns))?;
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
        let chunk_ns = self.process.replay.chunk.map_or(CHUNK_NS, |chunk| chunk.as_nanos() as u64);
        while left_ns > 0 {
            let had_ns = self.chunk(left_ns.min(chunk_ns), true);
            self.work_ns += had_ns.min(left_ns);
            self.credit_ns += had_ns.saturating_sub(left_ns);
            left_ns = left_ns.saturating_sub(had_ns);
            self.has_time()?;
        }
        Continue(())
    }

    /// Runs for about so much wall time; the CPU time that it had.
    ///
    /// The loop ends by wall time, which is read without a system call, and what counts as work is the CPU time that [`Presence`]
    /// then finds: whoever was taken off its CPU meanwhile has worked less than the chunk, and goes on.
    fn chunk(&mut self, ns: u64, refers: bool) -> u64 {
        let begin_ns = self.presence.look();
        if refers {
            // It has had the turns of all CPUs of an emulator, but goes on to the next one's in time.
            let presence = &mut self.presence;
            self.memory.refer(self.due_ns, || presence.look() - begin_ns < CHUNK_NS);
            self.due_ns = 0;
        }
        // Who was away has the rest of its work still to do. Asking for its CPU time at once would end a slice in the middle.
        let away_before_ns = self.presence.away_ns();
        loop {
            let now_ns = self.presence.look();
            let away_ns = if self.process.is_sparing() { self.presence.away_ns() - away_before_ns } else { 0 };
            if now_ns - begin_ns >= ns + away_ns || (away_ns > 0 && now_ns >= self.horizon_ns) {
                break;
            }
            std::hint::spin_loop();
        }
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
        let mut left_ns = (self.process.replay.parameters.attempt_us * 1e3) as u64;
        while left_ns > 0 {
            left_ns = left_ns.saturating_sub(self.chunk(left_ns.min(CHUNK_NS), false));
            self.has_time()?;
        }
        self.give_up(End::Synchronization)
    }

    fn block(&mut self, ns: u64) -> Going {
        let due_ns = self.presence.leave(End::Semaphore).saturating_add(ns.max(LEAST_BLOCK_NS));
        sleep_until(due_ns.min(self.horizon_ns));
        if due_ns >= self.horizon_ns {
            return Break(Horizon);
        }
        // Going to sleep and waking up took CPU time, which the next burst has less of; but bursts that are shorter than that don't make
        // later ones shorter.
        self.credit_ns = self.presence.come(due_ns);
        self.has_time()
    }

    /// Waits until a semaphore may be passed.
    fn wait(&mut self, semaphore: &Semaphore) -> Going {
        if semaphore.pass() {
            return Continue(());
        }
        self.sleep(|horizon_ns| semaphore.wait(horizon_ns))
    }

    /// Sleeps until another process lets it go on, which says when that was; none of the horizon.
    fn sleep(&mut self, until: impl Fn(u64) -> Option<u64>) -> Going {
        let left_ns = self.presence.leave(End::Semaphore);
        match until(self.horizon_ns) {
            None => Break(Horizon),
            Some(let_go_ns) => {
                // That may have been while this one was on its way. What sleeping costs is as for who blocks.
                self.credit_ns = self.presence.come(let_go_ns.max(left_ns));
                self.has_time()
            }
        }
    }

    fn has_time(&mut self) -> Going {
        let now_ns = self.presence.look();
        let is_over = now_ns >= self.horizon_ns;
        if let Some(section) = &self.process.arena.section {
            if is_over { section.end() } else { section.pass(now_ns - self.process.arena.start_ns()) }
        }
        if is_over { Break(Horizon) } else { Continue(()) }
    }

    /// It is done, or the horizon was reached.
    fn end(mut self, is_done: bool) {
        let process = self.process;
        process.state().work_ns.store(self.work_ns, Relaxed);
        process.state().unreferred_ns.store(self.memory.unreferred_ns(), Relaxed);
        process.locks().iter().for_each(|lock| lock.release(process.number));
        let ended_ns = self.presence.leave(if is_done { End::Exit } else { End::Horizon });
        let since_start_ns = ended_ns - process.arena.start_ns();
        if is_done && ended_ns < self.horizon_ns {
            process.state().ended.set(since_start_ns);
        }
        process.job_state().exit(ended_ns);
        process.admit_next(since_start_ns);
    }
}

/// A sleep that is shorter may be over before its process has left the CPU, and would end no interval.
const LEAST_BLOCK_NS: u64 = 20_000;

/// Sleeps until a time on the clock.
pub(crate) fn sleep_until(ns: u64) {
    let time = TimeSpec::from_duration(Duration::from_nanos(ns));
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &time) == Err(Errno::EINTR) {}
}

/// The nice value of a process: its own, and what its base priority becomes.
pub(crate) fn nice_of(process: &sim::Process) -> i32 {
    process.nice.saturating_add(i32::try_from(process.base).unwrap_or(i32::MAX))
}

/// The class of sched(7), unless it is the usual one.
fn class_of(sched: Sched) -> Option<libc::c_int> {
    match sched {
        Sched::Other => None,
        Sched::Batch => Some(libc::SCHED_BATCH),
        Sched::Idle => Some(libc::SCHED_IDLE),
    }
}

fn set_class(class: libc::c_int) -> Result<(), (SetupStep, Errno)> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter outlives the call, which changes only the calling process.
    Errno::result(unsafe { libc::sched_setscheduler(0, class, &raw const parameter) })
        .map_err(|errno| (SetupStep::Class, errno))
        .map(drop)
}

/// Asks for a slice of this length in this class, and sees whether the kernel heeds it: before 6.12 it takes the call and does nothing.
fn ask_for_slice(slice: Duration, class: libc::c_int) -> Result<(), (SetupStep, Errno)> {
    let failed = |errno| (SetupStep::Slice, errno);
    let asked_ns = slice.as_nanos() as u64;
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: all of it is integers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size;
    attributes.sched_policy = class as u32;
    attributes.sched_runtime = asked_ns;
    // SAFETY: the kernel reads `size` bytes of it and no more.
    Errno::result(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) }).map_err(failed)?;
    // SAFETY: the kernel writes at most `size` bytes into it.
    Errno::result(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) })
        .map_err(failed)?;
    if attributes.sched_runtime == asked_ns { Ok(()) } else { Err((SetupStep::NoSlices, Errno::ENOSYS)) }
}
