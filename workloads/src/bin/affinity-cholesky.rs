//! `affinity-cholesky`: its `main` is in `affinity/cholesky.c`, which `build.rs` compiles and links in.
#![no_main]
