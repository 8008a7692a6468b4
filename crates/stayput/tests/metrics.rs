//! Studies by numbers that runs write: what they are compared by, how that is told, and what becomes of a run that writes none.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// Under SCHED_BATCH (3 in /proc/PID/stat) it has a fifth more throughput, and latencies that are twice as long. The first number of
/// its run is drawn from its process id, so that runs differ.
const SERVER: &str = r#"#!/bin/sh
class=$(cut -d ' ' -f 41 /proc/self/stat)
noise=$(( $$ % 7 ))
if [ "$class" = 3 ]; then rate=12$noise.5; p95=20.$noise; else rate=10$noise.5; p95=10.$noise; fi
echo "rate: $rate MB/s"
echo "{\"latency\": {\"p95\": $p95}, \"errors\": 0}" > out.json
echo "{\"latency\": {\"p95\": $p95}}" >&2
"#;

struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        desk.program("server", SERVER);
        desk
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }

    fn stayput(&self, words: &[&str]) -> Output {
        Command::new(STAYPUT).args(words).current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap()
    }

    /// A study of `program` in `a.stayput` that ends with `code`; what it says on both streams.
    fn study(&self, words: &[&str], program: &str, code: i32) -> String {
        let usual = ["study", "-q", "--no-report", "--out", "a.stayput", "-n", "1", "--warmup", "0"];
        let all = [&usual[..], words, &["--", program]].concat();
        let output = self.stayput(&all);
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
        assert_eq!(output.status.code(), Some(code), "{said}");
        said
    }

    fn report(&self, format: &str) -> String {
        let output = self.stayput(&["report", "a.stayput", "--format", format]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.report("json")).unwrap()
    }
}

const RATE: &str = "rate [MB/s] higher = \"rate: ([0-9.]+)\"";
const P95: &str = "p95 [ms] lower = json:/latency/p95";
const ERRORS: &str = "errors lower = file:out.json:json:/errors";
const SIX: [&str; 4] = ["--min-runs", "6", "--max-runs", "6"];

fn metric<'a>(summary: &'a Value, name: &str) -> &'a Value {
    summary["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == name).unwrap()
}

#[test]
fn a_rate_is_compared_and_above_1_is_better_and_what_says_the_opposite_is_told() {
    let desk = Desk::new();
    let asked = ["--sched", "default,batch", "--metric", RATE, "--metric", P95, "--metric", ERRORS];
    let said = desk.study(&[&asked[..], &SIX].concat(), "./server", 0);
    let one_line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(one_line.contains("x higher rate than unbound"), "{said}");
    assert!(one_line.contains("Compared by rate [MB/s], higher is better, as the program reports it."), "{said}");
    assert!(one_line.contains("by rate it is better than the reference, and by p95 it is worse"), "{said}");
    let json = desk.json();
    let batch = &json["summaries"][1];
    let rate = metric(batch, "rate");
    assert_eq!(
        (rate["unit"].as_str(), rate["better"].as_str(), rate["primary"].as_bool(), rate["claim"].as_str()),
        (Some("MB/s"), Some("higher"), Some(true), Some("faster"))
    );
    let number = |metric: &Value, key: &str| metric[key].as_f64().unwrap();
    assert!((120.0..=130.0).contains(&number(rate, "median")), "{rate}");
    assert!(number(rate, "ratio_low") > 1.05 && number(rate, "ratio_high") < 1.35, "{rate}");
    assert_eq!(batch["ratio"], rate["ratio"]);
    let p95 = metric(batch, "p95");
    assert_eq!((p95["primary"].as_bool(), p95["claim"].as_str()), (Some(false), Some("slower")), "{p95}");
    assert!(number(p95, "ratio_high") < 0.7, "{p95}");
    assert_eq!(metric(batch, "errors")["median"], 0.0);
    assert!(
        metric(batch, "time")["median"].as_f64().unwrap() < 60.0
            && batch["median_s"] == metric(batch, "time")["median"]
    );
    let used: Vec<&str> = batch["used"].as_array().unwrap().iter().map(|used| used["name"].as_str().unwrap()).collect();
    assert!(["cpu_time", "peak_memory", "minor_faults"].iter().all(|name| used.contains(name)), "{used:?}");
    let trial = &json["trials"][0];
    assert!(trial["values"]["rate"].is_f64() && trial["values"]["p95"].is_f64(), "{trial}");
}

