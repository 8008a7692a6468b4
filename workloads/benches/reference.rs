//! The workloads' speed, beside reference executables that the user built.
//!
//! `make bench-workloads REFERENCE=DIR` times each program, and the NPB executables `ft.A` (or `ft.A.x`) and so on that
//! it finds in DIR, one after the other in every round, so that both meet the same moments of the machine. Several
//! directories, separated by colons, are several references; the fastest of them counts. `CLASS=W` takes another class.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't run says so and ends")]

use stayput_workloads::{Builtin, Program, catalog, resolve};
use std::env;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Rounds; medians of them are told.
const ROUNDS: usize = 5;

/// Thread counts, of which the second gives the parallel efficiency.
const THREADS: [u32; 2] = [1, 2];

/// A program to time.
struct Contender {
    name: String,
    executable: PathBuf,
    builtin: Builtin,
    /// For each of [`THREADS`], what each round gave.
    runs: [Vec<Run>; 2],
}

/// What one run gave.
struct Run {
    /// Time that the program itself took, of the part that the benchmark times.
    seconds: f64,
    /// Largest resident memory.
    memory_mib: f64,
}

/// How NPB's executables tell time and verdict.
const NPB_TIME: &str = r"Time in seconds\s*=\s*([0-9.]+)";
const NPB_VERIFIED: &str = r"Verification\s*=\s*SUCCESSFUL";

fn main() {
    let class = env::var("CLASS").unwrap_or_else(|_| "A".into());
    let directories = env::var_os("REFERENCE").unwrap_or_default();
    let directories: Vec<PathBuf> =
        env::split_paths(&directories).filter(|path| !path.as_os_str().is_empty()).collect();
    for directory in directories.iter().filter(|directory| !directory.is_dir()) {
        println!("REFERENCE: {} is no directory", directory.display());
    }

    println!("class {class}, medians of {ROUNDS} rounds in each of which all run in turn\n");
    println!(
        "{:8} {:>7} {:>9} {:>9} {:>6} {:>10} {:>7}   against the fastest reference",
        "program", "threads", "seconds", "Gflop/s", "GB/s", "efficiency", "MiB"
    );
    let mut ratios = Vec::new();
    // Those without a count of flops run other people's programs, whose speed isn't ours.
    for program in catalog().iter().filter(|program| program.classes.iter().all(|class| class.flops > 0)) {
        let contenders = contenders(program, &class, &directories);
        let [ours, references @ ..] = contenders.as_slice() else { continue };
        ratios.extend(tell(program, &class, ours, references));
    }
    if !ratios.is_empty() {
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let largest = ratios.iter().copied().fold(0.0, f64::max);
        println!(
            "\ngeometric mean of {} ratios {mean:.2}, goal at most 0.60; largest {largest:.2}, goal 1.00",
            ratios.len()
        );
    } else if directories.is_empty() {
        println!("\nno reference: give REFERENCE=DIR with executables such as ft.A to compare with");
    }
    roofline();
}

/// Ours and the references that have the program, timed; empty when the program has no such class or does not run.
fn contenders(program: &Program, class: &str, directories: &[PathBuf]) -> Vec<Contender> {
    let Ok(builtin) = resolve(&format!("{}.{class}", program.name)) else {
        println!("{}: no class {class}", program.name);
        return Vec::new();
    };
    let executable = Path::new(env!("CARGO_BIN_EXE_npb-ep")).with_file_name(&builtin.program);
    let mut contenders = vec![Contender { name: "ours".into(), executable, builtin, runs: [vec![], vec![]] }];
    let kernel = program.name.rsplit(':').next().unwrap();
    for directory in directories {
        let names = [format!("{kernel}.{class}"), format!("{kernel}.{class}.x")];
        if let Some(executable) = names.iter().map(|name| directory.join(name)).find(|path| path.is_file()) {
            let builtin = Builtin {
                program: executable.to_string_lossy().into_owned(),
                args: vec![],
                time_regex: NPB_TIME.into(),
                verified_regex: NPB_VERIFIED.into(),
            };
            let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
            contenders.push(Contender { name, executable, builtin, runs: [vec![], vec![]] });
        }
    }
    for _ in 0..ROUNDS {
        for (position, threads) in THREADS.into_iter().enumerate() {
            for contender in &mut contenders {
                match run(contender, threads) {
                    Ok(run) => contender.runs[position].push(run),
                    Err(why) => println!("{}, {} with {threads} threads: {why}", program.name, contender.name),
                }
            }
        }
    }
    contenders.retain(|contender| contender.runs.iter().all(|runs| !runs.is_empty()));
    if contenders.first().is_some_and(|first| first.name != "ours") { Vec::new() } else { contenders }
}

