//! Matrix beside OpenBLAS' `dgemm`, and Cholesky beside CHOLMOD, on one thread, in turn in every round.
//!
//! `cargo bench -p stayput-workloads --bench peers`. A library that isn't installed is left out, which is said:
//! `./setup.sh bench` installs them.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't run says so and ends")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Rounds; medians of them are told.
const ROUNDS: usize = 15;

/// What ours may take of the peer's time.
const GOAL: f64 = 1.3;

/// Classes of `affinity:matrix`, and their rows.
const MATRICES: [(&str, usize); 3] = [("S", 512), ("W", 1024), ("A", 2048)];

/// Classes of `affinity:cholesky`, and how many times as wide as class S their grids are.
const GRIDS: [(&str, usize); 3] = [("S", 1), ("W", 2), ("A", 3)];

fn main() {
    println!("one thread, medians of {ROUNDS} rounds in each of which both run in turn; goal at most {GOAL}\n");
    println!("{:20} {:>12} {:>12} {:>6}   peer", "", "ours, s", "peer's, s", "ratio");
    let folder = tempfile::tempdir().unwrap();
    let mut ratios = Vec::new();
    match compiled(
        folder.path(),
        "dgemm.c",
        include_str!(concat!(env!("OUT_DIR"), "/affinity-matrix.command")),
        "-lopenblas",
    ) {
        Some(peer) => ratios.extend(MATRICES.iter().map(|(class, rows)| matrix(&peer, class, *rows))),
        None => println!("affinity:matrix: skipped, OpenBLAS isn't installed (Debian: libopenblas-dev)"),
    }
    let command = include_str!(concat!(env!("OUT_DIR"), "/affinity-cholesky.command"));
    match compiled(folder.path(), "cholmod.c", command, "-lcholmod") {
        Some(both) => ratios.extend(GRIDS.iter().map(|(class, scale)| cholesky(&both, class, *scale))),
        None => println!("affinity:cholesky: skipped, CHOLMOD isn't installed (Debian: libsuitesparse-dev)"),
    }
    if let Some(largest) = ratios.iter().copied().reduce(f64::max) {
        println!("\nlargest ratio {largest:.2}, goal {GOAL}");
    }
}

/// A C program of this folder, compiled as the workload is, with what that is made of but for its `main`. None where the
/// library isn't there.
fn compiled(folder: &Path, source: &str, command: &str, library: &str) -> Option<PathBuf> {
    let executable = folder.join(source.trim_end_matches(".c"));
    let has_main = ["affinity/cholesky.c", "affinity/matrix.c", "harness/program.c", "harness/stage.c"];
    let mut arguments = command.lines().filter(|argument| !has_main.contains(argument) && *argument != "-lm");
    let status = Command::new(arguments.next()?)
        .args(arguments)
        .arg(Path::new("benches").join(source))
        .args([library, "-lm", "-o"])
        .arg(&executable)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    status.is_ok_and(|output| output.status.success()).then_some(executable)
}

/// What a program prints, with one thread for it and for its libraries.
fn printed(executable: &Path, arguments: &[&str]) -> String {
    let output = Command::new(executable)
        .args(arguments)
        .env("OMP_NUM_THREADS", "1")
        .env("OPENBLAS_NUM_THREADS", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}: {output:?}", executable.display());
    String::from_utf8(output.stdout).unwrap()
}

fn seconds(text: &str) -> f64 {
    text.lines().find_map(|line| line.strip_prefix("seconds: ")).and_then(|number| number.parse().ok()).unwrap()
}

/// Prints a row and returns the ratio of the medians.
fn tell(name: &str, ours: &[f64], theirs: &[f64], peer: &str) -> f64 {
    let median = |times: &[f64]| stats::quantile(times, 0.5).unwrap();
    let (ours, theirs) = (median(ours), median(theirs));
    println!("{name:20} {ours:>12.6} {theirs:>12.6} {:>6.2}   {peer}", ours / theirs);
    ours / theirs
}

fn matrix(peer: &Path, class: &str, rows: usize) -> f64 {
    let ours = Path::new(env!("CARGO_BIN_EXE_affinity-matrix"));
    let rounds =
        (0..ROUNDS).map(|_| (seconds(&printed(ours, &[class])), seconds(&printed(peer, &[&rows.to_string()]))));
    let (ours, theirs): (Vec<f64>, Vec<f64>) = rounds.unzip();
    tell(&format!("affinity:matrix.{class}"), &ours, &theirs, "OpenBLAS dgemm")
}

fn cholesky(both: &Path, class: &str, scale: usize) -> f64 {
    let text = printed(both, &[&scale.to_string(), &ROUNDS.to_string()]);
    let rounds = text.lines().filter_map(|line| line.strip_prefix("round: ")).map(|round| {
        let (ours, theirs) = round.split_once(' ').unwrap();
        (ours.parse::<f64>().unwrap(), theirs.parse::<f64>().unwrap())
    });
    let (ours, theirs): (Vec<f64>, Vec<f64>) = rounds.unzip();
    tell(&format!("affinity:cholesky.{class}"), &ours, &theirs, "CHOLMOD, supernodal")
}
