//! Every form of the report: golden texts, and no study that makes any of them fail.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

mod fixture;

use fixture::{Fixture, write};
use stayput_report::{Format, Screen, Study};
use study::Comparison;

const FORMS: [Format; 6] = [Format::Terminal, Format::Html, Format::Markdown, Format::Latex, Format::Csv, Format::Json];

#[test]
fn every_form_tells_every_study_the_same_way_twice() {
    for (name, study) in fixture::all() {
        for form in FORMS {
            let text = write(&study, form);
            assert!(text.ends_with('\n') || form == Format::Html, "{form:?} of {name} ends with a line end");
            assert_eq!(text, write(&study, form), "{form:?} of {name}");
        }
    }
}

#[test]
fn terminal_when_nothing_is_shown() {
    let study = fixture::two_cpus();
    insta::assert_snapshot!(study.terminal(80));
}

#[test]
fn terminal_with_claims_failures_and_many_columns() {
    let study = fixture::opteron();
    insta::assert_snapshot!(study.terminal(100));
}

#[test]
fn terminal_of_papers_studies() {
    let studies = [
        ("terminal_of_pires_2016", fixture::pires_2016()),
        ("terminal_of_pires_2017_scaled_down", fixture::pires_2017_w()),
        ("terminal_of_weber_2010", fixture::weber_2010()),
    ];
    for (name, study) in studies {
        insta::assert_snapshot!(name, study.terminal(100));
    }
}

#[test]
fn terminal_of_studies_without_an_answer() {
    for (name, study) in [("empty", fixture::empty()), ("nothing-started", fixture::nothing_started())] {
        insta::assert_snapshot!(name, study.terminal(60));
    }
}

#[test]
fn the_line_to_paste_has_the_thread_count_where_the_command_has_its_word() {
    let mut study = fixture::opteron();
    study.record.plan.plan.subjects[1].argv = vec!["./cg".into(), "--threads={threads}".into()];
    let text = study.terminal(80);
    assert!(text.contains("stayput run -n 32 --place scatter -- ./cg '--threads=32'"), "{text}");
    assert!(!text.contains("{threads}"), "{text}");
}

#[test]
fn the_line_to_paste_of_a_command_that_lacks_values_says_so_and_no_other_does() {
    let mut study = fixture::opteron();
    let told = ", with the values that were left out instead of ";
    assert!(!study.write(Format::Markdown).contains(told));
    study.record.plan.plan.subjects[1].argv = vec!["./cg".into(), "--token=[redacted]".into()];
    for form in [Format::Terminal, Format::Markdown, Format::Html] {
        let text = study.study().write(form, Screen { width: 1000, colour: false });
        assert_eq!(text.replace('\u{a0}', " ").matches(told).count(), 1, "{form:?}: {text}");
    }
}

#[test]
fn terminal_keeps_to_its_width() {
    for (name, study) in fixture::all() {
        for width in [60, 80, 132] {
            let text = study.write(Format::Terminal, Screen { width, colour: false });
            // What is there to be copied is never wrapped.
            let prose =
                text.lines().filter(|line| !line.starts_with("  stayput") && !line.starts_with("  OMP_NUM_THREADS"));
            for line in prose {
                let word = line.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
                assert!(line.chars().count() <= width.max(word + 10), "{name} at {width}: {line}");
            }
        }
    }
}

#[test]
fn terminal_is_coloured_only_where_a_difference_is_shown() {
    let coloured =
        |fixture: Fixture<Comparison>| fixture.study().write(Format::Terminal, Screen { width: 80, colour: true });
    assert!(!coloured(fixture::two_cpus()).contains('\u{1b}'));
    let study = fixture::opteron();
    let claims =
        study.analysis.summaries.iter().filter(|s| matches!(s.claim, study::Claim::Faster | study::Claim::Slower));
    let claims = claims.count();
    let text = coloured(study);
    let painted = text.matches("\u{1b}[38;5;10m").count() + text.matches("\u{1b}[38;5;9m").count();
    // A ratio and its interval stand on two lines, each painted by itself.
    assert_eq!(painted, 2 * claims);
}

