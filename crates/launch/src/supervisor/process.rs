//! The supervisor's own process: its life from the fork to the end of all that it has started.

use super::{Charge, LONGEST_KILL, Worker};
use crate::LaunchError;
use crate::child::Program;
use machine::linux::Pid;
use nix::errno::Errno;
use nix::unistd::{self, ForkResult};
use std::env;
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;

/// How much is kept of what the command last wrote to standard error.
const SAID_BYTES: usize = 512;

/// Between two rounds in which nothing ended.
const BETWEEN_ROUNDS_MS: libc::c_int = 10;

/// The exit code of a worker that panicked.
const PANICKED: libc::c_int = 101;

/// There is a process that will be the command; the status is its number.
pub(super) const FORKED: u32 = 1;
/// The command runs.
pub(super) const STARTED: u32 = 2;
/// The command could not be executed; the status is the cause.
const REFUSED: u32 = 3;
/// The command has ended.
const ENDED: u32 = 4;

/// What the supervisor tells us, as bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Report {
    pub(super) kind: u32,
    pub(super) status: libc::c_int,
    pub(super) ran_ns: u64,
    /// Zeros where less was said.
    pub(super) said: [u8; SAID_BYTES],
}

/// Starts the supervisor, as a child of the calling thread, all of whose signals are blocked.
pub(super) fn start_process(charge: Charge, channel: UnixStream) -> Result<Pid, LaunchError> {
    let body = match charge {
        Charge::Command(path, argv) => Body::Program(Program::new(&path, &argv, env::vars_os())?, None),
        Charge::Logged(path, argv, variables, output) => {
            let is_ours = |(name, _): &(OsString, OsString)| variables.iter().all(|(other, _)| other != name);
            let environment: Vec<_> = env::vars_os().filter(is_ours).chain(variables.iter().cloned()).collect();
            Body::Program(Program::new(&path, &argv, environment)?, Some(output))
        }
        Charge::Worker(mut worker) => {
            worker.needs.sort_unstable();
            Body::Worker(worker)
        }
    };
    let mut needs = vec![channel.as_raw_fd()];
    match &body {
        Body::Worker(worker) => needs.extend(&worker.needs),
        Body::Program(_, output) => needs.extend(output),
    }
    needs.sort_unstable();
    // SAFETY: the child makes calls that a signal handler may make, until there is a child of its own, and never returns.
    match unsafe { unistd::fork() } {
        Ok(ForkResult::Parent { child }) => Ok(Pid(child.as_raw())),
        // SAFETY: as above: this is the only thread of the child, and the channel is open.
        Ok(ForkResult::Child) => unsafe { supervise(body, channel.as_raw_fd(), &needs) },
        Err(errno) => Err(LaunchError::system("fork")(errno)),
    }
}

/// What the first process becomes or does.
enum Body {
    /// It writes all to the descriptor, if there is one.
    Program(Program, Option<RawFd>),
    Worker(Worker),
}

