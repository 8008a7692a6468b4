//! Papers beside ours, in every form.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

#[path = "fixture/reproduction.rs"]
mod fixture;

use papers::reproduction::{LiveStudies, LiveStudy, LiveVerdict, ReproducedCell, Verdict};
use papers::{Paper, Reproduction, placement};
use scraper::{ElementRef, Html, Selector};
use serde_json::Value;
use simulation::Estimated;
use stayput_report::reproduction as report;
use std::collections::BTreeSet;
use study::record::Ending;

fn papers() -> Vec<Reproduction> {
    vec![fixture::paper(), fixture::empty()]
}

fn page(papers: &[Reproduction]) -> (String, Html) {
    let source = report::html(papers);
    let page = Html::parse_document(&source);
    (source, page)
}

fn select<'a>(page: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    page.select(&Selector::parse(selector).unwrap()).collect()
}

/// The text of an element, its parts parted by one space.
fn text(element: &ElementRef) -> String {
    element.text().flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[test]
fn terminal_of_a_paper() {
    insta::assert_snapshot!(report::terminal(&[fixture::paper()], 100, false));
}

#[test]
fn terminal_of_a_paper_in_few_columns() {
    insta::assert_snapshot!(report::terminal(&[fixture::paper()], 50, false));
}

#[test]
fn markdown_of_a_paper() {
    insta::assert_snapshot!(report::markdown(&[fixture::paper()]));
}

#[test]
fn csv_of_a_paper() {
    insta::assert_snapshot!(report::csv(&[fixture::paper()]));
}

#[test]
fn json_of_a_paper() {
    insta::assert_snapshot!(report::json(&[fixture::paper()]));
}

#[test]
fn html_of_a_paper() {
    let (_, page) = page(&[fixture::paper()]);
    let parts = ["header p", "nav a", "section h2", "section tr", "section > p", "figcaption", "dl > *"];
    let told: Vec<String> = parts
        .iter()
        .map(|part| format!("{part}:\n{}", select(&page, part).iter().map(text).collect::<Vec<_>>().join("\n")))
        .collect();
    insta::assert_snapshot!(told.join("\n\n"));
}

#[test]
fn only_the_terminals_colours_tell_more_with_colour() {
    let (plain, coloured) = (report::terminal(&papers(), 100, false), report::terminal(&papers(), 100, true));
    assert!(!plain.contains('\u{1b}'), "no control character of a name reaches the terminal");
    let mut stripped = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        stripped.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    stripped.push_str(rest);
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&stripped), words(&plain));
    // The eight bright colours are numbers 8 to 15 of the terminal's palette.
    for (colour, word) in [(10, "holds"), (9, "fails"), (11, "undecidable"), (10, "+1.0"), (9, "+4.5*")] {
        let painted =
            |part: &str| part.strip_prefix(&format!("38;5;{colour}m")).is_some_and(|told| told.trim() == word);
        assert!(coloured.split("\u{1b}[").any(painted), "{word} in colour {colour}");
    }
}

#[test]
fn the_terminal_keeps_its_width_and_every_number() {
    for width in [40, 60, 80, 100, 200] {
        let told = report::terminal(&[fixture::paper()], width, false);
        let widest = told.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width.max(48), "{widest} columns of {width}:\n{told}");
        for number in ["-36", "-35.0±1.3", "+1.0", "-10", "-14.0±2.0", "-4.0", "+4.5*", "0.24", "12.00"] {
            assert!(told.split_whitespace().any(|word| word == number), "{number} at {width}:\n{told}");
        }
    }
}

#[test]
fn the_page_nests_rightly_and_its_links_lead_somewhere() {
    let (_, page) = page(&papers());
    assert_eq!(page.errors, Vec::<std::borrow::Cow<str>>::new());
    let ids: Vec<&str> = select(&page, "[id]").iter().filter_map(|element| element.attr("id")).collect();
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "every id is there once: {ids:?}");
    for link in select(&page, "a") {
        assert!(ids.contains(&link.attr("href").unwrap().strip_prefix('#').unwrap()), "{:?}", link.attr("href"));
    }
}

#[test]
fn the_page_asks_for_nothing_outside_and_runs_nothing_foreign() {
    let (source, page) = page(&papers());
    let loading =
        "[src], [srcset], [data], [action], [background], [poster], link, iframe, object, embed, img, base, form";
    assert_eq!(select(&page, loading).len(), 0);
    assert!(!source.contains("https://") && !source.contains("url(") && !source.contains("@import"));
    assert_eq!(source.matches("http://").count(), source.matches("http://www.w3.org/2000/svg").count());
    assert_eq!(select(&page, "script").len(), 2, "the data and our own script");
    assert!(!source.contains('\u{1b}'), "no control character reaches the page");
}

