//! How far a workload file gives back the profile that it was inferred from: both worlds, the simulator and a kernel in which it is
//! replayed, measured by the profile's own definitions.

use crate::histogram::{Histogram, TimeBin};
use crate::intf::Times;
use crate::potential::touched_in_slice;
use crate::profile::{EndsPercent, Others, Profile, Program, ReloadUs};
use crate::survival::product_limit;
use crate::workload::{quoted, written};
use serde::Deserialize;
use sim::toml_text::{self, Mistake};
use sim::{
    CpuIndex, Distribution, End, Ends, Experiment, Interval, Intervals, Job, NoMemory, Policy, Process, Workload,
};
use std::fmt;

/// What a workload file was inferred from: its table `profile`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Inferred {
    /// The kernel's release.
    pub kernel: String,
    /// How many CPUs were online.
    pub cpus: u32,
    /// For how long they were watched, in seconds.
    pub seconds: f64,
    /// What those did that weren't watched.
    #[serde(default)]
    pub others: Others,
    /// The command that was profiled, where one was.
    #[serde(default)]
    pub command: Vec<String>,
    /// The programs, in the order of the file's jobs.
    pub programs: Vec<InferredProgram>,
}

/// A program that was profiled.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct InferredProgram {
    /// Its name.
    pub name: String,
    /// How many of the file's jobs it is.
    pub jobs: usize,
    /// How many dispatch intervals there were of it.
    pub dispatch_intervals: u64,
    /// How long these were.
    pub dispatch_interval_ms: Distribution,
    /// What ended them.
    pub ends_percent: EndsPercent,
    /// Its CPU time, in s.
    #[serde(default)]
    pub cpu_s: f64,
    /// How often threads that weren't watched, those of the kernel's among them, preempted its own.
    #[serde(default)]
    pub preemptions_by_others: u64,
    /// How long it waited in the run queue; absent where that can't be told.
    #[serde(default)]
    pub wait_ms: Option<Distribution>,
    /// Its reload, as measured; absent where it wasn't.
    pub reload_us: Option<ReloadUs>,
    /// What it touches, by whole pages, in as long a time as nine of ten of its effective slices don't exceed, in KiB; absent where that
    /// wasn't looked at.
    #[serde(default)]
    pub touched_kib: Option<f64>,
    /// In how much CPU time it was seen to touch as much, at most, in ms.
    #[serde(default)]
    pub touched_ms: Option<f64>,
}

/// One program as it was measured and as a workload file gives it back, in one world.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramAgreement {
    /// Its name.
    pub name: String,
    /// How many dispatch intervals were measured, and given back.
    pub intervals: [u64; 2],
    /// The largest difference of the two distributions of dispatch intervals (Kolmogorov's distance), from 0 to 1.
    pub distance: f64,
    /// Share of intervals that the quantum or a preemption ended, in percent.
    pub quantum_percent: [f64; 2],
    /// Share of those after which it was blocked, in percent.
    pub blocked_percent: [f64; 2],
    /// Share of those that a yield ended, in percent.
    pub yield_percent: [f64; 2],
    /// Its waits in the run queue, where they can be told.
    pub waits: Option<WaitAgreement>,
    /// Its intervals as they were measured, and as they are given back.
    lengths: [Cdf; 2],
    /// Whether it is judged by itself, and not only among all: it has [a share worth it](LEAST_JUDGED_SHARE) of the CPU time.
    pub is_judged: bool,
}

/// Waits in the run queue as they were measured and as they are given back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaitAgreement {
    /// Their medians, in ms.
    pub median_ms: [f64; 2],
    /// The largest difference of the two distributions, from [`LEAST_WAIT_MS`] on, from 0 to 1.
    pub distance: f64,
}

/// Waits are told apart from this length on, in ms: what is shorter is the way from a wake-up to the CPU, which takes no time in a
/// simulation.
pub const LEAST_WAIT_MS: f64 = 0.1;

/// A distance up to this is agreement.
pub const MOST_DISTANCE: f64 = 0.10;

/// The slice of those that weren't watched, so short that they preempt who runs.
const OTHERS_SLICE_MS: f64 = 0.1;

/// Programs with less of the CPU time are compared, but judged only among all.
pub const LEAST_JUDGED_SHARE: f64 = 0.05;

/// A difference of shares up to this is agreement, in percentage points.
pub const MOST_POINTS: f64 = 3.0;

impl ProgramAgreement {
    /// What all programs together are called.
    pub const ALL: &str = "all";

