//! What each level of each factor changes over all levels of the others, and what two of them change together.

use crate::plan::{Cell, Plan};
use crate::shape::Shape;
use crate::summary::Claim;
use crate::times::counted;
use crate::treatment::{Factor, Treatment};
use crate::trial::Trial;
use serde::{Deserialize, Serialize};
use stats::{Contrast, Factorial, PairedRatio};
use std::collections::BTreeMap;
use strum::IntoEnumIterator;

/// The effect of a level of a factor, or of two levels of two factors together, on one subject at one thread count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Name of the subject.
    pub subject: String,
    /// Thread count.
    pub threads: Shape,
    /// The factor: `place`; or both of an interaction: `place x sched`.
    pub factor: String,
    /// Its level: `scatter`; or those of an interaction: `scatter x batch`.
    pub level: String,
    /// The level that it is told against, the factor's first; or those of an interaction.
    pub reference: String,
    /// Time under the reference over time under the level, over all levels of the other factors: above 1 is faster. Of an
    /// interaction, how much faster both levels are together than the product of what each changes by itself.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's 95 % interval.
    pub ratio_low: Option<f64>,
    /// Upper end of the ratio's 95 % interval.
    pub ratio_high: Option<f64>,
    /// Blocks in which every combination went well.
    pub pairs: u32,
    /// What is claimed of it, among all effects of the study.
    pub claim: Claim,
    /// Whether two factors are told of, beyond what each changes by itself.
    pub is_interaction: bool,
}

impl Effect {
    /// The level and what it is told against: `batch over default`; of an interaction its levels alone.
    pub fn in_words(&self) -> String {
        if self.is_interaction { self.level.clone() } else { format!("{} over {}", self.level, self.reference) }
    }
}

/// Factors that vary together at one thread count, with the treatment of each combination of their levels.
struct Design {
    factors: Vec<(Factor, Vec<String>)>,
    factorial: Factorial,
    /// Position in the plan of each combination's treatment, in the order of the design.
    treatments: Vec<usize>,
}

impl Design {
    /// The design of the plan at the thread count in `column`; none unless several factors vary, and each combination of their
    /// levels is run by itself.
    fn new(plan: &Plan, column: usize) -> Option<Self> {
        let subject = plan.subjects.iter().position(|subject| subject.alone.is_none())?;
        let is_run = |&treatment: &usize| plan.has(Cell { subject, threads: column, treatment });
        let run: Vec<usize> = (0..plan.treatments.len()).filter(is_run).collect();
        let levels_of = |factor: Factor| {
            let mut levels: Vec<String> = Vec::new();
            for &treatment in &run {
                let level = plan.treatments[treatment].level(factor);
                if !levels.contains(&level) {
                    levels.push(level);
                }
            }
            (factor, levels)
        };
        let factors: Vec<(Factor, Vec<String>)> =
            Factor::iter().map(levels_of).filter(|(_, levels)| levels.len() > 1).collect();
        if factors.len() < 2 {
            return None;
        }
        let factorial = Factorial::new(factors.iter().map(|(_, levels)| levels.len()).collect());
        if factorial.combinations() > run.len() {
            return None;
        }
        let treatment_at = |position: usize| {
            let levels = factorial.levels_at(position);
            let is_here = |treatment: &Treatment| {
                let mut wanted = factors.iter().zip(&levels);
                wanted.all(|((factor, names), &level)| treatment.level(*factor) == names[level])
            };
            run.iter().copied().find(|&treatment| is_here(&plan.treatments[treatment]))
        };
        let treatments = (0..factorial.combinations()).map(treatment_at).collect::<Option<_>>()?;
        Some(Self { factors, factorial, treatments })
    }

    /// The times of every combination, in seconds, in each block in which all of them went well.
    fn blocks(&self, plan: &Plan, trials: &[Trial], subject: usize, threads: usize) -> Vec<Vec<f64>> {
        let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (position, &treatment) in self.treatments.iter().enumerate() {
            for (trial, time_s) in counted(plan, trials, Cell { subject, threads, treatment }) {
                let block = blocks.entry(trial.block).or_default();
                // One that lacks an earlier combination stays too short.
                if block.len() == position {
                    block.push(time_s);
                }
            }
        }
        blocks.into_values().filter(|block| block.len() == self.treatments.len()).collect()
    }

    /// What a contrast is called: factor, level, reference.
    fn words(&self, contrast: Contrast) -> [String; 3] {
        let name = |factor: usize| self.factors[factor].0.to_string();
        let level = |factor: usize, level: usize| self.factors[factor].1[level].as_str();
        match contrast {
            Contrast::Main { factor, level: at } => {
                [name(factor), level(factor, at).to_owned(), level(factor, 0).to_owned()]
            }
            Contrast::Interaction { factors: [first, second], levels: [of_first, of_second] } => [
                format!("{} x {}", name(first), name(second)),
                format!("{} x {}", level(first, of_first), level(second, of_second)),
                format!("{} x {}", level(first, 0), level(second, 0)),
            ],
        }
    }
}

