//! Counts of the section in force, laid out for counting.

use crate::hierarchy::LevelIndex;
use crate::report::{Causes, Counts, OtherCounts, Section};
use crate::window::ProcessIndex;
use machine::{Kind, Level};
use std::collections::BTreeMap;

/// What was counted of one process, or of everything else.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub accesses: u64,
    /// By level of cache.
    pub misses: Vec<u64>,
    /// By level of cache.
    pub causes: Vec<Causes>,
    pub runs: u64,
    pub migrations: BTreeMap<Level, u64>,
}

/// Whose tally an access goes to: everything else's, or a process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TallyIndex(usize);

impl TallyIndex {
    pub const OTHER: Self = Self(0);

    pub fn for_process(process: ProcessIndex) -> Self {
        Self(process.at() + 1)
    }
}

/// The tallies of all.
#[derive(Clone, Debug)]
pub(crate) struct Tallies {
    /// By level of cache.
    kinds: Vec<Kind>,
    /// How many levels, from the innermost, have their misses counted but not explained: L1, unless there is nothing else. It
    /// is reloaded within microseconds, and explaining takes time.
    unexplained: usize,
    tallies: Vec<Tally>,
}

impl Tallies {
    pub fn new(kinds: &[Kind]) -> Self {
        let unexplained = usize::from(kinds.len() > 1 && kinds[0] == Kind::Cache(1));
        Self { kinds: kinds.to_vec(), unexplained, tallies: Vec::new() }
    }

    fn nothing(&self) -> Tally {
        Tally {
            accesses: 0,
            misses: vec![0; self.kinds.len()],
            causes: vec![Causes::default(); self.kinds.len()],
            runs: 0,
            migrations: BTreeMap::new(),
        }
    }

    pub fn explains(&self, level: LevelIndex) -> bool {
        level.at() >= self.unexplained
    }

    #[inline]
    pub fn tally(&mut self, whose: TallyIndex) -> &mut Tally {
        if whose.0 >= self.tallies.len() {
            self.tallies.resize(whose.0 + 1, self.nothing());
        }
        &mut self.tallies[whose.0]
    }

    /// The whole section, with zeros for every level at which nothing was missed.
    pub fn section(&self) -> Section {
        let mut section = Section { all: self.counts(&self.nothing()), ..Section::default() };
        let (other, processes) = match self.tallies.split_first() {
            Some((other, processes)) => (other, processes),
            None => (&self.nothing(), [].as_slice()),
        };
        section.other = OtherCounts { accesses: other.accesses, misses: self.counts(other).misses };
        for (process, tally) in (0..).zip(processes).filter(|(_, tally)| tally.accesses > 0) {
            let counts = self.counts(tally);
            section.all += &counts;
            section.processes.insert(process, counts);
        }
        section
    }

    fn counts(&self, tally: &Tally) -> Counts {
        let kinds = || self.kinds.iter().copied();
        Counts {
            accesses: tally.accesses,
            misses: kinds().zip(tally.misses.iter().copied()).collect(),
            causes: kinds().zip(tally.causes.iter().copied()).skip(self.unexplained).collect(),
            runs: tally.runs,
            migrations: tally.migrations.clone(),
        }
    }

    pub fn clear(&mut self) {
        self.tallies.clear();
    }
}
