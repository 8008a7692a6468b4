//! The jobs of mixes over time and in figures, and what else was measured.

use super::figure::{figure, or_dash, table};
use super::grouped;
use super::page::{Section, heading};
use crate::chart::{self, Hue, JobBar, JobStrip};
use crate::mix_table::{USED_KEY, alone_s, cells, job_name, jobs_key, metrics_key, mixes, slowdown};
use crate::number::{self, Ratio};
use crate::study_view::{StudyView, cpu_line};
use crate::table::{Row, Table};
use crate::words::{capital, compared, names, plain, shape_in_words};
use maud::{Markup, html};
use study::Shape;
use study::{JobSummary, Mix, Status, Subject, Summary, Trial};

/// What became of each job, where there are mixes.
pub(super) fn jobs(study: &StudyView) -> Option<Section> {
    let jobs = Table::of_jobs(study)?;
    let title = "Jobs of the mix";
    Some(heading("jobs", "Jobs", title).above(html! {
        p {
            "A bar is the first run of a job, from the median of its starts to that of its ends; the thin ones are its later runs in the trial "
            "whose makespan is nearest to the median. The upright mark is the median makespan."
            @if !study.is_race() { " Beside a bar stands how many times as long as by itself the job took." }
        }
        div.charts.large {
            @for (subject, mix) in mixes(study) {
                @for &threads in &study.plan.threads { (over_time(study, subject, mix, threads)) }
            }
        }
        p { (jobs_key(study)) }
        div.effects { (grouped(title, "Job", &jobs, |subject| html! { (plain(subject)) }, |row| {
            let [_, treatment, job] = &row.labels[..] else { return html! {} };
            html! { (plain(job)) " " small.muted { (plain(treatment)) } }
        })) }
    }))
}

/// What else was measured, where anything was.
pub(super) fn metrics(study: &StudyView) -> Option<Section> {
    let metrics = Table::of_metrics(study)?;
    let title = if study.is_emulated() { "What was counted" } else { "Metrics besides the first" };
    Some(heading("metrics", "Metrics", title).above(html! {
        p { (metrics_key(study)) }
        (by_metric(study, title, metrics))
    }))
}

/// What runs used besides, where that is compared.
pub(super) fn used(study: &StudyView) -> Option<Section> {
    let used = Table::of_used(study, |_, _| true)?;
    let title = "What runs used besides";
    Some(heading("used", "Used", title).above(html! {
        p { (USED_KEY) }
        details {
            summary { "CPU time, memory, switches, migrations, faults and more" }
            (by_metric(study, title, used))
        }
    }))
}

/// A table of metrics whose groups are metrics, and whose rows treatments.
fn by_metric(study: &StudyView, title: &str, mut table: Table) -> Markup {
    let is_one = study.compared().count() == 1;
    for Row { labels, .. } in &mut table.rows {
        let metric = std::mem::take(&mut labels[1]);
        labels[0] = if is_one { metric } else { format!("{}: {metric}", labels[0]) };
    }
    let corner = capital(compared(study.analysis.varied));
    let label = |row: &Row| html! { (plain(&row.labels[2])) };
    html! { div.effects { (grouped(title, &corner, &table, |metric| html! { (plain(metric)) }, label)) } }
}

/// The jobs of one mix with so many threads, a strip for each treatment.
fn over_time(study: &StudyView, subject: &Subject, mix: &Mix, threads: Shape) -> Markup {
    let summaries: Vec<&Summary> =
        cells(study, &subject.name).into_iter().filter(|summary| summary.threads == threads).collect();
    let strips: Vec<JobStrip> = summaries.iter().filter_map(|summary| strip(study, mix, summary)).collect();
    figure(
        &format!("{}, {}: jobs over time", plain(&subject.name), shape_in_words(threads)),
        &description(&strips),
        chart::jobs(&strips),
        "no run of the mix went well yet",
        data(study, mix, &summaries),
    )
}

