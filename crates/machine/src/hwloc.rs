//! Machines that hwloc reads: this host, and synthetic strings.

use crate::cpu::{CpuId, CpuSet, MAX_CPU_ID};
use crate::host;
use crate::record::{MachineRecord, ObjectRecord};
use crate::source::MachineError;
use crate::tree::{Associativity, Cache, CoreKind, ForbiddenBy, Kind, NumaNode, Source};
use hwlocality::Topology;
use hwlocality::cpu::cpuset::CpuSet as HwlocCpuSet;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::{CacheAssociativity, ObjectAttributes};
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder, TypeFilter};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::ops::Deref;

/// Machines with more PUs or NUMA nodes than this are taken for typing errors; hwloc would take minutes and gigabytes.
const MAX_PUS: u64 = 16_384;

/// Reads this host: all online CPUs, those that we may not use marked with the reason.
pub(crate) fn host() -> Result<MachineRecord, MachineError> {
    let failed = |cause: String| MachineError::Host { cause };
    // The x86 backend would bind this thread to every CPU in turn, to learn what Linux has said already.
    let topology = Topology::builder()
        .without_component("x86")
        .map_err(|e| failed(e.to_string()))
        .and_then(|builder| load(builder).map_err(failed))?;
    if !topology.is_this_system() {
        return Err(failed(
            "the environment (HWLOC_XMLFILE or HWLOC_SYNTHETIC) makes hwloc describe another machine; unset it, or \
             name that machine"
                .into(),
        ));
    }
    let mut record = record(&topology, "host".into(), Source::Host)?;
    record.offline_cpus = host::offline_cpus();
    let allowed = host::allowed_cpus().map_err(|e| failed(format!("sched_getaffinity: {e}")))?;
    let mut cpuset = None;
    for_each_pu(&mut record.tree, &mut |cpu, pu| {
        pu.forbidden_by = (!allowed.contains(cpu)).then(|| {
            let cpuset = cpuset.get_or_insert_with(host::cpuset);
            host::forbidden_by(cpu, cpuset.as_ref())
        });
    });
    Ok(record)
}

/// Builds the machine that an hwloc synthetic string describes.
pub(crate) fn synthetic(description: &str) -> Result<MachineRecord, MachineError> {
    let failed = |cause: &str| MachineError::Synthetic { description: description.into(), cause: cause.into() };
    if !description.is_ascii() || description.contains('\0') {
        return Err(failed("it holds characters other than plain ASCII"));
    }
    if size(description) > MAX_PUS {
        return Err(failed("it describes more than 16,384 CPUs"));
    }
    let topology = Topology::builder()
        .from_synthetic(description)
        .map_err(|_| failed("write levels from the outside in, each as type:count, the last one pu"))
        .and_then(|builder| load(builder).map_err(|cause| failed(&cause)))?;
    record(&topology, description.into(), Source::Synthetic(description.into()))
}

/// How many objects the innermost level of a synthetic string has, were it valid: the product of its counts, which stand
/// alone or after a type and a colon, outside of parentheses.
fn size(description: &str) -> u64 {
    let mut depth = 0_u32;
    let outside: String = (description.chars())
        .map(|c| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ if depth == 0 => return c,
                _ => {}
            }
            ' '
        })
        .collect();
    (outside.split(|c: char| c.is_ascii_whitespace() || "[]".contains(c)))
        .map(|level| level.rsplit(':').next().unwrap_or(level))
        .filter(|count| count.starts_with(|c: char| c.is_ascii_digit()))
        .map(|count| {
            let digits = count.bytes().take_while(u8::is_ascii_digit);
            digits.fold(0_u64, |n, digit| n.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
        })
        .fold(1, |product, count| product.saturating_mul(count.max(1)))
}

fn load(builder: TopologyBuilder) -> Result<Topology, String> {
    builder
        .with_flags(BuildFlags::INCLUDE_DISALLOWED)
        .map_err(|e| e.to_string())?
        .with_cpu_icache_type_filter(TypeFilter::KeepAll)
        .map_err(|e| e.to_string())?
        .build()
        .map_err(|e| e.to_string())
}

