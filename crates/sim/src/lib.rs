//! Scheduling policies, simulated.
//!
//! The same seed gives the same bytes, on any number of threads. Time is whole nanoseconds.

#![deny(unsafe_code)]

pub mod durations;
pub mod index;
pub mod memory;
pub mod outcome;
pub mod parameters;
pub mod rule;
pub mod workload;

pub use durations::Durations;
pub use index::{CpuIndex, ProcessIndex};
pub use memory::{Memory, Misses, NoMemory, Ran};
pub use outcome::{End, Interval, JobOutcome, Outcome, ProcessOutcome};
pub use parameters::{Decay, ParameterError, Parameters, ParsePolicyError, Policy, Wake};
pub use workload::{Distribution, Ends, Footprint, Intervals, Job, Phase, Process, Step, Workload};
