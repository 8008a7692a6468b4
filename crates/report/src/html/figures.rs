//! The charts of a study: from trials and summaries to plain series.

use super::figure::{figure, filter, or_dash, scrolled, swatch, table};
use super::page::{Section, heading};
use super::{MOST_TRIALS, listed, race, shown};
use crate::chart::{self, Hue, Interval, Line, LinePoint, Mark, Point, Strip};
use crate::metric;
use crate::number::{self, Ratio};
use crate::ranking::cut_off;
use crate::study_view::StudyView;
use crate::wording::{self, Wording};
use crate::words::shape_in_words;
use crate::words::{compared, count, names, plain};
use maud::{Markup, html};
use stats::DropReason;
use study::Shape;
use study::{Claim, Metric, Observation, Status, Subject, Summary, Treatment, Trial};

/// The trials of each subject in the order in which they were run, each against the median of its cell.
pub(super) fn in_order(study: &StudyView) -> Section {
    if study.is_emulated() {
        return heading("order", "Trials", "Trials").above(html! {
            p { "Times of an emulated machine mean nothing, so that none is drawn." }
            (all_trials(study))
        });
    }
    let lack = if study.is_race() { "no cell has two trials that count" } else { "no trial that counts yet" };
    let in_order = |subject: &Subject| {
        let points = ordered_points(study, subject);
        let description = order_description(study, subject, &points);
        let (drawn, sample) = sample(points, MOST_TRIALS);
        let by = match Wording::new(&subject.metric) {
            Wording::Other(metric) => format!(" by {}", metric::directed(metric)),
            _ => String::new(),
        };
        figure(
            &format!("{}: trials in order{by}", plain(&subject.name)),
            &format!("{description}{sample}"),
            chart::in_order(&drawn, &interruptions(study)),
            lack,
            drift_table(study, subject),
        )
    };
    heading("order", "Trials in order", "Trials in order").above(html! {
        p {
            "Every trial against the median of its own cell. A tilt or a step is drift: the machine changed while the study ran."
            @if study.is_race() { " Cells with a single trial say nothing of that and are left out." }
        }
        (legend(study))
        div.charts { @for subject in &study.plan.subjects { (in_order(subject)) } }
        (all_trials(study))
    })
}

/// Every trial as a row, or of very many a sample.
fn all_trials(study: &StudyView) -> Markup {
    html! {
        details {
            @let listed = listed(study).count();
            @if listed == study.trials.len() { summary { "All " (count(listed, "trial")) " as a table" } }
            @else {
                summary { (listed) " of " (count(study.trials.len(), "trial")) " as a table" }
                p { "The table and the data in this page have an even sample of so many trials. All are in the journal, and in the forms csv and json of the report." }
            }
            (trial_table(study))
        }
    }
}

/// Every trial of each cell along a scale of time.
pub(super) fn distributions(study: &StudyView) -> Section {
    let plan = &study.plan;
    let distribution = |subject: &str, title: &str, cells: &[(String, &Summary)]| {
        let metric = study.metric(subject);
        let (strips, sample) = strips(study, cells);
        let description = format!("{}{sample}", distribution_description(study, cells));
        let drawn = chart::strips(&strips, metric.unit.as_deref());
        let title = match Wording::new(&metric) {
            Wording::Other(metric) => format!("{title}: {}", metric::directed(metric)),
            _ => title.to_owned(),
        };
        figure(&title, &description, drawn, "no trial that counts yet", distribution_table(&metric, cells))
    };
    heading("distributions", "Distributions", "Distributions").above(html! {
        p { "Each mark is one trial, the first of its cell at the top of its strip, the last at the bottom; the bar is the median. Scales differ from chart to chart." }
        (legend(study))
        div.charts {
            @for ranking in &study.rankings {
                @let cells: Vec<(String, &Summary)> = ranking.top(MOST_STRIPS).into_iter().filter_map(|place| Some((ranking.name(place), place.summary?))).collect();
                (distribution(&ranking.race.subject, &format!("{}: the first of the ranking", plain(&ranking.race.subject)), &cells))
            }
            @for subject in plan.subjects.iter().filter(|_| !study.is_race()) {
                @for &threads in &plan.threads {
                    @let cells: Vec<(String, &Summary)> = study.summaries(&subject.name).filter(|s| s.threads == threads).map(|s| (names(s), s)).collect();
                    @let by_itself = if subject.alone.is_some() { " by itself" } else { "" };
                    @let title = format!("{}{by_itself}, {}", plain(&subject.name), shape_in_words(subject.threads_of(threads)));
                    (distribution(&subject.name, &title, &cells))
                }
            }
        }
    })
}

