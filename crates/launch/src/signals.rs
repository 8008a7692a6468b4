//! Signals that reach us while a program runs.
//!
//! A handler writes each into a pipe that the event loop polls. A signalfd would be less code, but it needs the signals
//! blocked in every thread of the process, which a library can't ask of its caller.

use crate::interruption;
use machine::linux::Pid;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Where the handler writes to; -1 while nothing is caught.
static SINK: AtomicI32 = AtomicI32::new(-1);

/// Signals by which a write can end a process, and whether our own parent had us started with them ignored.
static OF_WRITES: [(libc::c_int, AtomicBool); 2] =
    [(libc::SIGPIPE, AtomicBool::new(false)), (libc::SIGXFSZ, AtomicBool::new(false))];

extern "C" fn record_signals_of_writes() {
    for (signal, was_ignored) in &OF_WRITES {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: with no new action the call only fills `action`, which is valid for writing.
        let result = unsafe { libc::sigaction(*signal, ptr::null(), action.as_mut_ptr()) };
        // SAFETY: zeroed is a valid `sigaction`, and the call has at most filled it.
        let ignored = unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN;
        was_ignored.store(result == 0 && ignored, Ordering::Relaxed);
    }
}

// Before `main`, Rust's runtime sets SIGPIPE to be ignored; constructors run before that.
// SAFETY: the section holds pointers to functions that the loader calls once, which is what is put there.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD_SIGNALS_OF_WRITES: extern "C" fn() = record_signals_of_writes;

/// From now on a write that can't be done fails, and ends nothing: to a pipe that nobody reads, or beyond a limit on the size of
/// files. Programs that are started get what this process was started with.
pub fn fail_writes_by_errors() {
    for (signal, _) in &OF_WRITES {
        // SAFETY: ignoring a signal runs no code of ours.
        unsafe { libc::signal(*signal, libc::SIG_IGN) };
    }
}

/// Gives the signals by which a write can end a process the dispositions that this process was started with: for what takes its
/// place.
pub fn restore_signals_of_writes() {
    for (signal, was_ignored) in &OF_WRITES {
        if !was_ignored.load(Ordering::Relaxed) {
            // SAFETY: the default disposition runs no code of ours.
            unsafe { libc::signal(*signal, libc::SIG_DFL) };
        }
    }
}

/// Ends this process as SIGPIPE does, since nobody reads what it writes any more; returns if it was started with that ignored.
pub fn end_without_reader() {
    let [(signal, was_ignored), _] = &OF_WRITES;
    if !was_ignored.load(Ordering::Relaxed) {
        die_by(*signal);
    }
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) signal: libc::c_int,
    /// Whether a process sent it to us; else the kernel did, for example for a key pressed in the terminal, and then
    /// the program got it as well.
    pub(crate) sent: bool,
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: errno is this thread's own; with SA_SIGINFO `info` points to the signal's information; `write` is
    // async-signal-safe and gets a live two-byte buffer. A full pipe is fine: the reader is awake already.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        // The kernel's own reasons are above 0; kill(2), sigqueue(3) and the like are 0 or below.
        let message = [signal as u8, u8::from((*info).si_code <= 0)];
        libc::write(SINK.load(Ordering::Relaxed), message.as_ptr().cast(), message.len());
        *errno = saved;
    }
    // It may come when the program has ended and nobody looks into the pipe any more.
    interruption::note(signal);
}

/// Signals that would end or stop a process and that someone may send to us meaning the program.
fn forwarded() -> impl Iterator<Item = libc::c_int> {
    const OTHER: [libc::c_int; 11] = [
        // Can't be caught.
        libc::SIGKILL,
        libc::SIGSTOP,
        // Ours to know: a child changed its state.
        libc::SIGCHLD,
        // Our own faults.
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
        libc::SIGABRT,
        libc::SIGPIPE,
    ];
    // The C library keeps the signals between the standard ones and SIGRTMIN for itself.
    (1..32).chain(libc::SIGRTMIN()..=libc::SIGRTMAX()).filter(|signal| !OTHER.contains(signal))
}

/// Signals by which someone wants a whole study to end.
pub(crate) const INTERRUPTING: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// In a signal's place: what a run is one of is over, and so is this run. No signal has this number.
pub(crate) const CUT_SHORT: libc::c_int = 0;

