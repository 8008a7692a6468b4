//! The plan of a simulation: what is simulated, with which numbers, under which policies, how often.

use crate::sharing::{Sharing, sweepable};
use machine::Machine;
use machine::record::{MachineRecord, ObjectRecord};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim::cache::{HierarchyError, Timing};
use sim::space as space_sharing;
use sim::{ExperimentError, Parameters, ParsePolicyError, Policy, Release, Workload};
use std::collections::HashSet;
use std::fmt::Display;
use std::num::NonZeroU64;
use study::bounds::check_count;
use study::kind::Kind;
use study::plan::PlanError;
use study::sample::Sample;

/// A study that simulates: every point under every policy, once a replicate. Replicate r has the same draws under every policy
/// and at every point, so that policies are compared pair by pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationPlan {
    /// The points of a sweep, or several mixes, or a single simulation.
    pub points: Vec<Point>,
    /// Names of the policies, the one that others are compared with first where it is among them.
    pub policies: Vec<String>,
    /// The policy that others are compared with, where that isn't the usual one of how CPUs are shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// CPUs of the simulated machine.
    pub cpus: u32,
    /// Samples of each point under each policy.
    pub replicates: u32,
    /// Where the draws start.
    pub seed: u64,
    /// Where this isn't what was asked for, and why: sentences, told in every report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub departures: Vec<String>,
}

/// A simulation by the name that its samples have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// What runs, and the point of the sweep.
    pub name: String,
    /// What is simulated.
    pub simulation: Simulation,
}

impl SimulationPlan {
    /// The plan of `simulations` under `policies`, each once, on `machine`.
    pub fn new<P: Display>(simulations: Vec<Simulation>, policies: &[P], machine: &Machine) -> Self {
        let usual = simulations.first().map(|first| first.sharing.reference());
        let (replicates, seed) = simulations.first().map_or((1, 1), |first| first.sharing.replicates());
        let point = |simulation: Simulation| Point { name: simulation.name_with_point(), simulation };
        Self {
            points: simulations.into_iter().map(point).collect(),
            policies: first_of_all(unique_names(policies), usual),
            reference: None,
            cpus: machine.usable().count() as u32,
            replicates,
            seed,
            departures: Vec::new(),
        }
    }

    /// The same with `policy` as what the others are compared with. What they would be compared with otherwise comes last: reports
    /// say first what the policy after the reference changes.
    pub fn compared_with(mut self, policy: &str) -> Self {
        let former = self.reference().map(str::to_owned);
        self.policies.sort_by_key(|name| (name != policy, Some(name) == former.as_ref()));
        Self { reference: Some(policy.to_owned()), ..self }
    }

    /// The policy that others are compared with, whether it is simulated or not.
    pub fn reference(&self) -> Option<&str> {
        self.reference.as_deref().or_else(|| Some(self.first()?.sharing.reference()))
    }

    /// The kernel whose own scheduler the others are compared with; none where that is another policy.
    pub fn reference_kernel(&self) -> Option<Release> {
        let policy: Policy = self.reference()?.parse().ok()?;
        policy.is_kernels().then(|| self.first()?.sharing.kernel()).flatten()
    }

    /// How many samples there are in all.
    pub fn samples(&self) -> u64 {
        u64::from(self.replicates) * self.points.len() as u64 * self.policies.len() as u64
    }

    /// The sample at `position` in the order in which they are taken, below [`Self::samples`]: its replicate, the position of its point,
    /// and its policy.
    pub(crate) fn at(&self, position: u32) -> (u32, usize, &str) {
        let (points, policies) = (self.points.len() as u32, self.policies.len() as u32);
        let (replicate, of_replicate) = (position / (points * policies), position % (points * policies));
        (replicate, (of_replicate / policies) as usize, &self.policies[(of_replicate % policies) as usize])
    }

    /// The first simulation: what all points have in common stands in it.
    pub fn first(&self) -> Option<&Simulation> {
        self.points.first().map(|point| &point.simulation)
    }
}

/// `names` with `first` before all others, where it is among them.
fn first_of_all(mut names: Vec<String>, first: Option<&str>) -> Vec<String> {
    names.sort_by_key(|name| Some(name.as_str()) != first);
    names
}

/// More points of a sweep than anybody reads.
const MOST_POINTS: usize = 4000;

/// Whether no policy comes twice; with that there are no more than there are names.
pub(crate) fn check_policies(names: &[String]) -> Result<(), PlanError> {
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        Some(name) => Err(PlanError(format!("policy `{name}` is in it twice"))),
        None => Ok(()),
    }
}

