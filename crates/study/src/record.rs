//! A whole study as its journal keeps it: all that a report may know.

use crate::host::{HostFacts, PastSession};
use crate::kind::Kind;
use machine::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};

/// Plan, machine, sessions and trials of one study.
#[derive(Clone, Debug, PartialEq)]
pub struct Record<K: Kind> {
    /// The plan, as it was when the study began.
    pub plan: K,
    /// The topology, as the machine crate serialises it.
    pub machine: serde_json::Value,
    /// What the machine is.
    pub host: HostFacts,
    /// When and how the study was worked on.
    pub sessions: Vec<PastSession>,
    /// Every trial, in the order in which they were run.
    pub trials: Vec<K::Trial>,
    /// Trials that were disturbed and run again, likewise: nothing counts them.
    pub disturbed: Vec<K::Trial>,
    /// Why the study ended; none while it is unfinished.
    pub ending: Option<Ending>,
}

impl<K: Kind> Record<K> {
    /// How many CPUs the study may use; 1 where the topology doesn't say.
    pub(crate) fn usable_cpus(&self) -> usize {
        self.machine["usable_cpus"].as_array().map_or(1, Vec::len)
    }

    /// The CPUs that the study may use; none where the topology doesn't say.
    pub(crate) fn usable_cpu_set(&self) -> CpuSet {
        let numbers = self.machine["usable_cpus"].as_array().into_iter().flatten();
        numbers.filter_map(|cpu| Some(CpuId(cpu.as_u64()?.try_into().ok()?))).collect()
    }
}

/// Why a study ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// Every comparison was settled, or had all the runs that the stop rule allows.
    Finished,
    /// The time budget was spent first.
    BudgetSpent,
}
