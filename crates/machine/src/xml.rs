//! hwloc's XML format, version 2: reading any, writing our machines.
//!
//! hwloc's own reader trusts its input (an odd file trips its assertions, which end the process), so files are read here,
//! where each flaw has a sentence. What is written (`write.rs`) holds the tree and nothing that identifies a computer.

mod write;

use crate::cpu::{CpuId, CpuSet, MAX_CPU_ID, quoted};
use crate::error::MachineError;
use crate::record::{MachineRecord, ObjectRecord};
use crate::tree::{Associativity, Cache, CoreKind, ForbiddenBy, Kind, NumaNode, Source};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// No machine's file is larger; the largest known have a few megabytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// More kinds of core are not believed; there are three.
const MAX_CORE_KINDS: usize = 64;

/// Attributes of an element; hwloc writes about twenty, and the XML reader compares each with each.
const MAX_ATTRIBUTES: usize = 500;

/// What a set begins with that has every number from some on.
const ENDLESS: &str = "0xf...f";

/// The subtype of the group that stands for a module in what we write.
const MODULE: &str = "Module";

pub(crate) fn read_file(path: &Path) -> Result<MachineRecord, MachineError> {
    let failed = |cause: String| MachineError::Xml { path: path.into(), cause };
    let bytes = fs::metadata(path).map_err(|e| failed(e.to_string()))?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(failed(format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20)));
    }
    let content = fs::read(path).map_err(|e| failed(e.to_string()))?;
    let mut record = parse(&content).map_err(failed)?;
    record.source = Source::Xml(path.into());
    record.name =
        path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    Ok(record)
}

/// The machine in the content of a file, or what is wrong with it. Its name and source are the caller's to set.
pub(crate) fn parse(content: &[u8]) -> Result<MachineRecord, String> {
    let text = str::from_utf8(content).map_err(|_| "it is not UTF-8 text".to_owned())?;
    if most_quotes(text) > 2 * MAX_ATTRIBUTES {
        return Err(format!("an element of it has more than {MAX_ATTRIBUTES} attributes"));
    }
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|e| format!("it is not XML ({e})"))?;
    let topology = document.root_element();
    if !topology.has_tag_name("topology") {
        return Err("it is XML, but not hwloc's: its root is not `topology`".into());
    }
    match topology.attribute("version") {
        Some(version) if version.starts_with("2.") => {}
        Some(version) => {
            return Err(format!(
                "it has version {version} of hwloc's XML format, and only version 2 is understood here; export it with \
                 hwloc 2, or with `lstopo --export-xml-flags v2` from a newer one"
            ));
        }
        None => {
            return Err(
                "it has version 1 of hwloc's XML format, and only version 2 is understood here; convert it with \
                 `lstopo -i FILE NEWFILE.xml` of hwloc 2"
                    .into(),
            );
        }
    }
    let root = (topology.children())
        .find(|node| node.has_tag_name("object"))
        .filter(|node| node.attribute("type") == Some("Machine"))
        .ok_or("no machine object is in it")?;
    let mut tree = object(root, false, 0)?.ok_or("no CPU is in it")?;
    let allowed = mask(root, "allowed_cpuset")?;
    let mut online = CpuSet::new();
    tree.for_each_pu(&mut |cpu, pu| {
        online.insert(cpu);
        if allowed.as_ref().is_some_and(|allowed| !allowed.contains(cpu)) {
            pu.forbidden_by = Some(ForbiddenBy::Description);
        }
    });
    if let Some(allowed) = mask(root, "allowed_nodeset")? {
        // Nodes are numbered as CPUs are, and their sets are written alike.
        tree.for_each_node(&mut |node| node.forbidden = !allowed.contains(CpuId(node.os_index)));
    }
    let missing = std::mem::take(&mut tree.missing_cpus);
    let missing: CpuSet = missing.iter().filter(|&cpu| !online.contains(cpu)).collect();
    // Where disallowed CPUs are in the tree, those that are not must be off; else nobody can tell.
    let shows_disallowed = allowed.is_some_and(|allowed| !online.is_subset(&allowed));
    let (offline_cpus, hidden_cpus) =
        if shows_disallowed { (missing, CpuSet::new()) } else { (CpuSet::new(), missing) };
    Ok(MachineRecord {
        name: String::new(),
        source: Source::Xml(Path::new("").into()),
        cpu_model: (topology.descendants())
            .find_map(|node| info(node, "CPUModel"))
            .map(|model| model.trim().to_owned()),
        counts: BTreeMap::new(),
        usable_cpus: CpuSet::new(),
        offline_cpus,
        hidden_cpus,
        core_kinds: core_kinds(topology)?,
        numa_distances: distances(topology, &tree),
        tree,
    })
}

/// The most quotation marks of any tag, or of text between tags.
fn most_quotes(text: &str) -> usize {
    text.split('<').map(|part| part.bytes().filter(|byte| matches!(byte, b'"' | b'\'')).count()).max().unwrap_or(0)
}

