//! What the trials of a study say: a summary of each cell, and the verdict in words.

use crate::engine;
use crate::host::{HostState, LOAD_TO_TELL, STEAL_TO_TELL};
use crate::plan::{Cell, Plan, StopRule, UNBOUND};
use crate::play::{self, PlayResult};
use crate::race::{self, Entrant, RaceResult};
use crate::record::{Ending, Record};
use crate::simulation::{self, PointResult};
use crate::trial::{Status, Trial};
use serde::{Deserialize, Serialize};
use stats::{DropReason, Mark, Pair, PairedRatio};
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
    /// Sentences, the answer first, each with its doubt.
    pub verdicts: Vec<String>,
    /// What disturbed the study or limits it, in sentences.
    pub warnings: Vec<String>,
}

/// A verdict names so many of those that can't be told apart from the best; the ranking has all of them.
const RIVALS_TO_NAME: usize = 4;

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
        let (verdicts, warnings) = (simulation::verdicts(record, &simulated), simulation::warnings(record, &simulated));
        return Analysis { summaries, best, races, simulated, played: None, verdicts, warnings };
    }
    if let Some(played) = play::analyse(record) {
        let (verdicts, warnings) = (play::verdicts(&played), play::warnings(record, &played));
        return Analysis { summaries, best, races, simulated, played: Some(played), verdicts, warnings };
    }
    let verdicts = if races.is_empty() {
        verdicts(plan, &summaries, &best)
    } else {
        races.iter().flat_map(race_verdicts).collect()
    };
    Analysis { verdicts, warnings: warnings(record, &summaries), summaries, best, races, simulated, played: None }
}