/// Closes all descriptors but the standard ones and those that are needed, which ascend.
///
/// # Safety
/// This process uses none of those that are closed.
unsafe fn close_all_but(needs: &[RawFd]) {
    let mut first: RawFd = 3;
    for last in needs.iter().map(|needed| needed - 1).chain([RawFd::MAX]) {
        if first <= last {
            // SAFETY: as for this function.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
        first = first.max(last.saturating_add(2));
    }
}

/// The end of what was written to a pipe.
struct LastWords {
    pipe: RawFd,
    said: [u8; SAID_BYTES],
}

impl LastWords {
    /// Takes what is in the pipe now, but so much at a time that a writer that never stops can't keep us here.
    ///
    /// # Safety
    /// The pipe is open and doesn't block.
    unsafe fn drain(&mut self) {
        let mut buffer = [0_u8; 16 << 10];
        for _ in 0..16 {
            // SAFETY: the buffer is as long as is said.
            let length = unsafe { libc::read(self.pipe, buffer.as_mut_ptr().cast(), buffer.len()) };
            match usize::try_from(length) {
                Ok(0) => {
                    // poll(2) passes over it.
                    self.pipe = -1;
                    return;
                }
                Ok(length) => {
                    let new = &buffer[..length.min(buffer.len())];
                    let new = &new[new.len().saturating_sub(SAID_BYTES)..];
                    self.said.copy_within(new.len().., 0);
                    self.said[SAID_BYTES - new.len()..].copy_from_slice(new);
                }
                Err(_) => return,
            }
        }
    }
}

/// The supervisor's life: starts the program, tells when it has ended, and kills all of it when the channel closes.
///
/// # Safety
/// The caller is the only thread of a process that was forked for this, with all signals blocked and `channel` open.
unsafe fn supervise(body: Body, channel: RawFd, needs: &[RawFd]) -> ! {
    // SAFETY: the calls are async-signal-safe and change only this process, which uses none of the descriptors that are closed;
    // what they get pointers to lives until they return.
    unsafe {
        // Neither a key of the terminal nor a reader of our output is to wait for it, and a lock is to go when we do.
        libc::setsid();
        close_all_but(needs);
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for standard in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            libc::dup2(nothing, standard);
        }
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1 as libc::c_ulong);
        libc::prctl(libc::PR_SET_NAME, c"stayput-beside".as_ptr());
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        let changes = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        let (mut errors, mut refusal, mut gate) = ([-1; 2], [-1; 2], [-1; 2]);
        libc::pipe2(errors.as_mut_ptr(), libc::O_CLOEXEC);
        libc::pipe2(refusal.as_mut_ptr(), libc::O_CLOEXEC);
        libc::pipe2(gate.as_mut_ptr(), libc::O_CLOEXEC);
        libc::fcntl(errors[0], libc::F_SETFL, libc::O_NONBLOCK);
        let own = libc::getpid();
        let first = match libc::fork() {
            0 => {
                libc::close(gate[1]);
                become_charge(body, own, gate[0], errors[1], refusal[1])
            }
            first => first,
        };
        let mut report = Report { kind: FORKED, status: first, ran_ns: 0, said: [0; SAID_BYTES] };
        if first < 0 {
            (report.kind, report.status) = (REFUSED, *libc::__errno_location());
        } else {
            tell(channel, &report);
            // What it is comes after we have told who it is.
            libc::write(gate[1], (&raw const first).cast(), size_of_val(&first));
            for end in [gate[0], gate[1], errors[1], refusal[1]] {
                libc::close(end);
            }
            // Whoever waits for a worker to hang up isn't to wait for us.
            for needed in needs.iter().filter(|needed| **needed != channel) {
                libc::close(*needed);
            }
            report.kind = STARTED;
            if let Some(errno) = read_number(refusal[0]) {
                (report.kind, report.status) = (REFUSED, errno);
            }
        }
        tell(channel, &report);
        if report.kind == STARTED {
            watch(first, channel, changes, LastWords { pipe: errors[0], said: report.said });
        }
        kill_all(changes);
        libc::_exit(0)
    }
}

/// The first process until it is the command or begins to work, which is when the gate opens.
///
/// # Safety
/// As for [`supervise`], in a child of its own.
unsafe fn become_charge(body: Body, parent: libc::pid_t, gate: RawFd, errors: RawFd, refusal: RawFd) -> ! {
    // SAFETY: as there.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // The parent may have been killed before that was asked for.
        if read_number(gate).is_none() || libc::getppid() != parent {
            libc::_exit(127);
        }
        libc::dup2(errors, libc::STDERR_FILENO);
        let program = match body {
            Body::Program(program, output) => {
                if let Some(output) = output {
                    libc::dup2(output, libc::STDOUT_FILENO);
                    libc::dup2(output, libc::STDERR_FILENO);
                }
                program
            }
            Body::Worker(worker) => {
                close_all_but(&worker.needs);
                let is_done = panic::catch_unwind(AssertUnwindSafe(worker.work)).is_ok();
                libc::_exit(if is_done { 0 } else { PANICKED })
            }
        };
        // The C library keeps those between for itself.
        for signal in (1..32).chain(libc::SIGRTMIN()..=libc::SIGRTMAX()) {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = MaybeUninit::<libc::sigset_t>::zeroed();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
        let errno = program.execute();
        libc::write(refusal, (&raw const errno).cast(), size_of_val(&errno));
        libc::_exit(127)
    }
}

/// The number that is written to a pipe; none if that is closed instead.
///
/// # Safety
/// The pipe is open.
unsafe fn read_number(pipe: RawFd) -> Option<libc::c_int> {
    let mut number: libc::c_int = 0;
    loop {
        // SAFETY: the number is as long as is said.
        let length = unsafe { libc::read(pipe, (&raw mut number).cast(), size_of_val(&number)) };
        if length >= 0 || Errno::last_raw() != libc::EINTR {
            return (usize::try_from(length) == Ok(size_of_val(&number))).then_some(number);
        }
    }
}

