//! What the BPF side and the loader exchange, made of bpf/intf.h by bindgen: a name or a size is stated there alone, so that one that
//! is missing on either side doesn't compile.

#![allow(clippy::all, clippy::pedantic, clippy::restriction, warnings, reason = "made by bindgen")]

include!(concat!(env!("OUT_DIR"), "/intf.rs"));

impl From<Level> for machine::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Core => Self::Core,
            Level::L2 => Self::L2,
            Level::L3 => Self::L3,
            Level::Node => Self::Node,
            Level::Package => Self::Package,
            Level::Group => Self::Group,
        }
    }
}
