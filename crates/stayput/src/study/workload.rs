//! A workload file as a subject: real processes that do what it says, as `stayput replay` makes them.

use crate::UsageError;
use replay::Scenario;
use sim::Workload;
use std::path::PathBuf;
use study::study_file::SubjectTable;
use study::{Metric, binding::Unit};

/// What is told of a workload's runs besides their makespan, as the simulator names it.
const METRICS: [&str; 7] = [
    "mean_completion_ms",
    "wait_mean_ms",
    "longest_wait_ms",
    "wake_late_p999_ms",
    "effective_slice_median_ms",
    "migrations_per_s",
    "jain_index",
];

/// The workload that `name` is, a built-in one or a file, as a subject. Each block has other draws, which are the same under every
/// treatment. Its processes take the slots of a placement in order.
///
/// # Errors
/// A [`UsageError`] when it is none, or would never end.
pub(super) fn workload_subject(name: &str) -> anyhow::Result<SubjectTable> {
    let scenario = Scenario::named(name).map_err(UsageError::from)?;
    let Scenario { workload, .. } = &scenario;
    workload.check().map_err(|wrong| UsageError::from(format!("workload `{}`: {wrong}", workload.name)))?;
    if !workload.ends() {
        return Err(UsageError::from(format!(
            "processes of workload `{}` never end, so that there is no time to compare; give them `work_ms`, or use `stayput replay`, \
             which stops them",
            workload.name
        )));
    }
    let program = launch::companion("stayput-replay")?.display().to_string();
    let is_file = name.ends_with(".toml");
    let read = if is_file { "-" } else { name };
    let words = [program.as_str(), read, "--brief", "--replicate", "{block}"];
    Ok(SubjectTable {
        command: Some(words.map(String::from).to_vec()),
        input: is_file.then(|| PathBuf::from(name)),
        name: Some(workload.name.clone()),
        time_regex: Some(number_of("seconds")),
        verified_regex: Some("\"completed\": *true".into()),
        unit: Unit::Process,
        // The first makes the others, and waits for them.
        skip: vec![0],
        metrics: metrics(workload),
        primary: Some("time".into()),
        ..SubjectTable::default()
    })
}

fn metrics(workload: &Workload) -> Vec<Metric> {
    let (groups, _) = workload.equal_processes();
    let has_equals = groups.iter().any(|group| group.len() > 1);
    let names = METRICS.into_iter().filter(|name| *name != "jain_index" || has_equals);
    let metric = |name: &str| {
        let known = stats::Metric::from_name(name);
        let unit = known.unit.suffix().trim_start_matches('_').replace("per_s", "1/s");
        let unit = Some(unit.as_str()).filter(|unit| !unit.is_empty());
        // Processes that never wait have no waits, for one.
        Metric { regex: Some(number_of(name)), is_optional: true, ..Metric::new(known.name, unit, known.better) }
    };
    names.map(metric).collect()
}

/// Finds the number that stands under a key of the replay's JSON.
fn number_of(key: &str) -> String {
    format!("\"{key}\": *([0-9.eE+-]+)")
}
