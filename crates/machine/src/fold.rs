//! What text and picture leave out so that large machines stay readable: chains of single children, and twins.

use crate::cpu::CpuSet;
use crate::tree::{Kind, Machine, ObjectIndex};
use std::num::NonZeroU64;

/// Up to this many identical siblings are shown each on its own.
pub const MAX_SIBLINGS: usize = 4;

impl Machine {
    /// `index` and the objects within it down to the first that has several inside, or to a PU: objects around the same PUs.
    pub fn chain(&self, index: ObjectIndex) -> Vec<ObjectIndex> {
        std::iter::successors(Some(index), |&i| match self.object(i).children.as_slice() {
            [only] => Some(*only),
            _ => None,
        })
        .collect()
    }

    /// The children of an object in groups: each child alone, or more than [`MAX_SIBLINGS`] neighbours that look the same.
    ///
    /// Children that hold a CPU of `occupied` always stand alone. Amounts of memory don't count as a difference.
    pub fn folded_children(&self, index: ObjectIndex, occupied: &CpuSet) -> Vec<Vec<ObjectIndex>> {
        let mut groups: Vec<Vec<ObjectIndex>> = Vec::new();
        for &child in &self.object(index).children {
            let is_free = |i| self.pus_of(i).iter().all(|pu| !occupied.contains(pu.cpu));
            match groups.last_mut() {
                Some(group) if is_free(child) && is_free(group[0]) && self.look_alike(group[0], child) => {
                    group.push(child);
                }
                _ => groups.push(vec![child]),
            }
        }
        (groups.into_iter())
            .flat_map(|group| match group.len() {
                ..=MAX_SIBLINGS => group.into_iter().map(|child| vec![child]).collect(),
                _ => vec![group],
            })
            .collect()
    }

    /// Whether two objects differ in nothing but numbers and amounts of memory.
    fn look_alike(&self, a: ObjectIndex, b: ObjectIndex) -> bool {
        let (x, y) = (self.object(a), self.object(b));
        let same = x.kind == y.kind
            && x.cache == y.cache
            && x.shared_units == y.shared_units
            && x.numa_nodes.len() == y.numa_nodes.len()
            && (x.numa_nodes.iter().zip(&y.numa_nodes))
                .all(|(&p, &q)| self.numa_node(p).forbidden == self.numa_node(q).forbidden)
            && x.children.len() == y.children.len();
        if x.kind == Kind::Pu {
            let (p, q) = (&self.pus_of(a)[0], &self.pus_of(b)[0]);
            return same && p.forbidden == q.forbidden && self.core_kind(p.cpu) == self.core_kind(q.cpu);
        }
        same && x.children.iter().zip(&y.children).all(|(&a, &b)| self.look_alike(a, b))
    }
}

/// A size with a binary unit, such as `48 KiB` or `5.8 GiB`.
pub fn bytes(bytes: NonZeroU64) -> String {
    let mut amount = bytes.get() as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if amount < 1024.0 {
            break;
        }
        amount /= 1024.0;
        unit = next;
    }
    let text = format!("{amount:.1}");
    format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
}