/// How each placement scales.
pub(super) fn speedup(study: &StudyView) -> Section {
    let reference = plain(study.reference());
    let has_ranks = study.plan.threads.iter().any(|shape| shape.ranks().is_some());
    let (is_drawn, lack) = match study.plan.threads.len() > 1 {
        // Several shapes have as many threads in all, so that they are no curve.
        _ if has_ranks => (false, "ranks x threads are compared above, and scale in two directions"),
        true => (true, "it needs a time with 1 thread and without binding"),
        false => (false, "there is one thread count only"),
    };
    let speedup = |subject: &Subject| {
        let curves = curves(study, subject);
        figure(
            &format!("{}: speed-up over threads", plain(&subject.name)),
            &speedup_description(&curves),
            chart::speedup(&curves).filter(|_| is_drawn),
            lack,
            speedup_table(&curves),
        )
    };
    heading("speedup", "Speed-up", "Speed-up").above(html! {
        p {
            @match Wording::of_study(study) {
                Wording::Time => { "Time of " (reference) " with 1 thread over the median time" }
                _ => { "How much better the median is than that of " (reference) " with 1 thread" }
            }
            "; both scales double at each step."
        }
        div.charts { @for subject in study.compared() { (speedup(subject)) } }
    })
}

/// The ratio of each placement with its interval.
pub(super) fn ratios(study: &StudyView) -> Section {
    let reference = plain(study.reference());
    let ratios = |subject: &Subject| {
        let wording = study.wording(&subject.name);
        figure(
            &format!("{}: ratio to {reference} with 95 % interval", plain(&subject.name)),
            &format!(
                "One row for each {} and {}; the table below has the same figures.",
                compared(study.analysis.varied),
                study.column_noun()
            ),
            chart::intervals(&intervals(study, subject), wording.word(false), wording.word(true), false),
            "no pair of trials to compare yet",
            ratio_table(study, subject),
        )
    };
    heading("ratios", "Ratios", format!("Ratios to {reference}")).above(html! {
        p { "The line at 1 is " (reference) ". A bar that crosses it, in grey, shows no difference." }
        div.charts { @for subject in study.compared() { (ratios(subject)) } }
    })
}

