//! What the cache-affinity report is judged by: its seven workloads simulated on its machine, and its own experiments.

use crate::simulated::Simulated;
use crate::space_sharing;
use machine::Machine;
use sim::cache::experiment::reuse;
use sim::cache::{CacheModel, Reuse, Timing};
use sim::workload_file::REPORT_WORKLOADS;
use sim::{CpuIndex, Decay, KernelParameters, Parameters, Policy, ProcessIndex, Release, WorkloadFile};
use simulation::{RunError, SimulationError};
use stats::Metric;
use std::collections::BTreeMap;

/// The policies that the report speaks of in section 4, the two alternatives of its section 1, and what people have today.
const POLICIES: [Policy; 6] =
    [Policy::Standard, Policy::Light, Policy::Heavy, Policy::Attached, Policy::LongQuantum, Policy::Eevdf];

/// Today's kernel: the newest one that is modelled.
pub(super) fn todays_kernel() -> Release {
    Release::default()
}

/// What was simulated.
pub(super) struct Evidence {
    /// The seven workloads.
    pub workloads: Vec<Simulated>,
    /// Each application alone, under the standard scheduler.
    pub applications: Vec<Simulated>,
    /// What each application reuses and displaces in an interval of its mean length.
    pub reuse: BTreeMap<String, Reuse>,
    /// Equal processes that compute, two a CPU, without decay, under standard, light and heavy.
    pub spinning: Simulated,
    /// What jobs do that share CPUs in space.
    pub space: space_sharing::Evidence,
}

impl Evidence {
    /// Simulates all of it, the seven workloads under `besides`, too. `progress` is called with how much of it is done, from 0 to 1.
    pub fn new(
        machine: &Machine,
        replicates: u32,
        seed: u64,
        besides: &[Policy],
        progress: &mut dyn FnMut(f64),
    ) -> Result<Self, RunError> {
        let policies = [&POLICIES[..], besides].concat();
        let named = |name: &str| WorkloadFile::named(name).expect("the report's workloads are built in");
        let applications: Vec<&str> = WorkloadFile::applications().collect();
        const SPACE_STEPS: usize = 3;
        let steps = REPORT_WORKLOADS.len() + applications.len() + 1 + SPACE_STEPS;
        let mut done = 0;
        let mut simulated = |file: WorkloadFile, policies: &[Policy]| {
            let kernel = Some(KernelParameters::of(todays_kernel()));
            let parameters = Parameters { replicates, seed, kernel, ..file.parameters };
            let simulated = Simulated::new(file.workload, parameters, policies, machine)?;
            done += 1;
            progress(done as f64 / steps as f64);
            Ok::<_, RunError>(simulated)
        };
        let workloads = REPORT_WORKLOADS
            .iter()
            .map(|(name, _)| simulated(named(name), &policies))
            .collect::<Result<Vec<_>, _>>()?;
        let alone = applications.iter().map(|name| simulated(named(name), &[Policy::Standard]));
        let applications = alone.collect::<Result<Vec<_>, _>>()?;
        let mut spin = named(&format!("spin:{}", 2 * machine.usable().count()));
        spin.parameters.decay = Decay::None;
        let spinning = simulated(spin, &[Policy::Standard, Policy::Light, Policy::Heavy])?;
        let before = (steps - SPACE_STEPS) as f64 / steps as f64;
        let space =
            space_sharing::Evidence::new(replicates, seed, &mut |share| progress(before + share * (1.0 - before)))?;
        let mut measured = BTreeMap::new();
        for application in &applications {
            let caches = CacheModel::for_machine(machine, Timing::for_machine(machine), &application.workload)
                .map_err(SimulationError::from)?;
            let mean_ms = application
                .value(Policy::Standard, &Metric::from_name("dispatch_interval_mean_ms"))
                .map_or(0.0, |mean| mean.value);
            let reuse = reuse(&caches, ProcessIndex(0), CpuIndex(0), 0, (mean_ms * 1e6) as u64);
            measured.insert(application.name().to_owned(), reuse);
        }
        Ok(Self { workloads, applications, reuse: measured, spinning, space })
    }

    /// The workload of that name, which must be one of the report's.
    pub fn workload(&self, name: &str) -> &Simulated {
        self.workloads.iter().find(|simulated| simulated.name() == name).expect("all of the report's are simulated")
    }

    /// The application of that name, alone.
    pub fn application(&self, name: &str) -> Option<&Simulated> {
        self.applications.iter().find(|simulated| simulated.name() == name)
    }

    /// By workload, the share of CPU time in percent that reloads take.
    pub fn lost_to_reloads(&self) -> Vec<(&str, f64)> {
        let lost = |simulated: &Simulated| Some(100.0 * simulated.lost_to_reloads(None)?);
        self.workloads.iter().filter_map(|simulated| Some((simulated.name(), lost(simulated)?))).collect()
    }
}
