//! What must hold of any replay, whatever scheduler this kernel has and whatever else runs here.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use machine::Machine;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use replay::{Binding, Replay, ReplayError};
use serde_json::Value;
use sim::{Act, Courses, Parameters, ProcessIndex, Workload, WorkloadFile};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// One stay of a process on a CPU.
struct Stay {
    process: u32,
    cpu: u32,
    runnable_ns: u64,
    from_ns: u64,
    until_ns: u64,
    end: String,
}

struct Recorded {
    json: Value,
    stays: Vec<Stay>,
}

impl Recorded {
    fn metric(&self, name: &str) -> f64 {
        self.json["metrics"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {}", self.json))
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_stayput-replay"))
}

/// Replays a workload and checks what holds of every replay.
fn replay(workload: &str, options: &[&str]) -> Recorded {
    let folder = TempDir::new().unwrap();
    let [file, json, stays] = ["workload.toml", "replay.json", "stays.csv"].map(|name| folder.path().join(name));
    fs::write(&file, workload).unwrap();
    let output =
        program().arg(&file).args(options).arg("--json").arg(&json).arg("--stays").arg(&stays).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let recorded =
        Recorded { json: serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap(), stays: read(&stays) };
    is_whole(&recorded);
    recorded
}

fn read(stays: &Path) -> Vec<Stay> {
    let text = fs::read_to_string(stays).unwrap();
    let stay = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<u64>().unwrap();
        Stay {
            process: number(0) as u32,
            cpu: number(1) as u32,
            runnable_ns: number(2),
            from_ns: number(3),
            until_ns: number(4),
            end: fields[5].to_owned(),
        }
    };
    text.lines().skip(1).map(stay).collect()
}

/// Nobody is in two places, and no CPU is had for longer than there was time.
fn is_whole(recorded: &Recorded) {
    let seconds = recorded.json["seconds"].as_f64().unwrap();
    let mut on_cpu_s: BTreeMap<u32, f64> = BTreeMap::new();
    for pair in recorded.stays.windows(2).filter(|pair| pair[0].process == pair[1].process) {
        assert!(pair[0].until_ns <= pair[1].runnable_ns);
    }
    for stay in &recorded.stays {
        assert!(stay.runnable_ns <= stay.from_ns && stay.from_ns < stay.until_ns);
        *on_cpu_s.entry(stay.cpu).or_default() += (stay.until_ns - stay.from_ns) as f64 / 1e9;
    }
    // Who was away is known to a chunk of work.
    assert!(on_cpu_s.values().all(|s| *s <= seconds * 1.05 + 0.01), "{on_cpu_s:?} of {seconds} s");
    let all_ms = on_cpu_s.values().sum::<f64>() * 1e3;
    assert!((recorded.metric("cpu_ms") - all_ms).abs() < 1e-3);
}

/// The class and the nice value of each child of a process, by the kernel.
fn classes_of_children(of: u32) -> BTreeSet<(u32, i32)> {
    let children = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    let class = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // From the third field on, after the name.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        Some((fields[38].parse().ok()?, fields[16].parse().ok()?))
    };
    children.split_whitespace().filter_map(class).collect()
}

#[test]
fn real_processes_have_the_class_and_the_nice_value_that_the_workload_gives_them() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("workload.toml");
    let jobs =
        [("usual", "process.nice = 3"), ("batch", "process.sched = \"batch\""), ("idle", "process.sched = \"idle\"")];
    let jobs = jobs.map(|(name, own)| {
        format!("[[jobs]]\nname = \"{name}\"\nprocesses = 1\nprocess.work_ms = {{ constant = 200 }}\n{own}\n")
    });
    fs::write(&file, format!("name = \"classes\"\nabout = \"\"\n{}", jobs.concat())).unwrap();
    let mut running = program().arg(&file).stdout(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let mut seen = BTreeSet::new();
    while running.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{seen:?}");
        seen.extend(classes_of_children(running.id()));
        std::thread::sleep(Duration::from_millis(5));
    }
    // The others have the nice value of whoever runs this.
    let classes: BTreeSet<u32> = seen.iter().map(|(class, _)| *class).collect();
    let expected = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE].map(|class| class as u32);
    assert!(seen.contains(&(libc::SCHED_OTHER as u32, 3)) && classes == BTreeSet::from(expected), "{seen:?}");
    assert!(running.wait().unwrap().success());
}

