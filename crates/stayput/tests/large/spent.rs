//! What a command spends: CPU time and memory, as the kernel accounts for it when it ends.

use std::process::{Command, Stdio};

/// What one command spent.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    /// CPU time of all kinds, in seconds.
    #[allow(dead_code, reason = "tests look at memory alone")]
    pub cpu_s: f64,
    /// Largest resident set, in bytes.
    pub peak_bytes: u64,
}

impl Spent {
    /// Runs `command` to its end, without its output.
    ///
    /// # Panics
    /// When it can't be run or fails.
    #[expect(clippy::zombie_processes, reason = "wait4 waits for it, and tells what wait doesn't")]
    pub fn by(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
        // SAFETY: both pointers are valid for writing, and the child is ours and not yet waited for.
        let waited = unsafe { libc::wait4(child.id() as libc::pid_t, &raw mut status, 0, usage.as_mut_ptr()) };
        assert_eq!((waited, status), (child.id() as libc::pid_t, 0), "{command:?}");
        // SAFETY: all zeroes is a valid value, and the kernel has filled it in.
        let usage = unsafe { usage.assume_init() };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Self { cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime), peak_bytes: 1024 * usage.ru_maxrss as u64 }
    }
}
