//! What a miss costs, by how far it has to go.

use machine::{Level, Machine, Source};
use serde::{Deserialize, Serialize};

/// What misses cost on an idle machine, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// A miss that the next cache outwards serves.
    pub next_cache_ns: f64,
    /// What a miss of the outermost cache costs on top, from memory of the CPU's own node.
    pub memory_ns: f64,
    /// The same from another node of the package.
    pub other_node_ns: f64,
    /// The same from another package.
    pub other_package_ns: f64,
    /// For how much of it one bus or memory controller is held, so that others wait (`bus.rs`).
    pub bus_ns: f64,
}

impl Timing {
    /// The SGI 4D/340, the machine that the cache-affinity report most likely used.
    ///
    /// Report, section 3.1.2: 3,000 misses take about 3 ms. One bus, one memory. Assumption: it moves 64 MB/s (general
    /// knowledge, not checked), so a line of 16 bytes holds it for 250 ns.
    pub const SGI_4D340: Self = Self {
        next_cache_ns: 0.0,
        memory_ns: 1_000.0,
        other_node_ns: 1_000.0,
        other_package_ns: 1_000.0,
        bus_ns: 250.0,
    };

    /// A server with a memory controller in each package.
    ///
    /// Assumption, of the size that is known of Nehalem (general knowledge, not checked): 13 ns to the L3, 65 ns to own and
    /// 105 ns to the other package's memory, 20 GB/s a controller, so about 3 ns a line. Dies of one package: in between.
    pub const SERVER: Self =
        Self { next_cache_ns: 13.0, memory_ns: 52.0, other_node_ns: 72.0, other_package_ns: 92.0, bus_ns: 3.2 };

    /// What is known or assumed of a machine.
    pub fn of(machine: &Machine) -> Self {
        match machine.source() {
            Source::Preset(name) if name == "sgi-4d340" => Self::SGI_4D340,
            _ => Self::SERVER,
        }
    }

    /// The cost of a miss of the outermost cache from memory whose nearest CPUs are this close.
    pub(super) fn memory_at(&self, closeness: Level) -> f64 {
        match closeness {
            Level::Pu | Level::Core | Level::L2 | Level::L3 | Level::Node => self.memory_ns,
            Level::Package => self.other_node_ns,
            Level::Group | Level::Machine => self.other_package_ns,
        }
    }
}
