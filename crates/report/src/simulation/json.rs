//! What a simulation adds to the JSON form.

use super::SimulationView;
use ::simulation::metrics::{MIGRATIONS, MISSES};
use ::simulation::{Estimated, PointResult, PolicyResult, Sharing};
use serde_json::{Map, Value, json};
use stats::{By, Metric, Unit};
use std::collections::BTreeSet;

/// The estimates that every policy has a key for, null where there is none.
const ALWAYS: [&str; 15] = [
    "misses",
    "misses_change_percent",
    "makespan_ms",
    "makespan_change_percent",
    "mean_completion_ms",
    "mean_completion_change_percent",
    "process_time_mean_ms",
    "migrations",
    "dispatches",
    "idle_fraction",
    "effective_slice_median_ms",
    "effective_slice_mean_ms",
    "jain_index",
    "longest_wait_ms",
    "switches",
];

/// The same of space sharing.
const ALWAYS_OF_SPACE: [&str; 8] = [
    "response_ms",
    "response_change_percent",
    "response_change_by_affinity_percent",
    "makespan_ms",
    "reallocations",
    "moves",
    "affine_fraction",
    "reload_fraction",
];

const CHANGE: &str = "_change_percent";
const AFFINITY_CHANGE: &str = "_change_by_affinity_percent";

/// The keys that simulations have besides those of every study: `reference` (the policy that others are compared with) and, where a
/// kernel's own scheduler is among the policies, `kernel` (its release); `workload` and `parameters` as they were simulated, and `policies`,
/// one object each; for a sweep `sweep` (the parameter's name) and `points`, a list of objects with `value`, `parameters`
/// and `policies`. Each estimate is a mean over replicates, with the ends of its 95 % interval beside it in `_low` and `_high`
/// (null for a single replicate). `_change_percent` compares with the reference, misses for the same work, and is null where that was not simulated. `jobs` says of
/// each job what its policy's object says of all. `misses_by_cause` are counts, `dispatch_interval_ends` shares of the
/// intervals that each cause ended (they sum to 1), `migrations_by_distance` counts by what the two CPUs share. Histograms list
/// bins `from_ms` to below `to_ms` (null: no end), with `count` a replicate and `percent` of the reference's slices (of its own where
/// that is not there), or of the policy's own dispatch intervals.
///
/// Of space sharing `mix` stands in the place of `workload`, changes compare with equipartition, and `_change_by_affinity_percent`
/// with dynamic; several mixes are a list `mixes`, each with its `mix` and `policies`.
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
        let mut values = vec![("reference", json!(study.reference()))];
        values.extend(study.kernel().map(|release| ("kernel", json!(release.name()))));
        let workload = match &simulation.sharing {
            Sharing::Time { workload, .. } => ("workload", json!(workload)),
            Sharing::Space { mix, .. } => ("mix", json!(mix)),
        };
        if study.compares_mixes() {
            let mix = |point: &PointResult| {
                let simulation = study.simulation_at(point);
                let mix = simulation.map(|simulation| match &simulation.sharing {
                    Sharing::Time { workload, .. } => json!(workload),
                    Sharing::Space { mix, .. } => json!(mix),
                });
                json!({ "mix": mix, "policies": policies(study, point) })
            };
            values.push(("parameters", json!(simulation.sharing.parameters())));
            return Self { values, lists: vec![("mixes", study.points().iter().map(mix).collect())] };
        }
        let Some(swept) = study.swept() else {
            let policies = study.points().iter().flat_map(|point| policies(study, point)).collect();
            values.extend([workload, ("parameters", json!(simulation.sharing.parameters()))]);
            return Self { values, lists: vec![("policies", policies)] };
        };
        let point = |point: &PointResult| {
            let parameters = study.simulation_at(point).map(|simulation| simulation.sharing.parameters());
            json!({
                "value": point.point.as_ref().map(|point| point.value),
                "parameters": parameters,
                "policies": policies(study, point),
            })
        };
        let points = study.points().iter().map(point).collect();
        values.extend([workload, ("sweep", json!(swept))]);
        Self { values, lists: vec![("points", points)] }
    }
}

fn policies(study: &SimulationView, point: &PointResult) -> Vec<Value> {
    point.policies.iter().map(|result| policy(study, result)).collect()
}

fn policy(study: &SimulationView, result: &PolicyResult) -> Value {
    let mut whole = Map::from_iter([
        ("policy".to_owned(), json!(result.policy)),
        ("replicates".to_owned(), json!(result.replicates)),
    ]);
    for name in if study.shares_space() { &ALWAYS_OF_SPACE[..] } else { &ALWAYS } {
        put(&mut whole, name, None);
    }
    let known: BTreeSet<&str> = result.estimates.keys().filter_map(|metric| metric.job.as_deref()).collect();
    let mut names: Vec<&str> = Vec::new();
    let points = study.record.plan.points.iter();
    for name in points.flat_map(|point| point.simulation.sharing.jobs()).filter(|name| known.contains(name)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut jobs: Vec<Map<String, Value>> =
        names.into_iter().map(|job| Map::from_iter([("job".to_owned(), json!(job))])).collect();
    let told = result.estimates.iter().map(|(metric, estimate)| (metric, "", estimate));
    let changes = result.changes.iter().map(|(metric, change)| (metric, CHANGE, change));
    let affinity = result.affinity_changes.iter().map(|(metric, change)| (metric, AFFINITY_CHANGE, change));
    for (metric, suffix, estimate) in told.chain(changes).chain(affinity) {
        let fields = match metric.job.as_ref().map(|job| jobs.iter().position(|known| known["job"] == *job)) {
            None => &mut whole,
            Some(Some(position)) => &mut jobs[position],
            Some(None) => continue,
        };
        match (group(metric), suffix) {
            (Some((group, key)), "") => {
                let members = fields.entry(group).or_insert_with(|| json!({}));
                members.as_object_mut().into_iter().for_each(|members| put(members, key, Some(estimate)));
            }
            // Of shares, only what they are is told.
            (_, CHANGE | AFFINITY_CHANGE) if metric.unit == Unit::Fraction => {}
            (_, CHANGE | AFFINITY_CHANGE) => {
                let unit = if metric.unit == Unit::Ms { "" } else { metric.unit.suffix() };
                put(fields, &format!("{}{unit}{suffix}", metric.stem()), Some(estimate));
            }
            _ => put(fields, &metric.of_all_jobs().to_string(), Some(estimate)),
        }
    }
    whole.insert("jobs".into(), json!(jobs));
    if !study.shares_space() {
        whole.insert("effective_slice_histogram".into(), json!(result.slices));
        whole.insert("dispatch_interval_histogram".into(), json!(result.intervals));
    }
    Value::Object(whole)
}

/// The object that parts of a metric stand in together, and the part's key there.
fn group(metric: &Metric) -> Option<(&'static str, &str)> {
    match metric.by.as_ref()? {
        By::Cause(cause) if metric.name == MISSES.name => Some(("misses_by_cause", cause)),
        By::End(end) => Some(("dispatch_interval_ends", end)),
        By::Distance(level) if metric.name == MIGRATIONS.name => Some(("migrations_by_distance", level)),
        _ => None,
    }
}

/// An estimate with the ends of its interval; null where there is none.
pub(crate) fn put(fields: &mut Map<String, Value>, name: &str, estimate: Option<&Estimated>) {
    fields.insert(name.into(), json!(estimate.map(|e| e.value)));
    fields.insert(format!("{name}_low"), json!(estimate.and_then(|e| e.low)));
    fields.insert(format!("{name}_high"), json!(estimate.and_then(|e| e.high)));
}