fn strip(study: &StudyView, mix: &Mix, summary: &Summary) -> Option<JobStrip> {
    let makespan_s = summary.median_s?;
    let middle = middle_trial(study, summary, makespan_s);
    let bar = |(position, job): (usize, &JobSummary)| {
        let ours = |trial: &'_ Trial| -> Vec<std::ops::Range<f64>> {
            let runs = trial.jobs().iter().filter(|run| run.name == job.name).skip(1);
            runs.map(|run| run.started_s..run.ended_s).collect()
        };
        let slowed = slowdown(job);
        JobBar {
            label: job.name.clone(),
            first_s: job.started_s.zip(job.ended_s).map(|(start, end)| start..end),
            later_s: middle.map(ours).unwrap_or_default(),
            figure: job.slowdown.map_or_else(String::new, |slowdown| format!("{}×", number::factor(slowdown, 2))),
            // The colour of the reference is no job's.
            hue: Hue::Series(position + 1),
            hover: hover(mix.jobs.get(position).map_or_else(|| job.name.clone(), job_name), job, slowed),
        }
    };
    Some(JobStrip {
        label: names(summary),
        figure: format!("makespan {} s", number::seconds(makespan_s)),
        makespan_s,
        bars: summary.jobs.iter().enumerate().map(bar).collect(),
    })
}

/// The trial that counts whose time is nearest to the median.
fn middle_trial<'a>(study: &StudyView<'a>, summary: &Summary, median_s: f64) -> Option<&'a Trial> {
    let distance = |trial: &&Trial| trial.time_s.map_or(f64::INFINITY, |time_s| (time_s - median_s).abs());
    let counted = study.trials(summary).filter(|trial| trial.status == Status::Ok && !trial.warmup);
    counted.min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

fn hover(name: String, job: &JobSummary, slowed: Option<Ratio>) -> String {
    let seconds = |s: Option<f64>| s.map_or_else(|| "?".into(), number::seconds);
    let slowed = slowed.map_or_else(String::new, |ratio| match ratio.range("–") {
        range if range.is_empty() => format!(", slowdown {}", ratio.value),
        range => format!(", slowdown {} ({range})", ratio.value),
    });
    format!("{name}: {} s to {} s{slowed}", seconds(job.started_s), seconds(job.ended_s))
}

fn description(strips: &[JobStrip]) -> String {
    let bars = |strip: &JobStrip| strip.bars.iter().map(|bar| plain(&bar.hover)).collect::<Vec<_>>().join(", ");
    strips
        .iter()
        .map(|strip| format!("{}, {}: {}", plain(&strip.label), strip.figure, bars(strip)))
        .collect::<Vec<_>>()
        .join("; ")
        + "."
}

fn data(study: &StudyView, mix: &Mix, summaries: &[&Summary]) -> Markup {
    let seconds = |s: Option<f64>| or_dash(s, number::seconds);
    let rows = summaries.iter().flat_map(|summary| {
        let places = mix.placements_of_jobs(&summary.placement, summary.threads);
        mix.jobs.iter().zip(&summary.jobs).zip(places).map(move |((job, told), place)| {
            let slowed = slowdown(told);
            [
                plain(&names(summary)),
                plain(&job_name(job)),
                seconds(told.started_s),
                seconds(told.ended_s),
                seconds(told.median_s),
                or_dash(slowed.as_ref(), |ratio| ratio.value.clone()),
                or_dash(slowed, |ratio| ratio.range("–")),
                seconds(alone_s(study, job, summary.threads)),
                place.map_or_else(|| "left alone".into(), |place| cpu_line(&place.slots)),
            ]
        })
    });
    let heads =
        ["starts, s", "ends, s", "time, s", "slowdown", "95 % interval", "by itself, s", "CPUs, thread by thread"];
    let [starts, ends, time, slowed, interval, alone, cpus] = heads;
    table(&[compared(study.analysis.varied), "job", starts, ends, time, slowed, interval, alone, cpus], rows)
}
