//! Policies of space sharing, and the numbers that they are simulated with.

use crate::index::all;
use crate::parameters::{LONGEST_MS, ParameterError, check_ranges};
use crate::workload::Distribution;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// Which job has which CPUs, and which of its workers runs there. Section 5.1 of the cache-affinity report.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", parse_err_ty = ParsePolicyError, parse_err_fn = unknown)]
pub enum Policy {
    /// Equal shares, which change only when a job arrives or is done.
    Equipartition,
    /// A job has what it can use. A request is served by a CPU that nobody has (D.1), by one whose job can't use it (D.2), or
    /// by one of the job that has most (D.3), if that has over one more than the job that asks.
    Dynamic,
    /// The same, but a CPU goes to the worker that ran there last, if it can run and no job with fewer CPUs asks (A.1), and who
    /// asks names the CPU where the worker that it most needs ran last (A.2).
    DynamicAffinity,
    /// The same, but a job keeps a CPU for [`Parameters::yield_delay_ms`] before others may have it.
    DynamicAffinityDelay,
    /// [`Policy::DynamicAffinity`] with A.1 whoever else asks.
    DynamicAffinityNoPriority,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; Self::VARIANTS.len()] = all(Self::VARIANTS);

    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no space-sharing policy: name {names}", names = Policy::ALL.map(Policy::name).join(", "))]
pub struct ParsePolicyError(String);

fn unknown(text: &str) -> ParsePolicyError {
    ParsePolicyError(text.into())
}

/// What a policy heeds.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Shares are equal, and change with arrivals and departures alone.
    pub(super) equal_shares: bool,
    /// A.1 and A.2.
    pub(super) affinity: bool,
    /// A.1 asks whether a job with fewer CPUs wants the CPU.
    pub(super) priority: bool,
    /// How long a job keeps a CPU that it can't use, in ns.
    pub(super) yield_delay_ns: u64,
}

impl Rules {
    /// Those of a policy, of which only [`Policy::DynamicAffinityDelay`] heeds the delay.
    pub fn new(policy: Policy, yield_delay_ns: u64) -> Self {
        Self {
            equal_shares: policy == Policy::Equipartition,
            affinity: !matches!(policy, Policy::Equipartition | Policy::Dynamic),
            priority: policy != Policy::DynamicAffinityNoPriority,
            yield_delay_ns: if policy == Policy::DynamicAffinityDelay { yield_delay_ns } else { 0 },
        }
    }

    /// Whether a job keeps CPUs that it has nothing for: for a while, or for good under equal shares.
    pub fn keeps_idle(self) -> bool {
        self.equal_shares || self.yield_delay_ns > 0
    }
}

/// The numbers of a simulation. All are choices: the report has none for space sharing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// Time from one job's arrival to the next, in ms at [`Parameters::speed`] 1; jobs arrive in a drawn order. All at once when
    /// absent.
    pub gap_ms: Option<Distribution>,
    /// How many times as fast as where the graphs were measured the CPUs work.
    pub speed: f64,
    /// How many times as large as there the working sets of tasks are.
    pub data: f64,
    /// Time that it takes to give a CPU to another worker, in µs, at [`Parameters::speed`] 1.
    pub switch_us: f64,
    /// How long [`Policy::DynamicAffinityDelay`] keeps a CPU, in ms, at [`Parameters::speed`] 1.
    pub yield_delay_ms: f64,
    /// How many of the workers that ran on a CPU it remembers, for A.1: the one that gives it up, and those before.
    pub history: u32,
    /// When to stop at the latest, in ms.
    pub horizon_ms: Option<f64>,
    /// How many times the mix is run, each time with other draws.
    pub replicates: u32,
    /// Where the draws start. The same seed gives the same bytes.
    pub seed: u64,
}

/// Most workers that a CPU remembers.
pub const MOST_HISTORY: usize = 8;

impl Default for Parameters {
    fn default() -> Self {
        Self {
            // A small part of what a job takes, so that jobs meet in all their phases.
            gap_ms: Some(Distribution::Exponential(2.0)),
            speed: 1.0,
            data: 1.0,
            switch_us: 2.0,
            yield_delay_ms: 0.05,
            history: 2,
            horizon_ms: None,
            replicates: 40,
            seed: 1,
        }
    }
}

impl Parameters {
    /// The defaults, with [`Parameters::speed`] and [`Parameters::data`] of a machine by its name.
    ///
    /// For the Sequent Symmetry both are our choice: a multiplication of matrices does some 50 Gflop/s on a core where the graphs
    /// were measured and well below 0.1 on a 16 MHz 80386, so tasks of the same work would take thousands of times as long; a
    /// thousand leaves room for programs of their time. Its caches of 64 KiB are a thirty-second of the 2 MiB there, and
    /// programs that are blocked for a cache have blocks to fit it.
    pub fn for_machine(name: &str) -> Self {
        match name {
            "sequent-symmetry" => Self { speed: 1e-3, data: 1.0 / 32.0, ..Self::default() },
            _ => Self::default(),
        }
    }

    /// Whether one can simulate with them.
    ///
    /// # Errors
    /// [`ParameterError`] names the first that is wrong.
    pub fn check(&self) -> Result<(), ParameterError> {
        check_ranges(&[
            ("speed", self.speed, 1e-6, 1e6),
            ("data", self.data, 1e-6, 1e6),
            ("switch_us", self.switch_us, 0.0, 1e9),
            ("yield_delay_ms", self.yield_delay_ms, 0.0, LONGEST_MS),
            ("history", f64::from(self.history), 1.0, MOST_HISTORY as f64),
            ("horizon_ms", self.horizon_ms.unwrap_or(1.0), 1e-6, LONGEST_MS),
            ("replicates", f64::from(self.replicates), 1.0, 1e6),
        ])?;
        self.gap_ms.as_ref().map_or(Ok(()), |gap| {
            let value = crate::fault::mean_ms(gap);
            let wrong = ParameterError::Range { name: "gap_ms", value, least: 0.0, most: LONGEST_MS };
            crate::fault::distribution(gap, "gap_ms").map_err(|_| wrong)
        })
    }
}
