//! Distinct placements of ranks x threads: counted by cycle indexes, and listed one by one.
//!
//! A placement of `R` ranks with `T` threads is a family of `R` disjoint sets of `T` CPUs. It stays the same when ranks change their
//! numbers and threads theirs within a rank, and counts as the same when a symmetry of the machine maps one onto the other. A
//! rank may lie in several parts of the machine, so the parts can't be counted apart, as those of a single program are. What is needed
//! of the group is how many of its elements have which cycles on the CPUs: its cycle index. With that of the group which
//! exchanges ranks and their threads, the superposition theorem counts the classes (Redfield 1927, Read 1959).

use super::polynomial::binomial;
use super::shape::{Form, ShapeId, Shapes};
use super::{Distinct, DistinctError};
use crate::cpu::CpuId;
use crate::placement::Placement;
use crate::policy::join;
use crate::ranks::{RankPlacement, RankShape};
use num_bigint::BigUint;
use std::collections::{BTreeMap, BTreeSet};

/// More kinds of cycles than this are not multiplied: it would take minutes.
const MAX_CYCLE_TYPES: usize = 20_000;

/// More placements than this are not compared to list the classes: it would take minutes.
const MAX_COMPARED: usize = 3_000_000;

/// How often each length of cycle comes, without lengths that don't: a permutation up to what it moves where.
type CycleType = BTreeMap<usize, usize>;

/// How many elements of a group of permutations have which cycles.
#[derive(Clone)]
struct CycleIndex {
    order: BigUint,
    elements: BTreeMap<CycleType, BigUint>,
}

impl CycleIndex {
    /// The group that moves nothing, on so many points.
    fn identity(points: usize) -> Self {
        let cycles = if points == 0 { CycleType::new() } else { CycleType::from([(1, points)]) };
        Self { order: 1_u32.into(), elements: BTreeMap::from([(cycles, 1_u32.into())]) }
    }

    /// Two groups beside each other.
    fn times(&self, other: &Self) -> Result<Self, DistinctError> {
        let mut elements = BTreeMap::new();
        for (a, count_a) in &self.elements {
            for (b, count_b) in &other.elements {
                let mut cycles = a.clone();
                for (&length, &count) in b {
                    *cycles.entry(length).or_default() += count;
                }
                *elements.entry(cycles).or_insert_with(BigUint::default) += count_a * count_b;
                if elements.len() > MAX_CYCLE_TYPES {
                    return Err(DistinctError::TooManyCycleTypes);
                }
            }
        }
        Ok(Self { order: &self.order * &other.order, elements })
    }

    /// What `count` copies of the group do when they are moved in a cycle: going round once is an element of the group, and each
    /// element comes as often as the others can be chosen.
    fn cycled(&self, count: usize) -> Self {
        let others = self.order.pow(count as u32 - 1);
        let stretched = |cycles: &CycleType| cycles.iter().map(|(&length, &n)| (length * count, n)).collect();
        let elements = self.elements.iter().map(|(cycles, n)| (stretched(cycles), n * &others)).collect();
        Self { order: &self.order * &others, elements }
    }

    /// `count` copies that may change places in any way: the wreath product. Cycles of other lengths than `lengths` are left out.
    fn copied(&self, count: usize, lengths: &dyn Fn(usize) -> bool) -> Result<Self, DistinctError> {
        // The cycle in which the last copy is: with `length - 1` others, chosen and ordered.
        let mut all = vec![Self::identity(0)];
        for copies in 1..=count {
            let mut elements: BTreeMap<CycleType, BigUint> = BTreeMap::new();
            for length in 1..=copies {
                let mut cycle = self.cycled(length);
                cycle.elements.retain(|cycles, _| cycles.keys().all(|&length| lengths(length)));
                let chosen = (copies - length + 1..copies).fold(BigUint::from(1_u32), |ways, i| ways * i);
                for (cycles, n) in cycle.times(&all[copies - length])?.elements {
                    *elements.entry(cycles).or_default() += n * &chosen;
                }
            }
            if elements.len() > MAX_CYCLE_TYPES {
                return Err(DistinctError::TooManyCycleTypes);
            }
            all.push(Self { order: &all[copies - 1].order * &self.order * copies, elements });
        }
        Ok(all.swap_remove(count))
    }

