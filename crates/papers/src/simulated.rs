//! One workload simulated under several policies, and what its replicates come to.

use machine::Machine;
use sim::{Parameters, Policy, Workload};
use study::host::HostFacts;
use study::plan::Plan;
use study::record::{Ending, Record};
use study::simulation::{self, Estimated, PointResult, PolicyResult, Simulation, SimulationError};
use study::trial::Trial;

/// One workload under several policies.
pub(super) struct Simulated {
    pub workload: Workload,
    pub point: PointResult,
    trials: Vec<Trial>,
}

impl Simulated {
    /// Simulates a workload under `policies`.
    pub fn new(
        workload: Workload,
        parameters: Parameters,
        policies: &[Policy],
        machine: &Machine,
    ) -> Result<Self, SimulationError> {
        let plan = Plan::of_simulations(vec![Simulation::new(workload.clone(), parameters)], policies, machine);
        let record = record(plan, machine)?;
        let point = simulation::analyse(&record).remove(0);
        Ok(Self { workload, point, trials: record.trials })
    }

    pub fn name(&self) -> &str {
        &self.workload.name
    }

    fn result(&self, policy: Policy) -> Option<&PolicyResult> {
        self.point.policies.iter().find(|result| result.policy == policy.name())
    }

    /// The mean of a metric under a policy.
    pub fn value(&self, policy: Policy, metric: &str) -> Option<Estimated> {
        self.result(policy)?.estimates.get(metric).copied()
    }

    /// By how many percent a metric differs from the standard scheduler's.
    pub fn change(&self, policy: Policy, metric: &str) -> Option<Estimated> {
        self.result(policy)?.changes.get(metric).copied()
    }

    /// The mean of a number that each replicate has under a policy.
    pub fn mean(&self, policy: Policy, number: impl Fn(&Trial) -> Option<f64>) -> Option<Estimated> {
        let trials = self.trials.iter().filter(|trial| trial.placement == policy.name());
        Estimated::of(&trials.map(number).collect::<Option<Vec<f64>>>()?)
    }

    /// The share, in percent, of a histogram's times from `from_ms` to below `to_ms`, of the number of times under `of`.
    pub fn share(
        &self,
        policy: Policy,
        histogram: &str,
        (from_ms, to_ms): (f64, f64),
        of: Policy,
    ) -> Option<Estimated> {
        let count = |trial: &Trial, from_ms: f64, to_ms: f64| {
            let times = trial.observation.as_ref()?.histograms.get(histogram)?;
            let inside = times.iter().filter(|(ms, _)| (from_ms..to_ms).contains(ms));
            Some(inside.map(|(_, count)| count).sum::<u64>() as f64)
        };
        self.mean(policy, |trial| {
            let norm = |other: &&Trial| other.placement == of.name() && other.block == trial.block;
            let all = count(self.trials.iter().find(norm)?, 0.0, f64::INFINITY)?;
            Some(100.0 * count(trial, from_ms, to_ms)? / all)
        })
    }

    /// The share of slices from `from_ms` on, in percent.
    pub fn slices_from(&self, policy: Policy, from_ms: f64) -> Option<Estimated> {
        self.share(policy, simulation::SLICES, (from_ms, f64::INFINITY), policy)
    }

    /// The share of CPU time that reloads take under the standard scheduler, of one application or of all.
    pub fn lost_to_reloads(&self, application: Option<&str>) -> Option<f64> {
        let whose = application.map_or_else(String::new, |name| format!(":{name}"));
        let standard = |metric: &str| Some(self.value(Policy::Standard, &format!("{metric}{whose}"))?.value);
        // What misses cost in all, shared out by their number.
        let stalled_ms = standard("cpu_ms")? - standard("work_ms")?;
        Some(stalled_ms / standard("cpu_ms")? * standard("misses_reload")? / standard("misses")?.max(f64::MIN_POSITIVE))
    }

    /// The number in a column of Table V.
    pub fn effect(&self, column: usize) -> Option<Estimated> {
        let metric = ["misses", "mean_completion_ms", "makespan_ms"][column / 2];
        self.change([Policy::Light, Policy::Heavy][column % 2], metric)
    }
}

/// A plan of simulations with all its trials; no journal is written.
pub(super) fn record(plan: Plan, machine: &Machine) -> Result<Record, SimulationError> {
    let mut trials = Vec::new();
    simulation::simulate(&plan, machine, &[], &mut |trial| -> Result<(), SimulationError> {
        trials.push(trial);
        Ok(())
    })?;
    Ok(Record {
        plan,
        machine: serde_json::Value::Null,
        host: HostFacts::of_model(),
        sessions: Vec::new(),
        trials,
        ending: Some(Ending::Finished),
    })
}
