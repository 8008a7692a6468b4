//! The terminal: taken, and given back whatever happens.
//!
//! [`guard`] makes two processes of this one. The child does all the work and owns the screen; the parent only waits, and gives
//! the terminal back where the child can't, being killed. What the command writes goes into files that both have.

use nix::sys::signal::{SigHandler, Signal, kill, raise, signal};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork};
use ratatui::crossterm::{cursor, execute, terminal as screen};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

/// The process that owns the screen, for signals that its guardian gets; 0 is none.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// What is written while the screen is shown, and how far it was passed on.
struct Collected {
    file: File,
    passed_on: u64,
}

impl Collected {
    fn new() -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile()?, passed_on: 0 })
    }

    /// Writes what has come since to `to`.
    fn pass_on(&mut self, to: &mut dyn Write) -> io::Result<()> {
        let mut bytes = [0; 64 * 1024];
        loop {
            let length = self.file.read_at(&mut bytes, self.passed_on)?;
            if length == 0 {
                return to.flush();
            }
            to.write_all(&bytes[..length])?;
            self.passed_on += length as u64;
        }
    }
}

/// Standard output and standard error as they were, and what is written in their place meanwhile.
pub struct Streams {
    own: [OwnedFd; 3],
    collected: [Collected; 2],
}

impl Streams {
    /// Passes on what was written so far to where it was meant to go, each stream to its own.
    ///
    /// # Errors
    /// What reading or writing failed by.
    pub fn pass_on(&mut self) -> io::Result<()> {
        let [_, stdout, stderr] = &self.own;
        let [written_out, written_err] = &mut self.collected;
        written_out.pass_on(&mut File::from(stdout.try_clone()?))?;
        written_err.pass_on(&mut File::from(stderr.try_clone()?))
    }

    /// Puts files in the place of the streams, and nothing in that of the input, for us and whatever we start.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn collect(&self) -> io::Result<()> {
        io::stdout().flush()?;
        dup2_stdin(File::open("/dev/null")?)?;
        dup2_stdout(&self.collected[0].file)?;
        dup2_stderr(&self.collected[1].file)?;
        Ok(())
    }

    /// Gives the streams back to ourselves; what was started keeps its files.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn give_back(&self) -> io::Result<()> {
        io::stdout().flush()?;
        dup2_stdin(&self.own[0])?;
        dup2_stdout(&self.own[1])?;
        dup2_stderr(&self.own[2])?;
        Ok(())
    }

    /// Standard error as it was.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn error(&self) -> io::Result<OwnedFd> {
        self.own[2].try_clone()
    }

    /// The terminal, to draw on.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn terminal(&self) -> io::Result<File> {
        Ok(File::from(self.own[1].try_clone()?))
    }
}

extern "C" fn pass_to_child(signal: libc::c_int) {
    let child = CHILD.load(Ordering::Relaxed);
    if child > 0 {
        // SAFETY: kill(2) may be called in a handler, and the child is not reaped before the handler is gone.
        unsafe { libc::kill(child, signal) };
    }
}

/// Returns in a child process with what it needs. Its parent never returns: it ends as the child does, and gives the terminal
/// back where a signal ended that one.
///
/// This must be called before there is any other thread.
///
/// # Errors
/// What the kernel said.
pub fn guard() -> io::Result<Streams> {
    let own = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned();
    let own = [own(&io::stdin())?, own(&io::stdout())?, own(&io::stderr())?];
    let streams = Streams { own, collected: [Collected::new()?, Collected::new()?] };
    let before = tcgetattr(io::stdout())?;
    let parent = nix::unistd::getpid();
    // SAFETY: there is no other thread yet, so that the child has all that it would find otherwise.
    match unsafe { fork() }? {
        ForkResult::Child => {
            // When the guardian is killed, the one who owns the screen gives it back.
            nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
            if nix::unistd::getppid() != parent {
                return Err(io::Error::other("the guardian of the terminal has ended"));
            }
            Ok(streams)
        }
        ForkResult::Parent { child } => watch_over(child, &before, streams),
    }
}

fn watch_over(child: Pid, before: &Termios, mut streams: Streams) -> ! {
    // Who ends all processes that are called as we are shall not end this one with them.
    let _ = nix::sys::prctl::set_name(c"screen-guardian");
    CHILD.store(child.as_raw(), Ordering::Relaxed);
    for interrupting in [Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler calls only what a handler may.
        let _ = unsafe { signal(interrupting, SigHandler::Handler(pass_to_child)) };
    }
    for keyed in [Signal::SIGINT, Signal::SIGQUIT] {
        // SAFETY: nothing is run. The child is in the same process group, and gets what a terminal sends.
        let _ = unsafe { signal(keyed, SigHandler::SigIgn) };
    }
    let status = loop {
        match waitpid(child, Some(WaitPidFlag::empty())) {
            Err(nix::errno::Errno::EINTR) => {}
            status => break status,
        }
    };
    CHILD.store(0, Ordering::Relaxed);
    match status {
        Ok(WaitStatus::Exited(_, code)) => std::process::exit(code),
        Ok(WaitStatus::Signaled(_, signal, _)) => {
            let has_screen = tcgetattr(io::stdout()).is_ok_and(|now| {
                now.local_flags.contains(LocalFlags::ICANON) != before.local_flags.contains(LocalFlags::ICANON)
            });
            let _ = tcsetattr(io::stdout(), SetArg::TCSANOW, before);
            if has_screen {
                let _ = execute!(io::stdout(), screen::LeaveAlternateScreen, cursor::Show);
            }
            let _ = streams.pass_on();
            terminal::eprintln!("stayput: the view was ended by {}; there is no profile", signal.as_str());
            launch::die_by(signal as i32)
        }
        _ => std::process::exit(i32::from(crate::FAILURE)),
    }
}

/// Where the screen is while it is ours, for a panic.
static TAKEN: Mutex<Option<File>> = Mutex::new(None);

/// Takes the screen, so that what is on it comes back.
///
/// # Errors
/// What the terminal failed by.
pub fn take(mut on: File) -> io::Result<()> {
    screen::enable_raw_mode()?;
    if let Ok(mut taken) = TAKEN.lock() {
        *taken = Some(on.try_clone()?);
    }
    execute!(on, screen::EnterAlternateScreen, cursor::Hide)
}

/// Gives it back, if it is ours.
pub fn give_back() {
    let taken = TAKEN.lock().ok().and_then(|mut taken| taken.take());
    if let Some(mut on) = taken {
        // Who doesn't take it back can't be told so either.
        let _ = execute!(on, screen::LeaveAlternateScreen, cursor::Show);
        let _ = screen::disable_raw_mode();
    }
}

/// Stops us and the command, as Ctrl-Z does, until the shell continues both.
///
/// # Errors
/// What the terminal failed by.
pub fn suspend(on: File) -> io::Result<()> {
    give_back();
    // The group's signal might stop us by another thread, while this one takes the screen again: we stop ourselves.
    // SAFETY: no handler is set.
    let former = unsafe { signal(Signal::SIGTSTP, SigHandler::SigIgn) }?;
    let sent = signal_group(Signal::SIGTSTP);
    // SAFETY: it is what was set before.
    unsafe { signal(Signal::SIGTSTP, former) }?;
    sent?;
    // To this thread: it stops before the call returns.
    raise(Signal::SIGTSTP)?;
    take(on)
}

/// What a terminal sends when such a key is pressed.
///
/// # Errors
/// What the kernel said.
pub fn signal_group(signal: Signal) -> io::Result<()> {
    Ok(kill(Pid::from_raw(0), signal)?)
}
