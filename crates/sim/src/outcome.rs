//! What one replicate showed.

use crate::durations::Durations;
use crate::index::{CpuIndex, ProcessIndex, all};
use crate::memory::Misses;
use crate::parameters::Policy;
use machine::Level;
use serde::Serialize;
use std::collections::BTreeMap;
use strum::{EnumCount, VariantArray};

/// Why a dispatch interval ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, EnumCount, VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The quantum was used up.
    Quantum,
    /// A semaphore took it out of the run queue.
    Semaphore,
    /// A lock was held, or a barrier not complete.
    Synchronization,
    /// A system call.
    SystemCall,
    /// A fault of the translation lookaside buffer.
    TlbFault,
    /// Another cause.
    Other,
    /// The process was done.
    Exit,
    /// The horizon was reached. Not a look at the run queue.
    Horizon,
    /// Another process woke and took the CPU, or balancing moved it away.
    Preempted,
}

impl End {
    /// Every cause.
    pub const ALL: [Self; Self::COUNT] = all(Self::VARIANTS);
}

/// One dispatch interval: from one look at the run queue to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// The process that ran.
    pub process: ProcessIndex,
    /// The CPU that it ran on.
    pub cpu: CpuIndex,
    /// Since when it had been runnable, in ns: from then until `from_ns` it waited.
    pub runnable_ns: u64,
    /// When the interval began, in ns.
    pub from_ns: u64,
    /// When it ended, in ns.
    pub until_ns: u64,
    /// Why it ended.
    pub end: End,
}

/// What became of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ProcessOutcome {
    /// When it arrived, in ns; none when it had not when the run ended.
    pub arrived_ns: Option<u64>,
    /// When it ended, in ns; none when it had not when the run ended.
    pub ended_ns: Option<u64>,
    /// How long it had a CPU, in ns.
    pub cpu_ns: u64,
}

/// What became of one job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobOutcome {
    /// Its name.
    pub name: String,
    /// From its arrival to the end of its last process, in ms; none when one had not ended.
    pub completion_ms: Option<f64>,
    /// Misses of its processes.
    pub misses: Misses,
    /// Their CPU time in ms.
    pub cpu_ms: f64,
    /// Their work in ms.
    pub work_ms: f64,
    /// Their dispatch intervals, other than cut off by the horizon.
    pub intervals: Durations,
    /// Why these ended, and how many.
    pub ends: BTreeMap<End, u64>,
    /// Their effective time slices.
    pub slices: Durations,
    /// How often they moved, by what the two CPUs share.
    pub migrations: BTreeMap<Level, u64>,
    /// Times from wake-up to the next block, when they are interactive.
    pub responses: Durations,
}

/// What one replicate showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The policy.
    pub policy: Policy,
    /// Which replicate, from 0.
    pub replicate: u32,
    /// When the last process ended or the horizon was reached, in ms.
    pub makespan_ms: f64,
    /// Whether all processes ended.
    pub completed: bool,
    /// The jobs, in the workload's order.
    pub jobs: Vec<JobOutcome>,
    /// The processes by number.
    #[serde(skip)]
    pub processes: Vec<ProcessOutcome>,
    /// How often a CPU took a process from the queue, itself again included.
    pub dispatches: u64,
    /// How often it was another than the one that had last run there.
    pub switches: u64,
    /// CPU time without a process, over all CPU time.
    pub idle_fraction: f64,
    /// Jain's index of the CPU time of equal processes, taken when the first of them ends or the horizon is reached; the lowest
    /// of all groups of two or more that do the same and arrived together. None where there is no such group.
    pub jain_index: Option<f64>,
    /// The longest that a runnable process waited for a CPU, in ms.
    pub longest_wait_ms: f64,
}

impl Outcome {
    /// Misses of all jobs.
    pub fn misses(&self) -> Misses {
        self.jobs.iter().map(|job| job.misses).sum()
    }

    /// Effective time slices of all jobs.
    pub fn slices(&self) -> Durations {
        self.merged(|job| &job.slices)
    }

    /// Dispatch intervals of all jobs.
    pub fn intervals(&self) -> Durations {
        self.merged(|job| &job.intervals)
    }

    /// Response times of all interactive jobs.
    pub fn responses(&self) -> Durations {
        self.merged(|job| &job.responses)
    }

    /// Moves from one CPU to another, all jobs.
    pub fn migrations(&self) -> u64 {
        self.jobs.iter().flat_map(|job| job.migrations.values()).sum()
    }

    /// Mean over the jobs of the time from arrival to end, in ms; none when one had not ended.
    pub fn mean_completion_ms(&self) -> Option<f64> {
        let completions: Option<Vec<f64>> = self.jobs.iter().map(|job| job.completion_ms).collect();
        completions.map(|ms| ms.iter().sum::<f64>() / ms.len() as f64)
    }

    fn merged(&self, of: impl Fn(&JobOutcome) -> &Durations) -> Durations {
        let mut sum = Durations::default();
        self.jobs.iter().for_each(|job| sum.merge(of(job)));
        sum
    }
}
