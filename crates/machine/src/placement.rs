//! A placement: which thread sits on which CPUs.

use crate::cpu::{CpuId, CpuSet, MAX_LIST, ParseCpuSetError, parse_cpu_list, quoted};
use crate::host;
use crate::policy::{NamedSet, SetError};
use crate::tree::{CpuState, Kind, Machine, ObjectIndex, Row};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// An ordered map from thread index to the CPUs that the thread may run on.
///
/// Thread `i` is the `i`-th thread that a program creates; thread 0 is its main thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// What made it: a policy's name such as `scatter`, or `list` for CPUs given one by one.
    pub policy: String,
    /// `slots[i]` holds the CPUs of thread `i`; never empty, nor is any slot.
    pub slots: Vec<CpuSet>,
}

/// No placement has more threads than this.
pub const MAX_THREADS: usize = MAX_LIST;

/// Why there is no such placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// The text is neither a policy's name nor starts like a set of CPUs or a CPU list.
    #[error(
        "`{0}` is no policy: write compact, scatter, balanced, semi-balanced, unbalanced, a set of CPUs ({sets}), or a CPU list such as 0,8,1,9",
        sets = NamedSet::FORMS.join(", ")
    )]
    UnknownPolicy(String),
    /// The CPU list is malformed.
    #[error(transparent)]
    List(#[from] ParseCpuSetError),
    /// The text names no set of CPUs, or the machine has none of that name.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A listed CPU can't be used.
    #[error("CPU {cpu} of the list `{list}` can't be used: {state}")]
    Unusable {
        /// The CPU.
        cpu: CpuId,
        /// The whole list.
        list: String,
        /// Why not.
        state: CpuState,
    },
    /// No thread to place.
    #[error("the number of threads must be at least 1")]
    NoThreads,
    /// More threads than anybody starts.
    #[error("{0} threads are more than {MAX_THREADS}, the most that are placed; ask for fewer")]
    TooManyThreads(usize),
    /// Every CPU is forbidden.
    #[error("no CPU of machine `{0}` is usable")]
    NoUsableCpu(String),
    /// The kernel does not say which CPUs are usable.
    #[error("cannot tell which CPUs are usable: sched_getaffinity: {0}")]
    Affinity(String),
}

impl Placement {
    /// A placement with one CPU a thread, in the order given.
    pub fn from_cpus(policy: impl Into<String>, cpus: impl IntoIterator<Item = CpuId>) -> Self {
        Self { policy: policy.into(), slots: cpus.into_iter().map(CpuSet::from).collect() }
    }

    /// The placement that a CPU list such as `0,8,1,9` or `0-3` spells out, when `state` finds every CPU of it usable.
    ///
    /// # Errors
    /// [`PlaceError::List`] when the text is no list, [`PlaceError::Unusable`] for the first CPU that is not usable.
    pub fn from_list(list: &str, state: impl Fn(CpuId) -> CpuState) -> Result<Self, PlaceError> {
        let cpus = parse_cpu_list(list)?;
        match cpus.iter().map(|&cpu| (cpu, state(cpu))).find(|(_, state)| *state != CpuState::Usable) {
            Some((cpu, state)) => Err(PlaceError::Unusable { cpu, list: quoted(list), state }),
            None => Ok(Self::from_cpus("list", cpus)),
        }
    }

    /// [`Placement::from_list`] on this host, by one system call and without reading the topology.
    ///
    /// # Errors
    /// As there, and [`PlaceError::Affinity`] when the kernel does not say what is usable.
    pub fn from_list_on_host(list: &str) -> Result<Self, PlaceError> {
        let allowed = host::allowed_cpus().map_err(|e| PlaceError::Affinity(e.to_string()))?;
        Self::from_list(list, |cpu| host::state(cpu, &allowed))
    }

    /// The same for so many threads: the first ones, or all and then again from the first.
    pub fn for_threads(&self, threads: usize) -> Self {
        let slots = self.slots.iter().cycle().take(threads).cloned().collect();
        Self { policy: self.policy.clone(), slots }
    }

    /// The CPUs of thread `thread`; threads beyond the last slot start again at the first, as libgomp does.
    pub fn slot(&self, thread: usize) -> &CpuSet {
        &self.slots[thread % self.slots.len()]
    }

    /// All CPUs that any thread may use.
    pub fn union(&self) -> CpuSet {
        self.slots.iter().flat_map(CpuSet::iter).collect()
    }

    /// The CPUs in thread order when every slot holds exactly one CPU.
    pub fn cpus(&self) -> Option<Vec<CpuId>> {
        self.slots.iter().map(CpuSet::only).collect()
    }

    /// Whether every thread sits where it does in `other`, whatever made the two.
    pub fn same_slots(&self, other: &Self) -> bool {
        self.slots == other.slots
    }

    /// How many threads were given CPUs that an earlier thread already has: those for which there was no CPU left.
    pub fn doubled_up(&self) -> usize {
        self.slots.len() - self.slots.iter().collect::<BTreeSet<_>>().len()
    }

    /// How much of the machine the threads occupy.
    pub fn footprint(&self, machine: &Machine) -> Footprint {
        let cpus: Vec<CpuId> = self.union().iter().collect();
        let occupied = |rank| -> BTreeSet<ObjectIndex> {
            let pus = cpus.iter().filter_map(|&cpu| Some(machine.pu(machine.pu_index(cpu)?).object));
            pus.filter_map(|pu| machine.with_ancestors(pu).find(|&i| machine.object(i).rank == rank)).collect()
        };
        let same_cpus = |a: &BTreeSet<ObjectIndex>, b: &BTreeSet<ObjectIndex>| {
            a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| machine.object(a).pus == machine.object(b).pus)
        };
        let rows = machine.rows_outside_in();
        let cores = rows.iter().find(|row| row.kind == Kind::Core).map(|row| occupied(row.rank)).unwrap_or_default();
        let mut parts: Vec<(Row, BTreeSet<ObjectIndex>)> = Vec::new();
        for row in rows {
            let objects = occupied(row.rank);
            // An L3 for every package says no more than the package, an L2 for every core no more than the core.
            let repeats = row.kind != Kind::Core
                && !parts.is_empty()
                && (same_cpus(&cores, &objects) || parts.iter().any(|(_, outer)| same_cpus(outer, &objects)));
            if !objects.is_empty() && !repeats {
                parts.push((row, objects));
            }
        }
        Footprint {
            threads: self.slots.len(),
            parts: (parts.into_iter())
                .map(|(row, objects)| (row, objects.len()))
                .chain([(Row::PU, cpus.len())])
                .collect(),
        }
    }
}

/// How many objects of each kind the threads of a placement occupy.
///
/// Its text is, for example, `4 threads on 2 packages, 4 L2, 4 cores`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// How many threads there are.
    pub threads: usize,
    /// By row of the tree, from the outside in. Rows that always come together are named once.
    pub parts: Vec<(Row, usize)>,
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        write!(f, "{} thread{} on ", self.threads, plural(self.threads))?;
        let cores = (self.parts.iter()).find(|(row, _)| row.kind == Kind::Core);
        let mut separator = "";
        for &(row, n) in &self.parts {
            // Where every core has one thread, its CPU needs no word.
            if row == Row::PU && cores.is_some_and(|&(_, cores)| cores == n) {
                continue;
            }
            write!(f, "{separator}{n} {}", row.counted(n))?;
            separator = ", ";
        }
        Ok(())
    }
}
