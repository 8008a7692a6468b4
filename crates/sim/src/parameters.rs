//! Policies, and the numbers that they and the machine are simulated with.

use crate::decay::Decay;
use crate::eevdf::KernelParameters;
use crate::index::all;
use crate::rule::{Distance, PHI_HEAVY, PHI_LIGHT, PHI_MAX, Phi, TimeBoost};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumCount, EnumString, IntoStaticStr, VariantArray};

/// Who runs next, and where.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", parse_err_ty = ParsePolicyError, parse_err_fn = unknown)]
pub enum Policy {
    /// One queue in the order of arrival, without priorities.
    RoundRobin,
    /// The report's standard UNIX scheduler: one queue by priority.
    Standard,
    /// Standard with the boosts 6 and 6.
    Light,
    /// Standard with the boosts 16 and 16.
    Heavy,
    /// Standard with the boosts of [`Parameters::phi_p`] and [`Parameters::phi_t`].
    Affinity,
    /// The report's complex variant with 6 and 6.
    ComplexLight,
    /// The report's complex variant with 16 and 16.
    ComplexHeavy,
    /// The complex variant with the boosts of the parameters.
    Complex,
    /// The boosts of the parameters, phi_p falling with distance.
    Graded,
    /// Bound for life to the CPU that had the fewest living processes bound when the process arrived; of equals the first.
    /// On each CPU, standard.
    Attached,
    /// Standard with [`Parameters::long_quantum_ms`].
    LongQuantum,
    /// A queue for each CPU, as in today's kernels. A waking process goes back to its CPU, or to an idle one under the same
    /// last-level cache, a new one to the CPU with the fewest; a CPU that would idle takes from the nearest CPU with processes
    /// waiting; periodically each evens out with the fullest. Within a queue, standard, so that only where differs: not what
    /// any kernel does, for which there is [`Policy::Eevdf`].
    PerCpu,
    /// Linux's own fair scheduler, of the kernel in [`Parameters::kernel`]: [`crate::eevdf`].
    Eevdf,
    /// The same with cache-aware balancing (`SCHED_CACHE`): threads of one process gather under one last-level cache.
    EevdfLlc,
    /// The same with each process bound for life, as [`Policy::Attached`] binds it.
    EevdfAttached,
    /// The same with each process asking for slices of [`Parameters::long_quantum_ms`], or as long as the kernel grants.
    EevdfLongSlice,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; Self::VARIANTS.len()] = all(Self::VARIANTS);

    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it is a kernel's own scheduler, and heeds [`Parameters::kernel`].
    pub fn is_kernels(self) -> bool {
        matches!(self, Self::Eevdf | Self::EevdfLlc | Self::EevdfAttached | Self::EevdfLongSlice)
    }

    /// Whether its boosts are those of [`Parameters::phi_p`] and [`Parameters::phi_t`], instead of fixed ones or none.
    pub fn heeds_phi(self) -> bool {
        matches!(self, Self::Affinity | Self::Complex | Self::Graded)
    }
}

/// A text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no time-sharing policy: name {names}", names = Policy::ALL.map(Policy::name).join(", "))]
pub struct ParsePolicyError(String);

fn unknown(text: &str) -> ParsePolicyError {
    ParsePolicyError(text.into())
}

/// Which idle CPU takes a process that wakes or arrives, under the policies with one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wake {
    /// Any: all idle CPUs look at the queue, and one of them is first. The report's words, taken literally.
    Any,
    /// The one nearest to where it last ran, that one first.
    Nearest,
}

/// When a quantum is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuantumEnd {
    /// So long after the dispatch.
    Elapsed,
    /// At the clock tick that makes it so many ticks, as UNIX counts it: up to a tick early.
    Ticks,
}

/// How the CPUs' clocks stand to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clocks {
    /// Each has its own phase, drawn once.
    Random,
    /// They tick at the same moments. CPUs whose quanta end together then look at the queue in random order, when there is
    /// jitter.
    Together,
}

