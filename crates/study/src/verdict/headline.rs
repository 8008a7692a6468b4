//! What may be headlined of a subject: the one place that decides it, so that large type, sentences and advice agree.

use super::{ComparisonHeadline, ComparisonVerdict, Configuration, CutOff, Difference, Interval, PlacementVerdict};
use super::{MetricVerdict, RaceFinding, RaceVerdict, Verdict};
use crate::shape::Shape;

/// What may be headlined of a subject. Whether it was measured on a busy machine is [`Verdict::disturbances`]' to say.
#[derive(Clone, Debug, PartialEq)]
pub enum Headline<'v> {
    /// No run went well.
    NoAnswer,
    /// What it reports as its time can't be that.
    Refused,
    /// It ran in an emulated machine, whose times mean nothing.
    Emulated {
        /// Whether a difference is shown by what was counted there.
        differs: bool,
    },
    /// There is only the reference.
    NothingCompared {
        /// Its fastest configuration.
        best: &'v Configuration,
    },
    /// There are too few runs to compare anything.
    TooFew {
        /// The fastest configuration so far.
        best: &'v Configuration,
    },
    /// Nothing is shown to differ.
    NoneShown {
        /// The fastest configuration.
        best: &'v Configuration,
        /// The smallest relative difference that would have been seen with 80 % probability (0.03 = 3 %).
        smallest_detectable: Option<f64>,
    },
    /// Nothing is shown to differ, though runs were cut off because they took so much longer than the best.
    CutOffTooSoon {
        /// The fastest configuration.
        best: &'v Configuration,
        /// Entrants that were cut off.
        cut_off: u32,
        /// Each of them took at least so many times as long as the best.
        at_least: f64,
    },
    /// The best is shown to be faster than the reference with as many threads.
    Gain {
        /// The best configuration.
        best: &'v Configuration,
        /// The time of the reference over that of the best.
        ratio: Interval,
        /// How many pairs the ratio comes from; none where it comes from all comparisons of a race.
        pairs: Option<u32>,
    },
    /// The best is shown to be faster than the reference, whose runs were cut off.
    GainAtLeast {
        /// The best configuration.
        best: &'v Configuration,
        /// The time of the reference over that of the best, at least.
        ratio: f64,
    },
    /// Placement matters, and a gain is shown, but not at the fastest thread count.
    GainElsewhere {
        /// The best configuration.
        best: &'v Configuration,
        /// The thread counts at which a gain is shown.
        threads: Vec<Shape>,
    },
    /// Placement matters, but at the fastest thread count there are too few pairs to compare.
    OpenAtBest {
        /// The fastest configuration so far.
        best: &'v Configuration,
    },
    /// Placement matters: some lose, and none is shown to beat the reference.
    OnlyLosses {
        /// The best configuration.
        best: &'v Configuration,
        /// What could have been seen of those at its thread count that show nothing.
        smallest_detectable: Option<f64>,
    },
    /// Placement matters, and the reference is best: every other at its thread count is shown to be slower, or it won its race.
    ReferenceIsBest {
        /// The reference.
        best: &'v Configuration,
    },
    /// Entrants of a race differ, but the best isn't shown to beat the reference.
    NotBeaten {
        /// The best entrant.
        best: &'v Configuration,
    },
    /// Entrants of a race differ, but the best was not measured against the reference.
    GainUnknown {
        /// The best entrant.
        best: &'v Configuration,
    },
}

impl Headline<'_> {
    /// Whether where threads run is shown to matter; else nothing may be told of gains or losses.
    pub fn matters(&self) -> bool {
        !matches!(
            self,
            Self::NoAnswer
                | Self::Refused
                | Self::Emulated { .. }
                | Self::NothingCompared { .. }
                | Self::TooFew { .. }
                | Self::NoneShown { .. }
                | Self::CutOffTooSoon { .. }
        )
    }

    /// Whether the best may be told to be faster than the reference, and so be recommended.
    pub fn is_gain(&self) -> bool {
        matches!(self, Self::Gain { .. } | Self::GainAtLeast { .. })
    }
}

impl Verdict {
    /// What may be headlined of it.
    pub fn headline(&self) -> Headline<'_> {
        match self {
            Self::Comparison(verdict) => verdict.headlined(),
            Self::Race(verdict) => verdict.headlined(),
            Self::Emulated(verdict) => {
                Headline::Emulated { differs: verdict.metrics.iter().any(MetricVerdict::is_shown) }
            }
            Self::Refused(_) => Headline::Refused,
        }
    }
}

