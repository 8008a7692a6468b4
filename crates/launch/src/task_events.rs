//! Births, executions and ends of threads as the kernel records them (perf_event_open(2)), for which nobody has to stop.
//!
//! An event that counts nothing asks for records of tasks. With the right to watch whole CPUs there is one for each CPU, which
//! costs a program only what it takes to write a record. Without it each thread has its own, which its children inherit: that
//! costs a little at each birth, by the number of CPUs, and at each switch.

use machine::CpuId;
use machine::linux::{Pid, Tid, system};
use nix::time::{ClockId, clock_gettime};
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// All rings together, in bytes, as far as each stays between the least and the most.
const RINGS_BYTES: usize = 8 << 20;
const SMALLEST_RING_BYTES: usize = 64 << 10;
/// What the kernel lets everybody lock for each CPU (`perf_event_mlock_kb`).
const LARGEST_RING_BYTES: usize = 512 << 10;

/// Where each thread has to have its own event on each CPU, more CPUs than this make a birth as slow as a stop does.
const MOST_CPUS_BY_THREAD: usize = 8;
/// And so many rings may there be.
const MOST_RINGS_BY_THREAD: usize = 256;
const SMALLEST_RING_BYTES_BY_THREAD: usize = 8 << 10;

/// Records are put in order of their times. One that is younger than this may have an older one of another CPU to come.
const SETTLED: Duration = Duration::from_millis(10);

/// Types and flags of records, from `linux/perf_event.h`.
const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_COMM: u32 = 3;
const PERF_RECORD_EXIT: u32 = 4;
const PERF_RECORD_FORK: u32 = 7;
const PERF_RECORD_MISC_COMM_EXEC: u16 = 1 << 13;

/// What became of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskEvent {
    /// `by` has created it.
    Birth { pid: Pid, tid: Tid, by: Tid },
    /// The process executes another program.
    Exec { pid: Pid },
    /// It has ended, on this CPU.
    End { tid: Tid, cpu: CpuId },
}

/// What one record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decoded {
    /// At this time, in nanoseconds of the monotonic clock.
    Event(u64, TaskEvent),
    /// So many records found no room.
    Lost(u64),
}

/// Whose births are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everybody's on this machine.
    Machine,
    /// Those of the threads that were named, and of all that they create.
    Threads,
}

/// Open events, from construction to drop.
pub(crate) struct TaskEvents {
    rings: Vec<Sampler>,
    scope: Scope,
    /// Read from the rings, but not yet old enough to be told.
    unsettled: Vec<(u64, TaskEvent)>,
    lost: u64,
}

impl TaskEvents {
    /// Before even threads that are created one after the other fill a ring.
    pub(crate) const SOON: Duration = Duration::from_millis(20);

    /// Opens events that record what becomes of `threads` and all that they create, and perhaps of others.
    ///
    /// # Errors
    /// When the kernel refuses (`perf_event_paranoid`, no such system call in a container), or it would take too many.
    pub(crate) fn open(threads: &[Tid]) -> io::Result<Self> {
        let cpus: Vec<CpuId> = system::online_cpus().ok_or(io::ErrorKind::NotFound)?.iter().collect();
        let size = (RINGS_BYTES / cpus.len().max(1)).clamp(SMALLEST_RING_BYTES, LARGEST_RING_BYTES);
        match cpus.iter().map(|cpu| ring(None, *cpu, size)).collect() {
            Ok(rings) => Ok(Self::new(rings, Scope::Machine)),
            Err(refused) if cpus.len() > MOST_CPUS_BY_THREAD => Err(refused),
            Err(refused) if cpus.len() * threads.len() > MOST_RINGS_BY_THREAD => Err(refused),
            Err(_) => Self::open_by_thread(threads, &cpus),
        }
    }

    /// The same with events of their own for the threads.
    pub(crate) fn open_by_thread(threads: &[Tid], cpus: &[CpuId]) -> io::Result<Self> {
        let size = (LARGEST_RING_BYTES / threads.len().max(1)).max(SMALLEST_RING_BYTES_BY_THREAD);
        let mut rings = Vec::new();
        for tid in threads {
            match cpus.iter().map(|cpu| ring(Some(*tid), *cpu, size)).collect::<io::Result<Vec<_>>>() {
                Ok(of_thread) => rings.extend(of_thread),
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self::new(rings, Scope::Threads))
    }

    fn new(rings: Vec<Sampler>, scope: Scope) -> Self {
        Self { rings, scope, unsettled: Vec::new(), lost: 0 }
    }

    /// Whose births are recorded.
    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    /// What becomes readable when a ring has filled by half. Those of threads have to be emptied every [`Self::SOON`] instead:
    /// they become readable for good when their thread ends.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let rings = if self.scope == Scope::Machine { &self.rings[..] } else { &[] };
        // SAFETY: the descriptor is open for as long as the sampler lives, which is borrowed.
        rings.iter().map(|ring| unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) })
    }

    /// How many records the kernel had to drop so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Empties the rings; gives what has settled since the last time in the order in which it happened, or simply `all`.
    pub(crate) fn take(&mut self, all: bool) -> Vec<TaskEvent> {
        let begin_ns = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| Duration::from(now).as_nanos() as u64);
        for ring in &mut self.rings {
            while let Some(record) = ring.next_record() {
                match decode(record.ty(), record.misc(), &record.to_contiguous()) {
                    Some(Decoded::Event(time_ns, event)) => self.unsettled.push((time_ns, event)),
                    Some(Decoded::Lost(records)) => self.lost += records,
                    None => {}
                }
            }
        }
        self.unsettled.sort_by_key(|(time_ns, _)| *time_ns);
        let settled_ns = if all { u64::MAX } else { begin_ns.saturating_sub(SETTLED.as_nanos() as u64) };
        let settled = self.unsettled.partition_point(|(time_ns, _)| *time_ns <= settled_ns);
        self.unsettled.drain(..settled).map(|(_, event)| event).collect()
    }
}