    /// That of a machine's symmetries, on its usable CPUs.
    fn of_shape(shapes: &Shapes, root: ShapeId) -> Result<Self, DistinctError> {
        let mut known: Vec<Self> = Vec::new();
        for (id, shape) in shapes.iter() {
            known.push(match &shape.form {
                Form::Cpu => Self::identity(1),
                Form::Twins { part, count } => known[shapes.position(*part)].copied(*count, &|_| true)?,
                Form::Tuple { parts, symmetries, .. } => {
                    let of_part = |part: usize| &known[shapes.position(parts[part])];
                    let order = parts.iter().map(|&part| &known[shapes.position(part)].order).product::<BigUint>();
                    let mut elements: BTreeMap<CycleType, BigUint> = BTreeMap::new();
                    for permutation in symmetries {
                        let mut product = Self::identity(0);
                        for (part, length) in cycles_of(permutation) {
                            product = product.times(&of_part(part).cycled(length))?;
                        }
                        for (cycles, n) in product.elements {
                            *elements.entry(cycles).or_default() += n;
                        }
                    }
                    Self { order: order * symmetries.len(), elements }
                }
            });
            if id == root {
                break;
            }
        }
        known.pop().ok_or(DistinctError::NoThreads)
    }
}

/// A place of each cycle, and how long the cycle is.
fn cycles_of(permutation: &[usize]) -> Vec<(usize, usize)> {
    let mut seen = vec![false; permutation.len()];
    let mut cycles = Vec::new();
    for begin in 0..permutation.len() {
        let (mut at, mut length) = (begin, 0);
        while !std::mem::replace(&mut seen[at], true) {
            at = permutation[at];
            length += 1;
        }
        if length > 0 {
            cycles.push((begin, length));
        }
    }
    cycles
}

/// The ways to map points with the cycles `few` one to one into points with the cycles `many`, such that cycles go to cycles.
fn embeddings(few: &CycleType, many: &CycleType) -> BigUint {
    few.iter().fold(BigUint::from(1_u32), |ways, (&length, &count)| {
        let there = many.get(&length).copied().unwrap_or(0);
        if there < count {
            return BigUint::default();
        }
        (there - count + 1..=there).fold(ways, |ways, i| ways * i * length)
    })
}

