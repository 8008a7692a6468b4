//! What a simulation adds to the JSON form.

use super::SimulationView;
use serde_json::{Map, Value, json};
use study::simulation::{Estimated, PointResult, PolicyResult};

/// The estimates that every policy has a key for, null where there is none.
const ALWAYS: [&str; 14] = [
    "misses",
    "misses_change_percent",
    "makespan_ms",
    "makespan_change_percent",
    "mean_completion_ms",
    "mean_completion_change_percent",
    "migrations",
    "dispatches",
    "idle_fraction",
    "effective_slice_median_ms",
    "effective_slice_mean_ms",
    "jain_index",
    "longest_wait_ms",
    "switches",
];

/// The causes of misses.
const CAUSES: [&str; 3] = ["reload", "steady", "invalidation"];

/// The keys that simulations have besides those of every study: `workload` and `parameters` as they were simulated, and `policies`,
/// one object each; for a sweep `sweep` (the parameter's name) and `points`, a list of objects with `value`, `parameters`
/// and `policies`. Each estimate is a mean over replicates, with the ends of its 95 % interval beside it in `_low` and `_high`
/// (null for a single replicate). `_change_percent` compares with standard. Histograms list bins `from_ms` to below
/// `to_ms` (null: no end), with `count` a replicate and `percent` of standard's slices (of its own where standard is not there).
pub(crate) struct Contract {
    /// Keys and values in their order.
    pub values: Vec<(&'static str, Value)>,
    /// Keys of lists, with a value a line.
    pub lists: Vec<(&'static str, Vec<Value>)>,
}

impl Contract {
    /// What the simulation says.
    pub(crate) fn new(study: &SimulationView) -> Self {
        let simulation = study.simulation;
        let workload = ("workload", json!(simulation.workload));
        let Some(swept) = study.swept() else {
            let policies = study.points().iter().flat_map(|point| policies(study, point)).collect();
            let values = vec![workload, ("parameters", json!(simulation.parameters))];
            return Self { values, lists: vec![("policies", policies)] };
        };
        let point = |point: &PointResult| {
            let subject = study.record.plan.subjects.iter().find(|subject| subject.name == point.subject);
            let parameters = subject.and_then(|subject| subject.simulation.as_ref()).map(|s| &s.parameters);
            json!({
                "value": point.point.as_ref().map(|point| point.value),
                "parameters": parameters,
                "policies": policies(study, point),
            })
        };
        let points = study.points().iter().map(point).collect();
        Self { values: vec![workload, ("sweep", json!(swept))], lists: vec![("points", points)] }
    }
}

fn policies(study: &SimulationView, point: &PointResult) -> Vec<Value> {
    point.policies.iter().map(|result| policy(study, result)).collect()
}

fn policy(study: &SimulationView, result: &PolicyResult) -> Value {
    let mut fields = Map::new();
    fields.insert("policy".into(), json!(result.policy));
    fields.insert("replicates".into(), json!(result.replicates));
    for name in ALWAYS {
        put(&mut fields, name, None);
    }
    let mut causes = Map::new();
    let mut jobs: Vec<Map<String, Value>> = Vec::new();
    for job in &study.simulation.workload.jobs {
        jobs.push(Map::from_iter([("job".to_owned(), json!(job.name))]));
    }
    let told = result.estimates.iter().map(|(metric, estimate)| (metric.clone(), estimate));
    let changes = result.changes.iter().map(|(metric, change)| {
        let (name, job) = metric.split_once(':').map_or((metric.as_str(), None), |(name, job)| (name, Some(job)));
        let name = format!("{}_change_percent", name.strip_suffix("_ms").unwrap_or(name));
        (job.map_or_else(|| name.clone(), |job| format!("{name}:{job}")), change)
    });
    for (name, estimate) in told.chain(changes) {
        match name.split_once(':') {
            Some((name, job)) => {
                let position = study.simulation.workload.jobs.iter().position(|known| known.name == job);
                position.into_iter().for_each(|at| put(&mut jobs[at], name, Some(estimate)));
            }
            None => match name.strip_prefix("misses_").filter(|cause| CAUSES.contains(cause)) {
                Some(cause) => put(&mut causes, cause, Some(estimate)),
                None => put(&mut fields, &name, Some(estimate)),
            },
        }
    }
    fields.insert("misses_by_cause".into(), Value::Object(causes));
    fields.insert("jobs".into(), json!(jobs));
    fields.insert("effective_slice_histogram".into(), json!(result.slices));
    Value::Object(fields)
}

fn put(fields: &mut Map<String, Value>, name: &str, estimate: Option<&Estimated>) {
    fields.insert(name.into(), json!(estimate.map(|e| e.value)));
    fields.insert(format!("{name}_low"), json!(estimate.and_then(|e| e.low)));
    fields.insert(format!("{name}_high"), json!(estimate.and_then(|e| e.high)));
}
