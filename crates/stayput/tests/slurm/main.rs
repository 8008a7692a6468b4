//! What Stayput does on a real Slurm of three nodes, which each test starts for itself. They wait for its daemons more than for a CPU:
//! `make test` runs them beside all others.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod cluster;
mod slurm_ranks;
mod slurm_simulations;
mod slurm_studies;
