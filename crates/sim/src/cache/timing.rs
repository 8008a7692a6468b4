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

    /// The Sequent Symmetry S81.
    ///
    /// Its bus moves 53.3 MB/s (Argonne's list of parallel machines, netlib.org/machines, sequent2.tex): a line of 16 bytes holds it
    /// for 300 ns. Assumption: a miss takes 1 us, 16 cycles of its CPU.
    pub const SEQUENT_SYMMETRY: Self = Self { bus_ns: 300.0, ..Self::SGI_4D340 };

    /// The Opteron 6272, by measurements of its predecessors.
    ///
    /// L3 57 cycles at 2.2 GHz, 26 ns, and memory 98 ns on an Opteron 6174 (AnandTech, anandtech.com/show/2978); 100 and 130 ns to
    /// memories of a system with four packages (J. McCalpin, AMD Opteron Local Memory Latency Chart, 2010). Assumption: two
    /// channels of DDR3-1600 a die, 25.6 GB/s.
    pub const OPTERON_6272: Self =
        Self { next_cache_ns: 26.0, memory_ns: 74.0, other_node_ns: 89.0, other_package_ns: 104.0, bus_ns: 2.5 };

    /// The EPYC 7763, by measurements of its predecessor.
    ///
    /// L3 10.3 ns, memory 122 ns at random on an EPYC 7742 with one node a package (AnandTech, anandtech.com/show/14694).
    /// Assumptions: 200 ns to the other package's memory, eight channels of DDR4-3200, 205 GB/s a package.
    pub const EPYC_7763: Self =
        Self { next_cache_ns: 10.3, memory_ns: 112.0, other_node_ns: 112.0, other_package_ns: 190.0, bus_ns: 0.31 };

    /// What is known or assumed of a machine.
    pub fn for_machine(machine: &Machine) -> Self {
        match machine.source() {
            Source::Preset(name) => match name.as_str() {
                "sgi-4d340" => Self::SGI_4D340,
                "sequent-symmetry" => Self::SEQUENT_SYMMETRY,
                "opteron-6272" => Self::OPTERON_6272,
                "epyc-7763" => Self::EPYC_7763,
                _ => Self::SERVER,
            },
            _ => Self::SERVER,
        }
    }

    /// The same with caches that are `caches` times as fast, and memory and buses that are `memory` times as fast.
    pub fn faster(self, caches: f64, memory: f64) -> Self {
        Self {
            next_cache_ns: self.next_cache_ns / caches,
            memory_ns: self.memory_ns / memory,
            other_node_ns: self.other_node_ns / memory,
            other_package_ns: self.other_package_ns / memory,
            bus_ns: self.bus_ns / memory,
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
