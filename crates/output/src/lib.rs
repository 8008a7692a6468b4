//! What leaves Stayput: files that never destroy anything, and messages whose failure changes nothing.
//!
//! Every result that is written to a file that the user names, or that is named by default, goes through [`ResultFile`]; every line
//! on standard error through [`tell`]. It knows nothing of studies, and may touch the files that it is told to write, and their
//! folders.

pub mod message;
pub mod result_file;

pub use result_file::{Inputs, OutputError, ResultFile};
