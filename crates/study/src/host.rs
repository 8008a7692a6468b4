//! The machine around a study: what stays the same (facts) and what moves (state).

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
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
        let name = nix::sys::utsname::uname().ok();
        let word = |part: Option<&std::ffi::OsStr>| part.map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            stayput_version: env!("CARGO_PKG_VERSION").into(),
            kernel: word(name.as_ref().map(|n| n.release())),
            distribution: fs::read_to_string("/etc/os-release")
                .ok()
                .and_then(|text| value_of(&text, "PRETTY_NAME", '=')),
            architecture: word(name.as_ref().map(|n| n.machine())),
            cpu_model: value_of(&cpuinfo, "model name", ':'),
            hypervisor: hypervisor(&cpuinfo),
            environment: std::env::vars_os()
                .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
                .filter(|(name, _)| TELLING_VARIABLES.iter().any(|start| name.starts_with(start)))
                .collect(),
        }
    }
}

impl HostState {
    /// Around a study of models: the time of day and nothing else.
    pub fn of_model() -> Self {
        Self { unix_s: unix_seconds(), ..Self::default() }
    }

    /// Reads this machine's. What can't be read is left out.
    pub fn read() -> Self {
        let (total_cpu_s, steal_s) = cpu_seconds().unzip();
        Self {
            unix_s: unix_seconds(),
            load_average: fs::read_to_string("/proc/loadavg").ok().and_then(|text| {
                let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
                Some([numbers.next()?, numbers.next()?, numbers.next()?])
            }),
            steal_s,
            total_cpu_s,
            governors: governors(),
            smt_active: read_word("/sys/devices/system/cpu/smt/active").map(|word| word == "1"),
            cgroup_cpu_limit: cgroup_cpu_limit(),
            available_memory_bytes: fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
                let kibibytes: u64 = value_of(&text, "MemAvailable", ':')?.strip_suffix(" kB")?.trim().parse().ok()?;
                Some(kibibytes * 1024)
            }),
        }
    }

    /// The share of CPU time that the hypervisor took between `earlier` and this (0.1 = 10 %).
    pub fn steal_since(&self, earlier: &Self) -> Option<f64> {
        let total_s = self.total_cpu_s? - earlier.total_cpu_s?;
        (total_s > 0.0).then_some((self.steal_s? - earlier.steal_s?) / total_s)
    }
}

/// Seconds since 1970 (UTC).
pub fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The value after the first line `name<separator>value` of a text, without quotes.
fn value_of(text: &str, name: &str, separator: char) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim().trim_matches('"').to_owned())
    })
}

fn read_word(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn hypervisor(cpuinfo: &str) -> Option<String> {
    let virtual_machine = cpuinfo
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    let named = read_word("/sys/hypervisor/type").or_else(|| read_word("/sys/class/dmi/id/sys_vendor"));
    virtual_machine.then(|| named.filter(|name| !name.is_empty()).unwrap_or_else(|| "unnamed".into()))
}

/// CPU time since boot over all CPUs and kinds, and the part that the hypervisor took (proc(5), `/proc/stat`).
fn cpu_seconds() -> Option<(f64, f64)> {
    /// Position of steal time among the counts of the `cpu` line.
    const STEAL: usize = 7;
    /// Guest time is part of user time and would count twice.
    const KINDS: usize = 8;
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: Vec<f64> = line.split_whitespace().skip(1).take(KINDS).map_while(|word| word.parse().ok()).collect();
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()?? as f64;
    Some((ticks.iter().sum::<f64>() / per_second, ticks.get(STEAL)? / per_second))
}

fn governors() -> Vec<String> {
    let Ok(policies) = fs::read_dir("/sys/devices/system/cpu/cpufreq") else { return Vec::new() };
    let names = policies.flatten().filter_map(|policy| read_word(policy.path().join("scaling_governor")));
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The CPU bandwidth limit of our control group, v2 (`cpu.max`) or v1 (`cpu.cfs_quota_us`).
fn cgroup_cpu_limit() -> Option<f64> {
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut lowest: Option<f64> = None;
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?.trim_start_matches('/'));
        let roots: &[&str] = match controllers {
            "" => &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
            list if list.split(',').any(|name| name == "cpu") => &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"],
            _ => continue,
        };
        for root in roots {
            // A limit on any ancestor limits us too.
            for folder in Path::new(root).join(group).ancestors().take_while(|folder| folder.starts_with(root)) {
                let limit = if controllers.is_empty() {
                    read_word(folder.join("cpu.max")).and_then(|text| {
                        let (quota, period) = text.split_once(' ')?;
                        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
                    })
                } else {
                    let number = |name| read_word(folder.join(name))?.parse::<f64>().ok();
                    number("cpu.cfs_quota_us")
                        .filter(|quota| *quota > 0.0)
                        .and_then(|quota| Some(quota / number("cpu.cfs_period_us")?))
                };
                lowest = [lowest, limit].into_iter().flatten().reduce(f64::min);
            }
        }
    }
    lowest
}
