//! What the jobs of a mix get where it is best, in sentences.

use super::{Sentence, configuration, with_interval};
use crate::study_view::StudyView;
use crate::wording::Wording;
use crate::words::shape_in_words;
use study::verdict::{Configuration, Interval};
use study::{Claim, JobSummary, MetricSummary, Summary};

/// What is shown of a subject by its other metrics, and which job of a mix is slowed most; nothing of a single program.
pub(super) fn sentences(study: &StudyView, subject: &str) -> Vec<Sentence> {
    let best = study.analysis.best.iter().find(|best| best.subject == subject);
    let Some(best) = best.and_then(|best| study.best_summary(best)).filter(|best| !best.jobs.is_empty()) else {
        return Vec::new();
    };
    // Of a race nothing more is known.
    let slowed = (!study.is_race()).then(|| slowed_most(best));
    let texts = by_metrics(study, best).into_iter().chain(slowed);
    texts.map(|text| Sentence::Detail { subject: subject.to_owned(), text, is_shown: true }).collect()
}

/// What is shown by the other metrics of the best treatment; where that is the reference, of all with as many threads.
fn by_metrics(study: &StudyView, best: &Summary) -> Option<String> {
    let is_told = |other: &&Summary| match best.claim {
        Claim::Reference => other.threads == best.threads,
        _ => std::ptr::eq(*other, best),
    };
    let told: Vec<String> =
        study.summaries(&best.subject).filter(is_told).filter_map(|summary| shown(study, summary)).collect();
    (!told.is_empty()).then(|| {
        let threads = shape_in_words(best.threads);
        format!("{threads}: {}.", told.join("; "))
    })
}

/// What is shown of one treatment: `scatter has 1.20x lower ANTT (95 % interval 1.10-1.30) than unbound`.
fn shown(study: &StudyView, summary: &Summary) -> Option<String> {
    let differs = |metric: &MetricSummary| {
        let is_better = match metric.claim {
            Claim::Faster => true,
            Claim::Slower => false,
            _ => return None,
        };
        let (value, low, high) = (metric.ratio?, metric.ratio_low?, metric.ratio_high?);
        let ratio = match is_better {
            true => Interval { value, low, high },
            false => Interval { value: 1.0 / value, low: 1.0 / high, high: 1.0 / low },
        };
        let (ratio, interval) = with_interval(&ratio);
        Some(format!("{ratio}x {} ({interval})", Wording::new(&metric.metric).comparative(is_better)))
    };
    let differences: Vec<String> = summary.metrics.iter().filter_map(differs).collect();
    let busy = if study.is_busy(summary) { ", measured on a busy machine" } else { "" };
    let differences = match differences.as_slice() {
        [] => return None,
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    };
    Some(format!("{} has {differences} than {}{busy}", summary.placement, study.reference()))
}

/// The job that is slowed most where the mix is best, and those of which that isn't known.
fn slowed_most(best: &Summary) -> String {
    let here = configuration(&Configuration { threads: best.threads, placement: best.placement.clone() });
    let slowdown = |job: &&JobSummary| job.slowdown.unwrap_or(f64::NEG_INFINITY);
    let known = best.jobs.iter().filter(|job| job.slowdown.is_some());
    let unknown: Vec<&str> =
        best.jobs.iter().filter(|job| job.slowdown.is_none()).map(|job| job.name.as_str()).collect();
    let Some(most) = known.max_by(|a, b| slowdown(a).total_cmp(&slowdown(b))) else {
        return format!("{here}: how much its jobs are slowed isn't known, since none has a time by itself.");
    };
    let value = slowdown(&most);
    let (ratio, interval) = match (most.slowdown_low, most.slowdown_high) {
        (Some(low), Some(high)) => with_interval(&Interval { value, low, high }),
        _ => (super::factor(value), "too few runs for an interval".into()),
    };
    let unknown = match unknown.as_slice() {
        [] => String::new(),
        names => format!("; of {} that isn't known", names.join(", ")),
    };
    // By chance a job may be as fast as by itself, or faster.
    let slowed = if value > 1.0 { "is slowed most" } else { "is slowed most, which is not at all" };
    format!("{here}: {} {slowed}, taking {ratio} times as long as by itself ({interval}){unknown}.", most.name)
}
