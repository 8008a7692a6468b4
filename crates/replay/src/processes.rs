//! The processes of a replay: forked, started together, waited for.

use crate::arena::{Arena, SetupStep};
use crate::counted::Section;
use crate::groups::Groups;
use crate::haste::Haste;
use crate::memory::{self, Kept};
use crate::presence::now_ns;
use crate::process::{Process, sleep_until};
use crate::{Recording, Replay, ReplayError};
use machine::CpuId;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::time::TimeSpec;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid};
use sim::{Courses, ProcessOutcome};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

/// Between the last process' being ready and the beginning: all sleep until then, so that none begins before another.
const RUN_UP_NS: u64 = 20_000_000;

/// How long processes may take to see that the horizon has passed. Each needs a CPU once for it.
const GRACE_S: u64 = 20;

/// How long they may take to get ready.
const READY_S: u64 = 60;

const SECOND_NS: u64 = 1_000_000_000;

/// Processes that are killed when nobody waits for them any more.
struct Processes<'a> {
    arena: &'a Arena,
    /// By number.
    described: Vec<Process<'a>>,
    /// Those that arrive at another's end, and haven't yet, with their memory.
    waiting: Vec<(usize, Kept)>,
    /// By number; none before it is forked, and once it has ended.
    living: Vec<Option<Pid>>,
    /// While processes are to be forked as others end.
    haste: Option<Haste>,
    /// Signals that the caller had blocked.
    mask: SigSet,
}

/// Replays what was checked.
pub(crate) fn run(replay: &Replay<'_>) -> Result<Recording, ReplayError> {
    let threads = std::fs::read_dir("/proc/self/task").map(Iterator::count);
    let threads = threads.map_err(|cause| ReplayError::system("count the threads of this process", cause))?;
    if threads > 1 {
        return Err(ReplayError::Threads(threads));
    }
    let cpus: Vec<CpuId> = replay.machine.usable().collect();
    let horizon_ns = replay.parameters.horizon_ms.map_or(u64::MAX, |ms| (ms * 1e6).round() as u64);
    let courses = Courses::new(replay.workload, replay.parameters.seed, replay.replicate);
    let arena = Arena::new(replay.workload, cpus.len(), horizon_ns, replay.counted)?;
    for (number, job) in replay.workload.jobs.iter().enumerate() {
        memory::map_shared(number, &job.process.memory)
            .map_err(|cause| ReplayError::system("map the memory that a job's processes share", cause))?;
    }
    let groups = Groups::make(replay.workload)?;
    let forked = Processes::fork(replay, &arena, (&courses, &groups), &cpus);
    let ended = forked.and_then(|mut processes| processes.run());
    arena.section.iter().for_each(Section::end);
    for (number, job) in replay.workload.jobs.iter().enumerate() {
        memory::unmap_shared(number, &job.process.memory);
    }
    ended?;
    recording(replay, &arena, &cpus)
}

impl<'a> Processes<'a> {
    /// Forks all processes but those that are forked as they arrive.
    fn fork(
        replay: &'a Replay<'_>,
        arena: &'a Arena,
        (courses, groups): (&'a Courses, &'a Groups),
        cpus: &'a [CpuId],
    ) -> Result<Self, ReplayError> {
        // Blocked, it is kept until we ask for it.
        let mask = SigSet::from(Signal::SIGCHLD).thread_swap_mask(SigmaskHow::SIG_BLOCK);
        let mask = mask.map_err(|cause| ReplayError::system("block SIGCHLD", cause))?;
        let jobs = replay.workload.jobs.iter().enumerate();
        let of_jobs = jobs.flat_map(|(job, described)| {
            let of_job = (0..described.processes).zip(courses.arrivals_ns(job));
            of_job.map(move |(in_job, arrival_ns)| (job, in_job, arrival_ns))
        });
        let described: Vec<Process<'_>> = of_jobs
            .enumerate()
            .map(|(number, (job, in_job, arrival_ns))| Process {
                replay,
                arena,
                courses,
                groups,
                cpus,
                number,
                job,
                in_job,
                arrival_ns,
            })
            .collect();
        let living = vec![None; described.len()];
        let mut processes = Self { arena, described, waiting: Vec::new(), living, haste: None, mask };
        for number in 0..processes.living.len() {
            let process = &processes.described[number];
            if process.is_kept_waiting() {
                let kept = Kept::map(number, &replay.workload.jobs[process.job].process.memory);
                let kept = kept.map_err(|cause| ReplayError::system("map the memory of a process", cause))?;
                processes.waiting.push((number, kept));
            } else {
                processes.start(number)?;
            }
        }
        Ok(processes)
    }

    /// Forks a process.
    fn start(&mut self, number: usize) -> Result<(), ReplayError> {
        let parent = getpid();
        // SAFETY: `run` has seen that this thread is the only one, and nobody else could start another, so that the child finds
        // no lock held and may do whatever this one may.
        match unsafe { fork() }.map_err(|cause| ReplayError::system("start a process", cause))? {
            ForkResult::Parent { child } => self.living[number] = Some(child),
            ForkResult::Child => run_forked(&self.described[number], parent, self.haste.as_ref()),
        }
        Ok(())
    }

    /// Lets those arrive that are forked at the beginning, which is at `start_ns`.
    fn admit_first(&self, start_ns: u64) {
        let mut first =
            self.waiting.iter().map(|&(number, _)| &self.described[number]).filter(|it| it.arrives_first()).peekable();
        if first.peek().is_some() {
            sleep_until(start_ns);
        }
        first.for_each(Process::admit_first);
    }

