//! A profile as a workload file, which the simulator and replays take: a job for each program, or for each kind of its threads.

use crate::agreement::Inferred;
use crate::histogram::{BINS, Histogram, bin_of};
use crate::profile::{Profile, Program, Source, ThreadRow};
use crate::survival::{Distribution, product_limit};
use std::fmt::{self, Write};

/// Programs with less of all CPU time are left out.
const LEAST_SHARE: f64 = 0.005;

/// Means that are at least so many times another are of different lengths, not of the same ones that are longer.
const APART_FACTOR: f64 = 4.0;

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
        let kinds = kinds_of_threads(program, at_once(profile, program));
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
    /// Which of the program's bursts, and times of blocking, are theirs.
    bursts: Part,
    blocks: Part,
}

/// The lengths of one kind of threads, where only those of all kinds together are known, and each kind's mean.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    /// Distributed as all are, but so many times as long.
    Scaled(f64),
    /// Those from one quantile of all to another, from 0 to 1.
    Between(f64, f64),
}

impl Part {
    /// All of them.
    const WHOLE: Self = Self::Scaled(1.0);

    /// The parts of kinds with these means and numbers of lengths. Where means are far from each other, whoever has the longest mean has
    /// the longest lengths.
    fn of_kinds(kinds: &[(f64, f64)]) -> Vec<Self> {
        let seen = || kinds.iter().map(|&(mean, _)| mean).filter(|&mean| mean > 0.0);
        let (least, most) = (seen().fold(f64::INFINITY, f64::min), seen().fold(0.0, f64::max));
        let all: f64 = kinds.iter().map(|&(_, count)| count).sum();
        if most < APART_FACTOR * least {
            let mean = kinds.iter().map(|&(mean, count)| mean * count).sum::<f64>() / all;
            return kinds
                .iter()
                .map(|&(own, _)| if own > 0.0 { Self::Scaled(own / mean) } else { Self::WHOLE })
                .collect();
        }
        let is_before = |&(other, _): &(usize, &(f64, f64)), (at, mean): (usize, f64)| {
            let other_mean = kinds[other].0;
            other_mean < mean || other_mean.total_cmp(&mean).is_eq() && other < at
        };
        let part = |(at, &(mean, count)): (usize, &(f64, f64))| {
            let before: f64 =
                kinds.iter().enumerate().filter(|kind| is_before(kind, (at, mean))).map(|(_, kind)| kind.1).sum();
            Self::Between(before / all, (before + count) / all)
        };
        kinds.iter().enumerate().map(part).collect()
    }

    fn of(self, lengths: Distribution) -> Distribution {
        match self {
            Self::Scaled(factor) => lengths.scaled(factor),
            Self::Between(from, to) => lengths.between(from, to),
        }
    }
}

enum Work {
    Constant(f64),
    Seen(Distribution),
}

