//! What is particular to the page of space sharing: response times relative to equal shares, and where affinity begins to matter.

use super::super::figures::{figure, table};
use super::super::sheet;
use super::{range, sweep_table, trace_of};
use crate::chart::{Chart, Hue, Interval, Threshold};
use crate::number;
use crate::simulation::SimulationView;
use crate::words::{count, plain};
use ::simulation::metrics::RESPONSE;
use ::simulation::{Estimated, MATTERS_PERCENT, PointResult, PolicyResult, affinity_matters_at, affinity_matters_from};
use maud::{Markup, html};

/// What is told of each replicate.
pub(super) const METRICS: [(&str, &str); 8] = [
    ("makespan_ms", "all done, ms"),
    ("response_ms", "mean response, ms"),
    ("allocation_mean_cpus", "CPUs a job"),
    ("idle_held_fraction", "idle in hand"),
    ("reload_fraction", "reloads"),
    ("reallocations", "CPUs given"),
    ("moves", "workers moved"),
    ("affine_fraction", "back to their CPU"),
];

const AFFINITY: &str = "dynamic-affinity";

/// The largest figure: what sharing by need gains, and what affinity adds to it.
pub(super) fn headline(study: &SimulationView) -> Markup {
    let change = |point: &'_ PointResult| -> Option<(String, Estimated)> {
        let result = point.policies.iter().find(|result| result.changes.contains_key(&RESPONSE))?;
        Some((result.policy.clone(), *result.changes.get(&RESPONSE)?))
    };
    let affinity = |point: &'_ PointResult| {
        point.policies.iter().find(|result| result.policy == AFFINITY)?.affinity_changes.get(&RESPONSE).copied()
    };
    let points = study.points();
    if let Some(swept) = study.swept() {
        let matters = affinity_matters_from(points);
        let last = points.last().and_then(affinity);
        return html! {
            div {
                @match matters {
                    Some(from) => { p.figure.better { (from) } p.doubt { b { (plain(swept)) } ", from which on affinity matters" } }
                    None if affinity_matters_at(points).is_empty() => { p.figure.words { "Nowhere" } p.doubt { "does affinity matter" } }
                    None => { p.figure.words { "Not for good" } p.doubt { "does affinity matter: at " (matters_at(points)) " only" } }
                }
                @if let Some(last) = last { p.doubt.muted { "at the last point it changes response times by " (number::change(last.value / 100.0)) } }
            }
        };
    }
    let told = points.iter().filter_map(change).min_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let Some((policy, change)) = told else {
        return html! { div { p.figure.words { "Nothing compared" } p.doubt { "equipartition was not simulated, or nothing else" } } };
    };
    let shown = change.high.is_some_and(|high| high < 0.0);
    let most = points.iter().filter_map(affinity).min_by(|a, b| a.value.total_cmp(&b.value));
    html! {
        div {
            p.figure.better[shown] { (number::change(change.value / 100.0)) small { " response time" } }
            p.doubt { b { (plain(&policy)) } ", against equipartition" @if points.len() > 1 { ", at best" } }
            @if let Some(range) = range(&change) { p.doubt.muted { (range) } }
            @if let Some(most) = most { p.doubt.muted { "affinity on top: " (number::change(most.value / 100.0)) @if points.len() > 1 { " at best" } } }
        }
    }
}

/// The values at which affinity matters.
fn matters_at(points: &[PointResult]) -> String {
    affinity_matters_at(points).iter().map(f64::to_string).collect::<Vec<_>>().join(", ")
}

/// Response times of each kind of job relative to equal shares: the report's Figure 3.
pub(super) fn responses(study: &SimulationView) -> Markup {
    html! {
        section #responses {
            h2 { "Response times relative to equipartition" }
            p {
                "For each kind of job, its mean response time over that under equipartition, from replicates with the same draws. Bars are 95 % "
                "intervals; left of 1 jobs answer sooner. What the cache-affinity report's Figure 3 shows."
            }
            div.charts.large {
                @for point in study.points() {
                    @let chart = Chart {
                        title: format!("{}: response times relative to equipartition", plain(&point.subject)),
                        description: format!("{} under {}.", count(point.kinds().len(), "kind of job"), count(point.policies.len().saturating_sub(1), "policy")),
                    };
                    @let rows = rows(study, point);
                    (figure(&chart, chart.intervals(&rows, "sooner", "later", false), "nothing is compared", response_table(&rows)))
                }
            }
        }
    }
}

