//! Small experiments, each with one question about what a kernel's own scheduler decides: what a kernel answered, and what the model of it
//! answers.

use super::figures;
use machine::Machine;
use serde::{Deserialize, Serialize};
use sim::{
    CpuIndex, End, Experiment, Interval, KernelParameters, NoMemory, Parameters, Policy, ProcessIndex, Release,
    WorkloadFile,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

/// What is looked at: all stays of a run, and the machine.
pub struct Seen<'a> {
    pub machine: &'a Machine,
    pub workload: &'a sim::Workload,
    /// By process, then by time.
    pub stays: Vec<Interval>,
}

/// One question. It is the `about` of the workload of this name.
pub struct Question {
    pub name: &'static str,
    /// What `vm::Topology` calls the machine.
    pub topology: &'static str,
    answer: fn(&Seen<'_>) -> f64,
    /// Answers that differ by less are equal; in the question's unit.
    resolution: f64,
    /// Why the model is known to answer otherwise.
    pub differs: Option<&'static str>,
}

const fn question(
    name: &'static str,
    topology: &'static str,
    answer: fn(&Seen<'_>) -> f64,
    resolution: f64,
) -> Question {
    Question { name, topology, answer, resolution, differs: None }
}

pub const QUESTIONS: [Question; 23] = [
    question("slices", "1x1", |seen| seen.mean_stay_ms("busy"), 0.05),
    question("weights", "1x1", |seen| seen.cpu_ms("usual") / seen.cpu_ms("nice"), 0.1),
    question("long-slice", "1x1", |seen| seen.mean_stay_ms("long"), 0.1),
    question("short-slice", "1x1", |seen| seen.mean_late_ms("short"), 0.1),
    question("yields", "1x1", |seen| seen.cpu_ms("yields") / (seen.cpu_ms("yields") + seen.cpu_ms("busy")), 0.02),
    question("wakes-beside-busy", "1x1", |seen| seen.mean_late_ms("sleeper"), 0.1),
    question("wakes-as-batch", "1x1", |seen| seen.mean_late_ms("sleeper"), 0.1),
    question("wakes-beside-idle-class", "1x1", |seen| seen.mean_late_ms("sleeper"), 0.1),
    question("uses-too-much", "1x1", |seen| seen.mean_late_ms("sleeper"), 0.1),
    question("group-share", "1x1", |seen| seen.cpu_ms("grouped") / seen.cpu_ms_of_all(), 0.02),
    question("group-nested", "1x1", |seen| seen.cpu_ms("less") / seen.cpu_ms_of_all(), 0.02),
    question("group-slices", "1x1", |seen| seen.mean_stay_ms("busy"), 0.05),
    question("group-wakes", "1x1", |seen| seen.mean_late_ms("sleeper"), 0.1),
    question("group-within-wakes", "1x1", |seen| seen.mean_late_ms("sleeper"), 0.1),
    question("group-parts", "1x4", |seen| seen.cpu_ms("one") / seen.cpu_ms_of_all() * 4.0, 0.05),
    question("wakes-at-home", "1x4", |seen| seen.wakes_at_home("sleeper"), 0.02),
    // To end takes a process some of that.
    question("freed-cpu", "1x4", |seen| seen.longest_idle_ms("ends"), 0.3),
    question("least-weight", "1x4", |seen| seen.begin_beside("late", "heavy"), 0.5),
    Question {
        differs: Some(
            "whoever begins in a replay has slept until then, and the kernel finds time left on a CPU where only such processes run",
        ),
        ..question(
            "beside-idle-class",
            "1x4",
            |seen| 3.0 - seen.begin_beside("late", "one") - seen.begin_together("late"),
            0.5,
        )
    },
    Question {
        differs: Some("the model moves one at every second look, the kernel sooner now and then; why is not known"),
        ..question("one-too-many", "1x8", |seen| seen.mean_time_between_moves_ms(), 5.0)
    },
    Question {
        differs: Some("in a replay each begins from where it slept, on either node; in the model all begin from one"),
        ..question("own-node", "nodes", |seen| seen.lead_of_a_node(), 0.5)
    },
    question("own-core", "dies", |seen| seen.sharing_a_core(), 0.5),
    question("active-push", "dies", |seen| seen.first_move_after_exit_ms(), 4.0),
];

/// How long each is looked at, in s, and how often.
pub const SECONDS: f64 = 3.0;
pub const REPLICATES: u32 = 3;

/// Processes have arrived by then, and what they do is settled where the beginning is not the question: in ns.
const SETTLED_NS: u64 = 1_000_000_000;

/// From a question's name to the answers of each replicate.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Answers {
    /// The kernel's release.
    pub kernel: String,
    pub answers: BTreeMap<String, Vec<f64>>,
}

impl Seen<'_> {
    fn of(&self, job: &str) -> BTreeSet<ProcessIndex> {
        let jobs = self.workload.job_of_processes().zip(0..).filter(|&(at, _)| self.workload.jobs[at].name == job);
        jobs.map(|(_, process)| ProcessIndex(process)).collect()
    }

