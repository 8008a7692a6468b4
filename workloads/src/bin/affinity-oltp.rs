//! `affinity-oltp`: its `main` is in `affinity/oltp.c`, which `build.rs` compiles and links in.
#![no_main]
