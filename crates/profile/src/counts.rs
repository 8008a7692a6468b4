//! What was counted, from whatever source, and the profile that it comes to.

use crate::histogram::{Histogram, TimeBin, lowest_ns};
use crate::intf::{self, Lengths, ProgramStats, Thread, Times};
use crate::potential::Judge;
use crate::profile::{
    CallKind, EndsPercent, Histograms, INTERVAL_EDGES_MS, IntervalBins, Intervening, Move, Program, ThreadRow, Waits,
    Waker,
};
use machine::{CpuId, Level, Machine};
use std::collections::BTreeMap;
use strum::VariantArray;

/// Threads of a program that have a row of their own at most.
const MOST_ROWS: usize = 200;

/// Bins of a histogram that are one of a thread's own lengths, as a power of two.
pub(crate) const LENGTH_LOG2: usize = 2;

/// What was counted of one program.
#[derive(Clone)]
pub(crate) struct ProgramCounts {
    pub name: String,
    pub stats: Box<ProgramStats>,
    /// Threads that were last in it.
    pub threads: Vec<Thread>,
    /// How long bursts and times of blocking of each were, by process and thread.
    pub lengths: BTreeMap<(u32, u32), Lengths>,
    /// CPU time on each CPU, in ns.
    pub residency_ns: BTreeMap<CpuId, u64>,
    pub moves: Vec<Move>,
    /// Who woke its threads, where that can be told.
    pub wakers: Option<Vec<Waker>>,
}

impl ProgramCounts {
    pub fn new(name: String) -> Self {
        Self {
            name,
            stats: ProgramStats::none(),
            threads: Vec::new(),
            lengths: BTreeMap::new(),
            residency_ns: BTreeMap::new(),
            moves: Vec::new(),
            wakers: None,
        }
    }

    /// Adds one of its threads as it was at `until_ns`, when the profile ended: what it had begun was cut off there. The thread's `began_ns` is since
    /// the profile began.
    pub fn add_thread(&mut self, thread: Thread, until_ns: u64) {
        match thread.phase {
            intf::PHASE_DEAD => {}
            intf::PHASE_BLOCKED if thread.since_ns > 0 => {
                self.stats.cut_blocks.record(until_ns.saturating_sub(thread.since_ns));
            }
            // When it was woken is not known before it has a CPU.
            intf::PHASE_WOKEN if thread.since_ns > 0 => {
                self.stats.blocks.record(until_ns.saturating_sub(thread.since_ns));
            }
            _ if thread.burst_ns > 0 => self.stats.cut_bursts.record(thread.burst_ns),
            _ => {}
        }
        self.threads.push(thread);
    }

    fn thread_row(&self, thread: &Thread) -> ThreadRow {
        let row = thread_row(thread);
        let Some(lengths) = self.lengths.get(&(thread.tgid, thread.tid)) else { return row };
        ThreadRow { bursts: length_bins(&lengths.bursts), blocks: length_bins(&lengths.blocks), ..row }
    }

    /// Puts it in the profile's words; CPUs are `machine`'s.
    pub fn into_program(mut self, machine: &Machine, judge: &Judge, is_complete: bool) -> Program {
        let stats = &self.stats;
        let histograms = Histograms {
            dispatch_interval: histogram(&stats.intervals),
            effective_slice: histogram(&stats.slices),
            wait: histogram(&stats.waits),
            wake_to_run: histogram(&stats.wakes),
            wake_to_idle_cpu: histogram(&stats.idle_wakes),
            block: histogram(&stats.blocks),
            burst: histogram(&stats.bursts),
            cut_burst: histogram(&stats.cut_bursts),
            cut_block: histogram(&stats.cut_blocks),
            burst_alone: histogram(&stats.acts[intf::ACT_ALONE as usize]),
            before_wake: histogram(&stats.acts[intf::ACT_BEFORE as usize]),
            between_wakes: histogram(&stats.acts[intf::ACT_BETWEEN as usize]),
            after_wake: histogram(&stats.acts[intf::ACT_AFTER as usize]),
            after_waking_peer: histogram(&stats.after_peer),
            block_by_thread: histogram(&stats.woken_blocks),
            block_by_peer: histogram(&stats.peer_blocks),
        };
        self.moves.sort_by_key(|moved| (std::cmp::Reverse(moved.count), moved.from, moved.to));
        self.threads.sort_by_key(|thread| (std::cmp::Reverse(thread.cpu_ns), thread.tid));
        let by_thread: Vec<ThreadRow> =
            self.threads.iter().take(MOST_ROWS).map(|thread| self.thread_row(thread)).collect();
        let threads_without_row = stats.rows_lost + (self.threads.len() - by_thread.len()) as u64;
        let waits = &histograms.wait;
        let kinds = CallKind::VARIANTS.iter().map(|&kind| (kind, stats.calls[call(kind) as usize]));
        let judgement = judge.judgement(stats, is_complete);
        Program {
            name: self.name,
            threads: stats.threads,
            cpu_s: seconds(stats.cpu_ns),
            switches: stats.switches,
            dispatch_intervals: interval_bins(&stats.report_bins),
            ends_percent: ends_percent(&stats.ends),
            exits: stats.ends[intf::END_EXIT as usize],
            effective_slice_median_ms: histograms.effective_slice.quantile_ms(0.5),
            wait_ms: waits.quantile_ms(0.5).map(|median| Waits {
                median,
                p99: waits.quantile_ms(0.99).unwrap_or(median),
                longest: waits.longest_ms,
            }),
            migrations: migrations(&self.moves, machine),
            reload_us: None,
            working_set: None,
            potential: judgement.potential,
            potential_reason: judgement.reason,
            potential_percent: judgement.percent,
            system_calls: if is_complete { kinds.collect() } else { BTreeMap::new() },
            intervening: Intervening {
                none: stats.turns[0],
                turns: stats.turns[1..].to_vec(),
                with_kernel_threads: stats.with_kernel_threads,
                preemptions_by_others: stats.preemptions_by_others,
            },
            residency_s: self.residency_ns.into_iter().map(|(cpu, ns)| (cpu, seconds(ns))).collect(),
            former_cpu_busy_percent: (is_complete && stats.moves > 0)
                .then(|| 100.0 * stats.moves_from_busy as f64 / stats.moves as f64),
            moves: self.moves,
            wakers: self.wakers,
            by_thread,
            threads_without_row,
            histograms,
        }
    }
}

