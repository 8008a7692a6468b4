//! The memory that the processes of a replay share: when it starts, locks, barriers, semaphores, and room for what each records.

use crate::ReplayError;
use crate::counted::{Counted, Section};
use crate::presence::now_ns;
use crate::shared::{Common, Shared};
use machine::CpuId;
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::time::TimeSpec;
use sim::{CpuIndex, End, Interval, ProcessIndex, Workload};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// Stays that a process can record; memory is used for those that there are.
const MOST_STAYS: usize = 1 << 16;

/// A time in ns, or none yet.
pub(crate) struct Moment(AtomicU64);

impl Moment {
    pub(crate) fn set(&self, ns: u64) {
        self.0.store(ns + 1, Release);
    }

    pub(crate) fn get(&self) -> Option<u64> {
        self.0.load(Acquire).checked_sub(1)
    }
}

/// A gate that is closed at first, and once opened stays open.
pub(crate) struct Gate(AtomicU32);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.store(1, Release);
        // SAFETY: the word outlives the call, and waking changes nothing in memory.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Sleeps until it is open.
    pub(crate) fn wait(&self) {
        while self.0.load(Acquire) == 0 {
            let forever = std::ptr::null::<libc::timespec>();
            // SAFETY: the word outlives the call; the kernel sleeps if it is still 0.
            unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), libc::FUTEX_WAIT, 0, forever) };
        }
    }
}

/// What one process lets the others know.
pub(crate) struct ProcessState {
    /// Set at another's end for who arrives then, and by others as they arrive.
    pub(crate) arrived: Moment,
    pub(crate) ended: Moment,
    pub(crate) work_ns: AtomicU64,
    /// CPU time whose references were not made.
    pub(crate) unreferred_ns: AtomicU64,
    /// What it couldn't do, by number from 1, and the kernel's error.
    failed_at: AtomicU32,
    failed_for: AtomicU32,
    stays: AtomicU64,
}

/// Where processes fail before the replay, and what they can't do then.
#[derive(Clone, Copy, strum::FromRepr, strum::IntoStaticStr)]
#[repr(u32)]
pub(crate) enum SetupStep {
    #[strum(serialize = "map its memory")]
    Memory = 1,
    #[strum(serialize = "ask for a slice (sched_setattr)")]
    Slice,
    NoSlices,
    #[strum(serialize = "be of its class (sched_setscheduler)")]
    Class,
    #[strum(serialize = "set its nice value")]
    Nice,
    #[strum(serialize = "enter its control group")]
    Group,
    #[strum(serialize = "be bound to a CPU")]
    Bind,
}

impl ProcessState {
    pub(crate) fn fail(&self, step: SetupStep, errno: Errno) {
        self.failed_for.store(errno as u32, Relaxed);
        self.failed_at.store(step as u32, Release);
    }

    /// Why it failed.
    pub(crate) fn failure(&self, process: usize) -> Option<ReplayError> {
        let step = SetupStep::from_repr(self.failed_at.load(Acquire))?;
        let cause = std::io::Error::from_raw_os_error(self.failed_for.load(Relaxed) as i32);
        Some(match step {
            SetupStep::NoSlices => ReplayError::NoSlices,
            _ => ReplayError::Process { process, what: step.into(), cause },
        })
    }

    /// How many stays it had, recorded or not.
    pub(crate) fn stays(&self) -> u64 {
        self.stays.load(Acquire)
    }
}

/// What the processes of a job have in common.
pub(crate) struct JobState {
    /// How many of its processes have ended.
    pub(crate) ended: AtomicU32,
    /// Barriers completed (16 bits, wrapping), processes at the barrier (24), and processes that live (24).
    barrier: AtomicU64,
    /// How many sleep at it; when it was completed last, on the clock that counts from boot; and the word at which they sleep.
    asleep: AtomicU32,
    completed_ns: AtomicU64,
    completion: AtomicU32,
}

const LIVING: u64 = 1;
const WAITING: u64 = 1 << 24;
const COMPLETED: u64 = 1 << 48;
const COUNT: u64 = WAITING - 1;

/// What it means to have come to a barrier.
pub(crate) enum Barrier {
    /// It was the last to come.
    Complete,
    /// It waits until another number of them is complete.
    Waiting(u64),
}

impl JobState {
    pub(crate) fn arrive(&self) {
        self.barrier.fetch_add(LIVING, AcqRel);
    }

