//! Every distinct placement: one for each class of CPU sets that no symmetry of the machine maps onto one another.
//!
//! A symmetry exchanges objects of one type: it keeps the tree, kinds of object, cache facts, shared units, kinds of core, which
//! CPUs may be used, the memory of NUMA nodes, and the distances between them. It may change all numbers.
//!
//! [`Distinct::new`] finds the symmetries of a machine, once. Classes are then counted without being made
//! ([`Distinct::classes`]), made one by one ([`Distinct::iter`]), or picked ([`Distinct::important`]). The mathematics stands in
//! `docs/design/distinct-placements.md`.

mod count;
mod enumerate;
mod important;
mod order;
mod polynomial;
mod ranks;
mod shape;
mod symmetry;

pub use order::Neighbours;

use crate::cpu::{CpuId, CpuSet, cpu_list};
use crate::placement::Placement;
use crate::policy::Policy;
use crate::tree::{CpuState, Machine, ObjectIndex, PuIndex};
use enumerate::{Cursor, Tables};
use num_bigint::BigUint;
use order::Ordered;
use polynomial::Polynomial;
use shape::{Form, Rank, ShapeId, Shapes};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use symmetry::Symmetry;

/// Why there are no distinct placements.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistinctError {
    /// No thread to place.
    #[error("the number of threads must be at least 1")]
    NoThreads,
    /// Every CPU is forbidden.
    #[error("no CPU of machine `{0}` is usable")]
    NoUsableCpu(String),
    /// Distinct placements give each thread a CPU of its own.
    #[error(
        "{threads} threads can't each have a CPU: machine `{machine}` has {usable} that are usable; ask for fewer threads"
    )]
    TooManyThreads {
        /// The number of threads.
        threads: usize,
        /// The number of usable CPUs.
        usable: usize,
        /// The machine's name.
        machine: String,
    },
    /// A CPU of a set can't be used.
    #[error("CPU {cpu} can't be used: {state}")]
    Unusable {
        /// The CPU.
        cpu: CpuId,
        /// Why not.
        state: CpuState,
    },
    /// The search for symmetries would take too long.
    #[error(
        "the NUMA distances of this machine leave more than {limit} ways to exchange parts of one object, too many to go \
         through one by one",
        limit = symmetry::MAX_SYMMETRIES
    )]
    TooSymmetric,
    /// The symmetries of ranks on this machine are too many kinds to count with.
    #[error(
        "this machine is too large to count the distinct placements of ranks by its symmetries; ask for a machine of one node's \
         package, or place ranks by policy"
    )]
    TooManyCycleTypes,
    /// The classes of ranks would take too long to list.
    #[error(
        "there are too many placements of ranks to compare one by one; --count tells their number, and fewer ranks or a smaller machine can be listed"
    )]
    TooManyToList,
}

/// A class of placements, by a representative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The CPU of each thread. Without an order of its own, in the order of the machine's tree.
    pub cpus: Vec<CpuId>,
    /// How many sets of CPUs the class stands for.
    pub cpu_sets: BigUint,
    /// The policies whose placement is in this class, the one that names it first.
    pub policies: Vec<Policy>,
    /// Where the order counts: how neighbours sit at each level that matters, by its name, from the outside in.
    pub order: Vec<(String, Neighbours)>,
}

impl Class {
    /// The policies in the order in which they give their name to a class that several lead to: the names of Weber 2010,
    /// with balanced before unbalanced before semi-balanced, before the others.
    const BY_NAME: [Policy; 5] =
        [Policy::Balanced, Policy::Unbalanced, Policy::SemiBalanced, Policy::Scatter, Policy::Compact];

    /// The policy after which the class is called, if any leads there.
    pub fn name(&self) -> Option<&Policy> {
        self.policies.first()
    }

    /// Its representative as a placement, by the class's name or else its CPU list.
    pub fn placement(&self) -> Placement {
        let name = self.name().map_or_else(|| cpu_list(self.cpus.iter().copied()), Policy::to_string);
        Placement::from_cpus(name, self.cpus.iter().copied())
    }
}

