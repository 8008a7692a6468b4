//! The course of a race: which arms run in the next block, who was left out when, and why.
//!
//! It is a function of the runs, block by block, so a race that was interrupted goes on as it would have.

use super::effects::{Effects, Noise};
use super::simultaneous::maximum_modulus;
use super::{DropReason, Elimination, Outcome, Race, RaceRule, Run};
use crate::draw::block_permutation;
use crate::look::is_look;
use crate::paired::{CONFIDENCE, MIN_PAIRS, student};
use statrs::distribution::ContinuousCDF;
use std::cmp::Ordering;

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

/// A guarantee against less than this is none that times can give.
const LEAST_DELTA: f64 = 1e-9;

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
    /// Arms that may still win.
    candidates: Vec<usize>,
    /// Arms that ran beside them in the last block without being candidates, or will in the next.
    guests: Vec<usize>,
    /// When and why the others were left out.
    pub(super) dropped: Vec<Option<Elimination>>,
    /// The last leg, once it has begun.
    pub(super) last_leg: Option<LastLeg>,
    /// Which arms have entered the race.
    entered: Vec<bool>,
    /// Blocks since the race or its last leg began, or arms were admitted: what looks are counted by.
    blocks: usize,
    /// The noise at the last look; none before, or while no arm had run twice.
    pub(super) noise: Option<Noise>,
}

impl Course {
    /// The first block runs every arm; when there aren't runs for all, those that are kept, then references, then some that
    /// are drawn.
    pub(super) fn start(race: &Race) -> Self {
        let entered: Vec<bool> = (0..race.arms).map(|arm| race.entry_of(arm) == 0).collect();
        let mut order = race.kept_arms();
        order.extend((0..race.arms).filter(|&arm| race.reference_of(arm) == Some(arm)));
        order.extend(block_permutation(race.seed, 0, 0, race.arms));
        let mut next = Vec::new();
        for arm in order {
            if entered[arm] && next.len() < race.budget() && !next.contains(&arm) {
                next.push(arm);
            }
        }
        next.sort_unstable();
        let dropped = vec![None; race.arms];
        let candidates = next.clone();
        Self { candidates, guests: Vec::new(), next, dropped, last_leg: None, entered, blocks: 0, noise: None }
    }

    /// Lets the arms in that enter by `block`, the one after `runs`. It runs them beside those that may still win and their references,
    /// as far as there are runs left, and a last leg begins anew: its finalists were chosen without them.
    pub(super) fn admit(&mut self, race: &Race, runs: &[Run], block: u32) {
        let new: Vec<usize> = (0..race.arms).filter(|&arm| !self.entered[arm] && race.entry_of(arm) <= block).collect();
        if new.is_empty() {
            return;
        }
        let mut next = new.clone();
        for &arm in &new {
            (self.entered[arm], self.dropped[arm]) = (true, None);
        }
        let candidates = [new, std::mem::take(&mut self.candidates)].concat();
        let references = candidates.iter().filter_map(|&arm| race.reference_of(arm)).filter(|&arm| self.entered[arm]);
        for arm in race.kept_arms().into_iter().chain(references).chain(candidates.iter().copied()) {
            if self.entered[arm] && !next.contains(&arm) {
                next.push(arm);
            }
        }
        next.truncate(race.budget().saturating_sub(runs.len()));
        next.sort_unstable();
        self.guests = next.iter().copied().filter(|arm| !candidates.contains(arm)).collect();
        (self.next, self.candidates, self.last_leg, self.blocks) = (next, candidates, None, 0);
    }

    /// Decides after a block, the last of `runs`. Where none is due for a look, the next block is like it, as long as there are runs
    /// for that.
    pub(super) fn advance(&mut self, race: &Race, runs: &[Run]) {
        let Some(block) = runs.last().map(|run| run.block) else { return };
        let left = race.budget().saturating_sub(runs.len());
        self.blocks += 1;
        if let Some(leg) = &mut self.last_leg {
            leg.blocks += 1;
        }
        if !is_look(self.blocks) && (1..=left).contains(&self.next.len()) {
            return;
        }
        let effects = Effects::fit(race.arms, runs);
        self.noise = effects.noise();
        let look = Look { race, runs, effects: &effects, left };
        // Whether an arm is out for its failures doesn't depend on the other arms, so that is settled first.
        let before = std::mem::take(&mut self.candidates);
        self.next.clear();
        for &arm in &before {
            match look.spoilt_reason(arm) {
                Some(why) => self.dropped[arm] = Some(Elimination { block, why }),
                None => self.candidates.push(arm),
            }
        }
        // Times that are no positive numbers give no effect.
        self.candidates.retain(|&arm| effects.effect(arm).is_some());
        self.candidates.sort_by(|&a, &b| effects.effect(a).partial_cmp(&effects.effect(b)).unwrap_or(Ordering::Equal));
        if let Some(&best) = self.candidates.first() {
            match race.rule {
                RaceRule::Halving { .. } => self.halve(&look, best),
                RaceRule::Guarantee { epsilon, delta, .. } => self.challenge(&look, best, epsilon, delta),
            }
            self.next.sort_unstable();
            self.record_dropped(&look, before, best, block);
        }
    }