#[test]
fn no_name_steers_a_terminal() {
    let study = fixture::hostile();
    let text = study.terminal(80);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn markdown_of_two_programs() {
    let study = fixture::two_cpus();
    insta::assert_snapshot!(study.write(Format::Markdown));
}

#[test]
fn markdown_of_hostile_names() {
    let study = fixture::hostile();
    insta::assert_snapshot!(study.write(Format::Markdown));
}

#[test]
fn latex_of_two_programs() {
    let study = fixture::two_cpus();
    insta::assert_snapshot!(study.write(Format::Latex));
}

#[test]
fn latex_of_hostile_names() {
    let study = fixture::hostile();
    insta::assert_snapshot!(study.write(Format::Latex));
}

#[test]
fn markdown_of_pires_2016() {
    let study = fixture::pires_2016();
    insta::assert_snapshot!(study.write(Format::Markdown));
}

#[test]
fn latex_of_pires_2017_scaled_down() {
    let study = fixture::pires_2017_w();
    insta::assert_snapshot!(study.write(Format::Latex));
}

#[test]
fn a_table_of_a_paper_gives_way_to_ours_where_it_would_hide_a_cell() {
    let generic = |study: &Fixture<Comparison>| {
        let text = study.terminal(100);
        assert!(text.contains("Table 1 of Pires and Lobosco 2016, class B, beside ours"), "{text}");
        text.contains("\n  time, s ")
    };
    let mut study = fixture::pires_2016();
    assert!(!generic(&study));
    let mut another = study.record.plan.plan.subjects[0].clone();
    another.name = "./app".into();
    study.record.plan.plan.subjects.push(another);
    assert!(generic(&study), "./app is in no table of the paper");
}

#[test]
fn no_ratio_stands_beside_the_papers_when_unbound_was_left_out() {
    let mut study = fixture::pires_2016();
    study.record.plan.plan.treatments.remove(0);
    study.record.trials.retain(|trial| trial.placement != "unbound");
    let value = Fixture::new(study.record).json();
    let rows = value["paper"]["tables"][0]["rows"].as_array().unwrap();
    let row = |quantity: &str| rows.iter().find(|r| r["quantity"] == quantity && r["placement"] == "compact").unwrap();
    assert!(row("time")["ours"][3].is_f64());
    assert_eq!(row("ratio")["ours"], serde_json::json!([null, null, null, null]));
    assert_eq!(row("speed-up")["ours"], serde_json::json!([null, null, null, null]));
}

#[test]
fn programs_read_the_printed_figures_beside_ours() {
    let study = fixture::pires_2017_w();
    let value = study.json();
    let paper = &value["paper"];
    assert_eq!((&paper["name"], &paper["machine"]), (&"pires-2017".into(), &"opteron-6272".into()));
    let rows = paper["tables"][0]["rows"].as_array().unwrap();
    let row = |quantity: &str, placement: &str| {
        let is = |row: &&serde_json::Value| {
            row["benchmark"] == "CG" && row["quantity"] == quantity && row["placement"] == placement
        };
        rows.iter().find(is).unwrap()
    };
    let summary = |placement: &str| {
        let is = |s: &&study::Summary| s.subject == "npb:cg.W" && s.threads == 2 && s.placement == placement;
        study.analysis.summaries.iter().find(is).unwrap()
    };
    let time = row("time", "unbound");
    assert_eq!(time["subject"], "npb:cg.W");
    assert_eq!(time["printed"], serde_json::json!([3.29, 1.97, 0.80, 0.43, 0.24, 0.19, 0.41]));
    // JSON's readers may round the last bit.
    let same = |value: &serde_json::Value, number: Option<f64>| {
        assert!((value.as_f64().unwrap() - number.unwrap()).abs() < 1e-12, "{value} {number:?}");
    };
    same(&time["ours"][1], summary("unbound").mean_s);
    assert!(time["ours"][2].is_null(), "four threads were left out");
    let ratio = row("ratio", "scatter");
    assert_eq!((&ratio["printed"][6], &ratio["computed"]), (&1.83.into(), &false.into()));
    same(&ratio["ours_high"][1], summary("scatter").ratio_high);
    let speedup = row("speed-up", "scatter");
    assert_eq!(speedup["computed"], true);
    same(&speedup["printed"][5], Some(3.29 / 0.18));
    same(&speedup["ours"][1], summary("scatter").speedup);

    let text = study.write(Format::Csv);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    let row = reader.records().map(Result::unwrap).find(|row| {
        [("subject", "npb:sp.W"), ("threads", "2"), ("placement", "scatter")].iter().all(|(c, v)| &row[column(c)] == *v)
    });
    let row = row.unwrap();
    assert_eq!((&row[column("printed_table_1_s")], &row[column("printed_table_2_s")]), ("32.37", "593.35"));
}

#[test]
fn programs_read_the_rates_of_built_in_programs() {
    let study = fixture::built_ins();
    let value = study.json();
    let programs = value["programs"].as_array().unwrap();
    assert_eq!(programs.iter().map(|p| &p["subject"]).collect::<Vec<_>>(), ["npb:ep.W", "npb:cg.W"]);
    assert_eq!((&programs[0]["bytes"], &programs[0]["flops_per_byte"]), (&0.into(), &serde_json::Value::Null));
    let class = &workloads::program("npb:cg").unwrap().classes[1];
    let cg = &programs[1];
    assert_eq!(cg["memory_bytes"], class.memory_mib * 1024 * 1024);
    assert_eq!((&cg["flops"], &cg["bytes"]), (&class.flops.into(), &class.bytes.into()));
    let near = |value: &serde_json::Value, number: f64| {
        assert!((value.as_f64().unwrap() / number - 1.0).abs() < 1e-9, "{value} {number}");
    };
    near(&cg["flops_per_byte"], class.flops as f64 / class.bytes as f64);
    let rate = &cg["rates"][1];
    assert_eq!((&rate["threads"], &rate["placement"]), (&2.into(), &"scatter".into()));
    near(&rate["median_s"], 0.2);
    near(&rate["flops_per_s"], class.flops as f64 * 5.0);
    near(&rate["bytes_per_s"], class.bytes as f64 * 5.0);
}

#[test]
fn markdown_tells_needs_and_rates_of_built_in_programs_only() {
    let study = fixture::built_ins();
    let text = study.write(Format::Markdown);
    let program = workloads::program("npb:cg").unwrap();
    let class = &program.classes[1];
    let gigabytes = class.bytes as f64 / 1e9;
    let row = format!("|  | GB/s | {gigabytes:.2} GB | {:.2} | {:.2} |", gigabytes * 2.5, gigabytes * 5.0);
    assert!(text.lines().any(|line| line == row), "{row}\n{text}");
    let facts = text.lines().find(|line| line.starts_with("- npb:cg.W: conjugate gradient")).unwrap();
    assert!(facts.contains(&program.stresses) && facts.contains(&program.verification), "{facts}");
    let study = fixture::hostile();
    assert!(!study.write(Format::Markdown).contains("Gflop"));
}

#[test]
fn csv_has_a_row_a_trial_with_units_in_its_names() {
    let study = fixture::hostile();
    let text = study.write(Format::Csv);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), study.record.trials.len());
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    assert_eq!(&rows[9][column("status")], "exit-code");
    assert_eq!(&rows[9][column("time_s")], "");
    assert_eq!(&rows[9][column("subject")], study.record.plan.plan.subjects[0].name);
    insta::assert_snapshot!("csv_head", text.lines().take(6).collect::<Vec<_>>().join("\n"));
}

