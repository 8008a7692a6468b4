//! What a study in an emulated machine shows, in sentences.

use super::{Sentence, counted, with_interval};
use crate::words::shape_in_words;
use study::Claim;
use study::verdict::{EmulatedVerdict, Interval, MetricVerdict};

/// That times mean nothing, and whether what was counted differs; then each difference that is shown.
pub(super) fn sentences(verdict: &EmulatedVerdict) -> Vec<Sentence> {
    let shown = verdict.metrics.iter().filter(|metric| metric.is_shown());
    let counts = match shown.clone().count() as u32 {
        _ if !verdict.is_counted => {
            ", and nothing else was counted; with --misses there is something to compare".into()
        }
        _ if verdict.metrics.is_empty() => ", and there are too few pairs of what was counted".into(),
        0 => ", and nothing that was counted is shown to differ".into(),
        differences => format!("; what was counted is shown to differ in {}", counted(differences, "case")),
    };
    let text = format!("times of an emulated machine mean nothing{counts}.");
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
    let threads = shape_in_words(configuration.threads);
    let placement = &configuration.placement;
    format!(
        "{threads}: by {metric} {placement} is {ratio}x {word} than {reference} ({interval}, {}).",
        counted(*pairs, "pair")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::verdict::Configuration;

    #[test]
    fn times_are_never_headlined_and_what_was_counted_is_only_where_it_is_shown() {
        let metric = |claim| MetricVerdict {
            configuration: Configuration { threads: 8.into(), placement: "sched=heavy".into() },
            metric: "l2_migration_misses_per_1000".into(),
            ratio: Interval { value: 0.5, low: 0.4, high: 0.625 },
            pairs: 10,
            claim,
        };
        let said = |is_counted, metrics| {
            let (subject, reference) = ("app".into(), "unbound".into());
            let sentences = sentences(&EmulatedVerdict { subject, reference, is_counted, metrics });
            sentences.iter().map(Sentence::to_string).collect::<Vec<_>>().join("\n")
        };
        let nothing = "times of an emulated machine mean nothing";
        assert!(said(false, vec![]).contains(&format!("{nothing}, and nothing else was counted; with --misses")));
        assert!(said(true, vec![]).contains("too few pairs"));
        assert!(said(true, vec![metric(Claim::NoneShown)]).contains("nothing that was counted is shown to differ"));
        let differs = said(true, vec![metric(Claim::Slower)]);
        assert!(differs.contains(&format!("{nothing}; what was counted is shown to differ in 1 case.")), "{differs}");
        let words = "8 threads: by l2_migration_misses_per_1000 sched=heavy is 2.00x worse than unbound (";
        assert!(differs.contains(words), "{differs}");
    }
}