    /// Sequential halving: of the candidates those that still promise to be the best, as many as the share of the runs
    /// left allows. When few are left, or the runs that a gain takes would be touched, the last leg begins.
    fn halve(&mut self, look: &Look, best: usize) {
        let critical = look.effects.noise().map(|noise| student(noise.freedom).inverse_cdf(PROMISE));
        self.candidates.retain(|&arm| arm == best || look.may_beat(best, arm, critical, 0.0));
        // Settled: nobody else is better by a margin that matters.
        let rivals = &self.candidates[1..];
        let settled = !rivals.iter().any(|&arm| look.may_beat(best, arm, critical, INDIFFERENCE));
        if self.last_leg.is_none() {
            // How many may enter the next block: a share of the runs left, beside the arms that are kept whatever happens.
            let kept = look.guests(&[best], false).len();
            let share = ((SHARE_OF_LEFT * look.left as f64).ceil() as usize).max(2);
            let size = share.min(self.candidates.len()).min(look.left.saturating_sub(kept));
            // The last leg needs runs for at least one finalist, and a reference to tell a gain against.
            let finalists = look.affordable(&self.candidates, MIN_PAIRS).min(FINALISTS);
            let leg_makes_sense = finalists > 0 && !look.guests(&[best], true).is_empty();
            let leg_runs = look.leg_runs(&self.candidates[..finalists], MIN_PAIRS);
            // An ordinary block is run when there is no last leg to come, or it leaves enough runs for that.
            if !leg_makes_sense || (size > FINALISTS && size + kept + leg_runs <= look.left) {
                // Without a last leg, a best that is settled, or alone, ends the race.
                if leg_makes_sense || (size > 1 && !settled) {
                    self.enter(look, self.candidates[..size].to_vec(), false);
                }
                return;
            }
            self.begin_leg(look, finalists);
        }
        self.go_on_with_leg(look, settled);
    }

    fn begin_leg(&mut self, look: &Look, finalists: usize) {
        self.last_leg = Some(LastLeg { from_run: look.runs.len(), finalists, blocks: 0 });
        self.blocks = 0;
    }

    /// The next block of the last leg, when it isn't done and there are runs for it.
    fn go_on_with_leg(&mut self, look: &Look, settled: bool) {
        // A tie goes on while there are runs; a settled race only until the gain has its pairs.
        let Some(leg) = self.last_leg.filter(|leg| !settled || leg.blocks < LAST_LEG_BLOCKS) else { return };
        // As many candidates go on as can still get the fewest pairs that give a gain.
        let blocks = MIN_PAIRS.saturating_sub(leg.blocks).max(1);
        let most = if settled { 1 } else { leg.finalists };
        let size = look.affordable(&self.candidates, blocks).min(most);
        if look.leg_runs(&self.candidates[..size], 1) > 1 {
            self.enter(look, self.candidates[..size].to_vec(), true);
        }
    }

    /// LUCB with all challengers in one block: the best, and all that may be better by more than `epsilon`. When there is none
    /// the best is guaranteed and goes through the last leg alone.
    ///
    /// What may be missed is shared among the looks as 1 / (1 + log2 looks)^2, so that looking twice as often costs one share
    /// more.
    fn challenge(&mut self, look: &Look, best: usize, epsilon: f64, delta: f64) {
        if self.last_leg.is_none() {
            let looks = look.runs.chunk_by(|a, b| a.block == b.block).count() as f64;
            let miss = delta.clamp(LEAST_DELTA, 1.0) / (1.0 + looks.log2()).powi(2);
            // The modulus is two-sided; only one side can be missed.
            let rivals = self.candidates.len() - 1;
            let critical = look.effects.noise().map(|noise| maximum_modulus(rivals, noise.freedom, 2.0 * miss));
            let mut challengers = self.candidates[1..].to_vec();
            challengers.retain(|&arm| look.may_beat(best, arm, critical, epsilon.max(0.0)));
            if !challengers.is_empty() {
                let kept = look.guests(&[best], false).len();
                challengers.truncate(look.left.saturating_sub(1 + kept));
                if !challengers.is_empty() {
                    challengers.insert(0, best);
                    // Who isn't a challenger now may become one: all stay candidates.
                    let candidates = self.candidates.clone();
                    self.enter(look, challengers, false);
                    self.candidates = candidates;
                }
                return;
            }
            if look.affordable(&[best], MIN_PAIRS) == 0 {
                return;
            }
            self.begin_leg(look, 1);
        }
        self.go_on_with_leg(look, true);
    }

    /// Makes `candidates`, and the guests that they need, the next block.
    fn enter(&mut self, look: &Look, candidates: Vec<usize>, last_leg: bool) {
        self.guests = look.guests(&candidates, last_leg);
        self.next = [candidates.as_slice(), &self.guests].concat();
        self.candidates = candidates;
    }

