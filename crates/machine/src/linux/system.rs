//! The kernel, the CPUs and their load, as a whole.

use super::affinity::allowed_cpus;
use super::{read_word, value_of};
use crate::cpu::CpuSet;
use procfs::{CpuInfo, Current, CurrentSI, KernelStats, LoadAverage, Meminfo};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Where sysfs keeps what it says of CPUs.
const CPUS: &str = "/sys/devices/system/cpu";

/// CPU time since boot, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuTime {
    /// Of all kinds, over all CPUs.
    pub total_s: f64,
    /// What the hypervisor took, over all CPUs.
    pub steal_s: f64,
    /// What was used by whomever on the CPUs that the calling thread may use; what the hypervisor took isn't part of it.
    pub allowed_busy_s: f64,
}

/// Kernel release, as `uname -r` prints it.
pub fn kernel_release() -> Option<String> {
    read_word("/proc/sys/kernel/osrelease")
}

/// Architecture, as `uname -m` prints it.
pub fn architecture() -> Option<String> {
    Some(nix::sys::utsname::uname().ok()?.machine().to_string_lossy().into_owned())
}

/// Distribution, as `/etc/os-release` names it.
pub fn distribution() -> Option<String> {
    value_of(&fs::read_to_string("/etc/os-release").ok()?, "PRETTY_NAME", '=').map(str::to_owned)
}

/// Model name of the first CPU; on Arm, where kernels give none, its numbers.
pub fn cpu_model() -> Option<String> {
    model_of(&CpuInfo::current().ok()?)
}

fn model_of(cpus: &CpuInfo) -> Option<String> {
    let by_numbers = || {
        let (implementer, part) = (cpus.get_field(0, "CPU implementer")?, cpus.get_field(0, "CPU part")?);
        Some(format!("CPU part {part} of implementer {implementer}"))
    };
    cpus.model_name(0).map(str::to_owned).or_else(by_numbers)
}

