//! What was found out about programs while they ran: the contract of `stayput profile --json`.
//!
//! Words are those of the simulator and of the scheduler's statistics. A *thread* is what the kernel schedules, and what the
//! cache-affinity report calls a process.

use crate::histogram::{Histogram, TimeBin};
use crate::trace::{CpuTimeline, TraceSums};
use machine::{CpuId, Level};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::{EnumCount, IntoStaticStr, VariantArray};

/// Edges of the report's seven bins of dispatch intervals (its Table II), in ms.
pub const INTERVAL_EDGES_MS: [f64; 8] = [1.0, 5.0, 9.0, 13.0, 17.0, 21.0, 25.0, 30.0];

/// Programs that were watched for a while.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// What was watched, in words: a command, a process, a control group, everything.
    pub target: String,
    /// The command that was started for it, by its words; empty where none was, or where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// How it was watched.
    pub source: Source,
    /// The kernel's release.
    pub kernel: String,
    /// How many CPUs were online.
    pub cpus: u32,
    /// For how long, in seconds.
    pub seconds: f64,
    /// Switches, wake-ups and births that must have happened and are missing in all numbers: what they would have begun or ended is
    /// not counted.
    pub lost_events: u64,
    /// What threads did that aren't watched, those of the kernel's among them; absent where it can't be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<Others>,
    /// The programs, the one with the most CPU time first.
    pub programs: Vec<Program>,
    /// What the trace has that was written meanwhile; absent where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSums>,
    /// A second of that, which stands for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<CpuTimeline>,
    /// What could not be told, a sentence each.
    pub untold: Vec<String>,
}

/// Threads that aren't watched, on all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Others {
    /// How often one of them had a CPU.
    pub turns: u64,
    /// Their CPU time, in s.
    pub cpu_s: f64,
    /// Share of their preemptions of watched threads that were at clock ticks, where a slice may have been over anyway, in percent.
    pub at_ticks_percent: f64,
}

/// Where the numbers are from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Counted in the kernel, by BPF.
    #[default]
    Bpf,
    /// From the kernel's records of the command's own births, switches and ends (perf_event_open(2)).
    Records,
}

/// All threads that executed one program, while they did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// What the main thread was called when the program began or was first seen: 15 bytes at most. Programs of one name are one.
    pub name: String,
    /// How many threads were seen in it. One that executes another program counts in both.
    pub threads: u64,
    /// Their CPU time, in s.
    pub cpu_s: f64,
    /// How often one of them got a CPU from another thread, or from idleness.
    pub switches: u64,
    /// Dispatch intervals in the report's bins.
    pub dispatch_intervals: IntervalBins,
    /// What ended these intervals.
    pub ends_percent: EndsPercent,
    /// How many threads ended.
    pub exits: u64,
    /// Median of the effective time slices, in ms; absent where none has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_slice_median_ms: Option<f64>,
    /// Waits in the run queue; absent where none was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<Waits>,
    /// Moves from one CPU to another, by what the two share; with a zero for each distance that this machine has.
    pub migrations: BTreeMap<Level, u64>,
    /// Time to bring back what others displaced from a cache, in us; absent where it wasn't measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload_us: Option<ReloadUs>,
    /// What its processes touch; absent where it wasn't looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<WorkingSet>,
    /// What affinity can gain, in the report's words.
    pub potential: Potential,
    /// Why, in a sentence.
    pub potential_reason: String,
    /// Share of its CPU time that reloads take, in percent: at most, as long as `reload_us` is absent. Absent where it can't be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub potential_percent: Option<f64>,
    /// The distributions behind these numbers.
    pub histograms: Histograms,
    /// How many intervals ended because a system call had to wait, by kind. Those of `ends_percent.semaphore` and
    /// `.synchronization` are not among them.
    pub system_calls: BTreeMap<CallKind, u64>,
    /// What ran on a CPU between two times of a thread there.
    pub intervening: Intervening,
    /// CPU time on each CPU, in s.
    pub residency_s: BTreeMap<CpuId, f64>,
    /// How often from which CPU to which.
    pub moves: Vec<Move>,
    /// Share of moves at which another thread had the former CPU when this one began on the new one, in percent; absent where
    /// nothing moved, and where it can't be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_cpu_busy_percent: Option<f64>,
    /// By whom its threads were woken, most often first; a thread's first wake-up, by its creator, is among them. Absent where it
    /// can't be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wakers: Option<Vec<Waker>>,
    /// Its threads, those with the most CPU time first.
    pub by_thread: Vec<ThreadRow>,
    /// How many threads have no row, since there were too many; they are in all other numbers.
    pub threads_without_row: u64,
}

