//! Node as a factor: what each node of a cluster shows by itself, how slow it is beside the others, and whether effects differ between them.
//!
//! A block runs on one node, so that no pair crosses nodes and a slow node is slow on both sides of each of its pairs. Blocks, and not trials,
//! are what nodes are compared by: the trials of a block share its node and its time of day.

use crate::plan::{Cell, Plan};
use crate::shape::Shape;
use crate::times::{counted_cost, pairs};
use crate::trial::Trial;
use serde::{Deserialize, Serialize};
use stats::{UnpairedRatio, unpaired_ratio};
use std::collections::{BTreeMap, BTreeSet};

/// A node that is shown to be slower than the others by this share is told, and so is an effect that is shown to be so much another one there.
const SHARE_TO_TELL: f64 = 0.02;

/// What one node shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSummary {
    /// Its name, as Slurm calls it.
    pub node: String,
    /// Blocks that ran on it.
    pub blocks: u32,
    /// Its costs (of times, seconds) over those of the other nodes in the same cells: above 1 is slower. None where either has too few blocks.
    pub slowdown: Option<UnpairedRatio>,
    /// The ratio of the reference to each treatment on it.
    pub effects: Vec<NodeEffect>,
}

/// What a treatment comes to on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeEffect {
    /// Name of the subject.
    pub subject: String,
    /// Thread count.
    pub threads: Shape,
    /// Name of the treatment.
    pub placement: String,
    /// Blocks of the node in which both it and the reference went well.
    pub pairs: u32,
    /// Cost of the reference over that of the treatment, the median of these blocks: above 1 is better than the reference.
    pub ratio: f64,
    /// The same of all other nodes; none where they have no pair.
    pub ratio_elsewhere: Option<f64>,
    /// This node's ratio over the others', with its interval. None where either has too few blocks.
    pub difference: Option<UnpairedRatio>,
}

impl NodeSummary {
    /// Every node of a study, by name; none where there is only one, or a model ran on none.
    pub(crate) fn all(plan: &Plan, trials: &[Trial]) -> Vec<Self> {
        let nodes: BTreeMap<u32, &str> = trials.iter().filter_map(|t| Some((t.block, t.node()?))).collect();
        let names: BTreeSet<&str> = nodes.values().copied().collect();
        if names.len() < 2 || plan.subjects.iter().any(|subject| subject.model.is_some()) {
            return Vec::new();
        }
        let costs = costs_of_blocks(plan, trials);
        // Of each cell but references, what its ratio is in each block.
        let ratios: Vec<(Cell, BTreeMap<u32, f64>)> = plan
            .cells()
            .filter(|cell| cell.treatment != 0)
            .map(|cell| (cell, ratios_of_blocks(plan, trials, cell)))
            .collect();
        let summary = |node: &str| {
            let is_here = |block: &u32| nodes.get(block) == Some(&node);
            let (here, elsewhere) = parted(&costs, is_here);
            let effect = |(cell, ratios): &(Cell, BTreeMap<u32, f64>)| {
                let (here, elsewhere) = parted(ratios, is_here);
                Some(NodeEffect {
                    subject: plan.subjects[cell.subject].name.clone(),
                    threads: plan.threads[cell.threads],
                    placement: plan.treatments[cell.treatment].name.clone(),
                    pairs: here.len() as u32,
                    ratio: median(&here)?,
                    ratio_elsewhere: median(&elsewhere),
                    difference: unpaired_ratio(&here, &elsewhere),
                })
            };
            Self {
                node: node.to_owned(),
                blocks: nodes.keys().filter(|block| is_here(block)).count() as u32,
                slowdown: unpaired_ratio(&here, &elsewhere),
                effects: ratios.iter().filter_map(effect).collect(),
            }
        };
        names.into_iter().map(summary).collect()
    }

    /// Whether it is shown to be slower than the other nodes by a share that is worth telling.
    pub(crate) fn is_slow(&self) -> bool {
        self.slowdown.is_some_and(|slowdown| slowdown.low > 1.0 + SHARE_TO_TELL)
    }

    /// The effect that is shown to be another one here than elsewhere, of several the one that differs most.
    pub(crate) fn most_different(&self) -> Option<(&NodeEffect, UnpairedRatio)> {
        let shown = self.effects.iter().filter_map(|effect| Some((effect, effect.difference?)));
        let shown = shown.filter(|(_, d)| d.low > 1.0 + SHARE_TO_TELL || d.high < 1.0 / (1.0 + SHARE_TO_TELL));
        shown.max_by(|(_, one), (_, other)| one.ratio.ln().abs().total_cmp(&other.ratio.ln().abs()))
    }
}

/// How slow each block is: the geometric mean of its costs, each over the median of its cell in all blocks.
fn costs_of_blocks(plan: &Plan, trials: &[Trial]) -> BTreeMap<u32, f64> {
    let mut logs: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for cell in plan.cells() {
        let subject = &plan.subjects[cell.subject];
        let ours = trials.iter().filter(|trial| cell.has_trial(plan, trial));
        let costs: Vec<(u32, f64)> =
            ours.filter_map(|trial| Some((trial.block, counted_cost(subject, trial)?))).collect();
        let typical = median(&costs.iter().map(|(_, cost)| *cost).collect::<Vec<_>>());
        for (block, cost) in costs {
            let relative = typical.map(|typical| (cost / typical).ln()).filter(|log| log.is_finite());
            logs.entry(block).or_default().extend(relative);
        }
    }
    let mean = |logs: Vec<f64>| (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp());
    logs.into_iter().filter_map(|(block, logs)| Some((block, mean(logs)?))).collect()
}

