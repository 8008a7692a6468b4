//! The page of papers beside ours.

use super::{
    Answer, CellView, FITTED, Group, LOST, NOT_HERE, TableView, VERDICTS, has_live, judged_by, median, what_was_done,
    word,
};
use crate::chart::{Heights, Histogram, Hue};
use crate::html::figure::{histogram_figure, medians, scrolled};
use crate::html::page::{document, head};
use crate::words::{capital, count, plain};
use maud::{Markup, html};
use papers::Reproduction;
use papers::reproduction::{JudgedClaim, Panel, ReproducedCell, ReproducedFigure, Verdict};

const STYLE: &str = include_str!("style.css");

/// `papers` as one HTML file that loads nothing: the answer, tables with ours beside what is printed, figures, claims with their
/// verdicts, what was chosen, and how to read it. The JSON form is embedded as `<script type="application/json" id="papers">`.
pub fn html(papers: &[Reproduction]) -> String {
    let names: Vec<String> = papers.iter().map(|paper| plain(&paper.paper)).collect();
    let links = html! {
        @for paper in papers { (sections(paper, papers.len() > 1)) }
        a href="#reading" { "How to read" }
    };
    let answers = html! { @for paper in papers { (answer(paper)) } };
    let body = html! {
        (head(html! { "Stayput, beside what is printed" }, answers, &[], links))
        main {
            @for paper in papers {
                @for view in TableView::all(paper) { (beside(paper, &view)) }
                (figures(paper))
                (claims(paper))
                (chosen(paper))
            }
            (guide(papers.iter().any(|paper| paper.live.is_some())))
        }
    };
    let title = format!("{}: printed and ours", names.join(", "));
    document(&title, STYLE, &body, env!("CARGO_PKG_VERSION"), "papers", &super::json(papers))
}

/// The address of a part of a paper within the page.
fn address(paper: &Reproduction, part: &str) -> String {
    format!("{}-{part}", plain(&paper.paper).replace(|c: char| !c.is_ascii_alphanumeric(), "-"))
}

/// How a verdict is painted, and its sign.
fn look(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Holds => ("better", "✓"),
        Verdict::Fails => ("worse", "✗"),
        Verdict::Undecidable => ("neutral", "?"),
    }
}

/// Most failed claims that the answer lists without being asked.
const MOST_OPEN: usize = 4;

fn answer(paper: &Reproduction) -> Markup {
    let answer = Answer::of(paper);
    let failed: Vec<&JudgedClaim> = paper.claims.iter().filter(|claim| claim.verdict == Verdict::Fails).collect();
    html! {
        article.answer {
            h2 { (plain(&paper.paper)) }
            div {
                @if let Some((near, compared, title, margin)) = &answer.near {
                    p.figure { (near) small { " of " (compared) } }
                    p.doubt { "printed cells of " (plain(title)) " are within " (margin) " points of ours" }
                } @else if let Some(held_out) = &answer.held_out {
                    p.figure { (format!("{:.1}", 100.0 * held_out.mean_error)) small { " %" } }
                    p.doubt { "mean error of the model on " (count(held_out.cells, "printed cell")) " that it hasn't seen" }
                } @else {
                    p.figure.words { "Nothing to compare" }
                }
            }
            div {
                @for (against, verdicts) in &answer.verdicts {
                    p.verdict.tally {
                        (tallies(*verdicts))
                        "of " a href={ "#" (address(paper, "claims")) } { (count(verdicts.iter().sum(), "claim")) }
                        ", judged " (judged_by(*against))
                    }
                }
                @if answer.live.iter().sum::<usize>() > 0 {
                    p.verdict.tally {
                        (tallies(answer.live))
                        "of " (count(answer.live.iter().sum(), "claim")) " of runs, judged by this machine's"
                    }
                }
                @for sentence in &answer.against_kernel { p.verdict { (sentence) } }
                @if !failed.is_empty() {
                    details open[failed.len() <= MOST_OPEN] {
                        summary { "What fails" }
                        ul.verdicts {
                            @for claim in failed {
                                li { (capital(&plain(&claim.statement))) " " span.muted { "(" (plain(&claim.place)) ")" } }
                            }
                        }
                    }
                }
                details {
                    summary { "What was done" }
                    @for sentence in what_was_done(paper) { p { (plain(&sentence)) } }
                    p.muted { (plain(&paper.citation)) "." }
                }
            }
        }
    }
}

