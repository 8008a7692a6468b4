//! That threads are where they were meant to be: what `stayput run` says of each, against what the threads themselves
//! say; and that a program notices nothing else of it.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as the tests may")]

use launch::{Descendants, Launch, LaunchError, Launched, Observe, Unit};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use study::Exit;

/// CPU numbers, in the order of threads.
type Cpus = Vec<u64>;

fn stayput() -> Command {
    Command::new(env!("CARGO_BIN_EXE_stayput"))
}

/// Where the tests keep what they compile and write.
fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Compiles a test program; none, with the reason printed, when there is no such compiler here.
fn compiled(source_name: &str, program: &str, compiler: &[&str]) -> Option<PathBuf> {
    let path = scratch(program);
    // Tests run side by side: each compiles to a name of its own.
    let unfinished = scratch(&format!("{program}.{:?}", std::thread::current().id()));
    let result = Command::new(compiler[0])
        .args(&compiler[1..])
        .arg("-o")
        .arg(&unfinished)
        .arg(source(source_name))
        .env("GOCACHE", scratch("go-cache"))
        .env("GOFLAGS", "-mod=mod")
        .output();
    match result {
        Err(error) => {
            println!("skipped: {} is not here: {error}", compiler[0]);
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "{compiler:?}: {}", String::from_utf8_lossy(&output.stderr));
            fs::rename(&unfinished, &path).unwrap();
            Some(path)
        }
    }
}

fn pthreads() -> PathBuf {
    compiled("threads.c", "threads", &["cc", "-O1", "-pthread"]).expect("a C compiler, without which nothing links")
}

/// The CPUs that we may use, of which there may be only one.
fn usable() -> Cpus {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    machine::cpu::parse_cpu_list(list).unwrap().into_iter().map(|cpu| cpu.0.into()).collect()
}

/// A placement that no program would have by chance: the last CPU first.
fn last_and_first() -> (String, Cpus) {
    let usable = usable();
    let cpus = vec![usable[usable.len() - 1], usable[0]];
    (format!("{},{}", cpus[0], cpus[1]), cpus)
}

/// Runs a program under `stayput run`; its output and what was seen of it.
fn run(arguments: &[&str], program: &[&str]) -> (Output, Value) {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let json = scratch(&format!("seen.{}.{}.json", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed)));
    let output = stayput()
        .arg("run")
        .args(arguments)
        .arg("--json")
        .arg(&json)
        .arg("--")
        .args(program)
        .env_remove("OMP_NUM_THREADS")
        .output()
        .unwrap();
    let text = fs::read(&json).unwrap_or_default();
    let _ = fs::remove_file(&json);
    let seen = serde_json::from_slice(&text)
        .unwrap_or_else(|error| panic!("{error}: {:?} {}", output.status, String::from_utf8_lossy(&output.stderr)));
    (output, seen)
}

/// What each thread printed of itself: its index and its CPUs.
fn own_words(output: &Output) -> BTreeMap<u64, Cpus> {
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| {
            let mut numbers = line.split(' ').map(|number| number.parse().unwrap());
            (numbers.next().unwrap(), numbers.collect())
        })
        .collect()
}

fn cpu_lists(seen: &Value, field: &str) -> Vec<Cpus> {
    let numbers = |list: &Value| list.as_array().unwrap().iter().map(|cpu| cpu.as_u64().unwrap()).collect();
    seen[field].as_array().unwrap().iter().map(numbers).collect()
}

fn notes(seen: &Value) -> String {
    seen["notes"].to_string()
}

/// Thread `i` was meant for, is said to have been on, and itself says that it was on CPU `i` of the placement.
fn assert_bound(output: &Output, seen: &Value, cpus: &Cpus, threads: usize) {
    let expected: Vec<Cpus> = (0..threads).map(|thread| vec![cpus[thread % cpus.len()]]).collect();
    assert_eq!(cpu_lists(seen, "intended_cpus"), expected, "{seen:#}");
    assert_eq!(cpu_lists(seen, "actual_cpus"), expected, "{seen:#}");
    let said = own_words(output);
    assert_eq!(said.len(), threads);
    for (thread, cpus) in said {
        assert_eq!(cpus, expected[thread as usize], "thread {thread}");
    }
}