fn ring(tid: Option<Tid>, CpuId(cpu): CpuId, bytes: usize) -> io::Result<Sampler> {
    let mut builder = Builder::new(Software::DUMMY);
    match tid {
        Some(tid) => builder.observe_pid(tid.0).inherit(true),
        None => builder.any_pid(),
    };
    builder
        .one_cpu(cpu as usize)
        .task(true)
        .comm(true)
        .comm_exec(true)
        .sample(SampleFlag::TIME | SampleFlag::CPU)
        .sample_id_all(true)
        .wakeup_watermark(bytes / 2)
        .enabled(true);
    // All CPUs' records by one clock.
    let attrs = builder.attrs_mut();
    attrs.set_use_clockid(1);
    attrs.clockid = libc::CLOCK_MONOTONIC;
    builder.build()?.sampled(bytes)
}

/// What a record says; none when it is of another kind, or shorter than its kind is.
fn decode(kind: u32, misc: u16, body: &[u8]) -> Option<Decoded> {
    let word = |at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(body.get(at..at + 8)?.try_into().ok()?));
    let id = |at: usize| word(at).map(|id| id as libc::pid_t);
    // Each ends with when and on which CPU it was written.
    let trailer = body.len().checked_sub(16);
    let event = match kind {
        PERF_RECORD_LOST => return Some(Decoded::Lost(long(8)?)),
        PERF_RECORD_FORK => TaskEvent::Birth { pid: Pid(id(0)?), tid: Tid(id(8)?), by: Tid(id(12)?) },
        PERF_RECORD_EXIT => TaskEvent::End { tid: Tid(id(8)?), cpu: CpuId(word(trailer? + 8)?) },
        PERF_RECORD_COMM if misc & PERF_RECORD_MISC_COMM_EXEC != 0 => TaskEvent::Exec { pid: Pid(id(0)?) },
        _ => return None,
    };
    Some(Decoded::Event(long(trailer?)?, event))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(words: &[u32], time_ns: u64, cpu: u32) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(time_ns.to_ne_bytes());
        bytes.extend(u64::from(cpu).to_ne_bytes());
        bytes
    }

    #[test]
    fn records_are_decoded_and_others_are_passed_over() {
        // pid, parent, tid, creator, and the time once more.
        let of_task = record(&[10, 9, 12, 11, 0, 0], 77, 3);
        let birth = TaskEvent::Birth { pid: Pid(10), tid: Tid(12), by: Tid(11) };
        assert_eq!(decode(PERF_RECORD_FORK, 0, &of_task), Some(Decoded::Event(77, birth)));
        let end = TaskEvent::End { tid: Tid(12), cpu: CpuId(3) };
        assert_eq!(decode(PERF_RECORD_EXIT, 0, &of_task), Some(Decoded::Event(77, end)));
        // A name is as long as it is, filled up to eight bytes.
        let of_name = record(&[10, 10, 0x0065_7274, 0], 78, 0);
        let exec = TaskEvent::Exec { pid: Pid(10) };
        assert_eq!(decode(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, &of_name), Some(Decoded::Event(78, exec)));
        assert_eq!(decode(PERF_RECORD_COMM, 0, &of_name), None);
        assert_eq!(decode(PERF_RECORD_LOST, 0, &record(&[1, 0, 5, 0], 79, 0)), Some(Decoded::Lost(5)));
        for length in 0..16 {
            assert_eq!(decode(PERF_RECORD_FORK, 0, &of_task[..length]), None);
        }
    }

    #[test]
    fn what_a_child_does_is_recorded_in_order() {
        let own = Tid(nix::unistd::gettid().as_raw());
        let mut events = match TaskEvents::open(&[own]) {
            Ok(events) => events,
            Err(error) => return println!("skipped: perf_event_open: {error}"),
        };
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid(child.id() as libc::pid_t);
        child.wait().unwrap();
        let seen: Vec<TaskEvent> = events
            .take(true)
            .into_iter()
            .filter(|event| match event {
                TaskEvent::Birth { tid, .. } | TaskEvent::End { tid, .. } => *tid == pid.main_thread(),
                TaskEvent::Exec { pid: of } => *of == pid,
            })
            .collect();
        assert!(
            matches!(seen[..], [TaskEvent::Birth { by, .. }, TaskEvent::Exec { .. }, TaskEvent::End { .. }] if by == own),
            "{seen:?}"
        );
        assert_eq!(events.lost(), 0);
    }
}
