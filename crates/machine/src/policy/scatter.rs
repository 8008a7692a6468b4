//! Scatter: each thread where it shares least with those before it.
//!
//! No core gets a second thread while another has none. Among the cores that are left, threads are dealt out as evenly as
//! there is room: over packages, within those over dies and NUMA domains, then over L3 caches, then over L2 caches and
//! modules. What an object holds outside of any L3, say, counts as one more L3 of that object, so that a sibling that lacks
//! a level gets no more than its share. A core outside of any L2 or module shares none with anybody.
//!
//! The groups of all levels nest, so the choice that is best for each thread is also best for all threads together: at every
//! step no other set of as many CPUs has lower loads, the cores' compared first and then level by level from the outside in.

use crate::tree::{Kind, Level, Machine, ObjectIndex, PuIndex};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What is preferred, the smallest first: the threads on the core of the next free CPU inside, those on the group and on each
/// group around that CPU further in, and the place in the tree.
type Key = (Vec<u32>, usize);

/// A group of CPUs at one level, with those of the next level inside; the innermost are cores.
#[derive(Default)]
struct Group {
    parent: Option<usize>,
    load: u32,
    /// How the parent knows this group; none without a free CPU.
    key: Option<Key>,
    /// The groups inside that have a free CPU.
    inside: BTreeSet<Key>,
    /// The free CPUs of a core.
    free: VecDeque<PuIndex>,
}

/// The first `seats` of `pus` (in tree order) such that each shares least with those before it.
pub(super) fn scatter(machine: &Machine, pus: &[PuIndex], seats: usize) -> Vec<PuIndex> {
    let mut groups = groups(machine, pus);
    let mut order = Vec::with_capacity(seats.min(pus.len()));
    while order.len() < seats {
        let mut at = 0;
        while let Some((_, inner)) = groups[at].inside.first() {
            at = *inner;
        }
        let Some(pu) = groups[at].free.pop_front() else { break };
        order.push(pu);
        let path: Vec<usize> = std::iter::successors(Some(at), |&group| groups[group].parent).collect();
        for group in path {
            groups[group].load += 1;
            tell_parent(&mut groups, group);
        }
    }
    order
}

/// The groups that hold `pus`, all of them first; each after its parent, and siblings in tree order.
fn groups(machine: &Machine, pus: &[PuIndex]) -> Vec<Group> {
    let levels = levels(machine);
    let mut groups = vec![Group::default()];
    let mut known: BTreeMap<(usize, ObjectIndex), usize> = BTreeMap::new();
    for &pu in pus {
        let mut at = 0;
        for &level in &levels {
            at = *known.entry((at, level.group_of(machine, pu))).or_insert_with(|| {
                groups.push(Group { parent: Some(at), ..Group::default() });
                groups.len() - 1
            });
        }
        groups[at].free.push_back(pu);
    }
    // The keys of groups are made of those inside, which come later.
    for group in (0..groups.len()).rev() {
        tell_parent(&mut groups, group);
    }
    groups
}

/// Makes the key of a group anew, in its parent too.
fn tell_parent(groups: &mut [Group], index: usize) {
    let group = &groups[index];
    let loads = match group.inside.first() {
        Some((next, _)) => Some([&next[..1], &[group.load], &next[1..]].concat()),
        None => (!group.free.is_empty()).then(|| vec![group.load]),
    };
    let key = loads.map(|loads| (loads, index));
    let before = std::mem::replace(&mut groups[index].key, key.clone());
    if let Some(parent) = groups[index].parent {
        let siblings = &mut groups[parent].inside;
        before.map(|key| siblings.remove(&key));
        siblings.extend(key);
    }
}

/// A rank of objects, and what a CPU without such an object counts as.
#[derive(Clone, Copy)]
enum Grouping {
    /// What is inside of the next object further out, and in none of this rank, is one group.
    Shared(usize),
    /// The outermost object further in is a group of its own.
    Private(usize),
}

impl Grouping {
    fn group_of(self, machine: &Machine, pu: PuIndex) -> ObjectIndex {
        let mut objects = machine.with_ancestors(machine.pu(pu).object);
        let rank = |index: ObjectIndex| machine.object(index).rank;
        match self {
            // The machine is of the highest rank.
            Self::Shared(level) => objects.find(|&i| rank(i) >= level).unwrap_or(ObjectIndex::MACHINE),
            Self::Private(level) => objects.take_while(|&i| rank(i) <= level).last().unwrap_or(machine.pu(pu).object),
        }
    }
}

/// The levels from the outside in; the last are the cores.
fn levels(machine: &Machine) -> Vec<Grouping> {
    let rank_of = |kind| machine.objects().find(|(_, object)| object.kind == kind).map_or(0, |(_, object)| object.rank);
    let cores = rank_of(Kind::Core);
    let shared: BTreeSet<usize> =
        machine.objects().filter(|(_, object)| object.level > Level::L2).map(|(_, object)| object.rank).collect();
    (cores..machine.object(ObjectIndex::MACHINE).rank)
        .rev()
        .map(
            |rank| {
                if rank > cores && shared.contains(&rank) { Grouping::Shared(rank) } else { Grouping::Private(rank) }
            },
        )
        .collect()
}