/// The trials of `cell` that count: ok, and not warm-up.
fn counted<'a>(plan: &'a Plan, trials: &'a [Trial], cell: Cell) -> impl Iterator<Item = (&'a Trial, f64)> {
    trials
        .iter()
        .filter(move |trial| !trial.warmup && trial.status == Status::Ok && cell.is_of(plan, trial))
        .filter_map(|trial| Some((trial, trial.time_s?)))
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

/// `1 thread`, `2 threads`.
fn count_of(n: u32, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// A ratio and its interval with the digits that they deserve: three after the point while all are close to 1, else two.
fn with_interval(ratio: f64, low: f64, high: f64) -> (String, String) {
    let digits = if [ratio, low, high].iter().all(|value| (value - 1.0).abs() < 0.1) { 3 } else { 2 };
    (format!("{ratio:.digits$}"), format!("95 % interval {low:.digits$}-{high:.digits$}"))
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

/// How a race ended, in sentences.
fn race_verdicts(race: &RaceResult) -> Vec<String> {
    let (subject, standings) = (&race.subject, &race.standings);
    let Some(best) = race.best() else {
        return vec![format!("{subject}: nothing to say, no run went well.")];
    };
    let one_count = race.entrants.iter().all(|entrant| entrant.threads == best.threads);
    let name = |entrant: &Entrant| {
        if one_count {
            entrant.placement.clone()
        } else {
            format!("{} with {}", entrant.placement, count_of(entrant.threads, "thread"))
        }
    };
    let field = if one_count {
        format!("{} of {}", count_of(race.entrants.len() as u32, "placement"), count_of(best.threads, "thread"))
    } else {
        format!("{} over thread counts", count_of(race.entrants.len() as u32, "placement"))
    };
    let runs = count_of(race.runs, "run");
    let least = standings.smallest_detectable.map_or_else(String::new, |least| {
        format!("; the smallest that this race could have seen is {:.1} %", least * 100.0)
    });
    let mut sentences = Vec::new();
    let gain = race.gain().map(|gain| {
        let (ratio, interval) = with_interval(gain.ratio, gain.low, gain.high);
        (gain.claim, ratio, format!("{interval}, {}", count_of(gain.pairs as u32, "pair")))
    });
    // Told apart by all runs, when there are too few pairs for their own interval to show it.
    let unbound = race
        .reference()
        .and_then(|(_, standing)| Some(with_interval(standing.loss?, standing.loss_low?, standing.loss_high?)));
    sentences.push(match (&gain, standings.shown) {
        (Some((stats::Claim::Faster, ratio, doubt)), _) => format!(
            "{subject}: where its threads run matters; best of {field}: {}, {ratio}x faster than unbound ({doubt}; {runs}).",
            name(best)
        ),
        (_, false) => format!("{subject}: no difference shown among {field} ({runs}){least}."),
        (_, true) if race.beats_reference() => {
            let (ratio, doubt) = unbound.unwrap_or_default();
            format!(
                "{subject}: where its threads run matters; best of {field}: {}, {ratio}x faster than unbound ({doubt}, among all comparisons; {runs}).",
                name(best)
            )
        }
        (_, true) if best.reference => {
            format!("{subject}: where its threads run matters, and no placement beats {}; {field} ({runs}).", name(best))
        }
        (Some((_, ratio, doubt)), true) => format!(
            "{subject}: where its threads run matters, but best of {field}, {}, is not shown to be faster than unbound (ratio {ratio}, {doubt}; {runs}).",
            name(best)
        ),
        (None, true) => format!(
            "{subject}: where its threads run matters; best of {field}: {} ({runs}), its gain over unbound not measured.",
            name(best)
        ),
    });
    if standings.shown {
        let mut rivals: Vec<String> = race.rivals().map(name).collect();
        let all = rivals.len();
        rivals.truncate(RIVALS_TO_NAME);
        let more = if all > rivals.len() { format!("; and {} more", all - rivals.len()) } else { String::new() };
        sentences.push(match all {
            0 => format!("{subject}, every other is told apart from {}.", name(best)),
            n => format!(
                "{subject}, {} can't be told apart from {}: {}{more}.",
                count_of(n as u32, "other"),
                name(best),
                rivals.join("; ")
            ),
        });
    }
    let slowest = (standings.arms.iter().zip(&race.entrants))
        .filter(|(standing, _)| standing.dropped.is_none_or(|drop| drop.why != DropReason::Outpaced))
        .filter_map(|(standing, entrant)| Some((standing.loss_low?, standing.loss?, entrant)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((low, loss, entrant)) = slowest.filter(|(low, ..)| standings.shown && *low > 1.0) {
        sentences.push(format!(
            "{subject}, the slowest that ran to its end, {}, takes {loss:.2} times as long as the best, and at least {low:.2} times.",
            name(entrant)
        ));
    }
    sentences
}

fn verdicts(plan: &Plan, summaries: &[Summary], best: &[Best]) -> Vec<String> {
    let mut sentences = Vec::new();
    for subject in &plan.subjects {
        let ours: Vec<&Summary> = summaries.iter().filter(|summary| summary.subject == subject.name).collect();
        sentences.push(headline(&subject.name, &ours, best.iter().find(|best| best.subject == subject.name)));
        sentences.extend(ours.iter().filter_map(|summary| comparison(plan, summary)));
    }
    sentences
}

/// Whether placement matters for one subject, in one sentence.
fn headline(subject: &str, ours: &[&Summary], best: Option<&Best>) -> String {
    let Some(best) = best else {
        return format!("{subject}: nothing to say, no run went well.");
    };
    let claimed: Vec<&&Summary> =
        ours.iter().filter(|summary| matches!(summary.claim, Claim::Faster | Claim::Slower)).collect();
    let compared = ours.iter().any(|summary| summary.ratio.is_some());
    let where_best = format!("{} with {}", best.placement, count_of(best.threads, "thread"));
    if !claimed.is_empty() {
        let largest = claimed
            .iter()
            .filter_map(|summary| summary.ratio)
            .max_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()))
            .map_or(0.0, |ratio| (ratio.ln().abs().exp() - 1.0) * 100.0);
        format!("{subject}: where its threads run matters, by up to {largest:.1} %; best here: {where_best}.")
    } else if compared {
        format!("{subject}: no placement is shown to differ; fastest here: {where_best}.")
    } else if ours.iter().any(|summary| summary.claim == Claim::TooFew) {
        format!("{subject}: too few runs to compare placements; fastest so far: {where_best}.")
    } else {
        format!("{subject}: one placement, nothing to compare; fastest here: {where_best}.")
    }
}

/// What is shown of one placement against the reference, with its doubt.
fn comparison(plan: &Plan, summary: &Summary) -> Option<String> {
    let reference = &plan.reference().name;
    let (subject, placement) = (&summary.subject, &summary.placement);
    let threads = count_of(summary.threads, "thread");
    let pairs = count_of(summary.pairs, "pair");
    let mut sentence = match (summary.claim, summary.ratio, summary.ratio_low, summary.ratio_high) {
        (Claim::Reference, ..) => return None,
        (Claim::Faster, Some(ratio), Some(low), Some(high)) => {
            let (ratio, interval) = with_interval(ratio, low, high);
            format!("{subject}, {threads}: {placement} is {ratio}x faster than {reference} ({interval}, {pairs})")
        }
        (Claim::Slower, Some(ratio), Some(low), Some(high)) => {
            let (ratio, interval) = with_interval(1.0 / ratio, 1.0 / high, 1.0 / low);
            format!("{subject}, {threads}: {placement} is {ratio}x slower than {reference} ({interval}, {pairs})")
        }
        (Claim::NoneShown, Some(ratio), Some(low), Some(high)) => {
            let alone = if low > 1.0 || high < 1.0 {
                "; alone it would be one, among so many comparisons it is not"
            } else {
                ""
            };
            let least = summary.smallest_detectable.map_or_else(String::new, |least| {
                format!("; the smallest this study could have seen is {:.1} %", least * 100.0)
            });
            let (ratio, interval) = with_interval(ratio, low, high);
            format!(
                "{subject}, {threads}: no difference shown between {placement} and {reference} (ratio {ratio}, {interval}, {pairs}){alone}{least}"
            )
        }
        _ => format!("{subject}, {threads}: too few pairs ({}) to compare {placement} with {reference}", summary.pairs),
    };
    if let Some(twin) = &summary.same_as {
        sentence.push_str(&format!("; {placement} is the very same placement as {twin} here"));
    }
    sentence.push('.');
    Some(sentence)
}

fn warnings(record: &Record, summaries: &[Summary]) -> Vec<String> {
    let plan = &record.plan;
    let mut sentences = plan.departures.clone();
    match record.ending {
        None => sentences.push("The study is unfinished; the same command goes on with it.".to_owned()),
        Some(Ending::BudgetSpent) if matches!(plan.stop, StopRule::Best { .. }) => {
            sentences.push("The time budget was spent before the race was over; a larger --budget finishes it.".into());
        }
        Some(Ending::BudgetSpent) => {
            let open = summaries.iter().filter(|summary| !summary.settled && summary.trials > 0).count();
            sentences.push(format!(
                "The time budget was spent before every comparison was settled ({open} of {} cells are open); a larger --budget narrows the intervals.",
                summaries.len()
            ));
        }
        Some(Ending::Finished) => {}
    }
    for cell in summaries.iter().filter(|summary| summary.failed > 0) {
        sentences.push(format!(
            "{}, {}, {}: {} of {} failed; they are listed with their causes and left out of every number.",
            cell.subject,
            count_of(cell.threads, "thread"),
            cell.placement,
            cell.failed,
            count_of(cell.failed + cell.trials, "run")
        ));
    }
    let strayed = record
        .trials
        .iter()
        .filter(|trial| trial.observation.iter().flat_map(|seen| &seen.threads).any(|thread| thread.strayed()))
        .count();
    if strayed > 0 {
        sentences.push(format!(
            "In {} a thread was read back on other CPUs than intended; see intended against actual CPUs.",
            count_of(strayed as u32, "trial")
        ));
    }
    let leftovers = (record.trials.iter())
        .filter_map(|trial| Some(trial.observation.as_ref()?.leftovers))
        .fold(0, u32::saturating_add);
    if leftovers > 0 {
        sentences.push(format!("Programs left processes behind, which were killed: {leftovers} in all."));
    }
    for cell in summaries {
        if let Some(drift) = cell.drift {
            sentences.push(format!(
                "{}, {}, {}: times drifted by {:+.1} % over the study; pairs of the same block cancel that.",
                cell.subject,
                count_of(cell.threads, "thread"),
                cell.placement,
                drift * 100.0
            ));
        }
    }
    sentences.extend(host_warnings(record));
    let mut notes: BTreeMap<&str, u32> = BTreeMap::new();
    for note in record.trials.iter().filter_map(|trial| trial.observation.as_ref()).flat_map(|seen| &seen.notes) {
        *notes.entry(note).or_default() += 1;
    }
    sentences.extend(notes.into_iter().map(|(note, trials)| format!("{note} ({})", count_of(trials, "trial"))));
    if plan.reference().name != UNBOUND && !matches!(plan.stop, StopRule::Best { .. }) {
        sentences.push(format!("Unbound was left out: every ratio is to {}.", plan.reference().name));
    }
    sentences
}

fn host_warnings(record: &Record) -> Vec<String> {
    let mut sentences = Vec::new();
    let usable = record.machine["usable_cpus"].as_array().map_or(1, Vec::len);
    let most_threads = record.plan.threads.iter().copied().max().unwrap_or(1);
    if most_threads as usize > usable {
        sentences.push(format!(
            "{} share {}: threads beyond the CPUs wrap around.",
            count_of(most_threads, "thread"),
            count_of(usable as u32, "usable CPU")
        ));
    }
    if let Some(model) = record.plan.subjects.iter().find(|subject| subject.model.is_some()) {
        sentences.push(format!("{} is a model: nothing was run, its times are drawn.", model.name));
        // What the host was doing meanwhile disturbed nothing.
        return sentences;
    }
    if let Some(hypervisor) = &record.host.hypervisor {
        sentences.push(format!(
            "This is a virtual machine ({hypervisor}): its CPUs may share real cores with others, and move."
        ));
    }
    let states = || record.sessions.iter();
    let load = states().filter_map(|session| Some(session.before.load_average?[0])).fold(0.0, f64::max);
    if load > LOAD_TO_TELL * usable as f64 {
        sentences.push(format!("The machine was busy when the study began: load average {load:.2}."));
    }
    let steal = states().filter_map(|session| session.after.as_ref()?.steal_since(&session.before)).fold(0.0, f64::max);
    if steal > STEAL_TO_TELL {
        sentences.push(format!("The hypervisor took {:.1} % of CPU time during the study.", steal * 100.0));
    }
    let before: Option<&HostState> = states().next_back().map(|session| &session.before);
    if let Some(limit) =
        before.and_then(|state| state.cgroup_cpu_limit).filter(|limit| *limit < f64::from(most_threads))
    {
        sentences.push(format!("The control group allows {limit:.2} CPUs' worth of time: more threads are throttled."));
    }
    if let Some(governors) =
        before.map(|state| &state.governors).filter(|names| names.iter().any(|name| name != "performance"))
    {
        sentences.push(format!("The clock is not held steady: frequency governor {}.", governors.join(", ")));
    }
    if record.sessions.len() > 1 {
        sentences.push(format!("The study was worked on in {} stretches.", record.sessions.len()));
    }
    sentences
}
