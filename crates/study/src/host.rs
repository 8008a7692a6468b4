//! The machine around a study: what stays the same (facts) and what moves (state).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What doesn't change while a study runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Version of Stayput.
    pub stayput_version: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Distribution, as `/etc/os-release` names it.
    pub distribution: Option<String>,
    /// Architecture, as `uname -m` prints it.
    pub architecture: String,
    /// Model name of the first CPU.
    pub cpu_model: Option<String>,
    /// The hypervisor that this machine runs under; none on bare metal or where it can't be told.
    pub hypervisor: Option<String>,
    /// Environment variables that reach OpenMP runtimes, allocators and the loader.
    pub environment: BTreeMap<String, String>,
}

/// What moves: read before and after.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostState {
    /// When it was read, in seconds since 1970 (UTC).
    pub unix_s: f64,
    /// Load averages over 1, 5 and 15 minutes.
    pub load_average: Option<[f64; 3]>,
    /// CPU time taken by the hypervisor since boot, over all CPUs, in seconds.
    pub steal_s: Option<f64>,
    /// CPU time of all kinds since boot, over all CPUs, in seconds.
    pub total_cpu_s: Option<f64>,
    /// Frequency governors in use; empty where the machine has none to see.
    pub governors: Vec<String>,
    /// Whether several threads of a core are online; none where it can't be told.
    pub smt_active: Option<bool>,
    /// CPUs that the control groups allow, as a bandwidth (1.5 = one and a half CPUs); none when unlimited.
    pub cgroup_cpu_limit: Option<f64>,
    /// Memory that can be had without swapping, in bytes.
    pub available_memory_bytes: Option<u64>,
}

/// One stretch of work on a study: from its start or its resumption to its end or interruption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The command line that started it.
    pub command_line: Vec<String>,
    /// The machine when it started.
    pub before: HostState,
    /// The machine when it ended; none when it was interrupted.
    pub after: Option<HostState>,
}
