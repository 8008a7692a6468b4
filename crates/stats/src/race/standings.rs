//! Where a race stands, and how sure one may be.

use super::course::Course;
use super::effects::Effects;
use super::simultaneous::maximum_modulus;
use super::{Gain, Outcome, Race, Run, Standing, Standings};
use crate::claim::{Claim, claims};
use crate::paired::{CONFIDENCE, Pair, paired_ratio};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

const MISS: f64 = 1.0 - CONFIDENCE;

/// Share of runs that something may have disturbed: so many arms with a single slow run prove nothing.
const DISTURBED: f64 = 0.05;

/// The power at which the smallest detectable difference is stated.
const POWER: f64 = 0.80;

impl Race<'_> {
    /// Where the race stands after `runs`.
    pub fn standings(&self, runs: &[Run]) -> Standings {
        let course = Course::after(self, runs);
        let effects = Effects::fit(self.arms, runs);
        let best = self.best(&course, &effects, runs);
        let gain = best.and_then(|best| self.gain(&course, runs, best));
        let beaten = gain.filter(|gain| gain.claim == Claim::Faster).and_then(|_| self.reference_of(best?));
        let known: Vec<usize> = (0..self.arms).filter(|&arm| effects.effect(arm).is_some()).collect();
        let verdict = best.map(|best| Verdict::new(&effects, runs, best, &known, beaten));
        Standings {
            best,
            tied: verdict.as_ref().map(|verdict| verdict.tied.clone()).unwrap_or_default(),
            shown: verdict.as_ref().is_some_and(|verdict| verdict.shown),
            gain,
            smallest_detectable: verdict.as_ref().and_then(|verdict| verdict.smallest_detectable),
            arms: (0..self.arms)
                .map(|arm| {
                    let loss = verdict.as_ref().and_then(|verdict| verdict.loss(arm));
                    Standing {
                        runs: runs.iter().filter(|run| run.arm == arm).count(),
                        loss: loss.map(|loss| loss.point),
                        loss_low: loss.and_then(|loss| loss.low),
                        loss_high: loss.and_then(|loss| loss.high),
                        dropped: course.dropped[arm],
                    }
                })
                .collect(),
        }
    }

    /// The arm of the least effect of those that are in; when none of them has a time, of all.
    fn best(&self, course: &Course, effects: &Effects, runs: &[Run]) -> Option<usize> {
        let least = |arms: &mut dyn Iterator<Item = usize>| {
            arms.filter_map(|arm| Some((effects.effect(arm)?, arm)))
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .map(|(_, arm)| arm)
        };
        let timed = |arm: &usize| runs.iter().any(|run| run.arm == *arm && matches!(run.outcome, Outcome::Time(_)));
        least(&mut (0..self.arms).filter(|&arm| course.is_in(arm)).filter(timed))
            .or_else(|| least(&mut (0..self.arms).filter(timed)))
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
        let ratio = paired_ratio(&pairs, self.seed).ok()?.one_of(leg.finalists);
        Some(Gain {
            ratio: ratio.ratio(),
            low: ratio.low(),
            high: ratio.high(),
            pairs: ratio.pairs,
            claim: claims(&[ratio])[0],
        })
    }
}

/// The loss of an arm, as a ratio to the best, with its simultaneous interval.
#[derive(Clone, Copy)]
struct Loss {
    point: f64,
    low: Option<f64>,
    high: Option<f64>,
}

/// What may be said of all arms at once.
struct Verdict<'a> {
    effects: &'a Effects,
    best: usize,
    tied: Vec<usize>,
    shown: bool,
    /// Of each arm, how many of its runs gave a time.
    timed: Vec<usize>,
    /// How many standard errors the differences to one arm are off at most; none while the noise isn't known.
    critical: Option<f64>,
    smallest_detectable: Option<f64>,
}