    /// A process comes to the barrier at `now_ns`; where it is the last, those that sleep there wake.
    pub(crate) fn come_to_barrier(&self, now_ns: u64) -> Barrier {
        match self.change(|state| state + WAITING) {
            (before, after) if completed(before) != completed(after) => {
                self.wake_sleepers(now_ns);
                Barrier::Complete
            }
            (before, _) => Barrier::Waiting(completed(before)),
        }
    }

    fn wake_sleepers(&self, now_ns: u64) {
        self.completed_ns.store(now_ns, Release);
        if self.asleep.load(SeqCst) > 0 {
            self.completion.fetch_add(1, AcqRel);
            // SAFETY: the word outlives the call, and waking changes nothing in memory.
            unsafe { libc::syscall(libc::SYS_futex, self.completion.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
        }
    }

    /// Sleeps until another number of barriers than `before` is complete, until `horizon_ns` at the latest; when it was completed.
    pub(crate) fn sleep_at_barrier(&self, before: u64, horizon_ns: u64) -> Option<u64> {
        // Either this one sees that it is complete, or who completes it sees that this one sleeps.
        self.asleep.fetch_add(1, SeqCst);
        let completed_ns = loop {
            let word = self.completion.load(Acquire);
            if self.is_complete(before) {
                break Some(self.completed_ns.load(Acquire));
            }
            if !sleep_at(&self.completion, word, horizon_ns) {
                break None;
            }
        };
        self.asleep.fetch_sub(1, SeqCst);
        completed_ns
    }

    pub(crate) fn is_complete(&self, before: u64) -> bool {
        completed(self.barrier.load(SeqCst)) != before
    }

    /// A process ends: those at the barrier may have waited only for it.
    pub(crate) fn exit(&self, now_ns: u64) {
        let (before, after) = self.change(|state| state - LIVING);
        if completed(before) != completed(after) {
            self.wake_sleepers(now_ns);
        }
    }

    /// Changes the counts; a barrier at which all the living are is complete. All three counts are in one word, since a process that
    /// exits and one that comes to the barrier must not both take the other for the one that completes it.
    fn change(&self, by: impl Fn(u64) -> u64) -> (u64, u64) {
        let complete = |state: u64| {
            let (waiting, living) = (state >> 24 & COUNT, state & COUNT);
            if waiting > 0 && waiting == living { (state - waiting * WAITING).wrapping_add(COMPLETED) } else { state }
        };
        let changed = |state: u64| complete(by(state));
        let result = self.barrier.fetch_update(SeqCst, Acquire, |state| Some(changed(state)));
        // What always changes never fails.
        let (Ok(before) | Err(before)) = result;
        (before, changed(before))
    }
}

fn completed(state: u64) -> u64 {
    state >> 48
}

/// A lock that is tried for.
pub(crate) struct Lock(AtomicU32);

impl Lock {
    pub(crate) fn try_acquire(&self, process: usize) -> bool {
        self.0.compare_exchange(0, process as u32 + 1, AcqRel, Relaxed).is_ok()
    }

    /// Gives it back if this process has it.
    pub(crate) fn release(&self, process: usize) {
        let _ = self.0.compare_exchange(process as u32 + 1, 0, AcqRel, Relaxed);
    }
}

/// A semaphore at which processes wait for one another.
pub(crate) struct Semaphore {
    /// How much oftener it was posted than passed.
    posts: AtomicU32,
    /// When it was posted last, on the clock that counts from boot.
    posted_ns: AtomicU64,
}

impl Semaphore {
    /// Posts it at `now_ns`; one who waits wakes.
    pub(crate) fn post(&self, now_ns: u64) {
        self.posted_ns.store(now_ns, Release);
        self.posts.fetch_add(1, AcqRel);
        // SAFETY: the word outlives the call, and waking changes nothing in memory.
        unsafe { libc::syscall(libc::SYS_futex, self.posts.as_ptr(), libc::FUTEX_WAKE, 1) };
    }

    /// Goes on without waiting; whether that may be.
    pub(crate) fn pass(&self) -> bool {
        self.posts.fetch_update(AcqRel, Acquire, |posts| posts.checked_sub(1)).is_ok()
    }

    /// Sleeps until it may be passed, and passes it, until `horizon_ns` at the latest; when it was posted last.
    pub(crate) fn wait(&self, horizon_ns: u64) -> Option<u64> {
        while !self.pass() {
            if !sleep_at(&self.posts, 0, horizon_ns) {
                return None;
            }
        }
        Some(self.posted_ns.load(Acquire))
    }
}

/// Sleeps as long as nobody wakes who sleeps at the word, if it still is `value`, and until `horizon_ns` at the latest; whether there is time
/// left.
fn sleep_at(word: &AtomicU32, value: u32, horizon_ns: u64) -> bool {
    let left = Duration::from_nanos(horizon_ns.saturating_sub(now_ns()));
    if left.is_zero() {
        return false;
    }
    let left = TimeSpec::from_duration(left);
    // SAFETY: the word and the time outlive the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, left.as_ref()) };
    true
}

/// One stay.
pub(crate) struct Stay {
    runnable_ns: AtomicU64,
    from_ns: AtomicU64,
    until_ns: AtomicU64,
    cpu: AtomicU32,
    end: AtomicU32,
}

// SAFETY: atomics alone, whose zeros mean that nothing has happened yet.
unsafe impl Common for Gate {}
// SAFETY: as above.
unsafe impl Common for ProcessState {}
// SAFETY: as above.
unsafe impl Common for JobState {}
// SAFETY: as above.
unsafe impl Common for Lock {}
// SAFETY: as above.
unsafe impl Common for Semaphore {}
// SAFETY: as above.
unsafe impl Common for Stay {}

/// Where a process records its stays.
#[derive(Clone, Copy)]
pub(crate) struct Log<'a> {
    state: &'a ProcessState,
    stays: &'a [Stay],
    horizon_ns: u64,
}

impl Log<'_> {
    /// Records a stay, all times in ns since the start; what is beyond the horizon isn't.
    pub(crate) fn record(&self, cpu: CpuId, runnable_ns: u64, from_ns: u64, until_ns: u64, end: End) {
        let (until_ns, end) =
            if until_ns < self.horizon_ns { (until_ns, end) } else { (self.horizon_ns, End::Horizon) };
        if from_ns >= until_ns {
            return;
        }
        let number = self.state.stays.load(Relaxed);
        if let Some(stay) = self.stays.get(number as usize) {
            stay.runnable_ns.store(runnable_ns, Relaxed);
            stay.from_ns.store(from_ns, Relaxed);
            stay.until_ns.store(until_ns, Relaxed);
            stay.cpu.store(cpu.0, Relaxed);
            stay.end.store(end as u32, Relaxed);
        }
        self.state.stays.store(number + 1, Release);
    }
}

