//! Workloads as data: jobs, their processes, and how these behave.
//!
//! All lengths are milliseconds. *Work* is time that a process would need if no access missed its cache; a miss adds
//! time to it. Processes are numbered job by job in the order of the jobs, from 0.

use crate::cache::Footprint;
use crate::index::ProcessIndex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What runs on the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its jobs; at least one.
    pub jobs: Vec<Job>,
    /// The `cpu.weight` of control groups, by path: 100 of those that aren't named.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_weight: BTreeMap<String, u32>,
}

/// Processes that behave alike and may wait for one another. Each is scheduled on its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// When its first process arrives.
    #[serde(default)]
    pub arrival_ms: f64,
    /// Time from one process' arrival to the next; together when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<Distribution>,
    /// How many processes it has in all.
    pub processes: u32,
    /// How many of them live at once: the next one arrives when one ends. All when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// The locks that its processes share, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<String>,
    /// Whether its processes are threads of one process, which have their memory in common. Cache-aware balancing gathers those.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub threads: bool,
    /// The control group that its processes are in, as a path, as in `tenants/web`; of use to the kernel's own scheduler only. All
    /// others are in the group in which the workload runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What each process does.
    pub process: Process,
}

/// What a process does from its arrival to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Work after which it ends. Without it, it ends after its last phase, or never when it has no phases; with it, phases
    /// are gone through again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms: Option<Distribution>,
    /// `base` of its priority: a higher one runs later.
    #[serde(default)]
    pub base: u32,
    /// What interrupts its work. Nothing but the quantum when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// How long a semaphore that ends an interval blocks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_ms: Option<Distribution>,
    /// What it does in order. Without phases it works on and on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// How many times it goes through all its phases, unless `work_ms` says when it ends; at least once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Whether somebody waits for its answers: the time from each wake-up to the next block is then a response time.
    #[serde(default)]
    pub interactive: bool,
    /// Its nice value, from -20 to 19; of use to the kernel's own scheduler only, as are the next two.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nice: i32,
    /// Its scheduling class.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sched: Sched,
    /// The slice that it asks for; the kernel's base slice when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_ms: Option<f64>,
    /// What it does to caches.
    #[serde(default)]
    pub memory: Footprint,
}

/// How the kernel's own scheduler treats a process (sched(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sched {
    /// `SCHED_OTHER`.
    #[default]
    Other,
    /// `SCHED_BATCH`: it preempts nobody as it wakes.
    Batch,
    /// `SCHED_IDLE`: it has next to no weight, and everybody else preempts it.
    Idle,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Steps that are done in order, several times over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// How many times; at least once.
    #[serde(default = "once")]
    pub repeat: u32,
    /// The steps. A lock that they acquire they also release.
    pub steps: Vec<Step>,
}

/// What is repeated once unless it is said otherwise.
pub(crate) fn once() -> u32 {
    1
}

/// One thing that a process does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Works for so many ms.
    Work(Distribution),
    /// The job's first process works for so many ms, the others go on.
    Single(Distribution),
    /// Takes the lock. While another process holds it, each attempt ends a dispatch interval for synchronisation and the
    /// process stays in the run queue.
    Acquire(String),
    /// Gives the lock back.
    Release(String),
    /// Waits, as for a lock, until all living processes of the job have come to a barrier.
    Barrier,
    /// The same, out of the run queue: whoever comes last wakes the others.
    SleepingBarrier,
    /// Blocks on a semaphore for so many ms, out of the run queue.
    Block(Distribution),
    /// Posts a semaphore of the workload: who has waited there for longest wakes, or the next who comes needn't wait.
    Post(String),
    /// Waits at a semaphore of the workload, out of the run queue, unless it was posted more often than others came to it.
    Wait(String),
    /// Posts a semaphore for one process alone: the one whose post this one last went on from.
    Reply(String),
}

/// When a process' dispatch intervals end, and why, other than by its phases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Intervals {
    /// As measured on a machine: a histogram of all dispatch intervals, and the causes that ended them.
    ///
    /// Those that ended with the quantum are exactly as long as the quantum, so the histogram of the others is what is left
    /// of its bin; what ended an interval and how long it was are otherwise independent. A process goes on over several
    /// quanta until another cause comes up, whatever quantum is simulated.
    Observed {
        /// Edges of the bins, rising.
        edges_ms: Vec<f64>,
        /// Share of intervals in each bin, in percent.
        percent: Vec<f64>,
        /// The quantum that was in force, in ms; the last bin holds it.
        quantum_ms: f64,
        /// Share of the wall time of these intervals that misses took, from 0 to below 1: the rest was work.
        #[serde(default)]
        stalled: f64,
        /// Why intervals ended.
        ends: Ends,
    },
    /// Work from one voluntary end to the next; the quantum cuts it where it is longer.
    Bursts {
        /// Work in ms.
        length_ms: Distribution,
        /// Why bursts end; the quantum's share must be 0.
        ends: Ends,
    },
}