fn record(topology: &Topology, name: String, source: Source) -> Result<MachineRecord, MachineError> {
    let root = topology.root_object();
    let mut tree = object(root, false).ok_or_else(|| MachineError::NoCpus { name: name.clone() })?;
    let allowed = cpu_set(topology.allowed_cpuset());
    for_each_pu(&mut tree, &mut |cpu, pu| {
        pu.forbidden_by = (!allowed.contains(cpu)).then_some(ForbiddenBy::Description);
    });
    let cpu_model = std::iter::once(root)
        .chain(topology.objects_with_type(ObjectType::Package))
        .find_map(|object| info(object, "CPUModel"));
    let kinds = topology.cpu_kinds().into_iter().flatten().map(|kind| {
        let core_type = (kind.infos.iter()).find(|info| text(info.name()) == "CoreType").map(|info| text(info.value()));
        RawCoreKind {
            cpus: cpu_set(&kind.cpuset),
            efficiency: kind.efficiency.and_then(|rank| rank.try_into().ok()),
            core_type,
        }
    });
    Ok(MachineRecord {
        name,
        source,
        cpu_model,
        counts: BTreeMap::new(),
        usable_cpus: CpuSet::new(),
        offline_cpus: CpuSet::new(),
        core_kinds: core_kinds(kinds.collect()),
        numa_distances: numa_distances(topology, &tree),
        tree,
    })
}

/// Calls `visit` with every PU.
pub(crate) fn for_each_pu(object: &mut ObjectRecord, visit: &mut impl FnMut(CpuId, &mut ObjectRecord)) {
    if let (Kind::Pu, Some(number)) = (object.kind, object.os_index) {
        visit(CpuId(number), object);
    }
    for child in &mut object.children {
        for_each_pu(child, visit);
    }
}

/// The object and all inside it; none when it holds no PU.
fn object(hwloc: &TopologyObject, in_family_15h: bool) -> Option<ObjectRecord> {
    let kind = kind(hwloc.object_type())?;
    let in_family_15h = in_family_15h
        || (info(hwloc, "CPUVendor").as_deref() == Some("AuthenticAMD")
            && info(hwloc, "CPUFamilyNumber").as_deref() == Some("21"));
    let children: Vec<_> = hwloc.normal_children().filter_map(|child| object(child, in_family_15h)).collect();
    if children.is_empty() && kind != Kind::Pu {
        return None;
    }
    let mut record = ObjectRecord::new(kind, children);
    if matches!(kind, Kind::Package | Kind::Die | Kind::Core | Kind::Pu) {
        record.os_index = hwloc.os_index().and_then(|index| index.try_into().ok());
    }
    record.cache = match hwloc.attributes() {
        Some(ObjectAttributes::Cache(cache)) => Some(Cache {
            size_bytes: cache.size(),
            line_bytes: (cache.line_size()).and_then(|bytes| (bytes.get() as u64).try_into().ok()),
            associativity: match cache.associativity() {
                CacheAssociativity::Unknown => None,
                CacheAssociativity::Full => Some(Associativity::Full),
                CacheAssociativity::Ways(ways) => (ways.get().try_into().ok()).map(Associativity::Ways),
            },
        }),
        _ => None,
    };
    record.numa_nodes = numa_nodes(hwloc);
    Some(if in_family_15h { with_module(record) } else { record })
}

/// Puts a module around an L2 that several cores share, as AMD's family 15h (Bulldozer to Excavator) pairs its cores
/// around one FPU.
pub(crate) fn with_module(l2: ObjectRecord) -> ObjectRecord {
    if l2.kind != Kind::Cache(2) || cores_within(&l2) < 2 {
        return l2;
    }
    let mut module = ObjectRecord::new(Kind::Module, vec![l2]);
    module.shared_units = vec!["FPU".into()];
    module
}

fn cores_within(object: &ObjectRecord) -> usize {
    match object.kind {
        Kind::Core => 1,
        _ => object.children.iter().map(cores_within).sum(),
    }
}

/// The NUMA nodes directly at an object, behind memory-side caches too.
fn numa_nodes(hwloc: &TopologyObject) -> Vec<NumaNode> {
    (hwloc.memory_children())
        .flat_map(|memory| match memory.attributes() {
            Some(ObjectAttributes::NUMANode(node)) => {
                let os_index = memory.os_index().and_then(|index| index.try_into().ok());
                (os_index.into_iter())
                    .map(|os_index| NumaNode { os_index, memory_bytes: node.local_memory() })
                    .collect()
            }
            _ => numa_nodes(memory),
        })
        .collect()
}

