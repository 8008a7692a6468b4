//! The plan of a study: what is run, where, how often, and when it is enough.

use machine::Placement;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// How the report calls it: `npb:cg.W`, or the command line.
    pub name: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// A regular expression whose first group is the program's own time in seconds; else wall time counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_regex: Option<String>,
    /// A regular expression that the output of a right result matches; else the exit code alone decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_regex: Option<String>,
}

/// Where the threads are put.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Treatment {
    /// `unbound`, a policy's name, or a CPU list as written.
    pub name: String,
    /// For each thread count of the plan, in its order, the placement; empty for `unbound`.
    pub placements: Vec<Placement>,
}

/// The name of the treatment that binds nothing.
pub const UNBOUND: &str = "unbound";

/// When a comparison is settled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule")]
pub enum StopRule {
    /// The 95 % interval of every paired ratio to the reference is narrower than `width` (0.02 = 2 %).
    Paired {
        /// Upper minus lower bound of the ratio, over the ratio.
        width: f64,
        /// Blocks before the first look.
        min_blocks: u32,
        /// Blocks after which it stops, settled or not.
        max_blocks: u32,
    },
    /// The papers' rule: at least `min_runs` until the relative standard deviation is below `relative_sd`
    /// (Pires 2017, section 3: five runs, 5 %).
    RelativeSd {
        /// Standard deviation over mean (0.05 = 5 %).
        relative_sd: f64,
        /// Runs before the first look.
        min_runs: u32,
        /// Runs after which it stops, settled or not.
        max_runs: u32,
    },
}

/// A study before it is run. Two plans are the same study when they are equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is run.
    pub subjects: Vec<Subject>,
    /// Thread counts, in the order of the report's columns.
    pub threads: Vec<u32>,
    /// Where; the first is the reference of every ratio (`unbound` unless it was left out).
    pub treatments: Vec<Treatment>,
    /// When it is enough.
    pub stop: StopRule,
    /// Blocks run first and never counted.
    pub warmup_blocks: u32,
    /// Longest that one trial may take.
    pub timeout: Duration,
    /// Longest that the whole study may take; none is no limit.
    pub budget: Option<Duration>,
    /// Seed of the order of trials and of the bootstrap.
    pub seed: u64,
}

impl Plan {
    /// The treatment that every ratio is taken against.
    pub fn reference(&self) -> &Treatment {
        &self.treatments[0]
    }
}
