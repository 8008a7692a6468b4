//! Thread orders: whether threads with neighbouring numbers sit together or apart.
//!
//! Inside an object, the threads of its children come one child after the other (together) or in turn from each child
//! (apart), the children with most threads first. All objects of one level do the same. It makes a difference in an object
//! with at least two occupied children, one of them with at least two threads: the first two threads share that child or
//! don't. A level at which some object makes a difference matters, and no symmetry can undo a choice at such a level.

use super::shape::Rank;
use crate::cpu::CpuId;
use crate::tree::{Kind, Machine, ObjectIndex, PuIndex};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use strum::Display;

/// How the threads of an object's children follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Neighbours {
    /// One child after the other: neighbours share a child.
    Together,
    /// In turn from each child: neighbours are in different children.
    Apart,
}

/// The levels of a machine at which the order of threads can matter, from the outside in, with their names.
pub(super) fn levels(machine: &Machine) -> Vec<(Rank, String)> {
    let usable = |index| machine.pus_of(index).iter().filter(|pu| pu.forbidden.is_none()).count();
    let mut kinds: BTreeMap<Reverse<Rank>, BTreeSet<Kind>> = BTreeMap::new();
    for (index, object) in machine.objects() {
        let children: Vec<usize> = object.children.iter().map(|&child| usable(child)).filter(|&n| n > 0).collect();
        if children.len() > 1 && children.iter().any(|&n| n > 1) {
            // A package with one L3 is called a package.
            let outermost = machine.with_ancestors(index).take_while(|&outer| {
                outer == index || (outer != ObjectIndex::MACHINE && machine.object(outer).pus == object.pus)
            });
            kinds.entry(Reverse(object.rank)).or_default().extend(outermost.last().map(|i| machine.object(i).kind));
        }
    }
    let mut times: BTreeMap<Kind, usize> = BTreeMap::new();
    (kinds.into_iter())
        .filter_map(|(Reverse(rank), kinds)| {
            let kind = *kinds.last()?;
            let nth = times.entry(kind).and_modify(|n| *n += 1).or_insert(1);
            Some((rank, if *nth == 1 { kind.to_string() } else { format!("{kind} {nth}") }))
        })
        .collect()
}

/// A set of CPUs in some order of threads, and the levels at which that order mattered.
pub(super) struct Ordered<'a> {
    machine: &'a Machine,
    /// The CPUs in tree order.
    cpus: &'a [PuIndex],
    /// By level, how neighbours sit.
    neighbours: &'a dyn Fn(Rank) -> Neighbours,
    pub(super) mattered: BTreeSet<Rank>,
}

impl<'a> Ordered<'a> {
    pub(super) fn new(machine: &'a Machine, cpus: &'a [PuIndex], neighbours: &'a dyn Fn(Rank) -> Neighbours) -> Self {
        Self { machine, cpus, neighbours, mattered: BTreeSet::new() }
    }

    /// The CPUs inside an object, by thread.
    pub(super) fn within(&mut self, index: ObjectIndex) -> Vec<CpuId> {
        let object = self.machine.object(index);
        let begin = self.cpus.partition_point(|pu| pu.0 < object.pus.start);
        let end = self.cpus.partition_point(|pu| pu.0 < object.pus.end);
        if end - begin <= 1 {
            return self.cpus[begin..end].iter().map(|&pu| self.machine.pu(pu).cpu).collect();
        }
        let mut children: Vec<Vec<CpuId>> =
            (object.children.iter()).map(|&child| self.within(child)).filter(|threads| !threads.is_empty()).collect();
        children.sort_by_key(|threads| Reverse(threads.len()));
        let most = children[0].len();
        if children.len() > 1 && most > 1 {
            self.mattered.insert(object.rank);
            if (self.neighbours)(object.rank) == Neighbours::Apart {
                let turns = (0..most).map(|turn| children.iter().filter_map(move |threads| threads.get(turn)));
                return turns.flatten().copied().collect();
            }
        }
        children.concat()
    }
}
