//! A profile as a workload file, which the simulator and replays take: a job for each program, or for each kind of its threads.

use crate::agreement::Inferred;
use crate::barriers::{Meetings, meetings};
use crate::dialogue::{Order, Part, dialogues};
use crate::kinds::{KindOfThreads, Work, kinds_of_threads};
use crate::profile::{EndsPercent, Profile, Program, Source};
use crate::survival::Distribution;
use std::fmt::{self, Write};

/// Programs with less of all CPU time are left out.
const LEAST_SHARE: f64 = 0.005;

/// The shortest work of a phase, in ms.
const LEAST_MS: f64 = 0.01;

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
        "Not inferred: who waits for whom within a program (each blocks by itself, as long as it was seen to, but for threads that meet at",
        "barriers; two programs that wake one another ask and answer), their nice values and classes, and what they do to caches. Threads that come and",
        "go arrive when another ends. Blocking of whatever kind is a semaphore here, since only that takes a process out of the run queue.",
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
    if let Some(us) = profile.wake_us() {
        writeln!(text, "\n[parameters]\nwake_us = {us:.3} # until an idle CPU has whom a thread wakes")?;
    }
    let kinds: Vec<Vec<KindOfThreads>> = heavy.iter().map(|program| kinds_of_threads(profile, program)).collect();
    let busiest: Vec<usize> = kinds.iter().map(|kinds| busiest(kinds)).collect();
    let mut parts: Vec<Option<Part>> = heavy.iter().map(|_| None).collect();
    let threads: Vec<u64> = kinds.iter().zip(&busiest).map(|(kinds, &at)| kinds[at].threads).collect();
    for dialogue in dialogues(&heavy, &threads) {
        let both = [dialogue.asks, dialogue.answers];
        let speaking = dialogue.parts(&heavy, both.map(|program| &kinds[program][busiest[program]]));
        both.into_iter().zip(speaking).for_each(|(program, part)| parts[program] = Some(part));
    }
    let met: Vec<Option<Meetings>> =
        heavy.iter().zip(&parts).map(|(program, part)| part.is_none().then(|| meetings(program)).flatten()).collect();
    for (number, (program, kinds)) in heavy.iter().zip(&kinds).enumerate() {
        if let Some(met) = &met[number] {
            write_meetings(program, met, text)?;
            continue;
        }
        for (at, kind) in kinds.iter().enumerate() {
            let part = parts[number].as_ref().filter(|_| at == busiest[number]);
            write_job(program, kind, part, text)?;
        }
    }
    let of_meetings = |met: &Meetings| if met.alone_ms > 0.0 { 2 } else { 1 };
    let jobs = kinds.iter().zip(&met).map(|(kinds, met)| met.as_ref().map_or(kinds.len(), of_meetings));
    let jobs: Vec<usize> = jobs.collect();
    write!(text, "\n{}", Inferred::new(profile, &heavy, &jobs))
}

