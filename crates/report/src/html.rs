//! The whole study as one HTML page that loads nothing, works without JavaScript, and is its own data file.

mod effects;
mod facts;
pub(crate) mod figure;
mod figures;
mod headline;
mod mix;
pub(crate) mod page;
mod paper;
#[cfg(feature = "profiles")]
pub(crate) mod profile;
mod race;
pub(crate) mod replay;
mod sheet;
pub(crate) mod simulation;

use crate::grid::SEEMING;
use crate::json;
use crate::metric;
use crate::number::{self, Ratio};
use crate::paste;
use crate::sentences::stop;
use crate::setting;
use crate::study_view::StudyView;
use crate::table::{BUSY_KEY, Cell, Mark, Row, Table};
use crate::verdict::Verdicts;
use crate::wording::Wording;
use crate::words::shape_in_words;
use crate::words::{capital, compared, count, plain};
use figure::{or_dash, scrolled, swatch};
use maud::{Markup, html};
use page::{Section, heading};
use study::Shape;
use study::{Claim, Subject, Summary, Trial, Varied};

/// The study as one HTML file: the answer with its doubt, the papers' table, charts of every trial, the machine, how
/// to read it all, and the line to paste. The JSON form is embedded as `<script type="application/json" id="study">`.
pub(crate) fn cells_page(study: &StudyView) -> String {
    let subjects: Vec<&str> = study.compared().map(|subject| subject.name.as_str()).collect();
    let what = match study.analysis.varied {
        _ if study.is_emulated() => "what was counted".to_owned(),
        Varied::Places => format!("{} best", Wording::of_study(study).what_varies(Varied::Places)),
        Varied::Treatments => "what it runs best under".into(),
        Varied::Commands => "which is best".into(),
    };
    let title = format!("{}: {what}", plain(&subjects.join(", ")));
    let is_race = study.is_race();
    let is_emulated = study.is_emulated();
    let sections = [
        // Where times mean nothing, what was counted comes first.
        is_emulated.then(|| mix::metrics(study)).flatten(),
        is_emulated.then(|| figures::counted_ratios(study)).flatten(),
        is_race.then(|| race::section(study)),
        paper::beside(study),
        // What is one row a placement elsewhere would be hundreds in a race, most of a single run.
        (!is_race).then(|| paper_table(study)),
        mix::jobs(study),
        (!is_emulated).then(|| mix::metrics(study)).flatten(),
        mix::used(study),
        Some(figures::in_order(study)),
        (!is_emulated).then(|| figures::distributions(study)),
        (!is_race && !is_emulated).then(|| figures::speedup(study)),
        (!is_race && !is_emulated).then(|| figures::ratios(study)),
        effects::section(study),
        effects::memory(study),
        facts::programs(study),
        // A race pictures its best, its worst and unbound.
        // Where the jobs of a mix are put stands beside their pictures.
        (!is_race && !study.is_of_mixes()).then(|| facts::placements(study)),
        (!study.is_simulated()).then(|| facts::cpus(study)),
        Some(facts::failures(study)),
        Some(facts::machine(study)),
        Some(guide(study)),
        Some(paste_lines(study)),
    ];
    let sections: Vec<Section> = sections.into_iter().flatten().collect();
    page::study_page(study.host, &title, &answer(study, &sections), &sections, &json::page_data(study))
}

/// Most trials that a page lists, and that one of its charts draws: more would make it slow to show, and tell nothing more.
const MOST_TRIALS: usize = 5_000;

/// The trials that a page lists and has as data: all, or of very many every so many-th.
pub(crate) fn listed<'a>(study: &StudyView<'a>) -> impl Iterator<Item = &'a Trial> + use<'a> {
    study.trials.iter().step_by(study.trials.len().div_ceil(MOST_TRIALS).max(1))
}