/// The control groups of the cpu controller in which the children of a process are, from where their names are given by us.
fn groups_of_children(of: u32) -> BTreeSet<String> {
    let group = |pid: i32| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let of_cpu = |line: &&str| line.contains(":cpu:") || line.contains(":cpu,") || line.starts_with("0::");
        groups.lines().filter(of_cpu).find_map(|line| Some(line.split_once("/stayput-replay-")?.1.to_owned()))
    };
    children(of).into_iter().filter_map(group).collect()
}

#[test]
fn real_processes_are_in_the_control_group_that_the_workload_gives_them_and_no_group_is_left() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("workload.toml");
    let jobs = ["group = \"a\"", "group = \"b/c\"", "group = \"b/d\""];
    let jobs = jobs
        .map(|own| format!("[[jobs]]\nname = \"j\"\nprocesses = 1\nprocess.work_ms = {{ constant = 200 }}\n{own}\n"));
    fs::write(&file, format!("name = \"groups\"\ncpu_weight = {{ a = 50, \"b/c\" = 300 }}\n{}", jobs.concat()))
        .unwrap();
    let mut running = program().arg(&file).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let mut seen = BTreeSet::new();
    while running.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{seen:?}");
        seen.extend(groups_of_children(running.id()));
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = running.id();
    let output = running.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    if told.contains("the workload's control groups can't be made here") {
        println!("skipped: {told}");
        return;
    }
    assert!(output.status.success(), "{told}");
    let expected = ["a", "b/c", "b/d"].map(|group| format!("{pid}-{group}"));
    assert_eq!(seen, BTreeSet::from(expected));
    let file_systems = walk(Path::new("/sys/fs/cgroup"), 2);
    let left: Vec<_> = file_systems.iter().filter(|path| path.contains(&format!("/stayput-replay-{pid}-"))).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The folders in a folder, so many levels down.
fn walk(folder: &Path, levels: u32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.path().display().to_string());
            if levels > 1 {
                found.extend(walk(&entry.path(), levels - 1));
            }
        }
    }
    found
}

#[test]
fn processes_have_the_cpu_time_that_their_work_takes() {
    let workload = r#"
        name = "mixed"
        [[jobs]]
        name = "solver"
        processes = 3
        [jobs.process]
        work_ms = { uniform = [60, 120] }
        memory = { reload_lines = 3000, steady_misses_per_ms = 125, shared_lines = 500, shared_writes_per_ms = 2 }
        [[jobs]]
        name = "server"
        processes = 2
        gap_ms = { exponential = 20 }
        [jobs.process]
        work_ms = { constant = 40 }
        block_ms = { exponential = 3 }
        memory = { reload_lines = 1000, order = "blocked" }
        intervals.bursts = { length_ms = { exponential = 4 }, ends = { semaphore = 60, system_call = 40 } }
    "#;
    let recorded = replay(workload, &["--seed", "7", "--replicate", "2"]);
    assert_eq!(recorded.json["completed"], true);
    let file = WorkloadFile::parse(workload).unwrap();
    let courses = Courses::new(&file.workload, 7, 2);
    let acts: Vec<Act> = (0..5).flat_map(|process| courses.acts(ProcessIndex(process))).collect();
    let work_ms = acts.iter().map(|act| if let Act::Work(ns) = act { *ns as f64 / 1e6 } else { 0.0 }).sum::<f64>();
    assert!((recorded.metric("work_ms") - work_ms).abs() < 1e-3, "{work_ms}");
    let cpu_ms = recorded.metric("cpu_ms");
    assert!((cpu_ms / work_ms - 1.0).abs() < 0.05, "{cpu_ms} of {work_ms}");
    let blocks = acts.iter().filter(|act| matches!(act, Act::Block(_))).count();
    assert_eq!(recorded.stays.iter().filter(|stay| stay.end == "semaphore").count(), blocks);
    assert_eq!(recorded.metric("wake_lates"), blocks as f64);
    assert_eq!(recorded.stays.iter().filter(|stay| stay.end == "exit").count(), 5);
}

