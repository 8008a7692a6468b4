//! A policy's times in whole nanoseconds.

use crate::behaviour::ns;
use crate::decay::Decay;
use crate::parameters::{Parameters, Policy, QuantumEnd};
use crate::rule;

/// The period over which the load average is taken.
const LOAD_PERIOD_NS: u64 = 60_000_000_000;

/// Times of one policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) tick_ns: u64,
    pub(crate) quantum_ns: u64,
    /// The quantum in ticks, when it is counted in them.
    pub(crate) quantum_ticks: Option<u64>,
    pub(crate) jitter_ns: u64,
    pub(crate) switch_ns: u64,
    pub(crate) wake_ns: u64,
    pub(crate) attempt_ns: u64,
    pub(crate) decay: Decay,
    pub(crate) decay_period_ns: u64,
    pub(crate) balance_period_ns: u64,
    /// When to stop at the latest.
    pub(crate) horizon_ns: u64,
}

impl Timing {
    /// From parameters that were checked.
    pub(crate) fn new(parameters: &Parameters, policy: Policy) -> Self {
        let long = policy == Policy::LongQuantum;
        let tick_ns = ns(parameters.tick_ms);
        let quantum_ns = ns(if long { parameters.long_quantum_ms } else { parameters.quantum_ms });
        Self {
            tick_ns,
            quantum_ns,
            quantum_ticks: (parameters.quantum_end == QuantumEnd::Ticks).then(|| quantum_ns.div_ceil(tick_ns)),
            jitter_ns: ns(parameters.jitter_us / 1e3),
            switch_ns: ns(parameters.switch_us / 1e3),
            wake_ns: ns(parameters.wake_us / 1e3),
            attempt_ns: ns(parameters.attempt_us / 1e3),
            decay: parameters.decay,
            decay_period_ns: ns(parameters.decay_period_ms),
            balance_period_ns: ns(parameters.balance_period_ms),
            horizon_ns: parameters.horizon_ms.map_or(u64::MAX, ns),
        }
    }

    /// The load average after another decay period in which there were so many processes for each CPU, both in units of
    /// 1 / [`rule::LOAD_ONE`]: a moving average that gives the new value the weight of its share of a minute.
    pub(crate) fn load(&self, before: Option<u32>, now: u32) -> u32 {
        let Some(before) = before else {
            return now;
        };
        let weight = self.decay_period_ns.min(LOAD_PERIOD_NS);
        let average = (u128::from(before) * u128::from(LOAD_PERIOD_NS - weight) + u128::from(now) * u128::from(weight))
            / u128::from(LOAD_PERIOD_NS);
        average as u32
    }

    /// Ticks after a decay period at a load average.
    pub(crate) fn decayed(&self, cpu_ticks: u32, load: u32) -> u32 {
        let argument = match self.decay {
            Decay::None | Decay::Half => 0,
            Decay::Bsd => load,
            Decay::Subtract(ticks) => ticks,
        };
        rule::decay(cpu_ticks, self.decay, argument)
    }
}
