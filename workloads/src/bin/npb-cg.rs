//! `npb-cg`: its `main` is in `npb/cg.c`, which `build.rs` compiles and links in.
#![no_main]
