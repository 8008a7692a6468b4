//! The program that loads a sched_ext scheduler: started, waited for, and ended with all that it has started.
//!
//! It is a child of a thread of its own, which lives as long as it does. So nobody who waits for the program's processes is told of
//! it, what it leaves is not the program's, and it is killed when we are (`PR_SET_PDEATHSIG` means the thread). It leads a session,
//! so that no key of the terminal reaches it, and its orphans stay below it.

use crate::signals;
use crate::watchdog::{self, Watchdog};
use anstream::adapter::strip_str;
use machine::linux::Pid;
use nix::errno::Errno;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long it may take to unload its scheduler and end.
const LONGEST_END: Duration = Duration::from_secs(5);

/// How long it takes at most until what it had printed has arrived.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// So much of a line is read at a time.
const LONGEST_LINE: u64 = 4096;

/// How it ended, in words.
type Ending = String;

/// A running loader; dropped, it is ended with all that it has started.
pub(super) struct Loader {
    pid: Pid,
    ended: Receiver<Ending>,
    /// Once it was received.
    ending: Option<Ending>,
    last_line: Arc<Mutex<String>>,
    /// Hangs up when all that it printed has been read.
    printed: Receiver<()>,
    /// Dropped, it lets the keeper reap it: until then its id is given to nobody else.
    to_reap: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
    _watchdog: Option<Watchdog>,
}

impl Loader {
    /// Starts it; `words` are a program and its arguments.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start(words: &[OsString]) -> io::Result<Self> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let (output, theirs) = io::pipe()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(theirs.try_clone()?).stderr(theirs);
        let parent = std::process::id() as libc::pid_t;
        // SAFETY: the function only makes system calls, which may be made between fork and exec.
        unsafe { command.pre_exec(move || prepare(parent)) };
        // Before it is started: what fails later would leave it running.
        let (last_line, printed) = read_lines(output)?;
        let (tell_start, started) = mpsc::channel();
        let (tell_end, ended) = mpsc::channel();
        let (to_reap, may_reap) = mpsc::channel::<()>();
        let keeper = thread::Builder::new().name("loader".into()).spawn(move || {
            let spawned = command.spawn();
            // What we hold of its output must close, or it would never end.
            drop(command);
            let mut child = match spawned {
                Ok(child) => child,
                Err(error) => return drop(tell_start.send(Err(error))),
            };
            let _ = tell_start.send(Ok(child.id()));
            let _ = tell_end.send(ending(&child));
            let _ = may_reap.recv();
            let _ = child.wait();
        })?;
        let id = started.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))?;
        let pid = Pid(id as libc::pid_t);
        let _watchdog = Watchdog::over_session(pid).ok();
        let (to_reap, keeper) = (Some(to_reap), Some(keeper));
        Ok(Self { pid, ended, ending: None, last_line, printed, to_reap, keeper, _watchdog })
    }

    /// How it ended, if it has: `exited with code 1`.
    pub(super) fn ending(&mut self, within: Duration) -> Option<&str> {
        if self.ending.is_none() {
            self.ending = match self.ended.recv_timeout(within) {
                Ok(ending) => Some(ending),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some("has ended".into()),
            };
        }
        self.ending.as_deref()
    }

    /// The last line that it printed, but for a backtrace, as an end of a sentence.
    pub(super) fn last_words(&self) -> String {
        if self.ending.is_some() {
            // Nothing is ever sent: it waits until what was printed has been read.
            let _ = self.printed.recv_timeout(LAST_WORDS);
        }
        let line = self.last_line.lock().unwrap_or_else(PoisonError::into_inner);
        if line.is_empty() { String::new() } else { format!("; the last line that it printed is `{line}`") }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // What has left its session is still below it while it runs.
        let below = descendants(self.pid);
        signals::send(self.pid, libc::SIGINT);
        if self.ending(LONGEST_END).is_none() {
            signals::send(self.pid, libc::SIGKILL);
        }
        below.iter().for_each(Handle::kill);
        watchdog::kill_session(self.pid);
        self.to_reap = None;
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// In the child: its own session, below which its orphans stay, and dead when we are.
fn prepare(parent: libc::pid_t) -> io::Result<()> {
    // SAFETY: these calls only change attributes and dispositions of this process, or end it.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // By which it is asked to end; shells start what is in the background with it ignored.
        libc::signal(libc::SIGINT, libc::SIG_DFL);
        if libc::getppid() != parent {
            libc::_exit(127);
        }
    }
    Ok(())
}

