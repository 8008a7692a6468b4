//! The machine as a tree.
//!
//! ```text
//! machine
//! └─ package
//!    └─ die, NUMA group
//!       └─ L3
//!          └─ L2, or a module with shared units
//!             └─ core (with its L1 caches)
//!                └─ PU, what the kernel calls a CPU
//! ```
//!
//! Any level may be missing and siblings may differ. NUMA nodes hang off the object whose CPUs they are local to, as in
//! hwloc 2; they are not levels themselves. A [`Machine`] is read once and never changes; after hotplug, read a new one.
//! Objects lie in one array in depth-first order, PUs in another, so that every object covers a range of PUs.

use crate::cpu::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use strum::{EnumCount, IntoStaticStr, VariantArray};

/// What an object of the tree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(into = "String", try_from = "String")]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    /// The whole machine; the root.
    Machine,
    /// A socket.
    Package,
    /// A die of a package.
    Die,
    /// Objects that belong together for another reason: a NUMA domain, a cluster.
    Group,
    /// A clustered-multithreading module: cores that share units such as the FPU.
    Module,
    /// A unified or data cache of this level.
    Cache(u8),
    /// An instruction cache of this level.
    InstructionCache(u8),
    /// A core.
    Core,
    /// A processing unit: a hardware thread.
    #[strum(serialize = "PU")]
    Pu,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cache(1) => f.pad("L1d"),
            Self::Cache(level) => write!(f, "L{level}"),
            Self::InstructionCache(level) => write!(f, "L{level}i"),
            kind => f.pad(kind.into()),
        }
    }
}

impl Kind {
    /// The kinds that are no caches.
    const UNNUMBERED: [Self; 7] =
        [Self::Machine, Self::Package, Self::Die, Self::Group, Self::Module, Self::Core, Self::Pu];

    /// Its word after the number `n`: `core` after 1, `cores` after 2; caches have no plural.
    pub fn counted(self, n: usize) -> String {
        let word = match self {
            Self::Pu => "CPU".to_owned(),
            _ => self.to_string(),
        };
        match self {
            Self::Cache(_) | Self::InstructionCache(_) => word,
            _ if n == 1 => word,
            _ => word + "s",
        }
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> Self {
        kind.to_string()
    }
}

/// A text that names no kind of object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a kind of object in a machine")]
pub struct ParseKindError(String);

impl FromStr for Kind {
    type Err = ParseKindError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all =
            Self::UNNUMBERED.into_iter().chain((1..=5).map(Self::Cache)).chain((1..=3).map(Self::InstructionCache));
        all.find(|kind| kind.to_string() == text).ok_or_else(|| ParseKindError(text.into()))
    }
}

impl TryFrom<String> for Kind {
    type Error = ParseKindError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// How many ways a line of memory can go in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Associativity {
    /// This many ways; one is a direct-mapped cache.
    Ways(u32),
    /// Any line anywhere.
    Full,
}

/// What is known of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<NonZeroU64>,
    /// Line size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_bytes: Option<NonZeroU64>,
    /// Associativity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub associativity: Option<Associativity>,
}

/// All objects of one kind; where groups lie in groups, those of one depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The kind.
    pub kind: Kind,
    /// Whether these are groups with groups inside.
    pub is_outer: bool,
    pub(crate) rank: usize,
}

impl Row {
    /// The PUs, which every machine has.
    pub(crate) const PU: Self = Self { kind: Kind::Pu, is_outer: false, rank: 0 };

    /// Its word after the number `n`, such as `cores` or `outer groups`.
    pub fn counted(self, n: usize) -> String {
        let outer = if self.is_outer { "outer " } else { "" };
        outer.to_owned() + &self.kind.counted(n)
    }
}

/// A NUMA node: memory and, by the object that it hangs off, the CPUs near it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// The kernel's number of the node (P#).
    pub os_index: u32,
    /// Memory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<NonZeroU64>,
    /// Whether its memory is not ours to use: a cpuset's `mems` excludes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forbidden: bool,
}

/// A kind of core, on machines that have several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreKind {
    /// `P` for performance, `E` for efficiency, or `kind 0`, `kind 1`, ... from the weakest when that is not known.
    pub name: String,
    /// The maker's word for it as hwloc gives it, such as `IntelAtom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_type: Option<String>,
    /// hwloc's rank by performance: 0 is the weakest and most frugal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<u32>,
    /// The CPUs of this kind.
    pub cpus: CpuSet,
}