/// The latencies that the firmware states, in the order in which the tree names the nodes.
fn numa_distances(topology: &Topology, tree: &ObjectRecord) -> Option<Vec<Vec<u32>>> {
    let matrices = (topology.distances_with_type(None, ObjectType::NUMANode)).ok()?;
    let matrix = (matrices.iter()).find(|m| m.name().is_some_and(|n| text(n) == "NUMALatency"))?;
    let nodes: Vec<u32> = (matrix.objects()).map(|node| node?.os_index()?.try_into().ok()).collect::<Option<_>>()?;
    let values: Vec<u64> = matrix.distances().to_vec();
    reorder_distances(&nodes, &values, tree)
}

/// Distances given row by row for the nodes with these kernel numbers, as rows in the order of the tree.
pub(crate) fn reorder_distances(nodes: &[u32], values: &[u64], tree: &ObjectRecord) -> Option<Vec<Vec<u32>>> {
    fn collect(object: &ObjectRecord, into: &mut Vec<u32>) {
        into.extend(object.numa_nodes.iter().map(|node| node.os_index));
        for child in &object.children {
            collect(child, into);
        }
    }
    let mut in_tree = Vec::new();
    collect(tree, &mut in_tree);
    let places: Vec<usize> =
        (in_tree.iter()).map(|node| nodes.iter().position(|other| other == node)).collect::<Option<_>>()?;
    (places.iter())
        .map(|from| (places.iter()).map(|to| u32::try_from(*values.get(from * nodes.len() + to)?).ok()).collect())
        .collect()
}

/// A kind of core as hwloc tells it.
pub(crate) struct RawCoreKind {
    pub(crate) cpus: CpuSet,
    /// 0 is the weakest.
    pub(crate) efficiency: Option<u32>,
    /// `IntelCore` or `IntelAtom` on hybrid Intel processors.
    pub(crate) core_type: Option<String>,
}

/// Names the kinds of core, given from the weakest. A single kind says nothing and is dropped.
///
/// Only Intel's own names make a P or an E: kinds that differ in clock alone are not that.
pub(crate) fn core_kinds(raw: Vec<RawCoreKind>) -> Vec<CoreKind> {
    if raw.len() < 2 {
        return Vec::new();
    }
    let is = |kind: &RawCoreKind, name| kind.core_type.as_deref() == Some(name);
    let atoms = raw.iter().filter(|kind| is(kind, "IntelAtom")).count();
    let mut seen_atoms = 0;
    let name = |(i, kind): (usize, &RawCoreKind)| {
        if is(kind, "IntelCore") {
            "P".into()
        } else if is(kind, "IntelAtom") {
            seen_atoms += 1;
            match (atoms, seen_atoms) {
                (1, _) | (2, 2) => "E".into(),
                (2, _) => "LP-E".into(),
                _ => format!("E{}", seen_atoms - 1),
            }
        } else {
            format!("kind {i}")
        }
    };
    let names: Vec<String> = raw.iter().enumerate().map(name).collect();
    (raw.into_iter().zip(names))
        .map(|(kind, name)| CoreKind { name, efficiency: kind.efficiency, cpus: kind.cpus })
        .collect()
}

fn kind(hwloc: ObjectType) -> Option<Kind> {
    Some(match hwloc {
        ObjectType::Machine => Kind::Machine,
        ObjectType::Package => Kind::Package,
        ObjectType::Die => Kind::Die,
        ObjectType::Group => Kind::Group,
        ObjectType::L1Cache => Kind::Cache(1),
        ObjectType::L2Cache => Kind::Cache(2),
        ObjectType::L3Cache => Kind::Cache(3),
        ObjectType::L4Cache => Kind::Cache(4),
        ObjectType::L5Cache => Kind::Cache(5),
        ObjectType::L1ICache => Kind::InstructionCache(1),
        ObjectType::L2ICache => Kind::InstructionCache(2),
        ObjectType::L3ICache => Kind::InstructionCache(3),
        ObjectType::Core => Kind::Core,
        ObjectType::PU => Kind::Pu,
        _ => return None,
    })
}

fn cpu_set(hwloc: impl Deref<Target = HwlocCpuSet>) -> CpuSet {
    // hwloc's sets may be infinite.
    (hwloc.iter_set())
        .map(|index| usize::from(index) as u32)
        .take_while(|&number| number <= MAX_CPU_ID)
        .map(CpuId)
        .collect()
}

fn info(object: &TopologyObject, key: &str) -> Option<String> {
    object.info(key).map(text).filter(|text| !text.is_empty())
}

fn text(c: &CStr) -> String {
    c.to_string_lossy().trim().to_owned()
}
