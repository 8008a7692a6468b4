//! Everything, for programs.

use crate::fields::{Fields, of_trial};
use crate::html;
use crate::jobs;
use crate::paper_table::{Group, PaperTable, Row};
use crate::programs::BuiltinProgram;
use crate::ranking::{PastBlock, Place, Ranking};
use crate::replay::ReplayView;
use crate::sentences;
use crate::simulation::{Contract, SimulationView};
use crate::study_view::{Stop, StudyView};
use papers::paper::{Paper, Quantity};
use serde::Serialize;
use serde_json::{Value, json};
use stats::Standing;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use study::{
    Ending, Entrant, HostFacts, Kind, Measurements, MetricSummary, PastSession, Plan, Record, Sample, Subject, Summary,
    Trial, Warning,
};

/// A sample in the words of the contract: those of a trial, the replicate being its block, the policy its placement, and the
/// CPUs of the machine its threads.
fn of_sample(sample: &Sample, cpus: u32, metrics: Metrics) -> Fields {
    let (measured, failure) = (sample.measurements(), sample.result.as_ref().err());
    let mut fields = Fields::from([
        ("sequence", json!(sample.sequence)),
        ("block", json!(sample.replicate)),
        ("subject", json!(sample.subject)),
        ("threads", json!(cpus)),
        ("placement", json!(sample.policy)),
        ("status", json!(failure.map_or_else(|| "ok".into(), |failure| failure.cause.to_string()))),
        ("cause", json!(failure.map_or("", |failure| &failure.what))),
        ("time_s", json!(measured.map(|measured| measured.makespan_s))),
        ("started_unix_s", json!(sample.started_s)),
    ]);
    let by_name = |measured: &Measurements| -> BTreeMap<String, f64> {
        measured.metrics.iter().map(|(metric, value)| (metric.to_string(), *value)).collect()
    };
    fields.add("metrics", measured.filter(|_| metrics == Metrics::OfEachSample).map(by_name));
    fields.add("notes", measured.map(|measured| &measured.notes).filter(|notes| !notes.is_empty()));
    fields
}

/// Whether the numbers of each sample, and what runs used, are written, or what is compared alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metrics {
    OfEachSample,
    /// As in pages, which grow with all that is in them.
    Summarised,
}

/// A paper with its tables, ours beside what is printed, in the words of the contract.
fn of_paper(tables: &[PaperTable]) -> Option<Fields> {
    let paper: &'static Paper = tables.first()?.paper;
    Some(Fields::from([
        ("name", json!(paper.name)),
        ("citation", json!(paper.citation)),
        ("machine", json!(paper.machine)),
        ("hardware", json!(paper.hardware)),
        ("system", json!(paper.system)),
        ("compiler", json!(paper.compiler)),
        ("code", json!(paper.code)),
        ("statistic", json!(paper.statistic)),
        ("timed", json!(paper.timed)),
        ("tables", list_of(tables.iter().map(of_paper_table))),
        ("claims", json!(paper.claims)),
    ]))
}

fn of_paper_table(table: &PaperTable) -> Fields {
    let printed = table.printed;
    let rows = table.groups.iter().flat_map(|group| group.rows.iter().map(move |row| (group, row)));
    Fields::from([
        ("name", json!(printed.name)),
        ("title", json!(printed.title)),
        ("about", json!(printed.about)),
        ("class", json!(printed.class)),
        ("threads", json!(printed.threads)),
        ("rows", list_of(rows.map(|(group, row)| of_paper_row(group, row)))),
    ])
}

