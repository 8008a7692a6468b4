//! The paper whose study this is: its own tables with ours below each row, and what it says of them.

use super::table_cell;
use crate::chart::Hue;
use crate::paper_table::{KEY, PaperTable, Row, Source};
use crate::study_view::StudyView;
use crate::words::{capital, count, plain};
use maud::{Markup, html};
use papers::Paper;

/// Whether the study is one of a paper's.
pub(super) fn is_there(study: &StudyView) -> bool {
    study.plan.paper.as_deref().and_then(Paper::named).is_some()
}

/// The section; nothing for a study that is no paper's.
pub(super) fn beside(study: &StudyView) -> Markup {
    let tables = PaperTable::all(study);
    html! {
        @if let Some(PaperTable { paper, .. }) = tables.first() {
            section #paper {
                h2 { "Beside " (paper.short) }
                p.muted { (paper.citation) }
                div.scroll tabindex="0" role="region" aria-label="What is compared" {
                    table.dense.sides {
                        thead { tr { td {} th scope="col" { "printed" } th scope="col" { "ours" } } }
                        tbody {
                            @for (fact, printed, ours) in tables[0].facts(study) {
                                tr { th scope="row" { (fact) } td { (printed) } td { (plain(&ours)) } }
                            }
                        }
                    }
                }
                p { (KEY) }
                @for table in &tables { (figures(study, table)) }
                details {
                    summary { "What the paper says of it" }
                    ul { @for claim in &paper.claims { li { (claim.says) " " span.muted { "(" (claim.place) ")" } } } }
                }
            }
        }
    }
}

fn figures(study: &StudyView, table: &PaperTable) -> Markup {
    let threads = &table.printed.threads;
    html! {
        h3 { (plain(&table.title())) }
        p.muted { (capital(&table.printed.about)) "." }
        div.scroll tabindex="0" role="region" aria-label=(table.printed.title) {
            table.paper.beside {
                thead {
                    tr {
                        th colspan="2" scope="col" { "Benchmark" }
                        @for threads in threads { th.n scope="col" { (count(*threads as usize, "thread")) } }
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
        }
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
                        @if let Some(placement) = row.placement {
                            @let hue = Hue::Series(study.treatment_index(placement));
                            span class=(hue.class()) aria-hidden="true" { (hue.glyph()) "\u{a0}" }
                        }
                        (row.label())
                    }
                }
                td.whose { (source.word()) }
                @for cell in cells { (table_cell(cell)) }
            }
        }
    }
}
