//! The answer on one subject in large type, and what stands behind it. What may be said there, [`Headline`] decides.

use crate::number::{self, Ratio};
use crate::sentences::{advice, causes, crowded_processes, percent};
use crate::study_view::StudyView;
use crate::words::shape_in_words;
use crate::words::{capital, compared, count, plain};
use maud::{Markup, html};
use study::Subject;
use study::verdict::{Configuration, Difference, Headline, RaceOutcome, Verdict};

/// The words or the number in large type, and the lines below it.
struct Large {
    /// Whether it is a number that shows a gain; else it is words.
    is_gain: bool,
    text: Markup,
    doubt: Markup,
}

/// The figure that answers for one subject, and its doubt. On a busy machine that is the answer, and the figure steps back.
pub(super) fn headline(study: &StudyView, subject: &Subject) -> Markup {
    let Some(verdict) = study.analysis.verdicts.iter().find(|verdict| verdict.subject() == subject.name) else {
        return html! {};
    };
    let Large { is_gain, text, doubt } = Large::new(study, verdict);
    let class = if is_gain { "figure better" } else { "figure words" };
    let disturbances = verdict.disturbances();
    html! {
        div {
            @if let Some(crowding) = study.analysis.crowding(&subject.name) {
                p.figure.words { "Processes shared a CPU" }
                p.doubt { (capital(&crowded_processes(&crowding.crowd))) " took turns while " (crowding.crowd.idle.named()) " had nothing to do." }
                p.doubt.muted { "As measured: " (text) }
            } @else if disturbances.is_empty() {
                p class=(class) { (text) }
            } @else {
                p.figure.words { "Busy machine" }
                p.doubt { (capital(&causes(disturbances))) ": " (advice(disturbances)) "." }
                p.doubt.muted { "As measured: " (text) }
            }
            (doubt)
        }
    }
}

impl Large {
    fn words(text: impl Into<String>, doubt: Markup) -> Self {
        Self { is_gain: false, text: html! { (text.into()) }, doubt }
    }

    /// `best` is so many times as fast as the reference, or what else `words` says.
    fn gain(ratio: &str, words: &str, best: &str, reference: &str, doubt: &str) -> Self {
        Self {
            is_gain: true,
            text: html! { (ratio) "×" small { " " (words) } },
            doubt: html! { p.doubt { b { (best) } ", against " (reference) } p.doubt.muted { (doubt) } },
        }
    }

    /// How many times as fast the fastest division into ranks and threads is as the one that it beats by most.
    fn of_shapes(study: &StudyView, verdict: &Verdict) -> Self {
        let wording = study.wording(verdict.subject());
        let gains = study.analysis.shapes_of(verdict.subject()).flat_map(|shapes| {
            shapes.others.iter().filter_map(move |other| match other.difference {
                Difference::Faster { ratio } => Some((shapes, other, ratio)),
                _ => None,
            })
        });
        let Some((shapes, other, ratio)) = gains.max_by(|(.., a), (.., b)| a.value.total_cmp(&b.value)) else {
            return Self::words(
                "No difference shown",
                html! { p.doubt { "between divisions into ranks and threads" } },
            );
        };
        let ratio = Ratio::new(ratio.value, Some(ratio.low), Some(ratio.high));
        let doubt = format!("95 % interval {}, {}", ratio.range("–"), count(other.pairs as usize, "pair"));
        let best = shape_in_words(shapes.fastest.threads);
        Self::gain(&ratio.value, &wording.beside_ratio(), &best, &shape_in_words(other.other.threads), &doubt)
    }

