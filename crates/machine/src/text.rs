//! A machine as text.
//!
//! `L#` numbers positions in the tree, `P#` is the kernel's number; a CPU is always named by the kernel's. Objects around the
//! same CPUs share a line, and more than four identical siblings become one and a count.

use crate::cpu::CpuSet;
use crate::fold::bytes;
use crate::placement::Placement;
use crate::tree::{Associativity, Cache, Kind, Machine, NumaIndex, ObjectIndex, Pu, Row};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

impl Machine {
    /// One line: how many there are of what, for example `2 packages, 8 cores, 16 CPUs`.
    pub fn summary(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for row in self.rows_outside_in().into_iter().chain([Row::PU]) {
            let n = self.count_row(row);
            parts.push(format!("{n} {}", row.counted(n)));
        }
        let nodes = self.numa_nodes().len();
        if nodes > 0 {
            parts.push(format!("{nodes} NUMA node{}", if nodes == 1 { "" } else { "s" }));
        }
        parts.join(", ")
    }

    /// The machine as an indented tree, with the threads of `placement` beside their CPUs.
    pub fn to_text(&self, placement: Option<&Placement>) -> String {
        let mut text = format!("{} ({})", self.name(), self.source());
        if let Some(model) = self.cpu_model() {
            let _ = write!(text, ": {model}");
        }
        let _ = write!(text, "\n{}\n", self.summary());
        let usable = self.usable_cpus();
        let all = if usable.len() == self.pus().len() { " (all)" } else { "" };
        let _ = writeln!(text, "usable: {}{all}", usable.named());
        for (reason, cpus) in self.forbidden() {
            let _ = writeln!(text, "forbidden: {} ({reason})", cpus.named());
        }
        if !self.offline_cpus().is_empty() {
            let _ = writeln!(text, "offline: {} (where is not known while off)", self.offline_cpus().named());
        }
        if !self.hidden_cpus().is_empty() {
            let _ =
                writeln!(text, "offline or hidden: {} (the description doesn't say which)", self.hidden_cpus().named());
        }
        for kind in self.core_kinds() {
            let _ = writeln!(text, "{} cores: {}", kind.name, kind.cpus.named());
        }
        if self.has_smt() {
            text.push_str("cores have several CPUs (SMT)\n");
        }
        if let Some(placement) = placement {
            let _ = writeln!(text, "{}: {}", placement.policy, placement.footprint(self));
        }
        self.cache_lines(&mut text);
        text.push('\n');
        let threads = placement.map(threads_by_cpu).unwrap_or_default();
        let mut tree = Tree {
            machine: self,
            threads: &threads,
            occupied: placement.map(Placement::union).unwrap_or_default(),
            text,
        };
        tree.root();
        tree.distances();
        tree.text
    }

    /// A line for each sort of cache: its size and what else is known, how many there are and for how many CPUs each.
    fn cache_lines(&self, text: &mut String) {
        let mut sorts: BTreeMap<_, (String, usize)> = BTreeMap::new();
        for (i, object) in self.objects() {
            if let Some(cache) = &object.cache {
                let sharers = self.pus_of(i).len();
                let facts = cache_facts(cache);
                let order = (Reverse(object.rank), object.kind, Reverse(sharers), facts.clone());
                let each = format!("for {sharers} CPU{}", if sharers == 1 { "" } else { "s" });
                let line = format!("{:<3} {facts}, {each}", object.kind.to_string());
                sorts.entry(order).or_insert((line, 0)).1 += 1;
            }
        }
        for (line, count) in sorts.into_values() {
            let _ = writeln!(text, "{count:>4} x {line}");
        }
    }

    /// The forbidden CPUs by reason.
    fn forbidden(&self) -> BTreeMap<String, CpuSet> {
        let mut by_reason: BTreeMap<String, CpuSet> = BTreeMap::new();
        for pu in self.pus() {
            if let Some(by) = &pu.forbidden {
                by_reason.entry(by.to_string()).or_default().insert(pu.cpu);
            }
        }
        by_reason
    }
}

type Threads = BTreeMap<crate::CpuId, Vec<usize>>;

fn threads_by_cpu(placement: &Placement) -> Threads {
    let mut threads = Threads::new();
    for (thread, slot) in placement.slots.iter().enumerate() {
        for cpu in slot.iter() {
            threads.entry(cpu).or_default().push(thread);
        }
    }
    threads
}

struct Tree<'a> {
    machine: &'a Machine,
    threads: &'a Threads,
    occupied: CpuSet,
    text: String,
}