impl<'a> Verdict<'a> {
    /// `known` are the arms that have an effect; `beaten` the reference if the gain over it is shown.
    fn new(effects: &'a Effects, runs: &[Run], best: usize, known: &[usize], beaten: Option<usize>) -> Self {
        let mut timed = vec![0; runs.iter().map(|run| run.arm + 1).max().unwrap_or(0).max(best + 1)];
        for run in runs.iter().filter(|run| matches!(run.outcome, Outcome::Time(_))) {
            timed[run.arm] += 1;
        }
        let mut verdict = Self {
            effects,
            best,
            tied: known.to_vec(),
            shown: false,
            timed,
            critical: None,
            smallest_detectable: None,
        };
        let Some(noise) = effects.noise() else { return verdict };
        let arms = known.len();
        // For intervals: differences of all arms to one. For showing any difference: those of all pairs.
        let to_one = maximum_modulus(arms.saturating_sub(1), noise.freedom, MISS);
        let of_all = maximum_modulus(arms * arms.saturating_sub(1) / 2, noise.freedom, MISS);
        let apart = |arm: usize, critical: f64| {
            effects.difference(arm, best).is_some_and(|slower| slower.log > critical * slower.std_error)
        };
        let (once, often): (Vec<usize>, Vec<usize>) = known.iter().partition(|&&arm| runs_of(runs, arm) < 2);
        // Any of the arms may have been disturbed in its first run; those that were are the ones that got no second.
        let disturbed =
            Binomial::new(DISTURBED, arms as u64).map_or(arms as u64, |disturbed| disturbed.inverse_cdf(CONFIDENCE));
        let surely_apart = |arm: usize| {
            effects.undisturbed_difference(arm, best).is_some_and(|slower| slower.log > of_all * slower.std_error)
        };
        verdict.shown = often.iter().any(|&arm| surely_apart(arm))
            || once.iter().filter(|&&arm| apart(arm, of_all)).count() as u64 > disturbed
            || beaten.is_some();
        if verdict.shown {
            verdict.tied.retain(|&arm| !apart(arm, to_one) && Some(arm) != beaten);
        }
        verdict.critical = Some(to_one);
        let student = StudentsT::new(0.0, 1.0, noise.freedom);
        verdict.smallest_detectable = student.ok().map(|student| {
            let std_error = noise.sd * (2.0 / runs_of(runs, best).max(1) as f64).sqrt();
            ((of_all + student.inverse_cdf(POWER)) * std_error).exp_m1()
        });
        verdict
    }

    /// The loss of `arm`. Its interval is that of its time over the *true* best's, which is one of the tied (Edwards and
    /// Hsu, "Multiple comparisons with the best treatment", JASA 78, 1983).
    fn loss(&self, arm: usize) -> Option<Loss> {
        let point = (self.effects.effect(arm)? - self.effects.effect(self.best)?).exp();
        let mut loss = Loss { point, low: None, high: None };
        if let Some(critical) = self.critical {
            let bounds: Option<Vec<(f64, f64)>> = self
                .tied
                .iter()
                .map(|&tied| {
                    let slower = self.effects.difference(arm, tied)?;
                    let off = critical * slower.std_error;
                    Some((slower.log - off, slower.log + off))
                })
                .collect();
            if let Some(bounds) = bounds {
                // Any of the tied may be the truly best: the interval covers all their differences.
                let low = bounds.iter().map(|bound| bound.0).fold(f64::INFINITY, f64::min);
                let high = bounds.iter().map(|bound| bound.1).fold(0.0, f64::max);
                loss.low = Some(if self.shown { low.max(0.0).exp() } else { 1.0 });
                // A run that was cut off tells only that it took longer.
                loss.high = (self.timed.get(arm).is_some_and(|&timed| timed > 0)).then_some(high.exp());
            }
        }
        Some(loss)
    }
}

fn runs_of(runs: &[Run], arm: usize) -> usize {
    runs.iter().filter(|run| run.arm == arm && run.log_s().is_some()).count()
}