    fn new(study: &StudyView, verdict: &Verdict) -> Self {
        let outcome = match verdict {
            Verdict::Comparison(_) | Verdict::Emulated(_) | Verdict::Refused(_) => None,
            Verdict::Race(verdict) => verdict.outcome.as_ref(),
        };
        let wording = study.wording(verdict.subject());
        let (fastest_count, lose) =
            (format!("its {} {}", wording.superlative(), study.column_noun()), wording.infinitive(false));
        let reference = plain(study.reference_of(verdict));
        let threads = |best: &Configuration| shape_in_words(best.threads);
        let fastest = |best: &Configuration| html! { p.doubt { "with " (threads(best)) ", " (fastest_count) } };
        let none_beats = |best: &Configuration| {
            html! { p.doubt { "with " (threads(best)) ", " (fastest_count) ", none is shown to beat " (reference) } }
        };
        let large = match verdict.headline() {
            Headline::NothingCompared { .. } | Headline::NoneShown { .. }
                if study.analysis.shapes_of(verdict.subject()).next().is_some() =>
            {
                Self::of_shapes(study, verdict)
            }
            Headline::NoAnswer => Self::words("No answer", html! { p.doubt { "No run of it went well." } }),
            Headline::Refused => Self::words("No answer", html! { p.doubt { "What it reports can't be its time." } }),
            Headline::Emulated { differs: true } => {
                Self::words("Counts differ", html! { p.doubt { "Times of an emulated machine mean nothing." } })
            }
            Headline::Emulated { differs: false } => {
                Self::words("No answer by times", html! { p.doubt { "Those of an emulated machine mean nothing." } })
            }
            Headline::NothingCompared { best } => Self::words("Nothing to compare", fastest(best)),
            Headline::TooFew { best } => Self::words("Too few pairs to tell", fastest(best)),
            Headline::NoneShown { best, smallest_detectable } => {
                let field = match outcome {
                    Some(outcome) => {
                        html! { p.doubt { "among " (count(outcome.entrants as usize, compared(study.analysis.varied))) } }
                    }
                    None => fastest(best),
                };
                Self::words("No difference shown", html! { (field) (least(outcome, smallest_detectable)) })
            }
            Headline::CutOffTooSoon { cut_off, at_least, .. } => {
                let entrants = outcome.map_or(0, |outcome| outcome.entrants as usize);
                let ratio = number::factor(at_least, 2);
                Self::words(
                    "Too few runs to tell",
                    html! { p.doubt { (cut_off) " of " (count(entrants, compared(study.analysis.varied))) " cut off, after " (ratio) " times the best's time or more" } },
                )
            }
            Headline::Gain { best, ratio, pairs } => {
                let ratio = Ratio::new(ratio.value, Some(ratio.low), Some(ratio.high));
                let from = pairs.map_or("among all comparisons".into(), |pairs| count(pairs as usize, "pair"));
                let doubt = format!("95 % interval {}, {from}", ratio.range("–"));
                Self::gain(&ratio.value, &wording.beside_ratio(), &name(outcome, best), &reference, &doubt)
            }
            Headline::GainAtLeast { best, ratio } => {
                let doubt = format!("at least: {reference} was cut off");
                Self::gain(&number::factor(ratio, 2), &wording.beside_ratio(), &name(outcome, best), &reference, &doubt)
            }
            Headline::GainElsewhere { best, threads: gaining } => {
                let text = match gaining.as_slice() {
                    [one] => format!("Gain with {} only", shape_in_words(*one)),
                    _ => "Gain with other thread counts only".into(),
                };
                Self::words(text, none_beats(best))
            }
            Headline::OpenAtBest { best } => Self::words(
                format!("Too few pairs with {}", threads(best)),
                html! { p.doubt { (fastest_count) " so far; with others a difference is shown" } },
            ),
            Headline::OnlyLosses { best, smallest_detectable } => {
                Self::words("Only losses shown", html! { (none_beats(best)) (least(outcome, smallest_detectable)) })
            }
            Headline::ReferenceIsBest { best } => {
                let text =
                    if reference == "unbound" { "Leave it unbound".into() } else { format!("Stay with {reference}") };
                match outcome {
                    Some(_) => {
                        Self::words(text, html! { p.doubt { "no " (compared(study.analysis.varied)) " beats it" } })
                    }
                    None => Self::words(
                        text,
                        html! { (fastest(best)) p.doubt.muted { "every other is shown to " (lose) " there" } },
                    ),
                }
            }
            Headline::NotBeaten { best } => Self::words(
                format!("{} not beaten", capital(&reference)),
                html! { p.doubt { "others lose; best is " b { (name(outcome, best)) } ", not shown to " (wording.infinitive(true)) " than " (reference) } },
            ),
            Headline::GainUnknown { best } => Self::words(
                name(outcome, best),
                html! { p.doubt { "is best; its gain over " (reference) " was not measured" } },
            ),
        };
        let rivals = outcome.and_then(|outcome| outcome.rivals.as_ref()).map_or(0, Vec::len);
        let tied = html! {
            @if rivals > 0 { p.doubt.muted { (count(rivals, "other")) " can't be told apart from it" } }
        };
        Self { doubt: html! { (large.doubt) (tied) }, ..large }
    }
}

/// The name of the best; its thread count, too, but where all entrants of a race have the same.
fn name(outcome: Option<&RaceOutcome>, Configuration { threads, placement }: &Configuration) -> String {
    match outcome {
        Some(RaceOutcome { threads: Some(_), .. }) => plain(placement),
        _ => format!("{}, {}", plain(placement), shape_in_words(*threads)),
    }
}

/// What could have been seen, where that is known.
fn least(outcome: Option<&RaceOutcome>, smallest_detectable: Option<f64>) -> Markup {
    let seen = |least| match outcome {
        Some(_) => format!("The smallest difference that this race could have seen is {}.", percent(least)),
        None => format!("The smallest difference that this study could have seen there is {}.", percent(least)),
    };
    html! { @if let Some(least) = smallest_detectable { p.doubt.muted { (seen(least)) } } }
}
