//! What the BPF side and the loader exchange, made of bpf/intf.h by bindgen: a name or a size is stated there alone, so that one that
//! is missing on either side doesn't compile.

#![allow(clippy::all, clippy::pedantic, clippy::restriction, warnings, reason = "made by bindgen")]

include!(concat!(env!("OUT_DIR"), "/intf.rs"));

// The levels are the tree's own, in its order: the CPU itself, those of a `Place`, the machine.
const _: () = assert!(<machine::Level as strum::EnumCount>::COUNT == MEETINGS as usize);
