//! Studies on a real Slurm of three nodes, which each test starts for itself and which is gone afterwards: what they come to when all goes
//! well, and when it doesn't.

use crate::cluster::desk::{Desk, one_sentence, text};
use crate::cluster::{Cluster, NODES, lacking, wait_until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output};

impl Desk {
    fn run(&self, words: &str) -> Output {
        self.stayput(words).output().unwrap()
    }

    fn json(&self, journal: &str) -> Value {
        let output = self.run(&format!("report --format json {journal}"));
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A model's study on the cluster says what the same says here, `words`.
    fn check_same_as_here(&self, name: &str, words: &str) {
        let [here, slurm] = ["here", "slurm"].map(|journal| self.json(&format!("{name}-{journal}.stayput")));
        assert!(slurm["trials"].as_array().unwrap().iter().all(|trial| trial["node"].is_string()));
        assert_eq!(said(slurm), said(here), "{words}");
        self.check_nothing_left(&format!("{name}-slurm.stayput"));
    }
}

/// Every trial is there once, in the order of blocks, each block whole and on one node.
fn check_once(report: &Value, blocks: u64, cells: u64) {
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.len() as u64, blocks * cells, "{blocks} blocks of {cells}");
    let mut keys = BTreeSet::new();
    for (position, trial) in trials.iter().enumerate() {
        assert_eq!(trial["sequence"], position, "none missing");
        assert_eq!(trial["block"], position as u64 / cells, "in the order of blocks");
        assert_eq!(trial["status"], "ok", "{trial}");
        let first = &trials[position / cells as usize * cells as usize];
        assert!(trial["node"].is_string() && trial["node"] == first["node"], "a block is on one node: {trial}");
        keys.insert(format!("{} {} {} {}", trial["block"], trial["subject"], trial["threads"], trial["placement"]));
    }
    assert_eq!(keys.len(), trials.len(), "no trial twice");
}

/// Three programs in three placements each.
const STUDY: &str = r#"
threads = ["1"]
placements = ["unbound", "0", "1"]
stop = { min-runs = 6, max-runs = 6 }

[[subject]]
name = "one"
command = ["sh", "-c", "test \"$1\" = --token=s3cr3t", "sh", "--token=s3cr3t"]

[[subject]]
name = "two"
command = ["sh", "-c", "read x; test \"$x\" = hello"]
input = "hello.txt"

[[subject]]
name = "three"
command = ["sh", "-c", "echo took 0.001 s; sleep 0.002"]
time-regex = "took ([0-9.]+) s"
"#;

#[test]
fn a_study_in_blocks_over_nodes_ends_with_every_trial_once() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    fs::write(desk.path("three.toml"), STUDY).unwrap();
    fs::write(desk.path("hello.txt"), "hello\n").unwrap();
    let output = desk.run("study --no-report --on slurm:nodes=3 three.toml");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = desk.json("three.stayput");
    check_once(&report, 6, 9);
    let shown: Vec<&str> =
        report["nodes"].as_array().unwrap().iter().filter_map(|node| node["node"].as_str()).collect();
    let nodes: BTreeSet<&str> =
        report["trials"].as_array().unwrap().iter().filter_map(|t| t["node"].as_str()).collect();
    assert_eq!(shown, nodes.iter().copied().collect::<Vec<_>>(), "each node by itself");
    assert!(nodes.len() > 1 && nodes.iter().all(|node| NODES.contains(node)), "{nodes:?}");
    for trial in report["trials"].as_array().unwrap().iter().filter(|trial| trial["placement"] != "unbound") {
        assert_eq!(
            trial["actual_cpus"][0][0].to_string(),
            trial["placement"].as_str().unwrap(),
            "read back on the node"
        );
    }
    assert_eq!(report["sessions"].as_array().unwrap().len(), 1);
    // Programs were given what no journal keeps.
    let journal = fs::read(desk.path("three.stayput")).unwrap();
    assert!(!text(&journal).contains("s3cr3t"), "the journal has the secret value");
    desk.check_nothing_left("three.stayput");
    // The same command finds nothing left to do, and asks Slurm for nothing.
    let output = desk.run("study --no-report --on slurm:nodes=3 three.toml");
    assert!(output.status.success() && text(&output.stdout).contains("nothing"), "{}", text(&output.stdout));
    assert_eq!(desk.json("three.stayput")["trials"], report["trials"]);
}

