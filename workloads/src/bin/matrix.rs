//! `matrix`: its `main` is in `jobs/matrix.c`, which `build.rs` compiles and links in.
#![no_main]
