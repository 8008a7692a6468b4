//! What a play tells, as one JSON object: the player's, joined with the scheduler's.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one play showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
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

impl Told {
    /// Reads what the player told, and after it what the scheduler did, where there was one. What both tell is the player's:
    /// under every scheduler it measures alike.
    ///
    /// # Errors
    /// What is wrong with the texts.
    pub fn parse(texts: &str) -> Result<Self, serde_json::Error> {
        let mut all = serde_json::Deserializer::from_str(texts).into_iter::<Self>();
        let player = all.next().unwrap_or_else(|| serde_json::from_str(""))?;
        all.try_fold(player, |mut player, scheduler| {
            let scheduler = scheduler?;
            for (name, value) in scheduler.metrics {
                player.metrics.entry(name).or_insert(value);
            }
            for (name, histogram) in scheduler.histograms {
                player.histograms.entry(name).or_insert(histogram);
            }
            player.notes.extend(scheduler.notes);
            Ok(player)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_adds_what_the_player_cannot_see() {
        let player = r#"{"kernel":"7.3","workload":"w","seconds":2.5,"completed":true,"metrics":{"migrations":3},"notes":["n"]}"#;
        let scheduler = r#"{"kernel":"7.3","parameters":{},"seconds":2.6,"metrics":{"migrations":4,"moves_lost":1},
            "histograms":{"dispatch_interval_ms":[[30.0,7]]}}"#;
        let told = Told::parse(&format!("{player}\n{scheduler}\n")).unwrap();
        assert_eq!(told.metrics, BTreeMap::from([("migrations".into(), 3.0), ("moves_lost".into(), 1.0)]));
        assert_eq!((told.seconds, told.completed), (2.5, true));
        assert_eq!(told.histograms["dispatch_interval_ms"], [(30.0, 7)]);
        assert_eq!(Told::parse(player).unwrap().metrics.len(), 1);
        for broken in ["", "{", r#"{"seconds":1}"#, &format!("{player}{{")] {
            assert!(Told::parse(broken).is_err(), "{broken}");
        }
    }
}
