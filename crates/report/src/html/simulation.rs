//! The page of a simulation.

mod space;

use super::figures::{bin_table, figure, histogram, table};
use super::sheet;
use crate::chart::{Chart, Heights, Histogram, Hue, Line, LinePoint};
use crate::number;
use crate::sentences;
use crate::simulation::{ENDS, Sheet, SimulationView, end_metric};
use crate::words::{count, plain};
use ::simulation::metrics::{INTERVAL_MEDIAN, MAKESPAN, MISSES, SLICE_MEDIAN};
use ::simulation::{Estimated, PointResult, PolicyResult, TimeBin};
use maud::{Markup, html};
use stats::Metric;

/// What a page shows above its data.
pub(super) fn body(study: &SimulationView) -> Markup {
    let sheet = study.sheet();
    html! {
        (answer(study))
        main {
            @if study.shares_space() {
                @if study.swept().is_some() { (space::sweep(study)) } @else { (space::responses(study)) }
                (policies(study, &sheet))
            } @else {
                (policies(study, &sheet))
                @if study.swept().is_some() { (sweep(study)) }
                (slices(study))
                (intervals(study))
            }
            (replicates(study))
            (sheet::model(&sheet, study.machine.as_ref(), &study.record.sessions))
            (guide(study))
        }
    }
}

/// The page's title.
pub(super) fn title(study: &SimulationView) -> String {
    let who = if study.shares_space() { "allocators" } else { "schedulers" };
    format!("{}: what {who} would do", study.workload())
}

/// What a point of a sweep is.
const POINT: (&str, &str) = ("point", "One value of the swept parameter; everything else stays.");

/// How a policy is painted: the reference grey, the others in their order.
fn hue(study: &SimulationView, policy: &str) -> Hue {
    Hue::Series(study.policies().iter().position(|name| *name == policy).unwrap_or(0))
}

fn answer(study: &SimulationView) -> Markup {
    let machine = study.machine.as_ref().map_or("unknown", machine::Machine::name);
    let mut verdicts = sentences::of_simulation(study.analysis).into_iter();
    let first = verdicts.next().map_or("Nothing was simulated.".into(), |first| first.below(&study.workload()));
    html! {
        header {
            div.bar {
                h1 { "Stayput simulation on " (plain(machine)) }
                button.script-only #theme type="button" hidden { "Dark" }
            }
            div.answers {
                article.answer {
                    h2 { (study.workload()) }
                    (headline(study))
                    div {
                        p.verdict { (first) }
                        ul.verdicts { @for verdict in verdicts { li { (plain(&verdict.to_string())) } } }
                    }
                }
            }
            @if !study.analysis.warnings.is_empty() {
                div.notice { ul { @for warning in sentences::warnings(&study.analysis.warnings) { li { (plain(&warning)) } } } }
            }
            nav aria-label="Sections" {
                @if study.shares_space() && study.swept().is_none() { a href="#responses" { "Response times" } }
                a href="#policies" { @if study.points().len() > 1 { "Table" } @else { "Policies" } }
                @if study.swept().is_some() { a href="#sweep" { "Sweep" } }
                @if !study.shares_space() { a href="#slices" { "Effective slices" } a href="#intervals" { "Dispatch intervals" } }
                a href="#replicates" { "Replicates" }
                a href="#model" { "Model" } a href="#reading" { "How to read" }
            }
        }
    }
}

