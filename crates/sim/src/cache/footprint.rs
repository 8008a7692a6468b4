//! What a process does to caches, as data.

use serde::{Deserialize, Serialize};

/// The order in which a process refers to the lines that it uses again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Each reference goes to any of them.
    #[default]
    Random,
    /// One after the other, pass after pass, as blocked loops do.
    Blocked,
}

/// What a process does to caches.
///
/// Lines are of two sorts: those that it uses again and again (`reload_lines`), and fresh ones, used once. A process's
/// own reused lines are taken to fit side by side in a cache that is large enough for them; misses between them belong
/// to the steady ones. Counts are of lines of `line_bytes`; caches with other lines get as many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Footprint {
    /// Bytes of the lines that the other fields count. 16 on the report's machine: there, 3,000 lines are 48 KB.
    pub line_bytes: f64,
    /// Lines used again and again, shared ones included: the report's reload misses (its section 3.1.1).
    pub reload_lines: f64,
    /// Work in which as many references go to reused lines as there are of them, in µs. The default is an assumption.
    pub pass_us: f64,
    /// The order of those references.
    pub order: Order,
    /// Misses a ms of work once everything is loaded, with no other process about.
    pub steady_misses_per_ms: f64,
    /// The share of the steady misses that bring fresh lines. The rest bring back what the process itself displaced, in
    /// the innermost cache that is modelled; outer ones are taken to have kept it.
    pub fresh_share: f64,
    /// How many of the reused lines all processes of the job have in common.
    pub shared_lines: f64,
    /// Writes to shared lines that other caches lose them by, a ms of work.
    pub shared_writes_per_ms: f64,
}

impl Default for Footprint {
    /// A process that never misses.
    ///
    /// The report tells no reference rates. It measures reuse over dispatch intervals, Oracle's with some 2 ms of work, so
    /// the reused lines are all referred to well within that: hence the pass.
    fn default() -> Self {
        Self {
            line_bytes: 16.0,
            reload_lines: 0.0,
            pass_us: 250.0,
            order: Order::Random,
            steady_misses_per_ms: 0.0,
            fresh_share: 1.0,
            shared_lines: 0.0,
            shared_writes_per_ms: 0.0,
        }
    }
}

impl Footprint {
    /// Each number with its name, and the least and the most that it may be.
    pub fn limits(&self) -> [(&'static str, f64, f64, f64); 7] {
        let most_writes = if self.shared_lines > 0.0 { 1e6 } else { 0.0 };
        [
            ("line_bytes", self.line_bytes, 1.0, 65_536.0),
            ("reload_lines", self.reload_lines, 0.0, 1e9),
            ("pass_us", self.pass_us, 1e-3, 1e9),
            ("steady_misses_per_ms", self.steady_misses_per_ms, 0.0, 1e6),
            ("fresh_share", self.fresh_share, 0.0, 1.0),
            ("shared_lines", self.shared_lines, 0.0, self.reload_lines),
            ("shared_writes_per_ms", self.shared_writes_per_ms, 0.0, most_writes),
        ]
    }
}
