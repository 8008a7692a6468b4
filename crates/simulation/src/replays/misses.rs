//! By how much policies change misses: as the simulator predicts it, and as counted while a kernel replayed the same.

use super::ReplayPlan;
use super::agreement::L2_MISSES;
use crate::metrics::{MISSES, WORK};
use crate::results::{Estimated, mean_log_ratio, samples, twins};
use crate::verdict::{Change, Direction};
use serde::Serialize;
use sim::cache::Order;
use sim::{ProcessOutcome, Workload};
use stats::{By, Metric};
use std::sync::LazyLock;
use study::Record;
use study::sample::Sample;

/// Simulated misses of lines that a process had never used before: what is counted in a kernel leaves them out.
pub(super) static FIRST_USE: LazyLock<Metric> = LazyLock::new(|| MISSES.by(By::Cause("first_use".into())));

/// How many such misses are expected, where `share` of the processes' CPU time was work: at random, each of n lines is still unused after
/// work of t passes with a probability of exp(-t).
pub(super) fn first_uses(workload: &Workload, processes: &[ProcessOutcome], share: f64) -> f64 {
    let mut of_processes = processes.iter();
    let of_job = |job: &sim::Job| {
        let memory = &job.process.memory;
        let of_own = of_processes.by_ref().take(job.processes as usize);
        let passes: Vec<f64> = of_own.map(|process| process.cpu_ns as f64 / 1e3 * share / memory.pass_us).collect();
        let used = |passes: f64| match memory.order {
            Order::Random => -(-passes).exp_m1(),
            Order::Blocked => passes.min(1.0),
        };
        let own_lines = memory.reload_lines - memory.shared_lines;
        own_lines * passes.iter().map(|passes| used(*passes)).sum::<f64>()
            + memory.shared_lines * used(passes.iter().sum())
    };
    workload.jobs.iter().map(of_job).sum()
}

/// What policies change of misses against the kernel's own scheduler.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissChanges {
    /// The kernel's own scheduler.
    pub reference: String,
    /// The other policies.
    pub policies: Vec<MissChange>,
    /// Pairs of policies, the reference among them, whose counted misses differ: the interval of their ratio excludes 1.
    pub pairs: u32,
    /// Those of them that the simulator has in the same order.
    pub same_order: u32,
}

/// What a policy changes of misses of the L2, in percent: the geometric mean of the ratios of replicates with the same draws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissChange {
    /// The policy.
    pub policy: String,
    /// As counted in the kernel, of as many references.
    pub counted: Change,
    /// As simulated, for as much work.
    pub simulated: Change,
}

/// What the policies of `record` change; none where nothing was counted, simulated, or replayed under the kernel's own scheduler.
pub(super) fn miss_changes(record: &Record<ReplayPlan>) -> Option<MissChanges> {
    let reference = sim::Policy::Eevdf.name();
    let (kernel, simulator) = (record.plan.kernel_subject(), record.plan.simulator_subject());
    let ended = |subject: &str, policy: &str| {
        let mut samples = samples(record, subject, policy);
        samples.retain(|sample| sample.result.is_ok());
        samples
    };
    let both = |policy: &String| (policy.clone(), ended(&kernel, policy), ended(&simulator, policy));
    let all: Vec<(String, Vec<&Sample>, Vec<&Sample>)> = record.plan.policies.iter().map(both).collect();
    let (_, counted, simulated) = all.iter().find(|(policy, ..)| policy == reference)?;
    let changes =
        all.iter().filter(|(policy, ..)| policy != reference).filter_map(|(policy, of_kernel, of_simulator)| {
            Some(MissChange {
                policy: policy.clone(),
                counted: change(of_kernel, counted, &L2_MISSES)?,
                simulated: change(of_simulator, simulated, &MISSES)?,
            })
        });
    let policies: Vec<MissChange> = changes.collect();
    if policies.is_empty() {
        return None;
    }
    let (mut pairs, mut same_order) = (0, 0);
    for (at, a) in all.iter().enumerate() {
        for b in &all[at + 1..] {
            // By what part of the one's misses the other has fewer: of nothing there is no part.
            let counted_in = |samples: &[&Sample]| samples.iter().filter_map(|it| it.value(&L2_MISSES)).sum::<f64>();
            let (less, more) = if counted_in(&a.1) <= counted_in(&b.1) { (a, b) } else { (b, a) };
            let counted = change(&less.1, &more.1, &L2_MISSES);
            let (Some(counted), Some(simulated)) = (counted, change(&less.2, &more.2, &MISSES)) else { continue };
            let misses_nothing = |samples: &[&Sample]| samples.iter().any(|it| it.value(&L2_MISSES) == Some(0.0));
            let can_tell = counted.percent.low.is_some() && !(misses_nothing(&less.1) && misses_nothing(&more.1));
            let is_shown = can_tell && counted.direction != Direction::NoneShown;
            pairs += u32::from(is_shown);
            same_order += u32::from(is_shown && (counted.percent.value < 0.0) == (simulated.percent.value < 0.0));
        }
    }
    Some(MissChanges { reference: reference.to_owned(), policies, pairs, same_order })
}

