//! Plays as studies: one workload in a running kernel, under several policies, and in the simulator beside it.
//!
//! A play is a trial as a replicate of a simulation is: its block is the replicate, its treatment the policy, its subject the
//! workload in one of two worlds. Replicate r has the same draws in both. What either world did is measured by one ruler,
//! [`kernel::play::account`], so that figures of one name mean the same.

mod agreement;
mod verdict;

pub use agreement::{AGREE_FACTOR, Agreement, Beside, PlayResult, PlayedPolicy, QUANTITIES, Quantity, analyse};
pub use kernel::play::modelled::L2_MISSES;
pub use verdict::{
    AgreementVerdict, Disagreement, Fairness, MissFigures, ReplayFindings, ReplayVerdict, SchedulingFigures,
};

use crate::host::unix_seconds;
use crate::observation::Observation;
use crate::plan::{Plan, Subject};
use crate::simulation::{self, Sharing, Simulation, SimulationError};
use crate::trial::{Status, Trial};
use kernel::play::account::{Account, Seen};
use kernel::play::policy::LONGEST_SLICE_MS;
use kernel::play::{ParsePolicyError, Policy, Scene, Series, Told, Turn};
use machine::Machine;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sim::{Parameters, QuantumEnd, Wake, Workload};

/// Where processes run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum World {
    /// In the simulator.
    #[default]
    Simulator,
    /// In a running kernel.
    Kernel(Kernel),
}

/// A running kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Its release.
    pub release: String,
    /// The machine that it runs: `here`, or a virtual one, as in `vm:2x4`.
    pub place: String,
    /// Whether the affinity scheduler has a queue for each CPU instead of one that is searched.
    #[serde(default)]
    pub is_scalable: bool,
    /// How long a waking process may wait under `stayput-sched`, in ms; none where the rule alone decides, as in the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait_ms: Option<f64>,
}

impl World {
    /// Whether it is the simulator.
    pub fn is_simulator(&self) -> bool {
        *self == Self::Simulator
    }

    /// Its name in words.
    pub fn name(&self) -> String {
        match self {
            Self::Simulator => "simulated".into(),
            Self::Kernel(Kernel { release, place, .. }) => format!("Linux {release}, {place}"),
        }
    }
}

/// The clock tick of kernels as Debian builds them (`CONFIG_HZ=250`): slices end with one.
const KERNEL_TICK_MS: f64 = 4.0;

/// What the player works at a time, at most; see `kernel::play`.
const CHUNK_US: f64 = 100.0;

/// The parameters with which the simulator comes closest to what a kernel does that is given `parameters`: a quantum ends
/// with the first tick of the kernel's clock after it is over, a long one is as long as the kernel grants, and a waking process
/// goes to the nearest idle CPU. The CPUs of an emulator take turns of a chunk of work each, so that a tick is late by up to a turn
/// of all `emulated_cpus`.
pub fn simulator_parameters(parameters: &Parameters, emulated_cpus: Option<u32>) -> Parameters {
    let whole_ticks = |ms: f64| (ms / KERNEL_TICK_MS).ceil() * KERNEL_TICK_MS;
    Parameters {
        quantum_ms: whole_ticks(parameters.quantum_ms),
        long_quantum_ms: whole_ticks(parameters.long_quantum_ms.min(LONGEST_SLICE_MS)),
        quantum_end: QuantumEnd::Elapsed,
        wake: Wake::Nearest,
        jitter_us: emulated_cpus.map_or(parameters.jitter_us, |cpus| f64::from(cpus) * CHUNK_US),
        ..parameters.clone()
    }
}

impl Plan {
    /// The plan of playing `scene` in `kernel` under `policies` on `machine`; and in the simulator with parameters of its own,
    /// where these are given.
    pub fn of_play(
        scene: &Scene,
        kernel: Kernel,
        simulator: Option<Parameters>,
        policies: &[Policy],
        machine: &Machine,
    ) -> Self {
        let in_world = |world: World, parameters: Parameters| {
            let mut simulation = Simulation::new(scene.workload.clone(), parameters);
            simulation.world = world;
            simulation
        };
        let simulated = simulator.map(|parameters| in_world(World::Simulator, parameters));
        let played = in_world(World::Kernel(kernel), scene.parameters.clone());
        let worlds = std::iter::once(played).chain(simulated).collect();
        let mut plan = Self::of_simulations(worlds, policies, machine);
        for subject in &mut plan.subjects {
            let world = subject.simulation.as_ref().map(|simulation| simulation.world.name());
            subject.name = format!("{} ({})", scene.workload.name, world.unwrap_or_default());
        }
        plan
    }

    /// Whether something is played in a kernel.
    pub fn is_play(&self) -> bool {
        played(self).is_some()
    }

    /// What its plays have in common; nothing for plans of other kinds.
    pub fn series(&self, machine: &Machine) -> Option<Series> {
        let (simulation, kernel) = played(self)?;
        let Sharing::Time { workload, parameters } = &simulation.1.sharing else { return None };
        let scene = Scene { workload: workload.clone(), parameters: parameters.clone() };
        Some(Series {
            scene,
            machine: machine.clone(),
            is_scalable: kernel.is_scalable,
            max_wait_ms: kernel.max_wait_ms,
        })
    }

