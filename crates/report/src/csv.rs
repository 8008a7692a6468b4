//! Every trial, one row each, with units in the column names; and how any rows become CSV.

use crate::fields::{OF_TRIAL, STOPS};
use crate::jobs;
use crate::metric;
use crate::paper_table::PaperTable;
use crate::study_view::{StudyView, actual_cpus, cpu_line};
use papers::paper::Quantity;
use serde_json::Value;
use std::collections::BTreeSet;
use study::{Metric, Status, Subject, Trial};

/// Whether a trial is an outlier stands after so many columns, beside how it went.
const BEFORE_OUTLIER: usize = 8;

/// Every trial, warm-up, failures and those that were disturbed included, in the order in which they were run. Hardware counters
/// become one column each, named `counter_` and the counter's name; where it is known how often threads were stopped to be watched,
/// `stops` and `stops_s` say so; every metric but the time has a column, named `metric_`, the metric's name and its unit; in the study of a paper, the time that a table of
/// it prints for the trial's cell, in seconds, becomes one, such as `printed_table_1_s`. What was not observed is an empty field.
/// CPUs are listed thread by thread, in the order of creation, several CPUs of one thread in braces. `compared_by` says what
/// trials of that program are compared by, `time_s` or another column: its name, unit, direction, and who took it.
///
/// The text comes in parts, since that of a large study need never be in memory whole.
pub(crate) fn cells(study: &StudyView, part: &mut dyn FnMut(&str)) {
    let seen = || study.trials.iter().filter_map(|trial| trial.observation.as_ref());
    let counters: BTreeSet<&String> = seen().flat_map(|seen| seen.counters.keys()).collect();
    let mut metrics: Vec<&Metric> = Vec::new();
    let time = Metric::default();
    let is_first = |subject: &Subject, metric: &Metric| *metric == subject.metric && subject.is_timed();
    let told = |subject: &'_ Subject, metric: &Metric| *metric != time && !is_first(subject, metric);
    let of_subject = |subject| Subject::all_metrics(subject).filter(move |metric| told(subject, metric));
    for metric in study.plan.subjects.iter().flat_map(of_subject) {
        let is_new = !metrics.iter().any(|other| metric_head(other) == metric_head(metric));
        metrics.extend(is_new.then_some(metric));
    }
    let stops_are_known = seen().any(|seen| seen.stops.is_some());
    let outliers: BTreeSet<u32> =
        study.analysis.summaries.iter().flat_map(|summary| summary.outliers.iter().copied()).collect();
    let mut tables = PaperTable::all(study);
    tables.retain(|table| table.printed.rows.iter().any(|row| row.quantity == Quantity::Time));
    let mut heads = OF_TRIAL.map(|(name, _)| name.to_owned()).to_vec();
    heads.insert(BEFORE_OUTLIER, "outlier".into());
    heads.extend(["intended_cpus", "actual_cpus", "compared_by"].map(String::from));
    heads.extend(STOPS.iter().filter(|_| stops_are_known).map(|(name, _)| (*name).to_owned()));
    heads.extend(metrics.iter().map(|metric| metric_head(metric)));
    heads.extend(counters.iter().map(|name| format!("counter_{name}")));
    heads.extend(tables.iter().map(|table| format!("printed_{}_s", table.printed.name.replace('-', "_"))));
    // One that was disturbed has the number of the one that was run in its place, and stands before it.
    let mut trials: Vec<&Trial> = study.disturbed.iter().chain(study.trials).collect();
    trials.sort_by_key(|trial| trial.sequence);
    let rows = trials.into_iter().map(|trial| {
        let mut row = OF_TRIAL.map(|(_, value)| written(&value(trial))).to_vec();
        row.insert(BEFORE_OUTLIER, outliers.contains(&trial.sequence).to_string());
        row.extend([trial.intended_cpus.as_ref().map(cpu_line), actual_cpus(trial).map(cpu_line)].map(or_empty));
        let subject = study.plan.subjects.iter().find(|subject| subject.name == trial.subject);
        row.push(or_empty(subject.map(metric::of_subject)));
        row.extend(STOPS.iter().filter(|_| stops_are_known).map(|(_, value)| written(&value(trial))));
        // Of a number that is disturbed there are two trials, and slowdowns are those of the one that counts.
        let slowdowns = study.slowdowns(trial).filter(|_| trial.status == Status::Ok);
        let values = jobs::values(trial, slowdowns);
        let has = |metric: &Metric| subject.is_some_and(|subject| subject.all_metrics().any(|other| other == metric));
        let value = |metric: &&Metric| or_empty(values.get(metric.name.as_str()).filter(|_| has(metric)));
        row.extend(metrics.iter().map(value));
        let counter = |name| or_empty(trial.observation.as_ref().and_then(|seen| seen.counters.get(name)));
        row.extend(counters.iter().copied().map(counter));
        let printed = |table: &PaperTable| table.printed_time(&trial.subject, &trial.placement, trial.threads);
        row.extend(tables.iter().map(|table| or_empty(printed(table))));
        row
    });
    parts(heads, rows, part);
}