/// The dispositions and the mask that we were started with, as far as catching changed them.
#[derive(Clone)]
pub(crate) struct Inherited {
    dispositions: Vec<(libc::c_int, libc::sigaction)>,
    mask: SigSet,
}

impl Inherited {
    pub(crate) fn restore(&self) {
        for (signal, disposition) in &self.dispositions {
            restore(*signal, disposition);
        }
        let _ = self.mask.thread_set_mask();
    }

    /// In a child that has our handlers: gives every signal what we were started with, before Rust's runtime too.
    pub(crate) fn restore_in_child(&self) {
        restore_signals_of_writes();
        self.restore();
    }
}

/// Signals caught from construction to drop.
pub(crate) struct Caught {
    inherited: Inherited,
    arrivals: PipeReader,
    _sink: PipeWriter,
    /// Whether SIGCONT means the program as well, and is given to whoever takes signals.
    forwards: bool,
    /// SIGCONT has arrived since it was last asked for.
    continued: bool,
}

impl Caught {
    /// Catches SIGCHLD and either all signals that can be forwarded or only those that interrupt.
    ///
    /// A signal that was ignored before stays ignored. There must be no other `Caught` at the time.
    ///
    /// # Errors
    /// When no pipe can be made.
    pub(crate) fn new(to_forward: bool) -> io::Result<Self> {
        let (arrivals, sink) = io::pipe()?;
        for end in [arrivals.as_raw_fd(), sink.as_raw_fd()] {
            // SAFETY: the descriptor is open, and the call changes only its flags.
            unsafe { libc::fcntl(end, libc::F_SETFL, libc::O_NONBLOCK) };
        }
        SINK.store(sink.as_raw_fd(), Ordering::Relaxed);
        let mut caught = Self {
            inherited: Inherited { dispositions: Vec::with_capacity(64), mask: SigSet::empty() },
            arrivals,
            _sink: sink,
            forwards: to_forward,
            continued: false,
        };
        // The program may have been started with SIGCHLD ignored or blocked; we need it.
        caught.catch(libc::SIGCHLD, true);
        if to_forward {
            forwarded().for_each(|signal| caught.catch(signal, false));
        } else {
            INTERRUPTING.into_iter().for_each(|signal| caught.catch(signal, false));
            // Whoever ignores it is continued all the same.
            caught.catch(libc::SIGCONT, true);
        }
        let mut ours = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both sets are valid for writing, are initialised by the calls, and outlive them.
        caught.inherited.mask = unsafe {
            libc::sigemptyset(ours.as_mut_ptr());
            libc::sigemptyset(before.as_mut_ptr());
            for (signal, _) in &caught.inherited.dispositions {
                libc::sigaddset(ours.as_mut_ptr(), *signal);
            }
            libc::pthread_sigmask(libc::SIG_UNBLOCK, ours.as_ptr(), before.as_mut_ptr());
            SigSet::from_sigset_t_unchecked(before.assume_init())
        };
        Ok(caught)
    }

    fn catch(&mut self, signal: libc::c_int, even_if_ignored: bool) {
        let Some(previous) = install(signal, on_signal, libc::SA_RESTART) else { return };
        if previous.sa_sigaction == libc::SIG_IGN && !even_if_ignored {
            restore(signal, &previous);
        } else {
            self.inherited.dispositions.push((signal, previous));
        }
    }

    /// What becomes readable when a signal has arrived.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.arrivals.as_fd()
    }

    /// Takes the signals that have arrived, but for SIGCHLD, which only wakes.
    pub(crate) fn take(&mut self) -> Vec<Arrival> {
        let mut buffer = [0; 512];
        let mut taken = Vec::new();
        while let Ok(length) = self.arrivals.read(&mut buffer) {
            let (messages, _) = buffer[..length].as_chunks();
            taken.extend(messages.iter().map(|&[signal, sent]| Arrival { signal: signal.into(), sent: sent != 0 }));
            if length < buffer.len() {
                break;
            }
        }
        self.continued |= taken.iter().any(|arrival| arrival.signal == libc::SIGCONT);
        let is_ours = |signal| signal == libc::SIGCHLD || (signal == libc::SIGCONT && !self.forwards);
        taken.retain(|arrival| !is_ours(arrival.signal));
        taken
    }

    /// Whether SIGCONT was among the signals that were taken since this was last asked.
    pub(crate) fn take_continued(&mut self) -> bool {
        std::mem::take(&mut self.continued)
    }

    /// What to restore in a child.
    pub(crate) fn inherited(&self) -> Inherited {
        self.inherited.clone()
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        self.inherited.restore();
        SINK.store(-1, Ordering::Relaxed);
    }
}

