//! The programs under study, written in C with OpenMP; each is its own executable.
