//! `npb-ft`: its `main` is in `npb/ft.c`, which `build.rs` compiles and links in.
#![no_main]
