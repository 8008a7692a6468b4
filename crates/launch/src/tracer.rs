//! Observation by ptrace(2): no thread is born or ends unseen.
//!
//! The program is seized before it is executed, and with it everything that it starts. It stops, and we look, only at
//! the events of a thread's life; between them it runs at full speed, for no system call is traced.
//!
//! ```text
//! birth of a thread    enter it in the registry, which binds it before its first instruction
//! exec                 the clock starts; a process that executes another program counts its threads anew
//! end of a thread      read back where it could run and where it ran: no stop, since it stays a zombie until we ask
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
use crate::registry::{Births, ThreadRegistry};
use crate::residence::MemoryReader;
use crate::signals::SigchldBlocked;
use crate::spin::Spin;
use crate::unstopped::Unstopped;
use crate::wait::{self, Change, ChangeKind, Found, Target, Usage};
use crate::watchdog::Watchdog;
use crate::{Descendants, End, Launch, Output, signals};
use machine::linux::{Pid, Tid};
use nix::errno::Errno;
use nix::unistd::{self, ForkResult};
use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::ptr;
use std::time::{Duration, Instant};

/// `PTRACE_EVENT_STOP` of `linux/ptrace.h`, which the `libc` crate lacks for most targets.
const EVENT_STOP: libc::c_int = 128;

/// One ptrace request.
pub(crate) fn ptrace(request: libc::c_uint, tid: Tid, data: usize) -> Result<(), Errno> {
    // SAFETY: the requests made here take `data` as a number, or as a pointer that their caller keeps valid.
    let result = unsafe { libc::ptrace(request, tid.0, ptr::null_mut::<libc::c_void>(), data as *mut libc::c_void) };
    Errno::result(result).map(drop)
}

/// How many births are learned by stops where none needs to be bound: so few that their stops don't matter, and enough for most
/// programs, which are then known wholly and at no cost between births.
const BIRTHS_BY_STOPS: usize = 64;

/// The events at which threads stop, if they stop at the births of processes and of other threads.
fn options(at_processes: bool, at_threads: bool) -> libc::c_int {
    // A new thread or process is traced from its creation and stops before its first instruction, so that it is bound
    // before it has run anywhere or touched memory.
    let mut births = 0;
    if at_processes {
        births |= libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;
    }
    if at_threads {
        births |= libc::PTRACE_O_TRACECLONE;
    }
    // The first `exec` starts the command's clock. And should we be killed, nothing of the program stays behind, stopped or
    // unobserved.
    births | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL
}

/// Attaches to the held child.
///
/// By seizing it: no signal is sent, as `PTRACE_ATTACH` would, and a stop by a signal can be told from others and left in
/// place.
///
/// # Errors
/// `EPERM` where ptrace is forbidden: seccomp in a container, a security module, another tracer.
pub(crate) fn seize(pid: Pid) -> Result<(), Errno> {
    // The command itself, and nothing that it starts, stops where it exits: its peak memory can't be asked of a zombie.
    let options = options(true, true) | libc::PTRACE_O_TRACEEXIT;
    ptrace(libc::PTRACE_SEIZE, pid.main_thread(), options as usize)
}

/// Waits until `tid`, a child of ours that was killed or has ended, is reaped.
///
/// A tracee that is killed stops once more where it exits (`PTRACE_O_TRACEEXIT`). Waited for but once, it would stay
/// there: neither running nor ended, for as long as this process lives.
pub(crate) fn reap(tid: Tid) {
    while let Some(change) = wait::next(Target::Only(tid)) {
        match change.kind {
            ChangeKind::Ended(_) => return,
            ChangeKind::Stopped { .. } | ChangeKind::Continued => drop(ptrace(libc::PTRACE_CONT, tid, 0)),
        }
    }
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
            reap(child.main_thread());
            seized.map_err(|errno| format!("ptrace: {}", errno.desc()))
        }
        Err(errno) => Err(format!("fork: {}", errno.desc())),
    }
}

