//! Which of the kernel's tasks are of interest: those that are born in a section.
//!
//! A task is known by where the kernel has its `task_struct`. One that the kernel switches to in a section, and never before, was born
//! in it. A place may be used again: making a task there is noticed, too.

use crate::window::ProcessIndex;
use machine::CpuId;
use std::collections::HashMap;

/// Where the kernel has a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskAddress(pub u64);

/// The tasks of a guest.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    /// Those that are known, and which process of interest each is, if one.
    known: HashMap<TaskAddress, Option<ProcessIndex>>,
    /// By CPU, what it runs.
    running: Vec<Option<TaskAddress>>,
    /// All bits that any of their addresses has: what has others is no task.
    bits: u64,
    /// Processes of interest in this section so far.
    born: u32,
}

impl Tasks {
    pub fn new(cpus: usize) -> Self {
        Self { known: HashMap::new(), running: vec![None; cpus], bits: 0, born: 0 }
    }

    /// A CPU runs a task: which process of interest that is, if one.
    pub fn switch(&mut self, cpu: CpuId, task: TaskAddress, in_section: bool) -> Option<ProcessIndex> {
        self.running[cpu.0 as usize] = Some(task);
        self.bits |= task.0;
        let born = &mut self.born;
        *self.known.entry(task).or_insert_with(|| {
            let number = *born;
            in_section.then(|| {
                *born += 1;
                ProcessIndex(number)
            })
        })
    }

    /// Whether there may be a task: they begin at whole cache lines, within what all of them have together.
    #[inline]
    pub fn may_be_one(&self, task: TaskAddress) -> bool {
        task.0 & !self.bits == 0
    }

    /// The kernel writes a task anew: the process of interest that was there, if one. One that runs isn't made anew.
    pub fn birth(&mut self, task: TaskAddress) -> Option<ProcessIndex> {
        if !self.may_be_one(task) || self.running.contains(&Some(task)) {
            return None;
        }
        self.known.remove(&task).flatten()
    }

    /// What was of interest is so no more.
    pub fn end_section(&mut self) {
        self.known.values_mut().for_each(|process| *process = None);
        self.born = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_of_interest_that_are_born_in_a_section() {
        let mut tasks = Tasks::new(2);
        let (cpu, other) = (CpuId(0), CpuId(1));
        let task = TaskAddress;
        assert_eq!(tasks.switch(cpu, task(1), false), None);
        assert_eq!(tasks.switch(cpu, task(2), true), Some(ProcessIndex(0)));
        assert_eq!(tasks.switch(other, task(1), true), None, "it is older than the section");
        assert_eq!(tasks.switch(cpu, task(3), true), Some(ProcessIndex(1)));
        assert_eq!(tasks.switch(other, task(2), true), Some(ProcessIndex(0)), "wherever it runs");
        // Another takes the place of one that has ended.
        assert_eq!(tasks.birth(task(3)), None, "it runs");
        assert_eq!(tasks.switch(cpu, task(1), true), None);
        assert_eq!(tasks.birth(task(3)), Some(ProcessIndex(1)));
        assert_eq!(tasks.switch(cpu, task(3), true), Some(ProcessIndex(2)));
        // Beside all that was ever a task.
        assert_eq!(tasks.birth(task(4)), None);
        tasks.end_section();
        assert_eq!(tasks.switch(cpu, task(2), true), None, "what is left of a section is older than the next");
        assert_eq!(tasks.switch(cpu, task(4), true), Some(ProcessIndex(0)));
    }
}
