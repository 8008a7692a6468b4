//! Everything, for programs.

use crate::paper_table::{PaperTable, Row};
use crate::programs::BuiltinProgram;
use crate::ranking::{Place, Ranking};
use crate::replay::ReplayView;
use crate::sentences;
use crate::simulation::{Contract, SimulationView};
use crate::study_view::{Stop, StudyView, actual_cpus};
use machine::CpuSet;
use papers::paper::{Paper, PrintedClaim, PrintedTable, Quantity};
use serde::Serialize;
use stats::{DropReason, Standing, Standings};
use std::collections::BTreeMap;
use std::fmt::Write;
use study::{Entrant, Kind, Measurements, Plan, Record, Sample, Status, Trial, Warning};

/// A trial in the words of the contract.
#[derive(Serialize)]
struct TrialRow<'a> {
    sequence: u32,
    block: u32,
    warmup: bool,
    subject: &'a str,
    threads: u32,
    placement: &'a str,
    status: Status,
    cause: &'a str,
    time_s: Option<f64>,
    started_unix_s: f64,
    wall_s: Option<f64>,
    user_s: Option<f64>,
    system_s: Option<f64>,
    max_rss_bytes: Option<u64>,
    voluntary_switches: Option<u64>,
    involuntary_switches: Option<u64>,
    migrations: Option<u64>,
    minor_faults: Option<u64>,
    major_faults: Option<u64>,
    leftover_processes: Option<u32>,
    strayed_threads: Option<usize>,
    intended_cpus: Option<&'a [CpuSet]>,
    actual_cpus: Option<Vec<&'a CpuSet>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<&'a BTreeMap<String, u64>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notes: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    output_tail: &'a str,
}

impl<'a> TrialRow<'a> {
    fn new(trial: &'a Trial) -> Self {
        let seen = trial.observation.as_ref();
        Self {
            sequence: trial.sequence,
            block: trial.block,
            warmup: trial.warmup,
            subject: &trial.subject,
            threads: trial.threads,
            placement: &trial.placement,
            status: trial.status,
            cause: &trial.cause,
            time_s: trial.time_s,
            started_unix_s: trial.started_unix_s,
            wall_s: trial.ran_s,
            user_s: seen.map(|o| o.user_s),
            system_s: seen.map(|o| o.system_s),
            max_rss_bytes: seen.map(|o| o.max_rss_bytes),
            voluntary_switches: seen.map(|o| o.voluntary_switches),
            involuntary_switches: seen.map(|o| o.involuntary_switches),
            migrations: seen.and_then(|o| o.migrations),
            minor_faults: seen.map(|o| o.minor_faults),
            major_faults: seen.map(|o| o.major_faults),
            leftover_processes: seen.map(|o| o.leftovers),
            strayed_threads: seen.map(|o| o.threads.iter().filter(|thread| thread.strayed()).count()),
            intended_cpus: trial.intended_cpus.as_deref(),
            actual_cpus: actual_cpus(trial),
            counters: seen.map(|o| &o.counters).filter(|counters| !counters.is_empty()),
            notes: seen.map_or(&[], |o| &o.notes),
            output_tail: if trial.status.is_failure() { &trial.output_tail } else { "" },
        }
    }
}

/// A sample in the words of the contract: those of a trial, the replicate being its block, the policy its placement, and the
/// CPUs of the machine its threads.
#[derive(Serialize)]
struct SampleRow<'a> {
    sequence: u32,
    block: u32,
    subject: &'a str,
    threads: u32,
    placement: &'a str,
    status: String,
    cause: &'a str,
    time_s: Option<f64>,
    started_unix_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<BTreeMap<String, f64>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notes: &'a [String],
}

impl<'a> SampleRow<'a> {
    fn new(sample: &'a Sample, cpus: u32, metrics: Metrics) -> Self {
        let measured = sample.measurements();
        let by_name = |measured: &Measurements| {
            measured.metrics.iter().map(|(metric, value)| (metric.to_string(), *value)).collect()
        };
        let failure = sample.result.as_ref().err();
        Self {
            sequence: sample.sequence,
            block: sample.replicate,
            subject: &sample.subject,
            threads: cpus,
            placement: &sample.policy,
            status: failure.map_or_else(|| "ok".into(), |failure| failure.cause.to_string()),
            cause: failure.map_or("", |failure| &failure.what),
            time_s: measured.map(|measured| measured.makespan_s),
            started_unix_s: sample.started_s,
            metrics: measured.filter(|_| metrics == Metrics::OfEachSample).map(by_name),
            notes: measured.map_or(&[], |measured| &measured.notes),
        }
    }
}

/// Whether the numbers of each sample are written, or what they come to alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metrics {
    OfEachSample,
    /// As in pages, which grow with all that is in them.
    Summarised,
}

