//! Replays as studies: one workload in a running kernel, under several policies, and in the simulator beside it.
//!
//! Replicate r has the same draws in both worlds. What either world did is measured by one ruler, [`replay::Trace`], so that
//! figures of one metric mean the same.

mod agreement;
mod misses;
mod verdict;

pub use agreement::{
    AGREE_FACTOR, Agreement, Beside, CPU_TIME_RATIO, Disagreement, L2_MISSES, L3_MISSES, MIGRATIONS_PER_S, QUANTITIES,
    Quantity, ReplayResult, ReplayedPolicy,
};

pub use misses::{MissChange, MissChanges};
pub use verdict::{PolicyFigure, PolicyPair, ReplayAnalysis, ReplayVerdict, replay_analysis};

use crate::metrics::WORK;
use crate::plan::{OlderPlan, SimulationError, check_policies, unique_names};
use crate::run::TimeSharing;
use machine::Machine;
use rayon::prelude::*;
use replay::policy::LONGEST_SLICE_MS;
use replay::{Policy, ReplayOutput, Run, RunFailure, Scenario, Series, Trace};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim::cache::Timing;
use sim::{KernelParameters, Parameters, QuantumEnd, Release, Wake, Workload};
use study::JournalError;
use study::host::unix_seconds;
use study::kind::Kind;
use study::plan::PlanError;
use study::sample::{Failure, FailureCause, Measurements, Sample, by_metric};
use study::session::Session;

/// A study that replays one workload in a kernel, and simulates it beside that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayPlan {
    /// What runs.
    pub workload: Workload,
    /// Where it is replayed.
    pub kernel: Kernel,
    /// The numbers that the kernel's schedulers are given.
    pub parameters: Parameters,
    /// The numbers that it is simulated with; none where it isn't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Parameters>,
    /// Names of the policies.
    pub policies: Vec<String>,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Samples under each policy in each world.
    pub replicates: u32,
    /// Where the draws start.
    pub seed: u64,
}

/// A running kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Its release.
    pub release: String,
    /// The machine that it runs: `here`, or a virtual one, as in `vm:2x4` or, where its clock counts them, `vm:2x4 by instructions`.
    pub place: String,
    /// Whether the affinity scheduler has a queue for each CPU instead of one that is searched.
    #[serde(default)]
    pub is_scalable: bool,
    /// How long a waking process may wait under `stayput-sched`, in ms; none where the rule alone decides, as in the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait_ms: Option<f64>,
}

/// The clock tick of kernels as Debian builds them (`CONFIG_HZ=250`): slices end with one.
const KERNEL_TICK_MS: f64 = 4.0;

/// What the player works at a time, at most; see `replay`.
const CHUNK_US: f64 = 100.0;

/// The parameters with which the simulator comes closest to what a kernel of a `release` does that is given `parameters`: its own
/// scheduler is that of the newest kernel modelled that is no newer. Under the affinity scheduler a quantum ends with the first tick of the kernel's clock after it is over, a long one is as long as the kernel grants, and a waking process
/// goes to the nearest idle CPU. The CPUs of an emulator take turns of a chunk of work each, so that a tick is late by up to a turn
/// of all `emulated_cpus`.
pub fn simulator_parameters(release: &str, parameters: &Parameters, emulated_cpus: Option<u32>) -> Parameters {
    let modelled = Release::modelling(release).map(KernelParameters::of);
    let modelled = modelled.map(|kernel| if emulated_cpus.is_some() { kernel.emulated() } else { kernel });
    let whole_ticks = |ms: f64| (ms / KERNEL_TICK_MS).ceil() * KERNEL_TICK_MS;
    Parameters {
        quantum_ms: whole_ticks(parameters.quantum_ms),
        long_quantum_ms: whole_ticks(parameters.long_quantum_ms.min(LONGEST_SLICE_MS)),
        quantum_end: QuantumEnd::Elapsed,
        wake: Wake::Nearest,
        kernel: parameters.kernel.clone().or(modelled),
        jitter_us: emulated_cpus.map_or(parameters.jitter_us, |cpus| f64::from(cpus) * CHUNK_US),
        ..parameters.clone()
    }
}

