//! One sample of what is simulated or replayed: a replicate of a workload under a policy, and what it showed.

use serde::{Deserialize, Serialize};
use stats::Metric;
use std::collections::BTreeMap;
use strum::{Display, EnumString};

/// A replicate of one subject under one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Position in the study, from 0.
    pub sequence: u32,
    /// Which replicate it is, from 0: those of one number have the same draws, whatever the subject and the policy.
    pub replicate: u32,
    /// Name of what runs: a workload, a point of a sweep, or a workload in one of two worlds.
    pub subject: String,
    /// Name of the policy.
    pub policy: String,
    /// When it began: of a replay, in seconds since 1970 (UTC); of a simulation, in seconds of the simulated clock, as if one
    /// replicate had followed the other.
    pub started_s: f64,
    /// What it showed, or why it showed nothing.
    pub result: Result<Measurements, Failure>,
}

/// What a sample showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurements {
    /// From the start until the last process or job ended, or until the horizon, in seconds.
    pub makespan_s: f64,
    /// Numbers.
    #[serde(with = "pairs")]
    pub metrics: BTreeMap<Metric, f64>,
    /// Distributions: values in the metric's unit, rising, and how many of each.
    #[serde(with = "pairs")]
    pub histograms: BTreeMap<Metric, Vec<(f64, u64)>>,
    /// What the reader should know of this sample.
    pub notes: Vec<String>,
}

/// Why a sample showed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure it was.
    pub cause: FailureCause,
    /// What happened, in a sentence.
    pub what: String,
}

/// What can become of a replay. A simulation doesn't fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, Serialize, Deserialize)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum FailureCause {
    /// It, or the scheduler that it ran under, ended with an exit code other than 0.
    ExitCode,
    /// A signal killed it.
    Signal,
    /// It took longer than it may.
    Timeout,
    /// It could not be started.
    NotStarted,
    /// What it wrote can't be read.
    Unreadable,
    /// A journal of an older version doesn't say.
    Unknown,
}

/// A map whose keys are no texts, as JSON can say it: pairs of key and value.
mod pairs {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    pub(super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<K, V>, D::Error> {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// Values by metric, from values by the metrics' written names.
pub fn by_metric<T>(by_name: BTreeMap<String, T>) -> BTreeMap<Metric, T> {
    by_name.into_iter().map(|(name, value)| (Metric::from_name(&name), value)).collect()
}

impl Sample {
    /// What it showed, where it didn't fail.
    pub fn measurements(&self) -> Option<&Measurements> {
        self.result.as_ref().ok()
    }

    /// Its number of `metric`, where it has one.
    pub fn value(&self, metric: &Metric) -> Option<f64> {
        self.measurements()?.metrics.get(metric).copied()
    }
}