/// Where a thread's lengths are counted.
pub(crate) fn lengths_of<'a>(lengths: &'a mut BTreeMap<(u32, u32), Lengths>, thread: &Thread) -> &'a mut Lengths {
    lengths.entry((thread.tgid, thread.tid)).or_insert_with(bytemuck::Zeroable::zeroed)
}

/// Those of a thread's own lengths that there are any of.
fn length_bins(counts: &[u32]) -> Vec<TimeBin> {
    let edge_us = |bin: usize| lowest_ns(bin << LENGTH_LOG2) as f64 / 1e3;
    let bins = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
    bins.map(|(bin, &count)| TimeBin { from_us: edge_us(bin), to_us: edge_us(bin + 1), count: count.into() }).collect()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn histogram(times: &Times) -> Histogram {
    Histogram::from_counts(&times.counts, times.total_ns, times.longest_ns)
}

/// The kernel side's number of a kind.
fn call(kind: CallKind) -> u32 {
    match kind {
        CallKind::Disk => intf::CALL_DISK,
        CallKind::Network => intf::CALL_NETWORK,
        CallKind::Pipe => intf::CALL_PIPE,
        CallKind::Timer => intf::CALL_TIMER,
        CallKind::Poll => intf::CALL_POLL,
        CallKind::Process => intf::CALL_PROCESS,
        CallKind::Other => intf::CALL_OTHER,
    }
}

/// `counts` are those shorter than the first edge, those of each bin, and those longer.
fn interval_bins(counts: &[u64; intf::REPORT_BINS as usize]) -> IntervalBins {
    let all: u64 = counts.iter().sum();
    let percent = |count: u64| if all == 0 { 0.0 } else { 100.0 * count as f64 / all as f64 };
    let [shorter, within @ .., longer] = counts;
    IntervalBins {
        edges_ms: INTERVAL_EDGES_MS.to_vec(),
        percent: within.iter().map(|&count| percent(count)).collect(),
        shorter_percent: percent(*shorter),
        longer_percent: percent(*longer),
    }
}

fn ends_percent(ends: &[u64; intf::ENDS as usize]) -> EndsPercent {
    let all: u64 = ends.iter().sum::<u64>() - ends[intf::END_EXIT as usize];
    let percent = |end: u32| if all == 0 { 0.0 } else { 100.0 * ends[end as usize] as f64 / all as f64 };
    EndsPercent {
        quantum: percent(intf::END_QUANTUM),
        semaphore: percent(intf::END_SEMAPHORE),
        synchronization: percent(intf::END_SYNCHRONIZATION),
        system_call: percent(intf::END_SYSTEM_CALL),
        tlb_fault: percent(intf::END_TLB_FAULT),
        other: percent(intf::END_OTHER),
    }
}

fn migrations(moves: &[Move], machine: &Machine) -> BTreeMap<Level, u64> {
    let cpus: Vec<CpuId> = machine.usable().collect();
    // Whatever two CPUs share, two neighbours in the tree share.
    let levels = cpus.windows(2).filter_map(|pair| machine.sharing(pair[0], pair[1]));
    let mut migrations: BTreeMap<Level, u64> = levels.map(|level| (level, 0)).collect();
    for moved in moves {
        // A CPU that the tree doesn't have came online meanwhile.
        let level = machine.sharing(moved.from, moved.to).unwrap_or(Level::Machine);
        *migrations.entry(level).or_default() += moved.count;
    }
    migrations
}

fn thread_row(thread: &Thread) -> ThreadRow {
    let name: Vec<u8> = thread.comm.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    ThreadRow {
        pid: thread.tgid as i32,
        tid: thread.tid as i32,
        name: String::from_utf8_lossy(&name).into_owned(),
        cpu_s: seconds(thread.cpu_ns),
        switches: thread.switches,
        migrations: thread.migrations.into(),
        wait_s: seconds(thread.wait_ns),
        block_s: seconds(thread.block_ns),
        bursts: Vec::new(),
        blocks: Vec::new(),
        last_burst_ms: thread.burst_ns as f64 / 1e6,
        began_s: seconds(thread.began_ns),
        quantum_percent: if thread.ends == 0 { 0.0 } else { 100.0 * thread.quantum_ends as f64 / thread.ends as f64 },
    }
}