/// The thread that the event at which `tid` has stopped is about: the new one, or at an `exec` the one that called it.
fn event_thread(tid: Tid) -> Result<Tid, Errno> {
    let mut message: libc::c_ulong = 0;
    ptrace(libc::PTRACE_GETEVENTMSG, tid, &raw mut message as usize)?;
    Ok(Tid(message as libc::pid_t))
}

/// Who sent the signal that is about to be delivered to `tid`; none where it was the kernel, for a key pressed in the terminal.
fn sender_of_signal(tid: Tid) -> Option<Pid> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    ptrace(libc::PTRACE_GETSIGINFO, tid, info.as_mut_ptr() as usize).ok()?;
    // SAFETY: zeroed is a valid `siginfo_t`, and the call has filled it.
    let info = unsafe { info.assume_init() };
    // SAFETY: of a signal that a process sent, which codes up to 0 are, the field is there.
    (info.si_code <= 0).then(|| Pid(unsafe { info.si_pid() }))
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
    registry: &'a mut ThreadRegistry,
    phase: Phase,
    descendants: Descendants,
    /// Threads that exist and are ours to resume.
    tracees: HashSet<Tid>,
    /// Threads that were reported before their creator's event, by their own first stop or by their end.
    registered_early: HashSet<Tid>,
    /// How often each process has stopped for us since the command began. Each stop is a voluntary switch to the kernel,
    /// which the program would not have made.
    stops: HashMap<Pid, u64>,
    spin: Spin,
    /// Births that were learned by stops.
    births: usize,
    /// Threads whose births are no longer learned by stops.
    unstopped: Option<Unstopped>,
    /// Whether the program is alone in its session, and what ends all of that when we are killed.
    has_session: bool,
    watchdog: Option<Watchdog>,
    /// The command is stopped by a signal.
    stopped: bool,
    /// The last signal that stops came from outside of the program.
    stopped_by_others: bool,
    /// We are to stop as well.
    stop_due: bool,
    /// Reads processes where they end, if that is asked for: each stops there then.
    memory: Option<&'a mut MemoryReader>,
    /// Processes whose main thread has ended before others, as far as that is of interest to whom reads memory.
    headless: HashSet<Pid>,
    /// How long the command was stopped at its end to read its memory.
    read_at_end: Duration,
    ended: End,
}

