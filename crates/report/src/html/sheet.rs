//! What the pages of simulations and of replays have in common: the table, what was run, and how to read it.

use super::cell_class;
use crate::simulation::{Sheet, Table};
use crate::words::{count, plain};
use machine::Machine;
use maud::{Markup, html};
use study::PastSession;

/// The table of everything.
pub(super) fn whole(table: &Table, label: &str) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table.paper.long {
                thead { tr { th scope="col" { (table.corner) } @for head in &table.heads { th.n scope="col" { (head) } } } }
                tbody {
                    @for (label, cells) in &table.rows {
                        tr.first[!label.starts_with(' ')] {
                            th scope="row" { @if label.starts_with(' ') { span.muted { "– " (label.trim_start()) } } @else { (label) } }
                            @for cell in cells {
                                td class=(cell_class(cell.claim)) {
                                    @if cell.text.is_empty() { "–" } @else { (cell.text) }
                                    @if cell.interval.is_some() { small.muted { (cell.range("–")) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Machine, workload and parameters, and what is left out.
pub(super) fn model(sheet: &Sheet, machine: Option<&Machine>, sessions: &[PastSession]) -> Markup {
    html! {
        section #model {
            h2 { "Model" }
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
            ul { @for limit in sheet.limits { li { (limit) } } }
        }
    }
}

/// Words that the page uses, and what they mean.
pub(super) fn reading(entries: &[(&str, &str)]) -> Markup {
    html! {
        section #reading {
            h2 { "How to read this" }
            dl.wide { @for (term, words) in entries { dt { (term) } dd { (words) } } }
        }
    }
}
