//! Which slot a thread or process takes by what it is called, and not by when it was created.
//!
//! A server has helpers: a process that writes its log, a thread that collects garbage. In order of creation they take slots as workers
//! do, so that places alternate over both by accident. A rule names them:
//!
//! ```text
//! postgres: *writer* = free     may run on all of the placement's CPUs, and takes no slot
//! GC Thread* = 3                takes slot 3
//! * = next                      takes the slot that fewest of those that live have; so does what no rule names
//! ```
//!
//! The first rule that matches holds. A name isn't there at birth: it is inherited, and changed soon after. So whoever is born is free
//! until it has been called something else, or has kept its name for [`SETTLING`]. Names are looked at again later, since
//! they may change once more, but never for more than a hundredth of the time.

use machine::linux::{Pid, Tid};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::str::FromStr;
use std::time::{Duration, Instant};
use wildmatch::WildMatch;

/// For so long one that is new may still get its name.
const SETTLING: Duration = Duration::from_millis(50);

/// Between looks while somebody's name is to be learned, and once all are known.
const SOON: Duration = Duration::from_millis(5);
const LATER: Duration = Duration::from_millis(200);

/// One in so many moments is spent on looking at most.
const MOST_SHARE: u32 = 100;

/// Which slot something takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// None: it may run on all CPUs of the placement.
    Free,
    /// The one that fewest of those that live have; of these the first.
    Next,
    /// This one, counted from 0; beyond the last the first follows again.
    Number(u32),
}

/// What is called like this takes that slot: `postgres: *writer* = free`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SlotRule {
    pattern: String,
    slot: Slot,
}

/// A text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSlotRuleError {
    /// It has no `=`.
    #[error(
        "`{0}` says no slot; write NAME = free, NAME = next or NAME = 2, in which * stands for any text and ? for a character"
    )]
    NoSlot(String),
    /// What stands before it is empty.
    #[error("`{0}` names nobody; write whom it means before the `=`, as in 'postgres: *writer* = free'")]
    NoName(String),
    /// What stands after it is no slot.
    #[error("`{0}` is no slot; write free, next, or a number from 0")]
    BadSlot(String),
}

impl FromStr for SlotRule {
    type Err = ParseSlotRuleError;

    fn from_str(text: &str) -> Result<Self, ParseSlotRuleError> {
        let quoted = || machine::quoted(text.trim());
        let (pattern, slot) = text.rsplit_once('=').ok_or_else(|| ParseSlotRuleError::NoSlot(quoted()))?;
        let (pattern, slot) = (pattern.trim(), slot.trim());
        if pattern.is_empty() {
            return Err(ParseSlotRuleError::NoName(quoted()));
        }
        let slot = match slot {
            "free" => Slot::Free,
            "next" => Slot::Next,
            number => match number.parse() {
                Ok(number) if number < MOST_SLOTS => Slot::Number(number),
                _ => return Err(ParseSlotRuleError::BadSlot(machine::quoted(slot))),
            },
        };
        Ok(Self { pattern: pattern.to_owned(), slot })
    }
}

/// No placement has more.
const MOST_SLOTS: u32 = 1 << 20;

impl fmt::Display for SlotRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.slot {
            Slot::Free => write!(f, "{} = free", self.pattern),
            Slot::Next => write!(f, "{} = next", self.pattern),
            Slot::Number(number) => write!(f, "{} = {number}", self.pattern),
        }
    }
}

crate::text_in_journals!(SlotRule);

/// What takes slots by these rules: threads, or processes with all their threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Threads,
    Processes,
}

/// One that lives.
struct Member {
    pid: Pid,
    born: Instant,
    /// What it was called when it was born; nothing where it has its name already.
    at_birth: Vec<String>,
    /// The rule that holds, by its index, the default counted as one more; none while its name isn't settled.
    rule: Option<usize>,
}

/// The rules, and whom of those that live each names.
pub(crate) struct Roles {
    patterns: Vec<WildMatch>,
    slots: Vec<Slot>,
    named: Named,
    members: HashMap<Tid, Member>,
    next_look: Instant,
}

impl Roles {
    /// None where no rule is given.
    pub(crate) fn new(rules: &[SlotRule], named: Named) -> Option<Self> {
        let patterns = rules.iter().map(|rule| WildMatch::new(&rule.pattern)).collect();
        let slots = rules.iter().map(|rule| rule.slot).chain([Slot::Next]).collect();
        (!rules.is_empty()).then(|| Self { patterns, slots, named, members: HashMap::new(), next_look: Instant::now() })
    }

