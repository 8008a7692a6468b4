//! The short list: classes that differ in how much of each thing the threads have, and are even in all else.
//!
//! After the "important placements" of Funston, Lorrillere, Fedorova, Lepers, Vengerov, Lozi and Quéma ("Placement of Virtual
//! Containers on NUMA systems", USENIX ATC 2018), who score placements by the number of nodes, L3 and L2 caches in use and keep
//! the balanced ones. Here a choice is a share of the threads for each kind of core, and for each level, from the outside in,
//! how many children an object uses. Each choice gives one set of CPUs at most: an object takes the children with most room,
//! and deals its threads to them as evenly as their room allows.

use super::shape::Rank;
use crate::cpu::CpuId;
use crate::tree::{Machine, ObjectIndex, PuIndex};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The sets of CPUs that some choice leads to, each in tree order.
pub(super) fn sets(machine: &Machine, threads: usize) -> BTreeSet<Vec<CpuId>> {
    let mut pus_by_kind: BTreeMap<Option<usize>, Vec<PuIndex>> = BTreeMap::new();
    for cpu in machine.usable() {
        let kind = machine.core_kinds().iter().position(|kind| kind.cpus.contains(cpu));
        pus_by_kind.entry(kind).or_default().extend(machine.pu_index(cpu));
    }
    let trees: Vec<Tree> = pus_by_kind.values().map(|pus| Tree::new(machine, pus)).collect();
    // By level, how many children objects have at most; no more can be used.
    let mut most: BTreeMap<Rank, usize> = BTreeMap::new();
    for node in trees.iter().flat_map(|tree| &tree.nodes) {
        let children = most.entry(node.level).or_insert(1);
        *children = node.children.len().max(*children);
    }
    let mut used: BTreeMap<Rank, usize> = most.keys().map(|&level| (level, 1)).collect();
    let mut sets = BTreeSet::new();
    loop {
        let rooms: Vec<Vec<usize>> = trees.iter().map(|tree| tree.rooms(&used)).collect();
        let room = |tree: usize| rooms[tree].last().copied().unwrap_or(0);
        for_each_share(trees.len(), threads, &room, &mut Vec::new(), &mut |shares| {
            let mut set = Vec::with_capacity(threads);
            for ((tree, rooms), &share) in trees.iter().zip(&rooms).zip(shares) {
                tree.deal(tree.nodes.len() - 1, share, &used, rooms, &mut set);
            }
            set.sort_unstable();
            sets.insert(set.into_iter().map(|pu| machine.pu(pu).cpu).collect());
        });
        // The next choice, as an odometer goes.
        let mut at_end = true;
        for (level, children) in &mut used {
            at_end = *children == most[level].min(threads);
            *children = if at_end { 1 } else { *children + 1 };
            if !at_end {
                break;
            }
        }
        if at_end {
            return sets;
        }
    }
}

/// Calls `visit` with every way to share `threads` among so many kinds of core, none over its room.
fn for_each_share(
    kinds: usize,
    threads: usize,
    room: &dyn Fn(usize) -> usize,
    shares: &mut Vec<usize>,
    visit: &mut dyn FnMut(&[usize]),
) {
    let kind = shares.len();
    if kind + 1 == kinds {
        if threads <= room(kind) {
            shares.push(threads);
            visit(shares);
            shares.pop();
        }
        return;
    }
    for share in 0..=threads.min(room(kind)) {
        shares.push(share);
        for_each_share(kinds, threads - share, room, shares, visit);
        shares.pop();
    }
}

/// The objects of a machine that hold usable CPUs of one kind of core; children before their parents, the machine last.
struct Tree {
    nodes: Vec<Node>,
}

struct Node {
    level: Rank,
    children: Vec<usize>,
    /// Of a PU.
    pu: Option<PuIndex>,
}

impl Tree {
    fn new(machine: &Machine, pus: &[PuIndex]) -> Self {
        let mut tree = Self { nodes: Vec::new() };
        tree.add(machine, ObjectIndex::MACHINE, pus);
        tree
    }

    /// Adds an object and all inside; none when it holds none of these PUs. An object with one child is left out.
    fn add(&mut self, machine: &Machine, index: ObjectIndex, pus: &[PuIndex]) -> Option<usize> {
        let object = machine.object(index);
        let begin = pus.partition_point(|pu| pu.0 < object.pus.start);
        let end = pus.partition_point(|pu| pu.0 < object.pus.end);
        let inside = &pus[begin..end];
        let node = match inside {
            [] => return None,
            [pu] => Node { level: 0, children: Vec::new(), pu: Some(*pu) },
            _ => {
                let children: Vec<usize> =
                    object.children.iter().filter_map(|&child| self.add(machine, child, inside)).collect();
                if let [only] = children.as_slice() {
                    return Some(*only);
                }
                Node { level: object.rank, children, pu: None }
            }
        };
        self.nodes.push(node);
        Some(self.nodes.len() - 1)
    }

    /// How many threads each node can hold when its objects use so many children.
    fn rooms(&self, used: &BTreeMap<Rank, usize>) -> Vec<usize> {
        let mut rooms: Vec<usize> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let room = match node.pu {
                Some(_) => 1,
                None => self.chosen(node, used, &rooms).iter().map(|&child| rooms[child]).sum(),
            };
            rooms.push(room);
        }
        rooms
    }

    /// The children that a node uses: those with most room, the first among equals.
    fn chosen(&self, node: &Node, used: &BTreeMap<Rank, usize>, rooms: &[usize]) -> Vec<usize> {
        let mut children = node.children.clone();
        children.sort_by_key(|&child| Reverse(rooms[child]));
        children.truncate(used[&node.level]);
        children
    }

    fn deal(
        &self,
        index: usize,
        mut threads: usize,
        used: &BTreeMap<Rank, usize>,
        rooms: &[usize],
        into: &mut Vec<PuIndex>,
    ) {
        let node = &self.nodes[index];
        if threads == 0 {
            return;
        }
        into.extend(node.pu);
        let chosen = self.chosen(node, used, rooms);
        // From the child with least room: what doesn't fit there goes to the others.
        for (before, &child) in chosen.iter().enumerate().rev() {
            let share = (threads / (before + 1)).min(rooms[child]);
            self.deal(child, share, used, rooms, into);
            threads -= share;
        }
    }
}