/// Names of policies, each once.
pub(crate) fn unique_names<P: Display>(policies: &[P]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in policies.iter().map(P::to_string) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

impl Kind for SimulationPlan {
    const NAME: &'static str = "simulation";
    type Trial = Sample;

    fn check(&self) -> Result<(), PlanError> {
        if self.points.is_empty() || self.policies.is_empty() || self.replicates == 0 {
            return Err(PlanError("a simulation needs a workload, a policy and a replicate".into()));
        }
        check_policies(&self.policies)?;
        if let Some(reference) = self.reference.as_ref().filter(|name| !self.policies.contains(name)) {
            return Err(PlanError(format!("policy `{reference}`, with which others are compared, isn't in it")));
        }
        check_count(self.points.len(), MOST_POINTS, "points")?;
        for Point { name, simulation } in &self.points {
            let sharing = &simulation.sharing;
            let policies = || self.policies.iter().try_for_each(|policy| sharing.check_policy(policy));
            policies().map_err(|error| PlanError(error.to_string()))?;
            sharing.check().map_err(|error| PlanError(format!("subject `{name}`: {error}")))?;
            let kernels = self.policies.iter().try_for_each(|policy| sharing.check_kernel(policy));
            kernels.map_err(|error| PlanError(format!("subject `{name}`: {error}")))?;
        }
        Ok(())
    }

    fn from_older(plan: Value) -> Result<Self, serde_json::Error> {
        let older: OlderPlan = serde_json::from_value(plan)?;
        let points = older
            .subjects
            .into_iter()
            .map(|subject| Ok(Point { name: subject.name, simulation: serde_json::from_value(subject.simulation)? }));
        Ok(Self {
            points: points.collect::<Result<_, serde_json::Error>>()?,
            policies: older.treatments.into_iter().map(|treatment| treatment.name).collect(),
            reference: None,
            cpus: older.threads.first().copied().unwrap_or_default(),
            replicates: older.stop.max_blocks,
            seed: older.seed,
            departures: older.departures,
        })
    }
}

/// The plan in a journal of version 1 or 2, in which a policy was a treatment and CPUs were threads.
#[derive(Deserialize)]
pub(crate) struct OlderPlan {
    pub subjects: Vec<OlderSubject>,
    pub treatments: Vec<OlderTreatment>,
    pub threads: Vec<u32>,
    pub stop: OlderStop,
    pub seed: u64,
    #[serde(default)]
    pub departures: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct OlderSubject {
    pub name: String,
    pub simulation: Value,
}

#[derive(Deserialize)]
pub(crate) struct OlderTreatment {
    pub name: String,
}

#[derive(Deserialize)]
pub(crate) struct OlderStop {
    pub max_blocks: u32,
}

/// What runs, and the numbers that it is simulated with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulation {
    /// What runs, and how it shares the CPUs.
    #[serde(flatten)]
    pub sharing: Sharing,
    /// How many times as large as in the machine's description its caches are.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cache_factor: f64,
    /// How many times as fast as they are known to be its caches are.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cache_speed_factor: f64,
    /// The same of its memory.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub memory_speed_factor: f64,
    /// Which point of a sweep it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<SweepPoint>,
}

fn one() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_one(factor: &f64) -> bool {
    *factor == 1.0
}

/// One value of the parameter that a sweep goes through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// `phi` (phi_p and phi_t at once), `caches`, or a field of [`Parameters`].
    pub parameter: String,
    /// Its value, in the parameter's own unit.
    pub value: f64,
}

/// Both boosts at once.
pub(crate) const PHI: &str = "phi";

/// How many times as large the caches are.
pub(crate) const CACHES: &str = "caches";

/// How many times as fast memory is.
pub(crate) const MEMORY: &str = "memory";

/// A machine of the future: how many times as much it is in CPU speed times cache size. Of the product each has the square
/// root; working sets grow as caches do, and memory becomes faster by the fourth root, so by the root of what CPUs do.
pub(crate) const FUTURE: &str = "future";

/// The largest factor by which a machine can change.
const MOST_FACTOR: f64 = 1e6;

