//! A workload on a machine with parameters, and its replicates under each policy.

use crate::behaviour::Behaviour;
use crate::cpus::Cpus;
use crate::fault::WorkloadError;
use crate::parameters::{ParameterError, Parameters};
use crate::workload::Workload;
use machine::Machine;

/// Why something can't be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ExperimentError {
    /// The workload makes no sense.
    #[error("workload `{name}`: {cause}")]
    Workload {
        /// Its name.
        name: String,
        /// What is wrong where.
        cause: WorkloadError,
    },
    /// The parameters make no sense.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// Nothing can run there.
    #[error("machine `{0}` has no usable CPU")]
    NoCpu(String),
    /// Some process never ends, and there is no horizon.
    #[error("processes of workload `{0}` never end; give them `work_ms`, or the simulation a horizon")]
    Endless(String),
}

/// A workload on a machine with parameters. Replicates and policies can be run in any order and on any threads.
pub struct Experiment<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) parameters: &'a Parameters,
    pub(crate) cpus: Cpus<'a>,
    pub(crate) behaviours: Vec<Behaviour>,
}

impl<'a> Experiment<'a> {
    /// Puts a workload on the usable CPUs of a machine.
    ///
    /// # Errors
    /// [`ExperimentError`] says why it can't be simulated.
    pub fn new(
        machine: &'a Machine,
        workload: &'a Workload,
        parameters: &'a Parameters,
    ) -> Result<Self, ExperimentError> {
        parameters.check()?;
        workload.check().map_err(|cause| ExperimentError::Workload { name: workload.name.clone(), cause })?;
        if parameters.horizon_ms.is_none() && !workload.ends() {
            return Err(ExperimentError::Endless(workload.name.clone()));
        }
        let cpus = Cpus::new(machine);
        if cpus.len() == 0 {
            return Err(ExperimentError::NoCpu(machine.name().into()));
        }
        let behaviours = Behaviour::of_jobs(workload);
        Ok(Self { workload, parameters, cpus, behaviours })
    }

    pub(crate) fn processes(&self) -> usize {
        self.workload.jobs.iter().map(|job| job.processes as usize).sum()
    }
}