/// Simulated misses but for first uses, which older journals don't tell, for each ms of work; any other number as it is.
fn comparable(sample: &Sample, metric: &Metric) -> Option<f64> {
    let number = sample.value(metric)?;
    if *metric != MISSES {
        return Some(number);
    }
    Some((number - sample.value(&FIRST_USE)?) / sample.value(&WORK)?)
}

/// By which percentage a metric of `samples` differs from that of their twins in `reference`: on the geometric mean, and by the means where a
/// replicate missed nothing.
fn change(samples: &[&Sample], reference: &[&Sample], metric: &Metric) -> Option<Change> {
    let of_logs = mean_log_ratio(samples, reference, metric, comparable);
    let percent = of_logs.map(|log| log.map(|log| 100.0 * log.exp_m1()));
    let of_means = || Some(ratio_of_means(samples, reference, metric)?.map(|ratio| 100.0 * (ratio - 1.0)));
    Some(Change::from(percent.or_else(of_means)?))
}

/// The mean of `samples` over that of their twins in `reference`, with the interval that the residuals give (the ratio estimator: Cochran,
/// Sampling Techniques, 1977, 6.4); none where nobody among those missed anything.
fn ratio_of_means(samples: &[&Sample], reference: &[&Sample], metric: &Metric) -> Option<Estimated> {
    let pairs = twins(samples, reference);
    let numbers = pairs.map(|(sample, twin)| Some((comparable(sample, metric)?, comparable(twin, metric)?)));
    let numbers: Vec<(f64, f64)> = numbers.collect::<Option<_>>()?;
    let [sum, of_twins] = numbers.iter().fold([0.0; 2], |[sum, of_twins], (own, twin)| [sum + own, of_twins + twin]);
    if of_twins <= 0.0 {
        return None;
    }
    let (ratio, mean) = (sum / of_twins, of_twins / numbers.len() as f64);
    let residuals: Vec<f64> = numbers.iter().map(|(own, twin)| ratio + (own - ratio * twin) / mean).collect();
    Some(Estimated::from_values(&residuals)?.within((0.0, f64::INFINITY)))
}

