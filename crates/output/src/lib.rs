//! Files that results are written to, so that nothing is ever destroyed.
//!
//! Every result that goes to a file which the user names, or which is named by default, goes through [`ResultFile`]. This crate knows
//! nothing of studies, and may touch the files that it is told to write, and their folders.

pub mod result_file;

pub use result_file::{Inputs, OutputError, ResultFile};
