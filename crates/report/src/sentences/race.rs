//! How a race ended, in sentences.

use super::disturbance::qualified;
use super::{Sentence, configuration, counted, factor, least_seen, matters, with_interval};
use crate::wording::Wording;
use crate::words::compared;
use crate::words::shape_in_words;
use study::Varied;
use study::verdict::{Configuration, CutOff, RaceFinding, RaceOutcome, RaceVerdict};

/// A verdict names so many of those that can't be told apart from the best; the ranking has all of them.
const RIVALS_TO_NAME: usize = 4;

/// Who is best, then who can't be told apart from it, then the slowest.
pub(super) fn sentences(verdict: &RaceVerdict, varied: Varied, wording: Wording) -> Vec<Sentence> {
    let subject = || verdict.subject.clone();
    let Some(outcome) = &verdict.outcome else {
        return vec![Sentence::Headline { subject: subject(), text: "nothing to say, no run went well.".into() }];
    };
    let headline = Sentence::Headline { subject: subject(), text: headline(outcome, varied, wording) };
    let details = [rivals(outcome), slowest(outcome, wording)].into_iter().flatten();
    std::iter::once(headline)
        .chain(details.map(|text| Sentence::Detail { subject: subject(), text, is_shown: true }))
        .collect()
}

/// The name of an entrant, with its thread count where they differ.
fn name(outcome: &RaceOutcome, entrant: &Configuration) -> String {
    if outcome.threads.is_some() { entrant.placement.clone() } else { configuration(entrant) }
}

fn headline(outcome: &RaceOutcome, varied: Varied, wording: Wording) -> String {
    let noun = compared(varied);
    let best = name(outcome, &outcome.best);
    let placements = counted(outcome.entrants, noun);
    let field = match outcome.threads {
        Some(threads) => format!("{placements} of {}", shape_in_words(threads)),
        None if outcome.best.threads.ranks().is_some() => format!("{placements} over divisions into ranks and threads"),
        None => format!("{placements} over thread counts"),
    };
    let runs = counted(outcome.runs, "run");
    let matters =
        format!("{} {}{}", wording.what_varies(varied), matters(&outcome.disturbances), wording.matters_for());
    let text = match &outcome.finding {
        RaceFinding::Faster { ratio, pairs } => {
            let ((ratio, interval), pairs) = (with_interval(ratio), counted(*pairs, "pair"));
            let faster = wording.apposition(&ratio);
            format!("{matters}; best of {field}: {best}, {faster} than unbound ({interval}, {pairs}; {runs}).")
        }
        RaceFinding::FasterAmongAll { ratio } => {
            let (ratio, interval) = with_interval(ratio);
            let faster = wording.apposition(&ratio);
            format!(
                "{matters}; best of {field}: {best}, {faster} than unbound ({interval}, among all comparisons; {runs})."
            )
        }
        RaceFinding::FasterThanCutOff { at_least } => {
            let ratio = factor(*at_least);
            let faster = wording.comparative(true);
            format!(
                "{matters}; best of {field}: {best}, at least {ratio}x {faster} than unbound, which was cut off ({runs})."
            )
        }
        RaceFinding::ReferenceIsBest => {
            format!("{matters}, and no {noun} beats {best}; {field} ({runs}).")
        }
        RaceFinding::NotShownFaster { ratio, pairs } => {
            let ((ratio, interval), pairs) = (with_interval(ratio), counted(*pairs, "pair"));
            let be_faster = wording.infinitive(true);
            format!(
                "{matters}, but best of {field}, {best}, is not shown to {be_faster} than unbound (ratio {ratio}, {interval}, {pairs}; {runs})."
            )
        }
        RaceFinding::GainUnknown => {
            format!("{matters}; best of {field}: {best} ({runs}), its gain over unbound not measured.")
        }
        RaceFinding::NoneShown { cut_off: Some(CutOff { entrants, at_least }), .. } => {
            let ratio = factor(*at_least);
            format!(
                "too few runs to tell {field} apart ({runs}): {entrants} cut off, after {ratio} times the best's time or more, which something else may have made; a longer race can tell."
            )
        }
        RaceFinding::NoneShown { smallest_detectable, cut_off: None } => {
            format!("no difference shown among {field} ({runs}){}.", least_seen("that this race", *smallest_detectable))
        }
    };
    qualified(text, &outcome.disturbances)
}

fn rivals(outcome: &RaceOutcome) -> Option<String> {
    let (rivals, best) = (outcome.rivals.as_ref()?, name(outcome, &outcome.best));
    if rivals.is_empty() {
        return Some(format!("every other is told apart from {best}."));
    }
    let named: Vec<String> = rivals.iter().take(RIVALS_TO_NAME).map(|rival| name(outcome, rival)).collect();
    let more =
        if rivals.len() > named.len() { format!("; and {} more", rivals.len() - named.len()) } else { String::new() };
    let others = counted(rivals.len() as u32, "other");
    Some(format!("{others} can't be told apart from {best}: {}{more}.", named.join("; ")))
}

