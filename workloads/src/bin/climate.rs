//! `climate`: its `main` is in `climate/climate.c`, which `build.rs` compiles and links in.
#![no_main]