fn tallies(numbers: [usize; 3]) -> Markup {
    html! {
        @for (verdict, number) in VERDICTS.into_iter().zip(numbers) {
            @let (class, sign) = look(verdict);
            span.(class) { (sign) " " (number) " " (tally(verdict, number)) } " "
        }
    }
}

fn tally(verdict: Verdict, number: usize) -> &'static str {
    match (verdict, number) {
        (Verdict::Holds, 1) => "holds",
        (Verdict::Holds, _) => "hold",
        (Verdict::Fails, 1) => "fails",
        (Verdict::Fails, _) => "fail",
        (Verdict::Undecidable, _) => "can't be decided",
    }
}

fn sections(paper: &Reproduction, is_named: bool) -> Markup {
    let views = TableView::all(paper);
    let link = |part: &str, words: &str| html! { a href={ "#" (address(paper, part)) } { (plain(words)) } };
    html! {
        @if is_named { b { (plain(&paper.paper)) } }
        @for view in &views { (link(&view.table.name, &view.table.title)) }
        @if !paper.figures.is_empty() { (link("figures", "Figures")) }
        (link("claims", "Claims"))
        @if !paper.chosen.is_empty() { (link("choices", "Choices")) }
    }
}

/// A table of the paper with ours in it.
fn beside(paper: &Reproduction, view: &TableView) -> Markup {
    let table = view.table;
    html! {
        section #(address(paper, &table.name)) {
            h2 { (plain(&table.title)) }
            p { (capital(&plain(&table.about))) "." }
            (scrolled(&plain(&table.title), false, if view.is_prose() { prose(view) } else { numbers(view) }))
        }
    }
}

