//! When the calling process has a CPU, and which, as far as clocks tell.
//!
//! A process that is taken off its CPU doesn't notice, but its CPU time stands still while wall time goes on. So wall time is
//! looked at often, which takes no system call, and CPU time every now and then: where wall time has gained on it, the
//! largest step between two looks is where the process was away. (The virtual CPU of an emulator that stops for another to go
//! on is no such thing: the guest's kernel doesn't know, and the CPU time of whoever runs there goes on.)

use crate::arena::Log;
use machine::CpuId;
use nix::time::{ClockId, clock_gettime};
use sim::End;

/// Less than this is nobody else's run: it is an interrupt.
const LEAST_AWAY_NS: u64 = 50_000;

/// A clock's time in ns.
pub(crate) fn clock_ns(clock: ClockId) -> u64 {
    // The two clocks that we read are always there.
    clock_gettime(clock).map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Wall time since boot, the same for all processes.
pub(crate) fn now_ns() -> u64 {
    clock_ns(ClockId::CLOCK_MONOTONIC)
}

fn cpu_time_ns() -> u64 {
    clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// The CPU that the caller is on.
fn this_cpu() -> CpuId {
    // SAFETY: it only asks.
    CpuId(unsafe { libc::sched_getcpu() }.max(0) as u32)
}

/// A process that watches itself.
pub(crate) struct Presence<'a> {
    log: Log<'a>,
    /// When the replay began.
    start_ns: u64,
    /// The stay that goes on.
    cpu: CpuId,
    runnable_ns: u64,
    from_ns: u64,
    /// When CPU time was last compared with wall time, and what it was.
    settled_ns: u64,
    cpu_time_ns: u64,
    /// The last look at the clock, and the largest step between two since then: its end and how long it is.
    seen_ns: u64,
    step_end_ns: u64,
    step_ns: u64,
    /// The sum of those steps since then in which it was away.
    away_ns: u64,
    /// Whether CPU time is read only as it comes.
    is_sparing: bool,
}

impl<'a> Presence<'a> {
    /// Of a process that became runnable at `runnable_ns`, on the clock of [`now_ns`], and has just got a CPU. Who `is_sparing` takes it for
    /// granted that it had its CPU but where two looks are far apart, and reads its CPU time only as it comes: that is a system call, in which
    /// the kernel sees whether a slice is over.
    pub(crate) fn new(log: Log<'a>, start_ns: u64, runnable_ns: u64, is_sparing: bool) -> Self {
        let mut presence = Self {
            log,
            start_ns,
            cpu: CpuId(0),
            runnable_ns,
            from_ns: 0,
            settled_ns: 0,
            cpu_time_ns: 0,
            seen_ns: 0,
            step_end_ns: 0,
            step_ns: 0,
            away_ns: 0,
            is_sparing,
        };
        presence.come(runnable_ns);
        presence
    }

    /// It has a CPU again, having become runnable at `runnable_ns`; how much CPU time it had since the two clocks were last compared.
    pub(crate) fn come(&mut self, runnable_ns: u64) -> u64 {
        let came_ns = now_ns();
        self.seen_ns = came_ns;
        let (now_ns, cpu_time_ns) = self.both_clocks();
        let had_ns = cpu_time_ns.saturating_sub(self.cpu_time_ns);
        self.cpu = this_cpu();
        self.cpu_time_ns = cpu_time_ns;
        self.runnable_ns = runnable_ns.min(came_ns);
        self.from_ns = came_ns;
        self.settle_at(now_ns);
        had_ns
    }

    fn settle_at(&mut self, now_ns: u64) {
        self.settled_ns = now_ns;
        self.seen_ns = now_ns;
        self.step_ns = 0;
        self.step_end_ns = now_ns;
        self.away_ns = 0;
    }

    /// For how long it was away since the two clocks were last compared, as far as looks tell.
    pub(crate) fn away_ns(&self) -> u64 {
        self.away_ns
    }

    /// Looks at the clock.
    #[inline]
    pub(crate) fn look(&mut self) -> u64 {
        let now_ns = now_ns();
        let step_ns = now_ns - self.seen_ns;
        if step_ns > self.step_ns {
            self.step_ns = step_ns;
            self.step_end_ns = now_ns;
        }
        if step_ns >= LEAST_AWAY_NS {
            self.away_ns += step_ns;
        }
        self.seen_ns = now_ns;
        now_ns
    }

    /// Wall and CPU time of one moment. The two clocks can't be read at once: whatever came between the two looks would pass for time away, so they are taken again.
    fn both_clocks(&mut self) -> (u64, u64) {
        const TRIES: u32 = 8;
        let mut before_ns = self.look();
        for _ in 1..TRIES {
            let cpu_time_ns = cpu_time_ns();
            let after_ns = self.look();
            if after_ns - before_ns < LEAST_AWAY_NS / 2 {
                return (after_ns, cpu_time_ns);
            }
            before_ns = after_ns;
        }
        (before_ns, cpu_time_ns())
    }

    /// Compares CPU time with wall time: how much there was since the last time. Where the process was away or has moved in
    /// between, one stay has ended, for this cause, and another one begun.
    pub(crate) fn settle(&mut self, cause: End) -> u64 {
        let (now_ns, cpu_time_ns) = if self.is_sparing {
            let now_ns = self.look();
            // What else was taken of it, the next reading tells.
            (now_ns, self.cpu_time_ns + (now_ns - self.settled_ns).saturating_sub(self.away_ns))
        } else {
            self.both_clocks()
        };
        let had_ns = cpu_time_ns.saturating_sub(self.cpu_time_ns);
        let away_ns = (now_ns - self.settled_ns).saturating_sub(had_ns);
        let cpu = this_cpu();
        if away_ns >= LEAST_AWAY_NS || cpu != self.cpu {
            // Who was away several times between two comparisons is taken to have been away once, where the largest step ends: the
            // sum is right, and chunks of work are short enough that it rarely matters.
            let back_ns = self.step_end_ns;
            let left_ns = back_ns.saturating_sub(away_ns).max(self.from_ns);
            self.record(left_ns, cause);
            self.cpu = cpu;
            self.runnable_ns = left_ns;
            self.from_ns = back_ns;
        }
        self.cpu_time_ns = cpu_time_ns;
        self.settle_at(now_ns);
        had_ns
    }

    /// The stay ends here, for this cause. When it did.
    pub(crate) fn leave(&mut self, cause: End) -> u64 {
        self.settle(End::Quantum);
        // Who was away until this very look had its CPU all the same, and the cause counts.
        let left_ns = self.seen_ns.max(self.from_ns + 1);
        self.record(left_ns, cause);
        left_ns
    }

    fn record(&self, until_ns: u64, cause: End) {
        let since_start = |ns: u64| ns.saturating_sub(self.start_ns);
        self.log.record(
            self.cpu,
            since_start(self.runnable_ns),
            since_start(self.from_ns),
            since_start(until_ns),
            cause,
        );
    }
}
