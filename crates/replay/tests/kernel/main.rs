//! Kernels in virtual machines. Each test boots one, which takes a while, so they run when asked for: `make test-kernel`.
//! Where they can't run, they say why and pass.

#![allow(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

#[path = "../../../stayput/tests/built/mod.rs"]
mod built;
mod fair_tests;
mod guest;
mod host_tests;
mod launcher_tests;
mod loader_tests;
mod machine_tests;
mod measured_tests;
mod memory_tests;
mod misses_tests;
mod rank_tests;
mod scheduler_tests;
mod study_tests;
