//! The page of a simulation.

mod space;

use super::figure::{figure, histogram_figure, median_ms, medians, or_dash, scrolled, table};
use super::page::{self, Section, heading};
use super::sheet;
use crate::chart::{self, Heights, Histogram, Hue, Line, LinePoint};
use crate::json::{self, Metrics};
use crate::number;
use crate::sentences;
use crate::simulation::{ENDS, Sheet, SimulationView, end_metric};
use crate::words::{count, plain};
use ::simulation::metrics::{INTERVAL_MEDIAN, MAKESPAN, MISSES, SLICE_MEDIAN};
use ::simulation::{Change, Direction, Estimated, PointResult, PolicyResult, TimeBin};
use maud::{Markup, html};
use stats::Metric;

/// A simulation as one HTML file.
pub(crate) fn page(study: &SimulationView) -> String {
    let sheet = study.sheet();
    let is_swept = study.swept().is_some();
    let mut sections = vec![policies(study, &sheet)];
    match study.shares_space() {
        true if is_swept => sections.push(space::sweep(study)),
        true => sections.insert(0, space::responses(study)),
        false => {
            sections.extend(is_swept.then(|| sweep(study)));
            sections.extend([slices(study), intervals(study)]);
        }
    }
    sections.extend([
        replicates(study),
        sheet::model(&sheet, study.machine.as_ref(), &study.record.sessions),
        guide(study),
    ]);
    let head = answer(study, &sections);
    if study.shares_space() && is_swept {
        // The answer is where affinity begins to matter, which the table tells less plainly.
        sections.swap(0, 1);
    }
    let who = if study.shares_space() { "allocators" } else { "schedulers" };
    let title = format!("{}: what {who} would do", study.workload());
    page::study_page(&study.record.host, &title, &head, &sections, &json::simulation(study, Metrics::Summarised))
}

/// How a policy is painted: the reference grey, the others in their order.
fn hue(study: &SimulationView, policy: &str) -> Hue {
    Hue::Series(study.policies().iter().position(|name| *name == policy).unwrap_or(0))
}

fn answer(study: &SimulationView, sections: &[Section]) -> Markup {
    let machine = study.machine.as_ref().map_or("unknown", machine::Machine::name);
    sheet::answer(
        html! { "Stayput simulation on " (plain(machine)) },
        &study.workload(),
        headline(study),
        sentences::of_simulation(study.analysis),
        "Nothing was simulated.",
        &study.analysis.warnings,
        sections,
    )
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
        return html! { div { p.figure.words { "Nothing compared" } p.doubt { "no misses, or no " (study.reference()) " to compare with" } } };
    };
    let place = study.swept().map(|swept| format!(", {swept} {}", crate::simulation::value_of(point)));
    html! {
        div {
            (large(&misses, "misses"))
            p.doubt { b { (plain(&policy)) (place.unwrap_or_default()) } ", against " (study.reference_in_words()) }
            p.doubt.muted { (range(&misses)) }
            @if let Some(time) = time { p.doubt.muted { "and " (changed(&time, "time")) } }
        }
    }
}

/// A change of `what` in large type, where it is shown; else that it isn't. The sentences beside it decide by the same rule.
fn large(change: &Estimated, what: &str) -> Markup {
    match Change::from(*change).direction {
        Direction::NoneShown => html! { p.figure.words { "No difference shown" } p.doubt { "in " (what) } },
        direction => html! {
            p.figure.better[direction == Direction::Down] { (number::change(change.value / 100.0)) small { " " (what) } }
        },
    }
}

/// A change of `what` in a line.
fn changed(change: &Estimated, what: &str) -> String {
    match Change::from(*change).direction {
        Direction::NoneShown => format!("no difference in {what} shown"),
        _ => format!("{} {what}", number::change(change.value / 100.0)),
    }
}

/// The interval of a change, or that it has none.
fn range(estimate: &Estimated) -> String {
    estimate.low.zip(estimate.high).map_or("one replicate, so without an interval".into(), |(low, high)| {
        format!("95 % interval {:.1} to {:.1} %", low.min(high), low.max(high))
    })
}

/// The table of everything.
fn policies(study: &SimulationView, sheet: &Sheet) -> Section {
    let title = match study.swept() {
        Some(_) => "Point by point",
        None if study.compares_mixes() => "Mix by mix",
        None => "Policies",
    };
    let link = if study.points().len() > 1 { "Table" } else { "Policies" };
    heading("policies", link, title).above(html! {
        p { (sheet.key) }
        (sheet::whole(&sheet.table, "Policies"))
    })
}

/// What the swept parameter does to misses and time.
fn sweep(study: &SimulationView) -> Section {
    let parameter = plain(study.swept().unwrap_or_default());
    let rivals = study.policies().into_iter().filter(|policy| {
        study.points().first().is_some_and(|point| point.reference.as_deref().is_some_and(|r| r != *policy))
    });
    let of_policy = |policy: &str| {
        let traces = [(MISSES, "misses", Hue::Series(1)), (MAKESPAN, "time", Hue::Series(2))]
            .map(|(metric, label, hue)| trace_of(study, policy, label, hue, |result| result.changes.get(&metric)));
        figure(
            &format!("{}: misses and time over {parameter}", plain(policy)),
            &format!("{} over {parameter}, against {}.", count(study.points().len(), "point"), study.reference()),
            chart::sweep(&traces, &parameter, None),
            "nothing is compared",
            sweep_table(&traces),
        )
    };
    heading("sweep", "Sweep", "The sweep").above(html! {
        p { "Changes against " (study.reference_in_words()) ", at the same point. " @if study.record.plan.replicates > 1 { "Bars are 95 % intervals; " } "below 0 is fewer misses, or less time." }
        div.charts.large { @for policy in rivals { (of_policy(policy)) } }
    })
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
            let end = |end: Option<f64>| or_dash(end, |end| format!("{end:.2}"));
            let (low, high) = interval.unzip();
            [trace.label.clone(), x.to_string(), format!("{y:.2}"), end(low), end(high)]
        }),
    )
}

