//! A race for the best placement: who was dropped when, the ranking, and the best beside unbound and the worst.

use super::facts::picture;
use super::figure::{figure, filter, or_dash, scrolled, swatch, table};
use super::page::{Section, heading};
use crate::chart::{self, Interval, Racer, Step};
use crate::metric;
use crate::number;
use crate::ranking::{Part, PastBlock, Place, Ranking};
use crate::study_view::{StudyView, cpu_line};
use crate::wording::Wording;
use crate::words::shape_in_words;
use crate::words::{count, plain};
use maud::{Markup, html};
use stats::{DropReason, Standing, Standings};
use study::Summary;

/// Most rows of the chart of the ranking.
const MOST_ROWS: usize = 14;
/// Most of those tied with the best whose lines stand out: more would hide one another.
const MOST_TIED: usize = 6;
/// Most names in a sentence or a cell.
const MOST_NAMES: usize = 3;

pub(super) fn section(study: &StudyView) -> Section {
    heading("race", "The race", "The race").above(html! {
        p {
            "Each mark is one run: to the right in the order of the runs, and as high as its entrant seemed slower than the best once the block was over. "
            "A line ends where its entrant was dropped. Upright lines part the blocks, of which those with more runs get less room for each; hover over a mark for who it is."
        }
        @for ranking in &study.rankings { (subject(study, ranking)) }
    })
}

/// The parts that entrants play, for legends.
pub(super) fn parts() -> Markup {
    let parts = [
        (Part::Best, "best"),
        (Part::Tied, "not told apart from it"),
        (Part::Reference, "unbound, as many threads"),
        (Part::Other, "others"),
    ];
    html! { @for (part, words) in parts { li { (swatch(part.hue(), "")) " " (words) } } }
}

fn subject(study: &StudyView, ranking: &Ranking) -> Markup {
    let name = plain(&ranking.race.subject);
    let blocks = ranking.blocks(study.trials);
    let ends: Vec<u32> = blocks.iter().map(|block| (block.runs_before + block.trials.len()) as u32).collect();
    let run_by_run = figure(
        &format!("{name}: the race, run by run"),
        &format!("{}{}", race_description(ranking), of_looks(ranking, &blocks)),
        chart::race(&racers(study, ranking, &blocks), &ends),
        "no run has a time yet",
        block_table(ranking, &blocks),
    );
    let wording = Wording::new(&ranking.metric);
    let slower = wording.word(false);
    let losses = figure(
        &format!("{name}: how much {slower} than the best, with 95 % intervals"),
        "One row for each of the first and for unbound; the ranking below has all of them.",
        chart::intervals(&intervals(ranking), wording.word(true), &format!("{slower} than the best"), true),
        "no run has a time yet",
        interval_table(ranking),
    );
    html! {
        @if study.rankings.len() > 1 { h3 { (name) } }
        (legend(ranking))
        div.race { (run_by_run) (losses) }
        @if !study.is_of_mixes() { (extremes(study, ranking)) }
        details {
            summary { "All " (count(ranking.places.len(), "entrant")) " of the race" }
            (whole(study, ranking))
        }
    }
}

/// That not all blocks are drawn, where that is so.
fn of_looks(ranking: &Ranking, blocks: &[PastBlock]) -> String {
    match ranking.race.history.last().map(|last| last.blocks) {
        Some(all) if all > blocks.len() => {
            format!(
                " Of {} {} are drawn: all of the first ones, and later ones further and further apart.",
                count(all, "block"),
                blocks.len()
            )
        }
        _ => String::new(),
    }
}

fn legend(ranking: &Ranking) -> Markup {
    let exits = [
        (DropReason::Slower, "dropped: slower"),
        (DropReason::Outpaced, "cut off"),
        (DropReason::Halved, "halved: not shown to be slower"),
        (DropReason::Failed, "failed"),
    ];
    let is_seen = |exit: DropReason| ranking.places.iter().any(|place| place.exit() == Some(exit));
    html! {
        ul.legend {
            (parts())
            @if ranking.across_threads { li { span aria-hidden="true" { "×8" } " with 8 threads" } }
            @for (exit, words) in exits.into_iter().filter(|(exit, _)| is_seen(*exit)) {
                li { span class=(chart::exit_class(exit)) aria-hidden="true" { (chart::exit_glyph(exit)) } " " (words) }
            }
        }
    }
}

