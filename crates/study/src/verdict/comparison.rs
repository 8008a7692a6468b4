//! What a comparison of placements shows for one subject.

use super::{Configuration, Interval};
use crate::environment::merged;
use crate::summary::{Best, Claim, Summary};
use serde::{Deserialize, Serialize};
use stats::Disturbance;

/// What is shown for one subject: first whether placement matters, then each placement against the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonVerdict {
    /// Name of the subject.
    pub subject: String,
    /// Name of the treatment that the others are compared with.
    pub reference: String,
    /// Whether placement matters.
    pub headline: ComparisonHeadline,
    /// Every cell but the reference's, in the plan's order.
    pub placements: Vec<PlacementVerdict>,
    /// Treatments that are the very placement of the reference at some thread count, so that nothing was compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_as_reference: Vec<Configuration>,
}

/// Whether placement matters for a subject, and where it is best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "finding", rename_all = "kebab-case")]
pub enum ComparisonHeadline {
    /// No run went well.
    NoRuns,
    /// A placement is shown to differ from the reference.
    Matters {
        /// The largest difference that is shown, either way (0.05 = 5 %).
        by: f64,
        /// The best configuration.
        best: Configuration,
        /// What else may have made that difference, or that of the best: they were then measured on a busy machine.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        disturbances: Vec<Disturbance>,
    },
    /// No placement is shown to differ from the reference.
    NoneShown {
        /// The fastest configuration.
        best: Configuration,
    },
    /// There are too few runs to compare anything.
    TooFew {
        /// The fastest configuration so far.
        best: Configuration,
    },
    /// There is only the reference.
    NothingCompared {
        /// Its fastest configuration.
        best: Configuration,
    },
}

/// One placement against the reference with as many threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacementVerdict {
    /// Which placement, of how many threads.
    #[serde(flatten)]
    pub configuration: Configuration,
    /// Blocks in which both it and the reference went well.
    pub pairs: u32,
    /// What is shown.
    #[serde(flatten)]
    pub difference: Difference,
    /// What else may have made a difference that is shown: it was then measured on a busy machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<Disturbance>,
    /// An earlier treatment that is the very same placement at this thread count and was run, too, if there is one.
    pub same_as: Option<String>,
    /// Later treatments that are the very same placement at this thread count, for which it was run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
}

/// What is shown of a placement against the reference. A ratio is the reference's time over the placement's, so that above
/// 1 is faster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "claim", rename_all = "kebab-case")]
pub enum Difference {
    /// It is faster.
    Faster {
        /// The ratio of times.
        ratio: Interval,
    },
    /// It is slower.
    Slower {
        /// The ratio of times.
        ratio: Interval,
    },
    /// No difference is shown.
    NoneShown {
        /// The ratio of times.
        ratio: Interval,
        /// Whether the interval excludes 1, so that this would be a difference if nothing else had been compared.
        shown_alone: bool,
        /// The smallest relative difference that would have been seen with 80 % probability (0.03 = 3 %).
        smallest_detectable: Option<f64>,
    },
    /// There are too few pairs to say anything.
    TooFew,
}

impl ComparisonVerdict {
    /// What the summaries of one subject show; `best` is its best cell.
    pub(crate) fn new(subject: &str, reference: &str, summaries: &[&Summary], best: Option<&Best>) -> Self {
        Self {
            subject: subject.to_owned(),
            reference: reference.to_owned(),
            headline: ComparisonHeadline::new(summaries, best),
            placements: summaries
                .iter()
                .filter(|summary| summary.claim != Claim::Reference)
                .map(|summary| PlacementVerdict::new(summary))
                .collect(),
            same_as_reference: summaries
                .iter()
                .filter(|summary| summary.claim == Claim::Reference)
                .flat_map(|summary| {
                    let threads = summary.threads;
                    summary.also.iter().map(move |name| Configuration { threads, placement: name.clone() })
                })
                .collect(),
        }
    }
}

impl ComparisonHeadline {
    /// What else may have made the difference that it tells.
    pub fn disturbances(&self) -> &[Disturbance] {
        if let Self::Matters { disturbances, .. } = self { disturbances } else { &[] }
    }

    fn new(summaries: &[&Summary], best: Option<&Best>) -> Self {
        let Some(best) = best else { return Self::NoRuns };
        let best = Configuration { threads: best.threads, placement: best.placement.clone() };
        let is_claimed = |summary: &&&Summary| matches!(summary.claim, Claim::Faster | Claim::Slower);
        // Half as fast and twice as fast are equally far from 1.
        let distances = summaries.iter().filter(is_claimed).filter_map(|s| Some((s, s.ratio?.ln().abs())));
        if let Some((largest, distance)) = distances.max_by(|a, b| a.1.total_cmp(&b.1)) {
            let is_best = |s: &&&Summary| (s.threads, &s.placement) == (best.threads, &best.placement);
            let of_best = summaries.iter().find(is_best).map(|s| s.disturbances.clone()).unwrap_or_default();
            let disturbances = merged(largest.disturbances.clone(), of_best);
            Self::Matters { by: distance.exp() - 1.0, best, disturbances }
        } else if summaries.iter().any(|summary| summary.ratio.is_some()) {
            Self::NoneShown { best }
        } else if summaries.iter().any(|summary| summary.claim == Claim::TooFew) {
            Self::TooFew { best }
        } else {
            Self::NothingCompared { best }
        }
    }
}

impl PlacementVerdict {
    fn new(summary: &Summary) -> Self {
        let ratio = summary.ratio.zip(summary.ratio_low).zip(summary.ratio_high);
        let ratio = ratio.map(|((value, low), high)| Interval { value, low, high });
        let difference = match (summary.claim, ratio) {
            (Claim::Faster, Some(ratio)) => Difference::Faster { ratio },
            (Claim::Slower, Some(ratio)) => Difference::Slower { ratio },
            (Claim::NoneShown, Some(ratio)) => Difference::NoneShown {
                ratio,
                shown_alone: ratio.low > 1.0 || ratio.high < 1.0,
                smallest_detectable: summary.smallest_detectable,
            },
            _ => Difference::TooFew,
        };
        Self {
            configuration: Configuration { threads: summary.threads, placement: summary.placement.clone() },
            pairs: summary.pairs,
            difference,
            disturbances: summary.disturbances.clone(),
            same_as: summary.same_as.clone(),
            also: summary.also.clone(),
        }
    }
}