impl Tree<'_> {
    fn root(&mut self) {
        self.text.push_str("machine");
        let nodes = self.memory(&self.machine.object(ObjectIndex::MACHINE).numa_nodes);
        self.text.push_str(&nodes);
        self.text.push('\n');
        self.children(ObjectIndex::MACHINE, "");
    }

    fn children(&mut self, index: ObjectIndex, indent: &str) {
        let groups = self.machine.folded_children(index, &self.occupied);
        let last = groups.len().saturating_sub(1);
        for (i, group) in groups.iter().enumerate() {
            let (branch, below) = if i == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let _ = write!(self.text, "{indent}{branch}");
            let chain = self.machine.chain(group[0]);
            self.line(&chain, group);
            if let Some(&innermost) = chain.last() {
                self.children(innermost, &format!("{indent}{below}"));
            }
        }
    }

    /// A line for the objects of one chain, which stands for `group`.
    fn line(&mut self, chain: &[ObjectIndex], group: &[ObjectIndex]) {
        if group.len() > 1 {
            let cpus: CpuSet = group.iter().flat_map(|&i| self.machine.pus_of(i)).map(|pu| pu.cpu).collect();
            let _ = write!(self.text, "{} x ({}), the first: ", group.len(), cpus.named());
        }
        let parts: Vec<String> = chain.iter().map(|&i| self.object(i)).collect();
        self.text.push_str(&parts.join(", "));
        self.text.push('\n');
    }

    fn object(&self, index: ObjectIndex) -> String {
        let object = self.machine.object(index);
        let mut text = match object.kind {
            Kind::Pu => return self.pu(&self.machine.pus_of(index)[0]),
            Kind::Cache(_) | Kind::InstructionCache(_) => {
                let size = object.cache.and_then(|cache| cache.size_bytes);
                object.kind.to_string() + &size.map(|size| format!(" {}", bytes(size))).unwrap_or_default()
            }
            Kind::Core => {
                let kind = self.machine.pus_of(index).first().and_then(|pu| self.machine.core_kind(pu.cpu));
                let name = kind.map(|kind| format!("{} ", kind.name)).unwrap_or_default();
                format!("{name}core {}", object.logical_index)
            }
            kind => format!("{kind} {}", object.logical_index),
        };
        if let Some(os_index) = object.os_index {
            let _ = write!(text, " P#{os_index}");
        }
        if !object.shared_units.is_empty() {
            let _ = write!(text, " (shared {})", object.shared_units.join(", "));
        }
        if object.pus.is_empty() {
            text.push_str(" (no CPU)");
        }
        text.push_str(&self.memory(&object.numa_nodes));
        text
    }

    fn pu(&self, pu: &Pu) -> String {
        let mut text = format!("CPU {}", pu.cpu);
        if pu.forbidden.is_some() {
            text.push_str(" (forbidden)");
        }
        if let Some(threads) = self.threads.get(&pu.cpu) {
            let list: Vec<String> = threads.iter().map(usize::to_string).collect();
            let _ = write!(text, " <- thread {}", list.join(", "));
        }
        text
    }

    fn memory(&self, nodes: &[NumaIndex]) -> String {
        (nodes.iter().map(|&node| self.machine.numa_node(node)))
            .map(|node| {
                let size = node.memory_bytes.map(|size| format!(" {}", bytes(size))).unwrap_or_default();
                let forbidden = if node.forbidden { " (forbidden)" } else { "" };
                format!(", NUMA node P#{}{size}{forbidden}", node.os_index)
            })
            .collect()
    }

    fn distances(&mut self) {
        let Some(rows) = self.machine.numa_distances().filter(|rows| rows.len() > 1) else {
            return;
        };
        self.text.push_str("\nNUMA distances (10 is local)\n      ");
        for node in self.machine.numa_nodes() {
            let _ = write!(self.text, " {:>5}", format!("P#{}", node.os_index));
        }
        for (node, row) in self.machine.numa_nodes().iter().zip(rows) {
            let _ = write!(self.text, "\n {:>5}", format!("P#{}", node.os_index));
            for distance in row {
                let _ = write!(self.text, " {distance:>5}");
            }
        }
        self.text.push('\n');
    }
}

/// Size, line size and ways, as far as known.
fn cache_facts(cache: &Cache) -> String {
    let mut facts = vec![cache.size_bytes.map_or_else(|| "size unknown".to_owned(), bytes)];
    facts.extend(cache.line_bytes.map(|size| format!("{size} B lines")));
    facts.extend(cache.associativity.map(|associativity| match associativity {
        Associativity::Ways(1) => "direct-mapped".to_owned(),
        Associativity::Ways(ways) => format!("{ways}-way"),
        Associativity::Full => "fully associative".to_owned(),
    }));
    facts.join(", ")
}
