//! What a simulation of space sharing shows: how much sooner jobs answer under each policy, and where affinity matters.

use crate::metrics::{RELOAD_FRACTION, RESPONSE};
use crate::results::{Estimated, PointResult, PolicyResult};
use crate::verdict::{Change, ChangeAt, Direction};
use serde::Serialize;
use sim::space::Policy;
use stats::Metric;

/// From how many percent on affinity is said to matter. Our choice: less than this nobody would change an allocator for.
pub const MATTERS_PERCENT: f64 = 1.0;

/// What a simulation of space sharing shows. Changes are of response times, so that down is sooner: against
/// equipartition, and of affinity against `dynamic`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "case", rename_all = "kebab-case")]
pub enum SpaceSharingVerdict {
    /// One mix of jobs.
    Mix {
        /// Its name.
        mix: String,
        /// The policies that are compared.
        policies: Vec<MixPolicy>,
        /// What affinity adds, where both were simulated.
        affinity: Option<MixAffinity>,
    },
    /// Several mixes.
    Mixes {
        /// The number of mixes.
        mixes: u32,
        /// The policies that are compared.
        policies: Vec<MixesPolicy>,
        /// What affinity adds, where both were simulated.
        affinity: Option<MixesAffinity>,
    },
    /// One mix at several values of a parameter.
    Swept {
        /// Name of the mix.
        mix: String,
        /// The parameter.
        parameter: String,
        /// Its least value.
        least: f64,
        /// Its greatest value.
        most: f64,
        /// Replicates of each policy; none where nothing is compared.
        replicates: Option<u32>,
        /// The policies that are compared.
        policies: Vec<SweptPolicy>,
        /// What affinity adds, where both were simulated.
        affinity: Option<Box<SweptAffinity>>,
    },
}

/// What one policy changes for the jobs of a mix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MixPolicy {
    /// The policy.
    pub policy: String,
    /// How many replicates there are.
    pub replicates: u32,
    /// The change of the mean over all jobs.
    pub change: Change,
    /// The same of each kind of job.
    pub kinds: Vec<KindChange>,
}

/// What a policy changes for one kind of job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindChange {
    /// The mix that it is in.
    pub mix: String,
    /// The kind.
    pub kind: String,
    /// The change.
    pub change: Change,
}

/// What affinity adds in one mix.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MixAffinity {
    /// The change.
    pub change: Change,
    /// Whether that is shown and enough to matter.
    pub matters: bool,
    /// The share of the CPU time of jobs that reloads take without affinity (0.1 = 10 %).
    pub reload_fraction: f64,
}

/// What one policy changes for the jobs of several mixes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MixesPolicy {
    /// The policy.
    pub policy: String,
    /// How many replicates there are.
    pub replicates: u32,
    /// In how many mixes it is compared.
    pub mixes: u32,
    /// How many kinds of job there are in these.
    pub kinds: u32,
    /// How many of them answer sooner.
    pub sooner: u32,
    /// The kind with the best change.
    pub best: KindChange,
    /// The kind with the worst change.
    pub worst: KindChange,
}

/// What affinity adds in several mixes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MixesAffinity {
    /// In how many mixes it is compared.
    pub mixes: u32,
    /// In how many of them it matters.
    pub matters: u32,
    /// The mix with the best change.
    pub best_mix: String,
    /// The change there.
    pub best: Change,
}

/// What one policy changes over a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweptPolicy {
    /// The policy.
    pub policy: String,
    /// The change at the least value.
    pub first: ChangeAt,
    /// The change at the greatest value.
    pub last: ChangeAt,
    /// At how many values it is compared.
    pub points: u32,
    /// At how many of them jobs answer sooner.
    pub sooner: u32,
    /// The value from which on they aren't shown to, if there is one.
    pub not_sooner_from: Option<f64>,
}

/// What affinity adds over a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweptAffinity {
    /// The change at the least value.
    pub first: ChangeAt,
    /// The change at the greatest value.
    pub last: ChangeAt,
    /// The best change.
    pub best: ChangeAt,
    /// The values at which it matters, rising.
    pub matters_at: Vec<f64>,
    /// The first change from which on it matters everywhere, if there is one.
    pub matters_from: Option<ChangeAt>,
}

impl SpaceSharingVerdict {
    /// What one mix shows, or several, or a sweep; none without any.
    pub fn new(points: &[PointResult]) -> Option<Self> {
        match points {
            [] => None,
            [point] => Some(Self::of_mix(point)),
            [first, ..] if first.point.is_some() => Some(Self::of_sweep(points, first)),
            points => Some(Self::of_mixes(points)),
        }
    }

    fn of_mix(point: &PointResult) -> Self {
        let policy = |result: &PolicyResult| {
            let change = Change::from(*result.changes.get(&RESPONSE)?);
            let (policy, replicates) = (result.policy.clone(), result.replicates);
            Some(MixPolicy { policy, replicates, change, kinds: kinds(point, result) })
        };
        let affinity = affinity(point).map(|change| {
            let dynamic = ended(point, Policy::Dynamic);
            let reload_fraction = dynamic.and_then(|dynamic| dynamic.value(&RELOAD_FRACTION)).unwrap_or_default();
            MixAffinity { change, matters: matters(&change), reload_fraction }
        });
        Self::Mix { mix: point.subject.clone(), policies: point.policies.iter().filter_map(policy).collect(), affinity }
    }

