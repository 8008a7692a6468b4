//! The command that is scheduled, and the signals that concern it.

use anyhow::Context;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal as UnixSignal, kill, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process;
use std::time::Duration;

/// The kernel's number of the class that BPF schedulers schedule; see sched(7).
pub const SCHED_EXT: i32 = 7;

/// A signal that was waited for.
pub enum Signal {
    /// A child changed.
    Child,
    /// This process is asked to end.
    Terminate(UnixSignal),
}

/// Signals that are waited for, and don't interrupt anything.
pub struct Signals(SigSet);

impl Signals {
    /// Keeps them back from now on.
    pub fn block() -> anyhow::Result<Self> {
        let mut set = SigSet::empty();
        for signal in [UnixSignal::SIGCHLD, UnixSignal::SIGINT, UnixSignal::SIGTERM, UnixSignal::SIGHUP] {
            set.add(signal);
        }
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&set), None).context("signals can't be kept back")?;
        Ok(Self(set))
    }

    /// The next one; none when there was none for so long.
    pub fn next(&self, at_most: Duration) -> anyhow::Result<Option<Signal>> {
        let time = libc::timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
        // SAFETY: both pointers are to live values, and no information on the signal is asked for.
        let number = unsafe { libc::sigtimedwait(self.0.as_ref(), std::ptr::null_mut(), &raw const time) };
        match Errno::result(number) {
            Ok(number) => match UnixSignal::try_from(number)? {
                UnixSignal::SIGCHLD => Ok(Some(Signal::Child)),
                signal => Ok(Some(Signal::Terminate(signal))),
            },
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(error).context("signals can't be waited for"),
        }
    }
}

/// A running command.
pub struct Command {
    pid: Pid,
}

impl Command {
    /// Starts a command in the scheduler's class, which all that it starts inherits.
    pub fn start(arguments: &[OsString]) -> anyhow::Result<Self> {
        let (program, rest) = arguments.split_first().context("there is no command")?;
        let mut command = process::Command::new(program);
        command.args(rest);
        // SAFETY: only system calls that may be made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                set_class(0, SCHED_EXT)?;
                sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
                Ok(())
            });
        }
        let child = command.spawn().with_context(|| format!("`{}` can't be started", program.to_string_lossy()))?;
        Ok(Self { pid: Pid::from_raw(child.id() as i32) })
    }

    /// Its exit code, or 128 and the signal that ended it, as shells have it; none while it runs.
    pub fn exit_code(&mut self) -> anyhow::Result<Option<u8>> {
        self.status(Some(WaitPidFlag::WNOHANG))
    }

    /// The same when it has ended.
    pub fn wait(&mut self) -> anyhow::Result<u8> {
        Ok(self.status(None)?.unwrap_or(u8::MAX))
    }

    fn status(&mut self, flags: Option<WaitPidFlag>) -> anyhow::Result<Option<u8>> {
        loop {
            return match waitpid(self.pid, flags) {
                Ok(WaitStatus::Exited(_, code)) => Ok(Some(code as u8)),
                Ok(WaitStatus::Signaled(_, signal, _)) => Ok(Some(128 + signal as u8)),
                Ok(_) => Ok(None),
                Err(Errno::EINTR) => continue,
                Err(error) => Err(error).context("the command can't be waited for"),
            };
        }
    }

    /// Gives a signal on to it. One from the terminal it has had already.
    pub fn pass_on(&self, signal: UnixSignal) {
        if signal != UnixSignal::SIGINT {
            // It may have ended just now; that is seen next.
            let _ = kill(self.pid, signal);
        }
    }
}

/// Puts a thread, 0 being the calling one, into a scheduling class.
pub fn set_class(thread: i32, class: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is to a live value.
    match unsafe { libc::sched_setscheduler(thread, class, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
