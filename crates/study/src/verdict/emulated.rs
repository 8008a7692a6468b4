//! What a study in an emulated machine shows: nothing by its times, and what it shows by what was counted.

use super::{Configuration, Interval};
use crate::metric_summary::MetricSummary;
use crate::summary::{Claim, Summary};
use serde::{Deserialize, Serialize};

/// What is shown for one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EmulatedVerdict {
    /// Name of the subject.
    pub subject: String,
    /// Name of the treatment that the others are compared with.
    pub reference: String,
    /// Whether anything is counted in its runs.
    pub is_counted: bool,
    /// Each metric of each cell but the reference's that both have numbers of; none where too little was counted.
    pub metrics: Vec<MetricVerdict>,
}

/// One metric under one treatment against the reference with as many threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricVerdict {
    /// Which treatment, with how many threads.
    #[serde(flatten)]
    pub configuration: Configuration,
    /// Name of the metric.
    pub metric: String,
    /// How much better it is, above 1, or worse, below.
    pub ratio: Interval,
    /// Blocks in which both were counted.
    pub pairs: u32,
    /// Whether it is shown to be better (faster) or worse (slower).
    pub claim: Claim,
}

impl MetricVerdict {
    /// Those of one cell.
    pub(crate) fn of_summary(summary: &Summary) -> Vec<Self> {
        let of_metric = |metric: &MetricSummary| {
            let (value, low, high) = (metric.ratio?, metric.ratio_low?, metric.ratio_high?);
            Some(Self {
                configuration: Configuration { threads: summary.threads, placement: summary.placement.clone() },
                metric: metric.metric.name.clone(),
                ratio: Interval { value, low, high },
                pairs: metric.pairs,
                claim: metric.claim,
            })
        };
        summary.metrics.iter().filter_map(of_metric).collect()
    }

    /// Whether a difference is shown.
    pub fn is_shown(&self) -> bool {
        matches!(self.claim, Claim::Faster | Claim::Slower)
    }
}
