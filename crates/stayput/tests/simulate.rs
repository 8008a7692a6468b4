//! Simulations from the command line.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod simulation_desk;

use serde_json::Value;
use simulation_desk::{Desk, text};
use std::time::Duration;

/// Eight processes that take turns at a lock and meet at a barrier.
const WORKLOAD: &str = "\
name = \"solver\"
[parameters]
replicates = 4
[[jobs]]
name = \"solver\"
processes = 8
locks = [\"sum\"]
[jobs.process.memory]
reload_lines = 2000
steady_misses_per_ms = 50
[[jobs.process.phases]]
repeat = 6
steps = [
    { work = { uniform = [10, 30] } },
    { acquire = \"sum\" },
    { work = { constant = 1 } },
    { release = \"sum\" },
    \"barrier\",
]
";

fn desk() -> Desk {
    Desk::new("time-sharing", "solver.toml", WORKLOAD)
}

/// An estimate and the ends of its interval.
fn interval(object: &Value, key: &str) -> [f64; 3] {
    ["", "_low", "_high"].map(|end| {
        let number = &object[format!("{key}{end}")];
        number.as_f64().unwrap_or_else(|| panic!("{key}{end} is {number}"))
    })
}

fn policies(told: &Value) -> Vec<&str> {
    told["policies"].as_array().unwrap().iter().map(|policy| policy["policy"].as_str().unwrap()).collect()
}

#[test]
fn affinity_lengthens_the_slices_of_processes_that_compute_as_the_algebra_says() {
    let desk = desk();
    let told = desk.json("--workload spin:8 --decay none --policy standard,light,heavy,attached");
    assert_eq!(policies(&told), ["standard", "light", "heavy", "attached"]);
    let slices = |at: usize| told["policies"][at]["effective_slice_median_ms"].as_f64().unwrap();
    // 20 ms x phi_t x 2 / (2 - 1), in whole quanta of 30 ms that end up to 0.1 ms late, as histograms tell them.
    assert!((30.0..31.0).contains(&slices(0)), "{}", slices(0));
    assert!((239.0..243.0).contains(&slices(1)), "{}", slices(1));
    assert!((658.0..665.0).contains(&slices(2)), "{}", slices(2));
    assert_eq!(told["policies"][3]["migrations"], 0.0, "attached for life");
    assert!(told["policies"][1]["misses_change_percent"].is_null(), "nothing misses");
}

#[test]
fn words_are_explained_where_that_is_asked_for() {
    let desk = desk();
    let told = |words: &str| {
        let command = format!("simulate time-sharing --workload spin:4 --policy standard,light --quiet {words}");
        text(&desk.command(&command).output().unwrap().stdout)
    };
    let (plain, explained) = (told("--replicates 1"), told("--replicates 1 --explain"));
    assert!(plain.contains("--explain says what the words of the table mean."), "{plain}");
    assert!(explained.contains("effective slice: Time on a CPU"), "{explained}");
    // A single replicate has no interval to explain, nor one to promise.
    assert!(!explained.contains("95 %"), "{explained}");
    assert!(told("--replicates 2 --explain").contains("95 % interval: If the whole simulation"));
}

#[test]
fn the_same_command_gives_the_same_bytes_on_any_number_of_threads() {
    let desk = desk();
    let words = "simulate time-sharing --workload solver.toml --policy standard,light,per-cpu --format json";
    let on = |threads: &str| desk.command(words).env("RAYON_NUM_THREADS", threads).output().unwrap().stdout;
    let one = on("1");
    assert!(!one.is_empty());
    assert_eq!(text(&one), text(&on("1")));
    assert_eq!(text(&one), text(&on("3")));
    let other = text(&desk.command(words).args(["--seed", "2"]).output().unwrap().stdout);
    assert_ne!(text(&one), other, "another seed draws anew");
}

#[test]
fn a_workload_file_is_simulated_with_its_parameters_and_flags_beat_them() {
    let desk = desk();
    let told = desk.json("--workload solver.toml --quantum-ms 20");
    assert_eq!(told["workload"]["name"], "solver");
    assert_eq!((&told["parameters"]["replicates"], &told["parameters"]["quantum_ms"]), (&4.into(), &20.0.into()));
    assert_eq!(policies(&told), ["eevdf", "light", "heavy", "standard"]);
    assert!(told["policies"][0]["misses_by_cause"]["reload"].as_f64().unwrap() > 0.0);
}

#[test]
fn boosts_that_are_given_or_swept_bring_the_policy_that_heeds_them() {
    let desk = desk();
    let given = desk.json("--workload solver.toml --phi-p 3 --phi-t 9");
    assert_eq!(policies(&given), ["eevdf", "affinity", "standard"]);
    let swept = desk.json("--workload solver.toml --replicates 2 --sweep phi=0-6/3");
    let points = swept["points"].as_array().unwrap();
    assert_eq!(points.iter().map(|point| point["value"].as_f64().unwrap()).collect::<Vec<_>>(), [0.0, 3.0, 6.0]);
    assert_eq!(policies(&points[0]), ["eevdf", "affinity", "standard"]);
}

#[test]
fn what_affinity_would_save_is_told_against_the_kernels_own_scheduler_unless_policies_are_named() {
    let desk = desk();
    let newest = sim::Release::default().name();
    // The default, a sweep, another kernel: changes are against eevdf, and every form says whose it is.
    for (words, kernel, change_of) in [
        ("--replicates 2", newest, "light"),
        ("--replicates 2 --kernel 6.12", "6.12", "light"),
        ("--replicates 2 --sweep phi=3,6", newest, "affinity"),
    ] {
        let words = format!("--workload solver.toml {words}");
        let told = desk.json(&words);
        assert_eq!((&told["reference"], &told["kernel"]), (&"eevdf".into(), &kernel.into()), "{words}");
        let point = if told["sweep"].is_null() { &told } else { &told["points"][0] };
        let policies = point["policies"].as_array().unwrap();
        for policy in policies {
            let is_reference = policy["policy"] == "eevdf";
            assert_eq!(policy["makespan_change_percent"].is_null(), is_reference, "{words}: {policy}");
        }
        assert_eq!(policies[1]["policy"], change_of, "what affinity changes is said first");
        let scheduler = format!("Linux {kernel}'s own scheduler");
        let verdict = told["verdicts"][0].as_str().unwrap().to_owned();
        assert!(verdict.starts_with(&format!("solver: against {scheduler}, ")), "{verdict}");
        for form in ["terminal", "markdown", "latex", "html"] {
            let text = desk.told(&format!("{words} --format {form}")).replace("&#39;", "'");
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(&scheduler) && text.contains("gainst eevdf"), "{words}, {form}: {text}");
            assert!(!text.contains("gainst standard"), "{words}, {form}: {text}");
        }
        let csv = desk.told(&format!("{words} --format csv"));
        let column = |name: &str| csv.lines().next().unwrap().split(',').position(|head| head == name).unwrap();
        let (policy, release) = (column("policy"), column("kernel"));
        for row in csv.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>()) {
            assert_eq!(row[release], if row[policy] == "eevdf" { kernel } else { "" }, "{words}: {row:?}");
        }
    }
    // Named policies are compared with standard, and whose eevdf is stands in every form as well.
    let words = "--workload solver.toml --replicates 2 --policy eevdf,light,standard";
    let told = desk.json(words);
    assert_eq!(policies(&told), ["standard", "eevdf", "light"]);
    assert_eq!((&told["reference"], &told["kernel"]), (&"standard".into(), &newest.into()));
    assert!(told["verdicts"][0].as_str().unwrap().starts_with("solver: eevdf "), "{}", told["verdicts"]);
    for form in ["terminal", "markdown", "latex", "html"] {
        let text = desk.told(&format!("{words} --format {form}")).replace("&#39;", "'");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&format!("Linux {newest}'s own scheduler")), "{form}: {text}");
        assert!(text.contains("gainst standard") && !text.contains("gainst eevdf"), "{form}: {text}");
    }
    let without = desk.json("--workload solver.toml --replicates 2 --policy standard,light");
    assert!(without.get("kernel").is_none() && without["reference"] == "standard");
    let csv = desk.told("--workload solver.toml --replicates 2 --policy standard,light --format csv");
    assert!(csv.starts_with("workload,policy,replicate,"), "{csv}");
}