fn rows(study: &SimulationView, point: &PointResult) -> Vec<Interval> {
    let of_kind = |kind: &'_ str| {
        let kind = kind.to_owned();
        let metric = RESPONSE.of_job(&kind);
        let mut heading = Some(plain(&kind));
        let row = |result: &PolicyResult| {
            let change = result.changes.get(&metric)?;
            let ratio = |percent: f64| 1.0 + percent / 100.0;
            let value = ratio(change.value);
            let (low, high) = (change.low.map_or(value, ratio), change.high.map_or(value, ratio));
            let interval = if low == high { String::new() } else { format!(" ({low:.3} to {high:.3})") };
            let hue = Hue::Series(study.policies().iter().position(|name| *name == result.policy).unwrap_or(0));
            Some((result.policy.clone(), value, (low, high), interval, hue))
        };
        let told: Vec<_> = point.policies.iter().filter_map(row).collect();
        told.into_iter()
            .map(|(policy, value, (low, high), interval, hue)| Interval {
                heading: heading.take(),
                label: policy.clone(),
                estimate: (value, low, high),
                figure: format!("{value:.3}"),
                hue,
                hover: format!("{kind} under {policy}: {value:.3}{interval}"),
            })
            .collect::<Vec<_>>()
    };
    point.kinds().into_iter().flat_map(of_kind).collect()
}

fn response_table(rows: &[Interval]) -> Markup {
    let mut kind = String::new();
    table(
        &["kind of job", "policy", "ratio", "from", "to"],
        rows.iter().map(|row| {
            if let Some(heading) = &row.heading {
                kind.clone_from(heading);
            }
            let (value, low, high) = row.estimate;
            [kind.clone(), row.label.clone(), format!("{value:.4}"), format!("{low:.4}"), format!("{high:.4}")]
        }),
    )
}

/// What the swept parameter does to response times, and from where on affinity matters.
pub(super) fn sweep(study: &SimulationView) -> Markup {
    let parameter = plain(study.swept().unwrap_or_default());
    let matters = affinity_matters_from(study.points());
    let threshold = matters.map(|value| Threshold { value, label: "affinity matters".into() });
    let words = match matters {
        Some(from) => format!(
            "From {parameter} {from} on affinity matters: there and at every later point it saves {MATTERS_PERCENT} % or more of the response time under dynamic, and the interval leaves no doubt."
        ),
        None if affinity_matters_at(study.points()).is_empty() => format!(
            "Affinity matters nowhere here: at no point does it save {MATTERS_PERCENT} % or more of the response time under dynamic beyond doubt."
        ),
        None => format!(
            "Affinity matters at {parameter} {}, but not from any point on: at the last it doesn't save {MATTERS_PERCENT} % or more of the response time under dynamic beyond doubt.",
            matters_at(study.points())
        ),
    };
    let rivals: Vec<&str> = study.policies().into_iter().skip(1).collect();
    let against: Vec<_> = rivals
        .iter()
        .enumerate()
        .map(|(at, policy)| {
            trace_of(study, policy, policy, Hue::Series(at + 1), |result| result.changes.get(&RESPONSE))
        })
        .collect();
    let added: Vec<_> = rivals
        .iter()
        .enumerate()
        .map(|(at, policy)| {
            trace_of(study, policy, policy, Hue::Series(at + 1), |result| result.affinity_changes.get(&RESPONSE))
        })
        .filter(|trace| !trace.points.is_empty())
        .collect();
    html! {
        section #sweep {
            h2 { "The sweep" }
            p { b { (words) } }
            div.charts.large {
                @let chart = Chart {
                    title: format!("response times over {parameter}, against equipartition"),
                    description: format!("{}; below 0 jobs answer sooner.", count(study.points().len(), "point")),
                };
                (figure(&chart, chart.sweep(&against, &parameter, threshold.as_ref()), "nothing is compared", sweep_table(&against)))
                @if !added.is_empty() {
                    @let chart = Chart {
                        title: format!("what affinity adds over {parameter}, against dynamic"),
                        description: words.clone(),
                    };
                    (figure(&chart, chart.sweep(&added, &parameter, threshold.as_ref()), "nothing is compared", sweep_table(&added)))
                }
            }
        }
    }
}

pub(super) fn guide(study: &SimulationView) -> Markup {
    let mut entries = vec![
        ("response time", "From a job's arrival to its end: the mean over its kind's jobs."),
        (
            "change, ratio",
            "Against equipartition, from pairs of replicates with the same arrivals and the same work of every task: the geometric mean of their ratios.",
        ),
        (
            "95 % interval",
            "If the whole simulation were repeated with other seeds, 95 of 100 such intervals would hold the mean change of all draws.",
        ),
        (
            "worker",
            "What the kernel schedules: it does one task of its job after another. When its CPU is taken it keeps the task that it is at.",
        ),
        (
            "CPU given, worker moved",
            "A CPU goes from one job, or from none, to another; a worker begins on a CPU where it had not just run.",
        ),
        (
            "nobody used, taken, their job had",
            "A worker moves to a CPU that was free or given up; that was taken from a job that used it; or that its own job had.",
        ),
        (
            "reload",
            "Time to bring back cached lines that a worker had when it last stopped and that are gone, or are in other caches. First misses of a task are part of its work.",
        ),
        (
            "accounting",
            "Work, time in hand without work, switches and reloads of a job are exactly its response time times the CPUs that it had on average.",
        ),
    ];
    if study.swept().is_some() {
        entries.extend([
            super::POINT,
            ("future", "CPU speed times cache size, as a multiple of the machine's: each grows by the square root, working sets as caches do, and memory becomes faster by the fourth root only."),
        ]);
    }
    sheet::reading(&entries)
}
