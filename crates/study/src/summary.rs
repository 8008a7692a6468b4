//! What the trials of a study say: a summary of each cell, and what is concluded from all of them.

use crate::engine;
use crate::plan::{Cell, Plan, StopRule};
use crate::play::{self, PlayResult, ReplayVerdict};
use crate::race::{self, RaceResult};
use crate::record::Record;
use crate::simulation::{self, PointResult};
use crate::trial::{Status, Trial};
use crate::verdict::{ComparisonVerdict, RaceVerdict, Verdict};
use crate::warning::Warning;
use serde::{Deserialize, Serialize};
use stats::{Mark, Pair, PairedRatio};
use std::collections::BTreeMap;

/// What is claimed of a placement against the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// It is the reference itself.
    Reference,
    /// It is faster than the reference.
    Faster,
    /// It is slower than the reference.
    Slower,
    /// No difference is shown.
    NoneShown,
    /// There are too few pairs to say anything.
    TooFew,
}

impl From<stats::Claim> for Claim {
    fn from(claim: stats::Claim) -> Self {
        match claim {
            stats::Claim::Faster => Self::Faster,
            stats::Claim::Slower => Self::Slower,
            stats::Claim::NoneShown => Self::NoneShown,
        }
    }
}

/// One cell of the table: a subject with so many threads under one treatment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the subject.
    pub subject: String,
    /// Thread count.
    pub threads: u32,
    /// Name of the treatment.
    pub placement: String,
    /// Trials that count: ok, and not warm-up.
    pub trials: u32,
    /// Trials that failed, warm-up left out.
    pub failed: u32,
    /// Trials that were stopped because they had lost their race by then.
    #[serde(default)]
    pub cut_off: u32,
    /// Median time, in seconds.
    pub median_s: Option<f64>,
    /// Mean time, in seconds.
    pub mean_s: Option<f64>,
    /// Standard deviation over mean (0.05 = 5 %).
    pub relative_sd: Option<f64>,
    /// Fastest, in seconds.
    pub min_s: Option<f64>,
    /// Slowest, in seconds.
    pub max_s: Option<f64>,
    /// Reference time over this time, estimated from pairs of the same block: above 1 is faster than the reference.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's 95 % interval.
    pub ratio_low: Option<f64>,
    /// Upper end of the ratio's 95 % interval.
    pub ratio_high: Option<f64>,
    /// Blocks in which both this and the reference went well.
    pub pairs: u32,
    /// Probability of a ratio this far from 1 if there were no difference.
    pub p_value: Option<f64>,
    /// Smallest relative difference that would have been seen with 80 % probability (0.03 = 3 %).
    pub smallest_detectable: Option<f64>,
    /// What is claimed of it.
    pub claim: Claim,
    /// Median of the reference at the plan's smallest thread count, over this median, when that count is 1.
    pub speedup: Option<f64>,
    /// Change of the times over the study (0.02 = 2 % slower at the end), when a trend is shown.
    pub drift: Option<f64>,
    /// Sequence numbers of trials that lie far from the others; they still count.
    pub outliers: Vec<u32>,
    /// Whether the stop rule was met.
    pub settled: bool,
    /// An earlier treatment that is the very same placement at this thread count, if there is one.
    pub same_as: Option<String>,
}

/// The best cell of one subject, over all thread counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Name of the subject.
    pub subject: String,
    /// Thread count.
    pub threads: u32,
    /// Name of the treatment.
    pub placement: String,
    /// Whether it is shown to be better than unbound with as many threads.
    pub shown: bool,
}

/// All that is concluded from a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// Every cell, in the plan's order: subject, then threads, then treatment.
    pub summaries: Vec<Summary>,
    /// The best cell of every subject that has one.
    pub best: Vec<Best>,
    /// How the races ended, one for each subject, where the study is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub races: Vec<RaceResult>,
    /// What was simulated, one for each point of a sweep, where the study is a simulation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<PointResult>,
    /// What was played in a kernel, and simulated beside it, where the study is one of plays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub played: Option<PlayResult>,
    /// The answer with its doubt: of a comparison or a race one for each subject, else one.
    pub verdicts: Vec<Verdict>,
    /// What disturbed the study or limits it.
    pub warnings: Vec<Warning>,
}

/// A trend is told when its p-value is below this.
const DRIFT_SIGNIFICANCE: f64 = 0.01;

