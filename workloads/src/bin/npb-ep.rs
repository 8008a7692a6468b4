//! `npb-ep`: its `main` is in `npb/ep.c`, which `build.rs` compiles and links in.
#![no_main]
