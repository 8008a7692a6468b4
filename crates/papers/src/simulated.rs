//! One workload simulated under several policies, and what its replicates come to.

use crate::live_workloads::paired_change;
use machine::Machine;
use sim::{Parameters, Policy, Workload};
use simulation::metrics::{MAKESPAN, MEAN_COMPLETION, MISSES, SLICES, WORK};
use simulation::{Estimated, PointResult, RunError, Simulation, SimulationPlan, simulation_analysis};
use stats::{By, Metric};
use std::collections::BTreeMap;
use std::ops::Range;
use study::session::{Host, Session};
use study::{Record, Sample};

/// The policies of the report's Table V, for each of its quantities.
pub(super) const EFFECT_POLICIES: [Policy; 2] = [Policy::Light, Policy::Heavy];

/// One workload under several policies.
pub(super) struct Simulated {
    pub workload: Workload,
    pub point: PointResult,
    /// The same, compared with the kernel's own scheduler where that is among the policies.
    against_kernel: Option<PointResult>,
    samples: Vec<Sample>,
}

impl Simulated {
    /// Simulates a workload under `policies`.
    pub fn new(
        workload: Workload,
        parameters: Parameters,
        policies: &[Policy],
        machine: &Machine,
    ) -> Result<Self, RunError> {
        let plan = SimulationPlan::new(vec![Simulation::new(workload.clone(), parameters)], policies, machine);
        let mut record = record(&plan, machine)?;
        let point = simulation_analysis(&record).points.remove(0);
        let against_kernel = policies.contains(&Policy::Eevdf).then(|| {
            record.plan = plan.compared_with(Policy::Eevdf.name());
            simulation_analysis(&record).points.remove(0)
        });
        Ok(Self { workload, point, against_kernel, samples: record.trials })
    }

    pub fn name(&self) -> &str {
        &self.workload.name
    }

    /// The mean of a metric under a policy.
    pub fn value(&self, policy: Policy, metric: &Metric) -> Option<Estimated> {
        self.point.policy(policy.name())?.estimates.get(metric).copied()
    }

    /// By how many percent a metric differs from the standard scheduler's.
    pub fn change(&self, policy: Policy, metric: &Metric) -> Option<Estimated> {
        self.point.policy(policy.name())?.changes.get(metric).copied()
    }

    /// By how many percent a metric differs from that under the kernel's own scheduler.
    pub fn change_against_kernel(&self, policy: Policy, metric: &Metric) -> Option<Estimated> {
        self.against_kernel.as_ref()?.policy(policy.name())?.changes.get(metric).copied()
    }

    /// By how many percent a policy misses more or less than another for the same work, from replicates with the same draws; `among` such
    /// intervals hold at once. None where there are too few replicates.
    pub fn misses_against(&self, policy: Policy, reference: Policy, among: usize) -> Option<Estimated> {
        let of = |policy: Policy| -> BTreeMap<u32, f64> {
            let samples = self.samples.iter().filter(|sample| sample.policy == policy.name());
            let misses = |sample: &Sample| Some(sample.value(&MISSES)? / sample.value(&WORK)?);
            samples.filter_map(|sample| Some((sample.replicate, misses(sample)?))).collect()
        };
        paired_change(&of(reference), &of(policy), 1, among)
    }

    /// The mean of a number that each replicate has under a policy.
    pub fn mean(&self, policy: Policy, number: impl Fn(&Sample) -> Option<f64>) -> Option<Estimated> {
        let samples = self.samples.iter().filter(|sample| sample.policy == policy.name());
        Estimated::from_values(&samples.map(number).collect::<Option<Vec<f64>>>()?)
    }

    /// The share, in percent, of a histogram's times from `from_ms` to below `to_ms`, of the number of times under `of`.
    pub fn share(
        &self,
        policy: Policy,
        histogram: &Metric,
        (from_ms, to_ms): (f64, f64),
        of: Policy,
    ) -> Option<Estimated> {
        let count = |sample: &Sample, range: Range<f64>| {
            let times = sample.measurements()?.histograms.get(histogram)?;
            let inside = times.iter().filter(|(ms, _)| range.contains(ms));
            Some(inside.map(|(_, count)| count).sum::<u64>() as f64)
        };
        self.mean(policy, |sample| {
            let norm = |other: &&Sample| other.policy == of.name() && other.replicate == sample.replicate;
            let all = count(self.samples.iter().find(norm)?, 0.0..f64::INFINITY)?;
            Some(100.0 * count(sample, from_ms..to_ms)? / all)
        })
    }

    /// The share of slices from `from_ms` on, in percent.
    pub fn slices_from(&self, policy: Policy, from_ms: f64) -> Option<Estimated> {
        self.share(policy, &SLICES, (from_ms, f64::INFINITY), policy)
    }

    /// The share of CPU time that reloads take under the standard scheduler, of one application or of all.
    pub fn lost_to_reloads(&self, application: Option<&str>) -> Option<f64> {
        let standard = |metric: Metric| {
            let metric = Metric { job: application.map(str::to_owned), ..metric };
            Some(self.value(Policy::Standard, &metric)?.value)
        };
        let (cpu, reload) = (Metric::from_name("cpu_ms"), MISSES.by(By::Cause("reload".into())));
        // What misses cost in all, shared out by their number.
        let cpu_ms = standard(cpu)?;
        let stalled_ms = cpu_ms - standard(WORK)?;
        Some(stalled_ms / cpu_ms * standard(reload)? / standard(MISSES)?.max(f64::MIN_POSITIVE))
    }

    /// The number in a column of Table V.
    pub fn effect(&self, column: usize) -> Option<Estimated> {
        let (policy, metric) = effect_column(column);
        self.change(policy, &metric)
    }

    /// The same against the kernel's own scheduler.
    pub fn effect_against_kernel(&self, column: usize) -> Option<Estimated> {
        let (policy, metric) = effect_column(column);
        self.change_against_kernel(policy, &metric)
    }
}

/// What a column of Table V is of.
fn effect_column(column: usize) -> (Policy, Metric) {
    let metrics = [MISSES, MEAN_COMPLETION, MAKESPAN];
    let policies = EFFECT_POLICIES.len();
    (EFFECT_POLICIES[column % policies], metrics[column / policies].clone())
}

/// A plan of simulations with all its samples; no journal is written.
pub(super) fn record(plan: &SimulationPlan, machine: &Machine) -> Result<Record<SimulationPlan>, RunError> {
    let mut session = Session::open(None, plan, machine, &Host::Modelled, &[])?;
    let ending = simulation::simulate(&mut session, machine, &mut || ());
    session.end(ending)
}
