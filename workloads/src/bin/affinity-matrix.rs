//! `affinity-matrix`: its `main` is in `affinity/matrix.c`, which `build.rs` compiles and links in.
#![no_main]
