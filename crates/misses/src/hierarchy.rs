//! The caches of a machine, from its tree.
//!
//! All data and unified caches are there, each with the CPUs that the tree puts under it. A line that a CPU uses is looked for
//! from the inside out and then brought into all caches that missed it. No cache forces another to hold or to drop a line
//! (neither inclusive nor exclusive); an outer cache sees only what inner ones miss. A store takes the line away from all caches
//! that are not on the storing CPU's way to memory. Not modelled: instruction fetches, page walks, prefetching, writing back.

use crate::cache::{Build, Cache, Line};
use crate::sampling::Sampling;
use crate::sparse::Sparse;
use crate::translations::PAGE_SHIFT;
use machine::tree::{Associativity, ObjectIndex};
use machine::{CpuId, Kind, Machine};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// More levels than any machine has.
const MAX_LEVELS: usize = 5;
const ASSUMED_LINE_BYTES: u64 = 64;
const ASSUMED_WAYS: u64 = 16;

/// Why the caches of a machine can't be modelled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{machine} {problem}")]
pub struct HierarchyError {
    machine: String,
    problem: Problem,
}

/// What is wrong with a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    /// qemu numbers its CPUs from 0 without gaps.
    #[error("has no CPU {0}, and the guest's CPUs are numbered from 0 without gaps")]
    Gap(CpuId),
    /// No cache around a CPU, or other kinds of cache than around the first.
    #[error("has {found} around CPU {cpu} and {expected} around CPU 0; describe the same levels around all")]
    Levels { cpu: CpuId, found: String, expected: String },
    /// No data cache at all.
    #[error("has no data cache; describe some, as in the synthetic string `l3:1(size=4MB) l2:4(size=512KB)`")]
    NoCache,
    /// A cache of unknown size.
    #[error("doesn't tell the size of the {kind} around CPU {cpu}; describe it, as in `{kind}:1(size=1MB)`")]
    UnknownSize { kind: Kind, cpu: CpuId },
    /// Lines of several sizes, or of a size that isn't a power of two.
    #[error("has lines of {bytes} bytes in its {kind}; all caches must have the same, a power of two")]
    Lines { kind: Kind, bytes: u64 },
}

/// A kind of cache as it is modelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheBuild {
    /// Its level.
    pub kind: Kind,
    /// How many the machine has.
    pub count: usize,
    /// Size of one in bytes: of its frames, where the stated size is no multiple of its ways.
    pub size_bytes: u64,
    /// Ways.
    pub ways: u64,
}

/// Position of a cache among all of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheIndex(u16);

impl CacheIndex {
    pub fn at(self) -> usize {
        usize::from(self.0)
    }
}

/// Position of a level of caches, from the innermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelIndex(u8);

impl LevelIndex {
    pub fn at(self) -> usize {
        usize::from(self.0)
    }
}

/// How many levels missed a line, from the innermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missed(u8);

impl Missed {
    pub const NONE: Self = Self(0);

    /// Whether a level is among them.
    pub fn has(self, level: LevelIndex) -> bool {
        level.0 < self.0
    }

    pub fn levels(self) -> impl Iterator<Item = LevelIndex> {
        (0..self.0).map(LevelIndex)
    }
}

/// What bringing a line in does to caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It took the frame of another line.
    Displaced(CacheIndex, Line),
    /// That innermost cache, and its way to memory, isn't the only one to hold the line any more.
    Shared(CacheIndex),
}

/// A set of caches, by their positions modulo 64. With more caches than that it may hold some too many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Caches(u64);

impl Caches {
    fn insert(&mut self, cache: CacheIndex) {
        self.0 |= 1 << (cache.0 % 64);
    }

    fn contains(self, cache: CacheIndex) -> bool {
        self.0 & (1 << (cache.0 % 64)) != 0
    }
}

/// Where a line is.
#[derive(Clone, Copy, Debug, Default)]
struct Whereabouts {
    /// The caches that may hold it: all that do, and some that lost it to other lines.
    holders: Caches,
    /// The innermost cache of the way to memory that alone holds it, since it was stored to there.
    sole: Option<CacheIndex>,
}

/// A CPU's way to memory.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// By level.
    caches: [CacheIndex; MAX_LEVELS],
    /// The same caches as a set.
    set: Caches,
}

/// All caches of a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hierarchy {
    /// By level.
    pub kinds: Vec<Kind>,
    caches: Vec<Cache>,
    /// By CPU.
    paths: Vec<Path>,
    /// By line.
    whereabouts: Sparse<Whereabouts>,
    pub line_bytes: u64,
    pub builds: Vec<CacheBuild>,
    /// What had to be assumed of the caches, in sentences.
    pub assumptions: Vec<String>,
}