/// The ratio of each treatment by each thing that was counted, where that is all that is compared. None where nothing has a ratio.
pub(super) fn counted_ratios(study: &StudyView) -> Option<Section> {
    let (reference, compared_noun) = (plain(study.reference()), compared(study.analysis.varied));
    let mut figures = Vec::new();
    for subject in study.compared() {
        for (position, metric) in subject.metrics.iter().enumerate() {
            let of = |summary: &&Summary| summary.metrics.get(position).is_some_and(|told| told.ratio.is_some());
            let compared: Vec<&Summary> = study.summaries(&subject.name).filter(of).collect();
            if compared.is_empty() {
                continue;
            }
            let mut rows: Vec<Interval> = compared.iter().map(|summary| counted_interval(summary, position)).collect();
            if study.plan.threads.len() > 1 {
                let counts = compared.iter().map(|summary| summary.threads);
                let before = std::iter::once(None).chain(counts.clone().map(Some));
                for ((row, threads), _) in
                    rows.iter_mut().zip(counts).zip(before).filter(|((_, own), last)| *last != Some(*own))
                {
                    row.heading = Some(shape_in_words(threads));
                }
            }
            let data = compared.iter().zip(&rows).map(|(summary, row)| {
                let pairs = summary.metrics[position].pairs.to_string();
                [summary.threads.to_string(), plain(&names(summary)), row.figure.clone(), pairs]
            });
            let data = table(&["threads", compared_noun, "ratio, 95 % interval", "pairs"], data);
            figures.push(figure(
                &format!("{}: {}", plain(&subject.name), plain(&metric::label(metric))),
                &format!("{}.", rows.iter().map(|row| plain(&row.hover)).collect::<Vec<_>>().join("; ")),
                chart::intervals(&rows, "worse", "better", false),
                "nothing to compare",
                data,
            ));
        }
    }
    (!figures.is_empty()).then(|| {
        heading("ratios", "Ratios", format!("Ratios to {reference}")).above(html! {
            p { "The line at 1 is " (reference) "; to the right of it less is missed. A bar in grey shows no difference, after allowing for how many comparisons this study makes." }
            div.charts { @for figure in figures { (figure) } }
        })
    })
}

fn counted_interval(summary: &Summary, position: usize) -> Interval {
    let told = &summary.metrics[position];
    let estimate = (told.ratio.unwrap_or(1.0), told.ratio_low.unwrap_or(1.0), told.ratio_high.unwrap_or(1.0));
    let ratio = Ratio::new(estimate.0, told.ratio_low, told.ratio_high);
    let figure = format!("{} ({})", ratio.value, ratio.range("–"));
    let threads = shape_in_words(summary.threads);
    let (hue, arrow) = match told.claim {
        Claim::Faster => (Hue::Better, "▲ "),
        Claim::Slower => (Hue::Worse, "▼ "),
        _ => (Hue::Neutral, ""),
    };
    Interval {
        heading: None,
        label: summary.placement.clone(),
        estimate,
        hover: format!("{}, {threads}: {figure}, {}", names(summary), count(told.pairs as usize, "pair")),
        figure: format!("{arrow}{figure}"),
        hue,
    }
}

/// Most strips of a race, whose first are told apart by little and whose last by much.
const MOST_STRIPS: usize = 8;

fn legend(study: &StudyView) -> Markup {
    html! {
        ul.legend {
            @for (treatment, names) in study.treatments().filter(|_| !study.is_race()) {
                li { (swatch(study.series(&treatment.name), "")) " " (plain(&names)) }
            }
            @if study.is_race() { (race::parts()) }
            li { span aria-hidden="true" { "○" } " warm-up" }
            li { span.worse aria-hidden="true" { "×" } " failed" }
            @if cut_off(study.trials) > 0 { li { span aria-hidden="true" { (chart::exit_glyph(DropReason::Outpaced)) } " cut off" } }
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
        Some(_) if summary.outliers.binary_search(&trial.sequence).is_ok() => Mark::Outlier,
        Some(_) => Mark::Counted,
    }
}

/// The trials of a cell as marks at `value`, which is given what each trial is compared by.
fn points<'a>(
    study: &'a StudyView,
    summary: &'a Summary,
    value: impl Fn(f64) -> f64 + 'a,
) -> impl Iterator<Item = Point> + 'a {
    let (hue, metric) = (study.hue(summary), study.metric(&summary.subject));
    study.trials(summary).map(move |trial| {
        let mark = mark(summary, trial);
        let found = study.value(trial).filter(|_| trial.status == Status::Ok);
        let outcome = found
            .map_or_else(|| format!("{} ({})", trial.status, trial.cause), |found| metric::quantity(&metric, found));
        let kind = match mark {
            Mark::Outlier => ", outlier",
            Mark::Uncounted => ", warm-up",
            Mark::Counted | Mark::Failed | Mark::CutOff => "",
        };
        Point {
            order: f64::from(trial.sequence),
            value: found.map_or(f64::NAN, &value),
            mark,
            hue,
            hover: format!(
                "#{} {}, {}: {outcome}{kind}",
                trial.sequence,
                trial.placement,
                shape_in_words(trial.threads)
            ),
        }
    })
}

