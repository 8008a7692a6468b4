//! Simulations as studies: nothing is run on this machine, so that many can be simulated at once.
//!
//! A replicate of a workload under a policy is a trial: its block is the replicate, its subject the workload (one subject for
//! each point of a sweep), its treatment the policy, its thread count the simulated machine's CPUs, its time the makespan.
//! What else the simulator saw is kept by name, as [`Observation::metrics`] and [`Observation::histograms`]. Replicate r
//! has the same draws under every policy and at every point, so a block is a pair in the sense of [`crate::engine`].

mod metrics;
mod results;

pub(crate) use metrics::{INTERVALS, SLICES};
pub use results::{Estimated, PointResult, PolicyResult, TimeBin};
pub(crate) use results::{analyse, verdicts, warnings};

use crate::observation::{Exit, Observation};
use crate::plan::{Plan, StopRule, Subject, Treatment};
use crate::trial::{Status, Trial};
use machine::record::{MachineRecord, ObjectRecord};
use machine::{Level, Machine};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sim::cache::HierarchyError;
use sim::{
    CacheModel, Experiment, ExperimentError, Job, NoMemory, Outcome, Parameters, ParsePolicyError, Policy, Workload,
};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

/// What a subject is instead of a program: a workload, and the numbers that it is simulated with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulation {
    /// What runs.
    pub workload: Workload,
    /// The numbers of scheduler and machine.
    pub parameters: Parameters,
    /// How many times as large as in the machine's description its caches are.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cache_factor: f64,
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
const PHI: &str = "phi";

/// How many times as large the caches are.
const CACHES: &str = "caches";

/// The largest factor by which caches can grow or shrink.
const MOST_CACHES: f64 = 1e6;

