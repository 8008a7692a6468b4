//! Times of cells, and pairs of them: what stop rules, races and summaries compute with.

use crate::plan::{Cell, Plan};
use crate::trial::{Status, Trial};
use stats::Pair;
use std::collections::BTreeMap;

/// The trials of `cell` that count, with their times in seconds: ok, and not warm-up.
pub(crate) fn counted<'a>(plan: &'a Plan, trials: &'a [Trial], cell: Cell) -> impl Iterator<Item = (&'a Trial, f64)> {
    trials
        .iter()
        .filter_map(|trial| Some((trial, counted_time_s(trial)?)))
        .filter(move |(trial, _)| cell.has_trial(plan, trial))
}

/// The time of a trial, in seconds, if it counts.
pub(crate) fn counted_time_s(trial: &Trial) -> Option<f64> {
    trial.time_s.filter(|_| !trial.warmup && trial.status == Status::Ok)
}

/// The times of `cell` that count, in seconds, in the order in which they were run.
pub fn counted_times(plan: &Plan, trials: &[Trial], cell: Cell) -> Vec<f64> {
    counted(plan, trials, cell).map(|(_, time_s)| time_s).collect()
}

/// Times of the reference and of `cell` in the blocks in which both went well, in block order.
pub(crate) fn pairs(plan: &Plan, trials: &[Trial], cell: Cell) -> Vec<Pair> {
    pairs_to(plan, trials, Cell { treatment: 0, ..cell }, cell)
}

/// Times of two cells in the blocks in which both went well, in block order; those of `reference` as the reference's.
pub fn pairs_to(plan: &Plan, trials: &[Trial], reference: Cell, cell: Cell) -> Vec<Pair> {
    let reference: BTreeMap<u32, f64> =
        counted(plan, trials, reference).map(|(trial, time_s)| (trial.block, time_s)).collect();
    counted(plan, trials, cell)
        .filter_map(|(trial, treatment_s)| Some(Pair { reference_s: *reference.get(&trial.block)?, treatment_s }))
        .collect()
}

/// The seed of a comparison's bootstrap: the study's, told apart by cell.
pub fn bootstrap_seed(plan: &Plan, cell: Cell) -> u64 {
    let cells_before = (cell.subject * plan.threads.len() + cell.threads) * plan.treatments.len() + cell.treatment;
    plan.seed.wrapping_add(cells_before as u64)
}
