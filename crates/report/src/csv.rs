//! Every trial, one row each, with units in the column names.

use crate::paper_table::PaperTable;
use crate::study_view::{StudyView, actual_cpus, cpu_line};
use papers::paper::Quantity;
use study::{Observation, Trial};

const COLUMNS: [&str; 24] = [
    "sequence",
    "block",
    "warmup",
    "subject",
    "threads",
    "placement",
    "status",
    "cause",
    "outlier",
    "started_unix_s",
    "time_s",
    "wall_s",
    "user_s",
    "system_s",
    "max_rss_bytes",
    "voluntary_switches",
    "involuntary_switches",
    "migrations",
    "minor_faults",
    "major_faults",
    "leftover_processes",
    "strayed_threads",
    "intended_cpus",
    "actual_cpus",
];

/// Every trial, warm-up and failures included, in the order in which they were run. Hardware counters
/// become one column each, named `counter_` and the counter's name; in the study of a paper, the time that a table of
/// it prints for the trial's cell, in seconds, becomes one, such as `printed_table_1_s`. What was not observed is an empty field.
/// CPUs are listed thread by thread, in the order of creation, several CPUs of one thread in braces.
pub(crate) fn cells(study: &StudyView) -> String {
    let counters: std::collections::BTreeSet<&str> = study
        .trials
        .iter()
        .filter_map(|t| t.observation.as_ref())
        .flat_map(|o| o.counters.keys().map(String::as_str))
        .collect();
    let outliers: std::collections::BTreeSet<u32> =
        study.analysis.summaries.iter().flat_map(|summary| summary.outliers.iter().copied()).collect();
    let tables: Vec<PaperTable> = PaperTable::all(study)
        .into_iter()
        .filter(|table| table.printed.rows.iter().any(|row| row.quantity == Quantity::Time))
        .collect();
    let printed_columns = tables.iter().map(|table| format!("printed_{}_s", table.printed.name.replace('-', "_")));
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = COLUMNS.iter().map(|&name| name.to_owned());
    let counter_columns = counters.iter().map(|name| format!("counter_{name}"));
    write(&mut writer, header.chain(counter_columns).chain(printed_columns));
    for trial in study.trials {
        let counts = counters.iter().map(|&name| seen(trial, |o| o.counters.get(name).copied()));
        let printed = tables.iter().map(|table| {
            let time = table.printed_time(&trial.subject, &trial.placement, trial.threads);
            time.map_or_else(String::new, |time| time.to_string())
        });
        write(&mut writer, fields(trial, outliers.contains(&trial.sequence)).into_iter().chain(counts).chain(printed));
    }
    let bytes = writer.into_inner().expect("flushing to memory cannot fail");
    String::from_utf8(bytes).expect("CSV of UTF-8 fields is UTF-8")
}

fn write(writer: &mut csv::Writer<Vec<u8>>, fields: impl Iterator<Item = String>) {
    writer.write_record(fields.collect::<Vec<_>>()).expect("writing rows of one length to memory cannot fail");
}

fn fields(trial: &Trial, outlier: bool) -> [String; COLUMNS.len()] {
    [
        trial.sequence.to_string(),
        trial.block.to_string(),
        trial.warmup.to_string(),
        trial.subject.clone(),
        trial.threads.to_string(),
        trial.placement.clone(),
        trial.status.to_string(),
        trial.cause.clone(),
        outlier.to_string(),
        trial.started_unix_s.to_string(),
        trial.time_s.map_or_else(String::new, |s| s.to_string()),
        trial.ran_s.map_or_else(String::new, |s| s.to_string()),
        seen(trial, |o| Some(o.user_s)),
        seen(trial, |o| Some(o.system_s)),
        seen(trial, |o| Some(o.max_rss_bytes)),
        seen(trial, |o| Some(o.voluntary_switches)),
        seen(trial, |o| Some(o.involuntary_switches)),
        seen(trial, |o| o.migrations),
        seen(trial, |o| Some(o.minor_faults)),
        seen(trial, |o| Some(o.major_faults)),
        seen(trial, |o| Some(o.leftovers)),
        seen(trial, |o| Some(o.threads.iter().filter(|thread| thread.strayed()).count())),
        trial.intended_cpus.as_ref().map_or_else(String::new, cpu_line),
        actual_cpus(trial).map_or_else(String::new, cpu_line),
    ]
}

fn seen<T: ToString>(trial: &Trial, metric: impl Fn(&Observation) -> Option<T>) -> String {
    trial.observation.as_ref().and_then(metric).map_or_else(String::new, |value| value.to_string())
}
