//! Plays in every form: the answer, both worlds side by side, and the JSON that programs rely on.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

mod fixture;

use scraper::{Html, Selector};
use serde_json::Value;
use stayput_report as report;

#[test]
fn plays_as_text() {
    let study = fixture::plays();
    insta::assert_snapshot!("terminal", report::terminal(&study.record, &study.analysis, 100, false));
    insta::assert_snapshot!("markdown", report::markdown(&study.record, &study.analysis));
    insta::assert_snapshot!("latex", report::latex(&study.record, &study.analysis));
}

#[test]
fn json_has_every_figure_of_both_worlds() {
    let study = fixture::plays();
    let told: Value = serde_json::from_str(&report::json(&study.record, &study.analysis)).unwrap();
    assert_eq!((&told["kernel"]["release"], &told["kernel"]["place"]), (&"7.3.4".into(), &"vm:2x4".into()));
    let policy = |name: &str| told["policies"].as_array().unwrap().iter().find(|p| p["policy"] == name).unwrap();
    let ratio = policy("standard")["metrics"]["migrations_per_s"]["ratio"].as_f64().unwrap();
    assert!((ratio - 1.1).abs() < 1e-9, "{ratio}");
    assert_eq!((&policy("eevdf")["plays"], &policy("eevdf")["failed"]), (&2.into(), &1.into()));
    assert_eq!(policy("eevdf")["simulated_by"], "per-cpu");
    let llc = &policy("eevdf-llc")["metrics"]["migrations_per_s"];
    assert!(policy("eevdf-llc")["simulated_by"].is_null() && llc["simulator"].is_null() && llc["ratio"].is_null());
    assert!(llc["kernel"].is_number());
    let agreement = &told["agreements"][0];
    assert_eq!((&agreement["metric"], &agreement["beyond"]), (&"migrations_per_s".into(), &vec!["light"].into()));
    assert_eq!(agreement["pairs"], agreement["same_order"]);
}

#[test]
fn csv_has_a_row_for_each_play_and_each_replicate() {
    let study = fixture::plays();
    let text = report::csv(&study.record, &study.analysis);
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let heads = rows.headers().unwrap().clone();
    let column = |name: &str| heads.iter().position(|head| head == name).unwrap();
    let rows: Vec<csv::StringRecord> = rows.records().collect::<Result<_, _>>().unwrap();
    let worlds = |world: &str| rows.iter().filter(|row| &row[column("world")] == world).count();
    assert_eq!((worlds("kernel"), worlds("simulator")), (15, 12));
    let failed: Vec<_> = rows.iter().filter(|row| &row[column("status")] != "ok").collect();
    assert_eq!(failed.len(), 1);
    assert_eq!((&failed[0][column("policy")], &failed[0][column("migrations")]), ("eevdf", ""));
}

#[test]
fn the_page_marks_where_the_worlds_part_and_draws_both() {
    let study = fixture::plays();
    let page = Html::parse_document(&report::html(&study.record, &study.analysis));
    let texts = |selector: &str| -> Vec<String> {
        page.select(&Selector::parse(selector).unwrap()).map(|found| found.text().collect::<String>()).collect()
    };
    assert_eq!(texts("#worlds td.claimed").len(), 1, "light alone has other migrations");
    let rows = texts("#slices svg text");
    assert!(["light", "light, simulated"].iter().all(|row| rows.iter().any(|text| text == row)), "{rows:?}");
    assert_eq!(texts("#agreement figure").len(), texts("#agreement svg").len());
    assert!(
        texts(".notice li").iter().any(|text| text.contains("1 of 3 plays under eevdf failed: exit code 1: process 7"))
    );
}
