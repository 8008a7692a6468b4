//! A footprint in a cache of some build.

use super::footprint::{Footprint, Order};
use super::hierarchy::Build;
use super::survival::{Crowd, Survival};

/// A set of reused lines in a cache of some build.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lines {
    /// How many of them can be in the cache at once.
    pub attainable: f64,
    /// How many intruding lines they count as (`survival.rs`): themselves, or with one way as many fresh ones
    /// as displace as much. Side by side, `n` lines hit a share `n/N` of the frames; lying anywhere, `1 - exp(-n/N)`.
    pub intruding: f64,
}

impl Lines {
    /// `lines` of a footprint of `all`.
    fn new(lines: f64, all: f64, order: Order, build: &Build) -> Self {
        let frames = build.frames;
        let fits = if all <= frames {
            1.0
        } else {
            match order {
                Order::Random => frames / all,
                // LRU has always just displaced what is wanted next.
                Order::Blocked => 0.0,
            }
        };
        let intruding = match build.ways {
            // Capped where a thousandth of the cache is left.
            Some(1) => -frames * libm::log((1.0 - lines / frames).max(1e-3)),
            _ => lines,
        };
        // As a single float, which is what `traffic.rs` compares it with.
        Self { attainable: lines * fits, intruding: f64::from(intruding as f32) }
    }
}

/// A footprint in a cache of some build.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    /// Lines that the process has for itself.
    pub own: Lines,
    /// Lines that it shares with its job.
    pub shared: Lines,
    /// Lines here for each line of the footprint.
    pub scale: f64,
    /// Fresh lines a ns of work.
    pub fresh_per_ns: f64,
    /// Misses a ns of work when all lines that can be in the cache are.
    pub steady_per_ns: f64,
    /// What neighbours under the cache leave of all lines that can be in it.
    pub crowd: Crowd,
}

impl Fit {
    pub fn new(footprint: &Footprint, build: &Build, survival: &Survival) -> Self {
        let scale = footprint.line_bytes / build.line_bytes;
        let (all, shared) = (footprint.reload_lines * scale, footprint.shared_lines * scale);
        let lines = |lines| Lines::new(lines, all, footprint.order, build);
        let (own, shared) = (lines(all - shared), lines(shared));
        let steady_per_ns = footprint.steady_misses_per_ms * 1e-6 * scale;
        let fresh_per_ns = steady_per_ns * footprint.fresh_share;
        let too_many_per_ns = (all - own.attainable - shared.attainable).max(0.0) / (footprint.pass_us * 1e3);
        let own_steady = if build.is_innermost { steady_per_ns } else { fresh_per_ns };
        let crowd = survival.crowd(own.attainable + shared.attainable);
        Self { own, shared, scale, fresh_per_ns, steady_per_ns: own_steady + too_many_per_ns, crowd }
    }
}
