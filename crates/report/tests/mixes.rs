//! Mixes of programs, and metrics besides time, in every form.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

mod fixture;

use fixture::{Fixture, Reported, mixes};
use machine::{Machine, Placement};
use scraper::{ElementRef, Html, Selector};
use serde_json::{Value, json};
use stayput_report::{Format, for_spreadsheets};
use study::mix::MixPlacement;
use study::{Comparison, Status};

const MIX: &str = "cg + stream + late";

fn on_page<K: Reported>(study: &Fixture<K>, selector: &str) -> Vec<String> {
    let page = Html::parse_document(&study.write(Format::Html));
    let text = |element: ElementRef| element.text().collect::<String>().replace('\u{a0}', " ");
    page.select(&Selector::parse(selector).unwrap()).map(text).collect()
}

/// The rows of the table of metrics, each with its metric before it.
fn metric_rows<K: Reported>(study: &Fixture<K>) -> Vec<String> {
    let page = Html::parse_document(&study.write(Format::Html));
    let mut metric = String::new();
    let mut rows = Vec::new();
    for row in page.select(&Selector::parse("#metrics tbody tr").unwrap()) {
        let text = row.text().collect::<String>().replace('\u{a0}', " ");
        match row.value().classes().any(|class| class == "subject") {
            true => metric = text,
            false => rows.push(format!("{metric}: {text}")),
        }
    }
    rows
}

/// What a terminal shows, on lines of any length.
fn told<K: Reported>(study: &Fixture<K>) -> String {
    study.terminal(1000)
}

fn summary<'a>(value: &'a Value, subject: &str, placement: &str) -> &'a Value {
    let is = |summary: &&Value| summary["subject"] == subject && summary["placement"] == placement;
    value["summaries"].as_array().unwrap().iter().find(is).unwrap()
}