    fn stays_of(&self, job: &str) -> impl Iterator<Item = &Interval> {
        let processes = self.of(job);
        self.stays.iter().filter(move |stay| processes.contains(&stay.process))
    }

    /// Pairs of stays of one process, one after the other.
    fn steps(&self) -> impl Iterator<Item = (&Interval, &Interval)> {
        let pairs = self.stays.iter().zip(self.stays.iter().skip(1));
        pairs.filter(|(before, after)| before.process == after.process)
    }

    fn cpu_ms(&self, job: &str) -> f64 {
        self.stays_of(job).map(|stay| ms(stay.until_ns - stay.from_ns)).sum()
    }

    fn cpu_ms_of_all(&self) -> f64 {
        self.workload.jobs.iter().map(|job| self.cpu_ms(&job.name)).sum()
    }

    /// From coming to a CPU to leaving it for another process, or for sleep.
    fn mean_stay_ms(&self, job: &str) -> f64 {
        let mut stays: Vec<(u64, u64)> = Vec::new();
        for stay in self.stays_of(job) {
            match stays.last_mut() {
                Some(last) if last.1 == stay.from_ns => last.1 = stay.until_ns,
                _ => stays.push((stay.from_ns, stay.until_ns)),
            }
        }
        // The first and the last are cut off by the beginning and the end.
        mean(stays.iter().skip(2).rev().skip(2).map(|&(from, until)| ms(until - from)))
    }

    /// From a wake-up to the CPU.
    fn mean_late_ms(&self, job: &str) -> f64 {
        let processes = self.of(job);
        let wakes = self.steps().filter(|(before, _)| before.end == End::Semaphore);
        let wakes = wakes.filter(|(_, after)| processes.contains(&after.process));
        mean(wakes.map(|(_, after)| ms(after.from_ns - after.runnable_ns)))
    }

    fn wakes_at_home(&self, job: &str) -> f64 {
        let processes = self.of(job);
        let wakes = self.steps().filter(|(before, after)| {
            before.end == End::Semaphore && processes.contains(&after.process) && before.from_ns > SETTLED_NS / 4
        });
        mean(wakes.map(|(before, after)| f64::from(before.cpu == after.cpu)))
    }

    /// Of the CPUs on which a process of the job ended, the longest time until another process ran there.
    fn longest_idle_ms(&self, job: &str) -> f64 {
        let processes = self.of(job);
        let last = |process: &ProcessIndex| self.stays.iter().rfind(|stay| stay.process == *process);
        let idle_ms = |ended: &Interval| {
            let next = self.stays.iter().filter(|stay| stay.cpu == ended.cpu && stay.until_ns > ended.until_ns);
            let next_ns = next.map(|stay| stay.from_ns.max(ended.until_ns)).min();
            ms(next_ns.unwrap_or(u64::MAX / 2) - ended.until_ns)
        };
        processes.iter().filter_map(last).map(idle_ms).fold(0.0, f64::max)
    }

    /// Where and when each process of a job began.
    fn beginnings(&self, job: &str) -> Vec<(CpuIndex, u64)> {
        let first = |process: ProcessIndex| self.stays.iter().find(|stay| stay.process == process);
        self.of(job).into_iter().filter_map(first).map(|stay| (stay.cpu, stay.from_ns)).collect()
    }

    /// How many processes of a job begin on the CPU on which one of another job then is.
    fn begin_beside(&self, job: &str, other: &str) -> f64 {
        let is_there = |&(cpu, at_ns): &(CpuIndex, u64)| {
            let last = self.stays_of(other).take_while(|stay| stay.from_ns <= at_ns).last();
            last.is_some_and(|stay| stay.cpu == cpu)
        };
        self.beginnings(job).iter().filter(|beginning| is_there(beginning)).count() as f64
    }

    /// How many processes of a job begin where one of the same job began.
    fn begin_together(&self, job: &str) -> f64 {
        let beginnings = self.beginnings(job);
        let cpus: BTreeSet<CpuIndex> = beginnings.iter().map(|&(cpu, _)| cpu).collect();
        (beginnings.len() - cpus.len()) as f64
    }

    fn mean_time_between_moves_ms(&self) -> f64 {
        let moves = self.steps().filter(|(before, after)| before.cpu != after.cpu && after.from_ns > SETTLED_NS);
        (SECONDS * 1e3 - ms(SETTLED_NS)) / moves.count() as f64
    }

    /// The CPU on which each process is at a time.
    fn places(&self, at_ns: u64) -> Vec<CpuIndex> {
        let count = self.stays.last().map_or(0, |stay| stay.process.0 + 1);
        let of = |process| {
            let is_last = |stay: &&Interval| stay.process.0 == process && stay.from_ns <= at_ns;
            self.stays.iter().rfind(is_last).map(|stay| stay.cpu)
        };
        (0..count).filter_map(of).collect()
    }