/// The entrants' ways through the race, from the trials of each block and the standings after it.
fn racers(study: &StudyView, ranking: &Ranking, blocks: &[PastBlock]) -> Vec<Racer> {
    let mut steps: Vec<Vec<Step>> = ranking.places.iter().map(|_| Vec::new()).collect();
    for PastBlock { trials, runs_before, standings } in blocks {
        for (trial, order) in trials.iter().zip(*runs_before as u32 + 1..) {
            let Some(row) = ranking.places.iter().position(|place| place.ran(trial)) else { continue };
            let place = &ranking.places[row];
            let Some(standing) = standings.arms.get(place.arm) else { continue };
            let has_left = place.standing.dropped.is_some() && standing.runs == place.standing.runs;
            let left = has_left.then(|| format!("; left the race: {}", place.left(study.plan.warmup_blocks)));
            let (name, behind) = (ranking.name(place), behind(standings, place.arm, standing));
            steps[row].push(Step {
                order,
                ratio: standing.loss.or(standing.loss_low).unwrap_or(f64::NAN),
                interval: standing.loss_low.zip(standing.loss_high).filter(|_| standings.best != Some(place.arm)),
                hover: format!("{name}: run {order}, block {}; {behind}{}", trial.block, left.unwrap_or_default()),
            });
        }
    }
    let mut tied = 0;
    let racer = |(place, steps): (&Place, Vec<Step>)| {
        tied += usize::from(place.part == Part::Tied);
        let prominent = match place.part {
            Part::Best | Part::Reference => true,
            Part::Tied => ranking.tied() <= MOST_TIED || tied < MOST_TIED,
            Part::Other => false,
        };
        Racer {
            label: if prominent { ranking.short_name(place) } else { String::new() },
            hue: place.part.hue(),
            prominent,
            steps,
            exit: place.exit(),
        }
    };
    ranking.places.iter().zip(steps).map(racer).collect()
}

/// How far behind the best an entrant was, in words.
fn behind(standings: &Standings, arm: usize, standing: &Standing) -> String {
    match (standing.loss, standing.loss_low) {
        _ if standings.best == Some(arm) => "best by then".into(),
        (Some(loss), _) => match number::loss(loss, standing.loss_low.zip(standing.loss_high)) {
            (loss, range) if range.is_empty() => format!("{loss} against the best"),
            (loss, range) => format!("{loss} against the best ({range})"),
        },
        (None, Some(low)) => format!("at least {} against the best", number::loss(low, None).0),
        (None, None) => "no time".into(),
    }
}

fn race_description(ranking: &Ranking) -> String {
    let exits = |exit: DropReason| ranking.places.iter().filter(|place| place.exit() == Some(exit)).count();
    let first = ranking.places.first().filter(|_| ranking.race.best().is_some());
    format!(
        "{} in {}: {}, {} not told apart from it; dropped: {} slower, {} cut off, {} halved, {} failed.",
        count(ranking.places.len(), "entrant"),
        count(ranking.race.runs as usize, "run"),
        first.map_or_else(|| "none has a time".into(), |place| format!("{} best", plain(&ranking.name(place)))),
        ranking.tied().saturating_sub(1),
        exits(DropReason::Slower),
        exits(DropReason::Outpaced),
        exits(DropReason::Halved),
        exits(DropReason::Failed)
    )
}

/// A few names, and how many more there are.
fn names(all: &[String]) -> String {
    let named = all.iter().take(MOST_NAMES).map(|name| plain(name)).collect::<Vec<_>>().join("; ");
    match all.len() {
        0 => "–".into(),
        n if n > MOST_NAMES => format!("{named}; {} more", n - MOST_NAMES),
        _ => named,
    }
}

fn block_table(ranking: &Ranking, blocks: &[PastBlock]) -> Markup {
    let name = |arm: usize| ranking.places.iter().find(|place| place.arm == arm).map(|place| ranking.name(place));
    let row = |PastBlock { trials, runs_before, standings }: &PastBlock| {
        let ended = |place: &&Place| {
            place.standing.dropped.is_some()
                && standings.arms.get(place.arm).is_some_and(|then| then.runs == place.standing.runs)
        };
        let ran = ranking.places.iter().filter(|place| trials.iter().any(|trial| place.ran(trial)));
        let dropped: Vec<String> = ran.filter(ended).map(|place| ranking.name(place)).collect();
        [
            trials[0].block.to_string(),
            trials.len().to_string(),
            (runs_before + trials.len()).to_string(),
            or_dash(standings.best.and_then(name), |name| plain(&name)),
            standings.tied.len().saturating_sub(1).to_string(),
            names(&dropped),
        ]
    };
    let heads = &["block", "runs", "runs so far", "best so far", "not told apart from it", "dropped after it"];
    table(heads, blocks.iter().map(row))
}

