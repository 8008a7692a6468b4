//! Where nothing may be counted in the kernel: births, switches and ends of one's own command, as the kernel records them
//! (perf_event_open(2)).
//!
//! An event that counts nothing is opened on the thread that is going to start the command, once for each CPU. What that thread
//! creates inherits it. What such records don't tell is in [`UNTOLD`].

use crate::counts::{LENGTH_LOG2, ProgramCounts, lengths_of};
use crate::histogram::bin_of;
use crate::intf::{self, NO_CPU, PHASE_BLOCKED, PHASE_DEAD, PHASE_NEW, PHASE_PREEMPTED, PHASE_RUNNING, Thread};
use crate::profile::Move;
use machine::CpuId;
use machine::linux::{Tid, system};
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::Duration;

/// What records can't tell.
pub(crate) const UNTOLD: [&str; 4] = [
    "why threads gave up their CPUs though nobody took them (a semaphore, a system call, a page fault): all of that is `other`, and \
     sched_yield counts as quantum",
    "when threads were woken, and by whom: waits are those after preemptions alone, times of blocking contain the waits after them, and there are no \
     wake-up latencies",
    "which other programs ran in between: effective time slices may be shorter than shown, and the potential is left open",
    "threads that ended are told by their numbers; a thread's name is its program's",
];

/// Bytes of each CPU's ring: what the kernel lets everybody lock (`perf_event_mlock_kb`).
const RING_BYTES: usize = 512 << 10;

/// Records are put in order of their times. One that is younger than this may have an older one of another CPU to come.
const SETTLED: Duration = Duration::from_millis(10);

/// Types and flags of records, from `linux/perf_event.h`.
const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_COMM: u32 = 3;
const PERF_RECORD_EXIT: u32 = 4;
const PERF_RECORD_FORK: u32 = 7;
const PERF_RECORD_SWITCH: u32 = 14;
const PERF_RECORD_MISC_SWITCH_OUT: u16 = 1 << 13;
const PERF_RECORD_MISC_COMM_EXEC: u16 = 1 << 13;
const PERF_RECORD_MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// What one record says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Birth { tgid: u32, tid: u32, by: u32 },
    Exec { tgid: u32, tid: u32, name: String },
    In { tid: u32 },
    Out { tid: u32, is_preempted: bool },
    End { tid: u32 },
}

/// A record of this time, in ns of the monotonic clock, on this CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    time_ns: u64,
    cpu: u32,
    event: Event,
}

/// Open events, and what has been counted of them.
pub(crate) struct Records {
    rings: Vec<Sampler>,
    unsettled: Vec<Record>,
    lost: u64,
    counts: Counts,
    begun_ns: u64,
}

impl Records {
    /// How often rings have to be emptied.
    pub const SOON: Duration = Duration::from_millis(5);

    /// Records what the thread `starter` of this process starts from now on.
    ///
    /// # Errors
    /// When the kernel refuses (`perf_event_paranoid`, no such system call in a container).
    pub fn open(starter: Tid) -> io::Result<Self> {
        let cpus = system::online_cpus().ok_or(io::ErrorKind::NotFound)?;
        let rings = cpus.iter().map(|CpuId(cpu)| ring(starter, cpu)).collect::<io::Result<_>>()?;
        let begun_ns = crate::collector::now_ns();
        Ok(Self { rings, unsettled: Vec::new(), lost: 0, counts: Counts::default(), begun_ns })
    }

    /// Empties the rings, and counts what has settled since the last time, or simply `all`.
    pub fn take(&mut self, all: bool) {
        let begin_ns = crate::collector::now_ns();
        for ring in &mut self.rings {
            while let Some(record) = ring.next_record() {
                match decode(record.ty(), record.misc(), &record.to_contiguous()) {
                    Some(Decoded::Record(record)) => self.unsettled.push(record),
                    Some(Decoded::Lost(records)) => self.lost += records,
                    None => {}
                }
            }
        }
        self.unsettled.sort_by_key(|record| record.time_ns);
        let settled_ns = if all { u64::MAX } else { begin_ns.saturating_sub(SETTLED.as_nanos() as u64) };
        let settled = self.unsettled.partition_point(|record| record.time_ns <= settled_ns);
        self.unsettled.drain(..settled).for_each(|record| self.counts.add(&record));
    }