fn prose(view: &TableView) -> Markup {
    html! {
        table.told {
            thead { tr { th scope="col" { (plain(&view.table.corner)) } th scope="col" { "printed" } th scope="col" { "ours" } } }
            tbody {
                @for row in &view.table.rows {
                    @for cell in row.cells.iter().map(|cell| view.cell(cell)) {
                        tr {
                            th scope="row" { (plain(&row.label)) }
                            td data-of="printed" { (cell.printed.unwrap_or_default()) }
                            td data-of="ours" { (cell.ours.unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}

fn numbers(view: &TableView) -> Markup {
    html! {
        table.paper.long.compared {
            thead { tr {
                th scope="col" { (plain(&view.table.corner)) }
                @for column in &view.table.columns { th.n scope="col" { (plain(column)) } }
            } }
            tbody {
                @for row in &view.table.rows {
                    tr.first {
                        th scope="row" { (plain(&row.label)) }
                        @if view.is_lost(&row.cells) { td.muted colspan=(row.cells.len()) { (LOST) } }
                        @else { @for cell in &row.cells { (compared(view, cell, has_live(&row.cells))) } }
                    }
                }
            }
        }
    }
}

/// Ours with its interval, and below it what is printed and the difference.
fn compared(view: &TableView, cell: &ReproducedCell, is_live: bool) -> Markup {
    let CellView { printed, ours, interval, difference, near, is_fitted, live, .. } = view.cell(cell);
    html! {
        td.n.near[near == Some(true)].far[near == Some(false)].alone[printed.is_none()] {
            b { (ours.unwrap_or_else(|| "–".into())) @if is_fitted { (FITTED) } }
            @if let Some((low, high)) = interval.filter(|_| view.table.margin.is_some() || printed.is_none()) { small.muted { (low) " to " (high) } }
            @if let Some(printed) = printed { small { "printed " (printed) } }
            @if let Some(difference) = difference {
                @match near {
                    Some(true) => small.better { "✓ " (difference) },
                    Some(false) => small.worse { "✗ " (difference) },
                    None => small.muted { (difference) },
                }
            }
            @if is_live {
                small.live {
                    @match live {
                        Some(live) => {
                            "live " b { (live.value) }
                            @if let Some((low, high)) = live.interval { span.muted { " " (low) " to " (high) } }
                        }
                        None => span.muted { (NOT_HERE) },
                    }
                }
            }
        }
    }
}

/// The paper's figures, a column each, so that the same row is of the same thing in all.
fn figures(paper: &Reproduction) -> Markup {
    let panels = paper.figures.iter().flat_map(|figure| &figure.panels);
    let highest = panels.flat_map(|panel| &panel.bins).map(|bin| bin.percent).fold(0.0, f64::max);
    let ours = |(number, shown): (usize, &ReproducedFigure)| {
        let rows: Vec<Histogram> = shown.panels.iter().map(|panel| row(panel, number)).collect();
        histogram_figure(
            &format!("{}, ours", plain(&shown.title)),
            &medians(&rows),
            &rows,
            Heights::Common(highest),
            "nothing was counted",
            ["of", "a replicate", "%"],
        )
    };
    html! {
        @if !paper.figures.is_empty() {
            section #(address(paper, "figures")) {
                h2 { "Figures" }
                p {
                    "The same scales everywhere. Heights grow with the square root of the percentage, so that what is rare is seen beside "
                    "what is common; the last bar holds all that is longer; the upright line is the median."
                }
                @for shown in &paper.figures { p { b { (plain(&shown.title)) ": " } (plain(&shown.about)) "." } }
                div.charts.figures { @for figure in paper.figures.iter().enumerate().map(ours) { (figure) } }
            }
        }
    }
}

fn row(panel: &Panel, figure: usize) -> Histogram<'_> {
    Histogram {
        label: panel.label.clone(),
        figure: median(panel).map_or_else(String::new, |ms| format!("median {ms} ms")),
        hue: Hue::Series(figure),
        bins: &panel.bins,
        counted: None,
        median: panel.median_ms,
    }
}

fn claims(paper: &Reproduction) -> Markup {
    html! {
        section #(address(paper, "claims")) {
            h2 { "Claims" }
            @if paper.claims.is_empty() { p.muted { "None was judged." } }
            @for group in Group::all(paper) {
                h3 { (group.title()) }
                p { (group.about()) }
                table.told.claims.live[group.is_live()] {
                    thead { tr {
                        th scope="col" { "verdict" }
                        th scope="col" { "claim" }
                        th scope="col" { "why" }
                        @if group.is_live() { th scope="col" { "live, on this machine" } }
                    } }
                    tbody { @for claim in &group.claims { (judged(claim, group.is_live())) } }
                }
            }
        }
    }
}

fn judged(claim: &JudgedClaim, is_live: bool) -> Markup {
    let (class, sign) = look(claim.verdict);
    html! {
        tr {
            td { b.(class) { (sign) " " (word(claim.verdict)) } }
            td { (capital(&plain(&claim.statement))) "." small { (plain(&claim.place)) } }
            td { (plain(&claim.why)) "." }
            @if is_live {
                td data-of=[claim.live.as_ref().map(|_| "live")] {
                    @if let Some(live) = &claim.live {
                        @let (class, sign) = look(live.verdict);
                        b.(class) { (sign) " " (word(live.verdict)) } ": " (plain(&live.why)) "."
                    }
                }
            }
        }
    }
}

fn chosen(paper: &Reproduction) -> Markup {
    html! {
        @if !paper.chosen.is_empty() {
            section #(address(paper, "choices")) {
                h2 { "Choices" }
                p { "What the paper leaves open, and what was chosen." }
                dl.wide { @for (place, value) in &paper.chosen { dt { code { (plain(place)) } } dd { code { (plain(value)) } } } }
            }
        }
    }
}

fn guide(is_live: bool) -> Markup {
    html! {
        section #reading {
            h2 { "How to read this" }
            dl.wide {
                @for (word, meaning) in super::glossary(is_live) { dt { (explained(word)) } dd { (meaning) } }
                dt { (FITTED) } dd { "A model was fitted on what is printed here, so that it says little of how good the model is." }
                dt { span.better { "✓" } " " span.worse { "✗" } " in a table" } dd { "The difference is within the margin that the answer names, or beyond it. Tables without these have no margin." }
                @if is_live {
                    dt { (NOT_HERE) } dd { "This machine hasn't run it, or not often enough: it has too few CPUs, another class stands in its place, or the budget was spent. Or no run tells it, as the misses of a reload." }
                }
            }
        }
    }
}

/// A word as it looks on the page.
fn explained(word: &str) -> Markup {
    html! {
        @match word {
            "ours" => b { "ours" },
            "95 % interval" => "… to …",
            "difference" => "+, -",
            "holds" => span.better { "✓ holds" },
            "fails" => span.worse { "✗ fails" },
            "undecidable" => span.neutral { "? undecidable" },
            word => (word),
        }
    }
}
