//! Under which class, nice value and slice the program's threads were when they were last read back.

use super::attributes::{Asked, Attributes};
use super::{Scheduling, SchedulingObservation};
use machine::linux::Tid;
use std::collections::HashMap;

/// What was seen of the threads of a program for which a way of scheduling is asked.
pub(crate) struct SchedulingSeen {
    asked: Option<Asked>,
    scheduling: Scheduling,
    /// The command's main thread: when it had become the program, and when it was last read back.
    first: Option<Attributes>,
    last: Option<Attributes>,
    /// Threads, by their rows, that were last read back otherwise than asked.
    otherwise: HashMap<usize, Attributes>,
}

impl SchedulingSeen {
    /// None where nothing is asked for.
    pub(crate) fn new(scheduling: &Scheduling) -> Option<Self> {
        (*scheduling != Scheduling::Default).then(|| Self {
            asked: Asked::of(scheduling),
            scheduling: scheduling.clone(),
            first: None,
            last: None,
            otherwise: HashMap::new(),
        })
    }

    /// Reads a thread back, which has this row; the command's main thread has the first.
    pub(crate) fn read_back(&mut self, tid: Tid, row: usize) {
        if self.asked.is_none() && row > 0 {
            return;
        }
        let Ok(read) = Attributes::of(tid) else { return };
        if row == 0 {
            self.first.get_or_insert(read);
            self.last = Some(read);
        }
        match self.asked {
            Some(asked) if !asked.is(read) => drop(self.otherwise.insert(row, read)),
            _ => drop(self.otherwise.remove(&row)),
        }
    }

    /// What was read back, and what the reader should know of it.
    pub(crate) fn finish(self) -> (SchedulingObservation, Option<String>) {
        let observation = SchedulingObservation {
            policy: self.last.map(|read| read.class.to_string()),
            nice: self.last.map(|read| read.nice),
            slice_us: self.last.map(|read| read.slice_us).filter(|us| *us > 0),
            otherwise: self.otherwise.len() as u32,
            ..SchedulingObservation::default()
        };
        (observation, self.note())
    }

    fn note(&self) -> Option<String> {
        let first_row = self.otherwise.keys().min()?;
        let (read, asked) = (&self.otherwise[first_row], &self.scheduling);
        let whose = if *first_row == 0 { "its main thread" } else { "the first of them" };
        let threads = match self.otherwise.len() {
            1 => "one thread".to_owned(),
            count => format!("{count} threads"),
        };
        // What the child set for itself is what the program began with.
        let by_whom = match (self.asked, self.first) {
            (Some(asked), Some(first)) if !asked.is(first) => "the kernel did not keep what was set",
            _ => "the program changed it itself",
        };
        Some(format!("{threads} ended under another scheduling than {asked} ({whose}: {read}); {by_whom}"))
    }
}
