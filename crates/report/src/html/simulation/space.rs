//! What is particular to the page of space sharing: response times relative to equal shares, and where affinity begins to matter.

use super::super::figure::{figure, table};
use super::super::page::{Section, entries, heading, reading};
use super::{changed, hue, large, range, sweep_table, trace_of};
use crate::chart::{self, Hue, Interval, Line};
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
                @if let Some(last) = last { p.doubt.muted { "at the last point: " (changed(&last, "response time")) } }
            }
        };
    }
    let told = points.iter().filter_map(change).min_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let Some((policy, change)) = told else {
        return html! { div { p.figure.words { "Nothing compared" } p.doubt { "equipartition was not simulated, or nothing else" } } };
    };
    let most = points.iter().filter_map(affinity).min_by(|a, b| a.value.total_cmp(&b.value));
    html! {
        div {
            (large(&change, "response time"))
            p.doubt { b { (plain(&policy)) } ", against equipartition" @if points.len() > 1 { ", at best" } }
            p.doubt.muted { (range(&change)) }
            @if let Some(most) = most { p.doubt.muted { "affinity on top: " (changed(&most, "response time")) @if points.len() > 1 { ", at best" } } }
        }
    }
}

/// The values at which affinity matters.
fn matters_at(points: &[PointResult]) -> String {
    affinity_matters_at(points).iter().map(f64::to_string).collect::<Vec<_>>().join(", ")
}

/// Response times of each kind of job relative to equal shares: the report's Figure 3.
pub(super) fn responses(study: &SimulationView) -> Section {
    let of_point = |point: &PointResult| {
        let (kinds, rivals) = (point.kinds().len(), point.policies.len().saturating_sub(1));
        let rows = rows(study, point);
        figure(
            &format!("{}: response times relative to equipartition", plain(&point.subject)),
            &format!("{} under {}.", count(kinds, "kind of job"), count(rivals, "policy")),
            chart::intervals(&rows, "sooner", "later", false),
            "nothing is compared",
            response_table(&rows),
        )
    };
    heading("responses", "Response times", "Response times relative to equipartition").above(html! {
        p {
            "For each kind of job, its mean response time over that under equipartition, from replicates with the same draws. "
            @if study.record.plan.replicates > 1 { "Bars are 95 % intervals; " } "left of 1 jobs answer sooner. What the cache-affinity report's Figure 3 shows."
        }
        div.charts.large { @for point in study.points() { (of_point(point)) } }
    })
}

fn rows(study: &SimulationView, point: &PointResult) -> Vec<Interval> {
    let mut rows = Vec::new();
    for kind in point.kinds() {
        let metric = RESPONSE.of_job(kind);
        let mut heading = Some(plain(kind));
        for result in &point.policies {
            let Some(change) = result.changes.get(&metric) else { continue };
            let ratio = |percent: f64| 1.0 + percent / 100.0;
            let value = ratio(change.value);
            let (low, high) = (change.low.map_or(value, ratio), change.high.map_or(value, ratio));
            let interval = if low == high { String::new() } else { format!(" ({low:.3} to {high:.3})") };
            rows.push(Interval {
                heading: heading.take(),
                label: result.policy.clone(),
                estimate: (value, low, high),
                figure: format!("{value:.3}"),
                hue: hue(study, &result.policy),
                hover: format!("{kind} under {}: {value:.3}{interval}", result.policy),
            });
        }
    }
    rows
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
pub(super) fn sweep(study: &SimulationView) -> Section {
    let parameter = plain(study.swept().unwrap_or_default());
    let matters = affinity_matters_from(study.points());
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
    type Change = fn(&PolicyResult) -> Option<&Estimated>;
    let traces = |change: Change| -> Vec<Line> {
        let rivals = study.policies().into_iter().enumerate().skip(1);
        rivals.map(|(at, policy)| trace_of(study, policy, policy, Hue::Series(at), change)).collect()
    };
    let drawn = |title: &str, description: &str, traces: &[Line]| {
        let drawn = chart::sweep(traces, &parameter, matters.map(|value| (value, "affinity matters")));
        figure(title, description, drawn, "nothing is compared", sweep_table(traces))
    };
    let against = drawn(
        &format!("response times over {parameter}, against equipartition"),
        &format!("{}; below 0 jobs answer sooner.", count(study.points().len(), "point")),
        &traces(|result| result.changes.get(&RESPONSE)),
    );
    let mut added = traces(|result| result.affinity_changes.get(&RESPONSE));
    added.retain(|trace| !trace.points.is_empty());
    heading("sweep", "Sweep", "The sweep").above(html! {
        p { b { (words) } }
        div.charts.large {
            (against)
            @if !added.is_empty() {
                (drawn(&format!("what affinity adds over {parameter}, against dynamic"), &words, &added))
            }
        }
    })
}

pub(super) fn guide(study: &SimulationView) -> Section {
    reading(entries(study.glossary()))
}
