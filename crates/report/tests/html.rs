//! The page as a parser sees it: whole, self-contained, escaped, described, and not too large.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

mod fixture;

use fixture::{Fixture, Reported};
use scraper::{ElementRef, Html, Selector};
use stayput_report::{Format, Study, sentences};
use study::Warning;

fn page<K: Reported>(fixture: &Fixture<K>) -> (String, Html) {
    page_of(&fixture.study())
}

fn page_of(study: &Study) -> (String, Html) {
    let text = fixture::write(study, Format::Html);
    let page = Html::parse_document(&text);
    (text, page)
}

fn select<'a>(page: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    page.select(&Selector::parse(selector).unwrap()).collect()
}

/// The text of an element, its no-break spaces as ordinary ones.
fn text(element: &ElementRef) -> String {
    element.text().collect::<String>().replace('\u{a0}', " ")
}

#[test]
fn a_number_and_its_percent_sign_never_part() {
    let number = |text: &str| text.ends_with(|c: char| c.is_ascii_digit());
    for (name, mut study) in fixture::all() {
        let warnings = match &mut study {
            Study::Comparison(_, analysis) => &mut analysis.warnings,
            Study::Race(_, analysis) => &mut analysis.cells.warnings,
            Study::Simulation(_, analysis) => &mut analysis.warnings,
            Study::Replay(_, analysis) => &mut analysis.warnings,
        };
        warnings.push(Warning::Departure { text: "Left out: 12 % of it".into() });
        let (_, page) = page_of(&study);
        let texts: Vec<String> = select(&page, "body > :not(script)").iter().map(|e| e.text().collect()).collect();
        let parted: Vec<&str> = texts.iter().flat_map(|text| text.split_inclusive(" %")).collect();
        let parted: Vec<&&str> = parted.iter().filter(|text| text.strip_suffix(" %").is_some_and(number)).collect();
        assert_eq!(parted, Vec::<&&str>::new(), "{name}");
        let held = texts.iter().flat_map(|text| text.split_inclusive("\u{a0}%"));
        let held = held.filter(|text| text.strip_suffix("\u{a0}%").is_some_and(number)).count();
        assert!(held > 0 || !name.starts_with("opteron"), "{name}: there are some");
    }
}

#[test]
fn a_command_to_paste_keeps_its_spaces() {
    let mut study = fixture::opteron();
    study.record.plan.plan.subjects[1].argv = vec!["./report".into(), "within 5 % of it".into()];
    let (_, page) = page(&study);
    let command: String = select(&page, "#paste pre")[0].text().collect();
    assert!(command.ends_with("'within 5 % of it'"), "{command}");
}

#[test]
fn every_page_nests_rightly() {
    for (name, study) in fixture::all().into_iter().chain([("race-of-200", fixture::race_of_200().study())]) {
        let (_, page) = page_of(&study);
        // An HTML parser repairs what is wrong, and says so; `<title>` in SVG marks is right.
        assert_eq!(page.errors, Vec::<std::borrow::Cow<str>>::new(), "{name}");
        let ids: Vec<_> = select(&page, "[id]").iter().filter_map(|e| e.attr("id")).collect();
        let unique: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), unique.len(), "{name}: every id is there once");
        for link in select(&page, "a") {
            let target = link.attr("href").and_then(|href| href.strip_prefix('#')).unwrap();
            assert!(ids.contains(&target), "{name}: #{target} is there");
        }
    }
}

#[test]
fn no_page_asks_for_anything_outside() {
    for (name, study) in fixture::all() {
        let (source, page) = page_of(&study);
        let loading =
            "[src], [srcset], [data], [action], [background], [poster], link, iframe, object, embed, img, base, form";
        assert_eq!(select(&page, loading).len(), 0, "{name}");
        assert_eq!(
            select(&page, "a[href], use[href]").iter().filter(|e| !e.attr("href").unwrap().starts_with('#')).count(),
            0
        );
        let styles: String = select(&page, "style").iter().map(text).collect();
        assert!(!styles.contains("url(") && !styles.contains("@import"), "{name}");
        let policy = select(&page, "meta[http-equiv='Content-Security-Policy']")[0].attr("content").unwrap();
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        assert!(source.matches("http://").count() == source.matches("http://www.w3.org/2000/svg").count(), "{name}");
        assert!(!source.contains("https://"), "{name}");
    }
}