/// The symmetries of a machine.
#[derive(Debug)]
pub struct Distinct<'m> {
    machine: &'m Machine,
    shapes: Shapes,
    root: ShapeId,
    /// The usable CPUs in the order of the shape's cells, and back.
    cpus: Vec<CpuId>,
    cells: BTreeMap<CpuId, usize>,
    /// Whether the cells follow the tree.
    cells_in_tree_order: bool,
    levels: Vec<(Rank, String)>,
    counted: OnceLock<Polynomial>,
    tables: OnceLock<Tables>,
}

/// A policy's placement for a number of threads.
struct Named {
    policy: Policy,
    /// Its CPUs, arranged: the same for all sets of a class.
    set: Vec<bool>,
    /// Its threads by CPU, arranged: the same for all placements that symmetries map onto one another.
    threads: Vec<usize>,
}

impl<'m> Distinct<'m> {
    /// Finds the symmetries of a machine.
    ///
    /// # Errors
    /// [`DistinctError::NoUsableCpu`], and [`DistinctError::TooSymmetric`] where NUMA distances leave too many symmetries.
    pub fn new(machine: &'m Machine) -> Result<Self, DistinctError> {
        let symmetry = Symmetry::new(machine)?;
        let root = symmetry.root.ok_or_else(|| DistinctError::NoUsableCpu(machine.name().into()))?;
        let cpus: Vec<CpuId> = symmetry.cells.iter().map(|&pu| machine.pu(pu).cpu).collect();
        Ok(Self {
            machine,
            shapes: symmetry.shapes,
            root,
            cells_in_tree_order: symmetry.cells.is_sorted(),
            cells: cpus.iter().copied().zip(0..).collect(),
            cpus,
            levels: order::levels(machine),
            counted: OnceLock::new(),
            tables: OnceLock::new(),
        })
    }

