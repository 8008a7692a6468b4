//! What `/proc` tells of one thread or process.

use machine::CpuId;
use std::fs::File;
use std::io::Read;

/// A kernel thread id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tid(pub(crate) libc::pid_t);

impl Tid {
    /// The thread that asks.
    pub(crate) const CALLER: Self = Self(0);
}

/// A kernel process id, which is the thread id of the process's main thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pid(pub(crate) libc::pid_t);

impl Pid {
    /// The main thread of the process.
    pub(crate) fn main_thread(self) -> Tid {
        Tid(self.0)
    }

    /// Whether `tid` is a thread of this process that is not reaped yet.
    pub(crate) fn has_thread(self, tid: Tid) -> bool {
        // SAFETY: signal 0 delivers nothing; the call only asks whether the thread is in the process.
        let result = unsafe { libc::syscall(libc::SYS_tgkill, self.0, tid.0, 0) };
        result == 0 || nix::errno::Errno::last() == nix::errno::Errno::EPERM
    }

    /// Sends `signal`. That the process is gone already is no error: it is what a race looks like.
    pub(crate) fn kill(self, signal: libc::c_int) {
        // SAFETY: sending a signal touches no memory of ours.
        unsafe { libc::kill(self.0, signal) };
    }

    /// Threads of the process that exist now, in the order of their ids.
    pub(crate) fn threads(self) -> Vec<Tid> {
        let mut threads: Vec<Tid> = std::fs::read_dir(format!("/proc/{}/task", self.0))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Tid))
            .collect();
        threads.sort_unstable();
        threads
    }

    /// Child processes that exist now; empty as well where the kernel lacks `CONFIG_PROC_CHILDREN`.
    pub(crate) fn children(self) -> Vec<Pid> {
        self.threads().into_iter().flat_map(|tid| self.children_of(tid)).collect()
    }

    /// Child processes of one thread of the process.
    pub(crate) fn children_of(self, tid: Tid) -> Vec<Pid> {
        let list = std::fs::read_to_string(format!("/proc/{}/task/{}/children", self.0, tid.0));
        list.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok().map(Pid)).collect()
    }

    /// Largest resident set of its present program so far, in bytes.
    pub(crate) fn peak_rss_bytes(self) -> Option<u64> {
        let status = read_start(&format!("/proc/{}/status", self.0))?;
        let kib = field(&status, "VmHWM:")?.trim_end_matches("kB").trim();
        Some(kib.parse::<u64>().ok()? * 1024)
    }
}

/// How often the kernel moved the thread to another CPU; none where `/proc/.../sched` is missing.
pub(crate) fn migrations(pid: Pid, tid: Tid) -> Option<u64> {
    let sched = read_start(&format!("/proc/{}/task/{}/sched", pid.0, tid.0))?;
    let value = field(&sched, "se.nr_migrations")?;
    value.trim_start_matches([' ', ':']).parse().ok()
}

/// The CPU that the thread is on, or was on when it last ran.
pub(crate) fn last_cpu(pid: Pid, tid: Tid) -> Option<CpuId> {
    let stat = read_start(&format!("/proc/{}/task/{}/stat", pid.0, tid.0))?;
    last_cpu_in(&stat)
}

fn last_cpu_in(stat: &str) -> Option<CpuId> {
    // proc(5): `processor` is field 39. Field 2, the name, may hold spaces and parentheses; count from its end.
    let after_name = stat.rsplit_once(')')?.1;
    after_name.split_whitespace().nth(36)?.parse().ok().map(CpuId)
}

/// The rest of the line that starts with `name`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The first page of a file, which holds all that is asked for here in a single read.
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
    fn the_cpu_is_found_behind_a_name_with_spaces_and_parentheses() {
        let mut stat = String::from("7 (a) b (c)) S");
        for field in 4..=52 {
            stat += &format!(" {field}");
        }
        assert_eq!(last_cpu_in(&stat), Some(CpuId(39)));
        assert_eq!(last_cpu_in("7 (cut"), None);
    }

    #[test]
    fn a_living_process_tells_its_threads_and_memory() {
        assert!(own().threads().contains(&own().main_thread()));
        assert!(own().has_thread(own().main_thread()));
        assert!(!own().has_thread(Tid(1)));
        assert!(own().peak_rss_bytes().unwrap() > 100 << 10);
        assert!(last_cpu(own(), own().main_thread()).is_some());
    }

    #[test]
    fn a_process_that_does_not_exist_tells_nothing() {
        let nobody = Pid(libc::pid_t::MAX);
        assert!(nobody.threads().is_empty() && nobody.children().is_empty());
        assert_eq!(nobody.peak_rss_bytes(), None);
        assert_eq!(migrations(nobody, nobody.main_thread()), None);
    }
}