    /// The plays in a kernel that are not among the trials `done`. Each replicate begins with another policy, so that no
    /// policy always comes first.
    pub fn turns_left(&self, done: &[Trial]) -> Vec<Turn> {
        let Some(((subject, _), _)) = played(self) else { return Vec::new() };
        let policies: Vec<Policy> = self.treatments.iter().filter_map(|t| t.name.parse().ok()).collect();
        let turns = (0..self.replicates()).flat_map(|replicate| {
            let first = replicate as usize % policies.len().max(1);
            let order = policies[first..].iter().chain(&policies[..first]).copied().collect::<Vec<_>>();
            order.into_iter().map(move |policy| Turn { policy, replicate })
        });
        turns.filter(|turn| !is_done(done, &subject.name, turn.policy, turn.replicate)).collect()
    }

    /// The trial that a play was; `sequence` is its position in the study.
    pub fn play_trial(&self, turn: Turn, told: Result<Told, String>, sequence: u32) -> Trial {
        let subject = played(self).map(|((subject, _), _)| subject.name.clone()).unwrap_or_default();
        let (status, cause, observation) = match told {
            Ok(told) => (Status::Ok, String::new(), Some(observation(told))),
            Err(cause) => (Status::ExitCode, cause, None),
        };
        let time_s = observation.as_ref().map(|seen| seen.wall_s);
        let started_unix_s = unix_seconds() - time_s.unwrap_or_default();
        trial(self, subject, turn, sequence, (status, cause, started_unix_s), observation)
    }
}

/// The subject that is played in a kernel, what it is, and that kernel.
fn played(plan: &Plan) -> Option<((&Subject, &Simulation), &Kernel)> {
    plan.subjects.iter().find_map(|subject| {
        let simulation = subject.simulation.as_deref()?;
        match &simulation.world {
            World::Kernel(kernel) => Some(((subject, simulation), kernel)),
            World::Simulator => None,
        }
    })
}

/// The subject that is simulated beside it.
fn simulated(plan: &Plan) -> Option<(&Subject, &Simulation, (&Workload, &Parameters))> {
    plan.subjects.iter().filter(|_| plan.is_play()).find_map(|subject| {
        let simulation = subject.simulation.as_deref().filter(|simulation| simulation.world.is_simulator())?;
        let Sharing::Time { workload, parameters } = &simulation.sharing else { return None };
        Some((subject, simulation, (workload, parameters)))
    })
}

/// Whether a policy can be played.
pub(crate) fn check_policy(name: &str) -> Result<(), ParsePolicyError> {
    name.parse::<Policy>().map(drop)
}

fn is_done(done: &[Trial], subject: &str, policy: Policy, replicate: u32) -> bool {
    done.iter().any(|trial| trial.block == replicate && trial.subject == subject && trial.placement == policy.name())
}

fn trial(
    plan: &Plan,
    subject: String,
    turn: Turn,
    sequence: u32,
    (status, cause, started_unix_s): (Status, String, f64),
    observation: Option<Observation>,
) -> Trial {
    Trial {
        sequence,
        block: turn.replicate,
        warmup: false,
        subject,
        threads: plan.threads[0],
        placement: turn.policy.name().into(),
        status,
        cause,
        time_s: observation.as_ref().map(|seen| seen.wall_s),
        started_unix_s,
        intended_cpus: None,
        observation,
        output_tail: String::new(),
    }
}

fn observation(told: Told) -> Observation {
    let number = |name: &str| told.metrics.get(name).copied().unwrap_or_default();
    Observation {
        migrations: Some(number("migrations") as u64),
        ..simulation::ran(told.seconds * 1e3, number("cpu_ms"))
    }
    .told(told.metrics, told.histograms, told.notes)
}

/// Simulates what `plan` has to be simulated and is not among the trials `done`; the trials, whose numbers go on from theirs.
///
/// # Errors
/// When it can't be simulated.
pub fn simulate(plan: &Plan, machine: &Machine, done: &[Trial]) -> Result<Vec<Trial>, SimulationError> {
    let Some((subject, simulation, scene)) = simulated(plan) else { return Ok(Vec::new()) };
    let policies: Vec<Policy> = plan.treatments.iter().filter_map(|t| t.name.parse().ok()).collect();
    let turns: Vec<(Turn, sim::Policy)> = (0..plan.replicates())
        .flat_map(|replicate| policies.iter().map(move |&policy| Turn { policy, replicate }))
        .filter(|turn| !is_done(done, &subject.name, turn.policy, turn.replicate))
        .filter_map(|turn| Some((turn, turn.policy.simulated_by()?)))
        .collect();
    let seen: Vec<Observation> = turns
        .par_iter()
        .map(|(turn, policy)| one(simulation, scene, machine, (*policy, turn.replicate)))
        .collect::<Result<_, _>>()?;
    let numbers = done.len() as u32..;
    let trials = turns.into_iter().zip(seen).zip(numbers);
    Ok(trials
        .map(|(((turn, _), seen), sequence)| {
            trial(plan, subject.name.clone(), turn, sequence, (Status::Ok, String::new(), 0.0), Some(seen))
        })
        .collect())
}

/// One replicate in the simulator, with what it says of itself and what the ruler for both worlds does.
fn one(
    simulation: &Simulation,
    scene: (&Workload, &Parameters),
    machine: &Machine,
    turn: (sim::Policy, u32),
) -> Result<Observation, SimulationError> {
    let mut intervals = Vec::new();
    let (processes, seen) = simulation::watched(simulation, scene, machine, turn, |interval| intervals.push(interval))?;
    let account = Account::of(&Seen {
        workload: scene.0,
        machine,
        intervals: &intervals,
        processes: &processes,
        until_ns: (seen.wall_s * 1e9).round() as u64,
    });
    Ok(seen.told(account.metrics, account.histograms, Vec::new()))
}
