//! Replays in every form: the answer, both worlds side by side, and the JSON that programs rely on.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

mod fixture;

use scraper::{Html, Selector};
use stayput_report::Format;

#[test]
fn replays_as_text() {
    let study = fixture::replays();
    insta::assert_snapshot!("terminal", study.terminal(100));
    insta::assert_snapshot!("markdown", study.write(Format::Markdown));
    insta::assert_snapshot!("latex", study.write(Format::Latex));
}

#[test]
fn json_has_every_figure_of_both_worlds() {
    let study = fixture::replays();
    let told = study.json();
    assert_eq!((&told["kernel"]["release"], &told["kernel"]["place"]), (&"7.3.4".into(), &"vm:2x4".into()));
    let policy = |name: &str| told["policies"].as_array().unwrap().iter().find(|p| p["policy"] == name).unwrap();
    let ratio = policy("standard")["metrics"]["migrations_per_s"]["ratio"].as_f64().unwrap();
    assert!((ratio - 1.1).abs() < 1e-9, "{ratio}");
    assert_eq!((&policy("eevdf")["replays"], &policy("eevdf")["failed"]), (&2.into(), &1.into()));
    assert_eq!(policy("eevdf")["simulated_by"], "per-cpu");
    let llc = &policy("eevdf-llc")["metrics"]["migrations_per_s"];
    assert!(policy("eevdf-llc")["simulated_by"].is_null() && llc["simulator"].is_null() && llc["ratio"].is_null());
    assert!(llc["kernel"].is_number());
    let agreement = &told["agreements"][0];
    assert_eq!((&agreement["metric"], &agreement["beyond"]), (&"migrations_per_s".into(), &vec!["light"].into()));
    assert_eq!(agreement["pairs"], agreement["same_order"]);
    let finding = &told["findings"]["verdicts"][0];
    assert_eq!(finding["agreements"][0]["metric"], "migrations_per_s");
    assert!(["best", "summaries"].iter().all(|key| told.get(key).is_none()), "there are no cells");
}

#[test]
fn csv_has_a_row_for_each_replay_and_each_replicate() {
    let study = fixture::replays();
    let text = study.write(Format::Csv);
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
    let study = fixture::replays();
    let page = Html::parse_document(&study.write(Format::Html));
    let texts = |selector: &str| -> Vec<String> {
        page.select(&Selector::parse(selector).unwrap()).map(|found| found.text().collect::<String>()).collect()
    };
    assert_eq!(texts("#worlds td.claimed").len(), 1, "light alone has other migrations");
    let rows = texts("#slices svg text");
    assert!(["light", "light, simulated"].iter().all(|row| rows.iter().any(|text| text == row)), "{rows:?}");
    assert_eq!(texts("#agreement figure").len(), texts("#agreement svg").len());
    assert!(
        texts(".notice li")
            .iter()
            .any(|text| text.contains("1 of 3 replays under eevdf failed: exit code 1: process 7"))
    );
}
