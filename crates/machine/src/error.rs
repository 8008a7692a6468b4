//! What can keep us from reading a machine, wherever its description comes from.

use crate::preset;
use crate::record::RecordError;
use std::path::PathBuf;

/// Why a machine could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// The text, as written, names no machine.
    #[error(
        "`{0}` is no machine: name `host`, a preset ({presets}), an hwloc XML file, or an hwloc synthetic string such as `pack:2 core:4 pu:2`",
        presets = preset::names().collect::<Vec<_>>().join(", ")
    )]
    Unknown(String),
    /// The library that reads this host and synthetic strings, presets among them, isn't there; what the dynamic linker says.
    #[error(
        "hwloc can't be loaded ({0}): install it (Debian calls it libhwloc15, others hwloc), or name CPUs as in `--place 0,1`, which needs no topology"
    )]
    NoHwloc(String),
    /// hwloc can't describe this host, and why.
    #[error("cannot read this machine's topology: {0}")]
    Host(String),
    /// The file can't be used.
    #[error("cannot read a machine from {path}: {cause}", path = path.display())]
    Xml {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The synthetic string can't be used.
    #[error("`{description}` is no hwloc synthetic string: {cause}")]
    Synthetic {
        /// The string as written.
        description: String,
        /// What is wrong with it.
        cause: String,
    },
    /// Its parts don't fit together.
    #[error("machine `{name}` makes no sense: {cause}")]
    Record {
        /// Its name.
        name: String,
        /// What doesn't fit.
        cause: RecordError,
    },
}
