//! Studies of real servers, each under the same treatment by two names: how often one of them claims a difference.
//!
//! They take a while, so that only who asks for them runs them; `docs/design/reliability.md` has the command.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

const STUDIES: u32 = 100;
/// How many of them may claim a difference: 5 %.
const MOST_FALSE: u32 = STUDIES / 20;

/// A server that answers each line with it, and a load on it that tells its rate and two percentiles.
const SERVER: &str = r#"
import socketserver, sys
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile: self.wfile.write(line)
class Server(socketserver.ThreadingTCPServer): allow_reuse_address = True; daemon_threads = True
Server(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
"#;
const LOAD: &str = r#"
import socket, sys, time
c = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
f = c.makefile("rb"); took = []
for _ in range(500):
    begun = time.perf_counter(); c.sendall(b"hello\n"); f.readline(); took.append(time.perf_counter() - begun)
took.sort()
print("rate: %.1f\np50: %.5f\np99: %.5f" % (len(took) / sum(took), took[len(took) // 2] * 1e3, took[len(took) * 99 // 100] * 1e3))
"#;

/// What is studied in turn: the server, the load, and metrics of it, of which the first is compared.
struct Component {
    name: &'static str,
    server: String,
    load: String,
    metrics: [&'static str; 3],
}

fn components(port: u16) -> Vec<Component> {
    let is_there =
        |name: &str| Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    // Python itself, and no script that looks for it, without what it needn't load.
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap().stdout;
    let python = format!("{} -I -S", String::from_utf8(python).unwrap().trim());
    let mut all = vec![Component {
        name: "Python's server",
        server: format!("{python} server.py {port}"),
        load: format!("{python} load.py {port}"),
        metrics: ["rate [1/s] higher = 'rate: (.*)'", "p50 [ms] lower = 'p50: (.*)'", "p99 [ms] lower = 'p99: (.*)'"],
    }];
    if is_there("redis-server") && is_there("redis-benchmark") {
        all.push(Component {
            name: "redis",
            server: format!("redis-server --bind 127.0.0.1 --port {port} --save '' --appendonly no"),
            load: format!("redis-benchmark -p {port} -n 2000 -c 2 -t get --csv"),
            metrics: [
                "p99 [ms] lower = '\"GET\",(?:\"[0-9.]+\",){5}\"([0-9.]+)\"'",
                "p50 [ms] lower = '\"GET\",(?:\"[0-9.]+\",){3}\"([0-9.]+)\"'",
                "rate [1/s] higher = '\"GET\",\"([0-9.]+)\"'",
            ],
        });
    }
    all
}

/// What a study of `number` concludes of the second treatment.
fn summary(component: &Component, port: u16, number: u32) -> Value {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("server.py"), SERVER).unwrap();
    fs::write(folder.path().join("load.py"), LOAD).unwrap();
    let stayput = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_stayput"))
            .args(words)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let (ready, seed) = (format!("port:{port}"), (1 + number).to_string());
    let mut words = vec!["study", "-q", "--no-report", "--out", "a.stayput", "-n", "1", "--min-runs", "10"];
    words.extend(["--max-runs", "20", "--seed", &seed, "--server", &component.server, "--ready", &ready]);
    words.extend(["--treatment", "a: place=unbound", "--treatment", "b: place=unbound"]);
    words.extend(component.metrics.iter().flat_map(|metric| ["--metric", metric]));
    words.push("--");
    words.extend(component.load.split(' '));
    stayput(&words);
    let json: Value = serde_json::from_slice(&stayput(&["report", "a.stayput", "--format", "json"])).unwrap();
    let summaries = json["summaries"].as_array().unwrap();
    assert_eq!(summaries.len(), 2, "treatments that bind nothing are two");
    summaries[1].clone()
}

fn is_claimed(told: &Value) -> bool {
    matches!(told["claim"].as_str().unwrap(), "faster" | "slower")
}

#[test]
#[ignore = "a hundred studies; see docs/design/reliability.md"]
fn servers_under_the_same_treatment_by_two_names_rarely_differ() {
    let port = (30_500..).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap();
    let components = components(port);
    let (mut first, mut busy, mut others, mut used) = (0, 0, 0, 0);
    for number in 0..STUDIES {
        let component = &components[number as usize % components.len()];
        let summary = summary(component, port, number);
        let metrics = summary["metrics"].as_array().unwrap();
        assert_eq!(metrics.len(), 4, "three that are written, and time: {summary}");
        let by_others = metrics.iter().any(|metric| metric["primary"] == false && is_claimed(metric));
        let by_used = summary["used"].as_array().unwrap().iter().any(is_claimed);
        // What else ran may have made it, which the report says first.
        let by_busy = is_claimed(&summary) && summary["disturbances"].is_array();
        first += u32::from(is_claimed(&summary));
        busy += u32::from(by_busy);
        others += u32::from(by_others);
        used += u32::from(by_used);
        println!(
            "{number:>3} {:16} ratio {:.3} ({:.3}-{:.3}), {} pairs: {}{}{}{}",
            component.name,
            summary["ratio"].as_f64().unwrap(),
            summary["ratio_low"].as_f64().unwrap(),
            summary["ratio_high"].as_f64().unwrap(),
            summary["pairs"],
            summary["claim"].as_str().unwrap(),
            if by_busy { ", on a busy machine" } else { "" },
            if by_others { ", and by another metric" } else { "" },
            if by_used { ", and by what runs used" } else { "" },
        );
    }
    println!(
        "of {STUDIES} studies claim a difference by what is compared {first} ({busy} of them as measured on a busy machine), by other \
         metrics {others}, by what runs used {used}"
    );
    let plainly = first - busy;
    assert!(plainly <= MOST_FALSE && others <= MOST_FALSE && used <= MOST_FALSE, "{plainly}, {others} and {used}");
}
