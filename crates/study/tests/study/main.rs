//! Studies without programs: the order of trials, when they stop, and what a journal survives.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod engine;
mod extension;
mod journal;
mod malformed;
mod model;
mod race;
mod sample;
mod session;
mod shapes;