    /// Forks those that have arrived: now, as whoever starts programs one after the other does, so that the kernel places them
    /// as it does those.
    fn start_admitted(&mut self) -> Result<(), ReplayError> {
        let states = &self.arena.states;
        let horizon_ns = self.arena.horizon_ns;
        let is_admitted =
            |(number, _): &mut (usize, Kept)| states[*number].arrived.get().is_some_and(|ns| ns < horizon_ns);
        let admitted: Vec<(usize, Kept)> = self.waiting.extract_if(.., is_admitted).collect();
        for (number, kept) in admitted {
            kept.give().map_err(|cause| ReplayError::system("hand a process its memory", cause))?;
            self.start(number)?;
        }
        Ok(())
    }

    /// Starts them together, and waits until all have ended.
    fn run(&mut self) -> Result<(), ReplayError> {
        let arena = self.arena;
        let latest_ns = now_ns() + READY_S * SECOND_NS;
        let first = self.living.len() - self.waiting.len();
        while (arena.ready[0].load(Acquire) as usize) < first {
            self.reap(arena)?;
            if now_ns() > latest_ns {
                let cause = Errno::ETIMEDOUT;
                return Err(ReplayError::system("get all processes ready within a minute", cause));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if !self.waiting.is_empty() {
            // A workload doesn't know of anybody who starts its processes: they arrive late by the turns that such a one waits for. In real time it
            // would interrupt others, who then move.
            self.haste = Haste::begin().ok();
        }
        // Waking thousands takes milliseconds: the start lies behind that, and each sleeps until then by itself.
        let start_ns = now_ns() + RUN_UP_NS;
        arena.begin(start_ns);
        self.admit_first(start_ns);
        let latest_ns = start_ns.saturating_add(arena.horizon_ns).saturating_add(GRACE_S * SECOND_NS);
        loop {
            self.reap(arena)?;
            self.start_admitted()?;
            let left = self.living.iter().flatten().count();
            if left == 0 {
                return Ok(());
            }
            if now_ns() >= latest_ns {
                return Err(ReplayError::Starved { left, of: self.living.len(), grace_s: GRACE_S });
            }
            sleep_until_one_ends(latest_ns - now_ns());
        }
    }

    /// Takes note of those that have ended.
    fn reap(&mut self, arena: &Arena) -> Result<(), ReplayError> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(cause) => return Err(ReplayError::system("wait for processes", cause)),
                Ok(status) => {
                    let is_it = |pid: &Option<Pid>| pid.is_some() && *pid == status.pid();
                    let Some(process) = self.living.iter().position(is_it) else { continue };
                    self.living[process] = None;
                    if let Some(failure) = arena.states[process].failure(process) {
                        return Err(failure);
                    }
                    if let WaitStatus::Signaled(_, signal, _) = status {
                        return Err(ReplayError::Killed { process, signal: signal as i32 });
                    }
                }
            }
        }
    }
}

impl Drop for Processes<'_> {
    fn drop(&mut self) {
        for pid in self.living.iter().flatten() {
            // It may have ended by itself.
            let _ = kill(*pid, Signal::SIGKILL);
            let _ = waitpid(*pid, None);
        }
        let _ = self.mask.thread_set_mask();
    }
}

/// What a forked process does, to its end.
fn run_forked(process: &Process<'_>, parent: Pid, haste: Option<&Haste>) -> ! {
    if let Some(Err(errno)) = haste.map(Haste::end) {
        process.arena.states[process.number].fail(SetupStep::Class, errno);
        // SAFETY: as below.
        unsafe { libc::_exit(0) }
    }
    // SAFETY: it sets what signal the caller gets when its parent dies.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // Unless it has died before.
    if nix::unistd::getppid() == parent {
        process.run();
    }
    // SAFETY: it ends the process at once; what the parent would do at exit is not ours to do.
    unsafe { libc::_exit(0) }
}

/// Sleeps until SIGCHLD comes, but no longer than this.
fn sleep_until_one_ends(ns: u64) {
    let ends = SigSet::from(Signal::SIGCHLD);
    // Woken now and then, in case no signal came.
    let timeout = TimeSpec::from(Duration::from_nanos(ns.min(3_600 * SECOND_NS)));
    // SAFETY: set and timeout live as long as the call; nothing is written.
    unsafe { libc::sigtimedwait(ends.as_ref(), std::ptr::null_mut(), timeout.as_ref()) };
}

/// What all processes have recorded.
fn recording(replay: &Replay<'_>, arena: &Arena, cpus: &[CpuId]) -> Result<Recording, ReplayError> {
    let unknown = |cpu: CpuId| ReplayError::UnknownCpu { cpu, machine: replay.machine.name().into() };
    let (mut intervals, mut processes, mut lost) = (Vec::new(), Vec::new(), 0);
    for (process, state) in arena.states.iter().enumerate() {
        let (own, more) = arena.intervals(process, cpus).map_err(unknown)?;
        let cpu_ns = own.iter().map(|interval| interval.until_ns - interval.from_ns).sum();
        let arrived_ns = state.arrived.get().filter(|ns| *ns < arena.horizon_ns);
        processes.push(ProcessOutcome { arrived_ns, ended_ns: state.ended.get(), cpu_ns });
        intervals.extend(own);
        lost += more;
    }
    let all_ended = processes.iter().all(|process| process.ended_ns.is_some());
    let last_end_ns = processes.iter().filter_map(|process| process.ended_ns).max().unwrap_or_default();
    Ok(Recording {
        until_ns: if all_ended { last_end_ns } else { arena.horizon_ns },
        intervals,
        processes,
        work_ns: arena.states.iter().map(|state| state.work_ns.load(Relaxed)).collect(),
        unreferred_ns: arena.states.iter().map(|state| state.unreferred_ns.load(Relaxed)).collect(),
        lost,
    })
}
