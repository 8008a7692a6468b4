//! How CPUs are shared in a simulation: what runs, with the numbers of its scheduler or allocator.

use crate::plan::{CACHES, FUTURE, MEMORY, PHI, SimulationError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim::space as space_sharing;
use sim::{Parameters, Policy, Release, Workload};

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

    /// The policy that others are compared with, unless a plan names another.
    pub fn reference(&self) -> &'static str {
        match self {
            Self::Time { .. } => Policy::Standard.name(),
            Self::Space { .. } => space_sharing::Policy::Equipartition.name(),
        }
    }

    /// The kernel that policies of kernels are of; none where jobs hold CPUs.
    pub fn kernel(&self) -> Option<Release> {
        match self {
            Self::Time { parameters, .. } => {
                Some(parameters.kernel.as_ref().map_or_else(Release::default, |kernel| kernel.release))
            }
            Self::Space { .. } => None,
        }
    }

    /// How often it is simulated, and where its draws start.
    pub(crate) fn replicates(&self) -> (u32, u64) {
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

    /// Takes other parameters.
    pub(crate) fn set_parameters(&mut self, fields: serde_json::Map<String, Value>) -> Result<(), String> {
        let fields = Value::Object(fields);
        let read = match self {
            Self::Time { parameters, .. } => serde_json::from_value(fields).map(|read| *parameters = read),
            Self::Space { parameters, .. } => serde_json::from_value(fields).map(|read| *parameters = read),
        };
        read.map_err(|error| error.to_string())?;
        self.check_parameters()
    }

    pub(crate) fn check_parameters(&self) -> Result<(), String> {
        let checked = match self {
            Self::Time { parameters, .. } => parameters.check(),
            Self::Space { parameters, .. } => parameters.check(),
        };
        checked.map_err(|error| error.to_string())
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let checked = match self {
            Self::Time { workload, .. } => workload.check(),
            Self::Space { mix, .. } => mix.check(),
        };
        checked.map_err(|error| error.to_string())?;
        self.check_parameters()
    }

    /// Whether there is a policy of that name.
    pub(crate) fn check_policy(&self, name: &str) -> Result<(), SimulationError> {
        match self {
            Self::Time { .. } => name.parse::<Policy>().map(drop).map_err(SimulationError::from),
            Self::Space { .. } => name.parse::<space_sharing::Policy>().map(drop).map_err(SimulationError::from),
        }
    }

    /// Whether the kernel that is simulated has what a policy and the workload ask of it.
    pub(crate) fn check_kernel(&self, policy: &str) -> Result<(), SimulationError> {
        let Self::Time { workload, parameters } = self else { return Ok(()) };
        let policy: Policy = policy.parse()?;
        let kernel = parameters.kernel.clone().unwrap_or_default();
        let lacks =
            |what: &'static str, since: Release| SimulationError::Kernel { what, since, release: kernel.release };
        let asks_for_slices = workload.jobs.iter().any(|job| job.process.slice_ms.is_some());
        match policy {
            Policy::EevdfLlc if kernel.release < Release::Linux7_3 => {
                Err(lacks("cache-aware balancing", Release::Linux7_3))
            }
            policy if policy.is_kernels() && !kernel.own_slices => {
                let is_asked = asks_for_slices || policy == Policy::EevdfLongSlice;
                if is_asked { Err(lacks("slices that processes ask for", Release::Linux6_12)) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// What can be swept.
    pub(crate) fn sweepable(&self) -> Vec<String> {
        let fields = self.parameters();
        let own = match self {
            Self::Time { .. } => PHI,
            Self::Space { .. } => FUTURE,
        };
        sweepable(&fields).chain([own, CACHES, MEMORY]).map(str::to_owned).collect()
    }
}

/// The parameters that are numbers, without those that say how often a simulation is repeated.
pub(crate) fn sweepable(fields: &serde_json::Map<String, Value>) -> impl Iterator<Item = &str> {
    let numbers = fields.iter().filter(|(_, value)| value.is_number());
    numbers.map(|(name, _)| name.as_str()).filter(|name| !["seed", "replicates"].contains(name))
}
