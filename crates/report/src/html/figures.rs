//! The charts of a study: from trials and summaries to plain series.

use crate::chart::{Bar, Chart, Exit, Histogram, Hue, Interval, Line, LinePoint, Mark, Point, Strip};
use crate::number::{self, Ratio};
use crate::ranking::cut_off;
use crate::study_view::StudyView;
use crate::words::{claim, count, names, plain};
use maud::{Markup, html};
use simulation::TimeBin;
use study::{Claim, Status, Subject, Summary, Trial};

/// The trials of each subject in the order in which they were run, each against the median of its cell.
pub(super) fn in_order(study: &StudyView) -> Markup {
    let subjects = &study.plan.subjects;
    html! {
        section #order {
            h2 { "Trials in order" }
            p {
                "Every trial against the median of its own cell. A tilt or a step is drift: the machine changed while the study ran."
                @if study.is_race() { " Cells with a single trial say nothing of that and are left out." }
            }
            (legend(study))
            div.charts {
                @for subject in subjects {
                    @let points = ordered_points(study, subject);
                    @let chart = Chart {
                        title: format!("{}: trials in order", plain(&subject.name)),
                        description: order_description(study, subject, &points),
                    };
                    @let drawn = chart.in_order(&points, &interruptions(study));
                    @let lack = if study.is_race() { "no cell has two trials that count" } else { "no trial that counts yet" };
                    (figure(&chart, drawn, lack, drift_table(study, subject)))
                }
            }
            details {
                summary { "All " (count(study.trials.len(), "trial")) " as a table" }
                (trial_table(study))
            }
        }
    }
}

/// Every trial of each cell along a scale of time.
pub(super) fn distributions(study: &StudyView) -> Markup {
    let plan = &study.plan;
    let cells_figure = |title: String, cells: &[(String, &Summary)]| {
        let chart = Chart { title, description: distribution_description(cells) };
        figure(&chart, chart.strips(&strips(study, cells), " s"), "no trial with a time yet", distribution_table(cells))
    };
    html! {
        section #distributions {
            h2 { "Distributions" }
            p { "Each mark is one trial, the first of its cell at the top of its strip, the last at the bottom; the bar is the median. Scales differ from chart to chart." }
            (legend(study))
            div.charts {
                @for ranking in &study.rankings {
                    @let cells: Vec<(String, &Summary)> = ranking.top(MOST_STRIPS).into_iter().filter_map(|place| Some((ranking.name(place), place.summary?))).collect();
                    (cells_figure(format!("{}: the first of the ranking", plain(&ranking.race.subject)), &cells))
                }
                @for subject in plan.subjects.iter().filter(|_| !study.is_race()) {
                    @for &threads in &plan.threads {
                        @let cells: Vec<(String, &Summary)> = study.summaries(&subject.name).filter(|s| s.threads == threads).map(|s| (names(s), s)).collect();
                        (cells_figure(format!("{}, {}", plain(&subject.name), count(threads as usize, "thread")), &cells))
                    }
                }
            }
        }
    }
}

/// How each placement scales.
pub(super) fn speedup(study: &StudyView) -> Markup {
    let plan = &study.plan;
    let reference = plain(study.reference());
    html! {
        section #speedup {
            h2 { "Speed-up" }
            p { "Time of " (reference) " with 1 thread over the median time; both scales double at each step." }
            div.charts {
                @for subject in &plan.subjects {
                    @let curves = curves(study, subject);
                    @let chart = Chart {
                        title: format!("{}: speed-up over threads", plain(&subject.name)),
                        description: speedup_description(&curves),
                    };
                    @let several = plan.threads.len() > 1;
                    @let drawn = if several { chart.speedup(&curves) } else { None };
                    @let lack = if several { "it needs a time with 1 thread and without binding" } else { "there is one thread count only" };
                    (figure(&chart, drawn, lack, speedup_table(&curves)))
                }
            }
        }
    }
}

/// The ratio of each placement with its interval.
pub(super) fn ratios(study: &StudyView) -> Markup {
    let reference = plain(study.reference());
    html! {
        section #ratios {
            h2 { "Ratios to " (reference) }
            p { "The line at 1 is " (reference) ". A bar that crosses it, in grey, shows no difference." }
            div.charts {
                @for subject in &study.plan.subjects {
                    @let intervals = intervals(study, subject);
                    @let chart = Chart {
                        title: format!("{}: ratio to {reference} with 95 % interval", plain(&subject.name)),
                        description: "One row for each placement and thread count; the table below has the same figures.".into(),
                    };
                    (figure(&chart, chart.intervals(&intervals, "slower", "faster", false), "no pair of trials to compare yet", ratio_table(study, subject)))
                }
            }
        }
    }
}

