//! The command that is scheduled, and the signals that concern it.

use crate::caller::Caller;
use anyhow::Context;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Child, ExitStatus};
use std::time::Duration;

/// The kernel's number of the class that BPF schedulers schedule; see sched(7).
pub const SCHED_EXT: i32 = 7;

/// A signal that was waited for: a child changed (SIGCHLD), or this process shall end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Received {
    /// Which one.
    pub signal: Signal,
    /// Whether the kernel sent it, for a terminal where it isn't about a child; else a process did.
    is_from_terminal: bool,
}

/// Signals that are waited for, and don't interrupt anything.
pub struct Signals(SigSet);

impl Signals {
    /// Keeps them back from now on.
    pub fn block() -> anyhow::Result<Self> {
        let set = SigSet::from_iter([Signal::SIGCHLD, Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        set.thread_block().context("signals can't be kept back")?;
        Ok(Self(set))
    }

    /// The next one; none when there was none for so long.
    pub fn next(&self, at_most: Duration) -> anyhow::Result<Option<Received>> {
        let mut information = MaybeUninit::<libc::siginfo_t>::uninit();
        let time = TimeSpec::from(at_most);
        // SAFETY: all pointers are to live values, of which the kernel only writes to `information`.
        let number = unsafe { libc::sigtimedwait(self.0.as_ref(), information.as_mut_ptr(), time.as_ref()) };
        match Errno::result(number) {
            Ok(number) => {
                // SAFETY: the kernel has filled it in, since there was a signal.
                let is_from_terminal = unsafe { information.assume_init() }.si_code == libc::SI_KERNEL;
                Ok(Some(Received { signal: Signal::try_from(number)?, is_from_terminal }))
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(error).context("signals can't be waited for"),
        }
    }
}

/// A running command.
pub struct Command {
    child: Child,
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
                SigSet::empty().thread_set_mask()?;
                caller.as_ref().map_or(Ok(()), Caller::become_user)
            });
        }
        let child = command.spawn().with_context(|| format!("`{}` can't be started", program.to_string_lossy()))?;
        Ok(Self { child, has_hung_up: false })
    }

    /// Its exit code, or 128 and the signal that ended it, as shells have it; none while it runs.
    pub fn exit_code(&mut self) -> anyhow::Result<Option<u8>> {
        Ok(self.child.try_wait().context(NOT_WAITED)?.map(exit_code))
    }

    /// The same when it has ended.
    pub fn wait(&mut self) -> anyhow::Result<u8> {
        Ok(exit_code(self.child.wait().context(NOT_WAITED)?))
    }

    /// Passes a signal on to it, unless it has had it already: what a terminal sends, it sends to all processes in its foreground. When
    /// it hangs up, sudo sends that once more.
    pub fn pass_on(&mut self, Received { signal, is_from_terminal }: Received) {
        let is_hang_up = signal == Signal::SIGHUP;
        let has_had_it = is_from_terminal || signal == Signal::SIGINT || (is_hang_up && self.has_hung_up);
        self.has_hung_up |= is_hang_up && is_from_terminal;
        if !has_had_it {
            // It may have ended just now; that is noticed next.
            let _ = kill(Pid::from_raw(self.child.id().cast_signed()), signal);
        }
    }
}

const NOT_WAITED: &str = "the command can't be waited for";

fn exit_code(status: ExitStatus) -> u8 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()) as u8
}

/// Puts a thread, 0 being the calling one, into a scheduling class.
pub fn set_class(thread: i32, class: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is to a live value.
    Ok(Errno::result(unsafe { libc::sched_setscheduler(thread, class, &raw const parameters) }).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::pty::{OpenptyResult, openpty};
    use nix::sys::wait::waitpid;
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
                        Some(Received { signal: Signal::SIGHUP, is_from_terminal }) => {
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
                kill(pid, Signal::SIGHUP).unwrap();
            }
            reader.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [expected]);
            waitpid(pid, None).unwrap();
        }
    }

    #[test]
    fn a_command_gets_a_hang_up_once() {
        // Where tests are started by nohup, commands would inherit that it is ignored.
        // SAFETY: no handler is set, so that nothing runs when a signal comes.
        unsafe { nix::sys::signal::signal(Signal::SIGHUP, nix::sys::signal::SigHandler::SigDfl) }.unwrap();
        let start =
            || Command { child: process::Command::new("sleep").arg("1000").spawn().unwrap(), has_hung_up: false };
        let [terminal, process] =
            [true, false].map(|is_from_terminal| move |signal| Received { signal, is_from_terminal });

        // The terminal's, and the one that sudo sends after it, aren't passed on: the command ends by what comes next.
        let mut command = start();
        for termination in [terminal(Signal::SIGHUP), process(Signal::SIGHUP), process(Signal::SIGTERM)] {
            command.pass_on(termination);
        }
        assert_eq!(command.wait().unwrap(), 128 + 15);

        // One from a process is.
        let mut command = start();
        command.pass_on(process(Signal::SIGHUP));
        assert_eq!(command.wait().unwrap(), 128 + 1);
    }
}