/// The CPUs of each core that has any of `cpus`, of these CPUs alone; none where no core has several, or sysfs doesn't tell.
pub fn hardware_threads(cpus: &CpuSet) -> Vec<CpuSet> {
    let mut cores: Vec<CpuSet> = Vec::new();
    for cpu in cpus.iter() {
        let siblings = read_word(format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list"));
        let Some(core) = siblings.and_then(|list| list.parse::<CpuSet>().ok()) else { return Vec::new() };
        let core: CpuSet = core.iter().filter(|cpu| cpus.contains(*cpu)).collect();
        if !cores.contains(&core) {
            cores.push(core);
        }
    }
    if cores.iter().all(|core| core.len() < 2) { Vec::new() } else { cores }
}

/// The hypervisor that this machine runs under; none on bare metal or where it can't be told.
pub fn hypervisor() -> Option<String> {
    if !CpuInfo::current().ok()?.flags(0)?.contains(&"hypervisor") {
        return None;
    }
    let named = read_word("/sys/hypervisor/type").or_else(|| read_word("/sys/class/dmi/id/sys_vendor"));
    Some(named.filter(|name| !name.is_empty()).unwrap_or_else(|| "unnamed".into()))
}

/// Load averages over 1, 5 and 15 minutes.
pub fn load_average() -> Option<[f64; 3]> {
    let load = LoadAverage::current().ok()?;
    // The kernel prints two decimals, which a binary fraction of 32 bits is not exactly.
    Some([load.one, load.five, load.fifteen].map(|load| (f64::from(load) * 100.0).round() / 100.0))
}

/// CPU time since boot.
pub fn cpu_time() -> Option<CpuTime> {
    let stats = KernelStats::current().ok()?;
    let time = &stats.total;
    let ticks = busy_ticks(time) + time.idle + time.iowait.unwrap_or(0) + time.steal?;
    let seconds = |ticks: u64| ticks as f64 / procfs::ticks_per_second() as f64;
    // There is a line for each CPU that is online, rising; `procfs` drops their numbers. Where a container's lines are for other
    // CPUs than sysfs has, they are those that the container may use.
    let online: Option<CpuSet> = read_word(Path::new(CPUS).join("online")).and_then(|list| list.parse().ok());
    let online = online.filter(|online| online.len() == stats.cpu_time.len());
    let allowed_busy = match (online, allowed_cpus()) {
        (Some(online), Ok(allowed)) => {
            let lines = online.iter().zip(&stats.cpu_time).filter(|(cpu, _)| allowed.contains(*cpu));
            lines.map(|(_, time)| busy_ticks(time)).sum()
        }
        _ => busy_ticks(time),
    };
    Some(CpuTime { total_s: seconds(ticks), steal_s: seconds(time.steal?), allowed_busy_s: seconds(allowed_busy) })
}

/// Ticks in which something ran. Guest time is part of user time and would count twice.
fn busy_ticks(time: &procfs::CpuTime) -> u64 {
    time.user + time.nice + time.system + time.irq.unwrap_or(0) + time.softirq.unwrap_or(0)
}

/// Memory that can be had without swapping, in bytes.
pub fn available_memory_bytes() -> Option<u64> {
    Meminfo::current().ok()?.mem_available
}

/// Frequency governors in use; empty where the machine has none to see.
pub fn governors() -> Vec<String> {
    let policies = fs::read_dir(Path::new(CPUS).join("cpufreq")).into_iter().flatten().flatten();
    let names = policies.filter_map(|policy| read_word(policy.path().join("scaling_governor")));
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Whether several threads of a core are online; none where it can't be told.
pub fn smt_active() -> Option<bool> {
    read_word(Path::new(CPUS).join("smt/active")).map(|word| word == "1")
}

/// CPUs that run, whether or not we may use them; none where sysfs doesn't tell.
pub fn online_cpus() -> Option<CpuSet> {
    read_word(Path::new(CPUS).join("online"))?.parse().ok()
}

/// CPUs that are plugged in but switched off, as far as sysfs tells.
pub fn offline_cpus() -> CpuSet {
    offline_cpus_in(Path::new(CPUS))
}

fn offline_cpus_in(folder: &Path) -> CpuSet {
    let list = |file: &str| -> Option<CpuSet> { read_word(folder.join(file))?.parse().ok() };
    match (list("present"), list("online")) {
        // In some containers the list of online CPUs has only those of the container; the file of each CPU knows better.
        (Some(present), Some(online)) => (present.difference(&online).iter())
            .filter(|cpu| read_word(folder.join(format!("cpu{cpu}/online"))).is_none_or(|word| word != "1"))
            .collect(),
        _ => CpuSet::new(),
    }
}

/// Whether the kernel knows a CPU of this number, online or not.
pub fn has_cpu(cpu: crate::CpuId) -> bool {
    Path::new(CPUS).join(format!("cpu{cpu}")).exists()
}

/// Whether the kernel lists hardware counters for the CPUs.
pub fn has_hardware_counters() -> bool {
    fs::read_dir("/sys/bus/event_source/devices").into_iter().flatten().flatten().any(|device| {
        // `cpu` on x86, `cpu_core` and `cpu_atom` on hybrids, `armv8_pmuv3_0` and the like on Arm.
        let name = device.file_name();
        let name = name.to_string_lossy();
        name == "cpu" || name.starts_with("cpu_") || name.starts_with("armv")
    })
}

/// Whom the kernel lets count events: `perf_event_paranoid`, higher for fewer.
pub fn perf_event_paranoid() -> Option<String> {
    read_word("/proc/sys/kernel/perf_event_paranoid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromBufRead;

    #[test]
    fn a_cpu_is_named_or_has_its_numbers() {
        let model = |text: &str| model_of(&CpuInfo::from_buf_read(text.as_bytes()).unwrap());
        let xeon = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) CPU E5620 @ 2.40GHz\n\n";
        assert_eq!(model(xeon).as_deref(), Some("Intel(R) Xeon(R) CPU E5620 @ 2.40GHz"));
        let neoverse = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n\
                        CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n";
        assert_eq!(model(neoverse).as_deref(), Some("CPU part 0xd0c of implementer 0x41"));
        assert_eq!(model("processor\t: 0\nhart\t\t: 2\nisa\t\t: rv64imafdc\n\n"), None);
    }

    #[test]
    fn a_cpu_that_a_container_hides_is_not_offline() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("present", "0-3\n");
        write("online", "0-1\n");
        write("cpu2/online", "1\n");
        write("cpu3/online", "0\n");
        assert_eq!(offline_cpus_in(folder.path()).to_string(), "3");
    }

    #[test]
    fn this_machine_says_what_every_linux_says() {
        assert!(kernel_release().unwrap().starts_with(|c: char| c.is_ascii_digit()));
        assert!(!architecture().unwrap().is_empty());
        let text = fs::read_to_string("/proc/loadavg").unwrap();
        let written: Vec<f64> = text.split(' ').take(3).map(|word| word.parse().unwrap()).collect();
        // Another average may have been written between the two looks, but not one with more decimals.
        let load = load_average().unwrap();
        assert!(load.iter().all(|load| format!("{load}").len() <= format!("{load:.2}").len()), "{load:?} {written:?}");
        let (before, after) = (cpu_time().unwrap(), cpu_time().unwrap());
        assert!(0.0 < before.total_s && before.total_s <= after.total_s && before.steal_s < before.total_s);
        assert!(0.0 < before.allowed_busy_s && before.allowed_busy_s <= after.allowed_busy_s);
        assert!(after.allowed_busy_s + after.steal_s <= after.total_s);
        assert!(available_memory_bytes().unwrap() > 1 << 20);
    }
}
