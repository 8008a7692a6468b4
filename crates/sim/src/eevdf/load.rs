//! Load as balancing sees it: how much was in a queue of late. Who sleeps in a queue until its lag is made up for counts, too.
//!
//! `Documentation/scheduler/schedutil.rst`: averages in which what was 32 ms ago counts half as much as what is now.

/// Half of an average is of the last so many ns (32 periods of 1,024 us).
const HALF_LIFE_NS: f64 = 32.0 * 1_024_000.0;

/// A moving average of a load that is constant between updates, and when it was last updated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Average {
    value: f32,
    at: u64,
}

impl Average {
    /// An average that has been `value` for long.
    pub(crate) fn full(value: f64, now_ns: u64) -> Self {
        Self { value: value as f32, at: now_ns }
    }

    /// What it is now, when the load has been `load` since the last update.
    #[inline]
    pub(crate) fn now(&self, load: f64, now_ns: u64) -> f64 {
        let value = f64::from(self.value);
        if value == load {
            return load;
        }
        load + (value - load) * libm::exp2(-(now_ns.saturating_sub(self.at) as f64) / HALF_LIFE_NS)
    }

    /// Brings it up to date; from now on the load is another one.
    #[inline]
    pub(crate) fn update(&mut self, load: f64, now_ns: u64) {
        (self.value, self.at) = (self.now(load, now_ns) as f32, now_ns);
    }

    /// Adds what somebody brings along, or takes with it, having brought both up to date.
    #[inline]
    pub(crate) fn add(&mut self, value: f64) {
        self.value = (f64::from(self.value) + value).max(0.0) as f32;
    }
}