/// A paper with its tables, ours beside what is printed, in the words of the contract.
#[derive(Serialize)]
struct PaperBeside<'a> {
    name: &'a str,
    citation: &'a str,
    machine: &'a str,
    hardware: &'a str,
    system: &'a str,
    compiler: Option<&'a str>,
    code: &'a str,
    statistic: &'a str,
    timed: Option<&'a str>,
    tables: Vec<TableBeside<'a>>,
    claims: &'a [PrintedClaim],
}

#[derive(Serialize)]
struct TableBeside<'a> {
    name: &'a str,
    title: &'a str,
    about: &'a str,
    class: Option<&'a str>,
    threads: &'a [u32],
    rows: Vec<RowBeside<'a>>,
}

#[derive(Serialize)]
struct RowBeside<'a> {
    benchmark: &'a str,
    subject: Option<&'a str>,
    placement: Option<&'a str>,
    quantity: Quantity,
    computed: bool,
    printed: Vec<Option<f64>>,
    ours: Vec<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ours_low: Option<Vec<Option<f64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ours_high: Option<Vec<Option<f64>>>,
}

impl<'a> PaperBeside<'a> {
    fn new(tables: &'a [PaperTable<'a>]) -> Option<Self> {
        let paper: &'static Paper = tables.first()?.paper;
        Some(Self {
            name: paper.name,
            citation: &paper.citation,
            machine: &paper.machine,
            hardware: &paper.hardware,
            system: &paper.system,
            compiler: paper.compiler.as_deref(),
            code: &paper.code,
            statistic: &paper.statistic,
            timed: paper.timed.as_deref(),
            tables: tables.iter().map(TableBeside::new).collect(),
            claims: &paper.claims,
        })
    }
}

impl<'a> TableBeside<'a> {
    fn new(table: &'a PaperTable<'a>) -> Self {
        let PrintedTable { name, title, about, class, threads, .. } = table.printed;
        let rows = table
            .groups
            .iter()
            .flat_map(|group| group.rows.iter().map(|row| RowBeside::new(group.benchmark, group.subject, row)));
        Self { name, title, about, class: class.as_deref(), threads, rows: rows.collect() }
    }
}

impl<'a> RowBeside<'a> {
    fn new(benchmark: &'a str, subject: Option<&'a str>, row: &'a Row<'a>) -> Self {
        let Row { quantity, placement, computed, cells } = row;
        let ours = |figure: fn(&study::Summary) -> Option<f64>| -> Vec<Option<f64>> {
            cells.iter().map(|cell| cell.ours.and_then(figure)).collect()
        };
        let ratio = *quantity == Quantity::Ratio;
        Self {
            benchmark,
            subject,
            placement: *placement,
            quantity: *quantity,
            computed: *computed,
            printed: cells.iter().map(|cell| Some(cell.printed?.value)).collect(),
            ours: match quantity {
                Quantity::Time => ours(|summary| summary.mean_s),
                Quantity::Ratio => ours(|summary| summary.ratio),
                Quantity::SpeedUp => ours(|summary| summary.speedup),
            },
            ours_low: ratio.then(|| ours(|summary| summary.ratio_low)),
            ours_high: ratio.then(|| ours(|summary| summary.ratio_high)),
        }
    }
}

/// The race of one subject, in the words of the contract.
#[derive(Serialize)]
struct RaceRow<'a> {
    subject: &'a str,
    best: Option<Cpus<'a>>,
    tied: Vec<Cpus<'a>>,
    shown: bool,
    gain: Option<GainRow>,
    runs: u32,
    smallest_detectable: Option<f64>,
    entrants: Vec<EntrantRow<'a>>,
    history: Vec<BlockRow>,
}

/// An entrant and its CPUs.
#[derive(Serialize)]
struct Cpus<'a> {
    threads: u32,
    placement: &'a str,
    cpus: Option<&'a [CpuSet]>,
}

#[derive(Serialize)]
struct GainRow {
    ratio: f64,
    ratio_low: f64,
    ratio_high: f64,
    pairs: usize,
    claim: stats::Claim,
}

#[derive(Serialize)]
struct EntrantRow<'a> {
    #[serde(flatten)]
    cpus: Cpus<'a>,
    runs: usize,
    median_s: Option<f64>,
    loss: Option<f64>,
    loss_low: Option<f64>,
    loss_high: Option<f64>,
    dropped: Option<Dropped>,
}

#[derive(Serialize)]
struct Dropped {
    block: u32,
    why: DropReason,
}

/// How those that ran in a block stood after it; `entrants` and `best` are positions among the race's entrants.
#[derive(Serialize)]
struct BlockRow {
    block: u32,
    best: Option<usize>,
    entrants: Vec<usize>,
    loss: Vec<Option<f64>>,
    loss_low: Vec<Option<f64>>,
    loss_high: Vec<Option<f64>>,
}

