//! A profile as a workload file, which the simulator and replays take: a job for each program, or for each kind of its threads.

use crate::agreement::Inferred;
use crate::histogram::{BINS, Histogram, bin_of};
use crate::profile::{Profile, Program, Source, ThreadRow};
use crate::survival::{Distribution, product_limit};
use std::fmt::{self, Write};

/// Programs with less of all CPU time are left out.
const LEAST_SHARE: f64 = 0.005;

/// Threads of one job have CPU times within this factor, where threads of a program that live on differ.
const ALIKE_FACTOR: f64 = 2.0;

/// The workload file. What could not be inferred is in its comments, and what it was inferred from in its table `profile`.
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
    let heavy: Vec<&Program> = profile.programs.iter().filter(is_heavy).collect();
    if heavy.is_empty() {
        return writeln!(text, "# No program had a CPU, so that there is no job, and no simulator takes this file.");
    }
    let mut jobs = Vec::new();
    for program in &heavy {
        let kinds = kinds_of_threads(program);
        kinds.iter().try_for_each(|kind| write_job(profile, program, kind, text))?;
        jobs.push(kinds.len());
    }
    write!(text, "\n{}", Inferred::new(profile, &heavy, &jobs))
}

/// Threads of a program that do about the same, and how they differ from all of it.
struct KindOfThreads {
    threads: u64,
    /// CPU time of one, in ms.
    work: Work,
    /// How much longer bursts, and times of blocking, are than the program's, on average.
    burst_factor: f64,
    block_factor: f64,
}

enum Work {
    Constant(f64),
    Seen(Distribution),
}

/// The kinds of threads of a program: one where most of them ended, or too many are known by their sums alone.
fn kinds_of_threads(program: &Program) -> Vec<KindOfThreads> {
    let threads = program.threads.max(1);
    let one = |work| vec![KindOfThreads { threads, work, burst_factor: 1.0, block_factor: 1.0 }];
    let mean_ms = (program.cpu_s * 1e3 / threads as f64).max(0.001);
    let rows: Vec<&ThreadRow> = program.by_thread.iter().filter(|row| row.cpu_s > 0.0).collect();
    if rows.is_empty() || program.threads_without_row > 0 {
        return one(Work::Constant(mean_ms));
    }
    if is_passing(program) {
        // One that executed another program is counted twice, and its time is only in the last.
        let mut counts = [0; BINS];
        let ns = rows.iter().map(|row| (row.cpu_s * 1e9) as u64);
        ns.clone().for_each(|ns| counts[bin_of(ns)] += 1);
        let seen = Histogram::from_counts(&counts, ns.clone().sum(), ns.max().unwrap_or(0));
        let seen = product_limit(&seen, &Histogram::default());
        // What is drawn has the mean that was seen, so that there is as much work in all.
        let factor = mean_ms / seen.mean_ms();
        return one(Work::Seen(seen.scaled(factor)));
    }
    // Rows come with the most CPU time first.
    let mut kinds: Vec<Vec<&ThreadRow>> = Vec::new();
    for row in rows {
        match kinds.last_mut() {
            Some(kind) if kind[0].cpu_s <= ALIKE_FACTOR * row.cpu_s => kind.push(row),
            _ => kinds.push(vec![row]),
        }
    }
    let all: Vec<&ThreadRow> = kinds.iter().flatten().copied().collect();
    let (burst_s, block_s) = (mean_burst_s(&all), mean_block_s(&all));
    let factor = |own: f64, all: f64| if own > 0.0 && all > 0.0 { own / all } else { 1.0 };
    let kind = |rows: Vec<&ThreadRow>| KindOfThreads {
        threads: rows.len() as u64,
        work: Work::Constant(1e3 * rows.iter().map(|row| row.cpu_s).sum::<f64>() / rows.len() as f64),
        burst_factor: factor(mean_burst_s(&rows), burst_s),
        block_factor: factor(mean_block_s(&rows), block_s),
    };
    kinds.into_iter().map(kind).collect()
}