/// Unbound takes 1.2 s, balanced 1 s, everything else between 1.05 and 1.35 s.
const MODEL: &str = "\
name = \"app\"
[noise]
lognormal = \"2 %\"
[[time]]
placement = \"unbound\"
mean_s = 1.2
[[time]]
placement = \"balanced\"
mean_s = 1.0
[others]
mean_s = 1.05
spread = \"30 %\"
";

/// What a report says, without where it was run.
fn said(mut report: Value) -> Value {
    let fields = report.as_object_mut().unwrap();
    ["sessions", "host"].iter().for_each(|key| drop(fields.remove(*key)));
    let plan = fields.get_mut("plan").and_then(Value::as_object_mut).unwrap();
    plan.remove("site");
    let trials = fields.get_mut("trials").and_then(Value::as_array_mut).unwrap();
    trials.iter_mut().for_each(|trial| drop(trial.as_object_mut().unwrap().remove("node")));
    report
}

#[test]
fn a_model_has_the_same_analysis_on_a_cluster_as_here() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    fs::write(desk.path("app.toml"), MODEL).unwrap();
    let model =
        "--subject-model app.toml --machine xeon-e5620 -n 1,4 --place unbound,compact,scatter,balanced --seed 7";
    for (words, name) in [
        (format!("{model} --min-runs 8 --max-runs 8"), "fixed"),
        // Where a look decides, it is the same as here after each block; and a race, too.
        (format!("{model} --min-runs 3 --max-runs 7 --width 3%"), "looks"),
        ("--best --runs 24 --subject-model app.toml --machine xeon-e5620 -n 4 --seed 7".to_owned(), "race"),
    ] {
        let round = if name == "fixed" { "nodes=3" } else { "nodes=1" };
        for (on, journal) in [(String::new(), "here"), (format!("--on slurm:{round}"), "slurm")] {
            let output = desk.run(&format!("study --no-report --quiet {on} --out {name}-{journal}.stayput {words}"));
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
        desk.check_same_as_here(name, &words);
    }
}

#[test]
fn three_programs_in_three_placements_have_the_same_analysis_on_a_cluster_as_here() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    for (program, noise) in [("steady", "1 %"), ("noisy", "8 %"), ("wild", "20 %")] {
        let model = MODEL.replace("\"app\"", &format!("\"{program}\"")).replace("2 %", noise);
        fs::write(desk.path(&format!("{program}.toml")), model).unwrap();
        let words = format!(
            "--subject-model {program}.toml --machine xeon-e5620 -n 4 --place unbound,compact,balanced --seed 11 --min-runs 9 --max-runs 9"
        );
        for (on, journal) in [("", "here"), ("--on slurm:nodes=3,round=5", "slurm")] {
            let output = desk.run(&format!("study --no-report --quiet {on} --out {program}-{journal}.stayput {words}"));
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
        check_once(&desk.json(&format!("{program}-slurm.stayput")), 9, 3);
        desk.check_same_as_here(program, &words);
    }
}

/// Submits a script that runs as an array, a task on a node of its own; gives its job's id.
fn submit(cluster: &Cluster, array: &str, script: &str) -> String {
    let wrapped = format!("--wrap={script}");
    let array = format!("--array={array}");
    let arguments = ["--parsable", "--exclusive", "--output=/dev/null", "--no-requeue", &array, &wrapped];
    let id = cluster.said("sbatch", &arguments);
    assert!(!id.trim().is_empty(), "sbatch refuses {script}");
    id.trim().to_owned()
}

