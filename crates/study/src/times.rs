//! Costs of cells, and pairs of them: what stop rules, races and summaries compute with.
//!
//! A cost is what runs are compared by, turned so that less is better: the time in seconds, or the number of another metric, or one over
//! it where higher is better. So a ratio of costs, the reference's first, is above 1 where a treatment is better.

use crate::plan::{Cell, Plan, Subject};
use crate::trial::{Status, Trial};
use stats::Pair;
use std::collections::BTreeMap;

/// The trials of `cell` that count, ok and not warm-up, with their costs.
pub(crate) fn counted<'a>(plan: &'a Plan, trials: &'a [Trial], cell: Cell) -> impl Iterator<Item = (&'a Trial, f64)> {
    let subject = &plan.subjects[cell.subject];
    trials
        .iter()
        .filter_map(|trial| Some((trial, counted_cost(subject, trial)?)))
        .filter(move |(trial, _)| cell.has_trial(plan, trial))
}

/// The cost of a trial of `subject`, if it counts: what it is compared by, turned so that less is better.
pub(crate) fn counted_cost(subject: &Subject, trial: &Trial) -> Option<f64> {
    let value = subject.value(trial).filter(|_| !trial.warmup && trial.status == Status::Ok);
    value.map(|value| subject.metric.cost(value))
}

/// The costs of `cell` that count, in the order in which they were run; where runs are compared by time, in seconds.
pub fn counted_costs(plan: &Plan, trials: &[Trial], cell: Cell) -> Vec<f64> {
    counted(plan, trials, cell).map(|(_, cost)| cost).collect()
}

/// Costs of the reference and of `cell` in the blocks in which both went well, in block order.
pub(crate) fn pairs(plan: &Plan, trials: &[Trial], cell: Cell) -> Vec<Pair> {
    pairs_to(plan, trials, Cell { treatment: 0, ..cell }, cell)
}

/// Costs of two cells in the blocks in which both went well, in block order; those of `reference` as the reference's.
pub fn pairs_to(plan: &Plan, trials: &[Trial], reference: Cell, cell: Cell) -> Vec<Pair> {
    let reference: BTreeMap<u32, f64> =
        counted(plan, trials, reference).map(|(trial, cost)| (trial.block, cost)).collect();
    counted(plan, trials, cell)
        .filter_map(|(trial, treatment_s)| Some(Pair { reference_s: *reference.get(&trial.block)?, treatment_s }))
        .collect()
}

/// The seed of a comparison's bootstrap: the study's, told apart by cell.
pub fn bootstrap_seed(plan: &Plan, cell: Cell) -> u64 {
    let cells_before = (cell.subject * plan.threads.len() + cell.threads) * plan.treatments.len() + cell.treatment;
    plan.seed.wrapping_add(cells_before as u64)
}