/// The object and all inside it; none when it is no part of the tree (memory, I/O). Packages without a PU and objects that hold
/// memory alone are part of it.
fn object(node: Node, in_family_15h: bool, depth: usize) -> Result<Option<ObjectRecord>, String> {
    if depth > 64 {
        return Err("its objects are nested more than 64 deep".into());
    }
    let name = node.attribute("type").ok_or("an object has no type")?;
    let Some(&(_, kind)) = HWLOC_NAMES.iter().find(|(hwloc, _)| *hwloc == name) else {
        return Ok(None);
    };
    let is_module = kind == Kind::Group && node.attribute("subtype") == Some(MODULE);
    let kind = if is_module { Kind::Module } else { kind };
    let in_family_15h = in_family_15h
        || (info(node, "CPUVendor") == Some("AuthenticAMD") && info(node, "CPUFamilyNumber") == Some("21"));
    let mut record = ObjectRecord::new(kind, Vec::new());
    for child in node.children().filter(|child| child.has_tag_name("object")) {
        record.children.extend(object(child, in_family_15h, depth + 1)?);
        memory(child, &mut record.numa_nodes, depth)?;
    }
    let may_be_empty = matches!(kind, Kind::Pu | Kind::Package | Kind::Die | Kind::Group | Kind::Module);
    if record.children.is_empty() && record.numa_nodes.is_empty() && !may_be_empty {
        return Ok(None);
    }
    if let (Some(own), Some(complete)) = (node.attribute("cpuset"), node.attribute("complete_cpuset"))
        && own != complete
        && !complete.starts_with(ENDLESS)
        // What has every CPU lacks none.
        && !own.starts_with(ENDLESS)
    {
        let (own, complete) = (mask(node, "cpuset")?, mask(node, "complete_cpuset")?);
        record.missing_cpus = complete.unwrap_or_default().difference(&own.unwrap_or_default());
    }
    if matches!(kind, Kind::Package | Kind::Die | Kind::Core | Kind::Pu) {
        record.os_index = number(node, "os_index")?;
    }
    if matches!(kind, Kind::Cache(_) | Kind::InstructionCache(_)) {
        record.cache = Some(Cache {
            size_bytes: number::<u64>(node, "cache_size")?.and_then(|n| n.try_into().ok()),
            line_bytes: number::<u64>(node, "cache_linesize")?.and_then(|n| n.try_into().ok()),
            associativity: match number::<i32>(node, "cache_associativity")? {
                Some(-1) => Some(Associativity::Full),
                Some(ways) => u32::try_from(ways).ok().filter(|&ways| ways > 0).map(Associativity::Ways),
                None => None,
            },
        });
    }
    if is_module {
        record.shared_units = vec!["FPU".into()];
    }
    Ok(Some(if in_family_15h { record.with_module() } else { record }))
}