fn of_paper_row(group: &Group, row: &Row) -> Fields {
    let Row { quantity, placement, computed, cells } = row;
    let ours =
        |figure: fn(&study::Summary) -> Option<f64>| list_of(cells.iter().map(|cell| cell.ours.and_then(figure)));
    let mut fields = Fields::from([
        ("benchmark", json!(group.benchmark)),
        ("subject", json!(group.subject)),
        ("placement", json!(placement)),
        ("quantity", json!(quantity)),
        ("computed", json!(computed)),
        ("printed", list_of(cells.iter().map(|cell| Some(cell.printed?.value)))),
        (
            "ours",
            match quantity {
                Quantity::Time => ours(|summary| summary.mean_s),
                Quantity::Ratio => ours(|summary| summary.ratio),
                Quantity::SpeedUp => ours(|summary| summary.speedup),
            },
        ),
    ]);
    if *quantity == Quantity::Ratio {
        fields.add("ours_low", Some(ours(|summary| summary.ratio_low)));
        fields.add("ours_high", Some(ours(|summary| summary.ratio_high)));
    }
    fields
}

/// The race of one subject, in the words of the contract.
fn of_race(study: &StudyView, ranking: &Ranking) -> Fields {
    let race = ranking.race;
    let mut places: Vec<&Place> = ranking.places.iter().collect();
    places.sort_by_key(|place| place.arm);
    let tied = race.standings.tied.iter().filter_map(|&arm| race.entrants.get(arm));
    let gain = race.gain().map(|gain| {
        Fields::from([
            ("ratio", json!(gain.ratio)),
            ("ratio_low", json!(gain.low)),
            ("ratio_high", json!(gain.high)),
            ("pairs", json!(gain.pairs)),
            ("claim", json!(gain.claim)),
        ])
    });
    let blocks = ranking.blocks(study.trials);
    Fields::from([
        ("subject", json!(race.subject)),
        ("best", json!(race.best().map(|best| cpus_of(study, best)))),
        ("tied", list_of(tied.map(|entrant| cpus_of(study, entrant)))),
        ("shown", json!(race.standings.difference_shown)),
        ("gain", json!(gain)),
        ("runs", json!(race.runs)),
        ("smallest_detectable", json!(race.standings.smallest_detectable)),
        ("entrants", list_of(places.into_iter().map(|place| of_entrant(study, place)))),
        ("history", list_of(blocks.iter().map(|block| of_block(ranking, block)))),
    ])
}

/// An entrant and its CPUs.
fn cpus_of(study: &StudyView, entrant: &Entrant) -> Fields {
    let placement = study.placement(&entrant.placement, entrant.threads);
    Fields::from([
        ("threads", json!(entrant.threads)),
        ("placement", json!(entrant.placement)),
        ("cpus", json!(placement.map(|placement| &placement.slots))),
    ])
}

fn of_entrant(study: &StudyView, place: &Place) -> Fields {
    let standing = place.standing;
    let mut fields = cpus_of(study, place.entrant);
    let dropped = standing
        .dropped
        .map(|drop| Fields::from([("block", json!(drop.block + study.plan.warmup_blocks)), ("why", json!(drop.why))]));
    fields.0.extend([
        ("runs", json!(standing.runs)),
        ("median_s", json!(place.summary.and_then(|summary| summary.median_s))),
        ("median", json!(place.summary.and_then(|summary| summary.figures.median))),
        ("loss", json!(standing.loss)),
        ("loss_low", json!(standing.loss_low)),
        ("loss_high", json!(standing.loss_high)),
        ("dropped", json!(dropped)),
    ]);
    fields
}

/// How those that ran in a block stood after it; `entrants` and `best` are positions among the race's entrants.
fn of_block(ranking: &Ranking, PastBlock { trials, standings, .. }: &PastBlock) -> Fields {
    let arm = |trial: &&Trial| Some(ranking.place_of(trial.threads, &trial.placement)?.arm);
    let mut entrants: Vec<usize> = trials.iter().filter_map(arm).collect();
    entrants.sort_unstable();
    let each = |figure: fn(&Standing) -> Option<f64>| {
        list_of(entrants.iter().map(|&arm| standings.arms.get(arm).and_then(figure)))
    };
    Fields::from([
        ("block", json!(trials.first().map_or(0, |trial| trial.block))),
        ("best", json!(standings.best)),
        ("entrants", json!(entrants)),
        ("loss", each(|standing| standing.loss)),
        ("loss_low", each(|standing| standing.loss_low)),
        ("loss_high", each(|standing| standing.loss_high)),
    ])
}

