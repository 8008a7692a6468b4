//! Short studies of real components, one a test: what was asked for is read back of the server and of its load, numbers have their unit
//! and direction, and nothing is left. Where a component is missing, the test says so and passes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::{Value, json};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// Where a program is: on the PATH, or where Debian has PostgreSQL's.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = std::env::split_paths(&path).chain(versions.map(|version| version.path().join("bin")));
    folders.map(|folder| folder.join(name)).find(|path| path.exists())
}

/// Where these programs are; none where one is missing, which is said.
fn programs<const N: usize>(names: [&str; N]) -> Option<[String; N]> {
    let found = names.map(program);
    if let Some(missing) = found.iter().position(Option::is_none) {
        println!("{} is missing here, so nothing is studied with it; `make setup test` installs it", names[missing]);
        return None;
    }
    Some(found.map(|path| path.unwrap().to_str().unwrap().to_owned()))
}

/// A folder of its own with a port of its own.
struct Desk {
    folder: TempDir,
    port: u16,
}

impl Desk {
    fn new() -> Self {
        // Below those that the kernel gives away by itself, and another one for each desk.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let first = 31_000 + (std::process::id() % 150) as u16 * 10;
        let mut ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
        let port = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap();
        Self { folder: tempfile::tempdir().unwrap(), port }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn built(&self, compiler: &str, words: &[&str]) {
        let output = Command::new(compiler).args(words).current_dir(self.folder.path()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// What a study of two blocks finds, as JSON, and what it says. PORT stands for the port.
    fn study(&self, words: &[&str]) -> (Value, String) {
        self.study_of("2", words)
    }

    fn study_of(&self, blocks: &str, words: &[&str]) -> (Value, String) {
        let usual = format!("study -q --no-report --out a.stayput --warmup 0 --min-runs {blocks} --max-runs {blocks}");
        let port = self.port.to_string();
        let words = words.iter().map(|word| word.replace("PORT", &port));
        let output = Command::new(STAYPUT)
            .args(usual.split(' '))
            .args(words)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let report = Command::new(STAYPUT)
            .args(["report", "a.stayput", "--format", "json"])
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        (serde_json::from_slice(&report.stdout).unwrap(), said.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Processes that were started in this folder, or name it.
    fn processes(&self) -> Vec<String> {
        let folder = self.folder.path();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let is_in = fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
            if is_in || line.contains(folder.to_str().unwrap()) {
                found.push(format!("{} {line}", entry.file_name().display()));
            }
        }
        found
    }

    /// No process is left, and the port is free.
    fn is_left_as_it_was(&self) {
        let is_free = || TcpListener::bind(("127.0.0.1", self.port)).is_ok();
        assert!(comes_true(|| self.processes().is_empty() && is_free()), "{:?}", self.processes());
    }
}

fn comes_true(is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(10));
    }
    is_so()
}

/// The CPU for loads, apart from the first where there is another.
fn loads_cpu() -> u64 {
    u64::from(available_parallelism().unwrap().get() > 1)
}

/// Every run went well; under the placement `0` all threads were on CPU 0, and those of a load on its own CPU always.
fn were_where_they_should(json: &Value, has_load: bool) {
    let trials = json["trials"].as_array().unwrap();
    assert!(!trials.is_empty());
    for trial in trials {
        assert_eq!((trial["status"].as_str(), trial["strayed_threads"].as_u64()), (Some("ok"), Some(0)), "{trial}");
        let all_on = |threads: &Value, cpu: u64| {
            let threads = threads.as_array().unwrap();
            !threads.is_empty() && threads.iter().all(|cpus| *cpus == json!([cpu]))
        };
        if trial["placement"] == "0" {
            assert!(all_on(&trial["actual_cpus"], 0), "{trial}");
        }
        if has_load {
            assert!(all_on(&trial["load"]["actual_cpus"], loads_cpu()), "{trial}");
        }
    }
}

/// The metric of each treatment has this unit and direction, a number above 0, and is primary or not.
fn has_metric(json: &Value, name: &str, unit: Option<&str>, better: &str, is_primary: bool) {
    for summary in json["summaries"].as_array().unwrap() {
        let metrics = summary["metrics"].as_array().unwrap();
        let metric = metrics.iter().find(|metric| metric["name"] == name);
        let metric = metric.unwrap_or_else(|| panic!("no {name}: {metrics:?}"));
        let told = (metric["unit"].as_str(), metric["better"].as_str(), metric["primary"].as_bool());
        assert_eq!(told, (unit, Some(better), Some(is_primary)), "{metric}");
        assert!(metric["median"].as_f64().is_some_and(|median| median > 0.0), "{metric}");
    }
}

#[test]
fn postgresql_under_pgbench_with_server_and_load_apart() {
    let Some([initdb, pg_ctl, postgres, pgbench, ready]) =
        programs(["initdb", "pg_ctl", "postgres", "pgbench", "pg_isready"])
    else {
        return;
    };
    let desk = Desk::new();
    let folder = desk.folder.path().to_str().unwrap();
    // PostgreSQL refuses to run as root.
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let other = if !is_root {
        String::new()
    } else {
        let Some(user) = ["postgres", "nobody"].into_iter().find(|user| user_exists(user)) else {
            println!("PostgreSQL refuses to run as root, and there is neither a user `postgres' nor `nobody' here");
            return;
        };
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        format!("setpriv --reuid={user} --regid={} --clear-groups ", group_of(user))
    };
    let server = format!("{postgres} -D {folder}/data -p {} -k {folder} -c listen_addresses=127.0.0.1", desk.port);
    desk.file(
        "fill",
        &format!(
            "set -e; cd {folder}\n{initdb} -D data -A trust -U postgres -N >/dev/null\n\
             {pg_ctl} -D data -o '-p {0} -k {folder}' -w -l log start >/dev/null\n\
             {pgbench} -q -i -h {folder} -p {0} -U postgres postgres\n{pg_ctl} -D data -w stop >/dev/null\n",
            desk.port
        ),
    );
    // pgbench prints means alone; its log has each transaction's latency, in microseconds.
    desk.file(
        "load",
        &format!(
            "set -e; rm -f each.*\n{pgbench} -n -h 127.0.0.1 -p {} -U postgres -T 1 -c 2 -l --log-prefix=each postgres\n\
             sort -n -k 3 each.* | awk '{{ ms[NR] = $3 / 1000 }} END {{ print \"p95 = \" ms[int(NR * 0.95 + 0.5)] }}'\n",
            desk.port
        ),
    );
    let (json, said) = desk.study(&[
        "--setup",
        &format!("{other}sh fill"),
        "--server",
        &format!("{other}{server}"),
        "--ready",
        &format!("command:{ready} -q -h 127.0.0.1 -p PORT"),
        "--stop-signal",
        "INT",
        "--unit",
        "process",
        "--place",
        "unbound,0",
        "--load-place",
        &loads_cpu().to_string(),
        "--metric",
        "tps higher = \"tps = ([0-9.]+)\"",
        "--metric",
        "p95 [ms] lower = \"p95 = ([0-9.]+)\"",
        "--",
        "sh",
        "load",
    ]);
    were_where_they_should(&json, true);
    has_metric(&json, "tps", None, "higher", true);
    has_metric(&json, "p95", Some("ms"), "lower", false);
    assert!(said.contains("Compared by tps, higher is better"), "{said}");
    let log = json["trials"][0]["server_log"].as_str().unwrap();
    assert!(log.contains("ready to accept connections") && log.contains("shut down"), "{log}");
    desk.is_left_as_it_was();
}

fn user_exists(name: &str) -> bool {
    Command::new("id").arg(name).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

fn group_of(user: &str) -> String {
    let output = Command::new("id").args(["-g", user]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A server that somebody else has started, which ends with its desk.
struct Running(std::process::Child);

impl Running {
    fn masks(&self) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap().flatten();
        let mut masks: Vec<(String, String)> = tasks
            .map(|task| {
                let status = fs::read_to_string(task.path().join("status")).unwrap();
                let mask = status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap().to_owned();
                (task.file_name().into_string().unwrap(), mask)
            })
            .collect();
        masks.sort();
        masks.into_iter().map(|(_, mask)| mask).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn redis_by_its_process_under_redis_benchmark() {
    let Some([redis, benchmark]) = programs(["redis-server", "redis-benchmark"]) else { return };
    let desk = Desk::new();
    let running = Command::new(redis)
        .args(["--bind", "127.0.0.1", "--port", &desk.port.to_string(), "--save", "", "--appendonly", "no"])
        .current_dir(desk.folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let running = Running(running);
    assert!(comes_true(|| TcpStream::connect(("127.0.0.1", desk.port)).is_ok()));
    let before = running.masks();
    let (json, said) = desk.study(&[
        "--pid",
        &running.0.id().to_string(),
        "--place",
        "unbound,0",
        "--load-place",
        &loads_cpu().to_string(),
        "--metric",
        "rate [1/s] higher = '\"GET\",\"([0-9.]+)\"'",
        "--metric",
        "p99 [ms] lower = '\"GET\",(?:\"[0-9.]+\",){5}\"([0-9.]+)\"'",
        "--",
        &benchmark,
        "-p",
        "PORT",
        "-n",
        "4000",
        "-c",
        "4",
        "-t",
        "get",
        "--csv",
    ]);
    were_where_they_should(&json, true);
    has_metric(&json, "rate", Some("1/s"), "higher", true);
    has_metric(&json, "p99", Some("ms"), "lower", false);
    assert!(said.contains("Compared by rate [1/s], higher is better"), "{said}");
    // It starts helpers when it likes, which have what it has.
    let after = running.masks();
    assert!(!before.is_empty() && after.len() >= before.len(), "{after:?} after {before:?}");
    assert!(after.iter().all(|mask| *mask == before[0]), "{after:?}: they have back what they had, {before:?}");
    drop(running);
    desk.is_left_as_it_was();
}

#[test]
fn an_http_server_under_wrk_with_a_percentile() {
    let Some([python, wrk]) = programs(["python3", "wrk"]) else { return };
    let desk = Desk::new();
    desk.file(
        "told.lua",
        "done = function(summary, latency, requests)\n\
         io.write(string.format('rate: %.1f\\np99: %.3f\\n', summary.requests / summary.duration * 1e6, latency:percentile(99) / 1e3))\n\
         end\n",
    );
    let (json, said) = desk.study(&[
        "--server",
        &format!("{python} -m http.server --bind 127.0.0.1 PORT"),
        "--ready",
        "port:PORT",
        "--place",
        "unbound,0",
        "--load-place",
        &loads_cpu().to_string(),
        "--metric",
        "p99 [ms] lower = \"p99: ([0-9.]+)\"",
        "--metric",
        "rate [1/s] higher = \"rate: ([0-9.]+)\"",
        "--",
        &wrk,
        "-t",
        "1",
        "-c",
        "2",
        "-d",
        "1s",
        "-s",
        "told.lua",
        "http://127.0.0.1:PORT/",
    ]);
    were_where_they_should(&json, true);
    has_metric(&json, "p99", Some("ms"), "lower", true);
    has_metric(&json, "rate", Some("1/s"), "higher", false);
    assert!(said.contains("Compared by p99 [ms], lower is better"), "{said}");
    assert!(json["trials"][0]["server_log"].as_str().unwrap().contains("\"GET / HTTP/1.1\" 200"));
    desk.is_left_as_it_was();
}

#[test]
fn memcached_under_memcaslap() {
    let Some([memcached]) = programs(["memcached"]) else { return };
    // Debian has given it another name than its authors.
    let Some(load) = program("memcaslap").or_else(|| program("memaslap")) else {
        println!(
            "memcaslap (libmemcached-tools) is missing here, so memcached is not studied; `make setup test` installs it"
        );
        return;
    };
    let desk = Desk::new();
    let (json, _) = desk.study(&[
        "--server",
        &format!("{memcached} -l 127.0.0.1 -p PORT -U 0 -t 2 -u nobody"),
        "--ready",
        "port:PORT",
        "--place",
        "unbound,0",
        "--load-place",
        &loads_cpu().to_string(),
        "--metric",
        "tps higher = \"TPS: ([0-9]+)\"",
        "--",
        load.to_str().unwrap(),
        "-s",
        "127.0.0.1:PORT",
        "-T",
        "1",
        "-c",
        "4",
        "-x",
        "5000",
    ]);
    were_where_they_should(&json, true);
    has_metric(&json, "tps", None, "higher", true);
    let threads = json["trials"][0]["actual_cpus"].as_array().unwrap().len();
    assert!(threads > 2, "the main thread and the workers: {threads}");
    desk.is_left_as_it_was();
}

#[test]
fn a_build_with_as_many_jobs_as_a_parameter_says() {
    let Some([make, _]) = programs(["make", "gcc"]) else { return };
    let desk = Desk::new();
    for part in ["a", "b"] {
        desk.file(&format!("{part}.c"), &format!("int {part}(int x) {{ return x * x + 1; }}\n"));
    }
    desk.file("main.c", "int a(int), b(int);\nint main(void) { return a(1) - b(1); }\n");
    desk.file("Makefile", "app: main.o a.o b.o\n\tgcc -o $@ $^\n%.o: %.c\n\tgcc -O2 -c $<\n");
    let (json, said) = desk.study(&[
        "-L",
        "threads",
        "1,2",
        "--place",
        "unbound",
        "--prepare",
        "rm -f app *.o",
        "--conclude",
        "./app",
        "--",
        &make,
        "-s",
        "-j{threads}",
    ]);
    were_where_they_should(&json, false);
    let summaries = json["summaries"].as_array().unwrap();
    let names: Vec<&str> = summaries.iter().map(|summary| summary["placement"].as_str().unwrap()).collect();
    assert!(names.len() == 2 && names[0].ends_with("-j1") && names[1].ends_with("-j2"), "{names:?}");
    assert!(said.contains("Compared by time [s], lower is better"), "{said}");
    // `make', what it starts for three files, and what links them, in each run.
    let least = |trial: &Value| trial["minor_faults"].as_u64().unwrap() > 1000;
    assert!(json["trials"].as_array().unwrap().iter().all(least), "{json}");
    desk.is_left_as_it_was();
}

#[test]
fn a_java_program_whose_threads_have_names() {
    let Some([javac, java]) = programs(["javac", "java"]) else { return };
    let desk = Desk::new();
    desk.file(
        "Named.java",
        r#"public class Named {
    public static void main(String[] args) throws Exception {
        Thread[] workers = new Thread[2];
        long[] sums = new long[2];
        for (int i = 0; i < 2; i++) {
            int own = i;
            workers[i] = new Thread(() -> { for (int k = 0; k < 3_000_000; k++) sums[own] += k % 7; }, "worker-" + i);
            workers[i].start();
        }
        for (Thread worker : workers) worker.join();
        System.out.println("sum: " + (sums[0] + sums[1]));
    }
}
"#,
    );
    desk.built(&javac, &["Named.java"]);
    let (json, _) = desk.study(&[
        "-n",
        "2",
        "--place",
        "unbound,0",
        "--metric",
        "sum higher = \"sum: ([0-9]+)\"",
        "--primary",
        "time",
        "--",
        &java,
        "-XX:ActiveProcessorCount=2",
        "-XX:TieredStopAtLevel=1",
        "Named",
    ]);
    were_where_they_should(&json, false);
    has_metric(&json, "time", Some("s"), "lower", true);
    has_metric(&json, "sum", None, "higher", false);
    let threads = json["trials"][0]["actual_cpus"].as_array().unwrap().len();
    assert!(threads > 5, "the virtual machine's threads and the program's: {threads}");
    if loads_cpu() == 1 {
        workers_have_a_place_by_their_names(&desk, &java);
    }
    desk.is_left_as_it_was();
}

/// The threads that the program names are on CPU 1, and those of the virtual machine are free, whenever they were born.
fn workers_have_a_place_by_their_names(desk: &Desk, java: &str) {
    let words = "run -q --json run.json --place 0,1 -n 2 --slot";
    let output = Command::new(STAYPUT)
        .args(words.split(' '))
        .args(["worker-* = 1", "--slot", "* = free", "--", java, "-XX:ActiveProcessorCount=2", "-Xint", "Named"])
        .current_dir(desk.folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run: Value = serde_json::from_str(&fs::read_to_string(desk.path("run.json")).unwrap()).unwrap();
    let threads = run["thread_details"].as_array().unwrap();
    let (workers, others): (Vec<&Value>, Vec<&Value>) =
        threads.iter().partition(|thread| thread["name"].as_str().is_some_and(|name| name.starts_with("worker-")));
    assert!(workers.len() == 2 && others.len() > 5, "{threads:?}");
    assert!(workers.iter().all(|thread| thread["actual_cpus"] == json!([1])), "{workers:?}");
    assert!(others.iter().all(|thread| thread["actual_cpus"] == json!([0, 1])), "{others:?}");
}

#[test]
fn two_commands_against_one_another_by_time_and_size() {
    let Some([gzip]) = programs(["gzip"]) else { return };
    let desk = Desk::new();
    desk.file("in.dat", &(0..20_000).map(|line| format!("{} {}\n", line * line % 977, line)).collect::<String>());
    let (json, said) = desk.study_of(
        "6",
        &[
            "--place",
            "unbound",
            "--metric",
            "size [B] lower = file:size:\"([0-9]+)\"",
            "--shell",
            "--command-name",
            "quick",
            "--",
            &format!("{gzip} -1 < in.dat | wc -c > size"),
            "--command-name",
            "thorough",
            "--",
            &format!("{gzip} -9 < in.dat | wc -c > size"),
        ],
    );
    were_where_they_should(&json, false);
    has_metric(&json, "size", Some("B"), "lower", true);
    let summaries = json["summaries"].as_array().unwrap();
    let names: Vec<&str> = summaries.iter().map(|summary| summary["placement"].as_str().unwrap()).collect();
    assert_eq!(names, ["quick", "thorough"]);
    let size = |at: usize| summaries[at]["metrics"].as_array().unwrap()[0]["median"].as_f64().unwrap();
    let ratio = summaries[1]["ratio"].as_f64().unwrap();
    assert!(ratio > 1.0 && (ratio - size(0) / size(1)).abs() < 1e-6, "less is better: {summaries:?}");
    assert!(said.contains("Compared by size [B], lower is better"), "{said}");
    desk.is_left_as_it_was();
}

#[test]
fn a_triad_by_its_rate_where_higher_is_better() {
    let Some([gcc]) = programs(["gcc"]) else { return };
    let desk = Desk::new();
    desk.file(
        "triad.c",
        r#"#include <omp.h>
#include <stdio.h>
#define N 2000000
static double a[N], b[N], c[N];
int main(void) {
#pragma omp parallel for
    for (int i = 0; i < N; i++) a[i] = 0, b[i] = 1, c[i] = 2;
    double best = 1e9;
    for (int turn = 0; turn < 5; turn++) {
        double begun = omp_get_wtime();
#pragma omp parallel for
        for (int i = 0; i < N; i++) a[i] = b[i] + 3 * c[i];
        double took = omp_get_wtime() - begun;
        if (took < best) best = took;
    }
    printf("triad: %.1f MB/s\n", 3.0 * sizeof a / best / 1e6);
    return a[N - 1] != 7;
}
"#,
    );
    desk.built(&gcc, &["-O2", "-fopenmp", "-o", "triad", "triad.c"]);
    let (json, said) = desk.study(&[
        "-n",
        "2",
        "--place",
        "unbound,0",
        "--metric",
        "triad [MB/s] higher = \"triad: ([0-9.]+)\"",
        "--",
        "./triad",
    ]);
    were_where_they_should(&json, false);
    has_metric(&json, "triad", Some("MB/s"), "higher", true);
    has_metric(&json, "time", Some("s"), "lower", false);
    assert!(said.contains("Compared by triad [MB/s], higher is better"), "{said}");
    let bound = json["trials"].as_array().unwrap().iter().find(|trial| trial["placement"] == "0").unwrap();
    assert_eq!(bound["actual_cpus"], json!([[0], [0]]), "two threads on one CPU");
    desk.is_left_as_it_was();
}

/// Whatever is missing here is said in one sentence that names it.
#[test]
fn a_component_that_is_missing_is_no_failure() {
    assert!(programs(["sh", "no-such-program-anywhere"]).is_none());
    assert!(programs(["sh"]).is_some_and(|[sh]| Path::new(&sh).exists()));
}
