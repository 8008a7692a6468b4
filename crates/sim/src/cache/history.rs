//! What one cache of several ways holds, as a stack: who used how much of their lines, the latest use last.
//!
//! In random order each use of a set touches a share of its lines, whichever they are. Lines that the latest use didn't touch were last touched by
//! an earlier one, behind which others have come. So a set is in the cache in *batches*: of use `i`, what none after it touched,
//! `lines x share_i x product over later j of (1 - share_j)`. Above a batch lie the batches of all later uses, of its own set as well.
//!
//! LRU replacement keeps what is nearest to the top, and a set that comes back finds its batches by `survival.rs`: a batch of `b` lines
//! with `x` of its set in and below it and `d` lines above it are the first `b` of `x`, of which the others lie `b` deeper. Used
//! again and again, in whole, a set is one batch.
//!
//! That is what it finds when it uses all its lines: what is missing pushes out some that were there. Who touches few pushes out few: of those
//! that would go it loses the share that it touches, which is taken to be what it touched the last time.

use super::decay::Decay;
use super::survival::{Intruders, Survival};
use super::traffic::{SetIndex, Team};

/// Uses that are remembered. When there are more, two of one set become one.
const REMEMBERED: usize = 24;

/// A use of a set.
#[derive(Clone, Copy, Debug)]
struct Use {
    set: SetIndex,
    team: Team,
    /// The lines of the set, and the share of them that was touched.
    lines: f32,
    share: f32,
    /// Fresh lines that had come into the cache by its end.
    fresh: f64,
}

/// The uses of sets in one cache, the latest last.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    uses: Vec<Use>,
}

/// What later uses have touched of one set.
#[derive(Clone, Copy)]
struct Touched {
    set: SetIndex,
    /// The share of its lines that none of them touched.
    untouched: f64,
    /// Lines that they did.
    lines: f64,
}

impl History {
    /// A `share` of a set of `lines` is touched, by the end of which so many fresh ones have come by. When that goes on with its latest
    /// use, it is the share of what that didn't touch.
    pub fn use_set(&mut self, set: SetIndex, team: Team, lines: f64, share: f64, goes_on: bool, fresh: f64) {
        let is_last = self.uses.last().is_some_and(|last| last.set == set);
        let known = if is_last || goes_on { self.uses.iter().rposition(|known| known.set == set) } else { None };
        let before = known.map_or(0.0, |at| f64::from(self.uses.remove(at).share));
        let share = (before + (1.0 - before) * share) as f32;
        if self.uses.len() == REMEMBERED {
            self.forget_one();
        }
        self.uses.push(Use { set, team, lines: lines as f32, share, fresh });
    }

    /// So many fresh lines have come by, by the end of the latest use, if that was of this set.
    #[inline]
    pub fn go_on(&mut self, set: SetIndex, fresh: f64) {
        if let Some(last) = self.uses.last_mut().filter(|last| last.set == set) {
            last.fresh = fresh;
        }
    }

    /// Makes two uses of one set one, at the time of the later: those two by which the fewest lines come to lie so much higher than they do. Without
    /// such the earliest leaves.
    #[cold]
    fn forget_one(&mut self) {
        // By set, the latest use so far, on the way down, with how many lines lie above it, and what is untouched.
        let mut sets: [Option<(usize, f64, f64)>; REMEMBERED] = [None; REMEMBERED];
        let mut above = 0.0;
        let mut least = (f64::INFINITY, None);
        for (at, used) in self.uses.iter().enumerate().rev() {
            let known = sets.iter_mut().find(|known| known.is_none_or(|(later, ..)| self.uses[later].set == used.set));
            // There are as many places as uses.
            let Some(known) = known else { continue };
            let untouched = known.map_or(1.0, |(.., untouched)| untouched);
            let batch = f64::from(used.lines * used.share) * untouched;
            if let Some((later, above_later, _)) = *known {
                let lifted = batch * (above - above_later);
                if lifted < least.0 {
                    least = (lifted, Some((at, later)));
                }
            }
            above += batch;
            *known = Some((at, above, untouched * (1.0 - f64::from(used.share))));
        }
        match least.1 {
            Some((at, later)) => {
                let Use { share, .. } = self.uses.remove(at);
                // Which is one further down now.
                let later = &mut self.uses[later - 1];
                later.share += (1.0 - later.share) * share;
            }
            None => drop(self.uses.remove(0)),
        }
    }