    /// The programs, and how many records were lost.
    pub fn finish(mut self) -> (Vec<ProgramCounts>, u64) {
        let until_ns = crate::collector::now_ns();
        self.take(true);
        let mut programs = self.counts.finish(until_ns);
        for thread in programs.iter_mut().flat_map(|program| &mut program.threads) {
            thread.began_ns = thread.began_ns.saturating_sub(self.begun_ns);
        }
        (programs, self.lost)
    }
}

/// Whether the kernel records switches of one's own commands.
///
/// # Errors
/// As [`Records::open`].
pub(crate) fn check() -> io::Result<()> {
    let own = Tid(nix::unistd::gettid().as_raw());
    Records::open(own).map(drop)
}

fn ring(starter: Tid, cpu: u32) -> io::Result<Sampler> {
    let mut builder = Builder::new(Software::DUMMY);
    builder
        .observe_pid(starter.0)
        .inherit(true)
        .one_cpu(cpu as usize)
        .task(true)
        .comm(true)
        .comm_exec(true)
        .context_switch(true)
        .sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::CPU)
        .sample_id_all(true)
        .wakeup_watermark(RING_BYTES / 2)
        .enabled(true);
    // All CPUs' records by one clock.
    let attrs = builder.attrs_mut();
    attrs.set_use_clockid(1);
    attrs.clockid = libc::CLOCK_MONOTONIC;
    builder.build()?.sampled(RING_BYTES)
}

enum Decoded {
    Record(Record),
    /// So many found no room.
    Lost(u64),
}

/// What a record says; none when it is of another kind, or shorter than its kind is.
fn decode(kind: u32, misc: u16, body: &[u8]) -> Option<Decoded> {
    let word = |at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(body.get(at..at + 8)?.try_into().ok()?));
    if kind == PERF_RECORD_LOST {
        return long(8).map(Decoded::Lost);
    }
    // Each ends with whose it is, when and on which CPU it was written.
    let trailer = body.len().checked_sub(24)?;
    let tid = word(trailer + 4)?;
    let event = match kind {
        PERF_RECORD_FORK => Event::Birth { tgid: word(0)?, tid: word(8)?, by: word(12)? },
        PERF_RECORD_EXIT => Event::End { tid: word(8)? },
        PERF_RECORD_COMM if misc & PERF_RECORD_MISC_COMM_EXEC != 0 => {
            let name: Vec<u8> = body.get(8..trailer)?.iter().copied().take_while(|&byte| byte != 0).collect();
            Event::Exec { tgid: word(0)?, tid: word(4)?, name: String::from_utf8_lossy(&name).into_owned() }
        }
        PERF_RECORD_SWITCH if misc & PERF_RECORD_MISC_SWITCH_OUT != 0 => {
            Event::Out { tid, is_preempted: misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0 }
        }
        PERF_RECORD_SWITCH => Event::In { tid },
        _ => return None,
    };
    Some(Decoded::Record(Record { time_ns: long(trailer + 8)?, cpu: word(trailer + 16)?, event }))
}

/// Whose effective slice it is on a CPU.
#[derive(Default)]
struct Slice {
    tid: u32,
    program: usize,
    ns: u64,
}

/// What records come to.
#[derive(Default)]
struct Counts {
    programs: Vec<ProgramCounts>,
    numbers: HashMap<String, usize>,
    threads: HashMap<u32, Thread>,
    ended: Vec<Thread>,
    slices: BTreeMap<u32, Slice>,
    moves: BTreeMap<(usize, u32, u32), u64>,
}

impl Counts {
    fn add(&mut self, record: &Record) {
        let (now_ns, cpu) = (record.time_ns, record.cpu);
        match &record.event {
            // What this process starts counts from its first program on.
            Event::Birth { tgid, tid, by } => {
                if let Some(parent) = self.threads.get(by) {
                    let program = parent.program;
                    self.threads.insert(*tid, thread(*tgid, *tid, program, now_ns));
                    self.programs[program as usize].stats.threads += 1;
                }
            }
            Event::Exec { tgid, tid, name } => self.exec(*tgid, *tid, name, now_ns, cpu),
            Event::In { tid } => self.enter(*tid, now_ns, cpu),
            Event::Out { tid, is_preempted } => self.leave(*tid, now_ns, cpu, *is_preempted),
            Event::End { tid } => self.end(*tid, now_ns, cpu),
        }
    }

