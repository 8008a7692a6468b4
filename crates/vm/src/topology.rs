//! The machines that qemu can show to a guest, each also as the tree that the simulator takes.

use machine::{Machine, MachineError, Source};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The most CPUs of a guest. More would take minutes to boot when all share one emulating thread.
const CPUS_MAX: u32 = 128;

/// Packages of dies of cores of hardware threads, with an L3 for each die and the other caches for each core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Topology {
    name: String,
    packages: u32,
    dies_per_package: u32,
    cores_per_die: u32,
    threads_per_core: u32,
    /// Whether each package is a NUMA node with a memory of its own.
    has_numa: bool,
}

/// The text names no machine that can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no machine for a guest: name 2x4 (packages x cores, up to {CPUS_MAX} CPUs), 1x4x2 (with threads a core), \
     dies (2 dies of 4 cores with 2 threads) or nodes (2 NUMA nodes of 4 cores)"
)]
pub struct ParseTopologyError {
    text: String,
}

impl FromStr for Topology {
    type Err = ParseTopologyError;

    fn from_str(text: &str) -> Result<Self, ParseTopologyError> {
        let error = || ParseTopologyError { text: text.into() };
        let counts = match text {
            "dies" => [1, 2, 4, 2],
            "nodes" => [2, 1, 4, 1],
            _ => {
                let counts: Vec<u32> =
                    text.split('x').map(str::parse).collect::<Result<_, _>>().map_err(|_| error())?;
                match counts[..] {
                    [packages, cores] => [packages, 1, cores, 1],
                    [packages, cores, threads] => [packages, 1, cores, threads],
                    _ => return Err(error()),
                }
            }
        };
        let cpus = counts.iter().try_fold(1u32, |product, &count| product.checked_mul(count)).ok_or_else(error)?;
        if !(1..=CPUS_MAX).contains(&cpus) {
            return Err(error());
        }
        let [packages, dies_per_package, cores_per_die, threads_per_core] = counts;
        let has_numa = text == "nodes";
        Ok(Self { name: text.into(), packages, dies_per_package, cores_per_die, threads_per_core, has_numa })
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl From<Topology> for String {
    fn from(topology: Topology) -> Self {
        topology.name
    }
}

impl TryFrom<String> for Topology {
    type Error = ParseTopologyError;

    fn try_from(text: String) -> Result<Self, ParseTopologyError> {
        text.parse()
    }
}

/// The emulated CPU. As Intel, since qemu tells dies in Intel's leaf of `cpuid` only. Without what makes programs move memory by single
/// instructions that repeat themselves byte by byte, each an access of its own, where a real CPU moves whole lines; and without a fifth
/// level of page tables, which takes time to walk.
const CPU: &str = "max,vendor=GenuineIntel,-erms,-fsrm,-la57";

/// Sizes of the caches that qemu's oldest CPU descriptions have, which it shows unless asked for others.
const L1_BYTES: u32 = 32 << 10;
const L2_BYTES: u32 = 4 << 20;
const L3_BYTES: u32 = 16 << 20;

impl Topology {
    /// Number of CPUs.
    pub fn cpus(&self) -> u32 {
        self.packages * self.cpus_per_package()
    }

    fn cpus_per_package(&self) -> u32 {
        self.dies_per_package * self.cores_per_die * self.threads_per_core
    }

    /// This machine as an hwloc synthetic string. CPUs are numbered as in the guest: in the order of the tree.
    pub fn synthetic(&self) -> String {
        let Self { packages, dies_per_package, cores_per_die, threads_per_core, has_numa, .. } = self;
        let (machine_memory, package_memory) = if *has_numa { ("", "[numa] ") } else { ("[numa] ", "") };
        format!(
            "{machine_memory}pack:{packages} {package_memory}die:{dies_per_package} l3:1(size={L3_BYTES}) \
             l2:{cores_per_die}(size={L2_BYTES}) l1i:1(size={L1_BYTES}) l1d:1(size={L1_BYTES}) core:1 pu:{threads_per_core}"
        )
    }

    /// This machine as a tree.
    ///
    /// # Errors
    /// [`MachineError`] where hwloc, which reads synthetic strings, isn't there.
    pub fn machine(&self) -> Result<Machine, MachineError> {
        Machine::read(&Source::Synthetic(self.synthetic()))
    }

    /// What makes qemu show this machine, with `memory_mib` of memory. Shared memory is one that another process of this host can be
    /// given, as whoever serves the guest a file system must be.
    pub(crate) fn qemu_arguments(&self, memory_mib: u32, is_shared: bool) -> Vec<String> {
        let Self { packages, dies_per_package, cores_per_die, threads_per_core, .. } = self;
        let smp = format!(
            "{},sockets={packages},dies={dies_per_package},cores={cores_per_die},threads={threads_per_core}",
            self.cpus(),
        );
        let memory = format!("{memory_mib}M");
        let mut arguments = ["-cpu", CPU, "-m", &memory, "-smp", &smp].map(String::from).to_vec();
        if self.has_numa || is_shared {
            let nodes = if self.has_numa { self.packages } else { 1 };
            let cpus_per_node = self.cpus() / nodes;
            let backend = if is_shared { "memory-backend-memfd,share=on" } else { "memory-backend-ram" };
            for node in 0..nodes {
                let (first, last) = (node * cpus_per_node, (node + 1) * cpus_per_node - 1);
                arguments.extend([
                    "-object".into(),
                    format!("{backend},id=memory{node},size={}M", memory_mib / nodes),
                    "-numa".into(),
                    format!("node,nodeid={node},memdev=memory{node},cpus={first}-{last}"),
                ]);
            }
        }
        arguments
    }
}
