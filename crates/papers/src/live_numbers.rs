//! What was measured of the report's workloads, number by number: what tables show and claims are judged by.

use crate::live_workloads::{ALL_MISSES, Place, RELOAD_MISSES, good_trials, paired_change};
use serde::Serialize;
use simulation::Estimated;
use std::collections::BTreeMap;
use study::mix::MEAN_COMPLETION;
use study::{Analysis, Comparison, Record, Summary, Trial};

/// Time of the whole workload.
pub(super) const TIME: &str = "time";
/// Time until the parallel compilation of a workload is done.
pub(super) const PMAKE_COMPLETION: &str = "completion of Pmake";
/// Jain's index of the completion times of jobs that are the same program: 1 where they end at once.
pub(super) const EVENNESS: &str = "evenness";

/// The compilation among the jobs of a mix.
const PMAKE: &str = "affinity:pmake";

/// A number and what it is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Of {
    pub place: Place,
    pub workload: String,
    pub scheduling: String,
    pub what: String,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LiveNumbers(pub BTreeMap<Of, Estimated>);

impl LiveNumbers {
    /// By how many percent `what` of a workload is more or less under `scheduling` than under the reference of `place`. None where that
    /// wasn't measured often enough.
    pub fn change(&self, place: Place, workload: &str, scheduling: &str, what: &str) -> Option<Estimated> {
        let (workload, scheduling, what) = (workload.to_owned(), scheduling.to_owned(), what.to_owned());
        self.0.get(&Of { place, workload, scheduling, what }).copied()
    }

    /// How evenly equal jobs of a workload end under `scheduling`, which may be the reference: see [`EVENNESS`].
    pub fn evenness(&self, place: Place, workload: &str, scheduling: &str) -> Option<Estimated> {
        self.change(place, workload, scheduling, EVENNESS)
    }

    /// Whether anything was measured in `place`.
    pub fn is_measured(&self, place: Place) -> bool {
        self.0.keys().any(|of| of.place == place)
    }

    /// Adds what a study says.
    pub fn add(&mut self, place: Place, workload: &'static str, record: &Record<Comparison>, analysis: &Analysis) {
        let plan = &record.plan.plan;
        let schedulings: Vec<String> =
            plan.treatments.iter().map(|treatment| treatment.conditions.scheduling.to_string()).collect();
        let pmake = |scheduling: &str| -> BTreeMap<u32, f64> {
            let trials = good_trials(record, workload, scheduling).into_iter().flatten();
            trials.filter_map(|trial| Some((trial.block, completion_s(trial, PMAKE)?))).collect()
        };
        for (number, (scheduling, treatment)) in schedulings.iter().zip(&plan.treatments).enumerate() {
            let mut put = |what: &str, number: Option<Estimated>| {
                let (scheduling, what) = (scheduling.clone(), what.to_owned());
                let of = Of { place, workload: workload.to_owned(), scheduling, what };
                number.map(|number| self.0.insert(of, number));
            };
            let trials = good_trials(record, workload, scheduling).into_iter().flatten();
            let even: Vec<f64> = trials.filter_map(evenness).collect();
            put(EVENNESS, Estimated::from_values(&even));
            if number == 0 {
                continue;
            }
            let is_its = |summary: &&Summary| {
                summary.subject == workload && summary.placement == treatment.name && summary.trials > 0
            };
            let Some(summary) = analysis.summaries.iter().find(is_its) else { continue };
            let own = change((summary.ratio, summary.ratio_low, summary.ratio_high));
            put(TIME, own);
            for what in [MEAN_COMPLETION, ALL_MISSES, RELOAD_MISSES] {
                let metric = summary.metrics.iter().find(|other| other.metric.name == what);
                let told = metric.map(|metric| (metric.ratio, metric.ratio_low, metric.ratio_high));
                // Of a workload that is one program, which is all of its jobs.
                let is_own = what == MEAN_COMPLETION && summary.metrics.is_empty();
                put(what, if is_own { own } else { told.and_then(change) });
            }
            let reference = &schedulings[0];
            put(PMAKE_COMPLETION, paired_change(&pmake(reference), &pmake(scheduling), plan.seed, 1));
        }
    }
}

/// A change in percent, of ratios of the reference over the other.
fn change((ratio, low, high): (Option<f64>, Option<f64>, Option<f64>)) -> Option<Estimated> {
    let percent = |ratio: f64| 100.0 * (ratio.recip() - 1.0);
    Some(Estimated { value: percent(ratio?), low: high.map(percent), high: low.map(percent) })
}

/// When a program of a mix has ended once, in seconds after the mix began; none where it isn't one of its jobs.
fn completion_s(trial: &Trial, program: &str) -> Option<f64> {
    trial.jobs().iter().find(|run| run.name.starts_with(program)).map(|run| run.ended_s)
}

/// Jain's index of the times in which the jobs of a mix ended that are all one program; none of others.
fn evenness(trial: &Trial) -> Option<f64> {
    let program = |name: &str| name.rsplit_once(' ').map(|(program, _)| program.to_owned());
    let first = program(&trial.jobs().first()?.name)?;
    let same = trial.jobs().iter().all(|run| program(&run.name).as_ref() == Some(&first));
    let times: Vec<f64> = trial.jobs().iter().map(|run| run.ended_s).collect();
    (same && times.len() > 1).then(|| stats::jain_index(&times)).flatten()
}