/// Why something can't be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulationError {
    /// The workload, the parameters or the machine.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The machine doesn't tell enough of its caches for a workload that misses.
    #[error(transparent)]
    Caches(#[from] HierarchyError),
    /// A treatment is no policy of time sharing.
    #[error(transparent)]
    Policy(#[from] ParsePolicyError),
    /// A treatment is no policy of space sharing.
    #[error(transparent)]
    SpacePolicy(#[from] space_sharing::ParsePolicyError),
    /// The kernel that is simulated has no such thing.
    #[error("Linux {release} has no {what}; Linux {since} has")]
    Kernel {
        /// What is asked for.
        what: &'static str,
        /// The first modelled kernel that has it.
        since: Release,
        /// The kernel that is simulated.
        release: Release,
    },
    /// There is no such parameter.
    #[error("there is no parameter `{name}` to sweep; there are {known}")]
    UnknownParameter {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// It can't have that value.
    #[error("`{parameter}` can't be {value}: {cause}")]
    BadValue {
        /// The parameter.
        parameter: String,
        /// The value.
        value: f64,
        /// Why not.
        cause: String,
    },
}

/// What runs, on the machine as it is described.
impl From<Sharing> for Simulation {
    fn from(sharing: Sharing) -> Self {
        Self { sharing, cache_factor: 1.0, cache_speed_factor: 1.0, memory_speed_factor: 1.0, point: None }
    }
}

impl Simulation {
    /// A workload with its parameters, on the machine as it is described.
    pub fn new(workload: Workload, parameters: Parameters) -> Self {
        Self::from(Sharing::Time { workload, parameters })
    }

    /// The same at a point of a sweep.
    ///
    /// # Errors
    /// [`SimulationError`] when there is no such parameter or it can't have that value.
    pub fn at(&self, parameter: &str, value: f64) -> Result<Self, SimulationError> {
        let bad = |cause: String| SimulationError::BadValue { parameter: parameter.into(), value, cause };
        let mut there = self.clone();
        there.point = Some(SweepPoint { parameter: parameter.into(), value });
        if [CACHES, MEMORY, FUTURE].contains(&parameter) && !(1.0 / MOST_FACTOR..=MOST_FACTOR).contains(&value) {
            return Err(bad(format!("it must be a factor from {} to {MOST_FACTOR}", 1.0 / MOST_FACTOR)));
        }
        match (&mut there.sharing, parameter) {
            (_, CACHES) => there.cache_factor *= value,
            (_, MEMORY) => there.memory_speed_factor *= value,
            (Sharing::Space { parameters, .. }, FUTURE) => {
                let each = value.sqrt();
                parameters.speed *= each;
                parameters.data *= each;
                there.cache_factor *= each;
                there.cache_speed_factor *= each;
                there.memory_speed_factor *= each.sqrt();
                there.sharing.check_parameters().map_err(bad)?;
            }
            (sharing, _) => {
                let mut fields = sharing.parameters();
                let names: Vec<&str> = match (&*sharing, parameter) {
                    (Sharing::Time { .. }, PHI) => vec!["phi_p", "phi_t"],
                    _ => vec![parameter],
                };
                for name in names {
                    if !sweepable(&fields).any(|known| known == name) {
                        return Err(SimulationError::UnknownParameter {
                            name: parameter.into(),
                            known: sharing.sweepable().join(", "),
                        });
                    }
                    // A whole number may stand for a count or a time, another one for a time only.
                    let whole = value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value);
                    let number = if whole { serde_json::json!(value as u64) } else { serde_json::json!(value) };
                    fields.insert(name.into(), number);
                }
                sharing.set_parameters(fields).map_err(bad)?;
            }
        }
        Ok(there)
    }

    /// What runs, and the point of the sweep.
    fn name_with_point(&self) -> String {
        match &self.point {
            None => self.sharing.name().to_owned(),
            Some(SweepPoint { parameter, value }) => format!("{}, {parameter} {value}", self.sharing.name()),
        }
    }

    /// How long the caches and the memory of `machine` take, with this simulation's factors.
    pub(crate) fn timing(&self, machine: &Machine) -> Timing {
        Timing::for_machine(machine).faster(self.cache_speed_factor, self.memory_speed_factor)
    }

    /// `machine` with this simulation's caches.
    pub(crate) fn machine(&self, machine: &Machine) -> Machine {
        fn grow(object: &mut ObjectRecord, factor: f64) {
            if let Some(bytes) = object.cache.as_mut().and_then(|cache| cache.size_bytes.as_mut()) {
                *bytes = NonZeroU64::new((bytes.get() as f64 * factor).round() as u64).unwrap_or(NonZeroU64::MIN);
            }
            object.children.iter_mut().for_each(|child| grow(child, factor));
        }
        if self.cache_factor == 1.0 {
            return machine.clone();
        }
        let mut record = MachineRecord::from(machine.clone());
        grow(&mut record.tree, self.cache_factor);
        Machine::try_from(record).unwrap_or_else(|_| machine.clone())
    }
}