#[test]
fn wherever_the_number_is_its_unit_and_direction_are() {
    let desk = Desk::new();
    let asked = ["--sched", "default,batch", "--metric", RATE, "--metric", P95];
    desk.study(&[&asked[..], &SIX].concat(), "./server", 0);
    for format in ["terminal", "html", "markdown", "latex"] {
        let text = desk.report(format);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("higher is better") && text.contains("MB/s"), "{format}");
        // Of the others, too: on a terminal below the name, where there is room.
        let (_, others) = text.split_once("p95, ms").unwrap();
        let end = if format == "terminal" { 60 } else { 20 };
        assert!(others[..end].contains("lower is better"), "{format}: {others}");
    }
    let page = desk.report("html");
    assert!(page.contains("trials in order by rate, MB/s, higher is better"), "what is drawn has a name");
    assert!(page.contains("MB/s</text>") && page.contains("median of rate, MB/s"), "scale and heads");
    let csv = desk.report("csv");
    let head = csv.lines().next().unwrap();
    assert!(head.contains("metric_rate_MB/s") && !head.contains("metric_time"), "{head}");
    assert!(csv.lines().nth(1).unwrap().contains("rate [MB/s], higher is better"), "{csv}");
}

#[test]
fn a_race_is_won_by_what_is_compared_and_runs_of_any_length_go_to_their_end() {
    let desk = Desk::new();
    let asked = [
        "--best",
        "--among",
        "named",
        "--place",
        "compact",
        "--sched",
        "default,batch",
        "--runs",
        "20",
        "--metric",
        RATE,
    ];
    let said = desk.study(&asked, "./server", 0);
    assert!(said.contains("sched=batch"), "{said}");
    let json = desk.json();
    let best = json["races"][0]["best"]["placement"].as_str().unwrap();
    assert!(best.ends_with("sched=batch"), "{best}");
    assert!(json["trials"].as_array().unwrap().iter().all(|trial| trial["status"] != "cut-off"));
}

#[test]
fn a_number_that_is_missing_fails_the_run_and_says_why() {
    for (program, metric, cause) in [
        ("echo none", RATE, "`rate` is not in its output: nothing matches"),
        ("echo 'rate: 0'", RATE, "`rate` is 0, and nothing can be compared with that"),
        ("echo 'rate: 1' > old; sleep 0.1", "rate higher = file:was:'(.*)'", "was is older than this run"),
        ("echo '{}'", P95, "`p95` is not in its output: its JSON has no /latency/p95"),
    ] {
        let desk = Desk::new();
        fs::write(desk.0.path().join("was"), "1").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        desk.program("app", &format!("#!/bin/sh\n{program}\n"));
        let said = desk.study(&["--place", "unbound", "--metric", metric], "./app", 1);
        assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains(cause), "{cause}: {said}");
        let json = desk.json();
        let trial = &json["trials"][0];
        assert_eq!(trial["status"], "no-metric");
        assert!(trial["cause"].as_str().unwrap().contains(cause) && trial["time_s"].is_null(), "{trial}");
    }
}

#[test]
fn another_metric_is_another_study_and_time_may_stay_what_is_compared() {
    let desk = Desk::new();
    let by = |primary: &[&str]| {
        let asked = ["--sched", "default,batch", "--metric", RATE, "--metric", P95];
        desk.study(&[&asked[..], primary, &SIX].concat(), "./server", 0)
    };
    let said = by(&["--primary", "time"]);
    assert!(said.contains("Compared by time [s], lower is better, by the wall clock."), "{said}");
    let json = desk.json();
    assert_eq!(metric(&json["summaries"][1], "time")["primary"], true);
    assert_eq!(metric(&json["summaries"][1], "rate")["primary"], false);
    // Trials have all that it needs, but what was decided by another number is another study.
    let asked =
        ["study", "-q", "--no-report", "--out", "a.stayput", "-n", "1", "--warmup", "0", "--sched", "default,batch"];
    let metrics = ["--metric", RATE, "--metric", P95];
    let output = desk.stayput(&[&asked[..], &metrics, &SIX, &["--", "./server"]].concat());
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("metric") && told.contains("--force"), "{told}");
}