/// Study files check the name, but a journal can be of a later version.
#[test]
fn a_paper_whose_tables_are_missing_is_named_after_the_departures() {
    let mut study = fixture::pires_2017_w();
    study.record.plan.plan.paper = Some("pires-2031".into());
    let missing = "This version of stayput does not have the tables of `pires-2031`, whose study this is.";
    let value = study.json();
    let departures = study.record.plan.plan.departures.len();
    assert!(departures > 0 && value["warnings"][departures] == missing, "{}", value["warnings"]);
    assert!(value.get("paper").is_none());
    for form in [Format::Terminal, Format::Markdown, Format::Latex] {
        assert_eq!(study.write(form).matches("does not have").count(), 1, "{form:?}");
    }
}

#[test]
fn json_keeps_the_contract() {
    let study = fixture::opteron();
    let value = study.json();
    let keys: std::collections::BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let contract = [
        "best",
        "ending",
        "findings",
        "host",
        "machine",
        "plan",
        "sessions",
        "stop",
        "summaries",
        "trials",
        "verdicts",
        "warnings",
    ];
    assert_eq!(keys, contract.into());
    let findings = &value["findings"];
    assert_eq!(findings["verdicts"].as_array().unwrap().len(), 2, "one for each subject");
    assert_eq!(findings["warnings"].as_array().unwrap().len(), value["warnings"].as_array().unwrap().len());
    let finding = &findings["verdicts"][1];
    assert_eq!((&finding["kind"], &finding["subject"]), (&"comparison".into(), &"npb:cg.A".into()));
    assert_eq!(finding["headline"]["best"], serde_json::json!({"placement": "scatter", "threads": 32}));
    assert_eq!(finding["placements"][3]["claim"], "faster");
    insta::assert_snapshot!("json_warning_findings", rounded(&findings["warnings"]));
    let trials = value["trials"].as_array().unwrap();
    assert_eq!(trials.len(), study.record.trials.len());
    let bound =
        trials.iter().find(|t| t["threads"] == 4 && t["placement"] == "scatter" && t["strayed_threads"] == 1).unwrap();
    assert_eq!(bound["intended_cpus"], serde_json::json!([[0], [16], [32], [48]]));
    assert_eq!(bound["actual_cpus"][1], serde_json::json!([16]));
    assert_eq!(bound["actual_cpus"][2].as_array().unwrap().len(), 64, "the thread that strayed");
    let unbound = trials.iter().find(|t| t["placement"] == "unbound").unwrap();
    assert!(unbound["intended_cpus"].is_null());
    assert_eq!(unbound["actual_cpus"][0].as_array().unwrap().len(), 64, "free on the whole machine");
    assert_eq!(trials[301]["status"], "not-started");
    assert!(trials[301]["wall_s"].is_null() && trials[301]["time_s"].is_null());
    let study = fixture::hostile();
    let failed = study.json();
    insta::assert_snapshot!("json_trial", serde_json::to_string_pretty(&failed["trials"][9]).unwrap());
    insta::assert_snapshot!("json_summary", rounded(&value["summaries"][5]));
}