/// Waits until the child has ended, leaves it to be reaped, and says how it ended.
fn ending(child: &Child) -> Ending {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        // SAFETY: `info` is valid for writing.
        let result = unsafe { libc::waitid(libc::P_PID, child.id(), info.as_mut_ptr(), libc::WEXITED | libc::WNOWAIT) };
        match Errno::result(result) {
            Ok(_) => break,
            Err(Errno::EINTR) => {}
            // It was reaped at once, since SIGCHLD is ignored here.
            Err(_) => return "has ended".into(),
        }
    }
    // SAFETY: zeroed is a valid `siginfo_t`, and the call has filled it, with a status since a child has ended.
    let (code, status) = unsafe {
        let info = info.assume_init();
        (info.si_code, info.si_status())
    };
    match code {
        libc::CLD_EXITED => format!("exited with code {status}"),
        _ => format!("was killed by signal {status}"),
    }
}

/// What stands above a backtrace, after which no line says more of a cause.
const BACKTRACE: &str = "stack backtrace:";

/// Keeps the last line of `output` that isn't empty nor part of a backtrace, until that ends or nobody asks any more.
fn read_lines(output: PipeReader) -> io::Result<(Arc<Mutex<String>>, Receiver<()>)> {
    let last_line = Arc::new(Mutex::new(String::new()));
    let (at_end, printed) = mpsc::channel();
    let kept = Arc::clone(&last_line);
    thread::Builder::new().name("loader's output".into()).spawn(move || {
        let _at_end: Sender<()> = at_end;
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        let mut in_backtrace = false;
        while output.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            // Loaders colour what they print to a pipe, too.
            let text = strip_str(&String::from_utf8_lossy(&line)).to_string();
            in_backtrace |= text.trim().eq_ignore_ascii_case(BACKTRACE);
            if !in_backtrace && !text.trim().is_empty() {
                *kept.lock().unwrap_or_else(PoisonError::into_inner) = machine::quoted(text.trim());
            }
            line.clear();
        }
    })?;
    Ok((last_line, printed))
}

/// A process that is named for good: another that gets its id later isn't meant.
struct Handle(std::os::fd::OwnedFd);

impl Handle {
    fn of(pid: Pid) -> Option<Self> {
        use std::os::fd::{FromRawFd, OwnedFd};
        // SAFETY: the call makes a descriptor, and touches no memory.
        let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) }).ok()?;
        // SAFETY: it is new, open and nobody else's.
        Some(Self(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) }))
    }

    fn kill(&self) {
        use std::os::fd::AsRawFd;
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: without information about the signal the call reads no memory of ours.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), libc::SIGKILL, no_info, 0) };
    }
}

