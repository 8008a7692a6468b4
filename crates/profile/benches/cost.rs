//! What a profile costs the profiled: `cargo bench -p stayput-profile --bench cost -- [--rounds N] [--arms ARM,...] [-- CMD]`, as root.
//! Without a command it is the worst case, two processes that hand a byte to and fro on one CPU.
//!
//! Each round runs the command alone, counted, traced, and under `perf sched record`, in random order, and takes the time by the clock
//! and the CPU time that the command itself takes: what it takes to load and to read is in neither. Machines are busy, so that nothing
//! fails here.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed bench")]

use machine::Machine;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
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

/// Ways to run the command; others are compared with the first of those that are asked for.
const ARMS: [&str; 4] = ["alone", "counted", "traced", "perf"];

const ROUNDS: u32 = 15;

const SEED: u64 = 1;

/// What a run of the command took.
#[derive(Clone, Copy, Default)]
struct Taken {
    clock_s: f64,
    cpu_s: f64,
}

/// Runs a command and writes how many seconds it took.
fn subject(answer: &str, words: &[String]) {
    let begun = Instant::now();
    let status =
        Command::new(&words[0]).args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    let clock_s = begun.elapsed().as_secs_f64();
    assert!(status.success(), "{words:?}: {status}");
    let of_children = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let cpu_s = seconds(of_children.user_time()) + seconds(of_children.system_time());
    fs::write(answer, format!("{clock_s} {cpu_s}")).unwrap();
}

/// Runs a command under one of [`ARMS`].
fn run(arm: &str, words: &[String], folder: &Path) -> Taken {
    let answer = folder.join("answer");
    let mut wrapped: Vec<OsString> = vec![env::current_exe().unwrap().into(), SUBJECT.into(), answer.clone().into()];
    wrapped.extend(words.iter().map(OsString::from));
    match arm {
        "alone" => assert!(Command::new(&wrapped[0]).args(&wrapped[1..]).status().unwrap().success()),
        "perf" => {
            let mut perf = Command::new("perf");
            perf.args(["sched", "record", "-o"]).arg(folder.join("perf.data")).arg("--").args(&wrapped);
            assert!(perf.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
        }
        _ => {
            let file = folder.join("trace.pftrace");
            let trace = (arm == "traced").then(|| TraceTo::file(&file));
            let profile = || {
                let machine = Machine::host().unwrap();
                let profiled = profile_and_trace(&Target::Command(wrapped), None, &machine, trace).unwrap();
                let lost = profiled.profile.lost_events;
                if lost > 0 {
                    println!("{arm}: {lost} events lost");
                }
            };
            // Whoever counts in the kernel gives up capabilities.
            std::thread::scope(|scope| scope.spawn(profile).join().unwrap());
        }
    }
    let text = fs::read_to_string(&answer).unwrap();
    let [clock_s, cpu_s] = [0, 1].map(|at| text.split(' ').nth(at).unwrap().parse().unwrap());
    Taken { clock_s, cpu_s }
}

/// What the command line asks for.
struct Asked {
    rounds: u32,
    arms: Vec<String>,
    words: Vec<String>,
}

fn asked() -> Asked {
    let mut words = env::args().skip(1).filter(|word| word != "--bench");
    let has_perf = Command::new("perf").arg("version").output().is_ok();
    let mut asked = Asked {
        rounds: ROUNDS,
        arms: ARMS.iter().map(|&arm| arm.to_owned()).filter(|arm| has_perf || arm != "perf").collect(),
        words: WORST_CASE.map(str::to_owned).to_vec(),
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rounds" => asked.rounds = words.next().and_then(|count| count.parse().ok()).expect("a number"),
            "--arms" => asked.arms = words.next().expect("arms").split(',').map(str::to_owned).collect(),
            "--" => asked.words = words.by_ref().collect(),
            other => panic!("{other} is no option"),
        }
    }
    let unknown = asked.arms.iter().find(|arm| !ARMS.contains(&arm.as_str()));
    assert!(unknown.is_none(), "arms are {ARMS:?}, not {unknown:?}");
    asked
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn main() {
    let given: Vec<String> = env::args().skip(1).collect();
    if let [first, answer, words @ ..] = &given[..]
        && first == SUBJECT
    {
        return subject(answer, words);
    }
    if let Err(refused) = profile::collector::check() {
        return println!("skipped: {refused}");
    }
    let Asked { rounds, arms, words } = asked();
    let folder = tempfile::tempdir().unwrap();
    // What is read for the first time is read from a disk.
    run(&arms[0], &words, folder.path());
    let mut all: Vec<Vec<Taken>> = Vec::new();
    for round in 0..rounds {
        let mut taken = vec![Taken::default(); arms.len()];
        for arm in block_permutation(SEED, round, 0, arms.len()) {
            taken[arm] = run(&arms[arm], &words, folder.path());
        }
        all.push(taken);
    }
    println!("{}: {rounds} rounds, over {} with 95 % intervals", words.join(" "), arms[0]);
    for (arm, name) in arms.iter().enumerate() {
        for (clock, seconds) in [("clock", (|taken| taken.clock_s) as fn(&Taken) -> f64), ("CPU", |taken| taken.cpu_s)]
        {
            // What is over what is the other way around for claims of gains.
            let pair = |taken: &Vec<Taken>| Pair { reference_s: seconds(&taken[arm]), treatment_s: seconds(&taken[0]) };
            let pairs: Vec<Pair> = all.iter().map(pair).collect();
            let own_s = median(all.iter().map(|taken| seconds(&taken[arm])));
            print!("{name:7} {clock:5} {own_s:8.3} s (median)");
            match paired_ratio(&pairs, SEED).filter(|_| arm > 0) {
                Some(ratio) => println!("  {:.4} ({:.4} to {:.4})", ratio.ratio(), ratio.low(), ratio.high()),
                None => println!(),
            }
        }
    }
}