/// The largest figure: misses that the first policy removes, at the point where it removes most.
fn headline(study: &SimulationView) -> Markup {
    if study.shares_space() {
        return space::headline(study);
    }
    let rival = |point: &'_ PointResult| -> Option<(String, Estimated, Option<Estimated>)> {
        let result = point.policies.iter().find(|r| Some(&r.policy) != point.reference.as_ref())?;
        let misses = *result.changes.get(&MISSES)?;
        Some((result.policy.clone(), misses, result.changes.get(&MAKESPAN).copied()))
    };
    let told = study.points().iter().filter_map(|point| Some((point, rival(point)?)));
    let Some((point, (policy, misses, time))) = told.min_by(|a, b| a.1.1.value.total_cmp(&b.1.1.value)) else {
        return html! { div { p.figure.words { "Nothing compared" } p.doubt { "no misses, or no standard to compare with" } } };
    };
    let place = study.swept().map(|swept| format!(", {swept} {}", crate::simulation::value_of(point)));
    let shown = misses.high.is_some_and(|high| high < 0.0);
    html! {
        div {
            p.figure.better[shown] { (number::change(misses.value / 100.0)) small { " misses" } }
            p.doubt { b { (plain(&policy)) (place.unwrap_or_default()) } ", against standard" }
            @if let Some(range) = range(&misses) { p.doubt.muted { (range) } }
            @if let Some(time) = time { p.doubt.muted { "and " (number::change(time.value / 100.0)) " time" } }
        }
    }
}

fn range(estimate: &Estimated) -> Option<String> {
    let ends = estimate.low.zip(estimate.high);
    ends.map(|(low, high)| format!("95 % interval {:.1} to {:.1} %", low.min(high), low.max(high)))
}

/// The table of everything.
fn policies(study: &SimulationView, sheet: &Sheet) -> Markup {
    html! {
        section #policies {
            h2 { @if study.swept().is_some() { "Point by point" } @else if study.compares_mixes() { "Mix by mix" } @else { "Policies" } }
            p { (sheet.key) }
            (sheet::whole(&sheet.table, "Policies"))
        }
    }
}

/// What the swept parameter does to misses and time.
fn sweep(study: &SimulationView) -> Markup {
    let parameter = plain(study.swept().unwrap_or_default());
    let rivals = study.policies().into_iter().filter(|policy| {
        study.points().first().is_some_and(|point| point.reference.as_deref().is_some_and(|r| r != *policy))
    });
    html! {
        section #sweep {
            h2 { "The sweep" }
            p { "Changes against standard at the same point. Bars are 95 % intervals; below 0 is fewer misses, or less time." }
            div.charts.large {
                @for policy in rivals {
                    @let chart = Chart {
                        title: format!("{}: misses and time over {parameter}", plain(policy)),
                        description: format!("{} over {parameter}, against standard.", count(study.points().len(), "point")),
                    };
                    @let traces = [(MISSES, "misses", Hue::Series(1)), (MAKESPAN, "time", Hue::Series(2))]
                        .map(|(metric, label, hue)| trace_of(study, policy, label, hue, |result| result.changes.get(&metric)));
                    (figure(&chart, chart.sweep(&traces, &parameter, None), "nothing is compared", sweep_table(&traces)))
                }
            }
        }
    }
}

/// A change over the points.
fn trace_of(
    study: &SimulationView,
    policy: &str,
    label: &str,
    hue: Hue,
    change: impl Fn(&PolicyResult) -> Option<&Estimated>,
) -> Line {
    let mut points: Vec<LinePoint> = study
        .points()
        .iter()
        .filter_map(|point| {
            let result = point.policies.iter().find(|result| result.policy == policy)?;
            let change = change(result)?;
            let value = point.point.as_ref()?.value;
            let interval = change.low.zip(change.high);
            let range = interval.map_or_else(String::new, |(low, high)| format!(" ({low:+.1} to {high:+.1})"));
            let hover = format!("{label} at {value}: {:+.1} %{range}", change.value);
            Some(LinePoint { x: value, y: change.value, interval, hover })
        })
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Line { label: label.into(), hue, points }
}

fn sweep_table(traces: &[Line]) -> Markup {
    let rows = traces.iter().flat_map(|trace| trace.points.iter().map(move |point| (trace, point)));
    table(
        &["quantity", "at", "change, %", "from", "to"],
        rows.map(|(trace, LinePoint { x, y, interval, .. })| {
            let end = |end: Option<f64>| end.map_or_else(|| "–".into(), |end| format!("{end:.2}"));
            let (low, high) = interval.unzip();
            [trace.label.clone(), x.to_string(), format!("{y:.2}"), end(low), end(high)]
        }),
    )
}