    /// Whether `arm` is in: it runs in the next block or, when the race is over, was not left out.
    pub(super) fn is_in(&self, arm: usize) -> bool {
        let over = self.next.is_empty();
        self.next.contains(&arm) || (over && (self.candidates.contains(&arm) || self.guests.contains(&arm)))
    }

    fn record_dropped(&mut self, look: &Look, before: Vec<usize>, best: usize, block: u32) {
        // An arm that runs again, as a reference may, isn't out.
        for &arm in &self.next {
            self.dropped[arm] = None;
        }
        let newly_out: Vec<usize> =
            before.into_iter().filter(|&arm| !self.is_in(arm) && self.dropped[arm].is_none()).collect();
        if newly_out.is_empty() {
            return;
        }
        // Slower is said only of a difference that holds among all arms; others made way for want of runs.
        let critical = look
            .effects
            .noise()
            .map(|noise| maximum_modulus(look.effects.known().saturating_sub(1), noise.freedom, 1.0 - CONFIDENCE));
        for arm in newly_out {
            let slower = critical
                .zip(look.effects.difference(arm, best))
                .is_some_and(|(critical, difference)| difference.log > critical * difference.std_error);
            let why = if slower { DropReason::Slower } else { DropReason::Halved };
            self.dropped[arm] = Some(Elimination { block, why });
        }
    }
}

/// What a decision is made from.
struct Look<'a> {
    race: &'a Race<'a>,
    runs: &'a [Run],
    effects: &'a Effects,
    /// Runs that may still be made.
    left: usize,
}

impl Look<'_> {
    /// Who runs beside `candidates` without being one, rising: the arms that are kept and, in the last leg, the references.
    fn guests(&self, candidates: &[usize], last_leg: bool) -> Vec<usize> {
        let mut guests = self.race.kept_arms();
        if last_leg {
            let references = candidates.iter().filter_map(|&arm| self.race.reference_of(arm));
            guests.extend(references.filter(|&reference| {
                let [good, _, failed] = self.outcomes(reference);
                failed <= good + PATIENCE
            }));
        }
        guests.sort_unstable();
        guests.dedup();
        guests.retain(|arm| !candidates.contains(arm));
        guests
    }

    /// What a last leg of so many `blocks` takes that begins with all `candidates` and goes on with the first alone.
    fn leg_runs(&self, candidates: &[usize], blocks: usize) -> usize {
        let block = |candidates: &[usize]| candidates.len() + self.guests(candidates, true).len();
        if candidates.is_empty() { 0 } else { block(candidates) + (blocks - 1) * block(&candidates[..1]) }
    }

    /// With how many of the `ranked` candidates at most a last leg of so many `blocks` can begin or go on.
    fn affordable(&self, ranked: &[usize], blocks: usize) -> usize {
        (1..=ranked.len()).take_while(|&size| self.leg_runs(&ranked[..size], blocks) <= self.left).last().unwrap_or(0)
    }

    /// Whether `arm` may be better than `best` by more than `margin` (0.01 = 1 %) when differences are off by at most so many
    /// standard errors; anything may be while the noise isn't known.
    fn may_beat(&self, best: usize, arm: usize, critical: Option<f64>, margin: f64) -> bool {
        critical
            .zip(self.effects.difference(best, arm))
            .is_none_or(|(critical, difference)| difference.log + critical * difference.std_error > margin.ln_1p())
    }

    /// Why an arm is out whatever its times are: more of its runs came to nothing than gave a time.
    fn spoilt_reason(&self, arm: usize) -> Option<DropReason> {
        let [good, cut_off, failed] = self.outcomes(arm);
        let why = if cut_off >= failed { DropReason::Outpaced } else { DropReason::Failed };
        (cut_off + failed > good).then_some(why)
    }

    /// How many runs of `arm` gave a time, were cut off, and failed.
    fn outcomes(&self, arm: usize) -> [usize; 3] {
        let mut counts = [0; 3];
        for run in self.runs.iter().filter(|run| run.arm == arm) {
            counts[match run.outcome {
                Outcome::Time(_) => 0,
                Outcome::CutOff(_) => 1,
                Outcome::Failed => 2,
            }] += 1;
        }
        counts
    }
}

impl Race<'_> {
    /// Most runs in all.
    fn budget(&self) -> usize {
        match self.rule {
            RaceRule::Halving { runs } => runs as usize,
            RaceRule::Guarantee { max_runs, .. } => max_runs as usize,
        }
    }

    fn kept_arms(&self) -> Vec<usize> {
        self.kept.iter().copied().filter(|&arm| arm < self.arms).collect()
    }

    fn entry_of(&self, arm: usize) -> u32 {
        self.entries.get(arm).copied().unwrap_or(0)
    }

    pub(super) fn reference_of(&self, arm: usize) -> Option<usize> {
        self.reference.get(arm).copied().flatten().filter(|&reference| reference < self.arms)
    }
}
