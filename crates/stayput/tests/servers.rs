//! Servers under study, with a load apart from them: how they get ready and stop, what is read back, and what is left when they don't.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// A server that answers each connection with a line, and misbehaves as its first argument says.
const SERVER: &str = r#"
import os, signal, socket, subprocess, sys, threading, time
mode, port, mark = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if mode == "never": time.sleep(1000)
if mode == "early": print("no disk", flush=True); sys.exit(7)
if mode == "deaf": signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "daemon" and os.fork(): sys.exit(0)
if mode == "daemon": os.setsid()
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", port)); s.listen(64)
if mode == "helper":
    # It leaves the session, and has the port open.
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", mark], start_new_session=True, pass_fds=[s.fileno()])
print("accepting connections", flush=True)
answered = 0
while True:
    c, _ = s.accept(); c.sendall(b"hello\n"); c.close()
    answered += 1
    if mode == "dies" and answered > 3: print("out of memory", flush=True); os._exit(9)
"#;

/// Asks the server several times, and says how many times it was answered a second.
const LOAD: &str = r#"
import socket, sys, time
port, times = int(sys.argv[1]), int(sys.argv[2])
begun = time.time()
for _ in range(times):
    c = socket.create_connection(("127.0.0.1", port), 5)
    if c.recv(100) != b"hello\n": sys.exit("no answer")
    c.close()
print("rate: %.1f" % (times / (time.time() - begun)))
if len(sys.argv) > 3: time.sleep(1000)
"#;

struct Desk {
    folder: TempDir,
    port: u16,
    mark: String,
}

