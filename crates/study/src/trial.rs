//! One execution of one subject under one treatment, and how it went.

use crate::mix::JobRun;
use crate::shape::Shape;
use launch::Observation;
use machine::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::Display;

/// How a trial went: a number, or the named cause why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, Serialize, Deserialize)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It ran and, where it can be told, its result was right.
    Ok,
    /// It ended with an exit code other than 0.
    ExitCode,
    /// A signal killed it.
    Signal,
    /// It took longer than the timeout and was killed.
    Timeout,
    /// It was stopped when it had already taken much longer than the best of its race: it lost, and didn't fail.
    CutOff,
    /// Its output said that its result is wrong, or did not say that it is right.
    VerificationFailed,
    /// Its own time was not found in its output, or what was found there can't be it.
    NoTime,
    /// The number of a metric was not found in what it wrote, or can't be compared.
    NoMetric,
    /// The server that the load was for was not there for all of it.
    Server,
    /// What was to run before or after it failed.
    Preparation,
    /// It could not be started.
    NotStarted,
    /// It, or we who watched it, stood still for a while, so that its time says nothing; it was run again.
    Disturbed,
    /// The virtual machine that it ran in panicked, hung, ended or lost its files.
    MachineLost,
    /// What it was to run under (a scheduler, company) was not there for all of its run, so that its time says nothing of that.
    NotInForce,
}

impl Status {
    /// Whether something went wrong. A run that was cut off was right as far as it went, and one that was disturbed can't tell.
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Ok | Self::CutOff | Self::Disturbed)
    }
}

/// One execution and all that is kept of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Position in the study, from 0; the order in which trials were run.
    pub sequence: u32,
    /// Randomised complete block; warm-up blocks come first.
    pub block: u32,
    /// Whether it is a warm-up, never counted.
    pub warmup: bool,
    /// Name of the subject.
    pub subject: String,
    /// Thread count, or ranks x threads.
    pub threads: Shape,
    /// Name of the treatment.
    pub placement: String,
    /// How it went.
    pub status: Status,
    /// The cause in words when it did not go well; empty otherwise.
    pub cause: String,
    /// The time that counts, in seconds: the program's own where it reports one, else wall time; of a mix its makespan. Only when
    /// `status` is ok.
    pub time_s: Option<f64>,
    /// When it started, in seconds since 1970 (UTC); of a model, in seconds of the model's clock.
    pub started_unix_s: f64,
    /// From its first instruction to its end, in seconds, however it ended; none when it could not be started.
    pub ran_s: Option<f64>,
    /// Where thread `i` was meant to run; none when unbound.
    pub intended_cpus: Option<Vec<CpuSet>>,
    /// What was observed; none when it could not be started, or a model stands in for it.
    pub observation: Option<Observation>,
    /// What few trials have: large studies keep many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<Box<More>>,
    /// The last of its standard error (and output, when it failed), at most 4 KiB.
    pub output_tail: String,
}

/// What trials of mixes, of servers and on clusters have, and those of subjects with several metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct More {
    /// Of a mix, every run of every job, those of a job one after the other, in the order of jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobRun>,
    /// What else was measured, by the name of the metric; only when the trial's status is ok.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, f64>,
    /// Of a server, what was seen of its load; the trial's observation is of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadRun>,
    /// The last that a server printed, at most 4 KiB.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log_tail: String,
    /// The node of a cluster that it ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// What was seen of a load on a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRun {
    /// How long the server took until it was ready, in seconds.
    pub ready_s: Option<f64>,
    /// Its end, its costs, its threads.
    pub observation: Observation,
}

impl More {
    /// This, boxed, unless there is nothing in it.
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

impl Trial {
    /// Of a mix, every run of every job.
    pub fn jobs(&self) -> &[JobRun] {
        self.more.as_ref().map_or(&[], |more| &more.jobs)
    }

    /// The node of a cluster that it ran on; none where there is no cluster.
    pub fn node(&self) -> Option<&str> {
        self.more.as_ref()?.node.as_deref()
    }

    /// What else was measured of it, by the name of the metric.
    pub fn values(&self) -> impl Iterator<Item = (&str, f64)> {
        self.more.iter().flat_map(|more| more.values.iter().map(|(name, value)| (name.as_str(), *value)))
    }

    /// Takes back what else was measured.
    pub(crate) fn forget_values(&mut self) {
        if let Some(more) = &mut self.more {
            more.values.clear();
        }
    }
}
