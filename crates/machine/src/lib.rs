//! Machines as trees, and placements of threads on them.
//!
//! A machine is read once ([`Machine`](tree::Machine)) and never changes; after hotplug, read a new one.

pub mod cpu;
pub mod distinct;
pub mod error;
pub mod export;
pub mod fold;
pub mod host;
mod hwloc;
pub mod linux;
pub mod placement;
pub mod policy;
pub mod preset;
pub mod rank_export;
pub mod ranks;
pub mod record;
mod slurm_script;
pub mod source;
mod synthetic;
mod text;
pub mod tree;
mod xml;

pub use cpu::{CpuId, CpuSet, ParseCpuSetError, cpu_list, parse_cpu_list, quoted};
pub use distinct::{Class, Distinct, DistinctError, Neighbours};
pub use error::MachineError;
pub use export::{ExportError, Syntax};
pub use placement::{MAX_THREADS, PlaceError, Placement};
pub use policy::{NamedSet, Policy, SetError};
pub use rank_export::{RankSyntax, UnknownRankSyntax};
pub use ranks::{RankError, RankLevel, RankOrder, RankPlacement, RankPolicy, RankShape};
pub use slurm_script::srun_line;
pub use tree::{CpuState, Kind, Level, Machine, Source};
