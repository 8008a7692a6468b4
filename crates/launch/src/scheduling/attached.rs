//! Processes that are each bound to one CPU for life.

use super::Loads;
use machine::linux::Pid;
use machine::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A process of the program, and the CPU that it was bound to when it was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedProcess {
    /// Which: 0 is the command, others are numbered as they appear.
    pub process: u32,
    /// Its CPU.
    pub cpu: CpuId,
}

/// Gives each process the CPU with the fewest living processes of the program, or of all that share its loads.
pub(crate) struct Attached {
    cpus: CpuSet,
    loads: Loads,
    /// Living processes, each with its CPU.
    of_processes: HashMap<Pid, CpuId>,
    given: Vec<AttachedProcess>,
}

impl Attached {
    /// `loads` are of these CPUs at least.
    pub(crate) fn new(cpus: &CpuSet, loads: Loads) -> Self {
        Self { cpus: cpus.clone(), loads, of_processes: HashMap::new(), given: Vec::new() }
    }

    /// Gives a CPU to a process that was created just now, the lowest on ties; none when there are no CPUs.
    pub(crate) fn give(&mut self, pid: Pid, process: u32) -> Option<CpuId> {
        // The kernel gives out the ids of those that have ended again.
        self.end(pid);
        let cpu = self.loads.take_least(&self.cpus)?;
        self.of_processes.insert(pid, cpu);
        self.given.push(AttachedProcess { process, cpu });
        Some(cpu)
    }

    /// The process has ended. Others may be told, or told again.
    pub(crate) fn end(&mut self, pid: Pid) {
        if let Some(cpu) = self.of_processes.remove(&pid) {
            self.loads.give_back(cpu);
        }
    }

    /// What was given to whom, in order of creation.
    pub(crate) fn finish(mut self) -> Vec<AttachedProcess> {
        self.of_processes.drain().for_each(|(_, cpu)| self.loads.give_back(cpu));
        self.given
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attached(cpus: &CpuSet) -> Attached {
        Attached::new(cpus, Loads::new(cpus).unwrap())
    }

    proptest! {
        #[test]
        fn each_process_gets_the_lowest_of_the_cpus_with_the_fewest(
            cpus in prop::collection::btree_set(0_u32..9, 1..5),
            // Births, and ends of the n-th that lives.
            events in prop::collection::vec(prop::option::of(0_usize..8), 0..60),
        ) {
            let mut attached = attached(&cpus.iter().copied().map(CpuId).collect());
            let mut alive: Vec<(Pid, CpuId)> = Vec::new();
            for (number, event) in (0_i32..).zip(events) {
                if let Some(nth) = event {
                    if nth < alive.len() {
                        attached.end(alive.remove(nth).0);
                    }
                    continue;
                }
                let load = |cpu: u32| alive.iter().filter(|(_, of)| of.0 == cpu).count();
                let fewest = cpus.iter().map(|cpu| load(*cpu)).min().unwrap();
                let expected = cpus.iter().copied().find(|cpu| load(*cpu) == fewest).map(CpuId);
                let pid = Pid(number);
                prop_assert_eq!(attached.give(pid, number as u32), expected);
                alive.push((pid, expected.unwrap()));
            }
        }
    }

    #[test]
    fn an_id_that_is_given_out_again_counts_once() {
        let mut attached = attached(&"2,5".parse().unwrap());
        assert_eq!(attached.give(Pid(9), 0), Some(CpuId(2)));
        assert_eq!(attached.give(Pid(9), 1), Some(CpuId(2)));
        assert_eq!(attached.give(Pid(10), 2), Some(CpuId(5)));
        attached.end(Pid(9));
        attached.end(Pid(9));
        assert_eq!(attached.give(Pid(11), 3), Some(CpuId(2)));
        assert_eq!(attached.finish().len(), 4);
    }

    #[test]
    fn what_several_share_counts_for_each_of_them_until_it_is_over() {
        let cpus: CpuSet = "2,5".parse().unwrap();
        let loads = Loads::new(&cpus).unwrap();
        let mut first = Attached::new(&cpus, loads.clone());
        let mut second = Attached::new(&cpus, loads.clone());
        assert_eq!(first.give(Pid(9), 0), Some(CpuId(2)));
        assert_eq!(second.give(Pid(10), 0), Some(CpuId(5)));
        assert_eq!(second.give(Pid(11), 1), Some(CpuId(2)));
        first.finish();
        second.end(Pid(11));
        assert_eq!(second.give(Pid(12), 2), Some(CpuId(2)));
        second.finish();
        assert_eq!(Attached::new(&cpus, loads).give(Pid(13), 0), Some(CpuId(2)));
    }
}
