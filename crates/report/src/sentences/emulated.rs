//! What a study in an emulated machine shows, in sentences.

use super::{Sentence, counted, with_interval};
use study::Claim;
use study::verdict::{EmulatedVerdict, Interval, MetricVerdict};

/// That times mean nothing, and whether what was counted differs; then each difference that is shown.
pub(super) fn sentences(verdict: &EmulatedVerdict) -> Vec<Sentence> {
    let shown = verdict.metrics.iter().filter(|metric| metric.is_shown());
    let counts = if verdict.metrics.is_empty() {
        "and nothing else was counted in pairs (see --misses)".into()
    } else {
        match shown.clone().count() {
            0 => "and nothing that was counted is shown to differ".into(),
            differences => format!("what was counted is shown to differ in {}", counted(differences as u32, "case")),
        }
    };
    let text = format!("times of an emulated machine mean nothing; {counts}.");
    let headline = Sentence::Headline { subject: verdict.subject.clone(), text };
    let details = shown.map(|metric| Sentence::Detail {
        subject: verdict.subject.clone(),
        text: detail(metric, &verdict.reference),
        is_shown: true,
    });
    std::iter::once(headline).chain(details).collect()
}

fn detail(shown: &MetricVerdict, reference: &str) -> String {
    let MetricVerdict { configuration, metric, ratio, pairs, claim } = shown;
    let (word, ratio) = match claim {
        Claim::Slower => ("worse", Interval { value: 1.0 / ratio.value, low: 1.0 / ratio.high, high: 1.0 / ratio.low }),
        _ => ("better", *ratio),
    };
    let (ratio, interval) = with_interval(&ratio);
    let threads = counted(configuration.threads, "thread");
    let placement = &configuration.placement;
    format!(
        "{threads}: by {metric} {placement} is {ratio}x {word} than {reference} ({interval}, {}).",
        counted(*pairs, "pair")
    )
}