/// Most strips of a race, whose first are told apart by little and whose last by much.
const MOST_STRIPS: usize = 8;

/// A chart under its title, or why there is none, and its data as a table.
pub(crate) fn figure(chart: &Chart, drawn: Option<Markup>, lack: &str, data: Markup) -> Markup {
    html! {
        figure {
            figcaption { (chart.title) }
            @match drawn {
                Some(svg) => {
                    (svg)
                    details { summary { "Data" } (data) }
                }
                None => p.muted { "Nothing to draw: " (lack) "." }
            }
        }
    }
}

fn legend(study: &StudyView) -> Markup {
    let treatments = || study.treatments().filter(|_| !study.is_race());
    html! {
        ul.legend {
            @for (treatment, names) in treatments() {
                @let hue = Hue::Series(study.treatment_index(&treatment.name));
                li { span class=(hue.class()) aria-hidden="true" { (hue.glyph()) } " " (plain(&names)) }
            }
            @if study.is_race() { (super::race::parts()) }
            li { span aria-hidden="true" { "○" } " warm-up" }
            li { span.worse aria-hidden="true" { "×" } " failed" }
            @if cut_off(study.trials) > 0 { li { span aria-hidden="true" { (Exit::CutOff.glyph()) } " cut off" } }
            li { span aria-hidden="true" { "◉" } " outlier" }
        }
    }
}

fn mark(summary: &Summary, trial: &Trial) -> Mark {
    match trial.time_s {
        _ if trial.status == Status::CutOff => Mark::CutOff,
        None => Mark::Failed,
        Some(_) if trial.status != Status::Ok => Mark::Failed,
        Some(_) if trial.warmup => Mark::Uncounted,
        Some(_) if summary.outliers.contains(&trial.sequence) => Mark::Outlier,
        Some(_) => Mark::Counted,
    }
}

/// The trials of a cell as marks at `value`, which is given each trial's time in seconds.
fn points<'a>(
    study: &'a StudyView,
    summary: &'a Summary,
    value: impl Fn(f64) -> f64 + 'a,
) -> impl Iterator<Item = Point> + 'a {
    let hue = study.hue(summary);
    study.trials(summary).map(move |trial| {
        let mark = mark(summary, trial);
        let time = trial.time_s.filter(|_| trial.status == Status::Ok);
        let outcome =
            time.map_or_else(|| format!("{} ({})", trial.status, trial.cause), |s| format!("{} s", number::seconds(s)));
        let kind = match mark {
            Mark::Outlier => ", outlier",
            Mark::Uncounted => ", warm-up",
            Mark::Counted | Mark::Failed | Mark::CutOff => "",
        };
        Point {
            order: f64::from(trial.sequence),
            value: time.map_or(f64::NAN, &value),
            mark,
            hue,
            hover: format!(
                "#{} {}, {}: {outcome}{kind}",
                trial.sequence,
                trial.placement,
                count(trial.threads as usize, "thread")
            ),
        }
    })
}

fn ordered_points(study: &StudyView, subject: &Subject) -> Vec<Point> {
    let fewest = if study.is_race() { 2 } else { 1 };
    let cells = study.summaries(&subject.name).filter_map(|summary| match summary.median_s {
        Some(median) if median > 0.0 && summary.trials >= fewest => Some((summary, median)),
        _ => None,
    });
    let mut points: Vec<Point> =
        cells.flat_map(|(summary, median)| points(study, summary, move |time| time / median - 1.0)).collect();
    let stopped = study.summaries(&subject.name).filter(|s| study.is_race() && s.trials < fewest);
    points.extend(stopped.flat_map(|summary| points_beside(study, summary)));
    points
}

/// The trials of a cell that have no place on a scale.
fn points_beside<'a>(study: &'a StudyView, summary: &'a Summary) -> impl Iterator<Item = Point> + 'a {
    points(study, summary, |time| time).filter(|point| point.mark.is_beside())
}

/// The trials that were the first of a later stretch of work, by sequence.
fn interruptions(study: &StudyView) -> Vec<f64> {
    let later = study.sessions.iter().skip(1);
    later
        .filter_map(|session| study.trials.iter().find(|trial| trial.started_unix_s >= session.before.unix_s))
        .filter(|trial| trial.sequence > 0)
        .map(|trial| f64::from(trial.sequence))
        .collect()
}

fn order_description(study: &StudyView, subject: &Subject, points: &[Point]) -> String {
    let marked = |mark: Mark| points.iter().filter(|point| point.mark == mark).count();
    let cut_off = match marked(Mark::CutOff) {
        0 => String::new(),
        trials => format!("; {trials} cut off"),
    };
    let drifting = study.summaries(&subject.name).filter(|summary| summary.drift.is_some()).count();
    format!(
        "{} in order, each as its change from the median of its cell; {} failed{cut_off}; a trend is shown in {}.",
        count(points.len(), "trial"),
        marked(Mark::Failed),
        count(drifting, "cell")
    )
}