    /// The largest difference of a share of what ends intervals, in percentage points.
    pub fn points(&self) -> f64 {
        [self.quantum_percent, self.blocked_percent, self.yield_percent]
            .map(|[measured, given_back]| (measured - given_back).abs())
            .into_iter()
            .fold(0.0, f64::max)
    }

    /// Shares of intervals between each two neighbours of `edges_ms`, in percent: measured, and given back.
    pub fn percent_between(&self, edges_ms: &[f64]) -> [Vec<f64>; 2] {
        let within = |cdf: &Cdf, edges: &[f64]| 100.0 * (share_below(cdf, edges[1]) - share_below(cdf, edges[0]));
        self.lengths.each_ref().map(|cdf| edges_ms.windows(2).map(|edges| within(cdf, edges)).collect())
    }

    /// Whether intervals and their ends are given back.
    pub fn agrees(&self) -> bool {
        self.distance <= MOST_DISTANCE && self.points() <= MOST_POINTS
    }
}

impl WaitAgreement {
    /// Whether waits are given back.
    pub fn agrees(&self) -> bool {
        self.distance <= MOST_DISTANCE
    }
}

impl Inferred {
    /// What `programs` of a profile were found to do, of which each is so many `jobs`.
    pub(crate) fn new(profile: &Profile, programs: &[&Program], jobs: &[usize]) -> Self {
        let programs = programs.iter().zip(jobs).map(|(program, &jobs)| {
            let touched = program.working_set.as_ref().and_then(|set| touched_in_slice(program, set));
            let intervals = &program.histograms.dispatch_interval;
            let waits = &program.histograms.wait;
            InferredProgram {
                name: program.name.clone(),
                jobs,
                dispatch_intervals: intervals.count,
                dispatch_interval_ms: shares(intervals),
                ends_percent: program.ends_percent,
                cpu_s: program.cpu_s,
                preemptions_by_others: program.intervening.preemptions_by_others,
                wait_ms: (waits.count > 0).then(|| shares(waits)),
                reload_us: program.reload_us,
                touched_kib: touched.map(|touched| touched.kib),
                touched_ms: touched.map(|touched| touched.seen_in_ms),
            }
        });
        let Profile { kernel, cpus, seconds, command, .. } = profile;
        Self {
            kernel: kernel.clone(),
            cpus: *cpus,
            seconds: *seconds,
            others: profile.others.unwrap_or_default(),
            command: command.clone(),
            programs: programs.collect(),
        }
    }

    /// The table `profile` of a workload file; none where it has none.
    ///
    /// # Errors
    /// The line, from 1, and what is wrong there.
    pub fn parse(text: &str) -> Result<Option<Self>, Mistake> {
        #[derive(Deserialize)]
        struct File {
            profile: Option<Inferred>,
        }
        let inferred = toml_text::parse::<File>(text)?.profile;
        let mistake = |what: &str| Err((toml_text::line_at(text, "profile"), format!("`profile`: {what}")));
        match &inferred {
            Some(inferred) if !(inferred.seconds > 0.0 && inferred.seconds <= 1e6) => {
                mistake("`seconds` must be above 0 and at most 1000000")
            }
            Some(Self { others, .. }) if !(others.cpu_s >= 0.0 && (0.0..=100.0).contains(&others.at_ticks_percent)) => {
                mistake("`others` must have a `cpu_s` that isn't negative, and `at_ticks_percent` from 0 to 100")
            }
            Some(inferred)
                if inferred
                    .programs
                    .iter()
                    .any(|program| program.touched_kib.is_some_and(|kib| kib.is_nan() || kib < 0.0)) =>
            {
                mistake("each `touched_kib` must be a number that isn't negative")
            }
            Some(inferred)
                if inferred
                    .programs
                    .iter()
                    .any(|program| program.touched_ms.is_some_and(|ms| ms.is_nan() || ms <= 0.0)) =>
            {
                mistake("each `touched_ms` must be a number above 0")
            }
            Some(inferred) if inferred.programs.iter().any(|program| !program.is_sound()) => mistake(
                "each `dispatch_interval_ms` and `wait_ms` must be a histogram with rising edges, one more than there are shares",
            ),
            _ => Ok(inferred),
        }
    }