/// Shares of the causes that end dispatch intervals, in percent. They may miss 100 by what rounding does to them, and are
/// scaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ends {
    /// The quantum was used up.
    pub quantum: f64,
    /// A semaphore: the only cause that takes the process out of the run queue.
    pub semaphore: f64,
    /// A lock was held by another process.
    pub synchronization: f64,
    /// A system call.
    pub system_call: f64,
    /// A fault of the translation lookaside buffer.
    pub tlb_fault: f64,
    /// Anything else.
    pub other: f64,
}

impl Ends {
    /// All shares, the quantum's first.
    pub(crate) fn percent(&self) -> [f64; 6] {
        let [semaphore, synchronization, system_call, tlb_fault, other] = self.voluntary();
        [self.quantum, semaphore, synchronization, system_call, tlb_fault, other]
    }

    /// The shares of all causes but the quantum.
    pub(crate) fn voluntary(&self) -> [f64; 5] {
        [self.semaphore, self.synchronization, self.system_call, self.tlb_fault, self.other]
    }
}

/// A distribution of lengths in ms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Always this.
    Constant(f64),
    /// Anything between the two, equally likely.
    Uniform(f64, f64),
    /// Exponential with this mean.
    Exponential(f64),
    /// Uniform within bins.
    Histogram {
        /// Edges of the bins, rising; one more than there are bins.
        edges_ms: Vec<f64>,
        /// Share of each bin in percent.
        percent: Vec<f64>,
    },
}

impl Workload {
    /// The built-in `spin:K`: so many equal processes that compute for 30 s each, block never and miss never.
    pub fn spin(processes: u32) -> Self {
        let process = Process { work_ms: Some(Distribution::Constant(30_000.0)), ..Process::default() };
        let job = Job { name: "spin".into(), processes, process, ..Job::default() };
        Self { name: format!("spin:{processes}"), jobs: vec![job], ..Self::default() }
    }

    /// Whether all its processes end by themselves.
    pub fn ends(&self) -> bool {
        self.jobs.iter().all(|job| job.process.work_ms.is_some() || !job.process.phases.is_empty())
    }

    /// For each process, by its number, the position of its job.
    pub fn job_of_processes(&self) -> impl Iterator<Item = usize> {
        (self.jobs.iter().enumerate()).flat_map(|(job, j)| std::iter::repeat_n(job, j.processes as usize))
    }

    /// The semaphores that steps name, each once.
    pub fn semaphores(&self) -> Vec<&str> {
        let phases = self.jobs.iter().flat_map(|job| &job.process.phases);
        let names = phases.flat_map(|phase| &phase.steps).filter_map(|step| match step {
            Step::Post(name) | Step::Wait(name) | Step::Reply(name) => Some(name.as_str()),
            _ => None,
        });
        let mut semaphores: Vec<&str> = names.collect();
        semaphores.sort_unstable();
        semaphores.dedup();
        semaphores
    }

    /// Whether any step is a reply.
    pub fn has_replies(&self) -> bool {
        !self.replies().is_empty()
    }

    /// The semaphores that are replied at, where each process waits for what is meant for it.
    pub(crate) fn replies(&self) -> BTreeSet<&str> {
        let phases = self.jobs.iter().flat_map(|job| &job.process.phases);
        let names = phases.flat_map(|phase| &phase.steps).filter_map(|step| match step {
            Step::Reply(name) => Some(name.as_str()),
            _ => None,
        });
        names.collect()
    }

    /// Groups of processes that do the same and arrive together, each in rising order, and for each job its group; none for a
    /// job whose group is a single process.
    pub fn equal_processes(&self) -> (Vec<Vec<ProcessIndex>>, Vec<Option<usize>>) {
        let mut groups: Vec<(&Job, Vec<ProcessIndex>)> = Vec::new();
        let mut group_of_job = Vec::new();
        let mut first = 0;
        for job in &self.jobs {
            let together = if job.gap_ms.is_some() { 1 } else { job.at_once.unwrap_or(job.processes) };
            let members = (first..first + together).map(ProcessIndex);
            first += job.processes;
            let equal = |(other, _): &(&Job, Vec<ProcessIndex>)| {
                other.arrival_ms == job.arrival_ms && other.process == job.process && other.group == job.group
            };
            match groups.iter().position(equal) {
                Some(group) => {
                    groups[group].1.extend(members);
                    group_of_job.push(Some(group));
                }
                None => {
                    group_of_job.push(Some(groups.len()));
                    groups.push((job, members.collect()));
                }
            }
        }
        for group in &mut group_of_job {
            *group = group.filter(|&group| groups[group].1.len() > 1);
        }
        (groups.into_iter().map(|(_, members)| members).collect(), group_of_job)
    }
}
