//! Gives threads that run already the CPUs back that they had before they were bound, also when we are killed.
//!
//! A child of ours hears of each thread before it is bound, by a pipe that only we hold. When that closes, because we have done with
//! it or are gone, the child gives everything back, and ends.

use crate::signals;
use crate::watchdog::stand_apart;
use machine::CpuSet;
use machine::linux::affinity::{self, Mask};
use machine::linux::{Pid, Tid};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{self, ForkResult};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

/// Rounds in which threads are looked for that were born while others were given back what they had.
const MOST_ROUNDS: u32 = 100;
const BETWEEN_ROUNDS: Duration = Duration::from_millis(5);

/// A thread, what it had, and what it is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Former {
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    /// When it was born, in the kernel's ticks: another that gets its number later isn't meant.
    pub(crate) started: u64,
    pub(crate) had: CpuSet,
    pub(crate) given: CpuSet,
}

/// A child that gives back what it was told of. Dropped, everything is as it was.
pub(crate) struct Restorer {
    child: Pid,
    pipe: Option<PipeWriter>,
    told: Vec<Former>,
}

impl Restorer {
    /// Starts the child.
    ///
    /// # Errors
    /// When there is no pipe or no process left.
    pub(crate) fn start() -> io::Result<Self> {
        let (reader, pipe) = io::pipe()?;
        // SAFETY: the child has this thread only, uses nothing of ours but memory and the pipe, and ends without running what is ours.
        match unsafe { unistd::fork() }? {
            ForkResult::Parent { child } => Ok(Self { child: Pid(child.as_raw()), pipe: Some(pipe), told: Vec::new() }),
            ForkResult::Child => {
                stand_apart(reader.as_raw_fd());
                take_another_name();
                give_back(&told_by(reader));
                // SAFETY: it ends here, and nothing that we registered is to run in it.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// Tells of a thread that is bound next.
    ///
    /// # Errors
    /// When the child is gone: then nothing may be bound.
    pub(crate) fn tell(&mut self, former: Former) -> io::Result<()> {
        let mut line = serde_json::to_vec(&former)?;
        line.push(b'\n');
        self.pipe.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(&line)?;
        self.told.push(former);
        Ok(())
    }
}

impl Drop for Restorer {
    fn drop(&mut self) {
        self.pipe = None;
        let ended = loop {
            match waitpid(unistd::Pid::from_raw(self.child.0), None) {
                Err(nix::errno::Errno::EINTR) => {}
                ended => break ended,
            }
        };
        // Somebody killed it: it is for us to do.
        if !matches!(ended, Ok(WaitStatus::Exited(_, 0))) {
            give_back(&self.told);
        }
    }
}

/// Lets who kills us by our name, or by our command line, leave this child alone.
fn take_another_name() {
    // SAFETY: the name ends with a zero byte.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"restorer".as_ptr()) };
    let Some((start, end)) = Pid(std::process::id() as i32).arguments_in_memory() else { return };
    let name = b"restorer";
    for (offset, address) in (start..end).enumerate() {
        let byte = name.get(offset).copied().unwrap_or(0);
        // SAFETY: this is where the kernel put the arguments of this process, which has no other thread that reads them.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write(byte) };
    }
}

/// Everything that is told until the other end closes.
fn told_by(reader: PipeReader) -> Vec<Former> {
    let lines = BufReader::new(reader).split(b'\n').map_while(Result::ok);
    // The last may have been cut off: that thread wasn't bound.
    lines.filter_map(|line| serde_json::from_slice(&line).ok()).collect()
}

/// Gives threads back what they had, unless they were given something else meanwhile; also those that were born since, and inherited it.
fn give_back(formers: &[Former]) {
    let mut done: BTreeSet<(i32, u64)> = BTreeSet::new();
    for former in formers.iter().rev() {
        let (pid, tid) = (Pid(former.pid), Tid(former.tid));
        let is_it = pid.thread_started(tid) == Some(former.started);
        // What was told last is what it has; what was told first is what it had.
        if is_it && done.insert((former.tid, former.started)) && has(tid, &former.given) {
            let first = formers.iter().find(|other| (other.tid, other.started) == (former.tid, former.started));
            let _ = Mask::from(&first.unwrap_or(former).had).apply(tid);
        }
    }
    // Whoever is born inherits what its maker has at that moment.
    for _ in 0..MOST_ROUNDS {
        let mut is_quiet = true;
        let mut pids: Vec<i32> = formers.iter().map(|former| former.pid).collect();
        pids.dedup();
        for known in pids {
            let Some(main) = formers.iter().find(|former| former.pid == known) else { continue };
            let family = Pid(known).descendants().into_iter().chain([Pid(known)]);
            for (pid, tid) in family.flat_map(|pid| pid.threads().into_iter().map(move |tid| (pid, tid))) {
                let Some(started) = pid.thread_started(tid) else { continue };
                let is_given = || formers.iter().any(|former| has(tid, &former.given));
                if !done.contains(&(tid.0, started)) && main.had != main.given && is_given() {
                    is_quiet = false;
                    let _ = Mask::from(&main.had).apply(tid);
                    done.insert((tid.0, started));
                }
            }
        }
        if is_quiet {
            return;
        }
        thread::sleep(BETWEEN_ROUNDS);
    }
}

fn has(tid: Tid, cpus: &CpuSet) -> bool {
    affinity::allowed(tid).is_ok_and(|allowed| allowed == *cpus)
}

/// Whether a signal can be sent to `pid`: whoever may do that may bind it.
pub(crate) fn may_bind(pid: Pid) -> bool {
    signals::may_send(pid)
}