#[test]
fn every_picture_has_a_title_and_a_text_alternative() {
    for (name, study) in fixture::all() {
        let (_, page) = page_of(&study);
        for svg in select(&page, "svg") {
            assert_eq!(svg.attr("role"), Some("img"), "{name}");
            assert!(svg.attr("aria-label").is_some_and(|label| !label.is_empty()), "{name}");
            let title = svg.child_elements().find(|child| child.value().name() == "title");
            assert!(title.is_some_and(|title| !text(&title).is_empty()), "{name}: {:?}", svg.attr("aria-label"));
            assert!(svg.attr("viewBox").is_some(), "{name}");
        }
        for chart in select(&page, "svg.chart") {
            assert!(
                chart.child_elements().any(|child| child.value().name() == "desc" && !text(&child).is_empty()),
                "{name}"
            );
            let figure = ElementRef::wrap(chart.parent().unwrap()).unwrap();
            assert!(
                figure.select(&Selector::parse("details table").unwrap()).next().is_some(),
                "{name}: its data is a table too"
            );
        }
    }
    let (_, page) = page(&fixture::opteron());
    // In order, distributions (two programs at seven thread counts), speed-up, ratios.
    assert_eq!(select(&page, "svg.chart").len(), 2 + 14 + 2 + 2);
}

#[test]
fn charts_take_their_colours_from_the_theme() {
    let (_, page) = page(&fixture::opteron());
    let fixed = select(&page, "svg.chart *")
        .into_iter()
        .filter(|e| [e.attr("fill"), e.attr("stroke")].iter().flatten().any(|c| c.starts_with('#')));
    assert_eq!(fixed.count(), 0);
    let styles: String = select(&page, "style").iter().map(text).collect();
    for mark in select(&page, "svg.chart [class]") {
        for class in mark.attr("class").unwrap().split(' ') {
            assert!(styles.contains(&format!(".{class} {{")), "{class} has a colour");
        }
    }
}

#[test]
fn every_trial_is_a_mark_that_tells_what_it_is() {
    let study = fixture::opteron();
    let (_, page) = page(&study);
    let titles: Vec<String> = select(&page, "#order svg title").iter().map(text).collect();
    for trial in &study.record.trials {
        let start = format!("#{} {}, ", trial.sequence, trial.placement);
        assert_eq!(titles.iter().filter(|title| title.starts_with(&start)).count(), 1, "{start}");
    }
    let failed = titles.iter().find(|title| title.starts_with("#90 ")).unwrap();
    assert!(failed.contains("signal (killed by signal 11 (SIGSEGV))"), "{failed}");
}

#[test]
fn names_and_output_stay_text() {
    let study = fixture::hostile();
    let (source, page) = page(&study);
    assert_eq!(select(&page, "script").len(), 2, "the data and our own script");
    assert_eq!(select(&page, "img").len(), 0);
    let heading = text(&select(&page, "article h2")[0]);
    assert!(heading.starts_with("<script>alert(1)</script> & \"quotes\""), "{heading}");
    assert!(!source.contains('\u{1b}'), "no control character reaches the page");
}

#[test]
fn the_page_is_its_own_data_file() {
    for (name, study) in fixture::all() {
        let (_, page) = page_of(&study);
        let data = text(&select(&page, "script#study[type='application/json']")[0]);
        let data: serde_json::Value = serde_json::from_str(&data).unwrap();
        let mut told: serde_json::Value = serde_json::from_str(&fixture::write(&study, Format::Json)).unwrap();
        // Where nothing was bound, each thread would name every CPU; metrics of a simulation stand there summarised.
        for trial in told["trials"].as_array_mut().unwrap().iter_mut().filter(|trial| trial["intended_cpus"].is_null())
        {
            let trial = trial.as_object_mut().unwrap();
            trial.entry("actual_cpus").and_modify(|cpus| *cpus = serde_json::Value::Null);
            trial.remove("metrics");
        }
        let summaries = told.get_mut("summaries").and_then(|rows| rows.as_array_mut());
        for summary in summaries.into_iter().flatten().filter_map(|row| row.as_object_mut()) {
            summary.remove("used");
        }
        assert_eq!(data, told, "{name}");
    }
}

