//! Threads that are not stopped at their births: what they do is known from the kernel's records, or by looking at `/proc`.
//!
//! The tracer changes to this when a program turns out to create many threads or processes, and nothing has to be done at their
//! births. Threads that it traces by then stay traced, since that costs nothing; what they create from now on is not.
//!
//! ```text
//! stops     cost a program by its births     everything is known
//! records   cost by its switches, if at all  no masks: what was inherited, or was there at the last look
//! looks     cost nothing but a CPU's time    what is shorter than the time between two looks is missed
//! ```

use crate::poller;
use crate::registry::ThreadRegistry;
use crate::task_events::{Scope, TaskEvent, TaskEvents};
use machine::linux::Tid;
use std::collections::HashSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Between the first looks and between the last ones, at threads that records tell of: their masks may change.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);

/// Between looks when nothing else tells of threads.
const LOOKS_ONLY: Duration = Duration::from_millis(20);

/// Records for which each thread has events of its own slow its switches and its birth, and are given up: after a time of this
/// length with fewer births than are worth it, or as soon as it has more than can pay for it.
const RATED: Duration = Duration::from_secs(1);
const BIRTHS_WORTH_SWITCHES: u32 = 64;
const MOST_BIRTHS_BY_THREAD: u32 = 2_500;

/// What is known of threads that were not stopped.
pub(crate) struct Unstopped {
    /// None: we look.
    events: Option<TaskEvents>,
    /// Why we look.
    looks_because: Option<String>,
    lost: u64,
    /// Threads that were stopped at their births nevertheless, whose records are still to come.
    entered_by_stop: HashSet<Tid>,
    /// Traced threads that have ended, of which it is still to be recorded.
    ended_by_wait: HashSet<Tid>,
    next_look: Instant,
    pause: Duration,
    /// Births since a time.
    births: (u32, Instant),
    /// The command has ended.
    is_over: bool,
}

impl Unstopped {
    /// From now on, the kernel is to record what becomes of the living threads and of all that they create.
    pub(crate) fn new(registry: &ThreadRegistry) -> Self {
        Self::with(TaskEvents::open(&registry.living()))
    }

    fn with(events: io::Result<TaskEvents>) -> Self {
        let (events, looks_because) = match events {
            Ok(events) => (Some(events), None),
            Err(error) => (None, Some(format!("perf_event_open: {error}"))),
        };
        let now = Instant::now();
        let pause = if events.is_some() { SHORTEST } else { LOOKS_ONLY };
        Self {
            events,
            looks_because,
            lost: 0,
            entered_by_stop: HashSet::new(),
            ended_by_wait: HashSet::new(),
            next_look: now + pause,
            pause,
            births: (0, now),
            is_over: false,
        }
    }

