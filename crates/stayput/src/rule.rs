//! Options of the scheduling rule, which simulations and replays share.

use crate::UsageError;
use sim::{Decay, Parameters, Policy};

/// What is given of the rule; the rest is the workload's, or the report's.
#[derive(clap::Args)]
pub(crate) struct RuleArgs {
    /// Boost for who last ran on the searching CPU, in units of priority, for the policies that leave it open
    #[arg(long, value_name = "N")]
    phi_p: Option<u32>,
    /// Boost for who has just run there, likewise
    #[arg(long, value_name = "N")]
    phi_t: Option<u32>,
    /// Quantum in ms [default: 30]
    #[arg(long, value_name = "Q")]
    quantum_ms: Option<f64>,
    /// How accumulated CPU time decays each period: half, bsd, none, or subtract=TICKS (subtract is subtract=50)
    /// [default: half]
    #[arg(long, value_name = "RULE")]
    decay: Option<Decay>,
}

impl RuleArgs {
    /// `defaults` with what is given.
    pub(crate) fn over(&self, defaults: Parameters) -> Parameters {
        Parameters {
            phi_p: self.phi_p.unwrap_or(defaults.phi_p),
            phi_t: self.phi_t.unwrap_or(defaults.phi_t),
            quantum_ms: self.quantum_ms.unwrap_or(defaults.quantum_ms),
            decay: self.decay.unwrap_or(defaults.decay),
            ..defaults
        }
    }

    /// Whether a boost is given.
    pub(crate) fn gives_phi(&self) -> bool {
        self.phi_p.is_some() || self.phi_t.is_some()
    }
}

/// Boosts that none of the policies heeds are a mistake.
pub(crate) fn check_phi_is_heeded(policies: impl IntoIterator<Item = Policy>) -> anyhow::Result<()> {
    if policies.into_iter().any(Policy::heeds_phi) {
        return Ok(());
    }
    Err(UsageError::from(
        "phi changes nothing under these policies, whose boosts are fixed; add affinity, complex or graded to --policy",
    ))
}
