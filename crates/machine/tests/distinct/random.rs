//! Random small machines: regular ones, and ones with all that breaks symmetry.

use proptest::prelude::*;
use stayput_machine::record::{MachineRecord, ObjectRecord};
use stayput_machine::tree::{Cache, CoreKind, ForbiddenBy, Kind, NumaNode, Source};
use stayput_machine::{CpuId, CpuSet};
use std::collections::BTreeMap;

/// Numbers to make choices with; the rest are zeros, which choose the plain thing.
struct Choices(std::vec::IntoIter<u32>);

impl Choices {
    fn below(&mut self, bound: u32) -> u32 {
        self.0.next().unwrap_or(0) % bound
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == n - 1
    }
}

/// Machines of up to so many CPUs.
pub fn machines(most: usize) -> impl Strategy<Value = MachineRecord> {
    prop::collection::vec(any::<u32>(), 0..120).prop_map(move |choices| machine(most, Choices(choices.into_iter())))
}

/// Up to so many CPUs, in levels of up to three children; often several times the same subtree.
fn subtree(levels: &[Kind], most: usize, choices: &mut Choices) -> ObjectRecord {
    let Some((&kind, inner)) = levels.split_first() else {
        let mut pu = ObjectRecord::new(Kind::Pu, Vec::new());
        pu.forbidden_by = choices.one_in(16).then_some(ForbiddenBy::Description);
        return pu;
    };
    if most == 1 || choices.one_in(3) {
        return subtree(inner, most, choices);
    }
    let children = 1 + choices.below((most as u32).min(4)) as usize;
    let first = subtree(inner, most / children, choices);
    let mut all = vec![first; children];
    if choices.one_in(3) {
        all = all.into_iter().map(|_| subtree(inner, most / children, choices)).collect();
    }
    let mut object = ObjectRecord::new(kind, all);
    if matches!(kind, Kind::Cache(_)) {
        let size = if choices.one_in(4) { 2 << 20 } else { 1 << 20 };
        object.cache = Some(Cache { size_bytes: u64::try_into(size).ok(), ..Cache::default() });
    }
    if kind == Kind::Core && choices.one_in(8) {
        object.shared_units = vec!["FPU".into()];
    }
    object
}

fn machine(most: usize, mut choices: Choices) -> MachineRecord {
    let levels = [Kind::Die, Kind::Cache(3), Kind::Cache(2), Kind::Core];
    // Many packages now and then, for distances between them.
    let packages = match choices.below(3) {
        0 => 1 + choices.below(2) as usize,
        _ => 1 + choices.below(most as u32) as usize,
    };
    let first = subtree(&levels, most / packages, &mut choices);
    let packages = (0..packages).map(|_| {
        let inside = if choices.one_in(8) { subtree(&levels, most / packages, &mut choices) } else { first.clone() };
        ObjectRecord::new(Kind::Package, vec![inside])
    });
    let mut tree = ObjectRecord::new(Kind::Machine, packages.collect());
    let mut nodes = 0;
    if !choices.one_in(4) {
        // One node for each package or die, of unequal sizes now and then.
        let on = if choices.one_in(2) { Kind::Die } else { Kind::Package };
        add_nodes(&mut tree, on, &mut nodes, &mut choices);
    }
    if choices.one_in(6) {
        tree.numa_nodes.push(NumaNode { os_index: 99, memory_bytes: None, forbidden: false });
        nodes += 1;
    }
    let mut cpus = 0;
    number(&mut tree, &mut cpus, &mut choices);
    let mut core_kinds = Vec::new();
    if choices.one_in(4) {
        let (efficient, fast): (CpuSet, CpuSet) = match choices.below(2) {
            0 => ((0..cpus / 2).map(CpuId).collect(), (cpus / 2..cpus).map(CpuId).collect()),
            _ => (0..cpus).map(CpuId).fold(Default::default(), |(mut e, mut p), cpu| {
                if cpu.0 % 2 == 0 {
                    e.insert(cpu)
                } else {
                    p.insert(cpu)
                };
                (e, p)
            }),
        };
        core_kinds.push(CoreKind { name: "E".into(), core_type: None, efficiency: Some(0), cpus: efficient });
        core_kinds.push(CoreKind { name: "P".into(), core_type: None, efficiency: Some(1), cpus: fast });
    }
    MachineRecord {
        name: "random".into(),
        source: Source::Host,
        cpu_model: None,
        counts: BTreeMap::new(),
        usable_cpus: CpuSet::new(),
        offline_cpus: CpuSet::new(),
        hidden_cpus: CpuSet::new(),
        core_kinds,
        numa_distances: distances(nodes, &mut choices),
        tree,
    }
}

fn add_nodes(object: &mut ObjectRecord, on: Kind, nodes: &mut usize, choices: &mut Choices) {
    if object.kind == on {
        for _ in 0..if choices.one_in(8) { 2 } else { 1 } {
            // What the kernel leaves of 16 GiB differs a little; 8 GiB are another size.
            let bytes = if choices.one_in(8) { 8 << 30 } else { (16 << 30) - u64::from(choices.below(1 << 20)) };
            object.numa_nodes.push(NumaNode {
                os_index: *nodes as u32,
                memory_bytes: bytes.try_into().ok(),
                forbidden: false,
            });
            *nodes += 1;
        }
    }
    for child in &mut object.children {
        add_nodes(child, on, nodes, choices);
    }
}

/// Numbers the CPUs, forbids some, and at least one is usable.
fn number(object: &mut ObjectRecord, cpus: &mut u32, choices: &mut Choices) {
    if object.kind == Kind::Pu {
        object.os_index = Some(*cpus);
        if choices.one_in(16) {
            object.forbidden_by = Some(ForbiddenBy::Description);
        }
        if *cpus == 0 {
            object.forbidden_by = None;
        }
        *cpus += 1;
    }
    for child in &mut object.children {
        number(child, cpus, choices);
    }
}

/// No distances, equal ones, rings, paths, cubes, pairs, any two values, any two values there and other ones back.
fn distances(nodes: usize, choices: &mut Choices) -> Option<Vec<Vec<u32>>> {
    let form = choices.below(8);
    let mut random = vec![vec![0; nodes]; nodes];
    for row in &mut random {
        for value in row {
            *value = if choices.one_in(3) { 30 } else { 20 };
        }
    }
    let distance = |a: usize, b: usize| match form {
        1 => 20,
        2 | 3 => 20 + 10 * (a.abs_diff(b)).min(nodes - a.abs_diff(b)) as u32,
        4 => 20 + 10 * a.abs_diff(b) as u32,
        5 => 20 + 10 * (a ^ b).count_ones(),
        6 => {
            if a / 2 == b / 2 {
                15
            } else {
                random[a.min(b) / 2][a.max(b) / 2]
            }
        }
        _ if form == 7 && nodes.is_multiple_of(2) => random[a.min(b)][a.max(b)],
        _ => random[a][b],
    };
    (form > 0)
        .then(|| (0..nodes).map(|a| (0..nodes).map(|b| if a == b { 10 } else { distance(a, b) }).collect()).collect())
}