fn list_of(elements: impl Iterator<Item = impl Serialize>) -> Value {
    json!(elements.collect::<Vec<_>>())
}

/// The whole study as one JSON object. Its keys are the contract: `verdicts`, `best`, `warnings`, `findings`,
/// `summaries`, `plan`, `trials`, `machine`, `host`, `sessions`, `ending` and `stop`; and `disturbed`, where trials were disturbed and run again. `verdicts` and `warnings` are sentences;
/// `findings` holds what they say as values, in `verdicts` (objects with a `kind`: `comparison` and `race`, one for each
/// subject, or one of the others) and `warnings` (objects with a `warning`, such as `busy` or `drift`, and its numbers):
/// see [`study::Verdict`] and [`study::Warning`]. `effects` says what each level of each factor changes, where several vary: see [`study::Effect`]. `shapes` compares divisions into ranks and threads, where several with as many
/// threads in all were run: see [`study::ShapeComparison`]. `nodes` has each node of a cluster by itself, where there are
/// several: see [`study::NodeSummary`]; there each of the `trials` has its `node`. `stop` says why the study stopped: see [`study::Stop`]. Then there are `paper`, for the study of one: its tables with
/// the printed figures and ours (means of times, ratios with their intervals, speed-ups), one a thread count;
/// `races`, where the best was raced for: who won, who can't be told apart from it, each entrant's `loss` (its time over
/// that of the best), and how those that ran in a block stood after it; and
/// `programs`, where subjects are built-in programs: what each needs, and the rates that the smallest median
/// reached at each thread count. A summary's `also` names treatments that are the very same placement with as many threads, which have
/// no summary of their own; its `metrics` name what its cell is compared by, with unit, when it is `better`, whose `clock` it is,
/// its median and the ratio to the reference, above 1 being better, and its `claim` (`faster` is better, `slower` worse); it is the
/// `primary` one, and after it come the others of its subject; `used` has what runs used besides (`cpu_time`, `peak_memory` and the like) in the same
/// form: see [`study::MetricSummary`]. Whatever is compared by, `median_s` and
/// the like are of times, and `ratio`, `claim`, `speedup`, `drift` and `outliers` of what is compared by. A mix of programs has `jobs` and the medians `makespan_s`,
/// `mean_completion_s`, `antt`, `stp` and `jain_index` in its summaries; its trials have `jobs`, every run of every job with its
/// `slowdown`, its time over that by itself in the same block, null where there is none. A trial's `values` are its numbers by the
/// name of the metric, besides `time_s`, which is what it is compared by unless a metric is named. Times are in seconds, sizes in bytes. CPUs are the kernel's numbers, one list a thread
/// in order of creation; null where nothing was bound or seen. The elements of the long lists take a line each, so that
/// the text can be searched and compared line by line.
///
/// The text comes in parts, since that of a large study need never be in memory whole.
pub(crate) fn cells(study: &StudyView, part: &mut dyn FnMut(&str)) {
    let trials = study.trials.iter().map(|trial| of_trial(trial, study.slowdowns(trial)));
    let text = text_of_cells(study, trials, Metrics::OfEachSample, &mut |text| {
        if text.len() >= PART_BYTES {
            part(text);
            text.clear();
        }
    });
    part(&text);
}

/// A part of a text is about so long.
pub(crate) const PART_BYTES: usize = 1 << 16;

/// The same for a page, without `actual_cpus` where nothing was bound: those lists grow with the square of the
/// machine, each thread naming every CPU, and the page tells them in words. It has the trials that the page has.
pub(crate) fn page_data(study: &StudyView) -> String {
    let lean = |trial: &Trial| {
        let mut fields = of_trial(trial, study.slowdowns(trial));
        if trial.intended_cpus.is_none() {
            let actual = fields.0.iter_mut().filter(|(key, _)| *key == "actual_cpus");
            actual.for_each(|(_, cpus)| *cpus = Value::Null);
        }
        fields
    };
    text_of_cells(study, html::listed(study).map(lean), Metrics::Summarised, &mut |_| ())
}

