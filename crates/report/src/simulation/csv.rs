//! Every replicate of a simulation, one row each.

use super::SimulationView;
use stats::Metric;
use std::collections::BTreeMap;
use study::Sample;

/// One row a replicate under a policy, in the order in which they were simulated: workload, the swept parameter's value where there
/// is one, policy, replicate, and every metric, whose units stand in their names. What a replicate lacks is empty.
pub(crate) fn csv(study: &SimulationView) -> String {
    let columns = metric_columns(&study.record.trials);
    let point = |subject: &str| study.record.plan.points.iter().find(|point| point.name == subject);
    let value = |subject: &str| {
        let point = point(subject).and_then(|point| point.simulation.point.as_ref());
        point.map(|point| point.value.to_string()).unwrap_or_default()
    };
    // The subject of a sweep's point is the workload with the point.
    let workload =
        |subject: &str| point(subject).map_or_else(String::new, |point| point.simulation.sharing.name().to_owned());
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write =
        |row: Vec<String>| writer.write_record(row).expect("writing rows of one length to memory cannot fail");
    let swept = study.swept().map(str::to_owned);
    let fixed = ["policy", "replicate"].map(String::from);
    let heads = std::iter::once("workload".to_owned()).chain(swept.clone()).chain(fixed);
    write(heads.chain(columns.keys().cloned()).collect());
    for sample in &study.record.trials {
        let named = std::iter::once(workload(&sample.subject));
        let row = named.chain(swept.as_ref().map(|_| value(&sample.subject)));
        let row = row.chain([sample.policy.clone(), sample.replicate.to_string()]);
        write(row.chain(figures(sample, &columns)).collect());
    }
    let bytes = writer.into_inner().expect("flushing to memory cannot fail");
    String::from_utf8(bytes).expect("CSV of UTF-8 fields is UTF-8")
}

/// Every metric of the samples by its name, in which units stand.
pub(crate) fn metric_columns(samples: &[Sample]) -> BTreeMap<String, &Metric> {
    let metrics = samples.iter().filter_map(Sample::measurements).flat_map(|measured| measured.metrics.keys());
    metrics.map(|metric| (metric.to_string(), metric)).collect()
}

/// The numbers of a sample, one a column; what it lacks is empty.
pub(crate) fn figures(sample: &Sample, columns: &BTreeMap<String, &Metric>) -> Vec<String> {
    columns.values().map(|metric| sample.value(metric).map_or_else(String::new, |value| value.to_string())).collect()
}