    fn of_mixes(points: &[PointResult]) -> Self {
        let policy = |policy: Policy| {
            let compared: Vec<(&PointResult, &PolicyResult)> =
                points.iter().filter_map(|point| Some((point, ended(point, policy)?))).collect();
            let all: Vec<KindChange> = compared.iter().flat_map(|(point, result)| kinds(point, result)).collect();
            let by_value = |a: &&KindChange, b: &&KindChange| by_value(&a.change, &b.change);
            Some(MixesPolicy {
                policy: policy.name().into(),
                replicates: compared.first()?.1.replicates,
                mixes: compared.len() as u32,
                kinds: all.len() as u32,
                sooner: all.iter().filter(|kind| kind.change.direction == Direction::Down).count() as u32,
                best: all.iter().min_by(by_value)?.clone(),
                worst: all.iter().max_by(by_value)?.clone(),
            })
        };
        let affine: Vec<(&PointResult, Change)> =
            points.iter().filter_map(|point| Some((point, affinity(point)?))).collect();
        let best = affine.iter().min_by(|a, b| by_value(&a.1, &b.1));
        let affinity = best.map(|(point, best)| MixesAffinity {
            mixes: affine.len() as u32,
            matters: affine.iter().filter(|(_, change)| matters(change)).count() as u32,
            best_mix: point.subject.clone(),
            best: *best,
        });
        let policies = Policy::ALL.into_iter().filter_map(policy).collect();
        Self::Mixes { mixes: points.len() as u32, policies, affinity }
    }

    fn of_sweep(points: &[PointResult], first: &PointResult) -> Self {
        let values = || points.iter().filter_map(|point| Some(point.point.as_ref()?.value));
        let parameter = first.point.as_ref().map_or("", |point| point.parameter.as_str());
        let mut results = points.iter().flat_map(|point| &point.policies);
        Self::Swept {
            mix: first.workload().to_owned(),
            parameter: parameter.to_owned(),
            least: values().fold(f64::INFINITY, f64::min),
            most: values().fold(f64::NEG_INFINITY, f64::max),
            replicates: results.find(|result| !result.changes.is_empty()).map(|result| result.replicates),
            policies: Policy::ALL.into_iter().filter_map(|policy| SweptPolicy::new(points, policy)).collect(),
            affinity: SweptAffinity::new(points).map(Box::new),
        }
    }
}

impl SweptPolicy {
    /// What `policy` changes; none where it is compared nowhere.
    fn new(points: &[PointResult], policy: Policy) -> Option<Self> {
        let changes = over(points, |point| Some(Change::from(*ended(point, policy)?.changes.get(&RESPONSE)?)));
        let is_not_sooner = |change: &Change| change.direction != Direction::Down;
        Some(Self {
            policy: policy.name().into(),
            first: *changes.first()?,
            last: *changes.last()?,
            points: changes.len() as u32,
            sooner: changes.iter().filter(|at| !is_not_sooner(&at.change)).count() as u32,
            not_sooner_from: begins(&changes, is_not_sooner).map(|from| from.at),
        })
    }
}

impl SweptAffinity {
    /// What affinity adds; none where it is compared nowhere.
    fn new(points: &[PointResult]) -> Option<Self> {
        let changes = over(points, affinity);
        Some(Self {
            first: *changes.first()?,
            last: *changes.last()?,
            best: *changes.iter().min_by(|a, b| by_value(&a.change, &b.change))?,
            matters_at: changes.iter().filter(|at| matters(&at.change)).map(|at| at.at).collect(),
            matters_from: begins(&changes, matters),
        })
    }
}

/// The first value of a sweep from which on affinity matters everywhere; none where there is none.
pub fn affinity_matters_from(points: &[PointResult]) -> Option<f64> {
    Some(SweptAffinity::new(points)?.matters_from?.at)
}

/// The values of a sweep at which affinity matters, rising.
pub fn affinity_matters_at(points: &[PointResult]) -> Vec<f64> {
    SweptAffinity::new(points).map(|affinity| affinity.matters_at).unwrap_or_default()
}

/// What was seen under a policy, where a replicate has ended.
fn ended(point: &PointResult, policy: Policy) -> Option<&PolicyResult> {
    point.policy(policy.name()).filter(|result| result.replicates > 0)
}

/// Of each kind of job, by how much it answers sooner or later than under the reference.
fn kinds(point: &PointResult, result: &PolicyResult) -> Vec<KindChange> {
    let kind = |(metric, change): (&Metric, &Estimated)| {
        let kind = metric.job.clone().filter(|_| metric.of_all_jobs() == RESPONSE)?;
        Some(KindChange { mix: point.subject.clone(), kind, change: Change::from(*change) })
    };
    result.changes.iter().filter_map(kind).collect()
}

/// By how much affinity changes response times, where both were simulated.
fn affinity(point: &PointResult) -> Option<Change> {
    let result = ended(point, Policy::DynamicAffinity)?;
    Some(Change::from(*result.affinity_changes.get(&RESPONSE)?))
}

/// Whether affinity matters: its interval leaves no doubt, and it is not too little.
fn matters(change: &Change) -> bool {
    change.direction == Direction::Down && -change.percent.value >= MATTERS_PERCENT
}

fn by_value(a: &Change, b: &Change) -> std::cmp::Ordering {
    a.percent.value.total_cmp(&b.percent.value)
}

/// By rising value of the sweep, what `change` finds at its points.
fn over(points: &[PointResult], change: impl Fn(&PointResult) -> Option<Change>) -> Vec<ChangeAt> {
    let found = points.iter().filter_map(|point| {
        let at = point.point.as_ref()?.value;
        Some(ChangeAt { at, change: change(point)? })
    });
    let mut sorted: Vec<ChangeAt> = found.collect();
    sorted.sort_by(|a, b| a.at.total_cmp(&b.at));
    sorted
}

/// The first change from which on `is` holds at every point.
fn begins(changes: &[ChangeAt], is: impl Fn(&Change) -> bool) -> Option<ChangeAt> {
    changes.iter().rev().take_while(|at| is(&at.change)).last().copied()
}
