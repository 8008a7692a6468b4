//! Observation by looking at `/proc` now and then, where ptrace is refused or in the program's way.
//!
//! A thread runs unbound until it is first seen, one that is created and ends between two looks is never seen, and what
//! is read back is as of the last look. The looks are close together at first and whenever a new thread has been seen.

use crate::child::Held;
use crate::events::Events;
use crate::registry::ThreadRegistry;
use crate::residence::MemoryReader;
use crate::wait::{self, ChangeKind, Target};
use crate::{Descendants, End, Launch, signals};
use machine::linux::Tid;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Between looks while threads are being created.
const SHORTEST: Duration = Duration::from_micros(200);

/// Between looks once none has been for a while.
const LONGEST: Duration = Duration::from_millis(50);

/// What these looks can miss, for the notes.
pub(crate) const LIMITS: &str = "threads were looked for every 0.2 to 50 ms: a thread may have run unbound for that \
                                 long, one shorter than that may not be listed, and what is listed is as of the last look";

/// Watches the released child, which has been executed, until it ends; without a registry, its end alone.
pub(crate) fn watch(
    held: &mut Held,
    mut registry: Option<&mut ThreadRegistry>,
    events: &mut Events,
    launch: &Launch,
    mut memory: Option<&mut MemoryReader>,
) -> End {
    let main = held.pid;
    events.standstills.begin();
    let started = Instant::now();
    events.set_deadline(launch.timeout.map(|timeout| started + timeout));
    let mut ended = End { started: Some(started), ..End::default() };
    let mut pause = SHORTEST;
    while ended.exit.is_none() {
        if let Some(registry) = registry.as_deref_mut() {
            let grew = look(registry, pause >= LONGEST);
            pause = if grew { SHORTEST } else { LONGEST.min(pause * 2) };
            registry.heed_names();
            if let Some(memory) = &mut memory {
                memory.look(|| registry.processes());
            }
        }
        while let Some(change) = wait::next(Target::Child(main.main_thread())) {
            match change.kind {
                ChangeKind::Ended(exit) => {
                    ended.wall = Some(started.elapsed());
                    ended.exit = Some(exit);
                    ended.usage = change.usage;
                    if let Some(registry) = registry.as_deref_mut() {
                        registry.remove(main.main_thread());
                    }
                    break;
                }
                ChangeKind::Stopped { .. } if launch.descendants == Descendants::Detach => {
                    signals::stop_ourselves();
                    signals::send(main, libc::SIGCONT);
                }
                ChangeKind::Stopped { .. } | ChangeKind::Continued => {}
            }
        }
        if ended.exit.is_some() {
            break;
        }
        for arrival in events.wait(registry.is_some().then_some(pause), []) {
            match launch.descendants {
                Descendants::Detach if arrival.sent => signals::send(main, arrival.signal),
                Descendants::Detach => {}
                Descendants::Kill => {
                    ended.interrupted = Some(arrival.signal);
                    signals::send(main, libc::SIGKILL);
                }
            }
        }
        if events.overdue() {
            events.set_deadline(None);
            ended.timed_out = true;
            signals::send(main, libc::SIGKILL);
        }
    }
    ended
}

/// Enters what is new, reads back what is there, forgets what is gone; whether anything was new.
pub(crate) fn look(registry: &mut ThreadRegistry, details: bool) -> bool {
    let mut grew = false;
    let mut waiting = registry.processes();
    while let Some(pid) = waiting.pop() {
        let threads = pid.threads();
        for &tid in &threads {
            let new = !registry.contains_thread(tid);
            if new {
                registry.add_thread(pid, tid);
                grew = true;
            }
            registry.read_back(tid, details || new);
        }
        let there: HashSet<Tid> = threads.into_iter().collect();
        registry.retain_threads(pid, &there);
        for child in pid.children() {
            if !registry.contains_process(child) {
                registry.add_process(child);
                waiting.push(child);
                grew = true;
            }
        }
    }
    grew
}
