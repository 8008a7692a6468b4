//! Whether something else may have made a difference that is claimed: load, steal time, or times that don't stay the same.
//!
//! `docs/design/disturbance.md` derives the rule; `tests/disturbed.rs` holds it to its rates over thousands of disturbed studies.

use crate::drift::{MIN_DRIFT_POINTS, drift};
use crate::paired::Pair;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

/// A disturbance is large when it may have made this share of the effect or more.
pub const LARGE_SHARE: f64 = 0.5;

/// Others that keep no more CPUs busy than this are those of an idle machine: daemons, and the shell that starts a study.
pub const IDLE_LOAD: f64 = 0.25;

/// Blocks count as unlike one another when chance would make them so in fewer studies than this. An effect is tested four
/// times.
const UNSTEADY_LEVEL: f64 = 0.005;

/// More of a CPU's time than this isn't taken for stolen: it would explain any effect.
const MOST_STOLEN: f64 = 0.9;

/// What the machine did besides the study.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Surroundings {
    /// CPUs that the study may use.
    pub usable_cpus: usize,
    /// Threads of the runs that are compared.
    pub threads: usize,
    /// Usable CPUs that others kept busy while the study ran, on average: their busy time less that of the runs, over the
    /// seconds that passed. None where it isn't known; the load average then stands for it.
    pub others_busy_cpus: Option<f64>,
    /// Load average over one minute before the study ran anything; the highest when it began several times. None where it
    /// can't be read.
    pub load_average: Option<f64>,
    /// Share of the time of all CPUs that the hypervisor took during the study (0.01 = 1 %).
    pub steal_share: Option<f64>,
}

/// What disturbs an effect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "kebab-case")]
pub enum Cause {
    /// Others had threads to run.
    Load {
        /// Usable CPUs that they kept busy, on average.
        busy_cpus: f64,
    },
    /// Others had threads to run before the study; whether they had any during it isn't known.
    LoadBefore {
        /// Load average over one minute.
        load_average: f64,
    },
    /// The hypervisor gave the CPUs to others.
    Steal {
        /// Share of the time of all CPUs (0.01 = 1 %).
        share: f64,
    },
    /// Times rose or fell over the study, for reference and treatment alike.
    DriftingTimes,
    /// Times stayed high or low for several blocks, for reference and treatment alike.
    ChangingTimes,
    /// The ratio of reference and treatment rose or fell over the study.
    DriftingRatio,
    /// The ratio of reference and treatment stayed high or low for several blocks.
    ChangingRatio,
}

/// Something that is large against an effect: with it the effect was measured on a busy machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// What disturbs.
    #[serde(flatten)]
    pub cause: Cause,
    /// By how much it may have changed times, or their ratio, up or down (0.5 = 50 % more).
    pub relative_change: f64,
}

/// All that is large against the effect `ratio` (reference time / treatment time) of `pairs`, which are in the order of their
/// blocks; nothing when the effect may be told without qualification, or isn't a positive number.
///
/// Large is what may have changed times by [`LARGE_SHARE`] of the effect or more, on the scale of logs. Fewer than
/// [`MIN_DRIFT_POINTS`] pairs don't show whether times stay the same; only load and steal time are then judged.
pub fn disturbances(pairs: &[Pair], ratio: f64, surroundings: &Surroundings) -> Vec<Disturbance> {
    let least_log = LARGE_SHARE * ratio.ln().abs();
    let levels: Vec<f64> = pairs.iter().map(|pair| pair.reference_s.sqrt() * pair.treatment_s.sqrt()).collect();
    let ratios: Vec<f64> = pairs.iter().map(|pair| pair.reference_s / pair.treatment_s).collect();
    let causes = [
        surroundings.load(),
        surroundings.steal(),
        trend(&levels).map(|log| (Cause::DriftingTimes, log)),
        slow_change(&levels).map(|log| (Cause::ChangingTimes, log)),
        trend(&ratios).map(|log| (Cause::DriftingRatio, log)),
        slow_change(&ratios).map(|log| (Cause::ChangingRatio, log)),
    ];
    causes
        .into_iter()
        .flatten()
        .filter(|(_, log)| *log > 0.0 && *log >= least_log)
        .map(|(cause, log)| Disturbance { cause, relative_change: log.exp_m1() })
        .collect()
}

impl Surroundings {
    /// As many threads as can run at once.
    fn threads_with_a_cpu(&self) -> f64 {
        self.threads.clamp(1, self.usable_cpus.max(1)) as f64
    }

    /// The log of how much longer a run may take beside the load: its threads wait for the slowest, and that one for as many
    /// others as share its CPU.
    ///
    /// Others that may run anywhere share CPUs with ours when there are more threads than CPUs; others that are bound do so
    /// with the probability that theirs is one of ours.
    fn load(&self) -> Option<(Cause, f64)> {
        let during = self.others_busy_cpus.map(|busy_cpus| (Cause::Load { busy_cpus }, busy_cpus));
        let before = || self.load_average.map(|load_average| (Cause::LoadBefore { load_average }, load_average));
        let (cause, others) = during.or_else(before).filter(|(_, others)| *others > IDLE_LOAD)?;
        let cpus = self.usable_cpus.max(1) as f64;
        let threads = self.threads_with_a_cpu();
        Some((cause, (others * threads / cpus).max(others + threads - cpus).ln_1p()))
    }

