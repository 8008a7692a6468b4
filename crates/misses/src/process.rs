//! What is remembered of a process: where it ran when, and which of its lines it used where.

use crate::cache::Line;
use crate::hierarchy::Alone;
use crate::sparse::Sparse;
use crate::window::JOBS;
use machine::CpuId;

/// A stretch on one CPU with no other process of interest in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    cpu: CpuId,
    from: u64,
    /// Nothing while it goes on.
    until: Option<u64>,
}

/// A process of interest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    /// From the first.
    runs: Vec<Run>,
    /// Nothing until it runs.
    pub alone: Option<Alone>,
    /// What it remembers of each line of its own window.
    pub own: Sparse<Use>,
    /// What it remembers of each line of the jobs' windows.
    pub shared: [Sparse<Use>; JOBS as usize],
}

impl Process {
    /// Where it ran last, or still does.
    pub fn last_cpu(&self) -> Option<CpuId> {
        Some(self.runs.last()?.cpu)
    }

    /// Where it runs.
    pub fn cpu(&self) -> Option<CpuId> {
        self.runs.last().filter(|run| run.until.is_none()).map(|run| run.cpu)
    }

    /// Where it ran at a time.
    pub fn cpu_at(&self, time: u64) -> Option<CpuId> {
        let later = self.runs.partition_point(|run| run.from <= time);
        let run = self.runs[..later].last()?;
        run.until.is_none_or(|until| time < until).then_some(run.cpu)
    }

    /// It is gone: what was remembered of its lines is needed no more.
    pub fn forget(&mut self) {
        *self = Self { runs: std::mem::take(&mut self.runs), ..Self::default() };
    }

    pub fn begin_run(&mut self, cpu: CpuId, now: u64) {
        self.runs.push(Run { cpu, from: now, until: None });
    }

    pub fn end_run(&mut self, now: u64) {
        if let Some(run) = self.runs.last_mut() {
            run.until.get_or_insert(now);
        }
    }
}

/// The last use that a process made of a virtual line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use(u64);

/// Bits of the CPU; the rest is the physical line.
const CPU_BITS: u32 = 16;

impl Use {
    pub fn new(cpu: CpuId, line: Line) -> Self {
        // CPU 65,535 doesn't exist (the machine crate's limit is on the number of CPUs), so no use is 0.
        Self((line.0 << CPU_BITS) | u64::from(cpu.0 + 1))
    }

    /// The CPU through which it used that physical line; none when it used another or none.
    pub fn cpu_for(self, line: Line) -> Option<CpuId> {
        (self.0 != 0 && self.0 >> CPU_BITS == line.0).then(|| CpuId((self.0 as u32 & ((1 << CPU_BITS) - 1)) - 1))
    }
}