impl<'a> RaceRow<'a> {
    fn new(study: &StudyView<'a>, ranking: &Ranking<'a>) -> Self {
        let race = ranking.race;
        let cpus = |entrant: &'a Entrant| Cpus {
            threads: entrant.threads,
            placement: &entrant.placement,
            cpus: study.placement(&entrant.placement, entrant.threads).map(|placement| placement.slots.as_slice()),
        };
        let warmup_blocks = study.plan.warmup_blocks;
        let entrant = |place: &Place<'a>| EntrantRow {
            cpus: cpus(place.entrant),
            runs: place.standing.runs,
            median_s: place.summary.and_then(|summary| summary.median_s),
            loss: place.standing.loss,
            loss_low: place.standing.loss_low,
            loss_high: place.standing.loss_high,
            dropped: place.standing.dropped.map(|drop| Dropped { block: drop.block + warmup_blocks, why: drop.why }),
        };
        let mut places: Vec<&Place> = ranking.places.iter().collect();
        places.sort_by_key(|place| place.arm);
        Self {
            subject: &race.subject,
            best: race.best().map(cpus),
            tied: race.standings.tied.iter().filter_map(|&arm| race.entrants.get(arm)).map(cpus).collect(),
            shown: race.standings.difference_shown,
            gain: race.gain().map(|gain| GainRow {
                ratio: gain.ratio,
                ratio_low: gain.low,
                ratio_high: gain.high,
                pairs: gain.pairs,
                claim: gain.claim,
            }),
            runs: race.runs,
            smallest_detectable: race.standings.smallest_detectable,
            entrants: places.into_iter().map(entrant).collect(),
            history: ranking
                .blocks(study.trials)
                .iter()
                .zip(&race.history)
                .map(|(b, s)| BlockRow::new(ranking, b, s))
                .collect(),
        }
    }
}

impl BlockRow {
    fn new(ranking: &Ranking, trials: &[&Trial], standings: &Standings) -> Self {
        let arm = |trial: &&Trial| Some(ranking.place_of(trial.threads, &trial.placement)?.arm);
        let mut entrants: Vec<usize> = trials.iter().filter_map(arm).collect();
        entrants.sort_unstable();
        let each = |figure: fn(&Standing) -> Option<f64>| {
            entrants.iter().map(|&arm| standings.arms.get(arm).and_then(figure)).collect()
        };
        Self {
            block: trials.first().map_or(0, |trial| trial.block),
            best: standings.best,
            loss: each(|standing| standing.loss),
            loss_low: each(|standing| standing.loss_low),
            loss_high: each(|standing| standing.loss_high),
            entrants,
        }
    }
}

/// The whole study as one JSON object. Its keys are the contract: `verdicts`, `best`, `warnings`, `findings`,
/// `summaries`, `plan`, `trials`, `machine`, `host`, `sessions` and `ending`. `verdicts` and `warnings` are sentences;
/// `findings` holds what they say as values, in `verdicts` (objects with a `kind`: `comparison` and `race`, one for each
/// subject, or one of the others) and `warnings` (objects with a `warning`, such as `busy` or `drift`, and its numbers):
/// see [`study::Verdict`] and [`study::Warning`]. Then there are `paper`, for the study of one: its tables with
/// the printed figures and ours (means of times, ratios with their intervals, speed-ups), one a thread count;
/// `races`, where the best was raced for: who won, who can't be told apart from it, each entrant's `loss` (its time over
/// that of the best), and how those that ran in a block stood after it; and
/// `programs`, where subjects are built-in programs: what each needs, and the rates that the smallest median
/// reached at each thread count. A summary's `also` names treatments that are the very same placement with as many threads, which have
/// no summary of their own. Times are in seconds, sizes in bytes. CPUs are the kernel's numbers, one list a thread
/// in order of creation; null where nothing was bound or seen. The elements of the long lists take a line each, so that
/// the text can be searched and compared line by line.
pub(crate) fn cells(study: &StudyView) -> String {
    text_of_cells(study, &study.trials.iter().map(TrialRow::new).collect::<Vec<_>>())
}

/// The same for a page, without `actual_cpus` where nothing was bound: those lists grow with the square of the
/// machine, each thread naming every CPU, and the page tells them in words.
pub(crate) fn page_data(study: &StudyView) -> String {
    let lean = |trial| match TrialRow::new(trial) {
        row if row.intended_cpus.is_none() => TrialRow { actual_cpus: None, ..row },
        row => row,
    };
    text_of_cells(study, &study.trials.iter().map(lean).collect::<Vec<_>>())
}

