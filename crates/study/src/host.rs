//! The machine around a study: what stays the same (facts) and what moves (state).

use crate::redaction::Redaction;
use machine::linux::{control_group, process, system};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

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
    /// CPU time used since boot, by whomever, on the CPUs that this process may use, in seconds. Journals used not to keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_cpu_s: Option<f64>,
    /// What this process and all that it ran to its end used of it, in seconds. Journals used not to keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_cpu_s: Option<f64>,
    /// Frequency governors in use; empty where the machine has none to see.
    pub governors: Vec<String>,
    /// Whether several threads of a core are online; none where it can't be told.
    pub smt_active: Option<bool>,
    /// CPUs that the control groups allow, as a bandwidth (1.5 = one and a half CPUs); none when unlimited.
    pub cgroup_cpu_limit: Option<f64>,
    /// Memory that can be had without swapping, in bytes.
    pub available_memory_bytes: Option<u64>,
}

/// Above this share of CPU time taken by the hypervisor, times can't be trusted to a few percent.
pub const STEAL_TO_TELL: f64 = 0.01;

/// Above this load average for each usable CPU, something else competes with what is measured.
pub const LOAD_TO_TELL: f64 = 0.2;

/// One stretch of work on a study: from its start or its resumption to its end or interruption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastSession {
    /// The command line that started it.
    pub command_line: Vec<String>,
    /// The machine when it started.
    pub before: HostState,
    /// The machine when it ended; none when it was interrupted.
    pub after: Option<HostState>,
}

/// Variables that change how an OpenMP runtime, an allocator or the loader behaves.
const TELLING_VARIABLES: [&str; 7] = ["OMP_", "GOMP_", "KMP_", "MALLOC_", "LD_", "GOMAXPROCS", "GLIBC_TUNABLES"];

impl HostFacts {
    /// Of a study of models, which no host has any part in.
    pub fn of_model() -> Self {
        Self { stayput_version: env!("CARGO_PKG_VERSION").into(), ..Self::default() }
    }

    /// Reads this machine's. What can't be read is left out.
    pub fn read() -> Self {
        Self {
            stayput_version: env!("CARGO_PKG_VERSION").into(),
            kernel: system::kernel_release().unwrap_or_default(),
            distribution: system::distribution(),
            architecture: system::architecture().unwrap_or_default(),
            cpu_model: system::cpu_model(),
            hypervisor: system::hypervisor(),
            environment: std::env::vars_os()
                .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
                .filter(|(name, _)| TELLING_VARIABLES.iter().any(|start| name.starts_with(start)))
                .collect(),
        }
    }
}

impl HostFacts {
    /// These without the values that `redaction` hides.
    #[must_use]
    pub fn redacted(self, redaction: &Redaction) -> Self {
        Self { environment: redaction.variables(&self.environment), ..self }
    }
}

impl HostState {
    /// Around a study of models, or in another machine: the time of day and nothing else.
    pub fn of_model() -> Self {
        Self { unix_s: unix_seconds(), ..Self::default() }
    }

    /// Reads this machine's. What can't be read is left out.
    pub fn read() -> Self {
        let cpu_time = system::cpu_time();
        Self {
            unix_s: unix_seconds(),
            load_average: system::load_average(),
            steal_s: cpu_time.map(|time| time.steal_s),
            total_cpu_s: cpu_time.map(|time| time.total_s),
            busy_cpu_s: cpu_time.map(|time| time.allowed_busy_s),
            own_cpu_s: process::own_cpu_s(),
            governors: system::governors(),
            smt_active: system::smt_active(),
            cgroup_cpu_limit: control_group::cpu_limit(),
            available_memory_bytes: system::available_memory_bytes(),
        }
    }

    /// The share of CPU time that the hypervisor took between `earlier` and this (0.1 = 10 %).
    pub fn steal_since(&self, earlier: &Self) -> Option<f64> {
        let total_s = self.total_cpu_s? - earlier.total_cpu_s?;
        (total_s > 0.0).then_some((self.steal_s? - earlier.steal_s?) / total_s)
    }

    /// CPU time that others used since `earlier`, which the same process read, in seconds; 0 at least, since the kernel counts a
    /// CPU's time in ticks and a process's exactly.
    pub fn others_cpu_s_since(&self, earlier: &Self) -> Option<f64> {
        let busy_s = self.busy_cpu_s? - earlier.busy_cpu_s?;
        let own_s = self.own_cpu_s? - earlier.own_cpu_s?;
        // Some sandboxes count no CPU's time at all.
        (busy_s > 0.0 || own_s == 0.0).then_some((busy_s - own_s).max(0.0))
    }
}

/// Seconds since 1970 (UTC).
pub fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
