//! Observation by ptrace(2): no thread is born or ends unseen.
//!
//! The program is seized before it is executed, and with it everything that it starts. It stops, and we look, only at
//! the events of a thread's life; between them it runs at full speed, for no system call is traced.
//!
//! ```text
//! birth of a thread    enter it in the ledger, which binds it before its first instruction
//! exec                 the clock starts; a process that executes another program counts its threads anew
//! end of a thread      read back where it may run and where it ran, while it still exists
//! ```
//!
//! A birth is told twice, by the new thread's first stop and by its creator's event, in either order. Whichever comes
//! first enters the thread: its creator, which is then itself held by its event, can't have created another meanwhile,
//! so the order of entry is the order of creation.
//!
//! Signals pass through untouched. A program that is stopped by one (Ctrl-Z) stays stopped (`PTRACE_LISTEN`), and in
//! [`Descendants::Detach`] we stop with it, so that the shell sees what it would have seen of the program.
//!
//! Programs that trace others (gdb, strace) or themselves (LeakSanitizer) can't be traced as well: use the poller.

use crate::child::{self, Held};
use crate::events::Events;
use crate::ledger::Ledger;
use crate::wait::{self, Change, What, Whom};
use crate::{Descendants, Ended, Interest, signals};
use machine::linux::{Pid, Tid};
use nix::errno::Errno;
use nix::unistd::{self, ForkResult};
use std::collections::{HashMap, HashSet};
use std::ptr;
use std::time::{Duration, Instant};

/// `PTRACE_EVENT_STOP` of `linux/ptrace.h`, which the `libc` crate lacks for most targets.
const EVENT_STOP: libc::c_int = 128;

/// One ptrace request.
fn ptrace(request: libc::c_uint, tid: Tid, data: usize) -> Result<(), Errno> {
    // SAFETY: the requests made here take `data` as a number, or as a pointer that their caller keeps valid.
    let result = unsafe { libc::ptrace(request, tid.0, ptr::null_mut::<libc::c_void>(), data as *mut libc::c_void) };
    Errno::result(result).map(drop)
}

/// Attaches to the held child.
///
/// # Errors
/// `EPERM` where ptrace is forbidden: seccomp in a container, a security module, another tracer.
pub(crate) fn seize(pid: Pid) -> Result<(), Errno> {
    let options = libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT
        | libc::PTRACE_O_EXITKILL;
    ptrace(libc::PTRACE_SEIZE, pid.main_thread(), options as usize)
}

/// Whether programs can be traced here; tries it on a child that does nothing.
///
/// # Errors
/// The reason in words, for a person.
pub fn trace_available() -> Result<(), String> {
    // SAFETY: the child only sleeps until it is killed.
    match unsafe { unistd::fork() } {
        Ok(ForkResult::Child) => loop {
            unistd::pause();
        },
        Ok(ForkResult::Parent { child }) => {
            let child = Pid(child.as_raw());
            let seized = seize(child);
            signals::send(child, libc::SIGKILL);
            wait::next(Whom::Only(child.main_thread()));
            seized.map_err(|errno| format!("ptrace: {}", errno.desc()))
        }
        Err(errno) => Err(format!("fork: {}", errno.desc())),
    }
}

/// The thread that the event at which `tid` has stopped speaks of.
fn event_thread(tid: Tid) -> Result<Tid, Errno> {
    let mut message: libc::c_ulong = 0;
    ptrace(libc::PTRACE_GETEVENTMSG, tid, &raw mut message as usize)?;
    Ok(Tid(message as libc::pid_t))
}

/// How far the program has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The command runs, or has not yet been executed.
    Running,
    /// Everything is being killed: the command's time is up, or it has ended and leaves others behind.
    Killing,
    /// The command has ended and what it leaves behind is being let go.
    LettingGo,
}

