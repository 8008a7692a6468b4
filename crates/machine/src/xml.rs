//! hwloc's XML format, version 2: reading any, writing our machines.
//!
//! hwloc's own reader trusts its input (an odd file trips its assertions, which end the process), so files are read here,
//! where each flaw has a sentence. What is written holds the tree and nothing that identifies a computer.

use crate::cpu::{CpuId, CpuSet, MAX_CPU_ID};
use crate::error::MachineError;
use crate::record::{MachineRecord, ObjectRecord};
use crate::tree::{Associativity, Cache, CoreKind, ForbiddenBy, Kind, Machine, NumaNode, ObjectIndex, Source};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// No machine's file is larger; the largest known have a few megabytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

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
    let complete = mask(root, "complete_cpuset")?.unwrap_or_default();
    Ok(MachineRecord {
        name: String::new(),
        source: Source::Xml(Path::new("").into()),
        cpu_model: (topology.descendants())
            .find_map(|node| info(node, "CPUModel"))
            .map(|model| model.trim().to_owned()),
        counts: BTreeMap::new(),
        usable_cpus: CpuSet::new(),
        offline_cpus: complete.difference(&online),
        core_kinds: core_kinds(topology)?,
        numa_distances: distances(topology, &tree),
        tree,
    })
}

/// The object and all inside it; none when it is no part of the tree (memory, I/O) or holds no PU.
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
    if record.children.is_empty() && kind != Kind::Pu {
        return Ok(None);
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
    })?;
    let nodes: Vec<u32> = numbers(matrix, "indexes")?;
    let values: Vec<u64> = numbers(matrix, "u64values")?;
    // Given row by row in an order of its own, told in that of the tree.
    let mut places = Vec::new();
    tree.for_each(&mut |object| {
        places.extend(object.numa_nodes.iter().map(|node| nodes.iter().position(|&other| other == node.os_index)));
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

/// The kinds of core from the weakest. A single kind says nothing and is dropped.
///
/// Only Intel's own names make a P or an E: kinds that differ in clock alone are not that.
fn core_kinds(topology: Node) -> Result<Vec<CoreKind>, String> {
    let kinds: Vec<Node> = topology.children().filter(|node| node.has_tag_name("cpukind")).collect();
    let is_atom = |kind: Node| info(kind, "CoreType") == Some("IntelAtom");
    let atoms = kinds.iter().filter(|&&kind| is_atom(kind)).count();
    let mut seen_atoms = 0;
    let named = kinds.iter().enumerate().map(|(i, &kind)| {
        let name = if info(kind, "CoreType") == Some("IntelCore") {
            "P".into()
        } else if is_atom(kind) {
            seen_atoms += 1;
            match (atoms, seen_atoms) {
                (1, _) | (2, 2) => "E".into(),
                (2, _) => "LP-E".into(),
                _ => format!("E{}", seen_atoms - 1),
            }
        } else {
            format!("kind {i}")
        };
        let cpus = mask(kind, "cpuset")?.unwrap_or_default();
        Ok(CoreKind { name, efficiency: number(kind, "forced_efficiency")?, cpus })
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
            fits.map_err(|_| format!("`{text}` is no valid {name}"))
        })
        .transpose()
}

/// A set in hwloc's notation: 32-bit words in hexadecimal, the highest first, all bits above set when it starts with `0xf...f`.
fn mask(node: Node, name: &str) -> Result<Option<CpuSet>, String> {
    let Some(text) = node.attribute(name) else {
        return Ok(None);
    };
    let bad = || format!("`{text}` is no valid {name}");
    let (endless, finite) = match text.strip_prefix("0xf...f") {
        Some(rest) => (true, rest.trim_start_matches(',')),
        None => (false, text),
    };
    let mut cpus = CpuSet::new();
    let mut next = 0_u32;
    for word in finite.rsplit(',').filter(|_| !finite.is_empty()) {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        let bits = match digits {
            "" => 0,
            _ => u32::from_str_radix(digits, 16).map_err(|_| bad())?,
        };
        if next > MAX_CPU_ID {
            return Err(bad());
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

impl Machine {
    /// The machine in hwloc's XML format, version 2, which hwloc's tools read.
    ///
    /// Forbidden CPUs are in it as disallowed. A clustered-multithreading module becomes a group of subtype `Module`.
    pub fn to_xml(&self) -> String {
        let mut xml = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n",
        );
        let mut writer = Writer { machine: self, xml: &mut xml, gp_index: 0 };
        // Writing to a String cannot fail.
        let _ = writer.object(ObjectIndex::MACHINE, 1);
        let _ = writer.rest();
        xml.push_str("</topology>\n");
        xml
    }
}

struct Writer<'a> {
    machine: &'a Machine,
    xml: &'a mut String,
    gp_index: u32,
}

impl Writer<'_> {
    fn object(&mut self, index: ObjectIndex, depth: usize) -> std::fmt::Result {
        let object = self.machine.object(index);
        let cpus = self.machine.cpus_of(index);
        self.start(hwloc_name(object.kind), depth)?;
        let root = index == ObjectIndex::MACHINE;
        if let Some(os_index) = object.os_index.or(root.then_some(0)) {
            write!(self.xml, " os_index=\"{os_index}\"")?;
        }
        let nodes = self.nodes_near(index);
        self.sets(&cpus, &nodes, root)?;
        if root {
            let usable = self.machine.usable_cpus();
            write!(
                self.xml,
                " allowed_cpuset=\"{}\" allowed_nodeset=\"{}\"",
                hex(usable.iter().map(|cpu| cpu.0)),
                hex(nodes.iter().copied())
            )?;
        }
        if let (Kind::Cache(level) | Kind::InstructionCache(level), Some(cache)) = (object.kind, object.cache) {
            let cache_type = match object.kind {
                Kind::InstructionCache(_) => 2,
                Kind::Cache(1) => 1,
                _ => 0,
            };
            write!(
                self.xml,
                " cache_size=\"{}\" depth=\"{level}\" cache_linesize=\"{}\" cache_associativity=\"{}\" cache_type=\"{cache_type}\"",
                cache.size_bytes.map_or(0, |n| n.get()),
                cache.line_bytes.map_or(0, |n| n.get()),
                match cache.associativity {
                    None => 0,
                    Some(Associativity::Full) => -1,
                    Some(Associativity::Ways(ways)) => i64::from(ways),
                }
            )?;
        }
        if matches!(object.kind, Kind::Group | Kind::Module) {
            // Kind 0 with `dont_merge` keeps a group that covers the same CPUs as its neighbour.
            write!(self.xml, " depth=\"0\" kind=\"0\" subkind=\"0\" dont_merge=\"1\"")?;
            if object.kind == Kind::Module {
                write!(self.xml, " subtype=\"{MODULE}\"")?;
            }
        }
        let empty = object.children.is_empty() && object.numa_nodes.is_empty();
        if empty {
            return self.xml.write_str("/>\n");
        }
        self.xml.write_str(">\n")?;
        let model = self.machine.cpu_model().filter(|_| root);
        if let Some(model) = model {
            let pad = "  ".repeat(depth + 1);
            writeln!(self.xml, "{pad}<info name=\"CPUModel\" value=\"{}\"/>", escape(model))?;
        }
        for &node in &object.numa_nodes {
            let node = self.machine.numa_node(node);
            self.start("NUMANode", depth + 1)?;
            write!(self.xml, " os_index=\"{}\"", node.os_index)?;
            self.sets(&cpus, &BTreeSet::from([node.os_index]), false)?;
            let bytes = node.memory_bytes.map_or(0, |n| n.get());
            writeln!(self.xml, " local_memory=\"{bytes}\"/>")?;
        }
        for &child in &object.children {
            self.object(child, depth + 1)?;
        }
        writeln!(self.xml, "{}</object>", "  ".repeat(depth))
    }

    fn start(&mut self, name: &str, depth: usize) -> std::fmt::Result {
        self.gp_index += 1;
        let pad = "  ".repeat(depth);
        write!(self.xml, "{pad}<object type=\"{name}\" gp_index=\"{}\"", self.gp_index)
    }

    fn sets(&mut self, cpus: &CpuSet, nodes: &BTreeSet<u32>, root: bool) -> std::fmt::Result {
        let complete = cpus.iter().chain((self.machine.offline_cpus().iter()).filter(|_| root));
        write!(
            self.xml,
            " cpuset=\"{0}\" complete_cpuset=\"{1}\" nodeset=\"{2}\" complete_nodeset=\"{2}\"",
            hex(cpus.iter().map(|cpu| cpu.0)),
            hex(complete.map(|cpu| cpu.0)),
            hex(nodes.iter().copied())
        )
    }

    /// The NUMA nodes at, inside, or else around an object.
    fn nodes_near(&self, index: ObjectIndex) -> BTreeSet<u32> {
        let machine = self.machine;
        let at = |i: ObjectIndex| (machine.object(i).numa_nodes.iter()).map(|&node| machine.numa_node(node).os_index);
        let pus = &machine.object(index).pus;
        let inside = (machine.objects())
            .filter(|(_, o)| o.pus.start >= pus.start && o.pus.end <= pus.end)
            .flat_map(|(i, _)| at(i));
        let around = machine.ancestors(index).flat_map(at);
        inside.chain(around).collect()
    }

    fn rest(&mut self) -> std::fmt::Result {
        if let Some(rows) = self.machine.numa_distances() {
            let nodes = self.machine.numa_nodes().iter();
            let indexes: String = nodes.map(|node| format!("{} ", node.os_index)).collect();
            let values: String = (rows.iter().flatten()).map(|value| format!("{value} ")).collect();
            writeln!(
                self.xml,
                "  <distances2 type=\"NUMANode\" nbobjs=\"{}\" kind=\"5\" name=\"NUMALatency\" indexing=\"os\">\n    \
                 <indexes length=\"{}\">{indexes}</indexes>\n    <u64values length=\"{}\">{values}</u64values>\n  </distances2>",
                rows.len(),
                indexes.len(),
                values.len()
            )?;
        }
        for kind in self.machine.core_kinds() {
            write!(self.xml, "  <cpukind cpuset=\"{}\"", hex(kind.cpus.iter().map(|cpu| cpu.0)))?;
            if let Some(efficiency) = kind.efficiency {
                write!(self.xml, " forced_efficiency=\"{efficiency}\"")?;
            }
            match kind.name.as_str() {
                "P" => self.xml.write_str(">\n    <info name=\"CoreType\" value=\"IntelCore\"/>\n  </cpukind>\n")?,
                name if name.contains('E') => {
                    self.xml.write_str(">\n    <info name=\"CoreType\" value=\"IntelAtom\"/>\n  </cpukind>\n")?
                }
                _ => self.xml.write_str("/>\n")?,
            }
        }
        Ok(())
    }
}

/// A set in hwloc's notation.
fn hex(numbers: impl Iterator<Item = u32>) -> String {
    let mut words: BTreeMap<u32, u32> = BTreeMap::new();
    for number in numbers {
        *words.entry(number / 32).or_default() |= 1 << (number % 32);
    }
    let highest = words.keys().next_back().copied().unwrap_or(0);
    (0..=highest)
        .rev()
        .map(|word| format!("0x{:08x}", words.get(&word).copied().unwrap_or(0)))
        .collect::<Vec<_>>()
        .join(",")
}

fn escape(text: &str) -> String {
    (text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")).replace('"', "&quot;")
}