#[test]
fn the_answer_comes_first_and_the_line_to_paste_last() {
    let (_, page) = page(&fixture::opteron());
    let answer = text(&select(&page, "header article")[1]);
    assert!(answer.contains("as fast") && answer.contains("95 % interval"), "{answer}");
    let sections: Vec<_> = select(&page, "main section").iter().filter_map(|s| s.attr("id")).collect();
    let order = [
        "table",
        "used",
        "order",
        "distributions",
        "speedup",
        "ratios",
        "placements",
        "cpus",
        "failures",
        "machine",
        "reading",
        "paste",
    ];
    assert_eq!(sections, order);
    let commands: Vec<String> = select(&page, "#paste pre").iter().map(text).collect();
    assert_eq!(commands.len(), 3, "only the program that gains is to be pasted: {commands:?}");
    assert!(commands[0].starts_with("stayput run -n 32 --place scatter -- "), "{commands:?}");
    assert!(commands[1].starts_with("OMP_NUM_THREADS=32 GOMP_CPU_AFFINITY=\"0 16 32 48 "), "{commands:?}");
    assert!(commands[2].contains("likwid-pin -c 0,16,32,48,"), "{commands:?}");
}

#[test]
fn when_nothing_is_shown_nothing_needs_pasting() {
    let (_, page) = page(&fixture::two_cpus());
    assert_eq!(select(&page, "#paste pre").len(), 0);
    assert!(text(&select(&page, "#paste")[0]).contains("nothing needs pasting"));
    assert_eq!(select(&page, "#ratios svg .better, #ratios svg .worse").len(), 0);
}

#[test]
fn a_papers_study_stands_beside_the_papers_own_tables() {
    let (_, page) = page(&fixture::pires_2017_w());
    assert_eq!(select(&page, "nav a[href='#paper']").len(), 1);
    let titles: Vec<String> = select(&page, "#paper h3").iter().map(text).collect();
    assert_eq!(
        titles,
        [
            "Table 1 of Pires and Lobosco 2017, class A, beside ours of class W",
            "Table 2 of Pires and Lobosco 2017, class C, beside ours of class W"
        ]
    );
    let sides = text(&select(&page, "#paper table.sides")[0]);
    for fact in ["AMD Opteron 6272", "gfortran 6.1.0", "AMD EPYC Processor, 2 CPUs", "gcc 12.2.0"] {
        assert!(sides.contains(fact), "{fact}: {sides}");
    }
    assert!(text(&select(&page, "#machine")[0]).contains("npb-cg 0.1.0 (gcc 12.2.0)"));
    // Two tables of five benchmarks with time, time and ratio, and two speed-ups; seven columns, two of them ours too.
    let cells = |selector: &str| {
        select(&page, selector).iter().map(text).filter(|figure| figure != "–").collect::<Vec<String>>()
    };
    assert_eq!(cells("#paper table.paper tr.printed td.n").len(), 2 * 5 * 5 * 7);
    assert_eq!(cells("#paper table.paper tr:not(.printed) td.n").len(), 2 * 5 * 5 * 2);
    assert_eq!(
        cells("#paper table.paper tr.printed td.n")[..7],
        ["92.11", "47.72", "24.06", "12.11", "6.60", "5.11", "4.77"]
    );
    let is_of_a_paper = |name: &str| name.starts_with("pires") || name.starts_with("weber");
    for (name, study) in fixture::all().into_iter().filter(|(name, _)| !is_of_a_paper(name)) {
        let (_, page) = page_of(&study);
        assert_eq!(select(&page, "#paper, a[href='#paper']").len(), 0, "{name}");
    }
}