/// The top of the page: the answer for each subject, then what limits it.
fn answer(study: &StudyView, sections: &[Section]) -> Markup {
    let title = html! {
        "Stayput study"
        @if study.is_simulated() { " of a model, on machine " (plain(&setting::machine(study))) }
        @else if let Some(session) = study.sessions.first() { " of " (number::moment(session.before.unix_s)) }
    };
    let answers = html! {
        @for subject in study.compared() {
            article.answer {
                h2 { (plain(&subject.name)) }
                (headline::headline(study, subject))
                (sentences(study, subject))
            }
        }
        @if study.analysis.verdicts.is_empty() { p.verdict { "Nothing can be said: no trial went well." } }
        p.muted { b { "Why it stopped. " } (stop(&study.analysis.stop)) }
    };
    let failures = study.failures().count();
    let failed =
        html! { a href="#failures" { (count(failures, "trial")) " failed" } ": kept with the cause, in no figure." };
    let notices: Vec<Markup> =
        (failures > 0).then_some(failed).into_iter().chain(page::notices(&study.warnings)).collect();
    page::head(title, answers, &notices, page::links(sections))
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

fn paper_table(study: &StudyView) -> Section {
    let reference = plain(study.reference());
    let label = |row: &Row| {
        let [_, quantity, placement] = &row.labels[..] else { return html! {} };
        html! { (swatch(study.series(placement), " ")) (plain(placement)) " " small.muted { (quantity) } }
    };
    let title = match Wording::of_study(study) {
        _ if study.is_emulated() => "Times, which mean nothing",
        Wording::Makespan => "Makespans, ratios and speed-up",
        Wording::Time | Wording::Several => "Times, ratios and speed-up",
        Wording::Other(_) => "Medians, ratios and speed-up",
    };
    let table = Table::of_placements(study);
    let noun = compared(study.analysis.varied);
    let wording = Wording::of_study(study);
    heading("table", "Table", title).above(html! {
        p { (plain(&metric::key(study))) " The table has medians." @if table.has_intervals() { " Ratio: " (wording.ratio_of(&reference, noun)) ", with its 95 % interval; above 1 is " (wording.word(true)) "." } }
        // Names of treatments differ in their last words, which may not be cut off.
        div.effects[study.analysis.varied != Varied::Places] {
            (grouped(title, &capital(noun), &table, |subject| html! { (plain(subject)) }, label))
        }
        details {
            summary { "Every figure of every cell" }
            (cells(study))
        }
    })
}

/// A table whose groups stand below what `above` says of their first label, with `label` before the figures of each row.
fn grouped(
    title: &str,
    corner: &str,
    table: &Table,
    above: impl Fn(&str) -> Markup,
    label: impl Fn(&Row) -> Markup,
) -> Markup {
    let whole = html! {
        table.paper {
            thead { tr { th scope="col" { (corner) } @for head in table.heads_in_words() { th.n scope="col" { (head) } } } }
            @for group in table.groups() {
                tbody {
                    tr.subject { th colspan=(table.heads.len() + 1) scope="rowgroup" { div { (above(&group[0].labels[0])) } } }
                    @for (index, row) in group.iter().enumerate() {
                        tr.first[index == 0 || group[index - 1].labels[1] != row.labels[1]] {
                            th scope="row" { (label(row)) }
                            @for cell in &row.cells { (table_cell(cell)) }
                        }
                    }
                }
            }
        }
    };
    scrolled(title, false, whole)
}

/// The heads of columns, one a thread count.
fn thread_heads(threads: impl Iterator<Item = Shape>) -> Markup {
    html! { @for threads in threads { th.n scope="col" { (shape_in_words(threads)) } } }
}

/// The class of a cell, by what is claimed.
fn cell_class(cell: &Cell) -> &'static str {
    match cell.mark() {
        Mark::Shown(Claim::Faster) => "n claimed better",
        Mark::Shown(_) => "n claimed worse",
        Mark::Seeming | Mark::Plain => "n",
    }
}

