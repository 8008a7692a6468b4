//! `affinity-mp3d`: its `main` is in `affinity/mp3d.c`, which `build.rs` compiles and links in.
#![no_main]
