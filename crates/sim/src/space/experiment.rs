//! A mix on a machine with parameters, and its replicates under each policy.

use super::graph::{Graph, Order, Tasks};
use super::mix::Mix;
use super::policy::Parameters;
use crate::behaviour::Lengths;
use crate::cache::Footprint;
use crate::experiment::ExperimentError;
use machine::Machine;

/// A stage, ready to be drawn from.
#[derive(Debug)]
pub(super) struct Stage {
    /// How many tasks there are.
    pub tasks: u32,
    /// Which wait for which; none where all are independent.
    pub order: Option<Order>,
    /// Work of a task that has no length of its own.
    pub work: Lengths,
    /// By task, where tasks are listed.
    pub works: Vec<Option<Lengths>>,
    /// Which of the experiment's footprints it has.
    pub footprint: u32,
    /// Of what a worker had cached, the share that is of use here.
    pub kept: f64,
}

/// A mix on a machine with parameters. Replicates and policies can be run in any order and on any threads.
pub struct Experiment<'a> {
    pub(super) mix: &'a Mix,
    pub(super) parameters: &'a Parameters,
    pub(super) cpus: u32,
    /// By kind.
    pub(super) stages: Vec<Vec<Stage>>,
    footprints: Vec<Footprint>,
}

impl<'a> Experiment<'a> {
    /// Puts a mix on the usable CPUs of a machine.
    ///
    /// # Errors
    /// [`ExperimentError`] says why it can't be simulated.
    pub fn new(machine: &Machine, mix: &'a Mix, parameters: &'a Parameters) -> Result<Self, ExperimentError> {
        parameters.check()?;
        mix.check().map_err(|cause| ExperimentError::Workload { name: mix.name.clone(), cause })?;
        let cpus = machine.usable().count() as u32;
        if cpus == 0 {
            return Err(ExperimentError::NoCpu(machine.name().into()));
        }
        let mut footprints = Vec::new();
        let mut compiled = |graph: &Graph| -> Vec<Stage> {
            let stage = |stage: &super::graph::Stage| {
                let footprint = scaled(stage.memory, parameters);
                let number = footprints.iter().position(|known| *known == footprint).unwrap_or_else(|| {
                    footprints.push(footprint);
                    footprints.len() - 1
                });
                let works = match &stage.tasks {
                    Tasks::Listed(tasks) => tasks.iter().map(|task| task.work_ms.as_ref().map(Lengths::new)).collect(),
                    Tasks::Independent(_) | Tasks::Wavefront { .. } => Vec::new(),
                };
                Stage {
                    tasks: stage.tasks.count() as u32,
                    order: (!matches!(stage.tasks, Tasks::Independent(_))).then(|| Order::new(&stage.tasks)),
                    work: Lengths::new(&stage.work_ms),
                    works,
                    footprint: number as u32,
                    kept: stage.kept,
                }
            };
            graph.stages.iter().map(stage).collect()
        };
        let stages = mix.kinds.iter().map(|kind| compiled(&kind.graph)).collect();
        Ok(Self { mix, parameters, cpus, stages, footprints })
    }

    /// What tasks do to caches, by the number that [`TaskMemory::turn`](crate::memory::TaskMemory::turn) gets.
    pub fn footprints(&self) -> &[Footprint] {
        &self.footprints
    }

    /// The job of each worker, by number: every job has as many workers as there are CPUs.
    pub fn jobs_of_workers(&self) -> Vec<u32> {
        (0..self.mix.jobs()).flat_map(|job| std::iter::repeat_n(job, self.cpus as usize)).collect()
    }

    /// The kind of each job.
    pub(super) fn kinds_of_jobs(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.mix.kinds).flat_map(|(number, kind)| std::iter::repeat_n(number, kind.count as usize))
    }
}

/// A footprint on the CPUs and with the data of a simulation.
fn scaled(footprint: Footprint, parameters: &Parameters) -> Footprint {
    let Parameters { speed, data, .. } = parameters;
    Footprint {
        reload_lines: footprint.reload_lines * data,
        shared_lines: footprint.shared_lines * data,
        pass_us: footprint.pass_us / speed,
        steady_misses_per_ms: footprint.steady_misses_per_ms * data * speed,
        shared_writes_per_ms: footprint.shared_writes_per_ms * data * speed,
        ..footprint
    }
}
