//! Measured reloads against what the same loops see themselves: `cargo bench -p stayput-profile --bench reload [-- l2|l3]`. Machines differ and
//! are busy, so that nothing fails here; it prints what was found.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed bench")]

use launch::{Launch, Observe, Output};
use machine::{CpuId, Machine, Placement};
use profile::evictor::{Burst, Bursts, LostCache, Sweep};
use profile::reload::{self, Block, run_command, study};
use std::env;
use std::ffi::OsString;
use std::hint::black_box;
use std::time::{Duration, Instant};

const SUBJECT: &str = "--subject";
const LINE_WORDS: usize = 8;

/// Bursts that a subject's run meets, about, and the least CPU time of one. Of as much time in all, shorter runs tell more.
const BURSTS: u32 = 14;
const LEAST_RUN: Duration = Duration::from_millis(20);

/// How long each loop is measured, at most.
const LIMIT: Duration = Duration::from_secs(120);

/// How often a loop looks at itself before it is measured, and after: each time as a program of its own, since it depends on which pages one gets.
const OWN_VIEWS: usize = 20;

/// Passes after a sweep at which it looks each time.
const OWN_PASSES: usize = 20;

/// Studies of control against control, and blocks of each.
const AA_STUDIES: usize = 100;
const AA_BLOCKS: usize = 10;

/// Lines of so many KiB in one random circle.
fn circle(kib: usize) -> Vec<usize> {
    let lines = kib * 1024 / (8 * LINE_WORDS);
    let mut order: Vec<usize> = (1..lines).collect();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for last in (1..order.len()).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        order.swap(last, (random % (last as u64 + 1)) as usize);
    }
    let mut next = vec![0; lines * LINE_WORDS];
    let mut at = 0;
    for line in order {
        next[at * LINE_WORDS] = line;
        at = line;
    }
    next[at * LINE_WORDS] = 0;
    next
}

/// Once around.
fn pass(next: &[usize]) {
    let mut at = 0;
    loop {
        at = next[at * LINE_WORDS];
        if at == 0 {
            return;
        }
        black_box(at);
    }
}

/// Reads a buffer of 64 MiB from its beginning to its end: what it has read is never used again, but when it begins anew.
fn stream(words: &[u64]) {
    black_box(words.iter().step_by(LINE_WORDS).fold(0_u64, |sum, word| sum.wrapping_add(*word)));
}

fn subject(words: &[String]) {
    let rounds: u64 = words[1].parse().unwrap();
    if let Some(lost) = words.get(2) {
        let sweep = Sweep::of(lost.parse().unwrap(), &Machine::host().unwrap()).unwrap();
        return println!("{}", own_view_us(words[0].parse().unwrap(), &sweep));
    }
    match words[0].as_str() {
        "stream" => {
            let buffer = vec![1_u64; 8 << 20];
            (0..rounds).for_each(|_| stream(&buffer));
        }
        kib => {
            let next = circle(kib.parse().unwrap());
            (0..rounds).for_each(|_| pass(&next));
        }
    }
}

