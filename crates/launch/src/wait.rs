//! wait4(2) with the two things that `std` and `nix` leave out: real-time signals, and what a stopped child has used.

use crate::observation::Exit;
use machine::linux::Tid;
use nix::errno::Errno;
use std::mem::MaybeUninit;
use std::time::Duration;

/// A change in a child's or tracee's state.
pub(crate) struct Change {
    pub(crate) tid: Tid,
    pub(crate) kind: ChangeKind,
    /// What it has used so far; for one that has ended, with the children that it waited for.
    pub(crate) usage: Usage,
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// It has ended and is reaped.
    Ended(Exit),
    /// It has stopped by `signal`; a tracee's `event` is a `PTRACE_EVENT_*` or 0.
    Stopped { signal: libc::c_int, event: libc::c_int },
    /// It runs again after a stop.
    Continued,
}

/// What a process has used, from getrusage(2).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) max_rss_bytes: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
}

/// What getrusage(2) counts blocks of, in bytes.
const BLOCK_BYTES: u64 = 512;

impl Usage {
    /// What was used since `before`. Peak memory knows no difference and is kept.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            max_rss_bytes: self.max_rss_bytes,
            voluntary_switches: self.voluntary_switches - before.voluntary_switches,
            involuntary_switches: self.involuntary_switches - before.involuntary_switches,
            minor_faults: self.minor_faults - before.minor_faults,
            major_faults: self.major_faults - before.major_faults,
            read_bytes: self.read_bytes - before.read_bytes,
            written_bytes: self.written_bytes - before.written_bytes,
        }
    }
}

impl From<libc::rusage> for Usage {
    fn from(usage: libc::rusage) -> Self {
        let time =
            |time: libc::timeval| Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64);
        Self {
            user: time(usage.ru_utime),
            system: time(usage.ru_stime),
            max_rss_bytes: usage.ru_maxrss as u64 * 1024,
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            read_bytes: usage.ru_inblock as u64 * BLOCK_BYTES,
            written_bytes: usage.ru_oublock as u64 * BLOCK_BYTES,
        }
    }
}

/// Which child or tracee to ask about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// This child or tracee, without waiting for it.
    Now(Tid),
    /// This child; its stops and continuations too.
    Child(Tid),
    /// Only this child, waiting for it to end or, as a tracee, to stop.
    Only(Tid),
}

/// What happened to a child or tracee of the calling thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// It has stopped, or goes on after a stop.
    Stop(Tid, ChangeKind),
    /// It has ended, which stays to be told: it is a zombie until [`next`] takes its end, and the kernel still tells where it
    /// could run and where it ran.
    End(Tid),
}

/// The next stop of a child or tracee of the calling thread, if there is one.
pub(crate) fn next_stop() -> Option<Found> {
    let info = wait_for_any(libc::WSTOPPED | libc::WCONTINUED)?;
    // SAFETY: the kernel has filled in what these read.
    let (tid, status) = unsafe { (Tid(info.si_pid()), info.si_status()) };
    let kind = match info.si_code {
        libc::CLD_CONTINUED => ChangeKind::Continued,
        _ => ChangeKind::Stopped { signal: status & 0xff, event: status >> 8 },
    };
    Some(Found::Stop(tid, kind))
}

/// A child or tracee of the calling thread that has ended, if there is one.
pub(crate) fn next_end() -> Option<Found> {
    let info = wait_for_any(libc::WEXITED | libc::WNOWAIT)?;
    // SAFETY: the kernel has filled in what this reads.
    Some(Found::End(Tid(unsafe { info.si_pid() })))
}

/// What the kernel tells of any child or tracee; none when there is nothing to tell.
fn wait_for_any(what: libc::c_int) -> Option<libc::siginfo_t> {
    // Threads of the program are no processes, so `__WALL` has to ask for them. Children of other threads of this process are
    // theirs to wait for.
    let options = what | libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG;
    let mut found = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: zeroed is a valid `siginfo_t`, which the call fills, or leaves zeroed when there is nothing to tell.
    let (result, info) = unsafe { (libc::waitid(libc::P_ALL, 0, found.as_mut_ptr(), options), found.assume_init()) };
    // SAFETY: the structure is initialised.
    (result == 0 && unsafe { info.si_pid() } != 0).then_some(info)
}

/// The next change, if there is one: only [`Target::Only`] blocks.
pub(crate) fn next(target: Target) -> Option<Change> {
    let (pid, options) = match target {
        Target::Now(Tid(tid)) => (tid, libc::__WALL | libc::WNOHANG),
        Target::Child(Tid(pid)) => (pid, libc::WUNTRACED | libc::WCONTINUED | libc::WNOHANG),
        Target::Only(Tid(pid)) => (pid, libc::__WALL),
    };
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let tid = loop {
        // SAFETY: both pointers are valid for writing.
        let result = unsafe { libc::wait4(pid, &mut status, options, usage.as_mut_ptr()) };
        match Errno::result(result) {
            Ok(0) => return None,
            Ok(tid) => break Tid(tid),
            Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    };
    let kind = if libc::WIFEXITED(status) {
        ChangeKind::Ended(Exit::Code(libc::WEXITSTATUS(status)))
    } else if libc::WIFSIGNALED(status) {
        ChangeKind::Ended(Exit::Signal(libc::WTERMSIG(status)))
    } else if libc::WIFSTOPPED(status) {
        ChangeKind::Stopped { signal: libc::WSTOPSIG(status), event: status >> 16 }
    } else {
        ChangeKind::Continued
    };
    // SAFETY: zeroed is a valid `rusage`, and the call has filled it.
    let usage = unsafe { usage.assume_init() }.into();
    Some(Change { tid, kind, usage })
}
