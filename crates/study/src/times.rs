//! Costs of cells, and pairs of them: what stop rules, races and summaries compute with.
//!
//! A cost is what runs are compared by, turned so that less is better: the time in seconds, or the number of another metric, or one over
//! it where higher is better. So a ratio of costs, the reference's first, is above 1 where a treatment is better.

use crate::metric::Metric;
use crate::plan::{Cell, Plan, Subject};
use crate::trial::{Status, Trial};
use stats::{Better, Pair};
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

/// By what it is decided when there are enough runs of `subject`: by what they are compared by; in an emulated machine, whose times mean
/// nothing, by the first of its metrics that is compared. None where nothing is.
pub(crate) fn deciding_metric<'a>(plan: &Plan, subject: &'a Subject) -> Option<&'a Metric> {
    match plan.site.is_emulated() {
        false => Some(&subject.metric),
        true => subject.metrics.iter().find(|metric| metric.better != Better::Neither),
    }
}

/// The cost of a trial of `subject` by what decides when it is enough, if it counts.
pub(crate) fn deciding_cost(plan: &Plan, subject: &Subject, trial: &Trial) -> Option<f64> {
    if !plan.site.is_emulated() {
        return counted_cost(subject, trial);
    }
    let metric = deciding_metric(plan, subject)?;
    let value = trial.values().find(|(name, _)| *name == metric.name).map(|(_, value)| value);
    value.filter(|_| !trial.warmup && trial.status == Status::Ok).map(|value| metric.cost(value))
}

/// The costs of `cell` by which it is decided when it is enough, with the block of each, in the order in which they were run.
pub(crate) fn deciding_costs(plan: &Plan, trials: &[Trial], cell: Cell) -> Vec<(u32, f64)> {
    let ours = trials.iter().filter(|trial| cell.has_trial(plan, trial));
    ours.filter_map(|trial| Some((trial.block, deciding_cost(plan, &plan.subjects[cell.subject], trial)?))).collect()
}

/// Pairs of such costs of the reference and of `cell`, in block order.
pub(crate) fn deciding_pairs(plan: &Plan, trials: &[Trial], cell: Cell) -> Vec<Pair> {
    deciding_pairs_to(plan, trials, Cell { treatment: 0, ..cell }, cell)
}

/// Pairs of such costs of two cells, in block order; those of `reference` as the reference's.
pub(crate) fn deciding_pairs_to(plan: &Plan, trials: &[Trial], reference: Cell, cell: Cell) -> Vec<Pair> {
    let reference: BTreeMap<u32, f64> = deciding_costs(plan, trials, reference).into_iter().collect();
    let pair = |(block, treatment_s)| Some(Pair { reference_s: *reference.get(&block)?, treatment_s });
    deciding_costs(plan, trials, cell).into_iter().filter_map(pair).collect()
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
