//! What a simulation of time sharing shows: what each policy does to misses and time, against the reference.

use crate::metrics::{MAKESPAN, MISSES};
use crate::plan::SimulationPlan;
use crate::results::{Estimated, PointResult, PolicyResult, reference};
use serde::Serialize;
use sim::Release;
use stats::Metric;
use study::Record;
use study::warning::{Warning, Work};

/// A change smaller than this counts as none, in percent: reports would write it as 0.0.
pub const LEAST_CHANGE_PERCENT: f64 = 0.05;

/// What a simulation of time sharing shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "case", rename_all = "kebab-case")]
pub enum TimeSharingVerdict {
    /// Nothing can be compared: how long each policy took.
    Uncompared {
        /// Name of the subject.
        subject: String,
        /// Policies of which some replicate has ended.
        policies: Vec<PolicyTime>,
    },
    /// Policies are compared with the reference.
    Compared {
        /// Name of the subject.
        subject: String,
        /// Replicates of each policy.
        replicates: u32,
        /// The kernel whose own scheduler is the reference; none where that is another policy.
        #[serde(skip_serializing_if = "Option::is_none")]
        kernel: Option<Release>,
        /// What each policy changes.
        policies: Vec<PolicyChanges>,
    },
    /// Policies are compared with the reference at several values of a parameter.
    Swept {
        /// Name of the workload.
        workload: String,
        /// The parameter.
        parameter: String,
        /// Its first value.
        first: f64,
        /// Its last value.
        last: f64,
        /// The kernel whose own scheduler is the reference; none where that is another policy.
        #[serde(skip_serializing_if = "Option::is_none")]
        kernel: Option<Release>,
        /// What each policy changes where it changes most for the better.
        policies: Vec<BestChanges>,
    },
}

/// How long a policy takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyTime {
    /// The policy.
    pub policy: String,
    /// Its mean time, in ms; none where not every process had ended at the horizon.
    pub makespan_ms: Option<f64>,
}

/// What a policy changes against the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyChanges {
    /// The policy.
    pub policy: String,
    /// Misses for the same work; none where there are none.
    pub misses: Option<Change>,
    /// The time that the whole takes; none where it isn't known.
    pub time: Option<Change>,
}

/// What a policy changes against the reference at the point of a sweep where that is best, of each quantity by itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BestChanges {
    /// The policy.
    pub policy: String,
    /// Misses for the same work.
    pub misses: Option<ChangeAt>,
    /// The time that the whole takes.
    pub time: Option<ChangeAt>,
}

/// By how much a quantity differs from what it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Which way, as far as is shown.
    pub direction: Direction,
    /// How much, in percent.
    #[serde(flatten)]
    pub percent: Estimated,
}

/// A change at one value of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ChangeAt {
    /// The value.
    pub at: f64,
    /// The change there.
    pub change: Change,
}

/// Which way a quantity changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// It becomes less.
    Down,
    /// It becomes more.
    Up,
    /// The interval leaves doubt.
    NoneShown,
}

impl From<Estimated> for Change {
    /// A change goes where its whole interval is; that of a single replicate, which has none, where it went.
    fn from(percent: Estimated) -> Self {
        let (low, high) = (percent.low.unwrap_or(percent.value), percent.high.unwrap_or(percent.value));
        let direction = if percent.value.abs() < LEAST_CHANGE_PERCENT {
            Direction::NoneShown
        } else if high < 0.0 {
            Direction::Down
        } else if low > 0.0 {
            Direction::Up
        } else {
            Direction::NoneShown
        };
        Self { direction, percent }
    }
}

impl TimeSharingVerdict {
    /// What the points of a sweep show, or the only one; none without any. `kernel` is that whose own scheduler is the reference.
    pub fn new(points: &[PointResult], kernel: Option<Release>) -> Option<Self> {
        match points {
            [] => None,
            [point] => Some(Self::of_point(point, kernel)),
            [first, .., last] => Some(Self::of_sweep(points, first, last, kernel)),
        }
    }

    fn of_point(point: &PointResult, kernel: Option<Release>) -> Self {
        let subject = point.subject.clone();
        let ended = point.policies.iter().filter(|result| result.replicates > 0);
        let (reference, others): (Vec<_>, Vec<_>) = ended.partition(|result| is_reference(point, result));
        match others.first() {
            Some(first) if !reference.is_empty() => Self::Compared {
                subject,
                replicates: first.replicates,
                kernel,
                policies: others.iter().map(|result| PolicyChanges::new(result)).collect(),
            },
            _ => {
                let time = |result: &&PolicyResult| PolicyTime {
                    policy: result.policy.clone(),
                    makespan_ms: result.value(&MAKESPAN),
                };
                Self::Uncompared { subject, policies: reference.iter().chain(&others).map(time).collect() }
            }
        }
    }

    fn of_sweep(points: &[PointResult], first: &PointResult, last: &PointResult, kernel: Option<Release>) -> Self {
        let parameter = first.point.as_ref().map_or("", |point| point.parameter.as_str());
        let others = first.policies.iter().filter(|result| !is_reference(first, result));
        Self::Swept {
            workload: first.workload().to_owned(),
            parameter: parameter.to_owned(),
            first: value(first),
            last: value(last),
            kernel,
            policies: others.map(|result| BestChanges::new(points, &result.policy)).collect(),
        }
    }
}

fn is_reference(point: &PointResult, result: &PolicyResult) -> bool {
    point.reference.as_ref() == Some(&result.policy)
}

/// Where in the sweep a point is.
fn value(point: &PointResult) -> f64 {
    point.point.as_ref().map_or(0.0, |point| point.value)
}

impl PolicyChanges {
    fn new(result: &PolicyResult) -> Self {
        let change = |metric: &Metric| result.changes.get(metric).copied().map(Change::from);
        Self { policy: result.policy.clone(), misses: change(&MISSES), time: change(&MAKESPAN) }
    }
}

impl BestChanges {
    fn new(points: &[PointResult], policy: &str) -> Self {
        let least = |metric: &Metric| {
            let changes = points.iter().filter_map(|point| {
                let change = Change::from(*point.policy(policy)?.changes.get(metric)?);
                Some(ChangeAt { at: value(point), change })
            });
            changes.min_by(|a, b| a.change.percent.value.total_cmp(&b.change.percent.value))
        };
        Self { policy: policy.to_owned(), misses: least(&MISSES), time: least(&MAKESPAN) }
    }
}

/// What limits the results of a simulation.
pub(crate) fn warnings(record: &Record<SimulationPlan>, points: &[PointResult]) -> Vec<Warning> {
    let plan = &record.plan;
    let departure = |text: &String| Warning::Departure { text: text.clone() };
    let mut warnings: Vec<Warning> = plan.departures.iter().map(departure).collect();
    if record.ending.is_none() {
        warnings.push(Warning::Unfinished { work: Work::Simulation });
    }
    if reference(plan).is_none() {
        let wanted = plan.reference().unwrap_or("standard");
        warnings.push(Warning::NothingCompared { reference: wanted.into() });
    }
    for point in points {
        let unended = |result: &&PolicyResult| result.replicates > 0 && result.value(&MAKESPAN).is_none();
        let not_ended =
            |result: &PolicyResult| Warning::NotEnded { subject: point.subject.clone(), policy: result.policy.clone() };
        warnings.extend(point.policies.iter().filter(unended).map(not_ended));
    }
    warnings
}
