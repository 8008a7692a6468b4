//! What the trials of a study say: a summary of each cell, and the verdict in words.

use serde::{Deserialize, Serialize};

/// What is claimed of a placement against the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// It is the reference itself.
    Reference,
    /// It is faster than the reference.
    Faster,
    /// It is slower than the reference.
    Slower,
    /// No difference is shown.
    NoneShown,
    /// There are too few pairs to say anything.
    TooFew,
}

/// One cell of the table: a subject with so many threads under one treatment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the subject.
    pub subject: String,
    /// Thread count.
    pub threads: u32,
    /// Name of the treatment.
    pub placement: String,
    /// Trials that count: ok, and not warm-up.
    pub trials: u32,
    /// Trials that failed, warm-up left out.
    pub failed: u32,
    /// Median time, in seconds.
    pub median_s: Option<f64>,
    /// Mean time, in seconds.
    pub mean_s: Option<f64>,
    /// Standard deviation over mean (0.05 = 5 %).
    pub relative_sd: Option<f64>,
    /// Fastest, in seconds.
    pub min_s: Option<f64>,
    /// Slowest, in seconds.
    pub max_s: Option<f64>,
    /// Reference time over this time, estimated from pairs of the same block: above 1 is faster than the reference.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's 95 % interval.
    pub ratio_low: Option<f64>,
    /// Upper end of the ratio's 95 % interval.
    pub ratio_high: Option<f64>,
    /// Blocks in which both this and the reference went well.
    pub pairs: u32,
    /// Probability of a ratio this far from 1 if there were no difference.
    pub p_value: Option<f64>,
    /// Smallest relative difference that would have been seen with 80 % probability (0.03 = 3 %).
    pub smallest_detectable: Option<f64>,
    /// What is claimed of it.
    pub claim: Claim,
    /// Median of the reference at the plan's smallest thread count, over this median, when that count is 1.
    pub speedup: Option<f64>,
    /// Change of the times from the first to the last block (0.02 = 2 % slower at the end), when a trend is shown.
    pub drift: Option<f64>,
    /// Sequence numbers of trials that lie far from the others; they still count.
    pub outliers: Vec<u32>,
    /// Whether the stop rule was met.
    pub settled: bool,
    /// An earlier treatment that is the very same placement at this thread count, if there is one.
    pub same_as: Option<String>,
}

/// The best cell of one subject, over all thread counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Name of the subject.
    pub subject: String,
    /// Thread count.
    pub threads: u32,
    /// Name of the treatment.
    pub placement: String,
    /// Whether it is shown to be better than unbound with as many threads.
    pub shown: bool,
}

/// All that is concluded from a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// Every cell, in the plan's order: subject, then threads, then treatment.
    pub summaries: Vec<Summary>,
    /// The best cell of every subject that has one.
    pub best: Vec<Best>,
    /// Sentences, the answer first, each with its doubt.
    pub verdicts: Vec<String>,
    /// What disturbed the study or limits it, in sentences.
    pub warnings: Vec<String>,
}
