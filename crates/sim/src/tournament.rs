//! The least of many keys, where one key changes at a time.
//!
//! Leaves hold keys, and every node the least key below it. The tree has the shape of the machine, so that "the least
//! among the CPUs of this L3" is one node; objects with many children are split into nodes of at most eight.

use crate::rule::Distance;

/// Most children of a node: one cache line of the smaller keys.
const FANOUT: usize = 8;

/// A shape to build from.
pub(crate) enum Nest {
    /// A leaf.
    Leaf,
    /// A part of the machine, and how far apart the leaves in it are at most.
    Node(Distance, Vec<Nest>),
    /// Some children of a node that has many.
    Some(Vec<Nest>),
}

impl Nest {
    /// One node above so many leaves.
    pub(crate) fn flat(leaves: usize) -> Self {
        Self::Node(Distance::Far, (0..leaves).map(|_| Self::Leaf).collect())
    }

    /// Without nodes that have more than [`FANOUT`] children.
    fn split(self) -> Self {
        let Self::Node(distance, children) = self else {
            return self;
        };
        let mut children: Vec<Self> = children.into_iter().map(Self::split).collect();
        while children.len() > FANOUT {
            let mut grouped = Vec::with_capacity(children.len().div_ceil(FANOUT));
            let mut rest = children.into_iter().peekable();
            while rest.peek().is_some() {
                grouped.push(Self::Some(rest.by_ref().take(FANOUT).collect()));
            }
            children = grouped;
        }
        Self::Node(distance, children)
    }
}

/// A leaf or a node, by the slot that holds its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    /// The whole tree.
    pub(crate) const ROOT: Self = Self(0);

    fn new(node: usize, position: usize) -> Self {
        Self((node * FANOUT + position) as u32)
    }

    #[inline]
    fn node(self) -> usize {
        self.0 as usize / FANOUT
    }

    #[inline]
    fn position(self) -> usize {
        self.0 as usize % FANOUT
    }
}

/// A node: the keys of its children, the largest possible key where it has fewer than eight.
struct Node<K> {
    keys: [K; FANOUT],
    /// The slot that holds the least of them.
    up: Slot,
    /// How far apart leaves in it are at most; none where it is not a part of the machine.
    distance: Option<Distance>,
}

/// A tree of least keys.
pub(crate) struct Tournament<K> {
    /// The first one holds nothing but the least of all.
    nodes: Vec<Node<K>>,
    /// Where each leaf is, by its number.
    leaves: Vec<Slot>,
    /// A key that no other exceeds.
    largest: K,
}

impl<K: Copy + Ord> Tournament<K> {
    /// A tree whose leaves, numbered from the left, all have `largest`, which no key exceeds.
    pub(crate) fn new(nest: Nest, largest: K) -> Self {
        let top = Node { keys: [largest; FANOUT], up: Slot::ROOT, distance: None };
        let mut tree = Self { nodes: vec![top], leaves: Vec::new(), largest };
        tree.grow(nest.split(), Slot::ROOT, largest);
        tree
    }

    fn grow(&mut self, nest: Nest, up: Slot, largest: K) {
        let (distance, children) = match nest {
            Nest::Leaf => return self.leaves.push(up),
            Nest::Node(distance, children) => (Some(distance), children),
            Nest::Some(children) => (None, children),
        };
        let node = self.nodes.len();
        self.nodes.push(Node { keys: [largest; FANOUT], up, distance });
        for (position, child) in children.into_iter().enumerate() {
            self.grow(child, Slot::new(node, position), largest);
        }
    }

    /// The least key of all.
    #[inline]
    pub(crate) fn least(&self) -> K {
        self.nodes[0].keys[0]
    }

    /// The least key under a node.
    #[inline]
    pub(crate) fn least_in(&self, slot: Slot) -> K {
        self.nodes[slot.node()].keys[slot.position()]
    }

    /// The key of a leaf.
    #[inline]
    pub(crate) fn key(&self, leaf: usize) -> K {
        self.least_in(self.leaves[leaf])
    }

    /// Gives a leaf another key.
    ///
    /// A key that changes has mostly been the least and mostly is not any more. That is a branch and not a minimum, so that
    /// the host goes on with the next least while it still waits to know the new key.
    #[inline]
    pub(crate) fn set(&mut self, leaf: usize, key: K) {
        let mut slot = self.leaves[leaf];
        let mut least = key;
        loop {
            let node = &mut self.nodes[slot.node()];
            if slot.node() == 0 || node.keys[slot.position()] == least {
                node.keys[slot.position()] = least;
                break;
            }
            node.keys[slot.position()] = self.largest;
            // In pairs, so that comparisons don't wait for one another.
            let [a, b, c, d, e, f, g, h] = node.keys;
            let others = a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h)));
            node.keys[slot.position()] = least;
            if least < others {
                cold_path();
            } else {
                least = others;
            }
            slot = node.up;
        }
    }

    /// The parts of the machine around a leaf from the inside out, itself first, and how far apart leaves in them are.
    pub(crate) fn around(&self, leaf: usize) -> impl Iterator<Item = (Slot, Distance)> {
        let leaf = self.leaves[leaf];
        let outside = |&slot: &Slot| (slot.node() != 0).then(|| self.nodes[slot.node()].up);
        // A node's distance stands in it, its key in the slot above.
        let node = |slot: Slot| Some((self.nodes[slot.node()].up, self.nodes[slot.node()].distance?));
        let nodes = std::iter::successors(Some(leaf), outside).filter_map(node);
        std::iter::once((leaf, Distance::SameCpu)).chain(nodes)
    }

    /// The outermost part around a leaf whose leaves are no further than `distance` from one another.
    pub(crate) fn within(&self, leaf: usize, distance: Distance) -> Slot {
        self.around(leaf).take_while(|&(_, d)| d <= distance).last().map_or(self.leaves[leaf], |(slot, _)| slot)
    }
}

/// Makes the branch that calls it the unlikely one (`std::hint::cold_path` asks for Rust 1.95).
#[cold]
#[inline]
fn cold_path() {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_least_is_the_least(leaves in 1..200_usize, keys in prop::collection::vec((0..200_usize, 0..50_u32), 0..300)) {
            let mut tree = Tournament::new(Nest::flat(leaves), u32::MAX);
            let mut all = vec![u32::MAX; leaves];
            for (leaf, key) in keys {
                tree.set(leaf % leaves, key);
                all[leaf % leaves] = key;
                prop_assert_eq!(Some(tree.least()), all.iter().copied().min());
            }
            prop_assert!(all.iter().enumerate().all(|(leaf, &key)| tree.key(leaf) == key));
        }
    }

    #[test]
    fn parts_are_the_machines_and_not_the_trees() {
        // Two L3 of eleven CPUs each: each is split into two nodes, which are no part of the machine.
        let l3 = || Nest::Node(Distance::SameL3, (0..11).map(|_| Nest::Leaf).collect());
        let mut tree = Tournament::new(Nest::Node(Distance::Far, vec![l3(), l3()]), u32::MAX);
        tree.set(10, 3);
        tree.set(11, 2);
        let least: Vec<(u32, Distance)> =
            tree.around(0).map(|(slot, distance)| (tree.least_in(slot), distance)).collect();
        assert_eq!(least, [(u32::MAX, Distance::SameCpu), (3, Distance::SameL3), (2, Distance::Far)]);
        assert_eq!(tree.least_in(tree.within(0, Distance::SameNode)), 3);
        assert_eq!(tree.least_in(tree.within(0, Distance::Far)), 2);
    }
}
