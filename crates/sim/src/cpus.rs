//! The CPUs of a simulation: the usable ones of a machine in tree order, and how close they are.

use crate::index::{CpuIndex, all};
use crate::rule::Distance;
use crate::tournament::Nest;
use machine::tree::{Kind, Machine, Object, ObjectIndex};
use machine::{CpuId, Level};
use strum::{EnumCount, VariantArray};

const LEVELS: [Level; Level::COUNT] = all(Level::VARIANTS);

/// The usable CPUs of a machine.
pub(crate) struct Cpus<'a> {
    machine: &'a Machine,
    ids: Vec<CpuId>,
    /// For each CPU and level, the outermost object around it that is no wider than this level.
    by_level: Vec<[ObjectIndex; LEVELS.len()]>,
}

impl<'a> Cpus<'a> {
    pub(crate) fn new(machine: &'a Machine) -> Self {
        let ids: Vec<CpuId> = machine.usable().collect();
        let by_level = (ids.iter())
            .map(|&id| {
                let own = machine.pu_index(id).map(|pu| machine.pu(pu).object);
                let around: Vec<ObjectIndex> = own.into_iter().flat_map(|i| machine.with_ancestors(i)).collect();
                LEVELS.map(|level| {
                    let inside = around.iter().take_while(|&&i| machine.object(i).level <= level);
                    inside.last().copied().unwrap_or(around[0])
                })
            })
            .collect();
        Self { machine, ids, by_level }
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// What two CPUs share.
    #[inline]
    pub(crate) fn sharing(&self, a: CpuIndex, b: CpuIndex) -> Level {
        let (a, b) = (&self.by_level[a.at()], &self.by_level[b.at()]);
        let shared = a.iter().zip(b).position(|(a, b)| a == b);
        shared.map_or(Level::Machine, |level| LEVELS[level])
    }

    /// Whether two CPUs share an object no wider than a level.
    pub(crate) fn are_within(&self, level: Level, a: u32, b: u32) -> bool {
        self.sharing(CpuIndex(a), CpuIndex(b)) <= level
    }

    /// Whether the machine tells of any cache.
    pub(crate) fn tells_of_caches(&self) -> bool {
        let objects = self.ids.iter().filter_map(|&id| self.machine.pu_index(id));
        let mut around = objects.flat_map(|pu| self.machine.with_ancestors(self.machine.pu(pu).object));
        around.any(|index| matches!(self.machine.object(index).kind, Kind::Cache(_)))
    }

    /// Whether two CPUs are near to the same memory.
    pub(crate) fn share_memory(&self, a: u32, b: u32) -> bool {
        let nodes = |cpu: u32| self.machine.local_numa_nodes(self.ids[cpu as usize]);
        nodes(a) == nodes(b)
    }

    /// How far apart two CPUs are.
    #[cfg(test)]
    pub(crate) fn distance(&self, a: CpuIndex, b: CpuIndex) -> Distance {
        let shared = self.machine.innermost_shared(self.ids[a.at()], self.ids[b.at()]);
        shared.map_or(Distance::Far, |index| self.distance_in(index, self.machine.object(index)))
    }

    /// What one has to leave on the way from `a` to `b`: the less, the nearer.
    #[cfg(test)]
    pub(crate) fn detour(&self, a: CpuIndex, b: CpuIndex) -> impl Ord + use<> {
        // Objects further in come later in depth-first order.
        std::cmp::Reverse(self.machine.innermost_shared(self.ids[a.at()], self.ids[b.at()]))
    }

    /// The tree of the usable CPUs.
    pub(crate) fn nest(&self) -> Nest {
        self.nest_of(ObjectIndex::MACHINE).unwrap_or_else(|| Nest::flat(self.ids.len()))
    }

    fn nest_of(&self, index: ObjectIndex) -> Option<Nest> {
        let object = self.machine.object(index);
        if object.children.is_empty() {
            let pu = self.machine.pus_of(index).first()?;
            return pu.forbidden.is_none().then_some(Nest::Leaf);
        }
        let mut children: Vec<Nest> = object.children.iter().filter_map(|&child| self.nest_of(child)).collect();
        match children.len() {
            0 => None,
            // Nothing is shared in an object with one usable CPU.
            1 => children.pop(),
            _ => Some(Nest::Node(self.distance_in(index, object), children)),
        }
    }

    /// How far apart CPUs are whose innermost common object is this one.
    fn distance_in(&self, index: ObjectIndex, object: &Object) -> Distance {
        match object.level {
            Level::Pu => Distance::SameCpu,
            Level::Core => Distance::SameCore,
            Level::L2 => Distance::SameL2,
            Level::L3 => Distance::SameL3,
            Level::Node => Distance::SameNode,
            // A package, or the machine, may be one node.
            Level::Package | Level::Group | Level::Machine => {
                let mut nodes = self.machine.pus_of(index).iter().map(|pu| self.machine.local_numa_nodes(pu.cpu));
                let first = nodes.next().unwrap_or_default();
                if !first.is_empty() && nodes.all(|other| other == first) { Distance::SameNode } else { Distance::Far }
            }
        }
    }
}
