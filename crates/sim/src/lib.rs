//! Scheduling policies, simulated.
//!
//! The same seed gives the same bytes, on any number of threads. Time is whole nanoseconds.

#![deny(unsafe_code)]

mod behaviour;
pub mod cache;
pub mod control_group;
pub mod course;
mod cpus;
mod decay;
pub mod durations;
pub mod eevdf;
mod engine;
pub mod experiment;
pub mod fault;
pub mod index;
#[cfg(test)]
mod laws;
pub mod memory;
pub mod outcome;
pub mod parameters;
mod queue;
mod random;
pub mod rule;
pub mod space;
mod timing;
pub mod toml_text;
mod tournament;
pub mod workload;
pub mod workload_file;

pub use cache::{CacheModel, Footprint, TaskCaches};
pub use control_group::ControlGroup;
pub use course::{Act, Courses};
pub use decay::{Decay, ParseDecayError};
pub use durations::Durations;
pub use eevdf::{CgroupMode, KernelParameters, ParseReleaseError, Release};
pub use experiment::{Experiment, ExperimentError};
pub use fault::{Fault, WorkloadError};
pub use index::{CpuIndex, ProcessIndex};
pub use memory::{Memory, Misses, NoMemory, Ran, Stopped, TaskMemory};
pub use outcome::{End, Interval, JobOutcome, Outcome, ProcessOutcome};
pub use parameters::{Clocks, ParameterError, Parameters, ParsePolicyError, Policy, QuantumEnd, Wake};
pub use workload::{Distribution, Ends, Intervals, Job, Phase, Process, Sched, Step, Workload};
pub use workload_file::WorkloadFile;