#[test]
fn a_cluster_runs_arrays_on_every_node_and_leaves_nothing() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let cluster = Cluster::start();
    let results = cluster.folder().join("results");
    fs::create_dir(&results).unwrap();
    let folder = results.display();

    // Each task waits for all three, so that none of the nodes can have run two of them.
    submit(
        &cluster,
        "0-2",
        &format!(
            "touch {folder}/begun.$SLURM_ARRAY_TASK_ID
             until [ $(ls {folder} | grep -c begun) = 3 ]; do sleep 0.05; done
             echo $SLURMD_NODENAME > {folder}/part.$SLURM_ARRAY_TASK_ID
             mv {folder}/part.$SLURM_ARRAY_TASK_ID {folder}/whole.$SLURM_ARRAY_TASK_ID"
        ),
    );
    let node_of = |task: u32| fs::read_to_string(results.join(format!("whole.{task}"))).ok();
    wait_until("three tasks end", || (0..3).all(|task| node_of(task).is_some()));
    let nodes: BTreeSet<String> = (0..3).filter_map(node_of).map(|node| node.trim().to_owned()).collect();
    assert_eq!(nodes, NODES.map(str::to_owned).into());
    wait_until("the queue empties", || cluster.said("squeue", &["--noheader"]).is_empty());

    submit(&cluster, "0-0", &format!("sleep 1000 & touch {folder}/runs; wait"));
    wait_until("the job runs", || results.join("runs").exists());

    // A job that still runs, with a child, ends with the cluster, and so does its folder.
    let (folder, processes) = (cluster.folder().to_owned(), cluster.processes());
    assert!(processes.len() > NODES.len() + 1, "daemons and the job: {processes:?}");
    drop(cluster);
    assert!(!folder.exists());
    let left = |pid: &i32| {
        let environment = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.contains(&folder.display().to_string())
    };
    assert_eq!(processes.into_iter().filter(left).count(), 0);
}

/// A study whose programs wait until they may go on, so that whatever is to happen does so while they run; of six blocks of two cells.
const HELD: &str = "--no-report -n 1 --place unbound,0 --warmup 0 --min-runs 6 --max-runs 6 --out held.stayput --on slurm:nodes=3 \
     -- sh -c 'until [ -e go ]; do sleep 0.02; done'";

impl Desk {
    /// Begins the held study, and waits until three of its blocks run.
    fn begin_held(&self) -> Child {
        let study = self.begin(&format!("study {HELD}"));
        self.wait_for_blocks("held", 3);
        study
    }

    /// Waits until so many blocks of a study run, and their programs.
    fn wait_for_blocks(&self, journal: &str, blocks: usize) {
        let begun = || {
            let names = fs::read_dir(self.path(&format!("{journal}.stayput.slurm"))).into_iter().flatten().flatten();
            names.filter(|entry| entry.file_name().to_string_lossy().starts_with("part-")).count()
        };
        wait_until("blocks run", || self.running().len() == blocks && begun() == blocks);
    }

    /// Lets the programs go on.
    fn go(&self) {
        fs::write(self.path("go"), "").unwrap();
    }

    /// Waits for the held study, which ends as if nothing had happened; gives what it said meanwhile.
    fn end_held(&self, study: Child) -> String {
        let output = study.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        check_once(&self.json("held.stayput"), 6, 2);
        self.check_nothing_left("held.stayput");
        said
    }

    /// Whole blocks that wait in the folder of the held study.
    fn whole_blocks(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("held.stayput.slurm")).unwrap().flatten().map(|entry| entry.path());
        let mut blocks: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "trials")).collect();
        blocks.sort();
        blocks
    }
}

fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), signal).unwrap();
}

