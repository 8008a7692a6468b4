//! `npb-ft-openmpi`: its `main` is in `harness/program.c`, its kernel in `npb/ft_pencils.c`, which `build.rs` compiles and links in with an MPI.
#![no_main]