/// The numbers of a simulation. The defaults are the report's, or a choice where it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// phi_p of the policies that leave it open, in units of priority.
    pub phi_p: u32,
    /// phi_t of the policies that leave it open, in units of priority.
    pub phi_t: u32,
    /// phi_p by distance for [`Policy::Graded`]: same CPU, same core, same L2 or module, same L3, same node; without it,
    /// [`graded_by_distance`].
    pub graded: Option<[u32; 5]>,
    /// What each tick away takes from phi_t in the complex variant, in units of priority; 1 in the report.
    pub fade_per_tick: u32,
    /// Clock tick (10 ms in the report).
    pub tick_ms: f64,
    /// How the CPUs' clocks stand to one another; not in the report.
    pub clocks: Clocks,
    /// Quantum (30 ms in the report).
    pub quantum_ms: f64,
    /// When it is over; not in the report.
    pub quantum_end: QuantumEnd,
    /// Quantum of [`Policy::LongQuantum`]; our choice: as long as light affinity's slices.
    pub long_quantum_ms: f64,
    /// How much later than due the clock may end a quantum: anything from 0 to this, equally likely. Without it equal
    /// processes go round in step for ever, and a standard scheduler shows no migrations. Our choice.
    pub jitter_us: f64,
    /// Time that switching to another process takes; not in the report.
    pub switch_us: f64,
    /// How long it takes, where a process wakes another and a CPU idles, until the other is in that CPU's queue: an idle CPU is told by an
    /// interrupt. Not in the report; what it is on a machine, a profile measures. Not told where it is 0, as of simulations before there was such a
    /// parameter.
    #[serde(skip_serializing_if = "is_zero")]
    pub wake_us: f64,
    /// Time of one unsuccessful attempt at a lock or barrier; our choice.
    pub attempt_us: f64,
    /// Decay rule; the report says "to a fraction", System V halved.
    pub decay: Decay,
    /// Decay period; one second in System V and 4.3BSD.
    pub decay_period_ms: f64,
    /// Which idle CPU takes a waking process.
    pub wake: Wake,
    /// How often queues are evened out under [`Policy::PerCpu`]; our choice.
    pub balance_period_ms: f64,
    /// The kernel whose fair scheduler is modelled, and its numbers; the newest one's where none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelParameters>,
    /// When to stop at the latest; needed when some process never ends.
    pub horizon_ms: Option<f64>,
    /// How many times the workload is run, each time with other draws.
    pub replicates: u32,
    /// Where the draws start. The same seed gives the same bytes.
    pub seed: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(us: &f64) -> bool {
    *us == 0.0
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            phi_p: PHI_LIGHT,
            phi_t: PHI_LIGHT,
            graded: None,
            fade_per_tick: 1,
            tick_ms: 10.0,
            clocks: Clocks::Together,
            quantum_ms: 30.0,
            quantum_end: QuantumEnd::Ticks,
            long_quantum_ms: 240.0,
            jitter_us: 100.0,
            switch_us: 0.0,
            wake_us: 0.0,
            attempt_us: 100.0,
            decay: Decay::Half,
            decay_period_ms: 1_000.0,
            wake: Wake::Any,
            balance_period_ms: 100.0,
            kernel: None,
            horizon_ms: None,
            replicates: 10,
            seed: 1,
        }
    }
}

/// What becomes of `phi_p` with distance unless it is said otherwise: all of it for the same CPU and the same core, whose caches are the
/// same, then less for the same L2 or module, the same L3 and the same node. Our choice.
pub fn graded_by_distance(phi_p: u32) -> [u32; 5] {
    [phi_p, phi_p, phi_p * 2 / 3, phi_p / 3, phi_p / 6]
}

/// A parameter that can't be simulated with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParameterError {
    /// A time is out of range.
    #[error("`{name}` is {value}; it must be a number from {least} to {most}")]
    Range {
        /// The parameter.
        name: &'static str,
        /// What it is.
        value: f64,
        /// The least that it may be.
        least: f64,
        /// The most that it may be.
        most: f64,
    },
    /// A boost grows with distance.
    #[error("`graded` is {0:?}; affinity must not grow with distance")]
    Graded([u32; 5]),
}