    /// One is born, or has become another program: its name isn't known.
    pub(crate) fn born(&mut self, pid: Pid, tid: Tid) {
        let at_birth = self.names(pid, tid);
        self.enter(pid, tid, at_birth, SOON);
    }

    /// One that was there before we looked: it has its name.
    pub(crate) fn found(&mut self, pid: Pid, tid: Tid) {
        self.enter(pid, tid, Vec::new(), Duration::ZERO);
    }

    fn enter(&mut self, pid: Pid, tid: Tid, at_birth: Vec<String>, look_in: Duration) {
        let now = Instant::now();
        self.members.insert(tid, Member { pid, born: now, at_birth, rule: None });
        self.next_look = self.next_look.min(now + look_in);
    }

    /// One has ended.
    pub(crate) fn remove(&mut self, tid: Tid) {
        self.members.remove(&tid);
    }

    /// How long it is until somebody's name is to be looked at.
    pub(crate) fn to_next_look(&self) -> Duration {
        self.next_look.saturating_duration_since(Instant::now())
    }

    /// Who takes another slot from now on, if it is time to look, in the order of births. One that is `alone` is left for later where it
    /// would take the next slot.
    pub(crate) fn look(&mut self, alone: impl Fn(Pid, Tid) -> bool) -> Vec<(Pid, Tid, Slot)> {
        let begun = Instant::now();
        if begun < self.next_look {
            return Vec::new();
        }
        let mut changed = Vec::new();
        let mut waits = false;
        let names: Vec<(Tid, Vec<String>)> =
            self.members.iter().map(|(tid, member)| (*tid, self.names(member.pid, *tid))).collect();
        for (tid, names) in names {
            let rule = self.rule_of(&names);
            let slot = self.slots[rule];
            let Some(member) = self.members.get_mut(&tid) else { continue };
            let is_settled = names != member.at_birth || member.born.elapsed() >= SETTLING;
            if member.rule == Some(rule) || names.is_empty() {
                continue;
            }
            if !is_settled || (slot == Slot::Next && alone(member.pid, tid)) {
                waits |= !is_settled;
                continue;
            }
            member.rule = Some(rule);
            changed.push((member.born, member.pid, tid, slot));
        }
        changed.sort_by_key(|(born, _, tid, _)| (*born, *tid));
        let pause = if waits { SOON } else { LATER };
        self.next_look = Instant::now() + pause.max(begun.elapsed() * MOST_SHARE);
        changed.into_iter().map(|(_, pid, tid, slot)| (pid, tid, slot)).collect()
    }

    /// The first rule that one of these names matches; where none does, the one after the last.
    fn rule_of(&self, names: &[String]) -> usize {
        let is_named = |pattern: &WildMatch| names.iter().any(|name| pattern.matches(name));
        self.patterns.iter().position(is_named).unwrap_or(self.patterns.len())
    }

    /// What it is called: the name of the thread, or of the process's first, and the title of the process, which are its arguments
    /// unless it has written something else there. Empty where it is gone.
    fn names(&self, pid: Pid, tid: Tid) -> Vec<String> {
        let tid = if self.named == Named::Processes { pid.main_thread() } else { tid };
        let comm = fs::read_to_string(format!("/proc/{}/task/{}/comm", pid.0, tid.0));
        let title = fs::read(format!("/proc/{}/cmdline", pid.0)).map(|title| {
            let words = title.split(|byte| *byte == 0).filter(|word| !word.is_empty());
            words.map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ").trim_end().to_owned()
        });
        let comm = comm.map(|comm| comm.trim_end_matches('\n').to_owned());
        [comm, title].into_iter().flatten().filter(|name| !name.is_empty()).collect()
    }
}

/// How many of those that live have each slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Occupancy(Vec<u32>);

impl Occupancy {
    /// The slot that one takes, of so many there are, in place of the one that it had.
    pub(crate) fn take(&mut self, slot: Slot, had: Option<usize>, slots: usize) -> Option<usize> {
        self.0.resize(slots, 0);
        self.release(had);
        let taken = match slot {
            Slot::Free => return None,
            Slot::Number(number) => number as usize % slots.max(1),
            Slot::Next => self.0.iter().enumerate().min_by_key(|(_, holders)| **holders)?.0,
        };
        self.0[taken] += 1;
        Some(taken)
    }