#[test]
fn locks_and_barriers_are_got_through_by_all() {
    let recorded = replay(
        r#"
        name = "waits"
        [[jobs]]
        name = "team"
        processes = 4
        locks = ["sum"]
        [[jobs.process.phases]]
        repeat = 5
        steps = [
            { work = { uniform = [1, 4] } },
            { acquire = "sum" }, { work = { constant = 1 } }, { release = "sum" },
            "barrier",
            { block = { constant = 1 } },
        ]
        "#,
        &["--seconds", "60"],
    );
    assert_eq!(recorded.json["completed"], true);
    // Nobody is through a barrier before the last has come: each of the four ends its lap by a block.
    let mut blocks: Vec<&Stay> = recorded.stays.iter().filter(|stay| stay.end == "semaphore").collect();
    blocks.sort_by_key(|stay| stay.until_ns);
    assert_eq!(blocks.len(), 20);
    for lap in blocks.chunks(4) {
        assert_eq!(lap.iter().map(|stay| stay.process).collect::<BTreeSet<_>>().len(), 4);
    }
}

#[test]
fn all_but_the_last_sleep_at_a_barrier_that_sleeps() {
    let laps = 30;
    let recorded = replay(
        &format!(
            r#"
            name = "asleep"
            [[jobs]]
            name = "team"
            processes = 4
            [[jobs.process.phases]]
            repeat = {laps}
            steps = [{{ work = {{ uniform = [0.5, 3] }} }}, "sleeping_barrier"]
            "#
        ),
        &["--seconds", "60", "--chunk-ms", "50"],
    );
    assert_eq!(recorded.json["completed"], true);
    let count = |end: &str| recorded.stays.iter().filter(|stay| stay.end == end).count();
    assert_eq!((count("semaphore"), count("synchronization"), count("exit")), (3 * laps, 0, 4));
}

#[test]
fn whoever_arrives_at_a_barrier_first_waits_for_those_that_have_no_cpu_yet() {
    let laps = 20;
    let recorded = replay(
        &format!(
            r#"
            name = "together"
            [[jobs]]
            name = "team"
            processes = 4
            arrival_ms = 1
            [[jobs.process.phases]]
            repeat = {laps}
            steps = [
                {{ work = {{ constant = 0.05 }} }}, "sleeping_barrier",
                {{ work = {{ constant = 10 }} }}, "sleeping_barrier",
            ]
            "#
        ),
        &["--seconds", "60"],
    );
    assert_eq!(recorded.json["completed"], true);
    let asleep = recorded.stays.iter().filter(|stay| stay.end == "semaphore").count();
    assert_eq!(asleep, 3 * 2 * laps);
}

#[test]
fn whoever_waits_at_a_semaphore_is_woken_as_often_as_it_is_posted() {
    let recorded = replay(
        r#"
        name = "semaphores"
        [[jobs]]
        name = "client"
        processes = 3
        [[jobs.process.phases]]
        repeat = 20
        steps = [{ work = { constant = 0.5 } }, { post = "request" }, { wait = "answer" }]
        [[jobs]]
        name = "server"
        processes = 1
        [[jobs.process.phases]]
        repeat = 60
        steps = [{ wait = "request" }, { work = { constant = 0.5 } }, { post = "answer" }]
        "#,
        &["--seconds", "60"],
    );
    assert_eq!(recorded.json["completed"], true);
    let work_ms = recorded.metric("work_ms");
    assert!((work_ms - 60.0).abs() < 1e-3, "{work_ms}");
    // Whether one waits depends on who has a CPU, but nobody does so more often than it is told to.
    let waits = |processes: std::ops::Range<u32>| {
        recorded.stays.iter().filter(|stay| processes.contains(&stay.process) && stay.end == "semaphore").count()
    };
    assert!(waits(0..3) <= 60 && waits(3..4) <= 60, "{} and {}", waits(0..3), waits(3..4));
}