/// What a process touches while all of its threads together have so much CPU time. A page of which a byte was touched is all in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkingSet {
    /// Edges of the bins of CPU time, in ms. There is one bin before the first, and one from the last on.
    pub edges_ms: Vec<f64>,
    /// How often it was looked, by bin.
    pub looks: Vec<u64>,
    /// Median of what was touched, by bin, in KiB; absent where it was looked too seldom.
    pub median_kib: Vec<Option<f64>>,
    /// The most of a process's memory that was in huge pages, in KiB: a huge page of which a byte was touched is all in it.
    pub huge_pages_kib: f64,
}

/// Dispatch intervals: times on a CPU from one switch to the next. The kernel's looks at its run queue that leave the thread
/// where it is are not seen, so that several of the report's intervals may be one here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IntervalBins {
    /// Edges of the bins, in ms.
    pub edges_ms: Vec<f64>,
    /// Share of all intervals in each bin, in percent.
    pub percent: Vec<f64>,
    /// Share of those shorter than the first edge, which the report doesn't print.
    pub shorter_percent: f64,
    /// Share of those as long as the last edge or longer.
    pub longer_percent: f64,
}

/// What ended dispatch intervals, in percent of all but those that a thread's end has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndsPercent {
    /// It could have gone on: its time was used up, or another thread preempted it.
    pub quantum: f64,
    /// It waited on a futex or a System V semaphore.
    pub semaphore: f64,
    /// It called sched_yield, as locks and barriers that spin do.
    pub synchronization: f64,
    /// Another system call had to wait.
    pub system_call: f64,
    /// A page fault had to wait, for a disk or for another thread's fault. What the report calls TLB faults: today's hardware
    /// fills its TLB without ending an interval.
    pub tlb_fault: f64,
    /// Anything else: signals, stops by a debugger, and what could not be told.
    pub other: f64,
}

impl EndsPercent {
    /// Each share of both, through `f`.
    pub(crate) fn zip(&self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            quantum: f(self.quantum, other.quantum),
            semaphore: f(self.semaphore, other.semaphore),
            synchronization: f(self.synchronization, other.synchronization),
            system_call: f(self.system_call, other.system_call),
            tlb_fault: f(self.tlb_fault, other.tlb_fault),
            other: f(self.other, other.other),
        }
    }

    /// Those for which it waited outside the run queue, for whatever.
    pub fn blocked(&self) -> f64 {
        self.semaphore + self.system_call + self.tlb_fault + self.other
    }
}

/// Waits: from when a thread could run until it did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// The median, in ms.
    pub median: f64,
    /// What 99 of 100 don't exceed, in ms.
    pub p99: f64,
    /// The longest, in ms.
    pub longest: f64,
}

/// A measured reload transient.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReloadUs {
    /// The best guess, in us.
    pub estimate: f64,
    /// Lower end of its 95 % confidence interval, in us.
    pub low: f64,
    /// Upper end, in us.
    pub high: f64,
}

/// The report's judgement (its Table IV), by the share of CPU time that reloads take: [`crate::potential`] has the borders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Potential {
    /// It can't be told.
    #[default]
    Unknown,
    /// Nothing to gain.
    None,
    /// Little.
    Low,
    /// Some.
    Moderate,
    /// Much.
    High,
}

/// Fewer wake-ups than this tell nothing of how long they take.
const LEAST_WAKES: u64 = 30;

impl Profile {
    /// How long it took until a CPU that idled had whom a thread had woken, in us, at the median; none where that wasn't seen often.
    pub fn wake_us(&self) -> Option<f64> {
        let all = Histogram::of_all(self.programs.iter().map(|program| &program.histograms.wake_to_idle_cpu));
        all.quantile_ms(0.5).filter(|_| all.count >= LEAST_WAKES).map(|ms| ms * 1e3)
    }
}