#[test]
fn every_picture_has_a_title_a_text_alternative_and_its_data() {
    let (_, page) = page(&papers());
    let charts = select(&page, "svg");
    assert_eq!(charts.len(), 2, "a chart a figure");
    for (chart, figure) in charts.iter().zip(fixture::paper().figures) {
        assert_eq!(
            (chart.attr("role"), chart.attr("aria-label")),
            (Some("img"), Some(&*format!("{}, ours", figure.title)))
        );
        let child =
            |name: &str| chart.child_elements().find(|child| child.value().name() == name).map(|child| text(&child));
        assert_eq!(child("title"), Some(format!("{}, ours", figure.title)));
        let description = child("desc").unwrap();
        let bars = chart.select(&Selector::parse("rect title").unwrap()).count();
        assert_eq!(bars, figure.panels.iter().flat_map(|panel| &panel.bins).filter(|bin| bin.percent > 0.0).count());
        let rows = Selector::parse("details tbody tr").unwrap();
        let data = ElementRef::wrap(chart.parent().unwrap()).unwrap().select(&rows).count();
        assert_eq!(data, figure.panels.iter().map(|panel| panel.bins.len()).sum::<usize>());
        for panel in &figure.panels {
            assert!(description.contains(&format!("{}: median {:.1} ms", panel.label, panel.median_ms.unwrap())));
        }
    }
}

#[test]
fn verdicts_and_margins_are_told_in_signs_too() {
    let (_, page) = page(&papers());
    let verdicts: Vec<String> = select(&page, ".claims b").iter().map(text).collect();
    assert_eq!(verdicts, ["✓ holds", "✗ fails", "? undecidable", "✓ holds", "✗ fails"]);
    let [near, far] = [".near small:last-child", ".far small:last-child"]
        .map(|cells| select(&page, cells).iter().map(text).collect::<Vec<_>>());
    assert_eq!((near, far), (vec!["✓ +1.0".into(), "✓ -4.0".into()], vec![String::from("✗ +4.5")]));
}

#[test]
fn the_page_is_its_own_data_file() {
    let (_, page) = page(&papers());
    let data: String = select(&page, "script#papers[type='application/json']")[0].text().collect();
    let told: Value = serde_json::from_str(&report::json(&papers())).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&data).unwrap(), told);
}

#[test]
fn numbers_of_a_fitted_model_tell_what_it_was_fitted_on() {
    use papers::contention::{HeldOut, Role};
    use papers::reproduction::{ReproducedCell, ReproducedRow, ReproducedTable};
    let cell = |printed: &str, role| ReproducedCell::predicted(printed.parse().ok(), Some(2.5), Some(role), None);
    let table = ReproducedTable {
        name: "table-1".into(),
        title: "Table 1".into(),
        about: "times in seconds".into(),
        margin: None,
        corner: "threads".into(),
        columns: ["8", "16"].map(String::from).into(),
        rows: vec![ReproducedRow {
            label: "BT".into(),
            cells: vec![cell("2.5", Role::Fitted), cell("2.0", Role::HeldOut)],
        }],
    };
    let held_out = HeldOut {
        fitted_cells: 1,
        cells: 1,
        implied_cells: 0,
        mean_error: 0.25,
        perfect_scaling_mean_error: 0.5,
        interpolation_mean_error: 0.5,
        largest_error: 0.25,
    };
    let papers = [Reproduction { tables: vec![table], held_out: Some(held_out), ..fixture::empty() }];
    let terminal = report::terminal(&papers, 80, false);
    assert!(terminal.contains("2.5†   2.5\n") && terminal.contains("† fitted on what is printed"), "{terminal}");
    assert!(terminal.contains("mean error is 25.0 %"), "{terminal}");
    assert!(report::markdown(&papers).contains("| ours | 2.5† | 2.5 |"));
    let rows = "nothing,table-1,BT,8,2.5,2.5,,,0,fitted,,,\nnothing,table-1,BT,16,2.0,2.5,,,0.5,held-out,,,\n";
    assert!(report::csv(&papers).ends_with(rows), "{}", report::csv(&papers));
    let (_, page) = page(&papers);
    let bold: Vec<String> = select(&page, "table.compared td b").iter().map(text).collect();
    assert_eq!(bold, ["2.5†", "2.5"]);
    let json: Value = serde_json::from_str(&report::json(&papers)).unwrap();
    assert_eq!(json["papers"][0]["held_out"]["mean_error"], 0.25);
    assert_eq!(json["papers"][0]["tables"][0]["rows"][0]["cells"][1]["role"], "held-out");
}

