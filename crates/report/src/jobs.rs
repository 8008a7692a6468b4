//! What a trial of a mix tells of its jobs, and its numbers besides the one that it is compared by.

use crate::fields::Fields;
use serde_json::json;
use std::collections::BTreeMap;
use study::mix::{ANTT, JAIN_INDEX, STP};
use study::{JobRun, Slowdowns, Summary, Trial};

/// Metrics of a mix that a summary has under names of their own, with their units.
const OF_SUMMARY: [(&str, &str); 4] =
    [(study::mix::MEAN_COMPLETION, "mean_completion_s"), (ANTT, "antt"), (STP, "stp"), (JAIN_INDEX, "jain_index")];

/// Every run of every job of `trial`, for JSON.
pub(crate) fn runs(trial: &Trial, slowdowns: Option<&Slowdowns>) -> Vec<Fields> {
    let of_run = |(position, run): (usize, &JobRun)| {
        let slowdown = slowdowns.and_then(|slowdowns| *slowdowns.runs.get(position)?);
        Fields::from([
            ("name", json!(run.name)),
            ("started_s", json!(run.started_s)),
            ("ended_s", json!(run.ended_s)),
            ("time_s", json!(run.time_s)),
            ("slowdown", json!(slowdown)),
        ])
    };
    trial.jobs().iter().enumerate().map(of_run).collect()
}

/// The numbers of `trial` besides the one that it is compared by, by the name of their metric.
pub(crate) fn values<'a>(trial: &'a Trial, slowdowns: Option<&Slowdowns>) -> BTreeMap<&'a str, f64> {
    let mut values: BTreeMap<&str, f64> = trial.values().collect();
    values.extend(slowdowns.map(Slowdowns::metrics).unwrap_or_default());
    values
}

/// The medians of a mix's summary, for JSON.
pub(crate) fn medians(summary: &Summary) -> Fields {
    let mut fields = Fields::default();
    if summary.jobs.is_empty() {
        return fields;
    }
    fields.add("makespan_s", Some(summary.median_s));
    for (name, key) in OF_SUMMARY {
        let metric = summary.metrics.iter().find(|metric| metric.metric.name == name);
        fields.add(key, Some(metric.and_then(|metric| metric.median)));
    }
    fields
}