fn text_of_cells(study: &StudyView, trials: &[TrialRow]) -> String {
    let analysis = study.analysis;
    let mut text = String::from("{");
    list(&mut text, "verdicts", &sentences::verdicts(analysis));
    list(&mut text, "best", &analysis.best);
    list(&mut text, "warnings", &study.warnings);
    findings(&mut text, &analysis.verdicts, &analysis.warnings);
    list(&mut text, "summaries", &analysis.summaries);
    match study.stop {
        Stop::Comparison(stop) => value(&mut text, "plan", &PlanRow { plan: study.plan, stop }),
        Stop::Race(stop) => value(&mut text, "plan", &PlanRow { plan: study.plan, stop }),
    }
    let tables = PaperTable::all(study);
    if let Some(paper) = PaperBeside::new(&tables) {
        value(&mut text, "paper", &paper);
    }
    if study.is_race() {
        let races: Vec<RaceRow> = study.rankings.iter().map(|ranking| RaceRow::new(study, ranking)).collect();
        list(&mut text, "races", &races);
    }
    let programs = BuiltinProgram::all(study);
    if !programs.is_empty() {
        list(&mut text, "programs", &programs);
    }
    list(&mut text, "trials", trials);
    value(&mut text, "machine", study.topology);
    value(&mut text, "host", study.host);
    list(&mut text, "sessions", study.sessions);
    value(&mut text, "ending", &study.ending);
    text.push_str("\n}\n");
    text
}

/// The plan of a study of cells.
#[derive(Serialize)]
struct PlanRow<'a, S: Serialize> {
    #[serde(flatten)]
    plan: &'a Plan,
    stop: &'a S,
}

/// A simulation as one JSON object: `verdicts`, `warnings` and `findings` as of other studies, the `plan`, the keys of
/// [`Contract`], and every sample among the `trials`.
pub(crate) fn simulation(study: &SimulationView, metrics: Metrics) -> String {
    let SimulationView { record, analysis, .. } = study;
    let mut text = String::from("{");
    list(&mut text, "verdicts", &sentences::simulation_verdicts(analysis));
    list(&mut text, "warnings", &sentences::warnings(&analysis.warnings));
    findings(&mut text, &Vec::from_iter(&analysis.verdict), &analysis.warnings);
    let Contract { values, lists } = Contract::new(study);
    value(&mut text, "plan", &record.plan);
    values.iter().for_each(|(key, json)| value(&mut text, key, json));
    lists.iter().for_each(|(key, json)| list(&mut text, key, json));
    end_of_samples(text, record, record.plan.cpus, metrics)
}

/// Replays as one JSON object, likewise, with the keys of [`ReplayView::json`].
pub(crate) fn replay(study: &ReplayView, metrics: Metrics) -> String {
    let ReplayView { record, analysis, .. } = study;
    let mut text = String::from("{");
    list(&mut text, "verdicts", &sentences::replay_verdicts(analysis));
    list(&mut text, "warnings", &sentences::warnings(&analysis.warnings));
    findings(&mut text, &[&analysis.verdict], &analysis.warnings);
    value(&mut text, "plan", &record.plan);
    let (values, policies) = study.json();
    values.iter().for_each(|(key, json)| value(&mut text, key, json));
    list(&mut text, "policies", &policies);
    end_of_samples(text, record, record.plan.cpus, metrics)
}

/// What verdicts and warnings say, as values.
fn findings(text: &mut String, verdicts: &[impl Serialize], warnings: &[Warning]) {
    text.push_str(",\n\"findings\": {");
    list(text, "verdicts", verdicts);
    list(text, "warnings", warnings);
    text.push_str("\n}");
}

/// Samples, machine, host and ending of a study that simulates or replays.
fn end_of_samples<K: Kind<Trial = Sample>>(
    mut text: String,
    record: &Record<K>,
    cpus: u32,
    metrics: Metrics,
) -> String {
    let row = |sample| SampleRow::new(sample, cpus, metrics);
    list(&mut text, "trials", &record.trials.iter().map(row).collect::<Vec<_>>());
    value(&mut text, "machine", &record.machine);
    value(&mut text, "host", &record.host);
    list(&mut text, "sessions", &record.sessions);
    value(&mut text, "ending", &record.ending);
    text.push_str("\n}\n");
    text
}

fn value(text: &mut String, key: &str, value: &impl Serialize) {
    let separator = if text.ends_with('{') { "" } else { "," };
    let json = to_json(value);
    // Writing to a string cannot fail.
    let _ = write!(text, "{separator}\n\"{key}\": {json}");
}

fn list(text: &mut String, key: &str, elements: &[impl Serialize]) {
    let separator = if text.ends_with('{') { "" } else { "," };
    let lines: Vec<String> = elements.iter().map(|element| format!("\n  {}", to_json(element))).collect();
    let end = if lines.is_empty() { "" } else { "\n" };
    let _ = write!(text, "{separator}\n\"{key}\": [{}{end}]", lines.join(","));
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("structs and maps with text keys are always JSON")
}
