//! Measured reloads against what the same loops see themselves: `cargo bench -p stayput-profile --bench reload -- [l2|l3] [64|256|1024|stream]...`.
//! Machines differ and are busy, so that nothing fails here; it prints what was found, and, unless loops are named, how often control against
//! control claims something.

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

/// KiB of a loop, and what reuses nothing.
const LOOPS: [&str; 4] = ["64", "256", "1024", "stream"];

/// Bursts that a subject's run meets, about, and the least CPU time of one. Of as much time in all, shorter runs tell more.
const BURSTS: u32 = 14;
const LEAST_RUN: Duration = Duration::from_millis(20);

/// How long each loop is measured, at most.
const LIMIT: Duration = Duration::from_secs(240);

/// Blocks to a look of a loop at itself, among which it looks since who shares its caches does now more and now less. Each time it is a program of its own:
/// what it sees depends on which pages one gets.
const BLOCKS_PER_VIEW: usize = 4;

/// Looks at least.
const LEAST_VIEWS: usize = 40;

/// Passes after a sweep at which it looks each time.
const OWN_PASSES: usize = 10;

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
        let seen = OwnView::of(words[0].parse().unwrap(), &sweep);
        return println!("{} {}", seen.over_spin, seen.over_warm);
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

/// What a loop sees itself in the first pass after a sweep, in us.
struct OwnView {
    /// Over the first pass after a spin that takes as long as the sweep, in which whoever shares its caches takes some of them: what is measured is
    /// over a burst of that kind, too.
    over_spin: f64,
    /// Over a pass that follows another.
    over_warm: f64,
}

impl OwnView {
    /// Of medians of many passes of a loop over so many KiB.
    fn of(kib: usize, sweep: &Sweep) -> Self {
        let next = circle(kib);
        let timed = || {
            let begun = Instant::now();
            pass(&next);
            begun.elapsed().as_secs_f64() * 1e6
        };
        let warm_up = || (0..3).for_each(|_| pass(&next));
        let (mut cold, mut spun, mut warm) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..OWN_PASSES {
            warm_up();
            warm.push(timed());
            let begun = Instant::now();
            sweep.run();
            let length = begun.elapsed();
            cold.push(timed());
            warm_up();
            let begun = Instant::now();
            while begun.elapsed() < length {}
            spun.push(timed());
        }
        let cold = median(&mut cold);
        Self { over_spin: cold - median(&mut spun), over_warm: cold - median(&mut warm) }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What the loop of so many KiB sees on this CPU now.
fn own_view(kib: &str, lost: &str, cpu: CpuId) -> OwnView {
    let launch = Launch {
        placement: Some(Placement::from_cpus("one CPU", [cpu])),
        observe: Observe::End,
        output: Output::Capture,
        ..Launch::new(vec![env::current_exe().unwrap().into(), SUBJECT.into(), kib.into(), "0".into(), lost.into()])
    };
    let said = launch::launch(&launch).unwrap().stdout.end(200);
    let (over_spin, over_warm) = said.trim().split_once(' ').unwrap();
    OwnView { over_spin: over_spin.parse().unwrap(), over_warm: over_warm.parse().unwrap() }
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
fn measure(lost: LostCache, sweep: Sweep, machine: &Machine, loops: &[&str]) {
    let bursts = Bursts::calibrated(sweep, machine.usable().last().unwrap()).unwrap();
    let run = LEAST_RUN.max(BURSTS * bursts.period);
    for &name in loops {
        let cache: &str = lost.into();
        let mut own = Vec::new();
        let measured = reload::measure(&command(name, run), lost, machine, LIMIT, &mut |block| {
            if name != "stream" && block % BLOCKS_PER_VIEW == 0 {
                own.push(own_view(name, cache, bursts.cpu));
            }
        });
        while name != "stream" && own.len() < LEAST_VIEWS {
            own.push(own_view(name, cache, bursts.cpu));
        }
        // What a stream reads, it doesn't have before.
        let seen = |of: fn(&OwnView) -> f64| {
            if own.is_empty() { 0.0 } else { median(&mut own.iter().map(of).collect::<Vec<_>>()) }
        };
        let (own_us, over_warm_us) = (seen(|it| it.over_spin), seen(|it| it.over_warm));
        match measured {
            Ok(found) => println!(
                "{cache}    {name:8} {:8.1} ({:8.1} to {:8.1}) {own_us:13.1} {:7.2} {over_warm_us:10.1} {:7}  constant {:.1} ({:.1} to {:.1})",
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
    println!("swept loop KiB   measured us (95 %)              itself us   ratio  over warm  blocks");
    let asked: Vec<LostCache> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let loops: Vec<&str> = LOOPS.into_iter().filter(|name| words.iter().any(|word| word == name)).collect();
    for lost in if asked.is_empty() { vec![LostCache::L3, LostCache::L2] } else { asked } {
        match Sweep::of(lost, &machine) {
            Ok(sweep) => measure(lost, sweep, &machine, if loops.is_empty() { &LOOPS } else { &loops }),
            Err(error) => println!("{}: skipped: {error}", <&str>::from(lost)),
        }
    }
    if !loops.is_empty() {
        return;
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
