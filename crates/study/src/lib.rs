//! A study: a plan becomes trials, a trial is observed, and what was observed is kept in a journal.
//!
//! ```text
//! plan ──> schedule ──> launch (bind, read back) ──> observation ──> trial ──> journal ──> record ──> summary
//! ```

#![forbid(unsafe_code)]

pub mod engine;
pub mod host;
pub mod journal;
pub mod model;
pub mod model_file;
pub mod plan;
pub mod play;
pub mod race;
pub mod record;
pub mod runner;
pub mod simulation;
pub mod study_file;
pub mod summary;
pub mod toml_file;
pub mod trial;

pub use host::{HostFacts, HostState, Session};
pub use journal::{Journal, JournalError};
pub use launch::{Exit, Observation, ThreadObservation};
pub use model::{ModelRunner, SubjectModel};
pub use plan::{Cell, Plan, StopRule, Subject, Treatment};
pub use race::{Entrant, RaceResult};
pub use record::{Ending, Record};
pub use runner::ProgramRunner;
pub use simulation::Simulation;
pub use summary::{Analysis, Best, Claim, Summary, analyse};
pub use trial::{Status, Trial};
