//! The stored form of a machine: a nested tree that people and other programs can read, checked when it comes back.

use crate::cpu::{CpuId, CpuSet, MAX_CPU_ID, MAX_CPUS};
use crate::tree::{
    Cache, CoreKind, ForbiddenBy, Kind, Level, LogicalIndex, Machine, NumaIndex, NumaNode, Object, ObjectIndex, Pu,
    PuIndex, Source,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};

/// Deeper trees are not believed; real ones have about ten levels.
const MAX_DEPTH: usize = 64;

/// A machine as it is stored and printed as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineRecord {
    /// `host`, the preset's name, the XML file's name, or the synthetic string.
    pub name: String,
    /// Where the description came from.
    pub source: Source,
    /// What the maker calls the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// How many there are of each kind of object and of NUMA nodes; for readers, ignored when read back.
    #[serde(default)]
    pub counts: BTreeMap<String, usize>,
    /// The CPUs on which threads may be put; for readers, ignored when read back.
    #[serde(default)]
    pub usable_cpus: CpuSet,
    /// CPUs that are there but switched off.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub offline_cpus: CpuSet,
    /// CPUs that are offline or that a control group hid from whoever described the machine.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub hidden_cpus: CpuSet,
    /// The kinds of core from the weakest, when there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub core_kinds: Vec<CoreKind>,
    /// Relative distances between NUMA nodes, in the order in which the tree names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_distances: Option<Vec<Vec<u32>>>,
    /// The root.
    pub tree: ObjectRecord,
}

/// An object and all that is inside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectRecord {
    /// What it is.
    pub kind: Kind,
    /// The kernel's number (P#). A PU must have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_index: Option<u32>,
    /// Cache facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// Units that its cores share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_units: Vec<String>,
    /// NUMA nodes local to exactly its CPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numa_nodes: Vec<NumaNode>,
    /// Who keeps us off this PU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden_by: Option<ForbiddenBy>,
    /// CPUs that belong here and are not in the tree.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub missing_cpus: CpuSet,
    /// The objects directly inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ObjectRecord>,
}

impl ObjectRecord {
    /// An object of `kind` around `children`, with nothing else known.
    pub fn new(kind: Kind, children: Vec<ObjectRecord>) -> Self {
        Self {
            kind,
            os_index: None,
            cache: None,
            shared_units: Vec::new(),
            numa_nodes: Vec::new(),
            forbidden_by: None,
            missing_cpus: CpuSet::new(),
            children,
        }
    }

    /// Calls `visit` with this object and every one inside, depth first.
    pub(crate) fn for_each(&self, visit: &mut impl FnMut(&ObjectRecord)) {
        visit(self);
        self.children.iter().for_each(|child| child.for_each(visit));
    }

    /// Calls `visit` with every NUMA node inside.
    pub(crate) fn for_each_node(&mut self, visit: &mut impl FnMut(&mut NumaNode)) {
        self.numa_nodes.iter_mut().for_each(&mut *visit);
        self.children.iter_mut().for_each(|child| child.for_each_node(visit));
    }

    /// Calls `visit` with every PU inside.
    pub(crate) fn for_each_pu(&mut self, visit: &mut impl FnMut(CpuId, &mut ObjectRecord)) {
        if let (Kind::Pu, Some(number)) = (self.kind, self.os_index) {
            visit(CpuId(number), self);
        }
        for child in &mut self.children {
            child.for_each_pu(visit);
        }
    }

    /// Puts a module around an L2 that several cores share, as AMD's family 15h (Bulldozer to Excavator) pairs its cores
    /// around one FPU.
    pub(crate) fn with_module(self) -> Self {
        let mut cores = 0;
        self.for_each(&mut |object| cores += usize::from(object.kind == Kind::Core));
        if self.kind != Kind::Cache(2) || cores < 2 {
            return self;
        }
        Self { shared_units: vec!["FPU".into()], ..Self::new(Kind::Module, vec![self]) }
    }
}

/// Why a tree is not a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No PU anywhere.
    #[error("it has no CPU")]
    NoCpu,
    /// A PU without a kernel number, or with one beyond any kernel's limit.
    #[error("a PU has no valid CPU number")]
    BadCpuNumber,
    /// A core or a cache around neither a PU nor memory.
    #[error("a {0} holds neither CPU nor memory")]
    Empty(Kind),
    /// More PUs than any kernel knows.
    #[error("it has more than {MAX_CPUS} CPUs, and no kernel knows more")]
    TooManyCpus,
    /// Two PUs with one number.
    #[error("CPU {0} appears twice")]
    TwiceCpu(CpuId),
    /// A PU with something inside, the machine inside something, or a root that is not the machine.
    #[error("a {0} stands where none can be")]
    Misplaced(Kind),
    /// Two kinds each around the other.
    #[error("objects of one kind lie inside each other in both orders")]
    Cyclic,
    /// Deeper than any machine.
    #[error("it is more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// A distance matrix that does not fit the NUMA nodes.
    #[error("its distance matrix does not have one row and column for each of its {0} NUMA nodes")]
    BadDistances(usize),
}

