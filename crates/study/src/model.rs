//! A model in place of a program: times drawn from a table and a noise model, so that a search can be tried on a machine
//! that one doesn't have. The engine that runs it is the one that runs programs.

use crate::shape::Shape;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

/// Runs over which [`Noise::drift`] is told.
pub const DRIFT_RUNS: f64 = 100.0;

/// A program's stand-in: how long each cell of a plan takes, and how that scatters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubjectModel {
    /// How long each cell takes.
    pub times: Vec<CellTime>,
    /// How that scatters.
    pub noise: Noise,
}

/// How long one cell of the plan takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellTime {
    /// Thread count.
    pub threads: Shape,
    /// Name of the treatment.
    pub placement: String,
    /// Mean of the runs that aren't slow, before drift, in seconds.
    pub mean_s: f64,
    /// Runs that take longer: with a large share, two modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<Slow>,
}

/// Some runs take longer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slow {
    /// Which share of runs (0.03 = 3 %).
    pub share: f64,
    /// How many times as long.
    pub factor: f64,
}

/// How times scatter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Relative standard deviation of a lognormal factor (0.02 = 2 %).
    pub lognormal: f64,
    /// By how much times have grown after [`DRIFT_RUNS`] runs (0.05 = 5 %); they grow steadily.
    pub drift: f64,
    /// Runs of any cell that take longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Slow>,
}

impl SubjectModel {
    /// Whether this is `other` for more cells.
    pub(crate) fn extends(&self, other: &Self) -> bool {
        self.noise == other.noise && other.times.iter().all(|time| self.times.contains(time))
    }

    /// The time of a run, in seconds; none for a cell that the model doesn't know. A function of its arguments: the same
    /// whatever ran before, but for `sequence`, by which it drifts.
    pub(crate) fn draw_s(&self, seed: u64, threads: Shape, placement: &str, block: u32, sequence: u32) -> Option<f64> {
        let position = self.times.iter().position(|time| time.threads == threads && time.placement == placement)?;
        let cell = &self.times[position];
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&(position as u64).to_le_bytes());
        key[16..20].copy_from_slice(&block.to_le_bytes());
        let mut draws = ChaCha8Rng::from_seed(key);
        // A lognormal factor with mean 1 and relative standard deviation s has the log's variance ln(1 + s^2).
        let variance = self.noise.lognormal.powi(2).ln_1p();
        let normal = Normal::standard().inverse_cdf(draws.random_range(f64::EPSILON..1.0));
        let factor = (variance.sqrt() * normal - variance / 2.0).exp();
        let mut slow = |slow: Option<Slow>| match slow {
            Some(Slow { share, factor }) if draws.random::<f64>() < share => factor,
            _ => 1.0,
        };
        let slow = slow(cell.slow) * slow(self.noise.outliers);
        let drift = 1.0 + self.noise.drift * f64::from(sequence) / DRIFT_RUNS;
        Some(cell.mean_s * factor * slow * drift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(noise: Noise, slow: Option<Slow>) -> SubjectModel {
        let time =
            |placement: &str, mean_s, slow| CellTime { threads: 2.into(), placement: placement.into(), mean_s, slow };
        SubjectModel { times: vec![time("unbound", 3.0, slow), time("compact", 2.0, None)], noise }
    }

    fn drawn_s(model: &SubjectModel, placement: &str) -> Vec<f64> {
        (0..4_000).map(|block| model.draw_s(1, 2.into(), placement, block, 0).unwrap()).collect()
    }

    #[test]
    fn times_scatter_about_their_mean_as_the_model_says() {
        let times_s = drawn_s(&model(Noise { lognormal: 0.05, ..Noise::default() }, None), "compact");
        let estimate = stats::estimate(&times_s).unwrap();
        assert!((estimate.mean_s - 2.0).abs() < 0.01, "{estimate:?}");
        assert!((estimate.relative_sd().unwrap() - 0.05).abs() < 0.003, "{estimate:?}");
    }

    #[test]
    fn slow_runs_come_as_often_as_the_model_says() {
        let slow = Slow { share: 0.4, factor: 2.0 };
        let unbound_s = drawn_s(&model(Noise::default(), Some(slow)), "unbound");
        let share = |time_s: f64| unbound_s.iter().filter(|t| (**t - time_s).abs() < 1e-9).count() as f64 / 4_000.0;
        assert!((share(6.0) - 0.4).abs() < 0.03 && (share(3.0) + share(6.0) - 1.0).abs() < 1e-12);
        let outliers = Noise { outliers: Some(Slow { share: 0.03, factor: 1.5 }), ..Noise::default() };
        let compact_s = drawn_s(&model(outliers, None), "compact");
        let far = compact_s.iter().filter(|t| **t > 2.5).count() as f64 / 4_000.0;
        assert!((far - 0.03).abs() < 0.01, "{far}");
    }

    #[test]
    fn drift_grows_with_the_runs_before() {
        let model = model(Noise { drift: 0.05, ..Noise::default() }, None);
        assert_eq!(model.draw_s(1, 2.into(), "compact", 0, 0), Some(2.0));
        assert_eq!(model.draw_s(1, 2.into(), "compact", 0, 200), Some(2.2));
        assert_eq!(model.draw_s(1, 3.into(), "compact", 0, 0), None, "another thread count isn't in the table");
    }
}