#[test]
fn what_this_machine_measured_stands_in_every_form() {
    let mut paper = fixture::paper();
    let study = LiveStudy {
        subjects: vec!["a program".into()],
        elsewhere: None,
        cpu_model: None,
        kernel: "7.0".into(),
        trials: 12,
        kept_in: "journal a.stayput".into(),
        ending: Some(Ending::BudgetSpent),
        departures: vec!["Left out: 8 threads.".into()],
    };
    let guest = LiveStudy {
        subjects: vec!["a program".into(), "another".into()],
        elsewhere: Some("in vm:1x4 with the caches of sgi-4d340".into()),
        ending: Some(Ending::Finished),
        kept_in: "journals of the folder b".into(),
        departures: Vec::new(),
        ..study.clone()
    };
    let left_out = vec!["A third was not run: it isn't there.".into()];
    paper.live = Some(LiveStudies { studies: vec![study, guest], left_out });
    let table = paper.tables.iter_mut().find(|table| table.margin.is_some()).unwrap();
    if let ReproducedCell::Number { live, .. } = &mut table.rows[0].cells[0] {
        *live = Some(Estimated { value: 0.012_34, low: Some(0.011), high: Some(0.0135) });
    }
    let words = paper.tables.iter_mut().find(|table| table.name == "table-4").unwrap();
    if let ReproducedCell::Words { live, .. } = &mut words.rows[0].cells[2] {
        *live = Some("high: in 9 of 10".into());
    }
    let verdict = LiveVerdict { verdict: Verdict::Undecidable, why: "open in 1 of 1: 3 (-2 to 8) %".into() };
    paper.claims[0].live = Some(verdict);
    let papers = [paper];
    let terminal = report::terminal(&papers, 100, false);
    for told in ["live        0.0123±0.0013", "not here", "live: undecidable: open in 1 of 1", "  Left out: 8 threads."]
    {
        assert!(terminal.contains(told), "{told}:\n{terminal}");
    }
    assert!(
        terminal
            .replace('\n', " ")
            .contains("Of 1 claim of runs, judged by this machine's, 0 hold, 0 fail, and 1 can't")
    );
    let markdown = report::markdown(&papers);
    assert!(markdown.contains("|  | live | 0.0123 (0.0110 to 0.0135) | not here |"), "{markdown}");
    assert!(markdown.contains("| undecidable: open in 1 of 1: 3 (-2 to 8) % |"), "{markdown}");
    assert!(report::csv(&papers).lines().any(|line| line.ends_with(",0.01234,0.011,0.0135")));
    // Words, too.
    assert!(terminal.contains("high: in 9 of 10"), "{terminal}");
    assert!(markdown.contains("|  | live | not here | not here | high: in 9 of 10 |"), "{markdown}");
    assert!(report::csv(&papers).lines().any(|line| line.ends_with(",high: in 9 of 10,,")));
    let (_, page) = page(&papers);
    let live: Vec<String> = select(&page, "table.compared small.live").iter().map(text).collect();
    assert_eq!(live[..2], ["live 0.0123 0.0110 to 0.0135", "not here"]);
    assert!(live.contains(&"live high: in 9 of 10".to_owned()), "{live:?}");
    let heads: Vec<String> = select(&page, "table.claims th").iter().map(text).collect();
    assert_eq!(heads, ["verdict", "claim", "why", "live, on this machine", "verdict", "claim", "why"]);
    let json: Value = serde_json::from_str(&report::json(&papers)).unwrap();
    assert_eq!(json["papers"][0]["claims"][0]["live"]["verdict"], "undecidable");
    let sentences = [
        "Live: a program on an unnamed CPU, Linux 7.0; 12 trials in the journal a.stayput, whose budget was spent before all was settled.",
        "Left out: 8 threads.",
        "Live: a program, another in vm:1x4 with the caches of sgi-4d340, Linux 7.0; 12 trials in the journals of the folder b.",
        "A third was not run: it isn't there.",
    ];
    assert_eq!(json["papers"][0]["live"], serde_json::json!(sentences));
}

#[test]
fn the_words_name_what_was_fitted_and_what_is_missing() {
    let paper = placement(Paper::named("pires-2016").unwrap(), None).unwrap();
    let json: Value = serde_json::from_str(&report::json(&[paper])).unwrap();
    let words: Vec<&str> =
        json["papers"][0]["how"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let fitted = "fitted on 21 of 72 printed cells, which a dagger marks: compact with 4 threads of BT.B, CG.B, EP.B, FT.B, LU.B, SP.B; scatter with 1, 8 \
                  threads of BT.B, CG.B, EP.B, FT.B, LU.B, SP.B; unbound with 8 threads of CG.B, EP.B, FT.B.";
    assert!(words[0].contains(fitted), "{words:#?}");
    let missed =
        "BT.B unbound with 8 threads: 47.9 where 95.6 is printed; one misplaced thread throughout isn't enough.";
    assert!(words.contains(&missed), "{words:#?}");
    assert!(words.iter().any(|sentence| sentence.starts_with("Left out: ")), "{words:#?}");
}
