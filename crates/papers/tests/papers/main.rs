//! What the papers print and claim, and what becomes of it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod contention;
mod placement_claims;
mod printed;
mod reproduction;
