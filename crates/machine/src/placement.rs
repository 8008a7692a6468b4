//! A placement: which thread sits on which CPUs.

use crate::cpu::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};

/// An ordered map from thread index to the CPUs that the thread may run on.
///
/// Thread `i` is the `i`-th thread that a program creates; thread 0 is its main thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// What made it: a policy's name such as `scatter`, or `list` for CPUs given one by one.
    pub policy: String,
    /// `slots[i]` holds the CPUs of thread `i`; never empty, nor is any slot.
    pub slots: Vec<CpuSet>,
}

impl Placement {
    /// A placement with one CPU a thread, in the order given.
    pub fn from_cpus(policy: impl Into<String>, cpus: impl IntoIterator<Item = CpuId>) -> Self {
        Self {
            policy: policy.into(),
            slots: cpus.into_iter().map(CpuSet::from).collect(),
        }
    }

    /// The CPUs of thread `thread`; threads beyond the last slot start again at the first, as libgomp does.
    pub fn slot(&self, thread: usize) -> &CpuSet {
        &self.slots[thread % self.slots.len()]
    }

    /// All CPUs that any thread may use.
    pub fn union(&self) -> CpuSet {
        self.slots.iter().flat_map(CpuSet::iter).collect()
    }

    /// The CPUs in thread order when every slot holds exactly one CPU.
    pub fn cpus(&self) -> Option<Vec<CpuId>> {
        self.slots.iter().map(CpuSet::only).collect()
    }
}
