//! Which division into ranks and threads is the fastest, in sentences.

use super::disturbance::on_a_busy_machine;
use super::{Sentence, counted, least_seen, with_interval};
use crate::wording::Wording;
use crate::words::shape_in_words;
use study::verdict::{Configuration, Difference, Interval};
use study::{ShapeComparison, ShapeDifference};

/// What stands in the headline of a subject: `2 ranks x 4 threads is 1.20x faster than 1 rank x 8 threads, and 1.51x than 8 ranks x 1
/// thread`.
pub(super) fn headline(shapes: &ShapeComparison, wording: Wording) -> String {
    let fastest = shape_in_words(shapes.fastest.threads);
    let beaten: Vec<(&ShapeDifference, &Interval)> = shapes.others.iter().filter_map(faster).collect();
    let Some(((first, ratio), rest)) = beaten.split_first() else {
        let few = shapes.others.iter().all(|other| matches!(other.difference, Difference::TooFew));
        return match few {
            true => format!(
                "too few runs to compare divisions of {} into ranks; {} so far: {fastest}",
                counted(shapes.threads_in_all, "thread"),
                wording.superlative()
            ),
            false => format!(
                "no division of {} into ranks is shown to differ; {} here: {fastest}",
                counted(shapes.threads_in_all, "thread"),
                wording.superlative()
            ),
        };
    };
    let than = |other: &ShapeDifference| shape_in_words(other.other.threads);
    let also = rest.iter().map(|(other, ratio)| format!(", and {}x than {}", with_interval(ratio).0, than(other)));
    let text = format!(
        "{fastest} {} than {}{}",
        wording.predicate(&with_interval(ratio).0, true),
        than(first),
        also.collect::<String>()
    );
    // What disturbed it is told with each comparison.
    let is_busy = beaten.iter().any(|(other, _)| !other.disturbances.is_empty());
    if is_busy { format!("{text}, as measured on a busy machine") } else { text }
}

fn faster(other: &ShapeDifference) -> Option<(&ShapeDifference, &Interval)> {
    match &other.difference {
        Difference::Faster { ratio } => Some((other, ratio)),
        _ => None,
    }
}

/// What is shown of the fastest shape against each other, with its doubt.
pub(super) fn details(shapes: &ShapeComparison, wording: Wording) -> impl Iterator<Item = Sentence> {
    shapes.others.iter().map(move |other| {
        let (fastest, slower) = (placed(&shapes.fastest), placed(&other.other));
        let pairs = counted(other.pairs, "pair");
        let text = match &other.difference {
            Difference::Faster { ratio } | Difference::Slower { ratio } => {
                let is_better = matches!(other.difference, Difference::Faster { .. });
                let told = match is_better {
                    true => *ratio,
                    false => Interval { value: 1.0 / ratio.value, low: 1.0 / ratio.high, high: 1.0 / ratio.low },
                };
                let (ratio, interval) = with_interval(&told);
                format!("{fastest} {} than {slower} ({interval}, {pairs})", wording.predicate(&ratio, is_better))
            }
            Difference::NoneShown { ratio, smallest_detectable, .. } => {
                let (ratio, interval) = with_interval(ratio);
                let least = least_seen("this study", *smallest_detectable);
                format!(
                    "no difference shown between {fastest} and {slower} (ratio {ratio}, {interval}, {pairs}){least}"
                )
            }
            Difference::TooFew => format!("too few pairs ({}) to compare {fastest} with {slower}", other.pairs),
        };
        let busy = match other.disturbances.as_slice() {
            [] => String::new(),
            disturbances => format!("; {}", on_a_busy_machine(disturbances)),
        };
        Sentence::Detail {
            subject: shapes.subject.clone(),
            text: format!("{text}{busy}."),
            is_shown: matches!(other.difference, Difference::Faster { .. } | Difference::Slower { .. }),
        }
    })
}

/// `2 ranks x 4 threads (compact)`.
fn placed(Configuration { threads, placement }: &Configuration) -> String {
    format!("{} ({placement})", shape_in_words(*threads))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(differences: &[Difference]) -> ShapeComparison {
        let names = ["1x8", "4x2", "8x1"];
        let configuration = |shape: &str, placement: &str| Configuration {
            threads: shape.parse().unwrap(),
            placement: placement.into(),
        };
        let other = |(name, difference): (&&str, &Difference)| ShapeDifference {
            other: configuration(name, "unbound"),
            pairs: 12,
            difference: *difference,
            disturbances: Vec::new(),
        };
        ShapeComparison {
            subject: "app".into(),
            threads_in_all: 8,
            fastest: configuration("2x4", "compact"),
            others: names.iter().zip(differences).map(other).collect(),
        }
    }

    #[test]
    fn the_fastest_shape_is_told_in_ranks_and_threads() {
        let ratio = |value: f64| Interval { value, low: value - 0.05, high: value + 0.05 };
        let faster = |value| Difference::Faster { ratio: ratio(value) };
        let none = Difference::NoneShown { ratio: ratio(1.02), shown_alone: false, smallest_detectable: Some(0.03) };
        let told = |differences: &[Difference]| headline(&shapes(differences), Wording::Time);
        assert_eq!(
            told(&[faster(1.2), none, faster(1.5)]),
            "2 ranks x 4 threads is 1.20x faster than 1 rank x 8 threads, and 1.50x than 8 ranks x 1 thread"
        );
        assert_eq!(
            told(&[none, none]),
            "no division of 8 threads into ranks is shown to differ; fastest here: 2 ranks x 4 threads"
        );
        assert_eq!(
            told(&[Difference::TooFew]),
            "too few runs to compare divisions of 8 threads into ranks; fastest so far: 2 ranks x 4 threads"
        );
        let all = shapes(&[faster(1.2), none, Difference::TooFew]);
        let texts: Vec<String> = details(&all, Wording::Time).map(|sentence| sentence.to_string()).collect();
        assert_eq!(
            texts,
            [
                "app, 2 ranks x 4 threads (compact) is 1.20x faster than 1 rank x 8 threads (unbound) (95 % interval 1.15-1.25, 12 pairs).",
                "app, no difference shown between 2 ranks x 4 threads (compact) and 4 ranks x 2 threads (unbound) (ratio 1.020, 95 % \
                 interval 0.970-1.070, 12 pairs); the smallest this study could have seen is 3.0 %.",
                "app, too few pairs (12) to compare 2 ranks x 4 threads (compact) with 8 ranks x 1 thread (unbound).",
            ]
        );
    }
}
