//! The schedulers that a workload is replayed under.

use std::fmt;
use std::str::FromStr;

/// Who decides what runs next, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Policy {
    /// One of the simulator's, carried out by `stayput-sched`: one with boosts, or standard, which has none.
    Affinity(sim::Policy),
    /// The kernel's own scheduler, cache-aware balancing off.
    Eevdf,
    /// The same with cache-aware balancing (`SCHED_CACHE`) on.
    EevdfLlc,
    /// The kernel's own scheduler, each process bound for life.
    Attached,
    /// The kernel's own scheduler, each process asking for long slices.
    LongSlice,
}

/// The simulator's policies that `stayput-sched` carries out.
const CARRIED_OUT: [sim::Policy; 8] = [
    sim::Policy::Standard,
    sim::Policy::Light,
    sim::Policy::Heavy,
    sim::Policy::Affinity,
    sim::Policy::ComplexLight,
    sim::Policy::ComplexHeavy,
    sim::Policy::Complex,
    sim::Policy::Graded,
];

/// The longest slice that the kernel's own scheduler grants, in ms (`sched_setattr`, Linux 6.12).
pub const LONGEST_SLICE_MS: f64 = 100.0;

impl Policy {
    /// Every policy, those that `stayput-sched` carries out first.
    pub fn all() -> impl Iterator<Item = Self> {
        let own = [Self::Eevdf, Self::EevdfLlc, Self::Attached, Self::LongSlice];
        CARRIED_OUT.map(Self::Affinity).into_iter().chain(own)
    }

    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Affinity(policy) => policy.name(),
            own => own.into(),
        }
    }

    /// The simulator's policy for it, where the kernel's own scheduler is modelled.
    pub fn simulated_by(self) -> sim::Policy {
        match self {
            Self::Affinity(policy) => policy,
            Self::Eevdf => sim::Policy::Eevdf,
            Self::EevdfLlc => sim::Policy::EevdfLlc,
            Self::Attached => sim::Policy::EevdfAttached,
            Self::LongSlice => sim::Policy::EevdfLongSlice,
        }
    }

    /// The simulator's policy that stands in for it where the kernel's own scheduler isn't modelled, as in older studies; none where
    /// it has nothing of the kind.
    pub fn stand_in(self) -> Option<sim::Policy> {
        match self {
            Self::Affinity(policy) => Some(policy),
            Self::Eevdf => Some(sim::Policy::PerCpu),
            Self::EevdfLlc => None,
            Self::Attached => Some(sim::Policy::Attached),
            Self::LongSlice => Some(sim::Policy::LongQuantum),
        }
    }

    /// Whether `stayput-sched` carries it out.
    pub fn needs_scheduler(self) -> bool {
        matches!(self, Self::Affinity(_))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no such policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no policy that can be replayed: name {names}", names = Policy::all().map(Policy::name).collect::<Vec<_>>().join(", "))]
pub struct ParsePolicyError(String);

impl FromStr for Policy {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::all().find(|policy| policy.name() == text).ok_or_else(|| ParsePolicyError(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for policy in Policy::all() {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        let error = "per-cpu".parse::<Policy>().unwrap_err().to_string();
        assert!(
            error.starts_with("`per-cpu` is no policy that can be replayed: name standard, light, heavy, "),
            "{error}"
        );
    }
}
