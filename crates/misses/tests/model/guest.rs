//! Guests for tests: machines with caches of a few lines, and what processes do on them.

use machine::record::{MachineRecord, ObjectRecord};
use machine::tree::{Associativity, Cache};
use machine::{CpuId, Kind, Machine, Source};
use misses::Model;
use misses::report::{Instructions, Section};
use misses::window::{self, JobIndex, ProcessIndex, SectionIndex};
use std::num::NonZeroU64;

/// Bytes of a line on all machines here.
pub const LINE: u64 = 64;

pub fn cache(level: u8, lines: u64, ways: u32, inside: Vec<ObjectRecord>) -> ObjectRecord {
    let cache = Cache {
        size_bytes: NonZeroU64::new(lines * LINE),
        line_bytes: NonZeroU64::new(LINE),
        associativity: Some(Associativity::Ways(ways)),
    };
    ObjectRecord { cache: Some(cache), ..ObjectRecord::new(Kind::Cache(level), inside) }
}

pub fn core(cpus: impl IntoIterator<Item = u32>) -> ObjectRecord {
    let pu = |cpu| ObjectRecord { os_index: Some(cpu), ..ObjectRecord::new(Kind::Pu, Vec::new()) };
    ObjectRecord::new(Kind::Core, cpus.into_iter().map(pu).collect())
}

pub fn machine(name: &str, inside: Vec<ObjectRecord>) -> Machine {
    let record = MachineRecord {
        name: name.into(),
        source: Source::Synthetic(name.into()),
        cpu_model: None,
        counts: Default::default(),
        usable_cpus: Default::default(),
        offline_cpus: Default::default(),
        hidden_cpus: Default::default(),
        core_kinds: Vec::new(),
        numa_distances: None,
        tree: ObjectRecord::new(Kind::Machine, inside),
    };
    record.try_into().unwrap()
}

/// 2 packages with an L3 of 64 lines each, of 4 cores with an L2 of 16 lines and an L1 of 4.
pub fn two_by_four() -> Machine {
    let core = |cpu| cache(2, 16, 4, vec![cache(1, 4, 2, vec![core([cpu])])]);
    let package =
        |first| ObjectRecord::new(Kind::Package, vec![cache(3, 64, 8, (first..first + 4).map(core).collect())]);
    machine("two by four", vec![package(0), package(4)])
}

/// 2 dies with an L3 of 48 lines (of 6 ways: sets are no power of two here) each, of 2 cores with two PUs.
pub fn dies_with_smt() -> Machine {
    let core = |cpu| cache(2, 16, 2, vec![cache(1, 4, 4, vec![core([cpu, cpu + 1])])]);
    let die = |first| ObjectRecord::new(Kind::Die, vec![cache(3, 48, 4, vec![core(first), core(first + 2)])]);
    machine("dies with SMT", vec![ObjectRecord::new(Kind::Package, vec![die(0), die(4)])])
}

/// 2 L2 caches of 12 lines, direct-mapped, each of two cores with an L1 of 3 lines, and nothing further out.
pub fn pairs() -> Machine {
    let core = |cpu| cache(1, 3, 3, vec![core([cpu])]);
    let pair = |first| cache(2, 12, 1, vec![core(first), core(first + 1)]);
    machine("pairs", vec![ObjectRecord::new(Kind::Package, vec![pair(0), pair(2)])])
}

/// 40 cores with an L2 of 8 lines and an L1 of 2 under one L3: more caches than a word has bits.
pub fn many() -> Machine {
    let core = |cpu| cache(2, 8, 2, vec![cache(1, 2, 1, vec![core([cpu])])]);
    machine("many", vec![cache(3, 128, 8, (0..40).map(core).collect())])
}

/// 2 CPUs with a cache each.
pub fn one_level() -> Machine {
    machine("one level", (0..2).map(|cpu| cache(1, 8, 2, vec![core([cpu])])).collect())
}

/// Data, by whose they are and the number of the line in its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Data {
    Own(u32, u64),
    Shared(u32, u64),
    Other(u64),
}

impl Data {
    pub fn address(self) -> u64 {
        match self {
            Self::Own(process, line) => window::own(ProcessIndex(process)) + line * LINE,
            Self::Shared(job, line) => window::shared(JobIndex(job)) + line * LINE,
            Self::Other(line) => 0xffff_8880_0000_0000 + line * LINE,
        }
    }

    /// A physical line for each, side by side within a window.
    pub fn line(self) -> u64 {
        match self {
            Self::Own(process, line) => 0x1_0000 * (u64::from(process) + 1) + line,
            Self::Shared(job, line) => 0x100_0000 * (u64::from(job) + 1) + line,
            Self::Other(line) => line,
        }
    }
}

/// A guest in section 1.
pub struct Guest {
    pub model: Model,
}

impl Guest {
    pub fn new(machine: Machine) -> Self {
        let mut model = Model::new(machine, true).unwrap();
        let none = vec![Instructions::default(); model.cpus()];
        model.begin_section(SectionIndex(1), &none);
        Self { model }
    }

    pub fn access(&mut self, cpu: u32, data: Data, is_store: bool) {
        let marked = self.model.access(CpuId(cpu), data.address(), is_store, || Some(data.line() * LINE));
        assert_eq!(marked, None);
    }

    /// A process loads its first `lines`, one after the other.
    pub fn pass(&mut self, cpu: u32, process: u32, lines: u64) {
        for line in 0..lines {
            self.access(cpu, Data::Own(process, line), false);
        }
    }

    /// What has been counted.
    pub fn end(mut self) -> Section {
        let none = vec![Instructions::default(); self.model.cpus()];
        self.model.begin_section(SectionIndex::OUTSIDE, &none);
        self.model.report().sections.remove(&1).unwrap()
    }
}
