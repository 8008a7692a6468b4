//! Effects of factors that are varied together: what a level changes over all levels of the other factors, and what two levels
//! change together beyond what each does.
//!
//! Every block of a full factorial design runs each combination of levels once. So each block gives one value of every contrast, a
//! difference of mean log times of the block, in which cancels whatever slowed the whole block (Fisher, "The Design of
//! Experiments", 1935, chapter VI). These values are pairs as those of two treatments are, and what holds of the paired ratio holds
//! of them: [`crate::paired_ratio`] gives the interval, and [`crate::claims`] allows for their number. Contrasts are in logs, so
//! that effects multiply: without an interaction, the combination is as much faster as the product of both.

use crate::paired::Pair;

/// A full factorial design: how many levels each factor has. The first level of each is its reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factorial {
    levels: Vec<usize>,
}

/// One contrast of a factorial design, by positions of factors and of their levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contrast {
    /// A level against the first of its factor, over all levels of the others.
    Main {
        /// The factor.
        factor: usize,
        /// Its level.
        level: usize,
    },
    /// Two levels of two factors, against what each changes by itself, over all levels of the others.
    Interaction {
        /// The two factors.
        factors: [usize; 2],
        /// The level of each.
        levels: [usize; 2],
    },
}

impl Factorial {
    /// The design in which each factor has so many levels.
    pub fn new(levels: Vec<usize>) -> Self {
        Self { levels }
    }

    /// How many combinations of levels there are.
    pub fn combinations(&self) -> usize {
        self.levels.iter().product()
    }

    /// The levels of the combination at `position`; those of the last factor vary fastest.
    pub fn levels_at(&self, position: usize) -> Vec<usize> {
        let mut rest = position;
        let mut levels: Vec<usize> = self
            .levels
            .iter()
            .rev()
            .map(|count| {
                let level = rest % count;
                rest /= count;
                level
            })
            .collect();
        levels.reverse();
        levels
    }

    /// Every main effect, by factor and level, and then every interaction of two factors.
    pub fn contrasts(&self) -> Vec<Contrast> {
        let others = |factor: usize| 1..self.levels[factor];
        let factors = 0..self.levels.len();
        let main = factors.clone().flat_map(|factor| others(factor).map(move |level| Contrast::Main { factor, level }));
        let mut contrasts: Vec<Contrast> = main.collect();
        for first in factors.clone() {
            for second in first + 1..factors.end {
                for level in others(first) {
                    let with = |other| Contrast::Interaction { factors: [first, second], levels: [level, other] };
                    contrasts.extend(others(second).map(with));
                }
            }
        }
        contrasts
    }

    /// One pair for each of `blocks`, which hold the time of every combination, in seconds, in the order of [`Self::levels_at`].
    ///
    /// Of a main effect a pair is the geometric mean of the times under the factor's first level and of those under the level.
    /// Of an interaction its ratio is the ratio of the two levels together over the product of the ratios of each alone: above 1 they
    /// are faster together than each by itself lets expect. Its members are geometric means of products of times.
    pub fn pairs(&self, contrast: Contrast, blocks: &[Vec<f64>]) -> Vec<Pair> {
        let (mut reference, mut treatment) = (Vec::new(), Vec::new());
        for position in 0..self.combinations() {
            let levels = self.levels_at(position);
            let side = match contrast {
                Contrast::Main { factor, .. } if levels[factor] == 0 => Some(true),
                Contrast::Main { factor, level } => (levels[factor] == level).then_some(false),
                Contrast::Interaction { factors, levels: both } => {
                    let is_at = [0, 1].map(|at| match levels[factors[at]] {
                        0 => Some(false),
                        level => (level == both[at]).then_some(true),
                    });
                    // One of the two levels alone stands for the reference: together they make up for both.
                    is_at[0].zip(is_at[1]).map(|(first, second)| first != second)
                }
            };
            match side {
                Some(true) => reference.push(position),
                Some(false) => treatment.push(position),
                None => {}
            }
        }
        let members = match contrast {
            Contrast::Main { .. } => 1.0,
            Contrast::Interaction { .. } => 2.0,
        };
        let mean = |block: &[f64], positions: &[usize]| {
            let sum: f64 = positions.iter().map(|&position| block[position].ln()).sum();
            (members * sum / positions.len() as f64).exp()
        };
        let pair =
            |block: &Vec<f64>| Pair { reference_s: mean(block, &reference), treatment_s: mean(block, &treatment) };
        blocks.iter().map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn contrasts_are_main_effects_and_then_interactions() {
        let contrasts = Factorial::new(vec![2, 3]).contrasts();
        let main = |factor, level| Contrast::Main { factor, level };
        let both = |first, second| Contrast::Interaction { factors: [0, 1], levels: [first, second] };
        assert_eq!(contrasts, [main(0, 1), main(1, 1), main(1, 2), both(1, 1), both(1, 2)]);
        assert_eq!(Factorial::new(vec![3]).contrasts().len(), 2);
    }

    /// `docs/design/treatments.md` works this example by hand.
    #[test]
    fn a_block_of_two_by_two_by_hand() {
        // unbound: 8 s, unbound batch: 4 s, scatter: 4 s, scatter batch: 1 s.
        let (design, blocks) = (Factorial::new(vec![2, 2]), [vec![8.0, 4.0, 4.0, 1.0]]);
        let ratio = |contrast| {
            let pairs = design.pairs(contrast, &blocks);
            pairs[0].reference_s / pairs[0].treatment_s
        };
        // sqrt(8 x 4) / sqrt(4 x 1), sqrt(8 x 4) / sqrt(4 x 1), and (8 / 1) / ((8 / 4) x (8 / 4)).
        let expected = [8.0_f64.sqrt(), 8.0_f64.sqrt(), 2.0];
        for (contrast, expected) in design.contrasts().into_iter().zip(expected) {
            assert!((ratio(contrast) - expected).abs() < 1e-12, "{contrast:?}");
        }
    }

    proptest! {
        /// Times that are products of a block's slowness and what each level changes have just these effects, and no interactions.
        #[test]
        fn effects_that_multiply_are_found_exactly_and_do_not_interact(
            effects in prop::collection::vec(prop::collection::vec(0.5_f64..2.0, 1..3), 1..4),
            slowness in prop::collection::vec(0.1_f64..10.0, 1..4),
        ) {
            let design = Factorial::new(effects.iter().map(|levels| levels.len() + 1).collect());
            let time_s = |position: usize, slowness: f64| {
                let levels = design.levels_at(position);
                let faster: f64 = levels.iter().zip(&effects).filter(|(level, _)| **level > 0).map(|(level, of)| of[level - 1]).product();
                slowness / faster
            };
            let blocks: Vec<Vec<f64>> =
                slowness.iter().map(|&slowness| (0..design.combinations()).map(|at| time_s(at, slowness)).collect()).collect();
            for contrast in design.contrasts() {
                let expected = match contrast {
                    Contrast::Main { factor, level } => effects[factor][level - 1],
                    Contrast::Interaction { .. } => 1.0,
                };
                for pair in design.pairs(contrast, &blocks) {
                    prop_assert!((pair.reference_s / pair.treatment_s / expected - 1.0).abs() < 1e-9, "{contrast:?}");
                }
            }
        }
    }
}
