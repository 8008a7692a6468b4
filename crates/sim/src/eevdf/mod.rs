//! The fair scheduler of Linux since 6.6, EEVDF, as a model.
//!
//! Written from the published algorithm (see [`queue`]), from the kernel's documentation (`sched-eevdf.rst`, `sched-domains.rst`,
//! `sched-debug.rst`, `schedutil.rst` below `Documentation/scheduler`, sched(7), sched_setattr(2)), from numbers that a kernel tells, and from what
//! one was seen to do. `docs/design/simulator.md` says how near it comes to a kernel, what was seen where and what is assumed, goes
//! through one wake-up and one balancing pass by hand, and says what is left out.
//!
//! | what | where |
//! | --- | --- |
//! | which numbers | `kernel.rs` |
//! | who runs next on a CPU | `queue.rs`; restated plainly in `naive.rs` |
//! | what wake-ups, sleeps, yields, ticks and moves do to queues | `fair.rs` |
//! | processes of control groups | `flat.rs` by their weights in one queue, since 7.3; before, `groups.rs` by queues within queues |
//! | where a process wakes or begins | `place.rs` |
//! | who moves when | `balance.rs`; among threads of one process, `llc.rs` |
//! | the parts of the machine | `levels.rs`, `idle.rs` |
//! | events in their order | `engine.rs` |

mod balance;
pub(crate) mod engine;
mod fair;
mod flat;
mod groups;
mod idle;
pub mod kernel;
#[cfg(test)]
mod laws;
mod levels;
mod llc;
mod load;
#[cfg(test)]
mod naive;
mod place;
mod queue;

pub use kernel::{CgroupMode, KernelParameters, ParseReleaseError, Release, TunableScaling};
