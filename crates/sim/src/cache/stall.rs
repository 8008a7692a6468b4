//! How long work takes when misses stall it.

use super::decay::Decay;
use super::footprint::Order;

/// How long work takes: `work (1 + per_ns) + reload_ns * met(work)`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall {
    /// Stalled time a ns of work.
    pub per_ns: f64,
    /// Stalled time when all that is missing has been met.
    pub reload_ns: f64,
    /// Passes a ns of work: in random order, in which a share of `1 - 1/e` of it is met, in blocked order all.
    pub passes_per_ns: f64,
    pub order: Order,
}

/// Work and the time that it took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub work: f64,
    pub wall: f64,
    /// Both in whole ns.
    pub work_ns: u64,
    pub wall_ns: u64,
    /// The share of what is missing that was met.
    pub met: f64,
}

impl Span {
    /// All of `work_ns` of work, or what of it fits into `wall_ns`, where nothing is missing: time is `slope` times the work.
    #[inline]
    pub fn steady(slope: f64, work_ns: u64, wall_ns: u64) -> Self {
        let (work, wall) = (work_ns as f64, wall_ns as f64);
        if work * slope <= wall + 1.0 {
            let needed = work * slope;
            let needed_ns = ((needed + 0.5) as u64).max(work_ns);
            if needed_ns <= wall_ns {
                return Self { work, wall: needed, work_ns, wall_ns: needed_ns, met: 1.0 };
            }
        }
        let work = wall / slope;
        Self { work, wall, work_ns: ((work + 0.5) as u64).min(work_ns).min(wall_ns), wall_ns, met: 1.0 }
    }
}

impl Stall {
    /// Where nothing is missing: all of that has been met at once.
    pub fn steady(per_ns: f64) -> Self {
        Self { per_ns, reload_ns: 0.0, passes_per_ns: f64::MAX, order: Order::Blocked }
    }

    /// All of `work_ns` of work, or what of it fits into `wall_ns`.
    #[inline]
    pub fn span(&self, decay: &Decay, work_ns: u64, wall_ns: u64) -> Span {
        let (work, wall) = (work_ns as f64, wall_ns as f64);
        if work * (1.0 + self.per_ns) <= wall + 1.0 {
            let met = self.met(decay, work);
            let needed = self.wall_ns(work, met);
            let needed_ns = ((needed + 0.5) as u64).max(work_ns);
            if needed_ns <= wall_ns {
                return Span { work, wall: needed, work_ns, wall_ns: needed_ns, met };
            }
        }
        let (work, met) = self.within(decay, wall);
        Span { work, wall, work_ns: ((work + 0.5) as u64).min(work_ns).min(wall_ns), wall_ns, met }
    }

    /// The share of what is missing that is met within `work_ns`.
    #[inline]
    fn met(&self, decay: &Decay, work_ns: f64) -> f64 {
        match self.order {
            Order::Random => 1.0 - decay.left(work_ns * self.passes_per_ns),
            Order::Blocked => (work_ns * self.passes_per_ns).min(1.0),
        }
    }

    #[inline]
    fn wall_ns(&self, work_ns: f64, met: f64) -> f64 {
        work_ns * (1.0 + self.per_ns) + self.reload_ns * met
    }

    /// The work after which `wall_ns` have passed, and the share that is met then.
    #[inline]
    fn within(&self, decay: &Decay, wall_ns: f64) -> (f64, f64) {
        let slope = 1.0 + self.per_ns;
        let steepest = self.reload_ns * self.passes_per_ns;
        // As if everything missing had been met: never too much.
        let mut work_ns = ((wall_ns - self.reload_ns) / slope).max(0.0);
        match self.order {
            // The usual case: most runs are much longer than a pass.
            Order::Random if work_ns * self.passes_per_ns >= Decay::LIMIT => (work_ns, 1.0),
            Order::Blocked if work_ns * self.passes_per_ns >= 1.0 => (work_ns, 1.0),
            Order::Blocked => {
                work_ns = wall_ns / (slope + steepest);
                (work_ns, (work_ns * self.passes_per_ns).min(1.0))
            }
            Order::Random => {
                // Wall time is a concave function of work, so Newton's steps go up to the root and never beyond it. Each
                // leaves half the square of the one before, measured in passes.
                let mut left = decay.left(work_ns * self.passes_per_ns);
                for _ in 0..64 {
                    let short = wall_ns - self.wall_ns(work_ns, 1.0 - left);
                    let step = short / (slope + steepest * left);
                    work_ns += step;
                    let passes = step * self.passes_per_ns;
                    if passes < 1e-5 {
                        left -= left * passes;
                        break;
                    }
                    left = decay.left(work_ns * self.passes_per_ns);
                }
                (work_ns, 1.0 - left)
            }
        }
    }
}
