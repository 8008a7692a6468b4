//! The least of many keys, where one key changes at a time.
//!
//! Leaves hold keys, and every node the least key below it. The tree has the shape of the machine, so that "the least
//! among the CPUs of this L3" is one node; objects with many children are split into nodes of at most eight.

use crate::rule::Distance;
use std::ops::Range;

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

/// Position of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(u32);

impl Node {
    /// The root, which holds the least of all.
    pub(crate) const ROOT: Self = Self(0);
}

/// A tree of least keys.
pub(crate) struct Tournament<K> {
    keys: Vec<K>,
    parent: Vec<u32>,
    children: Vec<Range<u32>>,
    /// How far apart the leaves in a node are at most; none where it is not a part of the machine.
    distance: Vec<Option<Distance>>,
    /// Where each leaf is, by its number.
    leaves: Vec<u32>,
}

impl<K: Copy + Ord> Tournament<K> {
    /// A tree whose leaves, numbered from the left, all have `key`.
    pub(crate) fn new(nest: Nest, key: K) -> Self {
        let mut tree =
            Self { keys: vec![key], parent: vec![0], children: Vec::new(), distance: Vec::new(), leaves: Vec::new() };
        let mut level = vec![nest.split()];
        // Breadth first, so that siblings lie side by side.
        while !level.is_empty() {
            let mut next = Vec::new();
            for nest in level {
                let node = tree.children.len() as u32;
                let start = tree.keys.len() as u32;
                let (distance, children) = match nest {
                    Nest::Leaf => (Some(Distance::SameCpu), Vec::new()),
                    Nest::Node(distance, children) => (Some(distance), children),
                    Nest::Some(children) => (None, children),
                };
                let count = children.len();
                tree.keys.extend(std::iter::repeat_n(key, count));
                tree.parent.extend(std::iter::repeat_n(node, count));
                tree.children.push(start..start + count as u32);
                tree.distance.push(distance);
                next.extend(children);
            }
            level = next;
        }
        tree.number_leaves(0);
        tree
    }

    fn number_leaves(&mut self, node: u32) {
        let children = self.children[node as usize].clone();
        if children.is_empty() {
            self.leaves.push(node);
        }
        children.for_each(|child| self.number_leaves(child));
    }

    /// The least key of all.
    #[inline]
    pub(crate) fn least(&self) -> K {
        self.keys[0]
    }

    /// The least key under a node.
    #[inline]
    pub(crate) fn least_in(&self, node: Node) -> K {
        self.keys[node.0 as usize]
    }

    /// The key of a leaf.
    #[inline]
    pub(crate) fn key(&self, leaf: usize) -> K {
        self.keys[self.leaves[leaf] as usize]
    }

    /// Gives a leaf another key.
    #[inline]
    pub(crate) fn set(&mut self, leaf: usize, key: K) {
        let mut node = self.leaves[leaf] as usize;
        self.keys[node] = key;
        while node != 0 {
            node = self.parent[node] as usize;
            let children = &self.children[node];
            let keys = &self.keys[children.start as usize..children.end as usize];
            let least = keys.iter().copied().fold(keys[0], |a, b| if b < a { b } else { a });
            if self.keys[node] == least {
                break;
            }
            self.keys[node] = least;
        }
    }

    /// The parts of the machine around a leaf from the inside out, itself first, and how far apart leaves in them are.
    pub(crate) fn around(&self, leaf: usize) -> impl Iterator<Item = (Node, Distance)> {
        let parent = |&node: &u32| (node != 0).then(|| self.parent[node as usize]);
        std::iter::successors(Some(self.leaves[leaf]), parent)
            .filter_map(|node| Some((Node(node), self.distance[node as usize]?)))
    }

    /// The outermost part around a leaf whose leaves are no further than `distance` from one another.
    pub(crate) fn within(&self, leaf: usize, distance: Distance) -> Node {
        self.around(leaf).take_while(|&(_, d)| d <= distance).last().map_or(Node(self.leaves[leaf]), |(node, _)| node)
    }
}
