//! The algorithm straight from its definition: every sum and every choice by a scan of all. What [`super::queue`] is held to.

use crate::index::ProcessIndex;

/// A process that competes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Competitor {
    pub(super) process: ProcessIndex,
    pub(super) weight: u32,
    pub(super) v: i64,
    pub(super) deadline: i64,
}

/// All that compete on a CPU, who runs included.
#[derive(Clone, Debug, Default)]
pub(super) struct Naive(pub(super) Vec<Competitor>);

impl Naive {
    /// Whether a process is owed something or nothing: w_j (v_j - v_i) summed over all j is not negative.
    pub(super) fn is_eligible(&self, v: i64) -> bool {
        self.0.iter().map(|other| i128::from(other.weight) * (i128::from(other.v) - i128::from(v))).sum::<i128>() >= 0
    }

    /// Who of `among` runs next: the earliest deadline of those that are eligible, of equal ones the lowest number.
    pub(super) fn first(&self, among: impl Fn(ProcessIndex) -> bool) -> Option<ProcessIndex> {
        let eligible = self.0.iter().filter(|one| among(one.process) && self.is_eligible(one.v));
        eligible.min_by_key(|one| (one.deadline, one.process)).map(|one| one.process)
    }

    /// The lag of a process, times the sum of all weights, in virtual ns.
    pub(super) fn scaled_lag(&self, v: i64) -> i128 {
        self.0.iter().map(|other| i128::from(other.weight) * (i128::from(other.v) - i128::from(v))).sum()
    }

    pub(super) fn weight(&self) -> i128 {
        self.0.iter().map(|one| i128::from(one.weight)).sum()
    }
}