/// The text; `grown` is shown it after each trial, and may take what there is.
fn text_of_cells(
    study: &StudyView,
    trials: impl Iterator<Item = Fields>,
    metrics: Metrics,
    grown: &mut dyn FnMut(&mut String),
) -> String {
    let analysis = study.analysis;
    let mut text = String::from("{");
    list(&mut text, "verdicts", &sentences::verdicts(study));
    list(&mut text, "best", &analysis.best);
    list(&mut text, "warnings", &study.warnings);
    findings(&mut text, &analysis.verdicts, &analysis.warnings);
    let summaries: Vec<SummaryRow> =
        analysis.summaries.iter().map(|summary| SummaryRow::new(study, summary, metrics)).collect();
    list(&mut text, "summaries", &summaries);
    // A weak secret could be guessed from its hash: what is passed on lacks that.
    let mut plan = study.plan.clone();
    plan.subjects.iter_mut().for_each(|subject| subject.secrets = None);
    match study.stop {
        Stop::Comparison(stop) => value(&mut text, "plan", &PlanRow { plan: &plan, stop }),
        Stop::Race(stop) => value(&mut text, "plan", &PlanRow { plan: &plan, stop }),
    }
    if !analysis.effects.is_empty() {
        list(&mut text, "effects", &analysis.effects);
    }
    if !analysis.shapes.is_empty() {
        list(&mut text, "shapes", &analysis.shapes);
    }
    if !analysis.nodes.is_empty() {
        list(&mut text, "nodes", &analysis.nodes);
    }
    let tables = PaperTable::all(study);
    if let Some(paper) = of_paper(&tables) {
        value(&mut text, "paper", &paper);
    }
    if study.is_race() {
        let races: Vec<Fields> = study.rankings.iter().map(|ranking| of_race(study, ranking)).collect();
        list(&mut text, "races", &races);
    }
    let programs = BuiltinProgram::all(study);
    if !programs.is_empty() {
        list(&mut text, "programs", &programs);
    }
    append_list(&mut text, "trials", trials, grown);
    if !study.disturbed.is_empty() {
        // Its number is that of the one which was run in its place, whose slowdowns are not its own.
        let disturbed: Vec<Fields> = study.disturbed.iter().map(|trial| of_trial(trial, None)).collect();
        list(&mut text, "disturbed", &disturbed);
    }
    value(&mut text, "stop", &study.analysis.stop);
    about(text, study.topology, study.host, study.sessions, study.ending)
}

/// A summary, and by which metrics its cell is compared.
#[derive(Serialize)]
struct SummaryRow<'a> {
    #[serde(flatten)]
    summary: Cow<'a, Summary>,
    #[serde(flatten)]
    medians: Fields,
    metrics: Vec<MetricRow<'a>>,
    /// What its runs used; not in pages, which grow with all that is in them.
    #[serde(skip_serializing_if = "<[MetricSummary]>::is_empty")]
    used: &'a [MetricSummary],
}

/// A metric of a summary.
#[derive(Serialize)]
#[serde(untagged)]
enum MetricRow<'a> {
    /// What the cell is compared by.
    First(Fields),
    /// What else was measured.
    Other(OtherMetric<'a>),
}

/// A metric that a cell isn't compared by.
#[derive(Serialize)]
struct OtherMetric<'a> {
    #[serde(flatten)]
    told: &'a MetricSummary,
    primary: bool,
}