#[test]
fn cancelled_and_requeued_tasks_are_run_again() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    let study = desk.begin_held();
    let running = desk.running();
    desk.control("scancel", &[&running[0].0]);
    // Slurm's administrator may requeue what asks not to be.
    desk.control("scontrol", &["update", &format!("JobId={}", running[1].0), "Requeue=1"]);
    desk.control("scontrol", &["requeue", &running[1].0]);
    wait_until("two tasks end", || !desk.running().iter().any(|task| running[..2].contains(task)));
    desk.go();
    let said = desk.end_held(study);
    assert!(said.contains("is submitted again: Slurm says CANCELLED"), "{said}");
}

#[test]
fn a_controller_that_is_away_is_waited_for() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let mut desk = Desk::new();
    let study = desk.begin_held();
    desk.cluster.kill_controller();
    desk.go();
    // The blocks end without it; those of the next round can't be submitted.
    wait_until("the first round is in the journal", || {
        desk.json("held.stayput")["trials"].as_array().unwrap().len() == 6
    });
    std::thread::sleep(std::time::Duration::from_secs(1));
    desk.cluster.start_controller();
    desk.end_held(study);
}

#[test]
#[ignore = "takes half a minute; a controller that comes back soon is tested always"]
fn a_controller_that_is_away_for_long_is_waited_for() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let mut desk = Desk::new();
    let study = desk.begin_held();
    desk.cluster.kill_controller();
    desk.go();
    // Clients try for about nine seconds.
    std::thread::sleep(std::time::Duration::from_secs(25));
    desk.cluster.start_controller();
    let said = desk.end_held(study);
    assert!(said.contains("Slurm's controller doesn't answer"), "{said}");
}

#[test]
fn blocks_that_come_twice_or_torn_are_there_once() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    let study = desk.begin_held();
    signal(&study, nix::sys::signal::Signal::SIGSTOP);
    desk.go();
    wait_until("three blocks are whole", || desk.whole_blocks().len() == 3);
    let folder = desk.path("held.stayput.slurm");
    let submission = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
    let number =
        submission.filter_map(|name| Some(name.strip_prefix("submission-")?.strip_suffix(".json")?.to_owned()));
    let number = number.max().unwrap();
    let again = |index: &str| {
        let output = desk
            .stayput(&format!("task {} {number}", folder.display()))
            .env("SLURM_ARRAY_TASK_ID", index)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    // A task that Slurm starts twice leaves the block as it is; one whose block is gone runs it again.
    let blocks = desk.whole_blocks();
    let first = fs::read(&blocks[0]).unwrap();
    again("0");
    assert_eq!(fs::read(&blocks[0]).unwrap(), first);
    fs::remove_file(&blocks[1]).unwrap();
    again("1");
    assert!(blocks[1].exists());
    // And one was cut off on its way.
    let torn = fs::read(&blocks[2]).unwrap();
    fs::write(&blocks[2], &torn[..torn.len() * 2 / 3]).unwrap();
    signal(&study, nix::sys::signal::Signal::SIGCONT);
    wait_until("a block is merged", || !blocks[0].exists());
    // A copy of what is in the journal already.
    if folder.exists() {
        let _ = fs::write(&blocks[0], &first);
    }
    let said = desk.end_held(study);
    assert!(said.contains("block 3 is submitted again: what was left of it can't be used"), "{said}");
}