/// Median time of the first pass after a sweep, less that of a warm one, in us.
fn own_view_us(kib: usize, sweep: &Sweep) -> f64 {
    let next = circle(kib);
    let timed = || {
        let begun = Instant::now();
        pass(&next);
        begun.elapsed().as_secs_f64() * 1e6
    };
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..OWN_PASSES {
        (0..3).for_each(|_| pass(&next));
        warm.push(timed());
        sweep.run();
        cold.push(timed());
    }
    median(&mut cold) - median(&mut warm)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What the loop of so many KiB sees on this CPU, several times.
fn own_views_us(kib: &str, lost: &str, cpu: CpuId) -> Vec<f64> {
    let looks = (0..OWN_VIEWS).map(|_| {
        let launch = Launch {
            placement: Some(Placement::from_cpus("one CPU", [cpu])),
            observe: Observe::End,
            output: Output::Capture,
            ..Launch::new(vec![env::current_exe().unwrap().into(), SUBJECT.into(), kib.into(), "0".into(), lost.into()])
        };
        launch::launch(&launch).unwrap().stdout.end(200).trim().parse().unwrap()
    });
    looks.collect()
}

fn command(name: &str, run: Duration) -> Vec<OsString> {
    let once: Box<dyn Fn()> = match name {
        "stream" => {
            let buffer = vec![1_u64; 8 << 20];
            Box::new(move || stream(&buffer))
        }
        kib => {
            let next = circle(kib.parse().unwrap());
            Box::new(move || pass(&next))
        }
    };
    once();
    let begun = Instant::now();
    let mut passes = 0_u32;
    while begun.elapsed() < run {
        once();
        passes += 1;
    }
    vec![env::current_exe().unwrap().into(), SUBJECT.into(), name.into(), passes.to_string().into()]
}

/// Each loop as it is measured, and as it sees itself.
fn measure(lost: LostCache, sweep: Sweep, machine: &Machine) {
    let bursts = Bursts::calibrated(sweep, machine.usable().last().unwrap()).unwrap();
    let run = LEAST_RUN.max(BURSTS * bursts.period);
    for name in ["64", "256", "1024", "stream"] {
        let cache: &str = lost.into();
        let looks = || if name == "stream" { vec![0.0] } else { own_views_us(name, cache, bursts.cpu) };
        let mut own_us = looks();
        let measured = reload::measure(&command(name, run), lost, machine, LIMIT, &mut |_| {});
        own_us.extend(looks());
        let own_us = median(&mut own_us);
        match measured {
            Ok(found) => println!(
                "{cache}    {name:8} {:8.1} ({:8.1} to {:8.1}) {own_us:13.1} {:7.2} {:7}  constant {:.1} ({:.1} to {:.1})",
                found.us.estimate,
                found.us.low,
                found.us.high,
                found.us.estimate / own_us,
                found.blocks,
                found.constant_us.estimate,
                found.constant_us.low,
                found.constant_us.high
            ),
            Err(error) => println!("{cache}    {name:8} {error}"),
        }
    }
}

fn main() {
    let words: Vec<String> = env::args().collect();
    if let Some(at) = words.iter().position(|word| word == SUBJECT) {
        return subject(&words[at + 1..]);
    }
    // `cargo test --benches` only wants to know that it starts.
    if !words.iter().any(|word| word == "--bench") {
        return;
    }
    let machine = Machine::host().unwrap();
    println!("swept loop KiB   measured us (95 %)              itself us   ratio  blocks");
    let asked: Vec<LostCache> = words.iter().filter_map(|word| word.parse().ok()).collect();
    for lost in if asked.is_empty() { vec![LostCache::L3, LostCache::L2] } else { asked } {
        match Sweep::of(lost, &machine) {
            Ok(sweep) => measure(lost, sweep, &machine),
            Err(error) => println!("{}: skipped: {error}", <&str>::from(lost)),
        }
    }
    let Ok(sweep) = Sweep::of(LostCache::L2, &machine) else { return };
    let bursts = Bursts::calibrated(sweep, machine.usable().last().unwrap()).unwrap();
    let words = command("256", LEAST_RUN.max(BURSTS * bursts.period));
    let mut claimed = 0;
    for index in 0..AA_STUDIES {
        let found = study(None, &mut |block| {
            if block == AA_BLOCKS {
                return Ok(None);
            }
            let run = |seed| run_command(&words, 1, &bursts, Some(Burst::Control), seed);
            // Which of the two comes first alternates.
            let seed = ((index * AA_BLOCKS + block) * 2 + 1) as u64;
            let (first, second) = (run(seed)?, run(seed + 1)?);
            let (control, evict) = if block % 2 == 0 { (first, second) } else { (second, first) };
            Ok(Some(Block { undisturbed: control, control, evict }))
        });
        claimed += usize::from(found.unwrap().is_claimed);
    }
    println!("control against control: {claimed} of {AA_STUDIES} studies claimed a reload");
}