/// Who keeps us off a CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForbiddenBy {
    /// The affinity mask that this process inherited (`sched_getaffinity`).
    AffinityMask,
    /// A cpuset, by the file that lists its CPUs.
    Cpuset(PathBuf),
    /// The description of the machine says so.
    Description,
}

impl fmt::Display for ForbiddenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AffinityMask => f.write_str("the inherited affinity mask (sched_getaffinity) excludes it"),
            Self::Cpuset(file) => write!(f, "the cpuset in {} excludes it", file.display()),
            Self::Description => f.write_str("the description of the machine excludes it"),
        }
    }
}

/// Whether threads may be put on a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuState {
    /// They may.
    Usable,
    /// The CPU is online, but not for us.
    Forbidden(ForbiddenBy),
    /// The CPU is there and switched off; the kernel then does not tell where it sits.
    Offline,
    /// Whoever described the machine did not see the CPU: it was switched off, or a control group kept it away.
    Hidden,
    /// The machine has no such CPU.
    Absent,
}

impl fmt::Display for CpuState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usable => f.write_str("it is usable"),
            Self::Forbidden(by) => by.fmt(f),
            Self::Offline => f.write_str("it is offline"),
            Self::Hidden => f.write_str(
                "it was offline, or hidden by a control group, where the machine was described; describe it with \
                 `lstopo --disallowed` to tell",
            ),
            Self::Absent => f.write_str("the machine has no such CPU"),
        }
    }
}

/// Where the description of a machine came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// This computer.
    Host,
    /// One of our presets, by name.
    Preset(String),
    /// An hwloc XML file.
    Xml(PathBuf),
    /// An hwloc synthetic string.
    Synthetic(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("this host"),
            Self::Preset(_) => f.write_str("preset"),
            Self::Xml(path) => write!(f, "hwloc XML file {}", path.display()),
            Self::Synthetic(_) => f.write_str("hwloc synthetic string"),
        }
    }
}

/// Classes of closeness, from the closest. Two CPUs at one level share everything further out as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, EnumCount, VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The same PU.
    Pu,
    /// The same core, hence its L1 caches.
    Core,
    /// The same L2 cache, module, or cluster of cores within an L3.
    L2,
    /// The same last level of cache beyond L2.
    L3,
    /// The same die or NUMA domain within a package.
    Node,
    /// The same package.
    Package,
    /// The same group of packages.
    Group,
    /// The same machine, nothing closer.
    Machine,
}

/// Position of an object in the tree's depth-first order; 0 is the machine. Never a kernel number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectIndex(pub(crate) u32);

/// Position of a PU in the tree's depth-first order (hwloc's L#). Never a kernel number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PuIndex(pub(crate) u32);

/// Position of an object among those of its kind, in depth-first order (hwloc's L#).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogicalIndex(pub(crate) u32);

/// Position of a NUMA node in the tree's depth-first order (hwloc's L#).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NumaIndex(pub(crate) u32);

impl ObjectIndex {
    /// The root.
    pub const MACHINE: Self = Self(0);

    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

impl PuIndex {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

impl NumaIndex {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

impl LogicalIndex {
    /// The number after `L#`.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for LogicalIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L#{}", self.0)
    }
}

/// One object of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Its class of closeness: what CPUs are to each other when this is the innermost that they share.
    pub level: Level,
    /// The kernel's number (P#), for packages, dies, cores and PUs where it gives one.
    pub os_index: Option<u32>,
    /// Its number among the objects of its kind (L#).
    pub logical_index: LogicalIndex,
    /// The object around it; none for the machine.
    pub parent: Option<ObjectIndex>,
    /// The objects directly inside.
    pub children: Vec<ObjectIndex>,
    /// Cache facts, when it is a cache.
    pub cache: Option<Cache>,
    /// Units that its cores share, such as `FPU`, when it is a module.
    pub shared_units: Vec<String>,
    /// NUMA nodes local to exactly its CPUs.
    pub numa_nodes: Vec<NumaIndex>,
    /// CPUs that belong here and are not in the tree, as far as the description places them: offline, or hidden.
    pub missing_cpus: CpuSet,
    /// Rank of its kind among all kinds of this machine, counted from the PUs (0) outwards.
    pub(crate) rank: usize,
    pub(crate) pus: Range<u32>,
}

/// One PU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pu {
    /// The kernel's number.
    pub cpu: CpuId,
    /// Its object in the tree.
    pub object: ObjectIndex,
    /// Who keeps us off it; none when it is usable.
    pub forbidden: Option<ForbiddenBy>,
}