#[test]
fn an_openmp_program_on_libgomp_is_bound_through_its_runtime() {
    let Some(program) = compiled("openmp.c", "openmp-gnu", &["gcc", "-fopenmp"]) else { return };
    let (list, cpus) = last_and_first();
    let (output, seen) = run(&["--place", &list], &[program.to_str().unwrap()]);
    assert_bound(&output, &seen, &cpus, 2);
    let (output, seen) = run(&["--place", &list, "-n", "5"], &[program.to_str().unwrap()]);
    assert_bound(&output, &seen, &cpus, 5);
}

#[test]
fn an_openmp_program_on_libomp_is_bound_through_its_runtime() {
    let Some(program) = compiled("openmp.c", "openmp-llvm", &["clang", "-fopenmp"]) else { return };
    let (list, cpus) = last_and_first();
    let (output, seen) = run(&["--place", &list], &[program.to_str().unwrap()]);
    assert_bound(&output, &seen, &cpus, 2);
    let (output, seen) = run(&["--place", &list, "-n", "5"], &[program.to_str().unwrap()]);
    assert_bound(&output, &seen, &cpus, 5);
}

#[test]
fn an_openmp_program_is_bound_by_creation_behind_a_shell_and_with_threads_to_skip() {
    let Some(program) = compiled("openmp.c", "openmp-behind", &["gcc", "-fopenmp"]) else { return };
    let (list, cpus) = last_and_first();
    let (output, seen) = run(&["--place", &list], &["sh", "-c", &format!("exec {}", program.display())]);
    assert_bound(&output, &seen, &cpus, 2);
    let (output, seen) = run(&["--place", &list, "-n", "2", "--skip", "0"], &[program.to_str().unwrap()]);
    assert_eq!(own_words(&output)[&1], [cpus[0]]);
    assert!(seen["intended_cpus"][0].is_null());
}

#[test]
fn the_users_own_binding_variables_do_not_bind() {
    let Some(program) = compiled("openmp.c", "openmp-user", &["gcc", "-fopenmp"]) else { return };
    let (list, cpus) = last_and_first();
    let ours = |place: &str| {
        let output = stayput()
            .args(["run", "--place", place, "-n", "2", "--"])
            .arg(&program)
            .env("OMP_PROC_BIND", "false")
            .env("GOMP_CPU_AFFINITY", usable()[0].to_string())
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains("GOMP_CPU_AFFINITY, OMP_PROC_BIND"));
        own_words(&output)
    };
    assert_eq!(ours(&list), BTreeMap::from([(0, vec![cpus[0]]), (1, vec![cpus[1]])]));
    assert_eq!(ours("unbound"), BTreeMap::from([(0, usable()), (1, usable())]));
}

#[test]
fn a_pthread_program_is_bound_in_order_of_creation() {
    let (list, cpus) = last_and_first();
    let (output, seen) = run(&["--place", &list], &[pthreads().to_str().unwrap(), "5", "together"]);
    assert_bound(&output, &seen, &cpus, 6);
    assert_eq!(seen["threads"], 6);
    assert_eq!(seen["exit"]["code"], 0);
}

#[test]
fn a_static_binary_is_bound() {
    let Some(program) = compiled("threads.c", "threads-static", &["cc", "-static", "-pthread"]) else { return };
    let (list, cpus) = last_and_first();
    let (output, seen) = run(&["--place", &list], &[program.to_str().unwrap(), "3", "together"]);
    assert_bound(&output, &seen, &cpus, 4);
}

#[test]
fn threads_that_are_created_late_are_bound() {
    let (list, cpus) = last_and_first();
    let (output, seen) = run(&["--place", &list], &[pthreads().to_str().unwrap(), "3", "late"]);
    assert_bound(&output, &seen, &cpus, 4);
}

#[test]
fn a_thousand_short_threads_are_each_bound_and_read_back() {
    let (list, cpus) = last_and_first();
    let (output, seen) = run(&["--place", &list], &[pthreads().to_str().unwrap(), "1000", "short"]);
    assert_bound(&output, &seen, &cpus, 1001);
    let summary = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(summary.contains("1,001 bound as intended"), "{summary}");
}

#[test]
fn a_main_thread_that_ends_before_its_process_is_read_back() {
    let (list, cpus) = last_and_first();
    let (output, seen) = run(&["--place", &list], &[pthreads().to_str().unwrap(), "2", "leave"]);
    assert_bound(&output, &seen, &cpus, 3);
}

#[test]
fn a_go_program_is_bound() {
    let Some(program) = compiled("threads.go", "threads-go", &["go", "build"]) else { return };
    let (list, cpus) = last_and_first();
    let (_, seen) = run(&["--place", &list], &[program.to_str().unwrap()]);
    let actual = cpu_lists(&seen, "actual_cpus");
    assert_eq!(actual, cpu_lists(&seen, "intended_cpus"));
    assert!(actual.len() >= 5, "{seen:#}");
    assert_eq!(actual[..2], [vec![cpus[0]], vec![cpus[1]]]);
}