#[test]
fn a_node_of_another_kind_places_policies_anew_and_refuses_lists_by_its_name() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return println!("skipped: of one CPU there is no other kind");
    }
    let desk = Desk::new();
    for (places, journal) in [("unbound,compact", "policies"), ("unbound,0", "lists")] {
        let study = desk.begin(&format!(
            "study --quiet --no-report -n 1 --place {places} --warmup 0 --min-runs 1 --max-runs 1 --out {journal}.stayput \
             --on slurm:cpus=2 -- sh -c 'until [ -e {journal} ]; do sleep 0.02; done'"
        ));
        desk.wait_for_blocks(journal, 1);
        signal(&study, nix::sys::signal::Signal::SIGSTOP);
        let folder = desk.path(&format!("{journal}.stayput.slurm"));
        let names = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        let number = names.filter_map(|name| Some(name.strip_prefix("submission-")?.strip_suffix(".json")?.to_owned()));
        let number = number.max().unwrap();
        // What runs in the queue is ended, and the block comes from a node that has one CPU, and not the first.
        desk.control("scancel", &[&desk.running()[0].0]);
        wait_until("the task ends", || desk.queue().is_empty());
        fs::write(desk.path(journal), "").unwrap();
        let task = desk
            .cluster
            .command("taskset")
            .args(["-c", "1", env!("CARGO_BIN_EXE_stayput"), "task"])
            .arg(&folder)
            .arg(number)
            .envs([("SLURM_ARRAY_TASK_ID", "0"), ("SLURMD_NODENAME", "odd")])
            .current_dir(desk.folder.path())
            .output()
            .unwrap();
        signal(&study, nix::sys::signal::Signal::SIGCONT);
        let output = study.wait_with_output().unwrap();
        if journal == "policies" {
            assert!(task.status.success() && output.status.success(), "{}{}", text(&task.stderr), text(&output.stderr));
            let report = desk.json("policies.stayput");
            check_once(&report, 1, 2);
            let compact =
                report["trials"].as_array().unwrap().iter().find(|trial| trial["placement"] == "compact").unwrap();
            assert_eq!(
                (compact["node"].as_str(), compact["actual_cpus"][0][0].as_u64()),
                (Some("odd"), Some(1)),
                "{compact}"
            );
        } else {
            assert_eq!((task.status.code(), output.status.code()), (Some(1), Some(1)));
            let said = one_sentence(&output);
            assert!(
                said.contains("node odd isn't the kind of machine") && said.contains("`0` names CPUs of that one"),
                "{said}"
            );
            wait_until("the queue empties", || desk.queue().is_empty());
        }
    }
}

#[test]
fn killed_at_any_moment_the_study_command_goes_on_with_what_is_in_the_queue() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    kill_and_go_on(4);
}

#[test]
#[ignore = "takes minutes; the short form runs always"]
fn killed_at_twenty_moments_the_study_command_goes_on_with_what_is_in_the_queue() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    kill_and_go_on(20);
}

/// Kills the study command at as many moments, and then lets it end.
fn kill_and_go_on(moments: u32) {
    let desk = Desk::new();
    // Each run leaves a line, so that it is seen how often blocks were run.
    let study = "--no-report -n 1 --place unbound,0 --warmup 0 --min-runs 12 --max-runs 12 --on slurm:nodes=3 --out killed.stayput \
                 -- sh -c 'echo run >> runs; sleep 0.05'";
    let mut random = 0x5EED_u64;
    let mut whole_at_last_look = 0;
    for _ in 0..moments {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut running = desk.begin(&format!("study --quiet {study}"));
        std::thread::sleep(std::time::Duration::from_micros(100_000 + (random >> 40) % 1_500_000));
        running.kill().unwrap();
        running.wait().unwrap();
        let trials = match desk.path("killed.stayput").exists() {
            true => desk.run("report --format json killed.stayput"),
            false => continue,
        };
        let trials =
            serde_json::from_slice::<Value>(&trials.stdout).map_or(0, |r| r["trials"].as_array().unwrap().len());
        assert!(
            trials >= whole_at_last_look && trials.is_multiple_of(2),
            "{trials} trials, {whole_at_last_look} before"
        );
        whole_at_last_look = trials;
    }
    // By the journal's name alone, if it was begun by now.
    let words = match desk.path("killed.stayput.slurm/assignment.json").exists() {
        true => "study --quiet --no-report --attach killed.stayput".to_owned(),
        false => format!("study --quiet {study}"),
    };
    let output = desk.run(&words);
    assert!(output.status.success(), "{words}: {}", text(&output.stderr));
    check_once(&desk.json("killed.stayput"), 12, 2);
    desk.check_nothing_left("killed.stayput");
    let runs = fs::read_to_string(desk.path("runs")).unwrap().lines().count();
    println!("24 runs are in the journal, {runs} were made, {moments} moments");
}

