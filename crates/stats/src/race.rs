//! Racing: which of many placements is best, in the fewest runs.

use crate::claim::{Claim, claims};
use crate::paired::{Pair, paired_ratio};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How one run ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It took so long, in seconds.
    Time(f64),
    /// It was stopped after so many seconds, because it had lost by then.
    CutOff(f64),
    /// It gave no time.
    Failed,
}

/// One run of a race.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The block that it belongs to, from 0.
    pub block: u32,
    /// What was run, from 0.
    pub arm: usize,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a race is run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule")]
pub enum RaceRule {
    /// Sequential halving within a budget (Karnin, Koren and Somekh, "Almost optimal exploration in multi-armed bandits", ICML 2013).
    Halving {
        /// Most runs in all.
        runs: u32,
    },
    /// Until the arm named is at most `epsilon` slower than the best with probability 1 - `delta` (LUCB: Kalyanakrishnan,
    /// Tewari, Auer and Stone, "PAC subset selection in stochastic multi-armed bandits", ICML 2012).
    Guarantee {
        /// What may be lost (0.02 = 2 %).
        epsilon: f64,
        /// Probability of losing more.
        delta: f64,
        /// Most runs in all.
        max_runs: u32,
    },
}

/// A race: what takes part, and by which rule. It keeps no state: all that it decides is a function of the runs so far.
#[derive(Clone, Copy, Debug)]
pub struct Race<'a> {
    /// How many arms there are.
    pub arms: usize,
    /// For each arm the arm that its gain is told against; itself for a reference; none when there is none.
    pub reference: &'a [Option<usize>],
    /// Arms that stay to the end whatever happens.
    pub kept: &'a [usize],
    /// By which rule.
    pub rule: RaceRule,
    /// A run has lost once it has taken so many times as long as the best may take at most (1.5).
    pub cut_off: f64,
    /// Seed of the bootstrap of the gain.
    pub seed: u64,
}

/// Where a race stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standings {
    /// The arm of the shortest time; none while there is none.
    pub best: Option<usize>,
    /// All that can't be told apart from the best, the best among them, rising.
    pub tied: Vec<usize>,
    /// Whether some arm is told apart from the best: whether a difference is shown at all.
    pub shown: bool,
    /// The best against its reference.
    pub gain: Option<Gain>,
    /// One for each arm.
    pub arms: Vec<Standing>,
    /// The smallest difference that the race would have shown (0.03 = 3 %).
    pub smallest_detectable: Option<f64>,
}

/// How much faster the best is than its reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Reference time over best time.
    pub ratio: f64,
    /// Lower end of the 95 % interval of the ratio.
    pub low: f64,
    /// Upper end of the 95 % interval of the ratio.
    pub high: f64,
    /// How many pairs it comes from.
    pub pairs: usize,
    /// What is claimed.
    pub claim: Claim,
}

/// Where one arm stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Its runs, whatever came of them.
    pub runs: usize,
    /// Its time over that of the best (1.03 = 3 % slower).
    pub loss: Option<f64>,
    /// Lower end of the simultaneous 95 % interval of the loss.
    pub loss_low: Option<f64>,
    /// Upper end of the simultaneous 95 % interval of the loss.
    pub loss_high: Option<f64>,
    /// When and why it was left out.
    pub dropped: Option<Drop>,
}

/// When and why an arm was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drop {
    /// The last block before which it was still in.
    pub block: u32,
    /// Why.
    pub why: DropReason,
}

/// Why an arm was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// It is shown to be slower than the best.
    Slower,
    /// Its run was cut off.
    Outpaced,
    /// Others were better and the budget is short; it isn't shown to be slower.
    Halved,
    /// It gave no time.
    Failed,
}

