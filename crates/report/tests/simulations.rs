//! Simulations in every form: the answer, the table, the charts, and the JSON that programs rely on.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

mod fixture;

use fixture::{Fixture, Reported};
use scraper::{Html, Selector};
use simulation::metrics::{MISSES, RESPONSE};
use simulation::{Estimated, affinity_matters_from};
use stayput_report::{Format, sentences};

fn terminal<K: Reported>(study: &Fixture<K>) -> String {
    study.terminal(120)
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
    let misses = &study.analysis.points[0].policies[1].changes[&MISSES];
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
    let page = Html::parse_document(&study.write(Format::Html));
    let chart = Selector::parse("#sweep svg title").unwrap();
    let titles: Vec<String> = page.select(&chart).map(|title| title.text().collect()).collect();
    assert!(titles.iter().any(|title| title == "affinity: misses and time over phi"), "{titles:?}");
    assert_eq!(titles.iter().filter(|title| title.starts_with("misses at ")).count(), 3);
    assert_eq!(titles.iter().filter(|title| title.starts_with("time at ")).count(), 3);
}

#[test]
fn the_page_draws_slices_and_intervals_of_every_policy() {
    let study = fixture::simulation();
    let page = Html::parse_document(&study.write(Format::Html));
    let titles = |section: &str| -> Vec<String> {
        let marks = Selector::parse(&format!("{section} svg rect title")).unwrap();
        page.select(&marks).map(|title| title.text().collect()).collect()
    };
    let (slices, intervals) = (titles("#slices"), titles("#intervals"));
    for result in &study.analysis.points[0].policies {
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
    let told = study.json();
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
    let told = study.json();
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
    let text = study.write(Format::Csv);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("workload,phi,policy,replicate,") && lines[0].contains(",misses_reload,"),
        "{}",
        lines[0]
    );
    assert_eq!(lines.len(), 1 + 3 * 2 * 6);
    assert!(lines[1].starts_with("Matrix+Oracle,0,standard,0,"), "{}", lines[1]);
}

/// The text of the elements that a selector finds on a study's page, no-break spaces as ordinary ones.
fn on_page<K: Reported>(study: &Fixture<K>, selector: &str) -> Vec<String> {
    let page = Html::parse_document(&study.write(Format::Html));
    let selector = Selector::parse(selector).unwrap();
    page.select(&selector).map(|element| element.text().collect::<String>().replace('\u{a0}', " ")).collect()
}

const ALLOCATORS: [&str; 3] = ["equipartition", "dynamic", "dynamic-affinity"];

