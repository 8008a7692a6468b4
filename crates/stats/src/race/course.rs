//! The course of a race: which arms run in the next block, who was left out when, and why.
//!
//! It is computed anew from the runs, block by block, so a race that was interrupted goes on as it would have.

use super::effects::{Effects, Noise};
use super::simultaneous::maximum_modulus;
use super::{Drop, DropReason, Outcome, Race, RaceRule, Run};
use crate::draw::block_permutation;
use crate::paired::{CONFIDENCE, MIN_PAIRS};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A block takes at most this share of the runs that are left, so that every later one can be as careful for its size.
const SHARE_OF_LEFT: f64 = 0.3;

/// One-sided level at which a single comparison says that an arm isn't the best any more.
const PROMISE: f64 = 0.995;

/// The last leg begins with at most so many candidates.
const FINALISTS: usize = 3;

/// Blocks of the last leg when there are runs for them: enough pairs for a gain with an interval that says something.
const LAST_LEG_BLOCKS: usize = 8;

/// A tie is as good as broken when the best is surely not slower than the others by more than this (1 %).
const INDIFFERENCE: f64 = 0.01;

/// A reference that gives no time so many times more often than it gives one isn't run again.
const PATIENCE: usize = 2;

/// The blocks that the last candidates run beside their references and the arms that are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LastLeg {
    /// How many runs were made before it.
    pub(super) from_run: usize,
    /// How many candidates it began with.
    pub(super) finalists: usize,
    /// Blocks of it that are done.
    blocks: usize,
}

/// Where the race is after some whole blocks.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// Arms of the next block, rising; empty when the race is over.
    pub(super) next: Vec<usize>,
    /// Arms that may still be named the best.
    pub(super) candidates: Vec<usize>,
    /// When and why the others were left out.
    pub(super) dropped: Vec<Option<Drop>>,
    /// The last leg, once it has begun.
    pub(super) last_leg: Option<LastLeg>,
}

impl Course {
    /// The course after `runs`; a last block of which some arms haven't run yet decides nothing.
    pub(super) fn of(race: &Race, runs: &[Run]) -> Self {
        let mut course = Self::start(race);
        let mut end = 0;
        for block in runs.chunk_by(|a, b| a.block == b.block) {
            end += block.len();
            let whole = course.next.iter().all(|&arm| block.iter().any(|run| run.arm == arm));
            if end < runs.len() || whole {
                course.advance(race, &runs[..end]);
            }
        }
        course
    }

    /// The first block runs every arm; when there aren't runs for all, those that are kept, then references, then some that
    /// are drawn.
    fn start(race: &Race) -> Self {
        let mut order = race.kept_arms();
        order.extend((0..race.arms).filter(|&arm| race.reference_of(arm) == Some(arm)));
        order.extend(block_permutation(race.seed, 0, 0, race.arms));
        let mut next = Vec::new();
        for arm in order {
            if next.len() < race.budget() && !next.contains(&arm) {
                next.push(arm);
            }
        }
        next.sort_unstable();
        Self { candidates: next.clone(), next, dropped: vec![None; race.arms], last_leg: None }
    }

    /// Decides after a block, the last of `runs`.
    fn advance(&mut self, race: &Race, runs: &[Run]) {
        let Some(block) = runs.last().map(|run| run.block) else { return };
        if let Some(leg) = &mut self.last_leg {
            leg.blocks += 1;
        }
        for arm in std::mem::take(&mut self.candidates) {
            match spoilt(runs, arm) {
                Some(why) => self.dropped[arm] = Some(Drop { block, why }),
                None => self.candidates.push(arm),
            }
        }
        let effects = Effects::fit(race.arms, runs);
        let mut ranked: Vec<(f64, usize)> =
            self.candidates.iter().filter_map(|&arm| Some((effects.of(arm)?, arm))).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ranked: Vec<usize> = ranked.into_iter().map(|(_, arm)| arm).collect();
        let before = std::mem::replace(&mut self.candidates, ranked);
        self.next.clear();
        if let Some(&best) = self.candidates.first() {
            let left = race.budget().saturating_sub(runs.len());
            match race.rule {
                RaceRule::Halving { .. } => self.halve(race, runs, &effects, left),
                RaceRule::Guarantee { epsilon, delta, .. } => {
                    self.challenge(race, runs, &effects, left, epsilon, delta)
                }
            }
            let critical = critical_to_one(&effects);
            for arm in before {
                let still_in = self.next.contains(&arm) || (self.next.is_empty() && self.candidates.contains(&arm));
                if still_in {
                    self.dropped[arm] = None;
                } else if self.dropped[arm].is_none() {
                    let slower = critical.zip(effects.difference(arm, best)).is_some_and(|(c, d)| d.log > c * d.std_error);
                    let why = if slower { DropReason::Slower } else { DropReason::Halved };
                    self.dropped[arm] = Some(Drop { block, why });
                }
            }
        }
        for &arm in &self.next {
            self.dropped[arm] = None;
        }
        self.next.sort_unstable();
    }

