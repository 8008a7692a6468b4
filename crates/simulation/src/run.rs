//! Runs simulations: replicates disturb nobody, so all cores run them, and the samples come in the plan's order.

use crate::metrics;
use crate::plan::{Point, Simulation, SimulationError, SimulationPlan};
use crate::sharing::Sharing;
use crate::space;
use machine::{Level, Machine};
use rayon::prelude::*;
use sim::cache::{TaskCaches, Timing};
use sim::space as space_sharing;
use sim::{CacheModel, Experiment, Footprint, Interval, NoMemory, Parameters, Policy, ProcessOutcome, Workload};
use study::sample::{Measurements, Sample};
use study::session::{Session, SessionError};
use study::slurm::Distributed;
use study::{Ending, JournalError};

/// A simulation on its machine, ready to be run.
enum Ready<'a> {
    Time(TimeSharing<'a>),
    Space { experiment: space_sharing::Experiment<'a>, caches: Option<TaskCaches>, mix: &'a space_sharing::Mix },
}

impl<'a> Ready<'a> {
    /// A simulation on its own `machine`. It has no caches where nothing that runs ever misses.
    fn new(simulation: &'a Simulation, machine: &'a Machine) -> Result<Self, SimulationError> {
        let timing = simulation.timing(machine);
        match &simulation.sharing {
            Sharing::Time { workload, parameters } => {
                Ok(Self::Time(TimeSharing::new(workload, parameters, machine, timing)?))
            }
            Sharing::Space { mix, parameters } => {
                let experiment = space_sharing::Experiment::new(machine, mix, parameters)?;
                let any = experiment.footprints().iter().any(misses);
                let caches = any.then(|| {
                    TaskCaches::for_machine(machine, timing, experiment.footprints(), &experiment.jobs_of_workers())
                });
                Ok(Self::Space { caches: caches.transpose()?, experiment, mix })
            }
        }
    }

    /// What one replicate shows.
    fn measurements(&self, policy: &str, replicate: u32) -> Result<Measurements, SimulationError> {
        match self {
            Self::Time(ready) => Ok(ready.replicate(policy.parse()?, replicate, |_| {}).1),
            Self::Space { experiment, caches, mix } => {
                let policy: space_sharing::Policy = policy.parse()?;
                let outcome = match caches {
                    Some(caches) => experiment.run(policy, replicate, caches.clone(), |_| {}),
                    None => experiment.run(policy, replicate, NoMemory, |_| {}),
                };
                Ok(space::measurements(&outcome, mix))
            }
        }
    }
}

/// A simulation of time sharing on its machine, ready to be run.
pub(crate) struct TimeSharing<'a> {
    experiment: Experiment<'a>,
    caches: Option<CacheModel>,
    workload: &'a Workload,
    levels: Vec<Level>,
}

impl<'a> TimeSharing<'a> {
    pub(crate) fn new(
        workload: &'a Workload,
        parameters: &'a Parameters,
        machine: &'a Machine,
        timing: Timing,
    ) -> Result<Self, SimulationError> {
        let experiment = Experiment::new(machine, workload, parameters)?;
        let any = workload.jobs.iter().any(|job| misses(&job.process.memory));
        let caches = any.then(|| CacheModel::for_machine(machine, timing, workload)).transpose()?;
        Ok(Self { experiment, caches, workload, levels: metrics::levels(machine) })
    }

    /// What became of the processes in one replicate, and what it showed. `watch` sees every dispatch interval as it ends.
    pub(crate) fn replicate(
        &self,
        policy: Policy,
        replicate: u32,
        watch: impl FnMut(Interval),
    ) -> (Vec<ProcessOutcome>, Measurements) {
        let outcome = match &self.caches {
            Some(caches) => self.experiment.run(policy, replicate, caches.clone(), watch),
            None => self.experiment.run(policy, replicate, NoMemory, watch),
        };
        let measured = Measurements {
            makespan_s: outcome.makespan_ms / 1e3,
            metrics: metrics::metrics(&outcome, self.workload, &self.levels),
            histograms: metrics::histograms(&outcome),
            notes: Vec::new(),
        };
        (outcome.processes, measured)
    }
}

/// Why a simulation stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Something can't be simulated.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The study can't be worked on.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A signal asked us to end.
    #[error("interrupted by signal {signal}")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// The cluster that simulates can't go on, in a sentence.
    #[error("{0}")]
    Cluster(String),
}

/// The simulations of a plan on their machines, ready to be run.
pub(crate) struct Simulator<'a> {
    plan: &'a SimulationPlan,
    points: Vec<Ready<'a>>,
}

impl<'a> Simulator<'a> {
    /// Those of `plan`, each on its one of `machines`, which [`machines`] gives.
    pub(crate) fn new(plan: &'a SimulationPlan, machines: &'a [Machine]) -> Result<Self, SimulationError> {
        let ready = |(point, machine): (&'a Point, &'a Machine)| Ready::new(&point.simulation, machine);
        Ok(Self { plan, points: plan.points.iter().zip(machines).map(ready).collect::<Result<_, _>>()? })
    }

    /// The samples at `positions` in the plan's order, in that order, on all cores; their clocks are at 0.
    pub(crate) fn samples(&self, positions: &[u32]) -> Result<Vec<Sample>, RunError> {
        let run = |&position: &u32| match study::interruption() {
            Some(signal) => Err(RunError::Interrupted { signal }),
            None => Ok(self.sample(position)?),
        };
        positions.par_iter().map(run).collect()
    }

    fn sample(&self, position: u32) -> Result<Sample, SimulationError> {
        let (replicate, point, policy) = self.plan.at(position);
        let result = Ok(self.points[point].measurements(policy, replicate)?);
        let (subject, policy) = (self.plan.points[point].name.clone(), policy.to_owned());
        Ok(Sample { sequence: position, replicate, subject, policy, started_s: 0.0, result })
    }
}

/// The machine of each simulation of `plan` on `machine`.
pub(crate) fn machines(plan: &SimulationPlan, machine: &Machine) -> Vec<Machine> {
    plan.points.iter().map(|point| point.simulation.machine(machine)).collect()
}

/// Some samples at a time: an interruption loses no more than these, and memory holds no more.
pub(crate) fn some_at_a_time() -> usize {
    8 * rayon::current_num_threads()
}

/// Simulates what is left of the study in `session`, on all cores; `watch` is called after each sample. The order of samples is
/// the plan's alone: by replicate, then point, then policy.
///
/// # Errors
/// When something can't be simulated, or the journal fails.
pub fn simulate(
    session: &mut Session<SimulationPlan>,
    machine: &Machine,
    watch: &mut dyn FnMut(),
) -> Result<Ending, RunError> {
    let plan = session.plan().clone();
    let machines = machines(&plan, machine);
    let simulator = Simulator::new(&plan, &machines)?;
    let mut clock_s = SimulationPlan::clock_s(session.trials());
    // They are written in the plan's order, so those that were done are the first.
    let left: Vec<u32> = (session.trials().len() as u32..plan.samples() as u32).collect();
    for some in left.chunks(some_at_a_time()) {
        for mut sample in simulator.samples(some)? {
            plan.put_at(&mut sample, &mut clock_s);
            session.add(sample)?;
            watch();
        }
    }
    Ok(Ending::Finished)
}

fn misses(memory: &Footprint) -> bool {
    memory.reload_lines > 0.0 || memory.steady_misses_per_ms > 0.0
}
