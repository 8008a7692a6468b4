//! Round robin: the order of joining, and nothing else.

use super::{RunQueue, Search, Standing, Surroundings};
use crate::index::{CpuIndex, ProcessIndex};
use std::collections::VecDeque;

/// One queue for all CPUs.
#[derive(Default)]
pub(crate) struct Fifo(VecDeque<ProcessIndex>);

impl RunQueue for Fifo {
    const PRIORITIES: bool = false;

    fn join(&mut self, process: ProcessIndex, around: Surroundings<'_>) -> Option<CpuIndex> {
        self.0.push_back(process);
        around.idle.any(around.chance)
    }

    #[inline]
    fn take(&mut self, search: Search, _: &[Standing]) -> Option<ProcessIndex> {
        if let Some(process) = search.again {
            self.0.push_back(process);
        }
        self.0.pop_front()
    }

    fn reorder(&mut self, _: &[Standing]) {}
}
