//! Rules that make placements.
//!
//! The papers try a few placements by hand on regular machines. Each is generalised here to any tree, also where siblings
//! differ and CPUs are missing, such that it gives the papers' own placements on the papers' machines.

mod compact;
mod scatter;
mod set;

use crate::cpu::{CpuId, parse_cpu_list, quoted};
use crate::placement::{MAX_THREADS, PlaceError, Placement};
use crate::tree::{Kind, Machine, ObjectIndex, PuIndex};
use compact::compact;
use scatter::scatter;
use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;
use strum::IntoStaticStr;

pub use set::{NamedSet, SetError};

/// A rule for placing any number of threads on any machine.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Policy {
    /// As few packages as hold the threads, with those as few dies, then L3, L2 and cores; in tree order, so that each thread
    /// sits next to the one before. On a regular machine these are its first usable CPUs (Pires 2016: `0-7`;
    /// `KMP_AFFINITY=compact`). Two threads are a closest pair on any machine.
    Compact,
    /// The next thread goes where it shares least (Pires 2016 and 2017, the `GOMP_CPU_AFFINITY` lists).
    ///
    /// No core gets a second thread while another has none. The cores are dealt out evenly: over packages, within those over
    /// dies and NUMA domains, then L3, then L2 and modules; first in tree order where all is equal.
    Scatter,
    /// The CPUs of [`Policy::Scatter`] with consecutive threads next to each other (Weber 2010: no shared L2, both packages;
    /// `KMP_AFFINITY=balanced` keeps neighbours together in the same way).
    Balanced,
    /// As few packages as can hold the threads, one after the other from the largest, scattered within each (Weber 2010: no
    /// shared L2, one package).
    SemiBalanced,
    /// Sharing as much as possible (Weber 2010: shared L2, one package): the placement of [`Policy::Compact`].
    Unbalanced,
    /// The usable CPUs of a set in tree order.
    Set(NamedSet),
    /// These CPUs in this order.
    List(Vec<CpuId>),
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(set) => set.fmt(f),
            Self::List(cpus) => f.write_str(&join(cpus, ",")),
            named => f.write_str(named.into()),
        }
    }
}

/// CPU numbers with a separator between them.
pub(crate) fn join(cpus: &[CpuId], separator: &str) -> String {
    let texts: Vec<String> = cpus.iter().map(CpuId::to_string).collect();
    texts.join(separator)
}

impl FromStr for Policy {
    type Err = PlaceError;

    /// A policy's name, a set of CPUs, or a CPU list.
    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let name = text.trim();
        match Self::NAMED.into_iter().find(|policy| name == <&str>::from(policy)) {
            Some(named) => Ok(named),
            None if NamedSet::is_meant(name) => Ok(Self::Set(name.parse()?)),
            None if name.starts_with(|c: char| c.is_ascii_digit()) => Ok(Self::List(parse_cpu_list(name)?)),
            None => Err(PlaceError::UnknownPolicy(quoted(text))),
        }
    }
}

impl Policy {
    /// The rules for all CPUs that may be used.
    pub const NAMED: [Self; 5] = [Self::Compact, Self::Scatter, Self::Balanced, Self::SemiBalanced, Self::Unbalanced];

    /// How many threads there are when nobody says: one for each usable CPU, or for each of the set or the list.
    pub fn default_threads(&self, machine: &Machine) -> usize {
        match self {
            Self::List(cpus) => cpus.len(),
            Self::Set(set) => set.cpus(machine).map_or(1, |cpus| cpus.len()),
            _ => machine.usable().count().max(1),
        }
    }

    /// Places `threads` threads. Where the machine has fewer usable CPUs, or the set or the list fewer, the threads beyond start
    /// again at the first; [`Placement::doubled_up`] counts them.
    ///
    /// # Errors
    /// [`PlaceError`] when there is nothing to place, nowhere to place it, no such set, or a listed CPU that can't be used.
    pub fn place(&self, machine: &Machine, threads: usize) -> Result<Placement, PlaceError> {
        if threads == 0 {
            return Err(PlaceError::NoThreads);
        }
        if threads > MAX_THREADS {
            return Err(PlaceError::TooManyThreads(threads));
        }
        if let Self::List(cpus) = self {
            let listed = Placement::from_list(&join(cpus, ","), |cpu| machine.state(cpu))?;
            return Ok(listed.for_threads(threads));
        }
        if let Self::Set(set) = self {
            let cpus = set.cpus(machine)?;
            return Ok(Placement::from_cpus(set.to_string(), cpus.into_iter().cycle().take(threads)));
        }
        let usable = usable(machine, ObjectIndex::MACHINE);
        if usable.is_empty() {
            return Err(PlaceError::NoUsableCpu(machine.name().into()));
        }
        let seats = threads.min(usable.len());
        let mut order = match self {
            Self::Scatter | Self::Balanced => scatter(machine, &usable, seats),
            Self::SemiBalanced => semi_balanced(machine, seats),
            Self::Compact | Self::Unbalanced | Self::Set(_) | Self::List(_) => compact(machine, seats),
        };
        if *self == Self::Balanced {
            order.sort_unstable();
        }
        let cpus = order.iter().cycle().take(threads).map(|&pu| machine.pu(pu).cpu);
        Ok(Placement::from_cpus(self.to_string(), cpus))
    }
}

/// The usable PUs inside an object, in tree order.
fn usable(machine: &Machine, object: ObjectIndex) -> Vec<PuIndex> {
    (machine.pus_of(object).iter())
        .filter(|pu| pu.forbidden.is_none())
        .filter_map(|pu| machine.pu_index(pu.cpu))
        .collect()
}

/// Scatters within one package after the other, the largest first, until `seats` are taken. CPUs outside of any package are
/// the last resort.
fn semi_balanced(machine: &Machine, seats: usize) -> Vec<PuIndex> {
    let mut packages: Vec<Vec<PuIndex>> = (machine.objects())
        .filter(|(_, object)| object.kind == Kind::Package)
        .map(|(i, _)| usable(machine, i))
        .collect();
    packages.sort_by_key(|pus| Reverse(pus.len()));
    let loose = |pu: &PuIndex| machine.enclosing(machine.pu(*pu).cpu, Kind::Package).is_none();
    packages.push(usable(machine, ObjectIndex::MACHINE).into_iter().filter(loose).collect());
    let mut order = Vec::with_capacity(seats);
    for package in packages {
        let wanted = package.len().min(seats - order.len());
        order.extend(scatter(machine, &package, wanted));
    }
    order
}
