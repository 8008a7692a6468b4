//! A comparison: every placement against the reference, in randomised complete blocks.
//!
//! A **group** is one subject at one thread count; its treatments are compared with one another. In every block each
//! open group runs each of its treatments once, one right after the other, so that a machine that gets slower gets
//! slower for all of them; the order of the groups, and of the treatments within, is drawn anew for every block
//! (randomised complete block design; Fisher, *The Design of Experiments*, 1935). Blocks `0..warmup_blocks` warm up.

use crate::comparison_course::ComparisonCourse;
use crate::engine::CellStudy;
use crate::identity::Change;
use crate::kind::Kind;
use crate::plan::{Cell, Plan, PlanError};
use crate::redaction::Redaction;
use crate::shape_comparison::base_column;
use crate::times::{bootstrap_seed, deciding_costs, deciding_metric, deciding_pairs, deciding_pairs_to};
use crate::trial::Trial;
use serde::{Deserialize, Serialize};

/// A study that compares every placement with the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What is run where.
    #[serde(flatten)]
    pub plan: Plan,
    /// When it is enough.
    pub stop: StopRule,
}

/// When a comparison is settled: by what runs are compared by; in an emulated machine by the first metric that is compared, and where there
/// is none, when there are the least runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule")]
pub enum StopRule {
    /// The 95 % interval of every paired ratio to the reference is narrower than `width` (0.02 = 2 %).
    Paired {
        /// Upper minus lower bound of the ratio, over the ratio.
        width: f64,
        /// Blocks before the first look.
        min_blocks: u32,
        /// Blocks after which it stops, settled or not.
        max_blocks: u32,
    },
    /// The papers' rule: at least `min_runs` until the relative standard deviation is below `relative_sd`
    /// (Pires 2017, section 3: five runs, 5 %).
    RelativeSd {
        /// Standard deviation over mean (0.05 = 5 %).
        relative_sd: f64,
        /// Runs before the first look.
        min_runs: u32,
        /// Runs after which it stops, settled or not.
        max_runs: u32,
    },
}

impl StopRule {
    /// Blocks before the first look, and blocks after which it stops.
    pub fn block_limits(&self) -> (u32, u32) {
        match *self {
            Self::Paired { min_blocks, max_blocks, .. } => (min_blocks, max_blocks),
            Self::RelativeSd { min_runs, max_runs, .. } => (min_runs, max_runs),
        }
    }
}

impl Kind for Comparison {
    const NAME: &'static str = "comparison";
    type Trial = Trial;

    fn check(&self) -> Result<(), PlanError> {
        self.plan.check()
    }

    fn aligned(&self, asked: &Self) -> Self {
        Self { plan: self.plan.aligned(&asked.plan), stop: asked.stop.clone() }
    }

    fn redaction(&self) -> Redaction {
        self.plan.redaction()
    }

    fn keeps_identity(&self) -> bool {
        self.plan.keeps_identity()
    }

    fn changes(&self, asked: &Self) -> Vec<Change> {
        self.plan.changes(&asked.plan)
    }

    fn extended_by(&self, asked: &Self, trials: &[Trial]) -> Result<Self, Vec<String>> {
        let asked = self.aligned(asked);
        let stop = asked.stop.clone();
        let next_block = trials.last().map_or(0, |trial| trial.block + 1);
        let (plan, extension) = self.plan.extended_by(&asked.plan, next_block, |have, want| {
            let with = |plan: &Plan| Self { plan: plan.clone(), stop: stop.clone() };
            with(have).differences(&with(want))
        })?;
        let is_changed = extension.adds_cells() || stop != self.stop;
        let mut extended = Self { plan, stop };
        if is_changed && !trials.is_empty() {
            extended.plan.extensions.push(extension);
        }
        Ok(extended)
    }
}

impl CellStudy for Comparison {
    type Course<'a> = ComparisonCourse<'a>;

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn course<'a>(&'a self, earlier: &[Trial]) -> ComparisonCourse<'a> {
        ComparisonCourse::new(self, earlier)
    }

    fn with_plan(&self, plan: Plan) -> Self {
        Self { plan, stop: self.stop.clone() }
    }
}

