//! What the runs of a cell come to by a metric besides the one that they are compared by.

use crate::metric::Metric;
use crate::plan::{Cell, Plan};
use crate::slowdown::{Slowdowns, values};
use crate::summary::Claim;
use crate::times::{bootstrap_seed, counted};
use crate::trial::Trial;
use crate::used::used;
use launch::Observation;
use serde::{Deserialize, Serialize};
use stats::{Better, Pair, PairedRatio};
use std::collections::BTreeMap;

/// What the runs of a cell come to by one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricSummary {
    /// Which.
    #[serde(flatten)]
    pub metric: Metric,
    /// Runs that have a number of it.
    pub runs: u32,
    /// Median, in its unit.
    pub median: Option<f64>,
    /// Mean, likewise.
    pub mean: Option<f64>,
    /// Standard deviation over mean (0.05 = 5 %).
    pub relative_sd: Option<f64>,
    /// How much better than under the reference, from pairs of the same block: above 1 is better, whichever way the metric goes. None
    /// for one that only describes.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's 95 % interval.
    pub ratio_low: Option<f64>,
    /// Upper end of the ratio's 95 % interval.
    pub ratio_high: Option<f64>,
    /// Blocks in which both this and the reference have a number.
    pub pairs: u32,
    /// What is claimed of it, among all comparisons of the study by metrics besides the first: `faster` is better, `slower` worse.
    pub claim: Claim,
}

impl MetricSummary {
    /// The same without a comparison: whoever stays longer in a race does so for its numbers, and others have few.
    pub(crate) fn described(self) -> Self {
        Self { ratio: None, ratio_low: None, ratio_high: None, pairs: 0, claim: Claim::TooFew, ..self }
    }
}

/// For each of `cells` what its runs come to by each metric of its subject.
pub(crate) fn metric_summaries(
    plan: &Plan,
    trials: &[Trial],
    slowdowns: &BTreeMap<u32, Slowdowns>,
    cells: &[Cell],
) -> Vec<Vec<MetricSummary>> {
    if plan.subjects.iter().all(|subject| subject.metrics.is_empty()) {
        return vec![Vec::new(); cells.len()];
    }
    let quantities = |cell: Cell| {
        let quantity = |metric: &Metric| {
            let name = metric.name.clone();
            let value = move |trial: &Trial| values(trial, slowdowns).find(|(other, _)| *other == name).map(|(_, v)| v);
            Quantity { metric: metric.clone(), value: Box::new(value) }
        };
        plan.subjects[cell.subject].metrics.iter().map(quantity).collect()
    };
    compared(plan, trials, cells, quantities)
}

/// Of studies with more trials, what they used isn't compared: it would take longer than all else that is told of them.
const MOST_TRIALS: usize = 10_000;

/// For each of `cells` what its runs used; what none of them was seen to use is left out.
pub(crate) fn used_summaries(plan: &Plan, trials: &[Trial], cells: &[Cell]) -> Vec<Vec<MetricSummary>> {
    if trials.len() > MOST_TRIALS {
        return vec![Vec::new(); cells.len()];
    }
    let is_seen = |reading: fn(&Observation) -> Option<f64>| {
        trials.iter().filter_map(|trial| reading(trial.observation.as_ref()?)).any(|value| value > 0.0)
    };
    let seen: Vec<_> = used().filter(|(_, reading)| is_seen(*reading)).collect();
    let quantities = |_: Cell| {
        let quantity = |(metric, reading): &(Metric, fn(&Observation) -> Option<f64>)| {
            let reading = *reading;
            let value = move |trial: &Trial| trial.observation.as_ref().and_then(reading);
            Quantity { metric: metric.clone(), value: Box::new(value) as Value<'_> }
        };
        seen.iter().map(quantity).collect()
    };
    compared(plan, trials, cells, quantities)
}

/// What a trial's number is.
type Value<'a> = Box<dyn Fn(&Trial) -> Option<f64> + 'a>;

/// A metric, and its number in a trial.
struct Quantity<'a> {
    metric: Metric,
    value: Value<'a>,
}

/// For each of `cells` what its runs come to by each of its `quantities`. What is claimed of any allows for the number of all.
fn compared<'a>(
    plan: &Plan,
    trials: &[Trial],
    cells: &[Cell],
    quantities: impl Fn(Cell) -> Vec<Quantity<'a>>,
) -> Vec<Vec<MetricSummary>> {
    let mut ratios: Vec<PairedRatio> = Vec::new();
    let mut summaries: Vec<Vec<MetricSummary>> = Vec::new();
    for &cell in cells {
        let of = |cell| -> Vec<&Trial> { counted(plan, trials, cell).map(|(trial, _)| trial).collect() };
        let own = of(cell);
        let reference = if cell.treatment == 0 { Vec::new() } else { of(Cell { treatment: 0, ..cell }) };
        let of_quantity = |(position, Quantity { metric, value }): (usize, Quantity)| {
            let by_block = |trials: &[&Trial]| -> BTreeMap<u32, f64> {
                trials.iter().filter_map(|trial| Some((trial.block, value(trial)?))).collect()
            };
            let own = by_block(&own);
            let numbers: Vec<f64> = own.values().copied().collect();
            let estimate = stats::estimate(&numbers);
            let pairs = pairs(&by_block(&reference), &own, metric.better);
            // The same seed in every report, and another for each metric.
            let seed = bootstrap_seed(plan, cell).wrapping_add(7_000_003 * (1 + position as u64));
            let ratio = stats::paired_ratio(&pairs, seed);
            ratios.extend(ratio);
            MetricSummary {
                metric,
                runs: numbers.len() as u32,
                median: estimate.map(|estimate| estimate.median_s),
                mean: estimate.map(|estimate| estimate.mean_s),
                relative_sd: estimate.and_then(|estimate| estimate.relative_sd()),
                ratio: ratio.map(|ratio| ratio.ratio()),
                ratio_low: ratio.map(|ratio| ratio.low()),
                ratio_high: ratio.map(|ratio| ratio.high()),
                pairs: pairs.len() as u32,
                claim: if cell.treatment == 0 { Claim::Reference } else { Claim::TooFew },
            }
        };
        summaries.push(quantities(cell).into_iter().enumerate().map(of_quantity).collect());
    }
    let mut claims = stats::claims(&ratios).into_iter();
    for summary in summaries.iter_mut().flatten().filter(|summary| summary.ratio.is_some()) {
        summary.claim = claims.next().map_or(Claim::NoneShown, Claim::from);
    }
    summaries
}

/// Pairs whose ratio is above 1 where `own` is better; none for a metric that only describes. Where a number of one is 0, as counts may
/// be, there is no ratio at all: leaving that block out would favour whichever was 0 more seldom.
fn pairs(reference: &BTreeMap<u32, f64>, own: &BTreeMap<u32, f64>, better: Better) -> Vec<Pair> {
    let pair = |(block, &own): (&u32, &f64)| {
        let &reference = reference.get(block)?;
        match better {
            Better::Lower => Some(Pair { reference_s: reference, treatment_s: own }),
            Better::Higher => Some(Pair { reference_s: own, treatment_s: reference }),
            Better::Neither => None,
        }
    };
    own.iter().filter_map(pair).collect()
}