#[test]
fn a_python_program_with_threads_is_bound() {
    let (list, cpus) = last_and_first();
    let script = source("threads.py");
    let python = ["/usr/bin/python3", "python3"]
        .into_iter()
        .find(|python| Path::new(python).exists() || !python.starts_with('/'));
    if Command::new(python.unwrap()).arg("--version").output().is_err() {
        println!("skipped: python3 is not here");
        return;
    }
    let (output, seen) = run(&["--place", &list], &[python.unwrap(), script.to_str().unwrap()]);
    assert_bound(&output, &seen, &cpus, 4);
}

#[test]
fn a_program_that_resets_its_own_affinity_is_reported() {
    if usable().len() < 2 {
        println!("skipped: with one CPU there is nowhere to stray to");
        return;
    }
    let (list, _) = last_and_first();
    let (output, seen) = run(&["--place", &list], &[pthreads().to_str().unwrap(), "2", "reset"]);
    assert!(notes(&seen).contains("2 of 3 threads strayed"), "{}", notes(&seen));
    assert!(String::from_utf8_lossy(&output.stderr).contains("(strayed)"));
    assert_eq!(cpu_lists(&seen, "actual_cpus")[0], cpu_lists(&seen, "intended_cpus")[0]);
}

#[test]
fn a_program_without_threads_is_said_to_have_been_free() {
    let usable = usable();
    if usable.len() < 2 {
        println!("skipped: with one CPU there is no freedom");
        return;
    }
    let (list, mut cpus) = last_and_first();
    let (_, seen) = run(&["--place", &list], &["true"]);
    cpus.sort_unstable();
    assert_eq!(cpu_lists(&seen, "intended_cpus"), [cpus.clone()]);
    assert_eq!(cpu_lists(&seen, "actual_cpus"), [cpus]);
    assert!(notes(&seen).contains("created no thread"), "{}", notes(&seen));
    let (_, seen) = run(&["--place", &list, "-n", "1"], &["true"]);
    assert_eq!(cpu_lists(&seen, "actual_cpus"), [[usable[usable.len() - 1]]]);
    assert_eq!(notes(&seen), "[]");
}

#[test]
fn skipped_threads_are_left_alone_and_take_no_slot() {
    let (list, cpus) = last_and_first();
    let (output, seen) = run(&["--place", &list, "--skip", "1,2"], &[pthreads().to_str().unwrap(), "3", "together"]);
    let said = own_words(&output);
    assert_eq!((&said[&0], &said[&3]), (&vec![cpus[0]], &vec![cpus[1]]));
    let mut both = cpus;
    both.sort_unstable();
    both.dedup();
    assert_eq!((&said[&1], &said[&2]), (&both, &both));
    assert!(seen["intended_cpus"][1].is_null() && seen["intended_cpus"][2].is_null());
}

#[test]
fn processes_take_slots_and_their_threads_inherit() {
    let (list, cpus) = last_and_first();
    let script = format!("{0} 2 together; {0} 1 together", pthreads().display());
    let (_, seen) = run(&["--place", &list, "--unit", "process"], &["sh", "-c", &script]);
    for thread in seen["thread_details"].as_array().unwrap() {
        let process = thread["process"].as_u64().unwrap() as usize;
        assert_eq!(thread["actual_cpus"][0], cpus[process % 2], "{thread}");
        assert_eq!(thread["actual_cpus"], thread["intended_cpus"]);
    }
    assert_eq!(seen["thread_details"].as_array().unwrap().len(), 6);
    let (_, seen) = run(&["--place", &list, "--unit", "process", "--skip", "0"], &["sh", "-c", &script]);
    assert!(seen["intended_cpus"][0].is_null());
    assert_eq!(seen["thread_details"][1]["actual_cpus"][0], cpus[0]);
}

#[test]
fn each_process_counts_its_own_threads() {
    let (list, cpus) = last_and_first();
    let script = format!("{0} 1 together >/dev/null & {0} 2 together >/dev/null; wait", pthreads().display());
    let (_, seen) = run(&["--place", &list], &["sh", "-c", &script]);
    let bound = seen["thread_details"].as_array().unwrap().iter().filter(|thread| thread["exec"] == 1);
    for thread in bound.clone() {
        let index = thread["thread"].as_u64().unwrap() as usize;
        assert_eq!(thread["actual_cpus"][0], cpus[index % 2], "{thread}");
    }
    assert_eq!(bound.count(), 5);
}