impl Desk {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("server.py"), SERVER).unwrap();
        fs::write(folder.path().join("load.py"), LOAD).unwrap();
        // Below those that the kernel gives away by itself, and another one for each desk.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let first = 20_000 + (std::process::id() % 1_000) as u16 * 10;
        let mut ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
        let port = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap();
        Self { folder, port, mark: format!("mark-{name}-{}", std::process::id()) }
    }

    fn server(&self, mode: &str) -> String {
        format!("python3 server.py {mode} {} {}", self.port, self.mark)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(STAYPUT);
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn words(&self, mode: &str, more: &[&str], load: &[&str]) -> Vec<String> {
        let usual = "study -q --no-report --out a.stayput -n 1 --warmup 0 --min-runs 2 --max-runs 2 --server";
        let port = self.port.to_string();
        let mut words: Vec<String> = usual.split_whitespace().map(str::to_owned).collect();
        words.push(self.server(mode));
        words.extend(more.iter().map(|word| word.replace("PORT", &port)));
        words.extend(["--", "python3", "load.py", &port].map(str::to_owned));
        words.extend(load.iter().map(|word| (*word).to_owned()));
        words
    }

    fn study(&self, mode: &str, more: &[&str], load: &[&str], code: i32) -> String {
        let words = self.words(mode, more, load);
        let output: Output = self.command(&words.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
        assert_eq!(output.status.code(), Some(code), "{mode}: {said}");
        assert!(comes_true(|| self.processes().is_empty()), "{mode}: {:?}", self.processes());
        said
    }

    fn json(&self) -> Value {
        let output = self.command(&["report", "a.stayput", "--format", "json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Command lines of processes that this desk's servers started, theirs included.
    fn processes(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(&self.mark) && !line.contains("stayput") {
                found.push(line);
            }
        }
        found
    }
}

fn comes_true(is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(10));
    }
    is_so()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_server_is_placed_and_its_load_apart_and_both_are_read_back() {
    for ready in ["port:PORT", "regex:^accepting", "command:python3 load.py PORT 1"] {
        let desk = Desk::new("placed");
        let asked = [
            "--ready",
            ready,
            "--place",
            "unbound,0",
            "--load-place",
            "0",
            "--metric",
            "rate [1/s] higher = rate: (.*)",
        ];
        let said = desk.study("plain", &asked, &["20"], 0);
        assert!(one_line(&said).contains("Compared by rate [1/s], higher is better"), "{said}");
        let json = desk.json();
        for trial in json["trials"].as_array().unwrap() {
            assert_eq!(trial["status"], "ok", "{trial}");
            assert!(trial["values"]["rate"].as_f64().unwrap() > 0.0);
            let load = &trial["load"];
            assert!(
                load["actual_cpus"].as_array().unwrap().iter().all(|cpus| *cpus == serde_json::json!([0])),
                "{load}"
            );
            assert!(load["server_ready_s"].as_f64().unwrap() > 0.0);
            if trial["placement"] == "0" {
                assert_eq!(trial["actual_cpus"], serde_json::json!([[0]]), "{trial}");
            }
            assert!(trial["server_log"].as_str().unwrap().contains("accepting connections"), "{trial}");
        }
        let name = json["plan"]["subjects"][0]["name"].as_str().unwrap();
        assert!(name.starts_with("python3 server.py plain") && name.contains(" under python3 load.py"), "{name}");
    }
}

#[test]
fn a_server_that_is_not_there_makes_a_failed_run_with_its_cause_and_nothing_is_left() {
    for (mode, more, cause) in [
        ("never", &["--ready-timeout", "300ms"][..], "the server was not ready (port:"),
        (
            "early",
            &[],
            "the server ended before it was ready (exit code 7); the last line that it printed is `no disk`",
        ),
        (
            "dies",
            &[],
            "the server ended before the load did (exit code 9); the last line that it printed is `out of memory`",
        ),
        ("daemon", &[], "(exit code 0: one that goes into the background by itself is to be told to stay)"),
    ] {
        let desk = Desk::new(mode);
        let said = desk.study(mode, &[&["--ready", "port:PORT", "--place", "unbound"], more].concat(), &["40"], 1);
        assert!(one_line(&said).contains(cause), "{mode}: {said}");
        let trial = &desk.json()["trials"][0];
        assert_eq!((trial["status"].as_str(), trial["time_s"].as_f64()), (Some("server"), None), "{mode}: {trial}");
        assert!(trial["cause"].as_str().unwrap().contains(cause), "{trial}");
    }
}

#[test]
fn a_port_that_is_taken_is_told_before_the_server_is_started() {
    let desk = Desk::new("taken");
    let _listener = TcpListener::bind(("127.0.0.1", desk.port)).unwrap();
    let said = desk.study("plain", &["--ready", "port:PORT", "--place", "unbound"], &["5"], 1);
    assert!(one_line(&said).contains(&format!("port {} is in use before the server is started", desk.port)), "{said}");
}

#[test]
fn one_that_does_not_stop_or_leaves_helpers_is_killed_with_them_and_its_port_is_free_again() {
    for mode in ["deaf", "helper"] {
        let desk = Desk::new(mode);
        let said =
            desk.study(mode, &["--ready", "port:PORT", "--place", "unbound", "--stop-timeout", "200ms"], &["5"], 0);
        if mode == "deaf" {
            assert!(one_line(&said).contains("did not stop within 200ms of being asked, and was killed"), "{said}");
        }
        assert!(TcpListener::bind(("127.0.0.1", desk.port)).is_ok(), "{mode}");
        assert!(desk.json()["trials"].as_array().unwrap().iter().all(|trial| trial["status"] == "ok"), "{mode}");
    }
}

#[test]
fn it_is_asked_to_stop_by_the_signal_or_the_command_that_is_named() {
    let desk = Desk::new("stop");
    let line = "echo $STAYPUT_SERVER_PID >> asked; kill -9 $STAYPUT_SERVER_PID";
    desk.study("deaf", &["--ready", "port:PORT", "--place", "unbound", "--stop-command", line], &["5"], 0);
    let asked = fs::read_to_string(desk.folder.path().join("asked")).unwrap();
    assert_eq!(asked.lines().count(), 2, "once a run");
    let said = desk.study(
        "deaf",
        &["--force", "--ready", "port:PORT", "--place", "unbound", "--stop-signal", "KILL"],
        &["5"],
        0,
    );
    assert!(!said.contains("did not stop"), "{said}");
}

#[test]
fn a_load_that_fails_or_hangs_is_told_as_the_loads_and_the_server_is_ended() {
    let desk = Desk::new("load");
    let said = desk.study("plain", &["--ready", "port:PORT", "--place", "unbound"], &["none"], 1);
    assert!(one_line(&said).contains("load: exit code 1"), "{said}");
    let said = desk.study(
        "plain",
        &["--force", "--ready", "port:PORT", "--place", "unbound", "--timeout", "500ms"],
        &["5", "hang"],
        1,
    );
    assert!(one_line(&said).contains("load: ran longer than 500ms"), "{said}");
    let missing = ["--force", "--ready", "port:PORT", "--place", "unbound", "--metric", "p99 lower = p99: (.*)"];
    let said = desk.study("plain", &missing, &["5"], 1);
    assert!(one_line(&said).contains("`p99` is not in its output"), "{said}");
}

#[test]
fn killed_at_twenty_random_moments_nothing_is_left_and_the_same_command_goes_on() {
    let desk = Desk::new("killed");
    let words =
        desk.words("helper", &["--ready", "port:PORT", "--place", "unbound,0", "--stop-timeout", "200ms"], &["30"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    for attempt in 0..20_u64 {
        let mut we = desk.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(10 + 37 * attempt % 700));
        we.kill().unwrap();
        we.wait().unwrap();
        assert!(comes_true(|| desk.processes().is_empty()), "attempt {attempt}: {:?}", desk.processes());
    }
    let output = desk.command(&words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trials = desk.json()["trials"].as_array().unwrap().clone();
    assert!(trials.len() >= 4 && trials.iter().all(|trial| trial["status"] == "ok"), "{trials:?}");
}

#[test]
fn a_server_that_is_kept_is_started_once_a_block_and_bound_anew_for_each_run() {
    let desk = Desk::new("kept");
    let prepare = "cat pid >> before; echo >> before";
    let stop = "echo $STAYPUT_SERVER_PID > pid; echo $STAYPUT_SERVER_PID >> stopped; kill $STAYPUT_SERVER_PID";
    let asked = [
        "--keep-server",
        "--ready",
        "port:PORT",
        "--place",
        "unbound,0",
        "--place",
        "1",
        "--load-place",
        "0",
        "--stop-command",
        stop,
    ];
    desk.study("helper", &[&asked[..], &["--conclude", "true"]].concat(), &["20"], 0);
    let stopped = fs::read_to_string(desk.folder.path().join("stopped")).unwrap();
    assert_eq!(stopped.lines().count(), 2, "once a block: {stopped}");
    let json = desk.json();
    let trials = json["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 6);
    for trial in trials {
        assert_eq!(trial["status"], "ok", "{trial}");
        let of_load = trial["load"]["actual_cpus"].as_array().unwrap();
        assert!(of_load.iter().all(|cpus| *cpus == serde_json::json!([0])), "{trial}");
        assert!(trial["load"]["server_ready_s"].as_f64().unwrap() > 0.0, "{trial}");
        assert!(trial["server_log"].as_str().unwrap().contains("accepting connections"), "{trial}");
        if let Ok(cpu) = trial["placement"].as_str().unwrap().parse::<u32>() {
            let cpus = trial["actual_cpus"].as_array().unwrap();
            assert!(!cpus.is_empty() && cpus.iter().all(|cpus| *cpus == serde_json::json!([cpu])), "{trial}");
        }
    }
    assert!(json["plan"]["subjects"][0]["server"]["keep"].as_bool().unwrap());
    // One that doesn't stop is killed, and told with the block that follows.
    let asked = ["--force", "--keep-server", "--ready", "port:PORT", "--place", "unbound,0", "--stop-timeout", "200ms"];
    let said = desk.study("deaf", &asked, &["5"], 0);
    assert!(one_line(&said).contains("in the block before, the server did not stop within 200ms"), "{said}");
    // One that dies is told, and started anew for the next run.
    let asked = ["--force", "--keep-server", "--ready", "port:PORT", "--place", "unbound,0", "--prepare", prepare];
    let said = desk.study("dies", &asked, &["40"], 1);
    let cause = "the server ended before the load did (exit code 9); the last line that it printed is `out of memory`";
    assert!(one_line(&said).contains(cause), "{said}");
    let trials = desk.json()["trials"].as_array().unwrap().clone();
    assert!(trials.len() > 2 && trials.iter().all(|trial| trial["status"] == "server"), "{trials:?}");
    let said = desk.study(
        "never",
        &["--force", "--keep-server", "--ready", "port:PORT", "--place", "0", "--ready-timeout", "200ms"],
        &["1"],
        1,
    );
    assert!(one_line(&said).contains("the server was not ready (port:"), "{said}");
}

#[test]
fn killed_at_random_moments_a_server_that_was_kept_is_gone_and_the_same_command_goes_on() {
    let desk = Desk::new("kept-killed");
    let asked = ["--keep-server", "--ready", "port:PORT", "--place", "unbound,0", "--stop-timeout", "200ms"];
    let words = desk.words("helper", &asked, &["30"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    for attempt in 0..10_u64 {
        let mut we = desk.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(10 + 53 * attempt % 500));
        we.kill().unwrap();
        we.wait().unwrap();
        assert!(comes_true(|| desk.processes().is_empty()), "attempt {attempt}: {:?}", desk.processes());
    }
    let output = desk.command(&words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_is_advised_runs_the_server_and_not_its_load() {
    let desk = Desk::new("advice");
    let words = desk.words(
        "plain",
        &["--ready", "port:PORT", "--place", "unbound", "--sched", "default,batch", "--metric", "n higher = n: (.*)"],
        &["1"],
    );
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    words.retain(|word| !["2", "--min-runs", "--max-runs"].contains(word));
    words.truncate(words.iter().position(|word| *word == "--").unwrap());
    // More under SCHED_BATCH, by what the server's class is said to be. The load's own command names it, too, and may have the lower number.
    let load = format!(
        "class=$(cut -d ' ' -f 41 /proc/$(pgrep -o -f '{} ')/stat); [ $class = 3 ] && echo n: 2$$ || echo n: 1$$",
        "server.py plain"
    );
    let load = load.replace("server.py plain", &format!("server.py plain {}", desk.port));
    words.extend(["--min-runs", "6", "--max-runs", "6", "--", "sh", "-c", &load]);
    let output = desk.command(&words).output().unwrap();
    let said = one_line(&String::from_utf8_lossy(&output.stdout));
    assert!(said.contains("paste one of these"), "{said}");
    assert!(
        said.contains(&format!("stayput run -n 1 --sched batch -- python3 server.py plain {}", desk.port)),
        "{said}"
    );
}