/// The ratio of the reference to `cell` in each block in which both went well.
fn ratios_of_blocks(plan: &Plan, trials: &[Trial], cell: Cell) -> BTreeMap<u32, f64> {
    let blocks: BTreeSet<u32> = trials.iter().map(|trial| trial.block).collect();
    let mut rest = trials;
    let mut ratios = BTreeMap::new();
    for block in blocks {
        let (ours, later) = rest.split_at(rest.partition_point(|trial| trial.block <= block));
        rest = later;
        let pair = pairs(plan, ours, cell).into_iter().next();
        ratios.extend(pair.map(|pair| (block, pair.reference_s / pair.treatment_s)).filter(|(_, r)| r.is_finite()));
    }
    ratios
}

/// The values of blocks that are here, and of those that aren't.
fn parted(values: &BTreeMap<u32, f64>, is_here: impl Fn(&u32) -> bool) -> (Vec<f64>, Vec<f64>) {
    let (here, elsewhere): (Vec<_>, Vec<_>) = values.iter().partition(|(block, _)| is_here(block));
    let only = |values: Vec<(&u32, &f64)>| values.into_iter().map(|(_, value)| *value).collect();
    (only(here), only(elsewhere))
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Turn;
    use crate::plan::Subject;
    use crate::treatment::Treatment;
    use crate::trial::{More, Status};

    /// Twenty-four blocks, dealt out to three nodes; the time of a trial by its node, its treatment and a little noise.
    fn trials(time_s: impl Fn(&str, usize) -> f64) -> (Plan, Vec<Trial>) {
        let plan = Plan {
            subjects: vec![Subject { name: "app".into(), ..Subject::default() }],
            threads: vec![1.into()],
            treatments: vec![Treatment::unbound(), Treatment::new("free".into(), Vec::new())],
            ..Plan::default()
        };
        let mut trials = Vec::new();
        for block in 0..24 {
            let node = ["n1", "n2", "n3"][block as usize % 3];
            for cell in plan.cells() {
                let turn = Turn { cell, sequence: trials.len() as u32, block, warmup: false, cut_off: None };
                let noise = 1.0 + f64::from((turn.sequence * 7) % 5) / 1000.0;
                let more = More { node: Some(node.into()), ..More::default() }.boxed();
                let time_s = Some(time_s(node, cell.treatment) * noise);
                trials.push(Trial { status: Status::Ok, time_s, more, ..turn.trial(&plan, 0.0) });
            }
        }
        (plan, trials)
    }

    #[test]
    fn a_slow_node_is_told_and_changes_no_ratio() {
        let (plan, trials) = trials(|node, treatment| {
            let slow = if node == "n2" { 1.5 } else { 1.0 };
            slow * if treatment == 0 { 1.2 } else { 1.0 }
        });
        let nodes = NodeSummary::all(&plan, &trials);
        assert_eq!(
            nodes.iter().map(|n| (n.node.as_str(), n.blocks)).collect::<Vec<_>>(),
            [("n1", 8), ("n2", 8), ("n3", 8)]
        );
        assert_eq!(nodes.iter().map(NodeSummary::is_slow).collect::<Vec<_>>(), [false, true, false]);
        let slowdown = nodes[1].slowdown.unwrap();
        assert!((slowdown.ratio - 1.5).abs() < 0.01 && slowdown.low > 1.45, "{slowdown:?}");
        assert!(nodes.iter().all(|node| (node.effects[0].ratio - 1.2).abs() < 0.01 && node.effects[0].pairs == 8));
        assert!(nodes.iter().all(|node| node.most_different().is_none()), "{nodes:?}");
    }

    #[test]
    fn an_effect_that_is_another_one_on_a_node_is_told() {
        let (plan, trials) = trials(|node, treatment| if node == "n3" && treatment == 1 { 0.5 } else { 1.0 });
        let nodes = NodeSummary::all(&plan, &trials);
        let (effect, difference) = nodes[2].most_different().unwrap();
        assert!((effect.ratio - 2.0).abs() < 0.02 && (difference.ratio - 2.0).abs() < 0.02, "{effect:?}");
        assert!((effect.ratio_elsewhere.unwrap() - 1.0).abs() < 0.01);
        // One node, or none, is compared with nothing.
        let one: Vec<Trial> = trials.iter().filter(|trial| trial.node() == Some("n1")).cloned().collect();
        assert_eq!(NodeSummary::all(&plan, &one), []);
    }

    #[test]
    fn a_median_is_between_the_middle_two() {
        assert_eq!(
            [median(&[]), median(&[3.0]), median(&[4.0, 1.0]), median(&[3.0, 1.0, 2.0])],
            [None, Some(3.0), Some(2.5), Some(2.0)]
        );
    }
}