#[test]
fn polling_binds_threads_that_live_long_enough_and_says_what_it_can_miss() {
    let (list, cpus) = last_and_first();
    let script = format!("exec {} 3 late", pthreads().display());
    let (output, seen) = run(&["--place", &list, "--observe", "poll"], &["sh", "-c", &script]);
    let said = own_words(&output);
    assert_eq!((&said[&1], &said[&2]), (&vec![cpus[1]], &vec![cpus[0]]));
    assert!(notes(&seen).contains("polled (asked for)"), "{}", notes(&seen));
}

#[test]
fn only_observing_binds_nothing() {
    let (output, seen) = run(&[], &[pthreads().to_str().unwrap(), "2", "together"]);
    assert!(seen["intended_cpus"].as_array().unwrap().iter().all(Value::is_null));
    assert_eq!(seen["placement"], "unbound");
    assert!(own_words(&output).values().all(|cpus| *cpus == usable()));
}

#[test]
fn what_a_program_uses_is_its_own_and_not_its_launchers() {
    let (_, seen) = run(&[], &["true"]);
    assert!(seen["wall_s"].as_f64().unwrap() > 0.0);
    assert!(seen["minor_faults"].as_u64().unwrap() > 0);
    // Its last switch, away from its end, is one; our stops are none of its.
    assert!(seen["voluntary_switches"].as_u64().unwrap() <= 1, "{seen:#}");
    let small = seen["max_rss_bytes"].as_u64().unwrap();
    assert!((200 << 10..3 << 20).contains(&small), "{small}");
    let (_, seen) = run(&[], &["sh", "-c", "exec head -c 50000000 /dev/zero | tail -c 50000000 >/dev/null"]);
    assert!(seen["max_rss_bytes"].as_u64().unwrap() > 50_000_000);
}

#[test]
fn exit_codes_and_signals_pass_through() {
    let quietly = |program: &[&str]| stayput().args(["run", "-q", "--"]).args(program).output().unwrap();
    assert_eq!(quietly(&["sh", "-c", "exit 37"]).status.code(), Some(37));
    for signal in [libc::SIGTERM, libc::SIGSEGV, libc::SIGKILL] {
        let script = format!("ulimit -c 0; kill -{signal} $$");
        assert_eq!(quietly(&["sh", "-c", &script]).status.signal(), Some(signal));
    }
    assert!(quietly(&["sh", "-c", "exit 0"]).stderr.is_empty());
}

#[test]
fn what_cannot_be_started_ends_as_in_a_shell() {
    let ends = |arguments: &[&str]| {
        let output = stayput().arg("run").args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said.lines().count(), 1, "{said}");
        (output.status.code(), said)
    };
    assert_eq!(ends(&["--", "no-such-program"]).0, Some(127));
    assert_eq!(ends(&["--", "/etc/passwd"]).0, Some(126));
    assert_eq!(ends(&["--observe", "poll", "--", "/etc"]).0, Some(126));
    let (code, said) = ends(&["--place", "9999", "--", "true"]);
    assert!(code == Some(2) && said.contains("9999"), "{said}");
    assert_eq!(ends(&["--place", "0-", "--", "true"]).0, Some(2));
    assert_eq!(ends(&["--place", "nowhere", "--", "true"]).0, Some(2));
    assert_eq!(ends(&["--json", "/nowhere/at/all", "--", "true"]).0, Some(2));
}

#[test]
fn a_script_without_an_interpreter_line_is_run_by_the_shell() {
    let script = scratch("no-interpreter-line");
    fs::write(&script, "echo $1; exit 3\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for observe in ["trace", "poll"] {
        let output =
            stayput().args(["run", "-q", "--observe", observe, "--"]).arg(&script).arg("word").output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), b"word\n".as_slice()));
    }
}

/// Waits for what another process does, without end: the test's own timeout is the harness's.
fn until<T>(mut probe: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = probe() {
            return found;
        }
        sleep(Duration::from_millis(5));
    }
}

fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn kill(pid: u32, signal: i32) {
    let status = Command::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).status().unwrap();
    assert!(status.success());
}

/// The only child of a process.
fn child_of(pid: u32) -> u32 {
    until(|| fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?.trim().parse().ok())
}