    fn exec(&mut self, tgid: u32, tid: u32, name: &str, now_ns: u64, cpu: u32) {
        let number = *self.numbers.entry(name.to_owned()).or_insert_with(|| {
            self.programs.push(ProgramCounts::new(name.to_owned()));
            self.programs.len() - 1
        });
        let thread = self.threads.entry(tid).or_insert_with(|| {
            let new = thread(tgid, tid, number as u32, now_ns);
            Thread { phase: PHASE_RUNNING, since_ns: now_ns, is_partial: 1, is_burst_partial: 1, last_cpu: cpu, ..new }
        });
        thread.program = number as u32;
        self.programs[number].stats.threads += 1;
    }

    fn enter(&mut self, tid: u32, now_ns: u64, cpu: u32) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let program = thread.program as usize;
        let ProgramCounts { stats, lengths, .. } = &mut self.programs[program];
        let away_ns = now_ns.saturating_sub(thread.since_ns);
        if thread.phase == PHASE_PREEMPTED {
            stats.waits.record(away_ns);
            thread.wait_ns += away_ns;
        } else if thread.phase == PHASE_BLOCKED {
            stats.blocks.record(away_ns);
            thread.block_ns += away_ns;
            lengths_of(lengths, thread).blocks[bin_of(away_ns) >> LENGTH_LOG2] += 1;
        }
        if thread.last_cpu != cpu && thread.last_cpu != NO_CPU {
            thread.migrations += 1;
            stats.moves += 1;
            *self.moves.entry((program, thread.last_cpu, cpu)).or_default() += 1;
        }
        thread.switches += 1;
        stats.switches += 1;
        (thread.phase, thread.since_ns, thread.last_cpu) = (PHASE_RUNNING, now_ns, cpu);
        let slice = self.slices.entry(cpu).or_default();
        if slice.tid != tid {
            let former = std::mem::replace(slice, Slice { tid, program, ns: 0 });
            if former.tid != 0 {
                self.programs[former.program].stats.slices.record(former.ns);
            }
        }
    }

    /// Counts the time that a thread has had its CPU.
    fn leave(&mut self, tid: u32, now_ns: u64, cpu: u32, is_preempted: bool) {
        let end = if is_preempted { intf::END_QUANTUM } else { intf::END_OTHER };
        if let Some(thread) = self.threads.get_mut(&tid) {
            account(thread, &mut self.programs, &mut self.slices, now_ns, cpu, end);
            thread.phase = if is_preempted { PHASE_PREEMPTED } else { PHASE_BLOCKED };
            thread.since_ns = now_ns;
        }
    }

    fn end(&mut self, tid: u32, now_ns: u64, cpu: u32) {
        if let Some(mut thread) = self.threads.remove(&tid) {
            account(&mut thread, &mut self.programs, &mut self.slices, now_ns, cpu, intf::END_EXIT);
            thread.phase = PHASE_DEAD;
            self.ended.push(thread);
        }
    }

    fn finish(mut self, until_ns: u64) -> Vec<ProgramCounts> {
        for thread in self.threads.values_mut().filter(|thread| thread.phase == PHASE_RUNNING) {
            let program = &mut self.programs[thread.program as usize];
            let ns = until_ns.saturating_sub(thread.since_ns);
            thread.cpu_ns += ns;
            thread.burst_ns += ns;
            program.stats.cpu_ns += ns;
            *program.residency_ns.entry(CpuId(thread.last_cpu)).or_default() += ns;
        }
        for ((program, from, to), count) in self.moves {
            self.programs[program].moves.push(Move { from: CpuId(from), to: CpuId(to), count });
        }
        for mut thread in self.ended.into_iter().chain(self.threads.into_values()) {
            let program = &mut self.programs[thread.program as usize];
            let name = program.name.bytes().take(15);
            thread.comm.iter_mut().zip(name).for_each(|(to, from)| *to = from as i8);
            program.add_thread(thread, until_ns);
        }
        self.programs.sort_by_key(|program| std::cmp::Reverse(program.stats.cpu_ns));
        self.programs
    }
}

fn thread(tgid: u32, tid: u32, program: u32, began_ns: u64) -> Thread {
    Thread { tgid, tid, program, phase: PHASE_NEW, last_cpu: NO_CPU, began_ns, ..bytemuck::Zeroable::zeroed() }
}