    /// Of a set, of which so many lines can be in the cache, how many are found again, each when it is used; none when no use of it is remembered.
    /// So many fresh lines have come by until now.
    pub fn found(
        &self,
        set: SetIndex,
        team: Team,
        lines: f64,
        fresh: f64,
        survival: &Survival,
        decay: &Decay,
    ) -> Option<f64> {
        let mut sets = [Touched { set, untouched: 1.0, lines: 0.0 }; REMEMBERED + 1];
        let mut known = 1;
        let mut above = Intruders::default();
        // Of its lines, those that are there, those found when all are used, and the share that the latest use touched.
        let mut found: Option<(f64, f64, f64)> = None;
        for used in self.uses.iter().rev() {
            if used.set != set && used.team.displaces_nothing_of(team) {
                continue;
            }
            let at = sets[..known].iter().position(|touched| touched.set == used.set).unwrap_or(known);
            if at == known {
                sets[at] = Touched { set: used.set, untouched: 1.0, lines: 0.0 };
                known += 1;
            }
            let Touched { untouched, lines: before, .. } = sets[at];
            let share = f64::from(used.share);
            let whole = if at == 0 { lines } else { f64::from(used.lines) };
            let batch = whole * untouched * share;
            let below = Intruders {
                lines: above.lines + batch,
                squares: above.squares - before * before + (before + batch) * (before + batch),
            };
            if at == 0 {
                // Fresh lines that came by since lie above it.
                let since = fresh - used.fresh;
                let behind = |above: Intruders| Intruders { lines: above.lines + since, ..above };
                let surviving = |lines: f64, above: Intruders| survival.surviving(decay, lines, behind(above));
                let deeper = whole * (untouched * (1.0 - share));
                let hit =
                    surviving(whole * untouched, above) - if deeper > 0.0 { surviving(deeper, below) } else { 0.0 };
                let staying = survival.staying(decay, batch, behind(above), behind(below));
                let (all_staying, all_hit, touched) = found.unwrap_or((0.0, 0.0, share));
                found = Some((all_staying + staying, all_hit + hit.clamp(0.0, batch).min(staying), touched));
                if survival.is_beyond(behind(below)) {
                    break;
                }
            }
            (sets[at].untouched, sets[at].lines) = (untouched * (1.0 - share), before + batch);
            above = below;
        }
        found.map(|(staying, hit, touched)| staying - (staying - hit) * touched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::footprint::Order;

    const A: SetIndex = SetIndex(0);
    const B: SetIndex = SetIndex(1);

    fn found(history: &History, lines: f64, frames: f64) -> Option<f64> {
        let survival = Survival::new(frames, None, Order::Random);
        history.found(A, Team::NONE, lines, 0.0, &survival, &Decay::new())
    }

    fn uses(of: &[(SetIndex, f64, f64)]) -> History {
        let mut history = History::default();
        of.iter().for_each(|&(set, lines, share)| history.use_set(set, Team::NONE, lines, share, false, 0.0));
        history
    }

    #[test]
    fn who_was_never_there_finds_nothing() {
        assert_eq!(found(&uses(&[(B, 10.0, 1.0)]), 10.0, 100.0), None);
    }

    #[test]
    fn all_that_was_touched_is_found_where_everything_fits() {
        let history = uses(&[(A, 100.0, 0.5), (B, 100.0, 0.5), (A, 100.0, 0.5), (B, 100.0, 0.5)]);
        // A quarter of the lines was never touched.
        assert!((found(&history, 100.0, 1_000.0).unwrap() - 75.0).abs() < 1e-4);
    }

    #[test]
    fn batches_by_hand() {
        // From the top: B's 50, A's 50, B's other 25, A's other 25, of 100 and 100.
        let history = uses(&[(A, 100.0, 0.5), (B, 100.0, 0.5), (A, 100.0, 0.5), (B, 100.0, 0.5)]);
        // 125 frames end where A's second batch begins. Of the first batch line y of 50 is there until 75 - y of the other 100 - y are used:
        // the mean of (75 - y) / (100 - y) over y from 0 to 50, which is 1 - ln(2) / 2, is found when all are, and A uses half of them.
        let lost = 25.0 * std::f64::consts::LN_2 / 2.0;
        assert!((found(&history, 100.0, 125.0).unwrap() - (50.0 - lost)).abs() < 1e-4);
        // 150 hold the second as well. It is of 50 that were not touched of late, and the 25 that nobody touched push it out: the sum over y
        // from 0 to 25 of (25 - y) / (50 - y), 25 - 25 ln(2), would be found.
        assert!((found(&history, 100.0, 150.0).unwrap() - (75.0 - lost)).abs() < 1e-4);
    }

    #[test]
    fn short_uses_are_remembered_as_fewer_longer_ones() {
        let short: Vec<_> = [(A, 100.0, 0.01), (B, 100.0, 0.01)].repeat(100);
        let history = uses(&short);
        assert_eq!(history.uses.len(), REMEMBERED);
        let touched = 100.0 * (1.0 - 0.99f64.powi(100));
        assert!((found(&history, 100.0, 1_000.0).unwrap() - touched).abs() < 1e-3);
        // Of 40 frames the upper 20 of each are there: within a fifth.
        let few = found(&history, 100.0, 40.0).unwrap();
        assert!((16.0..24.0).contains(&few), "{few}");
    }

    #[test]
    fn a_use_that_goes_on_is_one() {
        let mut history = uses(&[(A, 100.0, 0.5), (B, 100.0, 1.0)]);
        history.use_set(A, Team::NONE, 100.0, 0.5, true, 0.0);
        assert_eq!(history.uses.len(), 2);
        assert!(
            (found(&history, 100.0, 75.0).unwrap() - found(&uses(&[(A, 100.0, 0.75)]), 100.0, 75.0).unwrap()).abs()
                < 1e-4
        );
    }
}
