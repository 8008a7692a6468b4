//! What runs used besides what they are compared by, as metrics.

use crate::metric::Metric;
use launch::Observation;
use stats::Better;

/// What of it a run used; none where that wasn't observed.
type Reading = fn(&Observation) -> Option<f64>;

const MIB: f64 = (1 << 20) as f64;

/// Name, unit, and what says it. Of each, less is better.
const USED: [(&str, Option<&str>, Reading); 10] = [
    ("cpu_time", Some("s"), |seen| Some(seen.user_s + seen.system_s)),
    ("peak_memory", Some("MiB"), |seen| Some(seen.max_rss_bytes as f64 / MIB)),
    ("voluntary_switches", None, |seen| Some(seen.voluntary_switches as f64)),
    ("involuntary_switches", None, |seen| Some(seen.involuntary_switches as f64)),
    ("migrations", None, |seen| seen.migrations.map(|moves| moves as f64)),
    ("minor_faults", None, |seen| Some(seen.minor_faults as f64)),
    ("major_faults", None, |seen| Some(seen.major_faults as f64)),
    ("read", Some("MiB"), |seen| seen.read_bytes.map(|bytes| bytes as f64 / MIB)),
    ("written", Some("MiB"), |seen| seen.written_bytes.map(|bytes| bytes as f64 / MIB)),
    ("energy", Some("J"), |seen| seen.energy_j),
];

/// All that is told of what runs used, with what says it.
pub(crate) fn used() -> impl Iterator<Item = (Metric, Reading)> {
    USED.into_iter().map(|(name, unit, reading)| (Metric::new(name, unit, Better::Lower), reading))
}