impl Distinct<'_> {
    /// The number of classes of placements of ranks x threads.
    ///
    /// # Errors
    /// As [`Distinct::classes`], and [`DistinctError::TooManyCycleTypes`] on machines that are too large.
    pub fn rank_classes(&self, shape: RankShape) -> Result<BigUint, DistinctError> {
        self.check(shape.total())?;
        let machine = CycleIndex::of_shape(&self.shapes, self.root)?;
        let there: BTreeSet<usize> = machine.elements.keys().flat_map(CycleType::keys).copied().collect();
        // Only cycles that a symmetry has can be mapped into its own; with a length, all that divide it are there.
        let lengths = |length: usize| there.contains(&length);
        let threads = CycleIndex::identity(1).copied(shape.threads, &lengths)?;
        let ranks = threads.copied(shape.ranks, &lengths)?;
        // Burnside's lemma for both groups together, on the ways to give each thread of each rank a CPU of its own.
        let mut fixed = BigUint::default();
        for (few, count_few) in &ranks.elements {
            for (many, count_many) in &machine.elements {
                fixed += embeddings(few, many) * count_few * count_many;
            }
        }
        Ok(fixed / (machine.order * ranks.order))
    }

    /// The number of all placements of ranks x threads: families of disjoint sets of usable CPUs.
    ///
    /// # Errors
    /// As [`Distinct::classes`].
    pub fn rank_families(&self, shape: RankShape) -> Result<BigUint, DistinctError> {
        self.check(shape.total())?;
        let mut left = self.cpus.len();
        let (mut all, mut orders) = (BigUint::from(1_u32), BigUint::from(1_u32));
        for rank in 1..=shape.ranks {
            all *= binomial(&left.into(), shape.threads);
            orders *= rank;
            left -= shape.threads;
        }
        Ok(all / orders)
    }

    /// One placement of each class, ranks and threads in the order of the machine's tree; ranks that lie closest together first.
    ///
    /// # Errors
    /// As [`Distinct::classes`], and [`DistinctError::TooManyToList`] where listing them would take too long.
    pub fn rank_placements(&self, shape: RankShape) -> Result<Vec<RankPlacement>, DistinctError> {
        self.check(shape.total())?;
        let mut words: BTreeSet<Vec<Owner>> = BTreeSet::from([vec![FREE; self.cpus.len()]]);
        let mut compared = 0;
        // Rank by rank: each class with one more rank comes from a class without it.
        for rank in 0..shape.ranks {
            let mut next = BTreeSet::new();
            for word in &words {
                let owners = self.owners(word);
                let free: Vec<usize> = (0..owners.len()).filter(|&cell| owners[cell].is_none()).collect();
                for chosen in Combinations::new(free.len(), shape.threads) {
                    let mut owners = owners.clone();
                    for &place in &chosen {
                        owners[free[place]] = Some(rank);
                    }
                    compared += 1;
                    next.insert(self.canonical(&owners, rank + 1, &mut compared)?);
                }
            }
            words = next;
        }
        let mut placements: Vec<RankPlacement> =
            words.iter().map(|word| self.rank_placement(&self.owners(word), shape.ranks)).collect();
        placements.sort_by_cached_key(|placement| {
            let cpus = placement.row().slots.into_iter().filter_map(|slot| slot.only());
            cpus.map(|cpu| self.machine.pu_index(cpu)).collect::<Vec<_>>()
        });
        Ok(placements)
    }

    /// The placement that stands for the class of this one.
    ///
    /// # Errors
    /// [`DistinctError::Unusable`], and [`DistinctError::TooManyToList`] where too many ranks lie across the machine.
    pub fn rank_class_of(&self, placement: &RankPlacement) -> Result<RankPlacement, DistinctError> {
        let mut owners = vec![None; self.cpus.len()];
        for (rank, cpus) in placement.ranks.iter().enumerate() {
            for cpu in cpus.union().iter() {
                let cell = self.cells.get(&cpu);
                let state = || DistinctError::Unusable { cpu, state: self.machine.state(cpu) };
                owners[*cell.ok_or_else(state)?] = Some(rank);
            }
        }
        let word = self.canonical(&owners, placement.ranks.len(), &mut 0)?;
        Ok(self.rank_placement(&self.owners(&word), placement.ranks.len()))
    }

    /// The first of all words of the placements that are the same: owners by cell, without numbers of ranks.
    fn canonical(
        &self,
        owners: &[Option<usize>],
        ranks: usize,
        compared: &mut usize,
    ) -> Result<Vec<Owner>, DistinctError> {
        let mut names = vec![None; ranks];
        self.first_word(self.root, owners, 0, &mut names, compared)
    }

    /// The first word of a part. Ranks that have CPUs outside have their names; what lies in it alone is named here, in all ways
    /// where it is in several of its parts, and further in where it is not.
    fn first_word(
        &self,
        id: ShapeId,
        owners: &[Option<usize>],
        depth: usize,
        names: &mut Vec<Option<Owner>>,
        compared: &mut usize,
    ) -> Result<Vec<Owner>, DistinctError> {
        *compared += 1;
        if *compared > MAX_COMPARED {
            return Err(DistinctError::TooManyToList);
        }
        if let Form::Cpu = self.shapes.get(id).form {
            return Ok(vec![owners[0].map_or(FREE, |rank| names[rank].unwrap_or((depth, 0)))]);
        }
        let parts: Vec<_> = self.shapes.parts_with_cells(id).collect();
        let mut parts_of: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (part, (_, cells)) in parts.iter().enumerate() {
            for rank in owners[cells.clone()].iter().flatten().filter(|&&rank| names[rank].is_none()) {
                parts_of.entry(*rank).or_default().insert(part);
            }
        }
        let across: Vec<usize> =
            parts_of.into_iter().filter(|(_, parts)| parts.len() > 1).map(|(rank, _)| rank).collect();
        let mut first: Option<Vec<Owner>> = None;
        for order in Permutations::new(across.len()) {
            for (&rank, &number) in across.iter().zip(&order) {
                names[rank] = Some((depth, number));
            }
            let mut word = Vec::with_capacity(owners.len());
            for (part, cells) in &parts {
                word.extend(self.first_word(*part, &owners[cells.clone()], depth + 1, names, compared)?);
            }
            // The parts are in their first words already; what is left is to put them into their first order.
            self.shapes.arrange_parts(id, &mut word, &|_, a, b| a.cmp(b));
            if first.as_ref().is_none_or(|first| word < *first) {
                first = Some(word);
            }
        }
        across.iter().for_each(|&rank| names[rank] = None);
        Ok(first.unwrap_or_default())
    }

    /// The ranks by cell that a word is of, numbered as they come.
    fn owners(&self, word: &[Owner]) -> Vec<Option<usize>> {
        let mut owners = vec![None; word.len()];
        self.read_word(self.root, word, &mut Vec::new(), &mut 0, &mut owners);
        owners
    }

    /// Reads a part of a word. `around` has the numbers of the ranks that were named by the parts around it.
    fn read_word(
        &self,
        id: ShapeId,
        word: &[Owner],
        around: &mut Vec<BTreeMap<usize, usize>>,
        next: &mut usize,
        owners: &mut [Option<usize>],
    ) {
        around.push(BTreeMap::new());
        if let Form::Cpu = self.shapes.get(id).form {
            let (level, name) = word[0];
            owners[0] = (word[0] != FREE).then(|| {
                *around[level].entry(name).or_insert_with(|| {
                    *next += 1;
                    *next - 1
                })
            });
        } else {
            for (part, cells) in self.shapes.parts_with_cells(id) {
                self.read_word(part, &word[cells.clone()], around, next, &mut owners[cells]);
            }
        }
        around.pop();
    }

    fn rank_placement(&self, owners: &[Option<usize>], ranks: usize) -> RankPlacement {
        let mut cpus: Vec<Vec<CpuId>> = vec![Vec::new(); ranks];
        for (cell, owner) in owners.iter().enumerate() {
            if let Some(rank) = owner {
                cpus[*rank].push(self.cpus[cell]);
            }
        }
        let position = |cpu: &CpuId| self.machine.pu_index(*cpu);
        cpus.iter_mut().for_each(|cpus| cpus.sort_unstable_by_key(position));
        cpus.sort_by_key(|cpus| cpus.first().and_then(position));
        let name = cpus.iter().map(|cpus| join(cpus, ",")).collect::<Vec<_>>().join("/");
        let ranks = cpus.into_iter().map(|cpus| Placement::from_cpus("list", cpus)).collect();
        RankPlacement { policy: name, ranks }
    }
}

