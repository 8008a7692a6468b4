//! A profile as a workload file, which the simulator and replays take: a job for each program.

use crate::histogram::Histogram;
use crate::profile::{Profile, Program, Source};
use std::fmt::{self, Write};

/// Programs with less of all CPU time are left out.
const LEAST_SHARE: f64 = 0.005;

/// The workload file. What could not be inferred is in its comments.
pub fn workload_file(profile: &Profile) -> String {
    let mut text = String::new();
    // Writing to a string can't fail.
    let _ = write(profile, &mut text);
    text
}

fn write(profile: &Profile, text: &mut String) -> fmt::Result {
    let all_s: f64 = profile.programs.iter().map(|program| program.cpu_s).sum();
    let is_heavy = |program: &&Program| program.cpu_s > 0.0 && program.cpu_s >= LEAST_SHARE * all_s;
    let about = format!("as profiled for {:.1} s on {} CPUs, Linux {}", profile.seconds, profile.cpus, profile.kernel);
    writeln!(text, "name = {}\nabout = {}\n", quoted(&profile.target), quoted(&about))?;
    for comment in [
        "Not inferred: who waits for whom (each blocks by itself, as long as it was seen to), when threads arrived (all at the start, or when",
        "another ends), their nice values and classes, and what they do to caches. Blocking of whatever kind is a semaphore here, since only",
        "that takes a process out of the run queue.",
    ] {
        writeln!(text, "# {comment}")?;
    }
    if profile.source == Source::Records {
        writeln!(text, "# From records: block_ms contains the waits for a CPU after it, and sched_yield is left out.")?;
    }
    let light: Vec<&Program> =
        profile.programs.iter().filter(|program| program.cpu_s > 0.0 && !is_heavy(program)).collect();
    if !light.is_empty() {
        let light_s: f64 = light.iter().map(|program| program.cpu_s).sum();
        writeln!(
            text,
            "# Left out: {} programs with {:.1} % of the CPU time in all.",
            light.len(),
            100.0 * light_s / all_s
        )?;
    }
    if !profile.programs.iter().any(|program| is_heavy(&program)) {
        writeln!(text, "# No program had a CPU, so that there is no job, and no simulator takes this file.")?;
    }
    profile.programs.iter().filter(is_heavy).try_for_each(|program| write_job(profile, program, text))
}

fn write_job(profile: &Profile, program: &Program, text: &mut String) -> fmt::Result {
    let histograms = &program.histograms;
    let threads = program.threads.max(1);
    writeln!(text, "\n[[jobs]]\nname = {}\nprocesses = {threads}", quoted(&program.name))?;
    // Time that its threads were seen to run, wait and block, over the time of the profile: how many there were on average.
    let lived_ms = program.cpu_s * 1e3 + histograms.wait.total_ms + histograms.block.total_ms;
    let at_once = (lived_ms / (profile.seconds * 1e3)).ceil().clamp(1.0, threads as f64);
    if program.exits * 2 > threads && at_once < threads as f64 {
        writeln!(text, "at_once = {at_once} # on average, those that blocked at the end not counted")?;
    }
    let pid = program.by_thread.first().map(|row| row.pid);
    if threads > 1 && program.threads_without_row == 0 && program.by_thread.iter().all(|row| Some(row.pid) == pid) {
        writeln!(text, "threads = true")?;
    }
    let ends = program.ends_percent;
    let blocked = ends.semaphore + ends.system_call + ends.tlb_fault + ends.other;
    let can_block = blocked > 0.0 && histograms.block.count > 0;
    writeln!(text, "\n[jobs.process]")?;
    writeln!(
        text,
        "work_ms = {{ constant = {:.6} }} # CPU time of one, on average, while it was watched",
        (program.cpu_s * 1e3 / threads as f64).max(0.001)
    )?;
    if can_block {
        writeln!(text, "block_ms = {}", distribution(&histograms.block))?;
    }
    let synchronization = ends.synchronization;
    let voluntary = if can_block { blocked } else { 0.0 } + synchronization;
    if voluntary <= 0.0 || histograms.burst.count == 0 {
        return writeln!(
            text,
            "# It was not seen to give up its CPU by itself twice: only the quantum ends its intervals."
        );
    }
    writeln!(
        text,
        "\n# Of all ends: quantum {:.1} %, semaphore {:.1} %, yield {:.1} %, system call {:.1} %, page fault {:.1} %, other {:.1} %.",
        ends.quantum, ends.semaphore, synchronization, ends.system_call, ends.tlb_fault, ends.other
    )?;
    writeln!(text, "[jobs.process.intervals.bursts]\nlength_ms = {}", distribution(&histograms.burst))?;
    let semaphore = 100.0 * (voluntary - synchronization) / voluntary;
    writeln!(text, "ends = {{ semaphore = {semaphore:.3}, synchronization = {:.3} }}", (100.0 - semaphore).max(0.0))
}

