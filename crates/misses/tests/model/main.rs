//! The model of caches under accesses that no guest had to make.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

mod guest;
mod laws;
mod oracle;
