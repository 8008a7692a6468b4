//! Orphans of a program: they come to us, so that none outlives it unnoticed.

use crate::{signals, tracer};
use machine::linux::{Pid, Tid};
use std::collections::HashSet;

/// Makes orphans come to us, and not to init, for as long as it lives.
pub(crate) struct Reaper {
    /// Our children from before, which are none of the program's.
    before: HashSet<Pid>,
}

impl Reaper {
    pub(crate) fn new() -> Self {
        Self::set(true);
        Self { before: Self::children().collect() }
    }

    /// Children of this thread and of the main thread, to which the kernel gives orphans.
    fn children() -> impl Iterator<Item = Pid> {
        let process = Pid(std::process::id() as libc::pid_t);
        let own = Tid(nix::unistd::gettid().as_raw());
        let main = process.main_thread();
        let threads = if own == main { vec![own] } else { vec![own, main] };
        threads.into_iter().flat_map(move |thread| process.children_of(thread))
    }

    /// Kills and reaps what has come to us since, and what comes to us by that, until there is nothing more; returns how
    /// many of them were still running. The others had ended before, unnoticed by a parent that is gone.
    pub(crate) fn sweep(self) -> u32 {
        let mut swept = 0;
        loop {
            let orphans: Vec<Pid> = Self::children().filter(|pid| !self.before.contains(pid)).collect();
            if orphans.is_empty() {
                return swept;
            }
            for orphan in orphans {
                swept += u32::from(!orphan.is_zombie());
                signals::send(orphan, libc::SIGKILL);
                tracer::reap(orphan.main_thread());
            }
        }
    }

    fn set(on: bool) {
        // SAFETY: the call changes only an attribute of this process.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, libc::c_ulong::from(on)) };
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        Self::set(false);
    }
}
