//! `npb-lu`: its `main` is in `npb/lu.c`, which `build.rs` compiles and links in.
#![no_main]
