//! Studies without programs: the order of trials, when they stop, and what a journal survives.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod contention;
mod engine;
mod journal;
mod malformed;
mod model;
mod papers;
mod placement_claims;
mod play;
mod race;
mod reproduction;
mod simulation;
mod space_sharing;
