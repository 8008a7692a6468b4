//! Papers beside ours, from the command line.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const PRINTED: &str = include_str!("../../../papers/printed/cache-affinity.toml");

fn reproduce(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stayput")).arg("reproduce").args(words).output().unwrap()
}

/// What it prints when all goes well.
fn told(words: &[&str]) -> String {
    let output = reproduce(words);
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The one sentence that it is refused with, at exit code 2.
fn refused(words: &[&str]) -> String {
    let output = reproduce(words);
    let told = text(&output.stderr);
    assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{words:?}: {told}");
    assert!(output.stdout.is_empty(), "{words:?}");
    told
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn every_number_that_is_printed_stands_beside_ours() {
    let json: Value = serde_json::from_str(&told(&["--replicates", "2", "--format", "json"])).unwrap();
    let paper = &json["papers"][0];
    let names: Vec<_> =
        json["papers"].as_array().unwrap().iter().map(|paper| paper["paper"].as_str().unwrap()).collect();
    assert_eq!(names, ["cache-affinity", "pires-2016", "pires-2017", "weber-2010"]);
    let printed: toml::Table = PRINTED.parse().unwrap();
    let list = |from: &toml::Value, key: &str| from[key].as_array().unwrap().clone();
    let tables = printed["table"].as_array().unwrap();
    assert_eq!(paper["tables"].as_array().unwrap().len(), tables.len());
    let mut numbers = 0;
    for (table, told) in tables.iter().zip(paper["tables"].as_array().unwrap()) {
        assert_eq!(told["name"].as_str(), table["name"].as_str());
        for (row, told) in list(table, "rows").iter().zip(told["rows"].as_array().unwrap()) {
            assert_eq!(told["label"].as_str(), row["label"].as_str());
            let printed = list(row, "printed");
            // What affinity changes against today's kernel is ours alone.
            let ours_alone = if table["name"].as_str() == Some("table-5") { printed.len() } else { 0 };
            let cells = told["cells"].as_array().unwrap();
            assert_eq!(cells.len(), printed.len() + ours_alone);
            assert!(
                cells[printed.len()..].iter().all(|cell| cell["ours"]["value"].is_f64() && cell["printed"].is_null())
            );
            for (printed, cell) in printed.iter().zip(told["cells"].as_array().unwrap()) {
                let place = format!("{}, {}: {printed}, {cell}", table["title"], row["label"]);
                let Ok(number) = printed.as_str().unwrap().parse::<f64>() else {
                    assert!(cell["printed"].is_null() || cell["printed"] == printed.as_str().unwrap(), "{place}");
                    continue;
                };
                let ours = cell["ours"]["value"].as_f64().unwrap_or_else(|| panic!("{place}"));
                assert_eq!(cell["printed"].as_f64(), Some(number), "{place}");
                assert!((cell["difference"].as_f64().unwrap() - (ours - number)).abs() < 1e-9, "{place}");
                numbers += 1;
            }
        }
    }
    assert_eq!(numbers, 5 * 7 + 5 * 6 + 11 * 3 + 8, "all of Tables II, III, IV and what is known of V");
}

#[test]
fn every_claim_has_a_verdict_and_a_reason_and_every_workload_its_slices() {
    let json: Value =
        serde_json::from_str(&told(&["cache-affinity", "--replicates", "2", "--format", "json"])).unwrap();
    let paper = &json["papers"][0];
    let printed: toml::Table = PRINTED.parse().unwrap();
    let claims = paper["claims"].as_array().unwrap();
    assert_eq!(claims.len(), printed["claim"].as_array().unwrap().len());
    for (claim, printed) in claims.iter().zip(printed["claim"].as_array().unwrap()) {
        assert_eq!(
            (claim["where"].as_str(), claim["statement"].as_str()),
            (printed["where"].as_str(), printed["says"].as_str())
        );
        assert!(["holds", "fails", "undecidable"].contains(&claim["verdict"].as_str().unwrap()), "{claim}");
        assert!(!claim["why"].as_str().unwrap().is_empty(), "{claim}");
    }
    for figure in paper["figures"].as_array().unwrap() {
        let panels = figure["panels"].as_array().unwrap();
        assert_eq!(panels.len(), 7, "{}", figure["title"]);
        let sum = |panel: &Value| -> f64 {
            panel["bins"].as_array().unwrap().iter().map(|bin| bin["percent"].as_f64().unwrap()).sum()
        };
        if figure["name"] == "figure-1" {
            assert!(panels.iter().all(|panel| (sum(panel) - 100.0).abs() < 1e-6), "all slices");
        }
    }
}

#[test]
fn placement_papers_stand_beside_a_model_and_their_claims_are_judged() {
    let words = ["pires-2016", "pires-2017", "weber-2010", "--format", "json"];
    let json: Value = serde_json::from_str(&told(&words)).unwrap();
    let papers = json["papers"].as_array().unwrap();
    assert_eq!(papers.len(), 3);
    for paper in papers {
        assert!(paper["held_out"]["mean_error"].as_f64().unwrap() < 0.12, "{}", paper["held_out"]);
        let rows = paper["tables"].as_array().unwrap().iter().flat_map(|table| table["rows"].as_array().unwrap());
        let cells: Vec<&Value> = rows.flat_map(|row| row["cells"].as_array().unwrap()).collect();
        let printed = cells.iter().filter(|cell| !cell["printed"].is_null());
        assert!(printed.clone().count() > 0 && printed.clone().all(|cell| cell["ours"]["value"].is_f64()));
        let roles = |role: &str| cells.iter().filter(|cell| cell["role"] == role).count();
        assert!(0 < roles("fitted") && roles("fitted") < roles("held-out"), "{}", paper["paper"]);
        for claim in paper["claims"].as_array().unwrap() {
            assert!(["holds", "fails", "undecidable"].contains(&claim["verdict"].as_str().unwrap()), "{claim}");
            assert!(!claim["why"].as_str().unwrap().is_empty(), "{claim}");
        }
    }
}

#[test]
fn the_same_command_gives_the_same_bytes_and_another_seed_others() {
    let csv = |seed| told(&["cache-affinity", "--replicates", "1", "--seed", seed, "--format", "csv"]);
    let first = csv("3");
    assert_eq!(first, csv("3"));
    assert_ne!(first, csv("4"));
    assert!(
        first.starts_with(
            "paper,table,row,column,printed,ours,ours_low,ours_high,difference,role,live,live_low,live_high\n"
        ),
        "{first}"
    );
    assert_eq!(
        first.lines().count(),
        1 + 5 + 5 * 7 + 5 * 6 + 11 * 5 + 7 * 12 + 14 * 6 + 9 * 4 + 3,
        "a row a cell and sentence"
    );
}

#[test]
fn every_form_says_what_affinity_changes_against_todays_kernel() {
    let kernel = sim::Release::default().name();
    let words = ["cache-affinity", "--replicates", "2", "--format"];
    let told = |form: &str| told(&[&words[..], &[form]].concat());
    let json: Value = serde_json::from_str(&told("json")).unwrap();
    let against = &json["papers"][0]["against_kernel"];
    assert_eq!(against["kernel"], kernel);
    for policy in against["policies"].as_array().unwrap() {
        assert_eq!(policy["workloads"].as_array().unwrap().len(), 7, "{policy}");
    }
    let sentences: Vec<&str> =
        against["sentences"].as_array().unwrap().iter().map(|sentence| sentence.as_str().unwrap()).collect();
    let start = |policy| format!("Against Linux {kernel}'s own scheduler, {policy} affinity saves time in ");
    assert!(sentences[0].starts_with(&start("light")) && sentences[1].starts_with(&start("heavy")), "{sentences:?}");
    assert!(sentences[2].starts_with("This is simulated, ") && sentences[2].contains("sgi-4d340"), "{sentences:?}");
    let words_of = |text: &str| {
        let text = text.replace('\\', "").replace("&#39;", "'");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for form in ["terminal", "markdown", "html", "csv"] {
        let text = words_of(&told(form));
        for sentence in &sentences {
            assert!(text.contains(&words_of(sentence)), "{form}: {sentence}\n{text}");
        }
        let heads = text.matches(&format!("against Linux {kernel}")).count();
        assert!(heads >= 6 || form == "terminal", "{form}: {heads}");
    }
}

#[test]
fn a_file_gets_what_standard_output_would() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("paper.md");
    let words = ["--replicates", "1", "--format", "markdown"];
    assert_eq!(told(&[&words[..], &["--out", path.to_str().unwrap()]].concat()), "");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), told(&words));
}

