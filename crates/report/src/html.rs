//! The whole study as one HTML page that loads nothing, works without JavaScript, and is its own data file.

mod facts;
pub(crate) mod figures;
mod paper;
mod race;
mod replay;
mod sheet;
mod simulation;

use crate::chart::Hue;
use crate::json::{self, Metrics};
use crate::number::{self, Ratio};
use crate::paste;
use crate::replay::ReplayView;
use crate::sentences::{advice, causes};
use crate::setting;
use crate::simulation::SimulationView;
use crate::study_view::StudyView;
use crate::table::{Cell, Table};
use crate::verdict::Verdicts;
use crate::words::{capital, claim, count, plain};
use base64::Engine;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use papers::paper::Quantity;
use sha2::{Digest, Sha256};
use study::{Best, Claim, HostFacts, Subject, Summary};

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");

/// The study as one HTML file: the answer with its doubt, the papers' table, charts of every trial, the machine, how
/// to read it all, and the line to paste. The JSON form is embedded as `<script type="application/json" id="study">`.
pub(crate) fn cells_page(study: &StudyView) -> String {
    let subjects: Vec<&str> = study.plan.subjects.iter().map(|subject| subject.name.as_str()).collect();
    let title = format!("{}: where its threads run best", plain(&subjects.join(", ")));
    let body = html! {
        (answer(study))
        main {
            (race::section(study))
            (paper::beside(study))
            // What is one row a placement elsewhere would be hundreds in a race, most of a single run.
            @if !study.is_race() { (paper_table(study)) }
            (figures::in_order(study))
            (figures::distributions(study))
            @if !study.is_race() { (figures::speedup(study)) (figures::ratios(study)) }
            (facts::programs(study))
            (facts::placements(study))
            (facts::cpus(study))
            (facts::failures(study))
            (facts::machine(study))
            (guide(study))
            (paste_lines(study))
        }
    };
    page(study.host, &title, &body, &json::page_data(study))
}

/// A simulation as one HTML file, likewise.
pub(crate) fn simulation_page(study: &SimulationView) -> String {
    let data = json::simulation(study, Metrics::Summarised);
    page(&study.record.host, &simulation::title(study), &simulation::body(study), &data)
}

/// Replays as one HTML file, likewise.
pub(crate) fn replay_page(study: &ReplayView) -> String {
    let data = json::replay(study, Metrics::Summarised);
    page(&study.record.host, &replay::title(study), &replay::body(study), &data)
}

/// The page of a study.
fn page(host: &HostFacts, title: &str, body: &Markup, json: &str) -> String {
    let footer = html! {
        p {
            "Made by Stayput " (host.stayput_version) " from the study's journal alone. The data as "
            "JSON is inside this file, in the element " code { "#study" } "."
        }
    };
    document(title, "", body, &footer, &Data { id: "study", json })
}

/// The data inside a page.
pub(crate) struct Data<'a> {
    /// The id of its element.
    pub id: &'a str,
    /// The data itself.
    pub json: &'a str,
}