    /// What becomes readable when there is much to take.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.iter().flat_map(TaskEvents::fds)
    }

    /// The time to the next [update](Self::update) at the latest; none when there is none to come.
    pub(crate) fn to_next_update(&self) -> Option<Duration> {
        let to_look = self.next_look.saturating_duration_since(Instant::now());
        let of_threads = self.events.as_ref().is_some_and(|events| events.scope() == Scope::Threads);
        let at_most = if of_threads { to_look.min(TaskEvents::SOON) } else { to_look };
        (!self.is_over).then_some(at_most)
    }

    /// A thread was entered in the registry by its stop.
    pub(crate) fn was_stopped(&mut self, tid: Tid) {
        if self.events.is_some() {
            self.entered_by_stop.insert(tid);
        }
    }

    /// A traced thread has ended. It leaves the registry when that is recorded: what it created before may be recorded only then.
    pub(crate) fn has_ended(&mut self, registry: &mut ThreadRegistry, tid: Tid) {
        if self.events.is_some() {
            self.ended_by_wait.insert(tid);
        } else {
            registry.remove(tid);
        }
    }

    /// Takes in what was recorded, and looks if it is time; `traced` are known otherwise.
    pub(crate) fn update(&mut self, registry: &mut ThreadRegistry, traced: &HashSet<Tid>) {
        if self.is_over {
            return;
        }
        self.take_records(registry, traced, false);
        if Instant::now() >= self.next_look {
            self.look(registry, traced);
        }
    }

    /// The command has ended: takes in all that there is, and closes the events.
    pub(crate) fn finish(&mut self, registry: &mut ThreadRegistry, traced: &HashSet<Tid>) {
        self.take_records(registry, traced, true);
        self.look(registry, traced);
        self.close(registry);
        // Those of which a record was lost.
        for tid in registry.living() {
            if !traced.contains(&tid) && registry.process_of(tid).is_some_and(|pid| !pid.has_thread(tid)) {
                registry.remove(tid);
            }
        }
        self.is_over = true;
    }

    fn close(&mut self, registry: &mut ThreadRegistry) {
        self.events = None;
        self.ended_by_wait.drain().for_each(|tid| registry.remove(tid));
        self.entered_by_stop.clear();
    }

    fn take_records(&mut self, registry: &mut ThreadRegistry, traced: &HashSet<Tid>, all: bool) {
        let Some(events) = &mut self.events else { return };
        for event in events.take(all) {
            match event {
                TaskEvent::Birth { pid, tid, by } => {
                    if !self.entered_by_stop.remove(&tid) && !registry.contains_thread(tid) {
                        registry.add_recorded(pid, tid, by);
                        self.births.0 += u32::from(registry.contains_thread(tid));
                    }
                }
                TaskEvent::Exec { pid } => {
                    if registry.contains_process(pid) && !traced.contains(&pid.main_thread()) {
                        registry.start_exec(pid, pid.main_thread());
                    }
                }
                TaskEvent::End { tid, cpu } => {
                    if self.ended_by_wait.remove(&tid) {
                        registry.remove(tid);
                    } else if !traced.contains(&tid) {
                        registry.remove_recorded(tid, cpu);
                    }
                }
            }
        }
        self.lost = events.lost();
        let (births, since) = self.births;
        let is_over = since.elapsed() >= RATED;
        let costs_too_much = if births > MOST_BIRTHS_BY_THREAD {
            Some("it creates so many that to record each would slow it down")
        } else if is_over && births < BIRTHS_WORTH_SWITCHES {
            Some("it had stopped creating many")
        } else {
            None
        };
        if events.scope() == Scope::Threads
            && let Some(why) = costs_too_much
        {
            self.close(registry);
            self.looks_because = Some(why.into());
            self.pause = LOOKS_ONLY;
        }
        if is_over {
            self.births = (0, Instant::now());
        }
    }

    fn look(&mut self, registry: &mut ThreadRegistry, traced: &HashSet<Tid>) {
        if self.events.is_some() {
            for tid in registry.living() {
                if !traced.contains(&tid) && !self.ended_by_wait.contains(&tid) {
                    registry.read_back(tid, true);
                }
            }
            self.pause = LONGEST.min(self.pause * 2);
        } else {
            poller::look(registry, true);
        }
        self.next_look = Instant::now() + self.pause;
    }

    /// What the reader should know of it, at the end.
    pub(crate) fn notes(&self) -> Vec<String> {
        let looked = self.looks_because.as_ref().map(|why| {
            format!(
                "after its first births, threads were not stopped but looked for every {} ms ({why}): shorter ones may not be \
                 listed",
                LOOKS_ONLY.as_millis()
            )
        });
        let lost = (self.lost > 0)
            .then(|| format!("{} records of births and ends found no room: some threads may not be listed", self.lost));
        looked.into_iter().chain(lost).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;
    use crate::registry::Binder;
    use machine::linux::{Pid, system};
    use std::thread;

    #[test]
    fn records_that_cost_more_than_they_tell_are_given_up() {
        let own = Tid(nix::unistd::gettid().as_raw());
        let cpus: Vec<_> = system::online_cpus().unwrap().iter().take(2).collect();
        let events = TaskEvents::open_by_thread(&[own], &cpus);
        if let Err(error) = &events {
            return println!("skipped: perf_event_open: {error}");
        }
        let mut registry = ThreadRegistry::new(None, Binder::Nobody, Unit::Thread, &[]);
        let process = Pid(std::process::id() as libc::pid_t);
        registry.add_process(process);
        registry.add_thread(process, own);
        let mut unstopped = Unstopped::with(events);
        assert!(unstopped.notes().is_empty());
        let traced = HashSet::from([own]);
        for birth in 0..=MOST_BIRTHS_BY_THREAD * 2 {
            thread::spawn(|| ()).join().unwrap();
            if birth % 64 == 0 {
                unstopped.update(&mut registry, &traced);
            }
        }
        thread::sleep(2 * SHORTEST);
        unstopped.update(&mut registry, &traced);
        let notes = unstopped.notes();
        assert!(notes.len() == 1 && notes[0].contains("to record each would slow it down"), "{notes:?}");
        assert_eq!(unstopped.fds().count(), 0);
    }
}
