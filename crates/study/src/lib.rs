//! A study: a plan becomes trials, a trial is observed, and what was observed is kept in a journal.
//!
//! In goes a plan, and what runs its trials; out come a record and an analysis: what is so, in numbers and typed verdicts, and no
//! sentences. It may start programs through `launch`, and touches no file but the journal, and those that programs are to read.
//!
//! ```text
//! Comparison | Race ──> engine: blocks ──> runner: launch or model ──> trial ──┐
//! a kind of another crate ────────────────────────────────────────> sample ────┴─> session ──> journal ──> record ──> analysis
//! ```
//!
//! Files use those above them in this list, and none below, but for a parent and its children:
//!
//! - the [`shape`] of a run, which all else speaks of; what there is to keep: [`trial`], [`sample`], [`host`]; what is asked for: [`model`], [`metric`], [`binding`], [`mix`], what programs read, [`input`], [`identity`], [`plan`] with its [`bounds`] and [`extension`], and the files that say it,
//!   [`toml_file`], [`study_file`], [`model_file`]
//! - where it is kept: [`row`], what a [`kind`] of study is, [`record`], [`journal`], [`session`]
//! - what runs it: [`engine`], [`runner`] with what it does for mixes, and [`ModelRunner`]; on the nodes of a cluster, [`slurm`]
//! - two kinds of study, which say what the engine runs: [`times`], [`comparison`], [`race`] and the course of each; how
//!   their journals are called, [`journal_name`]
//! - what it shows: slowdowns in mixes, what metrics come to, and [`nodes`] by themselves, [`summary`], [`verdict`], [`crowding`], [`warning`] and [`stop_reason`], [`analysis`]

#![forbid(unsafe_code)]

pub mod analysis;
mod attached_runner;
pub mod baseline;
pub mod binding;
pub mod bounds;
mod cache_model;
pub mod candidates;
pub mod comparison;
mod comparison_course;
pub mod crowding;
mod departures;
mod effects;
pub mod engine;
mod environment;
pub mod extension;
pub mod factors;
pub mod guest;
mod guest_runner;
pub mod host;
pub mod identity;
pub mod input;
pub mod journal;
pub mod journal_name;
pub mod kind;
mod list;
pub mod max_loss;
pub mod metric;
mod metric_summary;
pub mod mix;
mod mix_runner;
mod mix_text;
pub mod model;
pub mod model_file;
mod model_runner;
pub mod nodes;
pub mod plan;
pub mod preparation;
pub mod race;
mod race_course;
mod rank_runner;
pub mod ranks;
pub mod record;
pub mod redaction;
mod reported_time;
pub mod request;
pub mod row;
pub mod runner;
pub mod sample;
pub mod server;
mod server_runner;
pub mod session;
pub mod shape;
pub mod shape_comparison;
pub mod site;
mod slowdown;
pub mod slurm;
pub mod stop_reason;
pub mod study_file;
pub mod summary;
pub mod times;
pub mod toml_file;
pub mod treatment;
pub mod trial;
mod used;
pub mod variant;
pub mod verdict;
pub mod warning;
mod watch;
mod written;

pub use analysis::{Analysis, RaceAnalysis, comparison_analysis, race_analysis};
pub use attached_runner::Running;
pub use binding::Binding;
pub use cache_model::{CacheModel, metrics as counted_metrics};
pub use comparison::{Comparison, StopRule};
pub use comparison_course::ComparisonCourse;
pub use effects::Effect;
pub use extension::Extension;
pub use guest_runner::{Boot, GuestRunner, Line};
pub use host::{HostFacts, HostState, PastSession};
pub use identity::Identity;
pub use input::{InputFacts, Inputs};
pub use journal::{Journal, JournalError};
pub use kind::Kind;
pub use launch::mpi::Mpi;
pub use launch::{Exit, Observation, ThreadObservation, interruption};
pub use metric::Metric;
pub use metric_summary::MetricSummary;
pub use mix::{Job, JobRun, Mix, OwnTreatment};
pub use model::SubjectModel;
pub use model_runner::ModelRunner;
pub use nodes::{NodeEffect, NodeSummary};
pub use plan::{Alone, Cell, Plan, Subject};
pub use race::{Entrant, Race, RaceResult, RaceStop};
pub use race_course::RaceCourse;
pub use ranks::RankStart;
pub use record::{Ending, Record};
pub use runner::ProgramRunner;
pub use sample::{Failure, FailureCause, Measurements, Sample};
pub use server::Server;
pub use session::{Host, Session};
pub use shape::Shape;
pub use shape_comparison::{ShapeComparison, ShapeDifference};
pub use site::{GuestMachine, ParseSiteError, Site};
pub use slowdown::Slowdowns;
pub use slurm::SlurmSite;
pub use stop_reason::{Stop, StopReason};
pub use summary::{Best, Claim, Figures, JobSummary, MemoryShares, Summary};
pub use treatment::{Factor, Treatment, Varied};
pub use trial::{LoadRun, More, Status, Trial};
pub use variant::Variant;
pub use verdict::Verdict;
pub use warning::Warning;
