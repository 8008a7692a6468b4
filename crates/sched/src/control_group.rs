//! The threads of a control group, in the scheduler's class as long as it is loaded.

use crate::command::{SCHED_EXT, set_class};
use anyhow::Context;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often one looks who came and who left: what a thread starts is in its class at once, what is moved into the group or out of it
/// changes class then.
const LOOK: Duration = Duration::from_secs(1);

/// The members of a control group. Those taken are given back when this is dropped.
pub struct Members {
    path: PathBuf,
    looked: Option<Instant>,
    taken: HashSet<i32>,
}

impl Members {
    /// Those of the control group at `path` and of those below it; nobody is taken yet.
    pub fn at(path: &Path) -> anyhow::Result<Self> {
        let threads = path.join("cgroup.threads");
        fs::metadata(&threads).with_context(|| {
            format!("{} is no control group (version 2): there is no {}", path.display(), threads.display())
        })?;
        Ok(Self { path: path.to_owned(), looked: None, taken: HashSet::new() })
    }

    /// Takes those that came since the last time, and gives back those that left.
    pub fn refresh(&mut self) {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            self.look();
        }
    }

    fn look(&mut self) {
        self.looked = Some(Instant::now());
        let mut here = HashSet::new();
        threads_below(&self.path, &mut here);
        for &thread in here.difference(&self.taken) {
            if is_ordinary(thread) {
                // It may have ended meanwhile.
                let _ = set_class(thread, SCHED_EXT);
            }
        }
        self.taken.difference(&here).for_each(|&thread| give_back(thread));
        self.taken = here;
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        if self.looked.is_some() {
            self.look();
        }
        self.taken.iter().for_each(|&thread| give_back(thread));
    }
}

/// Gives a thread back to the kernel's own scheduler, unless it has ended or chosen another class meanwhile.
fn give_back(thread: i32) {
    if class(thread) == Some(SCHED_EXT) {
        let _ = set_class(thread, libc::SCHED_OTHER);
    }
}

fn threads_below(group: &Path, threads: &mut HashSet<i32>) {
    let here = fs::read_to_string(group.join("cgroup.threads")).unwrap_or_default();
    threads.extend(here.lines().filter_map(|line| line.parse::<i32>().ok()));
    let below = fs::read_dir(group).into_iter().flatten().flatten();
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        threads_below(&entry.path(), threads);
    }
}

/// Real-time and batch threads keep their class.
fn is_ordinary(thread: i32) -> bool {
    class(thread) == Some(libc::SCHED_OTHER)
}

fn class(thread: i32) -> Option<i32> {
    // SAFETY: the call reads no memory of ours.
    let class = unsafe { libc::sched_getscheduler(thread) };
    (class >= 0).then_some(class)
}
