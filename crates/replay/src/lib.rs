//! Replays a workload file as real processes, under whatever scheduler this kernel has, and measures what that does.
//!
//! In go a workload with its parameters and the machine that it runs on; out comes when each process had which CPU, and the
//! [measurements](Trace::measurements) of that. It forks, maps memory and sets its processes' nice values, slices and affinity; it writes
//! no file but those of a [`Series`], which runs `stayput-replay` once for each policy and replicate, here or in a [virtual machine](vm).
//!
//! One process is forked for each of the workload's. It does what the simulator's process of the same number does, with the same
//! draws ([`sim::course`]): work is CPU time that it has had, during which it goes through its memory; a semaphore is a sleep; locks and
//! barriers lie in memory that all have in common, and each attempt at one that is not free ends with `sched_yield`, as each
//! attempt ends a dispatch interval in the simulator. As it arrives, a process lets the kernel place it as one that begins; those of a job
//! whose processes arrive at one another's ends are forked then.
//!
//! Each process sees for itself when it was taken off its CPU: wall time went on then and its CPU time did not. What it saw is a
//! list of [`sim::Interval`]s, the very form in which the simulator shows its dispatches, so that a [`Trace`] of either world is
//! measured by the same code.
//!
//! What differs from the simulator: an interval here ends when the CPU goes to another or to the idle task, not at every look of
//! the scheduler at its queue; misses of the process' own making (`fresh_share` below 1) are replayed as fresh lines; and `base`
//! adds to the nice value.

mod arena;
pub mod cache_model;
mod counted;
pub mod counting_clock;
mod groups;
mod haste;
mod here;
mod in_vm;
mod measurements;
mod memory;
mod output;
pub mod policy;
mod presence;
mod process;
mod processes;
mod scenario;
mod series;
mod shared;

pub use counted::Counted;
pub use measurements::{CPU_TIME_RATIO, Measurements, Trace, WAITS, WAKES, without_warm_up};
pub use output::{ReplayOutput, RunFailure};
pub use policy::{ParsePolicyError, Policy};
pub use scenario::Scenario;
pub use series::{Programs, Run, Series, SeriesError};

use machine::Machine;
use misses::window;
use sim::{Interval, Job, Parameters, ProcessOutcome, Workload};
use std::time::Duration;

/// Which CPUs a process may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// All that this one may.
    #[default]
    Free,
    /// The one that had the fewest living processes bound when it arrived, of equals the first.
    Attached,
}

/// A workload that is to be replayed once.
#[derive(Clone, Debug)]
pub struct Replay<'a> {
    /// What runs.
    pub workload: &'a Workload,
    /// Of these, `seed`, `attempt_us` and `horizon_ms` are heeded: the rest is the scheduler's.
    pub parameters: &'a Parameters,
    /// Which of the simulation's replicates it is, from 0: the draws are those.
    pub replicate: u32,
    /// Which CPUs a process may use.
    pub binding: Binding,
    /// The slice that each process asks of the kernel's fair scheduler; none leaves it to the kernel.
    pub slice: Option<Duration>,
    /// The longest work between two looks at CPU time; none is [`CHUNK`]. A look is a system call in which the kernel also sees
    /// whether the slice is over, which it would otherwise see at its next clock tick: programs that compute are replayed as they are by
    /// long chunks, and what runs when is then for others to watch.
    pub chunk: Option<Duration>,
    /// What of it a model of caches counts, where one watches this machine from outside.
    pub counted: Option<Counted>,
    /// The CPUs, as the kernel here numbers them.
    pub machine: &'a Machine,
}

/// Work between two looks at CPU time, unless another length is asked for. After each such chunk comes a PAUSE: an emulator with one
/// thread for all virtual CPUs goes from one to the next at an idle CPU or a PAUSE, and otherwise only every 100 ms, which no guest would
/// take for CPUs that run side by side.
pub const CHUNK: Duration = Duration::from_micros(100);

/// What a replay showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// From the start until the last process ended or the horizon was reached, in ns.
    pub until_ns: u64,
    /// Every stay of a process on a CPU, process by process in the order of time. Times count from the start.
    pub intervals: Vec<Interval>,
    /// When processes came and went, by number; CPU time includes what isn't work, such as attempts at locks.
    pub processes: Vec<ProcessOutcome>,
    /// Work that each process has done, in ns, by number.
    pub work_ns: Vec<u64>,
    /// CPU time, in ns, by number, whose references to memory were not made since the CPU was too slow for them.
    pub unreferred_ns: Vec<u64>,
    /// Stays that there was no room to record.
    pub lost: u64,
}