/// The kinds of threads of a program: one where most of them ended, or too many are known by their sums alone.
fn kinds_of_threads(program: &Program, at_once: f64) -> Vec<KindOfThreads> {
    let threads = program.threads.max(1);
    let one = |work| vec![KindOfThreads { threads, work, bursts: Part::WHOLE, blocks: Part::WHOLE }];
    let mean_ms = (program.cpu_s * 1e3 / threads as f64).max(0.001);
    let rows: Vec<&ThreadRow> = program.by_thread.iter().filter(|row| row.cpu_s > 0.0).collect();
    if rows.is_empty() || program.threads_without_row > 0 {
        return one(Work::Constant(mean_ms));
    }
    if is_passing(program, at_once) {
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
    let parts = |mean: fn(&[&ThreadRow]) -> f64| {
        // Each thread's last is among its lengths.
        let count = |rows: &[&ThreadRow]| voluntary_ends(rows) + rows.len() as f64;
        Part::of_kinds(&kinds.iter().map(|rows| (mean(rows), count(rows))).collect::<Vec<_>>())
    };
    let (bursts, blocks) = (parts(mean_burst_s), parts(mean_block_s));
    let kind = |((rows, bursts), blocks): ((Vec<&ThreadRow>, Part), Part)| KindOfThreads {
        threads: rows.len() as u64,
        work: Work::Constant(1e3 * rows.iter().map(|row| row.cpu_s).sum::<f64>() / rows.len() as f64),
        bursts,
        blocks,
    };
    kinds.into_iter().zip(bursts).zip(blocks).map(kind).collect()
}

/// How many of a program's threads there were on average, at least one: the time that they were seen to run, wait and block, over
/// that of the profile.
fn at_once(profile: &Profile, program: &Program) -> f64 {
    let histograms = &program.histograms;
    let blocked_ms = histograms.block.total_ms + histograms.cut_block.total_ms;
    let lived_ms = program.cpu_s * 1e3 + histograms.wait.total_ms + blocked_ms;
    (lived_ms / (profile.seconds * 1e3)).ceil().clamp(1.0, program.threads.max(1) as f64)
}

/// Whether its threads come and go: most of them ended while they were watched, and no more than half of them were there at once.
fn is_passing(program: &Program, at_once: f64) -> bool {
    program.exits * 2 > program.threads && at_once * 2.0 <= program.threads as f64
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
    let at_once = at_once(profile, program);
    if is_passing(program, at_once) {
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
        writeln!(text, "block_ms = {}", written(&kind.blocks.of(blocks)))?;
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
    let bursts = product_limit(&histograms.burst, &histograms.cut_burst);
    if bursts.longer_percent > 0.0 {
        writeln!(
            text,
            "# {:.1} % of bursts are longer than all that were seen to end, and go on to the thread's end.",
            bursts.longer_percent
        )?;
    }
    // Longer than any thread was seen to run.
    let bursts = kind.bursts.of(bursts.closed(2.0 * 1e3 * (profile.seconds + program.cpu_s)));
    writeln!(text, "[jobs.process.intervals.bursts]\nlength_ms = {}", written(&bursts))?;
    let semaphore = 100.0 * (voluntary - synchronization) / voluntary;
    writeln!(text, "ends = {{ semaphore = {semaphore:.3}, synchronization = {:.3} }}", (100.0 - semaphore).max(0.0))
}

/// A distribution as workload files have it.
pub(crate) fn written(distribution: &Distribution) -> String {
    let list = |numbers: &[f64]| numbers.iter().map(|number| format!("{number:.9}")).collect::<Vec<_>>().join(", ");
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
    fn kinds_that_are_far_apart_share_the_lengths_by_rank() {
        assert_eq!(Part::of_kinds(&[(2.0, 10.0), (4.0, 10.0)]), [Part::Scaled(2.0 / 3.0), Part::Scaled(4.0 / 3.0)]);
        let parts = Part::of_kinds(&[(50.0, 10.0), (0.1, 30.0), (50.0, 0.0)]);
        assert_eq!(parts, [Part::Between(0.75, 1.0), Part::Between(0.0, 0.75), Part::Between(1.0, 1.0)]);
        let all = product_limit(&times(&[0.1, 0.1, 0.1, 50.0]), &Histogram::default());
        let (long, short) = (parts[0].of(all.clone()), parts[1].of(all.clone()));
        assert!(
            (long.mean_ms() / 50.0 - 1.0).abs() < 0.1 && (short.mean_ms() / 0.1 - 1.0).abs() < 0.1,
            "{long:?} {short:?}"
        );
        // Nothing is lost, and nothing is there twice.
        let mean = (10.0 * long.mean_ms() + 30.0 * short.mean_ms()) / 40.0;
        assert!((mean / all.mean_ms() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn without_a_program_there_is_no_job() {
        assert!(workload_file(&profile(Vec::new())).contains("no job"));
    }
}