impl Comparison {
    /// Whether the stop rule is met for one cell.
    pub(crate) fn is_settled(&self, trials: &[Trial], cell: Cell) -> bool {
        let plan = &self.plan;
        match self.stop {
            // The reference is settled with whatever is compared to it, and shapes of ranks are with one another.
            StopRule::Paired { width, min_blocks, .. } if cell.treatment == 0 => {
                let Some(base) = base_column(plan, cell.threads).map(|threads| Cell { threads, ..cell }) else {
                    return true;
                };
                let pairs = deciding_pairs_to(plan, trials, base, cell);
                self.is_given_up(trials, base)
                    || stats::is_settled(&pairs, width, min_blocks as usize, bootstrap_seed(plan, cell))
            }
            _ if deciding_metric(plan, &plan.subjects[cell.subject]).is_none() => {
                let runs = trials.iter().filter(|trial| !trial.warmup && cell.has_trial(plan, trial)).count();
                runs >= self.stop.block_limits().0 as usize
            }
            StopRule::Paired { width, min_blocks, .. } => {
                let pairs = deciding_pairs(plan, trials, cell);
                stats::is_settled(&pairs, width, min_blocks as usize, bootstrap_seed(plan, cell))
            }
            StopRule::RelativeSd { relative_sd, min_runs, .. } => {
                let costs: Vec<f64> = deciding_costs(plan, trials, cell).into_iter().map(|(_, cost)| cost).collect();
                stats::relative_sd_below(&costs, min_runs as usize, relative_sd)
            }
        }
    }
}

/// The cells of `groups` in the order in which `block` runs them.
pub(crate) fn block_order(plan: &Plan, groups: &[(usize, usize)], block: u32) -> Vec<Cell> {
    let all = plan.subjects.len() * plan.threads.len();
    let (block, is_reversed) = plan.site.order_of(block);
    // Drawn over all groups, open or not, so that closing one doesn't reorder the others.
    let mut order: Vec<Cell> = stats::block_permutation(plan.seed, block, all as u32, all)
        .into_iter()
        .map(|group| (group, (group / plan.threads.len(), group % plan.threads.len())))
        .filter(|(_, group)| groups.contains(group))
        .flat_map(|(number, (subject, threads))| {
            stats::block_permutation(plan.seed, block, number as u32, plan.treatments.len())
                .into_iter()
                .map(move |treatment| Cell { subject, threads, treatment })
                .filter(|&cell| plan.has(cell))
        })
        .collect();
    if is_reversed {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Subject, Treatment};
    use std::time::Duration;

    fn study() -> Comparison {
        let plan = Plan {
            subjects: vec![Subject { name: "app".into(), argv: vec!["./app".into()], ..Subject::default() }],
            threads: vec![1.into(), 2.into()],
            treatments: vec![Treatment::unbound()],
            warmup_blocks: 1,
            timeout: Duration::from_secs(60),
            seed: 1,
            ..Plan::default()
        };
        Comparison { plan, stop: StopRule::Paired { width: 0.02, min_blocks: 8, max_blocks: 40 } }
    }

    #[test]
    fn in_a_virtual_machine_every_second_block_runs_the_order_of_the_one_before_from_its_end() {
        let mut plan =
            Plan { threads: vec![1.into(), 2.into(), 3.into()], site: "vm".parse().unwrap(), ..study().plan };
        plan.treatments.push(Treatment::new("other".into(), Vec::new()));
        let groups: Vec<(usize, usize)> = (0..3).map(|threads| (0, threads)).collect();
        for block in (0..20).step_by(2) {
            let forth = block_order(&plan, &groups, block);
            let mut back = block_order(&plan, &groups, block + 1);
            back.reverse();
            assert_eq!((&forth, forth.len()), (&back, 6));
            // One group less changes nothing for the others.
            let fewer = block_order(&plan, &groups[..2], block + 1);
            let expected = forth.iter().rev().filter(|cell| cell.threads < 2).copied().collect::<Vec<_>>();
            assert_eq!(fewer, expected);
        }
    }

    #[test]
    fn equal_plans_do_not_differ() {
        assert_eq!(study().differences(&study()), Vec::<String>::new());
    }

    #[test]
    fn a_difference_names_its_place_and_both_values() {
        let asked = Comparison { plan: Plan { threads: vec![1.into(), 4.into()], seed: 2, ..study().plan }, ..study() };
        assert_eq!(
            study().differences(&asked),
            ["seed: the journal has 1, you ask for 2", "threads: the journal has [1,2], you ask for [1,4]"]
        );
    }

    #[test]
    fn a_program_built_anew_is_another_program_unless_its_build_was_never_kept() {
        let built = |build: Option<&str>| {
            let mut study = study();
            study.plan.subjects[0].build = build.map(str::to_owned);
            study
        };
        let gcc = built(Some("app 0.1.0 (gcc 12.2.0)"));
        assert_eq!(gcc.plan.subjects[0].compiler(), Some("gcc 12.2.0"));
        assert_eq!(built(None).changes(&gcc), []);
        let clang = built(Some("app 0.1.0 (clang 14.0.6)"));
        let told: Vec<String> = gcc.changes(&clang).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["the program said that it is app 0.1.0 (gcc 12.2.0), and says app 0.1.0 (clang 14.0.6)"]);
        assert_eq!(gcc.differences(&clang), Vec::<String>::new(), "what is asked for is the same");
    }
}
