//! Every sample of a simulation or of replays, one row each.

use super::{SimulationView, is_kernels};
use crate::csv::{or_empty, text};
use stats::Metric;
use std::collections::BTreeMap;
use study::Sample;

/// One row a replicate under a policy, in the order in which they were simulated: workload, the swept parameter's value where there
/// is one, policy, where a kernel's own scheduler is among these the release of its kernel, replicate, and every metric, whose units stand in their names. What a replicate lacks is empty.
pub(crate) fn csv(study: &SimulationView) -> String {
    let swept = study.swept();
    let kernel = study.kernel();
    let heads = ["workload"].into_iter().chain(swept).chain(["policy"]);
    let heads = heads.chain(kernel.map(|_| "kernel")).chain(["replicate"]);
    samples_csv(&study.record.trials, heads.map(String::from).collect(), |sample| {
        // The subject of a sweep's point is the workload with the point.
        let point = study.record.plan.points.iter().find(|point| point.name == sample.subject);
        let workload = or_empty(point.map(|point| point.simulation.sharing.name()));
        let value = swept.map(|_| or_empty(point.and_then(|point| Some(point.simulation.point.as_ref()?.value))));
        let release = kernel.map(|release| or_empty(is_kernels(&sample.policy).then_some(release)));
        let (policy, replicate) = (sample.policy.clone(), sample.replicate.to_string());
        [workload].into_iter().chain(value).chain([policy]).chain(release).chain([replicate]).collect()
    })
}

/// Samples, each with its labels below `heads` and every metric in a column of its own.
pub(crate) fn samples_csv(
    samples: &[Sample],
    mut heads: Vec<String>,
    labels: impl Fn(&Sample) -> Vec<String>,
) -> String {
    let metrics = samples.iter().filter_map(Sample::measurements).flat_map(|measured| measured.metrics.keys());
    let columns: BTreeMap<String, &Metric> = metrics.map(|metric| (metric.to_string(), metric)).collect();
    heads.extend(columns.keys().cloned());
    let row = |sample: &Sample| {
        labels(sample).into_iter().chain(columns.values().map(|metric| or_empty(sample.value(metric)))).collect()
    };
    text(heads, samples.iter().map(row))
}