/// Why a workload can't be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It can't be simulated either.
    #[error("workload `{name}`: {cause}")]
    Workload {
        /// Its name.
        name: String,
        /// What is wrong where.
        cause: sim::WorkloadError,
    },
    /// Nothing would end the replay.
    #[error("processes of workload `{0}` never end; give them `work_ms`, or the replay a horizon")]
    Endless(String),
    /// There are more processes, jobs or reused bytes than address space was set apart for, or a priority is beyond nice values.
    #[error("{0}")]
    TooMuch(String),
    /// The kernel refused something.
    #[error("cannot {what}: {cause}")]
    System {
        /// The operation that it refused.
        what: &'static str,
        /// The kernel's error.
        cause: std::io::Error,
    },
    /// Processes couldn't be made ready.
    #[error("process {process} cannot {what}: {cause}")]
    Process {
        /// Its number.
        process: usize,
        /// The operation that failed.
        what: &'static str,
        /// The kernel's error.
        cause: std::io::Error,
    },
    /// Its control groups can't be made here.
    #[error("the workload's control groups can't be made here: {0} (in a virtual machine they can: --on vm)")]
    ControlGroups(String),
    /// The kernel took no notice of the slice that was asked for.
    #[error("this kernel gives a process no slice of its own; Linux has since 6.12")]
    NoSlices,
    /// A forked process finds the locks of other threads held for ever.
    #[error("a replay forks its processes, which takes a program with one thread; this one has {0}")]
    Threads(usize),
    /// Somebody killed a process.
    #[error("process {process} was killed by signal {signal}; nothing is known of this replay")]
    Killed {
        /// Its number.
        process: usize,
        /// The number of the signal.
        signal: i32,
    },
    /// They didn't end.
    #[error(
        "{left} of {of} processes still ran {grace_s} s after the horizon and were killed; the scheduler starves them"
    )]
    Starved {
        /// The number of processes that still ran.
        left: usize,
        /// The number of all processes.
        of: usize,
        /// How long they were waited for.
        grace_s: u64,
    },
    /// A process ran where the machine has no CPU.
    #[error(
        "a process ran on CPU {cpu}, which machine `{machine}` doesn't have; name the machine that this is with --machine"
    )]
    UnknownCpu {
        /// The kernel's number.
        cpu: machine::CpuId,
        /// The machine's name.
        machine: String,
    },
}

impl ReplayError {
    fn system(what: &'static str, cause: impl Into<std::io::Error>) -> Self {
        Self::System { what, cause: cause.into() }
    }
}

impl Replay<'_> {
    /// Whether it can be replayed.
    ///
    /// # Errors
    /// [`ReplayError`] says why not.
    pub fn check(&self) -> Result<(), ReplayError> {
        let workload = self.workload;
        let name = &workload.name;
        workload.check().map_err(|cause| ReplayError::Workload { name: name.clone(), cause })?;
        if self.parameters.horizon_ms.is_none() && !workload.ends() {
            return Err(ReplayError::Endless(name.clone()));
        }
        let processes = workload.job_of_processes().count();
        for (what, count, most) in
            [("processes", processes, window::PROCESSES), ("jobs", workload.jobs.len(), window::JOBS)]
        {
            if count > most as usize {
                let sentence = format!("workload `{name}` has {count} {what}; at most {most} can be replayed");
                return Err(ReplayError::TooMuch(sentence));
            }
        }
        for Job { name, process, .. } in &workload.jobs {
            let (bytes, most) = (memory::reused_bytes(&process.memory), memory::MOST_REUSED_BYTES);
            if bytes > most {
                let sentence = format!("processes of job `{name}` reuse {bytes} bytes; at most {most} can be replayed");
                return Err(ReplayError::TooMuch(sentence));
            }
            let (nice, most) = (process::nice_of(process), process::HIGHEST_NICE);
            if nice > most {
                let sentence = format!(
                    "processes of job `{name}` would be nice by {nice}, their base priority included; nice values end at {most}"
                );
                return Err(ReplayError::TooMuch(sentence));
            }
        }
        Ok(())
    }

    /// Replays it, from a process without other threads. It takes as long as the workload, or until the horizon.
    ///
    /// No process outlives it, nor the calling process, however that ends.
    ///
    /// # Errors
    /// [`ReplayError`] when it can't be replayed, or ended early.
    pub fn run(&self) -> Result<Recording, ReplayError> {
        self.check()?;
        processes::run(self)
    }
}