    /// Sequential halving: of the candidates those that still promise to be the best, as many as the share of the runs
    /// left allows.
    fn halve(&mut self, race: &Race, runs: &[Run], effects: &Effects, left: usize) {
        let best = self.candidates[0];
        let promising: Vec<usize> =
            self.candidates.iter().copied().filter(|&arm| may_beat(effects, best, arm, 0.0, single_look)).collect();
        let rivals = || promising.iter().filter(|&&arm| arm != best);
        let settled = rivals().all(|&arm| !may_beat(effects, best, arm, INDIFFERENCE, single_look));
        if self.last_leg.is_none() {
            let share = ((SHARE_OF_LEFT * left as f64).ceil() as usize).max(2);
            let kept = race.guests(runs, &promising[..1], false).len();
            let size = share.min(promising.len()).min(left.saturating_sub(kept));
            let affordable = race.affordable(runs, &promising, left, MIN_PAIRS);
            let worth_it = !race.guests(runs, &promising[..1], true).is_empty() && affordable > 0;
            let finalists = affordable.min(FINALISTS);
            let short =
                race.leg_cost(runs, &promising[..finalists.min(promising.len())], MIN_PAIRS) + size + kept > left;
            if !worth_it {
                if !settled && size > 1 {
                    self.enter(race, runs, &promising[..size], false);
                }
                return;
            }
            if size > FINALISTS && !short {
                self.enter(race, runs, &promising[..size], false);
                return;
            }
            self.last_leg = Some(LastLeg { from_run: runs.len(), finalists, blocks: 0 });
        }
        self.go_on_with_leg(race, runs, &promising, settled, left);
    }

    /// The next block of the last leg, when it isn't done and there are runs for it.
    fn go_on_with_leg(&mut self, race: &Race, runs: &[Run], promising: &[usize], settled: bool, left: usize) {
        let Some(leg) = self.last_leg else { return };
        if settled && leg.blocks >= LAST_LEG_BLOCKS {
            return;
        }
        let most = if settled { 1 } else { leg.finalists };
        let size = race.affordable(runs, promising, left, MIN_PAIRS.saturating_sub(leg.blocks).max(1)).min(most);
        if size > 0 && size + race.guests(runs, &promising[..size], true).len() > 1 {
            self.enter(race, runs, &promising[..size], true);
        }
    }

    /// LUCB, with all challengers in one block: the best, and all that may be better by more than `epsilon`.
    fn challenge(&mut self, race: &Race, runs: &[Run], effects: &Effects, left: usize, epsilon: f64, delta: f64) {
        let best = self.candidates[0];
        let looks = runs.chunk_by(|a, b| a.block == b.block).count();
        let critical = effects.noise().map(|noise| {
            let miss = delta.clamp(1e-9, 1.0) / (1.0 + (looks as f64).log2()).powi(2);
            maximum_modulus(self.candidates.len() - 1, noise.freedom, 2.0 * miss)
        });
        let mut challengers: Vec<(f64, usize)> = self.candidates[1..]
            .iter()
            .map(|&arm| {
                let bound = critical.zip(effects.difference(best, arm));
                (bound.map_or(f64::INFINITY, |(critical, d)| d.log + critical * d.std_error), arm)
            })
            .filter(|(bound, _)| self.last_leg.is_none() && *bound > epsilon.max(0.0).ln_1p())
            .collect();
        challengers.sort_by(|a, b| b.0.total_cmp(&a.0));
        if challengers.is_empty() {
            if self.last_leg.is_none() && race.affordable(runs, &[best], left, MIN_PAIRS) > 0 {
                self.last_leg = Some(LastLeg { from_run: runs.len(), finalists: 1, blocks: 0 });
            }
            self.go_on_with_leg(race, runs, &[best], true, left);
            return;
        }
        let kept = race.guests(runs, &[best], false).len();
        let mut block = vec![best];
        block.extend(challengers.iter().map(|(_, arm)| *arm).take(left.saturating_sub(1 + kept)));
        if block.len() > 1 {
            let all = std::mem::take(&mut self.candidates);
            self.enter(race, runs, &block, false);
            self.candidates = all;
        }
    }