#[test]
fn what_there_is_not_is_refused_in_one_sentence() {
    assert_eq!(
        refused(&["the-bible"]),
        "stayput: there is no paper `the-bible`; there are: cache-affinity, pires-2016, pires-2017, weber-2010\n"
    );
    assert!(refused(&["cache-affinity", "--replicates", "0"]).contains("replicates"));
}

/// The command with programs beside it that print what the built-in ones print, without their work.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::hard_link(env!("CARGO_BIN_EXE_stayput"), folder.path().join("stayput")).unwrap();
        let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/builtin.sh");
        for program in [
            "npb-bt",
            "npb-cg",
            "npb-ep",
            "npb-ft",
            "npb-lu",
            "npb-sp",
            "climate",
            "affinity-matrix",
            "affinity-mp3d",
            "mva",
            "matrix",
            "gravity",
        ] {
            symlink(&stand_in, folder.path().join(program)).unwrap();
        }
        Self { folder }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.folder.path().join("stayput"));
        command.args(words).current_dir(self.folder.path());
        command
    }

    fn reproduce(&self, words: &[&str]) -> Output {
        self.command(&[&["reproduce"], words].concat()).output().unwrap()
    }

    /// What the files of `folder` keep, one after the other: of each journal the trials, of each mix that shared CPUs the plays.
    fn kept(&self, folder: &str) -> BTreeMap<String, Vec<Value>> {
        let entries = fs::read_dir(self.folder.path().join(folder)).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.file_name().into_string().unwrap());
        let read = |file: String| {
            let path = format!("{folder}/{file}");
            let (json, list) = match file.rsplit_once('.')?.1 {
                // A profile is whole or not there.
                "json" if file.starts_with("profile-") => return None,
                "stayput" => (self.command(&["report", "--format", "json", &path]).output().unwrap().stdout, "trials"),
                "json" => (fs::read(self.folder.path().join(&path)).unwrap(), "plays"),
                _ => return None,
            };
            // A journal that was begun and has no trial yet is none that is reported on.
            let told = serde_json::from_slice::<Value>(&json).unwrap_or_default();
            let mut kept = told[list].as_array().cloned().unwrap_or_default();
            for trial in kept.iter_mut().filter(|_| list == "trials") {
                // What a report computes from other trials, too.
                ["jobs", "values"].iter().for_each(|key| drop(trial.as_object_mut().unwrap().remove(*key)));
            }
            Some((file, kept))
        };
        files.filter_map(read).collect()
    }
}

