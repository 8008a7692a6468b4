//! Caches whose contents depend on what ran in between.
//!
//! # The model
//!
//! For each process and cache there is the expected number `x` of the process's reused lines in it (its *resident* lines),
//! of `R` that it has: a real number from 0 to R. Everything is an expectation; nothing is drawn.
//!
//! - **It runs** for `w` ns of work. With references in random order the reload transient is
//!   `x' = R - (R - x) exp(-w/pass)`, in blocked order `x' = R - (R - x) max(0, 1 - w/pass)`: misses come at a rate that
//!   falls as `x` grows. Steady misses come on top, at a constant rate a ns of work. [`Footprint`]
//! - **It is away**: others use `m` distinct lines in the cache. With one way `x exp(-m/N)` of its lines stay, with more
//!   what Thiebaut and Stone's footprints say. (`survival.rs`) What came in between is counted as in a stack of sets of
//!   lines, so lines used again by the same intruder count once. (`traffic.rs`)
//! - **It used a part**: in a cache of several ways, what is found of a set that was used in part, time and again, depends on how
//!   long ago each line was used. The latest uses of sets are a stack of batches. (`history.rs`)
//! - **It runs beside others** under a cache that is shared. What they bring in during one pass of it displaces part of what it
//!   is about to use again: further reload misses, at a constant rate, from what the neighbours do at the time.
//! - **Lines that a job shares** are a set of their own, which its processes fill and find together. A process that writes takes
//!   shared lines away from caches of other CPUs: of those that are away, `exp(-writes/lines)` stay; one that runs
//!   meets a constant rate of invalidation misses. Writers under the same cache are taken to be as likely as chance has it.
//! - **Time**: `wall = w (1 + sum of rates x costs) + sum of reloaded lines x costs`; costs by distance from [`Timing`],
//!   plus the wait for a bus or memory that others use at the time. (`bus.rs`)
//!
//! The transient and the steady state are those of Agarwal, Horowitz and Hennessy ("An analytical cache model", ACM TOCS 7(2),
//! 1989: start-up, intrinsic and extrinsic misses). That a scheduler should weigh `x`, with reload times from what
//! intervened and with waiting for the bus, is Squillante and Lazowska's ("Using processor-cache affinity information in
//! shared-memory multiprocessor scheduling", IEEE TPDS 4(2), 1993); that a time-shared cache can be followed by one number
//! for each process, Suh, Devadas and Rudolph's ("Analytical cache models with applications to cache partitioning", ICS 2001).
//!
//! # Limits
//!
//! - Lines lie at random in the cache as seen from other processes. A program whose arrays collide systematically doesn't.
//! - A process reuses one set of lines at one rate, until it turns to another ([`TaskCaches`]).
//! - In a cache under several CPUs, what a neighbour does in a run is accounted for from that run's start.
//! - Neighbours under a cache that together nearly fill it miss more than is modelled: by a third when two working sets take
//!   three quarters of it. Below half of it the two agree within a tenth.
//! - A line of shared memory that was written is fetched at the cost of any miss of the outermost cache.
//! - Where parts of working sets are used, misses are within a sixth; workers that turn from task to task are taken to have used all of
//!   what they have ([`TaskCaches`]).
//! - Replacement is LRU. Prefetching, write-back traffic and victim caches aren't modelled, nor are TLBs.
//! - A process is remembered in its four latest caches of each depth, a cache remembers sixteen sets by name.
//!
//! `tests/cache` holds the model against a cache that is simulated line by line.
//!
//! # Cost
//!
//! A dispatch or run allocates nothing and looks at no more than sixteen sets in each cache, or its 24 latest uses where it has several
//! ways, whatever the numbers of processes and CPUs. Least costs a run that goes on with all lines about, under caches of its CPU alone. Memory: 100 bytes
//! a process and depth of caches, or up to 350 with shared lines, 250 bytes a cache (1 KB where it has several ways), 170 bytes a CPU, and 150 KB a build of
//! cache with several ways.

mod bus;
mod decay;
pub mod experiment;
mod fit;
pub mod footprint;
pub mod hierarchy;
mod history;
pub mod model;
mod pressure;
mod residency;
mod stall;
mod survival;
pub mod timing;
mod traffic;

pub use experiment::Reuse;
pub use footprint::{Footprint, Order};
pub use hierarchy::{Hierarchy, HierarchyError};
pub use model::{CacheModel, Member, TaskCaches};
pub use timing::Timing;