struct Tracer<'a> {
    main: Pid,
    ledger: &'a mut Ledger,
    phase: Phase,
    descendants: Descendants,
    /// Threads that exist and are ours to resume.
    tracees: HashSet<Tid>,
    /// Threads entered at their own first stop, whose creator has yet to tell; they may have ended since.
    announced: HashSet<Tid>,
    /// How often each process has stopped for us since the command began. Each stop is a voluntary switch to the kernel,
    /// which the program would not have made.
    stops: HashMap<Pid, u64>,
    /// The command is stopped by a signal.
    stopped: bool,
    /// We are to stop as well.
    stop_due: bool,
    ended: Ended,
}

/// Watches the seized child from its release to the end of everything that it started, or until that is let go.
pub(crate) fn watch(held: &mut Held, ledger: &mut Ledger, events: &mut Events, interest: Interest) -> Ended {
    let mut tracer = Tracer {
        main: held.pid,
        ledger,
        phase: Phase::Running,
        descendants: interest.descendants,
        tracees: HashSet::from([held.pid.main_thread()]),
        announced: HashSet::new(),
        stops: HashMap::new(),
        stopped: false,
        stop_due: false,
        ended: Ended::default(),
    };
    // Until the child is the program it shares our memory, and we do nothing but wait for that.
    while tracer.ended.started.is_none() && tracer.ended.exit.is_none() {
        let Some(change) = wait::next(Whom::Only(held.pid.main_thread())) else {
            break;
        };
        tracer.take(change, events, interest);
    }
    loop {
        let more = tracer.take_changes(events, interest);
        if tracer.tracees.is_empty() && tracer.ended.exit.is_some() {
            let left = tracer.ledger.processes().len();
            if left > 0 {
                tracer.ended.notes.push(format!(
                    "processes that outlive the command and were left running, bound as they are: {left}"
                ));
            }
            return tracer.ended;
        }
        if std::mem::take(&mut tracer.stop_due) {
            signals::stop_ourselves();
            tracer.take_changes(events, interest);
            if tracer.stopped {
                signals::send(tracer.main, libc::SIGCONT);
            }
        }
        for arrival in events.wait(more.then_some(Duration::ZERO)) {
            match tracer.descendants {
                Descendants::Detach if arrival.sent && tracer.ended.exit.is_none() => {
                    signals::send(tracer.main, arrival.signal);
                }
                Descendants::Detach => {}
                Descendants::Kill => {
                    tracer.ended.interrupted = Some(arrival.signal);
                    tracer.kill_all();
                }
            }
        }
        if tracer.phase == Phase::Running && events.overdue() {
            tracer.ended.timed_out = true;
            events.set_deadline(None);
            tracer.kill_all();
        }
    }
}