/// What was run, apart from what came of it, sorted.
fn runs(kept: &[Value]) -> Vec<String> {
    let run = |row: &Value| {
        ["block", "subject", "threads", "placement", "warmup", "play", "policy"]
            .map(|key| row[key].to_string())
            .join(" ")
    };
    let mut runs: Vec<String> = kept.iter().map(run).collect();
    runs.sort();
    runs
}

#[test]
fn killed_at_any_moment_a_live_reproduction_goes_on_and_makes_nothing_twice() {
    let bench = Bench::new();
    let words = ["reproduce", "cache-affinity", "--live", "--live-class", "S", "--on", "here", "--live-budget", "5min"];
    let words = [&words[..], &["--replicates", "1", "--quiet", "--format", "csv", "--journal"]].concat();
    let mut before = BTreeMap::new();
    let mut random = 0x5EED_u64;
    for _ in 0..6 {
        let mut running = bench
            .command(&[&words[..], &["killed"]].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros(300_000 + (random >> 40) % 1_500_000));
        running.kill().unwrap();
        running.wait().unwrap();
        let now = bench.kept("killed");
        for (file, kept) in &before {
            let kept: &Vec<Value> = kept;
            assert!(now[file].starts_with(kept), "{file} lost something, or has it otherwise");
        }
        before = now;
    }
    for folder in ["killed", "whole"] {
        let output = bench.command(&[&words[..], &[folder]].concat()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let [killed, whole] = ["killed", "whole"].map(|folder| bench.kept(folder));
    assert!(whole.len() > 3 && whole.values().all(|kept| !kept.is_empty()), "{:?}", whole.keys());
    assert!(killed.keys().eq(whole.keys()), "{:?} {:?}", killed.keys(), whole.keys());
    for (file, kept) in &killed {
        let mut once = runs(kept);
        once.dedup();
        assert_eq!(once, runs(kept), "{file}: nothing twice");
        assert_eq!(once, runs(&whole[file]), "{file}: as if it had never been killed");
        assert!(kept.starts_with(before.get(file).map_or(&[], Vec::as_slice)), "{file}");
    }
}

#[test]
fn a_live_study_stands_beside_the_papers_tables_and_is_read_again_when_it_is_finished() {
    let bench = Bench::new();
    let words = ["pires-2016", "--live", "--live-class", "S", "--live-budget", "5min", "--format", "json"];
    let first = bench.reproduce(&words);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let json: Value = serde_json::from_slice(&first.stdout).unwrap();
    let paper = &json["papers"][0];
    let about: Vec<&str> = paper["live"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(about[0].starts_with("Live: npb:bt.S, ") && about[0].ends_with("in the journal pires-2016.stayput."));
    assert!(about.contains(&"Class S takes the place of B."), "{about:?}");
    let tables = paper["tables"].as_array().unwrap();
    let names: Vec<&str> = tables.iter().map(|table| table["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["table-1", "table-1-ratios", "table-2", "table-2-ratios"]);
    // What the programs say they took, and with one thread in both placements the same.
    for (table, value) in [(0, 0.01), (1, 1.0)] {
        for row in tables[table]["rows"].as_array().unwrap() {
            assert_eq!(row["cells"][0]["live"]["value"].as_f64(), Some(value), "{row}");
        }
    }
    let ratio = &tables[1]["rows"][0]["cells"][3];
    assert!((ratio["printed"].as_f64().unwrap() - 95.6 / 46.3).abs() < 1e-9, "{ratio}");
    let claims = paper["claims"].as_array().unwrap();
    let claim = |says: &str| claims.iter().find(|claim| claim["statement"].as_str().unwrap().contains(says)).unwrap();
    assert_eq!(claim("with 1 thread, times with and without")["live"]["verdict"], "holds");
    assert!(claim("refers to are there")["live"].is_null(), "no run can tell");
    // Finished, it is only read: without its options too, and as it is.
    let journal = fs::read(bench.folder.path().join("pires-2016.stayput")).unwrap();
    let again = bench.reproduce(&["pires-2016", "--live", "--format", "json"]);
    assert_eq!((text(&again.stdout), again.status.code()), (text(&first.stdout), Some(0)), "{}", text(&again.stderr));
    assert_eq!(fs::read(bench.folder.path().join("pires-2016.stayput")).unwrap(), journal);
    for (words, said) in [
        (vec!["pires-2016", "--live", "--live-class", "W"], "pires-2016.stayput holds another plan"),
        (vec!["weber-2010", "--live", "--journal", "pires-2016.stayput"], "another study than weber-2010's"),
        (vec!["pires-2016", "pires-2017", "--live", "--journal", "x.stayput"], "name a folder"),
    ] {
        let output = bench.reproduce(&words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(said), "{words:?}: {}", text(&output.stderr));
    }
}

#[test]
fn the_reports_workloads_are_run_as_programs_beside_what_is_printed() {
    let bench = Bench::new();
    let folder = bench.folder.path().join("journals");
    fs::create_dir(&folder).unwrap();
    let words = ["--live", "--live-class", "S", "--on", "here", "--live-budget", "2min", "--journal", "journals"];
    let form = ["--replicates", "1", "--format", "csv"];
    let all = bench.reproduce(&[&["cache-affinity", "weber-2010"], &words[..], &form].concat());
    assert!(all.status.success(), "{}", text(&all.stderr));
    assert!(
        folder.join("weber-2010.stayput").exists()
            && folder.join("cache-affinity/matrix-matrix.small.stayput").exists()
    );
    let said = text(&all.stderr);
    assert!(said.contains("study 1 of 7: Matrix+Matrix on this machine; at most 17 s for it, 2 min left"), "{said}");
    assert!(said.contains("mix 7 of 7: 2*MVA+2*MATRIX+2*GRAVITY on this machine"), "{said}");
    let csv = text(&all.stdout);
    let live: Vec<&str> = csv.lines().filter(|line| line.contains("unbound speed-up,1,")).collect();
    assert!(matches!(live.as_slice(), [line] if line.ends_with(",1,,")), "{live:?}");
    let cell = |line: &&str| line.starts_with("cache-affinity,live-times,") && !line.ends_with(",,,");
    let measured = csv.lines().filter(cell).count();
    assert!(measured > 0, "{csv}");
    // Jobs of section 5 ran, too: both policies stand beside simulated ones of the same mix.
    let shared =
        |line: &&str| line.starts_with("cache-affinity,figure-3,\"MVA+MATRIX, MVA\",") && !line.ends_with(",,,");
    assert_eq!(csv.lines().filter(shared).count(), 2, "{csv}");
    let plays = folder.join("cache-affinity/space-mva-matrix.json");
    let played = fs::read(&plays).unwrap();
    // What was measured is read again, and goes on.
    let words =
        ["cache-affinity", "--live", "--on", "here", "--live-budget", "10ms", "--journal", "journals/cache-affinity"];
    let again = bench.reproduce(&[&words[..], &["--replicates", "1", "--format", "json"]].concat());
    assert!(again.status.success(), "{}", text(&again.stderr));
    let json: Value = serde_json::from_slice(&again.stdout).unwrap();
    let about: Vec<&str> = json["papers"][0]["live"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(about[0].starts_with("Live: Matrix+Matrix"), "{about:?}");
    assert!(about.iter().any(|line| line.contains("the budget of 0 s")), "{about:?}");
    let claims = json["papers"][0]["claims"].as_array().unwrap();
    let is_judged = |claim: &&Value| claim["live"]["verdict"].is_string();
    let judged: Vec<&str> = claims.iter().filter(is_judged).filter_map(|claim| claim["where"].as_str()).collect();
    assert_eq!(judged[..2], ["section 1", "section 1"], "times here say nothing of misses");
    assert!(judged.len() == 5 && judged[2..].iter().all(|place| place.starts_with("section 5")), "{judged:?}");
    assert_eq!(fs::read(&plays).unwrap(), played, "what is whole is only read");
    fs::write(&plays, "[]").unwrap();
    let refused = bench.reproduce(&[&words[..], &["--replicates", "1"]].concat());
    assert!(text(&refused.stderr).contains("space-mva-matrix.json holds no results of stayput share"), "{refused:?}");
    for (words, said) in [
        (&["pires-2016", "--on", "vm"][..], "`--live`"),
        (&["cache-affinity", "--live", "--live-class", "Q"], "has no class `Q`"),
    ] {
        let refused = bench.reproduce(words);
        let told = text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && told.contains(said), "{told}");
    }
}
