//! `mva`: its `main` is in `jobs/mva.c`, which `build.rs` compiles and links in.
#![no_main]