    /// The machine.
    pub fn machine(&self) -> &'m Machine {
        self.machine
    }

    /// The number of classes of sets of so many CPUs.
    ///
    /// # Errors
    /// [`DistinctError::NoThreads`] and [`DistinctError::TooManyThreads`].
    pub fn classes(&self, threads: usize) -> Result<BigUint, DistinctError> {
        self.check(threads)?;
        let counted = self.counted.get_or_init(|| count::count(&self.shapes, self.root, &|_| true));
        Ok(counted.coefficient(threads))
    }

    /// The number of classes when the order of threads counts: see [`Neighbours`]. The time doubles with each level of the
    /// machine.
    ///
    /// # Errors
    /// As [`Distinct::classes`].
    pub fn ordered_classes(&self, threads: usize) -> Result<BigUint, DistinctError> {
        self.check(threads)?;
        let levels: Vec<Rank> = self.levels.iter().map(|&(rank, _)| rank).collect();
        Ok(count::count_ordered(&self.shapes, self.root, &levels, threads))
    }

    /// The number of sets of so many usable CPUs: what the sizes of all classes sum to.
    ///
    /// # Errors
    /// As [`Distinct::classes`].
    pub fn cpu_sets(&self, threads: usize) -> Result<BigUint, DistinctError> {
        self.check(threads)?;
        Ok(polynomial::binomial(&self.cpus.len().into(), threads))
    }

    /// Every class once, one after the other; where the machine's parts are alike, from the most together to the most spread.
    ///
    /// An object's children that may change places stand in falling order of their threads. Classes are compared by the
    /// threads of each child of the machine, more in the first child first; then by what is in the first child, and so on.
    /// Unlike children come in the order in which their types first appear in the tree, children of one type together.
    ///
    /// # Errors
    /// As [`Distinct::classes`].
    pub fn iter(&self, threads: usize) -> Result<impl Iterator<Item = Class> + '_, DistinctError> {
        self.check(threads)?;
        let tables = self.tables.get_or_init(|| Tables::new(&self.shapes));
        let named: Vec<(Policy, Vec<CpuId>)> =
            self.named(threads).into_iter().map(|named| (named.policy, self.taken(&named.set))).collect();
        let mut cursor = Some(Cursor::first(&self.shapes, tables, self.root, threads));
        Ok(std::iter::from_fn(move || {
            let at = cursor.as_mut()?;
            let mut cpus = Vec::with_capacity(threads);
            at.for_each_taken(&self.shapes, self.root, 0, &mut |cells| {
                cpus.extend_from_slice(&self.cpus[cells]);
            });
            self.sort(&mut cpus);
            let cpu_sets = at.cpu_sets();
            if !at.advance(&self.shapes, tables) {
                cursor = None;
            }
            let policies = named.iter().filter(|(_, named)| *named == cpus).map(|(policy, _)| policy.clone()).collect();
            Some(Class { cpus, cpu_sets, policies, order: Vec::new() })
        }))
    }

    /// Every class in each of its orders: see [`Neighbours`]. Order by order for each class, all together first.
    ///
    /// # Errors
    /// As [`Distinct::classes`].
    pub fn iter_ordered(&self, threads: usize) -> Result<impl Iterator<Item = Class> + '_, DistinctError> {
        Ok(self.iter(threads)?.flat_map(|class| self.orders(&class)))
    }

    /// A class in each of its orders, all together first. A policy is then in the order that it gives, if in any: a policy's
    /// order may be none of these where children differ in size.
    pub fn orders(&self, class: &Class) -> Vec<Class> {
        let mut pus: Vec<PuIndex> = class.cpus.iter().filter_map(|&cpu| self.machine.pu_index(cpu)).collect();
        pus.sort_unstable();
        let mut together = Ordered::new(self.machine, &pus, &|_| Neighbours::Together);
        together.within(ObjectIndex::MACHINE);
        let matters: Vec<&(Rank, String)> =
            self.levels.iter().filter(|(rank, _)| together.mattered.contains(rank)).collect();
        let named: Vec<Named> = if class.policies.is_empty() { Vec::new() } else { self.named(pus.len()) };
        (0_u64..1 << matters.len())
            .map(|choice| {
                // The outermost level changes last.
                let neighbours = |rank: Rank| match matters.iter().rev().position(|(level, _)| *level == rank) {
                    Some(bit) if choice >> bit & 1 == 1 => Neighbours::Apart,
                    _ => Neighbours::Together,
                };
                let cpus = Ordered::new(self.machine, &pus, &neighbours).within(ObjectIndex::MACHINE);
                let threads = self.arranged_threads(&cpus);
                let policies = named.iter().filter(|named| named.threads == threads);
                Class {
                    policies: policies.map(|named| named.policy.clone()).collect(),
                    order: matters.iter().map(|(rank, name)| (name.clone(), neighbours(*rank))).collect(),
                    cpus,
                    cpu_sets: class.cpu_sets.clone(),
                }
            })
            .collect()
    }

    /// The classes that differ in what the hardware shares and are balanced within, and those of all named policies.
    ///
    /// For each kind of core, any share of the threads; for each level, any number of children that objects use, those with
    /// most room first; and the threads dealt out as evenly as the room allows.
    ///
    /// # Errors
    /// As [`Distinct::classes`].
    pub fn important(&self, threads: usize) -> Result<Vec<Class>, DistinctError> {
        self.check(threads)?;
        let named = self.named(threads);
        let sets = important::sets(self.machine, threads).into_iter().map(|cpus| self.arranged_set(&cpus));
        let mut sets: Vec<Vec<bool>> = sets.chain(named.iter().map(|named| named.set.clone())).collect();
        sets.sort_unstable();
        sets.dedup();
        sets.sort_by(|a, b| self.shapes.together_first(self.root, a, b));
        Ok(sets.iter().map(|set| self.class(set, &named)).collect())
    }

    /// The class that a set of CPUs is in.
    ///
    /// # Errors
    /// [`DistinctError::NoThreads`] for the empty set, [`DistinctError::Unusable`] for the first CPU that can't be used.
    pub fn class_of(&self, cpus: &CpuSet) -> Result<Class, DistinctError> {
        let states = cpus.iter().map(|cpu| (cpu, self.machine.state(cpu)));
        if let Some((cpu, state)) = states.into_iter().find(|(_, state)| *state != CpuState::Usable) {
            return Err(DistinctError::Unusable { cpu, state });
        }
        self.check(cpus.len())?;
        let cpus: Vec<CpuId> = cpus.iter().collect();
        Ok(self.class(&self.arranged_set(&cpus), &self.named(cpus.len())))
    }

    fn check(&self, threads: usize) -> Result<(), DistinctError> {
        let usable = self.cpus.len();
        match threads {
            0 => Err(DistinctError::NoThreads),
            _ if threads > usable => {
                Err(DistinctError::TooManyThreads { threads, usable, machine: self.machine.name().into() })
            }
            _ => Ok(()),
        }
    }

    /// The policies' placements, in the order of [`Class::BY_NAME`].
    fn named(&self, threads: usize) -> Vec<Named> {
        (Class::BY_NAME.into_iter())
            .filter_map(|policy| {
                let cpus = policy.place(self.machine, threads).ok()?.cpus()?;
                Some(Named { set: self.arranged_set(&cpus), threads: self.arranged_threads(&cpus), policy })
            })
            .collect()
    }

    /// The first set of the class, by cells.
    fn arranged_set(&self, cpus: &[CpuId]) -> Vec<bool> {
        let mut set = vec![false; self.cpus.len()];
        for cpu in cpus {
            set[self.cells[cpu]] = true;
        }
        self.shapes.arrange(self.root, &mut set, &|part, a, b| self.shapes.together_first(part, a, b));
        set
    }

    /// The first of all placements that symmetries map onto this one: threads by cells.
    fn arranged_threads(&self, cpus: &[CpuId]) -> Vec<usize> {
        let mut threads = vec![usize::MAX; self.cpus.len()];
        for (thread, cpu) in cpus.iter().enumerate() {
            threads[self.cells[cpu]] = thread;
        }
        self.shapes.arrange(self.root, &mut threads, &|_, a, b| a.cmp(b));
        threads
    }

    /// The class of an arranged set.
    fn class(&self, set: &[bool], named: &[Named]) -> Class {
        Class {
            cpus: self.taken(set),
            cpu_sets: self.size(self.root, set),
            policies: named.iter().filter(|named| named.set == set).map(|named| named.policy.clone()).collect(),
            order: Vec::new(),
        }
    }

    /// How many sets the symmetries of a shape map an arranged set onto, itself included.
    fn size(&self, shape: ShapeId, set: &[bool]) -> BigUint {
        let own: BigUint = match &self.shapes.get(shape).form {
            Form::Cpu => return 1_u32.into(),
            Form::Twins { part, count } => {
                let twins: Vec<&[bool]> = set.chunks(self.shapes.get(*part).cpus).collect();
                enumerate::arrangements(*count, |a, b| twins[a] == twins[b]).into()
            }
            Form::Tuple { symmetries, .. } => {
                let keep = symmetries.iter().filter(|permutation| {
                    self.shapes.permuted(shape, set, permutation).iter().zip(set).all(|(image, own)| image == own)
                });
                (symmetries.len() / keep.count()).into()
            }
        };
        self.shapes.parts_with_cells(shape).fold(own, |product, (part, cells)| product * self.size(part, &set[cells]))
    }

    /// The CPUs of a set, in tree order.
    fn taken(&self, set: &[bool]) -> Vec<CpuId> {
        let mut cpus = self.cpus.iter().zip(set).filter(|(_, taken)| **taken).map(|(&cpu, _)| cpu).collect::<Vec<_>>();
        self.sort(&mut cpus);
        cpus
    }

    /// From the order of cells into that of the tree.
    fn sort(&self, cpus: &mut [CpuId]) {
        if !self.cells_in_tree_order {
            cpus.sort_unstable_by_key(|&cpu| self.machine.pu_index(cpu));
        }
    }
}
