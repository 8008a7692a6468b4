//! A study: a plan becomes trials, a trial is observed, and what was observed is kept in a journal.
//!
//! ```text
//! plan ──> schedule ──> launch (bind, read back) ──> observation ──> trial ──> journal ──> record ──> summary
//! ```

pub mod engine;
pub mod host;
pub mod journal;
pub mod launch;
pub mod model;
pub mod model_file;
pub mod observation;
pub mod paper;
pub mod plan;
pub mod play;
pub mod race;
pub mod record;
pub mod reproduction;
pub mod runner;
pub mod simulation;
pub mod study_file;
pub mod summary;
pub mod toml_file;
pub mod trial;
pub mod verdict;
pub mod warning;

pub use host::{HostFacts, HostState, Session};
pub use journal::{Journal, JournalError};
pub use model::{ModelRunner, SubjectModel};
pub use observation::{Exit, Observation, ThreadObservation};
pub use paper::Paper;
pub use plan::{Cell, Plan, StopRule, Subject, Treatment};
pub use race::{Entrant, RaceResult};
pub use record::{Ending, Record};
pub use reproduction::Reproduction;
pub use runner::ProgramRunner;
pub use simulation::Simulation;
pub use summary::{Analysis, Best, Claim, Summary, analyse};
pub use trial::{Status, Trial};
pub use verdict::Verdict;
pub use warning::Warning;
