//! The caches that are modelled, from the machine's tree.
//!
//! These are all data and unified caches from L2 outwards, and L1 where there is nothing else. An inner cache is reloaded
//! within microseconds; that belongs to the work. Which lines an outer cache holds is modelled independently of the inner
//! ones, but for one thing: what an inner cache still holds needn't be fetched from further out.

use super::timing::Timing;
use machine::tree::{Associativity, ObjectIndex};
use machine::{CpuId, Kind, Machine};
use std::collections::BTreeMap;

/// Caches on the way from a CPU to memory.
pub(super) const MAX_DEPTH: usize = 3;

/// Position of a cache among all that are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CacheIndex(pub u32);

impl CacheIndex {
    /// No cache.
    pub const NONE: Self = Self(u32::MAX);

    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// A cache on the way from a CPU to memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub cache: CacheIndex,
    /// Its position in [`Hierarchy::builds`].
    pub build: u16,
    /// Whether several CPUs use it.
    pub is_shared: bool,
}

/// The caches on the way from a CPU to memory, from the inside out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    stages: [Stage; MAX_DEPTH],
    depths: u8,
    /// Whether other CPUs use any of them.
    pub is_shared: bool,
}

impl Path {
    fn new(caches: &[Stage]) -> Self {
        let none = Stage { cache: CacheIndex::NONE, build: 0, is_shared: false };
        let mut path = Self { stages: [none; MAX_DEPTH], depths: caches.len() as u8, is_shared: false };
        path.stages[..caches.len()].copy_from_slice(caches);
        path
    }

    #[inline]
    pub fn stages(&self) -> &[Stage] {
        &self.stages[..usize::from(self.depths).min(MAX_DEPTH)]
    }
}

/// A build of cache: all with the same geometry behave alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Build {
    /// Lines that it can hold.
    pub frames: f64,
    /// Bytes of a line.
    pub line_bytes: f64,
    /// Ways; none when a line can go anywhere.
    pub ways: Option<u32>,
    /// Whether no modelled cache is further in.
    pub is_innermost: bool,
}

/// Why no cache model can be made of a machine.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HierarchyError {
    /// No cache around a CPU.
    #[error("{machine} has no data cache around CPU {cpu}; describe one, as in the synthetic string `l2:1(size=1MB)`")]
    NoCache {
        /// The machine.
        machine: String,
        /// The CPU.
        cpu: CpuId,
    },
    /// A cache of unknown size.
    #[error("{machine} doesn't tell the size of the {kind} around CPU {cpu}; describe it, as in `{kind}(size=1MB)`")]
    UnknownSize {
        /// The machine.
        machine: String,
        /// Which cache.
        kind: Kind,
        /// The CPU.
        cpu: CpuId,
    },
    /// A CPU that the machine doesn't have.
    #[error("{machine} has no CPU {cpu}")]
    NoCpu {
        /// The machine.
        machine: String,
        /// The CPU.
        cpu: CpuId,
    },
}

/// The caches of a machine as seen from its CPUs.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    pub(super) timing: Timing,
    pub(super) builds: Vec<Build>,
    /// By cache, how many of the CPUs use it.
    cpus_of: Vec<u32>,
    /// By CPU.
    pub(super) paths: Vec<Path>,
    /// By CPU, the node whose memory is its own.
    pub(super) node_of: Vec<u32>,
    /// By CPU and node, what a miss of the outermost cache costs, in ns.
    pub(super) memory_ns: Vec<f64>,
    pub(super) nodes: usize,
}

impl Hierarchy {
    /// The caches around `cpus`, in the order in which the simulation numbers them.
    ///
    /// # Errors
    /// A CPU that the machine lacks, that has no cache, or has one of unknown size.
    pub fn new(machine: &Machine, cpus: &[CpuId], timing: Timing) -> Result<Self, HierarchyError> {
        let mut found: BTreeMap<ObjectIndex, Stage> = BTreeMap::new();
        let mut hierarchy = Self {
            timing,
            builds: Vec::new(),
            cpus_of: Vec::new(),
            paths: Vec::with_capacity(cpus.len()),
            node_of: Vec::with_capacity(cpus.len()),
            memory_ns: Vec::new(),
            nodes: machine.numa_nodes().len().max(1),
        };
        for &cpu in cpus {
            let objects = hierarchy.caches_around(machine, cpu)?;
            let mut path = Vec::with_capacity(objects.len());
            for (depth, &object) in objects.iter().enumerate() {
                let stage = match found.get(&object) {
                    Some(&stage) => stage,
                    None => {
                        let build = hierarchy.add_build(machine, object, cpu, depth == 0)?;
                        let cache = CacheIndex(hierarchy.cpus_of.len() as u32);
                        hierarchy.cpus_of.push(0);
                        *found.entry(object).or_insert(Stage { cache, build, is_shared: false })
                    }
                };
                hierarchy.cpus_of[stage.cache.at()] += 1;
                path.push(stage);
            }
            hierarchy.paths.push(Path::new(&path));
        }
        for path in &mut hierarchy.paths {
            for stage in &mut path.stages[..usize::from(path.depths)] {
                stage.is_shared = hierarchy.cpus_of[stage.cache.at()] > 1;
                path.is_shared |= stage.is_shared;
            }
        }
        hierarchy.place_memory(machine, cpus);
        Ok(hierarchy)
    }

