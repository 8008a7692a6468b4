//! What the engine needs to know of caches: how long work takes from a state of the caches that earlier work left.

use crate::index::{CpuIndex, ProcessIndex};
use derive_more::{Add, AddAssign, Sum};
use serde::Serialize;

/// Misses by cause. They are expected numbers, so not whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Add, AddAssign, Sum)]
pub struct Misses {
    /// Lines that the process had in this cache, or has in another, and must load again.
    pub reload: f64,
    /// Misses that it has with all its reusable lines cached.
    pub steady: f64,
    /// Lines that a writer on another CPU took away.
    pub invalidation: f64,
}

impl Misses {
    /// Misses of all causes.
    pub fn total(&self) -> f64 {
        self.reload + self.steady + self.invalidation
    }
}

/// What came of running.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ran {
    /// Work done, in ns.
    pub work_ns: u64,
    /// Time that it took, misses included, in ns; never less than the work.
    pub wall_ns: u64,
    /// Misses on the way.
    pub misses: Misses,
}

/// The caches of a machine under one replicate's processes. Calls come in the order of simulated time.
pub trait Memory {
    /// `process` begins to run on `cpu`: what survived of its cached state is settled.
    fn dispatch(&mut self, process: ProcessIndex, cpu: CpuIndex, now_ns: u64);

    /// It runs there from `now_ns` on until `work_ns` of work are done or `wall_ns` have passed, whichever is first, and the
    /// state follows. Work that is done at the very moment `wall_ns` are over is done.
    fn run(&mut self, process: ProcessIndex, cpu: CpuIndex, now_ns: u64, work_ns: u64, wall_ns: u64) -> Ran;

    /// As [`dispatch`](Self::dispatch) and [`run`](Self::run), of a run that can be cut off: how long `work_ns` of work take if it
    /// isn't, in ns. It is followed by one [`stop`](Self::stop) on the same CPU.
    fn start(&mut self, process: ProcessIndex, cpu: CpuIndex, now_ns: u64, work_ns: u64) -> u64;

    /// The run ends that was started with `work_ns`, after `wall_ns`, which are never more than [`start`](Self::start) said; when
    /// they are as many, all of the work is done. The state follows now.
    fn stop(&mut self, process: ProcessIndex, cpu: CpuIndex, now_ns: u64, work_ns: u64, wall_ns: u64) -> Ran;
}

/// What a run came to that could have been cut off at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stopped {
    /// Work, wall time and misses.
    pub ran: Ran,
    /// Of the wall time, what brought back lines that the process had when it stopped before and lost by being away or by
    /// moving, in ns: no more than the wall time beyond the work.
    pub reload_ns: u64,
}

/// The caches of a machine under workers that do one task after another and can be cut off at any time. Calls come in the
/// order of simulated time; every start is followed by one stop on the same CPU.
pub trait TaskMemory {
    /// From its next run on, `process` does what footprint number `footprint` says, and of its own lines only the share `kept`,
    /// from 0 to 1, stays of use, wherever they are cached. Not while it runs.
    fn turn(&mut self, process: ProcessIndex, footprint: u32, kept: f64);

    /// `process` runs on `cpu` from `now_ns` on: how long `work_ns` of work take if it isn't cut off, in ns.
    fn start(&mut self, process: ProcessIndex, cpu: CpuIndex, now_ns: u64, work_ns: u64) -> u64;

    /// The run ends that was started with `work_ns`, after `wall_ns`, which are never more than [`start`](Self::start) said; when
    /// they are as many, all of the work is done. The state of the caches follows now.
    fn stop(&mut self, process: ProcessIndex, cpu: CpuIndex, now_ns: u64, work_ns: u64, wall_ns: u64) -> Stopped;
}

/// No caches: work takes its own time.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMemory;

impl Memory for NoMemory {
    #[inline]
    fn dispatch(&mut self, _: ProcessIndex, _: CpuIndex, _: u64) {}

    #[inline]
    fn run(&mut self, _: ProcessIndex, _: CpuIndex, _: u64, work_ns: u64, wall_ns: u64) -> Ran {
        let ns = work_ns.min(wall_ns);
        Ran { work_ns: ns, wall_ns: ns, misses: Misses::default() }
    }

    #[inline]
    fn start(&mut self, _: ProcessIndex, _: CpuIndex, _: u64, work_ns: u64) -> u64 {
        work_ns
    }

    #[inline]
    fn stop(&mut self, process: ProcessIndex, cpu: CpuIndex, now_ns: u64, work_ns: u64, wall_ns: u64) -> Ran {
        self.run(process, cpu, now_ns, work_ns, wall_ns)
    }
}

impl TaskMemory for NoMemory {
    #[inline]
    fn turn(&mut self, _: ProcessIndex, _: u32, _: f64) {}

    #[inline]
    fn start(&mut self, _: ProcessIndex, _: CpuIndex, _: u64, work_ns: u64) -> u64 {
        work_ns
    }

    #[inline]
    fn stop(&mut self, process: ProcessIndex, cpu: CpuIndex, now_ns: u64, work_ns: u64, wall_ns: u64) -> Stopped {
        Stopped { ran: Memory::run(self, process, cpu, now_ns, work_ns, wall_ns), reload_ns: 0 }
    }
}