#[test]
fn a_reply_wakes_whose_post_it_answers_and_is_kept_for_who_comes_later() {
    let recorded = replay(
        r#"
        name = "replies"
        [[jobs]]
        name = "late"
        processes = 1
        [[jobs.process.phases]]
        steps = [{ work = { constant = 0.5 } }, { post = "ask" }, { block = { constant = 80 } }, { wait = "answer" }]
        [[jobs]]
        name = "waiting"
        processes = 1
        arrival_ms = 10
        [[jobs.process.phases]]
        steps = [{ post = "ask" }, { wait = "answer" }, { work = { constant = 1 } }]
        [[jobs]]
        name = "server"
        processes = 1
        [[jobs.process.phases]]
        repeat = 2
        steps = [{ wait = "ask" }, { work = { constant = 20 } }, { reply = "answer" }]
        "#,
        &["--seconds", "60"],
    );
    assert_eq!(recorded.json["completed"], true);
    let last = recorded.stays.iter().rfind(|stay| stay.process == 1).unwrap();
    // The first answer, 20 ms after it was asked for, isn't its own.
    assert!(last.from_ns >= 40_000_000, "{} ns", last.from_ns);
}

#[test]
fn a_process_works_singly_where_it_is_the_first_of_its_job() {
    let recorded = replay(
        r#"
        name = "single"
        [[jobs]]
        name = "team"
        processes = 3
        [[jobs.process.phases]]
        repeat = 4
        steps = [{ single = { constant = 3 } }, { work = { constant = 1 } }, "sleeping_barrier"]
        "#,
        &["--seconds", "60"],
    );
    assert_eq!(recorded.json["completed"], true);
    let work_ms = recorded.metric("work_ms");
    assert!((work_ms - 24.0).abs() < 1e-3, "{work_ms}");
}

#[test]
fn attached_processes_never_move_and_are_spread_evenly() {
    let cpus = machine::host::allowed_cpus().unwrap().iter().count();
    let workload = format!("name = \"a\"\n[[jobs]]\nname = \"a\"\nprocesses = {}\nprocess = {{}}\n", 2 * cpus);
    let recorded = replay(&workload, &["--attached", "--seconds", "0.4"]);
    assert_eq!(recorded.metric("migrations"), 0.0);
    let pairs: BTreeSet<(u32, u32)> = recorded.stays.iter().map(|stay| (stay.cpu, stay.process)).collect();
    let mut a_cpu: BTreeMap<u32, u32> = BTreeMap::new();
    pairs.iter().for_each(|(cpu, _)| *a_cpu.entry(*cpu).or_default() += 1);
    assert!(a_cpu.values().all(|processes| *processes <= 2), "{a_cpu:?}");
    assert!(recorded.stays.iter().all(|stay| stay.until_ns <= 400_000_000));
    assert_eq!(recorded.json["completed"], false);
}

#[test]
fn who_is_kept_waiting_arrives_when_another_ends() {
    let recorded = replay(
        "name = \"w\"\n[[jobs]]\nname = \"w\"\nprocesses = 6\nat_once = 2\nprocess.work_ms = { uniform = [5, 20] }\n",
        &[],
    );
    let exits: Vec<&Stay> = recorded.stays.iter().filter(|stay| stay.end == "exit").collect();
    assert_eq!(exits.len(), 6);
    for process in 2..6 {
        let first = recorded.stays.iter().find(|stay| stay.process == process).unwrap();
        let ended = exits.iter().filter(|exit| exit.until_ns < first.runnable_ns).count();
        // Others may have ended while this one was forked.
        assert!(ended > process as usize - 2, "process {process} after {ended} ends");
    }
    // Those that the horizon catches outside never arrive, and nobody waits for them.
    let cut = replay(
        "name = \"w\"\n[[jobs]]\nname = \"w\"\nprocesses = 6\nat_once = 2\nprocess.work_ms = { constant = 60000 }\n",
        &["--seconds", "0.2"],
    );
    assert!(cut.stays.iter().all(|stay| stay.process < 2));
    // Nobody of a job that comes later is there before.
    let later = replay(
        "name = \"w\"\n[[jobs]]\nname = \"w\"\nprocesses = 4\nat_once = 2\narrival_ms = 50\nprocess.work_ms = { constant = 5 }\n",
        &[],
    );
    let first_ns = later.stays.iter().map(|stay| stay.from_ns).min();
    assert!(first_ns.unwrap() >= 50_000_000, "{first_ns:?}");
    assert_eq!(later.stays.iter().filter(|stay| stay.end == "exit").count(), 4);
}