/// A program without any instructions.
///
/// Most processes are forked ahead, and wake when they arrive; where they were last, a kernel lets them go on. One that begins is placed
/// anew: when it is forked, and when it executes a program. That is done before the kernel looks into the program, finds none, and
/// lets the process go on as it was.
pub(crate) struct Placing(Option<OwnedFd>);

impl Placing {
    fn new() -> Self {
        // Without it everything goes on where it was.
        Self(memfd_create(c"nothing", MFdFlags::MFD_CLOEXEC).ok())
    }

    /// The calling process is placed as one that begins.
    pub(crate) fn place(&self) {
        if let Some(nothing) = &self.0 {
            let none: [*const libc::c_char; 1] = [std::ptr::null()];
            let (file, path) = (nothing.as_raw_fd(), c"".as_ptr());
            // SAFETY: the arguments outlive the call, which fails: the file is no program.
            unsafe { libc::syscall(libc::SYS_execveat, file, path, none.as_ptr(), none.as_ptr(), libc::AT_EMPTY_PATH) };
        }
    }
}

/// Everything that is shared.
pub(crate) struct Arena {
    /// How many processes are ready, and whether the replay has begun.
    pub(crate) ready: Shared<AtomicU32>,
    pub(crate) begun: Shared<Gate>,
    /// When it begins, on the clock that counts from boot.
    start_ns: Shared<AtomicU64>,
    /// How long it may last.
    pub(crate) horizon_ns: u64,
    pub(crate) jobs: Shared<JobState>,
    /// The section that is counted of it.
    pub(crate) section: Option<Section>,
    /// Lets the kernel place who arrives.
    pub(crate) placing: Placing,
    /// By job.
    pub(crate) locks: Vec<Shared<Lock>>,
    /// In the order of [`Workload::semaphores`].
    pub(crate) semaphores: Shared<Semaphore>,
    /// For each of them, by process: what is there for it alone, and how much oftener it posted than others went on from that. None where nobody
    /// replies.
    replies: Shared<Semaphore>,
    posted: Shared<AtomicU32>,
    /// How many living processes are bound to each CPU.
    pub(crate) bound: Shared<AtomicU32>,
    pub(crate) states: Shared<ProcessState>,
    stays: Shared<Stay>,
}