/// A machine: packages, caches, cores, CPUs and memory, and which of the CPUs we may use.
///
/// It serialises as the nested tree of [`MachineRecord`](crate::record::MachineRecord), which names no serial number, UUID or host name.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    pub(crate) name: String,
    pub(crate) source: Source,
    pub(crate) cpu_model: Option<String>,
    pub(crate) objects: Vec<Object>,
    pub(crate) pus: Vec<Pu>,
    pub(crate) index_of: BTreeMap<CpuId, PuIndex>,
    pub(crate) offline: CpuSet,
    pub(crate) hidden: CpuSet,
    pub(crate) numa_nodes: Vec<NumaNode>,
    pub(crate) numa_distances: Option<Vec<Vec<u32>>>,
    pub(crate) core_kinds: Vec<CoreKind>,
}

impl Machine {
    /// `host`, the preset's name, the XML file's name, or the synthetic string.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the description came from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// What the maker calls the CPU, where known.
    pub fn cpu_model(&self) -> Option<&str> {
        self.cpu_model.as_deref()
    }

    /// The object at `index`.
    pub fn object(&self, index: ObjectIndex) -> &Object {
        &self.objects[index.at()]
    }

    /// All objects, depth first, the machine itself first.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectIndex, &Object)> {
        (0..).map(ObjectIndex).zip(&self.objects)
    }

    /// The PUs inside an object, in tree order.
    pub fn pus_of(&self, index: ObjectIndex) -> &[Pu] {
        let range = &self.objects[index.at()].pus;
        &self.pus[range.start as usize..range.end as usize]
    }

    /// All PUs that are online, in tree order.
    pub fn pus(&self) -> &[Pu] {
        &self.pus
    }

    /// The CPUs inside an object, usable or not.
    pub fn cpus_of(&self, index: ObjectIndex) -> CpuSet {
        self.pus_of(index).iter().map(|pu| pu.cpu).collect()
    }

    /// Where `cpu` sits in tree order; none when it is offline or absent.
    pub fn pu_index(&self, cpu: CpuId) -> Option<PuIndex> {
        self.index_of.get(&cpu).copied()
    }

    /// The PU at a position.
    pub fn pu(&self, index: PuIndex) -> &Pu {
        &self.pus[index.at()]
    }

    /// Whether threads may be put on `cpu`, and else why not.
    pub fn state(&self, cpu: CpuId) -> CpuState {
        match self.pu_index(cpu) {
            Some(index) => match &self.pu(index).forbidden {
                None => CpuState::Usable,
                Some(by) => CpuState::Forbidden(by.clone()),
            },
            None if self.offline.contains(cpu) => CpuState::Offline,
            None if self.hidden.contains(cpu) => CpuState::Hidden,
            None => CpuState::Absent,
        }
    }

    /// The CPUs on which threads may be put, in tree order.
    pub fn usable(&self) -> impl Iterator<Item = CpuId> {
        self.pus.iter().filter(|pu| pu.forbidden.is_none()).map(|pu| pu.cpu)
    }

    /// The CPUs on which threads may be put, as a set.
    pub fn usable_cpus(&self) -> CpuSet {
        self.usable().collect()
    }

    /// The same machine, in which only these of its usable CPUs may be used.
    pub(crate) fn with_usable(&self, cpus: &[CpuId]) -> Self {
        let mut machine = self.clone();
        for pu in machine.pus.iter_mut().filter(|pu| pu.forbidden.is_none() && !cpus.contains(&pu.cpu)) {
            pu.forbidden = Some(ForbiddenBy::Description);
        }
        machine
    }

    /// CPUs that are there but switched off.
    pub fn offline_cpus(&self) -> &CpuSet {
        &self.offline
    }

    /// CPUs that are offline or that a control group hid from whoever described the machine; which of the two is not known.
    pub fn hidden_cpus(&self) -> &CpuSet {
        &self.hidden
    }

    /// How many objects of a kind the machine has.
    pub fn count(&self, kind: Kind) -> usize {
        self.objects.iter().filter(|o| o.kind == kind).count()
    }

    /// The rows of objects between machine and PU that this machine has, from the outside in, the L1 caches aside.
    pub fn rows_outside_in(&self) -> Vec<Row> {
        let ranked: BTreeMap<usize, Kind> = self.objects.iter().map(|object| (object.rank, object.kind)).collect();
        let mut rows: Vec<Row> = Vec::new();
        // From the inside out, so that the groups inside of others come first.
        for (rank, kind) in ranked {
            use Kind::{Cache, InstructionCache, Machine, Pu};
            if !matches!(kind, Machine | Pu | Cache(1) | InstructionCache(_)) {
                let is_outer = kind == Kind::Group && rows.iter().any(|row| row.kind == Kind::Group);
                rows.push(Row { kind, is_outer, rank });
            }
        }
        rows.reverse();
        rows
    }

    /// How many objects a row has.
    pub fn count_row(&self, row: Row) -> usize {
        self.objects.iter().filter(|object| object.rank == row.rank).count()
    }

    /// Whether some core has several PUs (simultaneous multithreading).
    pub fn has_smt(&self) -> bool {
        self.objects.iter().any(|o| o.kind == Kind::Core && o.pus.len() > 1)
    }

    /// The objects around one, from the inside out.
    pub fn ancestors(&self, index: ObjectIndex) -> impl Iterator<Item = ObjectIndex> {
        self.with_ancestors(index).skip(1)
    }

    /// An object and those around it, from the inside out.
    pub fn with_ancestors(&self, index: ObjectIndex) -> impl Iterator<Item = ObjectIndex> {
        std::iter::successors(Some(index), |&i| self.object(i).parent)
    }

    /// The innermost object of `kind` that holds `cpu`.
    pub fn enclosing(&self, cpu: CpuId, kind: Kind) -> Option<ObjectIndex> {
        let pu = self.pu(self.pu_index(cpu)?).object;
        self.with_ancestors(pu).find(|&i| self.object(i).kind == kind)
    }

    /// The innermost object that holds both CPUs; none when one of them is not in the tree.
    pub fn innermost_shared(&self, a: CpuId, b: CpuId) -> Option<ObjectIndex> {
        let (a, b) = (self.pu_index(a)?, self.pu_index(b)?);
        self.with_ancestors(self.pu(a).object).find(|&i| self.object(i).pus.contains(&b.0))
    }

    /// How close two CPUs are: the class of the innermost object that holds both.
    pub fn sharing(&self, a: CpuId, b: CpuId) -> Option<Level> {
        Some(self.object(self.innermost_shared(a, b)?).level)
    }

    /// The NUMA nodes in tree order.
    pub fn numa_nodes(&self) -> &[NumaNode] {
        &self.numa_nodes
    }

    /// The NUMA node at a position.
    pub fn numa_node(&self, index: NumaIndex) -> &NumaNode {
        &self.numa_nodes[index.at()]
    }

    /// By object, the range of NUMA nodes at and inside of it: they are numbered as their objects are, depth first.
    pub(crate) fn numa_nodes_inside(&self) -> Vec<Range<usize>> {
        let mut nodes: Vec<Range<usize>> = Vec::with_capacity(self.objects.len());
        let mut next = 0;
        for object in &self.objects {
            nodes.push(next..next + object.numa_nodes.len());
            next += object.numa_nodes.len();
        }
        for (index, object) in self.objects.iter().enumerate().rev() {
            let last = object.children.iter().map(|child| nodes[child.at()].end).max();
            nodes[index].end = nodes[index].end.max(last.unwrap_or(0));
        }
        nodes
    }

    /// The NUMA nodes whose memory is nearest to `cpu`; several where memories of different kinds are equally near.
    pub fn local_numa_nodes(&self, cpu: CpuId) -> &[NumaIndex] {
        let Some(index) = self.pu_index(cpu) else {
            return &[];
        };
        self.ancestors(self.pu(index).object)
            .map(|i| self.object(i).numa_nodes.as_slice())
            .find(|nodes| !nodes.is_empty())
            .unwrap_or_default()
    }

    /// The firmware's relative distances (10 is local) between NUMA nodes, row and column in tree order.
    pub fn numa_distances(&self) -> Option<&[Vec<u32>]> {
        self.numa_distances.as_deref()
    }

    /// The kinds of core from the weakest; empty when all cores are alike or nothing tells them apart.
    pub fn core_kinds(&self) -> &[CoreKind] {
        &self.core_kinds
    }

    /// The kind of the core that `cpu` belongs to, on a machine with several kinds.
    pub fn core_kind(&self, cpu: CpuId) -> Option<&CoreKind> {
        self.core_kinds.iter().find(|kind| kind.cpus.contains(cpu))
    }
}
