//! The report's own experiments, on the model.

use super::model::CacheModel;
use crate::index::{CpuIndex, ProcessIndex};
use crate::memory::Memory;

/// What a process reuses, displaces, and could gain, as the report measures it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reuse {
    /// Misses of an interval with the caches flushed before it, less those without, for the same work (section 3.1.1).
    pub reload_misses: f64,
    /// Misses within the interval's time with the caches flushed: what it displaces of others (section 3.2.2).
    pub intervening_misses: f64,
    /// Time that the reload takes, as a share of the interval (section 3.2.2, "possible gains").
    pub potential: f64,
}

/// Measures the reuse of a process on a CPU in an interval of `wall_ns`.
///
/// First it runs for long enough to have all its lines about. Other CPUs are as busy as they are at `now_ns` in `model`.
pub fn reuse(model: &CacheModel, process: ProcessIndex, cpu: CpuIndex, now_ns: u64, wall_ns: u64) -> Reuse {
    let mut warm = model.clone();
    warm.dispatch(process, cpu, now_ns);
    warm.run(process, cpu, now_ns, model.settling_ns(process), u64::MAX);
    let mut cold = warm.clone();
    cold.flush(cpu);
    let interval = |caches: &CacheModel, work_ns, wall_ns| {
        let mut caches = caches.clone();
        caches.dispatch(process, cpu, now_ns);
        caches.run(process, cpu, now_ns, work_ns, wall_ns)
    };
    let with_its_lines = interval(&warm, u64::MAX, wall_ns);
    let flushed = interval(&cold, with_its_lines.work_ns, u64::MAX);
    Reuse {
        reload_misses: flushed.misses.total() - with_its_lines.misses.total(),
        intervening_misses: interval(&cold, u64::MAX, wall_ns).misses.total(),
        // Rounded to whole ns, a process without reuse may seem to gain by the flush.
        potential: flushed.wall_ns.saturating_sub(with_its_lines.wall_ns) as f64 / with_its_lines.wall_ns as f64,
    }
}
