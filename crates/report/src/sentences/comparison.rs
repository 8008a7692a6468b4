//! What a comparison of placements shows, in sentences.

use super::disturbance::{on_a_busy_machine, qualified};
use super::{Sentence, configuration, counted, least_seen, matters, percent, with_interval};
use crate::wording::Wording;
use crate::words::compared;
use crate::words::shape_in_words;
use stats::Disturbance;
use std::mem::discriminant;
use study::verdict::{ComparisonHeadline, ComparisonVerdict, Difference, Headline, Interval, PlacementVerdict};
use study::{Shape, Varied};

/// Whether placement matters, then a sentence on each placement, then on those that can't differ from the reference.
pub(super) fn sentences(verdict: &ComparisonVerdict, varied: Varied, wording: Wording) -> Vec<Sentence> {
    let headline = Sentence::Headline { subject: verdict.subject.clone(), text: headline(verdict, varied, wording) };
    let details = verdict.placements.iter().map(|placement| detail(verdict, placement, wording));
    let same = verdict.same_as_reference.iter().map(|same| Sentence::Detail {
        subject: verdict.subject.clone(),
        text: format!(
            "{}: {} is the very same placement as {} here.",
            shape_in_words(same.threads),
            same.placement,
            verdict.reference
        ),
        is_shown: false,
    });
    std::iter::once(headline).chain(details).chain(same).collect()
}

fn headline(verdict: &ComparisonVerdict, varied: Varied, wording: Wording) -> String {
    let fastest = wording.superlative();
    let noun = compared(varied);
    let nothing = |words: &str, best| format!("{words} {}.", configuration(best));
    let ComparisonHeadline::Matters { by, disturbances, .. } = &verdict.headline else {
        return match verdict.headlined() {
            Headline::TooFew { best } => nothing(&format!("too few runs to compare {noun}s; {fastest} so far:"), best),
            Headline::NothingCompared { best } => {
                nothing(&format!("one {noun}, nothing to compare; {fastest} here:"), best)
            }
            Headline::NoneShown { best, .. } => {
                nothing(&format!("no {noun} is shown to differ; {fastest} here:"), best)
            }
            _ => "nothing to say, no run went well.".into(),
        };
    };
    let here = match verdict.headlined() {
        Headline::GainElsewhere { best, threads } => {
            format!(
                "best here: {}, which none is shown to beat there; a gain is shown with {} only",
                configuration(best),
                threads_in_words(&threads)
            )
        }
        Headline::OnlyLosses { best, .. } if best.placement == verdict.reference => {
            format!("best here: {}, which none is shown to beat", configuration(best))
        }
        Headline::ReferenceIsBest { best } => {
            format!(
                "best here: {}, and every other is shown to {} there",
                configuration(best),
                wording.infinitive(false)
            )
        }
        Headline::OpenAtBest { best } => {
            format!("{fastest} so far: {}, with too few pairs there to compare", configuration(best))
        }
        Headline::Gain { best, .. } | Headline::OnlyLosses { best, .. } => {
            format!("best here: {}", configuration(best))
        }
        _ => String::new(),
    };
    let matters = matters(disturbances);
    let what = wording.what_varies(varied);
    let what_for = wording.matters_for();
    qualified(format!("{what} {matters}{what_for}, by up to {}; {here}.", percent(*by)), disturbances)
}

/// `1 thread`, `2 and 4 threads`, `2 ranks x 4 threads and 8 ranks x 1 thread`.
fn threads_in_words(shapes: &[Shape]) -> String {
    let has_ranks = shapes.iter().any(|shape| shape.ranks().is_some());
    let words: Vec<String> = match has_ranks {
        true => shapes.iter().map(|shape| shape_in_words(*shape)).collect(),
        false => shapes.iter().map(Shape::to_string).collect(),
    };
    let unit = if has_ranks { "" } else { " threads" };
    match words.as_slice() {
        [one] if one == "1" => "1 thread".into(),
        [one] => format!("{one}{unit}"),
        [first @ .., last] => format!("{} and {last}{unit}", first.join(", ")),
        [] => String::new(),
    }
}

/// What is shown of one placement against the reference, with its doubt.
fn detail(verdict: &ComparisonVerdict, shown: &PlacementVerdict, wording: Wording) -> Sentence {
    let (reference, placement) = (&verdict.reference, &shown.configuration.placement);
    let pairs = counted(shown.pairs, "pair");
    let difference = match &shown.difference {
        Difference::Faster { ratio } => {
            let (ratio, interval) = with_interval(ratio);
            format!("{placement} {} than {reference} ({interval}, {pairs})", wording.predicate(&ratio, true))
        }
        Difference::Slower { ratio } => {
            let slower = Interval { value: 1.0 / ratio.value, low: 1.0 / ratio.high, high: 1.0 / ratio.low };
            let (ratio, interval) = with_interval(&slower);
            format!("{placement} {} than {reference} ({interval}, {pairs})", wording.predicate(&ratio, false))
        }
        Difference::NoneShown { ratio, shown_alone, smallest_detectable } => {
            let alone = if *shown_alone { "; alone it would be one, among so many comparisons it is not" } else { "" };
            let least = least_seen("this study", *smallest_detectable);
            let (ratio, interval) = with_interval(ratio);
            format!(
                "no difference shown between {placement} and {reference} (ratio {ratio}, {interval}, {pairs}){alone}{least}"
            )
        }
        Difference::TooFew => format!("too few pairs ({}) to compare {placement} with {reference}", shown.pairs),
    };
    let earlier =
        shown.same_as.iter().map(|earlier| format!("; {placement} is the very same placement as {earlier} here"));
    let later = shown.also.iter().map(|later| format!("; {later} is the very same placement here"));
    let twins: String = earlier.chain(later).collect();
    let in_headline = |disturbance: &Disturbance| {
        let told = verdict.headline.disturbances();
        told.iter().any(|told| discriminant(&told.cause) == discriminant(&disturbance.cause))
    };
    let busy = match shown.disturbances.as_slice() {
        [] => String::new(),
        disturbances if disturbances.iter().all(in_headline) => "; measured on a busy machine".into(),
        disturbances => format!("; {}", on_a_busy_machine(disturbances)),
    };
    let threads = shape_in_words(shown.configuration.threads);
    Sentence::Detail {
        subject: verdict.subject.clone(),
        text: format!("{threads}: {difference}{twins}{busy}."),
        is_shown: matches!(shown.difference, Difference::Faster { .. } | Difference::Slower { .. }),
    }
}
