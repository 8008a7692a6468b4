//! From a machine to its shape: which of its objects are of one type, and which of them may change places.
//!
//! Types are given from the PUs outwards: two objects have one type when their own facts agree, and their children's types,
//! and the distances between the children's memories. In most machines children of one type may then change places in any
//! way. Where NUMA distances allow only some exchanges (a ring of four packages) this goes on:
//!
//! 1. An object whose memories do not all look the same from outside is taken apart, until every part looks the same from
//!    outside, and distances are between parts.
//! 2. Parts that may be exchanged, all else unmoved, are put together as twins; an object with a single part left becomes a
//!    part itself; and again.
//! 3. For what is left, the permutations that keep types, distances and objects are looked for one by one.

use super::DistinctError;
use super::shape::{Form, Member, Permutation, Rank, ShapeId, Shapes};

use crate::tree::{Cache, Kind, Machine, NumaIndex, NumaNode, ObjectIndex, PuIndex};
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// More permutations of one object's parts are not gone through.
pub(super) const MAX_SYMMETRIES: usize = 10_000;

/// Looking for permutations ends after so many tries.
const MAX_TRIES: usize = 10_000_000;

/// The symmetry of a machine.
pub(super) struct Symmetry {
    pub shapes: Shapes,
    /// The shape of the machine; none when no CPU is usable.
    pub root: Option<ShapeId>,
    /// The usable CPUs in the order of the shape's cells.
    pub cells: Vec<PuIndex>,
}

impl Symmetry {
    pub fn new(machine: &Machine) -> Result<Self, DistinctError> {
        let mut finder = Finder::new(machine);
        let part = finder.object(ObjectIndex::MACHINE)?;
        Ok(Self { shapes: finder.shapes, root: part.shape, cells: part.cells })
    }
}

/// A type by its place in [`Finder::types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Type(usize);

/// What tells one type from another, apart from the children and their distances.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Object(ObjectLabel),
    /// A NUMA node: its facts and its distance to itself.
    Memory(MemoryLabel, u32),
    /// So many parts that may be exchanged, at this distance from each other.
    Twins(usize, Option<(u32, u32)>),
}

/// The facts of one object that a symmetry keeps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ObjectLabel {
    kind: Kind,
    cache: Option<CacheLabel>,
    shared_units: Vec<String>,
    /// Each of its NUMA nodes, in rising order.
    memories: Vec<MemoryLabel>,
    /// For a PU, whether it may be used, and its core's kind.
    usable: bool,
    core_kind: Option<usize>,
}

/// A NUMA node's amount of memory, and whether we may not use it.
type MemoryLabel = (Option<u128>, bool);

/// Size, line and ways; zero ways are a fully associative cache.
type CacheLabel = (Option<NonZeroU64>, Option<NonZeroU64>, Option<u32>);

/// What two parts are to each other: how many of the objects taken apart hold both, and the distances there and back.
type Relation = (usize, Option<(u32, u32)>);

/// A type: its label, its parts' types, and the parts' relations row by row.
struct Known {
    label: Label,
    parts: Vec<Type>,
    /// The labels of the objects taken apart around each part.
    around: Vec<Vec<ObjectLabel>>,
    relations: Vec<Vec<Relation>>,
    /// The permutations that keep all of these.
    symmetries: Vec<Permutation>,
}

/// A part of the tree.
#[derive(Clone)]
struct Part {
    type_of: Type,
    /// None without a usable CPU.
    shape: Option<ShapeId>,
    cells: Vec<PuIndex>,
    /// Any NUMA node in it: from outside they all look the same.
    memory: Option<NumaIndex>,
    /// The objects taken apart around it, from the outside in.
    around: Vec<ObjectIndex>,
}

struct Finder<'m> {
    machine: &'m Machine,
    shapes: Shapes,
    types: Vec<Known>,
    /// The types with this label and these parts; they differ in relations.
    by_parts: BTreeMap<(Label, Vec<Type>), Vec<Type>>,
    /// By object, whether all NUMA nodes in it look the same from outside.
    is_module: Vec<bool>,
    /// By CPU in tree order, the kind of core.
    core_kinds: Vec<Option<usize>>,
}

impl<'m> Finder<'m> {
    fn new(machine: &'m Machine) -> Self {
        let mut core_kinds = vec![None; machine.pus().len()];
        for (kind, core_kind) in machine.core_kinds().iter().enumerate().rev() {
            for pu in core_kind.cpus.iter().filter_map(|cpu| machine.pu_index(cpu)) {
                core_kinds[pu.at()] = Some(kind);
            }
        }
        Self {
            machine,
            shapes: Shapes::default(),
            types: Vec::new(),
            by_parts: BTreeMap::new(),
            is_module: modules(machine),
            core_kinds,
        }
    }

