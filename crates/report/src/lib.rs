//! A study told to people and to programs: terminal, HTML, Markdown, LaTeX, CSV and JSON.
//!
//! In goes a [`Study`], which is a record and its analysis; out comes text. A report computes no statistics of its own, and reads no
//! file but the journal. Every form for people says the same things in the same order: the verdict with its doubt, the papers' table,
//! what stands behind it, and the line to paste. A race for the best of many placements is told by its ranking instead
//! of a table of them all. The study of a paper is also set beside that paper's own tables. HTML, Markdown and JSON tell
//! what built-in programs need and the rates they reached. [`reproduction`] tells of whole papers, which need no study.

mod baseline;
mod chart;
mod csv;
mod fields;
mod format;
mod glossary;
mod grid;
mod html;
mod hyperfine;
mod jobs;
mod json;
mod kinds;
mod latex;
mod markdown;
mod metric;
mod mix_table;
mod number;
mod paper_table;
mod paste;
mod picture;
mod programs;
mod ranking;
mod replay;
pub mod reproduction;
pub mod sentences;
mod setting;
mod simulation;
mod study_view;
mod table;
mod terminal;
mod verdict;
mod wording;
mod words;

pub use baseline::{baseline_comment, baseline_junit, baseline_sentences};
pub use csv::for_spreadsheets;
pub use format::{Format, Screen};
pub use html::page::is_page;
#[cfg(feature = "profiles")]
pub use html::profile::profile_page;
pub use hyperfine::hyperfine_json;
pub use kinds::Study;
pub use number::moment;
pub use picture::svg;