/// How long effective slices last, under each policy.
fn slices(study: &SimulationView) -> Markup {
    html! {
        section #slices {
            h2 { "Effective time slices" }
            p {
                "Time on a CPU with no other process in between, in percent of the number of slices under standard, so that fewer slices make "
                "less of a picture. Each policy has a vertical scale of its own; the last bar holds all that are longer."
            }
            div.charts.large {
                @for point in ends_of_sweep(study) {
                    @let chart = Chart {
                        title: format!("{}: how long effective slices last", plain(&point.subject)),
                        description: typical_of_all(point, &SLICE_MEDIAN),
                    };
                    @let drawn = chart.histograms(&histograms(study, point, &SLICES), Heights::Own, " ms");
                    (figure(&chart, drawn, "no slice ended", bins_of(point, &SLICES)))
                }
            }
        }
    }
}

/// How long dispatch intervals last under each policy, and why they end.
fn intervals(study: &SimulationView) -> Markup {
    html! {
        section #intervals {
            h2 { "Dispatch intervals" }
            p { "From one look at the run queue to the next, in percent of the policy's own. The last bar holds all that are longer." }
            div.charts.large {
                @for point in ends_of_sweep(study) {
                    @let chart = Chart {
                        title: format!("{}: how long dispatch intervals last", plain(&point.subject)),
                        description: typical_of_all(point, &INTERVAL_MEDIAN),
                    };
                    @let drawn = chart.histograms(&histograms(study, point, &INTERVALS), Heights::Own, " ms");
                    (figure(&chart, drawn, "no interval ended", bins_of(point, &INTERVALS)))
                }
            }
            h3 { "Why they end" }
            p { "In percent of the job's own intervals, and how long these are." }
            @for point in ends_of_sweep(study) {
                @if study.swept().is_some() { p { b { (plain(&point.subject)) } } }
                (end_table(study, point))
            }
        }
    }
}

/// The first and the last point of a sweep, or the only one.
fn ends_of_sweep<'a>(study: &SimulationView<'a>) -> Vec<&'a PointResult> {
    match study.points() {
        [first, .., last] => vec![first, last],
        few => few.iter().collect(),
    }
}

/// One of the two histograms of a policy.
struct Bins {
    of: fn(&PolicyResult) -> &[TimeBin],
    median: Metric,
    counted: &'static str,
    whole: &'static str,
}

const SLICES: Bins =
    Bins { of: |result| &result.slices, median: SLICE_MEDIAN, counted: "slices", whole: "% of standard's" };

const INTERVALS: Bins =
    Bins { of: |result| &result.intervals, median: INTERVAL_MEDIAN, counted: "intervals", whole: "% of the policy's" };

fn typical(result: &PolicyResult, median: &Metric) -> String {
    result.value(median).map_or_else(String::new, |ms| format!("median {} ms", number::seconds(ms)))
}

fn typical_of_all(point: &PointResult, median: &Metric) -> String {
    let told = point.policies.iter().map(|result| format!("{}: {}", plain(&result.policy), typical(result, median)));
    told.collect::<Vec<_>>().join("; ")
}

fn histograms(study: &SimulationView, point: &PointResult, bins: &Bins) -> Vec<Histogram> {
    let row = |result: &PolicyResult| Histogram {
        figure: typical(result, &bins.median),
        ..histogram(&result.policy, hue(study, &result.policy), (bins.of)(result), Some(bins.counted))
    };
    point.policies.iter().map(row).collect()
}

fn bins_of(point: &PointResult, bins: &Bins) -> Markup {
    let heads = ["policy", "from, ms", "to, ms", &format!("{} a replicate", bins.counted), bins.whole];
    bin_table(&heads, point.policies.iter().map(|result| (result.policy.as_str(), (bins.of)(result))))
}

