//! The paper whose study this is: its own tables with ours below each row, and what it says of them.

use super::figure::{scrolled, swatch};
use super::page::{Section, heading};
use super::{table_cell, thread_heads};
use crate::paper_table::{KEY, PaperTable, Row, Source};
use crate::study_view::StudyView;
use crate::words::{capital, plain};
use maud::{Markup, html};

/// The section; none for a study that is no paper's.
pub(super) fn beside(study: &StudyView) -> Option<Section> {
    let tables = PaperTable::all(study);
    let first = tables.first()?;
    let paper = first.paper;
    let section = heading("paper", "The paper", format!("Beside {}", paper.short)).above(html! {
        p.muted { (paper.citation) }
        (scrolled("What is compared", false, html! {
            table.dense.sides {
                thead { tr { td {} th scope="col" { "printed" } th scope="col" { "ours" } } }
                tbody {
                    @for (fact, printed, ours) in first.facts(study) {
                        tr { th scope="row" { (fact) } td { (printed) } td { (plain(&ours)) } }
                    }
                }
            }
        }))
        p { (KEY) }
        @for table in &tables { (figures(study, table)) }
        details {
            summary { "What the paper says of it" }
            ul { @for claim in &paper.claims { li { (claim.says) " " span.muted { "(" (claim.place) ")" } } } }
        }
    });
    Some(section)
}

fn figures(study: &StudyView, table: &PaperTable) -> Markup {
    let threads = &table.printed.threads;
    html! {
        h3 { (plain(&table.title())) }
        p.muted { (capital(&table.printed.about)) "." }
        (scrolled(&table.printed.title, false, html! {
            table.paper.beside {
                thead {
                    tr {
                        th colspan="2" scope="col" { "Benchmark" }
                        (thread_heads(threads.iter().map(|&threads| threads.into())))
                    }
                }
                @for group in &table.groups {
                    tbody {
                        tr.subject {
                            th colspan=(threads.len() + 2) scope="rowgroup" {
                                div { (group.benchmark) @if let Some(subject) = group.subject { small.muted { " ours: " (plain(subject)) } } }
                            }
                        }
                        @for row in &group.rows { (both(study, row)) }
                    }
                }
            }
        }))
    }
}

/// The printed line in grey, ours below it.
fn both(study: &StudyView, row: &Row) -> Markup {
    let lines = row.lines();
    html! {
        @for (index, (source, cells)) in lines.iter().enumerate() {
            tr.first[index == 0] .printed[*source != Source::Ours] {
                @if index == 0 {
                    th scope="row" rowspan=(lines.len()) {
                        @if let Some(placement) = row.placement { (swatch(study.series(placement), "\u{a0}")) }
                        (row.label())
                    }
                }
                td.whose { (source.word()) }
                @for cell in cells { (table_cell(cell)) }
            }
        }
    }
}