    /// One that had this slot has ended.
    pub(crate) fn release(&mut self, had: Option<usize>) {
        if let Some(holders) = had.and_then(|had| self.0.get_mut(had)) {
            *holders = holders.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::linux::Pid;
    use std::thread;

    fn rules(texts: &[&str]) -> Vec<SlotRule> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_rule_is_read_and_written_alike() {
        for text in ["postgres: *writer* = free", "GC Thread* = 3", "* = next", "a=b = 0"] {
            let rule: SlotRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
            assert_eq!(serde_json::from_str::<SlotRule>(&serde_json::to_string(&rule).unwrap()).unwrap(), rule);
        }
        assert_eq!("x=free".parse::<SlotRule>(), "x = free".parse());
        for (text, part) in [
            ("writer", "says no slot"),
            (" = free", "names nobody"),
            ("writer = here", "`here` is no slot"),
            ("writer = -1", "`-1` is no slot"),
            ("writer = 4294967296", "is no slot"),
        ] {
            let said = text.parse::<SlotRule>().unwrap_err().to_string();
            assert!(said.contains(part), "{text}: {said}");
        }
    }

    #[test]
    fn the_first_rule_that_matches_holds_and_what_none_names_takes_the_next_slot() {
        let roles = Roles::new(&rules(&["pg: *writer* = free", "pg: * = 1"]), Named::Processes).unwrap();
        let slot =
            |names: &[&str]| roles.slots[roles.rule_of(&names.iter().map(|&name| name.into()).collect::<Vec<_>>())];
        assert_eq!(slot(&["pg", "pg: background writer"]), Slot::Free);
        assert_eq!(slot(&["pg", "pg: checkpointer"]), Slot::Number(1));
        assert_eq!(slot(&["pg", "pg -D data"]), Slot::Next);
        assert!(Roles::new(&[], Named::Threads).is_none());
    }

    #[test]
    fn the_next_slot_is_the_one_that_fewest_have() {
        let mut occupancy = Occupancy::default();
        let taken: Vec<_> = (0..4).map(|_| occupancy.take(Slot::Next, None, 3)).collect();
        assert_eq!(taken, [Some(0), Some(1), Some(2), Some(0)]);
        occupancy.release(Some(2));
        assert_eq!(occupancy.take(Slot::Next, None, 3), Some(2));
        // Slot 0 had two: the one that becomes free leaves as many as the others have.
        assert_eq!(occupancy.take(Slot::Free, Some(0), 3), None);
        assert_eq!(occupancy.take(Slot::Number(4), None, 3), Some(1));
        assert_eq!(occupancy, Occupancy(vec![1, 2, 1]));
    }

    #[test]
    fn a_name_is_settled_when_it_has_changed_or_was_kept_and_may_change_again() {
        let own = Pid(std::process::id() as libc::pid_t);
        let (tell, told) = std::sync::mpsc::channel();
        let (go_on, may_go_on) = std::sync::mpsc::channel::<&'static std::ffi::CStr>();
        let named = thread::spawn(move || {
            tell.send(Tid(nix::unistd::gettid().as_raw())).unwrap();
            for name in may_go_on {
                nix::sys::prctl::set_name(name).unwrap();
                tell.send(Tid(0)).unwrap();
            }
        });
        let tid = told.recv().unwrap();
        let mut roles = Roles::new(&rules(&["worker* = 2", "helper = free"]), Named::Threads).unwrap();
        let look = |roles: &mut Roles| {
            roles.next_look = Instant::now();
            roles.look(|_, _| false)
        };
        roles.born(own, tid);
        assert_eq!(look(&mut roles), []);
        go_on.send(c"worker 1").unwrap();
        told.recv().unwrap();
        assert_eq!(look(&mut roles), [(own, tid, Slot::Number(2))]);
        assert_eq!(look(&mut roles), [], "it is known");
        go_on.send(c"helper").unwrap();
        told.recv().unwrap();
        assert_eq!(look(&mut roles), [(own, tid, Slot::Free)]);
        roles.born(own, tid);
        roles.members.get_mut(&tid).unwrap().born -= SETTLING;
        assert_eq!(look(&mut roles), [(own, tid, Slot::Free)], "it has kept a name that is a rule's");
        go_on.send(c"other").unwrap();
        told.recv().unwrap();
        roles.next_look = Instant::now();
        assert_eq!(roles.look(|_, _| true), [], "one that is alone takes no next slot");
        assert_eq!(look(&mut roles), [(own, tid, Slot::Next)]);
        drop(go_on);
        named.join().unwrap();
    }
}