fn write_job(program: &Program, kind: &KindOfThreads, part: Option<&Part>, text: &mut String) -> fmt::Result {
    let threads = kind.threads;
    writeln!(text, "\n[[jobs]]\nname = {}\nprocesses = {threads}", quoted(&program.name))?;
    if let Some(at_once) = kind.at_once.filter(|_| part.is_none()) {
        writeln!(text, "at_once = {at_once} # on average")?;
    }
    write_arrival(kind.began_ms, text)?;
    let pid = program.by_thread.first().map(|row| row.pid);
    if program.threads > 1
        && program.threads_without_row == 0
        && program.by_thread.iter().all(|row| Some(row.pid) == pid)
    {
        writeln!(text, "threads = true")?;
    }
    let EndsPercent { quantum, semaphore, synchronization, system_call, tlb_fault, other } = program.ends_percent;
    writeln!(
        text,
        "# Of all ends: quantum {quantum:.1} %, semaphore {semaphore:.1} %, yield {synchronization:.1} %, system call {system_call:.1} %, page fault \
         {tlb_fault:.1} %, other {other:.1} %."
    )?;
    writeln!(text, "\n[jobs.process]")?;
    if let Some(part) = part {
        return write_part(part, text);
    }
    let blocked = program.ends_percent.blocked();
    let blocks = kind.blocks.as_ref().filter(|_| blocked > 0.0);
    if let (Some(few), Work::Constant(ms), Some(bursts), Some(blocks)) = (kind.few, &kind.work, &kind.bursts, blocks)
        && synchronization == 0.0
    {
        // One of each length, which together are as much CPU time as was seen.
        let parts = bursts.parts(few + 1, 1.0);
        let factor = ms / parts.iter().map(|[from, to]| f64::midpoint(*from, *to)).sum::<f64>();
        let steps = parts.iter().map(|range| {
            let [from, to] = range.map(|ms| ms * factor);
            format!("    {{ work = {{ uniform = [{from:.6}, {to:.6}] }} }},\n")
        });
        let block = format!("    {{ block = {} }},\n", written(blocks));
        let steps = steps.collect::<Vec<_>>().join(&block);
        return writeln!(text, "\n[[jobs.process.phases]]\nsteps = [\n{steps}]");
    }
    match &kind.work {
        Work::Constant(ms) => {
            writeln!(text, "work_ms = {{ constant = {ms:.6} }} # CPU time of one, on average, while it was watched")?;
        }
        Work::Seen(distribution) => writeln!(text, "work_ms = {}", written(distribution))?,
    }
    if let Some(blocks) = blocks {
        writeln!(text, "block_ms = {}", written(blocks))?;
    }
    let voluntary = if blocks.is_some() { blocked } else { 0.0 } + synchronization;
    let Some(bursts) = kind.bursts.as_ref().filter(|_| voluntary > 0.0) else {
        return writeln!(
            text,
            "# It was not seen to give up its CPU by itself twice: only the quantum ends its intervals."
        );
    };
    writeln!(text, "\n[jobs.process.intervals.bursts]\nlength_ms = {}", written(bursts))?;
    let semaphore = 100.0 * (voluntary - synchronization) / voluntary;
    writeln!(text, "ends = {{ semaphore = {semaphore:.3}, synchronization = {:.3} }}", (100.0 - semaphore).max(0.0))
}

/// The jobs of a program whose threads meet at barriers: these threads, and before them what one does alone.
fn write_meetings(program: &Program, meetings: &Meetings, text: &mut String) -> fmt::Result {
    let Meetings { threads, began_ms, alone_ms, rounds, work_ms, .. } = meetings;
    let name = quoted(&program.name);
    if *alone_ms > 0.0 {
        writeln!(text, "\n[[jobs]]\nname = {name}\nprocesses = 1\n# One of its threads, before it meets the others.")?;
        write_arrival(*began_ms, text)?;
        writeln!(text, "\n[jobs.process]\nwork_ms = {{ constant = {alone_ms:.6} }}")?;
    }
    writeln!(text, "\n[[jobs]]\nname = {name}\nprocesses = {threads}\nthreads = true")?;
    write_arrival(began_ms + alone_ms, text)?;
    writeln!(text, "\n[jobs.process]\nrounds = {rounds}\n\n[[jobs.process.phases]]\nsteps = [")?;
    for (at, [from, to]) in work_ms.iter().enumerate() {
        if meetings.is_single(at) {
            writeln!(text, "    {{ single = {{ constant = {:.6} }} }},", meetings.single_ms)?;
        }
        writeln!(text, "    {{ work = {{ uniform = [{from:.6}, {to:.6}] }} }}, \"sleeping_barrier\",")?;
    }
    writeln!(text, "]")
}

fn write_arrival(ms: f64, text: &mut String) -> fmt::Result {
    if ms > 0.0 { writeln!(text, "arrival_ms = {ms:.6}") } else { Ok(()) }
}