#[test]
fn a_killed_simulation_goes_on_where_it_stopped() {
    let desk = desk();
    let words = "--workload Oracle --policy standard,light --replicates 20 --quiet --out";
    let rows = |journal: &str| {
        let output = desk.command(&format!("report --format csv {journal}")).output().unwrap();
        text(&output.stdout)
    };
    desk.told(&format!("{words} whole.stayput"));
    let mut killed = desk.command(&format!("simulate time-sharing {words} killed.stayput")).spawn().unwrap();
    // Some replicates are kept at a time: it is killed when it has some and not all.
    while killed.try_wait().unwrap().is_none() && rows("killed.stayput").lines().count() < 2 {
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    desk.told(&format!("{words} killed.stayput"));
    assert_eq!(rows("whole.stayput").lines().count(), 1 + 2 * 20);
    assert!(rows("whole.stayput") == rows("killed.stayput"), "the same replicates, wherever it was cut off");
}

#[test]
fn a_journal_is_reported_like_any_study_and_keeps_to_its_plan() {
    let desk = desk();
    let printed = desk.told("--workload solver.toml --out a.stayput");
    let start = format!("solver: against Linux {}'s own scheduler, light ", sim::Release::default());
    assert!(printed.starts_with(&start), "{printed}");
    assert!(printed.ends_with("\njournal: a.stayput\n"), "{printed}");
    let report = text(&desk.command("report a.stayput").output().unwrap().stdout);
    assert_eq!(printed.strip_suffix("\njournal: a.stayput\n"), Some(report.as_str()));
    assert!(desk.told("--workload solver.toml --out a.stayput").starts_with(&report), "nothing was left to do");
    let refused = desk.refused("--workload solver.toml --seed 2 --out a.stayput");
    assert!(refused.contains("holds another plan"), "{refused}");
}

/// What makes a mistake of [`WORKLOAD`]: what is put in place of what, on which line that is told, and a part of the sentence.
const MISTAKES: [(&str, &str, u32, &str); 14] = [
    ("constant = 1 ", "constant = -1 ", 16, "`jobs[0].process.phases[0].steps[2]`: -1 is not a number from 0"),
    ("[10, 30]", "[30, 10]", 14, "10 is not a number from 30"),
    ("{ uniform = [10, 30] }", "{ normal = [10, 30] }", 14, "unknown variant `normal`"),
    ("steps", "stops", 13, "unknown field `stops`"),
    ("steady_misses_per_ms = 50", "steady_misses_per_ms = nan", 10, "NaN is not a number from 0"),
    ("    { release = \"sum\" },\n    \"barrier\",\n", "", 11, "lock `sum` is still held at the end of the phase"),
    ("    { release = \"sum\" },\n", "", 17, "a barrier while lock `sum` is held can deadlock"),
    ("{ work = { constant = 1 } }", "{ acquire = \"sum\" }", 16, "the process would wait for itself for ever"),
    ("{ acquire = \"sum\" }", "{ release = \"sum\" }", 15, "lock `sum` is released but not held"),
    ("{ acquire = \"sum\" }", "{ acquire = \"sun\" }", 15, "the job has no lock `sun`"),
    ("[\"sum\"]", "[\"sum\", \"other\"]", 7, "no step acquires lock `other`"),
    ("processes = 8", "processes = 0", 6, "0 is not a number from 1"),
    ("replicates = 4", "replicates = 0", 3, "`replicates` is 0; it must be a number from 1"),
    ("[[jobs]]", "[[jobs]", 4, ""),
];

/// A file of one job with one process, that says `lines` about it from line 5 on.
fn one_process(lines: &str) -> String {
    format!("name = \"x\"\n[[jobs]]\nname = \"a\"\nprocesses = 1\n{lines}\n")
}

#[test]
fn what_is_wrong_in_a_file_is_told_in_one_sentence_with_its_line() {
    let desk = desk();
    let refused = |text: &str, line: u32, part: &str| {
        desk.write("bad.toml", text);
        let told = desk.refused("--workload bad.toml");
        assert!(told.starts_with(&format!("stayput: workload file bad.toml, line {line}: ")), "{told} of\n{text}");
        assert!(told.contains(part) && told.lines().count() == 1, "{told} of\n{text}");
    };
    for (from, to, line, part) in MISTAKES {
        assert!(WORKLOAD.contains(from), "{from}");
        refused(&WORKLOAD.replacen(from, to, 1), line, part);
    }
    const OPPOSITE: &str = "locks = [\"a\", \"b\"]\n[jobs.process]\nphases = [\n\
        { steps = [{ acquire = \"a\" }, { acquire = \"b\" }, { work = { constant = 1 } }, { release = \"b\" }, { release = \"a\" }] },\n\
        { steps = [{ acquire = \"b\" }, { acquire = \"a\" }, { work = { constant = 1 } }, { release = \"a\" }, { release = \"b\" }] },\n]";
    const BURSTS: &str = "[jobs.process.intervals.bursts]\nlength_ms = { constant = 3 }\n";
    for (lines, line, part) in [
        (OPPOSITE.to_owned(), 7, "a deadlock"),
        (format!("{BURSTS}ends = {{ other = 60, system_call = 30 }}"), 7, "the percentages sum to 90, not to 100"),
        (format!("{BURSTS}ends = {{ disk = 100 }}"), 7, "unknown field `disk`"),
        ("process.work_ms.constant = -3".to_owned(), 5, "-3 is not a number from 0"),
        ("process.phases = [{ steps = [\"barrier\"] }]".to_owned(), 5, "less than a microsecond"),
    ] {
        refused(&one_process(&lines), line, part);
    }
    desk.write("endless.toml", &one_process("process = {}"));
    let told = desk.refused("--workload endless.toml");
    assert!(told.contains("processes of workload `x` never end"), "{told}");
    desk.told("--workload endless.toml --horizon-ms 1000 --replicates 1");
}

#[test]
fn percentages_may_miss_100_by_what_rounding_does_to_them() {
    let desk = desk();
    // Cholesky's in the report's Table III.
    let ends = "ends = { quantum = 46.2, semaphore = 2.3, synchronization = 47.9, system_call = 2.1, tlb_fault = 0.2, other = 2.3 }";
    let lines = format!(
        "[jobs.process]\nwork_ms.constant = 2000\nblock_ms.constant = 5\n[jobs.process.intervals.observed]\n\
         edges_ms = [0, 10, 30]\npercent = [40, 60]\nquantum_ms = 30\n{ends}"
    );
    desk.write("rounded.toml", &one_process(&lines));
    let told = desk.json("--workload rounded.toml");
    let ended = &told["policies"][0]["dispatch_interval_ends"];
    let share = |cause: &str| ended[cause].as_f64().unwrap();
    let sum: f64 = CAUSES_OF_ENDS.iter().map(|cause| share(cause)).sum();
    assert!((sum - 1.0).abs() < 1e-9 && share("synchronization") > share("semaphore"), "{ended}");
}

#[test]
fn what_is_wrong_on_the_command_line_is_told_too() {
    let desk = desk();
    desk.write("no.xml", "<topology>");
    for (words, part) in [
        ("--workload missing.toml", "cannot read workload file missing.toml"),
        ("--workload Matrx", "`Matrx` is no built-in workload"),
        ("--workload spin:0", "`spin:0` is no built-in workload"),
        ("--machine nothing", "`nothing` is no machine"),
        ("--machine no.xml", "no.xml"),
        ("--sweep phy=1-3", "there is no parameter `phy` to sweep"),
        ("--sweep quantum_ms=0-30/10", "`quantum_ms` can't be 0"),
        ("--quantum-ms 0", "`quantum_ms` is 0"),
        ("--quantum-ms -3", "`quantum_ms` is -3"),
        ("--quantum-ms nan", "`quantum_ms` is NaN"),
        ("--replicates 0", "`replicates` is 0"),
        ("--phi-p 99999999", "`phi_p` is 99999999"),
        ("--phi-p 3 --policy standard,light", "phi changes nothing under these policies"),
        ("--out nowhere/a.stayput", "there is no folder nowhere for nowhere/a.stayput"),
    ] {
        let told = desk.refused(words);
        assert!(told.starts_with("stayput: ") && told.contains(part), "{words}: {told}");
        assert_eq!(told.lines().count(), 1, "{words}: {told}");
    }
    for (words, part) in [
        ("--policy standard,lite", "`lite` is no time-sharing policy"),
        ("--decay slowly", "`slowly` is no decay rule"),
        ("--sweep phi", "`phi` is no sweep"),
        ("--phi-p -1", "`-1` is no value of `--phi-p`"),
        ("--phi-t nan", "`nan` is no value of `--phi-t`"),
        ("--format pdf", "`pdf` is no value of `--format`"),
    ] {
        let told = desk.refused(words);
        assert!(told.contains(part), "{words}: {told}");
    }
}

const CAUSES_OF_ENDS: [&str; 7] =
    ["quantum", "semaphore", "synchronization", "system_call", "tlb_fault", "other", "exit"];

#[test]
fn json_has_every_number_with_its_interval() {
    let desk = desk();
    let told = desk.json("--workload solver.toml --policy light,standard,per-cpu");
    assert_eq!(told["machine"]["name"], "sgi-4d340");
    assert_eq!(policies(&told), ["standard", "light", "per-cpu"], "what the others are compared with comes first");
    for policy in told["policies"].as_array().unwrap() {
        let name = policy["policy"].as_str().unwrap();
        for key in [
            "misses",
            "makespan_ms",
            "mean_completion_ms",
            "process_time_mean_ms",
            "migrations",
            "dispatches",
            "idle_fraction",
            "effective_slice_median_ms",
            "effective_slice_mean_ms",
            "jain_index",
            "longest_wait_ms",
            "dispatch_interval_mean_ms",
            "stalled_fraction",
        ] {
            let [value, low, high] = interval(policy, key);
            assert!(low <= value && value <= high, "{name}: {key} {low} {value} {high}");
        }
        for key in ["misses_change_percent", "makespan_change_percent", "mean_completion_change_percent"] {
            assert!(policy.get(key).is_some_and(|change| change.is_null() == (name == "standard")), "{name}: {key}");
        }
        for key in ["idle_fraction", "jain_index", "stalled_fraction"] {
            assert!(interval(policy, key).iter().all(|end| (0.0..=1.0).contains(end)), "{name}: {key}");
        }
        let sum = |group: &str, keys: &[&str]| -> f64 { keys.iter().map(|key| interval(&policy[group], key)[0]).sum() };
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
        let misses = sum("misses_by_cause", &["reload", "steady", "invalidation"]);
        assert!(close(misses, policy["misses"].as_f64().unwrap()), "{name}: {misses}");
        assert!(close(sum("dispatch_interval_ends", &CAUSES_OF_ENDS), 1.0), "{name}");
        // The machine's four CPUs have nothing in common but memory.
        let moves = sum("migrations_by_distance", &["machine"]);
        assert!(close(moves, policy["migrations"].as_f64().unwrap()), "{name}: {moves}");
        for (histogram, count) in
            [("effective_slice_histogram", "effective_slices"), ("dispatch_interval_histogram", "dispatch_intervals")]
        {
            let bins = policy[histogram].as_array().unwrap();
            let counted: f64 = bins.iter().map(|bin| bin["count"].as_f64().unwrap()).sum();
            assert!(close(counted, policy[count].as_f64().unwrap()), "{name}: {histogram}");
            assert!(bins.windows(2).all(|pair| pair[0]["to_ms"] == pair[1]["from_ms"]), "{name}: {histogram}");
        }
        let job = &policy["jobs"][0];
        assert_eq!((&job["job"], &job["misses"]), (&"solver".into(), &policy["misses"]), "{name}");
        assert_eq!(job["process_time_mean_ms"], policy["process_time_mean_ms"], "{name}");
    }
    let alone = desk.json("--workload solver.toml --policy light --replicates 1");
    let light = &alone["policies"][0];
    assert!(light["misses_change_percent"].is_null(), "there is nothing to compare with");
    assert!(light["misses"].is_number() && light["misses_low"].is_null(), "one replicate has no interval");
}

#[test]
fn change_is_the_mean_of_the_pairs_ratios() {
    let desk = desk();
    let told = desk.json("--workload solver.toml --policy standard,light");
    let trials = told["trials"].as_array().unwrap();
    let makespans = |policy: &str| -> Vec<f64> {
        let ours = trials.iter().filter(|trial| trial["placement"] == policy);
        ours.map(|trial| trial["time_s"].as_f64().unwrap()).collect()
    };
    let pairs = makespans("standard").into_iter().zip(makespans("light"));
    let logs: Vec<f64> = pairs.map(|(standard, light)| (light / standard).ln()).collect();
    let mean = 100.0 * (logs.iter().sum::<f64>() / logs.len() as f64).exp_m1();
    let change = told["policies"][1]["makespan_change_percent"].as_f64().unwrap();
    assert!(logs.len() == 4 && (change - mean).abs() < 1e-6, "{change} is not {mean}");
}

#[test]
fn a_policy_that_starves_the_holder_of_a_lock_is_stopped_and_not_praised() {
    let desk = desk();
    // Whoever has run goes on for ever, though what it waits for is held by another.
    let words =
        "--workload solver.toml --phi-p 0 --phi-t 1000000 --replicates 2 --horizon-ms 3000 --policy standard,affinity";
    let told = desk.json(words);
    let [standard, starving] = [0, 1].map(|at| &told["policies"][at]);
    assert!(standard["makespan_ms"].as_f64().unwrap() < 3_000.0, "standard ends in time");
    assert!(starving["makespan_ms"].is_null() && starving["makespan_change_percent"].is_null());
    // By far fewer misses in all, but not for what was done.
    let misses = |policy: &Value| policy["misses"].as_f64().unwrap();
    let by_work = |policy: &Value| misses(policy) / policy["work_ms"].as_f64().unwrap();
    let change = 100.0 * (by_work(starving) / by_work(standard) - 1.0);
    let told = starving["misses_change_percent"].as_f64().unwrap();
    assert!((told - change).abs() < 5.0, "{told} is not about {change}");
    let text = desk.told(words);
    assert!(text.contains("for the same work") && text.contains("had ended at the horizon"), "{text}");
}

#[test]
fn a_kernels_own_scheduler_is_that_of_the_kernel_that_is_named_and_reports_say_which() {
    let desk = desk();
    let words =
        "--workload spin:12 --machine xeon-e5405 --horizon-ms 2000 --replicates 2 --policy eevdf,eevdf-attached";
    let slices = |kernel: &str| {
        let told = desk.json(&format!("{words} --kernel {kernel}"));
        assert_eq!(told["parameters"]["kernel"]["release"], kernel);
        told["policies"][0]["effective_slice_median_ms"].as_f64().unwrap()
    };
    // 8 CPUs: base slices of 3 ms that end with a tick of 4 ms, or of 2.8 ms that end to the moment, up to 0.1 ms late.
    assert!((3.9..4.3).contains(&slices("6.12")), "{}", slices("6.12"));
    assert!((2.8..3.0).contains(&slices("7.3")), "{}", slices("7.3"));
    let text = desk.told(words);
    assert!(text.contains("eevdf is a model of the fair scheduler of Linux 7.3"), "{text}");
    assert!(!desk.told("--workload spin:4 --horizon-ms 100 --policy standard").contains("fair scheduler of Linux"));

    let refused = |words: &str| desk.refused(&format!("--workload spin:4 {words}"));
    let told = refused("--policy eevdf-long-slice --kernel 6.6");
    assert!(told.contains("Linux 6.6 has no slices that processes ask for; Linux 6.12 has"), "{told}");
    let told = refused("--policy eevdf-llc --kernel 6.12");
    assert!(told.contains("Linux 6.12 has no cache-aware balancing; Linux 7.3 has"), "{told}");
    let told = refused("--policy standard --kernel 6.12");
    assert!(told.contains("--kernel changes nothing under these policies"), "{told}");
    let told = refused("--policy eevdf --kernel 5.10");
    assert!(told.contains("the fair scheduler of kernel `5.10` is not modelled: name 6.6, 6.12 or 7.3"), "{told}");
}

#[test]
fn every_policy_is_simulated_and_phi_of_0_is_standard() {
    let desk = desk();
    let names = "standard,light,heavy,complex-light,complex-heavy,graded,attached,long-quantum,per-cpu,eevdf,eevdf-llc,eevdf-attached,eevdf-long-slice,round-robin,affinity,complex";
    let told = desk.json(&format!("--workload spin:6 --replicates 2 --phi-p 0 --phi-t 0 --policy {names}"));
    assert_eq!(policies(&told), names.split(',').collect::<Vec<_>>());
    let of = |name: &str| {
        let all = told["policies"].as_array().unwrap();
        all.iter().find(|policy| policy["policy"] == name).unwrap()
    };
    let verdicts = told["verdicts"].as_array().unwrap();
    let of_affinity = verdicts.iter().find(|told| told.as_str().unwrap().contains("affinity")).unwrap();
    assert_eq!(*of_affinity, "spin:6, affinity shows no difference in time (0.0 %), and there are no misses.");
    for name in ["affinity", "complex", "graded"] {
        assert_eq!(of(name)["dispatches"], of("standard")["dispatches"], "{name}");
        assert_eq!(of(name)["makespan_change_percent"], 0.0, "{name}");
        assert_eq!(of(name)["effective_slice_histogram"], of("standard")["effective_slice_histogram"], "{name}");
    }
    let light =
        |words: &str| desk.json(&format!("--workload solver.toml --replicates 2 {words}"))["policies"][1].clone();
    let (named, given) = (light("--policy standard,light"), light("--phi-p 6 --phi-t 6"));
    assert_eq!((&named["misses"], &named["makespan_ms"]), (&given["misses"], &given["makespan_ms"]));
}

#[test]
fn any_machine_is_simulated() {
    let desk = desk();
    let words = "--workload spin:9 --replicates 1 --policy standard,per-cpu,graded";
    for machine in ["opteron-6272", "xeon-e5620", "\"pack:2 l3:1 core:3 pu:2\"", "host"] {
        let told = desk.json(&format!("{words} --machine {machine}"));
        assert!(told["policies"][2]["makespan_ms"].as_f64().unwrap() >= 30_000.0, "{machine}");
    }
    let told = desk.json(&format!("{words} --machine \"pack:2 l3:1 core:3 pu:2\""));
    let moves = &told["policies"][1]["migrations_by_distance"];
    assert!(["core", "l3", "machine"].iter().all(|level| moves[*level].is_number()), "{moves}");
}

#[test]
fn a_report_of_the_journal_says_the_same_in_every_form() {
    let desk = desk();
    desk.told("--workload solver.toml --out a.stayput");
    for form in ["terminal", "text", "markdown", "latex", "csv"] {
        let reported = text(&desk.command(&format!("report a.stayput --format {form}")).output().unwrap().stdout);
        let simulated = desk.told(&format!("--workload solver.toml --format {form}"));
        assert!(simulated.contains("8 processes") || form != "markdown");
        assert_eq!(reported, simulated, "{form}");
    }
    let page = desk.told("--workload solver.toml --format html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Why they end"));
    let reported = desk.command("report a.stayput --format json").output().unwrap().stdout;
    let reported: Value = serde_json::from_slice(&reported).unwrap();
    assert_eq!(reported["policies"], desk.json("--workload solver.toml")["policies"]);
}