    /// The workload beside one process for each CPU that preempts others as often as those did that weren't watched, at random: the
    /// kernel's own threads, and other programs. A simulation has no others. Preemptions at clock ticks are left out: slices end there
    /// anyway.
    pub fn beside_others(&self, workload: &Workload) -> Workload {
        let cpu_s: f64 = self.programs.iter().map(|program| program.cpu_s).sum();
        let preemptions: u64 = self.programs.iter().map(|program| program.preemptions_by_others).sum();
        let mut workload = workload.clone();
        let Others { turns, cpu_s: others_s, at_ticks_percent } = self.others;
        let preemptions = preemptions as f64 * (1.0 - at_ticks_percent / 100.0);
        if preemptions > 0.0 && cpu_s > 0.0 {
            let burst_ms = 1e3 * others_s / turns.max(1) as f64;
            let bursts = Intervals::Bursts {
                length_ms: Distribution::Constant(burst_ms.max(0.001)),
                ends: Ends { semaphore: 100.0, ..Ends::default() },
            };
            workload.jobs.push(Job {
                name: "others".into(),
                arrival_ms: 0.0,
                gap_ms: None,
                processes: self.cpus,
                at_once: None,
                locks: Vec::new(),
                threads: false,
                group: None,
                process: Process {
                    intervals: Some(bursts),
                    block_ms: Some(Distribution::Exponential(1e3 * cpu_s / preemptions)),
                    slice_ms: Some(OTHERS_SLICE_MS),
                    ..Process::default()
                },
            });
        }
        workload
    }

    /// What the simulator gives back of it under the kernel's own scheduler: `replicates` of the experiment's workload, up to the
    /// experiment's horizon. Behind the programs there is one of all together, where there are several.
    pub fn simulated(
        &self,
        experiment: &Experiment<'_>,
        workload: &Workload,
        replicates: u32,
    ) -> Vec<ProgramAgreement> {
        let mut program_of_job: Vec<usize> = Vec::new();
        for (number, program) in self.programs.iter().enumerate() {
            program_of_job.extend(std::iter::repeat_n(number, program.jobs));
        }
        let program_of: Vec<Option<usize>> =
            workload.job_of_processes().map(|job| program_of_job.get(job).copied()).collect();
        let mut counts: Vec<Counts> = self.programs.iter().map(|_| Counts::default()).collect();
        for replicate in 0..replicates {
            let mut stays = Stays::default();
            experiment.run(Policy::Eevdf, replicate, NoMemory, |interval| stays.add(interval));
            for stay in stays.finish() {
                if let Some(program) = program_of.get(stay.process.0 as usize).copied().flatten() {
                    counts[program].add(&stay);
                }
            }
        }
        let mut all = GivenBack::default();
        let mut agreements = Vec::new();
        let all_s: f64 = self.programs.iter().map(|program| program.cpu_s).sum();
        for (program, counts) in self.programs.iter().zip(counts) {
            let given_back = counts.given_back();
            let is_judged = program.cpu_s >= LEAST_JUDGED_SHARE * all_s;
            agreements.push(ProgramAgreement { is_judged, ..program.beside(&given_back) });
            all.merge(&given_back);
        }
        if self.programs.len() > 1 {
            agreements.push(self.all_beside(&all));
        }
        agreements
    }

    /// All programs together.
    fn all_beside(&self, given_back: &GivenBack) -> ProgramAgreement {
        let mut measured = GivenBack::default();
        for program in &self.programs {
            measured.merge(&GivenBack {
                intervals: program.dispatch_intervals,
                ends: program.ends_percent,
                ..GivenBack::default()
            });
        }
        let of = |lengths: fn(&InferredProgram) -> Option<&Distribution>| {
            let counted = |program: &InferredProgram| Some((program.dispatch_intervals, cdf_of(lengths(program)?)));
            mixed(&self.programs.iter().filter_map(counted).collect::<Vec<_>>())
        };
        let intervals = of(|program| Some(&program.dispatch_interval_ms));
        // There are about as many waits as intervals.
        beside(ProgramAgreement::ALL, &measured, given_back, [&intervals, &of(|program| program.wait_ms.as_ref())])
    }

    /// What a replay gives back of it, which was profiled in its turn: of all programs together, since processes of a replay are of
    /// one program. `setup` is the profile of one that lasted no time: what processes do until they begin, which the workload doesn't
    /// contain.
    pub fn replayed(&self, profile: &Profile, setup: &Profile) -> ProgramAgreement {
        self.all_beside(&GivenBack::of(profile).without(&GivenBack::of(setup)))
    }
}