impl ComparisonVerdict {
    /// What may be headlined of it.
    pub fn headlined(&self) -> Headline<'_> {
        let best = match &self.headline {
            ComparisonHeadline::NoRuns => return Headline::NoAnswer,
            ComparisonHeadline::NothingCompared { best } => return Headline::NothingCompared { best },
            ComparisonHeadline::TooFew { best } => return Headline::TooFew { best },
            ComparisonHeadline::NoneShown { best } | ComparisonHeadline::Matters { best, .. } => best,
        };
        let here = || self.placements.iter().filter(|placement| placement.configuration.threads == best.threads);
        let smallest_detectable = here().filter_map(PlacementVerdict::smallest_detectable).reduce(f64::max);
        if matches!(self.headline, ComparisonHeadline::NoneShown { .. }) {
            return Headline::NoneShown { best, smallest_detectable };
        }
        if let Some((ratio, pairs)) = here().filter(|placement| placement.configuration == *best).find_map(gain) {
            return Headline::Gain { best, ratio, pairs: Some(pairs) };
        }
        let mut threads: Vec<Shape> = self
            .placements
            .iter()
            .filter(|placement| gain(placement).is_some())
            .map(|p| p.configuration.threads)
            .collect();
        threads.dedup();
        let is_slower = |placement: &PlacementVerdict| matches!(placement.difference, Difference::Slower { .. });
        let too_few = |placement: &PlacementVerdict| matches!(placement.difference, Difference::TooFew);
        if !threads.is_empty() {
            Headline::GainElsewhere { best, threads }
        } else if here().any(too_few) {
            Headline::OpenAtBest { best }
        } else if best.placement == self.reference && here().next().is_some() && here().all(is_slower) {
            Headline::ReferenceIsBest { best }
        } else {
            Headline::OnlyLosses { best, smallest_detectable }
        }
    }
}

impl PlacementVerdict {
    /// What would have been seen of it, where nothing is.
    fn smallest_detectable(&self) -> Option<f64> {
        match self.difference {
            Difference::NoneShown { smallest_detectable, .. } => smallest_detectable,
            _ => None,
        }
    }
}

/// The gain of a placement that is shown to be faster, and its pairs.
fn gain(placement: &PlacementVerdict) -> Option<(Interval, u32)> {
    match placement.difference {
        Difference::Faster { ratio } => Some((ratio, placement.pairs)),
        _ => None,
    }
}

