//! The semaphores at which processes of a workload wait for one another.

use crate::index::ProcessIndex;
use crate::workload::Workload;
use std::collections::VecDeque;

/// All semaphores of a workload.
#[derive(Default)]
pub(crate) struct Semaphores {
    all: Vec<Semaphore>,
    /// By process, whose post it last went on from; empty where nobody replies.
    askers: Vec<ProcessIndex>,
    /// Whether processes sleep at barriers besides, from which others wake them.
    has_sleepers: bool,
    /// Who wakes since they were last asked for.
    woken: Vec<ProcessIndex>,
}

#[derive(Clone, Default)]
struct Semaphore {
    /// How much oftener it was posted than waited for, and by whom, the first first, where anybody replies.
    posts: u32,
    posters: VecDeque<ProcessIndex>,
    /// Who waits, the longest first.
    waiters: VecDeque<ProcessIndex>,
    /// For whom there is a reply, once for each.
    replies: Vec<ProcessIndex>,
}

impl Semaphores {
    /// Those of a workload, of which none has been posted.
    pub(crate) fn new(workload: &Workload, has_sleepers: bool) -> Self {
        let all = vec![Semaphore::default(); workload.semaphores().len()];
        let askers = if workload.replies().is_empty() { 0 } else { workload.job_of_processes().count() };
        Self { all, askers: vec![ProcessIndex(0); askers], has_sleepers, woken: Vec::new() }
    }

    /// Whether no process ever wakes another.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && !self.has_sleepers
    }

    /// Who has waited for longest wakes; where nobody waits, the next one needn't.
    pub(crate) fn post(&mut self, semaphore: usize, by: ProcessIndex) {
        let Semaphore { posts, posters, waiters, .. } = &mut self.all[semaphore];
        match waiters.pop_front() {
            Some(waiter) => {
                self.woken.push(waiter);
                if let Some(asker) = self.askers.get_mut(waiter.at()) {
                    *asker = by;
                }
            }
            None => {
                *posts += 1;
                if !self.askers.is_empty() {
                    posters.push_back(by);
                }
            }
        }
    }

    /// Goes on without waiting; whether that may be.
    pub(crate) fn pass(&mut self, semaphore: usize, process: ProcessIndex) -> bool {
        let Semaphore { posts, posters, .. } = &mut self.all[semaphore];
        let may_pass = *posts > 0;
        *posts = posts.saturating_sub(1);
        if let Some(asker) = posters.pop_front() {
            self.askers[process.at()] = asker;
        }
        may_pass
    }

    /// The process whose post this one last went on from wakes, if it waits for a reply there; else it needn't when it comes.
    pub(crate) fn reply(&mut self, semaphore: usize, by: ProcessIndex) {
        let to = self.askers[by.at()];
        let Semaphore { waiters, replies, .. } = &mut self.all[semaphore];
        match waiters.iter().position(|&waiter| waiter == to) {
            Some(at) => {
                waiters.remove(at);
                self.woken.push(to);
            }
            None => replies.push(to),
        }
    }

    /// Takes a reply that is there for the process already; whether there was one.
    pub(crate) fn take_reply(&mut self, semaphore: usize, process: ProcessIndex) -> bool {
        let replies = &mut self.all[semaphore].replies;
        let own = replies.iter().position(|&to| to == process);
        own.map(|at| replies.swap_remove(at)).is_some()
    }

    /// A process wakes that waits elsewhere.
    pub(crate) fn wake(&mut self, process: ProcessIndex) {
        self.woken.push(process);
    }

    /// A process waits, for a post or for a reply, having been told that there is none.
    pub(crate) fn wait(&mut self, semaphore: usize, process: ProcessIndex) {
        self.all[semaphore].waiters.push_back(process);
    }

    /// Who wakes by what was posted since this was last asked, in order.
    pub(crate) fn take_woken(&mut self) -> Option<ProcessIndex> {
        if self.woken.is_empty() { None } else { Some(self.woken.remove(0)) }
    }
}
