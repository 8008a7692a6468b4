//! `npb-bt`: its `main` is in `npb/bt.c`, which `build.rs` compiles and links in.
#![no_main]