#[test]
fn what_was_counted_in_an_emulated_machine_comes_first_and_no_time_is_drawn_or_compared() {
    let study = mixes::counted();
    let sections = on_page(&study, "main > section > h2");
    assert_eq!(sections[..3], ["What was counted", "Ratios to unbound", "Times, which mean nothing"]);
    for absent in ["Times by program", "Distributions", "Speed-up"] {
        assert!(!sections.iter().any(|section| section == absent), "{sections:?}");
    }
    // What is a treatment's last word tells it from others: its table cuts none off.
    assert_eq!(on_page(&study, "#table .effects table.paper").len(), 1);
    let figures = on_page(&study, "#ratios figcaption");
    assert_eq!(figures, ["make -B -j8: l2_misses_per_1000", "make -B -j8: l2_migration_misses_per_1000"]);
    let drawn = on_page(&study, "figure").join("\n");
    assert!(!drawn.contains("time, s") && drawn.contains("▼ 0.66") && drawn.contains("▲ 2.0"), "{drawn}");
    let markdown = study.write(Format::Markdown).replace('\\', "");
    for text in [told(&study), on_page(&study, "main").join(""), markdown] {
        for absent in ["Compared by time", "wall clock", "may share real cores", "was busy when"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
        assert!(text.contains("Times of an emulated machine mean nothing: they are told"), "{text}");
        let (counted, times) = (text.find("l2_migration_misses_per_1000").unwrap(), text.find("time, s").unwrap());
        assert!(counted < times, "{text}");
    }
}

#[test]
fn terminal_of_a_study_in_an_emulated_machine() {
    insta::assert_snapshot!(mixes::counted().terminal(100));
}

#[test]
fn terminal_of_a_mix() {
    insta::assert_snapshot!(mixes::mix().terminal(100));
}

#[test]
fn markdown_of_a_mix() {
    insta::assert_snapshot!(mixes::mix().write(Format::Markdown));
}

#[test]
fn latex_of_a_mix() {
    insta::assert_snapshot!(mixes::mix().write(Format::Latex));
}

#[test]
fn terminal_of_a_race_of_mixes() {
    insta::assert_snapshot!(mixes::race().terminal(80));
}

#[test]
fn terminal_of_metrics_that_are_higher_or_only_describe_or_are_zero() {
    insta::assert_snapshot!(mixes::other_metrics().terminal(80));
}

#[test]
fn a_mix_finishes_sooner_and_is_told_before_its_jobs() {
    let study = mixes::mix();
    let verdicts = study.json()["verdicts"].clone();
    let told: Vec<&str> = verdicts.as_array().unwrap().iter().map(|verdict| verdict.as_str().unwrap()).collect();
    assert!(told[0].contains("where its jobs run matters for its makespan, by up to "), "{told:?}");
    let position = |words: &str| told.iter().position(|told| told.contains(words)).unwrap();
    let sooner = position("compact finishes 1.25x sooner than unbound (95 % interval ");
    assert!(sooner < position("lower ANTT (95 % interval ") && sooner < position("late is slowed most, taking 1.2"));
    assert!(told.iter().all(|told| !told.contains("faster") && !told.contains("slower")), "{told:?}");
    assert_eq!(on_page(&study, "article.answer h2"), [MIX], "one answer, and none on what runs by itself");
    assert_eq!(on_page(&study, "article.answer .figure small"), [" shorter makespan"]);
    assert_eq!(on_page(&study, "head > title"), [format!("{MIX}: where its jobs run best")]);
}

#[test]
fn what_runs_by_itself_is_in_the_table_of_jobs_and_in_no_comparison() {
    let study = mixes::mix();
    let groups = on_page(&study, "#table table.paper tr.subject");
    assert_eq!(groups, [MIX]);
    assert_eq!(on_page(&study, "#ratios figcaption").len(), 1);
    assert!(on_page(&study, "#table table.dense tbody tr").iter().all(|row| row.starts_with(MIX)));
    let jobs = on_page(&study, "#jobs table.paper tbody th[scope='row']");
    assert_eq!(jobs.len(), 4 * 3);
    assert_eq!(jobs[..3], ["cg unbound", "stream (repeated) unbound", "late (from 2 s on) unbound"]);
    let told = told(&study);
    let alone = study.analysis.summaries.iter().find(|summary| summary.subject == "cg").unwrap().median_s.unwrap();
    let row = told.lines().find(|line| line.contains("cg  ")).unwrap();
    assert!(row.ends_with(&format!("{alone:.3}")), "{row}");
}

#[test]
fn a_picture_has_a_bar_for_each_job_and_thin_ones_for_its_later_runs() {
    let study = mixes::mix();
    let later = |placement: &str| {
        let counted = |t: &&study::Trial| t.subject == MIX && t.placement == placement && !t.warmup;
        let median_s = summary(&study.json(), MIX, placement)["median_s"].as_f64().unwrap();
        let away = |t: &&study::Trial| (t.time_s.unwrap() - median_s).abs();
        let trials = study.record.trials.iter().filter(counted);
        let middle = trials.min_by(|a, b| away(a).total_cmp(&away(b))).unwrap();
        middle.jobs().iter().filter(|run| run.name == "stream").count() - 1
    };
    let all: usize = ["unbound", "compact", "scatter", "3,5"].iter().map(|placement| later(placement)).sum();
    let bars = |class: &str| on_page(&study, &format!("#jobs svg.chart rect.{class}")).len();
    assert_eq!((bars("h1"), bars("h2"), bars("h3")), (4, 4 + all, 4));
    assert_eq!(bars("ink"), 4, "the makespan of each");
    let texts = on_page(&study, "#jobs svg.chart text").join("|");
    assert!(texts.contains("1.20×") && texts.contains("makespan 4.8"), "{texts}");
}

#[test]
fn programs_read_every_run_of_every_job_with_its_slowdown_in_the_same_block() {
    let mut study = mixes::mix();
    // A trial that was disturbed has the number of the one that took its place.
    let again = study.record.trials.iter().find(|t| t.subject == MIX && !t.warmup).unwrap().clone();
    study.record.disturbed = vec![study::Trial { status: Status::Disturbed, time_s: None, ..again.clone() }];
    let value = study.json();
    let trials = value["trials"].as_array().unwrap();
    let trial = &trials[again.sequence as usize];
    let alone = |name: &str| {
        let is = |t: &&Value| t["subject"] == name && t["block"] == trial["block"];
        trials.iter().find(is).unwrap()["time_s"].as_f64().unwrap()
    };
    for run in trial["jobs"].as_array().unwrap() {
        let name = run["name"].as_str().unwrap();
        match run["time_s"].as_f64() {
            Some(time_s) => assert!((run["slowdown"].as_f64().unwrap() - time_s / alone(name)).abs() < 1e-9, "{run}"),
            None => assert!(run["slowdown"].is_null() && name == "stream", "{run}"),
        }
    }
    let mut names: Vec<&String> = trial["values"].as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, ["antt", "jain_index", "mean_completion", "stp"]);
    let warmup = trials.iter().find(|t| t["subject"] == MIX && t["warmup"] == true).unwrap();
    assert!(warmup["jobs"][0]["slowdown"].is_null() && warmup["values"]["antt"].is_null());
    let disturbed = &value["disturbed"][0];
    assert!(disturbed["jobs"].as_array().unwrap().iter().all(|run| run["slowdown"].is_null()), "{disturbed}");
    assert!(disturbed["values"]["antt"].is_null(), "{disturbed}");
}

