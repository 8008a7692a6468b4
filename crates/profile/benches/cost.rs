//! What a profile costs the profiled: `cargo bench -p stayput-profile --bench cost`, as root, or with a command of one's own behind
//! `--`, as in `-- make -B -j4`. Without one it is the worst case, two processes that hand a byte to and fro on one CPU.
//!
//! Each round runs the command alone, counted, traced, and under `perf sched record`, in random order, and takes the time that the
//! command itself takes: what it takes to load and to read is not in it. Machines are busy, so that nothing fails here.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed bench")]

use machine::Machine;
use profile::trace::TraceTo;
use profile::watching::{Target, profile_and_trace};
use stats::{Pair, block_permutation, paired_ratio};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const SUBJECT: &str = "--subject";

const WORST_CASE: [&str; 8] = ["taskset", "-c", "1", "perf", "bench", "sched", "pipe", "-l100000"];

const ARMS: [&str; 4] = ["alone", "counted", "traced", "perf sched record"];

const ROUNDS: u32 = 15;

const SEED: u64 = 1;

/// Runs a command and writes how many seconds it took.
fn subject(answer: &str, words: &[String]) {
    let begun = Instant::now();
    let status =
        Command::new(&words[0]).args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{words:?}: {status}");
    fs::write(answer, begun.elapsed().as_secs_f64().to_string()).unwrap();
}

/// Seconds of a command under one of [`ARMS`].
fn seconds(arm: usize, words: &[String], folder: &Path) -> f64 {
    let answer = folder.join("answer");
    let mut wrapped: Vec<OsString> = vec![env::current_exe().unwrap().into(), SUBJECT.into(), answer.clone().into()];
    wrapped.extend(words.iter().map(OsString::from));
    let trace = folder.join("trace.pftrace");
    match arm {
        0 => assert!(Command::new(&wrapped[0]).args(&wrapped[1..]).status().unwrap().success()),
        3 => {
            let mut perf = Command::new("perf");
            perf.args(["sched", "record", "-o"]).arg(folder.join("perf.data")).arg("--").args(&wrapped);
            assert!(perf.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
        }
        _ => {
            let trace = (arm == 2).then(|| TraceTo::file(&trace));
            let profile = || {
                let machine = Machine::host().unwrap();
                profile_and_trace(&Target::Command(wrapped), None, &machine, trace).unwrap();
            };
            // Whoever counts in the kernel gives up capabilities.
            std::thread::scope(|scope| scope.spawn(profile).join().unwrap());
        }
    }
    fs::read_to_string(&answer).unwrap().parse().unwrap()
}

fn main() {
    let given: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [first, answer, words @ ..] = &given[..]
        && first == SUBJECT
    {
        return subject(answer, words);
    }
    let words = if given.is_empty() { WORST_CASE.map(str::to_owned).to_vec() } else { given };
    if let Err(refused) = profile::collector::check() {
        return println!("skipped: {refused}");
    }
    let folder = tempfile::tempdir().unwrap();
    let arms = if Command::new("perf").arg("version").output().is_ok() { ARMS.len() } else { ARMS.len() - 1 };
    let mut all: Vec<Vec<f64>> = Vec::new();
    for round in 0..ROUNDS {
        let mut times_s = vec![0.0; arms];
        for arm in block_permutation(SEED, round, 0, arms) {
            times_s[arm] = seconds(arm, &words, folder.path());
        }
        all.push(times_s);
    }
    println!("{}: {ROUNDS} rounds, time over alone with 95 % intervals", words.join(" "));
    for (arm, name) in ARMS.iter().enumerate().take(arms).skip(1) {
        // What is over what is the other way around for claims of gains.
        let pairs: Vec<Pair> =
            all.iter().map(|times_s| Pair { reference_s: times_s[arm], treatment_s: times_s[0] }).collect();
        let mut own: Vec<f64> = all.iter().map(|times_s| times_s[arm]).collect();
        own.sort_unstable_by(f64::total_cmp);
        let Some(ratio) = paired_ratio(&pairs, SEED) else { continue };
        println!(
            "{name:18} {:.3} s (median)  {:.3} ({:.3} to {:.3})",
            own[own.len() / 2],
            ratio.ratio(),
            ratio.low(),
            ratio.high()
        );
    }
}