#[test]
fn space_sharing_is_told_by_policy_with_the_answer_first() {
    let study = fixture::space();
    for width in [80, 120] {
        let text = study.terminal(width);
        let start = "2*wave+steps: under dynamic ";
        assert!(text.starts_with(start), "{text}");
        let place = |words: &str| text.find(words).unwrap_or_else(|| panic!("no `{words}` at {width} in\n{text}"));
        let order = [
            "Affinity",
            "mean response time, s",
            "wave, s",
            "steps</b>",
            "brings back cached lines for, %",
            "CPU time from move to move, ms",
            "Change: against equipartition",
            "The model's limits:",
        ];
        assert!(order.windows(2).all(|pair| place(pair[0]) < place(pair[1])), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
    let heads = terminal(&study);
    assert!(heads.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == ALLOCATORS), "{heads}");
}

#[test]
fn several_mixes_are_a_row_each_with_their_kinds_of_job_below() {
    let study = fixture::space_mixes();
    let text = terminal(&study);
    assert!(text.starts_with("Under dynamic, ") && text.contains(" kinds of job in 2 mixes answer sooner"), "{text}");
    assert!(text.contains("by mix and kind of job: change of response time:"), "{text}");
    assert!(text.contains("Simulated: 2 mixes on sgi-4d340, 4 CPUs, 6 replicates"), "{text}");
    let [mixed, alone] = study.analysis.points.as_slice() else { panic!("two mixes") };
    let told = study.json();
    let mixes = told["mixes"].as_array().unwrap();
    assert!(told.get("policies").is_none() && told.get("points").is_none(), "one list");
    for (mix, point, kinds) in [(&mixes[0], mixed, 2), (&mixes[1], alone, 1)] {
        assert_eq!(mix["mix"]["name"], point.subject.as_str());
        for (policy, result) in mix["policies"].as_array().unwrap().iter().zip(&point.policies) {
            assert_eq!(policy["policy"], result.policy.as_str());
            assert_eq!(policy["response_ms"].as_f64(), result.value(&RESPONSE));
            assert_eq!(policy["jobs"].as_array().unwrap().len(), kinds, "of this mix alone");
        }
    }
    let charts = on_page(&study, "#responses svg > title");
    assert_eq!(charts.len(), 2, "{charts:?}");
    let hovers = on_page(&study, "#responses svg title");
    for (kind, times) in [("wave under dynamic: ", 2), ("<b>steps</b> | $x_1$ #& under dynamic-affinity: ", 1)] {
        assert_eq!(hovers.iter().filter(|hover| hover.starts_with(kind)).count(), times, "{kind} in {hovers:?}");
    }
}

#[test]
fn a_sweep_of_space_sharing_says_and_marks_where_affinity_begins_to_matter() {
    let study = fixture::space_sweep();
    let from = affinity_matters_from(&study.analysis.points).expect("reloads get ever dearer");
    let text = terminal(&study);
    assert!(text.starts_with("wave+steps, over future from 1 to 10000: affinity "), "{text}");
    let heads = "dynamic-affinity against dynamic";
    assert!(heads.split(' ').all(|word| text.contains(word)) && text.contains("reloads under dynamic, %"), "{text}");
    for future in ["1", "100", "10000"] {
        let row = |line: &&str| line.split_whitespace().next() == Some(future) && line.contains('%');
        assert!(text.lines().any(|line| row(&line)), "{future} in {text}");
    }
    let words = on_page(&study, "#sweep p b");
    assert!(words[0].starts_with(&format!("From future {from} on affinity matters: ")), "{words:?}");
    let svgs = on_page(&study, "#sweep svg");
    assert_eq!(svgs.len(), 2, "against equipartition, and what affinity adds");
    assert!(svgs.iter().all(|svg| svg.contains("affinity matters \u{2192}")), "the point is marked: {svgs:?}");
    assert!(svgs[0].contains("dynamic") && svgs[1].contains("dynamic-affinity"), "{svgs:?}");
    let told = study.json();
    assert_eq!((&told["sweep"], &told["mix"]["name"]), (&"future".into(), &"wave+steps".into()));
    let points = told["points"].as_array().unwrap();
    let speeds: Vec<f64> = points.iter().map(|point| point["parameters"]["speed"].as_f64().unwrap()).collect();
    assert_eq!(speeds, [1.0, 10.0, 100.0]);
}

#[test]
fn a_sweep_in_which_affinity_matters_nowhere_or_not_for_good_says_so() {
    let mut study = fixture::space_sweep();
    let mut put = |changes: [f64; 3]| {
        for (point, percent) in study.analysis.points.iter_mut().zip(changes) {
            let change = Estimated { value: percent, low: Some(percent - 0.1), high: Some(percent + 0.1) };
            let affinity = point.policies.iter_mut().find(|result| result.policy == "dynamic-affinity").unwrap();
            affinity.affinity_changes.insert(RESPONSE, change);
        }
        (on_page(&study, "#sweep p b")[0].clone(), on_page(&study, "header p.figure")[0].clone())
    };
    let (words, figure) = put([-0.5, 0.0, -0.2]);
    assert!(words.starts_with("Affinity matters nowhere here: "), "{words}");
    assert_eq!(figure, "Nowhere");
    let (words, figure) = put([-0.5, -3.0, -0.2]);
    assert!(words.starts_with("Affinity matters at future 100, but not from any point on: "), "{words}");
    assert_eq!(figure, "Not for good");
}

#[test]
fn the_json_contract_of_space_sharing_holds() {
    let study = fixture::space();
    let told = study.json();
    assert_eq!(told["mix"]["name"], "2*wave+steps");
    assert_eq!(told["mix"]["kinds"][0]["count"], 2);
    assert_eq!(told["parameters"]["history"], 2);
    assert!(told.get("workload").is_none(), "a mix is no workload");
    for policy in told["policies"].as_array().unwrap() {
        let name = policy["policy"].as_str().unwrap();
        for key in [
            "response_ms",
            "makespan_ms",
            "allocation_mean_cpus",
            "reallocations",
            "moves",
            "moves_voluntary",
            "moves_forced",
            "moves_within",
            "work_ms",
            "idle_held_ms",
            "switch_ms",
            "reload_ms",
            "reload_fraction",
        ] {
            let [value, low, high] = ["", "_low", "_high"].map(|end| policy[format!("{key}{end}")].as_f64().unwrap());
            assert!(low <= value + 1e-9 && value <= high + 1e-9, "{name}: {key} {low} {value} {high}");
        }
        assert_eq!(policy["response_change_percent"].is_number(), name != "equipartition");
        assert_eq!(policy["response_change_by_affinity_percent"].is_number(), name == "dynamic-affinity");
        assert!(policy.get("effective_slice_histogram").is_none(), "nobody takes turns");
        let jobs: Vec<&str> =
            policy["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap()).collect();
        assert_eq!(jobs, ["wave", "<b>steps</b> | $x_1$ #&"]);
    }
}

#[test]
fn csv_of_space_sharing_has_a_row_a_replicate_of_each_mix_or_point() {
    let (mixes, sweep) = (fixture::space_mixes(), fixture::space_sweep());
    for (study, start) in [(&mixes, "workload,policy,replicate,"), (&sweep, "workload,future,policy,replicate,")] {
        let text = study.write(Format::Csv);
        let rows: Vec<&str> = text.lines().collect();
        let subjects = study.record.plan.points.len();
        assert_eq!(rows.len(), 1 + subjects * 3 * 6);
        assert!(rows[0].starts_with(start) && rows[0].contains(",response_ms:wave,"), "{}", rows[0]);
    }
    let text = sweep.write(Format::Csv);
    assert!(text.lines().nth(1).unwrap().starts_with("wave+steps,1,equipartition,0,"), "{text}");
}

#[test]
fn hostile_names_of_jobs_and_mixes_stay_text_in_markdown_and_latex() {
    for study in [fixture::space(), fixture::space_mixes()] {
        let markdown = study.write(Format::Markdown);
        assert!(!markdown.contains("<b>") && !markdown.contains("<i>"), "{markdown}");
        assert!(markdown.contains(r"&lt;b>steps&lt;/b> \| \$x\_1\$ \#&amp;"), "{markdown}");
        let cells = |line: &str| line.replace(r"\|", "").matches('|').count();
        let table: Vec<&str> = markdown.lines().filter(|line| line.starts_with('|')).collect();
        assert!(table.len() > 2 && table.iter().all(|row| cells(row) == cells(table[0])), "{markdown}");
        let latex = study.write(Format::Latex);
        let body = latex.split_once("\\begin{table}").unwrap().1;
        assert!(body.contains(r"\textless{}b\textgreater{}steps"), "{latex}");
        assert!(!body.contains("\\input{x}"), "{latex}");
        let columns = |row: &str| row.replace(r"\&", "").matches('&').count();
        let rows: Vec<&str> = body.lines().filter(|line| line.ends_with(r" \\")).collect();
        assert!(rows.len() > 2 && rows.iter().all(|row| columns(row) == columns(rows[0])), "{latex}");
    }
}

#[test]
fn the_page_of_space_sharing_needs_no_script() {
    for (name, study) in
        [("one", fixture::space()), ("mixes", fixture::space_mixes()), ("sweep", fixture::space_sweep())]
    {
        let whole = study.write(Format::Html);
        let page = Html::parse_document(&whole);
        assert_eq!(page.errors, Vec::<std::borrow::Cow<str>>::new(), "{name}");
        assert_eq!(
            page.select(&Selector::parse("b b, i, script").unwrap()).count(),
            2,
            "{name}: data and our own script"
        );
        // All that is told stands in the document itself.
        let answer = on_page(&study, "header").concat();
        // The first sentence begins with a capital, and without the name that stands above it.
        let told = |verdict: &String| {
            let sentence = verdict.strip_prefix("2*wave+steps: ").unwrap_or(verdict);
            answer.to_lowercase().contains(&sentence.to_lowercase())
        };
        assert!(sentences::simulation_verdicts(&study.analysis).iter().all(told), "{name}: {answer}");
        assert!(page.select(&Selector::parse("section svg.chart").unwrap()).next().is_some(), "{name}: a chart");
    }
}
