//! One process or thread.

use super::{read_word, value_of};
use crate::cpu::CpuId;
use nix::errno::Errno;
use procfs::prelude::*;
use procfs::process::{Stat, Status};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A kernel thread id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub libc::pid_t);

impl Tid {
    /// The thread that asks.
    pub const CALLER: Self = Self(0);
}

/// A kernel process id, which is the thread id of the process's main thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub libc::pid_t);

impl Pid {
    /// The main thread of the process.
    pub fn main_thread(self) -> Tid {
        Tid(self.0)
    }

    /// Every process that exists now and that we may see.
    pub fn all() -> Vec<Pid> {
        let entries = fs::read_dir("/proc").into_iter().flatten();
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Pid)).collect()
    }

    /// The leader of its session; none when it is gone.
    pub fn session(self) -> Option<Pid> {
        Stat::from_file(format!("/proc/{}/stat", self.0)).ok().map(|stat| Pid(stat.session))
    }

    /// Whether `tid` is a thread of this process that is not reaped yet.
    pub fn has_thread(self, tid: Tid) -> bool {
        // SAFETY: signal 0 delivers nothing; the call only asks whether the thread is in the process.
        let result = unsafe { libc::syscall(libc::SYS_tgkill, self.0, tid.0, 0) };
        result == 0 || Errno::last() == Errno::EPERM
    }

    /// Threads of the process that exist now, in the order of their ids.
    pub fn threads(self) -> Vec<Tid> {
        // `procfs` would open a directory for each of them.
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0)).into_iter().flatten();
        let mut threads: Vec<Tid> =
            tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok().map(Tid)).collect();
        threads.sort_unstable();
        threads
    }

    /// Child processes that exist now; empty as well where the kernel lacks `CONFIG_PROC_CHILDREN`.
    pub fn children(self) -> Vec<Pid> {
        self.threads().into_iter().flat_map(|tid| self.children_of(tid)).collect()
    }

    /// Child processes of one thread of the process.
    pub fn children_of(self, tid: Tid) -> Vec<Pid> {
        let list = read_word(self.file_of(tid, "children")).unwrap_or_default();
        list.split_whitespace().filter_map(|pid| pid.parse().ok().map(Pid)).collect()
    }

    /// Whether it has ended, and its parent has yet to ask how.
    pub fn is_zombie(self) -> bool {
        Stat::from_file(format!("/proc/{}/stat", self.0)).is_ok_and(|stat| stat.state == 'Z')
    }

    /// The file that it executes, as a path that leads there even when the file has been moved.
    pub fn executable(self) -> PathBuf {
        format!("/proc/{}/exe", self.0).into()
    }

    /// Largest resident set of its present program so far, in bytes.
    pub fn peak_rss_bytes(self) -> Option<u64> {
        let status = read_start(&format!("/proc/{}/status", self.0))?;
        Some(value_of(&status, "VmHWM", ':')?.strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
    }

    /// How often the kernel moved the thread to another CPU; none where [`counts_migrations`] says so.
    pub fn migrations(self, tid: Tid) -> Option<u64> {
        let sched = read_start(&self.file_of(tid, "sched"))?;
        value_of(&sched, "se.nr_migrations", ':')?.parse().ok()
    }

    /// The CPU that the thread is on, or was on when it last ran.
    pub fn last_cpu(self, tid: Tid) -> Option<CpuId> {
        Stat::from_file(self.file_of(tid, "stat")).ok()?.processor?.try_into().ok().map(CpuId)
    }

    fn file_of(self, tid: Tid, name: &str) -> String {
        format!("/proc/{}/task/{}/{name}", self.0, tid.0)
    }
}

/// Whether the kernel tells how often it moved a thread (`CONFIG_SCHED_DEBUG`, and no such file in most sandboxes).
pub fn counts_migrations() -> bool {
    Path::new("/proc/self/sched").exists()
}

/// Whether the calling process has the capability of this number (linux/capability.h) in its effective set.
pub fn has_capability(number: u32) -> bool {
    Status::from_file("/proc/self/status").is_ok_and(|status| status.capeff >> number & 1 == 1)
}

/// CPU time of this process so far, and of all descendants that were waited for, in seconds.
pub fn own_cpu_s() -> Option<f64> {
    let stat = Stat::from_file("/proc/self/stat").ok()?;
    let ticks = stat.utime + stat.stime + u64::try_from(stat.cutime + stat.cstime).ok()?;
    Some(ticks as f64 / procfs::ticks_per_second() as f64)
}

/// Whether no other thread of this process exists. While that is so, none can come but by the caller.
pub fn is_only_thread() -> bool {
    Pid(std::process::id() as libc::pid_t).threads().len() == 1
}

/// The first page of a file, in a single read. What is asked for at each end of a thread stands there, and `procfs` takes
/// twice as long to parse a whole `status`.
fn read_start(path: &str) -> Option<String> {
    let mut page = [0; 4096];
    let length = File::open(path).ok()?.read(&mut page).ok()?;
    Some(String::from_utf8_lossy(&page[..length]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Pid {
        Pid(std::process::id() as libc::pid_t)
    }

    #[test]
    fn a_living_process_tells_its_threads_and_memory() {
        assert!(own().threads().contains(&own().main_thread()));
        assert!(own().has_thread(own().main_thread()));
        assert!(!own().has_thread(Tid(1)));
        assert!(own().peak_rss_bytes().unwrap() > 100 << 10);
        assert!(own().last_cpu(own().main_thread()).is_some());
        assert!(!own().is_zombie() && own().executable().exists());
        assert!(Pid::all().contains(&own()) && own().session().is_some());
    }

    #[test]
    fn a_child_that_nobody_asked_about_is_a_zombie() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid(child.id() as libc::pid_t);
        while !pid.is_zombie() {
            assert!(own().threads().iter().any(|tid| own().children_of(*tid).contains(&pid)));
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!pid.is_zombie());
    }

    #[test]
    fn a_child_that_has_ended_counts_to_the_time_of_its_parent() {
        let before_s = own_cpu_s().unwrap();
        // Other tests of this process use a little time of their own as well.
        let count = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", count]).status().unwrap().success());
        assert!(own_cpu_s().unwrap() > before_s);
    }

    #[test]
    fn a_second_thread_is_noticed() {
        std::thread::spawn(|| assert!(!is_only_thread())).join().unwrap();
    }

    #[test]
    fn a_process_that_does_not_exist_tells_nothing() {
        let nobody = Pid(libc::pid_t::MAX);
        assert!(nobody.threads().is_empty() && nobody.children().is_empty());
        assert_eq!((nobody.peak_rss_bytes(), nobody.session()), (None, None));
        assert_eq!(nobody.migrations(nobody.main_thread()), None);
    }
}