    /// Whether `arm` is in: in the next block or, when the race is over, not left out.
    pub(super) fn is_in(&self, arm: usize) -> bool {
        self.next.contains(&arm) || self.candidates.contains(&arm)
    }

    /// Makes `candidates`, and the guests that they need, the next block.
    fn enter(&mut self, race: &Race, runs: &[Run], candidates: &[usize], last_leg: bool) {
        self.candidates = candidates.to_vec();
        self.next = candidates.to_vec();
        self.next.extend(race.guests(runs, candidates, last_leg));
    }
}

impl Race<'_> {
    pub(super) fn budget(&self) -> usize {
        match self.rule {
            RaceRule::Halving { runs } => runs as usize,
            RaceRule::Guarantee { max_runs, .. } => max_runs as usize,
        }
    }

    pub(super) fn kept_arms(&self) -> Vec<usize> {
        self.kept.iter().copied().filter(|&arm| arm < self.arms).collect()
    }

    pub(super) fn reference_of(&self, arm: usize) -> Option<usize> {
        self.reference.get(arm).copied().flatten().filter(|&reference| reference < self.arms)
    }

    /// Who runs beside `candidates` without being one: the arms that are kept and, in the last leg, the references.
    fn guests(&self, runs: &[Run], candidates: &[usize], last_leg: bool) -> Vec<usize> {
        let mut guests = self.kept_arms();
        if last_leg {
            let references = candidates.iter().filter_map(|&arm| self.reference_of(arm));
            guests.extend(references.filter(|&reference| {
                let failed = outcomes(runs, reference, |outcome| matches!(outcome, Outcome::Failed));
                let good = outcomes(runs, reference, |outcome| matches!(outcome, Outcome::Time(_)));
                failed <= good + PATIENCE
            }));
        }
        guests.sort_unstable();
        guests.dedup();
        guests.retain(|arm| !candidates.contains(arm));
        guests
    }

    /// What a last leg costs that begins with all `candidates` and goes on with the first alone.
    fn leg_cost(&self, runs: &[Run], candidates: &[usize], blocks: usize) -> usize {
        let beside = |candidates: &[usize]| candidates.len() + self.guests(runs, candidates, true).len();
        beside(candidates) + blocks.saturating_sub(1) * beside(&candidates[..candidates.len().min(1)])
    }

    /// With how many of the `ranked` candidates at most a last leg of so many `blocks` can begin or go on.
    fn affordable(&self, runs: &[Run], ranked: &[usize], left: usize, blocks: usize) -> usize {
        (1..=ranked.len()).take_while(|&size| self.leg_cost(runs, &ranked[..size], blocks) <= left).last().unwrap_or(0)
    }
}

/// Why an arm is out whatever its times are: more of its runs came to nothing than gave a time.
fn spoilt(runs: &[Run], arm: usize) -> Option<DropReason> {
    let good = outcomes(runs, arm, |outcome| matches!(outcome, Outcome::Time(_)));
    let cut_off = outcomes(runs, arm, |outcome| matches!(outcome, Outcome::CutOff(_)));
    let failed = outcomes(runs, arm, |outcome| matches!(outcome, Outcome::Failed));
    let why = if cut_off >= failed { DropReason::Outpaced } else { DropReason::Failed };
    (cut_off + failed > good).then_some(why)
}

fn outcomes(runs: &[Run], arm: usize, which: impl Fn(Outcome) -> bool) -> usize {
    runs.iter().filter(|run| run.arm == arm && which(run.outcome)).count()
}

/// Student's t for a single look at a single comparison.
fn single_look(noise: Noise) -> f64 {
    StudentsT::new(0.0, 1.0, noise.freedom).map_or(f64::INFINITY, |student| student.inverse_cdf(PROMISE))
}

/// Whether `arm` may be better than `best` by more than `margin` (0.01 = 1 %), as far as is known.
fn may_beat(effects: &Effects, best: usize, arm: usize, margin: f64, critical: fn(Noise) -> f64) -> bool {
    arm == best
        || effects.noise().zip(effects.difference(best, arm)).is_none_or(|(noise, difference)| {
            difference.log + critical(noise) * difference.std_error > f64::ln_1p(margin)
        })
}

/// How many standard errors the differences to one arm are off at most, all at once; none while the noise isn't known.
fn critical_to_one(effects: &Effects) -> Option<f64> {
    let noise = effects.noise()?;
    Some(maximum_modulus(effects.known().saturating_sub(1), noise.freedom, 1.0 - CONFIDENCE))
}