/// The column of a metric besides the first, which no other column can be called as.
fn metric_head(metric: &Metric) -> String {
    let unit = metric.unit.iter().map(|unit| format!("_{unit}"));
    std::iter::once(format!("metric_{}", metric.name)).chain(unit).collect()
}

/// `rows` below `heads`, as many fields in each.
pub(crate) fn text(heads: Vec<String>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = String::new();
    parts(heads, rows, &mut |part| text.push_str(part));
    text
}

fn parts(heads: Vec<String>, rows: impl IntoIterator<Item = Vec<String>>, part: &mut dyn FnMut(&str)) {
    let mut rows = std::iter::once(heads).chain(rows).peekable();
    while rows.peek().is_some() {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in rows.by_ref().take(ROWS_OF_A_PART) {
            writer.write_record(row).expect("writing rows of one length to memory cannot fail");
        }
        let bytes = writer.into_inner().expect("flushing to memory cannot fail");
        part(&String::from_utf8(bytes).expect("CSV of UTF-8 fields is UTF-8"));
    }
}

/// So many rows are in memory at a time.
const ROWS_OF_A_PART: usize = 256;

/// `table`, which is CSV, with an apostrophe before every text that a spreadsheet would compute: numbers stay numbers.
pub fn for_spreadsheets(table: &str) -> String {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(table.as_bytes());
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    for row in reader.records() {
        let row = row.expect("our own CSV can be read");
        let cells = row.iter().map(|cell| if is_computed(cell) { format!("'{cell}") } else { cell.to_owned() });
        writer.write_record(cells).expect("writing to memory cannot fail");
    }
    let bytes = writer.into_inner().expect("flushing to memory cannot fail");
    String::from_utf8(bytes).expect("CSV of UTF-8 fields is UTF-8")
}

/// Whether a spreadsheet would take `cell` for a formula, and not for a number or a text.
fn is_computed(cell: &str) -> bool {
    // Some read the wide forms as the narrow ones.
    let starts = ['=', '+', '-', '@', '\t', '\r', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];
    cell.starts_with(starts) && cell.parse::<f64>().is_err()
}

/// A field; empty where there is nothing.
pub(crate) fn or_empty(field: Option<impl ToString>) -> String {
    field.map_or_else(String::new, |field| field.to_string())
}

fn written(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // Whole seconds have no point.
        Value::Number(number) if number.is_f64() => or_empty(number.as_f64()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spreadsheet_would_compute_becomes_text_and_numbers_stay() {
        let heads = ["name", "ratio"].map(String::from).to_vec();
        let rows = [
            ["=HYPERLINK(\"http://x\",\"y\")", "-1.5"],
            ["+1+cmd|' /C calc'!A0", "+2e-3"],
            ["-n 2", "0"],
            ["@SUM(A1)", ""],
            ["\t=1", "\r=1"],
            ["./app = 1, \"two\"", "a-b"],
            ["\u{ff1d}1", "-"],
        ];
        let plain = text(heads, rows.map(|row| row.map(String::from).to_vec()));
        let safe = for_spreadsheets(&plain);
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(safe.as_bytes());
        let cells: Vec<Vec<String>> =
            reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
        assert_eq!(
            cells,
            [
                ["name", "ratio"],
                ["'=HYPERLINK(\"http://x\",\"y\")", "-1.5"],
                ["'+1+cmd|' /C calc'!A0", "+2e-3"],
                ["'-n 2", "0"],
                ["'@SUM(A1)", ""],
                ["'\t=1", "'\r=1"],
                ["./app = 1, \"two\"", "a-b"],
                ["'\u{ff1d}1", "'-"],
            ]
        );
        let harmless = "a,b\n1,2\n";
        assert_eq!(for_spreadsheets(harmless), harmless);
    }
}
