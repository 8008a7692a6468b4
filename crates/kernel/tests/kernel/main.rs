//! Kernels in virtual machines. Each test boots one, which takes a while, so they run when asked for: `make test-kernel`.
//! Where they can't run, they say why and pass.

#![allow(clippy::unwrap_used)]

mod guest;
mod machine_tests;
