//! Sets of CPUs that have a name: `p-cores`, `node:0`, `one-per-core`.
//!
//! What a name means is read from the tree, so the same name fits any machine that has such CPUs. CPUs come in the order of the
//! tree, as those of [`Policy::Compact`](super::Policy::Compact) do and not in that of the kernel's numbers: the next thread
//! sits next to the one before, on the second CPU of its core where there is one.

use super::usable;
use crate::cpu::{CpuId, MAX_CPU_ID, cpu_list, quoted};
use crate::tree::{Kind, Machine, Object, ObjectIndex, PuIndex};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// A set of CPUs by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NamedSet {
    /// `p-cores`: the CPUs of performance cores, as the maker calls them.
    PCores,
    /// `e-cores`: the CPUs of efficiency cores; not those of the still weaker LP-E cores.
    ECores,
    /// `node:N`: the CPUs that the memory of a NUMA node is local to, by the kernel's number of the node (P#).
    Node(u32),
    /// `package:N`: the CPUs of a package, by its number in tree order (hwloc's L#).
    Package(u32),
    /// `l3:N`: the CPUs that share an L3, by its number in tree order (hwloc's L#).
    L3(u32),
    /// `one-per-core`: the first usable CPU of each core; a CPU without a core counts as one.
    OnePerCore,
    /// `largest-l3`: the CPUs that share the L3 of the largest capacity among those with a usable CPU; of equal ones the first in
    /// the tree. One of unknown size is smaller than any.
    LargestL3,
}

/// Why a text names no set, or a machine has no such CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The kind of set is not known.
    #[error("`{0}` names no set of CPUs: write {names}", names = NamedSet::FORMS.join(", "))]
    Unknown(String),
    /// No number stands after the colon, or something else does.
    #[error("`{text}` names no set of CPUs: `{kind}:` needs a whole number after it, as in {kind}:0")]
    NoNumber {
        /// What stands before the colon.
        kind: &'static str,
        /// The text as written, or how it begins.
        text: String,
    },
    /// The number is beyond any machine's.
    #[error(
        "the number in `{text}` is beyond the largest of any machine, {MAX_CPU_ID}; `stayput topology` shows those of this one"
    )]
    TooLarge {
        /// The text as written, or how it begins.
        text: String,
    },
    /// Cores differ in other ways, or not at all.
    #[error("this machine has no {wanted} cores{}", match .kinds.as_slice() {
        [] => ": its cores are of one kind, as far as is known".to_owned(),
        kinds => format!("; the kinds of its cores are {}", kinds.join(", ")),
    })]
    NoSuchCores {
        /// The kind of core that was asked for.
        wanted: &'static str,
        /// The kinds that there are, from the weakest.
        kinds: Vec<String>,
    },
    /// It has none of these objects.
    #[error("this machine has no {0}")]
    None(&'static str),
    /// It has others of these objects.
    #[error("there is no {what} {number} here; there {}", match .there.as_str() {
        one if one.bytes().all(|byte| byte.is_ascii_digit()) => format!("is {one} alone"),
        several => format!("are {several}"),
    })]
    NoSuchNumber {
        /// What the number is of.
        what: &'static str,
        /// The number.
        number: u32,
        /// Those that there are, as a list.
        there: String,
    },
    /// There is such a set, and no CPU in it.
    #[error("{0} has no CPU here")]
    Empty(String),
    /// All CPUs in the set are forbidden.
    #[error("no CPU of {0} is usable here; `stayput topology` says who forbids them")]
    Forbidden(String),
}

