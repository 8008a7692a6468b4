//! What it costs a program to be watched: each beside itself bare, in pairs and interleaved.
//!
//! `make bench`, or `cargo bench -p stayput-launch --bench watching`. The programs are the worst that we know for each way of
//! watching: births for stops, switches for events.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't run says so and ends")]

use launch::{Descendants, Launch, Observation, Output, launch};
use machine::linux::{Tid, affinity};
use machine::{CpuSet, Placement};
use std::env;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

const PROCESSES: u32 = 2_000;
const THREADS: u32 = 20_000;
const ROUND_TRIPS: u32 = 200_000;

/// Pairs of each comparison; after the name of a program, another number may be given.
const PAIRS: usize = 15;

fn main() {
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["create-threads"] => create_threads(),
        ["send-bytes"] => send_bytes(),
        ["return-bytes"] => return_bytes(),
        [] => compare_all("", PAIRS),
        [which] => compare_all(which, PAIRS),
        [which, pairs, ..] => compare_all(which, pairs.parse().unwrap()),
    }
}

/// Threads that end at once, one after the other.
fn create_threads() {
    (0..THREADS).for_each(|_| thread::spawn(|| ()).join().unwrap());
}

/// Two processes on one CPU that hand a byte to and fro.
fn send_bytes() {
    let first = affinity::allowed_cpus().unwrap().iter().next().unwrap();
    affinity::Mask::from(&CpuSet::from(first)).apply(Tid::CALLER).unwrap();
    let mut other = Command::new(env::current_exe().unwrap())
        .arg("return-bytes")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut to, mut from) = (other.stdin.take().unwrap(), other.stdout.take().unwrap());
    for _ in 0..ROUND_TRIPS {
        to.write_all(b"x").unwrap();
        from.read_exact(&mut [0]).unwrap();
    }
    drop(to);
    other.wait().unwrap();
}

fn return_bytes() {
    let (mut from, mut to) = (std::io::stdin(), std::io::stdout());
    while from.read_exact(&mut [0]).is_ok() {
        to.write_all(b"x").and_then(|()| to.flush()).unwrap();
    }
}

fn compare_all(which: &str, pairs: usize) {
    println!("each program bare and watched, {pairs} interleaved pairs; medians, and the median of the pairs' ratios");
    let script = format!("i=0; while [ $i -lt {PROCESSES} ]; do /bin/true; i=$((i+1)); done");
    let processes = vec!["sh".into(), "-c".into(), script];
    let own = |word: &str| vec![env::current_exe().unwrap().display().to_string(), word.to_owned()];
    let all = affinity::allowed_cpus().unwrap();
    let one_by_one = Placement { policy: "list".into(), slots: all.iter().map(CpuSet::from).collect() };
    let alike = Placement { policy: "list".into(), slots: vec![all] };
    for (name, argv, placement, births) in [
        ("processes, unbound", processes.clone(), None, PROCESSES),
        ("threads, unbound", own("create-threads"), None, THREADS),
        ("bytes, unbound", own("send-bytes"), None, 1),
        ("processes, all on the same CPUs", processes, Some(&alike), PROCESSES),
        ("threads, all on the same CPUs", own("create-threads"), Some(&alike), THREADS),
        ("threads, each on its own CPU", own("create-threads"), Some(&one_by_one), THREADS),
    ] {
        if name.contains(which) {
            compare(name, &argv, placement, births, pairs);
        }
    }
}

/// Seconds from its start to its end.
fn bare_s(argv: &[String]) -> f64 {
    let begin = Instant::now();
    let status = Command::new(&argv[0])
        .args(&argv[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    begin.elapsed().as_secs_f64()
}

/// The same as a trial of a study.
fn watched_s(argv: &[String], placement: Option<&Placement>) -> (f64, Observation) {
    let begin = Instant::now();
    let launched = launch(&Launch {
        placement: placement.cloned(),
        output: Output::Capture,
        descendants: Descendants::Kill,
        ..Launch::new(argv.iter().map(OsString::from).collect())
    })
    .unwrap();
    (begin.elapsed().as_secs_f64(), launched.observation)
}

fn compare(name: &str, argv: &[String], placement: Option<&Placement>, births: u32, pairs: usize) {
    let mut bare = Vec::new();
    let mut watched = Vec::new();
    let mut seen = None;
    // Who goes first alternates.
    for pair in 0..pairs {
        if pair % 2 == 0 {
            bare.push(bare_s(argv));
        }
        let (watched_s, observation) = watched_s(argv, placement);
        watched.push(watched_s);
        seen = Some(observation);
        if pair % 2 == 1 {
            bare.push(bare_s(argv));
        }
    }
    let ratios: Vec<f64> = watched.iter().zip(&bare).map(|(watched_s, bare_s)| watched_s / bare_s).collect();
    let differences: Vec<f64> =
        watched.iter().zip(&bare).map(|(watched_s, bare_s)| (watched_s - bare_s) * 1e6 / f64::from(births)).collect();
    let median = |values: &[f64]| stats::quantile(values, 0.5).unwrap();
    let interval =
        stats::median_interval(&ratios).map_or_else(String::new, |(low, high)| format!(" ({low:.2}-{high:.2})"));
    let seen = seen.unwrap();
    let stops = seen.stops.unwrap_or(0);
    println!(
        "{name}: bare {:.3} s, watched {:.3} s, ratio {:.2}{interval}, {:.1} us a birth; {} threads seen, {} stops of about {:.1} us{}",
        median(&bare),
        median(&watched),
        median(&ratios),
        median(&differences),
        seen.threads.len(),
        stops,
        seen.stops_s.unwrap_or(0.0) * 1e6 / stops.max(1) as f64,
        seen.notes.iter().map(|note| format!("; note: {note}")).collect::<String>(),
    );
}