/// What a process does in a dialogue.
fn write_part(part: &Part, text: &mut String) -> fmt::Result {
    if let Some(others) = &part.others {
        writeln!(text, "rounds = {}", part.messages / others.messages)?;
    }
    let (wait, post) = (quoted(&part.wait), quoted(&part.post));
    if let Some(opening) = part.opening {
        // A phase has to take some time.
        let step = format!("{{ work = {{ constant = {LEAST_MS} }} }}, {{ post = {post} }}");
        writeln!(text, "\n[[jobs.process.phases]]\nrepeat = {opening}\nsteps = [{step}]")?;
    }
    let wait = format!("    {{ wait = {wait} }},\n");
    let verb = if part.order == Order::WaitReply { "reply" } else { "post" };
    let post = format!("    {{ {verb} = {post} }},\n    {{ work = {} }},\n", written(&part.after));
    let work = format!("    {{ work = {} }},\n", written(&part.before));
    // What comes of a message before its work, and after it.
    let (begin, end) = if part.order == Order::PostAwait { (post + &wait, String::new()) } else { (wait, post) };
    let phase = |repeat: u64, steps: &[&str], text: &mut String| match repeat {
        0 => Ok(()),
        _ => writeln!(text, "\n[[jobs.process.phases]]\nrepeat = {repeat}\nsteps = [\n{}]", steps.concat()),
    };
    let Some(others) = &part.others else {
        return phase(part.messages, &[&begin, &work, &end], text);
    };
    // Of so many messages, the last blocks for something else before it is answered.
    let other = format!("    {{ work = {} }},\n    {{ block = {} }},\n", written(&others.work), written(&others.block));
    phase(others.messages - 1, &[&begin, &work, &end], text)?;
    phase(1, &[&begin, &other], text)?;
    phase(others.times - 1, &[&other], text)?;
    phase(1, &[&work, &end], text)
}

/// The position of the kind that gives up its CPUs most often.
fn busiest(kinds: &[KindOfThreads]) -> usize {
    let ends = kinds.iter().map(|kind| kind.voluntary_ends).enumerate();
    ends.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(at, _)| at)
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
    use crate::histogram::{BINS, Histogram, TimeBin, bin_of};
    use crate::profile::{Histograms, ThreadRow};
    use sim::{Act, Courses, ProcessIndex, WorkloadFile};

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
    fn who_blocks_a_few_times_does_so_as_often() {
        // Most of the CPU time is in one burst of ten, so that bursts drawn until it is over would be many more.
        let lengths = |ms: f64, count| TimeBin { count, ..times(&[ms]).bins[0] };
        let row = |tid: i32| ThreadRow {
            pid: tid,
            tid,
            name: "cc".into(),
            cpu_s: 3.0e-3,
            switches: 6,
            migrations: 0,
            wait_s: 0.0,
            block_s: 0.05,
            bursts: vec![lengths(0.1, 5)],
            blocks: vec![lengths(10.0, 5)],
            last_burst_ms: 2.5,
            began_s: 0.01 * f64::from(tid),
            quantum_percent: 0.0,
        };
        let program = Program {
            name: "cc".into(),
            threads: 40,
            exits: 20,
            cpu_s: 0.06,
            ends_percent: EndsPercent { system_call: 100.0, ..EndsPercent::default() },
            histograms: Histograms { burst: times(&[0.1; 100]), block: times(&[10.0; 100]), ..Histograms::default() },
            by_thread: (1..=20).map(row).collect(),
            ..Program::default()
        };
        let text = workload_file(&profile(vec![program]));
        let file = WorkloadFile::parse(&text).unwrap_or_else(|(line, why)| panic!("line {line}: {why}\n{text}"));
        let courses = Courses::new(&file.workload, 1, 0);
        let acts: Vec<Act> = (0..20).flat_map(|process| courses.acts(ProcessIndex(process))).collect();
        assert_eq!(acts.iter().filter(|act| matches!(act, Act::Block(_))).count(), 100);
        let work_ms: f64 = acts.iter().map(|act| if let Act::Work(ns) = act { *ns as f64 / 1e6 } else { 0.0 }).sum();
        assert!((work_ms / 60.0 - 1.0).abs() < 0.1, "each has the 3 ms that it had: {work_ms}");
    }

    #[test]
    fn without_a_program_there_is_no_job() {
        assert!(workload_file(&profile(Vec::new())).contains("no job"));
    }
}