impl fmt::Display for Inferred {
    /// As a workload file has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# What this was inferred from: `stayput profile --check` and `stayput advise` read it, simulations don't."
        )?;
        writeln!(f, "[profile]\nkernel = {}\ncpus = {}", quoted(&self.kernel), self.cpus)?;
        writeln!(f, "seconds = {:.6}", self.seconds)?;
        let Others { turns, cpu_s, at_ticks_percent } = self.others;
        writeln!(f, "others = {{ turns = {turns}, cpu_s = {cpu_s:.6}, at_ticks_percent = {at_ticks_percent:.3} }}")?;
        if !self.command.is_empty() {
            let words: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
            writeln!(f, "command = [{}]", words.join(", "))?;
        }
        for program in &self.programs {
            writeln!(f, "\n[[profile.programs]]\nname = {}\njobs = {}", quoted(&program.name), program.jobs)?;
            writeln!(f, "dispatch_intervals = {}", program.dispatch_intervals)?;
            for (name, lengths) in
                [("dispatch_interval_ms", Some(&program.dispatch_interval_ms)), ("wait_ms", program.wait_ms.as_ref())]
            {
                if let Some(Distribution::Histogram { edges_ms, percent }) = lengths {
                    let (edges_ms, percent) = (edges_ms.clone(), percent.clone());
                    let shares = crate::survival::Distribution { edges_ms, percent, longer_percent: 0.0 };
                    writeln!(f, "{name} = {}", written(&shares))?;
                }
            }
            let EndsPercent { quantum, semaphore, synchronization, system_call, tlb_fault, other } =
                program.ends_percent;
            writeln!(
                f,
                "ends_percent = {{ quantum = {quantum:.3}, semaphore = {semaphore:.3}, synchronization = {synchronization:.3}, system_call = \
                 {system_call:.3}, tlb_fault = {tlb_fault:.3}, other = {other:.3} }}"
            )?;
            writeln!(f, "cpu_s = {:.6}\npreemptions_by_others = {}", program.cpu_s, program.preemptions_by_others)?;
            if let Some(ReloadUs { estimate, low, high }) = program.reload_us {
                writeln!(f, "reload_us = {{ estimate = {estimate:.3}, low = {low:.3}, high = {high:.3} }}")?;
            }
            if let Some(kib) = program.touched_kib {
                writeln!(f, "touched_kib = {kib:.1}")?;
            }
            if let Some(ms) = program.touched_ms {
                writeln!(f, "touched_ms = {ms:.3}")?;
            }
        }
        Ok(())
    }
}

/// Lengths by their shares.
fn shares(lengths: &Histogram) -> Distribution {
    let shares = product_limit(lengths, &Histogram::default());
    Distribution::Histogram { edges_ms: shares.edges_ms, percent: shares.percent }
}

impl InferredProgram {
    fn is_sound(&self) -> bool {
        let is_sound = |lengths: &Distribution| match lengths {
            Distribution::Histogram { edges_ms, percent } if percent.is_empty() => edges_ms.is_empty(),
            Distribution::Histogram { edges_ms, percent } => {
                edges_ms.len() == percent.len() + 1 && edges_ms.windows(2).all(|edges| edges[0] < edges[1])
            }
            _ => false,
        };
        self.cpu_s >= 0.0 && is_sound(&self.dispatch_interval_ms) && self.wait_ms.as_ref().is_none_or(is_sound)
    }

    /// Median of its waits in the run queue, in ms; absent where there was none.
    pub fn wait_median_ms(&self) -> Option<f64> {
        median_ms(&cdf_of(self.wait_ms.as_ref()?))
    }

    fn beside(&self, given_back: &GivenBack) -> ProgramAgreement {
        let measured =
            GivenBack { intervals: self.dispatch_intervals, ends: self.ends_percent, ..GivenBack::default() };
        let waits = self.wait_ms.as_ref().map(cdf_of).unwrap_or_default();
        beside(&self.name, &measured, given_back, [&cdf_of(&self.dispatch_interval_ms), &waits])
    }
}

/// Of lengths in ms, rising, the shares from 0 to 1 of all that is shorter.
type Cdf = Vec<(f64, f64)>;

fn beside(name: &str, measured: &GivenBack, given_back: &GivenBack, [intervals, waits]: [&Cdf; 2]) -> ProgramAgreement {
    let both = |of: &dyn Fn(&GivenBack) -> f64| [of(measured), of(given_back)];
    let wait_medians = median_ms(waits).zip(median_ms(&cdf_of_bins(&given_back.waits)));
    ProgramAgreement {
        name: name.to_owned(),
        intervals: [measured.intervals, given_back.intervals],
        distance: distance(intervals, &given_back.bins, 0.0),
        quantum_percent: both(&|world| world.ends.quantum),
        blocked_percent: both(&|world| world.ends.blocked()),
        yield_percent: both(&|world| world.ends.synchronization),
        waits: wait_medians.map(|(measured, back)| WaitAgreement {
            median_ms: [measured, back],
            distance: distance(waits, &given_back.waits, LEAST_WAIT_MS),
        }),
        lengths: [intervals.clone(), cdf_of_bins(&given_back.bins)],
        is_judged: true,
    }
}