/// Whether most of its threads ended while they were watched.
fn is_passing(program: &Program) -> bool {
    program.exits * 2 > program.threads
}

/// How often they gave up their CPU by themselves, at least once.
fn voluntary_ends(rows: &[&ThreadRow]) -> f64 {
    rows.iter().map(|row| row.switches as f64 * (1.0 - row.quantum_percent / 100.0)).sum::<f64>().max(1.0)
}

fn mean_burst_s(rows: &[&ThreadRow]) -> f64 {
    rows.iter().map(|row| row.cpu_s).sum::<f64>() / voluntary_ends(rows)
}

fn mean_block_s(rows: &[&ThreadRow]) -> f64 {
    rows.iter().map(|row| row.block_s).sum::<f64>() / voluntary_ends(rows)
}

fn write_job(profile: &Profile, program: &Program, kind: &KindOfThreads, text: &mut String) -> fmt::Result {
    let histograms = &program.histograms;
    let threads = kind.threads;
    writeln!(text, "\n[[jobs]]\nname = {}\nprocesses = {threads}", quoted(&program.name))?;
    // Time that its threads were seen to run, wait and block, over the time of the profile: how many there were on average.
    let blocked_ms = histograms.block.total_ms + histograms.cut_block.total_ms;
    let lived_ms = program.cpu_s * 1e3 + histograms.wait.total_ms + blocked_ms;
    let at_once = (lived_ms / (profile.seconds * 1e3)).ceil().clamp(1.0, threads as f64);
    if is_passing(program) && at_once < threads as f64 {
        writeln!(text, "at_once = {at_once} # on average")?;
    }
    let pid = program.by_thread.first().map(|row| row.pid);
    if program.threads > 1
        && program.threads_without_row == 0
        && program.by_thread.iter().all(|row| Some(row.pid) == pid)
    {
        writeln!(text, "threads = true")?;
    }
    let ends = program.ends_percent;
    let blocked = ends.blocked();
    let can_block = blocked > 0.0 && histograms.block.count > 0;
    writeln!(text, "\n[jobs.process]")?;
    match &kind.work {
        Work::Constant(ms) => {
            writeln!(text, "work_ms = {{ constant = {ms:.6} }} # CPU time of one, on average, while it was watched")?;
        }
        Work::Seen(distribution) => writeln!(text, "work_ms = {}", written(distribution))?,
    }
    if can_block {
        let blocks = product_limit(&histograms.block, &histograms.cut_block).closed(histograms.cut_block.longest_ms);
        writeln!(text, "block_ms = {}", written(&blocks.scaled(kind.block_factor)))?;
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
    let bursts = product_limit(&histograms.burst, &histograms.cut_burst).scaled(kind.burst_factor);
    if bursts.longer_percent > 0.0 {
        writeln!(
            text,
            "# {:.1} % of bursts are longer than all that were seen to end, and go on to the thread's end.",
            bursts.longer_percent
        )?;
    }
    // Longer than any thread was seen to run.
    let bursts = bursts.closed(2.0 * 1e3 * (profile.seconds + program.cpu_s));
    writeln!(text, "[jobs.process.intervals.bursts]\nlength_ms = {}", written(&bursts))?;
    let semaphore = 100.0 * (voluntary - synchronization) / voluntary;
    writeln!(text, "ends = {{ semaphore = {semaphore:.3}, synchronization = {:.3} }}", (100.0 - semaphore).max(0.0))
}

/// A distribution as workload files have it.
pub(crate) fn written(distribution: &Distribution) -> String {
    let list = |numbers: &[f64]| numbers.iter().map(|number| format!("{number:.6}")).collect::<Vec<_>>().join(", ");
    let Distribution { edges_ms, percent, .. } = distribution;
    format!("{{ histogram = {{ edges_ms = [{}], percent = [{}] }} }}", list(edges_ms), list(percent))
}

/// A text as TOML has it.
pub(crate) fn quoted(text: &str) -> String {
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
            kernel: "6.18".into(),
            cpus: 2,
            seconds: 1.0,
            programs,
            ..Profile::default()
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
