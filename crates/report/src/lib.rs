//! A study told to people and to programs: terminal, HTML, Markdown, LaTeX, CSV and JSON.
//!
//! A report reads a [`Record`](study::Record) and its [`Analysis`](study::Analysis) and computes no statistics of its
//! own. Every form for people says the same things in the same order: the verdict with its doubt, the papers' table,
//! what stands behind it, and the line to paste. A race for the best of many placements is told by its ranking instead
//! of a table of them all. The study of a paper is also set beside that paper's own tables. HTML, Markdown and JSON tell
//! what built-in programs need and the rates they reached. [`reproduction`] tells of whole papers, which need no study.

mod chart;
mod csv;
mod grid;
mod html;
mod json;
mod latex;
mod markdown;
mod number;
mod paper_table;
mod paste;
mod picture;
mod play;
mod programs;
mod ranking;
pub mod reproduction;
mod simulation;
mod study_view;
mod table;
mod terminal;
mod verdict;
mod words;

pub use crate::csv::csv;
pub use html::html;
pub use json::json;
pub use latex::latex;
pub use markdown::markdown;
pub use picture::svg;
pub use terminal::terminal;
