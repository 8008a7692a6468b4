//! Everything, for programs.

use crate::study_view::actual_cpus;
use machine::CpuSet;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use study::{Analysis, Record, Status, Trial};

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
            wall_s: seen.map(|o| o.wall_s),
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
            output_tail: if trial.status == Status::Ok { "" } else { &trial.output_tail },
        }
    }
}

/// The whole study as one JSON object. Its keys are the contract: `verdicts`, `best`, `warnings`, `summaries`,
/// `plan`, `trials`, `machine`, `host`, `sessions` and `ending`. Times are in seconds, sizes in bytes. CPUs are the
/// kernel's numbers, one list a thread in order of creation; null where nothing was bound or seen. The elements of
/// the long lists take a line each, so that the text can be searched and compared line by line.
pub fn json(record: &Record, analysis: &Analysis) -> String {
    text(record, analysis, &record.trials.iter().map(TrialRow::new).collect::<Vec<_>>())
}

/// The same for a page, without `actual_cpus` where nothing was bound: those lists grow with the square of the
/// machine, each thread naming every CPU, and the page tells them in words.
pub(crate) fn page_data(record: &Record, analysis: &Analysis) -> String {
    let lean = |trial| match TrialRow::new(trial) {
        row if row.intended_cpus.is_none() => TrialRow { actual_cpus: None, ..row },
        row => row,
    };
    text(record, analysis, &record.trials.iter().map(lean).collect::<Vec<_>>())
}

fn text(record: &Record, analysis: &Analysis, trials: &[TrialRow]) -> String {
    let mut text = String::from("{");
    list(&mut text, "verdicts", &analysis.verdicts);
    list(&mut text, "best", &analysis.best);
    list(&mut text, "warnings", &analysis.warnings);
    list(&mut text, "summaries", &analysis.summaries);
    value(&mut text, "plan", &record.plan);
    list(&mut text, "trials", trials);
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
