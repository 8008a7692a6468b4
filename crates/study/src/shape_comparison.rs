//! Shapes compared: how a number of threads is best divided into ranks.
//!
//! Shapes with as many threads in all are a group: 1x8, 2x4, 4x2 and 8x1 take eight CPUs each. The fastest of a group is compared with
//! every other, each under the placement that is best for it, in pairs of the same block. The fastest is found by the same runs, which
//! would flatter it among many; so a difference is claimed by Holm's rule over *every* pair of a group, of all groups and subjects.

use crate::environment::Environment;
use crate::plan::{Cell, Plan};
use crate::shape::Shape;
use crate::summary::{Claim, Summary, best_of_shape};
use crate::times::{bootstrap_seed, pairs_to};
use crate::trial::Trial;
use crate::verdict::{Configuration, Difference, Interval};
use serde::{Deserialize, Serialize};
use stats::{Disturbance, PairedRatio};

/// The shapes of a subject that have as many threads in all, compared with one another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShapeComparison {
    /// Name of the subject.
    pub subject: String,
    /// Threads of all ranks, in every shape of the group.
    pub threads_in_all: u32,
    /// The fastest of the group, under its best placement.
    pub fastest: Configuration,
    /// What is shown of it against each other shape under that one's best placement, in the plan's order.
    pub others: Vec<ShapeDifference>,
}

/// What is shown of the fastest shape against another. A ratio is the other's time over that of the fastest, so that above 1 the
/// fastest is faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShapeDifference {
    /// The other shape, under its best placement.
    #[serde(flatten)]
    pub other: Configuration,
    /// Blocks in which both went well.
    pub pairs: u32,
    /// What is shown.
    #[serde(flatten)]
    pub difference: Difference,
    /// What else may have made a difference that is shown: it was then measured on a busy machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<Disturbance>,
}

impl ShapeComparison {
    /// Whether the fastest is shown to be faster than another.
    pub fn is_shown(&self) -> bool {
        self.others.iter().any(|other| matches!(other.difference, Difference::Faster { .. }))
    }
}

/// The first shape of the plan that has ranks and as many threads in all as that in `column`, if that isn't `column` itself: what it is
/// compared with until it is known which is the fastest.
pub(crate) fn base_column(plan: &Plan, column: usize) -> Option<usize> {
    let shape = plan.threads[column];
    let is_alike = |other: &Shape| other.ranks().is_some() && other.total() == shape.total();
    shape.ranks()?;
    plan.threads.iter().position(is_alike).filter(|&base| base != column)
}

/// A pair of shapes of a group: the faster one by its median, the other, and how they compare.
struct Pairing {
    group: usize,
    faster: Cell,
    other: Cell,
    pairs: usize,
    ratio: Option<PairedRatio>,
}

/// The shapes of each subject compared, where there are several with as many threads in all.
pub(crate) fn shape_comparisons(
    plan: &Plan,
    trials: &[Trial],
    summaries: &[Summary],
    environment: &Environment,
) -> Vec<ShapeComparison> {
    let groups: Vec<Vec<&Summary>> = groups(plan, summaries);
    let cell = |summary: &Summary| plan.cell(&summary.subject, summary.threads, &summary.placement);
    let mut pairings = Vec::new();
    for (group, shapes) in groups.iter().enumerate() {
        for (at, faster) in shapes.iter().enumerate() {
            for other in &shapes[at + 1..] {
                let (Some(faster), Some(other)) = (cell(faster), cell(other)) else { continue };
                let pairs = pairs_to(plan, trials, other, faster);
                // A pair is told apart from those with the reference, whose draws begin at the seed of their cell.
                let seed = bootstrap_seed(plan, faster).wrapping_add(bootstrap_seed(plan, other) << 32);
                let ratio = stats::paired_ratio(&pairs, seed);
                pairings.push(Pairing { group, faster, other, pairs: pairs.len(), ratio });
            }
        }
    }
    let ratios: Vec<PairedRatio> = pairings.iter().filter_map(|pairing| pairing.ratio).collect();
    let mut claims = stats::claims(&ratios).into_iter();
    let mut differences: Vec<Vec<(Cell, Cell, ShapeDifference)>> = groups.iter().map(|_| Vec::new()).collect();
    for pairing in pairings {
        let claim = pairing.ratio.and_then(|_| claims.next());
        let difference = difference(pairing.ratio, claim, ratios.len());
        let is_claimed = matches!(difference, Difference::Faster { .. } | Difference::Slower { .. });
        let claimed = pairing.ratio.filter(|_| is_claimed);
        let disturbances = claimed.map(|ratio| environment.disturbances(pairing.other, pairing.faster, ratio.ratio()));
        let told = ShapeDifference {
            other: configuration(plan, pairing.other),
            pairs: pairing.pairs as u32,
            difference,
            disturbances: disturbances.unwrap_or_default(),
        };
        differences[pairing.group].push((pairing.faster, pairing.other, told));
    }
    groups
        .iter()
        .zip(differences)
        .filter_map(|(shapes, differences)| {
            let fastest = shapes.first()?;
            let own = cell(fastest)?;
            let mut others: Vec<(Cell, ShapeDifference)> = differences
                .into_iter()
                .filter(|(faster, ..)| *faster == own)
                .map(|(_, other, difference)| (other, difference))
                .collect();
            others.sort_by_key(|(other, _)| other.threads);
            Some(ShapeComparison {
                subject: fastest.subject.clone(),
                threads_in_all: fastest.threads.total(),
                fastest: configuration(plan, own),
                others: others.into_iter().map(|(_, difference)| difference).collect(),
            })
        })
        .collect()
}

/// The best cell of each shape of each group with several, the fastest first.
fn groups<'s>(plan: &Plan, summaries: &'s [Summary]) -> Vec<Vec<&'s Summary>> {
    let cost = |summary: &&Summary| summary.figures.cost.unwrap_or(f64::MAX);
    let mut groups = Vec::new();
    for subject in plan.compared() {
        for column in 0..plan.threads.len() {
            if base_column(plan, column).is_some() {
                continue;
            }
            let columns = (0..plan.threads.len()).filter(|&other| base_column(plan, other) == Some(column));
            let shapes = std::iter::once(column).filter(|_| plan.threads[column].ranks().is_some()).chain(columns);
            let mut best: Vec<&Summary> =
                shapes.filter_map(|shape| best_of_shape(&subject.name, plan.threads[shape], summaries)).collect();
            best.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
            if best.len() > 1 {
                groups.push(best);
            }
        }
    }
    groups
}

fn configuration(plan: &Plan, cell: Cell) -> Configuration {
    Configuration { threads: plan.threads[cell.threads], placement: plan.treatments[cell.treatment].name.clone() }
}

fn difference(ratio: Option<PairedRatio>, claim: Option<stats::Claim>, comparisons: usize) -> Difference {
    let (Some(ratio), Some(claim)) = (ratio, claim) else { return Difference::TooFew };
    let interval = Interval { value: ratio.ratio(), low: ratio.low(), high: ratio.high() };
    match Claim::from(claim) {
        Claim::Faster => Difference::Faster { ratio: interval },
        Claim::Slower => Difference::Slower { ratio: interval },
        _ => Difference::NoneShown {
            ratio: interval,
            shown_alone: interval.low > 1.0 || interval.high < 1.0,
            smallest_detectable: Some(ratio.smallest_detectable(comparisons)),
        },
    }
}