/// Collects the NUMA nodes in a memory object; they may sit behind memory-side caches.
fn memory(node: Node, into: &mut Vec<NumaNode>, depth: usize) -> Result<(), String> {
    match node.attribute("type") {
        Some("NUMANode") => into.push(NumaNode {
            os_index: number(node, "os_index")?.ok_or("a NUMA node has no os_index")?,
            memory_bytes: number::<u64>(node, "local_memory")?.and_then(|n| n.try_into().ok()),
            forbidden: false,
        }),
        Some("MemCache") if depth < 64 => {
            for child in node.children().filter(|child| child.has_tag_name("object")) {
                memory(child, into, depth + 1)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// The distances between NUMA nodes, as rows in the order of the tree.
fn distances(topology: Node, tree: &ObjectRecord) -> Option<Vec<Vec<u32>>> {
    let matrix = topology.children().find(|node| {
        node.has_tag_name("distances2")
            && node.attribute("type") == Some("NUMANode")
            && node.attribute("name").is_none_or(|name| name == "NUMALatency")
            && node.attribute("indexing") == Some("os")
            && node.attribute("nbobjs") != Some("0")
    })?;
    let nodes: Vec<u32> = numbers(matrix, "indexes")?;
    let values: Vec<u64> = numbers(matrix, "u64values")?;
    // Given row by row in an order of its own, told in that of the tree.
    let mut place_of: HashMap<u32, usize> = HashMap::new();
    for (place, &node) in nodes.iter().enumerate() {
        place_of.entry(node).or_insert(place);
    }
    let mut places = Vec::new();
    tree.for_each(&mut |object| {
        places.extend(object.numa_nodes.iter().map(|node| place_of.get(&node.os_index).copied()));
    });
    let places: Vec<usize> = places.into_iter().collect::<Option<_>>()?;
    (places.iter())
        .map(|from| (places.iter()).map(|to| u32::try_from(*values.get(from * nodes.len() + to)?).ok()).collect())
        .collect()
}

/// The numbers in all children of this name; hwloc splits long lists.
fn numbers<T: FromStr>(node: Node, name: &str) -> Option<Vec<T>> {
    (node.children())
        .filter(|child| child.has_tag_name(name))
        .flat_map(|child| child.text().unwrap_or_default().split_whitespace())
        .map(|number| number.parse().ok())
        .collect()
}

/// The makers' words for kinds of core, and ours. Where two kinds are `IntelAtom`, the weaker one is called LP-E.
const CORE_TYPES: [(&str, &str); 5] = [
    ("IntelCore", "P"),
    ("IntelAtom", "E"),
    ("IntelLowPower", "LP-E"),
    ("AMDPerformance", "P"),
    ("AMDEfficiency", "E"),
];

/// The kinds of core from the weakest. A single kind says nothing and is dropped.
///
/// Only the makers' own names make a P or an E: kinds that differ in clock alone are not that.
fn core_kinds(topology: Node) -> Result<Vec<CoreKind>, String> {
    let kinds: Vec<Node> = topology.children().filter(|node| node.has_tag_name("cpukind")).collect();
    let word = |kind: Node| {
        let core_type = info(kind, "CoreType")?;
        CORE_TYPES.iter().find(|(maker, _)| *maker == core_type).map(|&(_, ours)| ours)
    };
    if kinds.len() > MAX_CORE_KINDS {
        return Err(format!("it has more than {MAX_CORE_KINDS} kinds of core"));
    }
    let words: Vec<Option<&str>> = kinds.iter().map(|&kind| word(kind)).collect();
    let times = |word: &str, upto: usize| words[..upto].iter().filter(|other| **other == Some(word)).count();
    let named = kinds.iter().zip(&words).enumerate().map(|(i, (&kind, word))| {
        let name = match word {
            None => format!("kind {i}"),
            Some(word) => match (*word, times(word, words.len()), times(word, i)) {
                (word, 1, _) | (word @ "E", 2, 1) => word.into(),
                ("E", 2, _) if times("LP-E", words.len()) == 0 => "LP-E".into(),
                (word, _, nth) => format!("{word}{nth}"),
            },
        };
        let cpus = mask(kind, "cpuset")?.unwrap_or_default();
        let core_type = info(kind, "CoreType").map(str::to_owned);
        Ok(CoreKind { name, core_type, efficiency: number(kind, "forced_efficiency")?, cpus })
    });
    let named = named.collect::<Result<Vec<_>, String>>()?;
    Ok(if named.len() > 1 { named } else { Vec::new() })
}

fn info<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    (node.children())
        .find(|child| child.has_tag_name("info") && child.attribute("name") == Some(name))
        .and_then(|info| info.attribute("value"))
}

fn number<T: FromStr>(node: Node, name: &str) -> Result<Option<T>, String> {
    (node.attribute(name))
        .map(|text| {
            let fits = text.parse();
            fits.map_err(|_| format!("`{}` is no valid {name}", quoted(text)))
        })
        .transpose()
}

/// A set in hwloc's notation: 32-bit words in hexadecimal, the highest first, all bits above set when it starts with `0xf...f`.
fn mask(node: Node, name: &str) -> Result<Option<CpuSet>, String> {
    let Some(text) = node.attribute(name) else {
        return Ok(None);
    };
    let bad = || format!("`{}` is no valid {name}", quoted(text));
    let (endless, finite) = match text.strip_prefix(ENDLESS) {
        Some(rest) => (true, rest.trim_start_matches(',')),
        None => (false, text),
    };
    let bad_number = || format!("`{}` in {name} is beyond CPU {MAX_CPU_ID}", quoted(text));
    let mut cpus = CpuSet::new();
    let mut next = 0_u32;
    for word in finite.rsplit(',').filter(|_| !finite.is_empty()) {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        let bits = match digits {
            "" => 0,
            _ => u32::from_str_radix(digits, 16).map_err(|_| bad())?,
        };
        if next > MAX_CPU_ID {
            return Err(bad_number());
        }
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| CpuId(next + bit)));
        next += 32;
    }
    if endless {
        cpus.extend((next..=MAX_CPU_ID).map(CpuId));
    }
    Ok(Some(cpus))
}

/// What hwloc calls each kind of object.
const HWLOC_NAMES: [(&str, Kind); 14] = [
    ("Machine", Kind::Machine),
    ("Package", Kind::Package),
    ("Die", Kind::Die),
    ("Group", Kind::Group),
    ("L1Cache", Kind::Cache(1)),
    ("L2Cache", Kind::Cache(2)),
    ("L3Cache", Kind::Cache(3)),
    ("L4Cache", Kind::Cache(4)),
    ("L5Cache", Kind::Cache(5)),
    ("L1iCache", Kind::InstructionCache(1)),
    ("L2iCache", Kind::InstructionCache(2)),
    ("L3iCache", Kind::InstructionCache(3)),
    ("Core", Kind::Core),
    ("PU", Kind::Pu),
];

/// What hwloc calls a kind of object; a module, which it doesn't know, and anything else are groups to it.
fn hwloc_name(kind: Kind) -> &'static str {
    HWLOC_NAMES.iter().find(|(_, known)| *known == kind).map_or("Group", |(name, _)| name)
}
