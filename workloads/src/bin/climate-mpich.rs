//! `climate-mpich`: its `main` is in `harness/program.c`, its kernel in `climate/climate.c`, which `build.rs` compiles and links in with an MPI.
#![no_main]