#[test]
fn programs_read_the_medians_of_a_mix_and_its_metrics_after_the_first() {
    let study = mixes::mix();
    let value = study.json();
    let compact = summary(&value, MIX, "compact");
    assert_eq!(compact["makespan_s"], compact["median_s"]);
    let metrics = compact["metrics"].as_array().unwrap();
    let names: Vec<&Value> = metrics.iter().map(|metric| &metric["name"]).collect();
    assert_eq!(names, ["makespan", "mean_completion", "antt", "stp", "jain_index"]);
    for (position, key) in [(1, "mean_completion_s"), (2, "antt"), (3, "stp"), (4, "jain_index")] {
        assert!(compact[key].is_f64() && compact[key] == metrics[position]["median"], "{key}");
    }
    assert_eq!((&metrics[2]["claim"], &metrics[3]["better"]), (&json!("faster"), &json!("higher")));
    assert_eq!(compact["jobs"][1]["name"], "stream");
    // One key once: the text of the summary is read as any parser does.
    let text = study.write(Format::Json);
    let line = text.lines().find(|line| line.contains("\"makespan_s\"")).unwrap();
    assert_eq!(line.matches("\"metrics\":").count(), 1, "{line}");
    let alone = summary(&value, "cg", "unbound");
    assert!(["jobs", "makespan_s", "antt"].iter().all(|key| alone.get(key).is_none()), "{alone}");
}

#[test]
fn csv_has_a_column_for_each_metric_where_there_is_any() {
    let study = mixes::mix();
    let text = study.write(Format::Csv);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let row = rows.iter().find(|row| &row[column("subject")] == MIX && &row[column("warmup")] == "false").unwrap();
    for name in ["metric_mean_completion_s", "metric_antt", "metric_stp", "metric_jain_index"] {
        assert!(row[column(name)].parse::<f64>().is_ok(), "{name} of {row:?}");
    }
    assert!(row[column("compared_by")].starts_with("makespan [s]"));
    let alone = rows.iter().find(|row| &row[column("subject")] == "cg").unwrap();
    assert_eq!((&alone[column("metric_antt")], &alone[column("metric_mean_completion_s")]), ("", ""));
    let others = mixes::other_metrics().write(Format::Csv);
    assert!(others.lines().next().unwrap().contains("metric_throughput_requests/s"));
}

#[test]
fn studies_without_mixes_and_metrics_have_nothing_of_them() {
    let study = fixture::opteron();
    let value = study.json();
    for trial in value["trials"].as_array().unwrap() {
        assert!(trial.get("jobs").is_none() && trial.get("values").is_none(), "{trial}");
    }
    for summary in value["summaries"].as_array().unwrap() {
        assert!(["jobs", "makespan_s", "antt", "stp"].iter().all(|key| summary.get(key).is_none()), "{summary}");
        assert_eq!(summary["metrics"].as_array().unwrap().len(), 1);
    }
    assert!(!study.write(Format::Csv).lines().next().unwrap().contains("metric_"));
    assert_eq!(on_page(&study, "#jobs, #metrics").len(), 0);
    let text = told(&study);
    assert!(!text.contains("Jobs:") && !text.contains("Metrics:") && !text.contains("makespan"), "{text}");
}

