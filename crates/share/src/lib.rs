//! Shares CPUs out among jobs that run. Jobs and a policy go in; each job's response time comes out, with every decision that
//! was taken on the way.
//!
//! ```text
//! page, bell ──> wants ──┐                                   ┌──> threads bound, cpusets, page
//! /proc ──> demand ──────┴──> Allocation: D.1-D.3, A.1-A.2 ──┼──> decisions, a line each
//! pidfd ──> departures ──────────────────────────────────────┘
//! ```
//!
//! - **By which rules**: [`Allocation`] implements [`sim::space::Allocator`], whose provided methods are the rules. The simulator's engine
//!   implements the same trait, so that both decide by the same code.
//! - **What a job says** it says in a [page](page::Page) that it shares with us (`include/stayput_share.h`). Of a job that says nothing, the
//!   threads that are seen to be ready are what it can use.
//! - **What is believed**: no more than a job is seen to use ([`Demand`]).
//! - **What is certain**: a job that has started always has a CPU. A job's CPUs are free as soon as it has ended. When this process
//!   dies, however it does, jobs run on where they were.

mod allocation;
mod binding;
mod comparison;
mod conduct;
mod cpuset;
mod decision;
mod demand;
mod job;
mod page;
mod results;
mod series;
mod text;

pub use allocation::Allocation;
pub use comparison::{Comparison, Ratio, comparisons, mean_response_s, paired_with};
pub use conduct::{JobOutcome, Outcome, Play, ShareError};
pub use cpuset::{Cpusets, NoCpusets};
pub use decision::{Decision, Decisions, Heading, Step};
pub use demand::Demand;
pub use job::JobCommand;
pub use results::{Results, ResultsError};
pub use series::Series;
pub use text::report;

/// The C interface of jobs, for who compiles against it.
pub const HEADER: &str = include_str!("../include/stayput_share.h");
