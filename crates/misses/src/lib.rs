//! A model of a guest machine's caches that says why the guest's processes miss them.
//!
//! In go a [`machine::Machine`] and the memory accesses of its CPUs, one by one ([`Model::access`]); out comes a [`Report`]: misses by
//! process, level and cause. It touches nothing else: no file, no clock, and maps the page of [`marks`]. `stayput-misses-plugin` is what makes a
//! plugin of qemu of it.
//!
//! # Whose data
//!
//! Processes of interest keep their data at fixed addresses ([`window`]), one thread a process, and mark by a store where a
//! *section* begins: counts are by section. Outside sections nothing is modelled, so that a guest boots in little more than
//! its usual time. The first section after a pause begins with empty caches: let a warm-up be a section of its own.
//!
//! A process *runs* on a CPU from its first access there to its own window until another process of interest makes one there, or
//! it makes one on another CPU. So it is taken to run while only the kernel does, and while it sleeps and nobody takes its place.
//! An access to a job's window is of the process that runs there.
//!
//! # Why a line is missed
//!
//! The report on affinity scheduling tells the misses of a process that rebuilds its cached state, the *reload transient*, from
//! those of its steady state, by the misses that it has with its caches flushed and without (its section 3.1.1). It names two
//! reasons to rebuild: others displaced the state, or the process was moved away from it (its introduction). Here each miss can
//! be asked. A process `p` misses a line in a cache `C` of some level. Let `K` be the cache of that level on the way to memory
//! from the CPU on which `p` used the line last; often that is `C`. The first of these that holds is the cause:
//!
//! | | when |
//! | --- | --- |
//! | cold | `p` never used this physical line, or `K` hasn't held it since some process of interest first did |
//! | steady | caches like those where `p` first ran, with only what `p` does to its data in them, miss the line too |
//! | migration | `K` isn't `C`, and holds the line |
//! | invalidation | a store through other caches took the line from `K` |
//! | reload | another line displaced it from `K` while `p` didn't run |
//! | migration | ... while `p` ran on a CPU that isn't under `K` |
//! | reload | ... while `p` ran under `K`, and `p` brought that other line: it rebuilds its state over what is left of it |
//! | contention | ... while `p` ran under `K`, and a neighbour under a shared cache did, or the kernel |
//!
//! So each miss has one cause. A process that never moves has no migration misses; one that has the machine for itself, kernel
//! included, and never moves has cold and steady ones only; and one whose data fit has no steady ones. The simulator's `reload`
//! (`sim::Misses`) is reload and migration together; it knows no cold misses, and no contention but what it counts as reload.
//!
//! # What is modelled
//!
//! See [`hierarchy`]. All sets of all caches, or of large caches one set of so many ([`Model::of_tasks`]): then misses are estimates,
//! and accesses are not. Accesses to devices don't count, and an access belongs to the line of its first byte. Causes are given for
//! all levels from L2 outwards.

#![deny(unsafe_code)]

mod cache;
pub mod hierarchy;
mod loss;
#[expect(unsafe_code, reason = "a page is mapped at an address of our choice")]
pub mod marks;
pub mod model;
mod process;
pub mod report;
mod sampling;
mod sparse;
mod tally;
pub mod tasks;
mod translations;
pub mod window;

pub use hierarchy::HierarchyError;
pub use model::Model;
pub use report::Report;
