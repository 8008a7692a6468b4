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
    trial.jobs.iter().enumerate().map(of_run).collect()
}

/// The numbers of `trial` besides the one that it is compared by, by the name of their metric.
pub(crate) fn values<'a>(trial: &'a Trial, slowdowns: Option<&Slowdowns>) -> BTreeMap<&'a str, f64> {
    let mut values: BTreeMap<&str, f64> = trial.values.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    values.extend(slowdowns.map(of_mix).unwrap_or_default());
    values
}

/// What the slowdowns of a trial come to, if every job has one.
fn of_mix<'a>(slowdowns: &Slowdowns) -> Vec<(&'a str, f64)> {
    let Some(of_jobs) = slowdowns.jobs.iter().copied().collect::<Option<Vec<f64>>>() else { return Vec::new() };
    let progress: Vec<f64> = of_jobs.iter().map(|slowdown| slowdown.recip()).collect();
    let metrics =
        [(ANTT, stats::antt(&of_jobs)), (STP, stats::stp(&of_jobs)), (JAIN_INDEX, stats::jain_index(&progress))];
    metrics.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, by_hand: f64) -> bool {
        (value - by_hand).abs() < 1e-12
    }

    /// The example that `stats` works by hand.
    #[test]
    fn a_trial_has_what_its_slowdowns_come_to_unless_one_is_missing() {
        let of = |jobs: [Option<f64>; 3]| {
            of_mix(&Slowdowns { runs: Vec::new(), jobs: jobs.into(), mean_completion_s: None })
        };
        let metrics = of([Some(1.25), Some(1.5), Some(2.0)]);
        let [(ANTT, antt), (STP, stp), (JAIN_INDEX, index)] = metrics[..] else { panic!("{metrics:?}") };
        assert!(close(antt, 19.0 / 12.0) && close(stp, 59.0 / 30.0) && close(index, 3481.0 / 3603.0));
        assert_eq!(of([Some(1.25), None, Some(2.0)]), []);
    }
}
