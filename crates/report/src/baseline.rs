//! A study beside an earlier one, in sentences, as a comment for a change's review, and as JUnit XML.

use crate::metric;
use crate::number::{self, moment};
use crate::words::shape_in_words;
use maud::{PreEscaped, html};
use study::baseline::{BaselineCell, BaselineComparison, LossFound};

/// What stands before every comparison of two studies.
const NOT_PAIRED: &str =
    "Runs of two studies aren't paired: what else changed in the meantime counts as the program's.";

/// How a cell is called.
fn name(cell: &BaselineCell) -> String {
    format!("{}, {}, {}", cell.subject, shape_in_words(cell.threads), cell.placement)
}

/// How much worse a cell is than before, with its interval.
fn loss(cell: &BaselineCell) -> Option<String> {
    let loss = cell.loss?;
    let (value, range) = number::loss(loss.value, Some((loss.low, loss.high)));
    Some(format!("{value} (95 % interval {range})"))
}

/// What is found of a limited loss, in words.
fn found(cell: &BaselineCell, max_percent: f64) -> String {
    match cell.found(max_percent) {
        LossFound::Exceeded => format!("more than the {max_percent} % allowed"),
        LossFound::Within => format!("within the {max_percent} % allowed"),
        LossFound::NotShown => format!("not shown to be more than the {max_percent} % allowed"),
        LossFound::TooFew => "too few runs to tell".into(),
    }
}

/// One sentence for each cell, then what is to be known of all.
pub fn baseline_sentences(comparison: &BaselineComparison, file: &str) -> Vec<String> {
    let sentence = |cell: &BaselineCell| {
        let figures =
            |value: Option<f64>| value.map_or_else(|| "none".into(), |value| metric::quantity(&cell.metric, value));
        let medians = format!("median {} then, {} now", figures(cell.baseline_median), figures(cell.median));
        let verdict = comparison.max_percent.map(|max| found(cell, max));
        let said: Vec<String> =
            [loss(cell).map(|loss| format!("loss {loss}")), verdict].into_iter().flatten().collect();
        let metric =
            if cell.metric == study::Metric::default() { String::new() } else { format!(" by {}", cell.metric.name) };
        match said.is_empty() {
            true => format!("{}{metric}: {medians}; too few runs to tell a difference.", name(cell)),
            false => format!("{}{metric}: {medians}; {}.", name(cell), said.join(", ")),
        }
    };
    let when = comparison.baseline_began_unix_s.map_or_else(String::new, |began| format!(" of {}", moment(began)));
    let differences = (!comparison.differences.is_empty())
        .then(|| format!("What else differs: {}.", comparison.differences.join("; ")));
    std::iter::once(format!("Against {file}{when}:"))
        .chain(comparison.cells.iter().map(sentence))
        .chain([NOT_PAIRED.to_owned()])
        .chain(differences)
        .collect()
}

/// A comment in Markdown for the review of a change: the verdict, then a row for each cell.
pub fn baseline_comment(comparison: &BaselineComparison, file: &str) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace('`', "\\`").replace('<', "&lt;");
    let title = match comparison.max_percent {
        _ if comparison.is_exceeded() => "more is lost than allowed",
        Some(_) => "no loss beyond the limit is shown",
        None => "beside the earlier study",
    };
    let mut text = format!("### Stayput: {title}\n\n");
    text.push_str(
        "| program | threads | under | by | then | now | loss (95 % interval) | |\n|---|---|---|---|---|---|---|---|\n",
    );
    for cell in &comparison.cells {
        let figure =
            |value: Option<f64>| value.map_or_else(|| "–".into(), |value| metric::quantity(&cell.metric, value));
        let row = [
            escaped(&cell.subject),
            cell.threads.to_string(),
            escaped(&cell.placement),
            escaped(&cell.metric.to_string()),
            escaped(&figure(cell.baseline_median)),
            escaped(&figure(cell.median)),
            loss(cell).map_or_else(|| "too few runs".into(), |loss| loss.replace("95 % interval ", "")),
            comparison.max_percent.map_or_else(String::new, |max| found(cell, max)),
        ];
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text.push_str(&format!("\nThen: `{}`. {NOT_PAIRED}", escaped(file)));
    if !comparison.differences.is_empty() {
        text.push_str(&format!(" What else differs: {}.", escaped(&comparison.differences.join("; "))));
    }
    text.push('\n');
    text
}

/// JUnit XML, a test case for each cell: one fails whose loss is shown to be more than allowed, and is skipped where too few runs tell.
pub fn baseline_junit(comparison: &BaselineComparison, file: &str) -> String {
    let of = |wanted: LossFound| {
        let max = comparison.max_percent;
        comparison.cells.iter().filter(|cell| max.is_some_and(|max| cell.found(max) == wanted)).count()
    };
    let (failures, skipped) = (of(LossFound::Exceeded), of(LossFound::TooFew));
    let sentences = baseline_sentences(comparison, file);
    let told = html! {
        testsuites {
            testsuite name="stayput" tests=(comparison.cells.len()) failures=(failures) errors="0" skipped=(skipped) {
                @for (cell, sentence) in comparison.cells.iter().zip(&sentences[1..]) {
                    @let found = comparison.max_percent.map(|max| cell.found(max));
                    testcase classname=(cell.subject) name=(format!("{}, {}", shape_in_words(cell.threads), cell.placement)) {
                        @match found {
                            Some(LossFound::Exceeded) => failure message=(sentence) type="loss" { (sentence) },
                            Some(LossFound::TooFew) => skipped message=(sentence) {},
                            _ => system-out { (sentence) },
                        }
                    }
                }
            }
        }
    };
    let PreEscaped(xml) = html! { (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")) (told) };
    xml + "\n"
}