impl Serialize for Machine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        MachineRecord::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Machine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        MachineRecord::deserialize(deserializer)?.try_into().map_err(D::Error::custom)
    }
}

impl TryFrom<MachineRecord> for Machine {
    type Error = RecordError;

    fn try_from(record: MachineRecord) -> Result<Self, RecordError> {
        if record.tree.kind != Kind::Machine {
            return Err(RecordError::Misplaced(record.tree.kind));
        }
        let mut machine = Self {
            name: record.name,
            source: record.source,
            cpu_model: record.cpu_model,
            objects: Vec::new(),
            pus: Vec::new(),
            index_of: BTreeMap::new(),
            offline: record.offline_cpus,
            hidden: record.hidden_cpus,
            numa_nodes: Vec::new(),
            numa_distances: record.numa_distances,
            core_kinds: record.core_kinds,
        };
        let mut counts = BTreeMap::new();
        flatten(&mut machine, &mut counts, record.tree, None, 0)?;
        if machine.pus.is_empty() {
            return Err(RecordError::NoCpu);
        }
        let nodes = machine.numa_nodes.len();
        if let Some(rows) = &machine.numa_distances
            && (rows.len() != nodes || rows.iter().any(|row| row.len() != nodes))
        {
            return Err(RecordError::BadDistances(nodes));
        }
        rank_kinds(&mut machine)?;
        set_levels(&mut machine);
        Ok(machine)
    }
}

/// Appends `record` and all inside it to the machine, depth first.
fn flatten(
    machine: &mut Machine,
    counts: &mut BTreeMap<Kind, u32>,
    record: ObjectRecord,
    parent: Option<ObjectIndex>,
    depth: usize,
) -> Result<(), RecordError> {
    if depth > MAX_DEPTH {
        return Err(RecordError::TooDeep);
    }
    let is_pu = record.kind == Kind::Pu;
    if (is_pu && !record.children.is_empty()) || (record.kind == Kind::Machine && parent.is_some()) {
        return Err(RecordError::Misplaced(record.kind));
    }
    let index = ObjectIndex(machine.objects.len() as u32);
    let logical_index = counts.entry(record.kind).or_default();
    let first_pu = machine.pus.len() as u32;
    let first_node = machine.numa_nodes.len() as u32;
    machine.numa_nodes.extend(record.numa_nodes);
    machine.objects.push(Object {
        kind: record.kind,
        level: Level::Pu,
        os_index: record.os_index,
        logical_index: LogicalIndex(*logical_index),
        parent,
        children: Vec::new(),
        cache: record.cache,
        shared_units: record.shared_units,
        numa_nodes: (first_node..machine.numa_nodes.len() as u32).map(NumaIndex).collect(),
        missing_cpus: record.missing_cpus,
        rank: 0,
        pus: first_pu..first_pu,
    });
    *logical_index += 1;
    if is_pu {
        let number = record.os_index.filter(|&n| n <= MAX_CPU_ID);
        let cpu = CpuId(number.ok_or(RecordError::BadCpuNumber)?);
        if machine.index_of.insert(cpu, PuIndex(first_pu)).is_some() {
            return Err(RecordError::TwiceCpu(cpu));
        }
        if machine.pus.len() == MAX_CPUS {
            return Err(RecordError::TooManyCpus);
        }
        machine.pus.push(Pu { cpu, object: index, forbidden: record.forbidden_by });
    }
    for child in record.children {
        flatten(machine, counts, child, Some(index), depth + 1)?;
    }
    let end = machine.pus.len() as u32;
    let kind = machine.objects[index.at()].kind;
    let has_memory = first_node < machine.numa_nodes.len() as u32;
    // Packages and groups outlive their last CPU, and whatever has memory.
    if first_pu == end && !has_memory && matches!(kind, Kind::Core | Kind::Cache(_) | Kind::InstructionCache(_)) {
        return Err(RecordError::Empty(kind));
    }
    machine.objects[index.at()].pus = first_pu..end;
    if let Some(parent) = parent {
        machine.objects[parent.at()].children.push(index);
    }
    Ok(())
}

/// A kind of object, and for groups how many groups deep they are nested below, which makes them kinds of their own.
type Row = (Kind, u32);

