//! A qemu plugin that models a guest machine's caches and says why its processes miss them.
//!
//! ```text
//! qemu-system-x86_64 -accel tcg,thread=single ... -plugin libstayput_misses.so,machine=guest.json,out=misses.json
//! ```
//!
//! `machine` is the guest's machine as JSON (what `serde_json::to_value` makes of a [`machine::Machine`]), or what Stayput takes
//! everywhere: a preset, an hwloc XML file, a synthetic string. Its CPU numbers are those of the guest: 0 is the first that qemu
//! starts. `out` receives a [`Report`]. With `others=off`, only the data of the processes of interest go through the caches,
//! which is faster, and nothing else pollutes them. qemu must play all CPUs with one thread.
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
//! those of its steady state (its section 3.1.1), and names two reasons to rebuild: others displaced the state, or the process
//! was moved away from it (its introduction). It estimates both by flushing caches; here each miss can be asked. A process `p`
//! misses a line in a cache `C` of some level. Let `K` be the cache of that level on the way to memory from the CPU on which
//! `p` used the line last; often that is `C`. The miss is
//!
//! | | when |
//! | --- | --- |
//! | cold | `p` never used this physical line, or `K` hasn't held it since some process of interest first did |
//! | migration | `K` holds the line, and isn't `C`: it would be a hit had `p` stayed |
//! | invalidation | a store through other caches took the line from `K` |
//! | steady | another line displaced it from `K` while `p` ran on a CPU under `K`: its own doing, or its neighbours' |
//! | reload | ... while `p` didn't run |
//! | migration | ... while `p` ran on a CPU that isn't under `K` |
//!
//! So each miss has one cause. By definition a process that never moves has no migration misses, and one that nobody takes turns
//! with has no reload misses. The simulator's `reload` (`sim::Misses`) is reload and migration together.
//!
//! # What is modelled
//!
//! See [`hierarchy`]. Accesses to devices don't count, and an access belongs to the line of its first byte. Causes are told for
//! all levels from L2 outwards.

mod cache;
pub mod hierarchy;
mod loss;
pub mod model;
mod plugin;
mod process;
mod qemu;
pub mod report;
mod sparse;
mod tally;
pub mod window;

pub use hierarchy::HierarchyError;
pub use model::Model;
pub use report::Report;