#[test]
fn a_papers_study_runs_on_nodes_and_goes_on_when_it_was_killed() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    let words =
        "reproduce pires-2016 --live --live-class S --live-budget 5min --quiet --format json --on slurm:nodes=3";
    let mut killed = desk.begin(words);
    wait_until("a block runs on each node", || desk.running().len() == NODES.len());
    killed.kill().unwrap();
    killed.wait().unwrap();
    let output = desk.run(words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = told["papers"][0]["tables"][0]["rows"].as_array().unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["cells"][0]["live"]["value"].is_f64()), "{rows:?}");
    let report = desk.json("pires-2016.stayput");
    let trials = report["trials"].as_array().unwrap();
    let cells = trials.iter().filter(|trial| trial["block"] == 0).count();
    check_once(&report, (trials.len() / cells) as u64, cells as u64);
    let nodes: BTreeSet<String> = trials.iter().map(|trial| trial["node"].to_string()).collect();
    assert!(nodes.len() > 1, "{nodes:?}");
    desk.check_nothing_left("pires-2016.stayput");
}

#[test]
fn an_interrupted_study_leaves_nothing_in_the_queue_and_goes_on() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    let study = desk.begin_held();
    // Another one at the same time is told so, and disturbs nothing.
    let second = desk.run("study --attach held.stayput");
    assert_eq!(second.status.code(), Some(1));
    let said = one_sentence(&second);
    assert!(said.contains("held.stayput"), "{said}");
    assert_eq!(desk.running().len(), 3);
    signal(&study, nix::sys::signal::Signal::SIGINT);
    let output = study.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("3 blocks are taken out of Slurm's queue") && said.contains("interrupted;"), "{said}");
    wait_until("the queue empties", || desk.queue().is_empty());
    // Who logs out leaves it there.
    let study = desk.begin("study --attach held.stayput");
    desk.wait_for_blocks("held", 3);
    signal(&study, nix::sys::signal::Signal::SIGHUP);
    let said = text(&study.wait_with_output().unwrap().stderr);
    assert!(said.contains("`stayput study --attach") && !said.contains("again") && desk.running().len() == 3, "{said}");
    desk.go();
    wait_until("three blocks are whole", || desk.whole_blocks().len() == 3);
    let said = desk.end_held(desk.begin("study --no-report --attach held.stayput"));
    assert!(!said.contains("again"), "what ran without us counts: {said}");
}

#[test]
fn a_node_that_dies_loses_nothing() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let mut desk = Desk::new();
    let study = desk.begin_held();
    desk.cluster.kill_node(0);
    desk.cluster.kill_processes_of(NODES[0]);
    desk.go();
    let output = study.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("is submitted again: Slurm says "), "{said}");
    check_once(&desk.json("held.stayput"), 6, 2);
    desk.cluster.start_node(0);
    desk.check_nothing_left("held.stayput");
}

#[test]
#[ignore = "takes a minute; a dead node is tested always"]
fn a_node_that_stands_still_loses_nothing() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    let study = desk.begin_held();
    desk.cluster.signal_node(0, nix::sys::signal::Signal::SIGSTOP);
    wait_until("the node is taken for dead", || {
        desk.cluster.said("sinfo", &["--noheader", "--Node", "--format=%T"]).contains("down")
    });
    // Its task runs on, and a second one of the block is there, too.
    desk.go();
    desk.cluster.signal_node(0, nix::sys::signal::Signal::SIGCONT);
    desk.end_held(study);
}

#[test]
#[ignore = "takes two minutes: Slurm's limits are minutes"]
fn a_block_that_was_ended_by_its_time_limit_is_run_again() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    // Only the very first run takes longer than Slurm allows.
    let study = "study --no-report -n 1 --place unbound,0 --warmup 0 --min-runs 2 --max-runs 2 --out limit.stayput --on slurm:nodes=2,time=1 \
                 -- sh -c 'mkdir first 2>/dev/null && sleep 1000; sleep 0.01'";
    let output = desk.run(study);
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("is submitted again: Slurm says TIMEOUT"), "{said}");
    check_once(&desk.json("limit.stayput"), 2, 2);
    desk.check_nothing_left("limit.stayput");
}

