//! A process that starts a command or a worker of ours, and ends it with all that it started: when it is told to, or when we are gone.
//!
//! Its orphans come to the supervisor, however they left it (it is a subreaper), so what has become a daemon is found
//! as well. It learns of our end by a socket that only we hold, also when we are killed. It is a child of a thread that does
//! nothing but wait for it: waits of the thread that watches a program (`__WNOTHREAD`) then neither see it, nor count what it used,
//! and it is no orphan of the program's.

use crate::LaunchError;
use crate::child::Program;
use crate::tracer::reap;
use crate::watchdog::kill_session;
use machine::linux::Pid;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{self, ForkResult};
use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::mem::{self, MaybeUninit};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::ptr;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// No more of its last words is quoted, in characters.
const MOST_SAID: usize = 200;

/// How much is kept of what the command last wrote to standard error.
const SAID_BYTES: usize = 512;

/// For so long what doesn't end is killed again and again. Only what hangs in the kernel, or has another user's rights, lasts longer.
const LONGEST_KILL: Duration = Duration::from_secs(10);

/// Between two rounds in which nothing ended.
const BETWEEN_ROUNDS_MS: libc::c_int = 10;

/// What a supervisor starts.
pub(crate) enum Charge {
    /// A program with these arguments, in a session of its own. It reads nothing, what it writes to standard output is dropped, and its
    /// signals have their default dispositions.
    Command(PathBuf, Vec<OsString>),
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

/// The exit code of a worker that panicked.
const PANICKED: libc::c_int = 101;

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
        let path = if let Charge::Command(path, _) = &charge { path.clone() } else { PathBuf::new() };
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

/// There is a process that will be the command; the status is its number.
const FORKED: u32 = 1;
/// The command runs.
const STARTED: u32 = 2;
/// The command could not be executed; the status is the cause.
const REFUSED: u32 = 3;
/// The command has ended.
const ENDED: u32 = 4;

/// What the supervisor tells us, as bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct Report {
    kind: u32,
    status: libc::c_int,
    ran_ns: u64,
    /// Zeros where less was said.
    said: [u8; SAID_BYTES],
}

/// Starts the supervisor, as a child of the calling thread, all of whose signals are blocked.
fn start_process(charge: Charge, channel: UnixStream) -> Result<Pid, LaunchError> {
    let body = match charge {
        Charge::Command(path, argv) => Body::Program(Program::new(&path, &argv, env::vars_os())?),
        Charge::Worker(mut worker) => {
            worker.needs.sort_unstable();
            Body::Worker(worker)
        }
    };
    let mut needs = vec![channel.as_raw_fd()];
    if let Body::Worker(worker) = &body {
        needs.extend(&worker.needs);
        needs.sort_unstable();
    }
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
    Program(Program),
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
            Body::Program(program) => program,
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