impl Arena {
    pub(crate) fn new(
        workload: &Workload,
        cpus: usize,
        horizon_ns: u64,
        counted: Option<Counted>,
    ) -> Result<Self, ReplayError> {
        let processes = workload.job_of_processes().count();
        let semaphores = workload.semaphores().len();
        let of_each = if workload.has_replies() { semaphores * processes } else { 0 };
        Ok(Self {
            ready: Shared::new(1)?,
            begun: Shared::new(1)?,
            start_ns: Shared::new(1)?,
            horizon_ns,
            section: Section::new(counted)?,
            placing: Placing::new(),
            jobs: Shared::new(workload.jobs.len())?,
            locks: workload.jobs.iter().map(|job| Shared::new(job.locks.len())).collect::<Result<_, _>>()?,
            semaphores: Shared::new(semaphores)?,
            replies: Shared::new(of_each)?,
            posted: Shared::new(of_each)?,
            bound: Shared::new(cpus)?,
            states: Shared::new(processes)?,
            stays: Shared::new(processes * MOST_STAYS)?,
        })
    }

    pub(crate) fn begin(&self, start_ns: u64) {
        self.start_ns[0].store(start_ns, Release);
        self.begun[0].open();
    }

    pub(crate) fn start_ns(&self) -> u64 {
        self.start_ns[0].load(Acquire)
    }

    /// What is at a semaphore for one process alone.
    pub(crate) fn replies(&self, semaphore: usize, process: usize) -> &Semaphore {
        &self.replies[semaphore * self.states.len() + process]
    }

    /// A process is about to post a semaphore.
    pub(crate) fn will_post(&self, semaphore: usize, process: usize) {
        if let Some(posted) = self.posted.get(semaphore * self.states.len() + process) {
            posted.fetch_add(1, AcqRel);
        }
    }

    /// Whose post it is that somebody has just gone on from, of several the first after `last`; `last` where nobody replies.
    pub(crate) fn asker(&self, semaphore: usize, last: usize) -> usize {
        let processes = self.states.len();
        if self.posted.is_empty() {
            return last;
        }
        let posted = &self.posted[semaphore * processes..(semaphore + 1) * processes];
        // Whoever posts says so before, so that there is one for each that goes on.
        let mut after_last = (1..).map(|step| (last + step) % processes);
        let took = |at: &usize| posted[*at].fetch_update(AcqRel, Acquire, |posts| posts.checked_sub(1)).is_ok();
        after_last.find(took).unwrap_or(last)
    }

    pub(crate) fn log(&self, process: usize) -> Log<'_> {
        let stays = &self.stays[process * MOST_STAYS..(process + 1) * MOST_STAYS];
        Log { state: &self.states[process], stays, horizon_ns: self.horizon_ns }
    }

    /// The stays that a process has recorded, and how many it couldn't.
    ///
    /// # Errors
    /// The number of a CPU that isn't among `cpus`.
    pub(crate) fn intervals(&self, process: usize, cpus: &[CpuId]) -> Result<(Vec<Interval>, u64), CpuId> {
        let Log { state, stays, .. } = self.log(process);
        let all = state.stays();
        let interval = |stay: &Stay| {
            let cpu = CpuId(stay.cpu.load(Relaxed));
            let position = cpus.iter().position(|&known| known == cpu).ok_or(cpu)?;
            Ok(Interval {
                process: ProcessIndex(process as u32),
                cpu: CpuIndex(position as u32),
                runnable_ns: stay.runnable_ns.load(Relaxed),
                from_ns: stay.from_ns.load(Relaxed),
                until_ns: stay.until_ns.load(Relaxed),
                end: End::ALL[stay.end.load(Relaxed) as usize % End::ALL.len()],
            })
        };
        let recorded = all.min(MOST_STAYS as u64);
        let intervals = stays[..recorded as usize].iter().map(interval).collect::<Result<_, _>>()?;
        Ok((intervals, all - recorded))
    }
}
