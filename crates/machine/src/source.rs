//! Reading a machine, wherever its description comes from.

use crate::record::{MachineRecord, RecordError};
use crate::tree::{Machine, Source};
use crate::{hwloc, preset, xml};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Why a machine could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// The text names no machine.
    #[error(
        "`{text}` is no machine: name `host`, a preset ({presets}), an hwloc XML file, or an hwloc synthetic string such as `pack:2 core:4 pu:2`",
        presets = preset::names().collect::<Vec<_>>().join(", ")
    )]
    Unknown {
        /// The text as written.
        text: String,
    },
    /// The library that reads this host and synthetic strings, presets among them, isn't there.
    #[error(
        "hwloc can't be loaded ({cause}): install it (Debian calls it libhwloc15, others hwloc), or name CPUs as in `--place 0,1`, which needs no topology"
    )]
    NoHwloc {
        /// What the dynamic linker says.
        cause: String,
    },
    /// hwloc can't describe this host.
    #[error("cannot read this machine's topology: {cause}")]
    Host {
        /// What went wrong.
        cause: String,
    },
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

impl FromStr for Source {
    type Err = MachineError;

    /// `host`, a preset's name, the path of an existing file (or one ending in `.xml`), or a synthetic string.
    fn from_str(text: &str) -> Result<Self, MachineError> {
        let is_synthetic = text.contains(':') || text.starts_with(|c: char| c.is_ascii_digit());
        if text == "host" {
            Ok(Self::Host)
        } else if preset::names().any(|name| name == text) {
            Ok(Self::Preset(text.into()))
        } else if text.ends_with(".xml") || Path::new(text).is_file() {
            Ok(Self::Xml(text.into()))
        } else if is_synthetic {
            Ok(Self::Synthetic(text.into()))
        } else {
            Err(MachineError::Unknown { text: text.into() })
        }
    }
}

impl Machine {
    /// Reads the machine that `source` names.
    ///
    /// # Errors
    /// [`MachineError`] when the description can't be read or makes no sense.
    pub fn read(source: &Source) -> Result<Self, MachineError> {
        let record = match source {
            Source::Host => hwloc::host(),
            Source::Preset(name) => preset::read(name),
            Source::Xml(path) => xml::read_file(path),
            Source::Synthetic(description) => hwloc::synthetic(description),
        }?;
        Self::from_record(record)
    }

    /// This host. Takes about as long as hwloc needs without I/O devices.
    ///
    /// # Errors
    /// [`MachineError::NoHwloc`] without hwloc, [`MachineError::Host`] when it fails.
    pub fn host() -> Result<Self, MachineError> {
        Self::read(&Source::Host)
    }

    /// The machine that a user names; see [`Source`]'s `FromStr`.
    ///
    /// # Errors
    /// As [`Machine::read`], and [`MachineError::Unknown`].
    pub fn named(text: &str) -> Result<Self, MachineError> {
        Self::read(&text.parse()?)
    }

    fn from_record(record: MachineRecord) -> Result<Self, MachineError> {
        let name = record.name.clone();
        record.try_into().map_err(|cause| MachineError::Record { name, cause })
    }
}
