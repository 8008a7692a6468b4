//! The processes of a play: forked, started together, waited for.

use crate::actor::Role;
use crate::memory;
use crate::presence::now_ns;
use crate::stage::Stage;
use crate::{Play, PlayError, Played};
use machine::CpuId;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid};
use sim::{Courses, CpuIndex, ProcessOutcome};
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
struct Cast {
    /// By number; none once it has ended.
    living: Vec<Option<Pid>>,
    /// Signals that the caller had blocked.
    mask: SigSet,
}

/// Plays what was checked.
pub(crate) fn run(play: &Play<'_>) -> Result<Played, PlayError> {
    let cpus: Vec<CpuId> = play.machine.usable().collect();
    let horizon_ns = play.parameters.horizon_ms.map_or(u64::MAX, |ms| (ms * 1e6).round() as u64);
    let courses = Courses::new(play.workload, play.parameters.seed, play.replicate);
    let stage = Stage::new(play.workload, cpus.len(), horizon_ns)?;
    for (number, job) in play.workload.jobs.iter().enumerate() {
        memory::map_shared(number, &job.process.memory)
            .map_err(|cause| PlayError::system("map the memory that a job's processes share", cause))?;
    }
    let ended = {
        let mut cast = Cast::assemble(play, &stage, &courses, &cpus)?;
        cast.play(&stage)
    };
    for (number, job) in play.workload.jobs.iter().enumerate() {
        memory::unmap_shared(number, &job.process.memory);
    }
    ended?;
    gather(play, &stage, &cpus)
}

impl Cast {
    /// Forks all processes.
    fn assemble(play: &Play<'_>, stage: &Stage, courses: &Courses, cpus: &[CpuId]) -> Result<Self, PlayError> {
        let mut mask = SigSet::empty();
        let mut ends = SigSet::empty();
        ends.add(Signal::SIGCHLD);
        // Blocked, it is kept until we ask for it.
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&ends), Some(&mut mask))
            .map_err(|cause| PlayError::system("block SIGCHLD", cause))?;
        let mut cast = Self { living: Vec::new(), mask };
        let parent = getpid();
        let mut process = 0;
        for (job, described) in play.workload.jobs.iter().enumerate() {
            for (in_job, arrival_ns) in (0..described.processes).zip(courses.arrivals_ns(job)) {
                let role = Role { play, stage, courses, cpus, process, job, in_job, arrival_ns };
                // SAFETY: the calling process has one thread (see `Play::run`), so that the child may do whatever that may.
                match unsafe { fork() }.map_err(|cause| PlayError::system("start a process", cause))? {
                    ForkResult::Parent { child } => cast.living.push(Some(child)),
                    ForkResult::Child => perform(&role, parent),
                }
                process += 1;
            }
        }
        Ok(cast)
    }

    /// Starts them together, and waits until all have ended.
    fn play(&mut self, stage: &Stage) -> Result<(), PlayError> {
        let latest_ns = now_ns() + READY_S * SECOND_NS;
        while (stage.ready[0].load(Acquire) as usize) < self.living.len() {
            self.reap(stage)?;
            if now_ns() > latest_ns {
                let cause = Errno::ETIMEDOUT;
                return Err(PlayError::system("get all processes ready within a minute", cause));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let start_ns = now_ns() + RUN_UP_NS;
        stage.begin(start_ns);
        let latest_ns = start_ns.saturating_add(stage.horizon_ns).saturating_add(GRACE_S * SECOND_NS);
        loop {
            self.reap(stage)?;
            let left = self.living.iter().flatten().count();
            if left == 0 {
                return Ok(());
            }
            if now_ns() >= latest_ns {
                return Err(PlayError::Starved { left, of: self.living.len(), grace_s: GRACE_S });
            }
            sleep_until_one_ends(latest_ns - now_ns());
        }
    }

    /// Takes note of those that have ended.
    fn reap(&mut self, stage: &Stage) -> Result<(), PlayError> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(cause) => return Err(PlayError::system("wait for processes", cause)),
                Ok(status) => {
                    let ended = status.pid();
                    let Some(process) = self.living.iter().position(|pid| pid.is_some() && *pid == ended) else {
                        continue;
                    };
                    self.living[process] = None;
                    if let Some(failure) = stage.told[process].failure(process) {
                        return Err(failure);
                    }
                    if let WaitStatus::Signaled(_, signal, _) = status {
                        return Err(PlayError::Killed { process, signal: signal as i32 });
                    }
                }
            }
        }
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        for pid in self.living.iter().flatten() {
            // It may have ended by itself.
            let _ = kill(*pid, Signal::SIGKILL);
            let _ = waitpid(*pid, None);
        }
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.mask), None);
    }
}

/// What a forked process does, to its end.
fn perform(role: &Role<'_>, parent: Pid) -> ! {
    // SAFETY: it sets what signal the caller gets when its parent dies.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // Unless it has died before.
    if nix::unistd::getppid() == parent {
        role.perform();
    }
    // SAFETY: it ends the process at once; what the parent would do at exit is not ours to do.
    unsafe { libc::_exit(0) }
}

/// Sleeps until SIGCHLD comes, but no longer than this.
fn sleep_until_one_ends(ns: u64) {
    let mut ends = SigSet::empty();
    ends.add(Signal::SIGCHLD);
    // Woken now and then, in case no signal came.
    let ns = ns.min(3_600 * SECOND_NS);
    let timeout =
        libc::timespec { tv_sec: (ns / SECOND_NS) as libc::time_t, tv_nsec: (ns % SECOND_NS) as libc::c_long };
    // SAFETY: set and timeout live as long as the call; nothing is written.
    unsafe { libc::sigtimedwait(ends.as_ref(), std::ptr::null_mut(), &timeout) };
}

/// What all processes have told.
fn gather(play: &Play<'_>, stage: &Stage, cpus: &[CpuId]) -> Result<Played, PlayError> {
    let position = |cpu: CpuId| cpus.iter().position(|known| *known == cpu).map(|at| CpuIndex(at as u32));
    let (mut intervals, mut processes, mut lost) = (Vec::new(), Vec::new(), 0);
    for (process, told) in stage.told.iter().enumerate() {
        let (own, more) = stage
            .intervals(process, position)
            .map_err(|cpu| PlayError::UnknownCpu { cpu, machine: play.machine.name().into() })?;
        let cpu_ns = own.iter().map(|interval| interval.until_ns - interval.from_ns).sum();
        let arrived_ns = told.arrived.get().filter(|ns| *ns < stage.horizon_ns);
        processes.push(ProcessOutcome { arrived_ns, ended_ns: told.ended.get(), cpu_ns });
        intervals.extend(own);
        lost += more;
    }
    let all_ended = processes.iter().all(|process| process.ended_ns.is_some());
    let last_end_ns = processes.iter().filter_map(|process| process.ended_ns).max().unwrap_or_default();
    Ok(Played {
        until_ns: if all_ended { last_end_ns } else { stage.horizon_ns },
        intervals,
        processes,
        work_ns: stage.told.iter().map(|told| told.work_ns.load(Relaxed)).collect(),
        lost,
    })
}