fn intervals(ranking: &Ranking) -> Vec<Interval> {
    let row = |place: &Place| {
        let known = place.loss_known()?;
        let (loss, range) = place.loss();
        let Standing { loss: estimate, loss_low, loss_high, .. } = *place.standing;
        let (low, high) = match (place.part, loss_low.zip(loss_high)) {
            (Part::Best, _) | (_, None) => (known, known),
            (_, Some(interval)) => interval,
        };
        let figure = match (place.part, range.is_empty()) {
            (Part::Best, _) => format!("best, {}", in_unit(ranking, place)),
            (_, true) => loss.clone(),
            (_, false) => format!("{loss} ({})", range.trim_end_matches(" %")),
        };
        let name = ranking.name(place);
        Some(Interval {
            heading: None,
            hover: format!("{name}: {figure}, {}", count(place.standing.runs, "run")),
            label: ranking.short_name(place),
            estimate: (estimate.unwrap_or(known), low, high),
            figure,
            hue: place.part.hue(),
        })
    };
    ranking.top(MOST_ROWS).into_iter().filter_map(row).collect()
}

fn interval_table(ranking: &Ranking) -> Markup {
    let behind = format!("{} by", Wording::new(&ranking.metric).word(false));
    table(
        &["rank", "placement", "runs", &metric::head("median", Some(&ranking.metric)), &behind, "95 % interval"],
        ranking.top(MOST_ROWS).into_iter().map(|place| {
            let (loss, range) = place.loss();
            [
                place.rank.clone(),
                plain(&ranking.name(place)),
                place.standing.runs.to_string(),
                text_or_dash(place.median()),
                text_or_dash(loss),
                text_or_dash(range),
            ]
        }),
    )
}

fn text_or_dash(text: String) -> String {
    if text.is_empty() { "–".into() } else { text }
}

/// The best, unbound, and the worst on the machine.
fn extremes(study: &StudyView, ranking: &Ranking) -> Markup {
    let Some(machine) = &study.machine else {
        return html! { p.muted { "The record holds no topology that this version can read." } };
    };
    let best = ranking.places.first().filter(|place| place.part == Part::Best);
    let slowest = if Wording::new(&ranking.metric) == Wording::Time { "Slowest" } else { "Worst" };
    let pictured = [("Best", best), ("Unbound", ranking.reference()), (slowest, ranking.worst())];
    let cut_off = ranking.places.iter().filter(|place| place.was_cut_off()).count();
    html! {
        h3 { "On the machine" }
        div.charts.placements.broad[machine.usable_cpus().len() > 16] {
            @for (word, place) in pictured.into_iter().filter_map(|(word, place)| Some((word, place?))) {
                @let placement = study.placement(&place.entrant.placement, place.entrant.threads);
                figure.free[placement.is_none()] {
                    figcaption {
                        (swatch(place.part.hue(), " "))
                        (word) @if word != "Unbound" { ": " (plain(&place.entrant.placement)) } ", "
                        (shape_in_words(place.entrant.threads))
                    }
                    p.doubt { (outcome(ranking, place)) }
                    (picture(machine, placement))
                    @if placement.is_none() {
                        p.muted { "Every thread may run on each of the " (count(machine.usable_cpus().len(), "usable CPU")) "." }
                    }
                }
            }
        }
        @if cut_off > 0 {
            p.muted { (count(cut_off, "entrant")) " never ran to the end of a run: cut off, and perhaps slower still." }
        }
    }
}

/// The median with its unit.
fn in_unit(ranking: &Ranking, place: &Place) -> String {
    let unit = ranking.metric.unit.iter().map(|unit| format!(" {unit}"));
    std::iter::once(place.median()).chain(unit).collect()
}

/// Median and loss in words.
fn outcome(ranking: &Ranking, place: &Place) -> String {
    let (loss, range) = place.loss();
    let time = match place.median().is_empty() {
        true => "no whole run".into(),
        false => format!("median {}", in_unit(ranking, place)),
    };
    match (place.part, loss.is_empty(), range.is_empty()) {
        (Part::Best, ..) | (_, true, _) => time,
        (_, _, true) => format!("{time}, {loss}"),
        _ => format!("{time}, {loss} ({range})"),
    }
}

