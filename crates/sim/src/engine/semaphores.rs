//! The semaphores at which processes of a workload wait for one another.

use crate::index::ProcessIndex;
use std::collections::VecDeque;

/// All semaphores of a workload.
#[derive(Default)]
pub(crate) struct Semaphores {
    all: Vec<Semaphore>,
    /// Whether processes sleep at barriers besides, from which others wake them.
    has_sleepers: bool,
    /// Who wakes since they were last asked for.
    woken: Vec<ProcessIndex>,
}

#[derive(Clone, Default)]
struct Semaphore {
    /// How much oftener it was posted than waited for.
    posts: u32,
    /// Who waits, the longest first.
    waiters: VecDeque<ProcessIndex>,
}

impl Semaphores {
    /// So many, of which none has been posted.
    pub(crate) fn new(count: usize, has_sleepers: bool) -> Self {
        Self { all: vec![Semaphore::default(); count], has_sleepers, woken: Vec::new() }
    }

    /// Whether no process ever wakes another.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && !self.has_sleepers
    }

    /// Who has waited for longest wakes; where nobody waits, the next one needn't.
    pub(crate) fn post(&mut self, semaphore: usize) {
        let Semaphore { posts, waiters } = &mut self.all[semaphore];
        match waiters.pop_front() {
            Some(waiter) => self.woken.push(waiter),
            None => *posts += 1,
        }
    }

    /// Goes on without waiting; whether that may be.
    pub(crate) fn pass(&mut self, semaphore: usize) -> bool {
        let posts = &mut self.all[semaphore].posts;
        let may_pass = *posts > 0;
        *posts = posts.saturating_sub(1);
        may_pass
    }

    /// A process wakes that waits elsewhere.
    pub(crate) fn wake(&mut self, process: ProcessIndex) {
        self.woken.push(process);
    }

    /// A process waits, having been told that it may not pass.
    pub(crate) fn wait(&mut self, semaphore: usize, process: ProcessIndex) {
        self.all[semaphore].waiters.push_back(process);
    }

    /// Who wakes by what was posted since this was last asked, in order.
    pub(crate) fn take_woken(&mut self) -> Option<ProcessIndex> {
        if self.woken.is_empty() { None } else { Some(self.woken.remove(0)) }
    }
}