#[test]
fn where_a_program_fails_by_itself_its_slowdown_is_not_known_and_nothing_is_made_of_it() {
    let study = mixes::without_slowdowns();
    let text = told(&study);
    assert!(text.contains("is slowed most") && text.contains("; of stream that isn't known."), "{text}");
    assert!(!text.contains("stream is slowed"), "{text}");
    let value = study.json();
    let compact = summary(&value, MIX, "compact");
    assert!(compact["jobs"][1]["slowdown"].is_null() && compact["jobs"][0]["slowdown"].is_f64());
    assert!(["antt", "stp", "jain_index"].iter().all(|key| compact[key].is_null()), "{compact}");
    assert!(compact["mean_completion_s"].is_f64());
    let slowdowns = on_page(&study, "#jobs svg.chart text");
    assert_eq!(slowdowns.iter().filter(|text| text.ends_with('×')).count(), 4 * 2, "{slowdowns:?}");
}

#[test]
fn where_no_program_has_a_time_by_itself_that_is_said() {
    let study = mixes::without_any_slowdown();
    let text = told(&study);
    assert!(
        text.contains("compact with 2 threads: how much its jobs are slowed isn't known, since none has"),
        "{text}"
    );
    assert!(text.contains("compact finishes 1.2") && !text.contains("slowed most"), "{text}");
    let metrics = metric_rows(&study);
    let antt = metrics.iter().find(|row| row.starts_with("ANTT, lower is better: compact")).unwrap();
    assert!(antt.ends_with("–too few"), "{antt}");
}

#[test]
fn where_the_reference_is_best_the_metrics_of_the_others_are_told() {
    let mut record = mixes::mix().record;
    for trial in record.trials.iter_mut().filter(|trial| trial.subject == MIX) {
        trial.placement = match trial.placement.as_str() {
            "unbound" => "compact".into(),
            "compact" => "unbound".into(),
            other => other.into(),
        };
    }
    let text = told(&Fixture::new(record));
    assert!(text.contains("every other is shown to finish later there"), "{text}");
    let line = text.lines().find(|line| line.contains("higher ANTT")).unwrap();
    assert!(line.matches(" than unbound").count() == 3 && line.contains("; scatter has "), "{line}");
    assert!(text.contains("unbound with 2 threads: late is slowed most, taking 1.2"), "{text}");
    assert!(
        text.contains("No placement is shown to finish sooner than unbound with 2 threads, its best thread"),
        "{text}"
    );
}

#[test]
fn with_several_thread_counts_each_is_told_by_itself() {
    let study = mixes::of_two_thread_counts();
    let jobs = on_page(&study, "#jobs table.paper tbody th[scope='row']");
    assert_eq!(
        (jobs.len(), jobs[0].as_str(), jobs[12].as_str()),
        (24, "cg unbound, 1 thread", "cg unbound, 2 threads")
    );
    assert_eq!(on_page(&study, "#jobs figure").len(), 2);
    assert!(told(&study).contains(" is slowed most, taking "));
}

#[test]
fn a_race_of_mixes_tells_no_slowdown() {
    let study = mixes::race();
    let text = told(&study);
    assert!(text.contains("which finishes ") && text.contains("sooner than unbound"), "{text}");
    assert!(text.contains("later by") && !text.contains("slower by"), "{text}");
    assert!(text.contains("A race runs no job by itself") && !text.contains("slowed most"), "{text}");
    let value = study.json();
    assert!(summary(&value, MIX, "compact")["antt"].is_null());
    assert_eq!(on_page(&study, "#jobs svg.chart rect.h1").len(), 4);
    assert!(on_page(&study, "#jobs svg.chart text").iter().all(|text| !text.ends_with('×')));
    let entrants = value["races"][0]["entrants"].as_array().unwrap();
    assert!(entrants.len() == 4 && entrants.iter().all(|entrant| entrant["cpus"].is_null()), "jobs have the CPUs");
    assert_eq!(on_page(&study, "#race .placements").len(), 0);
}