    /// The log of how much longer a run takes whose threads wait for one another, so that what is stolen from each is lost to all;
    /// so it is, on average, if all was stolen from one CPU.
    fn steal(&self) -> Option<(Cause, f64)> {
        let share = self.steal_share?;
        let stolen = (share * self.threads_with_a_cpu()).clamp(0.0, MOST_STOLEN);
        Some((Cause::Steal { share }, -(-stolen).ln_1p()))
    }
}

/// How far the log of `values` moves along their trend, when there is one.
fn trend(values: &[f64]) -> Option<f64> {
    let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(block, &value)| (block as f64, value)).collect();
    let trend = drift(&points).filter(|drift| drift.p_value < UNSTEADY_LEVEL)?;
    Some(trend.relative_change.ln_1p().abs())
}

/// The distance between the two levels that the logs of `values` would change between, when they don't come in random order:
/// twice the standard deviation of what neighbours have in common.
///
/// Half the mean square of the differences of neighbours is the variance of values in random order; what the variance is
/// more than that changes more slowly (von Neumann, "Distribution of the ratio of the mean square successive difference to
/// the variance", Annals of Mathematical Statistics 12, 1941). Whether it is chance is asked of ranks, which outliers don't
/// upset (Bartels, "The rank version of von Neumann's ratio test for randomness", JASA 77, 1982).
fn slow_change(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    if logs.len() < MIN_DRIFT_POINTS || !logs.iter().all(|log| log.is_finite()) {
        return None;
    }
    let n = logs.len() as f64;
    let (ratio, _) = von_neumann(&ranks(&logs))?;
    let variance = 4.0 * (n - 2.0) * (5.0 * n * n - 2.0 * n - 9.0) / (5.0 * n * (n + 1.0) * (n - 1.0).powi(2));
    let p_value = Normal::standard().cdf((ratio - 2.0) / variance.sqrt());
    let (ratio, variance) = von_neumann(&logs)?;
    (p_value < UNSTEADY_LEVEL).then(|| 2.0 * (variance * (1.0 - 0.5 * ratio).max(0.0)).sqrt())
}

/// The mean square of differences of neighbours over the variance, near 2 for values in random order, and the variance; none
/// when all values are equal.
fn von_neumann(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let successive: f64 = values.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    (squares > 0.0).then(|| (successive / squares, squares / (n - 1.0)))
}

