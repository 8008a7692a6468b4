//! The machines of the papers, as data: `machines/*.toml`.
//!
//! Each is an hwloc synthetic string, for the tree, and beside it what such a string can't say.

use crate::record::{MachineRecord, ObjectRecord};
use crate::tree::{Cache, Kind, Source};
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
pub(crate) struct Preset {
    /// What the maker calls the CPU.
    cpu_model: String,
    /// The tree, as an hwloc synthetic string.
    pub synthetic: String,
    /// Whether cores that share an L2 form a module with one FPU.
    #[serde(default)]
    modules: bool,
    /// Memory of each NUMA node in bytes, where stated.
    numa_node_bytes: Option<NonZeroU64>,
    /// By kind of cache, what the synthetic string can't say.
    #[serde(default)]
    caches: BTreeMap<Kind, Cache>,
}

/// The preset of that name.
pub(crate) fn named(name: &str) -> Option<Preset> {
    let (_, text) = PRESETS.iter().find(|(preset, _)| *preset == name)?;
    Some(toml::from_str(text).expect("a test reads every preset"))
}

impl Preset {
    /// The machine of its synthetic string with all that such a string can't say.
    pub(crate) fn completed(&self, name: &str, record: MachineRecord) -> MachineRecord {
        MachineRecord {
            name: name.into(),
            source: Source::Preset(name.into()),
            cpu_model: Some(self.cpu_model.clone()),
            tree: self.annotated(record.tree),
            ..record
        }
    }

    /// Adds the preset's facts, and takes away the sizes that hwloc makes up where a synthetic string is silent.
    fn annotated(&self, mut object: ObjectRecord) -> ObjectRecord {
        for node in &mut object.numa_nodes {
            node.memory_bytes = self.numa_node_bytes;
        }
        if let Some(cache) = &mut object.cache {
            *cache = self.caches.get(&object.kind).copied().unwrap_or_default();
        }
        object.children = object.children.into_iter().map(|child| self.annotated(child)).collect();
        if self.modules { object.with_module() } else { object }
    }
}
