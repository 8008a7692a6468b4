//! A process that starts a command or a worker of ours, and ends it with all that it started: when it is told to, or when we are gone.
//!
//! Their orphans come to the supervisor, however they left it (it is a subreaper), so what has become a daemon is found
//! as well. It learns of our end by a socket that only we hold, also when we are killed. It is a child of a thread that does
//! nothing but wait for it: waits of the thread that watches a program (`__WNOTHREAD`) then neither see it, nor count what it used,
//! and it is no orphan of the program's.

mod process;

use crate::LaunchError;
use crate::tracer::reap;
use crate::watchdog::kill_session;
use machine::linux::Pid;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use process::{FORKED, Report, STARTED, start_process};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::mem;
use std::net::Shutdown;
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// No more of its last words is quoted, in characters.
const MOST_SAID: usize = 200;

/// For so long what doesn't end is killed again and again. Only what hangs in the kernel, or has another user's rights, lasts longer.
const LONGEST_KILL: Duration = Duration::from_secs(10);

/// What a supervisor starts.
pub(crate) enum Charge {
    /// A program with these arguments, in a session of its own. It reads nothing, what it writes to standard output is dropped, and its
    /// signals have their default dispositions.
    Command(PathBuf, Vec<OsString>),
    /// Likewise, with these variables on top of ours, and all that it writes going to this descriptor: nothing of it is quoted.
    Logged(PathBuf, Vec<OsString>, Vec<(OsString, OsString)>, RawFd),
    /// A copy of this process, likewise, but with our dispositions, and all signals blocked.
    Worker(Worker),
}

/// A copy of this process with one thread, which does something and ends.
pub(crate) struct Worker {
    /// What it does. It is called in a child, where other threads' locks may be held for ever, but for those of the C library's memory.
    pub(crate) work: Box<dyn FnOnce() + Send>,
    /// Descriptors that it needs. It has no others but the standard ones.
    pub(crate) needs: Vec<RawFd>,
}

/// The command has ended: its own process without success, or all of its processes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ended {
    /// How its own process ended, as wait(2) tells; none where the supervisor is gone.
    pub(crate) status: Option<libc::c_int>,
    /// How long it ran, in seconds.
    pub(crate) after_s: f64,
    /// The end of what it wrote to standard error.
    pub(crate) said: Vec<u8>,
}

impl Ended {
    /// How, to follow *it ended*.
    pub(crate) fn how(&self) -> String {
        match self.status {
            None => "with the process that watched it, which was killed".into(),
            Some(status) if libc::WIFSIGNALED(status) => {
                let signal = libc::WTERMSIG(status);
                Signal::try_from(signal).map_or_else(|_| format!("by signal {signal}"), |signal| format!("by {signal}"))
            }
            Some(status) => format!("with exit code {}", libc::WEXITSTATUS(status)),
        }
    }

    /// The last line that it wrote, quoted, to follow a sentence; nothing where there is none.
    pub(crate) fn last_words(&self) -> String {
        let said = String::from_utf8_lossy(&self.said);
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        last.map(|line| format!(": \"{}\"", line.chars().take(MOST_SAID).collect::<String>())).unwrap_or_default()
    }
}

/// The supervisor of a command that was started. Dropped, it has killed all that the command started.
pub(crate) struct Supervisor {
    pub(crate) pid: Pid,
    /// The command's own process.
    first: Pid,
    channel: UnixStream,
    thread: Option<JoinHandle<()>>,
    started: Instant,
    ended: Option<Ended>,
}

impl Supervisor {
    /// Starts it.
    ///
    /// # Errors
    /// [`LaunchError::NotExecutable`] when the kernel won't execute it, [`LaunchError::System`] when there is no process or thread left.
    pub(crate) fn start(charge: Charge) -> Result<Self, LaunchError> {
        let (channel, theirs) = UnixStream::pair().map_err(LaunchError::system("socketpair"))?;
        let (tell, told) = mpsc::channel();
        let path = match &charge {
            Charge::Command(path, _) | Charge::Logged(path, ..) => path.clone(),
            Charge::Worker(_) => PathBuf::new(),
        };
        let parent = move || {
            // Signals are for the thread that watches the program, and none of our handlers may run in the child.
            let _ = SigSet::all().thread_block();
            let started = start_process(charge, theirs);
            let pid = started.as_ref().ok().copied();
            let _ = tell.send(started);
            pid.into_iter().for_each(|pid| reap(pid.main_thread()));
        };
        let thread = thread::Builder::new().name("supervisor".into()).spawn(parent);
        let thread = thread.map_err(LaunchError::system("clone"))?;
        let pid = told.recv().unwrap_or_else(|_| Err(LaunchError::system("fork")(Errno::EAGAIN)))?;
        let mut supervisor =
            Self { pid, first: pid, channel, thread: Some(thread), started: Instant::now(), ended: None };
        loop {
            match supervisor.report(None) {
                Ok(Report { kind: FORKED, status, .. }) => supervisor.first = Pid(status),
                Ok(Report { kind: STARTED, .. }) => return Ok(supervisor),
                Ok(Report { status, .. }) => {
                    return Err(LaunchError::NotExecutable { path, errno: Errno::from_raw(status) });
                }
                // The command has killed it before it could tell.
                Err(_) if supervisor.first != pid => return Ok(supervisor),
                Err(cause) => return Err(LaunchError::system("fork")(cause)),
            }
        }
    }

    /// The command's own process, or the worker's.
    pub(crate) fn first(&self) -> Pid {
        self.first
    }

    /// How the command ended, if it has, or does within `timeout`.
    pub(crate) fn ended_within(&mut self, timeout: Duration) -> Option<&Ended> {
        if self.ended.is_none() {
            // The shortest that a socket takes, to which zero is without end.
            self.ended = match self.report(Some(timeout.max(Duration::from_micros(1)))) {
                Ok(Report { status, ran_ns, said, .. }) => Some(Ended {
                    status: Some(status),
                    after_s: ran_ns as f64 / 1e9,
                    said: said.into_iter().filter(|byte| *byte != 0).collect(),
                }),
                Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                Err(_) => Some(Ended { status: None, after_s: self.started.elapsed().as_secs_f64(), said: Vec::new() }),
            };
        }
        self.ended.as_ref()
    }

    /// What it tells next; without a timeout it is waited for.
    fn report(&mut self, timeout: Option<Duration>) -> io::Result<Report> {
        let mut bytes = [0; size_of::<Report>()];
        self.channel.set_read_timeout(timeout)?;
        loop {
            match self.channel.read_exact(&mut bytes) {
                // SAFETY: any bytes are a `Report`, and these are those of one.
                Ok(()) => return Ok(unsafe { mem::transmute::<[u8; size_of::<Report>()], Report>(bytes) }),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Supervisor {
    /// Returns when nothing is left, or when it has been tried for long.
    fn drop(&mut self) {
        self.ended_within(Duration::ZERO);
        let _ = self.channel.shutdown(Shutdown::Write);
        let _ = self.channel.set_read_timeout(Some(LONGEST_KILL + Duration::from_secs(1)));
        // Its end of the channel closes when it ends.
        let is_over = loop {
            match self.channel.read(&mut [0; size_of::<Report>()]) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break error.kind() != ErrorKind::WouldBlock,
            }
        };
        // Nothing else ends it before it is told to; what is left is found as far as it didn't leave the session.
        if matches!(self.ended, Some(Ended { status: None, .. })) {
            kill_session(self.first);
        }
        if let Some(thread) = self.thread.take().filter(|_| is_over) {
            let _ = thread.join();
        }
    }
}