    /// How many caches there are.
    pub(super) fn caches(&self) -> usize {
        self.cpus_of.len()
    }

    /// Seen from a CPU that uses it, the share of the other CPUs that don't.
    #[inline]
    pub(super) fn outside(&self, cache: CacheIndex) -> f64 {
        let (cpus, inside) = (self.paths.len() as f64, f64::from(self.cpus_of[cache.at()]));
        if cpus > 1.0 { (cpus - inside) / (cpus - 1.0) } else { 0.0 }
    }

    /// The longest way from a CPU to memory, in caches.
    pub fn depths(&self) -> usize {
        self.paths.iter().map(|path| path.stages().len()).max().unwrap_or(0)
    }

    /// The caches around a CPU that are modelled, from the inside out.
    fn caches_around(&self, machine: &Machine, cpu: CpuId) -> Result<Vec<ObjectIndex>, HierarchyError> {
        let Some(pu) = machine.pu_index(cpu) else {
            return Err(HierarchyError::NoCpu { machine: machine.name().into(), cpu });
        };
        let level = |&index: &ObjectIndex| match machine.object(index).kind {
            Kind::Cache(level) => Some((level, index)),
            _ => None,
        };
        let all: Vec<_> = machine.ancestors(machine.pu(pu).object).filter_map(|index| level(&index)).collect();
        let outer: Vec<_> =
            all.iter().filter(|(level, _)| *level > 1).map(|&(_, index)| index).take(MAX_DEPTH).collect();
        match (outer.is_empty(), all.first()) {
            (false, _) => Ok(outer),
            (true, Some(&(_, innermost))) => Ok(vec![innermost]),
            (true, None) => Err(HierarchyError::NoCache { machine: machine.name().into(), cpu }),
        }
    }

    /// The build of a cache, as a position in `builds`.
    fn add_build(
        &mut self,
        machine: &Machine,
        cache: ObjectIndex,
        cpu: CpuId,
        is_innermost: bool,
    ) -> Result<u16, HierarchyError> {
        let object = machine.object(cache);
        let facts = object.cache.unwrap_or_default();
        let Some(size_bytes) = facts.size_bytes else {
            return Err(HierarchyError::UnknownSize { machine: machine.name().into(), kind: object.kind, cpu });
        };
        // Where the machine doesn't tell, what most have today.
        let line_bytes = facts.line_bytes.map_or(64.0, |bytes| bytes.get() as f64);
        let ways = match facts.associativity {
            Some(Associativity::Full) => None,
            Some(Associativity::Ways(ways)) => Some(ways),
            None => Some(16),
        };
        let frames = (size_bytes.get() as f64 / line_bytes).max(1.0);
        let build = Build { frames, line_bytes, ways, is_innermost };
        let position = self.builds.iter().position(|known| *known == build).unwrap_or_else(|| {
            self.builds.push(build);
            self.builds.len() - 1
        });
        Ok(position as u16)
    }

    /// Which memory is whose, and how far it is.
    fn place_memory(&mut self, machine: &Machine, cpus: &[CpuId]) {
        let own_node = |cpu: CpuId| machine.local_numa_nodes(cpu).first().copied();
        let nodes: BTreeMap<_, _> = machine.pus().iter().filter_map(|pu| Some((own_node(pu.cpu)?, pu.cpu))).collect();
        self.nodes = nodes.len().max(1);
        for &cpu in cpus {
            let own = own_node(cpu);
            let position = nodes.keys().position(|&node| Some(node) == own);
            self.node_of.push(position.unwrap_or(0) as u32);
            if nodes.is_empty() {
                self.memory_ns.push(self.timing.memory_ns);
            }
            for (&node, &near) in &nodes {
                let is_own = own.is_none_or(|own| own == node);
                let cost = match machine.sharing(cpu, near) {
                    Some(closeness) if !is_own => self.timing.memory_at(closeness),
                    _ => self.timing.memory_ns,
                };
                self.memory_ns.push(cost);
            }
        }
    }
}
