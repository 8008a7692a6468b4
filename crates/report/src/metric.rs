//! What runs are compared by, in words: its name, its unit, when it is better, and who takes it.

use crate::number;
use crate::study_view::StudyView;
use crate::words::plain;
use stats::Better;
use study::metric::Clock;
use study::{Metric, Subject};

/// `, lower is better`; empty for what only describes.
pub(crate) fn direction(metric: &Metric) -> &'static str {
    match metric.better {
        Better::Lower => ", lower is better",
        Better::Higher => ", higher is better",
        Better::Neither => "",
    }
}

/// Who takes the time of a subject's runs.
fn clock(clock: Clock) -> &'static str {
    match clock {
        Clock::Wall => "by the wall clock",
        Clock::Program => "as the program reports it",
        Clock::File => "as the program writes it to a file",
        Clock::Model => "as the model draws it",
    }
}

/// A subject's metric: `time [s], lower is better, by the wall clock`.
pub(crate) fn of_subject(subject: &Subject) -> String {
    format!("{}{}, {}", plain(&subject.metric.to_string()), direction(&subject.metric), clock(subject.clock()))
}

/// What the runs of a subject are compared by where times mean nothing.
pub(crate) fn counted(subject: &Subject) -> &'static str {
    match subject.metrics.is_empty() {
        true => "compared by nothing: nothing was counted",
        false => "compared by what was counted, and not by its times",
    }
}

/// The metric of a row of the table: `time, s`.
pub(crate) fn label(metric: &Metric) -> String {
    let unit = metric.unit.iter().map(|unit| format!(", {unit}"));
    std::iter::once(metric.name.clone()).chain(unit).collect()
}

/// The same with when it is better: `rate, MB/s, higher is better`.
pub(crate) fn directed(metric: &Metric) -> String {
    format!("{}{}", label(metric), direction(metric))
}

/// A number of it with its unit: `12.5 ms`.
pub(crate) fn quantity(metric: &Metric, value: f64) -> String {
    let unit = metric.unit.iter().map(|unit| format!(" {unit}"));
    std::iter::once(number::seconds(value)).chain(unit).collect()
}

/// What stands above a column of figures of it: `median, s`, `median of p95, ms`; for runs that aren't all compared by the same, the
/// figures have their unit.
pub(crate) fn head(figure: &str, metric: Option<&Metric>) -> String {
    match metric {
        None => figure.to_owned(),
        Some(metric) if *metric == Metric::default() => format!("{figure}, s"),
        Some(metric) => format!("{figure} of {}", label(metric)),
    }
}

/// The least and the most as they are called of it: `fastest`, `slowest`.
pub(crate) fn extremes(metric: Option<&Metric>) -> [&'static str; 2] {
    match metric {
        Some(metric) if *metric == Metric::default() => ["fastest", "slowest"],
        _ => ["least", "most"],
    }
}

/// A figure below such a head.
pub(crate) fn below(metric: Option<&Metric>, own: &Metric, value: f64) -> String {
    if metric.is_some() { number::seconds(value) } else { quantity(own, value) }
}

/// What is said where times mean nothing.
const EMULATED_KEY: &str =
    "Times of an emulated machine mean nothing: they are told as they were, and compared with nothing.";

/// What a study is compared by, as a sentence; where subjects differ in it, each kind with its subjects.
pub(crate) fn key(study: &StudyView) -> String {
    if study.is_emulated() {
        return EMULATED_KEY.to_owned();
    }
    let mut kinds: Vec<(String, Vec<&str>)> = Vec::new();
    for subject in study.compared() {
        let words = of_subject(subject);
        match kinds.iter_mut().find(|(other, _)| *other == words) {
            Some((_, names)) => names.push(&subject.name),
            None => kinds.push((words, vec![&subject.name])),
        }
    }
    match kinds.as_slice() {
        [(words, _)] => format!("Compared by {words}."),
        several => {
            let each = several.iter().map(|(words, names)| format!("{words} ({})", names.join(", ")));
            format!("Compared by {}.", each.collect::<Vec<_>>().join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_has_a_name_a_unit_and_a_direction() {
        let own = Subject { time_regex: Some("took ([0-9.]+) s".into()), ..Subject::default() };
        assert_eq!(of_subject(&Subject::default()), "time [s], lower is better, by the wall clock");
        assert_eq!(of_subject(&own), "time [s], lower is better, as the program reports it");
        assert_eq!(label(&Metric::default()), "time, s");
        let rate = Metric::new("rate", Some("MB/s"), Better::Higher);
        let rate = Subject { metric: rate, ..Subject::default() };
        assert_eq!(of_subject(&rate), "rate [MB/s], higher is better, by the wall clock");
    }
}