impl Tracer<'_> {
    /// Handles what the kernel has to tell now, but so much at a time that a program which keeps creating threads can't
    /// keep us from its output and its deadline; whether there may be more.
    fn take_changes(&mut self, events: &mut Events, interest: Interest) -> bool {
        const AT_A_TIME: usize = 256;
        for _ in 0..AT_A_TIME {
            let Some(change) = wait::next(Whom::Ours) else {
                return false;
            };
            self.take(change, events, interest);
        }
        true
    }

    fn take(&mut self, change: Change, events: &mut Events, interest: Interest) {
        let tid = change.tid;
        let is_main = tid == self.main.main_thread();
        match change.what {
            What::Ended(exit) => {
                self.tracees.remove(&tid);
                self.ledger.ended(tid);
                if is_main {
                    self.ended.wall = self.ended.started.map(|started| started.elapsed());
                    self.ended.exit = Some(exit);
                    self.ended.usage = change.usage.since(self.ended.before);
                    self.ended.usage.voluntary_switches =
                        self.ended.usage.voluntary_switches.saturating_sub(self.stops_of_ended());
                    events.set_deadline(None);
                    self.command_ended();
                }
            }
            What::Stopped { signal, event } => {
                if is_main && event == libc::PTRACE_EVENT_EXEC && self.ended.started.is_none() {
                    self.ended.before = change.usage;
                    self.ledger.command_started(self.main);
                    self.note_lost_rights(self.main);
                    let now = Instant::now();
                    self.ended.started = Some(now);
                    events.set_deadline(interest.timeout.map(|timeout| now + timeout));
                    self.resume(tid, 0);
                } else {
                    self.stopped(tid, signal, event);
                    if let Some(pid) = self.ledger.process_of(tid) {
                        *self.stops.entry(pid).or_default() += 1;
                    }
                }
            }
            What::Continued => {}
        }
    }

    fn stopped(&mut self, tid: Tid, signal: libc::c_int, event: libc::c_int) {
        let first = self.tracees.insert(tid);
        if first && !self.ledger.knows(tid) {
            self.ledger.born(tid, None);
            self.announced.insert(tid);
            if self.phase == Phase::Killing {
                self.kill(tid);
            }
        }
        let of_command = tid == self.main.main_thread();
        match event {
            0 => return self.resume(tid, signal),
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
                if let Ok(new) = event_thread(tid)
                    && !self.announced.remove(&new)
                    && self.tracees.insert(new)
                {
                    self.ledger.born(new, self.ledger.process_of(tid));
                    if self.phase == Phase::Killing {
                        self.kill(new);
                    }
                }
            }
            libc::PTRACE_EVENT_EXEC => {
                let pid = Pid(tid.0);
                let by = event_thread(tid).unwrap_or(tid);
                if by != tid {
                    self.tracees.remove(&by);
                }
                self.ledger.executed(pid, by);
                self.note_lost_rights(pid);
            }
            libc::PTRACE_EVENT_EXIT => self.ledger.read_back(tid, true),
            EVENT_STOP => {
                let by_signal = matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
                if of_command {
                    self.stop_due |= by_signal && self.descendants == Descendants::Detach;
                    self.stopped = by_signal;
                }
                if by_signal && self.phase != Phase::LettingGo {
                    // Gone already is no error, here and below: its end will be told.
                    let _ = ptrace(libc::PTRACE_LISTEN, tid, 0);
                    return;
                }
            }
            _ => {}
        }
        self.resume(tid, 0);
    }

    /// Lets a stopped thread go on with `signal`, for good when it is being let go.
    fn resume(&mut self, tid: Tid, signal: libc::c_int) {
        if self.phase == Phase::LettingGo {
            self.ledger.read_back(tid, true);
            let _ = ptrace(libc::PTRACE_DETACH, tid, signal as usize);
            self.tracees.remove(&tid);
        } else {
            let _ = ptrace(libc::PTRACE_CONT, tid, signal as usize);
        }
    }

    /// Stops of processes that have ended, which are those whose usage the command's contains.
    fn stops_of_ended(&self) -> u64 {
        self.stops.iter().filter(|(pid, _)| !self.ledger.knows_process(**pid)).map(|(_, stops)| stops).sum()
    }

    fn command_ended(&mut self) {
        match self.descendants {
            Descendants::Detach => {
                self.phase = Phase::LettingGo;
                for tid in &self.tracees {
                    let _ = ptrace(libc::PTRACE_INTERRUPT, *tid, 0);
                }
            }
            Descendants::Kill => {
                if self.phase == Phase::Running {
                    self.ended.leftovers = self.ledger.processes().len() as u32;
                }
                self.kill_all();
            }
        }
    }

    fn kill_all(&mut self) {
        self.phase = Phase::Killing;
        for tid in &self.tracees {
            self.kill(*tid);
        }
    }

    fn kill(&self, tid: Tid) {
        if let Some(pid) = self.ledger.process_of(tid) {
            signals::send(pid, libc::SIGKILL);
        }
    }

    fn note_lost_rights(&mut self, pid: Pid) {
        let executable = pid.executable();
        if child::gains_rights(&executable) {
            let program = std::fs::read_link(executable).unwrap_or_default();
            self.ended.notes.push(format!(
                "{} did not get its owner's rights (setuid, setgid): the kernel withholds them from a traced program; \
                 use --observe poll",
                program.display()
            ));
        }
    }
}