#[test]
fn built_in_programs_stand_with_their_needs_and_rates() {
    let (_, page) = page(&fixture::built_ins());
    assert_eq!(select(&page, "nav a[href='#programs']").len(), 1);
    let lines = |selector: &str| -> Vec<Vec<String>> {
        let cells = Selector::parse("th, td").unwrap();
        select(&page, selector).iter().map(|row| row.select(&cells).map(|cell| text(&cell)).collect()).collect()
    };
    // The fastest takes 0.4 s with 1 thread and 0.2 s with 2.
    let [ep, cg] = ["npb:ep", "npb:cg"].map(|name| workloads::program(name).unwrap());
    let [ep_w, cg_w] = [ep, cg].map(|program| program.classes.iter().find(|class| class.name == "W").unwrap());
    // All of these are between 1 and 10.
    let giga = |count: u64, seconds: f64| format!("{:.2}", count as f64 / 1e9 / seconds);
    assert_eq!(
        lines("#programs tbody:nth-of-type(1) tr"),
        [
            vec![format!("npb:ep.W {}.0 MiB, no memory traffic", ep_w.memory_mib)],
            vec!["Gflop/s".into(), giga(ep_w.flops, 1.0) + " Gflop", giga(ep_w.flops, 0.4), giga(ep_w.flops, 0.2)],
            vec!["with".into(), "–".into(), "compact".into(), "scatter".into()],
        ]
    );
    let intensity = cg_w.flops as f64 / cg_w.bytes as f64;
    let total = format!("{:.3} Gflop", cg_w.flops as f64 / 1e9);
    assert_eq!(
        lines("#programs tbody:nth-of-type(2) tr"),
        [
            vec![format!("npb:cg.W {}.0 MiB, {intensity:.2} flop a byte", cg_w.memory_mib)],
            vec!["Gflop/s".into(), total, giga(cg_w.flops, 0.4), giga(cg_w.flops, 0.2)],
            vec!["GB/s".into(), giga(cg_w.bytes, 1.0) + " GB", giga(cg_w.bytes, 0.4), giga(cg_w.bytes, 0.2)],
            vec!["with".into(), "–".into(), "compact".into(), "scatter".into()],
        ]
    );
    let facts = text(&select(&page, "#programs > dl")[0]);
    let folded = text(&select(&page, "#programs details")[0]);
    for program in [ep, cg] {
        assert!(facts.contains(&program.title) && facts.contains(&program.stresses), "{facts}");
        assert!(folded.contains(&program.verification) && folded.contains(&program.definition), "{folded}");
    }
}

#[test]
fn only_built_in_programs_have_needs_and_rates() {
    for (name, study) in fixture::all().into_iter().filter(|(name, _)| *name != "built-ins") {
        let (_, page) = page_of(&study);
        assert_eq!(select(&page, "#programs, a[href='#programs']").len(), 0, "{name}");
    }
    // Somebody else's program by that name, and a built-in one of which wall time counts.
    for regex in [Some("Time in seconds = *([0-9.]+)".to_owned()), None] {
        let mut study = fixture::built_ins();
        study.record.plan.plan.subjects[0].time_regex = regex;
        let (_, page) = page(&study);
        assert_eq!(select(&page, "#programs tbody").len(), 1);
        assert!(!text(&select(&page, "#programs")[0]).contains("npb:ep.W"));
    }
}

#[test]
fn where_no_trial_went_well_there_is_no_rate() {
    let mut study = fixture::built_ins();
    study.record.trials.retain(|trial| trial.threads == 1);
    let (_, page) = page(&Fixture::new(study.record));
    let last = select(&page, "#programs tbody tr:not(.subject) td:last-child");
    assert_eq!(last.iter().map(text).collect::<Vec<_>>(), ["–"; 5]);
}

#[test]
fn pages_and_their_script_stay_small() {
    let (source, page) = page(&fixture::opteron());
    assert!(source.len() < 800_000, "{} bytes for 378 trials on 64 CPUs", source.len());
    let script = text(&select(&page, "script:not([type])")[0]);
    assert!(script.len() < 15_000, "{} bytes", script.len());
}

#[test]
fn a_race_is_drawn_run_by_run_with_who_left_when_and_why() {
    let study = fixture::race();
    let (_, page) = page(&study);
    let sections: Vec<_> = select(&page, "main section").iter().filter_map(|s| s.attr("id")).collect();
    assert_eq!(sections, ["race", "order", "distributions", "cpus", "failures", "machine", "reading", "paste"]);
    let charts = select(&page, "#race .race svg");
    let title = Selector::parse("path > title").unwrap();
    let hovers: Vec<String> = charts[0].select(&title).map(|title| text(&title)).collect();
    let runs = study.record.trials.iter().filter(|trial| !trial.warmup);
    for (number, trial) in runs.enumerate() {
        let start = format!("{}: run {}, block {}; ", trial.placement, number + 1, trial.block);
        assert_eq!(hovers.iter().filter(|hover| hover.starts_with(&start)).count(), 1, "{start} {hovers:?}");
    }
    let left: Vec<&str> = hovers.iter().filter_map(|hover| Some(hover.split_once("; left the race: ")?.1)).collect();
    assert_eq!(left.len(), 7, "{left:?}");
    for exit in ["slower, block 1", "halved, block 1", "cut off, block 1", "failed, block 1", "slower, block 9"] {
        assert!(left.contains(&exit), "{exit}: {left:?}");
    }
    // Only the three that matter are named beside it.
    for name in ["scatter", "0,4,1,6", "unbound"] {
        let is_name = |element: ElementRef| text(&element).trim() == name;
        assert!(charts[0].select(&Selector::parse("text").unwrap()).any(is_name), "{name}");
    }
    assert!(!charts[0].select(&Selector::parse("text").unwrap()).any(|element| text(&element).trim() == "compact"));
    let ranking: Vec<String> = select(&page, "#ranking-0 tbody td:first-child").iter().map(text).collect();
    assert_eq!(ranking, ["1", "=1", "3", "4", "5", "6", "–", "8", "–"]);
}

