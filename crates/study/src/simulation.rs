//! Simulations as studies: nothing is run on this machine, so that many can be simulated at once.
//!
//! A replicate of a workload, or of a mix of jobs, under a policy is a trial: its block is the replicate, its subject the workload
//! (one subject for each point of a sweep), its treatment the policy, its thread count the simulated machine's CPUs, its time the makespan.
//! What else the simulator saw is kept by name, as [`Observation::metrics`] and [`Observation::histograms`]. Replicate r
//! has the same draws under every policy and at every point, so a block is a pair in the sense of [`crate::engine`].

mod metrics;
mod results;
mod space;
mod verdict;

pub(crate) use metrics::{INTERVALS, SLICES};
pub use results::{Estimated, PointResult, PolicyResult, TimeBin};
pub(crate) use results::{analyse, bin_edges, bins, metric, names, range_of, times, verdict};
pub use space::verdict::{
    KindChange, MATTERS_PERCENT, MixAffinity, MixPolicy, MixesAffinity, MixesPolicy, SpaceSharingVerdict,
    SweptAffinity, SweptPolicy, affinity_matters_at, affinity_matters_from,
};
pub use verdict::{
    BestChanges, Change, ChangeAt, Direction, LEAST_CHANGE_PERCENT, PolicyChanges, PolicyTime, SimulationVerdict,
};

use crate::observation::{Exit, Observation};
use crate::plan::{Plan, StopRule, Subject, Treatment};
use crate::play::{self, World};
use crate::trial::{Status, Trial};
use machine::record::{MachineRecord, ObjectRecord};
use machine::{Level, Machine};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim::cache::{HierarchyError, TaskCaches, Timing};
use sim::space as space_sharing;
use sim::{
    CacheModel, Experiment, ExperimentError, Footprint, Interval, NoMemory, Outcome, Parameters, ParsePolicyError,
    Policy, ProcessOutcome, Workload,
};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::NonZeroU64;
use std::time::Duration;

/// What a subject is instead of a program: what runs, and the numbers that it is simulated with.
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
    /// Where it runs: a kernel may do what is simulated elsewhere.
    #[serde(default, skip_serializing_if = "World::is_simulator")]
    pub world: World,
}

/// How CPUs are shared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Sharing {
    /// Processes take turns on them.
    Time {
        /// What runs.
        workload: Workload,
        /// The numbers of scheduler and machine.
        parameters: Parameters,
    },
    /// Jobs hold them.
    Space {
        /// What runs.
        mix: space_sharing::Mix,
        /// The numbers of allocator and machine.
        parameters: space_sharing::Parameters,
    },
}

impl Sharing {
    /// The name of what runs.
    pub fn name(&self) -> &str {
        match self {
            Self::Time { workload, .. } => &workload.name,
            Self::Space { mix, .. } => &mix.name,
        }
    }

    /// The names of the jobs that are told apart: each, or each kind.
    pub fn jobs(&self) -> Vec<&str> {
        match self {
            Self::Time { workload, .. } => workload.jobs.iter().map(|job| job.name.as_str()).collect(),
            Self::Space { mix, .. } => mix.kinds.iter().map(|kind| kind.graph.name.as_str()).collect(),
        }
    }

