//! `npb-sp`: its `main` is in `npb/sp.c`, which `build.rs` compiles and links in.
#![no_main]