/// What one world showed of a program.
#[derive(Default)]
struct GivenBack {
    intervals: u64,
    bins: Vec<TimeBin>,
    ends: EndsPercent,
    waits: Vec<TimeBin>,
}

impl GivenBack {
    /// What was measured of all programs of a profile together.
    fn of(profile: &Profile) -> Self {
        let mut all = Self::default();
        for program in &profile.programs {
            let intervals = &program.histograms.dispatch_interval;
            all.merge(&Self {
                intervals: intervals.count,
                bins: intervals.bins.clone(),
                ends: program.ends_percent,
                waits: program.histograms.wait.bins.clone(),
            });
        }
        all
    }

    /// The same without another's, where it has that many.
    fn without(mut self, other: &Self) -> Self {
        for (own, outs) in [(&mut self.bins, &other.bins), (&mut self.waits, &other.waits)] {
            for out in outs {
                let mut count = out.count;
                for bin in own.iter_mut().filter(|bin| bin.from_us.total_cmp(&out.from_us).is_eq()) {
                    let less = count.min(bin.count);
                    bin.count -= less;
                    count -= less;
                }
            }
        }
        let (all, less) = (self.intervals as f64, other.intervals.min(self.intervals) as f64);
        // Intervals that an exit ended are in no share, so that these are scaled again.
        let left = self.ends.zip(&other.ends, |own, out| (own * all - out * less).max(0.0));
        let EndsPercent { quantum, semaphore, synchronization, system_call, tlb_fault, other } = left;
        let sum = quantum + semaphore + synchronization + system_call + tlb_fault + other;
        self.ends = left.zip(&left, |share, _| if sum > 0.0 { 100.0 * share / sum } else { 0.0 });
        self.intervals -= less as u64;
        self
    }

    /// Adds another program's, each interval with the same weight.
    fn merge(&mut self, other: &Self) {
        let (own, more) = (self.intervals as f64, other.intervals as f64);
        let mix = |a: f64, b: f64| if own + more > 0.0 { (a * own + b * more) / (own + more) } else { 0.0 };
        self.ends = self.ends.zip(&other.ends, mix);
        self.bins.extend(&other.bins);
        self.waits.extend(&other.waits);
        self.intervals += other.intervals;
    }
}

/// What is counted of a program's stays on CPUs in the simulator.
struct Counts {
    intervals: Box<Times>,
    waits: Box<Times>,
    quantum: u64,
    blocked: u64,
    yielded: u64,
}

impl Default for Counts {
    fn default() -> Self {
        let times = || Box::new(bytemuck::Zeroable::zeroed());
        Self { intervals: times(), waits: times(), quantum: 0, blocked: 0, yielded: 0 }
    }
}

impl Counts {
    fn add(&mut self, stay: &Interval) {
        self.waits.record(stay.from_ns.saturating_sub(stay.runnable_ns));
        match stay.end {
            // It was still going on.
            End::Horizon => return,
            End::Exit => {}
            End::Quantum | End::Preempted => self.quantum += 1,
            End::Semaphore => self.blocked += 1,
            _ => self.yielded += 1,
        }
        self.intervals.record(stay.until_ns - stay.from_ns);
    }

    fn given_back(&self) -> GivenBack {
        let all = self.quantum + self.blocked + self.yielded;
        let percent = |count: u64| if all == 0 { 0.0 } else { 100.0 * count as f64 / all as f64 };
        let intervals =
            Histogram::from_counts(&self.intervals.counts, self.intervals.total_ns, self.intervals.longest_ns);
        let waits = Histogram::from_counts(&self.waits.counts, self.waits.total_ns, self.waits.longest_ns);
        GivenBack {
            intervals: intervals.count,
            bins: intervals.bins,
            ends: EndsPercent {
                quantum: percent(self.quantum),
                semaphore: percent(self.blocked),
                synchronization: percent(self.yielded),
                ..EndsPercent::default()
            },
            waits: waits.bins,
        }
    }
}