/// Why something can't be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulationError {
    /// The workload, the parameters or the machine.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The machine doesn't tell enough of its caches for a workload that misses.
    #[error(transparent)]
    Caches(#[from] HierarchyError),
    /// A treatment is no policy.
    #[error(transparent)]
    Policy(#[from] ParsePolicyError),
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

impl Simulation {
    /// A workload with its parameters, on the machine as it is described.
    pub fn new(workload: Workload, parameters: Parameters) -> Self {
        Self { workload, parameters, cache_factor: 1.0, point: None }
    }

    /// The same at a point of a sweep.
    ///
    /// # Errors
    /// [`SimulationError`] when there is no such parameter or it can't have that value.
    pub fn at(&self, parameter: &str, value: f64) -> Result<Self, SimulationError> {
        let bad = |cause: String| SimulationError::BadValue { parameter: parameter.into(), value, cause };
        let mut there = self.clone();
        there.point = Some(SweepPoint { parameter: parameter.into(), value });
        if parameter == CACHES {
            if !(1.0 / MOST_CACHES..=MOST_CACHES).contains(&value) {
                return Err(bad(format!("it must be a factor from {} to {MOST_CACHES}", 1.0 / MOST_CACHES)));
            }
            there.cache_factor = value;
            return Ok(there);
        }
        let mut fields = to_fields(&self.parameters);
        let names: Vec<&str> = if parameter == PHI { vec!["phi_p", "phi_t"] } else { vec![parameter] };
        for name in names {
            if !sweepable(&fields).any(|known| known == name) {
                let known = sweepable(&fields).chain([PHI, CACHES]).collect::<Vec<_>>().join(", ");
                return Err(SimulationError::UnknownParameter { name: parameter.into(), known });
            }
            // A whole number may stand for a count or a time, another one for a time only.
            let whole = value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value);
            let number = if whole { serde_json::json!(value as u64) } else { serde_json::json!(value) };
            fields.insert(name.into(), number);
        }
        let parameters: Parameters =
            serde_json::from_value(serde_json::Value::Object(fields)).map_err(|error| bad(error.to_string()))?;
        parameters.check().map_err(|error| bad(error.to_string()))?;
        there.parameters = parameters;
        Ok(there)
    }

    /// The name of the subject: the workload's, and the point's.
    fn subject_name(&self) -> String {
        match &self.point {
            None => self.workload.name.clone(),
            Some(SweepPoint { parameter, value }) => format!("{}, {parameter} {value}", self.workload.name),
        }
    }

    /// Empty caches of `machine`; none where nothing that runs ever misses.
    fn caches(&self, machine: &Machine) -> Result<Option<CacheModel>, SimulationError> {
        let misses = |job: &Job| job.process.memory.reload_lines > 0.0 || job.process.memory.steady_misses_per_ms > 0.0;
        let any = self.workload.jobs.iter().any(misses);
        Ok(any.then(|| CacheModel::of(machine, &self.workload)).transpose()?)
    }

    /// `machine` with this simulation's caches.
    fn machine(&self, machine: &Machine) -> Machine {
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

fn to_fields(parameters: &Parameters) -> serde_json::Map<String, serde_json::Value> {
    match serde_json::to_value(parameters) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    }
}

/// The parameters that are numbers, without those that say how often a simulation is repeated.
fn sweepable(fields: &serde_json::Map<String, serde_json::Value>) -> impl Iterator<Item = &str> {
    let numbers = fields.iter().filter(|(_, value)| value.is_number());
    numbers.map(|(name, _)| name.as_str()).filter(|name| !["seed", "replicates"].contains(name))
}

impl Plan {
    /// The plan of `simulations`, the points of a sweep or a single one, under `policies` on `machine`. `standard` comes first
    /// where it is among them, as what the others are compared with.
    pub fn of_simulations(simulations: Vec<Simulation>, policies: &[Policy], machine: &Machine) -> Self {
        let mut names: Vec<String> = policies.iter().map(Policy::to_string).collect();
        names.sort_by_key(|name| name != Policy::Standard.name());
        let (replicates, seed) =
            simulations.first().map_or((1, 1), |first| (first.parameters.replicates, first.parameters.seed));
        let subject = |simulation: Simulation| Subject {
            name: simulation.subject_name(),
            simulation: Some(Box::new(simulation)),
            ..Subject::default()
        };
        Self {
            subjects: simulations.into_iter().map(subject).collect(),
            threads: vec![machine.usable().count() as u32],
            treatments: names.into_iter().map(|name| Treatment { name, placements: Vec::new() }).collect(),
            stop: StopRule::Paired { width: stats::DEFAULT_WIDTH, min_blocks: replicates, max_blocks: replicates },
            warmup_blocks: 0,
            timeout: Duration::MAX,
            budget: None,
            seed,
            paper: None,
            departures: Vec::new(),
        }
    }

    /// How many replicates of each cell a simulation has.
    pub fn replicates(&self) -> u32 {
        match self.stop {
            StopRule::Paired { max_blocks, .. } => max_blocks,
            StopRule::RelativeSd { .. } | StopRule::Best { .. } => 0,
        }
    }

    /// Whether it simulates, and starts no program.
    pub fn is_simulation(&self) -> bool {
        self.subjects.iter().any(|subject| subject.simulation.is_some())
    }
}

/// Whether every subject of `plan` can be simulated, and every treatment is a policy; nothing for plans of other kinds.
pub(crate) fn check(plan: &Plan) -> Result<(), String> {
    if !plan.is_simulation() {
        return Ok(());
    }
    plan.treatments.iter().try_for_each(|t| t.name.parse::<Policy>().map(drop)).map_err(|error| error.to_string())?;
    for subject in &plan.subjects {
        let Some(simulation) = &subject.simulation else {
            return Err(format!("subject `{}` is not simulated, though others are", subject.name));
        };
        simulation.workload.check().map_err(|error| format!("subject `{}`: {error}", subject.name))?;
        simulation.parameters.check().map_err(|error| format!("subject `{}`: {error}", subject.name))?;
    }
    Ok(())
}

/// Simulates what is left of `plan` after the trials `done`, on all cores, and gives each further trial to `keep`, in an order
/// that is the plan's alone: by replicate, then point, then policy.
///
/// # Errors
/// When something can't be simulated, or `keep` fails.
pub fn simulate<E: From<SimulationError>>(
    plan: &Plan,
    machine: &Machine,
    done: &[Trial],
    keep: &mut dyn FnMut(Trial) -> Result<(), E>,
) -> Result<(), E> {
    let policies = plan.treatments.iter().map(|treatment| treatment.name.parse());
    let policies: Vec<Policy> = policies.collect::<Result<_, _>>().map_err(SimulationError::from)?;
    let simulations: Vec<&Simulation> = plan.subjects.iter().filter_map(|s| s.simulation.as_deref()).collect();
    let machines: Vec<Machine> = simulations.iter().map(|simulation| simulation.machine(machine)).collect();
    let experiments: Vec<Experiment> = simulations
        .iter()
        .zip(&machines)
        .map(|(s, machine)| Experiment::new(machine, &s.workload, &s.parameters).map_err(SimulationError::from))
        .collect::<Result<_, _>>()?;
    let caches = simulations.iter().zip(&machines).map(|(s, machine)| s.caches(machine));
    let caches: Vec<Option<CacheModel>> = caches.collect::<Result<_, _>>()?;
    let levels = metrics::levels(machine);
    let turns = (0..plan.replicates()).flat_map(|replicate| {
        let policies = &policies;
        (0..experiments.len()).flat_map(move |point| policies.iter().map(move |&policy| (replicate, point, policy)))
    });
    // They are written in this order, so those that were done are the first.
    let left: Vec<_> = turns.skip(done.len()).collect();
    let mut sequence = done.len() as u32;
    let mut clock_s = done.iter().filter_map(|trial| Some(trial.observation.as_ref()?.wall_s)).fold(0.0, |a, b| a + b);
    // Some at a time: an interruption loses no more than these, and memory holds no more.
    for some in left.chunks(8 * rayon::current_num_threads()) {
        let run = |&(replicate, point, policy): &(u32, usize, Policy)| match &caches[point] {
            Some(caches) => experiments[point].run(policy, replicate, caches.clone(), |_| {}),
            None => experiments[point].run(policy, replicate, NoMemory, |_| {}),
        };
        let outcomes: Vec<Outcome> = some.par_iter().map(run).collect();
        for (&(replicate, point, policy), outcome) in some.iter().zip(&outcomes) {
            let subject = plan.subjects[point].name.clone();
            let trial = Trial {
                sequence,
                block: replicate,
                warmup: false,
                subject,
                threads: plan.threads[0],
                placement: policy.to_string(),
                status: Status::Ok,
                cause: String::new(),
                time_s: Some(outcome.makespan_ms / 1e3),
                // The simulated clock, as if one had been run after the other: the same bytes whenever it is simulated.
                started_unix_s: clock_s,
                intended_cpus: None,
                observation: Some(observation(outcome, &simulations[point].workload, &levels)),
                output_tail: String::new(),
            };
            keep(trial)?;
            sequence += 1;
            clock_s += outcome.makespan_ms / 1e3;
        }
    }
    Ok(())
}

fn observation(outcome: &Outcome, workload: &Workload, levels: &[Level]) -> Observation {
    let cpu_ms: f64 = outcome.jobs.iter().map(|job| job.cpu_ms).sum();
    let blocks = outcome.jobs.iter().filter_map(|job| job.ends.get(&sim::End::Semaphore)).sum();
    Observation {
        exit: Exit::Code(0),
        wall_s: outcome.makespan_ms / 1e3,
        user_s: cpu_ms / 1e3,
        system_s: 0.0,
        max_rss_bytes: 0,
        voluntary_switches: blocks,
        involuntary_switches: outcome.switches.saturating_sub(blocks),
        migrations: Some(outcome.migrations()),
        minor_faults: 0,
        major_faults: 0,
        counters: BTreeMap::new(),
        metrics: metrics::metrics(outcome, workload, levels),
        histograms: metrics::histograms(outcome),
        threads: Vec::new(),
        leftovers: 0,
        notes: Vec::new(),
    }
}