impl Hierarchy {
    pub fn new(machine: &Machine) -> Result<Self, HierarchyError> {
        Self::read(machine).map_err(|problem| HierarchyError { machine: machine.name().to_owned(), problem })
    }

    fn read(machine: &Machine) -> Result<Self, Problem> {
        let around = |cpu: CpuId| -> Result<(Vec<Kind>, Vec<ObjectIndex>), Problem> {
            let index = machine.pu_index(cpu).ok_or(Problem::Gap(cpu))?;
            let outside = machine.ancestors(machine.pu(index).object).map(|i| (machine.object(i).kind, i));
            Ok(outside.filter(|(kind, _)| matches!(kind, Kind::Cache(_))).take(MAX_LEVELS).unzip())
        };
        let (kinds, _) = around(CpuId(0))?;
        if kinds.is_empty() {
            return Err(Problem::NoCache);
        }
        let mut hierarchy = Self { kinds, ..Self::default() };
        let mut known: BTreeMap<ObjectIndex, CacheIndex> = BTreeMap::new();
        for cpu in (0..machine.pus().len() as u32).map(CpuId) {
            let (found, objects) = around(cpu)?;
            if found != hierarchy.kinds {
                let (found, expected) = (listed(&found), listed(&hierarchy.kinds));
                return Err(Problem::Levels { cpu, found, expected });
            }
            let mut path = Path { caches: [CacheIndex(0); MAX_LEVELS], set: Caches::default() };
            for (place, object) in path.caches.iter_mut().zip(objects) {
                *place = match known.get(&object) {
                    Some(&cache) => cache,
                    None => {
                        let cache = hierarchy.add(machine, object, cpu)?;
                        *known.entry(object).or_insert(cache)
                    }
                };
                path.set.insert(*place);
            }
            hierarchy.paths.push(path);
        }
        Ok(hierarchy)
    }

    fn add(&mut self, machine: &Machine, object: ObjectIndex, cpu: CpuId) -> Result<CacheIndex, Problem> {
        let kind = machine.object(object).kind;
        let facts = machine.object(object).cache.unwrap_or_default();
        let mut assume = |what: &str, value: u64, unit: &str| {
            let sentence = format!("{} doesn't tell the {what} ({value}{unit} assumed) of its {kind}", machine.name());
            if !self.assumptions.contains(&sentence) {
                self.assumptions.push(sentence);
            }
            value
        };
        let size_bytes = facts.size_bytes.ok_or(Problem::UnknownSize { kind, cpu })?;
        let line_bytes = facts.line_bytes.map_or_else(|| assume("line size", ASSUMED_LINE_BYTES, " bytes"), Into::into);
        if !line_bytes.is_power_of_two() || (!self.caches.is_empty() && line_bytes != self.line_bytes) {
            return Err(Problem::Lines { kind, bytes: line_bytes });
        }
        self.line_bytes = line_bytes;
        let frames = (size_bytes.get() / line_bytes).max(1);
        let ways = match facts.associativity {
            Some(Associativity::Full) => frames,
            Some(Associativity::Ways(ways)) => ways.into(),
            None => assume("ways", ASSUMED_WAYS, ""),
        };
        let ways = ways.clamp(1, frames);
        let sets = frames / ways;
        let size_bytes = sets * ways * line_bytes;
        let alike = |build: &&mut CacheBuild| (build.kind, build.size_bytes, build.ways) == (kind, size_bytes, ways);
        match self.builds.iter_mut().find(alike) {
            Some(build) => build.count += 1,
            None => self.builds.push(CacheBuild { kind, count: 1, size_bytes, ways }),
        }
        self.caches.push(Cache::new(Build { sets: sets as usize, ways: ways as usize }));
        Ok(CacheIndex(self.caches.len() as u16 - 1))
    }

    /// Leaves of each cache one set of so many that those beyond the innermost keep `least_sets` at least.
    pub fn sample(&mut self, least_sets: u64) -> Sampling {
        let of_page = PAGE_SHIFT.saturating_sub(self.line_bytes.trailing_zeros());
        let index_bits =
            self.caches.iter().map(|cache| cache.build.sets.trailing_zeros()).min().unwrap_or(0).min(of_page);
        let innermost: Vec<CacheIndex> = self.paths.iter().map(|path| path.caches[0]).collect();
        let is_only = self.kinds.len() == 1;
        let counts = |at: &usize| is_only || !innermost.contains(&CacheIndex(*at as u16));
        let fewest = (0..self.caches.len()).filter(counts).map(|at| self.caches[at].build.sets as u64).min();
        let sampling = Sampling::new(fewest.unwrap_or(1) / least_sets.max(1), index_bits);
        for cache in &mut self.caches {
            let Build { sets, ways } = cache.build;
            *cache = Cache::new(Build { sets: sets / sampling.one_of() as usize, ways });
        }
        sampling
    }

