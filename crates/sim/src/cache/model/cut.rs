//! Runs that can be cut off at any time.
//!
//! A run is taken apart: what it will meet is found at its start, what it leaves is left at its stop, when it is known how far
//! it came. In between, neighbours and the bus already see what it asks of them.

use super::{CacheModel, Meeting};
use crate::cache::stall::Span;
use crate::index::{CpuIndex, ProcessIndex};
use crate::memory::{Memory, Misses};

/// A run under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) meeting: Meeting,
    /// How long it is and how many misses it has if it isn't cut off.
    whole: Span,
    misses: Misses,
}

impl CacheModel {
    /// What `process` meets as it starts on a CPU.
    #[inline]
    pub(super) fn meeting(&mut self, process: ProcessIndex, index: CpuIndex, now_ns: u64) -> Meeting {
        self.dispatch(process, index, now_ns);
        self.look_for_idle(now_ns);
        let Self { hierarchy, cpus, buses, caches, .. } = self;
        let cpu = &cpus[index.at()];
        let bus = &buses[cpu.home as usize];
        match cpu.settled {
            Some(settled) => Meeting::settled(settled, hierarchy.timing.bus_ns * bus.wait_services(cpu.demand)),
            None => caches.meet(hierarchy, cpu, bus, process, index),
        }
    }

    /// It starts so much work there: how long that takes if it isn't cut off, in ns.
    #[inline]
    pub(super) fn begin_run(&mut self, index: CpuIndex, now_ns: u64, work_ns: u64, meeting: Meeting) -> u64 {
        let Self { hierarchy, cpus, until_ns, buses, caches, runs, .. } = self;
        let cpu = &mut cpus[index.at()];
        let whole = meeting.stall.span(&caches.decay, work_ns, u64::MAX);
        let misses = meeting.misses(cpu.taken, whole);
        meeting.ask(hierarchy, cpu, &mut buses[cpu.home as usize], whole, misses);
        let path = &hierarchy.paths[index.at()];
        if path.is_shared {
            caches.press(cpu, path, whole);
        }
        until_ns[index.at()] = now_ns.saturating_add(whole.wall_ns);
        runs[index.at()] = Run { meeting, whole, misses };
        whole.wall_ns
    }

    /// The run ends that was begun with `work_ns`, after `wall_ns`: how far it came, its misses, and whether caches that
    /// had not all its lines were changed by it.
    #[inline]
    pub(super) fn end_run(
        &mut self,
        process: ProcessIndex,
        index: CpuIndex,
        now_ns: u64,
        work_ns: u64,
        wall_ns: u64,
    ) -> (Span, Misses, bool) {
        let Self { hierarchy, cpus, until_ns, caches, runs, .. } = self;
        let cpu = &mut cpus[index.at()];
        let Run { meeting, whole, misses } = &runs[index.at()];
        let (span, misses) = if wall_ns == whole.wall_ns {
            (*whole, *misses)
        } else {
            let span = meeting.stall.span(&caches.decay, work_ns, wall_ns);
            (span, meeting.misses(cpu.taken, span))
        };
        let is_unsettled = cpu.settled.is_none();
        match cpu.settled {
            Some(settled) if settled.brings_fresh => {
                caches.pass_through(cpu, process, &hierarchy.paths[index.at()], span.work);
            }
            Some(_) => {}
            None => caches.leave(hierarchy, cpu, process, index, meeting, span),
        }
        until_ns[index.at()] = now_ns;
        (span, misses, is_unsettled)
    }
}