impl RaceVerdict {
    /// What may be headlined of it.
    pub fn headlined(&self) -> Headline<'_> {
        let Some(outcome) = &self.outcome else { return Headline::NoAnswer };
        let best = &outcome.best;
        match outcome.finding {
            RaceFinding::Faster { ratio, pairs } => Headline::Gain { best, ratio, pairs: Some(pairs) },
            RaceFinding::FasterAmongAll { ratio } => Headline::Gain { best, ratio, pairs: None },
            RaceFinding::FasterThanCutOff { at_least } => Headline::GainAtLeast { best, ratio: at_least },
            RaceFinding::ReferenceIsBest => Headline::ReferenceIsBest { best },
            RaceFinding::NotShownFaster { .. } => Headline::NotBeaten { best },
            RaceFinding::GainUnknown => Headline::GainUnknown { best },
            RaceFinding::NoneShown { cut_off: Some(CutOff { entrants, at_least }), .. } => {
                Headline::CutOffTooSoon { best, cut_off: entrants, at_least }
            }
            RaceFinding::NoneShown { smallest_detectable, cut_off: None } => {
                Headline::NoneShown { best, smallest_detectable }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::RaceOutcome;

    const RATIO: Interval = Interval { value: 1.2, low: 1.1, high: 1.3 };

    fn configuration(threads: Shape, placement: &str) -> Configuration {
        Configuration { threads, placement: placement.into() }
    }

    /// A comparison with the reference `unbound` whose best is `best`, of placements with 2 and 4 threads.
    fn comparison(best: &str, at_two: &[Difference], at_four: &[Difference]) -> Verdict {
        let placement = |threads| {
            move |(at, difference): (usize, &Difference)| PlacementVerdict {
                configuration: configuration(threads, ["a", "b"][at]),
                pairs: 8,
                difference: *difference,
                disturbances: Vec::new(),
                same_as: None,
                also: Vec::new(),
            }
        };
        let best = configuration(4.into(), best);
        let two = at_two.iter().enumerate().map(placement(2.into()));
        let placements: Vec<_> = two.chain(at_four.iter().enumerate().map(placement(4.into()))).collect();
        let is_claimed = |d: &Difference| matches!(d, Difference::Faster { .. } | Difference::Slower { .. });
        let is_open = |d: &Difference| matches!(d, Difference::TooFew);
        let headline = if placements.is_empty() {
            ComparisonHeadline::NothingCompared { best }
        } else if placements.iter().any(|placement| is_claimed(&placement.difference)) {
            ComparisonHeadline::Matters { by: 0.2, best, disturbances: Vec::new() }
        } else if placements.iter().all(|placement| is_open(&placement.difference)) {
            ComparisonHeadline::TooFew { best }
        } else {
            ComparisonHeadline::NoneShown { best }
        };
        let (subject, reference) = ("app".into(), "unbound".into());
        Verdict::Comparison(ComparisonVerdict {
            subject,
            reference,
            headline,
            placements,
            same_as_reference: Vec::new(),
        })
    }

    #[test]
    fn whatever_differs_at_two_thread_counts_a_gain_is_told_only_where_the_best_has_it() {
        let (faster, slower) = (Difference::Faster { ratio: RATIO }, Difference::Slower { ratio: RATIO });
        let none = |least| Difference::NoneShown { ratio: RATIO, shown_alone: false, smallest_detectable: least };
        let all = [faster, slower, none(Some(0.03)), Difference::TooFew];
        for two in all.iter().flat_map(|a| all.iter().map(move |b| [*a, *b])) {
            for four in all.iter().flat_map(|a| all.iter().map(move |b| [*a, *b])) {
                let gains = |differences: &[Difference]| differences.contains(&faster);
                let best = match four.iter().position(|difference| *difference == faster) {
                    Some(at) => ["a", "b"][at],
                    None => "unbound",
                };
                let verdict = comparison(best, &two, &four);
                let headline = verdict.headline();
                let differs = two.iter().chain(&four).any(|d| *d == faster || *d == slower);
                assert_eq!(headline.matters(), differs, "{two:?} {four:?}: {headline:?}");
                assert_eq!(headline.is_gain(), gains(&four), "{two:?} {four:?}: {headline:?}");
                let elsewhere = matches!(&headline, Headline::GainElsewhere { threads, .. } if *threads == [2]);
                assert_eq!(elsewhere, gains(&two) && !gains(&four), "{two:?} {four:?}: {headline:?}");
                let is_best = matches!(headline, Headline::ReferenceIsBest { .. });
                assert_eq!(is_best, four == [slower; 2] && !gains(&two), "{two:?} {four:?}: {headline:?}");
                let is_open = matches!(headline, Headline::OpenAtBest { .. });
                let open = four.contains(&Difference::TooFew) && differs && !gains(&two) && !gains(&four);
                assert_eq!(is_open, open, "{two:?} {four:?}: {headline:?}");
            }
        }
        assert_eq!(
            comparison("unbound", &[], &[none(Some(0.02)), none(Some(0.03))]).headline(),
            Headline::NoneShown { best: &configuration(4.into(), "unbound"), smallest_detectable: Some(0.03) }
        );
        assert!(matches!(comparison("unbound", &[], &[]).headline(), Headline::NothingCompared { .. }));
    }

    #[test]
    fn what_a_race_finds_is_headlined_as_that() {
        let cut_off = Some(CutOff { entrants: 3, at_least: 2.27 });
        for (finding, matters, is_gain) in [
            (RaceFinding::Faster { ratio: RATIO, pairs: 8 }, true, true),
            (RaceFinding::FasterAmongAll { ratio: RATIO }, true, true),
            (RaceFinding::FasterThanCutOff { at_least: 1.6 }, true, true),
            (RaceFinding::ReferenceIsBest, true, false),
            (RaceFinding::NotShownFaster { ratio: RATIO, pairs: 8 }, true, false),
            (RaceFinding::GainUnknown, true, false),
            (RaceFinding::NoneShown { smallest_detectable: Some(0.02), cut_off: None }, false, false),
            (RaceFinding::NoneShown { smallest_detectable: Some(0.02), cut_off }, false, false),
        ] {
            let outcome = RaceOutcome {
                finding,
                best: configuration(4.into(), "a"),
                entrants: 4,
                threads: Some(4.into()),
                runs: 30,
                rivals: None,
                slowest: None,
                disturbances: Vec::new(),
            };
            let verdict = Verdict::Race(RaceVerdict { subject: "app".into(), outcome: Some(outcome) });
            assert_eq!((verdict.headline().matters(), verdict.headline().is_gain()), (matters, is_gain), "{finding:?}");
        }
        let none = Verdict::Race(RaceVerdict { subject: "app".into(), outcome: None });
        assert_eq!(none.headline(), Headline::NoAnswer);
    }
}