/// All that is below a process now.
fn descendants(pid: Pid) -> Vec<Handle> {
    let mut found = Vec::new();
    let mut waiting = pid.children();
    while let Some(child) = waiting.pop() {
        let handle = Handle::of(child);
        waiting.extend(child.children());
        found.extend(handle);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn loader(script: &str) -> Loader {
        Loader::start(&["sh", "-c", script].map(OsString::from)).unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn how_it_ended_and_what_it_said_last_are_kept() {
        let mut failed = loader("echo one; echo two >&2; echo; exit 3");
        assert_eq!(failed.ending(LONG), Some("exited with code 3"));
        assert_eq!(failed.ending(Duration::ZERO), Some("exited with code 3"));
        assert_eq!(failed.last_words(), "; the last line that it printed is `two`");
        let mut traced =
            loader("echo 'Error: no'; echo '  1: why'; echo; echo 'Stack backtrace:'; echo '   9: _start'; exit 1");
        assert_eq!(traced.ending(LONG), Some("exited with code 1"));
        assert_eq!(traced.last_words(), "; the last line that it printed is `1: why`");
        let mut coloured = loader(r"printf '\033[2mno\033[0m \033[31mmap\033[0m\n'; exit 1");
        assert_eq!(coloured.ending(LONG), Some("exited with code 1"));
        assert_eq!(coloured.last_words(), "; the last line that it printed is `no map`");
        let mut killed = loader("kill -9 $$");
        assert_eq!(killed.ending(LONG), Some("was killed by signal 9"));
        assert_eq!(killed.last_words(), "");
    }

    #[test]
    fn what_is_no_program_cannot_be_started() {
        let error = Loader::start(&["/no/such/loader".into()]).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn all_that_it_has_started_ends_with_it_wherever_it_has_gone() {
        let folder = tempfile::tempdir().unwrap();
        let pids = folder.path().join("pids");
        // One that ignores SIGINT, one that has left the session, one whose parent has ended, and it ignores SIGINT itself.
        let script = format!(
            "trap '' INT; sleep 1000 & echo $! >> {0}; setsid sh -c 'echo $$ >> {0}; exec sleep 1000' &
             sh -c 'sleep 1000 & echo $! >> {0}'; sh -c 'setsid sh -c \"echo \\$\\$ >> {0}; exec sleep 1000\" &'
             while [ $(wc -l < {0}) -lt 4 ]; do sleep 0.01; done; echo ready; trap 'exit 0' INT
             while :; do sleep 1000 & wait $!; done",
            pids.display()
        );
        let started = loader(&script);
        assert!(comes_true(|| started.last_words().contains("ready")));
        let pids: Vec<Pid> = fs::read_to_string(&pids).unwrap().lines().map(|pid| Pid(pid.parse().unwrap())).collect();
        let lives = |pid: &Pid| Pid::all().contains(pid) && !pid.is_zombie();
        assert_eq!(pids.iter().filter(|pid| lives(pid)).count(), 4);
        drop(started);
        assert!(comes_true(|| !pids.iter().any(lives)));
    }

    /// Whether it is so sooner or later: to be killed is one thing, to be gone another.
    fn comes_true(is_so: impl Fn() -> bool) -> bool {
        let begun = std::time::Instant::now();
        while !is_so() && begun.elapsed() < LONG {
            thread::sleep(Duration::from_millis(5));
        }
        is_so()
    }

    /// Names the folder to the process that is killed.
    const FOLDER: &str = "STAYPUT_TEST_LOADER";

    #[test]
    #[ignore = "it is started by another test, and killed"]
    fn starts_a_loader_and_waits() {
        let Some(folder) = std::env::var_os(FOLDER) else { return };
        let folder = folder.display();
        let _loader = loader(&format!("sleep 1000 & echo $! $$ > {folder}/new; mv {folder}/new {folder}/pids; wait"));
        thread::park();
    }

    #[test]
    fn when_we_are_killed_it_is_killed_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let mut we = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "scheduling::loader::tests::starts_a_loader_and_waits"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pids = folder.path().join("pids");
        assert!(comes_true(|| pids.exists()));
        let pids = fs::read_to_string(&pids).unwrap();
        let pids: Vec<Pid> = pids.split_whitespace().map(|pid| Pid(pid.parse().unwrap())).collect();
        let lives = |pid: &Pid| Pid::all().contains(pid) && !pid.is_zombie();
        assert!(pids.len() == 2 && pids.iter().all(lives));
        we.kill().unwrap();
        we.wait().unwrap();
        assert!(comes_true(|| !pids.iter().any(lives)));
    }
}
