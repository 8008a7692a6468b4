//! Papers beside ours in GitHub-flavoured Markdown.

use super::{Answer, CellView, FITTED, Group, NOT_HERE, TableView, Whose, what_was_done, word};
use crate::markdown::{escape, list, rows_and_heads};
use crate::words::capital;
use papers::Reproduction;
use papers::reproduction::ReproducedTable;
use std::fmt::Write;

/// `papers` as Markdown: the answer, the tables, the claims, what was chosen. A difference beyond the margin is bold.
pub fn markdown(papers: &[Reproduction]) -> String {
    papers.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(paper: &Reproduction) -> String {
    let mut text = format!("# {}\n\n{}\n\n", escape(&paper.paper), escape(&paper.citation));
    let answer = Answer::of(paper);
    list(&mut text, answer.sentences().iter().chain(&answer.against_kernel));
    text.push('\n');
    for sentence in what_was_done(paper) {
        let _ = writeln!(text, "{}", escape(&sentence));
    }
    for view in TableView::all(paper) {
        table(&mut text, &view);
    }
    claims(&mut text, paper);
    if !paper.chosen.is_empty() {
        text.push_str("\n## What the paper leaves open and was chosen\n\n");
        list(&mut text, paper.chosen.iter().map(|(place, value)| format!("{place} = {value}")));
    }
    text
}

/// A line for what is printed, one for ours, and one for the difference.
fn table(text: &mut String, view: &TableView) {
    let ReproducedTable { title, about, corner, columns, .. } = view.table;
    let _ = writeln!(text, "\n## {}\n\n{}.", escape(title), escape(&capital(about)));
    let heads = [corner.clone(), String::new()].into_iter().chain(columns.iter().cloned());
    let rows = view.lines(told).into_iter().map(|(labels, cells)| {
        let labels = labels.iter().map(|label| escape(label));
        labels.chain(cells.into_iter().map(|told| told.unwrap_or_else(|| "–".into()))).collect()
    });
    let figures = if view.is_prose() { 0 } else { columns.len() };
    rows_and_heads(text, heads.map(|head| escape(&head)).collect(), figures, rows);
}

/// A number with its interval.
fn with_interval(number: String, interval: &Option<(String, String)>) -> String {
    interval.iter().fold(number, |number, (low, high)| format!("{number} ({low} to {high})"))
}

/// What is said of a cell; none for a dash.
fn told(whose: Whose, cell: &CellView) -> Option<String> {
    Some(match whose {
        Whose::Lost => String::new(),
        Whose::Printed => escape(cell.printed.as_deref()?),
        Whose::Ours => {
            let fitted = if cell.is_fitted { FITTED } else { "" };
            with_interval(escape(cell.ours.as_deref()?) + fitted, &cell.interval)
        }
        Whose::Difference if cell.near == Some(false) => format!("**{}**", cell.difference.as_ref()?),
        Whose::Difference => cell.difference.clone()?,
        Whose::Live => match &cell.live {
            Some(live) => with_interval(live.value.clone(), &live.interval),
            None => NOT_HERE.into(),
        },
    })
}

fn claims(text: &mut String, paper: &Reproduction) {
    for group in Group::all(paper) {
        let _ = writeln!(text, "\n## {}\n\n{}", group.title(), group.about());
        let heads =
            ["verdict", "where", "claim", "why", "live"].iter().filter(|head| **head != "live" || group.is_live());
        let rows = group.claims.iter().map(|claim| {
            let words = [&claim.place, &claim.statement, &claim.why].map(|words| escape(words));
            let live = claim.live.as_ref().map(|live| format!("{}: {}", word(live.verdict), escape(&live.why)));
            let live = group.is_live().then(|| live.unwrap_or_default());
            std::iter::once(word(claim.verdict).to_owned()).chain(words).chain(live).collect()
        });
        rows_and_heads(text, heads.map(|head| (*head).to_owned()).collect(), 0, rows);
    }
}
