//! Round robin: the order of joining, and nothing else.

use super::idle::IdleCpus;
use super::{RunQueue, Search, Standing};
use crate::index::{CpuIndex, ProcessIndex};
use crate::random::Draws;
use std::collections::VecDeque;

/// One queue for all CPUs.
#[derive(Default)]
pub(crate) struct Fifo(VecDeque<ProcessIndex>);

impl RunQueue for Fifo {
    const PRIORITIES: bool = false;

    fn join(&mut self, process: ProcessIndex, _: &[Standing], idle: &IdleCpus, chance: &mut Draws) -> Option<CpuIndex> {
        self.0.push_back(process);
        idle.any(chance)
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
