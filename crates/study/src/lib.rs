//! A study: a plan becomes trials, a trial is observed, and what was observed is kept in a journal.
//!
//! In goes a plan, and what runs its trials; out come a record and an analysis: what is so, in numbers and typed verdicts, and no
//! sentences. It may start programs through `launch`, and touches no file but the journal.
//!
//! ```text
//! Comparison | Race ──> engine: blocks ──> runner: launch or model ──> trial ──┐
//! a kind of another crate ────────────────────────────────────────> sample ────┴─> session ──> journal ──> record ──> analysis
//! ```

#![forbid(unsafe_code)]

pub mod candidates;
pub mod comparison;
pub mod engine;
mod environment;
pub mod host;
pub mod journal;
pub mod kind;
pub mod model;
pub mod model_file;
pub mod plan;
pub mod race;
pub mod record;
pub mod runner;
pub mod sample;
pub mod session;
pub mod study_file;
pub mod summary;
pub mod times;
pub mod toml_file;
pub mod trial;
pub mod verdict;
pub mod warning;

pub use comparison::{Comparison, StopRule};
pub use host::{HostFacts, HostState, PastSession};
pub use journal::{Journal, JournalError};
pub use kind::Kind;
pub use launch::{Exit, Observation, ThreadObservation};
pub use model::{ModelRunner, SubjectModel};
pub use plan::{Cell, Plan, Subject, Treatment};
pub use race::{Entrant, Race, RaceResult, RaceStop};
pub use record::{Ending, Record};
pub use runner::ProgramRunner;
pub use sample::{Failure, FailureCause, Measurements, Sample};
pub use session::{Host, Session};
pub use summary::{Analysis, Best, Claim, RaceAnalysis, Summary, comparison_analysis, race_analysis};
pub use trial::{Status, Trial};
pub use verdict::Verdict;
pub use warning::Warning;
