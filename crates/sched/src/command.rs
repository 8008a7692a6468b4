//! The command that is scheduled, and the signals that concern it.

use crate::caller::Caller;
use anyhow::Context;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal as UnixSignal, kill, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process;
use std::time::Duration;

/// The kernel's number of the class that BPF schedulers schedule; see sched(7).
pub const SCHED_EXT: i32 = 7;

/// A signal that was waited for.
#[derive(Debug, PartialEq)]
pub enum Signal {
    /// A child changed.
    Child,
    /// This process shall end.
    Terminate(Termination),
}

/// A signal to end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Termination {
    signal: UnixSignal,
    /// Whether the kernel sent it, for a terminal; else a process did.
    is_from_terminal: bool,
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
        let mut information = MaybeUninit::<libc::siginfo_t>::uninit();
        // SAFETY: all pointers are to live values, of which the kernel only writes to `information`.
        let number = unsafe { libc::sigtimedwait(self.0.as_ref(), information.as_mut_ptr(), &raw const time) };
        match Errno::result(number) {
            Ok(number) => match UnixSignal::try_from(number)? {
                UnixSignal::SIGCHLD => Ok(Some(Signal::Child)),
                signal => {
                    // SAFETY: the kernel has filled it in, since there was a signal.
                    let is_from_terminal = unsafe { information.assume_init() }.si_code == libc::SI_KERNEL;
                    Ok(Some(Signal::Terminate(Termination { signal, is_from_terminal })))
                }
            },
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(error).context("signals can't be waited for"),
        }
    }
}

/// A running command.
pub struct Command {
    pid: Pid,
    has_hung_up: bool,
}

impl Command {
    /// Starts a command in the scheduler's class, which all that it starts inherits; as the user who called sudo, if any.
    pub fn start(arguments: &[OsString], caller: Option<Caller>) -> anyhow::Result<Self> {
        let (program, rest) = arguments.split_first().context("there is no command")?;
        let mut command = process::Command::new(program);
        command.args(rest);
        if let Some(caller) = &caller {
            command.envs(caller.variables.iter().cloned());
        }
        // SAFETY: only system calls that may be made between fork and exec.
        unsafe {
            command.pre_exec(move || {
                set_class(0, SCHED_EXT)?;
                sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
                caller.as_ref().map_or(Ok(()), Caller::become_user)
            });
        }
        let child = command.spawn().with_context(|| format!("`{}` can't be started", program.to_string_lossy()))?;
        Ok(Self { pid: Pid::from_raw(child.id() as i32), has_hung_up: false })
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

    /// Passes a signal on to it, unless it has had it already: what a terminal sends, it sends to all processes in its foreground. When
    /// it hangs up, sudo sends that once more.
    pub fn pass_on(&mut self, Termination { signal, is_from_terminal }: Termination) {
        let is_hang_up = signal == UnixSignal::SIGHUP;
        let has_had_it = is_from_terminal || signal == UnixSignal::SIGINT || (is_hang_up && self.has_hung_up);
        self.has_hung_up |= is_hang_up && is_from_terminal;
        if !has_had_it {
            // It may have ended just now; that is noticed next.
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

#[cfg(test)]
mod tests {
    use super::*;
    use nix::pty::{OpenptyResult, openpty};
    use nix::unistd::{ForkResult, fork, setsid};
    use std::io::{PipeReader, Read, Write, pipe};
    use std::os::fd::AsRawFd;

    const A_MINUTE: Duration = Duration::from_secs(60);

    /// A process whose terminal this is, which writes a byte when it waits for signals, and then whether the next came from the
    /// terminal.
    fn process_of(terminal: &OpenptyResult) -> (Pid, PipeReader) {
        let (reader, mut writer) = pipe().unwrap();
        // SAFETY: the child makes system calls only, and ends without running anything of this process.
        match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => (child, reader),
            ForkResult::Child => {
                let mut follow = || -> anyhow::Result<()> {
                    setsid()?;
                    // SAFETY: the child has its own copy of the descriptor, and doesn't use it; held open, nothing would hang up.
                    Errno::result(unsafe { libc::close(terminal.master.as_raw_fd()) })?;
                    // SAFETY: the descriptor is open, and this call takes no memory of ours.
                    Errno::result(unsafe { libc::ioctl(terminal.slave.as_raw_fd(), libc::TIOCSCTTY, 0) })?;
                    let signals = Signals::block()?;
                    writer.write_all(b"r")?;
                    let byte = match signals.next(A_MINUTE)? {
                        Some(Signal::Terminate(Termination { signal: UnixSignal::SIGHUP, is_from_terminal })) => {
                            if is_from_terminal {
                                b't'
                            } else {
                                b'p'
                            }
                        }
                        _ => b'?',
                    };
                    Ok(writer.write_all(&[byte])?)
                };
                let code = i32::from(follow().is_err());
                // SAFETY: it only ends this process.
                unsafe { libc::_exit(code) }
            }
        }
    }

    #[test]
    fn a_hang_up_is_known_to_be_from_the_terminal_or_from_a_process() {
        for (from_terminal, expected) in [(true, b't'), (false, b'p')] {
            let terminal = openpty(None, None).unwrap();
            let (pid, mut reader) = process_of(&terminal);
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
            if from_terminal {
                drop(terminal.master);
            } else {
                kill(pid, UnixSignal::SIGHUP).unwrap();
            }
            reader.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [expected]);
            waitpid(pid, None).unwrap();
        }
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "Command::wait waits for them")]
    fn a_command_gets_a_hang_up_once() {
        // Where tests are started by nohup, commands would inherit that it is ignored.
        // SAFETY: no handler is set, so that nothing runs when a signal comes.
        unsafe { nix::sys::signal::signal(UnixSignal::SIGHUP, nix::sys::signal::SigHandler::SigDfl) }.unwrap();
        let start = || {
            let child = process::Command::new("sleep").arg("1000").spawn().unwrap();
            Command { pid: Pid::from_raw(child.id() as i32), has_hung_up: false }
        };
        let [terminal, process] =
            [true, false].map(|is_from_terminal| move |signal| Termination { signal, is_from_terminal });

        // The terminal's, and the one that sudo sends after it, aren't passed on: the command ends by what comes next.
        let mut command = start();
        for termination in [terminal(UnixSignal::SIGHUP), process(UnixSignal::SIGHUP), process(UnixSignal::SIGTERM)] {
            command.pass_on(termination);
        }
        assert_eq!(command.wait().unwrap(), 128 + 15);

        // One from a process is.
        let mut command = start();
        command.pass_on(process(UnixSignal::SIGHUP));
        assert_eq!(command.wait().unwrap(), 128 + 1);
    }
}