#[test]
fn the_best_unbound_and_the_slowest_stand_on_the_machine_with_their_times() {
    let mut study = fixture::race();
    // Unbound being the slowest of all hides no placement.
    study.analysis.races[0].standings.arms[0].loss = Some(1.9);
    let (_, page) = page(&study);
    let figures: Vec<String> = select(&page, "#race .placements figure").iter().map(text).collect();
    assert_eq!(figures.len(), 3);
    for (figure, words) in
        figures.iter().zip(["Best: scatter, 4 threads", "Unbound, 4 threads", "Slowest: 0,1,0,1, 4 threads"])
    {
        assert!(figure.contains(words) && figure.contains("median "), "{words}: {figure}");
    }
    assert!(figures[1].contains("+90 % (11 to 18 %)"), "{}", figures[1]);
    assert!(text(&select(&page, "#race")[0]).contains("1 entrant never ran to the end of a run"));
}

#[test]
fn a_run_that_was_cut_off_is_no_failure() {
    let study = fixture::race();
    let (_, page) = page(&study);
    let failures = text(&select(&page, "#failures")[0]);
    assert_eq!(select(&page, "#failures h3").len(), 1, "{failures}");
    assert!(failures.contains("1 trial more cut off") && !failures.contains("0,0,4,4"), "{failures}");
    assert!(text(&select(&page, "header .notice")[0]).contains("1 trial failed"));
    let bad: Vec<String> = select(&page, "#trials td.bad").iter().map(text).collect();
    assert_eq!(bad, ["exit-code"]);
    let order: Vec<String> =
        select(&page, "#order svg text").iter().map(|label| text(label).trim().to_owned()).collect();
    assert!(order.contains(&"cut off".to_owned()) && order.contains(&"failed".to_owned()), "{order:?}");
}

#[test]
fn a_race_of_hundreds_stays_small_and_readable() {
    let study = fixture::race_of_200();
    let (source, page) = page(&study);
    assert!(source.len() < 1_500_000, "{} bytes", source.len());
    assert_eq!(select(&page, "#table, #speedup, #ratios, #placements").len(), 0);
    let charts = select(&page, "#race .race svg");
    let title = Selector::parse("path > title").unwrap();
    assert!(charts[0].select(&title).count() >= study.analysis.races[0].runs as usize);
    let labels = select(&page, "#race .race figure:last-child tbody tr").len();
    assert!((3..=15).contains(&labels), "{labels} rows");
    assert_eq!(select(&page, "#ranking-0 tbody tr").len(), 200);
    let strips = select(&page, "#distributions tbody tr").len();
    assert!(strips <= 10, "{strips} strips");
    assert!(select(&page, "ul.legend").iter().all(|legend| legend.child_elements().count() < 12));
}

#[test]
fn the_page_of_a_model_shows_no_facts_of_a_host() {
    let study = fixture::race_of_a_model();
    let (_, page) = page(&study);
    assert!(text(&select(&page, "h1")[0]).contains("of a model, on machine xeon-e5405, 8 CPUs"));
    assert_eq!(select(&page, "#cpus, #programs, a[href='#cpus'], a[href='#programs']").len(), 0);
    assert_eq!(
        sentences::warnings(&study.analysis.cells.warnings),
        ["bt.B of the poster is a model: nothing was run, its times are drawn."]
    );
    let facts = text(&select(&page, "#machine")[0]);
    for word in ["Linux", "hypervisor", "Environment", "load over"] {
        assert!(!facts.contains(word), "{word}: {facts}");
    }
    assert!(facts.contains("a model, 10 mean times with lognormal noise of 2.0 %"), "{facts}");
}
