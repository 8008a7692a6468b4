//! `gravity`: its `main` is in `jobs/gravity.c`, which `build.rs` compiles and links in.
#![no_main]