/// A page around `body`, with `style` beside the style of all pages: nothing is loaded, and its data is embedded.
pub(crate) fn document(title: &str, style: &str, body: &Markup, footer: &Markup, data: &Data) -> String {
    // Only this very script may run and nothing may be loaded: what a subject is called can't change that.
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(SCRIPT));
    let policy = format!("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'");
    // A `<` only ever stands inside JSON's strings, where it may be written as a number.
    let json = data.json.replace('<', "\\u003c");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(style)) }
            }
            body {
                (PreEscaped(with_percentages_whole(&html! { (body) footer { (footer) } }.into_string())))
                script type="application/json" id=(data.id) { (PreEscaped(json)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// `markup` with a no-break space between each number and its `%`, but for `<pre>`, which holds commands to paste.
fn with_percentages_whole(markup: &str) -> String {
    let mut whole = String::with_capacity(markup.len());
    for part in markup.split_inclusive("</pre>") {
        let (prose, verbatim) = part.split_at(part.find("<pre").unwrap_or(part.len()));
        for (index, piece) in prose.split(" %").enumerate() {
            if index > 0 {
                whole.push_str(if whole.ends_with(|c: char| c.is_ascii_digit()) { "\u{a0}%" } else { " %" });
            }
            whole.push_str(piece);
        }
        whole.push_str(verbatim);
    }
    whole
}

/// The top of the page: the answer for each subject, then what limits it.
fn answer(study: &StudyView) -> Markup {
    let analysis = study.analysis;
    let failures = study.failures().count();
    html! {
        header {
            div.bar {
                h1 {
                    "Stayput study"
                    @if study.is_simulated() { " of a model, on machine " (plain(&setting::machine(study))) }
                    @else if let Some(session) = study.sessions.first() { " of " (number::moment(session.before.unix_s)) }
                }
                button.script-only #theme type="button" hidden { "Dark" }
            }
            div.answers {
                @for subject in &study.plan.subjects {
                    article.answer {
                        h2 { (plain(&subject.name)) }
                        (headline(study, subject))
                        (sentences(study, subject))
                    }
                }
                @if analysis.verdicts.is_empty() { p.verdict { "Nothing can be said: no trial went well." } }
            }
            @if failures > 0 || !study.warnings.is_empty() {
                div.notice {
                    ul {
                        @if failures > 0 {
                            li { a href="#failures" { (count(failures, "trial")) " failed" } ": kept with the cause, in no figure." }
                        }
                        @for warning in &study.warnings { li { (plain(warning)) } }
                    }
                }
            }
            nav aria-label="Sections" {
                @let is_race = study.is_race();
                @if is_race { a href="#race" { "The race" } } @if paper::is_there(study) { a href="#paper" { "The paper" } }
                @if !is_race { a href="#table" { "Table" } } a href="#order" { "Trials in order" } a href="#distributions" { "Distributions" }
                @if !is_race { a href="#speedup" { "Speed-up" } a href="#ratios" { "Ratios" } }
                @if facts::has_programs(study) { a href="#programs" { "Programs" } }
                @if !is_race { a href="#placements" { "Placements" } } @if !study.is_simulated() { a href="#cpus" { "CPUs" } }
                a href="#failures" { "Failures" } a href="#machine" { "Machine" } a href="#reading" { "How to read" } a href="#paste" { "Line to paste" }
            }
        }
    }
}

/// The verdicts on one subject.
fn sentences(study: &StudyView, subject: &Subject) -> Markup {
    let verdicts = Verdicts::on(study, subject);
    let list = |sentences: &[String]| html! { ul.verdicts { @for sentence in sentences { li { (plain(sentence)) } } } };
    html! {
        div {
            @if let Some(headline) = &verdicts.headline { p.verdict { (capital(&plain(headline))) } }
            (list(&verdicts.comparisons))
            @if !verdicts.quiet.is_empty() {
                details {
                    summary { (count(verdicts.quiet.len(), "comparison")) " without a difference shown" }
                    (list(&verdicts.quiet))
                }
            }
        }
    }
}

/// The answer on one subject in large type, and what stands behind it.
struct Headline {
    /// Whether it is a number that shows a gain; else it is words.
    is_gain: bool,
    text: Markup,
    doubt: Markup,
}

/// The figure that answers for one subject, and its doubt. On a busy machine that is the answer, and the figure steps back.
fn headline(study: &StudyView, subject: &Subject) -> Markup {
    let Headline { is_gain, text, doubt } = match study.ranking(&subject.name) {
        Some(ranking) => race::headline(ranking),
        None => comparison_headline(study, subject),
    };
    let class = if is_gain { "figure better" } else { "figure words" };
    let disturbances = study.disturbances(&subject.name);
    html! {
        div {
            @if disturbances.is_empty() {
                p class=(class) { (text) }
            } @else {
                p.figure.words { "Busy machine" }
                p.doubt { (capital(&causes(disturbances))) ": " (advice(disturbances)) "." }
                p.doubt.muted { "As measured: " (text) }
            }
            (doubt)
        }
    }
}

fn comparison_headline(study: &StudyView, subject: &Subject) -> Headline {
    let reference = study.reference();
    let best = study.analysis.best.iter().find(|best| best.subject == subject.name);
    let Some((best, summary)) = best.and_then(|best| Some((best, study.best_summary(best)?))) else {
        let doubt = html! { p.doubt { "No trial of it went well." } };
        return Headline { is_gain: false, text: html! { "No answer" }, doubt };
    };
    let place = format!("{}, {}", plain(&best.placement), count(best.threads as usize, "thread"));
    match summary.ratio.map(|r| Ratio::new(r, summary.ratio_low, summary.ratio_high)) {
        Some(ratio) if best.shown => Headline {
            is_gain: true,
            text: html! { (ratio.value) "×" small { " as fast" } },
            doubt: html! {
                p.doubt { b { (place) } ", against " (reference) }
                p.doubt.muted { "95 % interval " (ratio.range("–")) ", " (count(summary.pairs as usize, "pair")) }
            },
        },
        _ => Headline { is_gain: false, text: html! { (unshown(study, best)) }, doubt: doubt(study, best) },
    }
}

/// The rivals of the reference at the best thread count.
fn rivals<'a>(study: &StudyView<'a>, best: &'a Best) -> impl Iterator<Item = &'a Summary> {
    study.summaries(&best.subject).filter(|s| s.threads == best.threads && s.claim != Claim::Reference)
}

fn unshown(study: &StudyView, best: &Best) -> String {
    let mut claims = rivals(study, best).map(|summary| summary.claim).peekable();
    if claims.peek().is_none() {
        "Nothing to compare".into()
    } else if claims.all(|claim| claim == Claim::Slower) {
        format!("Leave it {}", plain(study.reference()))
    } else if rivals(study, best).all(|summary| summary.claim == Claim::TooFew) {
        "Too few pairs to tell".into()
    } else {
        "No gain shown".into()
    }
}

fn doubt(study: &StudyView, best: &Best) -> Markup {
    let least = rivals(study, best)
        .filter(|summary| summary.claim == Claim::NoneShown)
        .filter_map(|summary| summary.smallest_detectable)
        .reduce(f64::max);
    html! {
        p.doubt { "with " (count(best.threads as usize, "thread")) ", its fastest thread count" }
        @if let Some(least) = least {
            p.doubt.muted { "The smallest difference that this study could have seen there is " (number::percent(least)) "." }
        }
    }
}

fn paper_table(study: &StudyView) -> Markup {
    let table = Table::new(study);
    let reference = plain(&table.reference);
    html! {
        section #table {
            h2 { "Times, ratios and speed-up" }
            p { "Medians. Ratio: time of " (reference) " over time of the placement, with its 95 % interval; above 1 is faster." }
            div.scroll tabindex="0" role="region" aria-label="Times, ratios and speed-up" {
                table.paper {
                    thead {
                        tr {
                            th scope="col" { "Placement" }
                            @for threads in &table.threads { th.n scope="col" { (count(*threads as usize, "thread")) } }
                        }
                    }
                    @for group in &table.groups {
                        tbody {
                            tr.subject { th colspan=(table.threads.len() + 1) scope="rowgroup" { div { (plain(&group.subject)) } } }
                            @for (index, row) in group.rows.iter().enumerate() {
                                @let first = index == 0 || group.rows[index - 1].quantity != row.quantity;
                                tr.first[first] {
                                    th scope="row" {
                                        span class=(Hue::Series(study.treatment_index(&row.placement)).class()) aria-hidden="true" {
                                            (Hue::Series(study.treatment_index(&row.placement)).glyph()) " "
                                        }
                                        (plain(&row.placement)) small.muted { (quantity(row.quantity)) }
                                    }
                                    @for cell in &row.cells { (table_cell(cell)) }
                                }
                            }
                        }
                    }
                }
            }
            details {
                summary { "Every figure of every cell" }
                (cells(study))
            }
        }
    }
}

fn quantity(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Time => " s",
        Quantity::Ratio => " ratio",
        Quantity::SpeedUp => " speed-up",
    }
}

/// The class of a cell, by what is claimed.
fn cell_class(claim: Option<Claim>) -> &'static str {
    match claim {
        Some(Claim::Faster) => "n claimed better",
        Some(_) => "n claimed worse",
        None => "n",
    }
}