impl Race<'_> {
    /// The arms of the next block, rising; none when the race is over. `runs` are those of the whole earlier blocks.
    pub fn next_block(&self, runs: &[Run]) -> Option<Vec<usize>> {
        let (budget, all) = (self.budget(), (0..self.arms).collect::<Vec<_>>());
        let Some(last) = runs.last() else {
            return Some(all.into_iter().take(budget).collect()).filter(|arms: &Vec<usize>| !arms.is_empty());
        };
        let means = log_means(runs);
        let in_last: BTreeSet<usize> = runs.iter().filter(|run| run.block == last.block).map(|run| run.arm).collect();
        let mut ranked: Vec<usize> = in_last.into_iter().filter(|arm| means.contains_key(arm)).collect();
        ranked.sort_by(|a, b| means[a].total_cmp(&means[b]));
        if ranked.len() > 3 {
            ranked.truncate(ranked.len().div_ceil(2).max(3));
        }
        let best = *ranked.first()?;
        let stays = self.kept.iter().copied().chain(self.reference.get(best).copied().flatten());
        let mut arms: BTreeSet<usize> = ranked.into_iter().collect();
        arms.extend(stays.filter(|&arm| arm < self.arms));
        (arms.len() > 1 && runs.len() + arms.len() <= budget).then(|| arms.into_iter().collect())
    }

    /// The longest that the next run may take, in seconds, when `arm` is run; none while nothing is known, and for an
    /// arm that must run to its end.
    pub fn limit_s(&self, runs: &[Run], arm: usize) -> Option<f64> {
        if self.kept.contains(&arm) {
            return None;
        }
        let best = log_means(runs).into_values().min_by(f64::total_cmp)?;
        Some(self.cut_off * best.exp()).filter(|limit_s| limit_s.is_finite() && *limit_s > 0.0)
    }

    /// Where the race stands after `runs`.
    pub fn standings(&self, runs: &[Run]) -> Standings {
        let means = log_means(runs);
        let best = means.iter().min_by(|a, b| a.1.total_cmp(b.1)).map(|(&arm, _)| arm).filter(|&arm| arm < self.arms);
        let standing = |arm: usize| Standing {
            runs: runs.iter().filter(|run| run.arm == arm).count(),
            loss: best.and_then(|best| Some((means.get(&arm)? - means[&best]).exp())),
            loss_low: None,
            loss_high: None,
            dropped: None,
        };
        Standings {
            best,
            tied: if best.is_some() {
                (0..self.arms).filter(|arm| means.contains_key(arm)).collect()
            } else {
                Vec::new()
            },
            shown: false,
            gain: best.and_then(|best| self.gain(runs, best)),
            arms: (0..self.arms).map(standing).collect(),
            smallest_detectable: None,
        }
    }

    /// The standings after each block.
    pub fn history(&self, runs: &[Run]) -> Vec<Standings> {
        let mut end = 0;
        runs.chunk_by(|a, b| a.block == b.block)
            .map(|block| {
                end += block.len();
                self.standings(&runs[..end])
            })
            .collect()
    }

    fn budget(&self) -> usize {
        match self.rule {
            RaceRule::Halving { runs } => runs as usize,
            RaceRule::Guarantee { max_runs, .. } => max_runs as usize,
        }
    }

    fn gain(&self, runs: &[Run], best: usize) -> Option<Gain> {
        let reference = self.reference.get(best).copied().flatten().filter(|&reference| reference != best)?;
        let times = |arm: usize| -> BTreeMap<u32, f64> {
            let of_arm = runs.iter().filter(move |run| run.arm == arm);
            of_arm
                .filter_map(|run| if let Outcome::Time(s) = run.outcome { Some((run.block, s)) } else { None })
                .collect()
        };
        let treatment = times(best);
        let pairs: Vec<Pair> = times(reference)
            .into_iter()
            .filter_map(|(block, reference_s)| Some(Pair { reference_s, treatment_s: *treatment.get(&block)? }))
            .collect();
        let ratio = paired_ratio(&pairs, self.seed).ok()?;
        let claim = claims(&[ratio])[0];
        Some(Gain { ratio: ratio.ratio(), low: ratio.low(), high: ratio.high(), pairs: ratio.pairs, claim })
    }
}

/// The mean log time of every arm that has times.
fn log_means(runs: &[Run]) -> BTreeMap<usize, f64> {
    let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for run in runs {
        if let Outcome::Time(s) = run.outcome
            && s.is_finite()
            && s > 0.0
        {
            let (sum, count) = sums.entry(run.arm).or_default();
            *sum += s.ln();
            *count += 1.0;
        }
    }
    sums.into_iter().map(|(arm, (sum, count))| (arm, sum / count)).collect()
}
