//! Does what has to be done when we are killed ourselves: ends what a trial leaves running, since only what is traced dies with
//! us, and sets back what was set for the whole machine.
//!
//! A child of ours waits for us to end, which it sees by a pipe that only we hold. A trial is alone in its session, and all of
//! that session is killed. What has left it, as daemons do, is not found.

use crate::signals;
use crate::tracer::reap;
use machine::linux::Pid;
use nix::unistd::{self, ForkResult};
use std::io::{self, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

/// What is killed may have been creating others.
const LONGEST_ROUNDS: u32 = 200;
const BETWEEN_ROUNDS: Duration = Duration::from_millis(5);

/// Does something if we end before this is dropped.
pub(crate) struct Watchdog {
    pid: Pid,
    pipe: PipeWriter,
}

impl Watchdog {
    /// Starts to watch over the session that `leader` leads, which is killed if we end first.
    ///
    /// # Errors
    /// When there is no pipe or no process left.
    pub(crate) fn over_session(leader: Pid) -> io::Result<Self> {
        Self::start(move || kill_session(leader))
    }

    /// Starts to watch for our end; then `act` is called in a child of ours, where it should make only calls that a signal handler
    /// may make.
    ///
    /// # Errors
    /// When there is no pipe or no process left.
    pub(crate) fn start(act: impl FnOnce()) -> io::Result<Self> {
        let (ours, pipe) = io::pipe()?;
        // SAFETY: until we end, the child only makes calls that a signal handler may make.
        match unsafe { unistd::fork() }? {
            ForkResult::Parent { child } => Ok(Self { pid: Pid(child.as_raw()), pipe }),
            ForkResult::Child => {
                wait_for_end(ours.as_raw_fd());
                act();
                // SAFETY: it ends here, and nothing that we registered is to run in it.
                unsafe { libc::_exit(0) }
            }
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if self.pipe.write_all(b".").is_err() {
            signals::send(self.pid, libc::SIGKILL);
        }
        reap(self.pid.main_thread());
    }
}

/// In a child that waits for its parent: keeps nothing of its parent's but `pipe`.
pub(crate) fn stand_apart(pipe: libc::c_int) {
    // SAFETY: the calls change only this process, which uses none of the descriptors that are closed.
    unsafe {
        // Neither a key of the terminal nor a reader of our output is to wait for it, and a lock is to go when we do.
        libc::setsid();
        libc::syscall(libc::SYS_close_range, 0, pipe - 1, 0);
        libc::syscall(libc::SYS_close_range, pipe + 1, libc::c_int::MAX, 0);
    }
}

/// In the child: returns when its parent has ended, and ends with a word from it.
fn wait_for_end(pipe: libc::c_int) {
    let mut word = 0_u8;
    stand_apart(pipe);
    // SAFETY: the buffer is one byte long.
    unsafe {
        loop {
            match libc::read(pipe, (&raw mut word).cast(), 1) {
                0 => return,
                length if length > 0 => libc::_exit(0),
                _ if *libc::__errno_location() == libc::EINTR => {}
                _ => libc::_exit(1),
            }
        }
    }
}

/// Kills all of the session that `leader` leads or led, until nothing of it runs.
pub(crate) fn kill_session(leader: Pid) {
    for _ in 0..LONGEST_ROUNDS {
        let all = Pid::all();
        let running: Vec<Pid> =
            all.into_iter().filter(|pid| pid.session() == Some(leader) && !pid.is_zombie()).collect();
        if running.is_empty() {
            return;
        }
        running.into_iter().for_each(|pid| signals::send(pid, libc::SIGKILL));
        thread::sleep(BETWEEN_ROUNDS);
    }
}
