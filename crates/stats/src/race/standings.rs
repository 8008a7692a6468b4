//! Where a race stands, and how sure one may be.

use super::course::Course;
use super::effects::{Effects, Noise};
use super::simultaneous::maximum_modulus;
use super::{Gain, Outcome, Race, Run, Standing, Standings};
use crate::claim::{Claim, claims};
use crate::paired::{CONFIDENCE, POWER, Pair, paired_ratio, student};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF};

const MISS: f64 = 1.0 - CONFIDENCE;

/// Share of runs that something may have disturbed: so many arms with a single slow run prove nothing.
const DISTURBED: f64 = 0.05;

impl Race<'_> {
    /// Where the race stands after `runs`, whose course is `course`.
    pub(super) fn standings_of(&self, course: &Course, runs: &[Run]) -> Standings {
        let effects = Effects::fit(self.arms, runs);
        let best = self.best(course, &effects, runs);
        let standing = |arm: usize| Standing {
            runs: runs.iter().filter(|run| run.arm == arm).count(),
            loss: None,
            loss_low: None,
            loss_high: None,
            dropped: course.dropped[arm],
        };
        let mut standings = Standings {
            best,
            tied: Vec::new(),
            difference_shown: false,
            gain: best.and_then(|best| self.gain(course, runs, best)),
            smallest_detectable: None,
            arms: (0..self.arms).map(standing).collect(),
        };
        if let Some(best) = best {
            standings.tied = (0..self.arms).filter(|&arm| effects.effect(arm).is_some()).collect();
            let critical = effects.noise().map(|noise| self.tell_apart(&mut standings, best, &effects, noise, runs));
            standings.add_losses(best, &effects, critical, runs);
        }
        standings
    }

    /// The arm of the least effect of those that are in; when none of them has a time, of all.
    fn best(&self, course: &Course, effects: &Effects, runs: &[Run]) -> Option<usize> {
        let least = |arms: &mut dyn Iterator<Item = usize>| {
            arms.filter_map(|arm| Some((effects.effect(arm)?, arm)))
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .map(|(_, arm)| arm)
        };
        let timed = || (0..self.arms).filter(|&arm| has_time(runs, arm));
        least(&mut timed().filter(|&arm| course.is_in(arm))).or_else(|| least(&mut timed()))
    }

    /// The best against its reference, from the blocks since the finalists were chosen: choosing them can't have flattered
    /// it there. One of several finalists was chosen after all, for which the interval is widened.
    fn gain(&self, course: &Course, runs: &[Run], best: usize) -> Option<Gain> {
        let reference = self.reference_of(best).filter(|&reference| reference != best)?;
        let leg = course.last_leg?;
        let pairs: Vec<Pair> = runs[leg.from_run..]
            .chunk_by(|a, b| a.block == b.block)
            .filter_map(|block| {
                let time_s = |arm: usize| {
                    block.iter().find(|run| run.arm == arm).and_then(|run| match run.outcome {
                        Outcome::Time(time_s) => Some(time_s),
                        _ => None,
                    })
                };
                Some(Pair { reference_s: time_s(reference)?, treatment_s: time_s(best)? })
            })
            .collect();
        let ratio = paired_ratio(&pairs, self.seed)?.one_of(leg.finalists);
        Some(Gain {
            ratio: ratio.ratio(),
            low: ratio.low(),
            high: ratio.high(),
            pairs: ratio.pairs,
            claim: claims(&[ratio])[0],
        })
    }

    /// Keeps among the tied those arms that can't be told apart from `best`, and says whether any can. Gives how many standard errors
    /// the differences to one arm are off at most.
    fn tell_apart(&self, standings: &mut Standings, best: usize, effects: &Effects, noise: Noise, runs: &[Run]) -> f64 {
        let arms = standings.tied.len();
        let is_beaten = standings.gain.is_some_and(|gain| gain.claim == Claim::Faster);
        let beaten = self.reference_of(best).filter(|_| is_beaten);
        // For intervals: differences of all arms to one. For showing any difference: those of all pairs.
        let to_one = maximum_modulus(arms.saturating_sub(1), noise.freedom, MISS);
        let of_all = maximum_modulus(arms * arms.saturating_sub(1) / 2, noise.freedom, MISS);
        let apart = |arm: usize, critical: f64| {
            effects.difference(arm, best).is_some_and(|slower| slower.log > critical * slower.std_error)
        };
        let (once, often): (Vec<usize>, Vec<usize>) = standings.tied.iter().partition(|&&arm| runs_of(runs, arm) < 2);
        // Any of the arms may have been disturbed in its first run; those that were are the ones that got no second.
        let disturbed =
            Binomial::new(DISTURBED, arms as u64).map_or(arms as u64, |disturbed| disturbed.inverse_cdf(CONFIDENCE));
        let surely_apart = |arm: usize| {
            effects.undisturbed_difference(arm, best).is_some_and(|slower| slower.log > of_all * slower.std_error)
        };
        standings.difference_shown = often.iter().any(|&arm| surely_apart(arm))
            || once.iter().filter(|&&arm| apart(arm, of_all)).count() as u64 > disturbed
            || beaten.is_some();
        if standings.difference_shown {
            standings.tied.retain(|&arm| !apart(arm, to_one) && Some(arm) != beaten);
        }
        let std_error = noise.sd * (2.0 / runs_of(runs, best).max(1) as f64).sqrt();
        let detectable_log = (of_all + student(noise.freedom).inverse_cdf(POWER)) * std_error;
        standings.smallest_detectable = Some(detectable_log.exp_m1());
        to_one
    }
}

impl Standings {
    /// Adds each arm's loss against `best`. Its interval is that of its time over the *true* best's, which is one of the tied (Edwards
    /// and Hsu, "Multiple comparisons with the best treatment", JASA 78, 1983); there is none while the noise, and with it how many
    /// standard errors are `critical`, isn't known.
    fn add_losses(&mut self, best: usize, effects: &Effects, critical: Option<f64>, runs: &[Run]) {
        for (arm, standing) in self.arms.iter_mut().enumerate() {
            let both = effects.effect(arm).zip(effects.effect(best));
            standing.loss = both.map(|(effect, best)| (effect - best).exp());
            let Some(critical) = critical else { continue };
            let bounds = |&tied: &usize| {
                let slower = effects.difference(arm, tied)?;
                let off = critical * slower.std_error;
                Some((slower.log - off, slower.log + off))
            };
            let Some(bounds) = self.tied.iter().map(bounds).collect::<Option<Vec<_>>>() else { continue };
            // Any of the tied may be the truly best: the interval covers all their differences.
            let low = bounds.iter().map(|bound| bound.0).fold(f64::INFINITY, f64::min);
            let high = bounds.iter().map(|bound| bound.1).fold(0.0, f64::max);
            standing.loss_low = Some(if self.difference_shown { low.max(0.0).exp() } else { 1.0 });
            // A run that was cut off tells only that it took longer.
            standing.loss_high = has_time(runs, arm).then_some(high.exp());
        }
    }
}

fn has_time(runs: &[Run], arm: usize) -> bool {
    runs.iter().any(|run| run.arm == arm && matches!(run.outcome, Outcome::Time(_)))
}

fn runs_of(runs: &[Run], arm: usize) -> usize {
    runs.iter().filter(|run| run.arm == arm && run.log_s().is_some()).count()
}
