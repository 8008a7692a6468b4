//! Positions in the simulator's tables, never kernel numbers; and enumerations as tables.

use serde::Serialize;

/// Position of a process among the workload's: job by job, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ProcessIndex(pub u32);

/// Position of a CPU among the machine's usable ones, in tree order, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct CpuIndex(pub u32);

/// The variants of an enumeration as an array.
pub(crate) const fn all<T: Copy, const N: usize>(variants: &[T]) -> [T; N] {
    *variants.first_chunk().expect("there are as many as the caller counts")
}

impl ProcessIndex {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

impl CpuIndex {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}