/// Draws everything conclusion out of a record; the same record gives the same conclusions.
pub fn analyse(record: &Record) -> Analysis {
    let plan = &record.plan;
    let cells: Vec<Cell> = plan.cells().collect();
    let races = race::results(plan, &record.trials);
    let ratios: Vec<Option<PairedRatio>> = cells.iter().map(|&cell| compare(plan, &record.trials, cell)).collect();
    let mut claims = stats::claims(&ratios.iter().flatten().copied().collect::<Vec<_>>()).into_iter();
    let comparisons = ratios.iter().flatten().count();
    let mut summaries: Vec<Summary> = Vec::new();
    for (&cell, ratio) in cells.iter().zip(&ratios) {
        let claim = match ratio {
            _ if cell.treatment == 0 => Claim::Reference,
            None => Claim::TooFew,
            Some(_) => match claims.next() {
                Some(claim) => claim.into(),
                None => Claim::NoneShown,
            },
        };
        summaries.push(summarise(record, cell, ratio.as_ref(), claim, comparisons));
    }
    for race in &races {
        tell_gain(race, &mut summaries);
    }
    let base: BTreeMap<String, f64> = summaries
        .iter()
        .filter(|summary| summary.threads == 1 && summary.claim == Claim::Reference)
        .filter_map(|summary| Some((summary.subject.clone(), summary.median_s?)))
        .collect();
    for summary in &mut summaries {
        summary.speedup = base.get(&summary.subject).zip(summary.median_s).map(|(base_s, median_s)| base_s / median_s);
    }
    let best: Vec<Best> = if races.is_empty() {
        plan.subjects.iter().filter_map(|subject| best_of(&subject.name, &summaries)).collect()
    } else {
        races.iter().filter_map(winner).collect()
    };
    let simulated = simulation::analyse(record);
    if !simulated.is_empty() {
        let verdicts = simulation::verdict(record, &simulated).into_iter().collect();
        let warnings = Warning::of_simulation(record, &simulated);
        return Analysis { summaries, best, races, simulated, played: None, verdicts, warnings };
    }
    if let Some(played) = play::analyse(record) {
        let verdicts = vec![Verdict::Replay(ReplayVerdict::new(&played))];
        let warnings = Warning::of_replays(record, &played);
        return Analysis { summaries, best, races, simulated, played: Some(played), verdicts, warnings };
    }
    let verdicts = if races.is_empty() {
        plan.subjects.iter().map(|subject| comparison(plan, &subject.name, &summaries, &best)).collect()
    } else {
        races.iter().map(|race| Verdict::Race(RaceVerdict::new(race))).collect()
    };
    let warnings = Warning::of_study(record, &summaries);
    Analysis { verdicts, warnings, summaries, best, races, simulated, played: None }
}

/// The trials of `cell` that count: ok, and not warm-up.
fn counted<'a>(plan: &'a Plan, trials: &'a [Trial], cell: Cell) -> impl Iterator<Item = (&'a Trial, f64)> {
    trials
        .iter()
        .filter(move |trial| !trial.warmup && trial.status == Status::Ok && cell.is_of(plan, trial))
        .filter_map(|trial| Some((trial, trial.time_s?)))
}

/// The times of `cell` that count, in seconds, in the order in which they were run.
pub(crate) fn counted_times(plan: &Plan, trials: &[Trial], cell: Cell) -> Vec<f64> {
    counted(plan, trials, cell).map(|(_, time_s)| time_s).collect()
}

/// Times of the reference and of `cell` in the blocks in which both went well, in block order.
pub(crate) fn pairs(plan: &Plan, trials: &[Trial], cell: Cell) -> Vec<Pair> {
    pairs_to(plan, trials, Cell { treatment: 0, ..cell }, cell)
}

/// Times of two cells in the blocks in which both went well, in block order; those of `reference` as the reference's.
pub(crate) fn pairs_to(plan: &Plan, trials: &[Trial], reference: Cell, cell: Cell) -> Vec<Pair> {
    let reference: BTreeMap<u32, f64> =
        counted(plan, trials, reference).map(|(trial, time_s)| (trial.block, time_s)).collect();
    counted(plan, trials, cell)
        .filter_map(|(trial, treatment_s)| Some(Pair { reference_s: *reference.get(&trial.block)?, treatment_s }))
        .collect()
}

/// The seed of a comparison's bootstrap: the study's, told apart by cell.
pub(crate) fn bootstrap_seed(plan: &Plan, cell: Cell) -> u64 {
    let cells_before = (cell.subject * plan.threads.len() + cell.threads) * plan.treatments.len() + cell.treatment;
    plan.seed.wrapping_add(cells_before as u64)
}

fn compare(plan: &Plan, trials: &[Trial], cell: Cell) -> Option<PairedRatio> {
    // What a race may say is the race's to say: an interval of whoever happened to win would flatter it.
    if cell.treatment == 0 || matches!(plan.stop, StopRule::Best { .. }) {
        return None;
    }
    stats::paired_ratio(&pairs(plan, trials, cell), bootstrap_seed(plan, cell)).ok()
}

