//! Racing: which of many placements is best, in the fewest runs.
//!
//! ```text
//! runs ──> RaceUnderWay ──> Effects (arm + block + noise) ──> Course (who is in, who was left out and why) ──> next_block
//!                                       └────────────────────────────────┴──> standings: best, ties, losses, gain
//! ```
//!
//! `docs/design/racing.md` has the mathematics, what is promised, and one race worked by hand; `tests/races.rs` holds the
//! promises over thousands of drawn races.

mod course;
mod effects;
mod simultaneous;
mod standings;
mod under_way;

pub use under_way::RaceUnderWay;

use crate::claim::Claim;
use crate::look::is_kept;
use serde::{Deserialize, Serialize};

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
    /// Sequential halving within a budget (Karnin, Koren and Somekh, "Almost optimal exploration in multi-armed bandits",
    /// ICML 2013). With fewer runs than arms, one block of those that are kept, then references, then some that are drawn.
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
    /// For each arm the arm that its gain is measured against; itself for a reference; none when there is none.
    pub reference: &'a [Option<usize>],
    /// Arms that stay to the end whatever happens.
    pub kept: &'a [usize],
    /// For each arm the first block in which it may run: later than the first one when it was added on the way, or is tried again. Empty
    /// when all were there from the start.
    pub entries: &'a [u32],
    /// By which rule.
    pub rule: RaceRule,
    /// A run has lost once it has taken so many times as long as the best may take at most (1.5).
    pub cut_off: f64,
    /// Seed of the bootstrap of the gain, and of who runs at all when there aren't runs for every arm.
    pub seed: u64,
}

/// Where a race stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standings {
    /// The arm of the shortest typical time among those that are in; none while there is none.
    pub best: Option<usize>,
    /// All that can't be told apart from the best, the best among them, rising. The truly best is one of them in 95 % of races.
    pub tied: Vec<usize>,
    /// Whether some arm is told apart from the best: whether a difference is shown at all. If all arms are equal, in at most
    /// 5 % of races.
    pub difference_shown: bool,
    /// The best against its reference, from blocks that were run after the finalists were chosen; none when there were too few,
    /// or the best is a reference.
    pub gain: Option<Gain>,
    /// One for each arm.
    pub arms: Vec<Standing>,
    /// The smallest difference that would have been shown in 80 % of races between two arms with as many runs as the best
    /// (0.03 = 3 %).
    pub smallest_detectable: Option<f64>,
}

/// How a race stood once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastStandings {
    /// After how many blocks that was.
    pub blocks: usize,
    /// How it stood.
    pub standings: Standings,
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
    /// Lower end of the interval of its time over the *truly* best's; those of all arms hold at once in 95 % of races.
    pub loss_low: Option<f64>,
    /// Upper end of that interval; none when all its runs were cut off.
    pub loss_high: Option<f64>,
    /// When and why it was left out.
    pub dropped: Option<Elimination>,
}

/// When and why an arm was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elimination {
    /// The last block in which it was still in.
    pub block: u32,
    /// Why it was left out then.
    pub why: DropReason,
}

/// Why an arm was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// It is told apart from the best.
    Slower,
    /// More of its runs were cut off, or failed, than gave a time.
    Outpaced,
    /// Others were better and the budget is short; it isn't shown to be slower.
    Halved,
    /// More of its runs failed, or were cut off, than gave a time.
    Failed,
}

impl Race<'_> {
    /// The arms of the next block, rising; none when the race is over. `runs` are those of the whole earlier blocks.
    pub fn next_block(&self, runs: &[Run]) -> Option<Vec<usize>> {
        RaceUnderWay::after(self, runs).next_block(self)
    }

    /// The longest that the next run may take, in seconds, when `arm` is run: `cut_off` times what the best takes at most, by the runs so
    /// far and by the noise of the last look.
    ///
    /// None while nothing is known, for arms that are kept, and for a reference that has run before: it runs again only beside
    /// arms that are as good as any, or to tell their gain, which is wanted however long it takes.
    pub fn limit_s(&self, runs: &[Run], arm: usize) -> Option<f64> {
        RaceUnderWay::after(self, runs).limit_s(self, arm)
    }

    /// Where the race stands after `runs`.
    pub fn standings(&self, runs: &[Run]) -> Standings {
        RaceUnderWay::after(self, runs).standings(self)
    }

    /// The standings after each block; of long races, after every eighth [look](crate::is_look) and after the last block.
    pub fn history(&self, runs: &[Run]) -> Vec<PastStandings> {
        let mut race = RaceUnderWay::new(self);
        let mut end = 0;
        let mut history = Vec::new();
        for (block, blocks) in runs.chunk_by(|a, b| a.block == b.block).zip(1..) {
            block.iter().for_each(|&run| race.add(self, run));
            end += block.len();
            if is_kept(blocks) || end == runs.len() {
                history.push(PastStandings { blocks, standings: race.standings(self) });
            }
        }
        history
    }
}

#[cfg(test)]
mod tests {
    use super::effects::Effects;
    use super::*;

    /// The example that docs/design/racing.md works by hand.
    #[test]
    fn four_arms_by_hand() {
        let race = Race {
            arms: 4,
            reference: &[],
            kept: &[],
            entries: &[],
            rule: RaceRule::Halving { runs: 10 },
            cut_off: 1.5,
            seed: 1,
        };
        let times_s: [&[f64]; 4] = [&[10.0, 10.4, 12.0, 13.0], &[10.2, 10.3], &[9.9, 10.2], &[10.1, 10.6]];
        let mut runs = Vec::new();
        for (block, times_s) in times_s.into_iter().enumerate() {
            let arms: Vec<usize> = (0..times_s.len()).collect();
            assert_eq!(race.next_block(&runs), Some(arms));
            let of_block = times_s.iter().enumerate();
            runs.extend(of_block.map(|(arm, &s)| Run { block: block as u32, arm, outcome: Outcome::Time(s) }));
        }
        assert_eq!(race.next_block(&runs), None);
        let close =
            |found: Option<f64>, by_hand: f64| assert!((found.unwrap() - by_hand).abs() < 6e-4, "{found:?} {by_hand}");

        let noise = Effects::fit(4, &runs).noise().unwrap();
        close(Some(noise.sd), 0.0127);
        assert_eq!(noise.freedom, 3.0);
        let standings = race.standings(&runs);
        assert_eq!(race.history(&runs).last().unwrap().standings, standings, "history ends with where the race stands");
        assert_eq!(
            (standings.best, standings.tied.as_slice(), standings.difference_shown),
            (Some(0), [0, 1].as_slice(), true)
        );
        let by_hand = [(1.0, 1.0, 1.008), (1.032, 1.0, 1.074), (1.196, 1.078, 1.285), (1.295, 1.168, 1.392)];
        for (standing, (loss, low, high)) in standings.arms.iter().zip(by_hand) {
            close(standing.loss, loss);
            close(standing.loss_low, low);
            close(standing.loss_high, high);
        }
        let halved = Some(Elimination { block: 0, why: DropReason::Halved });
        assert_eq!(standings.arms.iter().map(|arm| arm.dropped).collect::<Vec<_>>(), [None, None, halved, halved]);
    }
}