/// Joins the simulator's dispatch intervals, from one look at the run queue to the next, to those of a profile, from one switch to
/// the next: a look that leaves the process where it is, is no switch.
#[derive(Default)]
struct Stays {
    done: Vec<Interval>,
    on_cpus: Vec<Option<Interval>>,
}

impl Stays {
    fn add(&mut self, interval: Interval) {
        let CpuIndex(cpu) = interval.cpu;
        let cpu = cpu as usize;
        if cpu >= self.on_cpus.len() {
            self.on_cpus.resize(cpu + 1, None);
        }
        match &mut self.on_cpus[cpu] {
            Some(stay) if stay.process == interval.process && stay.until_ns == interval.from_ns => {
                (stay.until_ns, stay.end) = (interval.until_ns, interval.end);
            }
            on_cpu => self.done.extend(on_cpu.replace(interval)),
        }
    }

    fn finish(self) -> Vec<Interval> {
        self.done.into_iter().chain(self.on_cpus.into_iter().flatten()).collect()
    }
}

/// The cumulated shares at the edges of a histogram in ms.
fn cdf_of(distribution: &Distribution) -> Cdf {
    let Distribution::Histogram { edges_ms, percent } = distribution else { return Cdf::new() };
    let all: f64 = percent.iter().sum();
    let mut below = 0.0;
    let sums = std::iter::once(0.0).chain(percent.iter().map(|share| {
        below += share;
        below / all
    }));
    edges_ms.iter().copied().zip(sums.collect::<Vec<_>>()).collect()
}

/// The cumulated shares of bins in whatever order.
fn cdf_of_bins(bins: &[TimeBin]) -> Cdf {
    let each = |bin: &TimeBin| (bin.count, vec![(bin.from_us / 1e3, 0.0), (bin.to_us / 1e3, 1.0)]);
    mixed(&bins.iter().map(each).collect::<Vec<_>>())
}

/// Several distributions as one, of which each counts as often as stands beside it.
fn mixed(parts: &[(u64, Cdf)]) -> Cdf {
    let all = parts.iter().map(|(count, _)| count).sum::<u64>().max(1) as f64;
    let below = |ms: f64| parts.iter().map(|(count, cdf)| *count as f64 * share_below(cdf, ms)).sum::<f64>() / all;
    let mut edges: Vec<f64> = parts.iter().flat_map(|(_, cdf)| cdf.iter().map(|&(edge, _)| edge)).collect();
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    edges.into_iter().map(|edge| (edge, below(edge))).collect()
}

/// The median of a distribution; none where it is of nothing.
fn median_ms(cdf: &Cdf) -> Option<f64> {
    let at = cdf.iter().position(|&(_, below)| below >= 0.5)?;
    let (to, above) = cdf[at];
    let Some(&(from, below)) = at.checked_sub(1).and_then(|before| cdf.get(before)) else { return Some(to) };
    Some(from + (to - from) * (0.5 - below) / (above - below))
}

/// The share of what is shorter than `ms`.
fn share_below(cdf: &[(f64, f64)], ms: f64) -> f64 {
    if ms.is_infinite() {
        return 1.0;
    }
    match cdf.partition_point(|&(edge, _)| edge <= ms) {
        0 => 0.0,
        at if at == cdf.len() => 1.0,
        at => {
            let ((from, below), (to, above)) = (cdf[at - 1], cdf[at]);
            below + (above - below) * (ms - from) / (to - from)
        }
    }
}