#[test]
fn on_a_full_disk_the_study_ends_with_one_sentence_and_goes_on_later() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    let disk = Disk::mount(desk.path("disk"));
    let Some(disk) = disk else { return println!("skipped: a small file system can't be mounted here") };
    let filler = disk.0.join("filler");
    let study = "study --no-report -n 1 --place unbound,0 --warmup 0 --min-runs 4 --max-runs 4 --on slurm:nodes=2 --out disk/full.stayput \
                 -- sh -c 'until [ -e go ]; do sleep 0.02; done'";
    let running = desk.begin(study);
    wait_until("two blocks run", || desk.running().len() == 2);
    let _ = fs::write(&filler, vec![0; 8 << 20]);
    desk.go();
    let output = running.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.to_lowercase().contains("no space left"), "{said}");
    wait_until("the queue empties", || desk.queue().is_empty());
    fs::remove_file(&filler).unwrap();
    let output = desk.run(study);
    assert!(output.status.success(), "{}", text(&output.stderr));
    check_once(&desk.json("disk/full.stayput"), 4, 2);
    desk.check_nothing_left("disk/full.stayput");
}

/// A file system of 4 MiB, which is unmounted when this is dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(path: PathBuf) -> Option<Self> {
        fs::create_dir(&path).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(&path).output().ok()?;
        mounted.status.success().then(|| Self(path))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

#[test]
fn what_cannot_be_is_said_in_one_sentence() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let mut desk = Desk::new();
    let words = "study --quiet --no-report -n 1 --max-runs 1 --out x.stayput";
    let told = |on: &str, command: &str, code: i32, part: &str| {
        let output = desk.run(&format!("{words} --on {on} -- {command}"));
        let said = one_sentence(&output);
        assert!(output.status.code() == Some(code) && said.contains(part), "{on}: {:?} {said}", output.status);
    };
    told("slurm:nodes=x", "true", 2, "`nodes` is a number from 1 to 1000");
    told("slurm:partition=nosuch", "true", 1, "partition");
    told("slurm:misses=1", "true", 1, "misses");
    told("slurm", "./nosuch", 127, "nosuch");
    let mut running = Command::new("sleep").arg("1000").spawn().unwrap();
    let output = desk.run(&format!("{words} --on slurm --pid {} -- true", running.id()));
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = one_sentence(&output);
    assert!(said.contains("runs already"), "{said}");
    // What is to be the folder of its tasks is a file.
    fs::write(desk.path("x.stayput.slurm"), "").unwrap();
    told("slurm", "true", 1, "cannot write the study for its tasks");
    wait_until("the queue empties", || desk.queue().is_empty());
    fs::write(desk.path("no.stayput"), "").unwrap();
    assert_eq!(desk.run("study --attach no.stayput").status.code(), Some(2));
    desk.run("study --quiet --no-report -n 1 --max-runs 1 --min-runs 1 --out here.stayput -- true");
    let output = desk.run("study --attach here.stayput");
    assert!(output.status.code() == Some(2) && one_sentence(&output).contains("holds no study on Slurm"));
    desk.cluster.kill_controller();
    let output = desk.run(&format!("{words} --on slurm -- true"));
    assert!(
        output.status.code() == Some(1) && one_sentence(&output).contains("controller"),
        "{}",
        text(&output.stderr)
    );
    let nowhere =
        desk.stayput(&format!("{words} --on slurm -- /bin/true")).env("PATH", "/nonexistent").output().unwrap();
    assert!(nowhere.status.code() == Some(1), "{}", text(&nowhere.stderr));
    assert!(one_sentence(&nowhere).contains("there is no sbatch here"), "{}", text(&nowhere.stderr));
}
