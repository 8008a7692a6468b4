//! `stayput-play`: plays a workload with real processes under whatever scheduler this kernel has, and measures what that did.
//!
//! A program of its own, without libraries to load, so that it also runs in a virtual machine that holds nothing else.

use clap::Parser;
use kernel::play::account::{Account, Seen};
use kernel::play::{Binding, Play, Played};
use machine::record::MachineRecord;
use machine::{CpuId, Machine};
use serde_json::json;
use sim::{Interval, Parameters, Workload, WorkloadFile};
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Play a workload of the simulator with real processes
#[derive(Parser)]
#[command(name = "stayput-play", version)]
struct Arguments {
    /// A file ending in .toml, a built-in workload, or spin:K for K processes that compute
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
    /// This machine, where hwloc can't be loaded: a JSON or XML file
    #[arg(long, value_name = "MACHINE", default_value = "host")]
    machine: String,
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

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = Scene::of(&arguments).map_err(|error| (USAGE, error)).and_then(|scene| {
        let play = scene.play(&arguments);
        play.check().map_err(|error| (USAGE, error.into()))?;
        let played = play.run().map_err(|error| (FAILURE, error.into()))?;
        tell(&arguments, &play, &played).map_err(|error| (FAILURE, error))
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, error)) => {
            eprintln!("stayput-play: {error}");
            ExitCode::from(code)
        }
    }
}

/// What is played, and where.
struct Scene {
    workload: Workload,
    parameters: Parameters,
    machine: Machine,
}

impl Scene {
    fn of(arguments: &Arguments) -> Result<Self, Box<dyn Error>> {
        let name = &arguments.workload;
        let WorkloadFile { workload, parameters: defaults, .. } = if name.ends_with(".toml") {
            let at = |(line, what)| format!("workload file {name}, line {line}: {what}");
            WorkloadFile::parse(&read(name)?).map_err(at)?
        } else {
            WorkloadFile::named(name)?
        };
        let parameters = Parameters {
            seed: arguments.seed.unwrap_or(defaults.seed),
            horizon_ms: arguments.seconds.map(|seconds| seconds * 1e3).or(defaults.horizon_ms),
            ..defaults
        };
        parameters.check()?;
        if let Some(ms) = arguments.slice_ms.filter(|ms| !(0.1..=100.0).contains(ms)) {
            return Err(format!("a slice of {ms} ms can't be asked for: the kernel has them from 0.1 to 100 ms").into());
        }
        let name = &arguments.machine;
        let machine = if name.ends_with(".json") {
            let read: Result<MachineRecord, _> = serde_json::from_str(&read(name)?);
            Machine::try_from(read.map_err(|error| format!("{name}: {error}"))?)
                .map_err(|error| format!("{name}: {error}"))?
        } else {
            Machine::named(name)?
        };
        Ok(Self { workload, parameters, machine })
    }

    fn play(&self, arguments: &Arguments) -> Play<'_> {
        Play {
            workload: &self.workload,
            parameters: &self.parameters,
            replicate: arguments.replicate,
            binding: if arguments.attached { Binding::Attached } else { Binding::Free },
            slice: arguments.slice_ms.map(|ms| Duration::from_secs_f64(ms / 1e3)),
            machine: &self.machine,
        }
    }
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Writes what was measured.
fn tell(arguments: &Arguments, play: &Play<'_>, played: &Played) -> Result<(), Box<dyn Error>> {
    let mut account = Account::of(&Seen {
        workload: play.workload,
        machine: play.machine,
        intervals: &played.intervals,
        processes: &played.processes,
        until_ns: played.until_ns,
    });
    let work_ms = played.work_ns.iter().sum::<u64>() as f64 / 1e6;
    account.metrics.insert("work_ms".into(), work_ms);
    let lost = format!("{} stays on CPUs were not recorded: there was no room for them", played.lost);
    let notes = if played.lost > 0 { vec![lost] } else { Vec::new() };
    let told = json!({
        "kernel": nix::sys::utsname::uname()?.release().to_string_lossy(),
        "workload": play.workload.name,
        "seed": play.parameters.seed,
        "replicate": play.replicate,
        "seconds": played.until_ns as f64 / 1e9,
        "completed": played.processes.iter().all(|process| process.ended_ns.is_some()),
        "metrics": account.metrics,
        "histograms": account.histograms,
        "notes": notes,
    });
    if let Some(path) = &arguments.stays {
        write(path, &stays(play.machine, &played.intervals))?;
    }
    match &arguments.json {
        Some(path) => write(path, &format!("{told}\n"))?,
        None => println!("{told:#}"),
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