fn ordered_points(study: &StudyView, subject: &Subject) -> Vec<Point> {
    let fewest = if study.is_race() { 2 } else { 1 };
    let cells = study.summaries(&subject.name).filter_map(|summary| match summary.figures.median {
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
        &["threads", "placement", &metric::head("median", Some(&subject.metric)), "drift"],
        study.summaries(&subject.name).filter(|s| s.trials > 1 || !study.is_race()).map(|s| {
            [
                s.threads.to_string(),
                plain(&names(s)),
                or_dash(s.figures.median, number::seconds),
                s.drift.map_or("none shown".into(), number::change),
            ]
        }),
    )
}

/// The strips of cells, and a sentence where they don't have all trials.
fn strips(study: &StudyView, cells: &[(String, &Summary)]) -> (Vec<Strip>, String) {
    let most = MOST_TRIALS / cells.len().max(1);
    let mut said = String::new();
    let strip = |(name, summary): &(String, &Summary)| {
        let (points, sentence) = sample(points(study, summary, |time| time).collect(), most);
        said = if sentence.is_empty() { std::mem::take(&mut said) } else { sentence };
        Strip { label: name.clone(), figure: median(study, summary), points, median: summary.figures.median }
    };
    let strips = cells.iter().map(strip).collect();
    (strips, said)
}

/// What is drawn of `points`, about `most` of them, and a sentence that says so where that isn't all: an even sample of those that
/// lie with the others, and of those that don't.
fn sample(points: Vec<Point>, most: usize) -> (Vec<Point>, String) {
    if points.len() <= most {
        return (points, String::new());
    }
    let (plain, others): (Vec<Point>, Vec<Point>) = points.into_iter().partition(|point| point.mark == Mark::Counted);
    let every = |points: &[Point]| (2 * points.len()).div_ceil(most).max(1);
    let (of_plain, of_others) = (every(&plain), every(&others));
    let sentence = match of_others {
        1 => format!(" Of so many one in {of_plain} is drawn, and all that are marked."),
        _ => format!(" Of so many one in {of_plain} is drawn, and one in {of_others} of those that are marked."),
    };
    let mut drawn: Vec<Point> = plain.into_iter().step_by(of_plain).collect();
    drawn.extend(others.into_iter().step_by(of_others));
    (drawn, sentence)
}

fn median(study: &StudyView, summary: &Summary) -> String {
    let metric = study.metric(&summary.subject);
    let lacking = || format!("no {}", wording::name(&metric));
    summary.figures.median.map_or_else(lacking, |value| format!("median {}", metric::quantity(&metric, value)))
}

fn distribution_description(study: &StudyView, cells: &[(String, &Summary)]) -> String {
    let row = |(name, summary): &(String, &Summary)| {
        format!("{}: {}, {}", plain(name), median(study, summary), count(summary.trials as usize, "trial"))
    };
    cells.iter().map(row).collect::<Vec<_>>().join("; ") + "."
}

fn distribution_table(metric: &Metric, cells: &[(String, &Summary)]) -> Markup {
    let told = |value: Option<f64>| or_dash(value, number::seconds);
    let [least, most] = metric::extremes(Some(metric));
    let [least, median, most] = [least, "median", most].map(|figure| metric::head(figure, Some(metric)));
    table(
        &["placement", "trials", "failed", &least, &median, &most, "relative sd"],
        cells.iter().map(|(name, s)| {
            [
                plain(name),
                s.trials.to_string(),
                s.failed.to_string(),
                told(s.figures.min),
                told(s.figures.median),
                told(s.figures.max),
                or_dash(s.figures.relative_sd, number::percent),
            ]
        }),
    )
}

fn curves(study: &StudyView, subject: &Subject) -> Vec<Line> {
    let curve = |(treatment, names): (&Treatment, String)| {
        // A curve goes on where another treatment is run for this one.
        let point = |&threads: &Shape| {
            let y = study.summary(&subject.name, threads, &treatment.name)?.speedup?;
            let hover = format!("{}, {}: {y:.2}", treatment.name, shape_in_words(threads));
            Some(LinePoint { x: f64::from(threads.total()), y, interval: None, hover })
        };
        let mut points: Vec<LinePoint> = study.plan.threads.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Line { label: plain(&names), hue: study.series(&treatment.name), points }
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
        let threads = shape_in_words(summary.threads);
        let fresh = previous.replace(summary.threads) != Some(summary.threads);
        let ratio = Ratio::new(value, Some(low), Some(high));
        let figure = format!("{} ({})", ratio.value, ratio.range("–"));
        let (hue, arrow) = match summary.claim {
            Claim::Faster | Claim::Slower if study.is_busy(summary) => (Hue::Neutral, "~ "),
            Claim::Faster => (Hue::Better, "▲ "),
            Claim::Slower => (Hue::Worse, "▼ "),
            _ => (Hue::Neutral, ""),
        };
        rows.push(Interval {
            heading: (rivals > 1 && fresh).then(|| threads.clone()),
            label: if rivals > 1 { summary.placement.clone() } else { threads.clone() },
            estimate: (value, low, high),
            hover: format!("{}, {threads}: {figure}, {}", names(summary), shown(study, summary)),
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
            let ratio = Ratio::of(s);
            [
                s.threads.to_string(),
                plain(&names(s)),
                or_dash(ratio.as_ref(), |r| r.value.clone()),
                or_dash(ratio, |r| r.range("–")),
                s.pairs.to_string(),
                or_dash(s.smallest_detectable, number::percent),
                shown(study, s),
            ]
        }),
    )
}

fn trial_table(study: &StudyView) -> Markup {
    let seen = |trial: &Trial, metric: &dyn Fn(&Observation) -> String| or_dash(trial.observation.as_ref(), metric);
    html! {
        (filter("trials"))
        (scrolled("All trials", true, html! {
            table.dense.sortable #trials {
                thead { tr {
                    th { "#" } th { "block" } th { "subject" } th { "threads" } th { "placement" } th { "status" } th { "time, s" }
                    th { "wall, s" } th { "user, s" } th { "system, s" } th { "peak memory, MiB" } th { "switches, voluntary" }
                    th { "involuntary" } th { "migrations" }
                } }
                tbody {
                    @for trial in listed(study) {
                        tr {
                            td { (trial.sequence) } td { (trial.block) } td { (plain(&trial.subject)) } td { (trial.threads) }
                            td { (plain(&trial.placement)) }
                            td.bad[trial.status.is_failure()] { (trial.status) @if trial.warmup { " (warm-up)" } }
                            td { (or_dash(trial.time_s, number::seconds)) }
                            td { (or_dash(trial.ran_s, number::seconds)) }
                            td { (seen(trial, &|o| number::seconds(o.user_s))) }
                            td { (seen(trial, &|o| number::seconds(o.system_s))) }
                            td { (seen(trial, &|o| format!("{:.1}", o.max_rss_bytes as f64 / f64::from(1 << 20)))) }
                            td { (seen(trial, &|o| o.voluntary_switches.to_string())) }
                            td { (seen(trial, &|o| o.involuntary_switches.to_string())) }
                            td { (seen(trial, &|o| or_dash(o.migrations, |m| m.to_string()))) }
                        }
                    }
                }
            }
        }))
    }
}
