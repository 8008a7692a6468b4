//! What each factor changes, and two together: a table, its intervals, and pictures of interactions.

use super::figure::{figure, table};
use super::grouped;
use super::page::{Section, heading};
use crate::chart::{self, Hue, Interval, Line, LinePoint};
use crate::metric;
use crate::number::Ratio;
use crate::study_view::StudyView;
use crate::table::{EFFECTS_KEY, MEMORY_KEY, Table};
use crate::words::shape_in_words;
use crate::words::{capital, compared, plain};
use maud::{Markup, html};
use study::Shape;
use study::{Claim, Effect, Factor, Subject, Treatment};

/// The section, where several factors vary.
pub(super) fn section(study: &StudyView) -> Option<Section> {
    let effects = Table::of_effects(study)?;
    let title = "Effects of each factor";
    Some(heading("effects", "Effects", title).above(html! {
        p { (EFFECTS_KEY) }
        div.effects { (grouped(title, "Level", &effects, |subject| html! { (plain(subject)) }, |row| {
            let [_, factor, level] = &row.labels[..] else { return html! {} };
            html! { (plain(level)) " " small.muted { (plain(factor)) } }
        })) }
        div.charts {
            @for subject in study.compared() {
                (intervals(study, subject))
                @for &threads in &study.plan.threads { (interactions(study, subject, threads)) }
            }
        }
    }))
}

/// Where memory was, where that was read back.
pub(super) fn memory(study: &StudyView) -> Option<Section> {
    let memory = Table::of_memory(study)?;
    let title = "Where memory was";
    Some(heading("memory", "Memory", title).above(html! {
        p { (MEMORY_KEY) }
        div.effects { (grouped(title, &capital(compared(study.analysis.varied)), &memory, |subject| html! { (plain(subject)) }, |row| {
            let [_, treatment, threads] = &row.labels[..] else { return html! {} };
            html! { (plain(treatment)) " " small.muted { (threads) } }
        })) }
    }))
}

fn of_subject<'a>(study: &'a StudyView, subject: &'a Subject) -> impl Iterator<Item = &'a Effect> + Clone {
    study.analysis.effects.iter().filter(|effect| effect.subject == subject.name)
}

fn intervals(study: &StudyView, subject: &Subject) -> Markup {
    let is_busy = !study.disturbances(&subject.name).is_empty();
    let wording = study.wording(&subject.name);
    let mut previous = None;
    let mut rows = Vec::new();
    let mut data = Vec::new();
    for effect in of_subject(study, subject) {
        let (Some(value), Some(low), Some(high)) = (effect.ratio, effect.ratio_low, effect.ratio_high) else {
            continue;
        };
        let threads = shape_in_words(effect.threads);
        let heading = match study.plan.threads.len() {
            1 => effect.factor.clone(),
            _ => format!("{}, {threads}", effect.factor),
        };
        let fresh = previous.as_ref() != Some(&heading);
        previous = Some(heading.clone());
        let ratio = Ratio::new(value, Some(low), Some(high));
        let figure = format!("{} ({})", ratio.value, ratio.range("–"));
        let (hue, arrow) = match effect.claim {
            Claim::Faster | Claim::Slower if is_busy => (Hue::Neutral, "~ "),
            Claim::Faster => (Hue::Better, "▲ "),
            Claim::Slower => (Hue::Worse, "▼ "),
            _ => (Hue::Neutral, ""),
        };
        data.push([
            effect.threads.to_string(),
            plain(&effect.factor),
            plain(&effect.in_words()),
            ratio.value.clone(),
            ratio.range("–"),
            effect.pairs.to_string(),
        ]);
        rows.push(Interval {
            heading: fresh.then_some(heading),
            label: effect.level.clone(),
            estimate: (value, low, high),
            hover: format!("{}, {threads}: {figure}", effect.in_words()),
            figure: format!("{arrow}{figure}"),
            hue,
        });
    }
    figure(
        &format!("{}: effects with 95 % interval", plain(&subject.name)),
        "One row for each level and for each two levels together; the table below has the same figures.",
        chart::intervals(&rows, wording.word(false), wording.word(true), false),
        "no block in which every combination went well yet",
        table(&["threads", "factor", "level", "ratio", "95 % interval", "blocks"], data),
    )
}

/// The factors that vary at a thread count, each with its levels.
fn factors(study: &StudyView, subject: &Subject, threads: Shape) -> Vec<(Factor, Vec<String>)> {
    let mut factors: Vec<(Factor, Vec<String>)> = Vec::new();
    let here: Vec<&Effect> = of_subject(study, subject).filter(|e| e.threads == threads && !e.is_interaction).collect();
    for effect in here {
        let Some(factor) = Factor::named(&effect.factor) else { continue };
        match factors.iter_mut().find(|(other, _)| *other == factor) {
            Some((_, levels)) => levels.push(effect.level.clone()),
            None => factors.push((factor, vec![effect.reference.clone(), effect.level.clone()])),
        }
    }
    factors
}

/// For each two factors, the median under each of their levels, where the others are at their first.
fn interactions(study: &StudyView, subject: &Subject, threads: Shape) -> Markup {
    let factors = factors(study, subject, threads);
    let pairs = (0..factors.len()).flat_map(|first| (first + 1..factors.len()).map(move |second| (first, second)));
    html! {
        @for (first, second) in pairs {
            (interaction(study, subject, threads, &factors, [first, second]))
        }
    }
}

fn interaction(
    study: &StudyView,
    subject: &Subject,
    threads: Shape,
    factors: &[(Factor, Vec<String>)],
    [first, second]: [usize; 2],
) -> Markup {
    let median = |of_first: &str, of_second: &str| {
        let is_here = |treatment: &&Treatment| {
            factors.iter().enumerate().all(|(at, (factor, levels))| {
                let wanted = if at == first {
                    of_first
                } else if at == second {
                    of_second
                } else {
                    levels[0].as_str()
                };
                treatment.level(*factor) == wanted
            })
        };
        let treatment = study.plan.treatments.iter().find(is_here)?;
        study.summary(&subject.name, threads, &treatment.name)?.figures.median
    };
    let ((across, levels), (along, others)) = (&factors[first], &factors[second]);
    let mut data = Vec::new();
    let mut lines = Vec::new();
    for (series, other) in others.iter().enumerate() {
        let mut points = Vec::new();
        for (at, level) in levels.iter().enumerate() {
            let Some(value) = median(level, other) else { continue };
            let told = metric::quantity(&subject.metric, value);
            data.push([plain(level), plain(other), told.clone()]);
            let hover = format!("{level}, {other}: {told}");
            points.push(LinePoint { x: at as f64, y: value, interval: None, hover });
        }
        lines.push(Line { label: other.clone(), hue: Hue::Series(series), points });
    }
    figure(
        &format!("{}, {}: {across} and {along}", plain(&subject.name), shape_in_words(threads)),
        "Medians; a line for each level of the second factor. Where lines aren't parallel, the factors interact.",
        chart::interaction(&lines, &across.to_string(), levels, subject.metric.unit.as_deref()),
        "no combination has a run that counts yet",
        table(&[&across.to_string(), &along.to_string(), "median"], data),
    )
}