impl ReplayPlan {
    /// The plan of replaying `scenario` in `kernel` under `policies` on `machine`; and in the simulator with parameters of its own,
    /// where these are given.
    pub fn new(
        scenario: &Scenario,
        kernel: Kernel,
        simulated: Option<Parameters>,
        policies: &[Policy],
        machine: &Machine,
    ) -> Self {
        let mut names = unique_names(policies);
        names.sort_by_key(|name| name != sim::Policy::Standard.name());
        Self {
            workload: scenario.workload.clone(),
            kernel,
            parameters: scenario.parameters.clone(),
            simulated,
            policies: names,
            cpus: machine.usable().count() as u32,
            replicates: scenario.parameters.replicates,
            seed: scenario.parameters.seed,
        }
    }

    /// How many samples there are in all.
    pub fn samples(&self) -> u64 {
        let simulated = self.known_policies().into_iter().filter(|policy| self.simulated_by(*policy).is_some()).count();
        u64::from(self.replicates) * (self.policies.len() + simulated) as u64
    }

    /// The simulator's policy for one of the kernel's. Where the simulator has no kernel's scheduler, as before it was modelled,
    /// one that stands in for it; none where there is none, or nothing is simulated.
    pub fn simulated_by(&self, policy: Policy) -> Option<sim::Policy> {
        match self.simulated.as_ref()?.kernel {
            Some(_) => Some(policy.simulated_by()),
            None => policy.stand_in(),
        }
    }

    /// What samples of the kernel have as their subject.
    pub fn kernel_subject(&self) -> String {
        let Kernel { release, place, .. } = &self.kernel;
        format!("{} (Linux {release}, {place})", self.workload.name)
    }

    /// What samples of the simulator have as their subject.
    pub fn simulator_subject(&self) -> String {
        format!("{} (simulated)", self.workload.name)
    }

    /// What its replays have in common.
    pub fn series(&self, machine: &Machine) -> Series {
        Series {
            scenario: Scenario { workload: self.workload.clone(), parameters: self.parameters.clone() },
            machine: machine.clone(),
            is_scalable: self.kernel.is_scalable,
            max_wait_ms: self.kernel.max_wait_ms,
        }
    }

    /// The replays that are not among the samples `done`. Each replicate begins with another policy, so that no policy always
    /// comes first.
    pub fn runs_left(&self, done: &[Sample]) -> Vec<Run> {
        let (policies, subject) = (self.known_policies(), self.kernel_subject());
        let runs = (0..self.replicates).flat_map(|replicate| {
            let first = replicate as usize % policies.len().max(1);
            let order = policies[first..].iter().chain(&policies[..first]).copied().collect::<Vec<_>>();
            order.into_iter().map(move |policy| Run { policy, replicate })
        });
        runs.filter(|run| !is_done(done, &subject, *run)).collect()
    }

    /// The sample that a replay was; `sequence` is its position in the study.
    pub fn sample(&self, run: Run, output: Result<ReplayOutput, RunFailure>, sequence: u32) -> Sample {
        let result = output.map(measurements).map_err(|error| failure(&error));
        let ran_s = result.as_ref().map_or(0.0, |measured| measured.makespan_s);
        self.sample_of(self.kernel_subject(), run, sequence, unix_seconds() - ran_s, result)
    }

    fn sample_of(
        &self,
        subject: String,
        run: Run,
        sequence: u32,
        started_s: f64,
        result: Result<Measurements, Failure>,
    ) -> Sample {
        Sample { sequence, replicate: run.replicate, subject, policy: run.policy.name().into(), started_s, result }
    }

    fn known_policies(&self) -> Vec<Policy> {
        self.policies.iter().filter_map(|policy| policy.parse().ok()).collect()
    }
}

impl Kind for ReplayPlan {
    const NAME: &'static str = "replay";
    type Trial = Sample;

    fn check(&self) -> Result<(), PlanError> {
        check_policies(&self.policies)?;
        for policy in &self.policies {
            policy.parse::<Policy>().map_err(|error| PlanError(error.to_string()))?;
        }
        let wrong = |error: &dyn std::fmt::Display| PlanError(format!("workload `{}`: {error}", self.workload.name));
        self.workload.check().map_err(|error| wrong(&error))?;
        let mut parameters = self.simulated.iter().chain([&self.parameters]);
        parameters.try_for_each(Parameters::check).map_err(|error| wrong(&error))
    }

