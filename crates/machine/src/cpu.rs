//! CPUs as the kernel numbers them, and sets of them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The kernel's number of a CPU (a PU, in hwloc's words "P#"). Never a position in our tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuId(pub u32);

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of CPUs. Its text form is the kernel's list format, for example `0-3,8`. Clones share their memory: large studies keep the
/// same few sets for each thread of each trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet(Arc<BTreeSet<CpuId>>);

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeSet::deserialize(deserializer).map(|cpus| Self(Arc::new(cpus)))
    }
}

/// The largest CPU number accepted in text; the kernel's own limit is 8,192 CPUs.
pub const MAX_CPU_ID: u32 = 65_535;

/// More CPUs than this are not placed on: the kernel's own limit (`CONFIG_NR_CPUS`).
pub const MAX_CPUS: usize = 8192;

/// A list has no more entries than this; nobody starts more threads.
pub const MAX_LIST: usize = 65_536;

/// A message quotes no more than this, in characters: what was written may be as long as an argument can be.
const MOST_QUOTED: usize = 240;

/// `text` as a message quotes it: all of it, or how it begins.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(MOST_QUOTED) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}

/// Why a text is not a list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseCpuSetError {
    /// No CPU is named.
    #[error("the CPU list is empty; name CPUs as in 0,8,1,9 or 0-3")]
    Empty,
    /// One element is not a number, a range `a-b`, or a strided range `a-b:stride`.
    #[error(
        "`{element}` in CPU list `{list}` is not a CPU number, a range such as 0-3, or a strided range such as 0-15:2"
    )]
    BadElement {
        /// The element as written, or how it begins.
        element: String,
        /// The list as written, or how it begins.
        list: String,
    },
    /// A range runs backwards.
    #[error("range `{element}` in CPU list `{list}` runs backwards; write the smaller number first")]
    Backwards {
        /// The element as written, or how it begins.
        element: String,
        /// The list as written, or how it begins.
        list: String,
    },
    /// It names more CPUs than any placement has threads.
    #[error("a CPU list has {MAX_LIST} entries at most, and `{element}` is beyond that; give fewer")]
    TooLong {
        /// The element that makes the list too long.
        element: String,
    },
    /// A number is beyond any kernel's limit.
    #[error("CPU {cpu} in CPU list `{list}` is beyond the largest CPU number {MAX_CPU_ID}")]
    TooLarge {
        /// The number as written, or how it begins.
        cpu: String,
        /// The list as written, or how it begins.
        list: String,
    },
}

/// Reads a list such as `0,8,1,9`, `0-3` or `0-15:2`, keeping the order and any repetition.
///
/// # Errors
/// [`ParseCpuSetError`] names the element that is wrong.
pub fn parse_cpu_list(text: &str) -> Result<Vec<CpuId>, ParseCpuSetError> {
    let list = text.trim();
    if list.is_empty() {
        return Err(ParseCpuSetError::Empty);
    }
    let mut cpus = Vec::new();
    for element in list.split(',').map(str::trim) {
        let bad = || ParseCpuSetError::BadElement { element: quoted(element), list: quoted(list) };
        let number = |digits: &str| -> Result<u32, ParseCpuSetError> {
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(bad());
            }
            match digits.parse::<u32>() {
                Ok(n) if n <= MAX_CPU_ID => Ok(n),
                _ => Err(ParseCpuSetError::TooLarge { cpu: quoted(digits), list: quoted(list) }),
            }
        };
        let (range, stride) = match element.split_once(':') {
            Some((range, stride)) => (range, number(stride)?),
            None => (element, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None if element.contains(':') => return Err(bad()),
            None => {
                let n = number(range)?;
                (n, n)
            }
        };
        if stride == 0 {
            return Err(bad());
        }
        if first > last {
            return Err(ParseCpuSetError::Backwards { element: quoted(element), list: quoted(list) });
        }
        if cpus.len() + ((last - first) / stride) as usize >= MAX_LIST {
            return Err(ParseCpuSetError::TooLong { element: quoted(element) });
        }
        cpus.extend((first..=last).step_by(stride as usize).map(CpuId));
    }
    Ok(cpus)
}

impl CpuSet {
    /// The set without any CPU.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.0.contains(&cpu)
    }

    /// Adds `cpu`; true when it was not in the set before.
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        Arc::make_mut(&mut self.0).insert(cpu)
    }

    /// The CPUs in rising order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.0.iter().copied()
    }

    /// How many CPUs are in the set.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no CPU is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest CPU number in the set.
    pub fn first(&self) -> Option<CpuId> {
        self.0.first().copied()
    }

    /// The CPU when the set holds exactly one.
    pub fn only(&self) -> Option<CpuId> {
        if self.len() == 1 { self.first() } else { None }
    }

    /// The set with a word before it: `CPU 1`, `CPUs 0-3`.
    pub fn named(&self) -> String {
        match self.len() {
            0 => "no CPU".into(),
            1 => format!("CPU {self}"),
            _ => format!("CPUs {self}"),
        }
    }

    /// CPUs in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        self.0.intersection(&other.0).copied().collect()
    }

    /// CPUs of this set that `other` lacks.
    pub fn difference(&self, other: &Self) -> Self {
        self.0.difference(&other.0).copied().collect()
    }

    /// Whether every CPU of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }
}

impl From<CpuId> for CpuSet {
    fn from(cpu: CpuId) -> Self {
        Self(Arc::new(BTreeSet::from([cpu])))
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        Self(Arc::new(cpus.into_iter().collect()))
    }
}

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(parse_cpu_list(text)?.into_iter().collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&cpu_list(self.iter()))
    }
}

/// CPUs in this order as a list that [`parse_cpu_list`] reads back: `0-3,8,1`.
pub fn cpu_list(cpus: impl IntoIterator<Item = CpuId>) -> String {
    let mut text = String::new();
    let mut cpus = cpus.into_iter().peekable();
    while let Some(first) = cpus.next() {
        let mut last = first;
        while let Some(next) = cpus.next_if(|next| next.0 == last.0 + 1) {
            last = next;
        }
        let separator = if text.is_empty() { "" } else { "," };
        text += &if first == last { format!("{separator}{first}") } else { format!("{separator}{first}-{last}") };
    }
    text
}

impl Extend<CpuId> for CpuSet {
    fn extend<I: IntoIterator<Item = CpuId>>(&mut self, cpus: I) {
        Arc::make_mut(&mut self.0).extend(cpus);
    }
}