/// A value with its figures rounded: their last bits are no promise.
fn rounded(value: &serde_json::Value) -> String {
    let mut value = value.clone();
    fn round(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Array(values) => values.iter_mut().for_each(round),
            serde_json::Value::Object(values) => values.values_mut().for_each(round),
            serde_json::Value::Number(number) if number.is_f64() => {
                *value = ((number.as_f64().unwrap() * 1e6).round() / 1e6).into();
            }
            _ => {}
        }
    }
    round(&mut value);
    serde_json::to_string_pretty(&value).unwrap()
}

#[test]
fn a_race_is_told_by_its_ranking() {
    let study = fixture::race();
    insta::assert_snapshot!("terminal_of_a_race", study.terminal(100));
    insta::assert_snapshot!("markdown_of_a_race", study.write(Format::Markdown));
    insta::assert_snapshot!("latex_of_a_race", study.write(Format::Latex));
}

#[test]
fn programs_read_who_won_a_race_and_how_it_went() {
    let study = fixture::race();
    let mut value = study.json();
    let race = value["races"][0].take();
    let history = race["history"].as_array().unwrap();
    let ran: Vec<usize> = history.iter().map(|block| block["entrants"].as_array().unwrap().len()).collect();
    assert_eq!(ran, [9, 5, 4, 3, 3, 3, 3, 3, 3]);
    assert_eq!(ran.iter().sum::<usize>(), race["runs"].as_u64().unwrap() as usize);
    assert_eq!((&history[1]["block"], &history[1]["entrants"]), (&2.into(), &serde_json::json!([0, 1, 2, 3, 4])));
    assert_eq!(history[1]["loss_high"].as_array().unwrap().len(), 5);
    let mut rest = race;
    rest.as_object_mut().unwrap().remove("history");
    insta::assert_snapshot!("json_race", rounded(&rest));
    let cut_off = value["trials"].as_array().unwrap().iter().find(|trial| trial["status"] == "cut-off").unwrap();
    assert_eq!((&cut_off["time_s"], &cut_off["wall_s"]), (&serde_json::Value::Null, &16.5.into()));
    assert!(cut_off.get("output_tail").is_none(), "nothing went wrong that its output could explain");
}