fn whole(study: &StudyView, ranking: &Ranking) -> Markup {
    let position = study.rankings.iter().position(|other| other.race.subject == ranking.race.subject);
    let id = format!("ranking-{}", position.unwrap_or(0));
    let head = |figure: &str| metric::head(figure, Some(&ranking.metric));
    let [least, most] = metric::extremes(Some(&ranking.metric));
    html! {
        (filter(&id))
        (scrolled("All entrants", true, html! {
            table.dense.sortable id=(id) {
                thead { tr {
                    th.n { "rank" } th { "placement" } th.n { "threads" } th { "CPUs, thread by thread" } th { "occupies" } th.n { "runs" } th.n { (head("median")) }
                    th.n { (head(least)) } th.n { (head(most)) } th.n { "relative sd" } th.n { (Wording::new(&ranking.metric).word(false)) " by" } th.n { "95 % interval" } th { "left" }
                } }
                tbody {
                    @for place in &ranking.places {
                        @let placement = study.placement(&place.entrant.placement, place.entrant.threads);
                        @let (loss, range) = place.loss();
                        @let summary = |figure: fn(&Summary) -> Option<f64>| place.summary.and_then(figure);
                        tr {
                            td.n { (text_or_dash(place.rank.clone())) }
                            td { (swatch(place.part.hue(), " ")) (plain(&place.names())) }
                            td.n { (place.entrant.threads) }
                            td { code { (placement.map_or_else(|| if study.is_of_mixes() { "by job" } else { "free" }.into(), |placement| cpu_line(&placement.slots))) } }
                            td { (or_dash(placement.zip(study.machine.as_ref()), |(placement, machine)| occupied(&placement.footprint(machine).to_string()))) }
                            td.n { (place.standing.runs) } td.n { (text_or_dash(place.median())) }
                            td.n { (or_dash(summary(|s| s.figures.min), number::seconds)) } td.n { (or_dash(summary(|s| s.figures.max), number::seconds)) }
                            td.n { (or_dash(summary(|s| s.figures.relative_sd), number::percent)) }
                            td.n data-v=[place.loss_known()] { (text_or_dash(loss)) } td.n { (text_or_dash(range)) }
                            td { (text_or_dash(place.left(study.plan.warmup_blocks))) }
                        }
                    }
                }
            }
        }))
    }
}

/// A footprint without the thread count, which has a column of its own.
fn occupied(footprint: &str) -> String {
    footprint.split_once(" on ").map_or(footprint, |(_, parts)| parts).to_owned()
}

/// How to read a race.
pub(super) fn guide(wording: Wording) -> Markup {
    let (word, is_time) = (wording.word(false), matches!(wording, Wording::Time | Wording::Makespan));
    html! {
        dt { "race" } dd { "All placements start; those that have lost are dropped, so that the runs go to those that may still win." }
        dt { "block" } dd { "One run of each placement that is still in the race, in an order drawn anew. Only runs of the same block are compared, so a machine that gets slower does so for all of them." }
        dt { (word) " by" } dd { @if is_time { "Time over that of the best: +3 % takes 3 % longer." } @else { "How much better the best is: +3 % means by a factor of 1.03." } " It is estimated from all blocks that both ran in; early in the race, and for whoever left it early, from few runs." }
        dt { "95 % interval" } dd { "In 95 of 100 such races all intervals of the race would hold the true values at once. One that reaches 0 % doesn't tell its placement apart from the best." }
        dt { "best" } dd { @if is_time { "The shortest estimated time." } @else { "The best estimate of what runs are compared by." } " Being first among many takes some luck too: its gain over unbound is taken from later blocks only, and is told with an interval." }
        dt { "not told apart, =1" } dd { "Nothing shows that it is slower than the best; it may be as fast, or faster. Each of them is a good choice." }
        dt { "dropped: slower" } dd { "Shown to be slower than the best, allowing for how many entrants there are. “Seemed slower”: shown when it was dropped, and no longer at the end." }
        dt { "dropped: cut off" } dd { "Outpaced: its run had taken so much longer than the best surely takes that it was stopped. How slow it is in the end stays unknown; it didn't fail." }
        dt { "dropped: halved" } dd { "Others were better so far, and the runs are limited. It is not shown to be slower, and may be among those not told apart from the best." }
        dt { "smallest detectable" } dd { "The smallest difference that this race would have shown." }
    }
}