/// The processes whose parent is `pid`.
fn children(pid: u32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

fn is_gone(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z') || rest.starts_with('X'))
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let latest = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < latest, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn however_the_program_ends_no_process_is_left_behind() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL] {
        // Shells let what they start in the background ignore SIGINT, these tests among it.
        let mut running = Command::new("env");
        running.args(["--default-signal=INT", program().get_program().to_str().unwrap(), "spin:3", "--seconds", "60"]);
        let mut running = running.stdout(Stdio::null()).spawn().unwrap();
        let pid = running.id();
        let mut processes = Vec::new();
        wait_until("three processes run", || {
            processes = children(pid);
            processes.len() == 3
        });
        kill(Pid::from_raw(pid as i32), signal).unwrap();
        assert!(!running.wait().unwrap().success());
        wait_until("all are gone", || processes.iter().all(|pid| is_gone(*pid)));
    }
}

#[test]
fn a_process_that_somebody_kills_ends_the_replay() {
    let running = program().args(["spin:2", "--seconds", "60"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let running = running.unwrap();
    let mut processes = Vec::new();
    wait_until("two processes run", || {
        processes = children(running.id());
        processes.len() == 2
    });
    kill(Pid::from_raw(processes[1]), Signal::SIGKILL).unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let recorded = String::from_utf8(output.stderr).unwrap();
    assert_eq!(recorded, "stayput-replay: process 1 was killed by signal 9; nothing is known of this replay\n");
    wait_until("the other is gone", || is_gone(processes[0]));
}

#[test]
fn a_program_with_several_threads_is_refused() {
    let (parameters, workload) = (Parameters { horizon_ms: Some(1.0), ..Parameters::default() }, Workload::spin(1));
    let machine = Machine::host().unwrap();
    let replay = Replay {
        counted: None,
        workload: &workload,
        parameters: &parameters,
        replicate: 0,
        binding: Binding::Free,
        slice: None,
        chunk: None,
        machine: &machine,
    };
    let (ended, end) = mpsc::channel::<()>();
    let other = std::thread::spawn(move || end.recv());
    let result = replay.run();
    drop(ended);
    assert!(other.join().unwrap().is_err());
    assert!(matches!(result, Err(ReplayError::Threads(2..))), "{result:?}");
}

#[test]
fn what_cannot_be_replayed_is_refused_in_a_sentence() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("w.toml");
    let refused = |options: &[&str]| -> String {
        let Output { status, stderr, .. } = program().args(options).output().unwrap();
        assert_eq!(status.code(), Some(2), "{options:?}");
        String::from_utf8(stderr).unwrap()
    };
    let of_file = |text: &str| {
        fs::write(&file, text).unwrap();
        refused(&[file.to_str().unwrap()])
    };
    let job = |rest: &str| format!("name = \"w\"\n[[jobs]]\nname = \"j\"\nprocesses = 1\n{rest}\n");
    for (recorded, sentence) in [
        (refused(&["spinn:3"]), "`spinn:3` is no built-in workload"),
        (refused(&["spin:9000"]), "has 9000 processes; at most 8192 can be replayed"),
        (refused(&["spin:2", "--slice-ms", "200"]), "a slice of 200 ms can't be asked for"),
        (refused(&["spin:2", "--seconds", "-1"]), "unexpected argument"),
        (refused(&["spin:2", "--seconds", "1", "--warm-up", "1"]), "after a warm-up of 1 s nothing is left of 1 s"),
        (refused(&["spin:2", "--machine", "nowhere.json"]), "cannot read nowhere.json: No such file"),
        (of_file(&job("process = {}")), "processes of workload `w` never end"),
        (of_file(&job("process.base = 30\nprocess.work_ms = { constant = 1 }")), "nice values end at 19"),
        (
            of_file(&job("process.memory.reload_lines = 1e9\nprocess.work_ms = { constant = 1 }")),
            "processes of job `j` reuse 16000000000 bytes",
        ),
    ] {
        assert!(recorded.contains(sentence), "{recorded}");
    }
}