#[test]
fn a_long_ranking_shows_the_first_the_tied_and_unbound() {
    let study = fixture::race_of_200();
    let race = &study.analysis.races[0];
    let tied = race.standings.tied.len();
    let rows = tied.max(12) + usize::from(!race.standings.tied.contains(&0));
    assert!(race.standings.difference_shown && rows < 60, "{tied} of 200 tied");
    let text = study.terminal(100);
    assert_eq!(text.matches("\n  =1  ").count(), tied - 1, "{text}");
    assert!(text.lines().any(|line| line.contains("  unbound  ")), "{text}");
    assert!(text.contains(&format!("\n  and {} more, dropped after 1 to ", 200 - rows)), "{text}");
    assert!(study.write(Format::Markdown).matches("\n| =1 |").count() == tied - 1);
    assert!(study.write(Format::Latex).matches("\n=1 &").count() == tied - 1);
}

#[test]
fn a_race_over_thread_counts_tells_them() {
    let study = fixture::race_of_a_model();
    let text = study.terminal(100);
    let heads = |line: &str| line.split_whitespace().take(3).eq(["threads", "runs", "time,"]);
    assert!(text.lines().any(heads), "{text}");
    assert!(study.write(Format::Markdown).contains("| placement | threads | runs |"));
    for form in [study.terminal(80), study.write(Format::Markdown)] {
        let form = form.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(form.contains("since it is a model and no program") && !form.contains("stayput run -n"), "{form}");
    }
    let caption = study.write(Format::Latex);
    assert!(caption.contains("drawn from a model on the machine xeon-e5405, 8 CPUs."), "{caption}");
    assert!(!caption.contains("Linux"), "{caption}");
}

#[test]
fn a_run_of_a_model_took_its_time_and_nothing_else_is_known_of_it() {
    let study = fixture::race_of_a_model();
    let value = study.json();
    let trial = value["trials"][0].as_object().unwrap();
    assert!(trial["wall_s"].is_f64() && trial["wall_s"] == trial["time_s"], "{trial:?}");
    for key in ["user_s", "max_rss_bytes", "voluntary_switches", "migrations", "strayed_threads", "actual_cpus"] {
        assert!(trial[key].is_null(), "{key}: {trial:?}");
    }
    let text = study.write(Format::Csv);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let row = reader.records().next().unwrap().unwrap();
    let field = |name: &str| &row[header.iter().position(|column| column == name).unwrap()];
    assert!(!field("wall_s").is_empty() && field("wall_s") == field("time_s"), "{row:?}");
    assert_eq!((field("user_s"), field("strayed_threads")), ("", ""));
}

#[test]
fn every_verdict_is_a_value_of_a_kind_too() {
    let kinds = |study: &Study| -> Vec<String> {
        let value: serde_json::Value = serde_json::from_str(&write(study, Format::Json)).unwrap();
        let verdicts = value["findings"]["verdicts"].as_array().unwrap();
        verdicts.iter().map(|verdict| verdict["kind"].as_str().unwrap().to_owned()).collect()
    };
    for (study, kind) in [
        (fixture::weber_2010().study(), "comparison"),
        (fixture::race().study(), "race"),
        (fixture::simulation().study(), "simulation"),
        (fixture::space().study(), "space-sharing"),
        (fixture::replays().study(), "replay"),
    ] {
        assert_eq!(kinds(&study), [kind]);
    }
}

#[test]
fn where_nothing_beats_unbound_a_race_gives_nothing_to_paste() {
    let mut study = fixture::race();
    study.analysis.cells.best[0].shown = false;
    let text = study.terminal(200);
    let nothing = "npb:cg.B: nothing needs pasting. No placement is shown to be faster than unbound with 4 threads";
    assert!(text.contains(nothing) && !text.contains("stayput run"), "{text}");
    for entrant in &mut study.analysis.races[0].entrants {
        entrant.reference = false;
    }
    let text = study.terminal(200);
    assert!(text.contains("nothing needs pasting. Unbound with 4 threads was not in the race"), "{text}");
}
