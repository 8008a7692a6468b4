//! The machines of the papers, as data: `machines/*.toml`.
//!
//! Each is an hwloc synthetic string, for the tree, and beside it what such a string can't say.

use crate::hwloc;
use crate::record::{MachineRecord, ObjectRecord};
use crate::source::MachineError;
use crate::tree::{Cache, Kind, Source};
use crate::xml;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

const PRESETS: [(&str, &str); 6] = [
    ("xeon-e5620", include_str!("../../../machines/xeon-e5620.toml")),
    ("opteron-6272", include_str!("../../../machines/opteron-6272.toml")),
    ("xeon-e5405", include_str!("../../../machines/xeon-e5405.toml")),
    ("sgi-4d340", include_str!("../../../machines/sgi-4d340.toml")),
    ("sequent-symmetry", include_str!("../../../machines/sequent-symmetry.toml")),
    ("epyc-7763", include_str!("../../../machines/epyc-7763.toml")),
];

/// The names of all presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|&(name, _)| name)
}

/// A preset's file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Preset {
    /// What the maker calls the CPU.
    cpu_model: String,
    /// The tree, as an hwloc synthetic string.
    synthetic: String,
    /// Whether cores that share an L2 form a module with one FPU.
    #[serde(default)]
    modules: bool,
    /// Memory of each NUMA node in bytes, where stated.
    numa_node_bytes: Option<NonZeroU64>,
    /// By kind of cache, what the synthetic string can't say.
    #[serde(default)]
    caches: BTreeMap<Kind, Cache>,
}

pub(crate) fn read(name: &str) -> Result<MachineRecord, MachineError> {
    let (_, text) = (PRESETS.iter())
        .find(|(preset, _)| *preset == name)
        .ok_or_else(|| MachineError::Unknown { text: name.into() })?;
    let preset: Preset =
        toml::from_str(text).map_err(|e| MachineError::Synthetic { description: name.into(), cause: e.to_string() })?;
    let mut record = hwloc::synthetic(&preset.synthetic)?;
    record.name = name.into();
    record.source = Source::Preset(name.into());
    record.cpu_model = Some(preset.cpu_model.clone());
    record.tree = annotate(record.tree, &preset);
    Ok(record)
}

/// Adds the preset's facts, and takes away the sizes that hwloc makes up where a synthetic string is silent.
fn annotate(mut object: ObjectRecord, preset: &Preset) -> ObjectRecord {
    for node in &mut object.numa_nodes {
        node.memory_bytes = preset.numa_node_bytes;
    }
    if let Some(cache) = &mut object.cache {
        let stated = preset.caches.get(&object.kind).copied().unwrap_or_default();
        *cache = stated;
    }
    object.children = (object.children.into_iter()).map(|child| annotate(child, preset)).collect();
    if preset.modules { xml::with_module(object) } else { object }
}
