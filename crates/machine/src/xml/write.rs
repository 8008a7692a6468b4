//! Machines in hwloc's XML format, version 2.

use super::{CORE_TYPES, MODULE, hwloc_name};
use crate::cpu::CpuSet;
use crate::tree::{Associativity, Kind, Machine, ObjectIndex};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;

impl Machine {
    /// The machine in hwloc's XML format, version 2, which hwloc's tools read.
    ///
    /// Forbidden CPUs are in it as disallowed. A clustered-multithreading module becomes a group of subtype `Module`.
    pub fn to_xml(&self) -> String {
        let mut xml = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n",
        );
        let mut writer = Writer { machine: self, xml: &mut xml, gp_index: 0, nodes: self.numa_nodes_inside() };
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
    /// By object, the NUMA nodes at and inside of it.
    nodes: Vec<Range<usize>>,
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
        let missing = match root {
            true => self.machine.offline_cpus().iter().chain(self.machine.hidden_cpus().iter()).collect(),
            false => object.missing_cpus.clone(),
        };
        self.sets(&cpus, &missing, &nodes)?;
        if root {
            let usable = self.machine.usable_cpus();
            let usable_nodes = self.machine.numa_nodes().iter().filter(|node| !node.forbidden);
            write!(
                self.xml,
                " allowed_cpuset=\"{}\" allowed_nodeset=\"{}\"",
                hex(usable.iter().map(|cpu| cpu.0)),
                hex(usable_nodes.map(|node| node.os_index))
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
            self.sets(&cpus, &missing, &BTreeSet::from([node.os_index]))?;
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

    fn sets(&mut self, cpus: &CpuSet, missing: &CpuSet, nodes: &BTreeSet<u32>) -> std::fmt::Result {
        write!(
            self.xml,
            " cpuset=\"{0}\" complete_cpuset=\"{1}\" nodeset=\"{2}\" complete_nodeset=\"{2}\"",
            hex(cpus.iter().map(|cpu| cpu.0)),
            hex(cpus.iter().chain(missing.iter()).map(|cpu| cpu.0)),
            hex(nodes.iter().copied())
        )
    }

    /// The NUMA nodes at, inside, or else around an object.
    fn nodes_near(&self, index: ObjectIndex) -> BTreeSet<u32> {
        let machine = self.machine;
        let around = machine.ancestors(index).flat_map(|i| &machine.object(i).numa_nodes).map(|node| node.at());
        (self.nodes[index.at()].clone().chain(around)).map(|node| machine.numa_nodes()[node].os_index).collect()
    }

    fn rest(&mut self) -> std::fmt::Result {
        // hwloc refuses a matrix of no nodes.
        if let Some(rows) = self.machine.numa_distances().filter(|rows| !rows.is_empty()) {
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
            // Machines that were stored before the maker's word was have only ours.
            let by_name = || CORE_TYPES.iter().find(|(_, ours)| *ours == kind.name).map(|&(maker, _)| maker);
            match kind.core_type.as_deref().or_else(by_name) {
                Some(core_type) => {
                    let core_type = escape(core_type);
                    writeln!(self.xml, ">\n    <info name=\"CoreType\" value=\"{core_type}\"/>\n  </cpukind>")?;
                }
                None => self.xml.write_str("/>\n")?,
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
