//! Draws factorial studies whose effects are known, and holds main effects and interactions to what they promise.
//!
//! `cargo test -p stayput-stats --test factorial -- --nocapture` prints the table.

#![allow(dead_code, reason = "races draw more than this")]

mod drawn;

use drawn::Draw;
use stayput_stats::{Claim, Contrast, Factorial, block_permutation, claims, paired_ratio};
use std::ops::RangeInclusive;

const STUDIES: u64 = 2_000;
const BLOCKS: u32 = 20;
/// What an interval of 95 % must cover.
const COVERAGE: RangeInclusive<f64> = 0.93..=0.97;
/// How often at most a study without a difference may claim one.
const FALSE_CLAIMS: f64 = 0.05;

/// How the slowness of one run comes about, as the log of a factor.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// Normal.
    Lognormal,
    /// Each run remembers 0.8 of the slowness of the one before it.
    Autocorrelated,
    /// The machine is 10 % slower for a while: it changes its state after a run with a probability of 0.1.
    RegimeSwitching,
    /// Student's t with 3 degrees of freedom.
    HeavyTailed,
}

/// A machine that gets slower and faster as `noise` says.
struct Drawn {
    draw: Draw,
    noise: Noise,
    state: f64,
}

impl Drawn {
    fn log_slowness(&mut self) -> f64 {
        let normal = self.draw.normal();
        match self.noise {
            Noise::Lognormal => 0.03 * normal,
            Noise::Autocorrelated => {
                self.state = 0.8 * self.state + 0.03 * normal;
                self.state
            }
            Noise::RegimeSwitching => {
                if self.draw.uniform() < 0.1 {
                    self.state = 0.1 - self.state;
                }
                self.state + 0.02 * normal
            }
            Noise::HeavyTailed => {
                let spread: f64 = (0..3).map(|_| self.draw.normal().powi(2)).sum();
                0.02 * normal / (spread / 3.0).sqrt()
            }
        }
    }

    /// The times of each block, whose combinations run in the order that a study draws.
    fn blocks(&mut self, design: &Factorial, log_s: impl Fn(&[usize]) -> f64, seed: u64) -> Vec<Vec<f64>> {
        let block = |block: u32| {
            let mut times = vec![0.0; design.combinations()];
            for position in block_permutation(seed, block, 0, design.combinations()) {
                times[position] = (log_s(&design.levels_at(position)) + self.log_slowness()).exp();
            }
            times
        };
        (0..BLOCKS).map(block).collect()
    }
}

/// Log ratios of levels, and of two together beyond their product.
const SCATTER: f64 = 0.10;
const BATCH: f64 = -0.05;
const BOTH: f64 = 0.04;

/// Two places, three ways of scheduling; the first level of the one and the first of the other go together, too.
fn log_s(levels: &[usize]) -> f64 {
    let (place, sched) = (levels[0], levels[1]);
    let of_place = if place == 1 { SCATTER } else { 0.0 };
    let of_sched = if sched == 1 { BATCH } else { 0.0 };
    let of_both = if (place, sched) == (1, 1) { BOTH } else { 0.0 };
    -(of_place + of_sched + of_both)
}

/// The log ratio of a contrast in truth. Main effects are means over the levels of the other factor.
fn truth(contrast: Contrast) -> f64 {
    match contrast {
        Contrast::Main { factor: 0, .. } => SCATTER + BOTH / 3.0,
        Contrast::Main { level: 1, .. } => BATCH + BOTH / 2.0,
        Contrast::Interaction { levels: [1, 1], .. } => BOTH,
        Contrast::Main { .. } | Contrast::Interaction { .. } => 0.0,
    }
}

const NOISES: [Noise; 4] = [Noise::Lognormal, Noise::Autocorrelated, Noise::RegimeSwitching, Noise::HeavyTailed];

#[test]
fn main_effects_and_interactions_cover() {
    let design = Factorial::new(vec![2, 3]);
    for noise in NOISES {
        for contrast in design.contrasts() {
            let holds = |number: &u64| {
                let mut drawn = Drawn { draw: Draw::new(*number), noise, state: 0.0 };
                let pairs = design.pairs(contrast, &drawn.blocks(&design, log_s, *number));
                let ratio = paired_ratio(&pairs, *number).unwrap();
                (ratio.low()..=ratio.high()).contains(&truth(contrast).exp())
            };
            let coverage = (0..STUDIES).filter(holds).count() as f64 / STUDIES as f64;
            println!("{noise:?}, {contrast:?}: {:.1} %", 100.0 * coverage);
            assert!(COVERAGE.contains(&coverage), "{noise:?}, {contrast:?}: {coverage}");
        }
    }
}

#[test]
fn studies_without_an_effect_claim_none() {
    for levels in [vec![2, 2], vec![2, 3], vec![2, 2, 2]] {
        let design = Factorial::new(levels);
        for noise in NOISES {
            let claims_any = |number: &u64| {
                let mut drawn = Drawn { draw: Draw::new(1_000_000 + number), noise, state: 0.0 };
                let blocks = drawn.blocks(&design, |_| 0.0, *number);
                let ratios: Vec<_> = design
                    .contrasts()
                    .into_iter()
                    .map(|contrast| paired_ratio(&design.pairs(contrast, &blocks), *number).unwrap())
                    .collect();
                claims(&ratios).iter().any(|claim| *claim != Claim::NoneShown)
            };
            let share = (0..STUDIES).filter(claims_any).count() as f64 / STUDIES as f64;
            println!("{design:?}, {noise:?}: {:.1} %", 100.0 * share);
            assert!(share <= FALSE_CLAIMS, "{design:?}, {noise:?}: {share}");
        }
    }
}