/// An empirical distribution: bins side by side, those between two that hold any included.
fn distribution(times: &Histogram) -> String {
    let mut edges_ms: Vec<f64> = Vec::new();
    let mut percent = Vec::new();
    for bin in &times.bins {
        let (from_ms, to_ms) = (bin.from_us / 1e3, bin.to_us / 1e3);
        match edges_ms.last() {
            Some(&last) if last < from_ms => {
                percent.push(0.0);
                edges_ms.push(from_ms);
            }
            Some(_) => {}
            None => edges_ms.push(from_ms),
        }
        percent.push(100.0 * bin.count as f64 / times.count as f64);
        edges_ms.push(to_ms);
    }
    let list = |numbers: &[f64], digits: usize| {
        numbers.iter().map(|number| format!("{number:.digits$}")).collect::<Vec<_>>().join(", ")
    };
    format!("{{ histogram = {{ edges_ms = [{}], percent = [{}] }} }}", list(&edges_ms, 6), list(&percent, 6))
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::{BINS, bin_of};
    use crate::profile::{EndsPercent, Histograms};
    use sim::WorkloadFile;

    fn times(ms: &[f64]) -> Histogram {
        let mut counts = [0; BINS];
        let ns = ms.iter().map(|ms| (ms * 1e6) as u64);
        ns.clone().for_each(|ns| counts[bin_of(ns)] += 1);
        Histogram::from_counts(&counts, ns.clone().sum(), ns.max().unwrap_or(0))
    }

    fn profile(programs: Vec<Program>) -> Profile {
        Profile {
            target: "make \"all\"\n".into(),
            source: Source::Bpf,
            kernel: "6.18".into(),
            cpus: 2,
            seconds: 1.0,
            lost_events: 0,
            programs,
            trace: None,
            untold: Vec::new(),
        }
    }

    #[test]
    fn the_simulator_reads_what_was_inferred() {
        let program = Program {
            name: "cc1".into(),
            threads: 10,
            exits: 10,
            cpu_s: 0.5,
            ends_percent: EndsPercent { quantum: 40.0, semaphore: 30.0, system_call: 30.0, ..EndsPercent::default() },
            histograms: Histograms {
                burst: times(&[1.0, 1.0, 30.0]),
                block: times(&[5.0, 0.0]),
                ..Histograms::default()
            },
            ..Program::default()
        };
        let busy = Program { name: "spin".into(), threads: 1, cpu_s: 0.4, ..Program::default() };
        let idle = Program { name: "idle".into(), threads: 1, ..Program::default() };
        let text = workload_file(&profile(vec![program, busy, idle]));
        let file = WorkloadFile::parse(&text).unwrap_or_else(|(line, why)| panic!("line {line}: {why}\n{text}"));
        let [cc1, spin] = &file.workload.jobs[..] else { panic!("{:?}", file.workload) };
        assert_eq!((cc1.name.as_str(), cc1.processes, cc1.at_once), ("cc1", 10, Some(1)));
        assert!(cc1.process.block_ms.is_some() && cc1.process.intervals.is_some());
        assert!(spin.process.intervals.is_none() && spin.process.work_ms.is_some());
    }

    #[test]
    fn without_a_program_there_is_no_job() {
        assert!(workload_file(&profile(Vec::new())).contains("no job"));
    }
}
