//! What replays in a kernel show: whether the simulator agrees, and what each policy does.

use super::{Agreement, Kernel, PlayResult, PlayedPolicy, played};
use crate::record::Record;
use crate::simulation::Estimated;
use crate::warning::{Warning, Work};
use kernel::play::account::CPU_TIME_RATIO;
use kernel::play::modelled::{L2_MISSES, L3_MISSES};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What replays of a workload in a kernel show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayVerdict {
    /// The workload's name.
    pub workload: String,
    /// The kernel's release.
    pub release: String,
    /// The machine that it runs: `here`, or a virtual one.
    pub place: String,
    /// What is shown; none when nothing was replayed to its end.
    pub findings: Option<ReplayFindings>,
}

/// What replays show that went well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayFindings {
    /// Whether kernel and simulator agree, on each quantity that both have.
    pub agreements: Vec<AgreementVerdict>,
    /// Migrations and effective slices under each policy, in the kernel.
    pub scheduling: Vec<SchedulingFigures>,
    /// What each policy misses in the modelled caches.
    pub misses: Vec<MissFigures>,
    /// The policy under which equal processes get the least equal CPU time.
    pub least_fair: Option<Fairness>,
}

/// Whether kernel and simulator agree on a quantity, under policies by which both follow the same rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgreementVerdict {
    /// The metric.
    pub metric: String,
    /// Policies under which they agree.
    pub within: Vec<String>,
    /// The others, and how far apart they are.
    pub beyond: Vec<Disagreement>,
    /// Pairs of policies that the simulator sets apart.
    pub pairs: u32,
    /// Those of them that the kernel has in the same order.
    pub same_order: u32,
}

/// A policy under which kernel and simulator don't agree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disagreement {
    /// The policy.
    pub policy: String,
    /// The mean in the kernel.
    pub kernel: f64,
    /// The kernel's over the simulator's; none where the simulator has 0.
    pub ratio: Option<Estimated>,
}

/// How a policy schedules in the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchedulingFigures {
    /// The policy.
    pub policy: String,
    /// Migrations a second.
    pub migrations_per_s: f64,
    /// Median effective slice, in ms.
    pub effective_slice_median_ms: f64,
}

/// What a policy misses in the modelled caches, of 1,000 references.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MissFigures {
    /// The policy.
    pub policy: String,
    /// In the L2 caches.
    pub l2_per_1000: f64,
    /// In the L3 caches.
    pub l3_per_1000: f64,
}

/// How equally a policy treats equal processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// The policy.
    pub policy: String,
    /// The least CPU time of a process over the most.
    pub cpu_time_ratio: f64,
}

impl ReplayVerdict {
    /// What `result` shows.
    pub fn new(result: &PlayResult) -> Self {
        let Kernel { release, place, .. } = &result.kernel;
        Self {
            workload: result.workload.clone(),
            release: release.clone(),
            place: place.clone(),
            findings: result.policies.iter().any(|policy| policy.plays > 0).then(|| ReplayFindings::new(result)),
        }
    }
}

impl ReplayFindings {
    fn new(result: &PlayResult) -> Self {
        let policies = || result.policies.iter();
        let scheduling = policies().filter_map(|policy| {
            Some(SchedulingFigures {
                policy: policy.policy.clone(),
                migrations_per_s: in_kernel(policy, "migrations_per_s")?,
                effective_slice_median_ms: in_kernel(policy, "effective_slice_median_ms")?,
            })
        });
        let misses = policies().filter_map(|policy| {
            Some(MissFigures {
                policy: policy.policy.clone(),
                l2_per_1000: in_kernel(policy, L2_MISSES)?,
                l3_per_1000: in_kernel(policy, L3_MISSES)?,
            })
        });
        let fairness = policies().filter_map(|policy| {
            Some(Fairness { policy: policy.policy.clone(), cpu_time_ratio: in_kernel(policy, CPU_TIME_RATIO)? })
        });
        Self {
            agreements: result.agreements.iter().filter_map(|a| AgreementVerdict::new(result, a)).collect(),
            scheduling: scheduling.collect(),
            misses: misses.collect(),
            least_fair: fairness.min_by(|a, b| a.cpu_time_ratio.total_cmp(&b.cpu_time_ratio)),
        }
    }
}

/// The mean of a figure in the kernel.
fn in_kernel(policy: &PlayedPolicy, metric: &str) -> Option<f64> {
    Some(policy.beside(metric)?.kernel?.value)
}

impl AgreementVerdict {
    /// None where no policy has the quantity in both worlds.
    fn new(result: &PlayResult, agreement: &Agreement) -> Option<Self> {
        let Agreement { metric, within, beyond, pairs, same_order } = agreement;
        if within.is_empty() && beyond.is_empty() {
            return None;
        }
        let disagreement = |policy: &String| {
            let beside = result.policies.iter().find(|result| result.policy == *policy)?.beside(metric)?;
            Some(Disagreement { policy: policy.clone(), kernel: beside.kernel?.value, ratio: beside.ratio })
        };
        Some(Self {
            metric: metric.clone(),
            within: within.clone(),
            beyond: beyond.iter().filter_map(disagreement).collect(),
            pairs: *pairs,
            same_order: *same_order,
        })
    }
}

impl Warning {
    /// What limits the results of replays.
    pub fn of_replays(record: &Record, result: &PlayResult) -> Vec<Self> {
        let mut warnings = Self::departures(record);
        if record.ending.is_none() {
            warnings.push(Self::Unfinished { work: Work::Replay });
        }
        for PlayedPolicy { policy, simulated_by, is_same_rule, plays, failed, .. } in &result.policies {
            if *failed > 0 {
                warnings.push(Self::ReplaysFailed {
                    policy: policy.clone(),
                    failed: *failed,
                    of: failed + plays,
                    cause: first_cause(record, policy),
                });
            }
            match simulated_by {
                Some(stand_in) if !is_same_rule => {
                    warnings.push(Self::StandIn { policy: policy.clone(), stand_in: stand_in.clone() });
                }
                None if result.is_simulated => warnings.push(Self::NotSimulated { policy: policy.clone() }),
                _ => {}
            }
        }
        let observations = record.trials.iter().filter_map(|trial| trial.observation.as_ref());
        let notes: BTreeSet<&String> = observations.flat_map(|seen| &seen.notes).collect();
        warnings.extend(notes.into_iter().map(|note| Self::ReplayNote { text: note.clone() }));
        warnings
    }
}

/// Why the first of a policy's failed replays did, in one line.
fn first_cause(record: &Record, policy: &str) -> Option<String> {
    let subject = played(&record.plan).map(|((subject, _), _)| subject.name.as_str());
    let mut ours = record.trials.iter().filter(|t| Some(t.subject.as_str()) == subject && t.placement == policy);
    let failed = ours.find(|trial| trial.time_s.is_none())?;
    Some(failed.cause.lines().next().unwrap_or_default().to_owned())
}