fn table_cell(cell: &Cell) -> Markup {
    html! {
        td class=(cell_class(cell)) {
            @match cell.mark() {
                Mark::Shown(Claim::Faster) => { "▲ " }
                Mark::Shown(_) => { "▼ " }
                Mark::Seeming => { (SEEMING) " " }
                Mark::Plain => {}
            }
            @if cell.text.is_empty() { "–" } @else { (plain(&cell.text)) }
            @if cell.interval.is_some() { small.muted { (cell.range("–")) } }
        }
    }
}

/// What is claimed of a cell, in words.
fn shown(study: &StudyView, summary: &Summary) -> String {
    let is_claimed = matches!(summary.claim, Claim::Faster | Claim::Slower);
    let doubt = if is_claimed && study.is_busy(summary) { ", but on a busy machine" } else { "" };
    format!("{}{doubt}", study.wording(&summary.subject).claim(summary.claim, study.reference()))
}

/// The other names of a cell's placement.
fn twins(summary: &Summary) -> String {
    let twins: Vec<String> = summary.same_as.iter().chain(&summary.also).map(|twin| plain(twin)).collect();
    if twins.is_empty() { "–".into() } else { twins.join(", ") }
}

fn cells(study: &StudyView) -> Markup {
    let common = study.common_metric();
    let told =
        |s: &Summary, value: Option<f64>| or_dash(value, |v| metric::below(common, &study.metric(&s.subject), v));
    let head = |figure: &str| metric::head(figure, common);
    let [least, most] = metric::extremes(common);
    let percent = |share: Option<f64>| or_dash(share, number::percent);
    let table = html! {
        table.dense.sortable {
            thead { tr {
                th { "subject" } th.n { "threads" } th { "placement" } th.n { "trials" } th.n { "failed" } th.n { (head("median")) }
                th.n { (head("mean")) } th.n { "relative sd" } th.n { (head(least)) } th.n { (head(most)) } th.n { "ratio" }
                th { "95 % interval" } th.n { "pairs" } th.n { "p" } th.n { "smallest detectable" } th { "shown" }
                th.n { "speed-up" } th.n { "drift" } th.n { "outliers" } th { "settled" } th { "same as" }
            } }
            tbody {
                @for s in study.analysis.summaries.iter().filter(|s| !study.is_alone(&s.subject)) {
                    @let ratio = Ratio::of(s);
                    tr {
                        td { (plain(&s.subject)) } td.n { (s.threads) } td { (plain(&s.placement)) }
                        td.n { (s.trials) } td.n { (s.failed) }
                        td.n { (told(s, s.figures.median)) } td.n { (told(s, s.figures.mean)) } td.n { (percent(s.figures.relative_sd)) }
                        td.n { (told(s, s.figures.min)) } td.n { (told(s, s.figures.max)) }
                        td.n { (or_dash(ratio.as_ref(), |r| r.value.clone())) } td { (or_dash(ratio.as_ref(), |r| r.range("–"))) }
                        td.n { (s.pairs) } td.n { (or_dash(s.p_value, |p| format!("{p:.3}"))) }
                        td.n { (percent(s.smallest_detectable)) }
                        td { (shown(study, s)) }
                        td.n { (or_dash(s.speedup, |x| format!("{x:.2}"))) } td.n { (or_dash(s.drift, number::change)) }
                        td.n { (s.outliers.len()) } td { (if s.settled { "yes" } else { "no" }) }
                        td { (twins(s)) }
                    }
                }
            }
        }
    };
    scrolled("Every figure of every cell", false, table)
}

