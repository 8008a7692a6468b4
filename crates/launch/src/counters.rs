//! Hardware counters of a program and everything it starts, where the machine has them.

use machine::linux::{Pid, process, system};
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter, ReadFormat};
use std::collections::BTreeMap;
use std::io;

/// What is counted, by the name in an [`Observation`](crate::Observation): few enough for the counters that every
/// processor has, so that they need not share.
const COUNTED: [(&str, Hardware); 5] = [
    ("cycles", Hardware::CPU_CYCLES),
    ("instructions", Hardware::INSTRUCTIONS),
    ("cache_references", Hardware::CACHE_REFERENCES),
    ("cache_misses", Hardware::CACHE_MISSES),
    ("branch_misses", Hardware::BRANCH_MISSES),
];

/// Whether hardware counters can be read here.
///
/// # Errors
/// The reason in words, for a person: no counters in this machine, or not allowed.
pub fn counters_available() -> Result<(), String> {
    if !system::has_hardware_counters() {
        return Err("the kernel lists no hardware counters for the CPU (/sys/bus/event_source/devices); \
                    virtual machines often have none"
            .into());
    }
    match Builder::new(Hardware::INSTRUCTIONS).build() {
        Ok(_) => Ok(()),
        Err(error) => {
            let level = system::perf_event_paranoid().unwrap_or_else(|| "unknown".into());
            Err(format!(
                "perf_event_open: {error}; /proc/sys/kernel/perf_event_paranoid is {level}, \
                 and above 2 only a privileged user may count"
            ))
        }
    }
}

/// How the moves of threads between CPUs are counted here.
///
/// # Errors
/// The reason in words, for a person, why nothing counts them.
pub fn migrations_available() -> Result<&'static str, String> {
    if process::counts_migrations() {
        return Ok("/proc/PID/sched");
    }
    match Builder::new(Software::CPU_MIGRATIONS).build() {
        Ok(_) => Ok("a software event (perf_event_open)"),
        Err(error) => Err(format!("there is no /proc/PID/sched here, and perf_event_open: {error}")),
    }
}

/// The counter that stands in for `/proc/PID/sched`.
const MIGRATIONS: &str = "migrations";

/// Counters that start when the held child executes its program. They count user mode, and pass on to its children.
pub(crate) struct Counters(Vec<(&'static str, Counter)>);

impl Counters {
    /// Attaches to the held child. Where the first hardware counter is refused the others are not tried, so that a
    /// machine without any costs a launch one system call.
    pub(crate) fn attach(pid: Pid) -> Self {
        let hardware = COUNTED.map(|(name, event)| (name, Builder::new(event)));
        let [first, others @ ..] = hardware;
        let mut counters = Self::attach_to(pid, [first]);
        if !counters.0.is_empty() {
            counters.0.extend(Self::attach_to(pid, others).0);
        }
        if !process::counts_migrations() {
            let mut builder = Builder::new(Software::CPU_MIGRATIONS);
            builder.include_kernel();
            counters.0.extend(Self::attach_to(pid, [(MIGRATIONS, builder)]).0);
        }
        counters
    }

    fn attach_to<'a>(pid: Pid, counted: impl IntoIterator<Item = (&'static str, Builder<'a>)>) -> Self {
        let open = |mut builder: Builder| -> io::Result<Counter> {
            builder
                .observe_pid(pid.0)
                .any_cpu()
                .inherit(true)
                .enabled(false)
                .enable_on_exec(true)
                .read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING)
                .build()
        };
        Self(counted.into_iter().filter_map(|(name, builder)| Some((name, open(builder).ok()?))).collect())
    }

    /// The hardware counts, and apart from them the migrations if they were counted.
    ///
    /// An event that shared its counter is scaled to the whole time; one that never ran is left out.
    pub(crate) fn read(mut self) -> (BTreeMap<String, u64>, Option<u64>) {
        let mut counts: BTreeMap<String, u64> = self
            .0
            .iter_mut()
            .filter_map(|(name, counter)| {
                let data = counter.read_full().ok()?;
                let (enabled, running) = (data.time_enabled()?, data.time_running()?);
                let count = if running == enabled {
                    data.count()
                } else if running.is_zero() {
                    return None;
                } else {
                    (data.count() as f64 * enabled.as_secs_f64() / running.as_secs_f64()) as u64
                };
                Some(((*name).to_owned(), count))
            })
            .collect();
        let migrations = counts.remove(MIGRATIONS);
        (counts, migrations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// Software events take the same way through the kernel and are there without a hardware counter.
    #[test]
    fn counting_starts_with_exec_and_includes_children() {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", "read go; exec sh -c 'true; true'"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut builder = Builder::new(Software::PAGE_FAULTS);
        builder.include_kernel();
        let pid = Pid(shell.id() as libc::pid_t);
        let counters = Counters::attach_to(pid, [("page_faults", builder)]);
        if counters.0.is_empty() {
            println!("skipped: perf_event_open is refused here");
        }
        let opened = counters.0.len();
        shell.stdin.take().unwrap().write_all(b"\n").unwrap();
        shell.wait().unwrap();
        let (counts, _) = counters.read();
        assert_eq!(counts.len(), opened);
        assert!(counts.values().all(|faults| *faults > 10), "{counts:?}");
    }

    #[test]
    fn a_machine_without_counters_says_why() {
        if let Err(why) = counters_available() {
            assert!(why.contains("/sys/bus") || why.contains("perf_event"), "{why}");
        }
    }
}
