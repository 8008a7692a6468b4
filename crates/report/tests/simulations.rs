//! Simulations in every form: the answer, the table, the charts, and the JSON that programs rely on.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

mod fixture;

use scraper::{Html, Selector};
use serde_json::Value;
use stayput_report as report;

fn terminal(study: &fixture::Study) -> String {
    report::terminal(&study.record, &study.analysis, 120, false)
}

#[test]
fn the_answer_comes_first_and_the_limits_last() {
    let text = terminal(&fixture::simulation());
    assert!(text.starts_with("Matrix+Oracle: light removes "), "{text}");
    let place = |words: &str| text.find(words).unwrap_or_else(|| panic!("no `{words}` in\n{text}"));
    let order =
        ["misses, thousands", "execution time, s", "Jain's fairness index", "Simulated: Matrix+Oracle on sgi-4d340"];
    assert!(
        order.windows(2).all(|pair| place(pair[0]) < place(pair[1])) && place(order[3]) < place("The model's limits:")
    );
}

#[test]
fn changes_are_told_of_rivals_only() {
    let study = fixture::simulation();
    let text = terminal(&study);
    let misses = &study.analysis.simulated[0].policies[1].changes["misses"];
    let mut rows = text.lines().skip_while(|line| !line.trim_start().starts_with("misses, thousands"));
    let row = rows.find(|line| line.trim_start().starts_with("change")).unwrap();
    let told: Vec<&str> = row.split_whitespace().filter(|word| *word != "%*" && *word != "%").collect();
    let decimals = usize::from(misses.high.unwrap() - misses.low.unwrap() < 2.0);
    assert_eq!(&told[..3], ["change", "-", &format!("{:.decimals$}", misses.value)], "{row}");
}

#[test]
fn a_sweep_is_a_row_a_point_and_a_chart() {
    let study = fixture::sweep();
    let text = terminal(&study);
    assert!(text.starts_with("Matrix+Oracle: over phi from 0 to 8, affinity removes most misses at "), "{text}");
    for phi in ["0", "4", "8"] {
        assert!(text.lines().any(|line| line.split_whitespace().next() == Some(phi) && line.contains('%')), "{phi}");
    }
    let page = Html::parse_document(&report::html(&study.record, &study.analysis));
    let chart = Selector::parse("#sweep svg title").unwrap();
    let titles: Vec<String> = page.select(&chart).map(|title| title.text().collect()).collect();
    assert!(titles.iter().any(|title| title == "affinity: misses and time over phi"), "{titles:?}");
    assert_eq!(titles.iter().filter(|title| title.starts_with("misses at ")).count(), 3);
    assert_eq!(titles.iter().filter(|title| title.starts_with("time at ")).count(), 3);
}

#[test]
fn the_page_draws_slices_and_intervals_of_every_policy() {
    let study = fixture::simulation();
    let page = Html::parse_document(&report::html(&study.record, &study.analysis));
    let titles = |section: &str| -> Vec<String> {
        let marks = Selector::parse(&format!("{section} svg rect title")).unwrap();
        page.select(&marks).map(|title| title.text().collect()).collect()
    };
    let (slices, intervals) = (titles("#slices"), titles("#intervals"));
    for result in &study.analysis.simulated[0].policies {
        for (titles, bins) in [(&slices, &result.slices), (&intervals, &result.intervals)] {
            let bars = bins.iter().filter(|bin| bin.count > 0.0).count();
            let drawn = titles.iter().filter(|title| title.starts_with(&format!("{}, ", result.policy))).count();
            assert!(bars > 0 && drawn == bars, "{}", result.policy);
        }
    }
    let rows = Selector::parse("#intervals > .scroll tbody tr").unwrap();
    assert_eq!(page.select(&rows).count(), 3 * 2, "each policy's jobs, and why their intervals end");
}

#[test]
fn the_json_contract_holds() {
    let study = fixture::simulation();
    let told: Value = serde_json::from_str(&report::json(&study.record, &study.analysis)).unwrap();
    assert_eq!(told["machine"]["name"], "sgi-4d340");
    assert_eq!(told["workload"]["name"], "Matrix+Oracle");
    assert_eq!(told["parameters"]["quantum_ms"], 30.0);
    let policies = told["policies"].as_array().unwrap();
    let names: Vec<&str> = policies.iter().map(|policy| policy["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["standard", "light", "attached"]);
    for policy in policies {
        for key in [
            "misses",
            "makespan_ms",
            "mean_completion_ms",
            "migrations",
            "dispatches",
            "idle_fraction",
            "effective_slice_median_ms",
            "effective_slice_mean_ms",
            "jain_index",
            "longest_wait_ms",
        ] {
            let [value, low, high] = ["", "_low", "_high"].map(|end| policy[format!("{key}{end}")].as_f64().unwrap());
            assert!(low <= value + 1e-9 && value <= high + 1e-9, "{key}: {low} {value} {high}");
        }
        for key in ["misses_change_percent", "makespan_change_percent", "mean_completion_change_percent"] {
            assert_eq!(policy[key].is_number(), policy["policy"] != "standard", "{key}");
        }
        let causes = &policy["misses_by_cause"];
        let sum: f64 = ["reload", "steady", "invalidation"].iter().map(|cause| causes[*cause].as_f64().unwrap()).sum();
        assert!((sum / policy["misses"].as_f64().unwrap() - 1.0).abs() < 1e-9);
        let bins = policy["effective_slice_histogram"].as_array().unwrap();
        let counted: f64 = bins.iter().map(|bin| bin["count"].as_f64().unwrap()).sum();
        assert!((counted - policy["effective_slices"].as_f64().unwrap()).abs() < 1e-6);
        assert_eq!(policy["jobs"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn the_json_of_a_sweep_lists_its_points() {
    let study = fixture::sweep();
    let told: Value = serde_json::from_str(&report::json(&study.record, &study.analysis)).unwrap();
    assert_eq!(told["sweep"], "phi");
    let points = told["points"].as_array().unwrap();
    let values: Vec<f64> = points.iter().map(|point| point["value"].as_f64().unwrap()).collect();
    assert_eq!(values, [0.0, 4.0, 8.0]);
    assert!(points.iter().all(|point| point["parameters"]["phi_t"] == point["value"].as_f64().unwrap() as u64));
    let at_zero = &points[0]["policies"][1];
    assert_eq!((at_zero["policy"].as_str(), at_zero["misses_change_percent"].as_f64()), (Some("affinity"), Some(0.0)));
}

#[test]
fn csv_has_a_row_a_replicate_and_a_column_a_metric() {
    let study = fixture::sweep();
    let text = report::csv(&study.record, &study.analysis);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("workload,phi,policy,replicate,") && lines[0].contains(",misses_reload,"),
        "{}",
        lines[0]
    );
    assert_eq!(lines.len(), 1 + 3 * 2 * 6);
    assert!(lines[1].starts_with("Matrix+Oracle,0,standard,0,"), "{}", lines[1]);
}
