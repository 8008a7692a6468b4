//! Counts of one section, laid out for counting.

use crate::report::{Causes, Counts, Instructions, OtherCounts, Section};
use crate::window::ProcessIndex;
use machine::Kind;

/// The counts of all.
#[derive(Clone, Debug)]
pub(crate) struct Tallies {
    /// Zeros for every level at which misses are counted, and for every one at which they are explained.
    nothing: Counts,
    /// Of everything else, and then of each process.
    tallies: Vec<Counts>,
    /// By CPU.
    pub instructions: Vec<Instructions>,
}

impl Tallies {
    pub fn new(kinds: &[Kind], cpus: usize) -> Self {
        // L1 is reloaded within microseconds, and explaining takes time: its misses are only counted, unless there is nothing else.
        let unexplained = usize::from(kinds.len() > 1 && kinds[0] == Kind::Cache(1));
        let misses = kinds.iter().map(|&kind| (kind, 0)).collect();
        let causes = kinds[unexplained..].iter().map(|&kind| (kind, Causes::default())).collect();
        let nothing = Counts { misses, causes, ..Counts::default() };
        Self { nothing, tallies: Vec::new(), instructions: vec![Instructions::default(); cpus] }
    }

    pub fn explains(&self, kind: Kind) -> bool {
        self.nothing.causes.contains_key(&kind)
    }

    /// The counts of a process, or of everything else.
    #[inline]
    pub fn tally(&mut self, whose: Option<ProcessIndex>) -> &mut Counts {
        let index = whose.map_or(0, |process| process.at() + 1);
        if index >= self.tallies.len() {
            self.tallies.resize(index + 1, self.nothing.clone());
        }
        &mut self.tallies[index]
    }

    /// The whole section, with zeros for every level at which nothing was missed. Each miss counts `each` times.
    pub fn section(&self, each: u64) -> Section {
        let times_each = |counts: &Counts| {
            let mut counts = counts.clone();
            counts.misses.values_mut().for_each(|misses| *misses *= each);
            counts.causes.values_mut().for_each(|causes| *causes = causes.times(each));
            counts
        };
        let Counts { accesses, misses, .. } = times_each(self.tallies.first().unwrap_or(&self.nothing));
        let processes =
            (0..).zip(self.tallies.iter().skip(1).map(times_each)).filter(|(_, counts)| counts.accesses > 0);
        let mut section = Section {
            all: self.nothing.clone(),
            processes: processes.collect(),
            other: OtherCounts { accesses, misses },
            instructions: self.instructions.clone(),
        };
        section.processes.values().for_each(|counts| section.all += counts);
        section
    }
}