/// How long effective slices last, under each policy.
fn slices(study: &SimulationView) -> Section {
    heading("slices", "Effective slices", "Effective time slices").above(html! {
        p {
            "Time on a CPU with no other process in between, in percent of the number of slices under " (study.reference()) ", so that fewer slices make "
            "less of a picture. Each policy has a vertical scale of its own; the last bar holds all that are longer."
        }
        (durations(study, &SLICES))
    })
}

/// How long dispatch intervals last under each policy, and why they end.
fn intervals(study: &SimulationView) -> Section {
    heading("intervals", "Dispatch intervals", "Dispatch intervals").above(html! {
        p { "From one look at the run queue to the next, in percent of the policy's own. The last bar holds all that are longer." }
        (durations(study, &INTERVALS))
        h3 { "Why they end" }
        p { "In percent of the job's own intervals, and how long these are." }
        @for point in ends_of_sweep(study) {
            @if study.swept().is_some() { p { b { (plain(&point.subject)) } } }
            (end_table(study, point))
        }
    })
}

/// The first and the last point of a sweep, or the only one.
fn ends_of_sweep<'a>(study: &SimulationView<'a>) -> Vec<&'a PointResult> {
    match study.points() {
        [first, .., last] => vec![first, last],
        few => few.iter().collect(),
    }
}

/// One of the two histograms of a policy.
struct Durations {
    bins: fn(&PolicyResult) -> &[TimeBin],
    median: Metric,
    /// What is counted, in few words and in full, and one of them.
    counted: &'static str,
    in_full: &'static str,
    one: &'static str,
    /// What a bin's percentage is of; none for the reference's.
    percent: Option<&'static str>,
}

const SLICES: Durations = Durations {
    bins: |result| &result.slices,
    median: SLICE_MEDIAN,
    counted: "slices",
    in_full: "effective slices",
    one: "slice",
    percent: None,
};

const INTERVALS: Durations = Durations {
    bins: |result| &result.intervals,
    median: INTERVAL_MEDIAN,
    counted: "intervals",
    in_full: "dispatch intervals",
    one: "interval",
    percent: Some("% of the policy's"),
};

fn durations<'a>(study: &SimulationView<'a>, durations: &'a Durations) -> Markup {
    let Durations { bins, median, counted, in_full, one, percent } = durations;
    let percent = percent.map_or_else(|| format!("% of {}'s", study.reference()), str::to_owned);
    let of_point = |point: &'a PointResult| {
        let row = |result: &'a PolicyResult| Histogram {
            label: result.policy.clone(),
            figure: median_ms(result.value(median)),
            hue: hue(study, &result.policy),
            bins: bins(result),
            counted: Some(counted),
            median: None,
        };
        let rows: Vec<Histogram> = point.policies.iter().map(row).collect();
        histogram_figure(
            &format!("{}: how long {in_full} last", plain(&point.subject)),
            &medians(&rows),
            &rows,
            Heights::Own,
            &format!("no {one} ended"),
            ["policy", &format!("{counted} a replicate"), &percent],
        )
    };
    html! { div.charts.large { @for point in ends_of_sweep(study) { (of_point(point)) } } }
}

/// Of the intervals of each job under each policy, the percentage that each cause ended: the report's Table III.
fn end_table(study: &SimulationView, point: &PointResult) -> Markup {
    let jobs = study.job_names();
    let rows = point.policies.iter().flat_map(|result| jobs.iter().map(move |job| (result, *job)));
    scrolled(
        "Why dispatch intervals end",
        false,
        html! {
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
                            @for (end, _) in ENDS { td.n { (or_dash(value(end_metric(end)), |share| format!("{:.1}", 100.0 * share))) } }
                            td.n { (or_dash(value(Metric::from_name("dispatch_interval_mean_ms")), number::seconds)) }
                        }
                    }
                }
            }
        },
    )
}

/// Every replicate.
fn replicates(study: &SimulationView) -> Section {
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
    let metrics = if study.shares_space() { space::METRICS } else { METRICS };
    sheet::replicates(
        "Each draws the workload anew, the same under every policy and at every point.",
        &study.record.trials,
        ["subject", "policy"],
        |sample| [sample.subject.clone(), sample.policy.clone()],
        &metrics.map(|(metric, head)| (Metric::from_name(metric), head)),
        false,
    )
}

fn guide(study: &SimulationView) -> Section {
    if study.shares_space() {
        return space::guide(study);
    }
    page::reading(html! {
        (page::entries(study.glossary()))
        dt { "bold, colour" } dd { "The interval excludes 0. Each is told by itself: among very many, one in twenty does so by chance." }
    })
}
