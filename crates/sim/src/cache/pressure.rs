//! What running processes do to a cache at present, for their neighbours under it.

use derive_more::{AddAssign, Sub, SubAssign};

/// Lines in use, and lines coming in. In fixed point, so that a sum from which all parts are taken is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, AddAssign, Sub, SubAssign)]
pub(super) struct Pressure {
    fresh_per_ns: i64,
    reused: i64,
}

const FRESH_UNIT: f64 = (1i64 << 32) as f64;
const REUSED_UNIT: f64 = 256.0;

impl Pressure {
    /// Of a process that brings in fresh lines at this rate and uses so many lines again and again.
    pub fn new(fresh_per_ns: f64, reused: f64) -> Self {
        Self { fresh_per_ns: (fresh_per_ns * FRESH_UNIT) as i64, reused: (reused * REUSED_UNIT) as i64 }
    }

    /// Whether nobody does anything.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// Fresh lines within so many ns.
    pub fn fresh_lines(self, ns: f64) -> f64 {
        self.fresh_per_ns as f64 / FRESH_UNIT * ns
    }

    /// Lines that are used again and again.
    pub fn reused_lines(self) -> f64 {
        self.reused as f64 / REUSED_UNIT
    }
}