/// Kolmogorov's distance of a distribution from what is in `bins`, as far as bins tell: at their edges, from `from_ms` on.
fn distance(cdf: &[(f64, f64)], bins: &[TimeBin], from_ms: f64) -> f64 {
    let all: u64 = bins.iter().map(|bin| bin.count).sum();
    match (cdf.is_empty(), all) {
        (true, 0) => return 0.0,
        (true, _) | (_, 0) => return 1.0,
        _ => {}
    }
    // A histogram in a file is rounded to a millionth of a ms: edges that near are the same.
    let is_below = |bin: &TimeBin, ms: f64| bin.to_us / 1e3 <= ms + 1e-6;
    let edges = cdf.iter().map(|&(edge, _)| edge).chain(bins.iter().map(|bin| bin.to_us / 1e3));
    edges
        .filter(|&edge| edge >= from_ms)
        .map(|edge| {
            let given_back: u64 = bins.iter().filter(|bin| is_below(bin, edge)).map(|bin| bin.count).sum();
            (share_below(cdf, edge + 1e-6) - given_back as f64 / all as f64).abs()
        })
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Histograms, INTERVAL_EDGES_MS, WorkingSet};
    use machine::Machine;
    use sim::{Parameters, ProcessIndex, WorkloadFile};

    /// Three processes that compute and block by turns.
    fn workload(burst_ms: f64) -> Workload {
        let text = format!(
            "name = \"w\"\n[[jobs]]\nname = \"app\"\nprocesses = 3\n[jobs.process]\nwork_ms = {{ constant = 4000 }}\nblock_ms = {{ exponential = 3 }}\n\
             [jobs.process.intervals.bursts]\nlength_ms = {{ exponential = {burst_ms} }}\nends = {{ semaphore = 100 }}\n"
        );
        WorkloadFile::parse(&text).unwrap_or_else(|(line, why)| panic!("{line}: {why}")).workload
    }

    fn parameters() -> Parameters {
        Parameters { horizon_ms: Some(3_000.0), ..Parameters::default() }
    }

    /// What the simulator shows of a workload, as if it had been profiled.
    fn profiled(machine: &Machine, workload: &Workload) -> Profile {
        let parameters = Parameters { seed: 7, ..parameters() };
        let experiment = Experiment::new(machine, workload, &parameters).unwrap();
        let mut stays = Stays::default();
        experiment.run(Policy::Eevdf, 0, NoMemory, |interval| stays.add(interval));
        let mut counts = Counts::default();
        stays.finish().iter().for_each(|stay| counts.add(stay));
        let GivenBack { intervals, bins, ends, waits } = counts.given_back();
        let dispatch_interval = Histogram { count: intervals, bins, ..Histogram::default() };
        let wait = Histogram { count: waits.iter().map(|bin| bin.count).sum(), bins: waits, ..Histogram::default() };
        let program = Program {
            name: "app".into(),
            ends_percent: ends,
            histograms: Histograms { dispatch_interval, wait, ..Histograms::default() },
            ..Program::default()
        };
        Profile {
            target: "app".into(),
            kernel: "7.3".into(),
            cpus: 2,
            seconds: 3.0,
            programs: vec![program],
            ..Profile::default()
        }
    }

    #[test]
    fn what_is_touched_in_a_slice_goes_along() {
        let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
        let mut profile = profiled(&machine, &workload(2.0));
        let program = &mut profile.programs[0];
        // Nine of ten slices are no longer than 3 ms, which is in the second bin.
        program.histograms.effective_slice = Histogram {
            count: 10,
            longest_ms: 3.0,
            bins: vec![TimeBin { from_us: 2_000.0, to_us: 3_000.0, count: 10 }],
            ..Histogram::default()
        };
        let mut median_kib = vec![None; INTERVAL_EDGES_MS.len() + 1];
        (median_kib[0], median_kib[1]) = (Some(40.0), Some(412.0));
        program.working_set = Some(WorkingSet { median_kib, ..WorkingSet::default() });
        let of = |profile: &Profile| {
            let text = Inferred::new(profile, &[&profile.programs[0]], &[1]).to_string();
            let read = Inferred::parse(&text).unwrap().unwrap().programs.remove(0);
            read.touched_kib.zip(read.touched_ms)
        };
        assert_eq!(of(&profile), Some((412.0, 5.0)));
        // Where that was looked at too seldom, what is touched in the next longer time counts, and that time.
        let mut median_kib = vec![None; INTERVAL_EDGES_MS.len() + 1];
        median_kib[2] = Some(700.0);
        profile.programs[0].working_set = Some(WorkingSet { median_kib, ..WorkingSet::default() });
        assert_eq!(of(&profile), Some((700.0, 9.0)));
        profile.programs[0].working_set = None;
        assert_eq!(of(&profile), None);
    }

    #[test]
    fn a_workload_gives_itself_back_and_no_other() {
        let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
        let truth = workload(2.0);
        let profile = profiled(&machine, &truth);
        let inferred = Inferred::new(&profile, &[&profile.programs[0]], &[1]);
        let parameters = parameters();
        let of = |workload: &Workload| {
            let experiment = Experiment::new(&machine, workload, &parameters).unwrap();
            inferred.simulated(&experiment, workload, 5).remove(0)
        };
        let own = of(&truth);
        assert!(own.agrees() && own.distance < 0.05 && own.intervals[1] > 1_000, "{own:?}");
        let [measured, back] = own.percent_between(&[0.0, 1.0, f64::INFINITY]);
        assert!(measured.iter().zip(&back).all(|(a, b)| (a - b).abs() < 5.0), "{measured:?} {back:?}");
        assert!((measured.iter().sum::<f64>() - 100.0).abs() < 1e-6 && measured[0] > 20.0, "{measured:?}");
        let other = of(&workload(6.0));
        assert!(!other.agrees() && other.distance > 0.1, "{other:?}");
        let [own_waits, other_waits] = [&own, &other].map(|it| it.waits.unwrap());
        assert!(own_waits.agrees() && own_waits.distance < 0.05, "{own:?}");
        assert!(!other_waits.agrees() && other_waits.median_ms[1] > 1.5 * other_waits.median_ms[0], "{other:?}");
        // A replay is measured alike: that of itself is no distance away.
        let replay = inferred.replayed(&profile, &Profile::default());
        let twice =
            Profile { programs: vec![profile.programs[0].clone(), profile.programs[0].clone()], ..profile.clone() };
        assert_eq!(inferred.replayed(&twice, &profile), replay);
        assert!(replay.distance < 1e-4 && replay.points() < 1e-9, "{replay:?}");
        assert!(replay.waits.unwrap().distance < 1e-4, "{replay:?}");
    }

    #[test]
    fn what_a_file_was_inferred_from_is_read_back() {
        let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
        let profile = profiled(&machine, &workload(2.0));
        let inferred = Inferred::new(&profile, &[&profile.programs[0]], &[1]);
        let read = Inferred::parse(&inferred.to_string()).unwrap().unwrap();
        assert_eq!(read.programs[0].dispatch_intervals, inferred.programs[0].dispatch_intervals);
        let given_back =
            GivenBack { bins: profile.programs[0].histograms.dispatch_interval.bins.clone(), ..GivenBack::default() };
        assert!(read.programs[0].beside(&given_back).distance < 1e-4);
        assert_eq!(Inferred::parse("name = \"w\""), Ok(None));
        let (line, why) = Inferred::parse(&inferred.to_string().replace("seconds = 3", "seconds = -3")).unwrap_err();
        assert!(line == 2 && why.contains("seconds"), "{line}: {why}");
        let torn = inferred.to_string().replace("percent = [", "percent = [1.0, ");
        assert!(Inferred::parse(&torn).unwrap_err().1.contains("rising edges"));
    }

    #[test]
    fn looks_that_change_nothing_end_no_interval() {
        let stay = |process, from_ns, until_ns, end| Interval {
            process: ProcessIndex(process),
            cpu: CpuIndex(0),
            runnable_ns: from_ns,
            from_ns,
            until_ns,
            end,
        };
        let mut stays = Stays::default();
        for interval in [
            stay(0, 0, 5, End::Quantum),
            stay(0, 5, 9, End::Preempted),
            stay(1, 9, 12, End::Semaphore),
            // It comes again after idleness.
            stay(1, 20, 25, End::Quantum),
        ] {
            stays.add(interval);
        }
        let done: Vec<_> = stays.finish().iter().map(|stay| (stay.from_ns, stay.until_ns, stay.end)).collect();
        assert_eq!(done, [(0, 9, End::Preempted), (9, 12, End::Semaphore), (20, 25, End::Quantum)]);
    }

    #[test]
    fn a_distance_is_the_largest_gap() {
        let bin = |from_us: f64, to_us: f64, count| TimeBin { from_us, to_us, count };
        let cdf = [(1.0, 0.0), (2.0, 0.5), (3.0, 0.5), (4.0, 1.0)];
        let from_0 = |cdf: &[(f64, f64)], bins: &[TimeBin]| distance(cdf, bins, 0.0);
        assert!(from_0(&cdf, &[bin(1_000.0, 2_000.0, 1), bin(3_000.0, 4_000.0, 1)]) < 1e-6);
        let longer = [bin(3_000.0, 4_000.0, 1)];
        assert!((from_0(&cdf, &longer) - 0.5).abs() < 1e-6);
        assert!(distance(&cdf, &longer, 3.5) < 1e-6, "below that nothing is told apart");
        assert!((from_0(&cdf, &[bin(10_000.0, 11_000.0, 1)]) - 1.0).abs() < 1e-6);
        assert_eq!((from_0(&cdf, &[]), from_0(&[], &[])), (1.0, 0.0));
        let median = |bins: &[TimeBin]| median_ms(&cdf_of_bins(bins));
        assert_eq!(median(&[bin(3_000.0, 4_000.0, 1), bin(1_000.0, 2_000.0, 3)]), Some(1.0 + 2.0 / 3.0));
        assert_eq!(median(&[]), None);
    }
}
