//! What has gone through one cache, so that a process that returns knows what came in between.
//!
//! Fresh lines are used once: a running sum of them tells how many came between two moments. Reused lines must not be
//! summed: a process that ran twice in between has used the same lines twice, and the second time displaced nothing more.
//! What counts is the number of *distinct* lines, so a cache keeps the sets of lines used in it in the order of their last
//! use; those in front of a set have been used since.

use super::decay::Decay;
use super::history::History;
use super::survival::{Intruders, Survival};
use crate::index::ProcessIndex;

/// Position of a set of reused lines: those of one process, or those that the processes of one job share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SetIndex(pub u32);

impl SetIndex {
    /// What a process has for itself.
    pub fn own(process: ProcessIndex) -> Self {
        Self(process.0)
    }

    /// What the processes of a job share, where there are so many processes in all.
    pub fn shared(job: u32, processes: usize) -> Self {
        Self(processes as u32 + job)
    }
}

/// Sets remembered by name. Above that, [`Traffic::since`] uses sums.
const REMEMBERED: usize = 16;

/// The last use of a set in a cache.
#[derive(Clone, Copy, Debug)]
struct Use {
    set: SetIndex,
    team: Team,
    /// Lines of it that were used, as so many fresh ones.
    lines: f32,
}

/// The job whose processes share lines, and whether a set is those lines or what one of the processes has beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Team(u32);

impl Team {
    /// Of a process that shares nothing.
    pub const NONE: Self = Self(u32::MAX);

    /// What a job's processes share.
    pub fn shared(job: u32) -> Self {
        Self(job << 1 | 1)
    }

    /// What one of its processes has for itself.
    pub fn own(job: u32) -> Self {
        Self(job << 1)
    }

    /// The lines that a job shares lie beside those of each of its processes: they fit together.
    pub fn displaces_nothing_of(self, other: Self) -> bool {
        self.0 ^ other.0 == 1
    }
}

/// The running sums of a cache at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mark {
    /// Fresh lines so far.
    pub fresh: f64,
    /// Lines of sets that weren't remembered when they were used, so far.
    pub entered: f64,
}

/// What has gone through one cache.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    sums: Mark,
    /// The latest first.
    uses: [Use; REMEMBERED],
    remembered: usize,
    /// Where replacement heeds how long ago each line was used.
    history: Option<Box<History>>,
}

impl Traffic {
    pub fn new() -> Self {
        let none = Use { set: SetIndex(u32::MAX), team: Team::NONE, lines: 0.0 };
        Self { sums: Mark::default(), uses: [none; REMEMBERED], remembered: 0, history: None }
    }

    /// The same of a cache of several ways, with a history of how much of each set was used when.
    pub fn with_history() -> Self {
        Self { history: Some(Box::default()), ..Self::new() }
    }

    /// Of a set that was used in part, time and again, how many of `lines` are found: see [`History::found`].
    #[inline]
    pub fn found(&self, set: SetIndex, team: Team, lines: f64, survival: &Survival, decay: &Decay) -> Option<f64> {
        self.history.as_ref()?.found(set, team, lines, self.sums.fresh, survival, decay)
    }

    /// The latest use, if it was of this set, went on until now: all of it was used before.
    #[inline]
    pub fn go_on(&mut self, set: SetIndex) {
        if let Some(history) = &mut self.history {
            history.go_on(set, self.sums.fresh);
        }
    }

    pub fn now(&self) -> Mark {
        self.sums
    }

    /// Fresh lines come in.
    pub fn bring_fresh(&mut self, lines: f64) {
        self.sums.fresh += lines;
    }

    /// A set comes to be of other lines, but for the share `kept`. When nobody's was used since, what it leaves behind counts as
    /// so many fresh lines from now on: they are told. Otherwise they are forgotten when the set is used again.
    pub fn renew(&mut self, set: SetIndex, kept: f64) -> f64 {
        let last = &mut self.uses[0];
        if last.set != set {
            return 0.0;
        }
        let left_behind = f64::from(last.lines) * (1.0 - kept);
        last.lines = (f64::from(last.lines) * kept) as f32;
        self.sums.fresh += left_behind;
        left_behind
    }

    /// What others have used since `mark`, when `set` was last used.
    ///
    /// Exact, as far as whole sets are used at a time, when no more than [`REMEMBERED`] other sets were used since. With more,
    /// sets that weren't remembered are counted each time they are used anew: right when they take turns, too many when
    /// they don't.
    #[inline]
    pub fn since(&self, mark: Mark, set: SetIndex, team: Team) -> Intruders {
        let fresh = self.sums.fresh - mark.fresh;
        let (mut reused, mut squares) = (0.0, 0.0);
        for last in &self.uses[..self.remembered] {
            if last.set == set {
                return Intruders { lines: fresh + f64::from(reused), squares: f64::from(squares) };
            }
            if !last.team.displaces_nothing_of(team) {
                reused += last.lines;
                squares += last.lines * last.lines;
            }
        }
        let entered = self.sums.entered - mark.entered;
        Intruders { lines: fresh + f64::from(reused).max(entered), squares: f64::from(squares) }
    }