/// What stands before the colon, and the set of a number.
type Numbered = (&'static str, fn(u32) -> NamedSet);

impl NamedSet {
    /// Those that need no number.
    pub const UNNUMBERED: [Self; 4] = [Self::PCores, Self::ECores, Self::OnePerCore, Self::LargestL3];

    /// All, as they are written.
    pub const FORMS: [&'static str; 7] =
        ["p-cores", "e-cores", "node:N", "package:N", "l3:N", "one-per-core", "largest-l3"];

    /// Those with a number, by what stands before the colon.
    const NUMBERED: [Numbered; 3] = [("node", Self::Node), ("package", Self::Package), ("l3", Self::L3)];

    /// Every set that `machine` has.
    pub fn all_of(machine: &Machine) -> Vec<Self> {
        let nodes = machine.numa_nodes().iter().map(|node| Self::Node(node.os_index));
        let counted = |kind, set: fn(u32) -> Self| (0..machine.count(kind) as u32).map(set);
        let numbered = nodes.chain(counted(Kind::Package, Self::Package)).chain(counted(Kind::Cache(3), Self::L3));
        let all = Self::UNNUMBERED.into_iter().chain(numbered);
        all.filter(|set| set.cpus(machine).is_ok()).collect()
    }

    /// Whether `text` can only be meant as one, right or wrong.
    pub(super) fn is_meant(text: &str) -> bool {
        let start = text.split_once(':').map_or(text, |(start, _)| start);
        Self::NUMBERED.iter().any(|(kind, _)| *kind == start)
            || Self::UNNUMBERED.iter().any(|set| set.to_string() == text)
    }

    /// Its CPUs that may be used, in tree order; never none.
    ///
    /// # Errors
    /// [`SetError`], when the machine has no such set, or none of its CPUs may be used.
    pub fn cpus(self, machine: &Machine) -> Result<Vec<CpuId>, SetError> {
        let pus = match self {
            Self::PCores => of_core_kind(machine, "P")?,
            Self::ECores => of_core_kind(machine, "E")?,
            Self::Node(number) => of_node(machine, number)?,
            Self::Package(number) => of_object(machine, Kind::Package, "package", number)?,
            Self::L3(number) => of_object(machine, Kind::Cache(3), "L3", number)?,
            Self::OnePerCore => one_per_core(machine),
            Self::LargestL3 => of_largest_l3(machine)?,
        };
        if pus.is_empty() {
            return Err(SetError::Forbidden(self.described()));
        }
        Ok(pus.into_iter().map(|pu| machine.pu(pu).cpu).collect())
    }

    /// In words: `the E cores`, `NUMA node 1`.
    fn described(self) -> String {
        match self {
            Self::PCores => "the P cores".into(),
            Self::ECores => "the E cores".into(),
            Self::Node(number) => format!("NUMA node {number}"),
            Self::Package(number) => format!("package {number}"),
            Self::L3(number) => format!("L3 {number}"),
            Self::OnePerCore => "any core".into(),
            Self::LargestL3 => "any L3".into(),
        }
    }
}

impl fmt::Display for NamedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PCores => f.write_str("p-cores"),
            Self::ECores => f.write_str("e-cores"),
            Self::Node(number) => write!(f, "node:{number}"),
            Self::Package(number) => write!(f, "package:{number}"),
            Self::L3(number) => write!(f, "l3:{number}"),
            Self::OnePerCore => f.write_str("one-per-core"),
            Self::LargestL3 => f.write_str("largest-l3"),
        }
    }
}

impl FromStr for NamedSet {
    type Err = SetError;

    fn from_str(text: &str) -> Result<Self, SetError> {
        let name = text.trim();
        if let Some(set) = Self::UNNUMBERED.into_iter().find(|set| set.to_string() == name) {
            return Ok(set);
        }
        let (start, number) = name.split_once(':').unwrap_or((name, ""));
        let Some((kind, set)) = Self::NUMBERED.into_iter().find(|(kind, _)| *kind == start) else {
            return Err(SetError::Unknown(quoted(name)));
        };
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(SetError::NoNumber { kind, text: quoted(name) });
        }
        match number.parse() {
            Ok(number) if number <= MAX_CPU_ID => Ok(set(number)),
            _ => Err(SetError::TooLarge { text: quoted(name) }),
        }
    }
}