/// Tells of the command's end when it comes; returns when the channel closes.
///
/// # Safety
/// As for [`supervise`].
unsafe fn watch(first: libc::pid_t, channel: RawFd, changes: RawFd, mut words: LastWords) {
    let mut report = Report { kind: ENDED, status: 0, ran_ns: 0, said: [0; SAID_BYTES] };
    let (mut has_ended, mut is_told) = (false, false);
    // SAFETY: the descriptors are open, and what the calls get pointers to lives until they return.
    unsafe {
        let began_ns = now_ns();
        loop {
            let polled = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let mut polled = [polled(channel), polled(changes), polled(words.pipe)];
            libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1);
            let [ours, changed, written] = polled.map(|polled| polled.revents != 0);
            if written {
                words.drain();
            }
            if ours {
                return;
            }
            if !changed {
                continue;
            }
            drain(changes);
            let is_alone = loop {
                let mut status = 0;
                match libc::waitpid(-1, &mut status, libc::WNOHANG | libc::__WALL) {
                    -1 => break true,
                    0 => break false,
                    pid if pid == first => (has_ended, report.status) = (true, status),
                    _ => {}
                }
            };
            // One that ended well and left others behind has become a daemon.
            if has_ended && !is_told && (is_alone || report.status != 0) {
                is_told = true;
                report.ran_ns = now_ns().saturating_sub(began_ns);
                words.drain();
                report.said = words.said;
                tell(channel, &report);
            }
        }
    }
}

/// # Safety
/// The channel is open.
unsafe fn tell(channel: RawFd, report: &Report) {
    // SAFETY: the report is as long as is said. Whoever doesn't read it any more is gone, which is seen when the channel is.
    unsafe { libc::send(channel, ptr::from_ref(report).cast(), size_of::<Report>(), libc::MSG_NOSIGNAL) };
}

/// Takes the notes of children that have changed: that there are any is all that they say.
///
/// # Safety
/// The descriptor is open and doesn't block.
unsafe fn drain(changes: RawFd) {
    let mut buffer = [0_u8; 2 * size_of::<libc::signalfd_siginfo>()];
    // SAFETY: the buffer is as long as is said.
    while unsafe { libc::read(changes, buffer.as_mut_ptr().cast(), buffer.len()) } > 0 {}
}

fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Kills our children with their groups, and what comes to us by that, until there is nothing more.
///
/// # Safety
/// As for [`supervise`].
unsafe fn kill_all(changes: RawFd) {
    let began_ns = now_ns();
    // SAFETY: the calls get pointers to what lives until they return. A child that was not waited for keeps its number, so it and its
    // group are ours: a group is within a session, and the command began one of its own.
    unsafe {
        let own_group = libc::getpgrp();
        while now_ns() - began_ns < LONGEST_KILL.as_nanos() as u64 {
            for_each_child(|child| {
                let group = libc::getpgid(child);
                if group > 1 && group != own_group {
                    // All at once: no member has the time to create another.
                    libc::kill(-group, libc::SIGKILL);
                }
                libc::kill(child, libc::SIGKILL);
            });
            loop {
                match libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG | libc::__WALL) {
                    -1 => return,
                    0 => break,
                    _ => {}
                }
            }
            let mut polled = libc::pollfd { fd: changes, events: libc::POLLIN, revents: 0 };
            libc::poll(&mut polled, 1, BETWEEN_ROUNDS_MS);
            drain(changes);
        }
    }
}

/// Calls `visit` with our children, or with the first of very many.
///
/// # Safety
/// This process has one thread.
unsafe fn for_each_child(visit: impl Fn(libc::pid_t)) {
    let mut list = [0_u8; 4096];
    // SAFETY: the list is as long as is said.
    let length = unsafe {
        let file = libc::open(c"/proc/thread-self/children".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            // The kernel keeps no such lists (CONFIG_PROC_CHILDREN). This takes memory, which the C library allows after a fork.
            let own = Pid(libc::getpid());
            return Pid::all().into_iter().filter(|pid| pid.parent() == Some(own)).for_each(|pid| visit(pid.0));
        }
        let length = libc::read(file, list.as_mut_ptr().cast(), list.len());
        libc::close(file);
        usize::try_from(length).unwrap_or(0)
    };
    let mut child: libc::pid_t = 0;
    // Each number has a space after it, so that one that was cut is not taken.
    for byte in &list[..length.min(list.len())] {
        if byte.is_ascii_digit() {
            child = child.wrapping_mul(10).wrapping_add(libc::pid_t::from(byte - b'0'));
        } else if child > 0 {
            visit(child);
            child = 0;
        }
    }
}