fn table_cell(cell: &Cell) -> Markup {
    html! {
        td class=(cell_class(cell.claim)) {
            @match cell.claim {
                Some(Claim::Faster) => { "▲ " }
                Some(_) => { "▼ " }
                None => {}
            }
            @if cell.text.is_empty() { "–" } @else { (plain(&cell.text)) }
            @if cell.interval.is_some() { small.muted { (cell.range("–")) } }
        }
    }
}

/// The other names of a cell's placement.
fn twins(summary: &Summary) -> String {
    let twins: Vec<String> = summary.same_as.iter().chain(&summary.also).map(|twin| plain(twin)).collect();
    if twins.is_empty() { "–".into() } else { twins.join(", ") }
}

fn cells(study: &StudyView) -> Markup {
    let optional = |value: Option<f64>, write: fn(f64) -> String| value.map_or_else(|| "–".to_owned(), write);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Every figure of every cell" {
            table.dense.sortable {
                thead { tr {
                    th { "subject" } th.n { "threads" } th { "placement" } th.n { "trials" } th.n { "failed" } th.n { "median, s" }
                    th.n { "mean, s" } th.n { "relative sd" } th.n { "fastest, s" } th.n { "slowest, s" } th.n { "ratio" }
                    th { "95 % interval" } th.n { "pairs" } th.n { "p" } th.n { "smallest detectable" } th { "shown" }
                    th.n { "speed-up" } th.n { "drift" } th.n { "outliers" } th { "settled" } th { "same as" }
                } }
                tbody {
                    @for s in &study.analysis.summaries {
                        @let ratio = s.ratio.map(|r| Ratio::new(r, s.ratio_low, s.ratio_high));
                        tr {
                            td { (plain(&s.subject)) } td.n { (s.threads) } td { (plain(&s.placement)) }
                            td.n { (s.trials) } td.n { (s.failed) }
                            td.n { (optional(s.median_s, number::seconds)) } td.n { (optional(s.mean_s, number::seconds)) }
                            td.n { (optional(s.relative_sd, number::percent)) }
                            td.n { (optional(s.min_s, number::seconds)) } td.n { (optional(s.max_s, number::seconds)) }
                            td.n { (ratio.as_ref().map_or("–", |r| &r.value)) } td { (ratio.as_ref().map_or_else(|| "–".into(), |r| r.range("–"))) }
                            td.n { (s.pairs) } td.n { (optional(s.p_value, |p| format!("{p:.3}"))) }
                            td.n { (optional(s.smallest_detectable, number::percent)) }
                            td { (claim(s.claim, study.reference())) }
                            td.n { (optional(s.speedup, |x| format!("{x:.2}"))) } td.n { (optional(s.drift, number::change)) }
                            td.n { (s.outliers.len()) } td { (if s.settled { "yes" } else { "no" }) }
                            td { (twins(s)) }
                        }
                    }
                }
            }
        }
    }
}

