//! Papers beside ours in GitHub-flavoured Markdown.

use super::{Answer, CellView, FITTED, Group, LOST, LiveView, NOT_HERE, TableView, has_live, what_was_done, word};
use crate::markdown::escape;
use crate::words::capital;
use papers::Reproduction;
use std::fmt::Write;

/// `papers` as Markdown: the answer, the tables, the claims, what was chosen. A difference beyond the margin is bold.
pub fn markdown(papers: &[Reproduction]) -> String {
    papers.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(paper: &Reproduction) -> String {
    let mut text = format!("# {}\n\n{}\n\n", escape(&paper.paper), escape(&paper.citation));
    for sentence in Answer::of(paper).sentences() {
        let _ = writeln!(text, "- {}", escape(&sentence));
    }
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
        for (place, value) in &paper.chosen {
            let _ = writeln!(text, "- {} = {}", escape(place), escape(value));
        }
    }
    text
}

/// A column for what is printed and one for ours, or both in one where they would be too many.
fn table(text: &mut String, view: &TableView) {
    let table = view.table;
    let _ = writeln!(text, "\n## {}\n\n{}.\n", escape(&table.title), escape(&capital(&table.about)));
    let heads: Vec<String> = table.columns.iter().map(|column| escape(column)).collect();
    let _ = writeln!(text, "| {} | | {} |", escape(&table.corner), heads.join(" | "));
    let align = if view.is_prose() { " --- |" } else { " ---: |" };
    let _ = writeln!(text, "| --- | --- |{}", align.repeat(heads.len()));
    for row in &table.rows {
        let cells: Vec<CellView> = row.cells.iter().map(|cell| view.cell(cell)).collect();
        let mut line = |label: &str, whose: &str, told: &dyn Fn(&CellView) -> Option<String>| {
            let told: Vec<String> = cells.iter().map(|cell| told(cell).unwrap_or_else(|| "–".into())).collect();
            let _ = writeln!(text, "| {label} | {whose} | {} |", told.join(" | "));
        };
        let label = escape(&row.label);
        let mut label = label.as_str();
        if view.is_lost(&row.cells) {
            line(label, LOST, &|_| Some(String::new()));
            continue;
        }
        if view.is_printed(&row.cells) {
            line(label, "printed", &|cell| cell.printed.as_deref().map(escape));
            label = "";
        }
        line(label, "ours", &|cell| {
            let range = cell.interval.as_ref().map(|(low, high)| format!(" ({low} to {high})"));
            let fitted = if cell.is_fitted { FITTED } else { "" };
            Some(escape(cell.ours.as_deref()?) + fitted + &range.unwrap_or_default())
        });
        if cells.iter().any(|cell| cell.difference.is_some()) {
            line("", "difference", &|cell| match (&cell.difference, cell.near) {
                (Some(difference), Some(false)) => Some(format!("**{difference}**")),
                (difference, _) => difference.clone(),
            });
        }
        if has_live(&row.cells) {
            line("", "live", &|cell| match &cell.live {
                Some(LiveView { value, interval: Some((low, high)), .. }) => Some(format!("{value} ({low} to {high})")),
                Some(live) => Some(live.value.clone()),
                None => Some(NOT_HERE.into()),
            });
        }
    }
}

fn claims(text: &mut String, paper: &Reproduction) {
    for group in Group::all(paper) {
        let _ = writeln!(text, "\n## {}\n\n{}\n", group.title(), group.about());
        let (head, rule) = if group.is_live() { (" live |", " --- |") } else { ("", "") };
        let _ = writeln!(text, "| verdict | where | claim | why |{head}\n| --- | --- | --- | --- |{rule}");
        for claim in &group.claims {
            let [place, statement, why] = [&claim.place, &claim.statement, &claim.why].map(|words| escape(words));
            let _ = write!(text, "| {} | {place} | {statement} | {why} |", word(claim.verdict));
            if group.is_live() {
                let live = claim
                    .live
                    .as_ref()
                    .map_or_else(String::new, |live| format!("{}: {}", word(live.verdict), escape(&live.why)));
                let _ = write!(text, " {live} |");
            }
            text.push('\n');
        }
    }
}
