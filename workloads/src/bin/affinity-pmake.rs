//! `affinity-pmake`: its `main` is in `affinity/pmake.c`, which `build.rs` compiles and links in.
#![no_main]
