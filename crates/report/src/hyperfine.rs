//! The times of a comparison in the form of hyperfine's export, so that scripts made for that go on working.

use crate::kinds::Study;
use serde_json::{Value, json};
use study::{Exit, Status, Subject, Summary, Trial};

/// An object for each cell, as hyperfine has one for each command: times are in seconds. None of what isn't a comparison of programs.
pub fn hyperfine_json(study: &Study) -> Option<String> {
    let Study::Comparison(record, analysis) = study else { return None };
    let plan = &record.plan.plan;
    let of_cell = |summary: &Summary| {
        let subject = plan.subjects.iter().find(|subject| subject.name == summary.subject)?;
        let is_ours = |trial: &&Trial| {
            (&trial.subject, trial.threads, &trial.placement) == (&summary.subject, summary.threads, &summary.placement)
        };
        let counts = |trial: &&Trial| !trial.warmup && trial.status == Status::Ok;
        let trials: Vec<&Trial> = record.trials.iter().filter(is_ours).filter(counts).collect();
        let times: Vec<f64> = trials.iter().filter_map(|trial| trial.time_s).collect();
        (subject.alone.is_none() && !times.is_empty()).then(|| of_trials(subject, summary, &trials, &times))
    };
    let results: Vec<Value> = analysis.summaries.iter().filter_map(of_cell).collect();
    let text = serde_json::to_string_pretty(&json!({ "results": results }));
    text.ok().map(|text| text + "\n")
}

fn of_trials(subject: &Subject, summary: &Summary, trials: &[&Trial], times: &[f64]) -> Value {
    let seen = || trials.iter().filter_map(|trial| trial.observation.as_ref());
    let mean = |figure: fn(&study::Observation) -> f64| {
        let figures: Vec<f64> = seen().map(figure).collect();
        (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
    };
    let exit_code = |seen: &study::Observation| match seen.exit {
        Exit::Code(code) => Some(code),
        Exit::Signal(_) | Exit::TimedOut => None,
    };
    let estimate = stats::estimate(times);
    // A command of hyperfine's is called by its line, or by its name; ours is told apart by what it ran under.
    let command = match summary.placement.as_str() {
        study::plan::UNBOUND => subject.name.clone(),
        name if !subject.variants.is_empty() => name.to_owned(),
        place => format!("{} ({place})", subject.name),
    };
    json!({
        "command": command,
        "mean": estimate.map(|e| e.mean_s),
        "stddev": estimate.and_then(|e| e.sd_s),
        "median": estimate.map(|e| e.median_s),
        "user": mean(|seen| seen.user_s),
        "system": mean(|seen| seen.system_s),
        "min": estimate.map(|e| e.min_s),
        "max": estimate.map(|e| e.max_s),
        "times": times,
        "memory_usage_byte": seen().map(|seen| seen.max_rss_bytes).collect::<Vec<_>>(),
        "exit_codes": seen().map(exit_code).collect::<Vec<_>>(),
        "parameters": { "threads": summary.threads.to_string(), "placement": summary.placement },
    })
}
