//! Which processes a job consists of, and their threads bound to the CPUs that the job has.

use machine::linux::affinity::Mask;
use machine::linux::{Pid, Tid};
use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, waitpid};
use std::collections::BTreeSet;
use std::fs;

/// How often threads of a process are listed again while it starts new ones, which begin where those that start them are.
const ROUNDS: usize = 3;

/// Binds all threads of these processes. Those that are gone count as bound; of others, how many could not be.
pub(crate) fn bind(processes: &[Pid], mask: &Mask) -> u32 {
    let mut failed = 0;
    for pid in processes {
        let mut known = BTreeSet::new();
        for _ in 0..ROUNDS {
            let new: Vec<Tid> = pid.threads().into_iter().filter(|tid| known.insert(*tid)).collect();
            if new.is_empty() {
                break;
            }
            let is_failure = |tid: &&Tid| !matches!(mask.apply(**tid), Ok(()) | Err(Errno::ESRCH));
            failed += new.iter().filter(is_failure).count() as u32;
        }
    }
    failed
}

/// Threads of these processes that run or are ready to run.
pub(crate) fn ready_threads(processes: &[Pid]) -> u32 {
    let ready = |pid: &Pid| pid.threads().into_iter().filter(|tid| pid.is_ready(*tid)).count() as u32;
    processes.iter().map(ready).sum()
}

/// CPU time of these processes, and of those that they waited for, in ns.
pub(crate) fn cpu_ns(processes: &[Pid]) -> u64 {
    processes.iter().filter_map(|pid| pid.cpu_s()).map(|cpu_s| (cpu_s * 1e9) as u64).sum()
}

/// Processes that became our children when their parents ended, and are not among `jobs`, which we started. Those that have ended are
/// waited for, so that none stays a zombie.
pub(crate) fn orphans(jobs: &[Pid]) -> Vec<Pid> {
    let own = Pid(std::process::id() as libc::pid_t);
    let mut orphans = own.children();
    orphans.retain(|&pid| {
        if jobs.contains(&pid) {
            return false;
        }
        let ended = pid.is_zombie();
        if ended {
            let _ = waitpid(nix::unistd::Pid::from_raw(pid.0), Some(WaitPidFlag::WNOHANG));
        }
        !ended
    });
    orphans
}

/// The value that an environment variable had when the program of a process was started; none where it had none or we may not look.
pub(crate) fn started_with(pid: Pid, variable: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{}/environ", pid.0)).ok()?;
    let values = environment.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    let (_, value) = values.filter_map(|entry| entry.split_once('=')).find(|(name, _)| *name == variable)?;
    Some(value.to_owned())
}
