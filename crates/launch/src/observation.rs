//! What was seen of one execution of one program.

use crate::company::CompanyObservation;
use crate::residence::MemoryObservation;
use crate::scheduling::SchedulingObservation;
use machine::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this exit code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// It ran longer than its timeout and was killed.
    TimedOut,
}

/// One thread of the program, in the order in which the threads of its process were created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadObservation {
    /// Which process of the command's tree: 0 is the command itself, in order of creation.
    pub process: u32,
    /// How often that process had executed another program before, not counting the command itself: after `exec` its
    /// threads are counted from 0 again.
    #[serde(default)]
    pub exec: u32,
    /// Which thread of that process: 0 is its main thread, in order of creation.
    pub thread: u32,
    /// The kernel's thread id.
    pub tid: i32,
    /// What it called itself when it was last read back, as the kernel keeps it: 15 bytes; none where that was not kept.
    #[serde(default)]
    pub name: Option<String>,
    /// The CPUs it was meant to run on; none when it was left alone.
    pub intended_cpus: Option<CpuSet>,
    /// The CPUs that the kernel last said it may run on.
    pub actual_cpus: CpuSet,
    /// The CPU that it was last seen on.
    pub last_cpu: Option<CpuId>,
    /// How often the kernel moved it to another CPU, where the kernel tells. The move by which binding puts a thread
    /// on its CPU counts.
    pub migrations: Option<u64>,
    /// Its CPU time, in seconds, as of when it was last read back; none where that was not kept.
    #[serde(default)]
    pub cpu_s: Option<f64>,
    /// How long it was ready to run while others had its CPUs, in seconds; none where the kernel doesn't tell.
    #[serde(default)]
    pub waited_s: Option<f64>,
    /// Whether it is one that the MPI library started for itself; only where such are told apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_helper: bool,
    /// When it was first noticed, in seconds since the launch; none where that was not kept.
    #[serde(default)]
    pub began_s: Option<f64>,
    /// When it was last read back, likewise.
    #[serde(default)]
    pub ended_s: Option<f64>,
}

impl Observation {
    /// The share of its time in which one of its threads was stopped for us (0.01 = 1 %), if it is known.
    pub fn stopped_share(&self) -> Option<f64> {
        self.stops_s.map(|stops_s| stops_s / self.wall_s).filter(|share| share.is_finite())
    }
}

impl ThreadObservation {
    /// Whether the thread was read back on other CPUs than intended.
    pub fn strayed(&self) -> bool {
        self.intended_cpus.as_ref().is_some_and(|intended| *intended != self.actual_cpus)
    }
}

/// What was read back of a program's conditions; each only where it was asked for. Few runs have any, and large studies keep many runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConditionsObservation {
    /// Of its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Box<MemoryObservation>>,
    /// Of who scheduled it, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Box<SchedulingObservation>>,
    /// Of what ran beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub company: Option<Box<CompanyObservation>>,
}

impl ConditionsObservation {
    /// Whether nothing was asked for, and so nothing read back.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The share of its time that stops may take without a word (0.01 = 1 %).
pub const STOPS_TO_TELL: f64 = 0.01;

/// What was seen of one execution: its end, its costs, its threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// How it ended.
    pub exit: Exit,
    /// From the first instruction of the program to its end, in seconds.
    pub wall_s: f64,
    /// CPU time in user mode of the program and the children that it waited for, in seconds.
    pub user_s: f64,
    /// CPU time in the kernel, likewise.
    pub system_s: f64,
    /// Largest resident set of any of its processes, in bytes.
    pub max_rss_bytes: u64,
    /// Switches because it waited for something.
    pub voluntary_switches: u64,
    /// Switches because the kernel gave the CPU to another.
    pub involuntary_switches: u64,
    /// Moves of its threads between CPUs; none when nothing here can count them.
    pub migrations: Option<u64>,
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// What it read from disks and other block devices, in bytes; none in what was kept before this was counted.
    #[serde(default)]
    pub read_bytes: Option<u64>,
    /// What it wrote to be kept there, likewise.
    #[serde(default)]
    pub written_bytes: Option<u64>,
    /// What the machine's processors used while it ran, in joules, whoever used it; none where that isn't counted.
    #[serde(default)]
    pub energy_j: Option<f64>,
    /// Hardware counters by name (`cycles`, `instructions`, ...); empty where the machine has none.
    pub counters: BTreeMap<String, u64>,
    /// How often we stopped one of its threads, to bind it or to learn of it; none in what was kept before this was counted.
    #[serde(default)]
    pub stops: Option<u64>,
    /// About how long these stops took, in seconds: their number, by what a stop takes on this machine.
    #[serde(default)]
    pub stops_s: Option<f64>,
    /// Every thread that was seen.
    pub threads: Vec<ThreadObservation>,
    /// Processes that outlived the command and were killed.
    pub leftovers: u32,
    /// What was read back of its conditions.
    #[serde(default, skip_serializing_if = "ConditionsObservation::is_empty")]
    pub conditions: ConditionsObservation,
    /// What the reader should know of this execution: a runtime that ignored a binding, a fallback.
    pub notes: Vec<String>,
}