#[test]
fn reuse_is_measured_as_the_report_measures_it() {
    let desk = desk();
    let run = |words: &str| desk.command(&format!("simulate reuse {words}")).output().unwrap();
    let output = run("--workload Matrix+Mp3d --interval-ms 30,300 --format json");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = told["intervals"].as_array().unwrap();
    let figures = |at: usize| {
        ["reload_misses", "intervening_misses", "potential_fraction"].map(|key| rows[at][key].as_f64().unwrap())
    };
    assert_eq!(
        rows.iter().map(|row| row["job"].as_str().unwrap()).collect::<Vec<_>>(),
        ["Matrix", "Matrix", "Mp3d", "Mp3d"]
    );
    // Section 3.1.1 and 3.2.2: Matrix reloads 3,000 lines of 1 us; Mp3d, which reuses nothing, misses 900 times a ms.
    let ([short, _, short_share], [long, _, long_share]) = (figures(0), figures(1));
    assert!((short / 3_000.0 - 1.0).abs() < 0.01 && (long / short - 1.0).abs() < 0.01, "{short} {long}");
    assert!((short_share - 0.1).abs() < 0.01 && (long_share - 0.01).abs() < 0.001, "{short_share} {long_share}");
    let [reload, intervening, potential] = figures(2);
    assert!(reload.abs() < 1.0 && (intervening - 27_000.0).abs() < 300.0 && potential.abs() < 1e-3, "{:?}", figures(2));

    let output = run("--workload solver.toml");
    let table = text(&output.stdout);
    assert!(output.status.success() && table.lines().any(|line| line.trim_start().starts_with("solver ")), "{table}");
    for (words, part) in [
        ("--interval-ms -1", "an interval of -1 ms"),
        ("--interval-ms 1,nan", "an interval of NaN ms"),
        ("--workload none.toml", "cannot read workload file none.toml"),
    ] {
        let output = run(words);
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(part) && told.lines().count() == 1, "{words}: {told}");
    }
}

#[test]
fn every_built_in_workload_is_listed_and_runs() {
    let desk = desk();
    let listed = desk.told("--list");
    for name in
        ["Matrix+Matrix", "Matrix+Cholesky", "Matrix+Mp3d", "Pmake+Matrix", "Pmake+Cholesky", "Pmake+Pmake", "Oracle"]
    {
        assert!(listed.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name} in {listed}");
        let told = desk.json(&format!("--workload {name} --replicates 2"));
        for policy in told["policies"].as_array().unwrap() {
            assert!(
                policy["misses"].as_f64().unwrap() > 0.0 && policy["makespan_ms"].as_f64().unwrap() > 0.0,
                "{name}"
            );
        }
    }
}
