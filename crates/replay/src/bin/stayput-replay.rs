//! `stayput-replay`: replays a workload with real processes under whatever scheduler this kernel has, and measures what that did.
//!
//! A program of its own, without libraries to load, so that it also runs in a virtual machine that holds nothing else.

// Messages that a terminal shows and doesn't obey, in place of those of `std`.
#[macro_use(eprintln)]
extern crate terminal;

use clap::Parser;
use machine::linux::system;
use machine::{CpuId, Machine};
use misses::window::{SECTIONS, SectionIndex};
use replay::{Binding, Counted, Recording, Replay, ReplayOutput, Scenario, Trace, without_warm_up};
use sim::Interval;
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Replay a workload of the simulator with real processes
#[derive(Parser)]
#[command(name = "stayput-replay", version)]
struct Arguments {
    /// A workload file (.toml), - for one on standard input, a scenario as a journal keeps it (.json), a built-in workload, or spin:K
    /// for K processes that compute
    workload: String,
    /// Stop then at the latest; needed where processes never end [default: the workload's horizon_ms]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Where the draws start [default: the workload's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Which of the simulation's replicates has the same draws
    #[arg(long, value_name = "R", default_value_t = 0)]
    replicate: u32,
    /// Bind each process for life to the CPU with the fewest
    #[arg(long)]
    attached: bool,
    /// Ask the fair scheduler for slices so long (0.1 to 100 ms; Linux 6.12 and later)
    #[arg(long, value_name = "Q")]
    slice_ms: Option<f64>,
    /// Look at CPU time after so much work at most (0.1 to 1000 ms): the kernel ends slices at looks, too, which programs that compute don't
    /// have. What is measured here of a process that is preempted in between is coarser
    #[arg(long, value_name = "MS", value_parser = chunk_ms)]
    chunk_ms: Option<f64>,
    /// Switch the kernel's cache-aware balancing for the time of the replay
    #[arg(long, value_name = "SWITCH", value_parser = ["on", "off"])]
    cache_balancing: Option<String>,
    /// This machine, where hwloc can't be loaded: a JSON or XML file
    #[arg(long, value_name = "MACHINE", default_value = "host")]
    machine: String,
    /// Measure without the first so many seconds
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    warm_up: f64,
    /// Where a model of caches watches this machine from outside: have it count what comes after the warm-up as this section
    #[arg(long, value_name = "SECTION", value_parser = section)]
    section: Option<SectionIndex>,
    /// Leave out distributions
    #[arg(long)]
    brief: bool,
    /// Write what was measured to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write every stay of a process on a CPU to this file, as CSV; times in ns since the start
    #[arg(long, value_name = "FILE")]
    stays: Option<PathBuf>,
}

/// Something failed.
const FAILURE: u8 = 1;

/// The command line, or a file that it names, is wrong.
const USAGE: u8 = 2;

fn chunk_ms(text: &str) -> Result<f64, String> {
    let ms: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if (0.1..=1000.0).contains(&ms) { Ok(ms) } else { Err("it must be from 0.1 to 1000 ms".into()) }
}

fn section(text: &str) -> Result<SectionIndex, String> {
    let number: u32 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if (1..SECTIONS).contains(&number) {
        Ok(SectionIndex(number))
    } else {
        Err(format!("sections have numbers from 1 to {}", SECTIONS - 1))
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = inputs(&arguments).map_err(|error| (USAGE, error)).and_then(|(scenario, machine)| {
        let replay = Replay {
            workload: &scenario.workload,
            parameters: &scenario.parameters,
            replicate: arguments.replicate,
            binding: if arguments.attached { Binding::Attached } else { Binding::Free },
            slice: arguments.slice_ms.map(|ms| Duration::from_secs_f64(ms / 1e3)),
            chunk: arguments.chunk_ms.map(|ms| Duration::from_secs_f64(ms / 1e3)),
            counted: arguments
                .section
                .map(|section| Counted { section, after: Duration::from_secs_f64(arguments.warm_up) }),
            machine: &machine,
        };
        replay.check().map_err(|error| (USAGE, error.into()))?;
        run(&arguments, &replay).map_err(|error| (FAILURE, error))
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, error)) => {
            eprintln!("stayput-replay: {error}");
            ExitCode::from(code)
        }
    }
}

/// What is replayed, and where.
fn inputs(arguments: &Arguments) -> Result<(Scenario, Machine), Box<dyn Error>> {
    let mut scenario = Scenario::named(&arguments.workload)?;
    let parameters = &mut scenario.parameters;
    parameters.seed = arguments.seed.unwrap_or(parameters.seed);
    parameters.horizon_ms = arguments.seconds.map(|seconds| seconds * 1e3).or(parameters.horizon_ms);
    parameters.check()?;
    if let Some(ms) = arguments.slice_ms.filter(|ms| !(0.1..=100.0).contains(ms)) {
        return Err(format!("a slice of {ms} ms can't be asked for: the kernel has them from 0.1 to 100 ms").into());
    }
    if !(0.0..1e6).contains(&arguments.warm_up) {
        return Err(format!("a warm-up of {} s makes no sense: give a time from 0 on", arguments.warm_up).into());
    }
    if let Some(ms) = scenario.parameters.horizon_ms.filter(|&ms| ms <= arguments.warm_up * 1e3) {
        let sentence =
            format!("after a warm-up of {} s nothing is left of {} s: give a shorter one", arguments.warm_up, ms / 1e3);
        return Err(sentence.into());
    }
    let name = &arguments.machine;
    let machine = if name.ends_with(".json") {
        let text = std::fs::read_to_string(name).map_err(|error| format!("cannot read {name}: {error}"))?;
        serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?
    } else {
        Machine::named(name)?
    };
    Ok((scenario, machine))
}