/// Gives every object the rank of its kind, from the PUs (0) outwards: kinds that lie inside others anywhere come before
/// them, and kinds that never meet stand in their usual order.
fn rank_kinds(machine: &mut Machine) -> Result<(), RecordError> {
    let mut nesting = vec![0_u32; machine.objects.len()];
    for i in (1..machine.objects.len()).rev() {
        if let Some(parent) = machine.objects[i].parent {
            let is_group = machine.objects[i].kind == Kind::Group;
            nesting[parent.at()] = nesting[parent.at()].max(nesting[i] + u32::from(is_group));
        }
    }
    let rows: Vec<Row> = (machine.objects.iter().zip(nesting))
        .map(|(object, nesting)| (object.kind, if object.kind == Kind::Group { nesting } else { 0 }))
        .collect();
    let mut inside: BTreeMap<Row, BTreeSet<Row>> = rows.iter().map(|&row| (row, BTreeSet::new())).collect();
    for (object, &row) in machine.objects.iter().zip(&rows) {
        if let Some(parent) = object.parent {
            inside.entry(rows[parent.at()]).or_default().insert(row);
        }
    }
    let mut ranks: BTreeMap<Row, usize> = BTreeMap::new();
    while ranks.len() < inside.len() {
        let next = (inside.iter())
            .filter(|(row, inner)| !ranks.contains_key(row) && inner.iter().all(|row| ranks.contains_key(row)))
            .map(|(&row, _)| row)
            .min_by_key(|&(kind, nesting)| (usual_order(kind), nesting))
            .ok_or(RecordError::Cyclic)?;
        ranks.insert(next, ranks.len());
    }
    for (object, row) in machine.objects.iter_mut().zip(&rows) {
        object.rank = ranks[row];
    }
    Ok(())
}

/// Where a kind usually stands, from the PUs outwards.
fn usual_order(kind: Kind) -> u8 {
    match kind {
        Kind::Pu => 0,
        Kind::Core => 1,
        Kind::InstructionCache(level) => 4 * level,
        Kind::Cache(level) => 4 * level + 1,
        Kind::Module => 4 * 2 + 2,
        Kind::Group => 40,
        Kind::Die => 41,
        Kind::Package => 42,
        Kind::Machine => 43,
    }
}

/// Gives every object its class of closeness; never closer than that of anything inside it.
fn set_levels(machine: &mut Machine) {
    for i in (0..machine.objects.len()).rev() {
        let object = &machine.objects[i];
        let inside = (object.children.iter()).map(|&child| machine.object(child).level).max().unwrap_or(Level::Pu);
        let cores = (object.children.iter()).filter(|&&child| machine.object(child).level == Level::Core).count();
        let own = match object.kind {
            Kind::Pu => Level::Pu,
            Kind::Core => Level::Core,
            Kind::Cache(1) | Kind::InstructionCache(1) if cores <= 1 => Level::Core,
            Kind::Cache(1 | 2) | Kind::InstructionCache(1 | 2) | Kind::Module => Level::L2,
            Kind::Cache(_) | Kind::InstructionCache(_) => Level::L3,
            Kind::Group => {
                let within_l3 = (machine.ancestors(ObjectIndex(i as u32)))
                    .any(|outer| matches!(machine.object(outer).kind, Kind::Cache(3..)));
                let is_node = inside >= Level::L3 || !object.numa_nodes.is_empty();
                match inside {
                    Level::Package | Level::Group => Level::Group,
                    _ if is_node && !within_l3 => Level::Node,
                    _ => Level::L2,
                }
            }
            Kind::Die => Level::Node,
            Kind::Package => Level::Package,
            Kind::Machine => Level::Machine,
        };
        machine.objects[i].level = own.max(inside);
    }
}

impl From<Machine> for MachineRecord {
    fn from(machine: Machine) -> Self {
        let mut counts = BTreeMap::new();
        for object in &machine.objects[1..] {
            *counts.entry(object.kind.to_string()).or_default() += 1;
        }
        counts.insert("NUMA node".into(), machine.numa_nodes.len());
        Self {
            counts,
            usable_cpus: machine.usable_cpus(),
            tree: nest(&machine, ObjectIndex::MACHINE),
            name: machine.name,
            source: machine.source,
            cpu_model: machine.cpu_model,
            offline_cpus: machine.offline,
            hidden_cpus: machine.hidden,
            core_kinds: machine.core_kinds,
            numa_distances: machine.numa_distances,
        }
    }
}

fn nest(machine: &Machine, index: ObjectIndex) -> ObjectRecord {
    let object = machine.object(index);
    ObjectRecord {
        kind: object.kind,
        os_index: object.os_index,
        cache: object.cache,
        shared_units: object.shared_units.clone(),
        numa_nodes: (object.numa_nodes.iter()).map(|&node| machine.numa_nodes[node.at()].clone()).collect(),
        forbidden_by: match object.kind {
            Kind::Pu => machine.pus_of(index)[0].forbidden.clone(),
            _ => None,
        },
        missing_cpus: object.missing_cpus.clone(),
        children: (object.children.iter()).map(|&child| nest(machine, child)).collect(),
    }
}