/// Whose a CPU is: of those ranks that lie in several parts of what is so deep in the tree, the one with this number.
type Owner = (usize, usize);

/// Nobody's. It comes last, so that the first words are those of the first CPUs.
const FREE: Owner = (usize::MAX, usize::MAX);

/// All ways to choose some of `n`, each in rising order.
struct Combinations {
    n: usize,
    chosen: Option<Vec<usize>>,
}

impl Combinations {
    fn new(n: usize, k: usize) -> Self {
        Self { n, chosen: (k <= n).then(|| (0..k).collect()) }
    }
}

impl Iterator for Combinations {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let chosen = self.chosen.take()?;
        let k = chosen.len();
        let last = (0..k).rev().find(|&i| chosen[i] < self.n - k + i);
        self.chosen = last.map(|last| {
            let mut next = chosen.clone();
            (last..k).for_each(|i| next[i] = chosen[last] + 1 + i - last);
            next
        });
        Some(chosen)
    }
}

/// All orders of `n` things.
struct Permutations {
    order: Option<Vec<usize>>,
}

impl Permutations {
    fn new(n: usize) -> Self {
        Self { order: Some((0..n).collect()) }
    }
}

impl Iterator for Permutations {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let order = self.order.take()?;
        let mut next = order.clone();
        // The next in lexicographic order: the last rise is raised by the least that can be, and what follows starts anew.
        if let Some(rise) = (1..next.len()).rev().find(|&i| next[i - 1] < next[i]) {
            let larger = (rise..next.len()).rev().find(|&i| next[i] > next[rise - 1]).unwrap_or(rise);
            next.swap(rise - 1, larger);
            next[rise..].reverse();
            self.order = Some(next);
        }
        Some(order)
    }
}