fn account(
    thread: &mut Thread,
    programs: &mut [ProgramCounts],
    slices: &mut BTreeMap<u32, Slice>,
    now_ns: u64,
    cpu: u32,
    end: u32,
) {
    if thread.phase != PHASE_RUNNING {
        return;
    }
    let program = &mut programs[thread.program as usize];
    let ns = now_ns.saturating_sub(thread.since_ns);
    thread.cpu_ns += ns;
    thread.burst_ns += ns;
    thread.ends += 1;
    thread.quantum_ends += u64::from(end == intf::END_QUANTUM);
    let stats = &mut program.stats;
    stats.cpu_ns += ns;
    stats.ends[end as usize] += 1;
    if thread.is_partial == 0 {
        stats.intervals.record(ns);
        let ms = ns as f64 / 1e6;
        stats.report_bins[crate::profile::INTERVAL_EDGES_MS.partition_point(|&edge| edge <= ms)] += 1;
    }
    if end == intf::END_EXIT {
        stats.cut_bursts.record(thread.burst_ns);
    } else if end != intf::END_QUANTUM {
        if thread.is_burst_partial == 0 {
            stats.bursts.record(thread.burst_ns);
            lengths_of(&mut program.lengths, thread).bursts[bin_of(thread.burst_ns) >> LENGTH_LOG2] += 1;
        }
        (thread.burst_ns, thread.is_burst_partial) = (0, 0);
    }
    thread.is_partial = 0;
    *program.residency_ns.entry(CpuId(cpu)).or_default() += ns;
    if let Some(slice) = slices.get_mut(&cpu).filter(|slice| slice.tid == thread.tid) {
        slice.ns += ns;
        slice.program = thread.program as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time_us: u64, cpu: u32, event: Event) -> Record {
        Record { time_ns: time_us * 1_000, cpu, event }
    }

    #[test]
    fn intervals_slices_and_moves_are_those_of_the_records() {
        let mut counts = Counts::default();
        let (inwards, out) = (|tid| Event::In { tid }, |tid, is_preempted| Event::Out { tid, is_preempted });
        for record in [
            // The launcher is no part of it.
            record(0, 0, Event::Birth { tgid: 9, tid: 10, by: 9 }),
            record(100, 0, Event::Exec { tgid: 10, tid: 10, name: "app".into() }),
            record(200, 0, Event::Birth { tgid: 10, tid: 11, by: 10 }),
            record(1_100, 0, out(10, false)),
            record(1_100, 0, inwards(11)),
            record(4_100, 0, out(11, true)),
            record(4_100, 0, inwards(10)),
            record(5_100, 1, inwards(11)),
            record(6_100, 0, out(10, false)),
            record(7_100, 1, Event::End { tid: 11 }),
            record(7_200, 0, inwards(10)),
            record(8_200, 0, out(10, true)),
        ] {
            counts.add(&record);
        }
        let programs = counts.finish(9_000_000);
        let [program] = &programs[..] else { panic!("{} programs", programs.len()) };
        let stats = &program.stats;
        assert_eq!((program.name.as_str(), stats.threads, stats.switches), ("app", 2, 4));
        assert_eq!(stats.cpu_ns, 9_000_000);
        // The first one of thread 10 began before it was watched.
        assert_eq!((stats.intervals.counts.iter().sum::<u64>(), stats.intervals.total_ns), (4, 8_000_000));
        assert_eq!(stats.report_bins[..3], [0, 4, 0]);
        assert_eq!(stats.ends, [2, 0, 0, 0, 0, 2, 1]);
        assert_eq!((stats.waits.counts.iter().sum::<u64>(), stats.waits.total_ns), (1, 1_000_000));
        assert_eq!((stats.blocks.total_ns, stats.bursts.total_ns), (4_100_000, 2_000_000));
        assert_eq!(program.moves, [Move { from: CpuId(0), to: CpuId(1), count: 1 }]);
        // That of thread 11 on CPU 0; that of thread 10 there goes on, and so would another of 11 on CPU 1.
        assert_eq!((stats.slices.counts.iter().sum::<u64>(), stats.slices.total_ns), (1, 3_000_000));
    }

    #[test]
    fn records_that_are_too_short_are_passed_over() {
        for kind in [PERF_RECORD_LOST, PERF_RECORD_COMM, PERF_RECORD_EXIT, PERF_RECORD_FORK, PERF_RECORD_SWITCH] {
            for length in 0..16 {
                assert!(decode(kind, PERF_RECORD_MISC_COMM_EXEC, &vec![1; length]).is_none());
            }
        }
    }
}
