//! What large studies cost beside the programs that they run: time for each trial and peak memory of the study, of taking it up
//! again, and of every form of its report.
//!
//! `make bench`, or `cargo bench -p stayput --bench large`. Nothing is run: trials are made (`tests/large/made.rs`) and kept in a
//! journal. `cargo bench -p stayput --bench large -- 1000` makes studies of 1,000 trials only.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't run says so and ends")]

#[path = "../tests/large/made.rs"]
mod made;
#[path = "../tests/large/spent.rs"]
mod spent;

use spent::Spent;
use std::path::Path;
use std::process::Command;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// Trials of the studies.
const SIZES: [u32; 3] = [1_000, 10_000, 100_000];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if let [kind, cells, trials, journal] = words.as_slice() {
        let (cells, trials) = (cells.parse().unwrap(), trials.parse().unwrap());
        match kind.as_str() {
            "race" => made::make(&made::race(cells, trials), Path::new(journal)),
            _ => made::make(&made::comparison(cells, trials), Path::new(journal)),
        };
        return;
    }
    let asked: Vec<u32> = words.iter().filter_map(|word| word.parse().ok()).collect();
    println!(
        "{:12}{:>6}{:>9}  {:18}{:>10}{:>12}{:>10}",
        "study", "cells", "trials", "work", "CPU", "a trial", "memory"
    );
    for trials in if asked.is_empty() { SIZES.to_vec() } else { asked } {
        for (kind, cells) in [("comparison", 2), ("comparison", 6), ("race", 2), ("race", 6)] {
            of_study(kind, cells, trials);
        }
    }
}

/// One study: made, taken up when nothing is left to do, and reported in every form.
fn of_study(kind: &str, cells: u32, trials: u32) {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("large.stayput");
    let print = |work: &str, spent: Spent| {
        let (cpu_s, bytes) = (spent.cpu_s, spent.peak_bytes as f64 / 1e6);
        let each_us = 1e6 * cpu_s / f64::from(trials);
        println!("{kind:12}{cells:>6}{trials:>9}  {work:18}{cpu_s:>8.2} s{each_us:>9.1} us{bytes:>7.0} MB");
    };
    let this = std::env::current_exe().unwrap();
    for work in ["study", "taken up again"] {
        let mut make = Command::new(&this);
        make.args([kind, &cells.to_string(), &trials.to_string()]).arg(&journal);
        print(work, Spent::by(&mut make));
    }
    for form in ["terminal", "json", "csv", "html", "markdown", "latex"] {
        let mut report = Command::new(STAYPUT);
        report.arg("report").arg(&journal).args(["--format", form, "--out"]).arg(folder.path().join(form));
        print(&format!("report, {form}"), Spent::by(&mut report));
    }
}