    /// The object as one part, after all that is inside.
    fn object(&mut self, index: ObjectIndex) -> Result<Part, DistinctError> {
        let label = Label::Object(self.label(index));
        let mut parts = Vec::new();
        self.collect(index, &mut Vec::new(), &mut parts)?;
        self.contract(&mut parts)?;
        let object = self.machine.object(index);
        let mut part = self.compose(label, parts, Some(object.rank), Vec::new())?;
        if object.kind == Kind::Pu && self.machine.pus_of(index)[0].forbidden.is_none() {
            part.shape = Some(self.shapes.add(Form::Cpu, None));
            part.cells = vec![PuIndex(object.pus.start)];
        }
        Ok(part)
    }

    /// The parts inside an object: its children, or what is inside those that have to be taken apart.
    fn collect(
        &mut self,
        index: ObjectIndex,
        around: &mut Vec<ObjectIndex>,
        into: &mut Vec<Part>,
    ) -> Result<(), DistinctError> {
        let machine = self.machine;
        if let Some(distances) = machine.numa_distances() {
            for &node in &machine.object(index).numa_nodes {
                let to_itself = distances[node.at()][node.at()];
                let label = Label::Memory(memory_label(machine.numa_node(node)), to_itself);
                let mut part = self.compose(label, Vec::new(), None, around.clone())?;
                part.memory = Some(node);
                into.push(part);
            }
        }
        for &child in &machine.object(index).children {
            if self.is_module[child.at()] {
                let part = self.object(child)?;
                into.push(Part { around: around.clone(), ..part });
            } else {
                around.push(child);
                self.collect(child, around, into)?;
                around.pop();
            }
        }
        Ok(())
    }

    /// Puts twins together, and makes parts of the objects that have a single part left, as long as there are any.
    fn contract(&mut self, parts: &mut Vec<Part>) -> Result<(), DistinctError> {
        loop {
            let before = parts.len();
            self.join_twins(parts)?;
            let finished = self.close_objects(parts)?;
            if finished && parts.len() == before {
                return Ok(());
            }
        }
    }

