//! What the pages of simulations and of replays have in common: the table, what was run, and how to read it.

use super::cell_class;
use super::figure::{or_dash, scrolled};
use super::page::{Section, head, heading, links, notices};
use crate::number;
use crate::sentences::{self, Sentence};
use crate::simulation::Sheet;
use crate::table::{Row, Table};
use crate::words::{count, plain};
use machine::Machine;
use maud::{Markup, html};
use stats::Metric;
use study::{PastSession, Sample, Warning};

/// The head of the page: the answer on the workload beside its largest figure, or `nothing` without an answer.
pub(super) fn answer(
    title: Markup,
    workload: &str,
    largest: Markup,
    verdicts: Vec<Sentence>,
    nothing: &str,
    warnings: &[Warning],
    sections: &[Section],
) -> Markup {
    let mut verdicts = verdicts.into_iter();
    let first = verdicts.next().map_or_else(|| nothing.to_owned(), |first| first.below(workload));
    let answer = html! {
        article.answer {
            h2 { (workload) }
            (largest)
            div {
                p.verdict { (first) }
                ul.verdicts { @for verdict in verdicts { li { (plain(&verdict.to_string())) } } }
            }
        }
    };
    let notices: Vec<Markup> = notices(&sentences::warnings(warnings)).collect();
    head(title, answer, &notices, links(sections))
}

/// Every sample as a row: labels, its replicate, and what it showed of `metrics`, which are given with their heads.
pub(super) fn replicates(
    about: &str,
    samples: &[Sample],
    labels: [&str; 2],
    label: impl Fn(&Sample) -> [String; 2],
    metrics: &[(Metric, &str)],
    tells_outcome: bool,
) -> Section {
    heading("replicates", "Replicates", "Replicates").above(html! {
        p { (about) }
        details {
            summary { "All " (count(samples.len(), "replicate")) " as a table" }
            (scrolled("All replicates", true, html! {
                table.dense.sortable {
                    thead { tr {
                        @for label in labels { th { (label) } } th.n { "replicate" }
                        @if tells_outcome { th { "went" } }
                        @for (_, head) in metrics { th.n { (head) } }
                    } }
                    tbody {
                        @for sample in samples {
                            tr {
                                @for label in label(sample) { td { (plain(&label)) } } td.n { (sample.replicate) }
                                @if tells_outcome {
                                    td { @match &sample.result { Ok(_) => { "ok" } Err(failure) => (plain(&failure.what)), } }
                                }
                                @for (metric, _) in metrics { td.n { (or_dash(sample.value(metric), number::seconds)) } }
                            }
                        }
                    }
                }
            }))
        }
    })
}

/// The table of everything.
pub(super) fn whole(table: &Table, label: &str) -> Markup {
    scrolled(
        label,
        false,
        html! {
            table.paper.long {
                thead { tr { @for corner in &table.corner { th scope="col" { (corner) } } @for head in &table.heads { th.n scope="col" { (head) } } } }
                tbody {
                    @for Row { labels, cells } in &table.rows {
                        @let label = &labels[0];
                        tr.first[!label.starts_with(' ')] {
                            th scope="row" { @if label.starts_with(' ') { span.muted { "– " (label.trim_start()) } } @else { (label) } }
                            @for cell in cells {
                                td class=(cell_class(cell)) {
                                    @if cell.text.is_empty() { "–" } @else { (cell.text) }
                                    @if cell.interval.is_some() { small.muted { (cell.range("–")) } }
                                }
                            }
                        }
                    }
                }
            }
        },
    )
}

/// Machine, workload and parameters, and what is left out.
pub(super) fn model(sheet: &Sheet, machine: Option<&Machine>, sessions: &[PastSession]) -> Section {
    heading("model", "Model", "Model").above(html! {
        p { (sheet.setting) }
        dl {
            @if let Some(machine) = machine {
                dt { "machine" }
                dd { (plain(machine.name())) @if let Some(model) = machine.cpu_model() { ", " (plain(model)) } ", " (count(machine.usable_cpus().len(), "CPU")) }
            }
            @for job in &sheet.jobs { dt { "job" } dd { (job) } }
            @if let Some(session) = sessions.first() { dt { "command" } dd { code { (plain(&shell_words::join(&session.command_line))) } } }
        }
        details {
            summary { "All parameters" }
            dl { @for (name, value) in &sheet.parameters { dt { code { (name) } } dd { (plain(value)) } } }
        }
        h3 { (sheet.limits_of) }
        ul { @for limit in &sheet.limits { li { (limit) } } }
    })
}