fn drift_table(study: &StudyView, subject: &Subject) -> Markup {
    table(
        &["threads", "placement", "median, s", "drift"],
        study.summaries(&subject.name).filter(|s| s.trials > 1 || !study.is_race()).map(|s| {
            [
                s.threads.to_string(),
                plain(&names(s)),
                s.median_s.map_or("–".into(), number::seconds),
                s.drift.map_or("none shown".into(), number::change),
            ]
        }),
    )
}

fn strips(study: &StudyView, cells: &[(String, &Summary)]) -> Vec<Strip> {
    let strip = |(name, summary): &(String, &Summary)| Strip {
        label: name.clone(),
        figure: summary.median_s.map_or_else(|| "no time".into(), |s| format!("median {} s", number::seconds(s))),
        points: points(study, summary, |time| time).collect(),
        median: summary.median_s,
    };
    cells.iter().map(strip).collect()
}

fn distribution_description(cells: &[(String, &Summary)]) -> String {
    let row = |(name, summary): &(String, &Summary)| {
        let median = summary.median_s.map_or_else(|| "no time".into(), |s| format!("median {} s", number::seconds(s)));
        format!("{}: {median}, {}", plain(name), count(summary.trials as usize, "trial"))
    };
    cells.iter().map(row).collect::<Vec<_>>().join("; ") + "."
}

fn distribution_table(cells: &[(String, &Summary)]) -> Markup {
    let time = |s: Option<f64>| s.map_or("–".into(), number::seconds);
    table(
        &["placement", "trials", "failed", "fastest, s", "median, s", "slowest, s", "relative sd"],
        cells.iter().map(|(name, s)| {
            [
                plain(name),
                s.trials.to_string(),
                s.failed.to_string(),
                time(s.min_s),
                time(s.median_s),
                time(s.max_s),
                s.relative_sd.map_or("–".into(), number::percent),
            ]
        }),
    )
}

fn curves(study: &StudyView, subject: &Subject) -> Vec<Line> {
    let curve = |(treatment, names): (&study::Treatment, String)| {
        // A curve goes on where another treatment is run for this one.
        let point = |&threads: &u32| {
            let y = study.summary(&subject.name, threads, &treatment.name)?.speedup?;
            let hover = format!("{}, {}: {y:.2}", treatment.name, count(threads as usize, "thread"));
            Some(LinePoint { x: f64::from(threads), y, interval: None, hover })
        };
        let mut points: Vec<LinePoint> = study.plan.threads.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let hue = Hue::Series(study.treatment_index(&treatment.name));
        Line { label: plain(&names), hue, points }
    };
    study.treatments().map(curve).collect()
}

fn speedup_description(curves: &[Line]) -> String {
    let most = |curve: &Line| {
        let best = curve.points.iter().max_by(|a, b| a.y.total_cmp(&b.y))?;
        Some(format!("{} at most {:.2} with {}", curve.label, best.y, count(best.x as usize, "thread")))
    };
    curves.iter().filter_map(most).collect::<Vec<_>>().join("; ") + "."
}

fn speedup_table(curves: &[Line]) -> Markup {
    let rows = curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
    table(
        &["placement", "threads", "speed-up", "efficiency"],
        rows.map(|(curve, LinePoint { x: threads, y: speedup, .. })| {
            [curve.label.clone(), threads.to_string(), format!("{speedup:.2}"), number::percent(speedup / threads)]
        }),
    )
}

fn intervals(study: &StudyView, subject: &Subject) -> Vec<Interval> {
    let rivals = study.plan.treatments.len().saturating_sub(1);
    let mut previous = None;
    let mut rows = Vec::new();
    for summary in study.summaries(&subject.name) {
        let (Some(value), Some(low), Some(high)) = (summary.ratio, summary.ratio_low, summary.ratio_high) else {
            continue;
        };
        if summary.claim == Claim::Reference {
            continue;
        }
        let threads = count(summary.threads as usize, "thread");
        let fresh = previous.replace(summary.threads) != Some(summary.threads);
        let ratio = Ratio::new(value, Some(low), Some(high));
        let figure = format!("{} ({})", ratio.value, ratio.range("–"));
        let (hue, arrow) = match summary.claim {
            Claim::Faster => (Hue::Better, "▲ "),
            Claim::Slower => (Hue::Worse, "▼ "),
            _ => (Hue::Neutral, ""),
        };
        rows.push(Interval {
            heading: (rivals > 1 && fresh).then(|| threads.clone()),
            label: if rivals > 1 { summary.placement.clone() } else { threads.clone() },
            estimate: (value, low, high),
            hover: format!("{}, {threads}: {figure}, {}", names(summary), claim(summary.claim, study.reference())),
            figure: format!("{arrow}{figure}"),
            hue,
        });
    }
    rows
}