fn guide(study: &StudyView) -> Markup {
    let reference = plain(study.reference());
    let entry = |term: &str, words: String| html! { dt { (term) } dd { (words) } };
    html! {
        section #reading {
            h2 { "How to read this" }
            dl.wide {
                (entry("trial", "One execution of one program with so many threads under one placement. Every trial is in this report, failed ones too.".into()))
                @if study.is_race() { (race::guide()) }
                @else {
                    (entry("block", "One trial of each placement, one right after the other, in an order drawn anew each time. A machine that gets slower gets slower for all of them.".into()))
                    (entry("ratio", format!("Time of {reference} over time of the placement, from trials of the same block. 1.18 means that the placement does in the same time 1.18 times the work; 0.90 that it is slower. At 1 there is no difference.")))
                    (entry("95 % interval", "If the whole study were repeated many times, 95 of 100 such intervals would hold the true ratio. A wide one means that the trials scatter or that there are few of them.".into()))
                    (entry("▲ ▼, colour, bold", "A difference is shown, after allowing for how many comparisons this study makes: with many, an interval that just excludes 1 is not enough. Everything else stays grey.".into()))
                    (entry("no difference shown", "The study can't tell them apart. That is not proof that they are equal: a difference below the smallest detectable one may be there.".into()))
                    (entry("smallest detectable", "A study like this one would have seen a difference of that size in 80 of 100 cases.".into()))
                    (entry("● ▲ ■ ◆", "One trial that counts, shape and colour by placement.".into()))
                }
                @if study.is_race() { (entry("┤", "A run that was cut off.".into())) }
                (entry("mark in a ring", "An outlier: far from the other trials of its cell. It counts all the same; medians hardly feel it. In the order of trials, one beyond the scale sits at its edge.".into()))
                (entry("○", if study.is_race() { "Among trials, a warm-up trial, which never counts; in the race, the end of one that was halved." } else { "A warm-up trial, which never counts." }.into()))
                (entry("×", "A failed trial: no number comes from it. Its cause is under Failures.".into()))
                (entry("bar across a strip", "The median of the trials that count.".into()))
                (entry("dashed line", "In the order of trials: the study was interrupted there and went on later. In the speed-up: the ideal, twice as fast with twice the threads.".into()))
                @if !study.is_race() { (entry("speed-up", format!("Time of {reference} with 1 thread over this time."))) }
                (entry("relative sd", "Standard deviation of the times over their mean.".into()))
                (entry("drift", "Change of the times from the first to the last block, told only when a trend is shown.".into()))
                @if !study.is_race() { (entry("settled", "The stop rule was met for this cell before the study ended.".into())) }
                (entry("intended, actual", "The CPUs on which a thread was put, and those that the kernel said it may use when it was read back.".into()))
            }
        }
    }
}

fn paste_lines(study: &StudyView) -> Markup {
    html! {
        section #paste {
            h2 { "The line to paste" }
            @for advice in paste::advice(study) {
                div.paste {
                    p { (plain(&advice.sentence)) }
                    @for line in &advice.lines {
                        p.muted { small { (line.tool) } }
                        pre { code { (plain(&line.command)) } }
                    }
                }
            }
        }
    }
}