    /// The policy that others are compared with.
    pub fn reference(&self) -> &'static str {
        match self {
            Self::Time { .. } => Policy::Standard.name(),
            Self::Space { .. } => space_sharing::Policy::Equipartition.name(),
        }
    }

    /// How often it is simulated, and where its draws start.
    fn replicates(&self) -> (u32, u64) {
        match self {
            Self::Time { parameters, .. } => (parameters.replicates, parameters.seed),
            Self::Space { parameters, .. } => (parameters.replicates, parameters.seed),
        }
    }

    /// Its parameters by name.
    pub fn parameters(&self) -> serde_json::Map<String, Value> {
        let fields = match self {
            Self::Time { parameters, .. } => serde_json::to_value(parameters),
            Self::Space { parameters, .. } => serde_json::to_value(parameters),
        };
        match fields {
            Ok(Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        }
    }

    /// The same with other parameters.
    fn with(&self, fields: serde_json::Map<String, Value>) -> Result<Self, String> {
        let fields = Value::Object(fields);
        let there = match self {
            Self::Time { workload, .. } => Self::Time {
                workload: workload.clone(),
                parameters: serde_json::from_value(fields).map_err(|error| error.to_string())?,
            },
            Self::Space { mix, .. } => Self::Space {
                mix: mix.clone(),
                parameters: serde_json::from_value(fields).map_err(|error| error.to_string())?,
            },
        };
        there.check_parameters().map(|()| there)
    }

    fn check_parameters(&self) -> Result<(), String> {
        let checked = match self {
            Self::Time { parameters, .. } => parameters.check(),
            Self::Space { parameters, .. } => parameters.check(),
        };
        checked.map_err(|error| error.to_string())
    }

    fn check(&self) -> Result<(), String> {
        let checked = match self {
            Self::Time { workload, .. } => workload.check(),
            Self::Space { mix, .. } => mix.check(),
        };
        checked.map_err(|error| error.to_string())?;
        self.check_parameters()
    }

    /// Whether there is a policy of that name.
    fn check_policy(&self, name: &str) -> Result<(), SimulationError> {
        match self {
            Self::Time { .. } => name.parse::<Policy>().map(drop).map_err(SimulationError::from),
            Self::Space { .. } => name.parse::<space_sharing::Policy>().map(drop).map_err(SimulationError::from),
        }
    }
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

/// The metric of space sharing that policies are compared by; of one kind of job with its name after a colon.
pub const RESPONSE: &str = "response_ms";

/// Both boosts at once.
const PHI: &str = "phi";

/// How many times as large the caches are.
const CACHES: &str = "caches";

/// How many times as fast memory is.
const MEMORY: &str = "memory";

/// A machine of the future: how many times as much it is in CPU speed times cache size. Of the product each has the square
/// root; working sets grow as caches do, and memory becomes faster by the fourth root, so by the root of what CPUs do.
const FUTURE: &str = "future";

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
        Self::of(Sharing::Time { workload, parameters })
    }

    /// What runs, on the machine as it is described.
    pub fn of(sharing: Sharing) -> Self {
        Self {
            sharing,
            cache_factor: 1.0,
            cache_speed_factor: 1.0,
            memory_speed_factor: 1.0,
            point: None,
            world: World::Simulator,
        }
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
                *sharing = sharing.with(fields).map_err(bad)?;
            }
        }
        Ok(there)
    }

    /// The name of the subject: what runs, and the point.
    fn subject_name(&self) -> String {
        match &self.point {
            None => self.sharing.name().to_owned(),
            Some(SweepPoint { parameter, value }) => format!("{}, {parameter} {value}", self.sharing.name()),
        }
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

impl Sharing {
    /// What can be swept.
    fn sweepable(&self) -> Vec<String> {
        let fields = self.parameters();
        let own = match self {
            Self::Time { .. } => PHI,
            Self::Space { .. } => FUTURE,
        };
        sweepable(&fields).chain([own, CACHES, MEMORY]).map(str::to_owned).collect()
    }
}

/// The parameters that are numbers, without those that say how often a simulation is repeated.
fn sweepable(fields: &serde_json::Map<String, Value>) -> impl Iterator<Item = &str> {
    let numbers = fields.iter().filter(|(_, value)| value.is_number());
    numbers.map(|(name, _)| name.as_str()).filter(|name| !["seed", "replicates"].contains(name))
}

impl Plan {
    /// The plan of `simulations`, the points of a sweep or several mixes or a single one, under `policies`, each once, on `machine`.
    /// The policy that the others are compared with comes first where it is among them.
    pub fn of_simulations<P: Display>(simulations: Vec<Simulation>, policies: &[P], machine: &Machine) -> Self {
        let mut names: Vec<String> = Vec::new();
        for name in policies.iter().map(P::to_string) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let reference = simulations.first().map(|first| first.sharing.reference());
        names.sort_by_key(|name| Some(name.as_str()) != reference);
        let (replicates, seed) = simulations.first().map_or((1, 1), |first| first.sharing.replicates());
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
    for subject in &plan.subjects {
        let Some(simulation) = &subject.simulation else {
            return Err(format!("subject `{}` is not simulated, though others are", subject.name));
        };
        let sharing = &simulation.sharing;
        let check_policy = |name: &str| match plan.is_play() {
            true => play::check_policy(name).map_err(|error| error.to_string()),
            false => sharing.check_policy(name).map_err(|error| error.to_string()),
        };
        plan.treatments.iter().try_for_each(|t| check_policy(&t.name))?;
        sharing.check().map_err(|error| format!("subject `{}`: {error}", subject.name))?;
    }
    Ok(())
}

/// A simulation on its machine, ready to be run.
enum Ready<'a> {
    Time { experiment: Box<Experiment<'a>>, caches: Option<CacheModel>, workload: &'a Workload },
    Space { experiment: Box<space_sharing::Experiment<'a>>, caches: Option<TaskCaches>, mix: &'a space_sharing::Mix },
}

impl<'a> Ready<'a> {
    /// A simulation on its own `machine`. It has no caches where nothing that runs ever misses.
    fn new(simulation: &'a Simulation, machine: &'a Machine) -> Result<Self, SimulationError> {
        match &simulation.sharing {
            Sharing::Time { workload, parameters } => {
                let experiment = Box::new(Experiment::new(machine, workload, parameters)?);
                let caches = caches(simulation, machine, workload)?;
                Ok(Self::Time { experiment, caches, workload })
            }
            Sharing::Space { mix, parameters } => {
                let experiment = Box::new(space_sharing::Experiment::new(machine, mix, parameters)?);
                let any = experiment.footprints().iter().any(misses);
                let timing = timing(simulation, machine);
                let caches = any
                    .then(|| TaskCaches::of(machine, timing, experiment.footprints(), &experiment.jobs_of_workers()));
                Ok(Self::Space { caches: caches.transpose()?, experiment, mix })
            }
        }
    }

    /// The makespan of one replicate in ms, and what else it showed.
    fn run(&self, policy: &str, replicate: u32, levels: &[Level]) -> Result<(f64, Observation), SimulationError> {
        match self {
            Self::Time { experiment, caches, workload } => {
                let policy: Policy = policy.parse()?;
                let outcome = match caches {
                    Some(caches) => experiment.run(policy, replicate, caches.clone(), |_| {}),
                    None => experiment.run(policy, replicate, NoMemory, |_| {}),
                };
                Ok((outcome.makespan_ms, observation(&outcome, workload, levels)))
            }
            Self::Space { experiment, caches, mix } => {
                let policy: space_sharing::Policy = policy.parse()?;
                let outcome = match caches {
                    Some(caches) => experiment.run(policy, replicate, caches.clone(), |_| {}),
                    None => experiment.run(policy, replicate, NoMemory, |_| {}),
                };
                Ok((outcome.makespan_ms, space::observation(&outcome, mix)))
            }
        }
    }
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
    let policies: Vec<&str> = plan.treatments.iter().map(|treatment| treatment.name.as_str()).collect();
    let simulations: Vec<&Simulation> = plan.subjects.iter().filter_map(|s| s.simulation.as_deref()).collect();
    let machines: Vec<Machine> = simulations.iter().map(|simulation| simulation.machine(machine)).collect();
    let ready = simulations.iter().zip(&machines).map(|(simulation, machine)| Ready::new(simulation, machine));
    let ready: Vec<Ready> = ready.collect::<Result<_, _>>()?;
    let levels = metrics::levels(machine);
    let turns = (0..plan.replicates()).flat_map(|replicate| {
        let policies = &policies;
        (0..ready.len()).flat_map(move |point| policies.iter().map(move |&policy| (replicate, point, policy)))
    });
    // They are written in this order, so those that were done are the first.
    let left: Vec<_> = turns.skip(done.len()).collect();
    let mut sequence = done.len() as u32;
    let mut clock_s = done.iter().filter_map(|trial| Some(trial.observation.as_ref()?.wall_s)).fold(0.0, |a, b| a + b);
    // Some at a time: an interruption loses no more than these, and memory holds no more.
    for some in left.chunks(8 * rayon::current_num_threads()) {
        let run = |&(replicate, point, policy): &(u32, usize, &str)| ready[point].run(policy, replicate, &levels);
        let outcomes: Vec<(f64, Observation)> = some.par_iter().map(run).collect::<Result<_, _>>()?;
        for (&(replicate, point, policy), (makespan_ms, observation)) in some.iter().zip(outcomes) {
            let subject = plan.subjects[point].name.clone();
            let trial = Trial {
                sequence,
                block: replicate,
                warmup: false,
                subject,
                threads: plan.threads[0],
                placement: policy.to_owned(),
                status: Status::Ok,
                cause: String::new(),
                time_s: Some(makespan_ms / 1e3),
                // The simulated clock, as if one had been run after the other: the same bytes whenever it is simulated.
                started_unix_s: clock_s,
                intended_cpus: None,
                observation: Some(observation),
                output_tail: String::new(),
            };
            keep(trial)?;
            sequence += 1;
            clock_s += makespan_ms / 1e3;
        }
    }
    Ok(())
}

fn misses(memory: &Footprint) -> bool {
    memory.reload_lines > 0.0 || memory.steady_misses_per_ms > 0.0
}

fn timing(simulation: &Simulation, machine: &Machine) -> Timing {
    Timing::of(machine).faster(simulation.cache_speed_factor, simulation.memory_speed_factor)
}

/// The caches under a workload; none where nothing ever misses.
fn caches(
    simulation: &Simulation,
    machine: &Machine,
    workload: &Workload,
) -> Result<Option<CacheModel>, SimulationError> {
    let any = workload.jobs.iter().any(|job| misses(&job.process.memory));
    Ok(any.then(|| CacheModel::of(machine, timing(simulation, machine), workload)).transpose()?)
}

/// One replicate of a workload with these parameters, of their simulation: what became of its processes, and what it showed.
/// `watch` sees every dispatch interval as it ends.
///
/// # Errors
/// When it can't be simulated.
pub(crate) fn watched(
    simulation: &Simulation,
    (workload, parameters): (&Workload, &Parameters),
    machine: &Machine,
    (policy, replicate): (Policy, u32),
    watch: impl FnMut(Interval),
) -> Result<(Vec<ProcessOutcome>, Observation), SimulationError> {
    let experiment = Experiment::new(machine, workload, parameters)?;
    let outcome = match caches(simulation, machine, workload)? {
        Some(caches) => experiment.run(policy, replicate, caches, watch),
        None => experiment.run(policy, replicate, NoMemory, watch),
    };
    let seen = observation(&outcome, workload, &metrics::levels(machine));
    Ok((outcome.processes, seen))
}

fn observation(outcome: &Outcome, workload: &Workload, levels: &[Level]) -> Observation {
    let cpu_ms: f64 = outcome.jobs.iter().map(|job| job.cpu_ms).sum();
    let blocks = outcome.jobs.iter().filter_map(|job| job.ends.get(&sim::End::Semaphore)).sum();
    Observation {
        voluntary_switches: blocks,
        involuntary_switches: outcome.switches.saturating_sub(blocks),
        migrations: Some(outcome.migrations()),
        metrics: metrics::metrics(outcome, workload, levels),
        histograms: metrics::histograms(outcome),
        ..ran(outcome.makespan_ms, cpu_ms)
    }
}

/// What is the same of all replicates: they end well, and use nothing of this machine.
pub(crate) fn ran(makespan_ms: f64, cpu_ms: f64) -> Observation {
    Observation {
        exit: Exit::Code(0),
        wall_s: makespan_ms / 1e3,
        user_s: cpu_ms / 1e3,
        system_s: 0.0,
        max_rss_bytes: 0,
        voluntary_switches: 0,
        involuntary_switches: 0,
        migrations: None,
        minor_faults: 0,
        major_faults: 0,
        counters: BTreeMap::new(),
        metrics: BTreeMap::new(),
        histograms: BTreeMap::new(),
        threads: Vec::new(),
        leftovers: 0,
        notes: Vec::new(),
    }
}
