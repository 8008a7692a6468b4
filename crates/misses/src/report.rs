//! What was counted, as it is written and read back.

use crate::hierarchy::CacheBuild;
use machine::{Kind, Level};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// All that was counted in a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The machine whose caches were modelled.
    pub machine: String,
    /// Its caches.
    pub caches: Vec<CacheBuild>,
    /// Size of a line in bytes.
    pub line_bytes: u64,
    /// What had to be assumed of the caches, in sentences.
    pub assumptions: Vec<String>,
    /// Whether accesses outside the processes' windows went through the caches.
    pub others: bool,
    /// Those that have ended, by the number of their mark.
    pub sections: BTreeMap<u32, Section>,
}

/// What was counted in a section.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// The processes of interest together.
    pub all: Counts,
    /// Each process of interest that made an access, by its number.
    pub processes: BTreeMap<u32, Counts>,
    /// Everything else.
    pub other: OtherCounts,
    /// Instructions by CPU number.
    pub instructions: Vec<Instructions>,
}

/// What a process of interest did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Loads and stores.
    pub accesses: u64,
    /// Misses by level of cache.
    pub misses: BTreeMap<Kind, u64>,
    /// Misses by level and cause: of all levels from L2 outwards, or of L1 where there is nothing else.
    pub causes: BTreeMap<Kind, Causes>,
    /// Stretches on one CPU with no other process of interest in between, by where they began.
    pub runs: u64,
    /// How many of them began on another CPU than the one before, by what the two share.
    pub migrations: BTreeMap<Level, u64>,
}

/// Misses by cause; the crate's documentation defines each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, derive_more::AddAssign)]
pub struct Causes {
    /// The process hadn't used the line before.
    pub cold: u64,
    /// It would have missed the line alone, too.
    pub steady: u64,
    /// The line was lost while the process didn't run, or to others of its own as it brought them back.
    pub reload: u64,
    /// The line was left behind in another cache, or lost while the process ran elsewhere.
    pub migration: u64,
    /// Something else took its frame while the process ran: neighbours under a shared cache, or the kernel.
    pub contention: u64,
    /// A store through other caches took it away.
    pub invalidation: u64,
}

impl Causes {
    /// Misses of all causes.
    pub fn total(&self) -> u64 {
        self.by_name().iter().map(|(_, misses)| misses).sum()
    }

    /// So many times as many.
    pub(crate) fn times(self, factor: u64) -> Self {
        Self {
            cold: self.cold * factor,
            steady: self.steady * factor,
            reload: self.reload * factor,
            migration: self.migration * factor,
            contention: self.contention * factor,
            invalidation: self.invalidation * factor,
        }
    }

    /// Each cause as it is called in the report, and its misses.
    pub fn by_name(&self) -> [(&'static str, u64); 6] {
        [
            ("cold", self.cold),
            ("steady", self.steady),
            ("reload", self.reload),
            ("migration", self.migration),
            ("contention", self.contention),
            ("invalidation", self.invalidation),
        ]
    }
}

/// What the kernel, other programs, and the stacks and code of ours did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherCounts {
    /// Loads and stores.
    pub accesses: u64,
    /// Misses by level of cache.
    pub misses: BTreeMap<Kind, u64>,
}

/// Instructions that a CPU executed, by where their code lies. A block of code counts as a whole when it is entered.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, derive_more::AddAssign, derive_more::Sub,
)]
pub struct Instructions {
    /// In user space.
    pub user: u64,
    /// In the kernel itself.
    pub kernel: u64,
    /// Where the kernel puts what it loads: modules, and BPF programs once compiled.
    pub loaded: u64,
}

impl Counts {
    /// Misses of 1,000 references by level, from L2 outwards, and by cause, as metrics are called: `l2_misses_per_1000`,
    /// `l2_reload_misses_per_1000`. Those of lines that a process never used before are left out of the sum: every scheduler has
    /// them alike. None where there was nothing to miss.
    pub fn per_1000(&self) -> Vec<(String, f64)> {
        let mut rates = Vec::new();
        if self.accesses == 0 {
            return rates;
        }
        for (kind, causes) in &self.causes {
            let Kind::Cache(level) = kind else { continue };
            let mut add = |what: &str, misses: u64| {
                rates.push((format!("l{level}_{what}_per_1000"), misses as f64 / self.accesses as f64 * 1e3));
            };
            add("misses", causes.total() - causes.cold);
            causes.by_name().into_iter().for_each(|(cause, misses)| add(&format!("{cause}_misses"), misses));
        }
        rates
    }
}

impl AddAssign<&Self> for Counts {
    fn add_assign(&mut self, more: &Self) {
        self.accesses += more.accesses;
        self.runs += more.runs;
        add(&mut self.misses, &more.misses);
        add(&mut self.causes, &more.causes);
        add(&mut self.migrations, &more.migrations);
    }
}

/// Adds what stands under each key.
fn add<K: Ord + Copy, V: AddAssign + Default + Copy>(sums: &mut BTreeMap<K, V>, more: &BTreeMap<K, V>) {
    for (&key, &value) in more {
        *sums.entry(key).or_default() += value;
    }
}