/// Watches the seized child from its release to the end of everything that it started, or until that is let go.
pub(crate) fn watch(
    held: &mut Held,
    registry: &mut ThreadRegistry,
    events: &mut Events,
    launch: &Launch,
    memory: Option<&mut MemoryReader>,
) -> End {
    let _blocked = SigchldBlocked::new();
    let mut tracer = Tracer::new(held.pid, registry, launch.descendants);
    tracer.memory = memory;
    tracer.has_session = launch.output == Output::Capture;
    // Until the child is the program it shares our memory and our errno, so we make no call but this one wait, which
    // leaves errno alone when it succeeds.
    while tracer.ended.started.is_none() && tracer.ended.exit.is_none() {
        let Some(change) = wait::next(Target::Only(held.pid.main_thread())) else {
            break;
        };
        tracer.take(change, Instant::now(), events, launch);
    }
    loop {
        let more = tracer.take_changes(events, launch);
        if tracer.tracees.is_empty() && tracer.ended.exit.is_some() {
            let left = tracer.registry.processes().len();
            tracer.ended.notes.extend(tracer.unstopped.iter().flat_map(Unstopped::notes));
            if left > 0 {
                tracer.ended.notes.push(format!(
                    "processes that outlive the command and were left running, bound as they are: {left}"
                ));
            }
            return tracer.ended;
        }
        // The program has been stopped by a signal: we stop as well, so that our parent, a shell with job control, sees
        // it. Whoever continues us means the program, unless it was continued directly.
        if std::mem::take(&mut tracer.stop_due) {
            signals::stop_ourselves();
            tracer.take_changes(events, launch);
            if tracer.stopped {
                signals::send(tracer.main, libc::SIGCONT);
            }
        }
        let asleep = Instant::now();
        let to_update = tracer.unstopped.as_ref().and_then(Unstopped::to_next_update);
        let to_update = to_update.into_iter().chain(tracer.registry.to_next_names()).min();
        let at_most = if more { Some(Duration::ZERO) } else { to_update };
        let arrivals = events.wait(at_most, tracer.unstopped.iter().flat_map(Unstopped::fds));
        tracer.spin.slept(asleep.elapsed());
        if let Some(unstopped) = &mut tracer.unstopped {
            unstopped.update(tracer.registry, &tracer.tracees);
        }
        tracer.registry.heed_names();
        for arrival in arrivals {
            match tracer.descendants {
                // A key pressed in the terminal has reached the program already, as it is in our process group.
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

impl<'a> Tracer<'a> {
    fn new(main: Pid, registry: &'a mut ThreadRegistry, descendants: Descendants) -> Self {
        Self {
            main,
            registry,
            phase: Phase::Running,
            descendants,
            tracees: HashSet::from([main.main_thread()]),
            registered_early: HashSet::new(),
            stops: HashMap::new(),
            spin: Spin::default(),
            births: 0,
            unstopped: None,
            has_session: false,
            watchdog: None,
            stopped: false,
            stopped_by_others: false,
            stop_due: false,
            memory: None,
            headless: HashSet::new(),
            read_at_end: Duration::ZERO,
            ended: End::default(),
        }
    }

    /// Handles what the kernel has to tell now, but so much at a time that a program which keeps creating threads can't
    /// keep us from its output and its deadline; whether there may be more.
    fn take_changes(&mut self, events: &mut Events, launch: &Launch) -> bool {
        const AT_A_TIME: usize = 256;
        let mut end_due = false;
        for _ in 0..AT_A_TIME {
            // Whoever is stopped waits for us, and whoever has ended doesn't. The time to read back from one is when
            // somebody has been let go, who will take a while to stop again; and so neither keeps us from the other.
            let end = if end_due { wait::next_end() } else { None };
            let found = end.or_else(wait::next_stop).or_else(|| self.spin.until(wait::next_stop));
            let Some(found) = found.or_else(wait::next_end) else {
                return false;
            };
            end_due = matches!(found, Found::Stop(..));
            let seen = Instant::now();
            match found {
                Found::Stop(tid, kind) => {
                    self.take(Change { tid, kind, usage: Usage::default() }, seen, events, launch)
                }
                Found::End(tid) => {
                    self.registry.read_back(tid, true);
                    if let Some(change) = wait::next(Target::Now(tid)) {
                        self.take(change, seen, events, launch);
                    }
                }
            }
        }
        true
    }

    /// Handles a change that was seen at the time `seen`.
    fn take(&mut self, change: Change, seen: Instant, events: &mut Events, launch: &Launch) {
        let tid = change.tid;
        let is_main = tid == self.main.main_thread();
        match change.kind {
            ChangeKind::Ended(exit) => {
                if !is_main {
                    self.registry.saw_peak(tid, change.usage.max_rss_bytes);
                }
                if is_main && let Some(unstopped) = &mut self.unstopped {
                    unstopped.finish(self.registry, &self.tracees);
                }
                self.forget(tid);
                if is_main {
                    self.ended.wall =
                        self.ended.started.map(|started| seen.duration_since(started).saturating_sub(self.read_at_end));
                    self.ended.exit = Some(exit);
                    self.ended.usage = change.usage.since(self.ended.before);
                    self.ended.usage.voluntary_switches =
                        self.ended.usage.voluntary_switches.saturating_sub(self.stops_of_ended());
                    events.set_deadline(None);
                    self.command_ended();
                }
            }
            // Only a tracee can be resumed. The command may have been let go of, and orphans come to us.
            ChangeKind::Stopped { event: 0, .. } if !self.tracees.contains(&tid) => {
                if is_main {
                    self.stopped = true;
                    self.stop_due = self.descendants == Descendants::Detach;
                }
            }
            ChangeKind::Stopped { signal, event } => {
                if is_main && event == libc::PTRACE_EVENT_EXEC && self.ended.started.is_none() {
                    self.ended.before = change.usage;
                    self.registry.start_command(self.main);
                    self.note_lost_rights(self.main);
                    events.standstills.begin();
                    let now = Instant::now();
                    self.ended.started = Some(now);
                    events.set_deadline(launch.timeout.map(|timeout| now + timeout));
                    self.resume(tid, 0);
                } else {
                    self.note_stop(tid, signal, event, events);
                    self.stopped(tid, signal, event);
                    if event == libc::PTRACE_EVENT_EXIT && self.phase == Phase::Running && !self.read_at_end.is_zero() {
                        // What we took isn't of its time.
                        let started = self.ended.started.map(|started| started + self.read_at_end);
                        events.set_deadline(launch.timeout.and_then(|timeout| Some(started? + timeout)));
                    }
                }
            }
            ChangeKind::Continued if is_main => self.stopped = false,
            ChangeKind::Continued => {}
        }
    }

    /// Notes when others stop the command, and when it goes on. One that stops itself does so as a part of its work.
    fn note_stop(&mut self, tid: Tid, signal: libc::c_int, event: libc::c_int, events: &mut Events) {
        if self.registry.process_of(tid) != Some(self.main) {
            return;
        }
        let stops = matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
        match event {
            // It is about to be delivered.
            0 if stops => {
                self.stopped_by_others = sender_of_signal(tid).is_none_or(|pid| !self.registry.contains_process(pid));
            }
            EVENT_STOP if stops && self.stopped_by_others => events.standstills.program_stopped(),
            EVENT_STOP => events.standstills.program_goes_on(),
            _ => {}
        }
    }

    /// A thread has ended and is reaped.
    fn forget(&mut self, tid: Tid) {
        // The kernel reports the newest tracee first. One that was killed before its first stop has therefore ended for us
        // before the event of its creation, which must not make us wait for it again.
        if !self.tracees.remove(&tid) && self.unstopped.is_none() {
            self.registered_early.insert(tid);
        }
        self.registry.process_ended(Pid(tid.0));
        match &mut self.unstopped {
            Some(unstopped) => unstopped.has_ended(self.registry, tid),
            None => self.registry.remove(tid),
        }
    }

    /// The event of `new`'s creation by `creator`; its first stop as well, if that has come or comes at once.
    fn created(&mut self, new: Tid, creator: Tid) {
        if self.registered_early.remove(&new) || !self.tracees.insert(new) {
            return;
        }
        // A thread on its way to its first stop would have to be moved while it runs or is queued. One that has stopped is
        // only told where it is to go on, which is much quicker.
        let its_stop = || wait::next(Target::Now(new));
        let first_stop = its_stop().or_else(|| self.spin.until(its_stop));
        self.registry.look_for_helper(new, Some(creator));
        self.register(new, self.registry.process_of(creator));
        match first_stop.map(|change| change.kind) {
            Some(ChangeKind::Stopped { signal, event }) => self.stopped(new, signal, event),
            Some(ChangeKind::Ended(_)) => self.forget(new),
            Some(ChangeKind::Continued) | None => {}
        }
    }

    fn register(&mut self, tid: Tid, likely_process: Option<Pid>) {
        if self.registry.contains_thread(tid) {
            // It was recorded before it was reported.
            return;
        }
        self.registry.add_task(tid, likely_process);
        self.births += 1;
        if let Some(unstopped) = &mut self.unstopped {
            unstopped.was_stopped(tid);
        } else if self.phase == Phase::Running && self.stops_enough() {
            self.unstopped = Some(Unstopped::new(self.registry));
            if self.has_session && self.descendants == Descendants::Kill {
                self.watchdog = Watchdog::over_session(self.main).ok();
            }
        }
        // It was created after everything had been killed, by a thread that had yet to die.
        if self.phase == Phase::Killing {
            self.kill(tid);
        }
    }

    /// Whether further births need not be learned by stops.
    fn stops_enough(&self) -> bool {
        // What a runtime does to the threads that it was told to bind has to be verified at their ends.
        let at_least = BIRTHS_BY_STOPS.max(2 * self.registry.to_verify());
        self.registry.births() != Births::BindThreads && self.births >= at_least
    }

    /// The events at which a thread is to stop from now on.
    fn options_of(&self, tid: Tid) -> libc::c_int {
        let at_births = self.unstopped.is_none();
        let reads_memory = self.memory.is_some();
        let at_processes = at_births || reads_memory || self.registry.births() == Births::BindProcesses;
        // Only the command stops where it exits: what it starts has inherited that from it. Where memory is to be read, each
        // process does.
        let ends_process = |pid: Pid| tid == pid.main_thread() || self.headless.contains(&pid);
        let is_to_stop =
            tid == self.main.main_thread() || (reads_memory && self.registry.process_of(tid).is_some_and(ends_process));
        let at_exit = if is_to_stop { libc::PTRACE_O_TRACEEXIT } else { 0 };
        options(at_processes, at_births) | at_exit
    }

    /// Reads the memory of a process of which a thread is stopped where it ends.
    fn read_memory(&mut self, tid: Tid) {
        let Some(pid) = self.registry.process_of(tid).filter(|_| self.ended.started.is_some()) else { return };
        let Some(memory) = &mut self.memory else { return };
        let others =
            || self.registry.living().into_iter().filter(|other| *other != tid && self.tracees.contains(other));
        let mut of_process = others().filter(|other| self.registry.process_of(*other) == Some(pid)).peekable();
        let took = if tid == pid.main_thread() && of_process.peek().is_none() {
            memory.read_at_end(pid)
        } else {
            // Either all of them are ending, and this is what there is to see; or the main thread ends before the others, which are
            // told at their next stop, that is now, to stop at their ends, too.
            if self.headless.insert(pid) {
                for other in of_process {
                    let _ = ptrace(libc::PTRACE_INTERRUPT, other, 0);
                }
            }
            memory.read_living(pid, tid)
        };
        if pid == self.main {
            // The last is the one at its end.
            self.read_at_end = took;
        } else if self.ended.exit.is_none() {
            self.ended.reading += took;
        }
    }

    /// Sets them, at a stop of the thread.
    fn set_options(&self, tid: Tid) {
        let _ = ptrace(libc::PTRACE_SETOPTIONS, tid, self.options_of(tid) as usize);
    }

    /// Handles a stop and lets the thread go on.
    fn stopped(&mut self, tid: Tid, signal: libc::c_int, event: libc::c_int) {
        let first = self.tracees.insert(tid);
        if first && !self.registry.contains_thread(tid) {
            self.registry.look_for_helper(tid, None);
            self.register(tid, None);
            self.registered_early.insert(tid);
        }
        self.ended.stops += u64::from(self.ended.started.is_some() && self.ended.exit.is_none());
        if let Some(pid) = self.registry.process_of(tid) {
            *self.stops.entry(pid).or_default() += 1;
        }
        let of_command = tid == self.main.main_thread();
        match event {
            // No event: a signal is about to be delivered, and is.
            0 => return self.resume(tid, signal),
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
                if let Ok(new) = event_thread(tid) {
                    self.created(new, tid);
                }
                if self.unstopped.is_some() {
                    self.set_options(tid);
                }
            }
            libc::PTRACE_EVENT_EXEC => {
                let pid = Pid(tid.0);
                // Whichever thread calls `exec` goes on under the id of the main thread. The others are gone; the one
                // whose id has changed is never reported again under its old one.
                let by = event_thread(tid).unwrap_or(tid);
                if by != tid {
                    self.tracees.remove(&by);
                }
                self.headless.remove(&pid);
                self.registry.start_exec(pid, by);
                self.note_lost_rights(pid);
            }
            libc::PTRACE_EVENT_EXIT => {
                self.registry.read_back(tid, true);
                self.read_memory(tid);
            }
            // Either the whole process is stopped by one of these signals (a group stop), or this is the first stop of a
            // new thread, or our own interruption: SIGTRAP then.
            EVENT_STOP => {
                let by_signal = matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
                if of_command {
                    self.stop_due |= by_signal && self.descendants == Descendants::Detach;
                    self.stopped = by_signal;
                } else if !by_signal {
                    self.set_options(tid);
                }
                if by_signal && self.phase != Phase::LettingGo {
                    // PTRACE_CONT would undo the stop. Listening leaves it in place and reports when it is over. That
                    // the thread is gone already is no error, here and below: its end will be reported.
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
            self.registry.read_back(tid, true);
            if let Some(memory) = self.memory.as_mut().filter(|_| self.registry.process_of(tid) == Some(Pid(tid.0))) {
                memory.read_living(Pid(tid.0), tid);
            }
            self.detach(tid, signal);
        } else if self.unstopped.is_some()
            && self.memory.is_none()
            && self.registry.births() == Births::Leave
            && self.phase == Phase::Running
        {
            // A tracee stops at every signal, and a shell gets one for each child that ends.
            self.detach(tid, signal);
        } else {
            let _ = ptrace(libc::PTRACE_CONT, tid, signal as usize);
        }
    }

    fn detach(&mut self, tid: Tid, signal: libc::c_int) {
        let _ = ptrace(libc::PTRACE_DETACH, tid, signal as usize);
        self.tracees.remove(&tid);
    }

    /// Stops of processes that have ended, which are those whose usage the command's contains.
    fn stops_of_ended(&self) -> u64 {
        self.stops.iter().filter(|(pid, _)| !self.registry.contains_process(**pid)).map(|(_, stops)| stops).sum()
    }

    fn command_ended(&mut self) {
        if self.unstopped.is_some() {
            // A thread that isn't traced may have executed another program, and took the id of one that was.
            self.tracees.retain(|tid| ptrace(libc::PTRACE_INTERRUPT, *tid, 0) != Err(Errno::ESRCH));
        }
        match self.descendants {
            Descendants::Detach => {
                // Only a stopped tracee can be detached from; `resume` does it at each one's next stop.
                self.phase = Phase::LettingGo;
                for tid in &self.tracees {
                    let _ = ptrace(libc::PTRACE_INTERRUPT, *tid, 0);
                }
            }
            Descendants::Kill => {
                if self.phase == Phase::Running {
                    // Our own child, the command, is reported before tracees that ended earlier. What is not traced comes
                    // to us as orphans.
                    let traced = |pid: &Pid| self.tracees.contains(&pid.main_thread());
                    let left = self.registry.processes().into_iter().filter(|pid| traced(pid) && !pid.is_zombie());
                    self.ended.leftovers = left.count() as u32;
                }
                self.kill_all();
            }
        }
    }

    fn kill_all(&mut self) {
        self.phase = Phase::Killing;
        if self.ended.exit.is_none() {
            signals::send(self.main, libc::SIGKILL);
        }
        for tid in &self.tracees {
            self.kill(*tid);
        }
    }

    fn kill(&self, tid: Tid) {
        if let Some(pid) = self.registry.process_of(tid) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;
    use crate::registry::Binder;

    #[test]
    fn a_thread_that_ended_before_its_creation_was_reported_is_not_waited_for() {
        let main = Pid(std::process::id() as libc::pid_t);
        let mut registry = ThreadRegistry::new(None, Binder::Nobody, Unit::Thread, &[]);
        registry.add_process(main);
        let mut tracer = Tracer::new(main, &mut registry, Descendants::Kill);
        let new = Tid(libc::pid_t::MAX);
        tracer.forget(new);
        tracer.created(new, main.main_thread());
        assert_eq!(tracer.tracees, HashSet::from([main.main_thread()]));
        // The id may be given out again.
        tracer.created(new, main.main_thread());
        assert!(tracer.tracees.contains(&new));
    }
}