/// SIGCHLD blocked in this thread, but for [waits](crate::events::Events::wait): otherwise its handler would run at each change of
/// a tracee, though nobody sleeps.
pub(crate) struct SigchldBlocked(Option<SigSet>);

impl SigchldBlocked {
    pub(crate) fn new() -> Self {
        let mut set = SigSet::empty();
        set.add(Signal::SIGCHLD);
        Self(set.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok())
    }
}

impl Drop for SigchldBlocked {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = before.thread_set_mask();
        }
    }
}

/// The mask of this thread, without SIGCHLD.
pub(crate) fn mask_of_waits() -> Option<SigSet> {
    let mut mask = SigSet::thread_get_mask().ok()?;
    mask.remove(Signal::SIGCHLD);
    Some(mask)
}

/// A function that runs when a signal arrives; it may only do what is async-signal-safe.
type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// Has `handler` called for `signal`, with all others blocked meanwhile; gives what was in place. None when the kernel refuses.
pub(crate) fn install(signal: libc::c_int, handler: Handler, flags: libc::c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeroed is a valid `sigaction`; its fields are set before the kernel reads them; the handler only
    // does what a handler may; `previous` is filled by a call that succeeded.
    unsafe {
        let new = &mut *action.as_mut_ptr();
        new.sa_sigaction = handler as *const () as libc::sighandler_t;
        new.sa_flags = libc::SA_SIGINFO | flags;
        libc::sigfillset(&mut new.sa_mask);
        (libc::sigaction(signal, new, previous.as_mut_ptr()) == 0).then(|| previous.assume_init())
    }
}

/// Puts back what was in place for `signal`.
pub(crate) fn restore(signal: libc::c_int, previous: &libc::sigaction) {
    // SAFETY: `previous` is what the kernel had told us was in place.
    unsafe { libc::sigaction(signal, previous, ptr::null_mut()) };
}

/// Ends this process by `signal`, so that whoever waits for it sees what it would have seen of the program.
///
/// The program has left its core dump; a second one, ours, is prevented.
pub fn die_by(signal: i32) -> ! {
    // SAFETY: each call changes only this process, which ends here; the set is initialised before its use.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut());
        libc::raise(signal);
    }
    // A signal whose default is to do nothing; shells report 128 + n.
    std::process::exit(128 + signal)
}

/// Whether we may send signals to `pid`, and so may bind it, too.
pub(crate) fn may_send(pid: Pid) -> bool {
    // SAFETY: signal 0 delivers nothing.
    unsafe { libc::kill(pid.0, 0) == 0 }
}

/// Sends `signal` to a process. That it is gone already is no error: it is what a race looks like.
pub(crate) fn send(pid: Pid, signal: libc::c_int) {
    // SAFETY: sending a signal touches no memory of ours.
    unsafe { libc::kill(pid.0, signal) };
}

/// Stops this process, as the program has been stopped; returns once someone continues it.
pub(crate) fn stop_ourselves() {
    // SAFETY: raising a signal touches no memory of ours.
    unsafe { libc::raise(libc::SIGSTOP) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_was_sent_arrives_and_the_disposition_is_restored() {
        let handler_of = |signal| {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: the call only fills `action`.
            unsafe {
                libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
                action.assume_init().sa_sigaction
            }
        };
        let before = handler_of(libc::SIGUSR2);
        let mut caught = Caught::new(true).unwrap();
        // SAFETY: the signal is caught.
        unsafe { libc::raise(libc::SIGUSR2) };
        assert_eq!(caught.take(), [Arrival { signal: libc::SIGUSR2, sent: true }]);
        drop(caught);
        assert_eq!(handler_of(libc::SIGUSR2), before);
    }

    #[test]
    fn what_cannot_be_meant_for_the_program_is_not_forwarded() {
        let forwarded: Vec<_> = forwarded().collect();
        assert!(forwarded.contains(&libc::SIGTERM) && forwarded.contains(&libc::SIGRTMIN()));
        for signal in [libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD, libc::SIGSEGV] {
            assert!(!forwarded.contains(&signal), "{signal}");
        }
    }
}
