//! Reading a machine, wherever its description comes from.

use crate::cpu::quoted;
use crate::error::MachineError;
use crate::tree::{Machine, Source};
use crate::{hwloc, preset, xml};
use std::path::Path;
use std::str::FromStr;

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
            Err(MachineError::Unknown(quoted(text)))
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
            Source::Preset(name) => {
                let preset = preset::named(name).ok_or_else(|| MachineError::Unknown(name.clone()))?;
                hwloc::from_synthetic(&preset.synthetic).map(|record| preset.completed(name, record))
            }
            Source::Xml(path) => xml::read_file(path),
            Source::Synthetic(description) => hwloc::from_synthetic(description),
        }?;
        let name = record.name.clone();
        record.try_into().map_err(|cause| MachineError::Record { name, cause })
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
}