/// The usable PUs of cores of a kind that is called `word`, or `word` and a number where several kinds are.
fn of_core_kind(machine: &Machine, word: &'static str) -> Result<Vec<PuIndex>, SetError> {
    let is_wanted =
        |name: &str| name.strip_prefix(word).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let has_kind = |cpu| machine.core_kind(cpu).is_some_and(|kind| is_wanted(&kind.name));
    if !machine.pus().iter().any(|pu| has_kind(pu.cpu)) {
        let kinds = machine.core_kinds().iter().map(|kind| kind.name.clone()).collect();
        return Err(SetError::NoSuchCores { wanted: word, kinds });
    }
    let all = usable(machine, ObjectIndex::MACHINE);
    Ok(all.into_iter().filter(|&pu| has_kind(machine.pu(pu).cpu)).collect())
}

fn of_node(machine: &Machine, number: u32) -> Result<Vec<PuIndex>, SetError> {
    let is_wanted = |object: &Object| object.numa_nodes.iter().any(|&node| machine.numa_node(node).os_index == number);
    let Some((index, _)) = machine.objects().find(|(_, object)| is_wanted(object)) else {
        let there = machine.numa_nodes().iter().map(|node| CpuId(node.os_index));
        return Err(no_such("NUMA node", number, there.collect()));
    };
    inside(machine, index, NamedSet::Node(number))
}

fn of_object(machine: &Machine, kind: Kind, what: &'static str, number: u32) -> Result<Vec<PuIndex>, SetError> {
    let is_wanted = |object: &Object| object.kind == kind && object.logical_index.number() == number;
    let Some((index, _)) = machine.objects().find(|(_, object)| is_wanted(object)) else {
        return Err(no_such(what, number, (0..machine.count(kind) as u32).map(CpuId).collect()));
    };
    inside(machine, index, if kind == Kind::Package { NamedSet::Package(number) } else { NamedSet::L3(number) })
}

/// The usable PUs inside an object, which is this set.
fn inside(machine: &Machine, index: ObjectIndex, set: NamedSet) -> Result<Vec<PuIndex>, SetError> {
    if machine.pus_of(index).is_empty() {
        return Err(SetError::Empty(set.described()));
    }
    Ok(usable(machine, index))
}

fn no_such(what: &'static str, number: u32, mut there: Vec<CpuId>) -> SetError {
    there.sort_unstable();
    there.dedup();
    match there.as_slice() {
        [] => SetError::None(what),
        // A machine of odd numbers may have more than a sentence has room for.
        _ => SetError::NoSuchNumber { what, number, there: quoted(&cpu_list(there)) },
    }
}

fn one_per_core(machine: &Machine) -> Vec<PuIndex> {
    let mut cores = HashSet::new();
    let mut is_first = |pu: &PuIndex| {
        let core = machine.enclosing(machine.pu(*pu).cpu, Kind::Core);
        core.is_none_or(|core| cores.insert(core))
    };
    usable(machine, ObjectIndex::MACHINE).into_iter().filter(|pu| is_first(pu)).collect()
}

fn of_largest_l3(machine: &Machine) -> Result<Vec<PuIndex>, SetError> {
    if machine.count(Kind::Cache(3)) == 0 {
        return Err(SetError::None("L3"));
    }
    let all = machine.objects().filter(|(_, object)| object.kind == Kind::Cache(3));
    let of_use = all.filter(|(index, _)| machine.pus_of(*index).iter().any(|pu| pu.forbidden.is_none()));
    let size = |object: &Object| object.cache.and_then(|cache| cache.size_bytes);
    // Of equal ones the first is given.
    let largest = of_use.min_by_key(|(_, object)| Reverse(size(object)));
    Ok(largest.map(|(index, _)| usable(machine, index)).unwrap_or_default())
}