    fn join_twins(&mut self, parts: &mut Vec<Part>) -> Result<(), DistinctError> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut groups_of: BTreeMap<(Type, &[ObjectIndex]), Vec<usize>> = BTreeMap::new();
        for (i, part) in parts.iter().enumerate() {
            let candidates = groups_of.entry((part.type_of, &part.around)).or_default();
            // Being twins is transitive, so comparing with the first of a group is enough.
            match candidates.iter().find(|&&group| self.are_twins(parts, groups[group][0], i)) {
                Some(&group) => groups[group].push(i),
                None => {
                    candidates.push(groups.len());
                    groups.push(vec![i]);
                }
            }
        }
        let mut joined = Vec::with_capacity(groups.len());
        for group in groups {
            let members: Vec<Part> = group.iter().map(|&i| parts[i].clone()).collect();
            joined.push(match members.len() {
                1 => members[0].clone(),
                _ => self.twins(members)?,
            });
        }
        *parts = joined;
        Ok(())
    }

    /// Whether exchanging two parts of one type inside the same objects, all else unmoved, keeps all distances.
    fn are_twins(&self, parts: &[Part], a: usize, b: usize) -> bool {
        if parts[a].memory.is_none() && parts[b].memory.is_none() {
            return true;
        }
        let distances = |from: usize, to: usize| self.distances(&parts[from], &parts[to]);
        distances(a, b) == distances(b, a)
            && (0..parts.len()).filter(|&other| other != a && other != b).all(|c| distances(a, c) == distances(b, c))
    }

    /// Twins as one part.
    fn twins(&mut self, members: Vec<Part>) -> Result<Part, DistinctError> {
        let first = members[0].clone();
        let label = Label::Twins(members.len(), self.distances(&first, &members[1]));
        let (type_of, _) = self.type_of(label, vec![first.type_of], vec![Vec::new()], vec![Vec::new()])?;
        let shape = first.shape.map(|part| self.shapes.add(Form::Twins { part, count: members.len() }, None));
        Ok(Part { type_of, shape, cells: members.into_iter().flat_map(|part| part.cells).collect(), ..first })
    }

    /// Makes parts of the objects that have a single part left. True when there was none.
    fn close_objects(&mut self, parts: &mut Vec<Part>) -> Result<bool, DistinctError> {
        let mut holders: BTreeMap<ObjectIndex, usize> = BTreeMap::new();
        for object in parts.iter().flat_map(|part| &part.around) {
            *holders.entry(*object).or_default() += 1;
        }
        let mut finished = true;
        for part in parts {
            let Some(&object) = part.around.last() else { continue };
            // All else in the object has been joined into this part: the object can be whole again.
            if holders[&object] == 1 {
                let mut around = part.around.clone();
                around.pop();
                let label = Label::Object(self.label(object));
                let inside = Part { around: Vec::new(), ..part.clone() };
                let rank = self.machine.object(object).rank;
                *part = self.compose(label, vec![inside], Some(rank), around)?;
                finished = false;
            }
        }
        Ok(finished)
    }

    /// One part out of several that are no twins; of `level` when they are all that an object holds.
    fn compose(
        &mut self,
        label: Label,
        mut parts: Vec<Part>,
        level: Option<Rank>,
        around: Vec<ObjectIndex>,
    ) -> Result<Part, DistinctError> {
        // Sorted, so that objects whose equal parts come in another order have the same key.
        parts.sort_by_key(|part| part.type_of);
        let types = parts.iter().map(|part| part.type_of).collect();
        let labels = parts.iter().map(|part| part.around.iter().map(|&object| self.label(object)).collect()).collect();
        let relations = parts.iter().map(|from| parts.iter().map(|to| self.relation(from, to)).collect()).collect();
        let (type_of, arrangement) = self.type_of(label, types, labels, relations)?;
        // In the order of the first object of this type, so that cells correspond.
        let parts: Vec<Part> = arrangement.iter().map(|&i| parts[i].clone()).collect();
        let shape = self.tuple(&parts, type_of, level);
        let memory = parts.iter().find_map(|part| part.memory);
        Ok(Part { type_of, shape, memory, cells: parts.into_iter().flat_map(|part| part.cells).collect(), around })
    }

    /// The shape of the parts that have a usable CPU.
    fn tuple(&mut self, parts: &[Part], type_of: Type, level: Option<Rank>) -> Option<ShapeId> {
        let places: Vec<usize> = (0..parts.len()).filter(|&i| parts[i].shape.is_some()).collect();
        let shapes: Vec<ShapeId> = parts.iter().filter_map(|part| part.shape).collect();
        // A single part has nothing to change places with: the object is that part.
        if let [] | [_] = shapes.as_slice() {
            let only = *shapes.first()?;
            return Some(level.map_or(only, |level| self.shapes.seal(only, level)));
        }
        let place_of = |part: usize| places.iter().position(|&place| place == part);
        let mut symmetries: Vec<Permutation> = (self.types[type_of.0].symmetries.iter())
            .map(|permutation| places.iter().filter_map(|&place| place_of(permutation[place])).collect())
            .collect();
        // Permutations that differ only in parts without a usable CPU are one.
        symmetries.sort_unstable();
        symmetries.dedup();
        let objects = self.members(&places.iter().map(|&place| &parts[place]).collect::<Vec<_>>());
        Some(self.shapes.add(Form::Tuple { parts: shapes, symmetries, objects }, level))
    }

    /// The objects taken apart around the parts of a tuple, as a tree.
    fn members(&self, parts: &[&Part]) -> Vec<Member> {
        fn within(machine: &Machine, parts: &[&Part], chosen: &[usize], depth: usize) -> Vec<Member> {
            let mut members = Vec::new();
            let mut seen: Vec<ObjectIndex> = Vec::new();
            for &part in chosen {
                match parts[part].around.get(depth) {
                    None => members.push(Member::Part(part)),
                    Some(object) if seen.contains(object) => {}
                    Some(object) => {
                        seen.push(*object);
                        let inside: Vec<usize> =
                            (chosen.iter().copied()).filter(|&i| parts[i].around.get(depth) == Some(object)).collect();
                        let rank = machine.object(*object).rank;
                        members.push(Member::Object(rank, within(machine, parts, &inside, depth + 1)));
                    }
                }
            }
            members
        }
        within(self.machine, parts, &(0..parts.len()).collect::<Vec<_>>(), 0)
    }

    /// The type with these facts, new or known, and the order of the parts that fits it.
    fn type_of(
        &mut self,
        label: Label,
        parts: Vec<Type>,
        around: Vec<Vec<ObjectLabel>>,
        relations: Vec<Vec<Relation>>,
    ) -> Result<(Type, Permutation), DistinctError> {
        let mut new = Known { label, parts, around, relations, symmetries: Vec::new() };
        let key = (new.label.clone(), new.parts.clone());
        for &known in self.by_parts.get(&key).into_iter().flatten() {
            if let Some(arrangement) = isomorphisms(&self.types[known.0], &new, 1)?.pop() {
                return Ok((known, arrangement));
            }
        }
        // Its symmetries are the ways to map it onto itself; one more than allowed shows that there are too many.
        new.symmetries = isomorphisms(&new, &new, MAX_SYMMETRIES + 1)?;
        if new.symmetries.len() > MAX_SYMMETRIES {
            return Err(DistinctError::TooSymmetric);
        }
        let type_of = Type(self.types.len());
        let identity = (0..new.parts.len()).collect();
        self.types.push(new);
        self.by_parts.entry(key).or_default().push(type_of);
        Ok((type_of, identity))
    }

    fn relation(&self, from: &Part, to: &Part) -> Relation {
        let shared = from.around.iter().zip(&to.around).take_while(|(a, b)| a == b).count();
        (shared, self.distances(from, to))
    }

    /// The NUMA distances from one part to another and back; none when one has no memory or they aren't known.
    fn distances(&self, from: &Part, to: &Part) -> Option<(u32, u32)> {
        let distances = self.machine.numa_distances()?;
        let (from, to) = (from.memory?.at(), to.memory?.at());
        Some((distances[from][to], distances[to][from]))
    }

    fn label(&self, index: ObjectIndex) -> ObjectLabel {
        let object = self.machine.object(index);
        let pu = (object.kind == Kind::Pu).then(|| &self.machine.pus_of(index)[0]);
        let mut memories: Vec<MemoryLabel> =
            object.numa_nodes.iter().map(|&node| memory_label(self.machine.numa_node(node))).collect();
        memories.sort_unstable();
        ObjectLabel {
            kind: object.kind,
            cache: object.cache.as_ref().map(cache_label),
            shared_units: object.shared_units.clone(),
            memories,
            usable: pu.is_some_and(|pu| pu.forbidden.is_none()),
            core_kind: pu.and_then(|pu| self.core_kinds[self.machine.pu_index(pu.cpu)?.at()]),
        }
    }
}