/// Distributions of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histograms {
    /// Dispatch intervals.
    pub dispatch_interval: Histogram,
    /// Effective time slices: time of a thread on a CPU with no other thread in between. The kernel's own threads don't end one.
    pub effective_slice: Histogram,
    /// Waits in the run queue, after wake-ups and after preemptions.
    pub wait: Histogram,
    /// Those after wake-ups.
    pub wake_to_run: Histogram,
    /// From a watched thread's wake-up of another until that one had a CPU that had idled, with what it takes to tell that CPU by an
    /// interrupt: many kernels put a thread into such a CPU's queue only there, so that it is no wait.
    #[serde(default)]
    pub wake_to_idle_cpu: Histogram,
    /// From when a thread gave up its CPU because it could not go on, until it was woken; from records, until it had a CPU again.
    pub block: Histogram,
    /// Bursts: CPU time from one end of an interval that the thread itself brought about (any but `quantum`) to the next. They
    /// don't depend on who took the CPU from it meanwhile.
    pub burst: Histogram,
    /// Bursts of which only the beginning is known: they went on to the thread's end, or to the profile's.
    #[serde(default)]
    pub cut_burst: Histogram,
    /// Times of blocking that went on to the profile's end.
    #[serde(default)]
    pub cut_block: Histogram,
    /// Those bursts in which it woke none of the threads that are watched. Each other burst is in parts in the next three.
    #[serde(default)]
    pub burst_alone: Histogram,
    /// CPU time from a burst's beginning until it first woke another thread.
    #[serde(default)]
    pub before_wake: Histogram,
    /// From one such wake-up to the next.
    #[serde(default)]
    pub between_wakes: Histogram,
    /// From the last one to the burst's end.
    #[serde(default)]
    pub after_wake: Histogram,
    /// Of these, those after the wake-up of another thread of the same program.
    #[serde(default)]
    pub after_waking_peer: Histogram,
    /// Times of blocking that a thread ended that is watched.
    #[serde(default)]
    pub block_by_thread: Histogram,
    /// Of these, those that another thread of the same program ended.
    #[serde(default)]
    pub block_by_peer: Histogram,
}

/// What a system call waits for.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    EnumCount,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CallKind {
    /// Files and block devices, and whatever the kernel counts as waiting for input or output.
    Disk,
    /// Sockets, those within the machine included.
    Network,
    /// Pipes.
    Pipe,
    /// A time.
    Timer,
    /// Several descriptors at once: poll, select, epoll.
    Poll,
    /// Another process: wait.
    Process,
    /// Anything else: terminals, signals, locks of files, system calls of 32-bit programs.
    Other,
}

/// What ran on a CPU between two times of a thread there; moves to another CPU are not among these.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intervening {
    /// How often a thread found its CPU as it had left it: nothing but idleness, or the kernel's own threads, in between.
    pub none: u64,
    /// How often one other thread had been there, how often 2, 3 to 4, 5 to 8, 9 to 16, 17 to 32, 33 or more turns of others.
    pub turns: Vec<u64>,
    /// How often threads of the kernel's were among what had been there, with others or alone.
    pub with_kernel_threads: u64,
    /// How often a thread that isn't watched, one of the kernel's or of another program's, came to a CPU that a thread could have
    /// gone on to have.
    #[serde(default)]
    pub preemptions_by_others: u64,
}

/// Moves between two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// From which CPU.
    pub from: CpuId,
    /// To which.
    pub to: CpuId,
    /// How often.
    pub count: u64,
}

/// Who woke threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waker {
    /// Its program, [`Waker::INTERRUPTS`], [`Waker::KERNEL`] or [`Waker::OTHERS`].
    pub program: String,
    /// How often.
    pub count: u64,
}

impl Waker {
    /// Timers, devices, and what the network delivers, to the same machine as well.
    pub const INTERRUPTS: &str = "interrupts";
    /// The kernel's own threads.
    pub const KERNEL: &str = "kernel";
    /// Programs that were not watched.
    pub const OTHERS: &str = "other programs";
}

/// One thread in a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// Its process.
    pub pid: i32,
    /// Its number.
    pub tid: i32,
    /// What it called itself when it ended, or at last.
    pub name: String,
    /// Its CPU time, in s.
    pub cpu_s: f64,
    /// How often it got a CPU.
    pub switches: u64,
    /// How often it moved to another CPU.
    pub migrations: u64,
    /// How long it waited for a CPU, in s.
    pub wait_s: f64,
    /// How long it was blocked, in s, as far as it was seen to end.
    #[serde(default)]
    pub block_s: f64,
    /// How long its bursts were, in bins of half an octave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bursts: Vec<TimeBin>,
    /// How long it was blocked at a time, in the same bins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<TimeBin>,
    /// Its last burst, which went on to its end or to the profile's, in ms; 0 where it was blocked then.
    #[serde(default)]
    pub last_burst_ms: f64,
    /// When it began, in s since the profile did; 0 where it was there already.
    #[serde(default)]
    pub began_s: f64,
    /// Share of its intervals that ended though it could have gone on, in percent.
    pub quantum_percent: f64,
}
