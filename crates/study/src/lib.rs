//! A study: a plan becomes trials, a trial is observed, and what was observed is kept in a journal.
//!
//! ```text
//! plan ──> schedule ──> launch (bind, read back) ──> observation ──> trial ──> journal
//! ```

pub mod observation;
pub mod plan;
pub mod trial;

pub use observation::{Exit, Observation, ThreadObservation};
pub use plan::{Plan, StopRule, Subject, Treatment};
pub use trial::{Status, Trial};