fn cache_label(cache: &Cache) -> CacheLabel {
    use crate::tree::Associativity::{Full, Ways};
    let ways = cache.associativity.map(|associativity| match associativity {
        Ways(ways) => ways,
        Full => 0,
    });
    (cache.size_bytes, cache.line_bytes, ways)
}

fn memory_label(node: &NumaNode) -> MemoryLabel {
    (node.memory_bytes.map(memory_class), node.forbidden)
}

/// An amount of memory rounded up to the next of 1, 1.25, 1.5 and 1.75 times a power of two, in quarters of a byte: what
/// kernel and firmware keep for themselves makes no difference between nodes.
fn memory_class(bytes: NonZeroU64) -> u128 {
    let power = 1_u128 << bytes.ilog2();
    let quarters = (4 * (u128::from(bytes.get()) - power)).div_ceil(power);
    (4 + quarters) * power
}

/// By object, whether all NUMA nodes in it are at the same distances, there and back, from each node outside.
fn modules(machine: &Machine) -> Vec<bool> {
    let Some(distances) = machine.numa_distances() else {
        return vec![true; machine.objects().count()];
    };
    let nodes = machine.numa_nodes_inside();
    let looks_like = |a: usize, b: usize, from: usize| {
        distances[a][from] == distances[b][from] && distances[from][a] == distances[from][b]
    };
    (nodes.iter())
        .map(|inside| {
            let outside = |node: &usize| !inside.contains(node);
            inside
                .clone()
                .skip(1)
                .all(|node| (0..distances.len()).filter(outside).all(|from| looks_like(inside.start, node, from)))
        })
        .collect()
}

/// Up to `limit` ways to arrange the parts of `new` so that they fit those of `known`: `arrangement[i]` fits part `i`.
fn isomorphisms(known: &Known, new: &Known, limit: usize) -> Result<Vec<Permutation>, DistinctError> {
    let parts = known.parts.len();
    let mut found = Vec::new();
    let mut arrangement: Vec<usize> = Vec::with_capacity(parts);
    let mut used = vec![false; parts];
    let mut candidate = 0;
    let mut tries = 0_usize;
    loop {
        let place = arrangement.len();
        let fits = |part: usize| {
            !used[part]
                && known.parts[place] == new.parts[part]
                && known.around[place] == new.around[part]
                && (arrangement.iter().zip(&known.relations[place]))
                    .all(|(&earlier, relation)| *relation == new.relations[part][earlier])
        };
        let next = if place == parts { None } else { (candidate..parts).find(|&part| fits(part)) };
        tries += 1;
        if tries > MAX_TRIES {
            return Err(DistinctError::TooSymmetric);
        }
        match next {
            Some(part) => {
                used[part] = true;
                arrangement.push(part);
                candidate = 0;
            }
            None => {
                if place == parts {
                    found.push(arrangement.clone());
                    if found.len() == limit {
                        return Ok(found);
                    }
                }
                let Some(last) = arrangement.pop() else { return Ok(found) };
                used[last] = false;
                candidate = last + 1;
            }
        }
    }
}
