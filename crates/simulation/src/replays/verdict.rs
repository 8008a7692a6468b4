//! What replays show, and what may be said of it.

use super::agreement::{
    Agreement, CPU_TIME_RATIO, L2_MISSES, L3_MISSES, MIGRATIONS_PER_S, ReplayResult, ReplayedPolicy, SLICE_MEDIAN,
    replay_result,
};
use super::misses::{MissChanges, miss_changes};
use super::{Kernel, ReplayPlan};
use crate::results::samples;
use serde::Serialize;
use stats::Metric;
use std::collections::BTreeSet;
use study::sample::Sample;
use study::warning::{Warning, Work};
use study::{Ending, Record};

/// All that is concluded from a record of replays.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayAnalysis {
    /// What came of each policy in both worlds.
    pub result: ReplayResult,
    /// The answer with its doubt.
    pub verdict: ReplayVerdict,
    /// What limits the results.
    pub warnings: Vec<Warning>,
}

/// What replays show. Every list is empty where there is nothing of the kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename = "replay")]
pub struct ReplayVerdict {
    /// Name of the workload.
    pub workload: String,
    /// Where it was replayed.
    pub kernel: Kernel,
    /// Whether a replay came to its end.
    pub any: bool,
    /// What kernel and simulator agree on.
    pub agreements: Vec<Agreement>,
    /// Migrations a second and the median effective slice in ms, by policy.
    pub in_kernel: Vec<PolicyPair>,
    /// What L2 and L3 would have missed of 1,000 references, by policy.
    pub misses: Vec<PolicyPair>,
    /// What policies change of misses against the kernel's own scheduler, as counted and as simulated; none where one of these wasn't done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub miss_changes: Option<MissChanges>,
    /// The policy under which equal processes have the least equal CPU time, and the least of theirs over the most.
    pub least_fair: Option<PolicyFigure>,
}

/// Two figures of a policy in the kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyPair {
    /// The policy.
    pub policy: String,
    /// The figures.
    pub figures: [f64; 2],
}

/// A figure of a policy in the kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyFigure {
    /// The policy.
    pub policy: String,
    /// The figure.
    pub figure: f64,
}

/// What replays show; the same record gives the same conclusions.
pub fn replay_analysis(record: &Record<ReplayPlan>) -> ReplayAnalysis {
    let result = replay_result(record);
    ReplayAnalysis { verdict: verdict(&result, record), warnings: warnings(record, &result), result }
}

fn verdict(result: &ReplayResult, record: &Record<ReplayPlan>) -> ReplayVerdict {
    let agreements = result.agreements.iter().filter(|agreement| {
        // Nothing was asked where no policy follows the same rule in both worlds.
        !agreement.within.is_empty() || !agreement.beyond.is_empty()
    });
    let ratio = |policy: &ReplayedPolicy| {
        let figure = policy.beside(&CPU_TIME_RATIO)?.kernel?.value;
        Some(PolicyFigure { policy: policy.policy.clone(), figure })
    };
    ReplayVerdict {
        workload: result.workload.clone(),
        kernel: result.kernel.clone(),
        any: result.policies.iter().any(|policy| policy.replays > 0),
        agreements: agreements.cloned().collect(),
        in_kernel: pairs(result, [&MIGRATIONS_PER_S, &SLICE_MEDIAN]),
        misses: pairs(result, [&L2_MISSES, &L3_MISSES]),
        miss_changes: miss_changes(record),
        least_fair: result.policies.iter().filter_map(ratio).min_by(|a, b| a.figure.total_cmp(&b.figure)),
    }
}

/// What two figures are in the kernel under each policy that has both.
fn pairs(result: &ReplayResult, metrics: [&Metric; 2]) -> Vec<PolicyPair> {
    let pair = |policy: &ReplayedPolicy| {
        let figure = |metric: &Metric| Some(policy.beside(metric)?.kernel?.value);
        Some(PolicyPair { policy: policy.policy.clone(), figures: [figure(metrics[0])?, figure(metrics[1])?] })
    };
    result.policies.iter().filter_map(pair).collect()
}

fn warnings(record: &Record<ReplayPlan>, result: &ReplayResult) -> Vec<Warning> {
    let unfinished = record.ending != Some(Ending::Finished);
    let mut warnings = Vec::from_iter(unfinished.then_some(Warning::Unfinished { work: Work::Replay }));
    for policy in &result.policies {
        let name = &policy.policy;
        if policy.failed > 0 {
            warnings.push(Warning::ReplaysFailed {
                policy: name.clone(),
                failed: policy.failed,
                of: policy.failed + policy.replays,
                first_cause: first_cause(record, name),
            });
        }
        match &policy.simulated_by {
            Some(stand_in) if !policy.is_same_rule => {
                warnings.push(Warning::StandIn { policy: name.clone(), simulated_by: stand_in.clone() });
            }
            None if result.is_simulated => warnings.push(Warning::NotSimulated { policy: name.clone() }),
            _ => {}
        }
    }
    let notes = record.trials.iter().filter_map(Sample::measurements).flat_map(|measured| &measured.notes);
    let notes: BTreeSet<&String> = notes.collect();
    warnings.extend(notes.into_iter().map(|note| Warning::ReplayNote { text: note.clone() }));
    warnings
}

/// Why the first of a policy's failed replays did: the first line.
fn first_cause(record: &Record<ReplayPlan>, policy: &str) -> Option<String> {
    let subject = record.plan.kernel_subject();
    let failure = samples(record, &subject, policy).into_iter().find_map(|sample| sample.result.as_ref().err())?;
    Some(failure.what.lines().next().unwrap_or_default().to_owned())
}