/// Of the intervals of each job under each policy, the percentage that each cause ended: the report's Table III.
fn end_table(study: &SimulationView, point: &PointResult) -> Markup {
    let jobs = study.job_names();
    let rows = point.policies.iter().flat_map(|result| jobs.iter().map(move |job| (result, *job)));
    html! {
        div.scroll tabindex="0" role="region" aria-label="Why dispatch intervals end" {
            table.dense {
                thead { tr {
                    th scope="col" { "policy" } th scope="col" { "job" }
                    @for (_, words) in ENDS { th.n scope="col" { (words) } }
                    th.n scope="col" { "mean, ms" }
                } }
                tbody {
                    @for (result, job) in rows {
                        @let value = |metric: Metric| result.value(&metric.of_job(job));
                        tr {
                            td { (plain(&result.policy)) } td { (plain(job)) }
                            @for (end, _) in ENDS {
                                td.n { (value(end_metric(end)).map_or_else(|| "–".into(), |share| format!("{:.1}", 100.0 * share))) }
                            }
                            td.n { (value(Metric::from_name("dispatch_interval_mean_ms")).map_or_else(|| "–".into(), number::seconds)) }
                        }
                    }
                }
            }
        }
    }
}

/// Every replicate.
fn replicates(study: &SimulationView) -> Markup {
    const METRICS: [(&str, &str); 8] = [
        ("makespan_ms", "execution time, ms"),
        ("mean_completion_ms", "mean completion, ms"),
        ("misses", "misses"),
        ("migrations", "migrations"),
        ("dispatches", "dispatches"),
        ("idle_fraction", "idle"),
        ("jain_index", "Jain"),
        ("longest_wait_ms", "longest wait, ms"),
    ];
    let metrics = if study.shares_space() { &space::METRICS } else { &METRICS };
    html! {
        section #replicates {
            h2 { "Replicates" }
            p { "Each draws the workload anew, the same under every policy and at every point." }
            details {
                summary { "All " (count(study.record.trials.len(), "replicate")) " as a table" }
                div.scroll.tall tabindex="0" role="region" aria-label="All replicates" {
                    table.dense.sortable {
                        thead { tr {
                            th { "subject" } th { "policy" } th.n { "replicate" } @for (_, head) in metrics { th.n { (head) } }
                        } }
                        tbody {
                            @for sample in &study.record.trials {
                                tr {
                                    td { (plain(&sample.subject)) } td { (plain(&sample.policy)) } td.n { (sample.replicate) }
                                    @for (metric, _) in metrics {
                                        @let value = sample.value(&Metric::from_name(metric));
                                        td.n { (value.map_or_else(|| "–".into(), number::seconds)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn guide(study: &SimulationView) -> Markup {
    if study.shares_space() {
        return space::guide(study);
    }
    let mut entries = vec![
        (
            "replicate",
            "One simulation of the whole workload under one policy. Replicate 3 has the same arrivals, work, intervals and blocking times under every policy, so differences are the policies'.",
        ),
        (
            "change",
            "By how much a policy differs from standard, from pairs of replicates with the same draws: the geometric mean of their ratios.",
        ),
        (
            "95 % interval",
            "If the whole simulation were repeated with other seeds, 95 of 100 such intervals would hold the mean change of all draws.",
        ),
        (
            "bold, colour",
            "The interval excludes 0. Each is told by itself: among very many, one in twenty does so by chance.",
        ),
        (
            "reload, steady, invalidation",
            "Misses to load again what the process had cached; misses that it has even with all that cached; misses because a writer elsewhere took a line away.",
        ),
        (
            "effective slice",
            "Time on a CPU with no other process in between; several dispatch intervals when the same process is chosen again.",
        ),
        (
            "dispatch interval",
            "From one look of a CPU at the run queue to its next. Of the causes that end it, only a semaphore takes the process out of the queue.",
        ),
        ("dispatch", "A CPU looked at the run queue and took a process, perhaps the same again."),
        (
            "Jain's index",
            "Fairness of CPU time among equal processes when the first of them ends: 1 is perfectly fair, 1 over their number is all for one.",
        ),
    ];
    if study.swept().is_some() {
        entries.push(POINT);
    }
    sheet::reading(&entries)
}