    fn from_older(plan: Value) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct OlderReplay {
            workload: Workload,
            parameters: Parameters,
            #[serde(default)]
            world: OlderWorld,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum OlderWorld {
            #[default]
            Simulator,
            Kernel(Kernel),
        }
        let older: OlderPlan = serde_json::from_value(plan)?;
        let mut replayed = None;
        let mut simulated = None;
        for subject in older.subjects {
            let OlderReplay { workload, parameters, world } = serde_json::from_value(subject.simulation)?;
            match world {
                OlderWorld::Kernel(kernel) => replayed = Some((workload, parameters, kernel)),
                OlderWorld::Simulator => simulated = Some(parameters),
            }
        }
        let (workload, parameters, kernel) =
            replayed.ok_or_else(|| serde::de::Error::custom("nothing is replayed in a kernel"))?;
        Ok(Self {
            workload,
            kernel,
            parameters,
            simulated,
            policies: older.treatments.into_iter().map(|treatment| treatment.name).collect(),
            cpus: older.threads.first().copied().unwrap_or_default(),
            replicates: older.stop.max_blocks,
            seed: older.seed,
        })
    }
}

fn is_done(done: &[Sample], subject: &str, run: Run) -> bool {
    let is_it = |sample: &Sample| {
        sample.replicate == run.replicate && sample.subject == subject && sample.policy == run.policy.name()
    };
    done.iter().any(is_it)
}

fn failure(error: &RunFailure) -> Failure {
    let cause = match error {
        RunFailure::ExitCode { .. } => FailureCause::ExitCode,
        RunFailure::Signal { .. } => FailureCause::Signal,
        RunFailure::TimedOut { .. } => FailureCause::Timeout,
        RunFailure::NotStarted(_) => FailureCause::NotStarted,
        RunFailure::Unreadable(_) | RunFailure::UnreadableMisses(_) => FailureCause::Unreadable,
    };
    Failure { cause, what: error.to_string() }
}

/// What a replay's output says, its names read as metrics.
fn measurements(output: ReplayOutput) -> Measurements {
    Measurements {
        makespan_s: output.seconds,
        metrics: by_metric(output.metrics),
        histograms: by_metric(output.histograms),
        notes: output.notes,
    }
}

/// Simulates what the study in `session` has to be simulated and is not among its samples yet; `watch` is called after each.
///
/// # Errors
/// When it can't be simulated, or the journal fails.
pub fn simulate<E: From<SimulationError> + From<JournalError>>(
    session: &mut Session<ReplayPlan>,
    machine: &Machine,
    watch: &mut dyn FnMut(),
) -> Result<(), E> {
    let plan = session.plan().clone();
    let Some(parameters) = &plan.simulated else { return Ok(()) };
    let ready = TimeSharing::new(&plan.workload, parameters, machine, Timing::for_machine(machine))?;
    let (policies, subject) = (plan.known_policies(), plan.simulator_subject());
    let runs: Vec<(Run, sim::Policy)> = (0..plan.replicates)
        .flat_map(|replicate| policies.iter().map(move |&policy| Run { policy, replicate }))
        .filter(|run| !is_done(session.trials(), &subject, *run))
        .filter_map(|run| Some((run, plan.simulated_by(run.policy)?)))
        .collect();
    let measured: Vec<Measurements> = runs
        .par_iter()
        .map(|(run, policy)| simulated(&ready, &plan.workload, machine, (*policy, run.replicate)))
        .collect();
    for ((run, _), measured) in runs.into_iter().zip(measured) {
        let sequence = session.trials().len() as u32;
        session.add(plan.sample_of(subject.clone(), run, sequence, 0.0, Ok(measured)))?;
        watch();
    }
    Ok(())
}

/// One replicate in the simulator, with what it says of itself and what the ruler for both worlds does.
fn simulated(
    ready: &TimeSharing,
    workload: &Workload,
    machine: &Machine,
    (policy, replicate): (sim::Policy, u32),
) -> Measurements {
    let mut intervals = Vec::new();
    let (processes, mut measured) = ready.replicate(policy, replicate, |interval| intervals.push(interval));
    let own = Trace {
        workload,
        machine,
        intervals: &intervals,
        processes: &processes,
        until_ns: (measured.makespan_s * 1e9).round() as u64,
    }
    .measurements();
    measured.metrics.extend(by_metric(own.metrics));
    let cpu_ms = processes.iter().map(|process| process.cpu_ns as f64 / 1e6).sum::<f64>();
    let share = measured.metrics.get(&WORK).map_or(1.0, |work_ms| if cpu_ms > 0.0 { work_ms / cpu_ms } else { 1.0 });
    measured.metrics.insert(misses::FIRST_USE.clone(), misses::first_uses(workload, &processes, share));
    measured.histograms.extend(by_metric(own.histograms));
    measured
}