fn summarise(record: &Record, cell: Cell, ratio: Option<&PairedRatio>, claim: Claim, comparisons: usize) -> Summary {
    let (plan, trials) = (&record.plan, &record.trials);
    let good: Vec<(&Trial, f64)> = counted(plan, trials, cell).collect();
    let times_s: Vec<f64> = good.iter().map(|(_, time_s)| *time_s).collect();
    let estimate = stats::estimate(&times_s);
    let over_study: Vec<(f64, f64)> = good.iter().map(|(trial, time_s)| (f64::from(trial.sequence), *time_s)).collect();
    let ended = |how: fn(Status) -> bool| {
        trials.iter().filter(|trial| !trial.warmup && how(trial.status) && cell.is_of(plan, trial)).count() as u32
    };
    let twin = (0..cell.treatment).find(|&treatment| {
        let slots = |treatment| plan.placement(Cell { treatment, ..cell }).map(|placement| &placement.slots);
        slots(treatment).is_some() && slots(treatment) == slots(cell.treatment)
    });
    Summary {
        subject: plan.subjects[cell.subject].name.clone(),
        threads: plan.threads[cell.threads],
        placement: plan.treatments[cell.treatment].name.clone(),
        trials: good.len() as u32,
        failed: ended(Status::is_failure),
        cut_off: ended(|status| status == Status::CutOff),
        median_s: estimate.map(|e| e.median_s),
        mean_s: estimate.map(|e| e.mean_s),
        relative_sd: estimate.and_then(|e| e.relative_sd()),
        min_s: estimate.map(|e| e.min_s),
        max_s: estimate.map(|e| e.max_s),
        ratio: ratio.map(PairedRatio::ratio),
        ratio_low: ratio.map(PairedRatio::low),
        ratio_high: ratio.map(PairedRatio::high),
        pairs: if cell.treatment == 0 { 0 } else { pairs(plan, trials, cell).len() as u32 },
        p_value: ratio.map(PairedRatio::p_value),
        smallest_detectable: ratio.map(|ratio| ratio.smallest_detectable(comparisons)),
        claim,
        speedup: None,
        drift: stats::drift(&over_study)
            .filter(|drift| drift.p_value < DRIFT_SIGNIFICANCE)
            .map(|drift| drift.relative_change),
        outliers: stats::outlier_marks(&times_s)
            .into_iter()
            .zip(&good)
            .filter(|(mark, _)| *mark != Mark::Typical)
            .map(|(_, (trial, _))| trial.sequence)
            .collect(),
        settled: engine::settled(plan, trials, cell),
        same_as: twin.map(|treatment| plan.treatments[treatment].name.clone()),
    }
}

/// The best cell of a subject: at the thread count whose fastest median is the fastest of all, the fastest of those
/// placements that are shown to beat the reference; the reference itself when none is.
fn best_of(subject: &str, summaries: &[Summary]) -> Option<Best> {
    let fastest =
        |a: &&Summary, b: &&Summary| a.median_s.unwrap_or(f64::MAX).total_cmp(&b.median_s.unwrap_or(f64::MAX));
    let ours = || summaries.iter().filter(|summary| summary.subject == subject && summary.median_s.is_some());
    let threads = ours().min_by(fastest)?.threads;
    let here = || ours().filter(|summary| summary.threads == threads);
    let chosen = here()
        .filter(|summary| summary.claim == Claim::Faster)
        .min_by(fastest)
        .or_else(|| here().find(|summary| summary.claim == Claim::Reference))
        .or_else(|| here().min_by(fastest))?;
    Some(Best {
        subject: subject.to_owned(),
        threads,
        placement: chosen.placement.clone(),
        shown: chosen.claim == Claim::Faster,
    })
}

/// Puts what a race says of its winner's gain into the summaries of its cells.
fn tell_gain(race: &RaceResult, summaries: &mut [Summary]) {
    let rivals = summaries.iter_mut().filter(|s| s.subject == race.subject && s.claim == Claim::TooFew);
    for summary in rivals {
        summary.claim = Claim::NoneShown;
        let won = race.best().filter(|best| best.threads == summary.threads && best.placement == summary.placement);
        if let (Some(_), Some(gain)) = (won, race.gain()) {
            (summary.ratio, summary.ratio_low, summary.ratio_high) =
                (Some(gain.ratio), Some(gain.low), Some(gain.high));
            summary.pairs = gain.pairs as u32;
            summary.claim = gain.claim.into();
        }
    }
}

/// What is best in a race: its winner where that is shown to beat the reference or there is none, else the reference.
fn winner(race: &RaceResult) -> Option<Best> {
    let best = race.best()?;
    let shown = race.beats_reference();
    let reference = || race.reference().map(|(entrant, _)| entrant);
    let chosen = if shown { best } else { reference().unwrap_or(best) };
    let (subject, placement) = (race.subject.clone(), chosen.placement.clone());
    Some(Best { subject, threads: chosen.threads, placement, shown })
}

/// What a comparison shows for one subject.
fn comparison(plan: &Plan, subject: &str, summaries: &[Summary], best: &[Best]) -> Verdict {
    let ours: Vec<&Summary> = summaries.iter().filter(|summary| summary.subject == subject).collect();
    let best = best.iter().find(|best| best.subject == subject);
    Verdict::Comparison(ComparisonVerdict::new(subject, &plan.reference().name, &ours, best))
}