impl<'a> SummaryRow<'a> {
    fn new(study: &StudyView, summary: &'a Summary, metrics_wanted: Metrics) -> Self {
        let used: &[MetricSummary] = if metrics_wanted == Metrics::OfEachSample { &summary.used } else { &[] };
        let subject = study.plan.subjects.iter().find(|subject| subject.name == summary.subject);
        let of_metric = |subject: &Subject| {
            Fields::from([
                ("name", json!(subject.metric.name)),
                ("unit", json!(subject.metric.unit)),
                ("better", json!(subject.metric.better)),
                ("clock", json!(subject.clock())),
                ("runs", json!(summary.trials)),
                ("median", json!(summary.figures.median)),
                ("mean", json!(summary.figures.mean)),
                ("relative_sd", json!(summary.figures.relative_sd)),
                ("ratio", json!(summary.ratio)),
                ("ratio_low", json!(summary.ratio_low)),
                ("ratio_high", json!(summary.ratio_high)),
                ("pairs", json!(summary.pairs)),
                ("claim", json!(summary.claim)),
                ("primary", json!(true)),
            ])
        };
        // What it is compared by comes first, and the others after it under the same key.
        let first = subject.map(|subject| MetricRow::First(of_metric(subject)));
        let metrics = first
            .into_iter()
            .chain(summary.metrics.iter().map(|told| MetricRow::Other(OtherMetric { told, primary: false })))
            .collect();
        let without_them = match summary.metrics.is_empty() {
            true => Cow::Borrowed(summary),
            false => Cow::Owned(Summary { metrics: Vec::new(), ..summary.clone() }),
        };
        Self { summary: without_them, medians: jobs::medians(summary), metrics, used }
    }
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
    let told = (sentences::simulation_verdicts(analysis), Vec::from_iter(&analysis.verdict));
    of_samples(record, record.plan.cpus, told, &analysis.warnings, Contract::new(study), metrics)
}

/// Replays as one JSON object, likewise, with the keys of [`ReplayView::contract`].
pub(crate) fn replay(study: &ReplayView, metrics: Metrics) -> String {
    let ReplayView { record, analysis, .. } = study;
    let told = (sentences::replay_verdicts(analysis), vec![&analysis.verdict]);
    of_samples(record, record.plan.cpus, told, &analysis.warnings, study.contract(), metrics)
}

/// A study that simulates or replays, with its verdicts as sentences and as values.
fn of_samples<K: Kind<Trial = Sample> + Serialize>(
    record: &Record<K>,
    cpus: u32,
    (verdicts, found): (Vec<String>, Vec<impl Serialize>),
    warnings: &[Warning],
    contract: Contract,
    metrics: Metrics,
) -> String {
    let mut text = String::from("{");
    list(&mut text, "verdicts", &verdicts);
    list(&mut text, "warnings", &sentences::warnings(warnings));
    findings(&mut text, &found, warnings);
    value(&mut text, "plan", &record.plan);
    contract.values.iter().for_each(|(key, json)| value(&mut text, key, json));
    contract.lists.iter().for_each(|(key, json)| list(&mut text, key, json));
    let trials = record.trials.iter().map(|sample| of_sample(sample, cpus, metrics));
    append_list(&mut text, "trials", trials, &mut |_| ());
    about(text, &record.machine, &record.host, &record.sessions, record.ending)
}

/// What verdicts and warnings say, as values.
fn findings(text: &mut String, verdicts: &[impl Serialize], warnings: &[Warning]) {
    text.push_str(",\n\"findings\": {");
    list(text, "verdicts", verdicts);
    list(text, "warnings", warnings);
    text.push_str("\n}");
}

/// Where and when it was, with which every study ends.
fn about(
    mut text: String,
    machine: &Value,
    host: &HostFacts,
    sessions: &[PastSession],
    ending: Option<Ending>,
) -> String {
    value(&mut text, "machine", machine);
    value(&mut text, "host", host);
    list(&mut text, "sessions", sessions);
    value(&mut text, "ending", &ending);
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
    append_list(text, key, elements.iter(), &mut |_| ());
}

/// The elements are never in memory all at once.
fn append_list(
    text: &mut String,
    key: &str,
    elements: impl Iterator<Item = impl Serialize>,
    grown: &mut dyn FnMut(&mut String),
) {
    let separator = if text.ends_with('{') { "" } else { "," };
    let _ = write!(text, "{separator}\n\"{key}\": [");
    let mut end = "]";
    for (position, element) in elements.enumerate() {
        let separator = if position == 0 { "" } else { "," };
        let _ = write!(text, "{separator}\n  {}", to_json(&element));
        end = "\n]";
        grown(text);
    }
    text.push_str(end);
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("structs and maps with text keys are always JSON")
}