/// Checks each parameter, given by its name, value, and the least and the most that it may be.
pub(crate) fn check_ranges(values: &[(&'static str, f64, f64, f64)]) -> Result<(), ParameterError> {
    match values.iter().find(|(_, value, least, most)| !(least..=most).contains(&value)) {
        Some(&(name, value, least, most)) => Err(ParameterError::Range { name, value, least, most }),
        None => Ok(()),
    }
}

/// The longest time that can be asked for, in ms: a year.
pub(crate) const LONGEST_MS: f64 = 365.0 * 86_400_000.0;

impl Parameters {
    /// Whether one can simulate with them.
    ///
    /// # Errors
    /// [`ParameterError`] names the first that is wrong.
    pub fn check(&self) -> Result<(), ParameterError> {
        let nanosecond_ms = 1e-6;
        let count = |n: u32| f64::from(n);
        let most_phi = count(PHI_MAX);
        // Below a microsecond a simulated second would take hours.
        check_ranges(&[
            ("phi_p", count(self.phi_p), 0.0, most_phi),
            ("phi_t", count(self.phi_t), 0.0, most_phi),
            ("tick_ms", self.tick_ms, 1e-3, LONGEST_MS),
            ("quantum_ms", self.quantum_ms, 1e-3, LONGEST_MS),
            ("long_quantum_ms", self.long_quantum_ms, 1e-3, LONGEST_MS),
            ("jitter_us", self.jitter_us, 0.0, 1e3 * LONGEST_MS),
            ("switch_us", self.switch_us, 0.0, 1e3 * LONGEST_MS),
            ("wake_us", self.wake_us, 0.0, 1e3 * LONGEST_MS),
            ("attempt_us", self.attempt_us, 1e-3, 1e3 * LONGEST_MS),
            ("decay_period_ms", self.decay_period_ms, 1e-3, LONGEST_MS),
            ("balance_period_ms", self.balance_period_ms, 1e-3, LONGEST_MS),
            ("horizon_ms", self.horizon_ms.unwrap_or(1.0), nanosecond_ms, LONGEST_MS),
            ("replicates", count(self.replicates), 1.0, 1e6),
        ])?;
        self.kernel.as_ref().map_or(Ok(()), KernelParameters::check)?;
        match self.graded {
            Some(graded) if !graded.is_sorted_by(|near, far| near >= far) || graded[0] > PHI_MAX => {
                Err(ParameterError::Graded(graded))
            }
            _ => Ok(()),
        }
    }

    /// The boosts of a policy.
    pub(crate) fn phi(&self, policy: Policy) -> Phi {
        let here = |p: u32| [p, 0, 0, 0, 0, 0];
        let complex = |p: u32, t: u32| Phi::new(here(p), t, TimeBoost::Complex, self.fade_per_tick);
        let simple = |by_distance: [u32; Distance::COUNT], t: u32| Phi::new(by_distance, t, TimeBoost::Simple, 0);
        match policy {
            Policy::RoundRobin
            | Policy::Standard
            | Policy::Attached
            | Policy::LongQuantum
            | Policy::PerCpu
            | Policy::Eevdf
            | Policy::EevdfLlc
            | Policy::EevdfAttached
            | Policy::EevdfLongSlice => simple(here(0), 0),
            Policy::Light => simple(here(PHI_LIGHT), PHI_LIGHT),
            Policy::Heavy => simple(here(PHI_HEAVY), PHI_HEAVY),
            Policy::Affinity => simple(here(self.phi_p), self.phi_t),
            Policy::ComplexLight => complex(PHI_LIGHT, PHI_LIGHT),
            Policy::ComplexHeavy => complex(PHI_HEAVY, PHI_HEAVY),
            Policy::Complex => complex(self.phi_p, self.phi_t),
            Policy::Graded => {
                let [cpu, core, l2, l3, node] = self.graded.unwrap_or_else(|| graded_by_distance(self.phi_p));
                simple([cpu, core, l2, l3, node, 0], self.phi_t)
            }
        }
    }
}