    pub fn cpus(&self) -> usize {
        self.paths.len()
    }

    pub fn caches(&self) -> usize {
        self.caches.len()
    }

    /// The kinds of all caches, by their positions.
    pub fn cache_kinds(&self) -> Vec<Kind> {
        let mut kinds = vec![self.kinds[0]; self.caches.len()];
        for path in &self.paths {
            path.caches.iter().zip(&self.kinds).for_each(|(cache, &kind)| kinds[cache.at()] = kind);
        }
        kinds
    }

    /// The cache of a level on a CPU's way to memory.
    #[inline]
    pub fn on_path(&self, cpu: CpuId, level: LevelIndex) -> CacheIndex {
        self.paths[cpu.0 as usize].caches[level.at()]
    }

    #[inline]
    pub fn innermost(&self, cpu: CpuId) -> CacheIndex {
        self.on_path(cpu, LevelIndex(0))
    }

    /// How many sets the innermost cache of a CPU has.
    pub fn innermost_sets(&self, cpu: CpuId) -> usize {
        self.caches[self.innermost(cpu).at()].build.sets
    }

    pub fn empty(&mut self) {
        self.caches.iter_mut().for_each(Cache::empty);
        self.whereabouts.clear();
    }

    pub fn contains(&self, cache: CacheIndex, line: Line) -> bool {
        self.caches[cache.at()].contains(line)
    }

    /// A CPU looks for a line from the inside out.
    #[inline]
    pub fn look_up(&mut self, cpu: CpuId, line: Line) -> Missed {
        let levels = self.kinds.len();
        let path = &self.paths[cpu.0 as usize].caches[..levels];
        let missed = path.iter().position(|cache| self.caches[cache.at()].hit(line));
        Missed(missed.unwrap_or(levels) as u8)
    }

    /// Caches like those around a CPU, for one process that nobody disturbs.
    pub fn alone(&self, cpu: CpuId) -> Alone {
        let path = &self.paths[cpu.0 as usize].caches[..self.kinds.len()];
        Alone(path.iter().map(|cache| Cache::new(self.caches[cache.at()].build)).collect())
    }

    /// Brings a line into the caches that missed it.
    pub fn load(&mut self, cpu: CpuId, line: Line, missed: Missed, mut tell: impl FnMut(Event)) {
        for level in missed.levels() {
            let cache = self.on_path(cpu, level);
            if let Some(displaced) = self.caches[cache.at()].load(line) {
                tell(Event::Displaced(cache, displaced));
            }
        }
        let innermost = self.innermost(cpu);
        let line = self.whereabouts.at(line.0);
        line.holders.0 |= self.paths[cpu.0 as usize].set.0;
        if let Some(sole) = line.sole.take_if(|sole| *sole != innermost) {
            tell(Event::Shared(sole));
        }
    }

    /// A CPU that has just used a line stores to it. Tells which caches lose it.
    #[inline]
    pub fn store(&mut self, cpu: CpuId, line: Line, tell: impl FnMut(CacheIndex)) {
        if !self.is_sole(cpu, line) {
            self.take_away(cpu, line, tell);
        }
    }

    fn take_away(&mut self, cpu: CpuId, line: Line, mut tell: impl FnMut(CacheIndex)) {
        let path = &self.paths[cpu.0 as usize];
        let on_path = &path.caches[..self.kinds.len()];
        let whereabouts = self.whereabouts.at(line.0);
        for (index, cache) in (0..).map(CacheIndex).zip(&mut self.caches) {
            if whereabouts.holders.contains(index) && !on_path.contains(&index) && cache.invalidate(line) {
                tell(index);
            }
        }
        *whereabouts = Whereabouts { holders: path.set, sole: Some(path.caches[0]) };
    }

    /// Whether a store to a line that the CPU has just used finds it nowhere else.
    #[inline]
    pub fn is_sole(&self, cpu: CpuId, line: Line) -> bool {
        self.whereabouts.get(line.0).sole == Some(self.innermost(cpu))
    }
}

/// The caches that a process would have if it were alone and never moved.
#[derive(Clone, Debug)]
pub(crate) struct Alone(Vec<Cache>);

impl Alone {
    /// The process uses a line.
    #[inline]
    pub fn access(&mut self, line: Line) -> Missed {
        let missed = self.0.iter_mut().position(|cache| cache.hit(line)).unwrap_or(self.0.len());
        for cache in &mut self.0[..missed] {
            cache.load(line);
        }
        Missed(missed as u8)
    }
}

/// Kinds of cache, for an error.
fn listed(kinds: &[Kind]) -> String {
    let kinds: Vec<String> = kinds.iter().map(Kind::to_string).collect();
    if kinds.is_empty() { "no data cache".into() } else { kinds.join(", ") }
}