fn run(contender: &Contender, threads: u32) -> Result<Run, String> {
    let mut child = Command::new(&contender.executable)
        .args(&contender.builtin.args)
        .env("OMP_NUM_THREADS", threads.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let output = std::io::read_to_string(child.stdout.take().unwrap()).map_err(|error| error.to_string())?;
    let mut status = 0;
    // SAFETY: `rusage` is plain numbers, for which zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live variables; the child is ours and nobody else waits for it.
    if unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) } < 0 {
        return Err(std::io::Error::last_os_error().to_string());
    }
    let status = ExitStatus::from_raw(status);
    let matches = |pattern: &str| regex::Regex::new(pattern).unwrap().captures(&output);
    if !status.success() || matches(&contender.builtin.verified_regex).is_none() {
        return Err(format!("not verified ({status})"));
    }
    let seconds = matches(&contender.builtin.time_regex).and_then(|found| found[1].parse().ok());
    Ok(Run { seconds: seconds.ok_or("printed no time")?, memory_mib: usage.ru_maxrss as f64 / 1024.0 })
}

/// Prints the rows of one program; gives its ratios to the fastest reference.
fn tell(program: &Program, class: &str, ours: &Contender, references: &[Contender]) -> Vec<f64> {
    let class = program.classes.iter().find(|known| known.name == class).unwrap();
    let median =
        |runs: &[Run], pick: fn(&Run) -> f64| stats::quantile(&runs.iter().map(pick).collect::<Vec<_>>(), 0.5).unwrap();
    let seconds = |contender: &Contender, position: usize| median(&contender.runs[position], |run| run.seconds);
    let efficiency = |contender: &Contender| {
        let speedups: Vec<f64> =
            contender.runs[0].iter().zip(&contender.runs[1]).map(|(one, two)| one.seconds / two.seconds).collect();
        stats::quantile(&speedups, 0.5).unwrap() / f64::from(THREADS[1])
    };
    let mut ratios = Vec::new();
    for (position, threads) in THREADS.into_iter().enumerate() {
        let ours_s = seconds(ours, position);
        let efficiency_of =
            |contender| if position == 0 { String::new() } else { format!("{:.2}", efficiency(contender)) };
        let mut line = format!(
            "{:8} {threads:>7} {ours_s:>9.3} {:>9.2} {:>6.1} {:>10} {:>7.0}",
            if position == 0 { &program.name } else { "" },
            class.flops as f64 / ours_s * 1e-9,
            class.bytes as f64 / ours_s * 1e-9,
            efficiency_of(ours),
            median(&ours.runs[position], |run| run.memory_mib),
        );
        let fastest = references.iter().min_by(|a, b| seconds(a, position).total_cmp(&seconds(b, position)));
        if let Some(fastest) = fastest {
            let of_rounds: Vec<f64> = ours.runs[position]
                .iter()
                .zip(&fastest.runs[position])
                .map(|(ours, theirs)| ours.seconds / theirs.seconds)
                .collect();
            let ratio = stats::quantile(&of_rounds, 0.5).unwrap();
            ratios.push(ratio);
            line += &format!(
                "   {ratio:.2} of {} ({:.3} s, {:.0} MiB{}{})",
                fastest.name,
                seconds(fastest, position),
                median(&fastest.runs[position], |run| run.memory_mib),
                if position == 0 { "" } else { ", efficiency " },
                efficiency_of(fastest),
            );
        }
        println!("{}", line.trim_end());
    }
    ratios
}

/// Prints what the machine gives, by a C program compiled as the workloads are.
fn roofline() {
    let executable = env::temp_dir().join(format!("stayput-roofline-{}", std::process::id()));
    let mut command = include_str!(concat!(env!("OUT_DIR"), "/npb-ep.command")).lines();
    let flags = command.clone().skip(1).filter(|argument| !argument.ends_with(".c"));
    let compiled = Command::new(command.next().unwrap())
        .args(flags)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/roofline.c"))
        .arg("-o")
        .arg(&executable)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("\nthe roofline program does not compile");
        return;
    }
    println!("\nwhat the machine gives, multiply-adds from registers and reads from memory:");
    for threads in THREADS {
        let output = Command::new(&executable).env("OMP_NUM_THREADS", threads.to_string()).output().unwrap();
        print!("{threads} threads: {}", String::from_utf8_lossy(&output.stdout));
    }
    let _ = std::fs::remove_file(&executable);
}