/// The rank of each value, from 0; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut rising: Vec<usize> = (0..values.len()).collect();
    rising.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for tie in rising.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = first as f64 + (tie.len() - 1) as f64 / 2.0;
        tie.iter().for_each(|&index| ranks[index] = rank);
        first += tie.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Surroundings = Surroundings {
        usable_cpus: 2,
        threads: 2,
        others_busy_cpus: Some(0.05),
        load_average: Some(0.05),
        steal_share: Some(0.0),
    };

    /// Pairs of the ratio 1.07 that scatter by 1 %, at a speed that `slowness` gives for a block.
    fn pairs(blocks: usize, slowness: impl Fn(usize) -> f64) -> Vec<Pair> {
        let wobble = |block: usize| [0.0, 0.01, -0.004, 0.006, -0.01, 0.002, -0.007][block * 3 % 7];
        (0..blocks)
            .map(|block| Pair {
                reference_s: 1.07 * slowness(block) * (1.0 + wobble(block)),
                treatment_s: slowness(block) * (1.0 + wobble(block + 2)),
            })
            .collect()
    }

    fn causes(pairs: &[Pair], ratio: f64, surroundings: Surroundings) -> Vec<Cause> {
        disturbances(pairs, ratio, &surroundings).iter().map(|disturbance| disturbance.cause).collect()
    }

    #[test]
    fn times_that_drift_by_half_qualify_seven_percent_and_not_a_factor_of_two() {
        assert_eq!(causes(&pairs(20, |_| 1.0), 1.07, CALM), []);
        let drifting = pairs(20, |block| 1.0 + 0.6 * block as f64 / 19.0);
        let found = disturbances(&drifting, 1.07, &CALM);
        assert_eq!(
            found.iter().map(|found| found.cause).collect::<Vec<_>>(),
            [Cause::DriftingTimes, Cause::ChangingTimes]
        );
        assert!((found[0].relative_change - 0.6).abs() < 0.05, "{found:?}");
        assert_eq!(causes(&drifting, 0.93, CALM), causes(&drifting, 1.07, CALM), "slower is as faster");
        assert_eq!(causes(&drifting, 3.0, CALM), [], "small against the effect");
    }

    #[test]
    fn a_machine_that_is_slow_for_some_blocks_is_found_without_a_trend() {
        let changing = pairs(24, |block| if block / 6 % 2 == 0 { 1.0 } else { 1.5 });
        let found = disturbances(&changing, 1.07, &CALM);
        assert_eq!(found.iter().map(|found| found.cause).collect::<Vec<_>>(), [Cause::ChangingTimes]);
        assert!((found[0].relative_change - 0.5).abs() < 0.1, "{found:?}");
        assert_eq!(causes(&pairs(9, |block| 1.0 + block as f64), 1.07, CALM), [], "too few to judge");
    }

    #[test]
    fn a_ratio_that_changes_is_told_apart_from_times_that_do() {
        let mut changing = pairs(24, |_| 1.0);
        changing[12..].iter_mut().for_each(|pair| pair.reference_s /= 1.07);
        let found = causes(&changing, 1.035, CALM);
        assert!(found.contains(&Cause::DriftingRatio) && found.contains(&Cause::ChangingRatio), "{found:?}");
    }

    #[test]
    fn load_and_steal_by_hand() {
        let pairs = pairs(20, |_| 1.0);
        let relative_change = |surroundings: Surroundings| {
            let found = disturbances(&pairs, 1.07, &surroundings);
            assert!(found.len() <= 1, "{found:?}");
            found.first().map(|found| (found.cause, (found.relative_change * 1e6).round() / 1e6))
        };
        let loaded = |usable_cpus, threads, load| {
            relative_change(Surroundings {
                usable_cpus,
                threads,
                others_busy_cpus: None,
                load_average: Some(load),
                ..CALM
            })
        };
        assert_eq!(loaded(2, 2, 0.25), None, "an idle machine");
        assert_eq!(
            loaded(2, 2, 1.0),
            Some((Cause::LoadBefore { load_average: 1.0 }, 1.0)),
            "one of two threads has half a CPU"
        );
        assert_eq!(
            loaded(8, 4, 1.0),
            Some((Cause::LoadBefore { load_average: 1.0 }, 0.5)),
            "a bound neighbour meets it in half of the cases"
        );
        assert_eq!(loaded(64, 1, 1.0), None, "seldom");
        assert_eq!(loaded(8, 6, 4.0), Some((Cause::LoadBefore { load_average: 4.0 }, 3.0)), "three of four in six");
        let others = Surroundings { others_busy_cpus: Some(0.1), load_average: Some(2.0), ..CALM };
        assert_eq!(relative_change(others), None, "the load was over when the study began");
        let others = Surroundings { others_busy_cpus: Some(1.0), ..CALM };
        assert_eq!(
            relative_change(others),
            Some((Cause::Load { busy_cpus: 1.0 }, 1.0)),
            "it came after the study began"
        );
        // A fortieth of each of two threads is 5 % of a run in which each waits for the other: it takes 1 / 0.95.
        let stolen = |steal_share| relative_change(Surroundings { steal_share: Some(steal_share), ..CALM });
        assert_eq!(stolen(0.025), Some((Cause::Steal { share: 0.025 }, 0.052632)));
        assert_eq!(stolen(0.01), None, "1 / 0.98 is less than the square root of 1.07");
        assert_eq!(stolen(1.0), Some((Cause::Steal { share: 1.0 }, 9.0)));
        let of_two = Surroundings { usable_cpus: 64, threads: 2, steal_share: Some(0.01), ..CALM };
        assert_eq!(relative_change(of_two), None, "what 62 other CPUs lost doesn't concern two threads");
        let unknown = Surroundings { others_busy_cpus: None, load_average: None, steal_share: None, ..CALM };
        assert_eq!(relative_change(unknown), None);
    }

    #[test]
    fn no_numbers_give_no_disturbance() {
        let nan =
            Surroundings { load_average: Some(f64::NAN), steal_share: Some(f64::NAN), others_busy_cpus: None, ..CALM };
        for ratio in [f64::NAN, 0.0, -1.0, f64::INFINITY, 1.07] {
            assert_eq!(causes(&[], ratio, nan), [], "{ratio}");
            assert_eq!(causes(&[Pair { reference_s: 0.0, treatment_s: f64::NAN }; 20], ratio, nan), [], "{ratio}");
        }
        assert_eq!(causes(&[Pair { reference_s: 1.0, treatment_s: 1.0 }; 20], 1.0, CALM), []);
    }

    #[test]
    fn the_von_neumann_ratio_by_hand() {
        // Ranks 0 2 2 2 4: mean 2, squares 8, successive squares 4 + 0 + 0 + 4.
        assert_eq!(ranks(&[1.0, 2.0, 2.0, 2.0, 3.0]), [0.0, 2.0, 2.0, 2.0, 4.0]);
        assert_eq!(von_neumann(&[0.0, 2.0, 2.0, 2.0, 4.0]), Some((1.0, 2.0)));
        assert_eq!(von_neumann(&[3.0; 4]), None);
    }
}