fn ratio_table(study: &StudyView, subject: &Subject) -> Markup {
    table(
        &["threads", "placement", "ratio", "95 % interval", "pairs", "smallest detectable", "shown"],
        study.summaries(&subject.name).filter(|s| s.claim != Claim::Reference).map(|s| {
            let ratio = s.ratio.map(|r| Ratio::new(r, s.ratio_low, s.ratio_high));
            [
                s.threads.to_string(),
                plain(&names(s)),
                ratio.as_ref().map_or("–".into(), |r| r.value.clone()),
                ratio.map_or("–".into(), |r| r.range("–")),
                s.pairs.to_string(),
                s.smallest_detectable.map_or("–".into(), number::percent),
                claim(s.claim, study.reference()),
            ]
        }),
    )
}

pub(super) fn table<const N: usize>(heads: &[&str; N], rows: impl Iterator<Item = [String; N]>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Data of the chart" {
            table.dense {
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            }
        }
    }
}

/// The bars of `bins`, of which the last is as wide as the first; hovering also tells how many there were of what is `counted`.
pub(crate) fn histogram(label: &str, hue: Hue, bins: &[TimeBin], counted: Option<&str>) -> Histogram {
    let width = bins.first().and_then(|bin| Some(bin.to_ms? - bin.from_ms)).unwrap_or(1.0);
    let bar = |bin: &TimeBin| {
        let until = bin.to_ms.map_or_else(|| "on".into(), |to| format!("to {to} ms"));
        let number = counted.map_or_else(String::new, |counted| format!(", {:.1} {counted}", bin.count));
        let hover = format!("{label}, {} ms {until}: {:.2} %{number}", bin.from_ms, bin.percent);
        Bar { from: bin.from_ms, to: bin.to_ms.unwrap_or(bin.from_ms + width), percent: bin.percent, hover }
    };
    Histogram { label: label.into(), figure: String::new(), hue, bars: bins.iter().map(bar).collect(), median: None }
}

/// The data of histograms.
pub(crate) fn bin_table<'a>(
    heads: &[&str; 5],
    histograms: impl Iterator<Item = (impl AsRef<str>, &'a [TimeBin])>,
) -> Markup {
    let rows = histograms.flat_map(|(label, bins)| {
        let row = move |bin: &TimeBin| {
            let to = bin.to_ms.map_or_else(|| "–".into(), |to| to.to_string());
            let (from, count) = (bin.from_ms.to_string(), format!("{:.1}", bin.count));
            [plain(label.as_ref()), from, to, count, format!("{:.2}", bin.percent)]
        };
        bins.iter().map(row)
    });
    table(heads, rows)
}

fn trial_table(study: &StudyView) -> Markup {
    let seen = |trial: &Trial, metric: &dyn Fn(&study::Observation) -> String| {
        trial.observation.as_ref().map_or_else(|| "–".into(), metric)
    };
    html! {
        input.script-only type="search" hidden placeholder="Show only rows with ..." aria-label="Show only rows with these words" data-filters="trials";
        div.scroll.tall tabindex="0" role="region" aria-label="All trials" {
            table.dense.sortable #trials {
                thead { tr {
                    th { "#" } th { "block" } th { "subject" } th { "threads" } th { "placement" } th { "status" } th { "time, s" }
                    th { "wall, s" } th { "user, s" } th { "system, s" } th { "peak memory, MiB" } th { "switches, voluntary" }
                    th { "involuntary" } th { "migrations" }
                } }
                tbody {
                    @for trial in study.trials {
                        tr {
                            td { (trial.sequence) } td { (trial.block) } td { (plain(&trial.subject)) } td { (trial.threads) }
                            td { (plain(&trial.placement)) }
                            td.bad[trial.status.is_failure()] { (trial.status) @if trial.warmup { " (warm-up)" } }
                            td { (trial.time_s.map_or_else(|| "–".into(), number::seconds)) }
                            td { (trial.ran_s.map_or_else(|| "–".into(), number::seconds)) }
                            td { (seen(trial, &|o| number::seconds(o.user_s))) }
                            td { (seen(trial, &|o| number::seconds(o.system_s))) }
                            td { (seen(trial, &|o| format!("{:.1}", o.max_rss_bytes as f64 / f64::from(1 << 20)))) }
                            td { (seen(trial, &|o| o.voluntary_switches.to_string())) }
                            td { (seen(trial, &|o| o.involuntary_switches.to_string())) }
                            td { (seen(trial, &|o| o.migrations.map_or_else(|| "–".into(), |m| m.to_string()))) }
                        }
                    }
                }
            }
        }
    }
}
