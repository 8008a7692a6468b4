//! One process or thread.

use super::{read_word, value_of};
use crate::cpu::CpuId;
use nix::errno::Errno;
use procfs::prelude::*;
use procfs::process::{Stat, Status};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A kernel thread id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub libc::pid_t);

/// What the scheduler has counted of a thread since its creation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchedulerTimes {
    /// CPU time in user mode and in the kernel, in seconds.
    pub cpu_s: f64,
    /// How long it was ready to run and waited for a CPU that others had, in seconds; none where the kernel doesn't count that
    /// (`CONFIG_SCHEDSTATS`).
    pub waited_s: Option<f64>,
}

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

    /// Its parent; none when it is gone.
    pub fn parent(self) -> Option<Pid> {
        Stat::from_file(format!("/proc/{}/stat", self.0)).ok().map(|stat| Pid(stat.ppid))
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

    /// Threads of the process that exist now, as they were created: the main thread first.
    ///
    /// Their ids don't tell the order: they start again from the lowest some time.
    pub fn threads(self) -> Vec<Tid> {
        // `procfs` would open a directory for each of them, and the kernel lists them as they were created.
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0)).into_iter().flatten();
        tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok().map(Tid)).collect()
    }

    /// When a thread of it was created, in clock ticks since boot; none when it is gone. With its number it is that thread for good.
    pub fn thread_started(self, tid: Tid) -> Option<u64> {
        Stat::from_file(self.file_of(tid, "stat")).ok().map(|stat| stat.starttime)
    }

    /// Where the arguments of its program are in its memory: the first byte, and the one after the last. None where the kernel doesn't say.
    pub fn arguments_in_memory(self) -> Option<(usize, usize)> {
        let stat = Stat::from_file(format!("/proc/{}/stat", self.0)).ok()?;
        Some((usize::try_from(stat.arg_start?).ok()?, usize::try_from(stat.arg_end?).ok()?))
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

    /// CPU time of all of its threads so far, and of the descendants that it waited for, in seconds.
    pub fn cpu_s(self) -> Option<f64> {
        let stat = Stat::from_file(format!("/proc/{}/stat", self.0)).ok()?;
        let ticks = stat.utime + stat.stime + u64::try_from(stat.cutime + stat.cstime).ok()?;
        Some(ticks as f64 / procfs::ticks_per_second() as f64)
    }

    /// Processes that descend from it and exist now, not those that have ended; what has lost its parent descends from whoever
    /// adopted it.
    pub fn descendants(self) -> Vec<Pid> {
        if lists_children() {
            return self.descendants_by(Pid::children);
        }
        let parents: Vec<(Pid, Pid)> = Pid::all().into_iter().filter_map(|pid| Some((pid.parent()?, pid))).collect();
        self.descendants_by(|of| parents.iter().filter(|(parent, _)| *parent == of).map(|(_, pid)| *pid).collect())
    }

    fn descendants_by(self, children: impl Fn(Pid) -> Vec<Pid>) -> Vec<Pid> {
        let mut found = BTreeSet::new();
        let mut waiting = children(self);
        while let Some(pid) = waiting.pop() {
            if !pid.is_zombie() && found.insert(pid) {
                waiting.extend(children(pid));
            }
        }
        found.into_iter().collect()
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
        self.name_and_migrations(tid).1
    }

    /// What the thread calls itself, and its [`migrations`](Self::migrations): one file tells both, where the kernel has it.
    pub fn name_and_migrations(self, tid: Tid) -> (Option<String>, Option<u64>) {
        let Some(sched) = read_start(&self.file_of(tid, "sched")) else {
            return (read_word(self.file_of(tid, "comm")), None);
        };
        let name = sched.lines().next().and_then(|line| line.rsplit_once(" (")).map(|(name, _)| name.to_owned());
        (name, value_of(&sched, "se.nr_migrations", ':').and_then(|count| count.parse().ok()))
    }

    /// How long the thread ran and waited for a CPU; none when it doesn't exist.
    pub fn scheduler_times(self, tid: Tid) -> Option<SchedulerTimes> {
        let counted = read_start(&self.file_of(tid, "schedstat")).and_then(|line| parse_schedstat(&line));
        counted.or_else(|| {
            let stat = Stat::from_file(self.file_of(tid, "stat")).ok()?;
            let cpu_s = (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64;
            Some(SchedulerTimes { cpu_s, waited_s: None })
        })
    }

    /// Whether the thread runs or is ready to run, and isn't asleep, stopped or gone.
    pub fn is_ready(self, tid: Tid) -> bool {
        // The name stands in parentheses and may have any in it; the state is the word behind the last.
        let stat = read_start(&self.file_of(tid, "stat"));
        stat.is_some_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R')))
    }

    /// The CPU that the thread is on, or was on when it last ran.
    pub fn last_cpu(self, tid: Tid) -> Option<CpuId> {
        Stat::from_file(self.file_of(tid, "stat")).ok()?.processor?.try_into().ok().map(CpuId)
    }

    fn file_of(self, tid: Tid, name: &str) -> String {
        format!("/proc/{}/task/{}/{name}", self.0, tid.0)
    }
}

/// The line `running waiting slices` of `schedstat`, in nanoseconds; none for `0 0 0`, which a kernel writes that doesn't count.
fn parse_schedstat(line: &str) -> Option<SchedulerTimes> {
    let mut numbers = line.split_whitespace().map_while(|number| number.parse::<u64>().ok());
    let (running_ns, waiting_ns, slices) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let is_counted = slices > 0 || running_ns > 0;
    is_counted.then_some(SchedulerTimes { cpu_s: running_ns as f64 / 1e9, waited_s: Some(waiting_ns as f64 / 1e9) })
}

/// Whether the kernel lists the children of a thread (`CONFIG_PROC_CHILDREN`).
pub fn lists_children() -> bool {
    Path::new("/proc/thread-self/children").exists()
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
    Pid(std::process::id() as libc::pid_t).cpu_s()
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

    /// The thread that asks, by its number.
    fn own_tid() -> Tid {
        let link = fs::read_link("/proc/thread-self").unwrap();
        Tid(link.file_name().unwrap().to_str().unwrap().parse().unwrap())
    }

    #[test]
    fn a_thread_tells_its_name_whatever_is_in_it() {
        let named = |name: &'static str| {
            let thread = std::thread::Builder::new().name(name.into()).spawn(|| own().name_and_migrations(own_tid()).0);
            thread.unwrap().join().unwrap()
        };
        assert_eq!(named("a (b) c"), Some("a (b) c".into()));
        assert_eq!(named("sixteen bytes or more"), Some("sixteen bytes o".into()));
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
    fn descendants_are_those_that_their_parents_tell_of() {
        let script = "sleep 1000 & sh -c 'sleep 1000 & wait' & echo $$; wait";
        let mut child =
            std::process::Command::new("sh").args(["-c", script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let pid = Pid(child.id() as libc::pid_t);
        let by_parents = |of: Pid| Pid::all().into_iter().filter(|pid| pid.parent() == Some(of)).collect::<Vec<_>>();
        while pid.descendants_by(by_parents).len() < 3 {
            std::thread::yield_now();
        }
        let found = pid.descendants();
        assert!(found.len() == 3 && found.iter().all(|found| *found != pid), "{found:?}");
        assert_eq!(found, pid.descendants_by(by_parents));
        assert!(own().descendants().contains(&found[0]));
        let ids = found.iter().map(|pid| pid.0.to_string());
        assert!(std::process::Command::new("kill").args(ids).status().unwrap().success());
        child.wait().unwrap();
        assert_eq!(pid.descendants(), []);
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
    fn who_runs_is_ready_and_who_sleeps_is_not() {
        let named = std::thread::Builder::new().name("a) S (b".into()).spawn(|| own().is_ready(own_tid()));
        assert!(named.unwrap().join().unwrap());
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid(child.id() as libc::pid_t);
        while pid.is_ready(pid.main_thread()) {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!pid.is_ready(pid.main_thread()));
    }

    #[test]
    fn a_second_thread_is_noticed() {
        std::thread::spawn(|| assert!(!is_only_thread())).join().unwrap();
    }

    #[test]
    fn a_thread_tells_how_long_it_ran() {
        let tid = own_tid();
        let times = || own().scheduler_times(tid).unwrap();
        let before = times();
        let mut sum = 0_u64;
        // Ticks of the clock are the coarsest that is read back.
        while times().cpu_s < before.cpu_s + 0.02 {
            sum = std::hint::black_box((0..100_000).fold(sum, u64::wrapping_add));
        }
        assert!(times().waited_s >= before.waited_s);
    }

    #[test]
    fn a_kernel_that_does_not_count_waiting_is_told_from_a_thread_that_never_waited() {
        let times = |cpu_s, waited_s| Some(SchedulerTimes { cpu_s, waited_s: Some(waited_s) });
        assert_eq!(parse_schedstat("1500000000 250000000 7\n"), times(1.5, 0.25));
        assert_eq!(parse_schedstat("0 59715 1\n"), times(0.0, 59_715e-9));
        assert_eq!(parse_schedstat("0 0 0\n"), None);
        assert_eq!(parse_schedstat("1 2"), None);
    }

    #[test]
    fn a_process_that_does_not_exist_tells_nothing() {
        let nobody = Pid(libc::pid_t::MAX);
        assert!(nobody.threads().is_empty() && nobody.children().is_empty());
        assert_eq!((nobody.peak_rss_bytes(), nobody.session()), (None, None));
        assert_eq!(nobody.migrations(nobody.main_thread()), None);
        assert_eq!(nobody.scheduler_times(nobody.main_thread()), None);
    }
}