    /// The `share` of a set is used, of `lines` in all (counted as fresh ones). When that goes on with what was used last, it is
    /// the share of what wasn't used yet.
    #[inline]
    pub fn use_set(&mut self, set: SetIndex, team: Team, lines: f64, share: f64, goes_on: bool) {
        if let Some(history) = &mut self.history {
            history.use_set(set, team, lines, share, goes_on, self.sums.fresh);
        }
        if self.uses[0].set == set && f64::from(self.uses[0].lines) >= lines {
            return; // All of it was used, and nothing since.
        }
        let known = self.uses[..self.remembered].iter().position(|last| last.set == set);
        let before = match known {
            Some(at) if at == 0 || goes_on => f64::from(self.uses[at].lines),
            _ => 0.0,
        };
        let more = (lines - before).max(0.0) * share;
        if known.is_none_or(|at| at == 0) {
            self.sums.entered += more;
        }
        let end = known.unwrap_or_else(|| {
            self.remembered = (self.remembered + 1).min(REMEMBERED);
            self.remembered - 1
        });
        self.uses.copy_within(..end, 1);
        self.uses[0] = Use { set, team, lines: (before + more) as f32 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SetIndex = SetIndex(100);

    fn take_turns(traffic: &mut Traffic, sets: impl IntoIterator<Item = u32>) {
        for set in sets {
            traffic.use_set(SetIndex(set), Team::NONE, 10.0, 1.0, false);
        }
    }

    #[test]
    fn a_set_used_twice_since_counts_once() {
        let mut traffic = Traffic::new();
        traffic.use_set(A, Team::NONE, 10.0, 1.0, false);
        let mark = traffic.now();
        take_turns(&mut traffic, [1, 2, 1, 2, 1]);
        traffic.bring_fresh(7.0);
        assert_eq!(traffic.since(mark, A, Team::NONE).lines, 27.0);
    }

    #[test]
    fn more_sets_than_are_remembered_count_once_a_turn() {
        let mut traffic = Traffic::new();
        take_turns(&mut traffic, 0..40);
        traffic.use_set(A, Team::NONE, 10.0, 1.0, false);
        let mark = traffic.now();
        take_turns(&mut traffic, 0..40);
        assert_eq!(traffic.since(mark, A, Team::NONE).lines, 400.0);
    }

    #[test]
    fn a_set_used_bit_by_bit_nears_its_whole() {
        let mut traffic = Traffic::new();
        traffic.use_set(A, Team::NONE, 10.0, 1.0, false);
        let mark = traffic.now();
        traffic.use_set(SetIndex(1), Team::NONE, 10.0, 0.5, false);
        traffic.use_set(SetIndex(1), Team::NONE, 10.0, 0.5, false);
        assert_eq!(traffic.since(mark, A, Team::NONE).lines, 7.5);
    }

    #[test]
    fn a_set_that_comes_to_be_of_other_lines_displaces_by_all_of_them() {
        let mut traffic = Traffic::new();
        traffic.use_set(A, Team::NONE, 10.0, 1.0, false);
        let mark = traffic.now();
        for _ in 0..3 {
            traffic.use_set(SetIndex(1), Team::NONE, 10.0, 1.0, false);
            assert_eq!(traffic.renew(SetIndex(1), 0.25), 7.5);
            assert_eq!(traffic.renew(A, 0.0), 0.0, "it wasn't the last");
        }
        traffic.use_set(SetIndex(1), Team::NONE, 10.0, 1.0, false);
        assert_eq!(traffic.since(mark, A, Team::NONE).lines, 32.5);
    }

    #[test]
    fn shared_lines_lie_beside_those_of_their_own_job_only() {
        let mut traffic = Traffic::new();
        traffic.use_set(A, Team::own(0), 10.0, 1.0, false);
        let mark = traffic.now();
        traffic.use_set(SetIndex(1), Team::own(0), 10.0, 1.0, false);
        traffic.use_set(SetIndex(2), Team::shared(0), 10.0, 1.0, false);
        traffic.use_set(SetIndex(3), Team::shared(1), 10.0, 1.0, false);
        assert_eq!(traffic.since(mark, A, Team::own(0)).lines, 20.0);
        assert_eq!(traffic.since(mark, A, Team::NONE).lines, 30.0);
    }
}