    fn count_by(&self, level: machine::Level, at_ns: u64) -> Vec<u32> {
        let cpus: Vec<machine::CpuId> = self.machine.usable().collect();
        let mut parts: Vec<(machine::CpuId, u32)> = Vec::new();
        for place in self.places(at_ns) {
            let cpu = cpus[place.0 as usize];
            match parts
                .iter_mut()
                .find(|(first, _)| self.machine.sharing(*first, cpu).is_some_and(|shared| shared <= level))
            {
                Some((_, count)) => *count += 1,
                None => parts.push((cpu, 1)),
            }
        }
        parts.into_iter().map(|(_, count)| count).collect()
    }

    fn lead_of_a_node(&self) -> f64 {
        let mut counts = self.count_by(machine::Level::Package, SETTLED_NS / 2);
        counts.resize(2, 0);
        f64::from(counts[0].abs_diff(counts[1]))
    }

    fn sharing_a_core(&self) -> f64 {
        let counts = self.count_by(machine::Level::Core, SETTLED_NS / 2);
        f64::from(counts.into_iter().map(|count| count - 1).sum::<u32>())
    }

    /// From the end of a process to the first move of another.
    fn first_move_after_exit_ms(&self) -> f64 {
        let exits = self.stays.iter().filter(|stay| stay.end == End::Exit);
        let Some(exit_ns) = exits.map(|stay| stay.until_ns).min() else { return f64::NAN };
        let moves = self.steps().filter(|(before, after)| before.cpu != after.cpu && after.from_ns >= exit_ns);
        let first_ns = moves.map(|(_, after)| after.from_ns).min();
        first_ns.map_or(f64::INFINITY, |first_ns| ms(first_ns - exit_ns))
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count)
}

impl Question {
    /// Where the workload is.
    pub fn path(&self) -> PathBuf {
        figures::measured_path().with_file_name("experiments").join(format!("{}.toml", self.name))
    }

    fn workload(&self) -> WorkloadFile {
        let text = std::fs::read_to_string(self.path()).unwrap();
        WorkloadFile::parse(&text).unwrap_or_else(|(line, what)| panic!("{}:{line}: {what}", self.name))
    }

    /// The machine that it is asked on.
    pub fn machine(&self) -> Machine {
        self.topology.parse::<vm::Topology>().unwrap().machine().unwrap()
    }

    /// The answer of a run with these stays, in any order.
    pub fn answer_of(&self, machine: &Machine, mut stays: Vec<Interval>) -> f64 {
        stays.sort_by_key(|stay| (stay.process, stay.from_ns));
        let file = self.workload();
        (self.answer)(&Seen { machine, workload: &file.workload, stays })
    }

    /// What the model answers, in each replicate.
    fn modelled(&self, kernel: &KernelParameters) -> Vec<f64> {
        let (machine, file) = (self.machine(), self.workload());
        let parameters = Parameters {
            horizon_ms: Some(SECONDS * 1e3),
            kernel: Some(kernel.clone()),
            // A timer ends slices to the moment.
            jitter_us: 1.0,
            ..file.parameters.clone()
        };
        let experiment = Experiment::new(&machine, &file.workload, &parameters).unwrap();
        let replicate = |replicate| {
            let mut stays = Vec::new();
            experiment.run(Policy::Eevdf, replicate, NoMemory, |stay| stays.push(stay));
            self.answer_of(&machine, stays)
        };
        (0..REPLICATES).map(replicate).collect()
    }
}

/// Where the kernel's answers are kept.
pub fn answers_path() -> PathBuf {
    figures::measured_path().with_file_name("experiments.json")
}

/// Each question with the kernel's answer and the model's; the names of those where that isn't as it is known.
pub fn compared(answers: &Answers) -> (String, Vec<&'static str>) {
    let kernel = KernelParameters::of(Release::modelling(&answers.kernel).unwrap());
    let (mut text, mut unexpected) = (format!("{:>10} {:>10}\n", "kernel", "model"), Vec::new());
    for question in &QUESTIONS {
        let (there, here) = (&answers.answers[question.name], question.modelled(&kernel));
        let of = |all: &[f64]| {
            let range =
                all.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], &x| [low.min(x), high.max(x)]);
            (mean(all.iter().copied()), range)
        };
        let ((there, [there_low, there_high]), (here, [here_low, here_high])) = (of(there), of(&here));
        let agree = (there - here).abs() <= question.resolution
            || (0.8..=1.25).contains(&(there / here))
            || (there_low <= here_high && here_low <= there_high);
        if agree != question.differs.is_none() {
            unexpected.push(question.name);
        }
        let _ = write!(text, "{there:10.3} {here:10.3}  {}: {}", question.name, question.workload().about);
        let _ = match question.differs {
            Some(why) => writeln!(text, " It differs: {why}."),
            None => writeln!(text),
        };
    }
    (text, unexpected)
}
