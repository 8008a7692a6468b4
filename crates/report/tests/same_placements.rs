//! Treatments that are the very same placement: they are run once, and every form says one thing of them, under both names.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

mod fixture;

use fixture::{Fixture, Reported};
use scraper::{Html, Selector};
use serde_json::{Value, json};
use stayput_report::Format;

/// The words of each line, parted by one space.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Texts of the elements that a selector finds on the page, their words parted by one space.
fn on_page<K: Reported>(study: &Fixture<K>, selector: &str) -> Vec<String> {
    let page = Html::parse_document(&study.write(Format::Html));
    let selector = Selector::parse(selector).unwrap();
    let text = |element: scraper::ElementRef| element.text().collect::<Vec<_>>().join(" ");
    page.select(&selector).map(|element| lines(&text(element).replace('\n', " ")).concat()).collect()
}

#[test]
fn one_sentence_names_both() {
    let study = fixture::one_placement_of_two_names();
    let json = study.json();
    let verdicts: Vec<&str> = json["verdicts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(verdicts.len(), 3, "the answer, and one for each thread count: {verdicts:?}");
    for (verdict, threads) in verdicts[1..].iter().zip(["1 thread", "2 threads"]) {
        assert!(verdict.starts_with(&format!("./app, {threads}: compact is 1.2")), "{verdict}");
        assert!(verdict.ends_with(" pairs); scatter is the very same placement here."), "{verdict}");
    }
    let found = json["findings"]["verdicts"][0]["placements"].as_array().unwrap();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|verdict| verdict["placement"] == "compact" && verdict["also"] == json!(["scatter"])));
}

#[test]
fn programs_find_it_once_and_under_both_names() {
    let study = fixture::one_placement_of_two_names();
    let json = study.json();
    let placements = |list: &str| -> Vec<Value> {
        json[list].as_array().unwrap().iter().map(|element| element["placement"].clone()).collect()
    };
    assert_eq!(placements("summaries"), ["unbound", "compact", "unbound", "compact"]);
    assert!(!placements("trials").contains(&"scatter".into()));
    assert_eq!(json["summaries"][1]["also"], json!(["scatter"]));
    let same = |threads: u32| json!({ "threads": threads, "treatment": "compact" });
    assert_eq!(json["plan"]["treatments"][2]["same_as"], json!([same(1), same(2)]));
    assert!(!study.write(Format::Csv).contains("scatter"), "it has no trials");
}

#[test]
fn the_table_says_which_other_it_is_instead_of_figures() {
    let study = fixture::one_placement_of_two_names();
    let terminal = lines(&study.terminal(100));
    assert!(terminal.contains(&"scatter = compact = compact".into()), "{terminal:?}");
    let rows = |start: &str| terminal.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!((rows("scatter "), rows("ratio compact "), rows("compact ")), (1, 1, 2), "{terminal:?}");
    let markdown = study.write(Format::Markdown);
    assert!(markdown.contains("|  |  | scatter | = compact | = compact |\n"), "{markdown}");
    assert_eq!(markdown.matches("| scatter |").count(), 1, "{markdown}");
    let latex = study.write(Format::Latex);
    assert!(latex.contains("& scatter & = compact & = compact \\\\\n"), "{latex}");
    assert_eq!(latex.matches("& scatter &").count(), 1, "{latex}");
    let rows = on_page(&study, "#table table.paper tbody tr");
    let scatter: Vec<&String> = rows.iter().filter(|row| row.contains("scatter")).collect();
    assert_eq!(scatter.len(), 1, "{rows:?}");
    assert!(scatter[0].ends_with("scatter time, s = compact = compact"), "{scatter:?}");
}

#[test]
fn the_page_draws_it_once_under_both_names() {
    let study = fixture::one_placement_of_two_names();
    let ratios = on_page(&study, "#ratios svg title");
    let of_both = |title: &&String| title.starts_with("compact = scatter, ") && title.ends_with("faster than unbound");
    assert_eq!(ratios.iter().filter(of_both).count(), 2, "{ratios:?}");
    let strips = on_page(&study, "#distributions svg text");
    assert_eq!(strips.iter().filter(|text| *text == "compact = scatter").count(), 2, "{strips:?}");
    let curves = on_page(&study, "#speedup svg text");
    assert_eq!(curves.iter().filter(|text| text.contains("scatter")).collect::<Vec<_>>(), ["compact = scatter"]);
    for legend in on_page(&study, "ul.legend") {
        assert!(legend.contains("compact = scatter") && legend.matches("scatter").count() == 1, "{legend}");
    }
    let pictures = on_page(&study, "#placements figcaption");
    assert_eq!(pictures.len(), 2);
    for (picture, threads) in pictures.iter().zip(["1 thread", "2 threads"]) {
        assert!(picture.contains("compact and") && picture.ends_with(&format!("scatter, {threads}")), "{picture}");
    }
    let cpus = on_page(&study, "#cpus tbody td:first-child");
    assert_eq!(cpus, ["unbound", "compact = scatter", "compact = scatter"]);
}

