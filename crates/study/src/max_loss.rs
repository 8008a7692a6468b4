//! How much slower than the best a placement may be, and whether a race shows that it is.

use crate::analysis::{Analysis, RaceAnalysis};
use crate::metric::Metric;
use crate::plan::Plan;
use crate::race::{Race, RaceResult};
use crate::summary::{Claim, Summary};
use crate::verdict::{Interval, Verdict};
use std::str::FromStr;

/// How much slower than the best a placement may be: `5`, `5%` or `scatter=5`.
#[derive(Clone, Debug, PartialEq)]
pub struct MaxLoss {
    /// The placement, where one is named.
    pub placement: Option<String>,
    /// In percent.
    pub percent: f64,
}

impl FromStr for MaxLoss {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (placement, number) = match text.rsplit_once('=') {
            Some((placement, number)) => (Some(placement.trim().to_owned()), number),
            None => (None, text),
        };
        match number.trim().trim_end_matches('%').trim_end().parse::<f64>() {
            Ok(percent) if percent.is_finite() && percent >= 0.0 && placement.as_deref() != Some("") => {
                Ok(Self { placement, percent })
            }
            _ => Err(format!("`{text}` is no loss; write percent such as 5, or with a placement scatter=5")),
        }
    }
}

/// What a race shows of the placement whose loss is limited.
#[derive(Clone, Debug, PartialEq)]
pub struct LossVerdict {
    /// Name of the subject.
    pub subject: String,
    /// Name of the placement.
    pub placement: String,
    /// The most that it may lose, in percent.
    pub max_percent: f64,
    /// By what.
    pub metric: Metric,
    /// Its loss.
    pub loss: Loss,
}

/// The loss of a placement against the best one.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// It is itself the best.
    IsBest,
    /// It or the best has no run that went well.
    Unknown,
    /// It takes longer than the best, or may do so.
    Measured {
        /// Name of the best placement.
        best: String,
        /// Its time over that of the best.
        ratio: Interval,
    },
}

impl LossVerdict {
    /// What `race` shows of the placement that was kept in it; none where no loss is limited.
    pub fn all(race: &Race, analysis: &RaceAnalysis, max_percent: f64) -> Vec<Self> {
        let metric_of = |name: &str| {
            let subject = race.plan.subjects.iter().find(|subject| subject.name == name);
            subject.map_or_else(Metric::default, |subject| subject.metric.clone())
        };
        let kept = race.stop.kept.iter();
        let verdicts = kept.flat_map(|kept| analysis.races.iter().map(|result| (kept.clone(), result)));
        let verdict = |(placement, result): (String, &RaceResult)| {
            let (subject, loss) = (result.subject.clone(), Loss::of(&placement, result));
            Self { metric: metric_of(&subject), subject, placement, max_percent, loss }
        };
        let refused = analysis.cells.verdicts.iter().filter_map(|verdict| match verdict {
            Verdict::Refused(refused) => Some(refused.subject.clone()),
            _ => None,
        });
        let unknown = |subject: String| {
            let placement = race.stop.kept.clone()?;
            Some(Self { metric: metric_of(&subject), subject, placement, max_percent, loss: Loss::Unknown })
        };
        verdicts.map(verdict).chain(refused.filter_map(unknown)).collect()
    }

    /// What a comparison of commands shows of each but the first, or of the one that `max` names.
    pub fn of_commands(plan: &Plan, analysis: &Analysis, max: &MaxLoss) -> Vec<Self> {
        let is_meant = |name: &str| max.placement.as_deref().is_none_or(|placement| placement == name);
        let others = analysis.summaries.iter().filter(|summary| summary.claim != Claim::Reference);
        let verdict = |summary: &Summary| {
            let ratio = summary.ratio.zip(summary.ratio_low.zip(summary.ratio_high));
            let loss = ratio.map_or(Loss::Unknown, |(ratio, (low, high))| Loss::Measured {
                best: plan.reference().name.clone(),
                ratio: Interval { value: ratio.recip(), low: high.recip(), high: low.recip() },
            });
            let subject = plan.subjects.iter().find(|subject| subject.name == summary.subject);
            Self {
                subject: summary.subject.clone(),
                placement: summary.placement.clone(),
                max_percent: max.percent,
                metric: subject.map_or_else(Metric::default, |subject| subject.metric.clone()),
                loss,
            }
        };
        others.filter(|summary| is_meant(&summary.placement)).map(verdict).collect()
    }

    /// Whether the loss is shown to be above the limit, or shown not to be; none where neither is shown. What was not measured
    /// passes no check.
    pub fn is_exceeded(&self) -> Option<bool> {
        let limit = 1.0 + self.max_percent / 100.0;
        match &self.loss {
            Loss::IsBest => Some(false),
            Loss::Unknown => Some(true),
            Loss::Measured { ratio, .. } if ratio.low > limit => Some(true),
            Loss::Measured { ratio, .. } => (ratio.high <= limit).then_some(false),
        }
    }
}

impl Loss {
    fn of(placement: &str, race: &RaceResult) -> Self {
        let Some(best) = race.best() else { return Self::Unknown };
        if best.placement == placement {
            return Self::IsBest;
        }
        let mut arms = race.entrants.iter().zip(&race.standings.arms);
        let measured = arms.find(|(entrant, _)| entrant.placement == placement).and_then(|(_, standing)| {
            Some(Interval { value: standing.loss?, low: standing.loss_low?, high: standing.loss_high? })
        });
        measured.map_or(Self::Unknown, |ratio| Self::Measured { best: best.placement.clone(), ratio })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_exceeded_where_the_whole_interval_lies_above_it() {
        let verdict = |max_percent: f64, low: f64, high: f64| {
            let loss = Loss::Measured { best: "scatter".into(), ratio: Interval { value: 1.1, low, high } };
            LossVerdict {
                subject: "app".into(),
                placement: "unbound".into(),
                max_percent,
                metric: Metric::default(),
                loss,
            }
        };
        assert_eq!(verdict(5.0, 1.08, 1.12).is_exceeded(), Some(true));
        assert_eq!(verdict(10.0, 1.08, 1.12).is_exceeded(), None);
        assert_eq!(verdict(12.5, 1.08, 1.12).is_exceeded(), Some(false));
        let with = |loss| LossVerdict { loss, ..verdict(0.0, 1.0, 1.0) };
        assert_eq!(with(Loss::IsBest).is_exceeded(), Some(false));
        assert_eq!(with(Loss::Unknown).is_exceeded(), Some(true), "what was not measured passes no check");
    }
}
