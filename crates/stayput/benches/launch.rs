//! What launching costs, beside the peers, in pairs and interleaved in the same run.
//!
//! `make bench`, or `cargo bench -p stayput --bench launch`. A peer that isn't installed is left out and said.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't run says so and ends")]

use std::process::{Command, Stdio};
use std::time::Instant;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// Pairs of each comparison.
const PAIRS: usize = 200;

/// Pairs run first and not counted.
const WARMUP_PAIRS: usize = 20;

/// Trials of the study whose own cost is taken.
const TRIALS: &str = "100";

fn main() {
    println!("{PAIRS} interleaved pairs each; medians, and the median of the pairs' ratios with its 95 % interval\n");
    compare(&[STAYPUT, "run", "--place", "0", "--", "true"], &["taskset", "-c", "0", "true"], 1.5);
    compare(
        &[STAYPUT, "run", "--place", "scatter", "-n", "2", "--", "true"],
        &["hwloc-bind", "-p", "pu:0", "pu:1", "--", "true"],
        0.4,
    );
    compare(&[STAYPUT, "run", "--place", "0", "--", "true"], &["numactl", "-C", "0", "true"], 1.5);
    compare(&[STAYPUT, "topology"], &["lstopo-no-graphics"], 1.0);
    study_overhead();
}

/// Wall time of one run, in milliseconds; none when it can't be started or fails.
fn time_ms(argv: &[&str]) -> Option<f64> {
    let begin = Instant::now();
    let status = Command::new(argv[0])
        .args(&argv[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .ok()?;
    status.success().then(|| begin.elapsed().as_secs_f64() * 1e3)
}

fn compare(ours: &[&str], peer: &[&str], goal: f64) {
    let name = |argv: &[&str]| argv.join(" ").replace(STAYPUT, "stayput");
    if time_ms(ours).is_none() || time_ms(peer).is_none() {
        println!("{} against {}: left out, one of them does not run here\n", name(ours), name(peer));
        return;
    }
    let mut pairs: Vec<(f64, f64)> = (0..WARMUP_PAIRS + PAIRS)
        .filter_map(|pair| {
            // Who goes first alternates, so that neither always finds the caches warm.
            if pair % 2 == 0 {
                Some((time_ms(ours)?, time_ms(peer)?))
            } else {
                let peer_ms = time_ms(peer)?;
                Some((time_ms(ours)?, peer_ms))
            }
        })
        .collect();
    pairs.drain(..WARMUP_PAIRS);
    let column = |pick: fn(&(f64, f64)) -> f64| pairs.iter().map(pick).collect::<Vec<_>>();
    let ratios = column(|(ours_ms, peer_ms)| ours_ms / peer_ms);
    let (low, high) = stats::median_interval(&ratios).unwrap();
    let median = |values: &[f64]| stats::quantile(values, 0.5).unwrap();
    println!(
        "{}: {:.3} ms\n{}: {:.3} ms\n  ratio {:.2} ({low:.2}-{high:.2}), goal at most {goal}\n",
        name(ours),
        median(&column(|pair| pair.0)),
        name(peer),
        median(&column(|pair| pair.1)),
        median(&ratios),
    );
}

/// From the end of one trial to the begin of the next program: what the study itself takes.
fn study_overhead() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("overhead.stayput");
    let status = Command::new(STAYPUT)
        .args(["study", "--quiet", "--no-report", "-n", "1", "--min-runs", TRIALS, "--max-runs", TRIALS, "--out"])
        .arg(&journal)
        .args(["--", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let trials = study::Journal::<study::Comparison>::read(&journal).unwrap().trials;
    let gaps_ms: Vec<f64> = trials
        .windows(2)
        .map(|pair| {
            let wall_s = pair[0].observation.as_ref().unwrap().wall_s;
            (pair[1].started_unix_s - pair[0].started_unix_s - wall_s) * 1e3
        })
        .collect();
    let mean_ms = gaps_ms.iter().sum::<f64>() / gaps_ms.len() as f64;
    println!(
        "a study's own time for each of {} trials of `true`: median {:.3} ms, mean {mean_ms:.3} ms, goal under 2 ms",
        trials.len(),
        stats::quantile(&gaps_ms, 0.5).unwrap(),
    );
}
