//! Every replicate of a simulation, one row each.

use super::SimulationView;
use std::collections::BTreeSet;

/// One row a replicate under a policy, in the order in which they were simulated: workload, the swept parameter's value where there
/// is one, policy, replicate, and every metric, whose units stand in their names. What a replicate lacks is empty.
pub(crate) fn csv(study: &SimulationView) -> String {
    let metrics: BTreeSet<&String> = study
        .record
        .trials
        .iter()
        .filter_map(|trial| trial.observation.as_ref())
        .flat_map(|seen| seen.metrics.keys())
        .collect();
    let value = |subject: &str| {
        let point = study.points().iter().find(|point| point.subject == subject);
        point.map(super::value_of).unwrap_or_default()
    };
    // The subject of a sweep's point is the workload with the point.
    let workload = |subject: &str| {
        let subjects = study.record.plan.subjects.iter().find(|known| known.name == subject);
        let simulation = subjects.and_then(|subject| subject.simulation.as_ref());
        simulation.map_or_else(String::new, |simulation| simulation.sharing.name().to_owned())
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write =
        |row: Vec<String>| writer.write_record(row).expect("writing rows of one length to memory cannot fail");
    let swept = study.swept().map(str::to_owned);
    let fixed = ["policy", "replicate"].map(String::from);
    let heads = std::iter::once("workload".to_owned()).chain(swept.clone()).chain(fixed);
    write(heads.chain(metrics.iter().map(|&name| name.clone())).collect());
    for trial in &study.record.trials {
        let seen = trial.observation.as_ref();
        let figure =
            |name: &&String| seen.and_then(|seen| seen.metrics.get(*name)).map_or_else(String::new, f64::to_string);
        let named = std::iter::once(workload(&trial.subject));
        let row = named.chain(swept.as_ref().map(|_| value(&trial.subject)));
        let row = row.chain([trial.placement.clone(), trial.block.to_string()]);
        write(row.chain(metrics.iter().map(figure)).collect());
    }
    let bytes = writer.into_inner().expect("flushing to memory cannot fail");
    String::from_utf8(bytes).expect("CSV of UTF-8 fields is UTF-8")
}