#[test]
fn no_line_to_paste_runs_a_mix_but_its_places_are_told() {
    let mut study = mixes::mix();
    let machine = Machine::named("pack:2 core:4 pu:1").unwrap();
    let place = |list| Some(Placement::from_list(list, |cpu| machine.state(cpu)).unwrap());
    let jobs = vec![place("0,1"), None, place("4-5")];
    let compact = MixPlacement { treatment: "compact".into(), threads: 2.into(), jobs };
    study.record.plan.plan.subjects[0].mix.as_mut().unwrap().placements.push(compact);
    for text in [told(&study), study.write(Format::Markdown).replace('\\', "")] {
        assert!(text.contains("there is no line to paste, since it is several programs at once"), "{text}");
        assert!(text.contains("cg on CPUs 0 1; stream is left alone; late on CPUs "), "{text}");
        assert!(!text.contains("stayput run"), "{text}");
    }
    assert_eq!(on_page(&study, "#paste pre").len(), 0);
    assert_eq!(on_page(&study, "#placements").len(), 0, "a placement of one program is none of a mix");
    let intended = on_page(&study, "#cpus tbody tr");
    assert_eq!(intended, ["compact2cg0 1", "compact2streamfree", "compact2late4 5"]);
}

#[test]
fn hostile_names_of_jobs_and_metrics_stay_text_in_every_form() {
    for study in [mixes::hostile(), mixes::other_metrics()] {
        for text in
            [study.terminal(80), study.write(Format::Markdown), study.write(Format::Latex), study.write(Format::Html)]
        {
            let steers = |c: &char| (c.is_control() && *c != '\n') || *c == '\u{202e}';
            assert_eq!(text.chars().find(steers), None);
        }
        let markdown = study.write(Format::Markdown);
        assert!(!markdown.contains("<b>") && !markdown.contains("<img"), "{markdown}");
        let cells = |line: &str| line.replace(r"\|", "").matches('|').count();
        for table in markdown.split("\n\n").filter(|part| part.starts_with('|')) {
            let rows: Vec<&str> = table.lines().collect();
            assert!(rows.iter().all(|row| cells(row) == cells(rows[0])), "{table}");
        }
        let latex = study.write(Format::Latex);
        let (_, body) = latex.split_once("\\begin{table}").unwrap();
        assert!(!body.contains("\\input{y}") && !body.contains("$x_1$"), "{latex}");
        let page = Html::parse_document(&study.write(Format::Html));
        let select = |selector: &str| page.select(&Selector::parse(selector).unwrap()).count();
        assert_eq!((select("script"), select("img"), select("td b, th b, text b")), (2, 0, 0));
        let safe = for_spreadsheets(&study.write(Format::Csv));
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(safe.as_bytes());
        let is_formula = |cell: &str| cell.starts_with(['=', '+', '@']);
        assert!(!reader.records().any(|row| row.unwrap().iter().any(is_formula)));
    }
}

#[test]
fn metrics_are_better_or_worse_whichever_way_they_go() {
    let study: Fixture<Comparison> = mixes::other_metrics();
    let rows = metric_rows(&study);
    let row = |treatment: &str, metric: &str| {
        let is = |row: &&String| row.contains(metric) && row.contains(&format!(": {treatment}"));
        rows.iter().find(is).unwrap_or_else(|| panic!("{rows:?}"))
    };
    assert!(row("scatter", "throughput").ends_with("better") && row("scatter", "throughput").contains("▲ 1.3"));
    assert!(row("compact", "throughput").ends_with("none shown"));
    assert!(row("scatter", "size").ends_with("not compared"));
    assert!(row("scatter", "errors").ends_with("no ratio"), "0 over 0 is no ratio");
    let verdicts = study.json()["verdicts"].to_string();
    assert!(!verdicts.contains("throughput"), "the answer is by what the study compares by: {verdicts}");
}