#[test]
fn signals_sent_to_us_reach_the_program() {
    for observe in ["trace", "poll"] {
        let script = "trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.02; done";
        let mut running = stayput()
            .args(["run", "-q", "--observe", observe, "--", "sh", "-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = running.stdout.take().unwrap();
        let mut line = [0; 6];
        stdout.read_exact(&mut line).unwrap();
        kill(running.id(), libc::SIGUSR1);
        let mut line = [0; 5];
        stdout.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"usr1\n", "{observe}");
        kill(running.id(), libc::SIGTERM);
        assert_eq!(running.wait().unwrap().code(), Some(5), "{observe}");
    }
}

#[test]
fn we_stop_and_continue_with_the_program() {
    // After so many births the command is not traced any more.
    let many = "for i in $(seq 100); do /bin/true; done; kill -STOP $$; exit 6";
    for (observe, script) in [("trace", "kill -STOP $$; exit 6"), ("trace", many), ("poll", "kill -STOP $$; exit 6")] {
        let mut running =
            stayput().args(["run", "-q", "--observe", observe, "--", "sh", "-c", script]).spawn().unwrap();
        until(|| (state_of(running.id()) == Some('T')).then_some(()));
        kill(running.id(), libc::SIGCONT);
        assert_eq!(running.wait().unwrap().code(), Some(6), "{observe}");
    }
}

#[test]
fn ignored_signals_stay_ignored_and_others_stay_default() {
    // SigIgn of a program run under us is what it is when run bare, SIGPIPE (bit 12) included.
    let script = "grep -h -E 'SigIgn|SigBlk' /proc/self/status";
    let mut bare = Command::new("sh");
    bare.args(["-c", &format!("trap '' HUP PIPE; {script}")]);
    let mut under_us = Command::new("sh");
    let ours = env!("CARGO_BIN_EXE_stayput");
    under_us.args(["-c", &format!("trap '' HUP PIPE; {ours} run -q -- sh -c \"{script}\"")]);
    assert_eq!(text_of(&mut under_us), text_of(&mut bare));
    assert_eq!(
        text_of(stayput().args(["run", "-q", "--", "sh", "-c", script])),
        text_of(Command::new("sh").args(["-c", script]))
    );
}

#[test]
fn a_reader_that_has_left_ends_us_by_sigpipe() {
    let closed = || std::io::pipe().unwrap().1;
    let mut places = stayput_with(&["place", "scatter", "-n", "1", "--machine", "package:1 core:2 pu:1"]);
    assert_eq!(places.stdout(closed()).status().unwrap().signal(), Some(libc::SIGPIPE));
    // But not where the reader was one of our own messages: the program's end is what counts.
    let mut run = stayput_with(&["run", "--", "sh", "-c", "exit 7"]);
    assert_eq!(run.stderr(closed()).status().unwrap().code(), Some(7));
}

fn stayput_with(arguments: &[&str]) -> Command {
    let mut command = stayput();
    command.args(arguments);
    command
}

fn text_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_program_has_our_group_and_descriptors_and_none_of_ours() {
    let script = "ls /proc/self/fd | wc -l; ps -o pgid= -p $$ || cut -d' ' -f5 /proc/$$/stat";
    let group = |command: &mut Command| {
        // Each in a group of its own, as a shell would have it.
        let running = command.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let leader = running.id().to_string();
        let text = String::from_utf8(running.wait_with_output().unwrap().stdout).unwrap();
        let mut words = text.split_whitespace().map(ToOwned::to_owned);
        (words.next().unwrap(), words.next().unwrap() == leader)
    };
    let bare = group(Command::new("sh").args(["-c", script]));
    assert_eq!(group(stayput().args(["run", "-q", "--", "sh", "-c", script])), bare);
    assert!(bare.1);
}

#[test]
fn the_program_dies_with_us() {
    for observe in ["trace", "poll"] {
        let mut running = stayput().args(["run", "-q", "--observe", observe, "--", "sleep", "1000"]).spawn().unwrap();
        let program = child_of(running.id());
        until(|| fs::read_to_string(format!("/proc/{program}/comm")).ok()?.starts_with("sleep").then_some(()));
        running.kill().unwrap();
        running.wait().unwrap();
        until(|| matches!(state_of(program), None | Some('Z')).then_some(()));
    }
}

#[test]
fn processes_that_outlive_the_command_are_left_running() {
    for observe in ["trace", "poll"] {
        let output = stayput()
            .args(["run", "-q", "--observe", observe, "--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"])
            .output()
            .unwrap();
        let left: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        assert!(state_of(left).is_some_and(|state| state != 'Z'), "{observe}");
        kill(left, libc::SIGKILL);
    }
}

/// Launches as a study does.
fn trial(program: &[&str], observe: Observe, timeout: Option<Duration>) -> Launched {
    try_trial(program, observe, timeout).unwrap()
}

fn try_trial(program: &[&str], observe: Observe, timeout: Option<Duration>) -> Result<Launched, LaunchError> {
    launch::launch(&Launch {
        observe,
        timeout,
        output: launch::Output::Capture,
        descendants: Descendants::Kill,
        unit: Unit::Thread,
        ..Launch::new(program.iter().map(OsString::from).collect())
    })
}

/// Processes whose command line holds `mark`.
fn alive(mark: &str) -> usize {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .filter(|cmdline| String::from_utf8_lossy(cmdline).contains(mark))
        .count()
}

#[test]
fn a_trial_leaves_no_process_behind() {
    for (observe, mark) in [(Observe::Trace, "100001"), (Observe::Poll, "100002")] {
        // One child, one that has left its session, and one whose parent has ended.
        let script = format!("sleep {mark} & setsid sleep {mark} & (sleep {mark} &) ; sleep 0.2; echo done");
        let launched = trial(&["sh", "-c", &script], observe, None);
        assert_eq!(launched.observation.exit, Exit::Code(0));
        assert_eq!(launched.observation.leftovers, 3, "{observe:?} {:#?}", launched.observation);
        assert_eq!(launched.stdout.text(), "done\n");
        assert_eq!(alive(mark), 0, "{observe:?}");
    }
}

#[test]
fn a_tree_that_ignores_sigterm_is_killed_at_its_timeout() {
    for (observe, mark) in [(Observe::Trace, "100003"), (Observe::Poll, "100004")] {
        let script =
            format!("trap '' TERM; echo before; sh -c 'trap \"\" TERM; sleep {mark}; true' & sleep {mark}; true");
        let started = Instant::now();
        let launched = trial(&["sh", "-c", &script], observe, Some(Duration::from_millis(300)));
        assert_eq!(launched.observation.exit, Exit::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(500));
        assert_eq!(launched.stdout.text(), "before\n");
        assert_eq!(alive(mark), 0, "{observe:?}");
    }
}

#[test]
fn a_hundred_megabytes_of_output_keep_their_start_and_end() {
    let script = "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last; echo error >&2";
    let launched = trial(&["sh", "-c", script], Observe::Trace, None);
    assert_eq!(launched.stdout.total_bytes, 100_000_012);
    assert!(launched.stdout.head.starts_with(b"first\nxxx"));
    assert!(launched.stdout.tail.ends_with(b"x\nlast\n"));
    assert_eq!(launched.stdout.head.len() + launched.stdout.tail.len(), 2 * launch::KEPT_BYTES);
    assert_eq!(launched.stderr.text(), "error\n");
}

#[test]
fn a_trial_reads_nothing_and_may_close_its_output() {
    let launched = trial(&["sh", "-c", "cat; exec >&- 2>&-; sleep 0.05; exit 4"], Observe::Trace, None);
    assert_eq!(launched.observation.exit, Exit::Code(4));
    assert_eq!(launched.stdout.total_bytes, 0);
}

#[test]
fn a_chain_of_programs_is_one_process() {
    let launched = trial(&["sh", "-c", "exec env A=1 sh -c 'exec true'"], Observe::Trace, None);
    let threads = &launched.observation.threads;
    assert_eq!(threads.len(), 1);
    assert_eq!((threads[0].process, threads[0].thread, threads[0].exec), (0, 0, 3));
}

#[test]
fn a_trial_that_is_not_there_is_an_error() {
    let error = try_trial(&["no-such-program"], Observe::Trace, None).unwrap_err();
    assert!(matches!(error, LaunchError::NotFound { .. }), "{error}");
    let script = scratch("bad-interpreter");
    for observe in [Observe::Trace, Observe::Poll] {
        let error_by = |interpreter: &str| {
            fs::write(&script, format!("#! {interpreter} -x\n")).unwrap();
            fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            try_trial(&[script.to_str().unwrap()], observe, None).unwrap_err()
        };
        let error = error_by("/no/such/interpreter");
        assert!(matches!(error, LaunchError::NoInterpreter { .. }), "{error}");
        let error = error_by("/etc/passwd");
        assert!(matches!(error, LaunchError::NotExecutable { .. }), "{error}");
    }
}