fn guide(study: &StudyView) -> Section {
    let wording = Wording::of_study(study);
    let reference = plain(study.reference());
    let noun = compared(study.analysis.varied);
    page::reading(html! {
        dt { "trial" } dd { "One execution of one program with so many threads under one " (noun) ". Every trial is in this report, failed ones too." }
        @if study.is_race() { (race::guide(wording)) }
        @else {
            dt { "block" } dd { "One trial of each " (noun) ", one right after the other, in an order drawn anew each time. A machine that gets slower gets slower for all of them." }
            dt { "ratio" } dd {
                @if study.is_emulated() { "How much less was counted than under " (reference) }
                @else { (capital(&wording.ratio_of(&reference, noun))) }
                ", from trials of the same block. "
                @match wording {
                    Wording::Time if !study.is_emulated() => { "1.18 means that the " (noun) " does in the same time 1.18 times the work; 0.90 that it is slower." }
                    _ => { "1.18 means that the " (noun) " is that much " (if study.is_emulated() { "better" } else { wording.word(true) }) "; 0.90 that it is " (if study.is_emulated() { "worse" } else { wording.word(false) }) "." }
                }
                " At 1 there is no difference."
            }
            @if study.compared().any(|subject| subject.mix.is_some()) {
                dt { "makespan" } dd { "From the beginning of a mix to when every job has ended once." }
                dt { "slowdown" } dd { "A job's time in the mix over its time by itself in the same block: 2 means that it took twice as long." }
            }
            dt { "95 % interval" } dd { "If the whole study were repeated many times, 95 of 100 such intervals would hold the true ratio. A wide one means that the trials scatter or that there are few of them." }
            dt { "▲ ▼, colour, bold" } dd { "A difference is shown, after allowing for how many comparisons this study makes: with many, an interval that just excludes 1 is not enough. Everything else stays grey." }
            @if study.analysis.summaries.iter().any(|summary| study.is_busy(summary)) { dt { (SEEMING) } dd { (capital(BUSY_KEY)) "." } }
            dt { "no difference shown" } dd { "The study can't tell them apart. That is not proof that they are equal: a difference below the smallest detectable one may be there." }
            dt { "smallest detectable" } dd { "A study like this one would have seen a difference of that size in 80 of 100 cases." }
            dt { "● ▲ ■ ◆" } dd { "One trial that counts, shape and colour by " (noun) "." }
        }
        @if study.is_race() { dt { "┤" } dd { "A run that was cut off." } }
        dt { "mark in a ring" } dd { "An outlier: far from the other trials of its cell. It counts all the same; medians hardly feel it. In the order of trials, one beyond the scale sits at its edge." }
        dt { "○" } dd { @if study.is_race() { "Among trials, a warm-up trial, which never counts; in the race, the end of one that was halved." } @else { "A warm-up trial, which never counts." } }
        dt { "×" } dd { "A failed trial: no number comes from it. Its cause is under Failures." }
        dt { "bar across a strip" } dd { "The median of the trials that count." }
        dt { "dashed line" } dd { "In the order of trials: the study was interrupted there and went on later. In the speed-up: the ideal, twice as fast with twice the threads." }
        @if !study.is_race() && !study.is_emulated() { dt { "speed-up" } dd { @if wording == Wording::Time { "Time of " (reference) " with 1 thread over this time." } @else { "How much better this is than " (reference) " with 1 thread." } } }
        dt { "relative sd" } dd { "Standard deviation over mean." }
        dt { "drift" } dd { "Change from the first to the last block, told only when a trend is shown; above 0 it got worse." }
        @if !study.is_race() { dt { "settled" } dd { "The stop rule was met for this cell before the study ended." } }
        dt { "intended, actual" } dd { "The CPUs on which a thread was put, and those that the kernel said it may use when it was read back." }
    })
}

fn paste_lines(study: &StudyView) -> Section {
    heading("paste", "Line to paste", "The line to paste").above(html! {
        @for advice in paste::advice(study) {
            div.paste {
                p { (plain(&advice.sentence)) }
                @for line in &advice.lines {
                    p.muted { small { (line.tool) } }
                    pre { code { (plain(&line.command)) } }
                }
            }
        }
    })
}
