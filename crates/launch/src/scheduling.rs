//! Who schedules a program's threads, and how.

use crate::LaunchError;
use crate::conditions::Part;
use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Who schedules the threads of a program, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Scheduling {
    /// As it would be anyway.
    #[default]
    Default,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_OTHER with this nice value.
    Nice(i32),
    /// SCHED_OTHER with this slice, in microseconds (`sched_setattr` runtime, Linux 6.12).
    SliceUs(u32),
    /// Each process is bound for life to the CPU that had the fewest when it was created (the report's *attached*).
    Attached,
    /// Cache-aware balancing of the kernel's own scheduler, on or off (`SCHED_CACHE`).
    CacheAware(bool),
    /// The affinity scheduler with these options of `stayput sched`: `light`, `heavy`, `phi=P:T...`.
    Affinity(String),
    /// The sched_ext scheduler that this command loads.
    Ext(String),
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Batch => f.write_str("batch"),
            Self::Idle => f.write_str("idle"),
            Self::Nice(nice) => write!(f, "nice={nice}"),
            Self::SliceUs(us) => write!(f, "slice={}ms", f64::from(*us) / 1e3),
            Self::Attached => f.write_str("attached"),
            Self::CacheAware(on) => write!(f, "cache-aware={}", if *on { "on" } else { "off" }),
            Self::Affinity(rule) => f.write_str(rule),
            Self::Ext(command) => write!(f, "ext:{command}"),
        }
    }
}

impl FromStr for Scheduling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text {
            "default" => Ok(Self::Default),
            "batch" => Ok(Self::Batch),
            "idle" => Ok(Self::Idle),
            "attached" => Ok(Self::Attached),
            "light" | "heavy" => Ok(Self::Affinity(text.to_owned())),
            _ => Err(format!("`{}` is no way of scheduling", machine::quoted(text))),
        }
    }
}

crate::text_in_journals!(Scheduling);

impl Scheduling {
    /// Why this kernel can't do so, in a sentence.
    pub fn lacking(&self) -> Option<String> {
        None
    }

    /// Brings about what concerns the whole machine.
    pub(crate) fn begin(&self) -> Result<SchedulingInForce, LaunchError> {
        Ok(SchedulingInForce {})
    }

    pub(crate) fn for_child(&self) -> SchedulingForChild {
        SchedulingForChild {}
    }
}

/// What was seen of how it was scheduled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulingObservation {}

/// What concerns the whole machine, until this is dropped.
pub(crate) struct SchedulingInForce {}

impl SchedulingInForce {
    /// Why it isn't in force (any more), in a sentence.
    pub(crate) fn lost(&mut self) -> Option<String> {
        None
    }
}

/// What the child does for it.
pub(crate) struct SchedulingForChild {}

impl SchedulingForChild {
    /// # Safety
    /// As of [`ForChild::apply`](crate::conditions::ForChild::apply).
    pub(crate) unsafe fn apply(&self) -> Result<(), (Part, Errno)> {
        Ok(())
    }
}