/// Every effect of a comparison, by subject and thread count; none where fewer than two factors vary.
pub(crate) fn effects(plan: &Plan, trials: &[Trial]) -> Vec<Effect> {
    let mut effects: Vec<Effect> = Vec::new();
    let mut ratios: Vec<Option<PairedRatio>> = Vec::new();
    for subject in (0..plan.subjects.len()).filter(|&subject| plan.subjects[subject].alone.is_none()) {
        for (column, &threads) in plan.threads.iter().enumerate() {
            let Some(design) = Design::new(plan, column) else { continue };
            let blocks = design.blocks(plan, trials, subject, column);
            for contrast in design.factorial.contrasts() {
                // The same seed in every report, and another for each effect.
                let seed = plan.seed.wrapping_add(1_000_003 * (1 + effects.len() as u64));
                let ratio = stats::paired_ratio(&design.factorial.pairs(contrast, &blocks), seed);
                let [factor, level, reference] = design.words(contrast);
                effects.push(Effect {
                    subject: plan.subjects[subject].name.clone(),
                    threads,
                    factor,
                    level,
                    reference,
                    ratio: ratio.map(|ratio| ratio.ratio()),
                    ratio_low: ratio.map(|ratio| ratio.low()),
                    ratio_high: ratio.map(|ratio| ratio.high()),
                    pairs: blocks.len() as u32,
                    claim: Claim::TooFew,
                    is_interaction: matches!(contrast, Contrast::Interaction { .. }),
                });
                ratios.push(ratio);
            }
        }
    }
    let claims = stats::claims(&ratios.iter().flatten().copied().collect::<Vec<_>>());
    let told = effects.iter_mut().zip(&ratios).filter(|(_, ratio)| ratio.is_some());
    told.zip(claims).for_each(|((effect, _), claim)| effect.claim = claim.into());
    effects
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Subject;
    use crate::trial::Status;
    use launch::Conditions;
    use machine::{CpuId, Placement};
    use std::time::Duration;

    fn plan(threads: &[Shape]) -> Plan {
        let scatter = |&count: &Shape| Some(Placement::from_cpus("scatter", (0..count.total()).map(CpuId)));
        let places = [Treatment::unbound(), Treatment::new("scatter".into(), threads.iter().map(scatter).collect())];
        let batch = Conditions { scheduling: "batch".parse().unwrap(), ..Conditions::default() };
        let treatments = places.iter().flat_map(|place| [place.clone(), place.in_conditions(&batch)]).collect();
        Plan {
            subjects: vec![Subject { name: "app".into(), argv: vec!["./app".into()], ..Subject::default() }],
            threads: threads.to_vec(),
            treatments,
            warmup_blocks: 0,
            timeout: Duration::from_secs(60),
            seed: 1,
            ..Plan::default()
        }
    }

    /// Trials of `blocks` blocks in which `time_s` says what a combination takes, in an order that differs by block.
    fn trials(plan: &Plan, blocks: u32, time_s: impl Fn(&str, u32) -> Option<f64>) -> Vec<Trial> {
        let mut trials = Vec::new();
        for block in 0..blocks {
            for at in 0..plan.treatments.len() {
                let treatment = &plan.treatments[(at + block as usize) % plan.treatments.len()];
                let time_s = time_s(&treatment.name, block);
                trials.push(Trial {
                    sequence: trials.len() as u32,
                    block,
                    warmup: false,
                    subject: "app".into(),
                    threads: plan.threads[0],
                    placement: treatment.name.clone(),
                    status: if time_s.is_some() { Status::Ok } else { Status::ExitCode },
                    cause: String::new(),
                    time_s,
                    started_unix_s: 0.0,
                    ran_s: time_s,
                    intended_cpus: None,
                    observation: None,
                    more: None,
                    output_tail: String::new(),
                });
            }
        }
        trials
    }

    /// Scatter is twice as fast, batch as fast, and both together are four times as fast.
    fn known(name: &str, block: u32) -> Option<f64> {
        let slowness = f64::from(block % 3 + 1);
        // Knuth's multiplicative hash, for up to 1 %.
        let number = 32 * block + name.len() as u32;
        let noise = 1.0 + 0.01 * f64::from(number.wrapping_mul(2_654_435_769)) / f64::from(u32::MAX);
        let faster = match name {
            "scatter" => 2.0,
            "scatter sched=batch" => 4.0,
            _ => 1.0,
        };
        Some(slowness * noise / faster)
    }

    #[test]
    fn effects_are_those_of_levels_over_all_others_and_of_two_beyond_their_product() {
        let plan = plan(&[2.into()]);
        let effects = effects(&plan, &trials(&plan, 12, known));
        let words: Vec<[&str; 3]> =
            effects.iter().map(|effect| [&*effect.factor, &*effect.level, &*effect.reference]).collect();
        let expected = [
            ["place", "scatter", "unbound"],
            ["sched", "batch", "default"],
            ["place x sched", "scatter x batch", "unbound x default"],
        ];
        assert_eq!(words, expected);
        for (effect, ratio) in effects.iter().zip([8.0_f64.sqrt(), 2.0_f64.sqrt(), 2.0]) {
            assert!((effect.ratio.unwrap() / ratio - 1.0).abs() < 0.02, "{effect:?}");
            assert_eq!((effect.claim, effect.pairs), (Claim::Faster, 12), "{effect:?}");
        }
    }

    #[test]
    fn blocks_that_lack_a_combination_are_left_out() {
        let plan = plan(&[2.into()]);
        let failing = |name: &str, block| known(name, block).filter(|_| (name, block) != ("scatter", 3));
        assert!(effects(&plan, &trials(&plan, 12, failing)).iter().all(|effect| effect.pairs == 11));
        let few = effects(&plan, &trials(&plan, 3, known));
        assert!(few.iter().all(|effect| (effect.claim, effect.ratio) == (Claim::TooFew, None)), "{few:?}");
    }

    #[test]
    fn one_factor_alone_or_a_combination_that_is_missing_has_no_effects() {
        let mut places = plan(&[2.into()]);
        places.treatments.retain(|treatment| treatment.conditions.is_default());
        assert_eq!(effects(&places, &trials(&places, 12, known)), []);
        let mut without = plan(&[2.into()]);
        without.treatments.pop();
        assert_eq!(effects(&without, &trials(&without, 12, known)), []);
    }
}