impl MissChanges {
    /// The median distance of what was simulated from what was counted, in percentage points.
    pub fn median_error_points(&self) -> f64 {
        let error = |Estimated { value, .. }: Estimated, other: Estimated| (value - other.value).abs();
        let errors = self.policies.iter().map(|it| error(it.simulated.percent, it.counted.percent));
        stats::quantile(&errors.collect::<Vec<_>>(), 0.5).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Machine;
    use replay::{Policy, ReplayOutput, Run, Scenario};
    use std::collections::BTreeMap;
    use study::kind::Kind;
    use study::sample::Measurements;
    use study::{Ending, Host, Session};

    #[test]
    fn lines_are_used_for_the_first_time_once_by_each_process_that_comes_to_them() {
        let mut workload = sim::Workload::spin(2);
        workload.jobs.truncate(1);
        let job = &mut workload.jobs[0];
        job.processes = 2;
        job.process.memory = sim::Footprint { reload_lines: 1_000.0, pass_us: 100.0, ..sim::Footprint::default() };
        let process = |cpu_ns| ProcessOutcome { arrived_ns: Some(0), ended_ns: None, cpu_ns };
        let uses = |workload: &Workload, cpu_ns: [u64; 2]| first_uses(workload, &cpu_ns.map(process), 1.0);
        assert_eq!(uses(&workload, [0, 0]), 0.0);
        // After a pass, all but 1/e; after many, all, of each process.
        assert!((uses(&workload, [100_000, 0]) - 632.12).abs() < 0.01);
        assert!((uses(&workload, [10_000_000, 10_000_000]) - 2_000.0).abs() < 1e-9);
        assert!((first_uses(&workload, &[process(200_000), process(0)], 0.5) - 632.12).abs() < 0.01);
        // What both have in common, the first of them uses.
        workload.jobs[0].process.memory.shared_lines = 1_000.0;
        assert!((uses(&workload, [10_000_000, 10_000_000]) - 1_000.0).abs() < 1e-9);
        workload.jobs[0].process.memory = sim::Footprint { order: Order::Blocked, ..workload.jobs[0].process.memory };
        assert!((uses(&workload, [25_000, 25_000]) - 500.0).abs() < 1e-9);
    }

    /// A record of replays under `policies`, each with misses of 1,000 references by replicate, and simulated misses of 100 ms of work.
    fn record(policies: &[(&str, [f64; 3], [f64; 3])]) -> Record<ReplayPlan> {
        let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
        let known: Vec<Policy> = policies.iter().map(|(name, ..)| name.parse().unwrap()).collect();
        let parameters = sim::Parameters { replicates: 3, ..sim::Parameters::default() };
        let scenario = Scenario { workload: sim::Workload::spin(2), parameters: parameters.clone() };
        let kernel = super::super::Kernel {
            release: "7.3".into(),
            place: "vm:1x2".into(),
            is_scalable: false,
            max_wait_ms: None,
        };
        let plan = ReplayPlan::new(&scenario, kernel, Some(parameters), &known, &machine);
        plan.check().unwrap();
        let mut session = Session::open(None, &plan, &machine, &Host::Modelled, &[]).unwrap();
        for (policy, (_, counted, simulated)) in known.into_iter().zip(policies) {
            for replicate in 0..3_u32 {
                let at = replicate as usize;
                let run = Run { policy, replicate };
                let metrics = BTreeMap::from([("l2_misses_per_1000".to_owned(), counted[at])]);
                let output = ReplayOutput { metrics, ..ReplayOutput::default() };
                let of_kernel = plan.sample(run, Ok(output), 2 * replicate);
                // Seven of them by first uses.
                let metrics = [(MISSES, simulated[at] + 7.0), (FIRST_USE.clone(), 7.0), (WORK, 100.0)].into();
                let measured = Measurements { metrics, ..Measurements::default() };
                let of_simulator = plan.sample_of(plan.simulator_subject(), run, 2 * replicate + 1, 0.0, Ok(measured));
                session.add(of_kernel).unwrap();
                session.add(of_simulator).unwrap();
            }
        }
        session.end::<crate::RunError>(Ok(Ending::Finished)).unwrap()
    }

    #[test]
    fn policies_are_compared_with_the_kernels_own_by_twins_and_in_their_order() {
        let found = miss_changes(&record(&[
            ("eevdf", [100.0, 200.0, 400.0], [50.0, 60.0, 70.0]),
            // Half of each twin's, whatever these are; and simulated a quarter.
            ("light", [50.0, 100.0, 200.0], [12.5, 15.0, 17.5]),
            // A little more than half, always; and simulated more than all others.
            ("heavy", [51.0, 102.0, 204.0], [100.0, 120.0, 140.0]),
            // Now more, now less: not told apart from anything.
            ("long-slice", [10.0, 900.0, 300.0], [50.0, 60.0, 70.0]),
        ]))
        .unwrap();
        let percents =
            |change: &MissChange| [change.counted.percent.value, change.simulated.percent.value].map(f64::round);
        let told: Vec<_> = found.policies.iter().map(|change| (change.policy.as_str(), percents(change))).collect();
        assert_eq!(told[..2], [("light", [-50.0, -75.0]), ("heavy", [-49.0, 100.0])]);
        assert_eq!(
            (found.policies[2].counted.direction, found.policies[2].simulated.percent.value),
            (Direction::NoneShown, 0.0)
        );
        // eevdf and light are in the same order, eevdf and heavy aren't; light and heavy are.
        assert_eq!((found.reference.as_str(), found.pairs, found.same_order), ("eevdf", 3, 2));
        // The errors are 25, 149, and 30.4, which is by how much the geometric mean of 0.1, 4.5 and 0.75 is below 1.
        assert!((found.median_error_points() - 30.4).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn who_misses_nothing_in_some_replicates_is_compared_by_the_means() {
        let found = miss_changes(&record(&[
            ("eevdf", [100.0, 200.0, 300.0], [50.0, 60.0, 70.0]),
            ("light", [0.0, 2.0, 4.0], [12.5, 15.0, 17.5]),
            ("heavy", [0.0; 3], [0.0; 3]),
        ]))
        .unwrap();
        let [light, heavy] = &found.policies[..] else { panic!("{found:?}") };
        assert!((light.counted.percent.value + 99.0).abs() < 1e-9);
        // Residuals of -1, 0 and 1 of 200: an error of 1 / 200 / sqrt(3), times 4.303 with two degrees of freedom.
        assert!((light.counted.percent.high.unwrap() + 99.0 - 1.242).abs() < 1e-3, "{light:?}");
        // There are no fewer than none.
        assert!((light.counted.percent.low.unwrap() + 100.0).abs() < 1e-9, "{light:?}");
        assert_eq!([heavy.counted.percent.value, heavy.simulated.percent.value], [-100.0; 2]);
        // Heavy and light aren't told apart: each missed nothing now and then.
        assert_eq!((found.pairs, found.same_order), (2, 2));
    }

    #[test]
    fn without_the_kernels_own_or_what_was_counted_there_is_no_change() {
        assert_eq!(miss_changes(&record(&[("light", [1.0; 3], [1.0; 3]), ("heavy", [2.0; 3], [1.0; 3])])), None);
        // Nobody missed.
        assert_eq!(miss_changes(&record(&[("eevdf", [0.0; 3], [0.0; 3]), ("light", [0.0; 3], [0.0; 3])])), None);
    }
}