/// Cache-aware balancing, switched for the time of a replay.
struct CacheBalancing {
    /// What it was before; none where it was right.
    before: Option<String>,
}

impl CacheBalancing {
    /// Which says whether the kernel's own scheduler keeps the threads of a process under one last-level cache
    /// (`SCHED_CACHE`).
    const SWITCH: &str = "/sys/kernel/debug/sched/llc_balancing/enabled";

    /// Switches it on or off.
    fn switch(on: bool) -> Result<Self, String> {
        let before = match std::fs::read_to_string(Self::SWITCH) {
            Ok(before) => before.trim().to_owned(),
            // What isn't there is off.
            Err(_) if !on => return Ok(Self { before: None }),
            Err(error) => return Err(format!("this kernel has no cache-aware balancing ({}: {error})", Self::SWITCH)),
        };
        let is_on = ["1", "Y"].contains(&before.as_str());
        if is_on == on {
            return Ok(Self { before: None });
        }
        let wanted = if on { "1" } else { "0" };
        std::fs::write(Self::SWITCH, wanted)
            .map_err(|error| format!("cannot switch cache-aware balancing ({}: {error})", Self::SWITCH))?;
        Ok(Self { before: Some(before) })
    }
}

impl Drop for CacheBalancing {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // Who could switch it can switch it back.
            let _ = std::fs::write(Self::SWITCH, before);
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn run(arguments: &Arguments, replay: &Replay<'_>) -> Result<(), Box<dyn Error>> {
    let switch = arguments.cache_balancing.as_ref();
    let balancing = switch.map(|switch| CacheBalancing::switch(switch == "on")).transpose()?;
    let recording = replay.run()?;
    drop(balancing);
    write_output(arguments, replay, &recording)
}

/// The share of the work without its references to memory from which on that is told.
const MOST_UNREFERRED: f64 = 0.05;

/// Writes what was measured.
fn write_output(arguments: &Arguments, replay: &Replay<'_>, recording: &Recording) -> Result<(), Box<dyn Error>> {
    let warm_up_ns = Duration::from_secs_f64(arguments.warm_up).as_nanos() as u64;
    let (intervals, processes) = without_warm_up(warm_up_ns, &recording.intervals, &recording.processes);
    let mut measurements = Trace {
        workload: replay.workload,
        machine: replay.machine,
        intervals: &intervals,
        processes: &processes,
        until_ns: recording.until_ns.saturating_sub(warm_up_ns),
    }
    .measurements();
    let work_ms = recording.work_ns.iter().sum::<u64>() as f64 / 1e6;
    measurements.metrics.insert("work_ms".into(), work_ms);
    let lost = Some(recording.lost).filter(|&lost| lost > 0);
    let lost = lost.map(|lost| format!("{lost} stays on CPUs were not recorded: there was no room for them"));
    let unreferred_ms = recording.unreferred_ns.iter().sum::<u64>() as f64 / 1e6;
    let slow = (unreferred_ms > MOST_UNREFERRED * work_ms).then(|| {
        let percent = 100.0 * (1.0 - unreferred_ms / work_ms).max(0.0);
        format!("this machine is too slow for the workload's references to memory: {percent:.0} % of them were made")
    });
    let output = ReplayOutput {
        kernel: system::kernel_release().ok_or("/proc/sys/kernel/osrelease can't be read")?,
        seconds: recording.until_ns as f64 / 1e9,
        completed: recording.processes.iter().all(|process| process.ended_ns.is_some()),
        metrics: measurements.metrics,
        histograms: if arguments.brief { Default::default() } else { measurements.histograms },
        notes: lost.into_iter().chain(slow).collect(),
    };
    if let Some(path) = &arguments.stays {
        write(path, &stays(replay.machine, &recording.intervals))?;
    }
    match &arguments.json {
        Some(path) => write(path, &serde_json::to_string(&output)?)?,
        None => println!("{}", terminal::printable_json(&serde_json::to_string_pretty(&output)?)),
    }
    Ok(())
}

/// The stays as CSV, with the kernel's numbers of CPUs.
fn stays(machine: &Machine, intervals: &[Interval]) -> String {
    let cpus: Vec<CpuId> = machine.usable().collect();
    let mut text = String::from("process,cpu,runnable_ns,from_ns,until_ns,end\n");
    for Interval { process, cpu, runnable_ns, from_ns, until_ns, end } in intervals {
        let end = serde_json::to_value(end).unwrap_or_default();
        let end = end.as_str().unwrap_or_default();
        let cpu = cpus[cpu.0 as usize];
        let _ = writeln!(text, "{},{cpu},{runnable_ns},{from_ns},{until_ns},{end}", process.0);
    }
    text
}
