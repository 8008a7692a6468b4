//! The parameters, each from the seen cells that show it.

use super::cell::{CORE_ONLY_PROGRAM, Cell, Rule};
use super::law::{Demand, bound_time};
use super::{BenchmarkFit, ContentionError, MachineFit, Neighbourhood};
use crate::cells::name;
use crate::paper::Paper;

/// Resolution to which shares are searched. A search of all finds the least wherever it is, and takes milliseconds.
const STEPS: u32 = 1000;

/// The machine's parameters and each benchmark's. First times on one thread, then what EP tells of cores, then what the others ask
/// of memory and of each other, and last what unbound runs add.
pub(super) fn fit(
    paper: &Paper,
    neighbourhood: Neighbourhood,
    rule: &Rule,
    cells: &[Cell],
) -> Result<(MachineFit, Vec<BenchmarkFit>), ContentionError> {
    let core_only = |fit: &BenchmarkFit| paper.programs.get(&fit.benchmark).is_some_and(|p| p == CORE_ONLY_PROGRAM);
    let mut benchmarks = one_thread_times(paper, rule, cells)?;
    let slowdown = fit_slowdown(cells, benchmarks.iter().filter(|fit| core_only(fit)));
    for fit in benchmarks.iter_mut().filter(|fit| !core_only(fit)) {
        fit.demand = fit_demand(cells, fit, slowdown.unwrap_or(1.0));
    }
    let machine = |misplaced| MachineFit { neighbourhood, slowdown, misplaced };
    let seen = cells.iter().any(|cell| cell.fitted && cell.misplaced.is_some());
    let misplaced = seen.then(|| best_share(|share| unbound_error(cells, &benchmarks, machine(Some(share)))));
    Ok((machine(misplaced), benchmarks))
}

/// Every benchmark and class, with its time on one thread as the rule's cell of one thread has it.
fn one_thread_times(paper: &Paper, rule: &Rule, cells: &[Cell]) -> Result<Vec<BenchmarkFit>, ContentionError> {
    let mut fits: Vec<BenchmarkFit> = Vec::new();
    for cell in cells {
        if fits.iter().any(|fit| cell.is_of(fit)) {
            continue;
        }
        let mut fit = BenchmarkFit {
            benchmark: cell.row.benchmark.clone(),
            class: cell.table.class.clone(),
            one_thread: 1.0,
            demand: Demand::CORE_ONLY,
        };
        for &(placement, threads) in rule.bound {
            let named = |cell: &&Cell| (cell.row.placement.as_deref(), cell.threads) == (placement, threads);
            let seen = cells.iter().filter(|cell| cell.is_of(&fit)).find(named);
            let seen = seen.ok_or_else(|| ContentionError::NotPrinted {
                paper: paper.name.into(),
                benchmark: name(&fit.benchmark, fit.class.as_deref()),
                placement: placement.unwrap_or("in any placement").into(),
                threads,
            })?;
            if threads == 1 {
                fit.one_thread = seen.time();
            }
        }
        fits.push(fit);
    }
    Ok(fits)
}

/// The fitted bound cells of a benchmark with more than one thread.
fn seen<'a>(cells: &'a [Cell], fit: &'a BenchmarkFit) -> impl Iterator<Item = &'a Cell<'a>> {
    cells.iter().filter(|cell| cell.fitted && cell.misplaced.is_none() && cell.threads > 1 && cell.is_of(fit))
}

/// The slow-down of cores: the geometric mean of what is lost where all threads of a core-only program are slowed.
fn fit_slowdown<'a>(cells: &[Cell], core_only: impl Iterator<Item = &'a BenchmarkFit>) -> Option<f64> {
    let mut logs = Vec::new();
    for fit in core_only {
        let slowed = seen(cells, fit).filter(|cell| cell.seating.crowds.iter().all(|c| c.slowed_cpus == c.busy_cpus));
        logs.extend(slowed.map(|cell| (cell.time() * f64::from(cell.threads) / fit.one_thread).ln()));
    }
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp().max(1.0))
}

/// The demand with the least sum of squared relative errors on the seen cells. With one cell to see, crosstalk is 0: two parameters
/// would be one too many.
fn fit_demand(cells: &[Cell], fit: &BenchmarkFit, slowdown: f64) -> Demand {
    let seen: Vec<&Cell> = seen(cells, fit).collect();
    // For a given share of memory a cell's error is linear in the crosstalk: (constant, per unit of crosstalk).
    let errors = |memory: f64| -> Vec<(f64, f64)> {
        let error = |cell: &&Cell| {
            let scale = fit.one_thread / cell.time();
            let without = bound_time(&cell.seating, Demand { memory, crosstalk: 0.0 }, slowdown);
            (scale * without - 1.0, scale * (f64::from(cell.threads) - 1.0))
        };
        seen.iter().map(error).collect()
    };
    // Linear least squares, but not below 0.
    let crosstalk = |errors: &[(f64, f64)]| {
        let (products, squares) =
            errors.iter().fold((0.0, 0.0), |(p, s), (error, per)| (p + error * per, s + per * per));
        if errors.len() > 1 { (-products / squares).max(0.0) } else { 0.0 }
    };
    let memory = best_share(|memory| {
        let errors = errors(memory);
        let crosstalk = crosstalk(&errors);
        errors.iter().map(|(error, per)| (error + crosstalk * per).powi(2)).sum()
    });
    Demand { memory, crosstalk: crosstalk(&errors(memory)) }
}

/// Sum of absolute log errors on the seen unbound cells: its least isn't moved by a few cells that misplacement can't explain.
fn unbound_error(cells: &[Cell], benchmarks: &[BenchmarkFit], machine: MachineFit) -> f64 {
    let seen = cells.iter().filter(|cell| cell.fitted && cell.misplaced.is_some());
    let error = |cell: &Cell| {
        let fit = benchmarks.iter().find(|fit| cell.is_of(fit))?;
        Some((cell.predicted_time(fit, machine) / cell.time()).ln().abs())
    };
    seen.filter_map(error).sum()
}

/// The share, from 0 to 1, with the least error; the smallest of several.
fn best_share(error: impl Fn(f64) -> f64) -> f64 {
    let shares = (0..=STEPS).map(|step| f64::from(step) / f64::from(STEPS));
    shares.map(|share| (error(share), share)).min_by(|(a, _), (b, _)| a.total_cmp(b)).map_or(0.0, |(_, share)| share)
}
