//! What is told of a trial to programs, once for JSON and CSV.

use crate::jobs;
use crate::study_view::actual_cpus;
use machine::CpuSet;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use study::{LoadRun, Observation, Slowdowns, Trial};

/// An object for programs: keys and values in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(pub Vec<(&'static str, Value)>);

impl<const N: usize> From<[(&'static str, Value); N]> for Fields {
    fn from(fields: [(&'static str, Value); N]) -> Self {
        Self(fields.into())
    }
}

impl Fields {
    /// Adds a value that an object needn't have.
    pub(crate) fn add(&mut self, key: &'static str, value: Option<impl Serialize>) {
        self.0.extend(value.map(|value| (key, json!(value))));
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// A name, with its unit, and what stands under it.
type Field = (&'static str, fn(&Trial) -> Value);

/// What every trial has in JSON and in CSV; null where it was not observed.
pub(crate) const OF_TRIAL: [Field; 21] = [
    ("sequence", |trial| json!(trial.sequence)),
    ("block", |trial| json!(trial.block)),
    ("warmup", |trial| json!(trial.warmup)),
    ("subject", |trial| json!(trial.subject)),
    ("threads", |trial| json!(trial.threads)),
    ("placement", |trial| json!(trial.placement)),
    ("status", |trial| json!(trial.status)),
    ("cause", |trial| json!(trial.cause)),
    ("started_unix_s", |trial| json!(trial.started_unix_s)),
    ("time_s", |trial| json!(trial.time_s)),
    ("wall_s", |trial| json!(trial.ran_s)),
    ("user_s", |trial| seen(trial, |o| json!(o.user_s))),
    ("system_s", |trial| seen(trial, |o| json!(o.system_s))),
    ("max_rss_bytes", |trial| seen(trial, |o| json!(o.max_rss_bytes))),
    ("voluntary_switches", |trial| seen(trial, |o| json!(o.voluntary_switches))),
    ("involuntary_switches", |trial| seen(trial, |o| json!(o.involuntary_switches))),
    ("migrations", |trial| seen(trial, |o| json!(o.migrations))),
    ("minor_faults", |trial| seen(trial, |o| json!(o.minor_faults))),
    ("major_faults", |trial| seen(trial, |o| json!(o.major_faults))),
    ("leftover_processes", |trial| seen(trial, |o| json!(o.leftovers))),
    ("strayed_threads", |trial| seen(trial, |o| json!(o.threads.iter().filter(|thread| thread.strayed()).count()))),
];

/// What a trial read, wrote and used of energy; journals used not to keep it.
pub(crate) const USED: [Field; 3] = [
    ("read_bytes", |trial| seen(trial, |o| json!(o.read_bytes))),
    ("written_bytes", |trial| seen(trial, |o| json!(o.written_bytes))),
    ("energy_j", |trial| seen(trial, |o| json!(o.energy_j))),
];

/// How often a trial's threads were stopped to be watched, and what that took; journals used not to keep it.
pub(crate) const STOPS: [Field; 2] =
    [("stops", |trial| seen(trial, |o| json!(o.stops))), ("stops_s", |trial| seen(trial, |o| json!(o.stops_s)))];

fn seen(trial: &Trial, field: impl Fn(&Observation) -> Value) -> Value {
    trial.observation.as_ref().map_or(Value::Null, field)
}

/// What was seen of the load on a server, for JSON.
fn of_load(load: &LoadRun) -> Fields {
    let LoadRun { ready_s, observation } = load;
    let cpus: Vec<&CpuSet> = observation.threads.iter().map(|thread| &thread.actual_cpus).collect();
    let intended: Vec<&Option<CpuSet>> = observation.threads.iter().map(|thread| &thread.intended_cpus).collect();
    Fields::from([
        ("server_ready_s", json!(ready_s)),
        ("wall_s", json!(observation.wall_s)),
        ("user_s", json!(observation.user_s)),
        ("system_s", json!(observation.system_s)),
        ("max_rss_bytes", json!(observation.max_rss_bytes)),
        ("intended_cpus", json!(intended)),
        ("actual_cpus", json!(cpus)),
    ])
}

/// A trial for JSON: CPUs as lists, and what not every trial has. `slowdowns` are those of the jobs of a mix, where they are known.
pub(crate) fn of_trial(trial: &Trial, slowdowns: Option<&Slowdowns>) -> Fields {
    let mut fields = Fields(OF_TRIAL.map(|(name, value)| (name, value(trial))).into());
    let seen = trial.observation.as_ref();
    if seen.is_some_and(|o| o.stops.is_some()) {
        fields.0.extend(STOPS.map(|(name, value)| (name, value(trial))));
    }
    if seen.is_some_and(|o| o.read_bytes.is_some()) {
        fields.0.extend(USED.map(|(name, value)| (name, value(trial))));
    }
    fields.add("intended_cpus", Some(&trial.intended_cpus));
    fields.add("actual_cpus", Some(actual_cpus(trial)));
    fields.add("node", trial.node());
    fields.add("load", trial.more.as_ref().and_then(|more| more.load.as_ref()).map(of_load));
    fields.add("server_log", trial.more.as_ref().map(|more| &more.log_tail).filter(|log| !log.is_empty()));
    fields.add("counters", seen.map(|o| &o.counters).filter(|counters| !counters.is_empty()));
    fields.add("memory", seen.and_then(|o| o.conditions.memory.as_ref()));
    fields.add("sched", seen.and_then(|o| o.conditions.scheduling.as_ref()));
    fields.add("beside", seen.and_then(|o| o.conditions.company.as_ref()));
    fields.add("notes", seen.map(|o| &o.notes).filter(|notes| !notes.is_empty()));
    fields.add("jobs", (!trial.jobs().is_empty()).then(|| jobs::runs(trial, slowdowns)));
    let values = jobs::values(trial, slowdowns);
    fields.add("values", (!values.is_empty()).then_some(values));
    let told = trial.status.is_failure() && !trial.output_tail.is_empty();
    fields.add("output_tail", told.then_some(&trial.output_tail));
    fields
}