fn slowest(outcome: &RaceOutcome, wording: Wording) -> Option<String> {
    let slowest = outcome.slowest.as_ref()?;
    let name = name(outcome, &slowest.configuration);
    let (loss, least) = (factor(slowest.loss), factor(slowest.loss_low));
    Some(match wording {
        Wording::Time | Wording::Makespan => {
            format!(
                "the slowest that ran to its end, {name}, takes {loss} times as long as the best, and at least {least} times."
            )
        }
        _ => format!("the worst that ran to its end, {name}, is {loss}x worse than the best, and at least {least}x."),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::Shape;
    use study::verdict::{Interval, Slowest};

    fn entrant(placement: &str) -> Configuration {
        Configuration { threads: 4.into(), placement: placement.into() }
    }

    fn told(finding: RaceFinding, threads: Option<Shape>, rivals: &[&str]) -> Vec<String> {
        let is_shown = !matches!(finding, RaceFinding::NoneShown { .. });
        let outcome = RaceOutcome {
            finding,
            best: entrant("scatter"),
            entrants: 9,
            threads,
            runs: 36,
            rivals: is_shown.then(|| rivals.iter().map(|name| entrant(name)).collect()),
            slowest: is_shown.then(|| Slowest { configuration: entrant("0,0,4,4"), loss: 1.5, loss_low: 1.42 }),
            disturbances: Vec::new(),
        };
        let verdict = RaceVerdict { subject: "app".into(), outcome: Some(outcome) };
        sentences(&verdict, Varied::Places, Wording::Time).iter().map(Sentence::to_string).collect()
    }

    #[test]
    fn a_race_is_told_by_what_its_best_gains() {
        let ratio = Interval { value: 1.15, low: 1.12, high: 1.18 };
        for (finding, words) in [
            (
                RaceFinding::Faster { ratio, pairs: 8 },
                "where its threads run matters; best of 9 placements of 4 threads: scatter, 1.15x faster than unbound (95 % interval 1.12-1.18, 8 pairs; 36 runs).",
            ),
            (
                RaceFinding::FasterAmongAll { ratio },
                "where its threads run matters; best of 9 placements of 4 threads: scatter, 1.15x faster than unbound (95 % interval 1.12-1.18, among all comparisons; 36 runs).",
            ),
            (
                RaceFinding::ReferenceIsBest,
                "where its threads run matters, and no placement beats scatter; 9 placements of 4 threads (36 runs).",
            ),
            (
                RaceFinding::NotShownFaster { ratio: Interval { value: 1.01, low: 0.99, high: 1.03 }, pairs: 1 },
                "where its threads run matters, but best of 9 placements of 4 threads, scatter, is not shown to be faster than unbound (ratio 1.010, 95 % interval 0.990-1.030, 1 pair; 36 runs).",
            ),
            (
                RaceFinding::GainUnknown,
                "where its threads run matters; best of 9 placements of 4 threads: scatter (36 runs), its gain over unbound not measured.",
            ),
            (
                RaceFinding::FasterThanCutOff { at_least: 1.62 },
                "where its threads run matters; best of 9 placements of 4 threads: scatter, at least 1.62x faster than unbound, which was cut off (36 runs).",
            ),
            (
                RaceFinding::NoneShown {
                    smallest_detectable: Some(0.021),
                    cut_off: Some(CutOff { entrants: 3, at_least: 2.27 }),
                },
                "too few runs to tell 9 placements of 4 threads apart (36 runs): 3 cut off, after 2.27 times the best's time or more, which something else may have made; a longer race can tell.",
            ),
            (
                RaceFinding::NoneShown { smallest_detectable: Some(0.021), cut_off: None },
                "no difference shown among 9 placements of 4 threads (36 runs); the smallest that this race could have seen is 2.1 %.",
            ),
        ] {
            assert_eq!(told(finding, Some(4.into()), &[])[0], format!("app: {words}"));
        }
        let none = RaceVerdict { subject: "app".into(), outcome: None };
        assert_eq!(
            sentences(&none, Varied::Treatments, Wording::Time)[0].to_string(),
            "app: nothing to say, no run went well."
        );
    }

    #[test]
    fn four_rivals_are_named_and_thread_counts_where_they_differ() {
        let rivals = |threads, names: &[&str]| told(RaceFinding::GainUnknown, threads, names)[1].clone();
        assert_eq!(rivals(Some(4.into()), &[]), "app, every other is told apart from scatter.");
        assert_eq!(
            rivals(None, &["a"]),
            "app, 1 other can't be told apart from scatter with 4 threads: a with 4 threads."
        );
        assert_eq!(
            rivals(Some(4.into()), &["a", "b", "c", "d"]),
            "app, 4 others can't be told apart from scatter: a; b; c; d."
        );
        assert_eq!(
            rivals(Some(4.into()), &["a", "b", "c", "d", "e", "f"]),
            "app, 6 others can't be told apart from scatter: a; b; c; d; and 2 more."
        );
        assert_eq!(
            told(RaceFinding::GainUnknown, Some(4.into()), &[])[2],
            "app, the slowest that ran to its end, 0,0,4,4, takes 1.50 times as long as the best, and at least 1.42 times."
        );
    }
}
