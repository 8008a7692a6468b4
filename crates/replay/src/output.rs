//! What a replay shows, as one JSON object: what `stayput-replay` writes, joined with what the scheduler does.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one replay showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayOutput {
    /// The kernel's release.
    #[serde(default)]
    pub kernel: String,
    /// From the start until the last process ended or the horizon was reached.
    pub seconds: f64,
    /// Whether all processes ended.
    #[serde(default)]
    pub completed: bool,
    /// Numbers with the names of the simulator's metrics.
    pub metrics: BTreeMap<String, f64>,
    /// Distributions likewise: times in ms, rising, and how many of each.
    #[serde(default)]
    pub histograms: BTreeMap<String, Vec<(f64, u64)>>,
    /// What the reader should know.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Why a replay showed nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunFailure {
    /// It, or the scheduler that it ran under, ended with an exit code other than 0.
    #[error("exit code {code}: {stderr}")]
    ExitCode {
        /// The exit code.
        code: i32,
        /// What it wrote to standard error.
        stderr: String,
    },
    /// A signal killed it.
    #[error("killed by signal {signal}: {stderr}")]
    Signal {
        /// The signal.
        signal: i32,
        /// What it wrote to standard error.
        stderr: String,
    },
    /// It took longer than it may and was killed.
    #[error("killed after {seconds:.0} s: {stderr}")]
    TimedOut {
        /// How long it ran.
        seconds: f64,
        /// What it wrote to standard error.
        stderr: String,
    },
    /// It could not be started.
    #[error("{0}")]
    NotStarted(String),
    /// What it wrote can't be read.
    #[error("its output can't be read: {0}")]
    Unreadable(String),
    /// What the model of its caches wrote can't be read.
    #[error("what its caches missed can't be read: {0}")]
    UnreadableMisses(String),
}

impl ReplayOutput {
    /// Reads what the replay wrote, and after it what the scheduler did, where there was one. What both have is taken from the
    /// replay, which measures every scheduler alike.
    ///
    /// # Errors
    /// What is wrong with the texts.
    pub fn parse(texts: &str) -> Result<Self, serde_json::Error> {
        let mut all = serde_json::Deserializer::from_str(texts).into_iter::<Self>();
        let replay = all.next().unwrap_or_else(|| serde_json::from_str(""))?;
        all.try_fold(replay, |mut replay, scheduler| {
            let Self { mut metrics, mut histograms, notes, .. } = scheduler?;
            metrics.append(&mut replay.metrics);
            histograms.append(&mut replay.histograms);
            replay.notes.extend(notes);
            Ok(Self { metrics, histograms, ..replay })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_adds_what_the_replay_cannot_see() {
        let replay = r#"{"kernel":"7.3","workload":"w","seconds":2.5,"completed":true,"metrics":{"migrations":3},"notes":["n"]}"#;
        let scheduler = r#"{"kernel":"7.3","parameters":{},"seconds":2.6,"metrics":{"migrations":4,"moves_lost":1},
            "histograms":{"dispatch_interval_ms":[[30.0,7]]}}"#;
        let output = ReplayOutput::parse(&format!("{replay}\n{scheduler}\n")).unwrap();
        assert_eq!(output.metrics, BTreeMap::from([("migrations".into(), 3.0), ("moves_lost".into(), 1.0)]));
        assert_eq!((output.seconds, output.completed), (2.5, true));
        assert_eq!(output.histograms["dispatch_interval_ms"], [(30.0, 7)]);
        assert_eq!(ReplayOutput::parse(replay).unwrap().metrics.len(), 1);
        for broken in ["", "{", r#"{"seconds":1}"#, &format!("{replay}{{")] {
            assert!(ReplayOutput::parse(broken).is_err(), "{broken}");
        }
    }
}