#[test]
fn where_it_differs_with_other_threads_it_has_figures_there() {
    let study = fixture::same_with_one_thread();
    let verdicts = study.json()["verdicts"].clone();
    assert_eq!(verdicts.as_array().unwrap().len(), 4, "{verdicts}");
    assert!(verdicts[1].as_str().unwrap().ends_with("; scatter is the very same placement here."), "{verdicts}");
    assert!(verdicts[3].as_str().unwrap().starts_with("./app, 4 threads: scatter is 1.2"), "{verdicts}");
    let terminal = lines(&study.terminal(100));
    let marked: Vec<&String> = terminal.iter().filter(|line| line.starts_with("scatter = compact 0.")).collect();
    assert_eq!(marked.len(), 2, "its time, and its ratio: {terminal:?}");
    assert!(terminal.iter().any(|line| line.starts_with("scatter = compact 3.")), "its speed-up: {terminal:?}");
    let points = on_page(&study, "#speedup svg title");
    for point in ["compact, 1 thread: 1.2", "scatter, 1 thread: 1.2", "scatter, 4 threads: 3."] {
        assert_eq!(points.iter().filter(|title| title.starts_with(point)).count(), 1, "{point} in {points:?}");
    }
}

#[test]
fn beside_the_reference_nothing_is_compared_with_itself() {
    let mut study = fixture::one_placement_of_two_names();
    study.record.plan.plan.treatments.remove(0);
    study.record.trials.retain(|trial| trial.placement != "unbound");
    let json = Fixture::new(study.record).json();
    let same = |threads: &str| format!("./app, {threads}: scatter is the very same placement as compact here.");
    assert_eq!(json["verdicts"].as_array().unwrap()[1..], [same("1 thread"), same("2 threads")].map(Value::from));
    let found = &json["findings"]["verdicts"][0]["same_as_reference"];
    assert_eq!(found[1], json!({ "threads": 2, "placement": "scatter" }));
}

#[test]
fn a_papers_row_of_either_name_stands_beside_what_was_run_for_both() {
    let mut study = fixture::one_placement_of_two_names();
    let plan = &mut study.record.plan.plan;
    plan.paper = Some("pires-2016".into());
    plan.subjects[0].name = "npb:cg.B".into();
    study.record.trials.iter_mut().for_each(|trial| trial.subject = "npb:cg.B".into());
    let json = Fixture::new(study.record).json();
    let tables = json["paper"]["tables"].as_array().unwrap();
    let rows = || tables.iter().flat_map(|table| table["rows"].as_array().unwrap());
    // Table 1 has a row of compact only, Table 2 of scatter.
    let ours = |placement: &str, quantity: &str, figure: &str| {
        let words = ["CG", placement, quantity].map(Value::from);
        let row = rows().find(|row| [&row["benchmark"], &row["placement"], &row["quantity"]] == words.each_ref());
        row.unwrap()[figure].clone()
    };
    for (quantity, figure) in [("time", "ours"), ("ratio", "ours_low"), ("speed-up", "ours")] {
        let scatter = ours("scatter", quantity, figure);
        assert!(scatter[1].is_f64() && scatter == ours("compact", quantity, figure), "{quantity}: {scatter}");
    }
}

#[test]
fn a_ranking_names_both() {
    let mut study = fixture::race();
    let best = study.analysis.cells.summaries.iter_mut().find(|summary| summary.placement == "scatter").unwrap();
    best.also.push("balanced".into());
    let ranking = lines(&study.terminal(100));
    assert!(ranking.iter().any(|line| line.starts_with("1 scatter = balanced 9 ")), "{ranking:?}");
    for form in [Format::Markdown, Format::Latex] {
        assert_eq!(study.write(form).matches("scatter = balanced").count(), 1, "{form:?}");
    }
    assert!(on_page(&study, "#ranking-0 tbody tr")[0].contains("scatter = balanced"));
}
